//! Where things are: the data directory, the socket, the server.

use std::path::{Path, PathBuf};

use super::{args::Place, exit::Stopped};
use registry::digest::Sha256;

use crate::{
    connect::{Client, Server, Token, Trust},
    serve::identity::only_its_owner_reads,
};

impl Place {
    /// The data directory.
    ///
    /// # Errors
    /// Usage, where there is neither `--data` nor a home to derive it from.
    pub(crate) fn dir(&self) -> Result<PathBuf, Stopped> {
        if let Some(dir) = &self.data {
            return Ok(dir.clone());
        }
        let dirs = directories::ProjectDirs::from("", "", "pilothouse");
        let dir = dirs.map(|dirs| dirs.data_dir().to_path_buf());
        dir.ok_or_else(|| Stopped::usage("there is no home directory; say --data DIR"))
    }

    /// The socket (DESIGN §7): as said; else in the directory that was said; else, for the default
    /// directory, in the runtime directory of the user.
    ///
    /// # Errors
    /// As [`Place::dir`].
    pub(crate) fn socket(&self) -> Result<PathBuf, Stopped> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let runtime =
            std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
        match (&self.data, runtime) {
            (None, Some(runtime)) => Ok(Path::new(&runtime).join("pilothouse").join("sock")),
            _ => Ok(self.dir()?.join("sock")),
        }
    }

    /// The server to call.
    ///
    /// # Errors
    /// Usage, where the address cannot be read.
    pub(crate) fn address(&self) -> Result<Server, Stopped> {
        match &self.server {
            Some(text) => text
                .parse()
                .map_err(|error| Stopped::usage(format!("--server: {error}"))),
            None => Ok(Server::Unix(self.socket()?)),
        }
    }

    /// A client of the server that the command line names.
    ///
    /// # Errors
    /// Usage, where the address or a file cannot be read, or they do not go together.
    pub(crate) fn client(&self) -> Result<Client, Stopped> {
        let token = self.token()?;
        match (self.address()?, self.trust()?) {
            (Server::Tls(at), Some(trust)) => Ok(Client::secure(at, trust, token)),
            (Server::Tls(_), None) => Err(Stopped::usage(
                "--ca FILE is needed with https: the certificates of whom to trust",
            )),
            (_, Some(_)) => Err(Stopped::usage(
                "--ca, --cert and --key are for a server at https://HOST:PORT",
            )),
            (server, None) => Ok(Client::connect(server, token)),
        }
    }

    /// Whom to trust, and what to show.
    fn trust(&self) -> Result<Option<Trust>, Stopped> {
        let ours = match (&self.cert, &self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                only_its_owner_reads(key).map_err(Stopped::usage)?;
                Some((cert.as_path(), key.as_path()))
            }
            _ => return Err(Stopped::usage("--cert and --key need each other")),
        };
        match (&self.ca, ours) {
            (Some(ca), ours) => Trust::read(ca, ours).map(Some).map_err(Stopped::usage),
            (None, Some(_)) => Err(Stopped::usage(
                "--cert and --key need --ca FILE: whom to trust",
            )),
            (None, None) => Ok(None),
        }
    }

    /// The bearer token, where there is one.
    ///
    /// # Errors
    /// Usage, where its file cannot be read.
    pub(crate) fn token(&self) -> Result<Option<Token>, Stopped> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let token = Token::parse(&secret(path)?);
        let token =
            token.map_err(|error| Stopped::usage(format!("{}: {error}", path.display())))?;
        Ok(Some(token))
    }
}

/// What the server keeps of the token in a file.
pub(crate) fn hash_of_token(path: &Path) -> Result<Sha256, Stopped> {
    Ok(Sha256::of(secret(path)?))
}

fn secret(path: &Path) -> Result<String, Stopped> {
    only_its_owner_reads(path).map_err(Stopped::usage)?;
    let text = std::fs::read_to_string(path)
        .map_err(|error| Stopped::usage(format!("{}: {error}", path.display())))?;
    let secret = text.trim();
    if secret.is_empty() {
        let what = format!("{}: no token in it", path.display());
        return Err(Stopped::usage(what));
    }
    Ok(secret.to_owned())
}
