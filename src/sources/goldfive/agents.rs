//! The agents that are there, and the decisions on their way to them.
//!
//! A control is recorded as sent before it is sent. Nothing is sent twice, and nothing is taken for
//! done because sending it worked: an ack says so. What cannot arrive any more has failed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use registry::{
    ApprovalId, Event, Principal, RunId, Settled, Wish,
    approval::{Decision, Verdict},
    command::Observation,
    limits,
    names::ControlId,
    run::Source,
};
use tokio::{sync::mpsc, time::sleep};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{
    facts,
    persist::{PAUSE, hex, until_judged, warn_of},
};
use crate::{
    serve::owner::{Cursor, Owner},
    wire::{
        goldfive::{AckResult, Subscription, answer},
        pb::goldfive::v1::ControlEvent,
    },
};

/// Who is there, and what is on its way.
#[derive(Clone)]
pub(super) struct Agents {
    owner: Owner,
    desk: Arc<Mutex<Desk>>,
}

#[derive(Default)]
struct Desk {
    /// How many telemetry streams speak for a run; one that is not here has no agent.
    streams: HashMap<RunId, usize>,
    /// In the order in which they came.
    subscribers: Vec<Subscriber>,
    /// Recorded as sent, and not acked; also what waits.
    sent: HashMap<ControlId, Sent>,
    /// Decided while the agent had no subscription: the control comes with the next.
    waiting: Vec<Control>,
}

struct Subscriber {
    agent: String,
    session: String,
    /// The id of its telemetry stream, and maybe more.
    stream: String,
    /// Not bounded: people decide, one control for each question.
    to: mpsc::UnboundedSender<ControlEvent>,
}

struct Sent {
    id: ApprovalId,
    run: RunId,
    agent: String,
}

struct Control {
    id: ControlId,
    run: RunId,
    agent: String,
    session: String,
    event: ControlEvent,
}

/// Controls that will not be acked.
type Lost = Vec<(ControlId, Sent)>;

impl Agents {
    pub(super) fn new(owner: Owner) -> Self {
        Self {
            owner,
            desk: Arc::default(),
        }
    }

    /// One more stream speaks for the run.
    pub(super) async fn attend(&self, run: RunId, by: &Principal) {
        *self.desk().streams.entry(run).or_default() += 1;
        self.show_presence(run, by).await;
    }

    /// One of its streams has ended. With the last one the agent is away; what it asks stays open.
    pub(super) async fn leave(&self, run: RunId, by: &Principal) {
        let lost = self.desk().leave(run);
        self.fail(lost, "its agent went away before it took this")
            .await;
        self.show_presence(run, by).await;
    }

    /// Has it recorded whether the agent of the run is there, also if that changes meanwhile.
    async fn show_presence(&self, run: RunId, by: &Principal) {
        loop {
            let here = self.desk().streams.contains_key(&run);
            let attend = || self.owner.submit(by.clone(), Wish::Attend { run, here });
            // A run that has ended needs no mark.
            let _ = until_judged(attend).await;
            if self.desk().streams.contains_key(&run) == here {
                return;
            }
        }
    }

    /// An agent listens for controls; those that waited for it come first.
    pub(super) fn subscribe(&self, wish: Subscription) -> UnboundedReceiverStream<ControlEvent> {
        let (to, controls) = mpsc::unbounded_channel();
        self.desk().subscribe(Subscriber {
            agent: facts::agent(&wish.agent_id),
            session: facts::short(&wish.session_id, limits::NAME).raw().into(),
            stream: wish.stream_id,
            to,
        });
        UnboundedReceiverStream::new(controls)
    }

    /// A telemetry stream has ended: nobody would ack what its subscriptions still get, so they end.
    pub(super) fn unsubscribe(&self, stream: &str) {
        let belongs = |subscriber: &Subscriber| {
            let more = subscriber.stream.strip_prefix(stream);
            more.is_some_and(|more| more.is_empty() || more.starts_with(".sess:"))
        };
        self.desk().subscribers.retain(|other| !belongs(other));
    }

    /// Delivers each decision as it is recorded.
    pub(super) async fn deliver_for_ever(self, mut cursor: Cursor) {
        loop {
            let Some(events) = cursor.next().await else {
                tracing::error!("goldfive: the log cannot be read; decisions wait");
                sleep(PAUSE).await;
                continue;
            };
            for recorded in events {
                self.see(&recorded.event).await;
            }
        }
    }

    async fn see(&self, event: &Event) {
        match event {
            Event::ApprovalGranted { id, decision } => {
                self.deliver(*id, Verdict::Approve, decision).await;
            }
            Event::ApprovalRejected { id, decision } => {
                self.deliver(*id, Verdict::Reject, decision).await;
            }
            Event::RunEnded { run, .. } => self.give_up_what_waits(*run).await,
            _ => {}
        }
    }

    async fn deliver(&self, id: ApprovalId, verdict: Verdict, decision: &Decision) {
        let settled = self.owner.state().settled(id).cloned();
        let Some(settled) = settled.filter(|settled| is_ours(settled)) else {
            return;
        };
        let Ok(control_id) = ControlId::parse(&format!("ctl_{}", hex().await)) else {
            return;
        };
        let approval = &settled.approval;
        let agent = approval.from.agent.raw();
        let sent = Wish::Observe(Observation::Sent {
            id,
            control: control_id.clone(),
        });
        let by = facts::principal(agent);
        if let Err(refusal) = until_judged(|| self.owner.submit(by.clone(), sent.clone())).await {
            warn_of("a decision was not delivered", &refusal);
            return;
        }
        let event = answer(
            control_id.as_str(),
            agent,
            approval.target.raw(),
            verdict == Verdict::Approve,
            decision.note.raw(),
            self.owner.now().ms(),
        );
        let control = Control {
            id: control_id,
            run: approval.run,
            agent: agent.into(),
            session: approval.from.session.raw().into(),
            event,
        };
        let lost = self.desk().send(id, control);
        self.fail(lost, "its agent was gone before this was sent")
            .await;
    }

    /// A run that is over takes no answer, but what is with its agent may still be acked.
    async fn give_up_what_waits(&self, run: RunId) {
        let lost = self.desk().take_waiting(run);
        self.fail(lost, "the run ended before its agent asked for this")
            .await;
    }

    /// The agent took a control, or did not.
    pub(super) async fn acked(&self, control_id: &str, result: AckResult, detail: &str) {
        let Ok(control) = ControlId::parse(control_id) else {
            return;
        };
        let Some(sent) = self.desk().sent.remove(&control) else {
            return;
        };
        let detail = match result {
            AckResult::Success | AckResult::Failure => detail.to_owned(),
            AckResult::Unsupported => format!("unsupported: {detail}"),
            AckResult::Unknown(number) => format!("an unknown result ({number}): {detail}"),
        };
        self.report(control, &sent, result == AckResult::Success, &detail)
            .await;
    }

    async fn fail(&self, lost: Lost, why: &str) {
        for (control, sent) in lost {
            self.report(control, &sent, false, why).await;
        }
    }

    async fn report(&self, control: ControlId, sent: &Sent, success: bool, detail: &str) {
        let acked = Wish::Observe(Observation::Acked {
            id: sent.id,
            control,
            success,
            detail: facts::short(detail, limits::SAID),
        });
        let by = facts::principal(&sent.agent);
        if let Err(refusal) = until_judged(|| self.owner.submit(by.clone(), acked.clone())).await {
            warn_of("an ack was not recorded", &refusal);
        }
    }

    /// Never held across an await: the compiler sees to it, since a guard cannot change threads.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn subscribe(&mut self, subscriber: Subscriber) {
        self.subscribers.retain(|other| !other.to.is_closed());
        let theirs = |control: &mut Control| control.agent == subscriber.agent;
        for control in self.waiting.extract_if(.., theirs) {
            // Its other end has not been given away yet.
            let _ = subscriber.to.send(control.event);
        }
        self.subscribers.push(subscriber);
    }

    /// Sends what answers `id`, if its agent is there to ack it.
    fn send(&mut self, id: ApprovalId, control: Control) -> Lost {
        let (control_id, run) = (control.id.clone(), control.run);
        let sent = Sent {
            id,
            run,
            agent: control.agent.clone(),
        };
        if !self.streams.contains_key(&run) {
            return vec![(control_id, sent)];
        }
        self.sent.insert(control_id, sent);
        self.hand_over(control);
        vec![]
    }

    /// To the stream of that session, else to the agent's first: one of them, never two.
    fn hand_over(&mut self, mut control: Control) {
        let theirs = |other: &&Subscriber| other.agent == control.agent;
        let (mut theirs, others): (Vec<_>, Vec<_>) = self
            .subscribers
            .iter()
            .filter(theirs)
            .partition(|other| other.session == control.session);
        theirs.extend(others);
        for subscriber in theirs {
            match subscriber.to.send(control.event) {
                Ok(()) => return,
                Err(closed) => control.event = closed.0,
            }
        }
        self.waiting.push(control);
    }

    fn leave(&mut self, run: RunId) -> Lost {
        let streams = self.streams.entry(run).or_default();
        *streams = streams.saturating_sub(1);
        if *streams > 0 {
            return vec![];
        }
        self.streams.remove(&run);
        self.waiting.retain(|control| control.run != run);
        self.sent.extract_if(|_, sent| sent.run == run).collect()
    }

    fn take_waiting(&mut self, run: RunId) -> Lost {
        let waiting = self.waiting.extract_if(.., |control| control.run == run);
        waiting
            .filter_map(|control| self.sent.remove_entry(&control.id))
            .collect()
    }
}

fn is_ours(settled: &Settled) -> bool {
    settled.approval.from.source == Source::Goldfive && settled.delivery.is_none()
}
