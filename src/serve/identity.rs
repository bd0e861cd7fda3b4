//! Who is calling: the only place where a [`Principal`] is made.
//!
//! On the socket the uid of the peer is the identity; over TCP it is a bearer token, of which only
//! the SHA-256 is kept. Nothing is ever read from a message, and `$USER` counts for nothing.

use std::{collections::HashMap, fs, path::Path};

use nix::unistd::{Uid, User, geteuid};
use registry::{Name, Principal, Refusal, Role, Tenant, digest::Sha256};
use serde::Deserialize;
use tonic::{
    Extensions,
    metadata::MetadataMap,
    transport::server::{TcpConnectInfo, UdsConnectInfo},
};

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
    tokens: HashMap<Sha256, Principal>,
}

/// Who is calling, and how the server knows.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// In words: `uid 0 on the socket`, `a token`.
    pub by: String,
}

/// A token file, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<TokenRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRow {
    name: String,
    roles: Vec<Role>,
    #[serde(default = "default_tenant")]
    tenant: String,
    sha256: String,
}

fn default_tenant() -> String {
    Tenant::local().as_str().into()
}

impl Identity {
    /// For the socket alone: nobody comes in by a token.
    pub fn of_the_socket() -> Self {
        Self {
            tokens: HashMap::new(),
        }
    }

    /// Reads a token file: TOML, a `[[token]]` with `name`, `roles`, `tenant` and `sha256` each.
    ///
    /// # Errors
    /// A sentence that names the file, the entry, and what is wrong with it.
    pub fn with_tokens(path: &Path) -> Result<Self, String> {
        let file = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let read: TokenFile = toml::from_str(&text).map_err(|error| format!("{file}: {error}"))?;
        let mut tokens = HashMap::new();
        for row in read.token {
            let fault = |what: String| format!("{file}: the token of '{}': {what}", row.name);
            let hash: Sha256 = row
                .sha256
                .parse()
                .map_err(|error| fault(format!("sha256: {error}")))?;
            let name = Name::parse(&row.name).map_err(|error| fault(error.to_string()))?;
            let tenant = Tenant::parse(&row.tenant).map_err(|error| fault(error.to_string()))?;
            go_together(&row.roles).map_err(|why| fault(why.into()))?;
            let agent = row.roles.contains(&Role::Agent);
            let namesake = tokens.values().find(|other: &&Principal| {
                (other.name(), other.tenant()) == (&name, &tenant) && other.is(Role::Agent) != agent
            });
            if namesake.is_some() {
                return Err(fault(
                    "another token of that name is for something else: an agent and a person do not share a name".into(),
                ));
            }
            let principal = Principal::new(name, tenant, row.roles.iter().copied());
            if tokens.insert(hash, principal).is_some() {
                return Err(fault("the same token stands there twice".into()));
            }
        }
        Ok(Self { tokens })
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
    ) -> Result<Caller, Refusal> {
        if extensions.get::<InProcess>().is_some() {
            return on_the_socket(geteuid(), surface);
        }
        if let Some(peer) = extensions.get::<UdsConnectInfo>() {
            let cred = peer
                .peer_cred
                .ok_or_else(|| unknown("the socket names no peer"))?;
            return on_the_socket(Uid::from_raw(cred.uid()), surface);
        }
        if extensions.get::<TcpConnectInfo>().is_some() {
            return self.by_token(metadata);
        }
        Err(unknown("the connection says nothing of its other end"))
    }

    fn by_token(&self, metadata: &MetadataMap) -> Result<Caller, Refusal> {
        let mut values = metadata.get_all("authorization").iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(unknown("one bearer token is needed"));
        };
        let text = value.to_str().map_err(|_| unknown("an unreadable token"))?;
        let (scheme, token) = text.split_once(' ').unwrap_or(("", text));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unknown("the authorization is no bearer token"));
        }
        // Looked up by its hash: how long that takes says nothing about any token.
        let principal = self.tokens.get(&Sha256::of(token.trim()));
        Ok(Caller {
            principal: principal
                .ok_or_else(|| unknown("an unknown token"))?
                .clone(),
            by: "a token".into(),
        })
    }
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

/// The server's own uid and root hold operator and admin, and agent where agents call (DESIGN
/// §4.1.5). An agent of the same uid that runs our CLI cannot be told from its person.
fn on_the_socket(uid: Uid, surface: Surface) -> Result<Caller, Refusal> {
    if uid != geteuid() && !uid.is_root() {
        return Err(unknown("this server is not yours: it runs as another user"));
    }
    let roles: &[Role] = match surface {
        Surface::Agent => &[Role::Agent],
        Surface::Operator => &[Role::Operator, Role::Admin],
    };
    let name = Name::parse(&format!("user:{}", login(uid)))?;
    Ok(Caller {
        principal: Principal::new(name, Tenant::local(), roles.iter().copied()),
        by: format!("uid {uid} on the socket"),
    })
}

fn login(uid: Uid) -> String {
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}
