//! What may stand on the command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use registry::Timestamp;

use crate::demo::Scene;

/// Decide what AI agents may do.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version, about, long_about = LONG, after_help = EXITS)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

const LONG: &str = "Decide what AI agents may do.\n\n\
    Without a command: opens the dashboard on the server that answers, or keeps the registry itself.";

const EXITS: &str = "Exit codes: 0 done · 4 refused · 5 no server · 64 usage, or not a terminal · 70 our own fault · \
    128+n killed by signal n. wait: 0 approved, resumed or steered · 1 rejected or cancelled · 2 ended otherwise · 3 not yet.";

/// Where the server is, and who is calling.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// The server: unix:PATH or http://HOST:PORT
    #[arg(long, global = true, env = "PILOTHOUSE_SERVER", value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// A file that holds a bearer token; a token never stands on a command line
    #[arg(
        long,
        global = true,
        env = "PILOTHOUSE_TOKEN_FILE",
        value_name = "FILE"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// What the dashboard calls the server
    #[arg(
        long,
        global = true,
        env = "PILOTHOUSE_SERVER_NAME",
        value_name = "NAME"
    )]
    pub(crate) server_name: Option<String>,
    /// The data directory
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The socket [default: DIR/sock]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Look around: the dashboard, and simulated agents that ask; keeps nothing
    Demo(Demo),
    /// Keep the registry, and answer agents and people
    Serve(Serve),
    /// Open the dashboard on a server that answers already
    Attach,
    /// What is open
    List(List),
    /// What has ended, newest first
    History {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// How many
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: usize,
    },
    /// What happens, as it happens
    Watch {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// One approval, escalation or run, whole
    Show {
        /// Its id
        id: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Ask a human; prints the id
    File(Box<File>),
    /// Wait for the answer
    Wait {
        /// The id that `file` printed, or that of an escalation
        id: String,
        /// How long, as 90s, 10m, 1h [default: for ever]
        #[arg(long, value_parser = span, value_name = "SPAN")]
        timeout: Option<Duration>,
    },
    /// Say yes
    Approve(Answer),
    /// Say no
    Reject(Answer),
    /// Let a run that stands still go on as before
    Resume {
        /// The escalation, or the run
        id: String,
        /// Why, for the record
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Give a run a new direction; its plan is revised, and it goes on with it
    Steer {
        /// The escalation, or the run
        id: String,
        /// The direction: 1 to 8192 bytes
        #[arg(long)]
        note: String,
    },
    /// Stop a run for good; what it asks is taken back
    Cancel {
        /// The escalation, or the run
        id: String,
        /// Why, for the record
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Have a run stand still before its next task
    Pause {
        /// The run: our id, or the agent's own
        run: String,
        /// Why, for the record
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Have a run do a task, and all that follow it, once more
    Rewind {
        /// The run: our id, or the agent's own
        run: String,
        /// The agent's id of the task
        #[arg(long, value_name = "ID")]
        task: String,
    },
    /// Ask a run where it is, and wait a moment for its answer
    Status {
        /// The run: our id, or the agent's own
        run: String,
    },
    /// Move a deadline
    Extend {
        /// The id
        id: String,
        /// To how long from now: 1m to 30d
        #[arg(long, value_parser = span, value_name = "SPAN")]
        by: Duration,
    },
    /// Take away a card whose agent is gone
    Dismiss {
        /// The id
        id: String,
        /// Why, for the record
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Prove the log, or hand it over
    #[command(subcommand)]
    Audit(Audit),
    /// Copy the log into a file, also while a server writes it
    Backup {
        /// The file; it must not be there yet
        file: PathBuf,
    },
    /// Begin anew with the log in a backup; the log that is there is kept beside it
    Restore {
        /// The backup
        file: PathBuf,
    },
    /// Who the server says you are
    Whoami,
    /// Make a bearer token: prints it, and what to add to the token file
    Token {
        /// Whose: user:ada, agent:billing
        #[arg(long)]
        name: String,
        /// What for
        #[arg(long = "role", required = true, value_name = "ROLE")]
        roles: Vec<RoleWord>,
        /// Of which tenant
        #[arg(long, default_value = "default")]
        tenant: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Follow the whole chain and every signed checkpoint; also while a server runs, also of a backup
    Verify(Verify),
    /// Every recorded event, oldest first, one JSON object a line
    Export(Export),
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// A log file [default: that of the data directory]
    #[arg(long, value_name = "DB")]
    pub(crate) file: Option<PathBuf>,
    /// The checkpoints [default: those beside the log]
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoints: Option<PathBuf>,
    /// The public key; of a copy that is kept elsewhere, it proves the most [default: DIR/audit.pub]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// A log file [default: that of the data directory]
    #[arg(long, value_name = "DB")]
    pub(crate) file: Option<PathBuf>,
    /// Where to; it must not be there yet [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Only from this moment on, as 2026-11-30T14:04:22Z or 2026-11-30
    #[arg(long, value_parser = day_or_moment, value_name = "TIME")]
    pub(crate) since: Option<Timestamp>,
    /// Only before this moment
    #[arg(long, value_parser = day_or_moment, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
    /// Only of this run: our id
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Other content: the same seed and the same answers give the same questions
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub(crate) seed: u64,
    /// Only this scene, by name or number; `help` lists them
    #[arg(long, value_name = "SCENE")]
    pub(crate) scene: Option<Scene>,
    /// The server's clock stands still at this moment, as 2026-11-30T14:04:22Z
    #[arg(long, value_parser = moment, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Listen on TCP as well: a loopback address; needs --tokens
    #[arg(long, requires = "tokens", value_name = "HOST:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// The token file, with the SHA-256 of each token
    #[arg(long, requires = "listen", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Let goldfive agents in: a loopback address; harmonograf's is 127.0.0.1:7531
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) goldfive: Option<SocketAddr>,
    /// A file with the bearer token that goldfive agents have to send
    #[arg(long, requires = "goldfive", value_name = "FILE")]
    pub(crate) goldfive_token_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only with this label; may be given more than once
    #[arg(long = "label", value_parser = pair, value_name = "K=V")]
    pub(crate) labels: Vec<(String, String)>,
    /// Only of this run: our id, or the agent's own
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct File {
    /// The line in the list
    #[arg(long)]
    pub(crate) title: String,
    /// The question
    #[arg(long, default_value = "")]
    pub(crate) prompt: String,
    /// What the card says besides
    #[arg(long, conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// The same from a file; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// The tool that would run
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Its arguments: a JSON object
    #[arg(long, requires = "tool", value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// A field to fill in: NAME:TYPE[:A|B|C][=DEFAULT]; types are string, text, number, integer, boolean, enum, date, and
    /// secret: a string whose answer only the agent gets
    #[arg(long = "field", value_name = "FIELD")]
    pub(crate) fields: Vec<String>,
    /// Who may answer
    #[arg(long, default_value = "operator")]
    pub(crate) asks: AsksWord,
    /// How long it may wait: 1m to 30d
    #[arg(long, default_value = "7d", value_parser = span, value_name = "SPAN")]
    pub(crate) deadline: Duration,
    /// What lists can be filtered by
    #[arg(long = "label", value_parser = pair, value_name = "K=V")]
    pub(crate) labels: Vec<(String, String)>,
    /// Who asks, as the card says it
    #[arg(long, default_value = "cli", value_name = "NAME")]
    pub(crate) agent: String,
    /// The session it belongs to
    #[arg(long, default_value = "", value_name = "ID")]
    pub(crate) session: String,
    /// Filing again with the same key is the same filing
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Approving asks once more
    #[arg(long)]
    pub(crate) high_risk: bool,
    /// How many different people have to approve it, none of them whoever asks; one no is enough
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16), value_name = "N")]
    pub(crate) votes: u8,
}

#[derive(Args, Debug)]
pub(crate) struct Answer {
    /// The id
    pub(crate) id: String,
    /// What you saw: the digest that `list --json` and `show` print
    #[arg(long, value_name = "SHA256")]
    pub(crate) digest: Option<String>,
    /// A field of the form
    #[arg(long = "answer", value_parser = pair, value_name = "NAME=VALUE")]
    pub(crate) answers: Vec<(String, String)>,
    /// What you want to say with it
    #[arg(long, default_value = "")]
    pub(crate) note: String,
    /// The user you decide for; for backends
    #[arg(long, value_name = "NAME")]
    pub(crate) on_behalf_of: Option<String>,
    /// Your own id of this decision, so that sending it again is the same decision
    #[arg(long, value_name = "ID")]
    pub(crate) decision_id: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AsksWord {
    EndUser,
    Operator,
    Admin,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleWord {
    Agent,
    Viewer,
    User,
    Backend,
    Operator,
    Admin,
}

/// `90s`, `10m`, `1h 30m`, `7d`; a day has 24 hours.
fn span(text: &str) -> Result<Duration, String> {
    let fault = |_| format!("'{text}' is no length of time; write 90s, 10m, 1h or 7d");
    let span: jiff::Span = text.parse().map_err(fault)?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let length = span.to_duration(days).map_err(fault)?;
    Duration::try_from(length).map_err(|_| format!("'{text}' lies in the past"))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let moment: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("'{text}' is no moment; write 2026-11-30T14:04:22Z"))?;
    Ok(Timestamp::from_ms(moment.as_millisecond()))
}

/// A day begins at midnight UTC.
fn day_or_moment(text: &str) -> Result<Timestamp, String> {
    moment(text).or_else(|_| {
        moment(&format!("{text}T00:00:00Z"))
            .map_err(|_| format!("'{text}' is no moment; write 2026-11-30T14:04:22Z or 2026-11-30"))
    })
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not of the form NAME=VALUE"))?;
    Ok((key.into(), value.into()))
}
