//! Tickets: what a backend gives one of its users for a few minutes, so that they call us themselves.
//!
//! Invariant: a ticket allows nothing that its backend may not do itself, and nothing that a user may not.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use registry::{
    Name, Principal, Refusal, Role, Tenant, Timestamp,
    who::{Grant, Verb, may},
};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::{Known, Minted, files::only_its_owner_reads, unknown};
use crate::serve::{
    config::{self, TICKET_MINUTES_MAX},
    owner::randomness,
};

/// What every ticket begins with.
const MARK: &str = "pt.";
/// So that what is signed here is nothing else anywhere.
const CONTEXT: &[u8] = b"pilothouse ticket 1\0";
const KEY_BYTES: usize = 32;
/// How long a ticket lives where neither the call nor the config says.
const MINUTES: u32 = 5;

/// What a backend asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Whose.
    pub user: Name,
    /// How long it lives; unset: as the config says.
    pub ttl: Option<Duration>,
    /// What narrows it; none: all that the backend can give.
    pub scopes: Vec<Grant>,
}

/// What mints tickets and knows them again.
pub(super) struct Tickets {
    key: Option<hmac::Key>,
    ttl: Duration,
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets(***)")
    }
}

/// What a ticket says.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    tenant: Tenant,
    user: Name,
    via: Name,
    /// Milliseconds since 1970.
    until: i64,
    scopes: Vec<Grant>,
}

impl Tickets {
    /// For a server of the socket alone, which has no backends.
    pub(super) fn none() -> Self {
        Self {
            key: None,
            ttl: Duration::ZERO,
        }
    }

    /// As the config says.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the key file.
    pub(super) fn of(config: &config::Tickets) -> Result<Self, String> {
        let key = match &config.key {
            Some(path) => {
                key_in(path).map_err(|why| format!("[tickets] key: {}: {why}", path.display()))?
            }
            None => random_key()
                .map_err(|error| format!("no randomness: {error}"))?
                .to_vec(),
        };
        Ok(Self::with(&key, config.minutes.unwrap_or(MINUTES)))
    }

    fn with(key: &[u8], minutes: u32) -> Self {
        Self {
            key: Some(hmac::Key::new(hmac::HMAC_SHA256, key)),
            ttl: Duration::from_secs(u64::from(minutes) * 60),
        }
    }

    /// # Errors
    /// [`Refusal`]: not a backend; too long; wider than the backend.
    pub(super) fn mint(
        &self,
        by: &Principal,
        ends: Option<Timestamp>,
        wanted: &Ticket,
        now: Timestamp,
    ) -> Result<Minted, Refusal> {
        if !by.is(Role::Backend) {
            return Err(Refusal::NotYours("a backend mints tickets for its users"));
        }
        let ttl = wanted.ttl.unwrap_or(self.ttl);
        let most = Duration::from_secs(u64::from(TICKET_MINUTES_MAX) * 60);
        if ttl < Duration::from_secs(1) || ttl > most {
            return Err(Refusal::Invalid(format!(
                "a ticket lives from 1 second to {TICKET_MINUTES_MAX} minutes"
            )));
        }
        let can_give = can_give(by, &wanted.user);
        let scopes = match wanted.scopes.as_slice() {
            [] => can_give,
            wanted if wanted.iter().all(|scope| can_give.contains(scope)) => wanted.to_vec(),
            _ => {
                return Err(Refusal::NotYours(
                    "a ticket allows nothing that its backend may not do itself",
                ));
            }
        };
        if scopes.is_empty() {
            return Err(Refusal::NotYours(
                "the scopes of this backend leave nothing for a ticket",
            ));
        }
        let until = now
            .plus(ttl)
            .min(ends.unwrap_or(Timestamp::from_ms(i64::MAX)));
        let said = Said {
            tenant: by.tenant().clone(),
            user: wanted.user.clone(),
            via: by.name().clone(),
            until: until.ms(),
            scopes,
        };
        let said =
            serde_json::to_vec(&said).map_err(|error| Refusal::Invalid(error.to_string()))?;
        let key = self.key.as_ref();
        let key = key.ok_or(Refusal::NotYours("this server mints no tickets"))?;
        let tag = hmac::sign(key, &signed(&said));
        let ticket = format!("{MARK}{}.{}", BASE64.encode(&said), BASE64.encode(tag));
        Ok((ticket, until))
    }

    /// # Errors
    /// [`Refusal::Unauthenticated`].
    pub(super) fn holder(&self, ticket: &str, now: Timestamp) -> Result<Known, Refusal> {
        let bad = || {
            unknown(
                "an unknown ticket: it may be of another server, or of one that was started again",
            )
        };
        let parts = ticket
            .strip_prefix(MARK)
            .and_then(|rest| rest.split_once('.'));
        let (said, tag) = parts.ok_or_else(bad)?;
        let (said, tag) = (
            BASE64.decode(said).map_err(|_| bad())?,
            BASE64.decode(tag).map_err(|_| bad())?,
        );
        let key = self.key.as_ref().ok_or_else(bad)?;
        hmac::verify(key, &signed(&said), &tag).map_err(|_| bad())?;
        // From here on it is what we wrote.
        let said: Said = serde_json::from_slice(&said).map_err(|_| bad())?;
        let until = Timestamp::from_ms(said.until);
        if until <= now {
            return Err(unknown("an expired ticket"));
        }
        let by = format!("a ticket of {}", said.via);
        Ok(Known {
            principal: Principal::new(said.user, said.tenant, [Role::User])
                .with_scopes(said.scopes)
                .via(said.via),
            by,
            expires: Some(until),
            token: None,
        })
    }
}

pub(super) fn looks_like_one(token: &str) -> bool {
    token.starts_with(MARK)
}

/// What a backend may do itself for this user, of what a user may do.
fn can_give(by: &Principal, user: &Name) -> Vec<Grant> {
    let behalf = Verb::Decide(registry::Asks::EndUser);
    let can = [
        (Grant::Watch, may(by, Verb::See, Some(user), None).is_ok()),
        (
            Grant::Decide,
            may(by, behalf, Some(user), Some(user)).is_ok(),
        ),
        (
            Grant::Direct,
            may(by, Verb::Direct, Some(user), None).is_ok(),
        ),
    ];
    can.into_iter()
        .filter_map(|(scope, can)| can.then_some(scope))
        .collect()
}

fn signed(said: &[u8]) -> Vec<u8> {
    [CONTEXT, said].concat()
}

fn random_key() -> Result<[u8; KEY_BYTES], getrandom::Error> {
    let (one, other) = (randomness()?, randomness()?);
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&one.to_be_bytes());
    key[16..].copy_from_slice(&other.to_be_bytes());
    Ok(key)
}

/// The key in a file, made where there is none.
fn key_in(path: &Path) -> Result<Vec<u8>, String> {
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(mut file) => {
            let key = random_key().map_err(|error| format!("no randomness: {error}"))?;
            let written = file.write_all(&key).and_then(|()| file.sync_all());
            written.map_err(|error| error.to_string())?;
            Ok(key.to_vec())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            only_its_owner_reads(path)?;
            let key = fs::read(path).map_err(|error| error.to_string())?;
            if key.len() != KEY_BYTES {
                return Err(format!(
                    "a key is {KEY_BYTES} bytes, and this has {}",
                    key.len()
                ));
            }
            Ok(key)
        }
        Err(error) => Err(error.to_string()),
    }
}
