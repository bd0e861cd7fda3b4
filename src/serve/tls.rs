//! TLS at our door: 1.3 only, h2 only, and certificates that are read again when they change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};

use super::{
    config,
    identity::{files::Stamp, only_its_owner_reads},
};

/// A handshake takes two messages of the client; whoever does not send them goes.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at once; the next connection waits for one to end.
const HANDSHAKES: usize = 256;
/// After a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Our certificate, and whose certificates we take.
#[derive(Debug)]
pub struct Tls {
    files: config::Tls,
    /// Whether one may come in without a certificate: by a bearer token.
    optional: bool,
    now: RwLock<Arc<ServerConfig>>,
    stamps: Mutex<Vec<Option<Stamp>>>,
}

impl Tls {
    /// Reads the files. With `bearer`, a caller may come without a certificate, and send a token.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub fn read(files: &config::Tls, bearer: bool) -> Result<Self, String> {
        let stamps = stamps(files);
        let now = server_config(files, bearer)?;
        Ok(Self {
            files: files.clone(),
            optional: bearer,
            now: RwLock::new(now.into()),
            stamps: Mutex::new(stamps),
        })
    }

    /// Reads the files again if they have changed. Connections that are there stay as they are.
    pub fn refresh(&self) {
        let mut known = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.files);
        if *known == stamps {
            return;
        }
        *known = stamps;
        match server_config(&self.files, self.optional) {
            Ok(next) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = next.into();
                tracing::info!("the certificates were read again");
            }
            Err(why) => {
                let why = registry::Untrusted::new(why).line().to_string();
                tracing::error!("{why}; the certificates from before stay in force");
            }
        }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.clone().into()
    }
}

fn stamps(files: &config::Tls) -> Vec<Option<Stamp>> {
    let paths = [
        Some(&files.cert),
        Some(&files.key),
        files.client_ca.as_ref(),
    ];
    let paths = paths.into_iter().flatten();
    paths.map(|path| Stamp::of(path)).collect()
}

fn server_config(files: &config::Tls, bearer: bool) -> Result<ServerConfig, String> {
    let fault = |path: &Path, why: String| format!("{}: {why}", path.display());
    only_its_owner_reads(&files.key)?;
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| fault(&files.key, format!("no private key in PEM: {error}")))?;
    let provider = Arc::new(default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?;
    let config = match &files.client_ca {
        None => config.with_no_client_auth(),
        Some(path) => {
            let roots = roots(path)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = match bearer {
                true => verifier.allow_unauthenticated(),
                false => verifier,
            };
            let verifier = verifier.build();
            config.with_client_cert_verifier(
                verifier.map_err(|error| fault(path, error.to_string()))?,
            )
        }
    };
    let config = config.with_single_cert(chain, key);
    let mut config = config.map_err(|error| fault(&files.cert, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Nobody comes back without showing a certificate: it may have been read again since.
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, String> {
    let fault = |why: String| format!("{}: {why}", path.display());
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| fault(format!("no certificate in PEM: {error}")))?;
    match read.is_empty() {
        true => Err(fault("no certificate in PEM".into())),
        false => Ok(read),
    }
}

fn roots(path: &PathBuf) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(roots)
}

/// The connections of `incoming` once they are secured. Handshakes run beside each other, so that one that is slow holds
/// up nobody.
pub fn secured<IO, E>(
    incoming: impl Stream<Item = Result<IO, E>> + Send + 'static,
    tls: Arc<Tls>,
) -> impl Stream<Item = io::Result<TlsStream<IO>>>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    E: Send + 'static,
{
    let (to, secured) = mpsc::channel(16);
    tokio::spawn(async move {
        let shaking = Arc::new(Semaphore::new(HANDSHAKES));
        tokio::pin!(incoming);
        loop {
            let next = tokio::select! {
                next = incoming.next() => next,
                () = to.closed() => return,
            };
            let io = match next {
                None => return,
                Some(Ok(io)) => io,
                Some(Err(_)) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = shaking.clone().acquire_owned().await else {
                return;
            };
            let (acceptor, to) = (tls.acceptor(), to.clone());
            tokio::spawn(async move {
                let shaken = timeout(HANDSHAKE, acceptor.accept(io)).await;
                drop(permit);
                match shaken {
                    Ok(Ok(stream)) => {
                        let _ = to.send(Ok(stream)).await;
                    }
                    Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
                    Err(_) => tracing::debug!("a handshake took too long"),
                }
            });
        }
    });
    ReceiverStream::new(secured)
}
