//! How many questions of one tenant wait.

use std::sync::Arc;

use registry::{
    ApprovalId, Asks, Command, Detail, Recorded, Refusal, RunId, State, Timestamp, Wish,
    approval::{Filing, Hold, OnDeadline, Risk, Subject},
    command::{File, OpenRun},
    limits::PENDING_COUNT,
    run::{RunKey, Source},
};

use crate::script::principal;

fn now() -> Timestamp {
    Timestamp::from_ms(1_000_000)
}

fn tell(state: &mut State, command: &Command) -> Result<(), Refusal> {
    for event in registry::decide(state, command, now())? {
        let recorded = Recorded {
            seq: state.head() + 1,
            at: now(),
            scope: state.scope_of(&event).unwrap(),
            event: Arc::new(event),
        };
        state.apply(&recorded);
    }
    Ok(())
}

fn open(state: &mut State, by: &str, run: RunId) {
    let by = principal(by);
    let open = OpenRun {
        id: run,
        key: RunKey {
            tenant: by.tenant().clone(),
            source: Source::Native,
            agent: "billing".into(),
            session: "s".into(),
            invocation: run.to_string().as_str().into(),
        },
        project: "".into(),
        thread: "".into(),
        origin: "".into(),
        owner: None,
        parent: None,
        can_resume: true,
        context: "".into(),
    };
    let wish = Wish::OpenRun(open);
    tell(state, &Command { by, wish }).unwrap();
}

fn file(
    state: &mut State,
    by: &str,
    run: RunId,
    target: usize,
    title: &str,
) -> Result<ApprovalId, Refusal> {
    let id = ApprovalId::mint(now(), state.head().into());
    let filing = Filing {
        key: None,
        target: target.to_string().as_str().into(),
        step: "".into(),
        subject: Subject::Tool {
            name: "pay".into(),
            task: "".into(),
        },
        title: title.into(),
        detail: Detail::default(),
        asks: Asks::Operator,
        labels: Default::default(),
        deadline: None,
        on_deadline: OnDeadline::default(),
        hold: Hold::Nothing,
        risk: Risk::default(),
        votes: 1,
    };
    let wish = Wish::File(Box::new(File {
        id,
        run,
        filing,
        past: None,
    }));
    let by = principal(by);
    tell(state, &Command { by, wish }).map(|()| id)
}

/// `ENGINE` §8. Room is made by whatever ends a question; another tenant has room of its own.
#[test]
fn a_tenant_has_so_many_questions_waiting() {
    let mut state = State::default();
    let (run, other) = (RunId::mint(now(), 1), RunId::mint(now(), 2));
    open(&mut state, "agent:a1", run);
    open(&mut state, "agent:a2@elsewhere", other);
    let mut first = None;
    for target in 0..PENDING_COUNT {
        let id = file(&mut state, "agent:a1", run, target, "Pay").unwrap();
        first = first.or(Some(id));
    }
    let refused = file(&mut state, "agent:a1", run, PENDING_COUNT, "Pay").unwrap_err();
    assert_eq!(refused.word(), "too_many");
    assert_eq!((refused.grpc(), refused.http()), (8, 429));
    assert!(refused.to_string().contains("100000"), "{refused}");
    // The same again, and another one in its place, are no more than there were.
    file(&mut state, "agent:a1", run, 7, "Pay").unwrap();
    file(&mut state, "agent:a1", run, 8, "Pay more").unwrap();
    file(&mut state, "agent:a2@elsewhere", other, 1, "Pay").unwrap();
    let wish = Wish::Withdraw {
        id: first.unwrap(),
        reason: "done".into(),
        past: None,
    };
    let by = principal("agent:a1");
    tell(&mut state, &Command { by, wish }).unwrap();
    file(&mut state, "agent:a1", run, PENDING_COUNT, "Pay").unwrap();
    let again = file(&mut state, "agent:a1", run, PENDING_COUNT + 1, "Pay");
    assert_eq!(again.unwrap_err().word(), "too_many");
}
