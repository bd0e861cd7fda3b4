//! Who is calling, and what each role may do.
//!
//! Invariant: a [`Principal`] is made by the identity layer only, never from a message.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::{approval::Asks, event::Scope, refusal::Refusal};

/// A tenant: what one does not know of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tenant(String);

impl Tenant {
    /// Parses 1 to 64 of `A-Z a-z 0-9 _ . -`.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] that says what a tenant may look like.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(Refusal::Invalid(
            "a tenant is 1 to 64 of A-Z a-z 0-9 _ . -".into(),
        ))
    }

    /// The tenant of the local socket and of the goldfive door.
    pub fn local() -> Self {
        Self("default".into())
    }

    /// The tenant as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who somebody is: `user:ada`, `agent:goldfive/probe`, `eu:42`. Names that begin with `system:`
/// are ours, and nobody else can have one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Parses a name of 1 to 256 bytes without control characters or blanks.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if it is empty, too long, unprintable, or begins with `system:`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.to_ascii_lowercase().starts_with("system:") {
            return Err(Refusal::Invalid(
                "names that begin with 'system:' are reserved".into(),
            ));
        }
        let printable = crate::text::Untrusted::new(text).line().altered() == 0;
        let fits = (1..=256).contains(&text.len());
        if fits && printable && !text.contains(char::is_whitespace) {
            return Ok(Self(text.to_owned()));
        }
        Err(Refusal::Invalid(
            "a name is 1 to 256 bytes of printable text without blanks".into(),
        ))
    }

    /// Reads back a name that we wrote, also one of ours; only for log and wire.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if we cannot have written it.
    pub fn written(text: &str) -> Result<Self, Refusal> {
        match text.strip_prefix("system:") {
            Some(what) => Self::parse(what).map(|_| Self(text.to_owned())),
            None => Self::parse(text),
        }
    }

    /// One of our own actors: `system:deadline`.
    pub fn system(what: &'static str) -> Self {
        Self(format!("system:{what}"))
    }

    /// The name as text; it was checked to be printable.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a credential is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Files, waits, reports; never decides.
    Agent,
    /// Sees the tenant, and does nothing.
    Viewer,
    /// Sees their own runs, and answers `EndUser` as their owner.
    User,
    /// Answers for a user, naming the user.
    Backend,
    /// On call: answers `Operator`, extends and dismisses, and directs runs.
    Operator,
    /// All of that in the tenant, and `Admin` approvals, as themselves only.
    Admin,
}

impl Role {
    /// The role as configuration spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Backend => "backend",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Every role.
    pub const ALL: [Self; 6] = [
        Self::Agent,
        Self::Viewer,
        Self::User,
        Self::Backend,
        Self::Operator,
        Self::Admin,
    ];
}

/// Who is calling: what the identity layer made of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    name: Name,
    tenant: Tenant,
    roles: BTreeSet<Role>,
}

impl Principal {
    /// For the identity layer, which has checked the credential.
    pub fn new(name: Name, tenant: Tenant, roles: impl IntoIterator<Item = Role>) -> Self {
        Self {
            name,
            tenant,
            roles: roles.into_iter().collect(),
        }
    }

    /// Whether it says truly what kind of run it opens (DESIGN §4.1.5).
    pub fn is_internal(&self) -> bool {
        self.is(Role::Backend)
    }

    /// One of our own actors in `tenant`.
    pub fn system(what: &'static str, tenant: Tenant) -> Self {
        Self::new(Name::system(what), tenant, [])
    }

    /// Who: what the record will say.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Of which tenant.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The roles it holds.
    pub fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.roles.iter().copied()
    }

    /// Whether it holds `role`.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    fn is_any(&self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.is(*role))
    }
}

/// Who decided, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decider {
    /// Whose credential it was.
    pub by: Name,
    /// The user that a backend named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Name>,
}

/// What people and agents may wish for; the rows of the matrix in `docs/ROLES.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Approve or reject: the same right.
    Decide(Asks),
    /// Move a deadline.
    Extend,
    /// Take away a card that can no longer be delivered.
    Dismiss,
    /// Resume, steer, cancel or pause a run.
    Direct,
    /// Have a run do a task again, or say where it is.
    Inspect,
    /// Open runs, file, wait, report.
    Work,
    /// Look at what the tenant asks.
    See,
}

/// The one table of who may do what (DESIGN §4.1.5). `owner` is the user the run works for.
///
/// # Errors
/// [`Refusal::NotYours`] that says who may.
pub fn may(
    by: &Principal,
    verb: Verb,
    owner: Option<&Name>,
    on_behalf_of: Option<&Name>,
) -> Result<Decider, Refusal> {
    use Role::{Admin, Agent, Backend, Operator, User, Viewer};
    let owns = owner == Some(&by.name);
    let acts_for_owner = on_behalf_of.is_some() && on_behalf_of == owner;
    let themselves = on_behalf_of.is_none();
    let allowed = match verb {
        Verb::Decide(Asks::EndUser) if themselves => by.is(Admin) || (by.is(User) && owns),
        Verb::Decide(Asks::EndUser) => by.is_any(&[Backend, Admin]) && acts_for_owner,
        Verb::Decide(Asks::Operator) => by.is_any(&[Operator, Admin]) && themselves,
        Verb::Decide(Asks::Admin) => by.is(Admin) && themselves,
        Verb::Extend | Verb::Dismiss | Verb::Inspect => by.is_any(&[Operator, Admin]) && themselves,
        Verb::Direct => (by.is_any(&[Operator, Admin]) || (by.is(User) && owns)) && themselves,
        Verb::Work => by.is(Agent) || by.is(Backend),
        Verb::See => by.is_any(&[Viewer, Backend, Operator, Admin]) || (by.is(User) && owns),
    };
    if allowed {
        return Ok(Decider {
            by: by.name.clone(),
            on_behalf_of: on_behalf_of.cloned(),
        });
    }
    Err(Refusal::NotYours(who_may(verb, themselves)))
}

/// Whether `by` may see what lies in `scope`; a function of the scope alone.
pub fn sees(by: &Principal, scope: &Scope) -> bool {
    by.tenant == scope.tenant && may(by, Verb::See, scope.owner.as_ref(), None).is_ok()
}

fn who_may(verb: Verb, themselves: bool) -> &'static str {
    match verb {
        Verb::Decide(Asks::EndUser) if themselves => {
            "the user that this run works for, or an admin of the tenant, decides this one"
        }
        Verb::Decide(Asks::EndUser) => {
            "a backend decides this one only for the user that the run works for"
        }
        Verb::Decide(_) if !themselves => {
            "this one is decided by a person as themselves, not on behalf of a user"
        }
        Verb::Decide(Asks::Operator) => "an operator on call, or an admin, decides this one",
        Verb::Decide(Asks::Admin) => "an admin of the tenant decides this one",
        Verb::Extend => "an operator on call, or an admin, extends a deadline",
        Verb::Dismiss => "an operator on call, or an admin, dismisses a card",
        Verb::Direct => {
            "an operator on call, an admin, or the user that this run works for directs it"
        }
        Verb::Inspect => "an operator on call, or an admin, rewinds a run or asks it where it is",
        Verb::Work => "this takes the credential of an agent",
        Verb::See => "this takes the credential of a person",
    }
}
