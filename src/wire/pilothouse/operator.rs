//! Requests of people, read at the server's door.

use std::{collections::BTreeMap, time::Duration};

use registry::{
    ApprovalId, Digest, EscalationId, ItemId, Name, Refusal, Seq, Untrusted, Wish,
    command::{Decide, Direct, Order},
    form::{Form, RawAnswers},
    log::{EndedAs, Filter},
    names::{ControlId, DecisionId},
    who::Grant,
};

use super::{
    Garbled, labels_of, missing, moment_of, pb, said, span_of, steering::verb, word,
    word_or_default,
};

const PAGE: usize = 100;
const PAGE_MAX: usize = 500;
/// What history is searched for, in bytes.
const TEXT_MAX: usize = 256;
/// Before the id of the last escalation, in the token of a page that ends among them.
const ESCALATIONS: &str = "e-";

/// Form and history are the owning thread's to add.
///
/// # Errors
/// [`Refusal::Invalid`] for what cannot be read, also if there is no verdict or no digest.
pub fn decide(req: pb::DecideRequest) -> Result<Wish, Refusal> {
    let digest: Digest = req.digest.parse().map_err(|error| {
        Refusal::Invalid(format!("the digest of what was seen is needed: {error}"))
    })?;
    Ok(Wish::Decide(Box::new(Decide {
        id: req.id.parse()?,
        decision: DecisionId::parse(&req.decision_id)?,
        verdict: word(req.verdict)?,
        digest,
        answers: RawAnswers::from_iter(req.answers),
        note: req.note.into(),
        seen: word_or_default(req.seen)?,
        on_behalf_of: said(&req.on_behalf_of, Name::parse)?,
        form: Form::default(),
        past: None,
        decided_before: None,
    })))
}

/// The escalation that a pause raises gets the id `raise`.
///
/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn control(req: pb::ControlRequest, raise: EscalationId) -> Result<Wish, Refusal> {
    Ok(Wish::Direct(Box::new(Direct {
        order: Order {
            id: ControlId::parse(&req.control_id)?,
            run: req.run_id.parse()?,
            verb: verb(req.kind, req.task_id)?,
            note: req.note.into(),
            answers: said(&req.escalation_id, str::parse)?,
        },
        raise,
        past: None,
    })))
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn extend(req: pb::ExtendRequest) -> Result<Wish, Refusal> {
    let after = req.after.ok_or_else(|| missing("how long from now"))?;
    Ok(Wish::Extend {
        id: req.id.parse()?,
        span: span_of("how long from now", after)?,
        past: None,
    })
}

/// Whose ticket, how long it lives, and what narrows it.
///
/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn mint_ticket(
    req: pb::MintTicketRequest,
) -> Result<(Name, Option<Duration>, Vec<Grant>), Refusal> {
    let ttl = req.ttl.map(|ttl| span_of("how long it lives", ttl));
    let scope = |word: &String| {
        let known = Grant::ALL.into_iter().find(|scope| scope.word() == word);
        known.ok_or_else(|| {
            Refusal::Invalid("a scope of a ticket is watch, decide or direct".into())
        })
    };
    let scopes = req.scopes.iter().map(scope).collect::<Result<_, _>>()?;
    Ok((Name::parse(&req.user)?, ttl.transpose()?, scopes))
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn dismiss(req: pb::DismissRequest) -> Result<Wish, Refusal> {
    Ok(Wish::Dismiss {
        id: req.id.parse()?,
        note: req.note.into(),
        past: None,
    })
}

/// One page of what is open, and of what kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListWish {
    /// How many at most: 1 to 500. A client may leave it at 0, which the server reads as 100.
    pub limit: usize,
    /// Only those after this one.
    pub after: Option<ItemId>,
    /// Only those with all of these.
    pub labels: BTreeMap<Untrusted, Untrusted>,
    /// Only of this run: our id, or the agent's own.
    pub run: Option<Untrusted>,
    /// Only of this session.
    pub session: Option<Untrusted>,
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn list(req: pb::ListRequest) -> Result<ListWish, Refusal> {
    Ok(ListWish {
        limit: page_size(req.page_size)?,
        after: said(&req.page_token, item_token)?,
        labels: labels_of(req.labels),
        run: (!req.run.is_empty()).then(|| req.run.into()),
        session: (!req.session.is_empty()).then(|| req.session.into()),
    })
}

/// One page of what ended, and of what kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryWish {
    /// How many at most: 1 to 500. A client may leave it at 0, which the server reads as 100.
    pub limit: usize,
    /// Only what ended before this event.
    pub before: Option<Seq>,
    /// Which of it.
    pub filter: Filter,
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read, and for what nothing could match.
pub fn history(req: pb::HistoryRequest) -> Result<HistoryWish, Refusal> {
    let given = |text: String| (!text.is_empty()).then_some(text);
    let moment =
        |what, at: Option<prost_types::Timestamp>| at.map(|at| moment_of(what, at)).transpose();
    if req.text.len() > TEXT_MAX {
        return Err(Refusal::Invalid(format!(
            "what is looked for has at most {TEXT_MAX} bytes, not {}",
            req.text.len()
        )));
    }
    let since = moment("since when", req.since)?;
    let until = moment("until when", req.until)?;
    if since.zip(until).is_some_and(|(since, until)| since > until) {
        let what = "nothing ended both since the later and until the earlier moment: since lies after until";
        return Err(Refusal::Invalid(what.into()));
    }
    let outcome = given(req.outcome).map(|word| EndedAs::parse(&word));
    Ok(HistoryWish {
        limit: page_size(req.page_size)?,
        before: said(&req.page_token, page_token)?,
        filter: Filter {
            text: given(req.text),
            run: given(req.run).map(Untrusted::new),
            agent: given(req.agent).map(Untrusted::new),
            decider: given(req.by),
            outcome: outcome.transpose()?,
            labels: labels_of(req.labels).into_iter().collect(),
            since,
            until,
        },
    })
}

fn page_size(size: u32) -> Result<usize, Refusal> {
    match usize::try_from(size) {
        Ok(0) => Ok(PAGE),
        Ok(size) if size <= PAGE_MAX => Ok(size),
        _ => Err(Refusal::Invalid(format!(
            "a page has 1 to {PAGE_MAX} entries, not {size}"
        ))),
    }
}

/// What a page token of a list says.
pub(super) fn item_token(token: &str) -> Result<ItemId, Garbled> {
    match token.strip_prefix(ESCALATIONS) {
        Some(id) => page_token(id).map(ItemId::Escalation),
        None => page_token(token).map(ItemId::Approval),
    }
}

/// Where the next page of a list begins.
pub(super) fn item_token_out(id: ItemId) -> String {
    match id {
        ItemId::Escalation(id) => format!("{ESCALATIONS}{id}"),
        ItemId::Approval(id) => id.to_string(),
    }
}

fn page_token<T: std::str::FromStr>(token: &str) -> Result<T, Garbled> {
    let bad = |_| Garbled("the page token is not one that was given out".into());
    token.parse().map_err(bad)
}

/// An id that may be that of an approval or of an escalation: both look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// If it is an approval.
    pub approval: ApprovalId,
    /// If it is an escalation.
    pub escalation: EscalationId,
}

/// # Errors
/// [`Refusal::Invalid`] for what cannot be read.
pub fn get(req: pb::GetRequest) -> Result<Named, Refusal> {
    Ok(Named {
        approval: req.id.parse()?,
        escalation: req.id.parse()?,
    })
}

/// Which run, by our id or the agent's own, and the event after which its record is wanted.
///
/// # Errors
/// [`Refusal::Invalid`] if no run is named.
pub fn get_run(req: pb::GetRunRequest) -> Result<(Untrusted, Seq), Refusal> {
    match req.run.as_str() {
        "" => Err(missing("the run's id").into()),
        _ => Ok((req.run.into(), req.after_seq)),
    }
}

/// The place to go on from: which log, and after which event. None: first what stands now.
///
/// # Errors
/// [`Refusal::Invalid`] if the cursor does not say of which log it is.
pub fn watch(req: pb::WatchRequest) -> Result<Option<(String, Seq)>, Refusal> {
    match req.after {
        Some(cursor) if cursor.epoch.is_empty() => Err(missing("the cursor's epoch").into()),
        cursor => Ok(cursor.map(|cursor| (cursor.epoch, cursor.seq))),
    }
}
