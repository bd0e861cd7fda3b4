//! One telemetry stream of an agent, from its hello to its end.

use std::collections::{BTreeSet, HashMap};

use registry::{
    ApprovalId, Name, Principal, Role, RunId, Tenant, Untrusted, Wish,
    command::OpenRun,
    decide::Reply,
    digest::Sha256,
    limits,
    run::{RunKey, Source},
};
use tokio::sync::{mpsc, watch};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

use super::{
    agents::{Agents, hex},
    facts,
};
use crate::{
    serve::owner::Owner,
    wire::{
        goldfive::{Envelope, Frame, Hello, frame, welcome},
        pb::harmonograf::v1::{TelemetryDown, TelemetryUp},
    },
};

/// Events kept that came before the hello.
const EARLY_EVENTS: usize = 1024;
/// Event ids remembered on one stream, so that a repeat is not recorded twice.
const SEEN_EVENTS: usize = 8192;

/// Reads the stream in a task of its own; what comes back is what the agent is told.
pub(super) fn listen(
    owner: Owner,
    agents: Agents,
    mut stopping: watch::Receiver<bool>,
    mut up: Streaming<TelemetryUp>,
) -> impl Stream<Item = Result<TelemetryDown, Status>> {
    let (down, told) = mpsc::channel(16);
    let mut stream = AgentStream {
        owner,
        agents,
        down,
        who: None,
        early: Vec::new(),
        runs: HashMap::new(),
        seen: BTreeSet::new(),
    };
    tokio::spawn(async move {
        loop {
            // A killed process looks like an end without a goodbye, or like an error: it is gone.
            let next = tokio::select! {
                next = up.message() => next,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            match next {
                Ok(Some(message)) => stream.take(frame(message)).await,
                Ok(None) => break,
                Err(lost) => {
                    tracing::info!(code = ?lost.code(), "an agent's stream was cut");
                    break;
                }
            }
        }
        stream.end().await;
    });
    ReceiverStream::new(told)
}

struct AgentStream {
    owner: Owner,
    agents: Agents,
    down: mpsc::Sender<Result<TelemetryDown, Status>>,
    who: Option<Who>,
    early: Vec<Envelope>,
    runs: HashMap<(String, String), RunId>,
    seen: BTreeSet<String>,
}

struct Who {
    agent: String,
    session: String,
    principal: Principal,
}

impl AgentStream {
    async fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Hello(hello) => self.hello(hello).await,
            Frame::Event(envelope) if self.who.is_none() => self.keep_early(*envelope),
            Frame::Event(envelope) => self.event(*envelope).await,
            Frame::Ack {
                control_id,
                result,
                detail,
            } => {
                self.agents.acked(&control_id, result, &detail).await;
            }
            Frame::Unreadable(unreadable) => tracing::warn!("goldfive: {unreadable}"),
            Frame::Heartbeat { .. } | Frame::Goodbye { .. } | Frame::Other(_) => {}
        }
    }

    async fn hello(&mut self, hello: Hello) {
        let stream = format!("str_{}", hex());
        let welcome = welcome(&hello.session_id, &stream, self.owner.now().ms());
        // An agent that hangs up meanwhile ends the stream, which is seen where it is read.
        let _ = self.down.send(Ok(welcome)).await;
        self.meet(hello.agent_id, hello.session_id).await;
    }

    async fn meet(&mut self, agent: String, session: String) {
        let principal = principal(&agent);
        self.who = Some(Who {
            agent,
            session,
            principal,
        });
        for envelope in std::mem::take(&mut self.early) {
            self.event(envelope).await;
        }
    }

    /// Events before the hello keep their own session.
    fn keep_early(&mut self, envelope: Envelope) {
        if self.early.len() < EARLY_EVENTS {
            self.early.push(envelope);
        }
    }

    async fn event(&mut self, mut envelope: Envelope) {
        if !facts::matters(&envelope.what) || self.is_repeat(&envelope) {
            return;
        }
        let Some(who) = &self.who else { return };
        let (agent, by) = (who.agent.clone(), who.principal.clone());
        if envelope.session_id.is_empty() {
            envelope.session_id = who.session.clone();
        }
        let Some(run) = self.run_of(&by, &agent, &envelope).await else {
            return;
        };
        let Some(id) = self.mint() else { return };
        let Some(wish) = facts::wish(&agent, run, id, &envelope) else {
            return;
        };
        if let Err(refusal) = self.owner.observe(by, wish, envelope.raw).await {
            tracing::warn!("goldfive: not recorded: {refusal}");
        }
    }

    fn is_repeat(&mut self, envelope: &Envelope) -> bool {
        if envelope.event_id.is_empty() {
            return false;
        }
        if self.seen.len() >= SEEN_EVENTS {
            self.seen.clear();
        }
        !self.seen.insert(envelope.event_id.clone())
    }

    fn mint(&self) -> Option<ApprovalId> {
        Some(ApprovalId::mint(
            self.owner.now(),
            self.agents.randomness()?,
        ))
    }

    /// The run that an event is about, opened if the event begins it.
    async fn run_of(&mut self, by: &Principal, agent: &str, envelope: &Envelope) -> Option<RunId> {
        let session = &envelope.session_id;
        let named = if envelope.run_id.is_empty() {
            session
        } else {
            &envelope.run_id
        };
        let place = (session.clone(), named.clone());
        let known = self.runs.get(&place).copied();
        let lives = known.filter(|id| {
            let state = self.owner.state();
            state.run(*id).is_some_and(|run| !run.state.is_over())
        });
        if lives.is_some() || (known.is_some() && !facts::begins(&envelope.what)) {
            return lives.or(known);
        }
        let open = OpenRun {
            id: RunId::mint(self.owner.now(), self.agents.randomness()?),
            key: RunKey {
                tenant: by.tenant().clone(),
                source: Source::Goldfive,
                agent: facts::short(agent, limits::NAME),
                session: facts::short(session, limits::NAME),
                invocation: facts::short(named, limits::NAME),
            },
            project: Untrusted::default(),
            thread: facts::short(session, limits::NAME),
            origin: Untrusted::default(),
            owner: None,
            parent: None,
            can_resume: true,
            context: Untrusted::default(),
        };
        let opened = self.owner.submit(by.clone(), Wish::OpenRun(open)).await;
        match opened {
            Ok(Reply::Run(run)) => {
                self.runs.insert(place, run);
                Some(run)
            }
            Ok(_) => None,
            Err(refusal) => {
                tracing::warn!("goldfive: a run could not be opened: {refusal}");
                None
            }
        }
    }

    /// The stream has ended: the agent is away, and what it asks stays open.
    async fn end(mut self) {
        if self.who.is_none() && !self.early.is_empty() {
            self.meet("unidentified".into(), String::new()).await;
        }
        let Some(who) = &self.who else { return };
        for run in self.runs.values().copied() {
            let away = Wish::Attend { run, here: false };
            // A run that has ended needs no mark.
            let _ = self.owner.submit(who.principal.clone(), away).await;
        }
        let runs: Vec<_> = self.runs.into_values().collect();
        self.agents.gone(&runs).await;
    }
}

/// `agent:goldfive/<agent id>`; one that cannot be a name is known by its hash.
pub(super) fn principal(agent: &str) -> Principal {
    let named = Name::parse(&format!("agent:goldfive/{agent}"));
    let hashed = || Name::parse(&format!("agent:goldfive/sha256-{}", Sha256::of(agent)));
    let name = named.or_else(|_| hashed());
    let name = name.unwrap_or_else(|_| Name::system("goldfive"));
    Principal::new(name, Tenant::local(), [Role::Agent])
}
