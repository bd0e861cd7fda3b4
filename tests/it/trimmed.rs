//! History that was trimmed, as a watcher and a reader meet it.

use std::time::Duration;

use pilothouse::{
    connect::{CallError, Client, Cursor, Feed, Opening, RetryNow, watch},
    serve::retention::Retention,
};
use registry::{Event, Recorded, RunId, Seq, State, command::Ending, run::End};
use tokio_stream::{Stream, StreamExt as _};

use crate::{answers::asking, house::Standing};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn run(client: &Client, invocation: &str) -> RunId {
    let run = Opening {
        agent: "careful".into(),
        invocation: invocation.into(),
        ..Opening::default()
    };
    client.open_run(&run).await.unwrap()
}

fn word(error: &CallError) -> &str {
    match error {
        CallError::Refused(told) => &told.word,
        other => panic!("{other:?}"),
    }
}

/// What a watcher is told until it stands where the server stands: how often it tried, why it was turned away, and all that
/// happened after its snapshot.
async fn until_it_stands(
    feed: &mut (impl Stream<Item = Feed> + Unpin),
) -> (u32, Vec<String>, State) {
    let (mut tries, mut turned_away) = (0, vec![]);
    loop {
        match feed.next().await.unwrap() {
            Feed::Connecting { .. } => tries += 1,
            Feed::Offline { why, .. } => turned_away.push(why),
            Feed::Snapshot { state, .. } => return (tries, turned_away, *state),
            Feed::Online { .. } => {}
            Feed::Recorded { events, .. } => assert!(events.is_empty(), "before the snapshot"),
        }
    }
}

async fn told(
    feed: &mut (impl Stream<Item = Feed> + Unpin),
    is: impl Fn(&Event) -> bool,
) -> Recorded {
    loop {
        if let Feed::Recorded { events, .. } = feed.next().await.unwrap()
            && let Some(found) = events.into_iter().find(|one| is(&one.event))
        {
            return found;
        }
    }
}

/// Cases B01, B03, D13: whoever stands before what was trimmed begins anew, at once and once, and hears why; what ended is
/// still known by how it ended.
#[tokio::test]
async fn a_reader_before_what_was_trimmed_begins_anew() {
    let standing = Standing::start();
    let client = &standing.client;
    let gone = run(client, "r1").await;
    let kept = client.file(gone, &asking("t1", "{}")).await.unwrap().id;
    client.say(gone, &"a secret".into()).await.unwrap();
    client.withdraw(kept, &"no need".into()).await.unwrap();
    let ended = Ending::Over(End::Completed);
    client.end_run(gone, ended, &"done".into()).await.unwrap();
    let old = client.whoami().await.unwrap();
    let lives = run(client, "r2").await;
    let waits = client.file(lives, &asking("t2", "{}")).await;
    // Two minutes to answer: it stays for as long as it waits.
    let waits = waits.unwrap().id;
    standing.pass(200 * DAY);
    for _ in 0..20 {
        client.say(lives, &"on it".into()).await.unwrap();
    }
    let mut live = watch(client.clone(), None, RetryNow::default());
    until_it_stands(&mut live).await;

    standing.keep(Retention::of_days(90).unwrap());
    let trimmed = told(&mut live, |event| {
        matches!(event, Event::HistoryTrimmed { .. })
    })
    .await;
    let Event::HistoryTrimmed {
        trimmed: counts, ..
    } = &*trimmed.event
    else {
        unreachable!()
    };
    // Opened, said, ended; and the details of both questions, of which the second had run out.
    assert_eq!((counts.events, counts.details), (3, 1), "{counts:?}");
    assert_eq!(counts.floor, old.head);

    let epoch = old.epoch.clone();
    for seq in [0, 1, old.head - 1] {
        let cursor = Cursor {
            epoch: epoch.clone(),
            seq,
        };
        let mut late = watch(client.clone(), Some(cursor), RetryNow::default());
        let (tries, turned_away, state) = until_it_stands(&mut late).await;
        assert_eq!(tries, 2, "{turned_away:?}");
        assert!(turned_away[0].contains("was trimmed"), "{turned_away:?}");
        assert_eq!(state.head(), trimmed.seq);
        assert!(state.run(lives).is_some() && state.run(gone).is_none());
    }
    // Of another log, or beyond this one: never silently "now".
    for (epoch, seq) in [("another".to_owned(), 1), (epoch.clone(), Seq::MAX / 4)] {
        let mut late = watch(
            client.clone(),
            Some(Cursor { epoch, seq }),
            RetryNow::default(),
        );
        let (_, _, state) = until_it_stands(&mut late).await;
        assert_eq!(state.head(), trimmed.seq);
    }
    // Just behind it, a reader goes on without a snapshot.
    let cursor = Cursor {
        epoch,
        seq: old.head,
    };
    let mut next = watch(client.clone(), Some(cursor), RetryNow::default());
    let first = told(&mut next, |_| true).await;
    assert_eq!(first.seq, old.head + 1);

    let error = client.get(kept).await.unwrap_err();
    assert_eq!(word(&error), "compacted", "{error}");
    let (history, _) = client.history(9, None).await.unwrap();
    let ended: Vec<_> = history.iter().map(|ended| ended.id()).collect();
    assert!(ended.contains(&kept.into()), "{ended:?} with {waits}");
    standing.stop().await;
}
