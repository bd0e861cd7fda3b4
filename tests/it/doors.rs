//! Who may come in: by the socket, a token, a ticket, a certificate, or what an issuer signed; and who may not.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use pilothouse::{
    connect::{CallError, Client, Server as Place, Token, Trust},
    wire::{
        pb::pilothouse::v1::{self as pb, Asks, Verdict},
        status::refused,
    },
};
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use registry::{Name, Role, who::Grant};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};

use crate::{
    house::{Headers, everybody, free_port, get, open, question, run_of, token},
    server::{PROGRAM, Ran, Server, write_secret},
};

const HOST: &str = "ops.example";

/// A server with every door, and what one needs to come in.
struct Doors {
    dir: TempDir,
    tcp: String,
    tls: String,
    server: Server,
    ca: CertifiedIssuer<'static, KeyPair>,
    stranger: CertifiedIssuer<'static, KeyPair>,
    issuer: Ed25519KeyPair,
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, in PEM.
fn signed(
    by: &CertifiedIssuer<'static, KeyPair>,
    names: Vec<SanType>,
    year: i32,
) -> (String, String) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    // What a common name claims counts for nothing.
    params
        .distinguished_name
        .push(DnType::CommonName, "admin:root");
    params.subject_alt_names = names;
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().unwrap();
    let made = params.signed_by(&key, by).unwrap();
    (made.pem(), key.serialize_pem())
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn host(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

fn loopback() -> Vec<SanType> {
    vec![SanType::IpAddress([127, 0, 0, 1].into()), host(HOST)]
}

impl Doors {
    fn open() -> Self {
        let dir = TempDir::new().unwrap();
        let (tcp, tls) = (free_port(), free_port());
        let (tcp, tls) = (format!("127.0.0.1:{tcp}"), format!("127.0.0.1:{tls}"));
        let (ca, stranger) = (authority("ours"), authority("another"));
        let issuer = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let jwk = |kid: &str, key: &Ed25519KeyPair| {
            let x = BASE64.encode(key.public_key());
            json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": x})
        };
        let at = |name: &str| dir.path().join(name);
        let (cert, key) = signed(&ca, loopback(), 2100);
        fs::write(at("server.pem"), cert).unwrap();
        write_secret(at("server.key"), key);
        fs::write(at("ca.pem"), ca.pem()).unwrap();
        fs::write(at("tokens.toml"), everybody() + &times()).unwrap();
        let keys = json!({"keys": [jwk("k1", &issuer)]});
        fs::write(at("jwks.json"), keys.to_string()).unwrap();
        let config = format!(
            r#"
[listen]
tcp = "{tcp}"
tls = "{tls}"
[tokens]
file = "tokens.toml"
[tls]
cert = "server.pem"
key = "server.key"
client_ca = "ca.pem"
[[tls.principal]]
san = "spiffe://example.org/billing"
name = "agent:billing"
roles = ["agent"]
[[tls.principal]]
san = "grace.example.org"
name = "user:grace"
roles = ["operator"]
[[tls.principal]]
san = "spiffe://example.org/elsewhere"
name = "admin:far"
roles = ["admin"]
tenant = "elsewhere"
[oidc]
keys = "jwks.json"
issuer = "https://id.example.org"
audience = "pilothouse"
[[oidc.map]]
claim = "groups"
value = "oncall"
roles = ["operator"]
[[oidc.map]]
claim = "groups"
value = "readers"
roles = ["viewer"]
scopes = ["watch"]
[[oidc.map]]
claim = "groups"
value = "elsewhere"
roles = ["admin"]
tenant = "elsewhere"
[tickets]
key = "ticket.key"
"#
        );
        fs::write(at("pilothouse.toml"), config).unwrap();
        let file = at("pilothouse.toml");
        let file = file.to_str().unwrap();
        let checked = Command::new(PROGRAM)
            .args(["config", "check", file])
            .output();
        let checked = Ran::of(checked.unwrap());
        assert_eq!((checked.code, checked.out.trim()), (0, "ok"), "{checked:?}");
        let server = Server::with(&["--config", file]);
        Self {
            dir,
            tcp,
            tls,
            server,
            ca,
            stranger,
            issuer,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn trust(
        &self,
        ca: &CertifiedIssuer<'static, KeyPair>,
        ours: Option<&(String, String)>,
    ) -> Trust {
        let at = |name: &str| self.at(name);
        fs::write(at("trusted.pem"), ca.pem()).unwrap();
        if let Some((cert, key)) = ours {
            fs::write(at("mine.pem"), cert).unwrap();
            write_secret(at("mine.key"), key);
        }
        let (cert, key) = (at("mine.pem"), at("mine.key"));
        let ours = ours.map(|_| (cert.as_path(), key.as_path()));
        Trust::read(&at("trusted.pem"), ours).unwrap()
    }

    /// By TLS, with a certificate, a token, both or nothing.
    fn secure(&self, ours: Option<&(String, String)>, bearer: Option<&str>) -> Client {
        let Place::Tls(at) = format!("https://{}", self.tls).parse().unwrap() else {
            panic!()
        };
        let bearer = bearer.map(|text| Token::parse(text).unwrap());
        Client::secure(at, self.trust(&self.ca, ours), bearer)
    }

    fn bearer(&self, text: &str) -> Client {
        let at = format!("http://{}", self.tcp).parse().unwrap();
        Client::connect(at, Some(Token::parse(text).unwrap()))
    }

    /// A token that the issuer signed over these claims, changed.
    fn issued(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = json!({
            "iss": "https://id.example.org",
            "aud": ["pilothouse", "others"],
            "sub": "1234",
            "groups": ["oncall", "readers"],
            "exp": 4_000_000_000_i64,
        });
        change(&mut claims);
        let header = json!({"alg": "EdDSA", "kid": "k1", "typ": "JWT"});
        jws(&header, &claims, |message| {
            self.issuer.sign(message).as_ref().to_vec()
        })
    }
}

fn jws(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| BASE64.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = BASE64.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// Rows of the token file with a beginning, an end, or scopes.
fn times() -> String {
    let row = |name: &str, role: &str, more: &str| {
        let hash = registry::digest::Sha256::of(token(name));
        format!("[[token]]\nname = {name:?}\nroles = [{role:?}]\nsha256 = \"{hash}\"\n{more}\n")
    };
    [
        row(
            "user:past",
            "operator",
            "expires = \"2020-01-01T00:00:00Z\"",
        ),
        row(
            "user:later",
            "operator",
            "not_before = 2100-01-01T00:00:00Z",
        ),
        row("user:till", "operator", "expires = 2100-01-01T00:00:00Z"),
        row("user:looks", "operator", "scopes = [\"watch\"]"),
        row(
            "user:orders",
            "operator",
            "scopes = [\"watch\", \"direct\"]",
        ),
        row("backend:looks", "backend", "scopes = [\"watch\"]"),
    ]
    .concat()
}

fn told(error: CallError) -> String {
    match error {
        CallError::Refused(told) => format!("{}: {}", told.word, told.message),
        other => other.to_string(),
    }
}

async fn who(client: Client) -> String {
    match client.whoami().await {
        Ok(me) => {
            let roles: Vec<&str> = me.roles.iter().map(|role| role.word()).collect();
            format!("{} {} {}", me.name, roles.join(","), me.tenant.as_str())
        }
        Err(error) => told(error),
    }
}

/// ENGINE §8: the name that a certificate bears says who calls, and its common name nothing.
#[tokio::test]
async fn a_certificate_says_who_calls() {
    let doors = Doors::open();
    let of = |names: Vec<SanType>| signed(&doors.ca, names, 2100);
    let billing = uri("spiffe://example.org/billing");
    let rows = [
        (vec![billing.clone()], "agent:billing agent default"),
        (
            vec![host("grace.example.org")],
            "user:grace operator default",
        ),
        // The URI counts before the host name.
        (
            vec![host("grace.example.org"), billing.clone()],
            "agent:billing agent default",
        ),
        (
            vec![billing.clone(), uri("spiffe://example.org/elsewhere")],
            "unauthenticated: unauthenticated: the certificate has names of two principals",
        ),
        (
            vec![
                uri("spiffe://example.org/nobody"),
                host("grace.example.org"),
            ],
            "unauthenticated: unauthenticated: the certificate is genuine, and its name stands in no",
        ),
        (
            vec![],
            "unauthenticated: unauthenticated: the certificate has no subject alternative name",
        ),
        (
            vec![uri("spiffe://example.org/elsewhere")],
            "admin:far admin elsewhere",
        ),
    ];
    for (names, expected) in rows {
        let certificate = of(names.clone());
        let said = who(doors.secure(Some(&certificate), None)).await;
        let said = said.replace("unauthenticated: unauthenticated", "unauthenticated");
        let expected = expected.replace("unauthenticated: unauthenticated", "unauthenticated");
        assert!(
            said.contains(expected.trim_start_matches("unauthenticated: ")),
            "{names:?}: {said}"
        );
    }
    let me = doors
        .secure(Some(&of(vec![billing.clone()])), None)
        .whoami()
        .await
        .unwrap();
    assert!(me.by.contains("spiffe://example.org/billing"), "{}", me.by);
    assert_eq!(me.expires.unwrap().to_string(), "2100-01-01T00:00:00Z");
    // A token that is sent is the identity; a bad one does not fall back to the certificate.
    let ours = of(vec![billing.clone()]);
    let ada = token("user:ada");
    assert_eq!(
        who(doors.secure(Some(&ours), Some(&ada))).await,
        "user:ada user default"
    );
    let said = who(doors.secure(Some(&ours), Some("wrong"))).await;
    assert!(said.contains("an unknown token"), "{said}");
    assert_eq!(
        who(doors.secure(None, Some(&ada))).await,
        "user:ada user default"
    );
    let said = who(doors.secure(None, None)).await;
    assert!(said.contains("one bearer token is needed"), "{said}");
}

/// What is wrong with a certificate is said in words, on both sides.
#[tokio::test]
async fn a_wrong_certificate_is_said_in_words() {
    let doors = Doors::open();
    let billing = || vec![uri("spiffe://example.org/billing")];
    for (ours, expected) in [
        (signed(&doors.stranger, billing(), 2100), "does not trust"),
        (
            signed(&doors.ca, billing(), 2021),
            "our certificate has expired",
        ),
    ] {
        let said = who(doors.secure(Some(&ours), None)).await;
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let whoami = |server: String, ca: &CertifiedIssuer<'static, KeyPair>| {
        fs::write(doors.at("asked.pem"), ca.pem()).unwrap();
        write_secret(doors.at("ada.token"), token("user:ada"));
        let mut call = Command::new(PROGRAM);
        call.args(["whoami", "--server", &server, "--ca"])
            .arg(doors.at("asked.pem"));
        call.arg("--token-file").arg(doors.at("ada.token"));
        Ran::of(call.output().unwrap())
    };
    let there = format!("https://{}", doors.tls);
    let ran = whoami(there.clone(), &doors.ca);
    assert!(
        ran.out
            .contains("user:ada · user · tenant default · known by a token"),
        "{ran:?}"
    );
    let ran = whoami(there.clone(), &doors.stranger);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(
        ran.err.contains("not signed by whom --ca trusts"),
        "{ran:?}"
    );
    let named = there.replace("127.0.0.1", "localhost");
    let ran = whoami(named, &doors.ca);
    assert!(
        ran.err.contains("for another name than localhost"),
        "{ran:?}"
    );
    let clear = there.replace("https", "http");
    let ran = whoami(clear, &doors.ca);
    assert_eq!(ran.code, 64, "--ca goes with https: {ran:?}");
    // The server's own certificate: read again without a restart, and when it has expired.
    let (cert, key) = signed(&doors.ca, loopback(), 2021);
    write_secret(doors.at("server.key"), key);
    fs::write(doors.at("server.pem"), cert).unwrap();
    let from = Instant::now();
    loop {
        let ran = whoami(there.clone(), &doors.ca);
        if ran.err.contains("the server's certificate has expired") {
            break;
        }
        assert!(from.elapsed() < Duration::from_secs(30), "{ran:?}");
    }
    // A key that is not the certificate's: what was read before stays.
    let (cert, key) = signed(&doors.ca, loopback(), 2100);
    fs::write(doors.at("server.pem"), &cert).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let ran = whoami(there.clone(), &doors.ca);
    assert!(ran.err.contains("has expired"), "{ran:?}");
    write_secret(doors.at("server.key"), key);
    while whoami(there.clone(), &doors.ca).code != 0 {
        assert!(from.elapsed() < Duration::from_secs(60));
    }
}

/// OIDC: who signed it, for whom, and until when; the key says the algorithm.
#[tokio::test]
async fn a_signed_token_says_who_calls() {
    let doors = Doors::open();
    let now = Command::new("date").arg("+%s").output().unwrap().stdout;
    let now: i64 = String::from_utf8(now).unwrap().trim().parse().unwrap();
    let good = "oidc:1234 operator default";
    type Change = Box<dyn FnOnce(&mut Value)>;
    let set = |key: &'static str, to: Value| -> Change { Box::new(move |claims| claims[key] = to) };
    let rows: Vec<(Change, &str)> = vec![
        (Box::new(|_| ()), good),
        (set("aud", json!("pilothouse")), good),
        (set("groups", json!("oncall")), good),
        (
            set("groups", json!(["readers"])),
            "oidc:1234 viewer default",
        ),
        (
            set("groups", json!(["elsewhere"])),
            "oidc:1234 admin elsewhere",
        ),
        (set("groups", json!(["nobody"])), "no [[oidc.map]] fits"),
        (
            set("groups", json!({"oncall": true})),
            "no [[oidc.map]] fits",
        ),
        (
            set("iss", json!("https://id.example.org/")),
            "another issuer",
        ),
        (set("iss", json!(null)), "another issuer"),
        (set("aud", json!("pilothouse2")), "another audience"),
        (set("aud", json!([])), "another audience"),
        (set("sub", json!(null)), "does not say whose"),
        (set("sub", json!("a b")), "can have no name here"),
        (set("exp", json!(now - 30)), good), // within the leeway
        (set("exp", json!(now - 90)), "expired"),
        (set("exp", json!("never")), "cannot be read"),
        (set("exp", json!(-1)), "cannot be read"),
        (
            Box::new(|claims| drop(claims.as_object_mut().unwrap().remove("exp"))),
            "does not say when it expires",
        ),
        (set("nbf", json!(now + 30)), good),
        (set("nbf", json!(now + 120)), "not good yet"),
    ];
    for (change, expected) in rows {
        let issued = doors.issued(change);
        let said = who(doors.bearer(&issued)).await;
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!said.contains(&issued), "never repeated");
    }
    let claims = json!({"iss": "https://id.example.org", "aud": "pilothouse", "sub": "1",
        "groups": "oncall", "exp": 4_000_000_000_i64});
    let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
    let ours = |message: &[u8]| doors.issuer.sign(message).as_ref().to_vec();
    let rows = [
        (json!({"alg": "EdDSA"}), "oidc:1 operator"), // there is one key of this kind
        (
            json!({"alg": "EdDSA", "kid": "k2"}),
            "none of the issuer's keys",
        ),
        (
            json!({"alg": "none", "kid": "k1"}),
            "none of the issuer's keys",
        ),
        (
            json!({"alg": "RS256", "kid": "k1"}),
            "none of the issuer's keys",
        ),
        (
            json!({"alg": "HS256", "kid": "k1"}),
            "none of the issuer's keys",
        ),
        (
            json!({"alg": "EdDSA", "kid": "k1", "crit": ["b64"]}),
            "extensions",
        ),
        (json!({"kid": "k1"}), "unreadable"),
    ];
    for (header, expected) in rows {
        let said = who(doors.bearer(&jws(&header, &claims, ours))).await;
        assert!(said.contains(expected), "{header}: {said}");
    }
    let header = json!({"alg": "EdDSA", "kid": "k1"});
    for sign in [
        (&|message: &[u8]| other.sign(message).as_ref().to_vec()) as &dyn Fn(&[u8]) -> Vec<u8>,
        &|_| vec![],
        &|_| vec![0; 64],
    ] {
        let said = who(doors.bearer(&jws(&header, &claims, sign))).await;
        assert!(said.contains("none of the issuer's keys"), "{said}");
    }
    // A key is taken in without a restart; another kind of key, too.
    let (random, alg) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(alg, &random).unwrap();
    let p256 = EcdsaKeyPair::from_pkcs8(alg, pkcs8.as_ref(), &random).unwrap();
    let point = p256.public_key().as_ref();
    let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
    let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "e1", "x": x, "y": y}]});
    let es256 = jws(&json!({"alg": "ES256", "kid": "e1"}), &claims, |message| {
        p256.sign(&random, message).unwrap().as_ref().to_vec()
    });
    assert!(
        who(doors.bearer(&es256))
            .await
            .contains("none of the issuer's keys")
    );
    fs::write(doors.at("jwks.json"), keys.to_string()).unwrap();
    let from = Instant::now();
    while who(doors.bearer(&es256)).await != "oidc:1 operator default" {
        assert!(from.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let old = who(doors.bearer(&doors.issued(|_| ()))).await;
    assert!(
        old.contains("none of the issuer's keys"),
        "a key that was taken away: {old}"
    );
    fs::write(doors.at("jwks.json"), "{").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        who(doors.bearer(&es256)).await,
        "oidc:1 operator default",
        "the last good one"
    );
}

/// A backend's ticket acts as its user, for a while, and is never wider than the backend.
#[tokio::test]
async fn a_ticket_acts_as_the_user_and_no_wider() {
    let mut doors = Doors::open();
    let name = |text: &str| Name::parse(text).unwrap();
    let backend = doors.bearer(&token("backend:web"));
    let (ticket, until) = backend
        .mint_ticket(&name("user:ada"), None, &[])
        .await
        .unwrap();
    let me = doors.bearer(&ticket).whoami().await.unwrap();
    assert_eq!(me.name.as_str(), "user:ada");
    assert_eq!(me.roles, [Role::User].into());
    assert_eq!(
        me.scopes,
        [Grant::Watch, Grant::Decide].into(),
        "it may not direct, no more may its backend"
    );
    assert_eq!(
        (me.expires, me.via),
        (Some(until), Some(name("backend:web")))
    );
    assert!(me.by.contains("a ticket of backend:web"), "{}", me.by);
    // What it may: decide as the owner, which history tells apart.
    let channel = Endpoint::from_shared(format!("http://{}", doors.tcp))
        .unwrap()
        .connect_lazy();
    let mut agent = pb::agent_service_client::AgentServiceClient::with_interceptor(
        channel.clone(),
        Headers::from("agent:a1"),
    );
    let run = open(&mut agent, "r1", "user:ada").await;
    let filed = crate::house::file(&mut agent, question(&run, "t1", Asks::EndUser)).await;
    let sealed = crate::house::file(&mut agent, question(&run, "t2", Asks::Operator)).await;
    let bearer = |ticket: &str| Headers::none().and("authorization", &format!("Bearer {ticket}"));
    let person = |ticket: &str| {
        pb::operator_service_client::OperatorServiceClient::with_interceptor(
            channel.clone(),
            bearer(ticket),
        )
    };
    let wish = crate::house::decision(&sealed, Verdict::Approve, "d0");
    let answer = person(&ticket).decide(wish).await;
    assert_eq!(crate::house::word(&answer), "not_yours");
    let wish = crate::house::decision(&filed, Verdict::Approve, "d1");
    let settled = person(&ticket).decide(wish).await.unwrap();
    let shown = doors
        .server
        .show(&settled.into_inner().settled.unwrap().approval.unwrap().id);
    assert_eq!(shown["decision"]["by"], "user:ada");
    assert_eq!(shown["decision"]["via"], "backend:web");
    let pause = pb::ControlRequest {
        run_id: run.clone(),
        kind: pb::ControlKind::Pause.into(),
        control_id: "c1".into(),
        ..Default::default()
    };
    let answer = person(&ticket).control(pause.clone()).await;
    assert_eq!(
        crate::house::word(&answer),
        "not_yours",
        "wider than the backend"
    );
    let admin = doors.bearer(&token("admin:all"));
    let (wide, _) = admin
        .mint_ticket(&name("user:ada"), None, &[])
        .await
        .unwrap();
    let answer = person(&wide).control(pause).await;
    assert_eq!(
        crate::house::word(&answer),
        "ok",
        "an admin who is a backend may"
    );
    // Who mints what, and what not.
    let minute = Duration::from_secs(60);
    let rows = [
        ("backend:web", "user:x", Some(minute * 15), vec![], "ok"),
        (
            "backend:web",
            "user:x",
            Some(minute * 16),
            vec![],
            "15 minutes",
        ),
        (
            "backend:web",
            "user:x",
            Some(Duration::ZERO),
            vec![],
            "15 minutes",
        ),
        ("backend:web", "system:deadline", None, vec![], "reserved"),
        (
            "backend:web",
            "admin:root",
            None,
            vec![],
            "the name of somebody else",
        ),
        (
            "backend:web",
            "agent:billing",
            None,
            vec![],
            "the name of somebody else",
        ),
        (
            "backend:web",
            "user:x",
            None,
            vec![Grant::Direct],
            "its backend may not do itself",
        ),
        (
            "backend:web",
            "user:x",
            None,
            vec![Grant::Internal],
            "its backend may not do itself",
        ),
        ("backend:looks", "user:x", None, vec![], "ok"),
        (
            "backend:looks",
            "user:x",
            None,
            vec![Grant::Decide],
            "its backend may not do itself",
        ),
        ("operator:ops", "user:x", None, vec![], "a backend mints"),
        ("admin:root", "user:x", None, vec![], "a backend mints"),
        ("agent:a1", "user:x", None, vec![], "a backend mints"),
    ];
    for (by, user, ttl, scopes, expected) in rows {
        let client = doors.bearer(&token(by));
        let wish = pb::MintTicketRequest {
            user: user.into(),
            ttl: ttl.map(|ttl| prost_types::Duration {
                seconds: i64::try_from(ttl.as_secs()).unwrap(),
                nanos: 0,
            }),
            scopes: scopes
                .iter()
                .map(|scope: &Grant| scope.word().to_owned())
                .collect(),
        };
        let answer = person(&token(by)).mint_ticket(wish).await;
        let said = match answer {
            Ok(_) => "ok".to_owned(),
            Err(status) => refused(&status).unwrap().message,
        };
        assert!(said.contains(expected), "{by} for {user}: {said}");
        drop(client);
    }
    // A ticket mints none, is nobody's once it is changed, and ends.
    let error = doors
        .bearer(&ticket)
        .mint_ticket(&name("user:x"), None, &[])
        .await;
    assert!(told(error.unwrap_err()).contains("a backend mints"));
    for bent in [
        ticket.replacen("pt.", "pt.A", 1),
        ticket[..ticket.len() - 3].to_owned(),
        format!("{ticket}x"),
        "pt..".into(),
        "pt.".into(),
    ] {
        let said = who(doors.bearer(&bent)).await;
        assert!(said.contains("an unknown ticket"), "{said}");
    }
    let second = Some(Duration::from_secs(1));
    let (brief, _) = backend
        .mint_ticket(&name("user:ada"), second, &[])
        .await
        .unwrap();
    let from = Instant::now();
    while !who(doors.bearer(&brief))
        .await
        .contains("an expired ticket")
    {
        assert!(from.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The key is on disk: a restart keeps it. Without it, every ticket ends.
    let mode = fs::metadata(doors.at("ticket.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    doors.server.restart();
    assert!(who(doors.bearer(&ticket)).await.starts_with("user:ada"));
    fs::remove_file(doors.at("ticket.key")).unwrap();
    doors.server.restart();
    assert!(
        who(doors.bearer(&ticket))
            .await
            .contains("an unknown ticket")
    );
}

/// A token's time, its scopes, and a file that changes while streams are open.
#[tokio::test]
async fn a_token_ends_when_its_file_says_so() {
    let doors = Doors::open();
    let said = who(doors.bearer(&token("user:past"))).await;
    assert!(said.contains("no longer"), "{said}");
    let said = who(doors.bearer(&token("user:later"))).await;
    assert!(said.contains("not good yet"), "{said}");
    let me = doors.bearer(&token("user:till")).whoami().await.unwrap();
    assert_eq!(me.expires.unwrap().to_string(), "2100-01-01T00:00:00Z");
    let channel = Endpoint::from_shared(format!("http://{}", doors.tcp))
        .unwrap()
        .connect_lazy();
    let person = |name: &str| {
        pb::operator_service_client::OperatorServiceClient::with_interceptor(
            channel.clone(),
            Headers::from(name),
        )
    };
    let mut agent = pb::agent_service_client::AgentServiceClient::with_interceptor(
        channel.clone(),
        Headers::from("agent:a1"),
    );
    let run = open(&mut agent, "r1", "").await;
    let filed = crate::house::file(&mut agent, question(&run, "t1", Asks::Operator)).await;
    for (name, decides, extends) in [
        ("user:looks", "not_yours", "not_yours"),
        ("user:orders", "not_yours", "ok"),
        ("operator:ops", "ok", "ok"),
    ] {
        let mut person = person(name);
        assert_eq!(
            crate::house::word(&person.get(get(&filed.approval_id)).await),
            "ok"
        );
        let extension = crate::house::extension(&filed.approval_id, 7200);
        assert_eq!(
            crate::house::word(&person.extend(extension).await),
            extends,
            "{name}"
        );
        let wish = crate::house::decision(&filed, Verdict::Approve, "d1");
        assert_eq!(
            crate::house::word(&person.decide(wish).await),
            decides,
            "{name}"
        );
    }
    // A bad file is said, and changes nothing; one without a token ends what it holds open.
    let mut theirs = person("user:till")
        .watch(pb::WatchRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut ours = person("operator:ops")
        .watch(pb::WatchRequest::default())
        .await
        .unwrap()
        .into_inner();
    fs::write(doors.at("tokens.toml"), "[[token]\n").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        who(doors.bearer(&token("user:till")))
            .await
            .starts_with("user:till")
    );
    fs::write(doors.at("tokens.toml"), everybody()).unwrap();
    let ended = async {
        loop {
            match theirs.message().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(30), ended)
        .await
        .unwrap();
    let status = ended.unwrap_err();
    assert_eq!(
        refused(&status).unwrap().word,
        "unauthenticated",
        "{status:?}"
    );
    assert!(
        who(doors.bearer(&token("user:till")))
            .await
            .contains("an unknown token")
    );
    let on = tokio::time::timeout(Duration::from_secs(3), async {
        while let Ok(Some(_)) = ours.message().await {}
    });
    assert!(on.await.is_err(), "whoever is still known watches on");
}

/// Case E09: a secret that others may read is refused, with what to run.
#[test]
fn a_secret_that_others_may_read_is_refused() {
    let doors = Doors::open();
    let open = doors.at("open.token");
    fs::write(&open, token("user:ada")).unwrap();
    let mut call = Command::new(PROGRAM);
    call.args([
        "whoami",
        "--server",
        &format!("http://{}", doors.tcp),
        "--token-file",
    ]);
    let ran = Ran::of(call.arg(&open).output().unwrap());
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("run `chmod 600 "), "{ran:?}");
    assert!(!ran.err.contains(&token("user:ada")), "{ran:?}");
    let check = || {
        let config = doors.at("pilothouse.toml");
        let mut check = Command::new(PROGRAM);
        Ran::of(
            check
                .args(["config", "check"])
                .arg(config)
                .output()
                .unwrap(),
        )
    };
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(doors.at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, bad, good) in [
        ("server.key", 0o640, 0o600),
        ("ticket.key", 0o604, 0o600),
        ("tokens.toml", 0o664, 0o644),
        ("jwks.json", 0o646, 0o644),
    ] {
        mode(name, bad);
        let ran = check();
        assert_eq!(ran.code, 64, "{name}: {ran:?}");
        assert!(
            ran.err.contains(name) && ran.err.contains("chmod"),
            "{ran:?}"
        );
        mode(name, good);
        assert_eq!(check().code, 0, "{name}");
    }
    let out = doors.at("new.token");
    let mut make = Command::new(PROGRAM);
    make.args([
        "token",
        "new",
        "--name",
        "user:new",
        "--roles",
        "operator,viewer",
    ]);
    make.args([
        "--expires",
        "2100-01-01T00:00:00Z",
        "--scope",
        "watch",
        "--out",
    ]);
    let ran = Ran::of(make.arg(&out).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert_eq!(
        fs::metadata(&out).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let secret = fs::read_to_string(&out).unwrap();
    let parts: Vec<&str> = secret.trim().splitn(3, '_').collect();
    assert_eq!(
        (parts[0], parts[1].len(), parts[2].len()),
        ("hk", 8, 43),
        "hk_<id>_<32 bytes>"
    );
    assert!(
        !ran.err.contains(parts[2]) && ran.err.contains(parts[1]),
        "{ran:?}"
    );
    let mut table = fs::OpenOptions::new()
        .append(true)
        .open(doors.at("tokens.toml"))
        .unwrap();
    std::io::Write::write_all(&mut table, ran.err.as_bytes()).unwrap();
    assert_eq!(check().code, 0, "the row is good as it is printed");
}

/// Case E15: users and groups of the machine come in by the socket as the config says; the uid says who, and nothing else.
#[test]
fn mapped_users_and_groups_come_in_by_the_socket() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("only root can call as somebody else: not tested here");
        return;
    }
    let dir = TempDir::new().unwrap();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o711)).unwrap();
    open(dir.path());
    let sock = dir.path().join("s").join("sock");
    let config = dir.path().join("pilothouse.toml");
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let group = nix::unistd::Group::from_gid(nobody.gid).unwrap().unwrap();
    let program = dir.path().join("pilothouse");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let whoami = |uid: u32, gid: u32| {
        let mut call = Command::new(&program);
        call.args(["whoami", "--server", &format!("unix:{}", sock.display())]);
        call.env("USER", "root")
            .env("LOGNAME", "root")
            .uid(uid)
            .gid(gid)
            .current_dir("/");
        Ran::of(call.output().unwrap())
    };
    let (uid, gid) = (nobody.uid.as_raw(), nobody.gid.as_raw());
    let rows = [
        (
            "[[socket.user]]\nname = \"nobody\"\nroles = [\"viewer\"]\nscopes = [\"watch\"]\n"
                .to_owned(),
            format!(
                "user:nobody · viewer · tenant default · known by uid {uid} on the socket · only watch"
            ),
        ),
        (
            format!(
                "[[socket.group]]\nname = {:?}\nroles = [\"operator\"]\ntenant = \"t2\"\n",
                group.name
            ),
            format!(
                "user:nobody · operator · tenant t2 · known by uid {uid} on the socket, in the group {}",
                group.name
            ),
        ),
        // A user's own row goes before that of a group.
        (
            format!(
                "[[socket.group]]\nname = {:?}\nroles = [\"admin\"]\n[[socket.user]]\nname = \"nobody\"\nroles = [\"user\"]\n",
                group.name
            ),
            "user:nobody · user · tenant default".to_owned(),
        ),
        (
            "[[socket.user]]\nname = \"daemon\"\nroles = [\"viewer\"]\n".to_owned(),
            "maps neither you nor a group of yours".to_owned(),
        ),
    ];
    for (text, expected) in rows {
        fs::write(&config, &text).unwrap();
        let server = At::start(&config, &sock, &dir.path().join("data"));
        let ran = whoami(uid, gid);
        assert!(
            (ran.out.clone() + &ran.err).contains(&expected),
            "{text}{ran:?}"
        );
        // The server's own uid keeps what it has.
        let ran = whoami(0, 0);
        assert!(
            ran.out
                .starts_with("user:root · operator, admin · tenant default"),
            "{ran:?}"
        );
        drop(server);
    }
    // Nobody else reaches a socket in the data directory, or below one that keeps them out; that is said at the start.
    fs::write(
        &config,
        "[[socket.user]]\nname = \"nobody\"\nroles = [\"viewer\"]\n",
    )
    .unwrap();
    let refused = |socket: &Path| {
        let mut serve = Command::new(PROGRAM);
        serve.args(["serve", "--data"]).arg(dir.path().join("data"));
        serve
            .arg("--config")
            .arg(&config)
            .arg("--socket")
            .arg(socket);
        let ran = Ran::of(serve.output().unwrap());
        assert_eq!(ran.code, 64, "{ran:?}");
        ran.err
    };
    assert!(refused(&dir.path().join("data/sock")).contains("say --socket PATH"));
    let shut = dir.path().join("shut");
    fs::create_dir(&shut).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(refused(&shut.join("sock")).contains("run `chmod o+x "));
    // Without the config, the socket is its owner's.
    fs::write(&config, "").unwrap();
    let _server = At::start(&config, &sock, &dir.path().join("data"));
    assert_eq!(
        fs::metadata(&sock).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

/// A server with its socket elsewhere; killed when dropped.
struct At(std::process::Child);

impl At {
    fn start(config: &Path, sock: &Path, data: &Path) -> Self {
        let mut serve = Command::new(PROGRAM);
        serve
            .args(["serve", "--data"])
            .arg(data)
            .arg("--config")
            .arg(config);
        serve
            .arg("--socket")
            .arg(sock)
            .env("PILOTHOUSE_LOG", "warn");
        let mut child = serve.spawn().unwrap();
        let from = Instant::now();
        while std::os::unix::net::UnixStream::connect(sock).is_err() {
            assert_eq!(child.try_wait().unwrap(), None);
            assert!(from.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }
}

impl Drop for At {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === Case E12: every method there is ===

/// Bytes as they are.
#[derive(Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(to, &item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; prost::bytes::Buf::remaining(from)];
        prost::bytes::Buf::copy_to_slice(from, &mut bytes);
        Ok(Some(bytes))
    }
}

/// Calls a method with these bytes; the first answer, or the refusal.
async fn call(
    channel: Channel,
    method: &str,
    bytes: Vec<u8>,
    headers: Headers,
) -> Result<(), Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = tonic::Request::new(tokio_stream::iter([bytes]));
    for (name, value) in &headers.0 {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    let path = tonic::codegen::http::uri::PathAndQuery::try_from(method.to_owned()).unwrap();
    let mut answer = grpc.streaming(request, path, Raw).await?.into_inner();
    answer.message().await.map(|_| ())
}

/// Every method of a package, as its path.
fn methods(package: &str) -> Vec<String> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
    let files = prost_types::FileDescriptorSet::decode(bytes.as_slice()).unwrap();
    let ours = files
        .file
        .into_iter()
        .filter(|file| file.package() == package);
    ours.flat_map(|file| file.service)
        .flat_map(|service| {
            let name = service.name().to_owned();
            let of = move |method: prost_types::MethodDescriptorProto| (name.clone(), method);
            service.method.into_iter().map(of)
        })
        .map(|(service, method)| format!("/{package}.{service}/{}", method.name()))
        .collect()
}

/// A request that names what is there, for every method that takes an id. A method that is not here fails the test below.
fn naming(run: &str, filed: &pb::FileResponse, held: &str) -> BTreeMap<&'static str, Vec<u8>> {
    let (id, run) = (filed.approval_id.clone(), run.to_owned());
    let order = pb::ControlRequest {
        run_id: run.clone(),
        kind: pb::ControlKind::Resume.into(),
        control_id: "c9".into(),
        escalation_id: held.into(),
        ..Default::default()
    };
    let mut all = BTreeMap::from([
        ("Get", get(&id).encode_to_vec()),
        ("Control", order.encode_to_vec()),
        (
            "Decide",
            crate::house::decision(filed, Verdict::Approve, "d9").encode_to_vec(),
        ),
        ("Extend", crate::house::extension(&id, 7200).encode_to_vec()),
        ("Dismiss", crate::house::dismissal(&id).encode_to_vec()),
        ("Await", crate::house::waiting(&id).encode_to_vec()),
        ("File", question(&run, "t9", Asks::Operator).encode_to_vec()),
        ("OpenRun", run_of("r9", "").encode_to_vec()),
    ]);
    let get_run = pb::GetRunRequest {
        run: run.clone(),
        after_seq: 0,
    };
    all.insert("GetRun", get_run.encode_to_vec());
    let controls = pb::ControlsRequest {
        run_id: run.clone(),
    };
    all.insert("Controls", controls.encode_to_vec());
    let withdraw = pb::WithdrawRequest {
        approval_id: id,
        reason: "no".into(),
    };
    all.insert("Withdraw", withdraw.encode_to_vec());
    let say = pb::SayRequest {
        run_id: run,
        text: "hello".into(),
    };
    all.insert("Say", say.encode_to_vec());
    all
}

/// What answers one of another tenant: it is of their own, or names nothing.
const THEIR_OWN: [&str; 8] = [
    "Watch",
    "List",
    "History",
    "Whoami",
    "OpenRun",
    "Heartbeat",
    "MintTicket",
    "Check",
];

#[tokio::test]
async fn whatever_is_called_nobody_unknown_gets_in() {
    let doors = Doors::open();
    let over = |at: &str| Endpoint::from_shared(at.to_owned()).unwrap().connect_lazy();
    let channel = over(&format!("http://{}", doors.tcp));
    let mut agent = pb::agent_service_client::AgentServiceClient::with_interceptor(
        channel.clone(),
        Headers::from("agent:a1"),
    );
    let run = open(&mut agent, "r1", "user:ada").await;
    let filed = crate::house::file(&mut agent, question(&run, "t1", Asks::Operator)).await;
    let pause = pb::ControlRequest {
        run_id: run.clone(),
        kind: pb::ControlKind::Pause.into(),
        control_id: "pause".into(),
        ..Default::default()
    };
    let mut root = pb::operator_service_client::OperatorServiceClient::with_interceptor(
        channel.clone(),
        Headers::from("admin:root"),
    );
    let held = root
        .control(pause)
        .await
        .unwrap()
        .into_inner()
        .control
        .unwrap()
        .escalation_id;
    let named = naming(&run, &filed, &held);
    let ours = methods("pilothouse.v1");
    assert!(ours.len() > 20, "{ours:?}");
    let head = || async {
        let me = doors.bearer(&token("admin:root")).whoami().await.unwrap();
        (me.epoch, me.head)
    };
    let before = head().await;
    let bearer = |text: &str| Headers::none().and("authorization", &format!("Bearer {text}"));
    let strangers = [
        ("nobody", Headers::none()),
        ("an expired token", Headers::from("user:past")),
        ("a token from later", Headers::from("user:later")),
        ("an unknown token", bearer("hk_00000000_x")),
        ("a bent ticket", bearer("pt.e30.AAAA")),
        ("another's signature", bearer("eyJhbGciOiJub25lIn0.e30.")),
        (
            "an expired signature",
            bearer(&doors.issued(|claims| claims["exp"] = json!(1))),
        ),
        (
            "two tokens",
            Headers::from("admin:root").and("authorization", "Bearer x"),
        ),
    ];
    for method in &ours {
        let what = method.rsplit('/').next().unwrap();
        let bytes = || named.get(what).cloned().unwrap_or_default();
        for (who, headers) in &strangers {
            let status = call(channel.clone(), method, bytes(), headers.clone())
                .await
                .unwrap_err();
            let word = refused(&status).map(|told| told.word);
            assert_eq!(
                word.as_deref(),
                Some("unauthenticated"),
                "{method} by {who}: {status:?}"
            );
        }
        for who in ["admin:elsewhere", "agent:elsewhere"] {
            let answer = call(channel.clone(), method, bytes(), Headers::from(who));
            // A stream of one's own tenant stays open.
            let answer = tokio::time::timeout(Duration::from_secs(2), answer).await;
            if THEIR_OWN.contains(&what) {
                continue;
            }
            let status = answer.unwrap().unwrap_err();
            let word = refused(&status).unwrap().word;
            let kept_out = ["not_found", "not_yours", "invalid"].contains(&&*word);
            assert!(kept_out, "{method} by {who}: {status:?}");
            if named.contains_key(what) {
                assert_ne!(word, "invalid", "{method} by {who}: {status:?}");
            }
        }
    }
    // A method that does not exist, in a service that does, is behind the door, too.
    let status = call(
        channel.clone(),
        "/pilothouse.v1.OperatorService/Later",
        vec![],
        Headers::none(),
    );
    let status = status.await.unwrap_err();
    assert_eq!(
        refused(&status).unwrap().word,
        "unauthenticated",
        "{status:?}"
    );
    // Health is for everybody.
    let health = call(
        channel.clone(),
        "/grpc.health.v1.Health/Check",
        vec![],
        Headers::none(),
    );
    health.await.unwrap();
    let after = head().await;
    assert_eq!(after.0, before.0);
    let theirs = root
        .list(pb::ListRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        theirs.items.len(),
        2,
        "nothing of ours was touched: {theirs:?}"
    );
}
