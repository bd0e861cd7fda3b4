//! From a key to an order: all that has to hold before one is given, in the order in which it is looked for.

use std::sync::Arc;

use registry::{
    Event, Run, Untrusted,
    command::Order,
    control::{Control, Stage, Verb},
    escalation::{Closed, How},
    names::ControlId,
    run::Presence,
};

use super::{
    model::{Front, Model, Progress, SETTLING},
    msg::{Effect, Moment, RunFace, SubmitError},
    steering::{Aim, Given, Held, is_unreachable},
    words::{self, notice},
};

/// Why a key ordered nothing, in words for the operator.
type Refusal = String;

/// Has the run that stands on the screen do something.
pub(super) fn order(model: &mut Model, at: Moment, verb: Verb) -> Vec<Effect> {
    let tried = attempt(model, at, verb);
    or_say_why(model, tried)
}

/// Sends the direction that is being written.
pub(super) fn steer(model: &mut Model, at: Moment) -> Vec<Effect> {
    let tried = send_direction(model, at);
    or_say_why(model, tried)
}

/// «Yes» to what was asked once more.
pub(super) fn confirmed(model: &mut Model, at: Moment, face: RunFace, verb: Verb) -> Vec<Effect> {
    let tried = confirm(model, at, face, verb);
    or_say_why(model, tried)
}

fn or_say_why(model: &mut Model, tried: Result<Vec<Effect>, Refusal>) -> Vec<Effect> {
    tried.unwrap_or_else(|why| {
        model.warn(why);
        Vec::new()
    })
}

fn attempt(model: &mut Model, at: Moment, verb: Verb) -> Result<Vec<Effect>, Refusal> {
    let face = on_screen(model, at, false)?;
    may_be_ordered(model, aim_of(face), &verb)?;
    if let Some(again) = resend(model, face, &verb, "") {
        return Ok(vec![again]);
    }
    if verb == Verb::Cancel {
        model.front = Some(Front::Stop(face));
        return Ok(Vec::new());
    }
    Ok(give(model, face, verb, String::new()))
}

fn confirm(
    model: &mut Model,
    at: Moment,
    face: RunFace,
    verb: Verb,
) -> Result<Vec<Effect>, Refusal> {
    if on_screen(model, at, true)? != face {
        model.front = None;
        return Err(notice::SETTLING.into());
    }
    may_be_ordered(model, aim_of(face), &verb)?;
    model.front = None;
    Ok(give(model, face, verb, String::new()))
}

fn send_direction(model: &mut Model, at: Moment) -> Result<Vec<Effect>, Refusal> {
    let aim = model.steering.writing.ok_or(notice::NO_CARD)?;
    may_be_ordered(model, aim, &Verb::Steer)?;
    let direction = model.steering.drafts.entry(aim.run).or_default();
    direction.check()?;
    let text = direction.text();
    let face = on_screen(model, at, false)?;
    if aim_of(face) != aim {
        return Err(notice::SETTLING.into());
    }
    model.steering.writing = None;
    if let Some(again) = resend(model, face, &Verb::Steer, &text) {
        return Ok(vec![again]);
    }
    Ok(give(model, face, Verb::Steer, text))
}

pub(super) fn aim_of(face: RunFace) -> Aim {
    Aim {
        run: face.run,
        answers: face.held,
    }
}

/// The run in the last written frame, if it is still what it was and has stood there long enough.
fn on_screen(model: &Model, at: Moment, confirming: bool) -> Result<RunFace, Refusal> {
    if !model.is_online() {
        return Err(notice::OFFLINE.into());
    }
    let aim = model.steering.writing.or_else(|| model.aim());
    let face = aim.and_then(|aim| model.run_face(aim));
    let face = face.ok_or(notice::NO_RUN)?;
    match model.steering.standing {
        Some((standing, sure, since)) if standing == face && sure == confirming => {
            if at.saturating_sub(since) < SETTLING {
                return Err(notice::SETTLING.into());
            }
            Ok(face)
        }
        Some(_) | None => Err(notice::SETTLING.into()),
    }
}

/// Whether an order to it makes sense, and is ours to give.
pub(super) fn may_be_ordered(model: &Model, aim: Aim, verb: &Verb) -> Result<(), Refusal> {
    match aim.answers.and_then(|id| model.held(id)) {
        Some(Held::Closed(closed)) => return Err(format!("already {}", words::closed(closed))),
        Some(Held::Waits(held)) if held.is_abort() => return Err(notice::ABORTING.into()),
        Some(Held::Waits(_)) | None => {}
    }
    let run = model.state.run(aim.run).ok_or(notice::NO_CARD)?;
    if let Some(why) = model.not_directed(run, verb) {
        return Err(why);
    }
    takes_orders(run)?;
    match model
        .steering
        .sent
        .get(&aim.run)
        .map(|given| &given.progress)
    {
        Some(Progress::UnderWay) => Err(notice::UNDER_WAY.into()),
        Some(Progress::Lost(_)) | None => Ok(()),
    }
}

fn takes_orders(run: &Run) -> Result<(), Refusal> {
    if run.state.is_over() {
        return Err(format!("the run has ended: {}", run.state.word()));
    }
    if run.presence == Presence::Detached {
        return Err("nobody takes an order there: it was filed from a command line".into());
    }
    if is_unreachable(run) {
        return Err(notice::UNREACHABLE.into());
    }
    Ok(())
}

/// The same key again after an answer was lost is the same order, under the same id.
fn resend(model: &mut Model, face: RunFace, verb: &Verb, note: &str) -> Option<Effect> {
    let given = model.steering.sent.get_mut(&face.run)?;
    let order = &given.order;
    let answers = face.held.filter(|_| verb.answers());
    let same = order.verb == *verb && order.answers == answers && order.note.raw() == note;
    if !same {
        return None;
    }
    given.progress = Progress::UnderWay;
    Some(Effect::Order(given.order.clone()))
}

fn give(model: &mut Model, face: RunFace, verb: Verb, note: String) -> Vec<Effect> {
    let Some(id) = model.mint_order() else {
        return Vec::new();
    };
    let order = Order {
        id,
        run: face.run,
        answers: face.held.filter(|_| verb.answers()),
        verb,
        note: Untrusted::new(note),
    };
    if order.answers.is_none() {
        model.steering.followed.insert(order.id.clone());
    }
    model.steering.refused.remove(&face.run);
    let given = Given {
        order: order.clone(),
        progress: Progress::UnderWay,
    };
    model.steering.sent.insert(face.run, given);
    vec![Effect::Order(order)]
}

/// What the server said to an order of ours.
pub(super) fn answered(model: &mut Model, order: &ControlId, result: Result<(), SubmitError>) {
    let mut sent = model.steering.sent.iter_mut();
    let Some((&run, given)) = sent.find(|(_, given)| given.order.id == *order) else {
        return;
    };
    match result {
        // Taken. The card says "sent" until the fact is back.
        Ok(()) => {}
        Err(SubmitError::NotSent(why)) => {
            let why = Untrusted::new(why).line().to_string();
            given.progress = Progress::Lost(why.clone());
            model.warn(format!("not sent: {why}"));
        }
        Err(SubmitError::Refused(refused)) => {
            let verb = given.order.verb.word();
            let why = Untrusted::new(refused.message).line().to_string();
            model.steering.sent.remove(&run);
            model.warn(format!("the {verb} was not taken: {why}"));
            model.steering.refused.insert(run, why);
        }
    }
}

/// Lets go of what has come back as a fact; where the fact is another one, that is said.
pub(super) fn settle_own(model: &mut Model) {
    let (mut overtaken, mut back) = (None, Vec::new());
    let state = &model.state;
    model.steering.sent.retain(|run, given| {
        let order = &given.order;
        let run = state.run(*run);
        let closed = order.answers.and_then(|id| state.closed(id));
        let answer = closed.and_then(|closed| closed.control.as_ref());
        let ours = |order: &Control| order.id == given.order.id;
        if answer.is_some_and(ours) || run.is_some_and(|run| run.controls.iter().any(ours)) {
            back.push((order.run, order.verb.clone()));
            return false;
        }
        // An answer is known a moment before the order that carries it.
        let answered = |closed: &&Arc<Closed>| matches!(closed.how, How::Answered { .. });
        let how = closed.filter(|closed| answer.is_some() || !answered(closed));
        let how = how.map(|closed| format!("already {}", words::closed(closed)));
        let gone = || "its run is not known to the server any more".to_owned();
        let Some(why) = how.or_else(|| run.is_none().then(gone)) else {
            return true;
        };
        overtaken = Some(format!("the {} was not taken: {why}", order.verb.word()));
        false
    });
    for (run, verb) in back {
        if verb == Verb::Steer {
            model.steering.drafts.remove(&run);
        }
    }
    if let Some(words) = overtaken {
        model.warn(words);
    }
}

/// Nobody knows whether an order that was on its way has arrived.
pub(super) fn lose_own(model: &mut Model) {
    for given in model.steering.sent.values_mut() {
        if given.progress == Progress::UnderWay {
            given.progress = Progress::Lost(notice::LOST.into());
        }
    }
}

/// Says what became of an order that no card shows.
pub(super) fn tell(model: &mut Model, event: &Event) {
    let Event::ControlMoved { run, id, step, .. } = event else {
        return;
    };
    if step.stage == Stage::Sent || !model.steering.followed.contains(id) {
        return;
    }
    let Some(run) = model.state.run(*run) else {
        return;
    };
    let verb = run.control(id).map_or("order", |order| order.verb.word());
    let agent = run.key.agent.line();
    let (stage, detail) = (step.stage.word(), step.detail.line());
    let words = format!("{verb} {agent}: {stage} {detail}");
    if step.stage.is_failure() {
        model.warn(words);
    } else {
        model.say(words);
    }
}
