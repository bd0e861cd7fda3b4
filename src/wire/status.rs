//! A refusal as a gRPC status, and back. What a client goes by is the typed detail, never the text.

use prost::Message;
use registry::{Refusal, Timestamp, Untrusted};
use tonic::{Code, Status};
use tonic_types::pb as rpc;

use super::{
    pb::pilothouse::v1 as pb,
    pilothouse::{moment_of, moment_out},
};

/// The type of our detail, after the slash of its URL.
/// How much of a message stands outside the typed detail.
const MESSAGE_BYTES: usize = 1024;
const TYPE: &str = "pilothouse.v1.Refusal";

/// The status that carries a refusal.
pub fn status(refusal: &Refusal) -> Status {
    // It travels in a header, which other clients limit to a few KiB; the detail has every field that is wrong.
    let message = Untrusted::new(refusal.to_string())
        .cut(MESSAGE_BYTES)
        .raw()
        .to_owned();
    let detail = prost_types::Any {
        type_url: format!("type.googleapis.com/{TYPE}"),
        value: detail(refusal).encode_to_vec(),
    };
    let whole = rpc::Status {
        code: refusal.grpc(),
        message: message.clone(),
        details: [detail].into_iter().chain(again(refusal)).collect(),
    };
    let code = Code::from_i32(refusal.grpc());
    Status::with_details(code, message, whole.encode_to_vec().into())
}

/// When to come again, as every gRPC client knows it.
fn again(refusal: &Refusal) -> Option<prost_types::Any> {
    let Refusal::RateLimited { again } = refusal else {
        return None;
    };
    let info = rpc::RetryInfo {
        retry_delay: prost_types::Duration::try_from(*again).ok(),
    };
    Some(prost_types::Any {
        type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
        value: info.encode_to_vec(),
    })
}

fn detail(refusal: &Refusal) -> pb::Refusal {
    let mut detail = pb::Refusal {
        reason: refusal.word().to_owned(),
        message: refusal.to_string(),
        http_status: refusal.http().into(),
        ..pb::Refusal::default()
    };
    match refusal {
        Refusal::AlreadySettled {
            id,
            outcome,
            by,
            at,
        } => {
            detail.approval_id = id.to_string();
            detail.outcome = outcome.clone();
            detail.decided_by = by.as_ref().map(ToString::to_string).unwrap_or_default();
            detail.at = Some(moment_out(*at));
        }
        Refusal::Expired { at } => detail.at = Some(moment_out(*at)),
        Refusal::Stale { now } => detail.digest = now.to_string(),
        Refusal::Answers(errors) => {
            let fault = |error: &registry::form::FieldError| pb::FieldFault {
                name: error.field.clone(),
                message: error.to_string(),
            };
            detail.fields = errors.iter().map(fault).collect();
        }
        Refusal::Unauthenticated(_)
        | Refusal::Invalid(_)
        | Refusal::Diverged
        | Refusal::Compacted { .. }
        | Refusal::NotNow(_)
        | Refusal::TooLarge { .. }
        | Refusal::RateLimited { .. }
        | Refusal::TooMany { .. }
        | Refusal::Busy
        | Refusal::NotFound(_)
        | Refusal::NotYours(_)
        | Refusal::KeyReused(_)
        | Refusal::ThreadBusy
        | Refusal::StillPending
        | Refusal::RunOver
        | Refusal::Unreachable
        | Refusal::Unavailable(_) => {}
    }
    detail
}

/// What a server told of its refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What to match on: [`Refusal::word`], or one that is newer than ours.
    pub word: String,
    /// The sentence for the person who can fix it.
    pub message: String,
    /// The same in HTTP's numbers.
    pub http: u16,
    /// Of `already_settled`: which approval.
    pub approval: Option<String>,
    /// How it ended.
    pub outcome: Option<String>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When; also of `expired`.
    pub at: Option<Timestamp>,
    /// Of `stale`: the digest of what stands there now.
    pub digest: Option<String>,
    /// Of `answers`: the name of each field that is wrong, and the whole sentence about it.
    pub fields: Vec<(String, String)>,
}

/// The refusal in a status; none if it carries none of ours.
pub fn refused(status: &Status) -> Option<Told> {
    let whole = rpc::Status::decode(status.details()).ok()?;
    let ours = |any: &&prost_types::Any| any.type_url.rsplit('/').next() == Some(TYPE);
    let any = whole.details.iter().find(ours)?;
    let refusal = pb::Refusal::decode(any.value.as_slice()).ok()?;
    let said = |text: String| (!text.is_empty()).then_some(text);
    let fault = |fault: pb::FieldFault| (fault.name, fault.message);
    Some(Told {
        word: said(refusal.reason)?,
        message: refusal.message,
        http: u16::try_from(refusal.http_status).ok()?,
        approval: said(refusal.approval_id),
        outcome: said(refusal.outcome),
        decided_by: said(refusal.decided_by),
        at: refusal.at.and_then(|at| moment_of("when", at).ok()),
        digest: said(refusal.digest),
        fields: refusal.fields.into_iter().map(fault).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use registry::{
        ApprovalId, Digest, Name,
        form::{FieldError, Problem},
    };

    fn every_refusal() -> Vec<Refusal> {
        let id = ApprovalId::mint(Timestamp::from_ms(1), 2);
        let at = Timestamp::from_ms(1_700_000_000_123);
        let error = |label: &str, problem| FieldError {
            field: label.to_lowercase(),
            label: label.into(),
            problem,
        };
        vec![
            Refusal::Unauthenticated("no token".into()),
            Refusal::Invalid("what? \u{e4}\n%".into()),
            Refusal::TooLarge {
                what: "the title",
                bytes: 300,
                limit: 256,
            },
            Refusal::RateLimited {
                again: std::time::Duration::from_millis(7),
            },
            Refusal::TooMany {
                what: "streams",
                limit: 64,
                who: "whoever calls ends some of theirs",
            },
            Refusal::Diverged,
            Refusal::Compacted { floor: 7 },
            Refusal::NotNow("it has no deadline".into()),
            Refusal::Busy,
            Refusal::NotFound("approval"),
            Refusal::NotYours("somebody else decides"),
            Refusal::AlreadySettled {
                id: id.into(),
                outcome: "granted".into(),
                by: Some(Name::parse("user:ada").unwrap()),
                at,
            },
            Refusal::AlreadySettled {
                id: id.into(),
                outcome: "withdrawn".into(),
                by: None,
                at,
            },
            Refusal::Expired { at },
            Refusal::Stale {
                now: Digest::of("now"),
            },
            Refusal::KeyReused("this key"),
            Refusal::ThreadBusy,
            Refusal::StillPending,
            Refusal::RunOver,
            Refusal::Unreachable,
            Refusal::Answers(vec![
                error("Visibility", Problem::Missing),
                error("N", Problem::NotANumber),
            ]),
            Refusal::Unavailable("no space".into()),
        ]
    }

    /// What must be told of a refusal, beside its word, sentence and number.
    fn told(refusal: &Refusal) -> Told {
        let told = Told {
            word: refusal.word().into(),
            message: refusal.to_string(),
            http: refusal.http(),
            approval: None,
            outcome: None,
            decided_by: None,
            at: None,
            digest: None,
            fields: vec![],
        };
        match refusal {
            Refusal::AlreadySettled {
                id,
                outcome,
                by,
                at,
            } => Told {
                approval: Some(id.to_string()),
                outcome: Some(outcome.clone()),
                decided_by: by.as_ref().map(ToString::to_string),
                at: Some(*at),
                ..told
            },
            Refusal::Expired { at } => Told {
                at: Some(*at),
                ..told
            },
            Refusal::Stale { now } => Told {
                digest: Some(now.to_string()),
                ..told
            },
            Refusal::Answers(_) => Told {
                fields: [
                    ("visibility", "'Visibility' needs an answer"),
                    ("n", "'N' must be a number, like 2.5"),
                ]
                .map(|(name, text)| (name.into(), text.into()))
                .into(),
                ..told
            },
            _ => told,
        }
    }

    #[test]
    fn a_refusal_arrives_as_it_was_said() {
        for refusal in every_refusal() {
            let sent = status(&refusal);
            assert_eq!(sent.code() as i32, refusal.grpc(), "{refusal:?}");
            assert_eq!(sent.message(), refusal.to_string());
            // As tonic carries it: in the headers of HTTP.
            let headers = sent.into_http::<()>();
            let arrived = Status::from_header_map(headers.headers()).unwrap();
            assert_eq!(refused(&arrived), Some(told(&refusal)));
        }
    }

    #[test]
    fn a_status_of_somebody_else_is_no_refusal() {
        let other = rpc::Status {
            code: 9,
            message: "already granted".into(),
            details: vec![prost_types::Any {
                type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
                value: vec![],
            }],
        };
        let details = other.encode_to_vec();
        let rows = [
            Status::failed_precondition("stale"),
            Status::with_details(Code::Aborted, "x", details.into()),
            Status::with_details(Code::Aborted, "x", vec![0xff].into()),
        ];
        for status in rows {
            assert_eq!(refused(&status), None);
        }
    }
}
