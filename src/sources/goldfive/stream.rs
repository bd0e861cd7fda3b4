//! One telemetry stream of an agent, from its hello to its end.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use registry::{
    ApprovalId, EscalationId, Principal, Run, RunId, Untrusted, Wish, command::OpenRun,
    decide::Reply, run::RunKey,
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

use super::{
    agents::Agents,
    drifts::{self, Observers},
    facts,
    persist::{hex, randomness, until_judged, warn_of},
};
use crate::{
    serve::owner::Owner,
    wire::{
        goldfive::{Envelope, Frame, Hello, frame, welcome},
        pb::harmonograf::v1::{TelemetryDown, TelemetryUp},
    },
};

/// Events kept until the hello comes.
const EARLY_EVENTS: usize = 1024;
/// The same, as their originals.
const EARLY_BYTES: usize = 1024 * 1024;
/// Event ids remembered on one stream, so that a repeat is not recorded twice.
const SEEN_EVENTS: usize = 8192;

/// Reads the stream in a task of its own; what comes back is what the agent is told.
pub(super) fn listen(
    owner: Owner,
    agents: Agents,
    stopped: impl Future<Output = ()> + Send + 'static,
    up: Streaming<TelemetryUp>,
) -> impl Stream<Item = Result<TelemetryDown, Status>> {
    let (down, told) = mpsc::channel(16);
    let follow = async move {
        let stream = AgentStream {
            id: format!("str_{}", hex().await),
            owner,
            agents,
            down,
            who: None,
            early: Early::default(),
            runs: BTreeMap::new(),
            seen: Seen::default(),
            observers: Observers::default(),
        };
        stream.follow(up).await;
    };
    tokio::spawn(async move {
        // Whatever it waits for: a server that stops waits for no agent.
        tokio::select! {
            () = follow => {}
            () = stopped => {}
        }
    });
    ReceiverStream::new(told)
}

struct AgentStream {
    id: String,
    owner: Owner,
    agents: Agents,
    down: mpsc::Sender<Result<TelemetryDown, Status>>,
    who: Option<Arc<Who>>,
    early: Early,
    /// The runs that it speaks for, and as whom.
    runs: BTreeMap<RunId, Principal>,
    seen: Seen,
    observers: Observers,
}

struct Who {
    agent: String,
    session: String,
    by: Principal,
    context: Untrusted,
}

/// What came before the hello, which says whose it is.
#[derive(Default)]
struct Early {
    events: Vec<Envelope>,
    bytes: usize,
}

/// Which events were recorded, by the hash of their id.
#[derive(Default)]
struct Seen(HashSet<u128>);

impl AgentStream {
    async fn follow(mut self, mut up: Streaming<TelemetryUp>) {
        loop {
            // A killed process looks like an end without a goodbye, or like an error: it is gone.
            match up.message().await {
                Ok(Some(message)) => self.take(frame(message)).await,
                Ok(None) => break,
                Err(lost) => {
                    tracing::info!(code = ?lost.code(), "an agent's stream was cut");
                    break;
                }
            }
        }
        self.end().await;
    }

    async fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Hello(hello) => self.hello(hello).await,
            Frame::Event(envelope) if self.who.is_none() => self.keep_early(*envelope).await,
            Frame::Event(envelope) => self.event(*envelope).await,
            Frame::Ack {
                control_id,
                result,
                detail,
            } => {
                let agent = self.who.as_ref().map_or("", |who| &who.agent);
                let agent = facts::agent(agent);
                self.agents
                    .acked(&agent, &control_id, result, &detail)
                    .await;
            }
            Frame::Unreadable(unreadable) => warn_of("a frame cannot be read", &unreadable),
            Frame::Heartbeat { .. } | Frame::Goodbye { .. } | Frame::Other(_) => {}
        }
    }

    async fn hello(&mut self, hello: Hello) {
        let welcome = welcome(&hello.session_id, &self.id, self.owner.now().ms());
        // An agent that hangs up meanwhile ends the stream, which is seen where it is read.
        let _ = self.down.send(Ok(welcome)).await;
        let context = facts::context(&hello);
        self.meet(&hello.agent_id, hello.session_id, context).await;
    }

    async fn meet(&mut self, agent: &str, session: String, context: Untrusted) {
        let agent = facts::agent(agent);
        self.who = Some(Arc::new(Who {
            by: facts::principal(&agent),
            agent,
            session,
            context,
        }));
        for envelope in std::mem::take(&mut self.early).events {
            self.event(envelope).await;
        }
    }

    /// No hello comes, or too late: what was said is recorded all the same.
    async fn meet_nobody(&mut self) {
        self.meet("", String::new(), Untrusted::default()).await;
    }

    /// Events before the hello keep their own session.
    async fn keep_early(&mut self, envelope: Envelope) {
        self.early.bytes += envelope.raw.len();
        self.early.events.push(envelope);
        if self.early.events.len() >= EARLY_EVENTS || self.early.bytes >= EARLY_BYTES {
            self.meet_nobody().await;
        }
    }

    async fn event(&mut self, mut envelope: Envelope) {
        if !facts::matters(&envelope.what) || self.seen.holds(&envelope) {
            return;
        }
        let Some(who) = self.who.clone() else { return };
        if envelope.session_id.is_empty() {
            envelope.session_id = who.session.clone();
        }
        let Some(run) = self.run_of(&who, &envelope).await else {
            return;
        };
        self.observers.note(run.id, &envelope.what);
        let (now, random) = (self.owner.now(), randomness().await);
        let holds = self.observers.stands_still(run.id, &envelope.what);
        let holds = holds.then(|| EscalationId::mint(now, random));
        let id = ApprovalId::mint(now, random);
        let went_on = drifts::went_on(&run, &envelope.what);
        let said = facts::wish(&who.agent, &run, id, holds, &envelope);
        for wish in went_on.into_iter().chain(said) {
            self.record(&who.by, wish, &envelope).await;
        }
    }

    async fn record(&mut self, by: &Principal, wish: Wish, envelope: &Envelope) {
        let original = facts::original(&envelope.raw);
        let observe = || {
            let (by, wish) = (by.clone(), wish.clone());
            self.owner.observe(by, wish, original.to_vec())
        };
        match until_judged(observe).await {
            Ok(_) => self.seen.insert(envelope),
            Err(refusal) => warn_of("not recorded", &refusal),
        }
    }

    /// The run that an event is about, opened if it is not known, or over and begun again.
    async fn run_of(&mut self, who: &Who, envelope: &Envelope) -> Option<Arc<Run>> {
        let key = facts::run_key(&who.agent, envelope);
        let known = self.owner.state().run_by_key(&key).cloned();
        if let Some(run) = known {
            let needs_no_opening = match run.state.is_over() {
                true => !facts::begins(&envelope.what),
                false => self.runs.contains_key(&run.id),
            };
            if needs_no_opening {
                return Some(run);
            }
        }
        let run = self.open(who, key).await?;
        self.owner.state().run(run).cloned()
    }

    async fn open(&mut self, who: &Who, key: RunKey) -> Option<RunId> {
        let open = OpenRun {
            id: RunId::mint(self.owner.now(), randomness().await),
            thread: key.session.clone(),
            key,
            project: Untrusted::default(),
            origin: Untrusted::default(),
            owner: None,
            parent: None,
            can_resume: true,
            context: who.context.clone(),
        };
        let opened = until_judged(|| {
            let wish = Wish::OpenRun(open.clone());
            self.owner.submit(who.by.clone(), wish)
        });
        match opened.await {
            Ok(Reply::Run(run)) => {
                if self.runs.insert(run, who.by.clone()).is_none() {
                    self.agents.attend(run, &who.by).await;
                }
                Some(run)
            }
            Ok(_) => None,
            Err(refusal) => {
                warn_of("a run could not be opened", &refusal);
                None
            }
        }
    }

    async fn end(mut self) {
        if self.who.is_none() && !self.early.events.is_empty() {
            self.meet_nobody().await;
        }
        self.agents.unsubscribe(&self.id);
        for (run, by) in self.runs {
            self.agents.leave(run, &by).await;
        }
    }
}

impl Seen {
    fn holds(&self, envelope: &Envelope) -> bool {
        facts::id_hash(envelope).is_some_and(|hash| self.0.contains(&hash))
    }

    fn insert(&mut self, envelope: &Envelope) {
        if self.0.len() >= SEEN_EVENTS {
            self.0.clear();
        }
        self.0.extend(facts::id_hash(envelope));
    }
}
