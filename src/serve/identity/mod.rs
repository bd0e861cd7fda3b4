//! Who is calling: the only place where a [`Principal`] is made.
//!
//! On the socket the uid of the peer is the identity. Over TCP it is a bearer token: one of ours, of which only the SHA-256
//! is kept; a ticket that a backend minted; or one that an issuer signed. Over TLS it may be a certificate. Nothing is ever
//! read from a message, and `$USER` counts for nothing.
//!
//! Invariant: no call reaches a service without a [`Caller`], whatever the service is: an interceptor of the server stands
//! before all of them.

use std::path::Path;

use nix::unistd::{Uid, geteuid};
use registry::{Principal, Refusal, Role, Timestamp, digest::Sha256, who::Grant};
use tonic::{
    Extensions,
    metadata::MetadataMap,
    transport::server::{TcpConnectInfo, TlsConnectInfo, UdsConnectInfo},
};

use self::{
    certificates::Certificates, files::Kept, oidc::Oidc, socket::People, tickets::Tickets,
    tokens::Tokens,
};
use super::config::Config;

mod certificates;
mod der;
pub(super) mod files;
mod oidc;
mod socket;
mod tickets;
mod tokens;

pub use files::only_its_owner_reads;
pub use tickets::Ticket;

/// Which of our services was called: the same person is an agent on one, a person on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// What agents call.
    Agent,
    /// What people call.
    Operator,
}

/// Marks a connection that never left this process.
#[derive(Clone, Copy, Debug)]
pub struct InProcess;

/// How callers are told apart.
#[derive(Debug)]
pub struct Identity {
    people: People,
    tokens: Option<Kept<Tokens>>,
    certificates: Certificates,
    oidc: Option<Kept<Oidc>>,
    tickets: Tickets,
}

/// Who is calling, and how the server knows.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// In words: `uid 0 on the socket`, `a token`.
    pub by: String,
    /// When the credential ends, where it does.
    pub expires: Option<Timestamp>,
    surface: Surface,
    /// The token it was, so that a call that goes on ends once the token is taken away.
    token: Option<Sha256>,
}

/// A credential that was good, before it is known where it is used.
struct Known {
    principal: Principal,
    by: String,
    expires: Option<Timestamp>,
    token: Option<Sha256>,
}

impl Identity {
    /// For the socket alone: nobody comes in by anything that is sent.
    pub fn of_the_socket() -> Self {
        Self {
            people: People::default(),
            tokens: None,
            certificates: Certificates::default(),
            oidc: None,
            tickets: Tickets::none(),
        }
    }

    /// With a token file, and nothing else.
    ///
    /// # Errors
    /// As [`Identity::of`].
    pub fn with_tokens(path: &Path) -> Result<Self, String> {
        let mut config = Config::default();
        config.tokens = Some(super::config::Tokens { file: path.into() });
        Self::of(&config)
    }

    /// As the config says; its files are read.
    ///
    /// # Errors
    /// A sentence that names the file, the entry, and what is wrong with it.
    pub fn of(config: &Config) -> Result<Self, String> {
        let tokens = config
            .tokens
            .as_ref()
            .map(|tokens| Kept::read(&tokens.file, Tokens::read));
        let oidc = config.oidc.as_ref().map(|oidc| {
            let rules = oidc.clone();
            Kept::read(&oidc.keys, move |path: &Path| Oidc::read(path, &rules))
        });
        let certified = config.tls.as_ref().map(|tls| tls.principal.as_slice());
        Ok(Self {
            people: People::of(&config.socket),
            tokens: tokens.transpose()?,
            certificates: Certificates::of(certified.unwrap_or_default()),
            oidc: oidc.transpose()?,
            tickets: Tickets::of(&config.tickets)?,
        })
    }

    /// Reads again what has changed on disk. What cannot be read is said loudly, and what was read before stays.
    pub fn refresh(&self) {
        self.tokens.iter().for_each(Kept::refresh);
        self.oidc.iter().for_each(Kept::refresh);
    }

    /// Who is calling.
    ///
    /// # Errors
    /// [`Refusal::Unauthenticated`] that says what is missing.
    pub fn caller(
        &self,
        surface: Surface,
        extensions: &Extensions,
        metadata: &MetadataMap,
        now: Timestamp,
    ) -> Result<Caller, Refusal> {
        if extensions.get::<InProcess>().is_some() {
            return self.on_the_socket(geteuid(), surface);
        }
        if let Some(peer) = extensions.get::<UdsConnectInfo>() {
            let cred = peer
                .peer_cred
                .ok_or_else(|| unknown("the socket names no peer"))?;
            return self.on_the_socket(Uid::from_raw(cred.uid()), surface);
        }
        let known = if let Some(tls) = extensions.get::<TlsConnectInfo<TcpConnectInfo>>() {
            let certificates = tls.peer_certs();
            let first = certificates.as_ref().and_then(|certs| certs.first());
            match first {
                // A token that is sent is the identity; the certificate then only opened the connection.
                Some(first) if !metadata.contains_key("authorization") => {
                    self.certificates.holder(first)?
                }
                _ => self.by_bearer(metadata, now)?,
            }
        } else if extensions.get::<TcpConnectInfo>().is_some() {
            self.by_bearer(metadata, now)?
        } else {
            return Err(unknown("the connection says nothing of its other end"));
        };
        if known.expires.is_some_and(|expires| expires <= now) {
            return Err(unknown("an expired credential"));
        }
        Ok(Caller {
            principal: known.principal,
            by: known.by,
            expires: known.expires,
            surface,
            token: known.token,
        })
    }

    /// Whether a call that goes on may go on.
    #[must_use]
    pub fn still_knows(&self, caller: &Caller, now: Timestamp) -> bool {
        let expired = caller.expires.is_some_and(|expires| expires <= now);
        let same = |hash: &Sha256| {
            let tokens = self.tokens.as_ref().map(Kept::get);
            let row = tokens.as_ref().and_then(|tokens| tokens.get(hash));
            row.is_some_and(|row| row.principal == caller.principal && row.holds_at(now))
        };
        !expired && caller.token.as_ref().is_none_or(same)
    }

    /// A ticket for a user of the backend that calls.
    ///
    /// # Errors
    /// [`Refusal::NotYours`] for whoever is no backend, and for more than the backend may itself.
    pub fn mint(&self, by: &Caller, wanted: &Ticket, now: Timestamp) -> Result<Minted, Refusal> {
        let tokens = self.tokens.as_ref().map(Kept::get);
        let taken = tokens
            .iter()
            .flat_map(|tokens| tokens.principals())
            .chain(self.certificates.principals())
            .any(|other| {
                other.name() == &wanted.user
                    && other.tenant() == by.principal.tenant()
                    && !other.is(Role::User)
            });
        if taken {
            return Err(Refusal::NotYours(
                "a ticket is for a user, and this is the name of somebody else",
            ));
        }
        self.tickets.mint(&by.principal, by.expires, wanted, now)
    }

    fn by_bearer(&self, metadata: &MetadataMap, now: Timestamp) -> Result<Known, Refusal> {
        let mut values = metadata.get_all("authorization").iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(unknown("one bearer token is needed"));
        };
        let text = value.to_str().map_err(|_| unknown("an unreadable token"))?;
        let (scheme, token) = text.split_once(' ').unwrap_or(("", text));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unknown("the authorization is no bearer token"));
        }
        let token = token.trim();
        // Looked up by its hash: how long that takes says nothing about any token.
        let hash = Sha256::of(token);
        let tokens = self.tokens.as_ref().map(Kept::get);
        if let Some(row) = tokens.as_ref().and_then(|tokens| tokens.get(&hash)) {
            if !row.holds_at(now) {
                return Err(unknown("a token that is not good yet, or no longer"));
            }
            return Ok(Known {
                principal: row.principal.clone(),
                by: "a token".into(),
                expires: row.expires,
                token: Some(hash),
            });
        }
        if tickets::looks_like_one(token) {
            return self.tickets.holder(token, now);
        }
        match &self.oidc {
            Some(oidc) if oidc::looks_like_one(token) => oidc.get().holder(token, now),
            _ => Err(unknown("an unknown token")),
        }
    }

    /// The server's own uid and root hold operator and admin, and agent where agents call (DESIGN §4.1.5). An agent of the
    /// same uid that runs our CLI cannot be told from its person. Others are who the config says.
    fn on_the_socket(&self, uid: Uid, surface: Surface) -> Result<Caller, Refusal> {
        let known = self.people.holder(uid, surface)?;
        Ok(Caller {
            principal: known.principal,
            by: known.by,
            expires: None,
            surface,
            token: None,
        })
    }
}

/// A ticket, and when it ends.
pub type Minted = (String, Timestamp);

impl Caller {
    /// Where it called.
    #[must_use]
    pub fn surface(&self) -> Surface {
        self.surface
    }
}

/// The scopes without those that narrow nothing, in words.
#[must_use]
pub fn scope_words(scopes: impl Iterator<Item = Grant>) -> Vec<String> {
    scopes.map(|scope| scope.word().to_owned()).collect()
}

/// Whether one credential may hold all of these.
///
/// # Errors
/// A sentence that says why not.
pub fn go_together(roles: &[Role]) -> Result<(), &'static str> {
    if roles.is_empty() {
        return Err("it has no roles, so it could do nothing");
    }
    let other = |role: &Role| *role != Role::Agent;
    if roles.contains(&Role::Agent) && roles.iter().any(other) {
        return Err("an agent never decides: it takes no other role");
    }
    Ok(())
}

fn unknown(what: &str) -> Refusal {
    Refusal::Unauthenticated(what.into())
}
