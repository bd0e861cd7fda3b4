//! The agents that are there, and the decisions on their way to them.
//!
//! A control is recorded as sent before it is sent. Nothing is sent twice, and nothing is taken for
//! done because sending it worked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use registry::{
    ApprovalId, Event, RunId, Wish,
    approval::{Decision, Settled, Verdict},
    command::Observation,
    names::ControlId,
    run::{Presence, Source},
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};

use super::{facts, stream::principal};
use crate::{
    serve::owner::Owner,
    wire::{
        goldfive::{AckResult, Subscription, answer},
        pb::goldfive::v1::ControlEvent,
    },
};

/// Controls on their way to one agent.
const IN_FLIGHT: usize = 256;

/// Who is there, and what is on its way.
#[derive(Clone)]
pub(super) struct Agents {
    owner: Owner,
    desk: Arc<Mutex<Desk>>,
}

#[derive(Default)]
struct Desk {
    /// By agent id, in the order in which they came.
    subscribed: HashMap<String, Vec<Subscriber>>,
    /// Sent, and not confirmed.
    sent: HashMap<String, Sent>,
    /// Decided before the agent had subscribed: the control comes with the subscription.
    waiting: HashMap<String, Vec<Control>>,
}

struct Subscriber {
    session: String,
    to: mpsc::Sender<ControlEvent>,
}

#[derive(Clone, Debug)]
struct Sent {
    id: ApprovalId,
    run: RunId,
    agent: String,
}

struct Control {
    session: String,
    event: ControlEvent,
}

impl Agents {
    pub(super) fn new(owner: Owner) -> Self {
        Self {
            owner,
            desk: Arc::default(),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// 80 random bits for an id.
    pub(super) fn randomness(&self) -> Option<u128> {
        Some((u128::from(getrandom::u64().ok()?) << 64) | u128::from(getrandom::u64().ok()?))
    }

    /// An agent listens for controls; those that waited for it come first.
    pub(super) async fn subscribe(
        &self,
        wish: Subscription,
    ) -> impl Stream<Item = ControlEvent> + use<> {
        let (to, controls) = mpsc::channel(IN_FLIGHT);
        let waiting = {
            let mut desk = self.desk();
            let subscribers = desk.subscribed.entry(wish.agent_id.clone()).or_default();
            subscribers.retain(|other| !other.to.is_closed());
            subscribers.push(Subscriber {
                session: wish.session_id,
                to: to.clone(),
            });
            desk.waiting.remove(&wish.agent_id).unwrap_or_default()
        };
        for control in waiting {
            // A full or closed channel: the agent is gone, which its stream will say.
            let _ = to.try_send(control.event);
        }
        ReceiverStream::new(controls)
    }

    /// Delivers each decision as it is recorded.
    pub(super) async fn deliver_for_ever(self) {
        let head = self.owner.state().head();
        let mut cursor = self.owner.cursor(head);
        while let Some(events) = cursor.next().await {
            for recorded in events {
                let (id, verdict, decision) = match &*recorded.event {
                    Event::ApprovalGranted { id, decision } => (*id, Verdict::Approve, decision),
                    Event::ApprovalRejected { id, decision } => (*id, Verdict::Reject, decision),
                    _ => continue,
                };
                let settled = self.owner.state().settled(id).cloned();
                if let Some(settled) = settled.filter(|settled| is_ours(settled)) {
                    self.deliver(&settled, verdict, decision).await;
                }
            }
        }
        tracing::error!("goldfive: the log cannot be read; decisions are no longer delivered");
    }

    async fn deliver(&self, settled: &Settled, verdict: Verdict, decision: &Decision) {
        let approval = &settled.approval;
        let agent = approval.from.agent.raw().to_owned();
        let control_id = format!("ctl_{}", hex());
        let Ok(control) = ControlId::parse(&control_id) else {
            return;
        };
        let sent = Wish::Observe(Observation::Sent {
            id: approval.id,
            control,
        });
        if let Err(refusal) = self.owner.submit(principal(&agent), sent).await {
            tracing::warn!("goldfive: not delivered: {refusal}");
            return;
        }
        let event = answer(
            &control_id,
            &agent,
            approval.target.raw(),
            verdict == Verdict::Approve,
            decision.note.raw(),
            self.owner.now().ms(),
        );
        let session = approval.from.session.raw().to_owned();
        let sent = Sent {
            id: approval.id,
            run: approval.run,
            agent: agent.clone(),
        };
        {
            let mut desk = self.desk();
            desk.sent.insert(control_id, sent);
            desk.hand_over(&agent, Control { session, event });
        }
        // Its stream may have ended between the decision and here, and nobody would say so.
        let run = self.owner.state().run(approval.run).cloned();
        if run.is_none_or(|run| matches!(run.presence, Presence::Away { .. })) {
            self.gone(&[approval.run]).await;
        }
    }

    /// The agent took a control, or did not.
    pub(super) async fn acked(&self, control_id: &str, result: AckResult, detail: &str) {
        let Some(sent) = self.desk().sent.remove(control_id) else {
            return;
        };
        let detail = match result {
            AckResult::Success | AckResult::Failure => detail.to_owned(),
            AckResult::Unsupported => format!("unsupported: {detail}"),
            AckResult::Unknown(number) => format!("an unknown result ({number}): {detail}"),
        };
        self.report(control_id, &sent, result == AckResult::Success, &detail)
            .await;
    }

    /// These runs have lost their agent: what was sent to it and not taken has failed.
    pub(super) async fn gone(&self, runs: &[RunId]) {
        let lost: Vec<(String, Sent)> = {
            let mut desk = self.desk();
            let lost = desk.sent.extract_if(|_, sent| runs.contains(&sent.run));
            let lost: Vec<_> = lost.collect();
            for (_, sent) in &lost {
                desk.waiting.remove(&sent.agent);
            }
            desk.subscribed.retain(|_, subscribers| {
                subscribers.retain(|subscriber| !subscriber.to.is_closed());
                !subscribers.is_empty()
            });
            lost
        };
        for (control_id, sent) in lost {
            let detail = "its agent went away before it took this";
            self.report(&control_id, &sent, false, detail).await;
        }
    }

    async fn report(&self, control_id: &str, sent: &Sent, success: bool, detail: &str) {
        let Ok(control) = ControlId::parse(control_id) else {
            return;
        };
        let acked = Wish::Observe(Observation::Acked {
            id: sent.id,
            control,
            success,
            detail: facts::short(detail, registry::limits::SAID),
        });
        if let Err(refusal) = self.owner.submit(principal(&sent.agent), acked).await {
            tracing::warn!("goldfive: an ack was not recorded: {refusal}");
        }
    }
}

impl Desk {
    /// To the stream of that session, else to the agent's first: one of them, never two.
    fn hand_over(&mut self, agent: &str, control: Control) {
        let subscribers = self.subscribed.entry(agent.into()).or_default();
        subscribers.retain(|subscriber| !subscriber.to.is_closed());
        let same = |other: &&Subscriber| other.session == control.session;
        let chosen = subscribers.iter().find(same).or(subscribers.first());
        match chosen {
            Some(subscriber) => {
                let _ = subscriber.to.try_send(control.event);
            }
            None => self.waiting.entry(agent.into()).or_default().push(control),
        }
    }
}

fn is_ours(settled: &Settled) -> bool {
    settled.approval.from.source == Source::Goldfive && settled.delivery.is_none()
}

/// 16 random hex digits, as harmonograf's ids have them.
pub(super) fn hex() -> String {
    format!("{:016x}", getrandom::u64().unwrap_or_default())
}
