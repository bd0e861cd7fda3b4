//! What nobody thought of: lines in random order.

use proptest::{prelude::*, sample::select};

use crate::{
    script::{play_text, tell},
    world::Registry,
};

/// A02: two prompts of one step, answered by two people in any order, in one turn or in two; each
/// waiter gets its own.
#[test]
fn each_waiter_gets_its_own_answer_in_any_order() {
    let mut rows = String::new();
    for n in 0..200_u64 {
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let is = |bit: u32| bits >> bit & 1 == 1;
        let answer = |id: &str, note: &str, yes: bool, by: &str| match yes {
            true => format!("approve {id} by={by} note={note} -> {id} granted\n"),
            false => format!("reject {id} by={by} note={note} -> {id} rejected\n"),
        };
        let left = answer("a1", "l", is(0), "operator:ada");
        let right = answer("a2", "r", is(1), "operator:eve");
        let (first, second) = if is(2) { (left, right) } else { (right, left) };
        let said = |yes: bool| if yes { "granted" } else { "rejected" };
        rows += &format!(
            "== order {n}
             00:00 run r1
             00:00 file L run=r1 step=s -> a1 pending
             00:00 file R run=r1 step=s -> a2 pending\n"
        );
        rows += &match is(3) {
            true => format!("00:01 batch {{\n{first}{second}}}\n"),
            false => format!("00:01 {first}00:02 {second}"),
        };
        rows += &format!(
            "00:03 show a1 -> {} by operator:ada; note l
             00:03 show a2 -> {} by operator:eve; note r\n",
            said(is(0)),
            said(is(1)),
        );
    }
    let wrong = play_text("A02", &rows, Registry::in_memory);
    assert!(wrong.is_empty(), "these came out otherwise:\n{wrong}");
}

fn people() -> impl Strategy<Value = &'static str> {
    select(vec![
        "operator:ada",
        "operator:eve",
        "admin:grace",
        "user:u1",
        "agent:billing",
        "viewer:v",
        "admin:eve@other",
    ])
}

fn approval() -> impl Strategy<Value = String> {
    (1..9_usize).prop_map(|n| format!("a{n}"))
}

fn run() -> impl Strategy<Value = &'static str> {
    select(vec!["r1", "r2", "r3"])
}

fn filing() -> impl Strategy<Value = String> {
    let form = select(vec!["", " form=\"n integer = 1\"", " form=\"why string\""]);
    let key = select(vec!["", " key=k1", " key=k2", " key=k3"]);
    let rest = select(vec![
        "",
        " deadline=00:30",
        " deadline=00:10 then=stay_open",
        " asks=admin",
    ]);
    (run(), 1..4_u8, 1..3_u8, form, key, rest).prop_map(|(run, target, title, form, key, rest)| {
        let command = if run == "r3" { "asked" } else { "file" };
        format!("{command} t{target} run={run} title=T{title}{form}{key}{rest}")
    })
}

fn deciding() -> impl Strategy<Value = String> {
    let verb = select(vec!["approve", "reject"]);
    let rest = select(vec![
        "",
        "",
        " id=d1",
        " id=d2",
        " digest=a1",
        " answer.why=x",
    ]);
    (verb, approval(), people(), rest)
        .prop_map(|(verb, id, by, rest)| format!("{verb} {id} by={by}{rest}"))
}

fn about_an_approval() -> impl Strategy<Value = String> {
    let what = select(vec![
        ("withdraw", ""),
        ("giveup", " wait=w1"),
        ("giveup", " wait=w2"),
        ("applied", " done"),
        ("applied", " failed"),
        ("extend", " span=01:00 by=operator:ada"),
        ("extend", " span=01:00 by=user:u1"),
        ("dismiss", " by=operator:ada"),
        ("sent", " control=c1"),
        ("acked", " ok control=c1"),
        ("acked", " failed control=c1"),
    ]);
    (what, approval()).prop_map(|((verb, rest), id)| format!("{verb} {id}{rest}"))
}

fn about_a_run() -> impl Strategy<Value = String> {
    let what = select(vec![
        ("attend", "gone"),
        ("attend", "here"),
        ("end", "paused:approval"),
        ("end", "completed"),
        ("say", "hello"),
        ("task", "t1 running"),
        ("task", "t1 completed"),
        ("end", "cancelled"),
    ]);
    let resolved = (1..4_u8, select(vec!["granted", "rejected"]))
        .prop_map(|(target, how)| format!("resolved t{target} {how} run=r3"));
    prop_oneof![
        4 => (what, run()).prop_map(|((verb, rest), run)| format!("{verb} {run} {rest}")),
        1 => resolved,
    ]
}

fn drifting() -> impl Strategy<Value = String> {
    let kind = select(vec![
        "INTENT_DIVERGENCE",
        "HUMAN_INTERVENTION_REQUIRED",
        "TOOL_ERROR",
    ]);
    let severity = select(vec!["CRITICAL", "CRITICAL", "WARNING"]);
    let foreign = select(vec!["", " holds"]);
    let id = select(vec!["", "", "", " id=d1", " id=d2"]);
    (kind, severity, run(), foreign, 1..3_u8, id).prop_map(
        |(kind, severity, run, foreign, task, id)| match run {
            "r3" => format!("drifted {kind} {severity}{foreign} run=r3 task=t{task}{id}"),
            run => format!("drift {kind} {severity} run={run} task=t{task}{id}"),
        },
    )
}

fn directing() -> impl Strategy<Value = String> {
    let verb = select(vec![
        "pause", "resume", "resume", "steer", "cancel", "rewind", "status",
    ]);
    let answers =
        prop_oneof![1 => Just(String::new()), 2 => (1..5_u8).prop_map(|n| format!(" on=e{n}"))];
    let control = (1..4_u8).prop_map(|n| format!(" control=c{n}"));
    (verb, run(), people(), answers, control).prop_map(|(verb, run, by, answers, control)| {
        format!("{verb} {run} by={by}{answers}{control} note=x task=t1")
    })
}

fn following_orders() -> impl Strategy<Value = String> {
    let order = select(vec!["ladder", "ladder", "c1", "c2", "c3"]);
    let what = select(vec![
        "handover",
        "ack ok",
        "ack ok",
        "ack failed",
        "ack unsupported",
        "ack none",
        "plan",
    ]);
    (what, order, run()).prop_map(|(what, order, run)| match what.split_once(' ') {
        Some((ack, how)) => format!("{ack} {order} {how} run={run}"),
        None if what == "plan" => format!("plan {run} t1 t2 cause={order}"),
        None => format!("{what} {order} run={run}"),
    })
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => filing(),
        5 => deciding(),
        3 => about_an_approval(),
        2 => about_a_run(),
        4 => drifting(),
        5 => directing(),
        4 => following_orders(),
    ]
}

/// Minutes since the line before, and what is asked then, in one turn.
fn steps() -> impl Strategy<Value = Vec<(u32, Vec<String>)>> {
    let pause = prop_oneof![8 => 0..9_u32, 2 => 9..60_u32, 1 => Just(1500)];
    let step = (pause, prop::collection::vec(line(), 1..4));
    prop::collection::vec(step, 1..30)
}

fn scenario(steps: &[(u32, Vec<String>)]) -> String {
    let mut text = String::from(
        "== by chance
         00:00 run r1 user=user:u1
         00:00 run r2 agent=other by=agent:other
         00:00 run r3 source=goldfive\n",
    );
    let mut now = 0;
    for (pause, lines) in steps {
        now += pause;
        let time = format!("{:02}:{:02}", now / 60, now % 60);
        text += &format!(
            "{time} batch {{\n{}\n}}\n{time} wrote\n{time} inbox\n",
            lines.join("\n")
        );
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The log under the rules changes nothing of them.
    #[test]
    fn memory_and_a_reopened_file_come_to_the_same(steps in steps()) {
        let text = scenario(&steps);
        let dir = tempfile::tempdir().unwrap();
        let mut memory = Registry::in_memory();
        let mut file = Registry::reopened(dir.path().join("log"));
        prop_assert_eq!(tell(&text, &mut memory), tell(&text, &mut file));
        prop_assert_eq!(memory.rows(), file.rows());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// After every turn whoever folds comes to the same, and the log takes what was decided: it
    /// would refuse two ends of one approval, one key or one decision id twice.
    #[test]
    fn nothing_is_decided_that_a_log_would_refuse(steps in steps()) {
        tell(&scenario(&steps), &mut Registry::in_memory());
    }
}
