//! The real server in a process of its own, and the commands that call it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse");

/// `pilothouse serve` in a directory of its own; killed when dropped.
pub(crate) struct Server {
    dir: TempDir,
    args: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With more arguments to `serve`; `{dir}` stands for its directory.
    pub(crate) fn with(args: &[&str]) -> Self {
        Self::within(args, &[])
    }

    /// In an environment of its own as well.
    pub(crate) fn within(args: &[&str], env: &[(&'static str, &'static str)]) -> Self {
        let dir = TempDir::new().unwrap();
        let place = dir.path().display().to_string();
        let args = args
            .iter()
            .map(|arg| arg.replace("{dir}", &place))
            .collect();
        let mut server = Self {
            dir,
            args,
            env: env.to_vec(),
            child: None,
        };
        server.restart();
        server
    }

    /// What it says of a config file that it does not start with.
    pub(crate) fn refused(config: &str) -> Ran {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("pilothouse.toml");
        std::fs::write(&path, config).unwrap();
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--data"])
            .arg(dir.path())
            .arg("--config")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let from = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if from.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Starts it again on what it left on disk.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let child = Command::new(PROGRAM)
            .args(["serve", "--data"])
            .arg(self.dir.path())
            .args(&self.args)
            .env("PILOTHOUSE_LOG", "warn")
            .envs(self.env.iter().copied())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let socket = self.socket();
        let from = Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(
                from.elapsed() < Duration::from_secs(20),
                "the server did not start"
            );
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// From now on it takes what is sent and does nothing, until [`Server::thaw`] or [`Server::kill`].
    pub(crate) fn freeze(&self) {
        self.signal(nix::sys::signal::Signal::SIGSTOP);
    }

    /// It goes on, with what was sent meanwhile.
    pub(crate) fn thaw(&self) {
        self.signal(nix::sys::signal::Signal::SIGCONT);
    }

    /// Asks it to end, and waits for that; its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        child.wait().unwrap().code()
    }

    /// The memory that it has, in KiB.
    pub(crate) fn rss_kib(&self) -> u64 {
        let pid = self.child.as_ref().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse().unwrap()
    }

    /// Sends a signal to it.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let child = self.child.as_ref().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for its end; its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.take()?.wait().unwrap().code()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    /// Runs a command against it.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        command_at(self.dir(), args)
    }

    /// Files, and gives the id.
    pub(crate) fn file(&self, args: &[&str]) -> String {
        let mut all = vec!["file"];
        all.extend(args);
        let ran = self.run(&all);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.trim().to_owned()
    }

    /// What is open.
    pub(crate) fn open(&self) -> Vec<Value> {
        self.run(&["list", "--json"]).objects()
    }

    /// One approval or run, whole.
    pub(crate) fn show(&self, id: &str) -> Value {
        self.run(&["show", id, "--json"]).objects().remove(0)
    }

    /// Approves or rejects what stands there.
    pub(crate) fn decide(&self, verb: &str, id: &str, more: &[&str]) -> Ran {
        let digest = self.show(id)["digest"].as_str().unwrap().to_owned();
        let mut args = vec![verb, id, "--digest", &digest];
        args.extend(more);
        self.run(&args)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes a file that only its owner may read, as a secret has to be.
pub(crate) fn write_secret(path: impl AsRef<Path>, secret: impl AsRef<[u8]>) {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let mut file = std::fs::OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600);
    file.open(path).unwrap().write_all(secret.as_ref()).unwrap();
}

/// A command against whoever keeps the registry in a directory.
pub(crate) fn command_at(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(args)
        .arg("--data")
        .arg(dir)
        .env_remove("PILOTHOUSE_SERVER")
        .env_remove("PILOTHOUSE_TOKEN_FILE")
        .stdin(Stdio::null());
    command
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// One JSON object a line.
    pub(crate) fn objects(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{self:?}");
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}
