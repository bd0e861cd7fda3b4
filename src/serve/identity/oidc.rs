//! Bearer tokens that an issuer signed (JWS, RFC 7515), checked against its public keys on our disk. Nothing is fetched.
//!
//! The key says which algorithm it is for; what the token says is only compared. So «none» is no algorithm, and a public
//! key is never taken for a shared secret.

use std::{fs, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use registry::{Name, Principal, Refusal, Timestamp};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Known, unknown};
use crate::serve::config::{self, Mapped, NameClaim};

/// How far the issuer's clock and ours may be apart.
const LEEWAY: Duration = Duration::from_secs(60);

/// An issuer, and whom we know of its people.
#[derive(Debug)]
pub(super) struct Oidc {
    keys: Vec<Key>,
    rules: config::Oidc,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Kind {
    /// As a token says it.
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match self {
            Self::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        checked.is_ok()
    }
}

#[derive(Debug, Deserialize)]
struct Keys {
    keys: Vec<Jwk>,
}

/// A public key, as RFC 7517 and 8037 write it.
#[derive(Debug, Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Oidc {
    /// # Errors
    /// A sentence that names the file, the key, and what is wrong with it.
    pub(super) fn read(path: &Path, rules: &config::Oidc) -> Result<Self, String> {
        let file = path.display();
        super::files::only_its_owner_writes(path)?;
        let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let read: Keys =
            serde_json::from_str(&text).map_err(|error| format!("{file}: no JWKS: {error}"))?;
        let mut keys = Vec::new();
        for (n, jwk) in read.keys.iter().enumerate() {
            if jwk
                .purpose
                .as_deref()
                .is_some_and(|purpose| purpose != "sig")
            {
                continue;
            }
            let id = jwk.kid.clone();
            let kind = kind(jwk).map_err(|why| format!("{file}: key {}: {why}", n + 1))?;
            if id.is_some() && keys.iter().any(|key: &Key| key.id == id) {
                return Err(format!(
                    "{file}: key {}: its `kid` stands there twice",
                    n + 1
                ));
            }
            keys.push(Key { id, kind });
        }
        if keys.is_empty() {
            return Err(format!("{file}: there is no key in it that signs"));
        }
        let rules = rules.clone();
        Ok(Self { keys, rules })
    }

    /// # Errors
    /// [`Refusal::Unauthenticated`].
    pub(super) fn holder(&self, token: &str, now: Timestamp) -> Result<Known, Refusal> {
        let claims = self.claims(token)?;
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        if text("iss") != Some(&self.rules.issuer) {
            return Err(unknown("a token of another issuer"));
        }
        if !claims
            .get("aud")
            .is_some_and(|aud| holds(aud, &self.rules.audience))
        {
            return Err(unknown("a token for another audience"));
        }
        let until = moment(&claims, "exp")?;
        let until = until.ok_or_else(|| unknown("a token that does not say when it expires"))?;
        let until = until.plus(LEEWAY);
        if until <= now {
            return Err(unknown("an expired token"));
        }
        if moment(&claims, "nbf")?.is_some_and(|from| now.plus(LEEWAY) < from) {
            return Err(unknown("a token that is not good yet"));
        }
        let name = match self.rules.name {
            NameClaim::Sub => text("sub"),
            NameClaim::Email if claims.get("email_verified") == Some(&Value::Bool(true)) => {
                text("email")
            }
            NameClaim::Email => return Err(unknown("the e-mail address is not verified")),
        };
        let name = name.ok_or_else(|| unknown("the token does not say whose it is"))?;
        let name = Name::parse(&format!("oidc:{name}"))
            .map_err(|_| unknown("the token names somebody who can have no name here"))?;
        let fits = |row: &&Mapped| {
            claims
                .get(&row.claim)
                .is_some_and(|claim| holds(claim, &row.value))
        };
        let row = self.rules.map.iter().find(fits);
        let row =
            row.ok_or_else(|| unknown("the token is genuine, and no [[oidc.map]] fits it"))?;
        let principal = Principal::new(name, row.tenant.clone(), row.roles.iter().copied());
        Ok(Known {
            principal: principal.with_scopes(row.scopes.iter().copied()),
            by: format!("a token of {}", self.rules.issuer),
            expires: Some(until),
            token: None,
        })
    }

    /// What a token says, once it is known who signed it.
    fn claims(&self, token: &str) -> Result<Map<String, Value>, Refusal> {
        let bad = || unknown("an unreadable token");
        let (signed, signature) = token.rsplit_once('.').ok_or_else(bad)?;
        let (header, claims) = signed.split_once('.').ok_or_else(bad)?;
        let read = |part: &str| BASE64.decode(part).map_err(|_| bad());
        let header: Header = serde_json::from_slice(&read(header)?).map_err(|_| bad())?;
        if header.crit.is_some() {
            return Err(unknown("a token with extensions that we do not know"));
        }
        let fits = |key: &&Key| {
            key.kind.algorithm() == header.alg && (header.kid.is_none() || key.id == header.kid)
        };
        let mut keys = self.keys.iter().filter(fits);
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(unknown("a token that none of the issuer's keys signed"));
        };
        if !key.kind.signed(signed.as_bytes(), &read(signature)?) {
            return Err(unknown("a token that none of the issuer's keys signed"));
        }
        serde_json::from_slice(&read(claims)?).map_err(|_| bad())
    }
}

/// Three parts, of which the first begins as JSON does.
pub(super) fn looks_like_one(token: &str) -> bool {
    token.starts_with("ey") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

fn kind(jwk: &Jwk) -> Result<Kind, String> {
    let bytes = |name: &str, text: &Option<String>| {
        let text = text
            .as_ref()
            .ok_or_else(|| format!("`{name}` is missing"))?;
        let bytes = BASE64.decode(text);
        bytes.map_err(|_| format!("`{name}` is no base64url without padding"))
    };
    let of = |length: usize, name: &str, text: &Option<String>| {
        let bytes = bytes(name, text)?;
        match bytes.len() == length {
            true => Ok(bytes),
            false => Err(format!("`{name}` has {} bytes, not {length}", bytes.len())),
        }
    };
    let kind = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            let (n, e) = (bytes("n", &jwk.n)?, bytes("e", &jwk.e)?);
            if n.len() < 256 {
                return Err("an RSA key has at least 2048 bits".into());
            }
            Kind::Rsa { n, e }
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (of(32, "x", &jwk.x)?, of(32, "y", &jwk.y)?);
            Kind::P256([&[4][..], &x, &y].concat())
        }
        ("OKP", Some("Ed25519")) => Kind::Ed25519(of(32, "x", &jwk.x)?),
        _ => {
            return Err(
                "it is none of RSA, EC with P-256 and OKP with Ed25519; leave out what is not used"
                    .into(),
            );
        }
    };
    match jwk.alg.as_deref() {
        Some(alg) if alg != kind.algorithm() => {
            Err(format!("`alg` has to be {} for this key", kind.algorithm()))
        }
        _ => Ok(kind),
    }
}

/// A text that is this, or a list that holds it.
fn holds(claim: &Value, wanted: &str) -> bool {
    match claim {
        Value::String(text) => text == wanted,
        Value::Array(all) => all.iter().any(|one| one.as_str() == Some(wanted)),
        _ => false,
    }
}

/// A moment in seconds since 1970, perhaps with a fraction.
fn moment(claims: &Map<String, Value>, claim: &str) -> Result<Option<Timestamp>, Refusal> {
    let Some(value) = claims.get(claim) else {
        return Ok(None);
    };
    let seconds = value
        .as_f64()
        .filter(|seconds| (0.0..1e11).contains(seconds));
    let seconds = seconds.ok_or_else(|| unknown("the token's times cannot be read"))?;
    Ok(Some(Timestamp::from_ms((seconds * 1000.0) as i64)))
}
