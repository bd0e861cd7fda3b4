//! Who may do what, over the wire: the credential says who calls, and nothing else does.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use pilothouse::wire::{
    pb::pilothouse::v1::{self as pb, Asks, Verdict},
    status::refused,
};
use registry::{
    Name, Principal, Role, Tenant,
    who::{Verb, may},
};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    house::{
        Agent, Headers, House, PEOPLE, decision, dismissal, entry, everybody, extension, file,
        free_port, get, open, question, run_of, token, waiting, word,
    },
    server::{PROGRAM, Ran},
};

const OWNER: &str = "user:ada";

/// DESIGN §4.1.5, cell by cell; each group is: as themselves, on behalf of the owner, on behalf of
/// somebody else. `y` may, `.` is not theirs, `-` does not exist for them, `?` is nobody we know.
const MATRIX: &str = "
                   end_user  operator  admin     extend  dismiss  directs  inspects
    agent:a1       ...       ...       ...       .       .        .        .
    agent:a2       ...       ...       ...       .       .        .        .
    viewer:v       ...       ...       ...       .       .        .        .
    user:ada       y..       ...       ...       .       .        y        .
    user:bob       ...       ...       ...       .       .        .        .
    backend:web    .y.       ...       ...       .       .        .        .
    operator:ops   ...       y..       ...       y       y        y        y
    admin:root     yy.       y..       y..       y       y        y        y
    admin:all      yy.       y..       y..       y       y        y        y
    admin:elsewhere ---      ---       ---       -       -        -        -
    agent:elsewhere ---      ---       ---       -       -        -        -
    nobody         ???       ???       ???       ?       ?        ?        ?
    unknown        ???       ???       ???       ?       ?        ?        ?
    twice          ???       ???       ???       ?       ?        ?        ?
    basic          ???       ???       ???       ?       ?        ?        ?
";

const ASKS: [Asks; 3] = [Asks::EndUser, Asks::Operator, Asks::Admin];
const BEHALF: [&str; 3] = ["", OWNER, "user:bob"];

/// What somebody of the matrix sends along.
fn headers(who: &str) -> Headers {
    match who {
        "nobody" => Headers::none(),
        "twice" => Headers::from("admin:root").and("authorization", "Bearer another"),
        "basic" => Headers::none().and("authorization", &format!("Basic {}", token("admin:root"))),
        who => who.into(),
    }
}

fn expected(cell: char) -> &'static str {
    match cell {
        'y' => "ok",
        '.' => "not_yours",
        '-' => "not_found",
        '?' => "unauthenticated",
        cell => panic!("{cell}"),
    }
}

fn principal(who: &str) -> Option<Principal> {
    let (name, roles, tenant) = PEOPLE.iter().find(|(name, ..)| *name == who)?;
    let role = |word: &&str| Role::ALL.into_iter().find(|role| role.word() == *word);
    let tenant = Tenant::parse(tenant).unwrap();
    let name = Name::parse(name).unwrap();
    Some(Principal::new(name, tenant, roles.iter().filter_map(role)))
}

/// The table is the one that the registry goes by.
fn agrees(who: &str, verb: Verb, behalf: &str, cell: char) {
    let Some(by) = principal(who).filter(|by| by.tenant().as_str() == "default") else {
        return;
    };
    let owner = Name::parse(OWNER).unwrap();
    let behalf = (!behalf.is_empty()).then(|| Name::parse(behalf).unwrap());
    let allowed = may(&by, verb, Some(&owner), behalf.as_ref()).is_ok();
    assert_eq!(allowed, cell == 'y', "{who} {verb:?} for {behalf:?}");
}

fn verb(asks: Asks) -> Verb {
    Verb::Decide(match asks {
        Asks::EndUser => registry::Asks::EndUser,
        Asks::Operator => registry::Asks::Operator,
        Asks::Admin => registry::Asks::Admin,
        Asks::Unspecified => panic!("asks nobody"),
    })
}

/// Files anew for every call that may succeed, and asks about the same card where none may.
struct Cards {
    agent: Agent,
    run: String,
    filed: usize,
    kept: Vec<pb::FileResponse>,
    /// A run that stands still, and its escalation.
    held: (String, String),
}

/// Has a run stand still; gives the escalation.
async fn paused(house: &House, run: &str) -> String {
    let pause = pb::ControlRequest {
        run_id: run.into(),
        kind: pb::ControlKind::Pause.into(),
        control_id: "pause".into(),
        ..Default::default()
    };
    let given = house.person("admin:root").control(pause).await.unwrap();
    given.into_inner().control.unwrap().escalation_id
}

impl Cards {
    async fn of(house: &House) -> Self {
        let mut agent = house.agent("agent:a1");
        let run = open(&mut agent, "r1", OWNER).await;
        let held = open(&mut agent, "held", OWNER).await;
        let held = (held.clone(), paused(house, &held).await);
        let mut cards = Self {
            agent,
            run,
            filed: 0,
            kept: vec![],
            held,
        };
        for asks in ASKS {
            let kept = cards.another(asks).await;
            cards.kept.push(kept);
        }
        cards
    }

    async fn another(&mut self, asks: Asks) -> pb::FileResponse {
        self.filed += 1;
        let target = format!("t{}", self.filed);
        file(&mut self.agent, question(&self.run, &target, asks)).await
    }

    /// Of a run whose agent does not stay, so that it may be dismissed.
    async fn detached(&mut self) -> pb::FileResponse {
        self.filed += 1;
        let name = format!("cli{}", self.filed);
        let run = pb::OpenRunRequest {
            detached: true,
            ..run_of(&name, "")
        };
        let run = self.agent.open_run(run).await.unwrap().into_inner().run_id;
        file(&mut self.agent, question(&run, "t", Asks::Operator)).await
    }

    /// To a run of its own if it may succeed, and else to one that stays as it is.
    async fn order_fit_for(
        &mut self,
        house: &House,
        cell: char,
        kind: pb::ControlKind,
    ) -> pb::ControlRequest {
        self.filed += 1;
        let (run, held) = match cell {
            'y' => {
                let name = format!("held{}", self.filed);
                let run = open(&mut self.agent, &name, OWNER).await;
                let held = match kind {
                    pb::ControlKind::Pause => String::new(),
                    _ => paused(house, &run).await,
                };
                (run, held)
            }
            _ => self.held.clone(),
        };
        let answers = matches!(
            kind,
            pb::ControlKind::Resume | pb::ControlKind::Steer | pb::ControlKind::Cancel
        );
        pb::ControlRequest {
            run_id: run,
            kind: kind.into(),
            note: "left".into(),
            control_id: format!("c{}", self.filed),
            escalation_id: if answers { held } else { String::new() },
            task_id: match kind {
                pb::ControlKind::Rewind => "t1".into(),
                _ => String::new(),
            },
        }
    }

    async fn fit_for(&mut self, cell: char, asks: usize) -> pb::FileResponse {
        match cell {
            'y' => self.another(ASKS[asks]).await,
            _ => self.kept[asks].clone(),
        }
    }
}

/// Of a card, all that a refusal must leave as it was.
fn still(mut pending: pb::Pending) -> pb::Pending {
    pending.attempts.clear();
    pending
}

#[tokio::test]
async fn each_cell_of_the_matrix_is_as_it_is_written() {
    let house = House::open();
    let mut cards = Cards::of(&house).await;
    let mut before = vec![];
    for kept in &cards.kept {
        before.push(still(house.pending(&kept.approval_id).await));
    }
    let held = house.get_run(&cards.held.0).await;
    let mut calls = 0;
    for row in MATRIX.lines().skip(2).filter(|row| !row.trim().is_empty()) {
        let mut cells = row.split_whitespace();
        let who = cells.next().unwrap();
        let mut person = house.person(headers(who));
        for (n, asks) in ASKS.into_iter().enumerate() {
            for (behalf, cell) in BEHALF.into_iter().zip(cells.next().unwrap().chars()) {
                agrees(who, verb(asks), behalf, cell);
                for verdict in [Verdict::Approve, Verdict::Reject] {
                    let card = cards.fit_for(cell, n).await;
                    calls += 1;
                    let wish = pb::DecideRequest {
                        on_behalf_of: behalf.into(),
                        ..decision(&card, verdict, &format!("d{calls}"))
                    };
                    let answer = person.decide(wish).await;
                    let what = format!("{who} {verdict:?} {asks:?} for {behalf:?}: {answer:?}");
                    assert_eq!(word(&answer), expected(cell), "{what}");
                    if let Ok(answer) = answer {
                        let settled = answer.into_inner().settled.unwrap();
                        let told = format!("{:?}", settled.outcome);
                        assert!(told.contains(who) && told.contains(behalf), "{what}");
                    }
                }
            }
        }
        let cell = cells.next().unwrap().chars().next().unwrap();
        agrees(who, Verb::Extend, "", cell);
        let card = cards.fit_for(cell, 1).await;
        let answer = person.extend(extension(&card.approval_id, 7200)).await;
        assert_eq!(word(&answer), expected(cell), "{who} extends: {answer:?}");
        let cell = cells.next().unwrap().chars().next().unwrap();
        agrees(who, Verb::Dismiss, "", cell);
        let card = match cell {
            'y' => cards.detached().await,
            _ => cards.kept[1].clone(),
        };
        let answer = person.dismiss(dismissal(&card.approval_id)).await;
        assert_eq!(word(&answer), expected(cell), "{who} dismisses: {answer:?}");
        let cell = cells.next().unwrap().chars().next().unwrap();
        agrees(who, Verb::Direct, "", cell);
        use pb::ControlKind::{Cancel, Pause, Resume, Rewind, StatusQuery, Steer};
        for kind in [Pause, Resume, Steer, Cancel] {
            let order = cards.order_fit_for(&house, cell, kind).await;
            let answer = person.control(order).await;
            assert_eq!(word(&answer), expected(cell), "{who} {kind:?}: {answer:?}");
        }
        let cell = cells.next().unwrap().chars().next().unwrap();
        agrees(who, Verb::Inspect, "", cell);
        for kind in [Rewind, StatusQuery] {
            let order = cards.order_fit_for(&house, cell, kind).await;
            let answer = person.control(order).await;
            assert_eq!(word(&answer), expected(cell), "{who} {kind:?}: {answer:?}");
        }
    }
    assert!(calls > 200);
    let after = house.get_run(&cards.held.0).await;
    assert_eq!(after, held, "a refusal changes nothing");
    for (kept, before) in cards.kept.iter().zip(before) {
        let pending = house.pending(&kept.approval_id).await;
        for attempt in &pending.attempts {
            let ours = PEOPLE.iter().find(|(name, ..)| *name == attempt.by);
            assert_eq!(ours.unwrap().2, "default", "the real identity: {attempt:?}");
        }
        assert!(pending.attempts.len() > 10, "each once for each verb");
        assert_eq!(still(pending), before, "a refusal changes nothing");
    }
}

#[tokio::test]
async fn a_question_that_asks_nobody_we_know_is_refused() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", OWNER).await;
    let before = house.head().await;
    for asks in [0, 4, 99, -1] {
        let filing = pb::FileRequest {
            asks,
            ..question(&run, "t1", Asks::Admin)
        };
        let answer = agent.file(filing).await;
        assert_eq!(word(&answer), "invalid", "{asks}: {answer:?}");
    }
    let verdict = |verdict| pb::DecideRequest {
        verdict,
        ..Default::default()
    };
    for wish in [verdict(0), verdict(99)] {
        let answer = house.person("admin:root").decide(wish).await;
        assert_eq!(word(&answer), "invalid", "{answer:?}");
    }
    assert_eq!(house.head().await, before);
}

/// What each may look at: everything, their own, or nothing.
#[tokio::test]
async fn looking_takes_a_right_too() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", OWNER).await;
    let card = file(&mut agent, question(&run, "t1", Asks::EndUser)).await;
    let gone = file(&mut agent, question(&run, "t2", Asks::EndUser)).await;
    let wish = decision(&gone, Verdict::Reject, "d1");
    house.person(OWNER).decide(wish).await.unwrap();
    let held = paused(&house, &run).await;
    let before = house.head().await;
    let rows = [
        // who, what one of it answers, how many are listed
        ("viewer:v", "ok", Ok(2)),
        ("backend:web", "ok", Ok(2)),
        ("operator:ops", "ok", Ok(2)),
        ("admin:root", "ok", Ok(2)),
        (OWNER, "ok", Ok(2)),
        ("user:bob", "not_yours", Ok(0)),
        ("admin:elsewhere", "not_found", Ok(0)),
        ("agent:a1", "not_yours", Err("not_yours")),
        ("nobody", "unauthenticated", Err("unauthenticated")),
        ("unknown", "unauthenticated", Err("unauthenticated")),
        ("twice", "unauthenticated", Err("unauthenticated")),
    ];
    for (who, one, many) in rows {
        let mut person = house.person(headers(who));
        let (id, gone) = (&card.approval_id, &gone.approval_id);
        assert_eq!(word(&person.get(get(id)).await), one, "{who}");
        assert_eq!(word(&person.get(get(gone)).await), one, "{who}");
        assert_eq!(word(&person.get(get(&held)).await), one, "{who}");
        for named in [run.as_str(), "r1"] {
            let asked = pb::GetRunRequest {
                run: named.into(),
                after_seq: 0,
            };
            assert_eq!(word(&person.get_run(asked).await), one, "{who} {named}");
        }
        let listed = person.list(pb::ListRequest::default()).await;
        let listed = listed.map(|page| page.into_inner().items.len());
        assert_eq!(listed.map_err(told), many.map_err(String::from), "{who}");
        let history = person.history(pb::HistoryRequest::default()).await;
        let history = history.map(|page| page.into_inner().items.len());
        let ended = many.map(|open| open.min(1));
        assert_eq!(history.map_err(told), ended.map_err(String::from), "{who}");
        let watched = person.watch(pb::WatchRequest::default()).await;
        let watched = watched.map(|_| ()).map_err(told);
        assert_eq!(watched, many.map(|_| ()).map_err(String::from), "{who}");
        let me = person.whoami(pb::WhoamiRequest {}).await;
        let known = one != "unauthenticated";
        assert_eq!(me.is_ok(), known, "{who}");
        if let Ok(me) = me {
            assert_eq!(me.into_inner().name, who);
        }
    }
    assert_eq!(house.head().await, before, "looking records nothing");
}

fn told(status: Status) -> String {
    refused(&status).unwrap().word
}

/// Two users have a run of the same name: each sees their own by it.
#[tokio::test]
async fn a_user_finds_their_own_run_by_the_agents_name_of_it() {
    let house = House::open();
    for (agent, user) in [("agent:a1", "user:bob"), ("agent:a2", OWNER)] {
        let run = pb::OpenRunRequest {
            session: user.into(),
            ..run_of("r1", user)
        };
        house.agent(agent).open_run(run).await.unwrap();
    }
    let asked = pb::GetRunRequest {
        run: "r1".into(),
        after_seq: 0,
    };
    for user in [OWNER, "user:bob"] {
        let run = house.person(user).get_run(asked.clone()).await.unwrap();
        assert_eq!(run.into_inner().run.unwrap().owner, user);
    }
    let both = house.person("admin:root").get_run(asked).await;
    assert_eq!(word(&both), "invalid", "an admin sees two: {both:?}");
}

/// What agents may do is theirs alone, and only with their own.
#[tokio::test]
async fn an_agent_works_on_its_own_only() {
    let house = House::open();
    let mut owner = house.agent("agent:a1");
    let run = open(&mut owner, "r1", OWNER).await;
    let card = file(&mut owner, question(&run, "t1", Asks::Operator)).await;
    let gone = file(&mut owner, question(&run, "t2", Asks::Operator)).await;
    let wish = decision(&gone, Verdict::Approve, "d1");
    house.person("operator:ops").decide(wish).await.unwrap();
    paused(&house, &run).await;
    let before = house.head().await;
    let rows = [
        ("agent:a2", "not_yours", "ok"),
        ("agent:elsewhere", "not_found", "ok"),
        ("viewer:v", "not_yours", "not_yours"),
        (OWNER, "not_yours", "not_yours"),
        ("operator:ops", "not_yours", "not_yours"),
        ("admin:root", "not_yours", "not_yours"),
        ("nobody", "unauthenticated", "unauthenticated"),
        ("unknown", "unauthenticated", "unauthenticated"),
        ("twice", "unauthenticated", "unauthenticated"),
    ];
    for (who, theirs, beat) in rows {
        let mut agent = house.agent(headers(who));
        let (id, run_id) = (card.approval_id.clone(), run.clone());
        let withdraw = pb::WithdrawRequest {
            approval_id: id.clone(),
            reason: "no".into(),
        };
        let applied = pb::ReportAppliedRequest {
            approval_id: gone.approval_id.clone(),
            result: pb::AppliedResult::Done.into(),
            detail: String::new(),
        };
        let end = pb::EndRunRequest {
            run_id: run_id.clone(),
            how: Some(pb::end_run_request::How::Ended(
                pb::RunState::Completed.into(),
            )),
            reason: String::new(),
        };
        let say = pb::SayRequest {
            run_id: run_id.clone(),
            text: "hello".into(),
        };
        let task = pb::ReportTaskRequest {
            run_id: run_id.clone(),
            task: Some(pb::Task {
                id: "t".into(),
                state: pb::TaskState::Running.into(),
                ..Default::default()
            }),
        };
        let plan = pb::ReportPlanRequest {
            run_id: run_id.clone(),
            plan: Some(pb::Plan::default()),
            cause: String::new(),
        };
        let waiter = pb::AwaitRequest {
            wait_id: "w1".into(),
            ..waiting(&id)
        };
        let drift = pb::ReportDriftRequest {
            run_id: run_id.clone(),
            kind: "OFF_TOPIC".into(),
            ..Default::default()
        };
        let listen = pb::ControlsRequest {
            run_id: run_id.clone(),
        };
        let ack = pb::AckControlRequest {
            run_id: run_id.clone(),
            control_id: "pause".into(),
            result: pb::AckResult::Success.into(),
            detail: String::new(),
        };
        let refile = question(&run_id, "t1", Asks::Operator);
        let other = question(&run_id, "t3", Asks::Operator);
        let heartbeat = pb::HeartbeatRequest {
            run_ids: vec![run_id],
        };
        let words = [
            word(&agent.withdraw(withdraw).await),
            word(&agent.r#await(waiting(&id)).await),
            word(&agent.r#await(waiter).await),
            word(&agent.r#await(waiting(&gone.approval_id)).await),
            word(&agent.report_applied(applied).await),
            word(&agent.say(say).await),
            word(&agent.report_task(task).await),
            word(&agent.report_plan(plan).await),
            word(&agent.file(refile).await),
            word(&agent.file(other).await),
            word(&agent.end_run(end).await),
            word(&agent.report_drift(drift).await),
            word(&agent.controls(listen).await),
            word(&agent.ack_control(ack).await),
        ];
        assert_eq!(words, [theirs; 14], "{who}");
        assert_eq!(word(&agent.heartbeat(heartbeat).await), beat, "{who}");
        if beat != "ok" {
            let opened = agent.open_run(run_of(&format!("of {who}"), OWNER)).await;
            assert_eq!(word(&opened), beat, "{who}");
        }
        if theirs == "not_yours" {
            let opened = agent.open_run(run_of("r1", OWNER)).await;
            assert_eq!(word(&opened), "not_yours", "{who} as {OWNER}'s agent");
        }
    }
    assert_eq!(house.head().await, before, "nothing of it was recorded");
    let other = pb::OpenRunRequest {
        tenant: "elsewhere".into(),
        ..run_of("r9", OWNER)
    };
    assert_eq!(word(&owner.open_run(other).await), "not_yours");
    assert_eq!(house.head().await, before);
}

/// A backend opens runs as an internal caller (DESIGN §4.1.5), so it waits for what it filed.
#[tokio::test]
async fn a_backend_waits_for_what_it_filed() {
    let house = House::open();
    let mut backend = house.agent("backend:web");
    let run = open(&mut backend, "r1", OWNER).await;
    let card = file(&mut backend, question(&run, "t1", Asks::EndUser)).await;
    let wish = pb::DecideRequest {
        on_behalf_of: OWNER.into(),
        ..decision(&card, Verdict::Approve, "d1")
    };
    let decided = house.person("backend:web").decide(wish).await;
    assert_eq!(word(&decided), "ok", "{decided:?}");
    let waited = backend.r#await(waiting(&card.approval_id)).await;
    assert_eq!(word(&waited), "ok", "{waited:?}");
}

/// Case E07, over gRPC: an agent names itself whatever it likes, and decides nothing.
#[tokio::test]
async fn an_agent_decides_nothing_whatever_it_calls_itself() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", OWNER).await;
    for asks in ASKS {
        let card = file(&mut agent, question(&run, &format!("t{asks:?}"), asks)).await;
        for who in ["agent:a1", "agent:a2"] {
            for claim in ["admin", "human", "", "admin:root", OWNER] {
                let sly = Headers::from(who)
                    .and("x-actor", claim)
                    .and("x-forwarded-user", claim)
                    .and("actor", claim)
                    .and("x-remote-user", claim);
                for verdict in [Verdict::Approve, Verdict::Reject] {
                    let wish = pb::DecideRequest {
                        note: format!("approved by {claim}"),
                        ..decision(&card, verdict, &format!("d-{who}-{claim}"))
                    };
                    let answer = house.person(sly.clone()).decide(wish).await;
                    assert_eq!(word(&answer), "not_yours", "{who} as {claim:?}");
                    assert_eq!(answer.unwrap_err().code(), Code::PermissionDenied);
                }
            }
        }
        let shown = house.server.show(&card.approval_id);
        assert_eq!(shown["status"], "pending");
        let attempts = shown["refused_attempts"].as_array().unwrap();
        let attempts: Vec<_> = attempts
            .iter()
            .map(|attempt| {
                let word = |key: &str| attempt[key].as_str().unwrap();
                (word("by"), word("verb"))
            })
            .collect();
        let real = [
            ("agent:a1", "approve"),
            ("agent:a1", "reject"),
            ("agent:a2", "approve"),
            ("agent:a2", "reject"),
        ];
        assert_eq!(attempts, real);
    }
}

/// Case E15: history names the subject of the credential, whatever else the call says.
#[tokio::test]
async fn history_names_the_credential_and_nobody_else() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", OWNER).await;
    let claims: [&[(&str, &str)]; 5] = [
        &[],
        &[
            ("x-actor", "admin:root"),
            ("x-forwarded-user", "admin:root"),
        ],
        &[("x-actor", "admin:root"), ("x-actor", "system:deadline")],
        &[("decided-by", "system:policy"), ("from", "eve@example.com")],
        &[("x-goog-authenticated-user-id", "admin"), ("user", "bob")],
    ];
    for (n, claims) in claims.into_iter().enumerate() {
        for who in ["operator:ops", "operator:eve"] {
            let card = question(&run, &format!("t{n}{who}"), Asks::Operator);
            let card = file(&mut agent, card).await;
            let mut sly = Headers::from(who);
            for (name, value) in claims {
                sly.0.push((name, (*value).to_owned()));
            }
            let wish = decision(&card, Verdict::Approve, &format!("d{n}{who}"));
            house.person(sly).decide(wish).await.unwrap();
            let shown = house.server.show(&card.approval_id);
            assert_eq!(shown["decision"]["by"], who, "{claims:?}");
            assert_eq!(shown["decision"]["on_behalf_of"], serde_json::Value::Null);
        }
    }
    // On the socket it is the login name of the uid, whatever the environment says.
    let filed = house.server.file(&["--title", "Go on?"]);
    let digest = house.server.show(&filed)["digest"].clone();
    let mut decide = house.server.command(&["approve", &filed]);
    decide.args(["--digest", digest.as_str().unwrap()]);
    decide.env("USER", "bob").env("LOGNAME", "bob");
    decide.env("SUDO_USER", "bob").env("SSH_CONNECTION", "::1");
    let ran = Ran::of(decide.output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let by = house.server.show(&filed)["decision"]["by"].clone();
    let login = nix::unistd::User::from_uid(nix::unistd::geteuid());
    assert_eq!(by, format!("user:{}", login.unwrap().unwrap().name));
}

/// Starts a server that must not start.
fn not_served(args: &[&str]) -> Ran {
    let dir = tempfile::TempDir::new().unwrap();
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--data"]).arg(dir.path()).args(args);
    serve.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
    let from = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if from.elapsed() > Duration::from_secs(10) {
            let _ = child.kill();
            panic!("it serves: {args:?}: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ran::of(child.wait_with_output().unwrap())
}

fn refused_file(text: &str) -> String {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("tokens.toml");
    std::fs::write(&file, text).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let ran = not_served(&["--listen", &listen, "--tokens", file.to_str().unwrap()]);
    assert_eq!(ran.code, 64, "{text}: {ran:?}");
    assert!(ran.err.contains("tokens.toml"), "names the file: {ran:?}");
    assert!(!ran.err.contains(&token("agent:x")), "{ran:?}");
    ran.err
}

/// Another secret under the same name.
fn person_named(name: &str) -> String {
    let hash = registry::digest::Sha256::of("another secret");
    format!("[[token]]\nname = {name:?}\nroles = [\"operator\"]\nsha256 = \"{hash}\"\n")
}

#[test]
fn a_bad_token_file_serves_nobody() {
    let good = entry("agent:x", &["agent"], "default");
    let rows = [
        (
            entry("system:deadline", &["operator"], "default"),
            "'system:deadline'",
            "reserved",
        ),
        (
            entry("System:Deadline", &["operator"], "default"),
            "'System:Deadline'",
            "reserved",
        ),
        (entry("agent:x", &[], "default"), "'agent:x'", "no roles"),
        (
            entry("agent:x", &["agent", "operator"], "default"),
            "'agent:x'",
            "never decides",
        ),
        (
            entry("agent:x", &["agent", "backend"], "default"),
            "'agent:x'",
            "never decides",
        ),
        (format!("{good}{good}"), "'agent:x'", "twice"),
        (
            format!("{good}{}", person_named("agent:x")),
            "'agent:x'",
            "do not share a name",
        ),
        (entry("", &["agent"], "default"), "''", "a name is"),
        (
            entry("a b", &["agent"], "default"),
            "'a b'",
            "without blanks",
        ),
        (entry("agent:x", &["agent"], ""), "'agent:x'", "a tenant is"),
        (
            entry("agent:x", &["god"], "default"),
            "god",
            "unknown variant",
        ),
        (
            good.replace("tenant", "tennant"),
            "tennant",
            "unknown field",
        ),
        (
            good.replace("sha256 = \"", "sha256 = \"0"),
            "'agent:x'",
            "sha256",
        ),
        (
            good.replace("sha256 = \"", "sha256 = \"zz"),
            "'agent:x'",
            "sha256",
        ),
        (good.replace("sha256", "token"), "token", "unknown field"),
        (
            good.replace("[[token]]", "[[tokens]]"),
            "tokens",
            "unknown field",
        ),
        (good.replace("roles", "# roles"), "roles", "missing field"),
        ("this is no TOML".into(), "line 1", ""),
    ];
    for (text, entry, why) in rows {
        let said = refused_file(&text);
        assert!(said.contains(entry) && said.contains(why), "{text}\n{said}");
    }
    let gone = not_served(&["--listen", "127.0.0.1:1", "--tokens", "/nonexistent/t.toml"]);
    assert_eq!(gone.code, 64, "{gone:?}");
    assert!(gone.err.contains("/nonexistent/t.toml"), "{gone:?}");
}

#[test]
fn nothing_but_loopback_is_listened_on() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("tokens.toml");
    std::fs::write(&file, everybody()).unwrap();
    let file = file.to_str().unwrap();
    for address in ["0.0.0.0:7070", "[::]:7070", "192.0.2.1:7070"] {
        let ran = not_served(&["--listen", address, "--tokens", file]);
        assert_eq!(ran.code, 64, "{ran:?}");
        assert!(ran.err.contains("not a loopback address"), "{ran:?}");
    }
    for args in [&["--listen", "127.0.0.1:0"][..], &["--tokens", file]] {
        assert_eq!(not_served(args).code, 64, "one needs the other");
    }
}

/// Cases E09, E15: what `token` prints works as it is, and the secret stands nowhere else.
#[test]
fn a_token_works_and_is_never_shown() {
    let dir = tempfile::TempDir::new().unwrap();
    let (tokens, log) = (dir.path().join("tokens.toml"), dir.path().join("log"));
    let mut made = vec![];
    for (name, role) in [("agent:shop", "agent"), ("user:ada", "operator")] {
        let mut make = Command::new(PROGRAM);
        make.args(["token", "--name", name, "--role", role]);
        // As a person would in a shell: 2>> tokens.toml
        let mut append = std::fs::OpenOptions::new();
        let append = append.create(true).append(true).open(&tokens);
        let ran = make.stderr(append.unwrap()).output();
        let ran = Ran::of(ran.unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        let secret = dir.path().join(format!("{role}.token"));
        crate::server::write_secret(&secret, &ran.out);
        made.push((ran.out.trim().to_owned(), secret));
    }
    let kept = std::fs::read_to_string(&tokens).unwrap();
    for (secret, _) in &made {
        assert!(secret.len() > 50 && !kept.contains(secret.as_str()));
    }
    for bad in [
        &["--name", "system:deadline", "--role", "operator"][..],
        &["--name", "a b", "--role", "operator"],
        &["--name", "agent:x", "--role", "agent", "--role", "operator"],
        &["--name", "agent:x"],
    ] {
        let mut make = Command::new(PROGRAM);
        let ran = Ran::of(make.arg("token").args(bad).output().unwrap());
        assert_eq!(ran.code, 64, "{bad:?}: {ran:?}");
    }

    let address = format!("127.0.0.1:{}", free_port());
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--data"]).arg(dir.path().join("data"));
    serve.args(["--listen", &address, "--tokens"]).arg(&tokens);
    serve.env("PILOTHOUSE_LOG", "trace");
    serve.stdin(Stdio::null()).stdout(Stdio::null());
    let stderr = std::fs::File::create(&log).unwrap();
    let mut serving = serve.stderr(stderr).spawn().unwrap();
    let from = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(from.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    let call = |args: &[&str], secret: &Path| {
        let mut call = Command::new(PROGRAM);
        call.args(args).arg("--server");
        call.arg(format!("http://{address}"))
            .env("RUST_LOG", "trace");
        call.arg("--token-file").arg(secret);
        call.stdin(Stdio::null()).stderr(Stdio::piped());
        call.stdout(Stdio::piped()).spawn().unwrap()
    };
    let done = |args: &[&str], secret: &Path| {
        let ran = Ran::of(call(args, secret).wait_with_output().unwrap());
        for (secret, _) in &made {
            assert!(!ran.out.contains(secret.as_str()), "{ran:?}");
            assert!(!ran.err.contains(secret.as_str()), "{ran:?}");
        }
        ran
    };
    let (agent, person) = (&made[0].1, &made[1].1);
    let me = done(&["whoami"], person);
    assert!(me.out.contains("user:ada · operator"), "{me:?}");
    let filed = done(&["file", "--title", "Go on?"], agent);
    assert_eq!(filed.code, 0, "{filed:?}");
    let id = filed.out.trim();
    let mut waiting = call(&["wait", id], agent);
    std::thread::sleep(Duration::from_millis(200));
    let ps = Command::new("ps").args(["-eo", "args", "ewww"]).output();
    let ps = String::from_utf8_lossy(&ps.unwrap().stdout).into_owned();
    assert!(ps.contains("agent.token"), "the waiter is seen: {ps}");
    let sly = done(&["approve", id, "--digest", &"0".repeat(64)], agent);
    assert_eq!(sly.code, 4, "an agent decides nothing: {sly:?}");
    let shown = done(&["show", id, "--json"], person).objects().remove(0);
    let digest = shown["digest"].as_str().unwrap();
    let decided = done(&["approve", id, "--digest", digest], person);
    assert_eq!(decided.code, 0, "{decided:?}");
    assert!(waiting.wait().unwrap().success());
    let _ = (serving.kill(), serving.wait());
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("TRACE"), "it was asked to say everything");
    let tried = log.lines().find(|line| line.contains("refused: not yours"));
    assert!(
        tried.unwrap().contains("agent:shop"),
        "case E01: with the actor"
    );
    for (secret, _) in &made {
        assert!(!ps.contains(secret.as_str()), "in the process list");
        let line = log.lines().find(|line| line.contains(secret.as_str()));
        assert_eq!(line, None, "in the server's log");
    }
}

#[tokio::test]
async fn the_health_service_says_that_both_services_serve() {
    let house = House::open();
    let mut health = HealthClient::new(house.channel());
    let rows = [
        "",
        "pilothouse.v1.AgentService",
        "pilothouse.v1.OperatorService",
    ];
    for service in rows {
        let asked = HealthCheckRequest {
            service: service.into(),
        };
        let said = health.check(asked).await.unwrap().into_inner();
        assert_eq!(said.status().as_str_name(), "SERVING", "{service:?}");
    }
    let asked = HealthCheckRequest {
        service: "pilothouse.v1.Nothing".into(),
    };
    let said = health.check(asked).await.unwrap_err();
    assert_eq!(said.code(), Code::NotFound);
}

/// Claims are the agents': whoever may call reads what is wrong with the call, and nobody else does.
#[tokio::test]
async fn claims_take_a_credential_first() {
    let house = House::open();
    let of_agents = [
        ("agent:a1", "invalid"),
        ("backend:web", "invalid"),
        ("nobody", "unauthenticated"),
        ("unknown", "unauthenticated"),
        ("twice", "unauthenticated"),
    ];
    for (who, expected) in of_agents {
        let mut agent = house.agent(headers(who));
        let words = [
            word(&agent.claim(pb::ClaimRequest::default()).await),
            word(&agent.restore(pb::RestoreRequest::default()).await),
            word(
                &agent
                    .report_started(pb::ReportStartedRequest::default())
                    .await,
            ),
        ];
        assert_eq!(words, [expected; 3], "{who}");
    }
}

/// Whoever is nobody is told so first, whatever they send.
#[tokio::test]
async fn drifts_and_orders_take_a_credential_first() {
    let house = House::open();
    let told = [
        ("agent:a1", "invalid"),
        ("nobody", "unauthenticated"),
        ("unknown", "unauthenticated"),
        ("twice", "unauthenticated"),
    ];
    for (who, expected) in told {
        let mut agent = house.agent(headers(who));
        let mut person = house.person(headers(who));
        let words = [
            word(&agent.report_drift(pb::ReportDriftRequest::default()).await),
            word(&agent.controls(pb::ControlsRequest::default()).await),
            word(&agent.ack_control(pb::AckControlRequest::default()).await),
            word(&person.control(pb::ControlRequest::default()).await),
        ];
        assert_eq!(words, [expected; 4], "{who}");
    }
}

/// Another tenant's ids do not exist, and a run in one is heard of by nobody in the other.
#[tokio::test]
async fn tenants_know_nothing_of_each_other() {
    let house = House::open();
    let mut here = house.agent("agent:a1");
    let run = open(&mut here, "r1", OWNER).await;
    let card = file(&mut here, question(&run, "t1", Asks::Admin)).await;
    // The same names and keys, elsewhere, are something else.
    let mut there = house.agent("agent:elsewhere");
    let twin = open(&mut there, "r1", OWNER).await;
    assert_ne!(run, twin);
    let mut same = question(&twin, "t1", Asks::Admin);
    same.key = format!("{run}/t1");
    let other = file(&mut there, same).await;
    assert_ne!(card.approval_id, other.approval_id);
    let wish = decision(&card, Verdict::Approve, "d1");
    let answer = house.person("admin:elsewhere").decide(wish).await;
    assert_eq!(word(&answer), "not_found");
    assert!(!answer.unwrap_err().message().contains(&card.approval_id));
    assert!(house.pending(&card.approval_id).await.attempts.is_empty());
    // The same decision id counts in each.
    for (who, card) in [("admin:elsewhere", &other), ("admin:root", &card)] {
        let wish = decision(card, Verdict::Approve, "d1");
        assert_eq!(word(&house.person(who).decide(wish).await), "ok");
    }
}
