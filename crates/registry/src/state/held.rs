//! Folding what goes wrong in a run, what holds it, and what it is told.

use std::sync::Arc;

use super::{Gone, KEEP_ENDED, State};
use crate::{
    control::{Control, Step, Verb},
    drift::{Drift, Level},
    escalation::{Cause, Closed, Escalation, EscalationId, How},
    event::Seq,
    limits,
    names::{ControlId, DriftId},
    run::{Pause, Run, RunId},
    time::Timestamp,
};

impl State {
    pub(super) fn drift(&mut self, id: RunId, drift: &Drift, at: Timestamp) {
        self.change_run(id, |run| {
            run.count_drift(drift);
            run.drifts.push(Drift { at, ..drift.kept() });
            let excess = run.drifts.len().saturating_sub(limits::DRIFTS_KEPT);
            run.drifts.drain(..excess);
        });
    }

    pub(super) fn level(&mut self, id: RunId, drift: &DriftId, level: Level) {
        self.change_run(id, |run| {
            let known = run.drifts.iter_mut().rev().find(|known| known.id == *drift);
            if let Some(known) = known {
                known.level = Some(level);
            }
        });
    }

    pub(super) fn pause(&mut self, id: RunId, pause: Option<Pause>) {
        self.change_run(id, |run| {
            run.pause = pause;
            run.settle_state();
        });
    }

    pub(super) fn issue(&mut self, control: &Control) {
        self.change_run(control.run, |run| {
            run.controls.push(control.clone());
            run.let_go_of_controls();
        });
        self.change_answer(control.escalation, |closed| {
            if control.verb.answers() && closed.how.by() == Some(&control.by) {
                closed.control = Some(control.clone());
            }
        });
    }

    pub(super) fn move_control(
        &mut self,
        run: RunId,
        id: &ControlId,
        escalation: Option<EscalationId>,
        step: &Step,
    ) {
        let moved = |control: &mut Control| {
            if control.id == *id {
                control.steps.push(step.clone());
            }
        };
        self.change_run(run, |run| {
            run.controls.iter_mut().for_each(moved);
            run.let_go_of_controls();
        });
        self.change_answer(escalation, |closed| {
            closed.control.iter_mut().for_each(moved)
        });
        // Whatever became of the answer, it is kept for as long as the answer itself would be.
        if let Some(closed) = escalation.and_then(|id| self.closed.get(&id)) {
            let item = Gone::Item(closed.escalation.id.into());
            self.ended.push_back((step.at, item));
        }
    }

    pub(super) fn change_answer(
        &mut self,
        id: Option<EscalationId>,
        change: impl FnOnce(&mut Closed),
    ) {
        if let Some(closed) = id.and_then(|id| self.closed.get_mut(&id)) {
            change(Arc::make_mut(closed));
        }
    }

    pub(super) fn raise(&mut self, escalation: &Arc<Escalation>) {
        self.change_run(escalation.run, |run| run.held_by = Some(escalation.id));
        self.put_escalation(escalation.clone());
    }

    pub(super) fn close(&mut self, id: EscalationId, how: &How, at: Timestamp, seq: Seq) {
        let Some(escalation) = self.escalations.remove(&id) else {
            return;
        };
        if let Some(abort_at) = escalation.abort_at {
            self.deadlines.remove(&(abort_at, id.into()));
        }
        self.change_run(escalation.run, |run| {
            if run.held_by == Some(id) {
                run.held_by = None;
            }
            // A person says that it was nothing: what comes next is counted anew.
            let resumed = matches!(how, How::Answered { verb, .. } if *verb == Verb::Resume);
            for cause in escalation.causes().filter(|_| resumed) {
                if let Cause::Drift(drift) = cause {
                    run.counts.0.remove(&drift.condition());
                }
            }
        });
        self.put_closed(Arc::new(Closed {
            escalation,
            how: how.clone(),
            at,
            seq,
            control: None,
        }));
    }

    /// While its answer is under way, an escalation may have to be raised anew.
    pub(super) fn forget_closed(&mut self, id: EscalationId, at: Timestamp) {
        let moved_within = |closed: &Arc<Closed>| at.since(closed.moved_at()) <= KEEP_ENDED;
        let under_way = |closed: &Arc<Closed>| {
            let control = closed.control.as_ref();
            control.is_some_and(|control| !control.is_over())
        };
        let closed = self.closed.get(&id);
        if !closed.is_some_and(|closed| under_way(closed) || moved_within(closed)) {
            self.closed.remove(&id);
        }
    }
}

impl Run {
    /// A drift that the ladder judged counts for itself; the one that an escalation is recorded as
    /// counts for what it escalated from, and is not judged again.
    fn count_drift(&mut self, drift: &Drift) {
        let judged = drift.level.is_some() && drift.severity.is_critical();
        let condition = match &drift.from {
            Some(from) => (from.clone(), drift.task.clone()),
            None if judged => drift.condition(),
            None => return,
        };
        let full = self.counts.0.len() >= limits::COUNTS_KEPT;
        if full && !self.counts.0.contains_key(&condition) {
            return;
        }
        let count = self.counts.0.entry(condition).or_default();
        match drift.from {
            Some(_) => count.escalated = true,
            None => count.criticals += 1,
        }
    }

    /// Of the orders that the agent has said something to, the oldest go; but not one to stop that is under way.
    fn let_go_of_controls(&mut self) {
        let spent = |control: &Control| {
            let stops = control.verb == Verb::Cancel && !control.is_over();
            !control.waits_for_ack() && !stops
        };
        let kept = self.controls.iter().filter(|control| spent(control));
        let mut excess = kept.count().saturating_sub(limits::CONTROLS_KEPT);
        self.controls.retain(|control| {
            let goes = excess > 0 && spent(control);
            excess -= usize::from(goes);
            !goes
        });
    }
}
