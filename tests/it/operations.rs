//! What the keeper of a server needs: it stops in time, leaves its log in one file, and says how it is.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use pilothouse::{serve::limits::Limits, wire::pb::pilothouse::v1::Asks};

use crate::{
    house::{House, file, open, question},
    server::PROGRAM,
    streams::{Bounded, call_without_an_end},
};

/// The bound that we state, and three times of it for a machine that does much else.
const GRACE: Duration = Duration::from_secs(5);
const SLACK: u32 = 3;

/// Case B10: a stream, a waiting agent, a silent peer, a stopped client and half a call keep nobody.
#[tokio::test]
async fn a_server_stops_in_time_with_everything_open_and_its_log_is_one_file() {
    let mut house = House::open();
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let card = file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let at = house.url().trim_start_matches("http://").to_owned();
    let silent = TcpStream::connect(&at).unwrap();
    let mut half = TcpStream::connect(&at).unwrap();
    half.write_all(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x40\x01\x04\0\0\0\x01\x83",
    )
    .unwrap();
    let mut clients = vec![];
    for args in [&["watch"][..], &["wait", &card.approval_id], &["watch"]] {
        let mut client = house.server.command(args);
        let client = client.stdout(Stdio::null()).stderr(Stdio::null());
        clients.push(client.spawn().unwrap());
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stopped = nix::unistd::Pid::from_raw(i32::try_from(clients[2].id()).unwrap());
    nix::sys::signal::kill(stopped, Signal::SIGSTOP).unwrap();
    let from = Instant::now();
    house.server.signal(Signal::SIGTERM);
    let ended = tokio::task::spawn_blocking(move || (house.server.wait(), house));
    let (code, mut house) = ended.await.unwrap();
    assert_eq!(code, Some(128 + 15));
    assert!(from.elapsed() < GRACE * SLACK, "{:?}", from.elapsed());
    nix::sys::signal::kill(stopped, Signal::SIGCONT).unwrap();
    for mut client in clients {
        let _ = client.kill();
        let _ = client.wait();
    }
    drop((silent, half));
    // A clean stop leaves nothing beside the log's file that would have to be moved into it.
    let wal = house.server.dir().join("pilothouse.db-wal");
    assert_eq!(std::fs::metadata(&wal).map_or(0, |wal| wal.len()), 0);
    house.server.restart();
    assert_eq!(house.server.open().len(), 1, "stopping decides nothing");
}

/// Asked twice: at once, whatever is open.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut house = House::open();
    // A call whose body never comes holds a stop for as long as the grace lasts.
    let held = tokio::spawn(call_without_an_end(house.url()));
    tokio::time::sleep(Duration::from_millis(500)).await;
    house.server.signal(Signal::SIGTERM);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let from = Instant::now();
    house.server.signal(Signal::SIGINT);
    let ended = tokio::task::spawn_blocking(move || house.server.wait());
    let code = ended.await.unwrap();
    assert_eq!(code, Some(128 + 2));
    assert!(from.elapsed() < GRACE, "{:?}", from.elapsed());
    held.abort();
}

/// Every metric that the docs list is on the page, and the other way round; no label has foreign text.
#[tokio::test]
async fn the_page_of_metrics_is_what_the_docs_list_and_says_nothing_foreign() {
    let house = Bounded::open(Limits::default()).await;
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "evil\"run{}", "").await;
    let mut asked = question(&run, "t\"} 1\nevil 2", Asks::Operator);
    asked.title = "evil_metric 1".into();
    asked.key = "k1".into();
    file(&mut agent, asked).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(house.page.clone().serve(listener, house.stop.clone()));
    let get = move |path: &str| {
        let mut reader = TcpStream::connect(at).unwrap();
        let path = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        reader.write_all(path.as_bytes()).unwrap();
        let mut page = String::new();
        reader.read_to_string(&mut page).unwrap();
        page
    };
    let pages = tokio::task::spawn_blocking(move || (get("/metrics"), get("/else")));
    let (page, other) = pages.await.unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    let body = page.split_once("\r\n\r\n").unwrap().1;
    assert!(body.contains("\npilothouse_open_approvals 1\n"), "{body}");
    assert!(!body.contains("evil"), "{body}");
    let mut names = vec![];
    for line in body.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            names.push(kind.split_once(' ').unwrap().0.to_owned());
        } else if !line.starts_with('#') {
            let value = line.rsplit_once(' ').unwrap().1;
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    let docs = std::fs::read_to_string("docs/OPERATIONS.md").unwrap();
    let row = |line: &str| {
        Some(
            line.strip_prefix("| `pilothouse_")?
                .split_once('`')?
                .0
                .to_owned(),
        )
    };
    let mut listed: Vec<_> = docs
        .lines()
        .filter_map(row)
        .map(|name| format!("pilothouse_{name}"))
        .collect();
    listed.sort();
    names.sort();
    assert_eq!(names, listed);
}

/// With `--metrics ADDRESS` the server has the page; only on loopback.
#[test]
fn the_page_is_there_where_the_server_is_told_so() {
    let port = crate::house::free_port();
    let address = format!("127.0.0.1:{port}");
    let server = crate::server::Server::with(&["--metrics", &address]);
    server.file(&["--title", "t", "--prompt", "p"]);
    let mut reader = TcpStream::connect(&address).unwrap();
    reader.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    reader.read_to_string(&mut page).unwrap();
    assert!(page.contains("\npilothouse_open_approvals 1\n"), "{page}");
    let refused = std::process::Command::new(PROGRAM)
        .args(["serve", "--metrics", "0.0.0.0:1", "--data"])
        .arg(server.dir().join("other"))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
}
