//! Where a server is, and what we show it.

use std::{fmt, path::PathBuf, str::FromStr};

use registry::Untrusted;
use thiserror::Error;
use tonic::{metadata::AsciiMetadataValue, transport::Uri};

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// A socket of this machine: `unix:PATH`.
    Unix(PathBuf),
    /// A port: `http://HOST:PORT`.
    Tcp(Uri),
    /// A port with TLS: `https://HOST:PORT`.
    Tls(Uri),
}

/// The text says no place where a server may be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is not a server: it is unix:PATH, http://HOST:PORT or https://HOST:PORT", .0.line())]
pub struct NotAServer(pub Untrusted);

impl FromStr for Server {
    type Err = NotAServer;

    fn from_str(text: &str) -> Result<Self, NotAServer> {
        let place = match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Some(Self::Unix(path.into())),
            Some(("http", _)) => host_and_port("http", text).map(Self::Tcp),
            Some(("https", _)) => host_and_port("https", text).map(Self::Tls),
            _ => None,
        };
        place.ok_or_else(|| NotAServer(text.into()))
    }
}

impl Server {
    /// How it is reached, in a word.
    #[must_use]
    pub fn way(&self) -> &'static str {
        match self {
            Self::Unix(_) => "unix",
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
        }
    }
}

/// A host, a port, and nothing else: no user, no path, no query.
fn host_and_port(scheme: &str, text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?;
    let port = authority.port_u16()?;
    let bare = format!("{scheme}://{}:{port}", authority.host());
    let same = text.strip_suffix('/').unwrap_or(text) == bare;
    (same && port > 0 && !authority.host().is_empty()).then_some(uri)
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(uri) | Self::Tls(uri) => {
                write!(f, "{}", uri.to_string().trim_end_matches('/'))
            }
        }
    }
}

/// A bearer token. It is sent, and never shown.
#[derive(Clone)]
pub struct Token(AsciiMetadataValue);

/// The text cannot be a token; it is not repeated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a token is printable ASCII without blanks")]
pub struct BadToken;

impl Token {
    /// # Errors
    /// [`BadToken`], for what cannot stand in a header.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadToken);
        }
        let mut header: AsciiMetadataValue =
            format!("Bearer {text}").parse().map_err(|_| BadToken)?;
        header.set_sensitive(true);
        Ok(Self(header))
    }

    /// As it stands in `authorization`.
    pub(super) fn header(&self) -> AsciiMetadataValue {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn a_server_is_a_socket_or_a_port() {
        let rows = [
            ("unix:/run/user/1000/pilothouse/sock", true),
            ("unix:sock", true),
            ("http://127.0.0.1:7070", true),
            ("http://ops.example:7070/", true),
            ("http://[::1]:7070", true),
            ("", false),
            ("unix:", false),
            ("/run/sock", false),
            ("127.0.0.1:7070", false),
            ("http://ops.example", false),
            ("http://ops.example:0", false),
            ("http://ops.example:70700", false),
            ("http://:7070", false),
            ("http://user:secret@ops.example:7070", false),
            ("http://ops.example:7070/path", false),
            ("http://ops.example:7070?query", false),
            ("https://ops.example:7070", true),
            ("https://ops.example", false),
            ("ftp://ops.example:7070", false),
            ("http://ops.example:7070\u{1b}[31m", false),
        ];
        for (text, is_one) in rows {
            let server = text.parse::<Server>();
            assert_eq!(server.is_ok(), is_one, "{text}");
            if let Ok(server) = server {
                assert_eq!(server.to_string(), text.trim_end_matches('/'));
            }
        }
        let error = "https://x\u{1b}".parse::<Server>().unwrap_err().to_string();
        assert!(error.ends_with("http://HOST:PORT or https://HOST:PORT"));
        assert!(!error.contains('\u{1b}'));
    }

    #[test]
    fn a_token_is_never_shown() {
        let token = Token::parse("s3cret").unwrap();
        assert_eq!(format!("{token:?}"), "***");
        assert_eq!(token.header().to_str().unwrap(), "Bearer s3cret");
        assert!(!format!("{:?}", token.header()).contains("s3cret"));
        for text in ["", "a b", "a\n", "ä"] {
            assert_eq!(Token::parse(text).unwrap_err(), BadToken);
        }
    }
}
