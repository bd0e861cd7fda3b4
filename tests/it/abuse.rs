//! Peers that speak HTTP/2 to do harm. The others are answered meanwhile, and the server's memory stays what it is.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

use pilothouse::wire::pb::pilothouse::v1 as pb;

use crate::house::House;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const ENHANCE_YOUR_CALM: u32 = 11;
/// How much more memory a flood may leave the server with. One that queues what is sent takes all of it.
const GROWTH_MAX_KIB: u64 = 64 * 1024;
/// What each flood sends at most, in bytes, if nobody stops it.
const FLOOD_BYTES: usize = 48 << 20;

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, body].concat()
}

/// The head of a call of `Whoami`, in HPACK without a table and without Huffman.
fn call() -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [
        vec![0x83, 0x86, 0x04],
        text("/pilothouse.v1.OperatorService/Whoami"),
        vec![0x01],
        text("localhost"),
        vec![0x0f, 0x10],
        text("application/grpc"),
        // Of somebody who is known: what is refused at the door is not read any further.
        vec![0x0f, 0x08],
        text(&format!("Bearer {}", crate::house::token("operator:ops"))),
        vec![0x00],
        text("te"),
        text("trailers"),
    ]
    .concat()
}

/// What became of a flood.
#[derive(Debug)]
struct Flooded {
    sent: usize,
    /// The codes of the GOAWAY frames that came back.
    goaways: Vec<u32>,
    closed: bool,
}

/// Sends pieces until it is stopped, or has sent enough, or nobody takes them any more.
fn flood(at: &str, reads: bool, mut piece: impl FnMut(u32) -> Vec<u8>) -> Flooded {
    let mut out = TcpStream::connect(at).unwrap();
    out.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut back = out.try_clone().unwrap();
    back.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
    let reader = reads.then(|| {
        thread::spawn(move || {
            let mut heard = Vec::new();
            let ended = back.read_to_end(&mut heard);
            let closed = ended.is_ok()
                || ended.is_err_and(|error| {
                    !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
                });
            (heard, closed)
        })
    });
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let mut sent = out.write(&begin).unwrap();
    let mut n = 0;
    let from = Instant::now();
    while sent < FLOOD_BYTES && from.elapsed() < Duration::from_secs(10) {
        let piece: Vec<u8> = (0..64).flat_map(|more| piece(n + more)).collect();
        n += 64;
        if out.write_all(&piece).is_err() {
            break;
        }
        sent += piece.len();
    }
    let (heard, closed) = reader.map_or((vec![], false), |reader| reader.join().unwrap());
    let _ = out.shutdown(Shutdown::Both);
    Flooded {
        sent,
        goaways: goaways(&heard),
        closed,
    }
}

fn goaways(mut heard: &[u8]) -> Vec<u32> {
    let mut codes = vec![];
    while let Some((head, rest)) = heard.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((body, rest)) = rest.split_at_checked(length) else {
            break;
        };
        if head[3] == GOAWAY {
            codes.push(u32::from_be_bytes(body[4..8].try_into().unwrap()));
        }
        heard = rest;
    }
    codes
}

/// Floods on two connections, while somebody else goes on calling.
async fn others_are_answered(
    house: &House,
    reads: bool,
    piece: impl Fn(u32) -> Vec<u8> + Clone + Send + 'static,
) -> Vec<Flooded> {
    let mut other = house.person("operator:ops");
    other.whoami(pb::WhoamiRequest {}).await.unwrap();
    let before = house.server.rss_kib();
    let at = house.url().trim_start_matches("http://").to_owned();
    let floods: Vec<_> = (0..2)
        .map(|_| {
            let (at, piece) = (at.clone(), piece.clone());
            tokio::task::spawn_blocking(move || flood(&at, reads, piece))
        })
        .collect();
    let mut answered = 0;
    while floods.iter().any(|flood| !flood.is_finished()) {
        let asked = other.whoami(pb::WhoamiRequest {});
        let asked = tokio::time::timeout(Duration::from_secs(20), asked).await;
        asked.expect("somebody else is answered").unwrap();
        answered += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(answered > 0);
    let mut ended = vec![];
    for flood in floods {
        ended.push(flood.await.unwrap());
    }
    let after = house.server.rss_kib();
    assert!(
        after < before + GROWTH_MAX_KIB,
        "{before} KiB, then {after} KiB after {ended:?}"
    );
    house
        .person("admin:root")
        .whoami(pb::WhoamiRequest {})
        .await
        .unwrap();
    ended
}

/// CVE-2023-44487: calls that are taken back at once.
#[tokio::test]
async fn a_peer_that_takes_every_call_back_is_sent_away() {
    let house = House::open();
    let ended = others_are_answered(&house, true, |n| {
        let stream = 2 * n + 1;
        let cancel = 8u32.to_be_bytes();
        [
            frame(HEADERS, END_HEADERS, stream, &call()),
            frame(RESET, 0, stream, &cancel),
        ]
        .concat()
    })
    .await;
    for flooded in ended {
        assert_eq!(
            flooded.goaways.last(),
            Some(&ENHANCE_YOUR_CALM),
            "{flooded:?}"
        );
        assert!(flooded.closed && flooded.sent < FLOOD_BYTES, "{flooded:?}");
    }
}

/// CVE-2019-9512, CVE-2019-9515: each wants an answer, and nobody reads the answers.
#[tokio::test]
async fn pings_and_settings_that_want_answers_fill_nothing() {
    let house = House::open();
    others_are_answered(&house, false, |_| frame(PING, 0, 0, b"pingpong")).await;
    others_are_answered(&house, false, |_| frame(SETTINGS, 0, 0, &[])).await;
}

/// CVE-2024-27316: a head that never ends, and one that is only large.
#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let house = House::open();
    let header = [&[0x00, 1][..], b"x", &[0x7f, 0x80, 0x3e], &[b'y'; 8063]].concat();
    let ended = others_are_answered(&house, true, move |n| match n {
        0 => frame(HEADERS, 0, 1, &call()),
        _ => frame(CONTINUATION, 0, 1, &header),
    })
    .await;
    for flooded in ended {
        assert!(flooded.closed && flooded.sent < FLOOD_BYTES, "{flooded:?}");
    }
}

/// A peer that sends on and on to a call that has ended: it is thrown away, and costs nobody else anything.
#[tokio::test]
async fn what_is_sent_after_the_end_of_a_call_fills_nothing() {
    let house = House::open();
    others_are_answered(&house, true, |n| {
        let head = frame(HEADERS, END_HEADERS, 1, &call());
        let data = frame(DATA, 0, 1, &[0; 16_000]);
        if n == 0 { [head, data].concat() } else { data }
    })
    .await;
}

/// Garbage, half a preface, another protocol: closed, and nothing else.
#[tokio::test]
async fn whoever_speaks_something_else_is_closed() {
    let house = House::open();
    let at = house.url().trim_start_matches("http://").to_owned();
    let rows: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &[0xff; 4096],
        &PREFACE[..10],
    ];
    for row in rows {
        let mut peer = TcpStream::connect(&at).unwrap();
        peer.write_all(row).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut heard = vec![];
        let ended = peer.read_to_end(&mut heard);
        let waits = |error: &std::io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        };
        assert!(!ended.as_ref().is_err_and(waits), "{row:?}: {ended:?}");
        house.head().await;
    }
}
