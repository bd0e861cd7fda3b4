//! The gate over a real connection: what the server's config says of a call, and what unattended runs get.

use pilothouse::wire::pb::pilothouse::v1::{self as pb, gate_response::Says};

use crate::{
    house::{Agent, House, decision, get, word},
    server::Server,
};

const RULES: &str = r#"
[gate]
non_interactive = "deny"

[[gate.tool]]
name = "deploy"
when = [{ arg = "/env", is = "prod" }]

[[gate.tool]]
name = "db.*"
asks = "admin"
risk = "high"

[[gate.tool]]
name = "db.read"
ask = "never"

[[votes]]
tool = "wipe*"
needs = 2
"#;

fn gated() -> House {
    House::with_config(RULES)
}

async fn open(agent: &mut Agent, request: pb::OpenRunRequest) -> pb::OpenRunResponse {
    agent.open_run(request).await.unwrap().into_inner()
}

fn run_of(name: &str) -> pb::OpenRunRequest {
    pb::OpenRunRequest {
        agent: "billing".into(),
        invocation: name.into(),
        can_resume: true,
        ..Default::default()
    }
}

fn call(run: &str, target: &str, tool: &str, args: &str) -> pb::FileRequest {
    pb::FileRequest {
        asks: pb::Asks::Unspecified.into(),
        deadline: None,
        subject: Some(pb::file_request::Subject::Tool(pb::ToolSubject {
            name: tool.into(),
            task_id: "t1".into(),
        })),
        detail: Some(pb::Detail {
            prompt: "May I?".into(),
            args_json: Some(args.into()),
            ..Default::default()
        }),
        ..crate::house::question(run, target, pb::Asks::Operator)
    }
}

async fn ask(agent: &mut Agent, call: pb::FileRequest) -> Says {
    let request = pb::GateRequest { call: Some(call) };
    let says = agent.gate(request).await.unwrap().into_inner().says;
    says.unwrap()
}

/// DF-28, DF-30: selected calls are asked about, and nothing else; who is asked is the config's to say.
#[tokio::test]
async fn the_config_says_which_calls_are_asked_about() {
    let house = gated();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, run_of("r1")).await.run_id;
    let free = [
        ("c1", "read", "{}"),
        ("c2", "deploy", r#"{"env":"dev"}"#),
        ("c3", "db.read", "{}"),
    ];
    for (target, tool, args) in free {
        let says = ask(&mut agent, call(&run, target, tool, args)).await;
        assert!(matches!(says, Says::Free(_)), "{tool}: {says:?}");
    }
    assert_eq!(house.head().await, 1, "nothing was recorded of them");
    let Says::Asked(card) = ask(&mut agent, call(&run, "c4", "deploy", r#"{"env":"prod"}"#)).await
    else {
        panic!("not asked");
    };
    let pending = house.pending(&card.approval_id).await;
    let approval = pending.approval.unwrap();
    assert_eq!(approval.asks, pb::Asks::Operator as i32);
    assert_eq!(approval.hold, pb::Hold::Thread as i32);
    assert!(approval.deadline.is_none());
    let Says::Asked(card) = ask(&mut agent, call(&run, "c5", "db.drop", "{}")).await else {
        panic!("not asked");
    };
    let approval = house.pending(&card.approval_id).await.approval.unwrap();
    assert_eq!(approval.asks, pb::Asks::Admin as i32);
    assert_eq!(approval.risk, pb::Risk::High as i32);
}

/// DF-25, DF-29, DF-33, DF-34: whoever cannot wait is denied at once, and told which decision is missing.
#[tokio::test]
async fn whoever_cannot_wait_is_denied_at_once() {
    let house = gated();
    let mut backend = house.agent("backend:web");
    let scheduled = pb::OpenRunRequest {
        context: r#"{"non_interactive":true,"configurable":{"channel_name":"github"}}"#.into(),
        origin: "cron".into(),
        ..run_of("r1")
    };
    let opened = open(&mut backend, scheduled.clone()).await;
    assert_eq!(opened.mode, pb::InteractionMode::Scheduled as i32);
    assert!(opened.guidance.contains("BLOCKED"), "{}", opened.guidance);
    assert!(opened.dropped.is_empty());
    let prod = r#"{"env":"prod"}"#;
    let says = ask(&mut backend, call(&opened.run_id, "c1", "deploy", prod)).await;
    let Says::Blocked(blocked) = says else {
        panic!("{says:?}");
    };
    assert!(
        blocked.missing.starts_with("BLOCKED: deploy needs"),
        "{}",
        blocked.missing
    );
    assert!(blocked.guidance.contains("no permission"));
    let settled = house.settled(&blocked.approval_id).await;
    match settled.outcome.unwrap() {
        pb::settled::Outcome::Rejected(decision) => {
            assert_eq!(decision.by, "system:gate");
            assert!(decision.answers.is_empty());
        }
        other => panic!("{other:?}"),
    }
    let run = house.get_run(&opened.run_id).await;
    assert_eq!(run.tasks[0].blocker, "policy");
    // What it files itself waits for nobody, and is asked.
    let tool = crate::house::question(&opened.run_id, "t9", pb::Asks::Operator);
    assert_eq!(word(&backend.file(tool).await), "ok");

    // A public caller is believed none of it.
    let mut agent = house.agent("agent:a1");
    let public = pb::OpenRunRequest {
        invocation: "r2".into(),
        ..scheduled
    };
    let opened = open(&mut agent, public).await;
    assert_eq!(opened.mode, pb::InteractionMode::Interactive as i32);
    assert_eq!(
        opened.dropped,
        ["/configurable/channel_name", "/non_interactive", "origin"]
    );
    assert_eq!(house.get_run(&opened.run_id).await.origin, "");
    let says = ask(&mut agent, call(&opened.run_id, "c1", "deploy", prod)).await;
    assert!(matches!(says, Says::Asked(_)), "{says:?}");
    // A subagent, and a run that cannot resume.
    let child = pb::OpenRunRequest {
        parent_run_id: opened.run_id.clone(),
        ..run_of("r3")
    };
    let stuck = pb::OpenRunRequest {
        can_resume: false,
        ..run_of("r4")
    };
    for request in [child, stuck] {
        let run = open(&mut agent, request).await.run_id;
        let says = ask(&mut agent, call(&run, "c1", "deploy", prod)).await;
        assert!(matches!(says, Says::Blocked(_)), "{says:?}");
    }
}

/// The config raises how many people a call takes, however it is asked; four eyes are two people.
#[tokio::test]
async fn the_config_raises_how_many_people_it_takes() {
    let house = gated();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, run_of("r1")).await.run_id;
    let mut filing = call(&run, "c1", "wipe_disk", "{}");
    filing.asks = pb::Asks::Operator.into();
    let card = agent.file(filing).await.unwrap().into_inner();
    let approve = |id: &str| decision(&card, pb::Verdict::Approve, id);
    let mut ada = house.person("operator:ops");
    let first = ada.decide(approve("d1")).await.unwrap().into_inner();
    assert!(first.settled.is_none());
    assert_eq!(first.pending.unwrap().votes.len(), 1);
    assert_eq!(word(&ada.decide(approve("d2")).await), "not_now");
    let again = ada.decide(approve("d1")).await.unwrap().into_inner();
    assert!(again.settled.is_none(), "the same vote sent again");
    let mut eve = house.person("operator:eve");
    let last = eve.decide(approve("d3")).await.unwrap().into_inner();
    let settled = last.settled.unwrap();
    assert_eq!(settled.votes[0].by, "operator:ops");
    let shown = eve.get(get(&card.approval_id)).await.unwrap().into_inner();
    assert!(matches!(
        shown.item,
        Some(pb::get_response::Item::Settled(_))
    ));
}

/// Case F03: a gate that is misspelt would be open; the server does not start with it.
#[test]
fn a_misspelt_gate_keeps_the_server_from_starting() {
    let rows = [
        ("[gate]\n[[gate.tol]]\nname = \"t\"", "tol"),
        (
            "[gate]\n[[gate.tool]]\nname = \"t\"\nasks = \"nobody\"",
            "nobody",
        ),
        ("[gate]", "gate nothing"),
        (
            "[[gate.tool]]\nname = \"t\"\nask = \"never\"",
            "exception to nothing",
        ),
    ];
    for (config, why) in rows {
        let ran = Server::refused(config);
        assert_eq!(ran.code, 64, "{config}: {ran:?}");
        assert!(ran.err.contains(why), "{config}: {}", ran.err);
    }
}
