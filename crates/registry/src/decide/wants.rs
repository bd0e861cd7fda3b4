//! Before a command is judged: what of it lies in the log, and not in State.

use std::sync::Arc;

use crate::{
    approval::{ApprovalId, Settled},
    command::{Command, Decide, Direct, File, Found, Need, Observation, Wish},
    escalation::EscalationId,
    run::RunId,
    state::State,
    text::Untrusted,
};

impl Command {
    /// What the owning thread has to read.
    pub fn needs(&self, state: &State) -> Vec<Need> {
        let gone = |id: ApprovalId| state.has_forgotten() && state.approval(id).is_none();
        match &self.wish {
            Wish::Decide(decide) => self.needs_to_decide(state, decide),
            Wish::File(file) => self.needs_to_file(state, file),
            Wish::Observe(Observation::Asked(file)) => self.needs_to_file(state, file),
            Wish::Gate(wish) => self.needs_to_file(state, &wish.file),
            Wish::Direct(direct) => self.needs_to_direct(state, direct),
            Wish::Claim(wish) => needs_step(state, wish.run, &wish.step),
            Wish::Restore(wish) => needs_step(state, wish.run, &wish.step),
            Wish::Withdraw { id, .. }
            | Wish::Extend { id, .. }
            | Wish::Dismiss { id, .. }
            | Wish::ReportStarted { id, .. }
            | Wish::ReportApplied { id, .. }
                if gone(*id) =>
            {
                vec![Need::Past(*id)]
            }
            _ => Vec::new(),
        }
    }

    fn needs_to_decide(&self, state: &State, decide: &Decide) -> Vec<Need> {
        let tenant = self.by.tenant();
        let mut needs = Vec::new();
        match state.pending(decide.id) {
            Some(pending) if pending.approval.fields > 0 => needs.push(Need::Form(decide.id)),
            Some(_) => {}
            None if state.has_forgotten() && state.settled(decide.id).is_none() => {
                needs.push(Need::Past(decide.id));
            }
            None => {}
        }
        if state.has_forgotten() && state.decided_by(tenant, &decide.decision).is_none() {
            needs.push(Need::Decision(tenant.clone(), decide.decision.clone()));
        }
        needs
    }

    fn needs_to_direct(&self, state: &State, direct: &Direct) -> Vec<Need> {
        let gone = |id: &EscalationId| {
            let known = state.escalation(*id).is_some() || state.closed(*id).is_some();
            state.has_forgotten() && !known
        };
        let forgotten = direct.order.answers.filter(gone);
        forgotten.map(Need::Closed).into_iter().collect()
    }

    fn needs_to_file(&self, state: &State, file: &File) -> Vec<Need> {
        let tenant = self.by.tenant();
        match &file.filing.key {
            Some(key) if state.has_forgotten() && state.filed_under(tenant, key).is_none() => {
                vec![Need::Key(tenant.clone(), key.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// What the log knows of the approval that this is about: its scope is that of the events,
    /// where State has forgotten it.
    pub fn past(&self) -> Option<&Arc<Settled>> {
        match &self.wish {
            Wish::Decide(decide) => decide.past.as_ref(),
            Wish::File(file) | Wish::Observe(Observation::Asked(file)) => file.past.as_ref(),
            Wish::Gate(wish) => wish.file.past.as_ref(),
            Wish::Withdraw { past, .. }
            | Wish::Extend { past, .. }
            | Wish::Dismiss { past, .. }
            | Wish::ReportStarted { past, .. }
            | Wish::ReportApplied { past, .. } => past.as_ref(),
            Wish::OpenRun(_)
            | Wish::EndRun { .. }
            | Wish::ReportTask { .. }
            | Wish::ReportPlan { .. }
            | Wish::Say { .. }
            | Wish::ReportDrift(_)
            | Wish::Direct(_)
            | Wish::HandOver { .. }
            | Wish::Ack(_)
            | Wish::Attend { .. }
            | Wish::GiveUp { .. }
            | Wish::Claim(_)
            | Wish::Restore(_)
            | Wish::Observe(_) => None,
        }
    }

    /// Takes in what the log said.
    pub fn take(&mut self, found: Found) {
        match (&mut self.wish, found) {
            (Wish::Gate(wish), Found::Past(settled)) => wish.file.past = Some(settled),
            (Wish::Claim(wish), Found::Step(past)) => wish.past = past,
            (Wish::Restore(wish), Found::Step(past)) => wish.past = past,
            (Wish::Decide(decide), Found::Form(form)) => decide.form = form,
            (Wish::Decide(decide), Found::Decision(id)) => decide.decided_before = Some(id),
            (Wish::Direct(direct), Found::Closed(closed)) => direct.past = Some(closed),
            (Wish::Decide(decide), Found::Past(settled)) => decide.past = Some(settled),
            (Wish::File(file) | Wish::Observe(Observation::Asked(file)), Found::Past(settled)) => {
                file.past = Some(settled);
            }
            (
                Wish::Withdraw { past, .. }
                | Wish::Extend { past, .. }
                | Wish::Dismiss { past, .. }
                | Wish::ReportStarted { past, .. }
                | Wish::ReportApplied { past, .. },
                Found::Past(settled),
            ) => *past = Some(settled),
            _ => {}
        }
    }
}

/// Of a run that lives, State may have let go of what ended long ago.
fn needs_step(state: &State, run: RunId, step: &Untrusted) -> Vec<Need> {
    let forgotten = state.has_forgotten() && state.run(run).is_some();
    let need = forgotten.then(|| Need::Step(run, step.clone()));
    need.into_iter().collect()
}
