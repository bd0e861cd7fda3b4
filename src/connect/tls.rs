//! TLS to a server: whom we trust, what we show, and what went wrong in words.

use std::{io, path::Path, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    version::TLS13,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::Uri;

use super::client::CONNECT_TIMEOUT;

/// Whom we trust, and what we show.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust(..)")
    }
}

impl Trust {
    /// Trusts those that the certificates in `ca` have signed, and shows the certificate and key of `ours`.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub fn read(ca: &Path, ours: Option<(&Path, &Path)>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| format!("{}: {error}", ca.display()))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match ours {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
                    format!("{}: no private key in PEM: {error}", key.display())
                })?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| format!("{}: {error}", cert.display()))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(config.into()))
    }

    /// A connection to the server at `uri`.
    pub(super) async fn connect(&self, uri: &Uri) -> io::Result<BufReader<TlsStream<TcpStream>>> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let at = (host, uri.port_u16().unwrap_or(443));
        let secured = async {
            let tcp = TcpStream::connect(at).await?;
            tcp.set_nodelay(true)?;
            let stream = TlsConnector::from(self.0.clone()).connect(name, tcp).await;
            let stream = stream.map_err(|error| in_words(error, host))?;
            // The server judges our certificate after our side of the handshake is over, and speaks first in HTTP/2: its
            // first bytes are its settings, or the alert that says what is wrong.
            let mut stream = BufReader::new(stream);
            let first = stream.fill_buf().await;
            match first.map_err(|error| in_words(error, host))?.is_empty() {
                true => Err(io::Error::other("the server closed the connection at once")),
                false => Ok(stream),
            }
        };
        let late = |_| io::Error::other("the server did not answer the TLS handshake in time");
        timeout(CONNECT_TIMEOUT, secured).await.map_err(late)?
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fault = |why: String| format!("{}: {why}", path.display());
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| fault(format!("no certificate in PEM: {error}")))?;
    match read.is_empty() {
        true => Err(fault("no certificate in PEM".into())),
        false => Ok(read),
    }
}

/// What went wrong, for whoever can put it right.
fn in_words(error: io::Error, host: &str) -> io::Error {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let Some(said) = tls.and_then(|error| words_for(error, host)) else {
        return error;
    };
    io::Error::other(said)
}

/// What a fault of TLS means. None: what it says itself is as good.
fn words_for(error: &Error, host: &str) -> Option<String> {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    let said = match error {
        Error::InvalidCertificate(UnknownIssuer) => {
            "the server's certificate is not signed by whom --ca trusts".into()
        }
        Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            format!("the server's certificate is for another name than {host}")
        }
        Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            "the server's certificate has expired".into()
        }
        Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
            "the server's certificate is not good yet".into()
        }
        Error::AlertReceived(alert) => refused_by(*alert)?.into(),
        _ => return None,
    };
    Some(said)
}

/// What the server's alert says of us.
fn refused_by(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateRequired => {
            "the server takes only callers with a certificate: say --cert and --key"
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "the server does not trust whoever signed our certificate"
        }
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => "the server refuses our certificate",
        AlertDescription::ProtocolVersion => "the server does not speak TLS 1.3",
        _ => return None,
    })
}

/// The same for a fault that comes up once the connection is there: the server judges our certificate last.
pub(super) fn said_of(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let tls = error.downcast_ref::<Error>().or_else(|| {
        let io = error.downcast_ref::<io::Error>()?;
        io.get_ref()?.downcast_ref::<Error>()
    });
    tls.and_then(|error| words_for(error, ""))
}
