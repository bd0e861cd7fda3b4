//! The agents that are there, and the decisions and orders on their way to them.
//!
//! A control is recorded as sent before it is sent. Nothing is sent twice, and nothing is taken for
//! done because sending it worked: an ack says so. What cannot arrive any more has failed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use registry::{
    ApprovalId, Control, Event, Principal, RunId, Wish, command::AckResult, limits,
    names::ControlId, run::Source,
};
use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{
    delivery::{Delivery, answer, order},
    facts,
    persist::{PAUSE, hex, until_judged, warn_of},
};
use crate::{
    serve::owner::{Cursor, Owner},
    wire::{
        goldfive::{AckResult as Said, Subscription},
        pb::goldfive::v1::ControlEvent,
    },
};

/// Why something is not even sent.
const GONE: &str = "its agent was gone before this was sent";
const TAKEN: &str = "another control with this id is on its way to its agent";

/// Who is there, and what is on its way.
#[derive(Clone)]
pub(super) struct Agents {
    owner: Owner,
    desk: Arc<Mutex<Desk>>,
    /// Somebody new listens.
    heard: Arc<Notify>,
}

#[derive(Default)]
struct Desk {
    /// How many telemetry streams speak for a run; one that is not here has no agent.
    streams: HashMap<RunId, usize>,
    /// In the order in which they came.
    subscribers: Vec<Subscriber>,
    /// Not given out yet, oldest first: it may be that its agent does not listen.
    waiting: Vec<Parcel>,
    /// Recorded as sent, and not acked, by who is to ack it.
    sent: HashMap<(String, ControlId), Delivery>,
}

struct Subscriber {
    agent: String,
    session: String,
    /// The id of its telemetry stream, and maybe more.
    stream: String,
    /// Not bounded: people give orders, and to one run only so many at a time.
    to: mpsc::UnboundedSender<ControlEvent>,
}

struct Parcel {
    delivery: Delivery,
    session: String,
    event: ControlEvent,
}

impl Agents {
    pub(super) fn new(owner: Owner) -> Self {
        Self {
            owner,
            desk: Arc::default(),
            heard: Arc::default(),
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
        self.lose(lost, "its agent went away before it took this")
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

    /// An agent listens for controls; what waited for it comes first.
    pub(super) fn subscribe(&self, wish: Subscription) -> UnboundedReceiverStream<ControlEvent> {
        let (to, controls) = mpsc::unbounded_channel();
        self.desk().subscribe(Subscriber {
            agent: facts::agent(&wish.agent_id),
            session: facts::short(&wish.session_id, limits::NAME).raw().into(),
            stream: wish.stream_id,
            to,
        });
        self.heard.notify_one();
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

    /// Delivers each decision and each order as it is recorded.
    pub(super) async fn deliver_for_ever(self, mut cursor: Cursor) {
        loop {
            tokio::select! {
                events = cursor.next() => match events {
                    Some(events) => for recorded in events {
                        self.see(&recorded.event).await;
                    },
                    None => {
                        tracing::error!("goldfive: the log cannot be read; decisions wait");
                        sleep(PAUSE).await;
                    }
                },
                () = self.heard.notified() => {}
            }
            self.give_out().await;
        }
    }

    async fn see(&self, event: &Event) {
        match event {
            Event::ApprovalGranted { id, .. } | Event::ApprovalRejected { id, .. } => {
                self.carry_decision(*id).await;
            }
            Event::ControlIssued { control } => self.carry_order(control).await,
            Event::RunEnded { run, .. } => self.give_up_what_waits(*run).await,
            _ => {}
        }
    }

    async fn carry_decision(&self, id: ApprovalId) {
        let settled = self.owner.state().settled(id).cloned();
        let ours = settled.filter(|it| it.approval.from.source == Source::Goldfive);
        let Some(settled) = ours.filter(|it| it.delivery.is_none()) else {
            return;
        };
        let Ok(control) = ControlId::parse(&format!("ctl_{}", hex().await)) else {
            return;
        };
        let Some(wish) = answer(&settled) else { return };
        let delivery = Delivery::of_decision(&settled, control);
        let event = delivery.control(wish, self.owner.now().ms());
        let session = settled.approval.from.session.raw().into();
        self.accept(Parcel {
            delivery,
            session,
            event,
        })
        .await;
    }

    async fn carry_order(&self, control: &Control) {
        let run = self.owner.state().run(control.run).cloned();
        let Some(run) = run.filter(|run| run.key.source == Source::Goldfive) else {
            return;
        };
        let delivery = Delivery::of_order(&run, control);
        let event = delivery.control(order(control), self.owner.now().ms());
        let session = run.key.session.raw().into();
        self.accept(Parcel {
            delivery,
            session,
            event,
        })
        .await;
    }

    async fn accept(&self, parcel: Parcel) {
        let refused = self.desk().accept(parcel);
        if let Some((delivery, why)) = refused {
            delivery.lost(&self.owner, why).await;
        }
    }

    /// Whatever somebody listens for, in the order in which it came.
    async fn give_out(&self) {
        while let Some(parcel) = self.next() {
            if !self.desk().is_sent(&parcel.delivery)
                && let Err(refusal) = parcel.delivery.sent(&self.owner).await
            {
                warn_of("a control was not sent", &refusal);
                let why = format!("it could not be sent: {refusal}");
                parcel.delivery.lost(&self.owner, &why).await;
                continue;
            }
            let lost = self.desk().send(parcel);
            self.lose(lost, GONE).await;
        }
    }

    fn next(&self) -> Option<Parcel> {
        self.desk().next()
    }

    /// A run that is over takes nothing more, but what is with its agent may still be acked.
    async fn give_up_what_waits(&self, run: RunId) {
        let lost = self.desk().take_waiting(run);
        self.lose(lost, "the run ended before its agent asked for this")
            .await;
    }

    /// The agent took a control, or did not.
    pub(super) async fn acked(&self, agent: &str, control_id: &str, result: Said, detail: &str) {
        let Ok(control) = ControlId::parse(control_id) else {
            return;
        };
        let Some(sent) = self.desk().sent.remove(&(agent.to_owned(), control)) else {
            return;
        };
        let (result, detail) = match result {
            Said::Success => (AckResult::Success, detail.to_owned()),
            Said::Failure => (AckResult::Failure, detail.to_owned()),
            Said::Unsupported => (AckResult::Unsupported, detail.to_owned()),
            Said::Unknown(number) => {
                let said = format!("an unknown result ({number}): {detail}");
                (AckResult::Failure, said)
            }
        };
        sent.acked(&self.owner, result, &detail).await;
    }

    async fn lose(&self, lost: impl IntoIterator<Item = Delivery>, why: &str) {
        for delivery in lost {
            delivery.lost(&self.owner, why).await;
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
        self.subscribers.push(subscriber);
    }

    /// Takes it in, if its agent is there and can tell it from all else that it is to ack.
    fn accept(&mut self, parcel: Parcel) -> Option<(Delivery, &'static str)> {
        let (delivery, waiting) = (&parcel.delivery, &self.waiting);
        if !self.streams.contains_key(&delivery.run) {
            return Some((parcel.delivery, GONE));
        }
        let same = |other: &Parcel| other.delivery.to_ack() == delivery.to_ack();
        if self.is_sent(delivery) || waiting.iter().any(same) {
            return Some((parcel.delivery, TAKEN));
        }
        self.waiting.push(parcel);
        None
    }

    fn is_sent(&self, delivery: &Delivery) -> bool {
        self.sent.contains_key(&delivery.to_ack())
    }

    /// The oldest that somebody listens for.
    fn next(&mut self) -> Option<Parcel> {
        let heard = |parcel: &Parcel| self.listener(parcel).is_some();
        let next = self.waiting.iter().position(heard)?;
        Some(self.waiting.remove(next))
    }

    /// The stream of its session, else the agent's first: of an order only where that is its only one, since an agent
    /// takes it for whatever runs there. With several it waits, as all does that nobody hears, for that of its session,
    /// which comes after the session's first events (`wire/goldfive.md` §4.6).
    fn listener(&self, parcel: &Parcel) -> Option<&Subscriber> {
        let listens =
            |other: &&Subscriber| other.agent == parcel.delivery.agent && !other.to.is_closed();
        let mut theirs = self.subscribers.iter().filter(listens);
        let of_its_session = |other: &&Subscriber| other.session == parcel.session;
        if let Some(nearest) = theirs.clone().find(of_its_session) {
            return Some(nearest);
        }
        let first = theirs.next()?;
        let is_meant = parcel.delivery.names_its_target() || theirs.next().is_none();
        is_meant.then_some(first)
    }

    /// Sends what is recorded as sent, to one subscriber and never two.
    fn send(&mut self, parcel: Parcel) -> Option<Delivery> {
        let delivery = parcel.delivery.clone();
        if !self.streams.contains_key(&delivery.run) {
            return Some(delivery);
        }
        self.sent.insert(delivery.to_ack(), delivery);
        let listener = self.listener(&parcel);
        if listener.is_none_or(|listener| listener.to.send(parcel.event.clone()).is_err()) {
            // Nobody listens any more: it comes first with the next who does.
            self.waiting.insert(0, parcel);
        }
        None
    }

    fn leave(&mut self, run: RunId) -> Vec<Delivery> {
        let streams = self.streams.entry(run).or_default();
        *streams = streams.saturating_sub(1);
        if *streams > 0 {
            return vec![];
        }
        self.streams.remove(&run);
        let mut lost = self.take_waiting(run);
        let sent = self.sent.extract_if(|_, sent| sent.run == run);
        lost.extend(sent.map(|(_, delivery)| delivery));
        lost
    }

    fn take_waiting(&mut self, run: RunId) -> Vec<Delivery> {
        let waiting = self
            .waiting
            .extract_if(.., |parcel| parcel.delivery.run == run);
        let taken: Vec<Delivery> = waiting.map(|parcel| parcel.delivery).collect();
        for delivery in &taken {
            self.sent.remove(&delivery.to_ack());
        }
        taken
    }
}
