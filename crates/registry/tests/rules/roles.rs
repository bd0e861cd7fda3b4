//! The matrix of `docs/ROLES.md`, held against `who::may` cell by cell.

use std::{fmt::Write as _, path::Path};

use registry::{
    Asks, Principal, Role, Tenant,
    event::Scope,
    who::{Grant, Name, Verb, may, sees},
};

use crate::{script::play_text, world::Registry};

/// Whoever may call: the roles of a credential, and whether the run works for its name.
const WHO: [(&str, &[Role], bool); 10] = [
    ("nobody (no role)", &[], false),
    ("the run's user, without a role", &[], true),
    ("agent", &[Role::Agent], false),
    ("viewer", &[Role::Viewer], false),
    ("user, of this run", &[Role::User], true),
    ("user, of another run", &[Role::User], false),
    ("backend", &[Role::Backend], false),
    ("operator", &[Role::Operator], false),
    ("admin", &[Role::Admin], false),
    ("backend and admin", &[Role::Backend, Role::Admin], false),
];

/// For whom they call.
const FOR: [&str; 3] = ["themselves", "the run's user", "another user"];

const WHAT: [(&str, Verb); 9] = [
    ("answers `end_user`", Verb::Decide(Asks::EndUser)),
    ("answers `operator`", Verb::Decide(Asks::Operator)),
    ("answers `admin`", Verb::Decide(Asks::Admin)),
    ("extends", Verb::Extend),
    ("dismisses", Verb::Dismiss),
    ("directs", Verb::Direct),
    ("inspects", Verb::Inspect),
    ("works", Verb::Work),
    ("sees", Verb::See),
];

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn who(roles: &[Role], owns: bool) -> Principal {
    let name = if owns { name("eu:42") } else { name("user:x") };
    Principal::new(name, Tenant::local(), roles.iter().copied())
}

/// As `docs/ROLES.md` shows it.
fn matrix() -> String {
    let mut table = String::from("| who | for |");
    for (what, _) in WHAT {
        let _ = write!(table, " {what} |");
    }
    table += "\n|---|---|";
    table += &"---|".repeat(WHAT.len());
    table.push('\n');
    for (label, roles, owns) in WHO {
        for for_whom in FOR {
            let _ = write!(table, "| {label} | {for_whom} |");
            for (_, verb) in WHAT {
                let _ = write!(table, " {} |", cell(roles, owns, for_whom, verb));
            }
            table.push('\n');
        }
    }
    table
}

fn cell(roles: &[Role], owns: bool, for_whom: &str, verb: Verb) -> &'static str {
    let (owner, other) = (name("eu:42"), name("eu:43"));
    let on_behalf_of = match for_whom {
        "themselves" => None,
        "the run's user" => Some(&owner),
        _ => Some(&other),
    };
    // Work and sight are never asked for on behalf of somebody.
    if on_behalf_of.is_some() && matches!(verb, Verb::Work | Verb::See) {
        return "";
    }
    let may = may(&who(roles, owns), verb, Some(&owner), on_behalf_of);
    if may.is_ok() { "yes" } else { "–" }
}

/// EL-17..22: a change of the rules shows on the page, and a change of the page is one of the rules.
#[test]
fn the_documented_matrix_is_the_one_that_holds() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ROLES.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table: String = page
        .lines()
        .skip_while(|line| !line.starts_with("| who | for |"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| format!("{line}\n"))
        .collect();
    let matrix = matrix();
    assert_eq!(table, matrix, "docs/ROLES.md should have:\n{matrix}");
}

/// E01: each cell that decides, for yes and for no, asked of the registry itself.
#[test]
fn every_cell_holds_for_yes_and_for_no() {
    let mut rows = String::new();
    for (label, roles, owns) in WHO {
        for for_whom in FOR {
            for asks in [Asks::EndUser, Asks::Operator, Asks::Admin] {
                let may = cell(roles, owns, for_whom, Verb::Decide(asks)) == "yes";
                for verb in ["approve", "reject"] {
                    let _ = writeln!(rows, "== {label}, for {for_whom}");
                    rows += &asked(roles, owns, for_whom, asks, verb, may);
                }
            }
        }
    }
    let wrong = play_text("the matrix", &rows, Registry::in_memory);
    assert!(wrong.is_empty(), "these came out otherwise:\n{wrong}");
}

/// DESIGN 4.1.5: each verb that directs a run, asked of the registry itself, of a run that stands still and of one that does not.
#[test]
fn every_cell_holds_for_every_order() {
    let mut rows = String::new();
    for (label, roles, owns) in WHO {
        for verb in [
            "pause", "resume", "steer", "cancel", "rewind", "status", "answer",
        ] {
            let right = match verb {
                "rewind" | "status" => Verb::Inspect,
                _ => Verb::Direct,
            };
            let may = cell(roles, owns, "themselves", right) == "yes";
            let _ = writeln!(rows, "== {label}: {verb}");
            rows += &directed(roles, owns, verb, may);
        }
    }
    let wrong = play_text("the matrix", &rows, Registry::in_memory);
    assert!(wrong.is_empty(), "these came out otherwise:\n{wrong}");
}

fn directed(roles: &[Role], owns: bool, verb: &str, may: bool) -> String {
    let by = spelt(roles);
    let owner = if owns { &by } else { "user:u1" };
    let order = match verb {
        "answer" => "steer r1 note=x on=e1".to_owned(),
        "resume" => "resume r1 on=e1".to_owned(),
        verb => format!("{verb} r1 note=x task=t1"),
    };
    let held = match order.contains("on=e1") {
        true => "00:00 drift INTENT_DIVERGENCE CRITICAL run=r1 -> 4 pause_escalate, e1\n",
        false => "",
    };
    let word = order.split(' ').next().unwrap();
    let (answer, wrote) = match may {
        true => (format!("{word} …"), "…"),
        false => ("not_yours: not yours: …".to_owned(), "nothing"),
    };
    format!(
        "00:00 run r1 user={owner}
         {held}00:01 {order} by={by} -> {answer}
         00:01 wrote -> {wrote}\n"
    )
}

fn spelt(roles: &[Role]) -> String {
    let roles: Vec<&str> = roles.iter().map(|role| role.word()).collect();
    match roles.join("+") {
        none if none.is_empty() => "nobody:x".to_owned(),
        roles => format!("{roles}:x"),
    }
}

fn asked(roles: &[Role], owns: bool, for_whom: &str, asks: Asks, verb: &str, may: bool) -> String {
    let by = spelt(roles);
    let owner = if owns { &by } else { "user:u1" };
    let for_whom = match for_whom {
        "themselves" => String::new(),
        "the run's user" => format!("for={owner}"),
        _ => "for=user:u9".to_owned(),
    };
    let (answer, then) = match (may, verb) {
        (true, "approve") => ("a1 granted", "granted by …"),
        (true, _) => ("a1 rejected", "rejected by …"),
        (false, _) => ("not_yours: not yours: …", "pending, …"),
    };
    format!(
        "00:00 run r1 user={owner}
         00:00 file t1 run=r1 asks={} -> a1 pending
         00:01 {verb} a1 by={by} {for_whom} -> {answer}
         00:02 show a1 -> {then}\n",
        asks.word()
    )
}

#[test]
fn a_run_without_a_user_is_answered_by_an_admin_only() {
    for (label, roles, owns) in WHO {
        for on_behalf_of in [None, Some(&name("eu:42"))] {
            let by = who(roles, owns);
            let may = may(&by, Verb::Decide(Asks::EndUser), None, on_behalf_of).is_ok();
            let expected = roles.contains(&Role::Admin) && on_behalf_of.is_none();
            assert_eq!(may, expected, "{label}, for {on_behalf_of:?}");
        }
    }
}

#[test]
fn nobody_sees_into_another_tenant() {
    let scope = |tenant| Scope {
        tenant,
        owner: Some(name("eu:42")),
    };
    for (label, roles, owns) in WHO {
        let by = who(roles, owns);
        let other = Tenant::parse("other").unwrap();
        assert!(!sees(&by, &scope(other)), "{label}");
        let here = may(&by, Verb::See, Some(&name("eu:42")), None).is_ok();
        assert_eq!(sees(&by, &scope(Tenant::local())), here, "{label}");
    }
}

/// Credentials that more than their roles decide about: scopes narrow, and a ticket is a user's with scopes.
const SCOPED: [(&str, &[Role], bool, &[Grant]); 9] = [
    (
        "ticket of a backend, run of its user",
        &[Role::User],
        true,
        &[Grant::Watch, Grant::Decide],
    ),
    (
        "ticket of a backend, another run",
        &[Role::User],
        false,
        &[Grant::Watch, Grant::Decide],
    ),
    (
        "ticket of a backend that is an admin, run of its user",
        &[Role::User],
        true,
        &[Grant::Watch, Grant::Decide, Grant::Direct],
    ),
    (
        "operator, `watch`",
        &[Role::Operator],
        false,
        &[Grant::Watch],
    ),
    (
        "operator, `decide`",
        &[Role::Operator],
        false,
        &[Grant::Decide],
    ),
    (
        "admin, `direct` and `watch`",
        &[Role::Admin],
        false,
        &[Grant::Direct, Grant::Watch],
    ),
    ("agent, `file`", &[Role::Agent], false, &[Grant::File]),
    ("agent, `watch`", &[Role::Agent], false, &[Grant::Watch]),
    (
        "operator, `internal`",
        &[Role::Operator],
        false,
        &[Grant::Internal],
    ),
];

/// A scope takes away, and gives nothing.
#[test]
fn the_documented_scopes_are_those_that_hold() {
    let mut matrix = String::from("| who, with scopes |");
    for (what, _) in WHAT {
        let _ = write!(matrix, " {what} |");
    }
    matrix += "\n|---|";
    matrix += &"---|".repeat(WHAT.len());
    matrix.push('\n');
    let owner = name("eu:42");
    for (label, roles, owns, scopes) in SCOPED {
        let _ = write!(matrix, "| {label} |");
        let narrowed = who(roles, owns).with_scopes(scopes.iter().copied());
        for (what, verb) in WHAT {
            let whole = may(&who(roles, owns), verb, Some(&owner), None).is_ok();
            let left = may(&narrowed, verb, Some(&owner), None).is_ok();
            assert!(whole || !left, "{label} {what}: a scope gives nothing");
            let _ = write!(matrix, " {} |", if left { "yes" } else { "–" });
        }
        matrix.push('\n');
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ROLES.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(&matrix),
        "docs/ROLES.md should have:\n{matrix}"
    );
}
