//! Where things are: the data directory, the socket, the server.

use std::path::{Path, PathBuf};

use super::{args::Place, exit::Stopped};
use registry::digest::Sha256;

use crate::connect::{Server, Token};

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
    let text = std::fs::read_to_string(path)
        .map_err(|error| Stopped::usage(format!("{}: {error}", path.display())))?;
    let secret = text.trim();
    if secret.is_empty() {
        let what = format!("{}: no token in it", path.display());
        return Err(Stopped::usage(what));
    }
    Ok(secret.to_owned())
}
