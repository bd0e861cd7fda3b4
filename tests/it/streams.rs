//! Streams, and who holds them: bounds that a slow or greedy caller meets, and nobody else feels.

use std::time::Duration;

use pilothouse::{
    serve::{
        Listeners, Server, clock::Clock, identity::Identity, limits::Limits, metrics::Page,
        owner::Owner, stop::Stop,
    },
    wire::{
        pb::pilothouse::v1::{
            self as pb, Asks, Verdict, agent_service_client::AgentServiceClient,
            operator_service_client::OperatorServiceClient, watch_response::What,
        },
        status::refused,
    },
};
use registry::log::Memory;
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tonic::{Code, Streaming, transport::Endpoint};

use crate::house::{Agent, Headers, Person, decision, everybody, file, open, question, word};

/// A server in this process, on a real port, with limits of its own.
pub(crate) struct Bounded {
    pub(crate) address: String,
    pub(crate) page: Page,
    pub(crate) stop: Stop,
    pub(crate) serving: JoinHandle<Result<(), tonic::transport::Error>>,
    _tokens: TempDir,
}

impl Bounded {
    pub(crate) async fn open(limits: Limits) -> Self {
        let tokens = TempDir::new().unwrap();
        let path = tokens.path().join("tokens.toml");
        std::fs::write(&path, everybody()).unwrap();
        let log = Box::new(Memory::new("bounded"));
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(log, Clock::System, None, fatal).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap().to_string();
        let stop = Stop::default();
        let identity = Identity::with_tokens(&path).unwrap();
        let server = Server::new(owner.clone(), identity, stop.clone()).with_limits(limits);
        let page = Page {
            metrics: server.metrics(),
            owner,
            wal: None,
        };
        let serving = tokio::spawn(server.run(Listeners {
            tcp: Some(tcp),
            ..Listeners::default()
        }));
        Self {
            address,
            page,
            stop,
            serving,
            _tokens: tokens,
        }
    }

    pub(crate) fn agent(&self, by: &str) -> Agent {
        let to = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        AgentServiceClient::with_interceptor(to.connect_lazy(), Headers::from(by))
    }

    pub(crate) fn person(&self, by: &str) -> Person {
        let to = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        OperatorServiceClient::with_interceptor(to.connect_lazy(), Headers::from(by))
    }

    /// One number of the page.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let page = self.page.text();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(&format!("pilothouse_{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {page}"))
            .parse()
            .unwrap()
    }

    /// Waits until one number of the page is this.
    pub(crate) async fn until(&self, name: &str, value: u64) {
        let reached = async {
            while self.number(name) != value {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
        reached.unwrap_or_else(|_| panic!("{name} is {}, not {value}", self.number(name)));
    }
}

async fn watch(person: &mut Person) -> Streaming<pb::WatchResponse> {
    let watched = person.watch(pb::WatchRequest::default()).await;
    watched.unwrap().into_inner()
}

async fn say(agent: &mut Agent, run: &str, times: usize) {
    for n in 0..times {
        let said = pb::SayRequest {
            run_id: run.into(),
            text: format!("{n} {}", "x".repeat(30_000)),
        };
        agent.say(said).await.unwrap();
    }
}

/// Cases B07, B09: what nobody reads is ended, with the reason and the place to go on from; the others are told all.
#[tokio::test]
async fn a_stream_that_nobody_reads_is_ended_with_the_place_to_go_on_from() {
    let house = Bounded::open(Limits {
        stalled_seconds: 1,
        tick_seconds: 1,
        ..Limits::default()
    })
    .await;
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let mut stalled = vec![];
    let mut lazy = house.person("admin:root");
    for _ in 0..8 {
        stalled.push(watch(&mut lazy).await);
    }
    let mut reading = watch(&mut house.person("operator:ops")).await;
    let read = tokio::spawn(async move {
        let (mut told, mut last) = (0, 0);
        while told < 100 {
            let what = reading.message().await.unwrap().unwrap().what.unwrap();
            if let What::Recorded(recorded) = what {
                assert!(recorded.seq > last && recorded.prev_seq <= recorded.seq);
                last = recorded.seq;
                told += 1;
            }
        }
        last
    });
    say(&mut agent, &run, 110).await;
    let last = tokio::time::timeout(Duration::from_secs(60), read).await;
    assert!(last.unwrap().unwrap() >= 100);
    house.until("watchers_stalled_total", 8).await;
    // The others let go of what they hold of the connection's window.
    let mut first = stalled.remove(0);
    drop(stalled);
    let (mut seq, mut why) = (0, None);
    while why.is_none() {
        match first.message().await {
            Ok(Some(message)) => {
                if let What::Recorded(recorded) = message.what.unwrap() {
                    seq = recorded.seq;
                }
            }
            Ok(None) => panic!("it ends with the reason"),
            Err(status) => why = Some(status),
        }
    }
    let why = why.unwrap();
    assert_eq!(why.code(), Code::Unavailable);
    assert!(why.message().contains("was not read"), "{why:?}");
    assert!(
        why.message().contains(&format!("event {seq} ")),
        "{seq}: {why:?}"
    );
    // Whoever goes away leaves nothing.
    drop((first, lazy));
    house.until("watchers", 0).await;
}

/// Case B10: a stream says how far it was when the server stops.
#[tokio::test]
async fn a_server_that_stops_says_how_far_each_stream_is() {
    let house = Bounded::open(Limits::default()).await;
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    file(&mut agent, question(&run, "t", Asks::Operator)).await;
    let mut stream = watch(&mut house.person("operator:ops")).await;
    while !matches!(
        stream.message().await.unwrap().unwrap().what.unwrap(),
        What::End(_)
    ) {}
    let head = house.number("log_head");
    house.stop.stop();
    let tick = stream.message().await.unwrap().unwrap().what.unwrap();
    assert!(
        matches!(&tick, What::Tick(tick) if tick.seq == head),
        "{tick:?}"
    );
    let why = stream.message().await.unwrap_err();
    assert_eq!(why.code(), Code::Unavailable);
    assert!(why.message().contains("stopping"), "{why:?}");
    assert!(why.message().contains(&format!("event {head} ")), "{why:?}");
    house.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn one_caller_holds_so_many_streams_and_another_is_not_kept_out() {
    let house = Bounded::open(Limits {
        streams: 3,
        ..Limits::default()
    })
    .await;
    let mut greedy = house.person("admin:root");
    let mut held = vec![];
    for _ in 0..3 {
        held.push(watch(&mut greedy).await);
    }
    let fourth = greedy.watch(pb::WatchRequest::default()).await;
    assert_eq!(word(&fourth), "too_many");
    let why = fourth.unwrap_err();
    assert!(why.message().contains("there may be 3"), "{why:?}");
    watch(&mut house.person("operator:ops")).await;
    held.pop();
    house.until("watchers", 2).await;
    held.push(watch(&mut greedy).await);
}

/// Whoever asks too often is told when to come again; nobody else is.
#[tokio::test]
async fn one_caller_that_asks_too_often_is_told_when_to_come_again() {
    let mut limits = Limits::default();
    limits.list.per_second = 1;
    limits.list.burst = 3;
    limits.decide.per_second = 1;
    limits.decide.burst = 1;
    let house = Bounded::open(limits).await;
    let mut hasty = house.person("admin:root");
    let mut words = vec![];
    let mut refusal = None;
    for _ in 0..6 {
        let listed = hasty.list(pb::ListRequest::default()).await;
        words.push(word(&listed));
        refusal = listed.err().or(refusal);
    }
    assert_eq!(words[..3], ["ok", "ok", "ok"]);
    assert!(words[3..].contains(&"rate_limited".to_owned()), "{words:?}");
    let refusal = refusal.unwrap();
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    assert_eq!(refused(&refusal).unwrap().http, 429);
    use tonic_types::StatusExt as _;
    let again = refusal
        .get_details_retry_info()
        .unwrap()
        .retry_delay
        .unwrap();
    assert!(
        again > Duration::ZERO && again <= Duration::from_secs(1),
        "{again:?}"
    );
    let mut other = house.person("operator:ops");
    let listed = other.list(pb::ListRequest::default()).await;
    assert_eq!(word(&listed), "ok");
    // It waits as long as it was told to, and is taken.
    tokio::time::sleep(again + Duration::from_millis(50)).await;
    assert_eq!(word(&hasty.list(pb::ListRequest::default()).await), "ok");
    // A decision that was refused for haste was not made.
    let mut agent = house.agent("agent:a1");
    let run = open(&mut agent, "r1", "").await;
    let cards = [
        file(&mut agent, question(&run, "t1", Asks::Operator)).await,
        file(&mut agent, question(&run, "t2", Asks::Operator)).await,
    ];
    let mut ops = house.person("operator:ops");
    let first = ops
        .decide(decision(&cards[0], Verdict::Approve, "d1"))
        .await;
    let second = ops
        .decide(decision(&cards[1], Verdict::Approve, "d2"))
        .await;
    assert_eq!([word(&first), word(&second)], ["ok", "rate_limited"]);
    assert_eq!(house.number("open_approvals"), 1);
    let page = house.page.text();
    assert!(page.contains("settled_total{how=\"granted\"} 1"), "{page}");
    assert!(
        !page.contains("refusals_total{word=\"rate_limited\"} 0"),
        "{page}"
    );
}

/// Too many connections are closed at once, silent ones after the time they have; those that are in go on.
#[tokio::test]
async fn connections_are_counted_and_silent_ones_are_closed() {
    let house = Bounded::open(Limits {
        connections_loopback: 4,
        first_word_seconds: 1,
        ..Limits::default()
    })
    .await;
    let mut in_already = house.person("operator:ops");
    in_already.whoami(pb::WhoamiRequest {}).await.unwrap();
    use tokio::io::AsyncReadExt as _;
    let mut silent = vec![];
    for _ in 0..8 {
        silent.push(TcpStream::connect(&house.address).await.unwrap());
    }
    house.until("connections_refused_total", 5).await;
    in_already.whoami(pb::WhoamiRequest {}).await.unwrap();
    for mut connection in silent {
        let mut heard = vec![];
        let ended = connection.read_to_end(&mut heard);
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        assert!(ended.is_ok(), "a silent connection is closed");
    }
    house.until("connections", 1).await;
    house
        .person("admin:root")
        .whoami(pb::WhoamiRequest {})
        .await
        .unwrap();
}

/// Begins a decision, and never sends it.
pub(crate) async fn call_without_an_end(
    url: String,
) -> Result<tonic::Response<pb::DecideResponse>, tonic::Status> {
    let channel = Endpoint::from_shared(url).unwrap();
    let mut grpc = tonic::client::Grpc::new(channel.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let path = "/pilothouse.v1.OperatorService/Decide".parse().unwrap();
    let codec: tonic_prost::ProstCodec<pb::DecideRequest, pb::DecideResponse> = Default::default();
    let mut request = tonic::Request::new(tokio_stream::pending::<pb::DecideRequest>());
    let token = format!("Bearer {}", crate::house::token("operator:ops"));
    let token = token.parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    grpc.client_streaming(request, path, codec).await
}

/// A call whose body never comes does not stand for ever; what it had begun is nothing.
#[tokio::test]
async fn a_call_that_does_not_end_is_ended() {
    let house = Bounded::open(Limits {
        call_seconds: 1,
        ..Limits::default()
    })
    .await;
    let ended = call_without_an_end(format!("http://{}", house.address));
    let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
    assert_eq!(ended.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    assert!(
        house
            .page
            .text()
            .contains("refusals_total{word=\"timed_out\"} 1")
    );
}
