//! Our own registry, with as many questions in it as a measurement needs.

use std::{path::Path, sync::Arc};

use pilothouse::serve::{
    Listeners, Server,
    clock::Clock,
    identity::Identity,
    limits::{Limits, Rate},
    owner::{Owner, randomness},
    stop::Stop,
};
use registry::{
    ApprovalId, Asks, Detail, Digest, Name, Principal, Role, RunId, Tenant, Untrusted, Wish,
    approval::{Filing, Hold, OnDeadline, Risk, Seen, Subject, Verdict},
    command::{Decide, File, OpenRun},
    decide::Reply,
    form::{Form, RawAnswers},
    log::{Log, Sqlite},
    names::{DecisionId, Key},
    run::{RunKey, Source},
};
use tokio::{net::UnixStream, task::JoinHandle};
use tonic::transport::{Channel, Endpoint};

/// Questions of one run.
const PER_RUN: usize = 100;

pub(crate) type Fault = Box<dyn std::error::Error>;

/// A question, and what binds an answer to it.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) id: ApprovalId,
    pub(crate) digest: Digest,
}

#[derive(Clone)]
pub(crate) struct Ours {
    pub(crate) owner: Owner,
}

impl Ours {
    pub(crate) fn on(log: Box<dyn Log>) -> Result<Self, Fault> {
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(log, Clock::System, None, fatal)?;
        Ok(Self { owner })
    }

    pub(crate) fn in_file(path: &Path) -> Result<Self, Fault> {
        Self::on(Box::new(Sqlite::open(path)?))
    }

    async fn open_run(&self, by: &Principal) -> Result<RunId, Fault> {
        let id = RunId::mint(self.owner.now(), randomness()?);
        let wish = Wish::OpenRun(OpenRun {
            id,
            key: RunKey {
                tenant: by.tenant().clone(),
                source: Source::Native,
                agent: "billing".into(),
                session: Untrusted::new("s1"),
                invocation: Untrusted::new(id.to_string()),
            },
            project: Untrusted::default(),
            thread: Untrusted::default(),
            origin: Untrusted::default(),
            owner: None,
            parent: None,
            can_resume: true,
            context: Untrusted::default(),
        });
        match self.owner.submit(by.clone(), wish).await? {
            Reply::Run(run) => Ok(run),
            other => Err(format!("{other:?}").into()),
        }
    }

    /// Files `count` questions, a thousand at once.
    pub(crate) async fn file(&self, count: usize) -> Result<Vec<Asked>, Fault> {
        self.file_as(&agent(&Tenant::local()), count).await
    }

    pub(crate) async fn file_as(&self, by: &Principal, count: usize) -> Result<Vec<Asked>, Fault> {
        let mut asked = Vec::with_capacity(count);
        while asked.len() < count {
            let mut filing = Vec::new();
            for _ in 0..10 {
                let run = self.open_run(by).await?;
                for n in 0..PER_RUN.min(count - asked.len() - filing.len()) {
                    let id = ApprovalId::mint(self.owner.now(), randomness()?);
                    let file = File {
                        id,
                        run,
                        filing: question(run, n),
                        past: None,
                    };
                    let (owner, by) = (self.owner.clone(), by.clone());
                    filing.push(tokio::spawn(async move {
                        owner.submit(by, Wish::File(Box::new(file))).await
                    }));
                }
            }
            for filed in filing {
                let Reply::Approval(id) = filed.await?? else {
                    return Err("nothing was filed".into());
                };
                let state = self.owner.state();
                let digest = state.approval(id).ok_or("it is not there")?.digest;
                asked.push(Asked { id, digest });
            }
        }
        Ok(asked)
    }

    pub(crate) async fn decide(&self, by: &Principal, asked: Asked) -> Result<(), Fault> {
        self.owner.submit(by.clone(), decision(asked)).await?;
        Ok(())
    }
}

/// About 220 bytes of it, as the limits were measured with.
fn question(run: RunId, n: usize) -> Filing {
    Filing {
        key: Key::parse(&format!("{run}/call-{n}")).ok(),
        target: Untrusted::new(format!("call-{n}")),
        step: Untrusted::default(),
        subject: Subject::Tool {
            name: "pay_invoice".into(),
            task: Untrusted::default(),
        },
        title: Untrusted::new("Pay invoice 4711 of Northwind"),
        detail: Detail {
            prompt: "May I pay this?".into(),
            args: Some(Untrusted::new(r#"{"to":"northwind","cents":120000}"#)),
            ..Detail::default()
        },
        asks: Asks::Operator,
        labels: Default::default(),
        deadline: Some(std::time::Duration::from_secs(7 * 24 * 3600)),
        on_deadline: OnDeadline::Expire,
        hold: Hold::Nothing,
        risk: Risk::Normal,
        votes: 1,
    }
}

fn decision(asked: Asked) -> Wish {
    let id = DecisionId::parse(&format!("d{}", asked.id));
    Wish::Decide(Box::new(Decide {
        id: asked.id,
        decision: id.expect("printable"),
        verdict: Verdict::Approve,
        digest: asked.digest,
        answers: RawAnswers::default(),
        note: Untrusted::default(),
        seen: Seen::Whole,
        on_behalf_of: None,
        form: Form::default(),
        past: None,
        decided_before: None,
    }))
}

pub(crate) fn agent(tenant: &Tenant) -> Principal {
    let name = Name::parse("agent:billing").expect("a name");
    Principal::new(name, tenant.clone(), [Role::Agent])
}

pub(crate) fn operator() -> Principal {
    let name = Name::parse("operator:ops").expect("a name");
    Principal::new(name, Tenant::local(), [Role::Operator])
}

/// Our server on a socket.
pub(crate) struct Serving {
    pub(crate) ours: Ours,
    path: std::path::PathBuf,
    stop: Stop,
    task: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Serving {
    pub(crate) async fn start(ours: Ours, dir: &Path) -> Result<Self, Fault> {
        let path = dir.join(format!("sock-{}", randomness()? as u32));
        let socket = pilothouse::serve::listen_on_socket(&path)?;
        let stop = Stop::default();
        let server = Server::new(ours.owner.clone(), Identity::of_the_socket(), stop.clone())
            .with_limits(plenty());
        let listeners = Listeners {
            socket: Some(socket),
            ..Listeners::default()
        };
        let task = tokio::spawn(server.run(listeners));
        Ok(Self {
            ours,
            path,
            stop,
            task,
        })
    }

    pub(crate) async fn channel(&self) -> Result<Channel, Fault> {
        connect(&self.path).await
    }

    pub(crate) async fn end(self) -> Result<(), Fault> {
        self.stop.stop();
        self.task.await??;
        Ok(())
    }
}

/// What is measured is not how much one caller may take.
fn plenty() -> Limits {
    let rate = Rate {
        per_second: 1_000_000,
        burst: 1_000_000,
    };
    Limits {
        file: rate,
        decide: rate,
        list: rate,
        watch: rate,
        streams: 1_000_000,
        waits: 1_000_000,
        ..Limits::default()
    }
}

pub(crate) async fn connect(path: &Path) -> Result<Channel, Fault> {
    let path: Arc<Path> = path.into();
    let connect = move |_| {
        let path = path.clone();
        async move {
            let stream = UnixStream::connect(&path).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    };
    let endpoint = Endpoint::from_static("http://bench.invalid");
    Ok(endpoint
        .connect_with_connector(tower::service_fn(connect))
        .await?)
}

/// Two threads, as the server has on two cores.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, std::io::Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
