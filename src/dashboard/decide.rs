//! From a key to a decision: all that has to hold before one is sent, in the order in which it is looked for.

use registry::{
    Untrusted,
    approval::{Risk, Seen, Verdict},
    names::DecisionId,
};

use super::{
    actions::Action,
    draft::{Draft, Intent},
    keymap::Context,
    model::{Front, Hand, Model, Progress, SETTLING, Sent, Slot, Stands},
    msg::{Effect, Face, Moment, Refused, Submit, SubmitError},
    words::{self, notice},
};

/// Why a key decided nothing, in words for the operator.
type Refusal = String;

/// Approve or reject what stands on the screen.
pub(super) fn decide(model: &mut Model, at: Moment, intent: Intent) -> Vec<Effect> {
    let tried = attempt(model, at, intent);
    or_say_why(model, tried)
}

/// «Yes» to «are you sure?».
pub(super) fn confirmed(model: &mut Model, at: Moment) -> Vec<Effect> {
    let tried = confirm(model, at);
    or_say_why(model, tried)
}

fn or_say_why(model: &mut Model, tried: Result<Vec<Effect>, Refusal>) -> Vec<Effect> {
    tried.unwrap_or_else(|why| {
        model.warn(why);
        Vec::new()
    })
}

fn attempt(model: &mut Model, at: Moment, intent: Intent) -> Result<Vec<Effect>, Refusal> {
    let face = on_screen(model, at, false)?;
    may_be_decided(model, face)?;
    if let Some(sent) = resend(model, at, face, intent) {
        return Ok(vec![sent]);
    }
    whole_seen(model, face, intent)?;
    form_satisfied(model, face, intent)?;
    let risk = model.stands(face.id).map(|stands| stands.approval().risk);
    if intent.verdict == Verdict::Approve && risk == Some(Risk::High) {
        model.front = Some(Front::Sure { face, intent });
        return Ok(Vec::new());
    }
    Ok(submit(model, at, face, intent).into_iter().collect())
}

fn confirm(model: &mut Model, at: Moment) -> Result<Vec<Effect>, Refusal> {
    let Some(Front::Sure { face, intent }) = model.front.clone() else {
        return Err(notice::NO_CARD.into());
    };
    if on_screen(model, at, true)? != face {
        model.front = None;
        return Err(notice::SETTLING.into());
    }
    may_be_decided(model, face)?;
    model.front = None;
    whole_seen(model, face, intent)?;
    form_satisfied(model, face, intent)?;
    Ok(submit(model, at, face, intent).into_iter().collect())
}

/// The card in the last written frame, if it is still the one that is open and has stood there long enough.
fn on_screen(model: &mut Model, at: Moment, confirming: bool) -> Result<Face, Refusal> {
    if !model.is_online() {
        return Err(notice::OFFLINE.into());
    }
    let face = model.face().ok_or(notice::NO_CARD)?;
    match model.standing {
        Some((standing, sure, since)) if standing == face && sure == confirming => {
            if at.saturating_sub(since) < SETTLING {
                return Err(notice::SETTLING.into());
            }
            Ok(face)
        }
        Some(_) | None => Err(notice::SETTLING.into()),
    }
}

fn may_be_decided(model: &Model, face: Face) -> Result<(), Refusal> {
    let approval = match model.stands(face.id) {
        Some(Stands::Waits(pending)) => &pending.approval,
        Some(Stands::Ended(settled)) => return Err(format!("already {}", words::ended(settled))),
        None => return Err(notice::NO_CARD.into()),
    };
    match model.cards.get(&face.id) {
        Some(Slot::Here(card)) if card.matches => {}
        Some(Slot::Here(_)) => return Err(notice::MISMATCH.into()),
        Some(Slot::Failed(_) | Slot::Fetching) | None => return Err(notice::LOADING.into()),
    }
    if model.is_unreachable(approval) {
        return Err(notice::UNREACHABLE.into());
    }
    match model.sent.get(&face.id).map(|sent| &sent.progress) {
        Some(Progress::UnderWay) => Err(notice::UNDER_WAY.into()),
        Some(Progress::Lost(_)) | None => Ok(()),
    }
}

/// The same key again after an answer was lost is the same decision, under the same id.
fn resend(model: &mut Model, at: Moment, face: Face, intent: Intent) -> Option<Effect> {
    let draft = model.drafts.get(&face.id)?;
    let sent = model.sent.get_mut(&face.id)?;
    if !sent.is_same(intent.verdict, face.digest, draft) {
        return None;
    }
    sent.progress = Progress::UnderWay;
    sent.at = at;
    Some(Effect::Submit(sent.submit.clone()))
}

/// Only approving waits for the eyes.
fn whole_seen(model: &mut Model, face: Face, intent: Intent) -> Result<(), Refusal> {
    let seen = model
        .card(face.id)
        .is_some_and(|card| model.is_seen(face.id, face.digest, card));
    if seen || intent.unread || intent.verdict == Verdict::Reject {
        return Ok(());
    }
    model.hand = Hand::Card;
    let drawn = model.drawn.as_ref().and_then(|drawn| drawn.card.as_ref());
    let lines = words::count(drawn.map_or(1, |card| card.unseen_rows.max(1)), "line");
    let all_above = drawn.is_some_and(|card| card.unseen_above == card.unseen_rows);
    let read = match all_above {
        true => model.key_for(Context::Card, Action::Previous, "↑"),
        false => model.key_for(Context::Card, Action::Next, "↓"),
    };
    let accept = model.key_for(Context::Card, Action::ApproveUnread, "");
    Err(format!(
        "{lines} unseen: {read} to read, {accept} to accept unread"
    ))
}

/// What is wrong with the answers is said at the first wrong field; what was wanted is kept until it is right.
fn form_satisfied(model: &mut Model, face: Face, intent: Intent) -> Result<(), Refusal> {
    let Some(Slot::Here(card)) = model.cards.get(&face.id) else {
        return Err(notice::LOADING.into());
    };
    let draft = model
        .drafts
        .entry(face.id)
        .or_insert_with(|| Draft::new(&card.form));
    let Some(field) = draft.check(&card.form) else {
        return Ok(());
    };
    draft.intent = Some(intent);
    let error = draft
        .errors
        .get(&draft.fields[field].name)
        .cloned()
        .unwrap_or_default();
    model.hand = Hand::Field(field);
    Err(model.to_complete(intent, &error))
}

fn submit(model: &mut Model, at: Moment, face: Face, intent: Intent) -> Option<Effect> {
    let card = model.card(face.id)?;
    let seen = model.is_seen(face.id, face.digest, card);
    let decision = model.mint()?;
    let draft = model.drafts.get_mut(&face.id)?;
    draft.intent = None;
    let submit = Submit {
        id: face.id,
        digest: face.digest,
        decision,
        verdict: intent.verdict,
        answers: draft.answers(),
        note: Untrusted::new(draft.note()),
        seen: if seen { Seen::Whole } else { Seen::Unread },
    };
    if matches!(model.hand, Hand::Field(_) | Hand::Note) {
        model.hand = Hand::Card;
    }
    model.refused.remove(&face.id);
    let sent = Sent {
        submit: submit.clone(),
        at,
        progress: Progress::UnderWay,
    };
    model.sent.insert(face.id, sent);
    Some(Effect::Submit(submit))
}

/// What the server said to a decision of ours.
pub(super) fn answered(model: &mut Model, decision: &DecisionId, result: Result<(), SubmitError>) {
    let ours = model
        .sent
        .iter_mut()
        .find(|(_, sent)| sent.submit.decision == *decision);
    let Some((&id, sent)) = ours else {
        return;
    };
    match result {
        // Taken. The card says "sent" until the fact is back.
        Ok(()) => {}
        Err(SubmitError::NotSent(why)) => {
            let why = Untrusted::new(why).line().to_string();
            sent.progress = Progress::Lost(why.clone());
            model.warn(format!("not sent: {why}"));
        }
        Err(SubmitError::Refused(refused)) => {
            let submit = sent.submit.clone();
            model.sent.remove(&id);
            refuse(model, &submit, &refused);
        }
    }
}

fn refuse(model: &mut Model, submit: &Submit, refused: &Refused) {
    let words = Untrusted::new(refused.message.as_str()).line().to_string();
    let draft = model.drafts.entry(submit.id).or_default();
    for (field, error) in &refused.fields {
        let error = Untrusted::new(error.as_str()).line().to_string();
        draft.errors.insert(field.clone(), error);
    }
    let wrong = draft.first_wrong().filter(|_| !refused.fields.is_empty());
    let Some(field) = wrong else {
        model.warn(format!(
            "the {} was not taken: {words}",
            words::wish(submit.verdict)
        ));
        model.refused.insert(submit.id, words);
        return;
    };
    let intent = Intent {
        verdict: submit.verdict,
        unread: submit.seen == Seen::Unread,
    };
    draft.intent = Some(intent);
    let error = draft
        .errors
        .get(&draft.fields[field].name)
        .cloned()
        .unwrap_or_default();
    if model.open_approval() == Some(submit.id) && model.front.is_none() {
        model.hand = Hand::Field(field);
    }
    model.warn(model.to_complete(intent, &error));
}

/// Lets go of what has come back as a fact; where the fact is another one, that is said.
pub(super) fn settle_own(model: &mut Model) {
    let state = &model.state;
    let overtaken = model.sent.iter().find_map(|(id, sent)| {
        let settled = state.settled(*id)?;
        let mut decisions = settled.votes.iter().chain(settled.decision());
        let ours = decisions.any(|decision| decision.id == sent.submit.decision);
        let wish = words::wish(sent.submit.verdict);
        (!ours).then(|| {
            format!(
                "the {wish} was not taken: already {}",
                words::ended(settled)
            )
        })
    });
    let cast = |submit: &Submit, pending: &registry::Pending| {
        let mut votes = pending.votes.iter();
        votes.any(|vote| vote.id == submit.decision)
    };
    model.sent.retain(|id, sent| {
        let pending = state.pending(*id);
        pending.is_some_and(|pending| !cast(&sent.submit, pending))
    });
    model.refused.retain(|id, _| state.pending(*id).is_some());
    if let Some(words) = overtaken {
        model.warn(words);
    }
}

/// Nobody knows whether a decision that was on its way has arrived.
pub(super) fn lose_own(model: &mut Model) {
    for sent in model.sent.values_mut() {
        if sent.progress == Progress::UnderWay {
            sent.progress = Progress::Lost(notice::LOST.into());
        }
    }
}

impl Model {
    /// The key to name for an action: the preferred one if it is bound, else the first.
    pub(super) fn key_for(&self, context: Context, action: Action, preferred: &str) -> String {
        let keys = self.setup.keymap.keys_for(context, action);
        let found = keys.iter().find(|key| *key == preferred).or(keys.first());
        let key = found.cloned().unwrap_or_else(|| action.word().to_owned());
        if self.setup.ascii {
            ascii_key(&key)
        } else {
            key
        }
    }

    fn to_complete(&self, intent: Intent, error: &str) -> String {
        let key = self.key_for(Context::Form, Action::Submit, "ctrl-s");
        format!(
            "{key} {}{}{error}",
            words::sends(intent.verdict),
            if error.is_empty() { "" } else { "; " }
        )
    }
}

/// A key spelled for a terminal without signs.
pub(super) fn ascii_key(key: &str) -> String {
    let spelled = [
        ("↵", "enter"),
        ("↑", "up"),
        ("↓", "down"),
        ("←", "left"),
        ("→", "right"),
    ];
    spelled
        .iter()
        .fold(key.to_owned(), |key, (sign, word)| key.replace(sign, word))
}
