//! The token file: TOML, a `[[token]]` with name, roles and the SHA-256 of the token for each.

use std::{collections::HashMap, fs, path::Path};

use registry::{Name, Principal, Role, Tenant, Timestamp, digest::Sha256, who::Grant};
use serde::Deserialize;

use super::{files::only_its_owner_writes, go_together};
use crate::serve::config::read_toml;

/// Who comes in by which token.
#[derive(Debug)]
pub(super) struct Tokens(HashMap<Sha256, Row>);

/// Whom a token lets in, and when.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) principal: Principal,
    pub(super) expires: Option<Timestamp>,
    not_before: Option<Timestamp>,
}

impl Row {
    pub(super) fn holds_at(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= now)
            && self.expires.is_none_or(|until| now < until)
    }
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
    #[serde(default)]
    scopes: Vec<Grant>,
    #[serde(default)]
    expires: Option<toml::Value>,
    #[serde(default)]
    not_before: Option<toml::Value>,
    /// The middle of the token, so that people find its row; it is no secret.
    #[serde(default)]
    #[allow(dead_code)] // for people
    id: Option<String>,
}

fn default_tenant() -> String {
    Tenant::local().as_str().into()
}

/// A moment, as RFC 3339 has it: as a text, or as TOML's own.
fn moment(value: &toml::Value) -> Result<Timestamp, String> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(moment) => moment.to_string(),
        other => other.to_string(),
    };
    let moment: Result<jiff::Timestamp, _> = text.parse();
    let moment =
        moment.map_err(|_| format!("'{text}' is no moment; write 2027-03-31T00:00:00Z"))?;
    Ok(Timestamp::from_ms(moment.as_millisecond()))
}

impl Tokens {
    /// # Errors
    /// A sentence that names the file, the entry, and what is wrong with it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = path.display();
        only_its_owner_writes(path)?;
        let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let read: TokenFile = read_toml(&text, &file.to_string())?;
        let mut tokens: HashMap<Sha256, Row> = HashMap::new();
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
            let namesake = tokens.values().find(|Row { principal, .. }| {
                (principal.name(), principal.tenant()) == (&name, &tenant)
                    && principal.is(Role::Agent) != agent
            });
            if namesake.is_some() {
                return Err(fault(
                    "another token of that name is for something else: an agent and a person do not share a name".into(),
                ));
            }
            let when = |key: &str, value: &Option<toml::Value>| {
                let moment = value.as_ref().map(moment).transpose();
                moment.map_err(|why| fault(format!("{key}: {why}")))
            };
            let (not_before, expires) = (
                when("not_before", &row.not_before)?,
                when("expires", &row.expires)?,
            );
            if let (Some(from), Some(until)) = (not_before, expires)
                && until <= from
            {
                return Err(fault("it expires before it begins".into()));
            }
            let row = Row {
                principal: Principal::new(name, tenant, row.roles.iter().copied())
                    .with_scopes(row.scopes.iter().copied()),
                expires,
                not_before,
            };
            let who = row.principal.name().clone();
            if tokens.insert(hash, row).is_some() {
                return Err(format!(
                    "{file}: the token of '{who}': the same token stands there twice"
                ));
            }
        }
        Ok(Self(tokens))
    }

    pub(super) fn get(&self, hash: &Sha256) -> Option<&Row> {
        self.0.get(hash)
    }

    pub(super) fn principals(&self) -> impl Iterator<Item = &Principal> {
        self.0.values().map(|row| &row.principal)
    }
}
