//! A server on a port, a token for everybody, and calls with whatever headers one likes.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use pilothouse::{
    connect::{Client, Token},
    serve::{
        self, Listeners,
        clock::Clock,
        identity::Identity,
        limits::{Limits, Rate},
        owner::Owner,
        stop::Stop,
    },
    wire::{
        pb::pilothouse::v1::{
            self as pb, agent_service_client::AgentServiceClient,
            operator_service_client::OperatorServiceClient,
        },
        status::refused,
    },
};
use registry::{Timestamp, digest::Sha256, log::Memory};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::{
    Request, Response, Status,
    metadata::{AsciiMetadataKey, AsciiMetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use crate::server::Server;

/// Everybody: name, roles, tenant. The token of each is [`token`].
pub(crate) const PEOPLE: &[(&str, &[&str], &str)] = &[
    ("agent:a1", &["agent"], "default"),
    ("agent:a2", &["agent"], "default"),
    ("viewer:v", &["viewer"], "default"),
    ("user:ada", &["user"], "default"),
    ("user:bob", &["user"], "default"),
    ("backend:web", &["backend"], "default"),
    ("operator:ops", &["operator"], "default"),
    ("operator:eve", &["operator"], "default"),
    ("admin:root", &["admin"], "default"),
    (
        "admin:all",
        &["admin", "backend", "user", "operator"],
        "default",
    ),
    ("admin:elsewhere", &["admin", "operator"], "elsewhere"),
    ("agent:elsewhere", &["agent"], "elsewhere"),
];

/// The secret of somebody.
pub(crate) fn token(name: &str) -> String {
    format!("ph-secret-of-{name}")
}

/// Their entry in a token file.
pub(crate) fn entry(name: &str, roles: &[&str], tenant: &str) -> String {
    let sha256 = Sha256::of(token(name));
    format!(
        "[[token]]\nname = {name:?}\nroles = {roles:?}\ntenant = {tenant:?}\nsha256 = \"{sha256}\"\n\n"
    )
}

/// The token file of everybody.
pub(crate) fn everybody() -> String {
    let entries = PEOPLE.iter();
    entries
        .map(|(name, roles, tenant)| entry(name, roles, tenant))
        .collect()
}

/// A port that nobody else is given: below those that the kernel chooses itself.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 200).unwrap() * 100;
    loop {
        let port = 10_000 + first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// What is tested here is not how much one caller may take.
const PLENTY: &str = "
[limits]
file = { per_second = 100000, burst = 100000 }
decide = { per_second = 100000, burst = 100000 }
list = { per_second = 100000, burst = 100000 }
watch = { per_second = 100000, burst = 100000 }
streams = 100000
waits = 100000
";

/// The same for a server in this process.
pub(crate) fn plenty() -> Limits {
    let rate = Rate {
        per_second: 100_000,
        burst: 100_000,
    };
    Limits {
        file: rate,
        decide: rate,
        list: rate,
        watch: rate,
        streams: 100_000,
        waits: 100_000,
        ..Limits::default()
    }
}

/// A server with a port, to which everybody has a token.
pub(crate) struct House {
    pub(crate) server: Server,
    address: String,
    _tokens: TempDir,
}

impl House {
    pub(crate) fn open() -> Self {
        Self::with("", &[])
    }

    /// With more in its environment.
    pub(crate) fn open_in(env: &[(&'static str, &'static str)]) -> Self {
        Self::with("", env)
    }

    /// With more in its config file.
    pub(crate) fn with_config(config: &str) -> Self {
        Self::with(config, &[])
    }

    fn with(config: &str, env: &[(&'static str, &'static str)]) -> Self {
        let tokens = TempDir::new().unwrap();
        let file = tokens.path().join("tokens.toml");
        std::fs::write(&file, everybody()).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let file = file.display().to_string();
        let path = tokens.path().join("pilothouse.toml");
        std::fs::write(&path, format!("{config}{PLENTY}")).unwrap();
        let path = path.display().to_string();
        let args = ["--config", &path, "--listen", &address, "--tokens", &file];
        let server = Server::within(&args, env);
        Self {
            server,
            address,
            _tokens: tokens,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn channel(&self) -> Channel {
        Endpoint::from_shared(self.url()).unwrap().connect_lazy()
    }

    /// Our own client, with the token of `name`.
    pub(crate) fn client(&self, name: &str) -> Client {
        let token = Token::parse(&token(name)).unwrap();
        Client::connect(self.url().parse().unwrap(), Some(token))
    }

    pub(crate) fn agent(&self, by: impl Into<Headers>) -> Agent {
        AgentServiceClient::with_interceptor(self.channel(), by.into())
    }

    pub(crate) fn person(&self, by: impl Into<Headers>) -> Person {
        OperatorServiceClient::with_interceptor(self.channel(), by.into())
    }

    /// The newest event.
    pub(crate) async fn head(&self) -> u64 {
        let me = self.person("admin:root").whoami(pb::WhoamiRequest {}).await;
        me.unwrap().into_inner().head.unwrap().seq
    }

    /// One approval, as an admin sees it.
    pub(crate) async fn get(&self, id: &str) -> pb::GetResponse {
        let got = self.person("admin:root").get(get(id)).await;
        got.unwrap().into_inner()
    }

    /// A run, as an admin sees it.
    pub(crate) async fn get_run(&self, run: &str) -> pb::Run {
        let asked = pb::GetRunRequest {
            run: run.into(),
            after_seq: 0,
        };
        let got = self.person("admin:root").get_run(asked).await;
        got.unwrap().into_inner().run.unwrap()
    }

    /// What waits.
    pub(crate) async fn pending(&self, id: &str) -> pb::Pending {
        match self.get(id).await.item.unwrap() {
            pb::get_response::Item::Pending(pending) => pending,
            other => panic!("{other:?}"),
        }
    }

    /// What has ended.
    pub(crate) async fn settled(&self, id: &str) -> pb::Settled {
        match self.get(id).await.item.unwrap() {
            pb::get_response::Item::Settled(settled) => settled,
            other => panic!("{other:?}"),
        }
    }
}

/// A server in this process, on a clock that stands until it is moved.
pub(crate) struct Standing {
    pub(crate) client: Client,
    owner: Owner,
    clock: Clock,
    stop: Stop,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Standing {
    pub(crate) fn start() -> Self {
        let clock = Clock::standing(Timestamp::from_ms(1_000_000));
        let log = Box::new(Memory::new("standing"));
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(log, clock.clone(), None, fatal).unwrap();
        let stop = Stop::default();
        let (to, pipe) = tokio::sync::mpsc::channel(4);
        let server = serve::Server::new(owner.clone(), Identity::of_the_socket(), stop.clone());
        let listeners = Listeners {
            pipe: Some(pipe),
            ..Listeners::default()
        };
        let serving = tokio::spawn(server.run(listeners));
        let client = Client::over(move || {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            to.try_send(theirs).map_err(std::io::Error::other)?;
            Ok(ours)
        });
        Self {
            client,
            owner,
            clock,
            stop,
            serving,
        }
    }

    /// From now on, what ended longer ago than that is trimmed.
    pub(crate) fn keep(&self, retention: pilothouse::serve::retention::Retention) {
        self.owner.keep(retention);
    }

    /// That much time passes at once.
    pub(crate) fn pass(&self, span: Duration) {
        self.clock.set(self.clock.now().plus(span));
    }

    pub(crate) async fn stop(self) {
        drop(self.owner);
        self.stop.stop();
        self.serving.await.unwrap().unwrap();
    }
}

pub(crate) type Agent = AgentServiceClient<InterceptedService<Channel, Headers>>;
pub(crate) type Person = OperatorServiceClient<InterceptedService<Channel, Headers>>;

/// What a call carries.
#[derive(Clone)]
pub(crate) struct Headers(pub(crate) Vec<(&'static str, String)>);

impl Headers {
    pub(crate) fn none() -> Self {
        Self(vec![])
    }

    pub(crate) fn and(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, value.to_owned()));
        self
    }
}

/// The token of somebody by that name.
impl From<&str> for Headers {
    fn from(name: &str) -> Self {
        Self::none().and("authorization", &format!("Bearer {}", token(name)))
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in &self.0 {
            let value: AsciiMetadataValue = value.parse().unwrap();
            let name = AsciiMetadataKey::from_static(name);
            request.metadata_mut().append(name, value);
        }
        Ok(request)
    }
}

// === Requests ===

pub(crate) fn get(id: &str) -> pb::GetRequest {
    pb::GetRequest { id: id.to_owned() }
}

pub(crate) fn run_of(invocation: &str, user: &str) -> pb::OpenRunRequest {
    pb::OpenRunRequest {
        agent: "billing".into(),
        session: "s1".into(),
        invocation: invocation.into(),
        user: user.into(),
        ..Default::default()
    }
}

/// May the tool run?
pub(crate) fn question(run: &str, target: &str, asks: pb::Asks) -> pb::FileRequest {
    pb::FileRequest {
        run_id: run.into(),
        key: format!("{run}/{target}"),
        target_id: target.into(),
        subject: Some(pb::file_request::Subject::Tool(pb::ToolSubject {
            name: "pay".into(),
            task_id: String::new(),
        })),
        title: format!("Pay {target}"),
        detail: Some(pb::Detail {
            prompt: "May I?".into(),
            args_json: Some(br#"{"to":"x"}"#.into()),
            ..Default::default()
        }),
        asks: asks.into(),
        deadline: Some(pb::Deadline {
            after: Some(prost_types::Duration {
                seconds: 3600,
                nanos: 0,
            }),
            on_deadline: 0,
        }),
        ..Default::default()
    }
}

pub(crate) fn decision(
    filed: &pb::FileResponse,
    verdict: pb::Verdict,
    decision_id: &str,
) -> pb::DecideRequest {
    pb::DecideRequest {
        id: filed.approval_id.clone(),
        verdict: verdict.into(),
        digest: filed.digest.clone(),
        decision_id: decision_id.into(),
        ..Default::default()
    }
}

pub(crate) fn extension(id: &str, seconds: i64) -> pb::ExtendRequest {
    pb::ExtendRequest {
        id: id.into(),
        after: Some(prost_types::Duration { seconds, nanos: 0 }),
    }
}

pub(crate) fn dismissal(id: &str) -> pb::DismissRequest {
    pb::DismissRequest {
        id: id.into(),
        note: String::new(),
    }
}

pub(crate) fn waiting(id: &str) -> pb::AwaitRequest {
    pb::AwaitRequest {
        approval_id: id.into(),
        ..Default::default()
    }
}

pub(crate) async fn open(agent: &mut Agent, invocation: &str, user: &str) -> String {
    let opened = agent.open_run(run_of(invocation, user)).await;
    opened.unwrap().into_inner().run_id
}

pub(crate) async fn file(agent: &mut Agent, filing: pb::FileRequest) -> pb::FileResponse {
    agent.file(filing).await.unwrap().into_inner()
}

/// `ok`, the word of a refusal of ours, or the code of anything else.
pub(crate) fn word<T>(answer: &Result<Response<T>, Status>) -> String {
    let status = match answer {
        Ok(_) => return "ok".into(),
        Err(status) => status,
    };
    match refused(status) {
        Some(told) => {
            assert_eq!(status.message(), told.message);
            told.word
        }
        None => format!("{:?}", status.code()),
    }
}
