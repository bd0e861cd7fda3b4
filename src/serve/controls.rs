//! Orders to runs: people give them, agents take them.
//!
//! An order is recorded as sent before it is sent, and comes again on a new stream until it is acked: nothing is lost
//! between the two, and an agent knows it by its id.

use std::{collections::HashSet, sync::Arc};

use registry::{
    Control, EscalationId, Principal, Refusal, Run, RunId, Wish,
    command::Raise,
    decide::Reply,
    drift::Level,
    names::{ControlId, DriftId},
    who::{Verb, may},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    Server,
    owner::{Cursor, Owner},
    presence::Held,
    stop::{Stop, Until},
};
use crate::wire::{
    pb::pilothouse::v1::{
        ControlRequest, ControlResponse, ControlsRequest, ControlsResponse, ReportDriftRequest,
        ReportDriftResponse,
    },
    pilothouse as wire,
    status::status,
};

/// Orders on their way to one agent; past it the flow control of the stream holds them back.
const IN_FLIGHT: usize = 16;

/// What an agent reads its orders from.
pub(super) type Orders = ReceiverStream<Result<ControlsResponse, Status>>;

impl Server {
    pub(super) fn escalation_id(&self) -> Result<EscalationId, Status> {
        Ok(EscalationId::mint(self.owner.now(), self.randomness()?))
    }

    fn random_text(&self) -> Result<String, Status> {
        Ok(format!("{:032x}", self.randomness()?))
    }

    fn drift_ids(&self) -> Result<wire::DriftIds, Status> {
        let refused = |refusal: Refusal| status(&refusal);
        let drift = || DriftId::parse(&self.random_text()?).map_err(refused);
        Ok(wire::DriftIds {
            drift: drift()?,
            raise: Raise {
                escalation: self.escalation_id()?,
                control: ControlId::parse(&self.random_text()?).map_err(refused)?,
                drift: drift()?,
            },
        })
    }

    pub(super) async fn drifted(
        &self,
        by: Principal,
        request: ReportDriftRequest,
    ) -> Result<ReportDriftResponse, Status> {
        let wish = wire::report_drift(request, self.drift_ids()?);
        match self.wish(by, wish).await? {
            Reply::Level(level) => Ok(wire::drifted(level)),
            // Reported before, so long ago that State has let it go: whatever it was, it was dealt with.
            _ => Ok(wire::drifted(Level::Observe)),
        }
    }

    /// A person has a run do something.
    pub(super) async fn control_one(
        &self,
        by: Principal,
        request: ControlRequest,
    ) -> Result<ControlResponse, Status> {
        let raise = self.escalation_id()?;
        let directed = async {
            let Reply::Control(run, id) = self.judge(by, wire::control(request, raise)?).await?
            else {
                return Err(Refusal::NotFound("run"));
            };
            let known = self.owner.state().run(run).cloned();
            let control = known.as_ref().and_then(|run| run.control(&id));
            let control = control.ok_or(Refusal::NotFound("run"))?;
            Ok(wire::controlled(control))
        };
        directed.await.map_err(|refusal| status(&refusal))
    }

    /// What a run is told to do, until it ends.
    pub(super) async fn orders(
        &self,
        by: Principal,
        request: ControlsRequest,
    ) -> Result<Orders, Refusal> {
        let run = wire::controls(request)?;
        self.own_live_run(&by, run)?;
        // From before the first look, so that no order is missed.
        let head = self.owner.state().head();
        let cursor = self.owner.cursor(head);
        self.hear(run, &by).await;
        let (to, orders) = mpsc::channel(IN_FLIGHT);
        let listener = Listener {
            owner: self.owner.clone(),
            stop: self.stop.clone(),
            _held: self.leases.hold(run, &by),
            by,
            run,
            to,
            given: HashSet::new(),
        };
        tokio::spawn(listener.listen(cursor));
        Ok(ReceiverStream::new(orders))
    }

    fn own_live_run(&self, by: &Principal, run: RunId) -> Result<(), Refusal> {
        may(by, Verb::Work, None, None)?;
        let state = self.owner.state();
        let run = state.run(run).filter(|run| run.key.tenant == *by.tenant());
        let run = run.ok_or(Refusal::NotFound("run"))?;
        if run.opened_by != *by.name() {
            return Err(Refusal::NotYours("another agent opened this run"));
        }
        if run.state.is_over() {
            return Err(Refusal::RunOver);
        }
        Ok(())
    }
}

/// An agent that listens for the orders to one of its runs; while it does, it is there.
struct Listener {
    owner: Owner,
    stop: Stop,
    by: Principal,
    run: RunId,
    to: mpsc::Sender<Result<ControlsResponse, Status>>,
    given: HashSet<ControlId>,
    _held: Held,
}

impl Listener {
    /// Ends with the run, with the agent, or with the server.
    async fn listen(mut self, mut cursor: Cursor) -> Option<()> {
        loop {
            let run = self.owner.state().run(self.run).cloned()?;
            self.give(&run).await?;
            if run.state.is_over() {
                return Some(());
            }
            self.until_moved(&mut cursor).await?;
        }
    }

    async fn until_moved(&self, cursor: &mut Cursor) -> Option<()> {
        loop {
            let gone = self.to.closed();
            let events = tokio::select! {
                () = gone => return None,
                events = self.stop.wait().until(cursor.next()) => events,
            };
            let ours = |event: &Arc<registry::Recorded>| event.event.run() == Some(self.run);
            // Only a run that is over ends a stream cleanly.
            let why = match events {
                Some(Some(events)) if events.iter().any(ours) => return Some(()),
                Some(Some(_)) => continue,
                Some(None) => "the log cannot be read",
                None => "the server is stopping",
            };
            let cut = Status::unavailable(why);
            return self.to.send(Err(cut)).await.ok().and(None);
        }
    }

    async fn give(&mut self, run: &Run) -> Option<()> {
        let waiting = run
            .controls
            .iter()
            .filter(|control| control.waits_for_ack());
        let new: Vec<&Control> = waiting
            .filter(|control| !self.given.contains(&control.id))
            .collect();
        for control in new {
            let hand_over = Wish::HandOver {
                run: self.run,
                control: control.id.clone(),
            };
            let handed = self.owner.submit(self.by.clone(), hand_over).await;
            if let Err(refusal) = handed {
                return self.to.send(Err(status(&refusal))).await.ok().and(None);
            }
            self.given.insert(control.id.clone());
            self.to.send(Ok(wire::handed_over(control))).await.ok()?;
        }
        Some(())
    }
}
