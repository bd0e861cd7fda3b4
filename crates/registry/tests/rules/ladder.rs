//! The ladder against its sheet, written out here once more.

use registry::drift::{KINDS, Kind, Level, Severity, ladder};

/// `wire/goldfive.md` §2.3, line by line: the kinds, and the levels for INFO, WARNING, the first CRITICAL, a CRITICAL that
/// comes again. Of the last line of kinds the sheet says only that the first CRITICAL holds the run.
const SHEET: [(&str, [u8; 4]); 12] = [
    (
        "CONFABULATION_RISK AGENT_REFUSAL MODEL_REFUSAL PLAN_DIVERGENCE OFF_TOPIC TOOL_ERROR",
        [0, 1, 3, 4],
    ),
    ("LOOPING_TOOL_CALL SELF_REPORTED_STUCK", [0, 1, 3, 4]),
    ("LOOPING_REASONING", [0, 1, 2, 4]),
    ("INTENT_DIVERGENCE", [0, 1, 4, 4]),
    ("RUNAWAY_DELEGATION", [0, 0, 3, 4]),
    ("REFINE_VALIDATION_FAILED", [0, 0, 4, 4]),
    ("HUMAN_INTERVENTION_REQUIRED", [0, 0, 4, 5]),
    ("GOAL_DRIFT", [0, 2, 2, 3]),
    ("TASK_TIMEOUT", [0, 2, 4, 4]),
    ("JUSTIFIED_DEVIATION", [0, 1, 1, 1]),
    ("REASONING_CLUSTER_TIGHTENING", [0, 0, 0, 0]),
    (
        "RESOURCE_EXHAUSTED TOO_MANY_STEPS LLM_CALL_TIMEOUT",
        [0, 2, 4, 4],
    ),
];

const ANY_OTHER: [u8; 4] = [0, 1, 1, 4];

/// goldfive's own numbers of its kinds (`wire/goldfive.md` §1.4); 28 is reserved.
const NUMBERED: &str = "1 TOOL_ERROR, 2 AGENT_REFUSAL, 3 NEW_WORK_DISCOVERED, 4 PLAN_DIVERGENCE, 5 USER_STEER, 6 USER_CANCEL, \
    7 TASK_FAILED_RECOVERABLE, 8 TASK_FAILED_FATAL, 9 CONTEXT_PRESSURE, 10 BLOCKED, 11 WRONG_AGENT, 12 AGENT_TRANSFER, \
    13 MODEL_REFUSAL, 14 STOPPED_EARLY, 15 TOO_MANY_STEPS, 16 GOAL_UNREACHABLE, 17 TASK_TIMEOUT, 18 REPEATED_FAILURE, \
    19 UNEXPECTED_OUTPUT, 20 SCHEMA_VIOLATION, 21 HALLUCINATION_SUSPECTED, 22 SAFETY_CONCERN, 23 RESOURCE_EXHAUSTED, \
    24 AMBIGUOUS_INTENT, 25 CUSTOM, 26 LOOPING_TOOL_CALL, 27 LOOPING_REASONING, 29 OFF_TOPIC, 30 INTENT_DIVERGENCE, \
    31 UNCERTAIN_PROGRESS, 32 SELF_REPORTED_STUCK, 33 REASONING_CLUSTER_TIGHTENING, 34 CONFABULATION_RISK, \
    35 RUNAWAY_DELEGATION, 36 REFINE_VALIDATION_FAILED, 37 HUMAN_INTERVENTION_REQUIRED, 38 GOAL_DRIFT, 39 LLM_CALL_TIMEOUT, \
    40 JUSTIFIED_DEVIATION, 41 CAPABILITY_MISMATCH";

/// GF-86: every cell.
#[test]
fn the_ladder_is_the_one_of_the_sheet() {
    let mut kinds = Vec::new();
    for numbered in NUMBERED.split(", ") {
        let (_, kind) = numbered.split_once(' ').unwrap();
        kinds.push(kind);
        let line = SHEET
            .iter()
            .find(|(kinds, _)| kinds.split(' ').any(|known| known == kind));
        let cells = line.map_or(ANY_OTHER, |(_, cells)| *cells);
        for (severity, repeat, cell) in [
            ("INFO", false, 0),
            ("INFO", true, 0),
            ("WARNING", false, 1),
            ("WARNING", true, 1),
            ("CRITICAL", false, 2),
            ("CRITICAL", true, 3),
            ("SEVERE", false, 0),
            ("SEVERE", true, 0),
        ] {
            let level = ladder(&Kind::of(kind), &Severity::of(severity), repeat);
            assert_eq!(level.number(), cells[cell], "{kind} {severity} {repeat}");
        }
    }
    let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(known, kinds);
}

#[test]
fn a_level_is_read_as_goldfive_writes_it() {
    let words = "observe absorb nudge cancel_reinvoke pause_escalate terminate";
    for (number, word) in words.split(' ').enumerate() {
        let level = Level::from_word(word).unwrap();
        assert_eq!(
            (usize::from(level.number()), level.word()),
            (number, word),
            "{word}"
        );
    }
    assert_eq!(Level::from_word("signal"), Some(Level::Nudge));
    assert_eq!(Level::from_word("PAUSE"), None);
}
