//! Looking for what ended: every filter, whoever asks, however deep.

use prost_types::Timestamp;

use crate::{
    house::{Agent, House, decision, file, open, question, word},
    server::Server,
};
use pilothouse::wire::pb::pilothouse::v1::{self as pb, Asks};

/// What ended, by title, newest first; over as many pages as it takes.
async fn found(house: &House, who: &str, wish: pb::HistoryRequest) -> Vec<String> {
    let (mut titles, mut wish) = (Vec::new(), wish);
    loop {
        let page = house.person(who).history(wish.clone()).await;
        let page = page.unwrap().into_inner();
        for item in page.items {
            let Some(pb::ended_item::Item::Settled(settled)) = item.item else {
                panic!("only questions were asked");
            };
            titles.push(settled.approval.unwrap().title);
        }
        if page.next_page_token.is_empty() {
            return titles;
        }
        wish.page_token = page.next_page_token;
    }
}

async fn ended_at(house: &House, id: &str) -> Timestamp {
    house.settled(id).await.at.unwrap()
}

async fn asked(agent: &mut Agent, run: &str, target: &str, label: &str) -> pb::FileResponse {
    let filing = pb::FileRequest {
        title: format!("Deploy {target}?"),
        labels: [("team".to_owned(), label.to_owned())].into(),
        ..question(run, target, Asks::Operator)
    };
    file(agent, filing).await
}

#[tokio::test]
async fn every_filter_finds_what_it_names_and_nothing_else() {
    let house = House::open();
    let mut agent = house.agent("agent:a1");
    let first = open(&mut agent, "r1", "user:ada").await;
    let second = open(&mut agent, "r2", "user:bob").await;
    let (alpha, beta, gamma) = (
        asked(&mut agent, &first, "alpha", "web").await,
        asked(&mut agent, &first, "beta", "db").await,
        asked(&mut agent, &second, "gamma", "web").await,
    );
    let (ops, eve) = ("operator:ops", "operator:eve");
    let mut yes = decision(&alpha, pb::Verdict::Approve, "d1");
    yes.note = "fine for the Autumn sale".into();
    house.person(ops).decide(yes).await.unwrap();
    // Between the two there is a moment.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let no = decision(&beta, pb::Verdict::Reject, "d2");
    house.person(eve).decide(no).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let back = pb::WithdrawRequest {
        approval_id: gamma.approval_id.clone(),
        reason: "no longer needed".into(),
    };
    agent.withdraw(back).await.unwrap();
    let beta_at = ended_at(&house, &beta.approval_id).await;

    let (a, b, c) = ("Deploy alpha?", "Deploy beta?", "Deploy gamma?");
    type Wish = pb::HistoryRequest;
    let of = |change: &dyn Fn(&mut Wish)| {
        let mut wish = Wish::default();
        change(&mut wish);
        wish
    };
    let team = |team: &str| of(&|w| w.labels = [("team".to_owned(), team.to_owned())].into());
    let rows: Vec<(&str, Wish, Vec<&str>)> = vec![
        ("nothing", Wish::default(), vec![c, b, a]),
        ("a page of one", of(&|w| w.page_size = 1), vec![c, b, a]),
        (
            "text, in capitals or not",
            of(&|w| w.text = "AUTUMN".into()),
            vec![a],
        ),
        (
            "text of titles",
            of(&|w| w.text = "deploy".into()),
            vec![c, b, a],
        ),
        ("text of nothing", of(&|w| w.text = "winter".into()), vec![]),
        ("run, ours", of(&|w| w.run = first.clone()), vec![b, a]),
        ("run, the agent's", of(&|w| w.run = "r2".into()), vec![c]),
        ("agent", of(&|w| w.agent = "billing".into()), vec![c, b, a]),
        (
            "another agent",
            of(&|w| w.agent = "research".into()),
            vec![],
        ),
        ("by", of(&|w| w.by = eve.into()), vec![b]),
        ("granted", of(&|w| w.outcome = "granted".into()), vec![a]),
        ("rejected", of(&|w| w.outcome = "rejected".into()), vec![b]),
        (
            "withdrawn",
            of(&|w| w.outcome = "withdrawn".into()),
            vec![c],
        ),
        ("expired", of(&|w| w.outcome = "expired".into()), vec![]),
        ("resumed", of(&|w| w.outcome = "resumed".into()), vec![]),
        ("label", team("web"), vec![c, a]),
        ("another label", team("ops"), vec![]),
        ("since", of(&|w| w.since = Some(beta_at)), vec![c, b]),
        ("until", of(&|w| w.until = Some(beta_at)), vec![b, a]),
        (
            "both",
            of(&|w| (w.since, w.until) = (Some(beta_at), Some(beta_at))),
            vec![b],
        ),
        (
            "all of it at once",
            of(&|w| {
                w.text = "alpha".into();
                w.by = "ops".into();
                w.outcome = "granted".into();
                w.run = "r1".into();
            }),
            vec![a],
        ),
    ];
    for (what, wish, titles) in rows {
        assert_eq!(found(&house, "viewer:v", wish).await, titles, "{what}");
    }

    // The tenant comes from the credential, and a user sees their own runs.
    let all = Wish::default;
    assert_eq!(found(&house, "user:ada", all()).await, [b, a]);
    assert_eq!(
        found(&house, "user:ada", of(&|w| w.run = "r2".into())).await,
        [""; 0]
    );
    assert_eq!(found(&house, "admin:elsewhere", all()).await, [""; 0]);
    assert_eq!(
        word(&house.person("agent:a1").history(all()).await),
        "not_yours"
    );

    let bad: Vec<(Wish, &str)> = vec![
        (
            of(&|w| w.outcome = "approved".into()),
            "an outcome is one of granted, rejected",
        ),
        (
            of(&|w| w.text = "x".repeat(257)),
            "at most 256 bytes, not 257",
        ),
        (of(&|w| w.page_size = 501), "a page has 1 to 500 entries"),
        (
            of(&|w| w.page_token = "x".into()),
            "the page token is not one",
        ),
        (
            of(&|w| {
                w.since = Some(Timestamp {
                    seconds: 2,
                    nanos: 0,
                });
                w.until = Some(Timestamp {
                    seconds: 1,
                    nanos: 0,
                });
            }),
            "since lies after until",
        ),
        (
            of(&|w| {
                w.since = Some(Timestamp {
                    seconds: i64::MAX,
                    nanos: -1,
                })
            }),
            "since when",
        ),
    ];
    for (wish, why) in bad {
        let refused = house.person("viewer:v").history(wish).await;
        assert_eq!(word(&refused), "invalid", "{why}");
        let said = refused.unwrap_err().message().to_owned();
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[test]
fn the_command_looks_for_what_it_is_told_and_says_who_saw_what() {
    let server = Server::start();
    for (n, team) in ["web", "db", "web"].iter().enumerate() {
        let title = format!("Deploy {n}?");
        let id = server.file(&["--title", &title, "--label", &format!("team={team}")]);
        let verb = ["approve", "reject"][n % 2];
        assert_eq!(server.decide(verb, &id, &["--note", "fine"]).code, 0);
    }
    let titles = |args: &[&str]| -> Vec<String> {
        let args = [&["history", "--json"], args].concat();
        let items = server.run(&args).objects();
        let title = |item: &serde_json::Value| item["title"].as_str().unwrap().to_owned();
        items.iter().map(title).collect()
    };
    let rows: &[(&[&str], &[&str])] = &[
        (&[], &["Deploy 2?", "Deploy 1?", "Deploy 0?"]),
        (&["--limit", "1"], &["Deploy 2?"]),
        (&["deploy 1"], &["Deploy 1?"]),
        (&["--verdict", "rejected"], &["Deploy 1?"]),
        (&["--label", "team=web"], &["Deploy 2?", "Deploy 0?"]),
        (&["--label", "team=web", "--limit", "1"], &["Deploy 2?"]),
        (&["--by", "user:nobody-here"], &[]),
        (&["--until", "2020-01-01"], &[]),
        (&["--since", "2020-01-01", "deploy 0"], &["Deploy 0?"]),
    ];
    for (args, expected) in rows {
        assert_eq!(titles(args), *expected, "{args:?}");
    }
    let lines = server.run(&["history", "--verdict", "rejected"]);
    for said in ["Deploy 1?", "rejected", "by user:", "quoted", "fine"] {
        assert!(lines.out.contains(said), "{said}: {lines:?}");
    }
    for bad in [
        ["--verdict", "approved"],
        ["--since", "soon"],
        ["--label", "web"],
    ] {
        let ran = server.run(&["history", bad[0], bad[1]]);
        assert_eq!(ran.code, 64, "{ran:?}");
    }
    let late = server.run(&["history", "--since", "2026-01-02", "--until", "2026-01-01"]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(late.err.contains("since lies after until"), "{late:?}");
}
