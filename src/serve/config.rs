//! The server's config file: strict TOML, read once at the start.
//!
//! A key that nobody knows, a word that means nothing and two keys that contradict each other keep the server from
//! starting: a gate that is misspelt would be open. No secret stands in it, only the files that hold them; a path that
//! is not absolute begins at the directory of the config file.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use registry::{Name, Role, Tenant, who::Grant};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    gate::{Gate, GateTable, VotesTable},
    limits::Limits,
    retention::Retention,
};

/// Tickets live at most this long, whatever the config says.
pub const TICKET_MINUTES_MAX: u32 = 15;

/// All that the file may say. Every section has a default, which is that nothing of it is there.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where callers come in besides the socket.
    pub listen: Listen,
    /// Who else may come in by the socket.
    pub socket: Socket,
    /// Bearer tokens.
    pub tokens: Option<Tokens>,
    /// The server's certificate, and those of its callers.
    pub tls: Option<Tls>,
    /// Bearer tokens that somebody else has signed.
    pub oidc: Option<Oidc>,
    /// Short tickets that a backend mints for its users.
    pub tickets: Tickets,
    /// The door for goldfive agents.
    pub goldfive: Option<Goldfive>,
    /// Which calls have to be asked about.
    pub gate: Option<GateTable>,
    /// Which calls take several people.
    pub votes: Vec<VotesTable>,
    /// How much one caller may take.
    pub limits: Limits,
    /// How long the content of what ended is kept.
    pub retention: RetentionTable,
    /// Where a Prometheus reads.
    pub metrics: Option<MetricsTable>,
}

/// `[retention]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionTable {
    /// In days.
    pub days: i64,
}

impl Default for RetentionTable {
    fn default() -> Self {
        let days = Retention::default().days().into();
        Self { days }
    }
}

/// `[metrics]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsTable {
    /// On loopback only: the page asks nobody who they are.
    pub listen: SocketAddr,
}

/// `[listen]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// In the clear; on loopback only.
    pub tcp: Option<SocketAddr>,
    /// With TLS; needs `[tls]`.
    pub tls: Option<SocketAddr>,
}

/// `[socket]`: users and groups of this machine.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Socket {
    /// By login name. A user's own row goes before those of their groups.
    pub user: Vec<Local>,
    /// By group; the first of the file that the caller is in.
    pub group: Vec<Local>,
}

impl Socket {
    /// Whether anybody but the server's own uid and root may come in.
    #[must_use]
    pub fn maps_others(&self) -> bool {
        !self.user.is_empty() || !self.group.is_empty()
    }
}

/// `[[socket.user]]`, `[[socket.group]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// As the system has it.
    pub name: String,
    /// What they may do, with the tenant and the scopes.
    #[serde(deserialize_with = "roles")]
    pub roles: Vec<Role>,
    /// Of which tenant.
    #[serde(default = "Tenant::local", deserialize_with = "tenant")]
    pub tenant: Tenant,
    /// What narrows the roles; empty narrows nothing.
    #[serde(default)]
    pub scopes: Vec<Grant>,
}

/// `[tokens]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// With the SHA-256 of each token.
    pub file: PathBuf,
}

/// `[tls]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM: our certificate, then those between it and its root.
    pub cert: PathBuf,
    /// PEM: its key.
    pub key: PathBuf,
    /// PEM: who signs the certificates of callers.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    /// Who comes in by a certificate.
    #[serde(default)]
    pub principal: Vec<Certified>,
}

/// `[[tls.principal]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certified {
    /// A subject alternative name of the certificate: a URI, else an e-mail address, else a host name.
    pub san: String,
    /// What the record will say.
    #[serde(deserialize_with = "name")]
    pub name: Name,
    /// What they may do.
    #[serde(deserialize_with = "roles")]
    pub roles: Vec<Role>,
    /// Of which tenant.
    #[serde(default = "Tenant::local", deserialize_with = "tenant")]
    pub tenant: Tenant,
    /// What narrows the roles; empty narrows nothing.
    #[serde(default)]
    pub scopes: Vec<Grant>,
}

/// `[oidc]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// The issuer's public keys: a JWKS document on this disk.
    pub keys: PathBuf,
    /// `iss` has to be this.
    pub issuer: String,
    /// `aud` has to be this, or to hold it.
    pub audience: String,
    /// The claim that says who it is.
    #[serde(default)]
    pub name: NameClaim,
    /// What a claim allows; the first that fits is taken.
    pub map: Vec<Mapped>,
}

/// Which claim names the person.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum NameClaim {
    /// What the issuer calls them, for ever.
    #[default]
    Sub,
    /// Their address; taken only where the issuer says that it was verified.
    Email,
}

/// `[[oidc.map]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapped {
    /// A claim: a text, or a list of texts.
    pub claim: String,
    /// What it has to be, or to hold.
    pub value: String,
    /// What it allows then.
    #[serde(deserialize_with = "roles")]
    pub roles: Vec<Role>,
    /// Of which tenant.
    #[serde(default = "Tenant::local", deserialize_with = "tenant")]
    pub tenant: Tenant,
    /// What narrows the roles; empty narrows nothing.
    #[serde(default)]
    pub scopes: Vec<Grant>,
}

/// `[tickets]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tickets {
    /// 32 random bytes, made where they are not there yet. Left out: a key in memory, so that a restart ends every
    /// ticket.
    pub key: Option<PathBuf>,
    /// How long a ticket lives that does not say [default: 5; at most 15].
    #[serde(deserialize_with = "minutes")]
    pub minutes: Option<u32>,
}

/// `[goldfive]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goldfive {
    /// On loopback only.
    pub listen: SocketAddr,
    /// What their agents have to send.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

impl Config {
    /// Reads a config file, and looks whether what it says goes together.
    ///
    /// # Errors
    /// A sentence that names the file, and where it can the line and what was probably meant.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        config.anchor(path.parent().unwrap_or(Path::new("")));
        config
            .check()
            .map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(config)
    }

    /// Reads what a file holds; `file` is how it is called in a complaint.
    ///
    /// # Errors
    /// A sentence that names the line, the key, and what was probably meant.
    pub fn parse(text: &str, file: &str) -> Result<Self, String> {
        read_toml(text, file)
    }

    /// Paths begin at `dir`.
    fn anchor(&mut self, dir: &Path) {
        let (tls, oidc) = (self.tls.as_mut(), self.oidc.as_mut());
        let paths = [
            self.tokens.as_mut().map(|tokens| &mut tokens.file),
            oidc.map(|oidc| &mut oidc.keys),
            self.tickets.key.as_mut(),
            self.goldfive
                .as_mut()
                .and_then(|door| door.token_file.as_mut()),
        ];
        let of_tls = tls.map(|tls| {
            [
                Some(&mut tls.cert),
                Some(&mut tls.key),
                tls.client_ca.as_mut(),
            ]
        });
        let paths = paths.into_iter().chain(of_tls.into_iter().flatten());
        for path in paths.flatten() {
            *path = dir.join(&*path);
        }
    }

    /// Whether it goes together. Flags may have been put over it since it was read.
    ///
    /// # Errors
    /// A sentence that says which keys do not, and what to do.
    pub fn check(&self) -> Result<(), String> {
        self.check_listeners()?;
        self.check_people()?;
        self.limits.check()?;
        self.keeps()?;
        self.rules().map(drop)
    }

    /// How long the content of what ended is kept.
    ///
    /// # Errors
    /// A sentence that says what is possible.
    pub fn keeps(&self) -> Result<Retention, String> {
        Retention::of_days(self.retention.days)
    }

    /// The rules for what has to be asked about.
    ///
    /// # Errors
    /// A sentence that names the rule, and what is wrong with it.
    pub fn rules(&self) -> Result<Gate, String> {
        Gate::of(self.gate.as_ref(), &self.votes)
    }

    fn check_listeners(&self) -> Result<(), String> {
        let Listen { tcp, tls } = &self.listen;
        let bearer = self.tokens.is_some() || self.oidc.is_some();
        let client_ca = self.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
        if let Some(address) = tcp.filter(|address| !address.ip().is_loopback()) {
            return Err(format!(
                "[listen] tcp: {address} is not a loopback address, and tokens would travel in the clear: listen on it with `tls`"
            ));
        }
        if tcp.is_some() && !bearer {
            return Err("[listen] tcp: nobody could come in: it needs [tokens] or [oidc]".into());
        }
        match (tls, &self.tls) {
            (Some(_), None) => {
                return Err("[listen] tls: it needs [tls] with `cert` and `key`".into());
            }
            (None, Some(_)) => {
                return Err("[tls]: nothing listens with it: say [listen] tls".into());
            }
            (Some(_), Some(_)) if !bearer && client_ca.is_none() => {
                return Err(
                    "[listen] tls: nobody could come in: it needs [tokens], [oidc], or [tls] client_ca".into(),
                );
            }
            _ => {}
        }
        if bearer && tcp.is_none() && tls.is_none() {
            return Err(
                "[tokens] and [oidc] need a listener: say [listen] tcp or tls; on the socket the uid is the identity"
                    .into(),
            );
        }
        if let Some(door) = &self.goldfive
            && !door.listen.ip().is_loopback()
        {
            return Err(format!(
                "[goldfive] listen: {} is not a loopback address: that wire has no TLS",
                door.listen
            ));
        }
        Ok(())
    }

    fn check_people(&self) -> Result<(), String> {
        for (what, rows) in [("user", &self.socket.user), ("group", &self.socket.group)] {
            once(
                &format!("[[socket.{what}]]"),
                rows.iter().map(|row| &row.name),
            )?;
        }
        if let Some(tls) = &self.tls {
            if tls.client_ca.is_some() == tls.principal.is_empty() {
                return Err(
                    "[tls]: `client_ca` and [[tls.principal]] need each other: one says whose certificates are taken, the other who they are"
                        .into(),
                );
            }
            once(
                "[[tls.principal]]",
                tls.principal.iter().map(|row| &row.san),
            )?;
        }
        if let Some(oidc) = &self.oidc {
            if oidc.map.is_empty() {
                return Err("[oidc]: it maps nobody: add [[oidc.map]]".into());
            }
            for (key, value) in [("issuer", &oidc.issuer), ("audience", &oidc.audience)] {
                if value.is_empty() {
                    return Err(format!(
                        "[oidc] {key}: it is empty, so it would check nothing"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The same row twice would say two things.
fn once<'a>(section: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("{section}: a name is empty"));
        }
        if !seen.insert(name) {
            return Err(format!("{section}: '{name}' stands there twice"));
        }
    }
    Ok(())
}

/// Reads strict TOML; for every file of ours.
///
/// # Errors
/// A sentence that names the line, the key, and what was probably meant.
pub fn read_toml<T: for<'de> Deserialize<'de>>(text: &str, file: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| {
            let before = text.as_bytes().get(..span.start).unwrap_or_default();
            before.iter().filter(|byte| **byte == b'\n').count() + 1
        });
        let what = error.message();
        let meant = meant(what).map_or(String::new(), |word| format!("; did you mean `{word}`?"));
        match line {
            Some(line) => format!("{file}: line {line}: {what}{meant}"),
            None => format!("{file}: {what}{meant}"),
        }
    })
}

/// Of the words that a complaint of serde lists, the one that is nearest to the first, if one is near.
fn meant(complaint: &str) -> Option<&str> {
    if !complaint.starts_with("unknown ") {
        return None;
    }
    let mut quoted = complaint.split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    let near = quoted.map(|word| (distance(wrong, word), word));
    let (far, word) = near.min_by_key(|(far, _)| *far)?;
    (far <= 2.max(wrong.chars().count() / 3)).then_some(word)
}

/// How many letters have to be put in, left out or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
    Name::parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn tenant<'de, D: Deserializer<'de>>(from: D) -> Result<Tenant, D::Error> {
    Tenant::parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn roles<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Role>, D::Error> {
    let roles = Vec::<Role>::deserialize(from)?;
    super::identity::go_together(&roles).map_err(D::Error::custom)?;
    Ok(roles)
}

fn minutes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let minutes = u32::deserialize(from)?;
    if !(1..=TICKET_MINUTES_MAX).contains(&minutes) {
        return Err(D::Error::custom(format!(
            "a ticket lives 1 to {TICKET_MINUTES_MAX} minutes"
        )));
    }
    Ok(Some(minutes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    const SAMPLE: &str = include_str!("../../docs/pilothouse.toml");

    fn read(text: &str) -> Result<Config, String> {
        let config = Config::parse(text, "pilothouse.toml")?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn the_sample_names_every_key() {
        let mut config = read(SAMPLE).unwrap();
        let gate = config.gate.replace(GateTable::default()).unwrap();
        assert_eq!((gate.tool.len(), config.votes.len()), (2, 1));
        assert_eq!(config.limits, Limits::default());
        // Whatever else the sample leaves out is none here.
        let all = format!("{config:?}");
        assert!(!all.contains("None"), "{all}");
        assert!(config.socket.maps_others());
        assert!(read("").is_ok(), "nothing is needed");
    }

    /// Case F03: what is misspelt, means nothing or contradicts itself keeps the server from starting.
    #[test]
    fn a_config_that_is_not_meant_is_refused() {
        let rows: &[(&str, &[&str])] = &[
            (
                "[lisen]\n",
                &["line 1", "`lisen`", "did you mean `listen`?"],
            ),
            (
                "\n[listen]\ntcpp = \"127.0.0.1:1\"\n",
                &["pilothouse.toml: line 3", "`tcpp`", "did you mean `tcp`?"],
            ),
            ("[listen]\ntcp = 7070\n", &["line 2"]),
            ("[listen]\ntcp = \"localhost\"\n", &["line 2"]),
            ("[listen]\nxyzzy = 1\n", &["line 2", "`xyzzy`"]),
            (
                "[listen]\ntcp = \"0.0.0.0:1\"\n[tokens]\nfile = \"t\"\n",
                &["0.0.0.0:1 is not a loopback address"],
            ),
            (
                "[listen]\ntcp = \"127.0.0.1:1\"\n",
                &["nobody could come in"],
            ),
            ("[listen]\ntls = \"0.0.0.0:1\"\n", &["it needs [tls]"]),
            (
                "[listen]\ntls = \"0.0.0.0:1\"\n[tls]\ncert = \"c\"\nkey = \"k\"\n",
                &["nobody could come in"],
            ),
            ("[tls]\ncert = \"c\"\nkey = \"k\"\n", &["nothing listens"]),
            ("[tls]\ncert = \"c\"\n", &["missing field `key`"]),
            ("[tokens]\nfile = \"t\"\n", &["need a listener"]),
            ("[tokens]\n", &["missing field `file`"]),
            (
                "[listen]\ntls = \"0.0.0.0:1\"\n[tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n",
                &["need each other"],
            ),
            (
                "[[socket.user]]\nname = \"ada\"\nroles = []\n",
                &["line 3", "no roles"],
            ),
            (
                "[[socket.user]]\nname = \"ada\"\nroles = [\"agent\", \"operator\"]\n",
                &["line 3", "never decides"],
            ),
            (
                "[[socket.user]]\nname = \"ada\"\nroles = [\"oprator\"]\n",
                &["line 3", "did you mean `operator`?"],
            ),
            (
                "[[socket.user]]\nname = \"ada\"\nroles = [\"user\"]\nscopes = [\"wach\"]\n",
                &["line 4", "did you mean `watch`?"],
            ),
            (
                "[[socket.user]]\nname = \"ada\"\nroles = [\"user\"]\n[[socket.user]]\nname = \"ada\"\nroles = [\"admin\"]\n",
                &["'ada' stands there twice"],
            ),
            (
                "[[socket.group]]\nname = \"\"\nroles = [\"user\"]\n",
                &["a name is empty"],
            ),
            (
                "[[socket.user]]\nname = \"ada\"\nroles = [\"user\"]\ntenant = \"a b\"\n",
                &["line 4", "a tenant is"],
            ),
            ("[tickets]\nminutes = 16\n", &["line 2", "1 to 15 minutes"]),
            ("[tickets]\nminutes = 0\n", &["line 2", "1 to 15 minutes"]),
            (
                "[goldfive]\nlisten = \"0.0.0.0:7531\"\n",
                &["not a loopback address"],
            ),
            ("[listen\n", &["line 1"]),
            ("[listen]\n[listen]\n", &["line 2"]),
        ];
        for (text, said) in rows {
            let why = read(text).map(|_| ()).expect_err(text);
            for said in *said {
                assert!(why.contains(said), "{text}\n{why}");
            }
        }
        let oidc = "[listen]\ntcp = \"127.0.0.1:1\"\n[oidc]\nkeys = \"k\"\nissuer = \"i\"\naudience = \"a\"\n";
        assert!(
            read(&format!("{oidc}map = []\n"))
                .unwrap_err()
                .contains("maps nobody")
        );
        let row = "[[oidc.map]]\nclaim = \"g\"\nvalue = \"v\"\nroles = [\"user\"]\n";
        assert!(read(&format!("{oidc}{row}")).is_ok());
        let open = oidc.replace("\"a\"", "\"\"");
        let why = read(&format!("{open}{row}")).unwrap_err();
        assert!(why.contains("audience") && why.contains("empty"), "{why}");
    }

    #[test]
    fn paths_begin_at_the_directory_of_the_file() {
        let mut config = read(SAMPLE).unwrap();
        config.anchor(Path::new("/etc/pilothouse"));
        assert_eq!(
            config.tokens.unwrap().file,
            Path::new("/etc/pilothouse/tokens.toml")
        );
        let tls = config.tls.unwrap();
        assert_eq!(
            tls.client_ca.unwrap(),
            Path::new("/etc/pilothouse/clients-ca.pem")
        );
    }
}
