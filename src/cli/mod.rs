//! The subcommands; each is a few lines that call the rest.

mod args;
mod audit;
mod backup;
mod dashboard;
mod demo;
mod exit;
mod filing;
mod held;
mod host;
mod place;
mod print;
mod steering;
mod verbs;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;
use registry::control::Verb as Control;

/// What our own faults end with.
pub use exit::FAULT;

use self::{
    args::{Cli, Verb},
    exit::Stopped,
};

/// Runs the program, and says how it ended.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Whatever else is linked: this is what does our cryptography. It fails only where it was done before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(told) => {
            // Help and version are no errors; everything else is usage.
            let usage = told.use_stderr();
            let _ = told.print();
            return ExitCode::from(if usage { 64 } else { exit::DONE });
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(obey(cli)),
        Err(error) => Err(Stopped::fault(format!("no runtime: {error}"))),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(stopped) => {
            if !stopped.why.is_empty() {
                let why = registry::Untrusted::new(stopped.why).block();
                print::aside(format!("pilothouse: {why}"));
            }
            ExitCode::from(stopped.code)
        }
    }
}

async fn obey(cli: Cli) -> Result<u8, Stopped> {
    let place = cli.place;
    match cli.verb {
        None => dashboard::local(&place).await,
        Some(Verb::Attach) => dashboard::attach(&place).await,
        Some(Verb::Demo(wanted)) => demo::demo(&place, &wanted).await,
        Some(Verb::Serve(serve)) => verbs::serve(&place, &serve).await,
        Some(Verb::List(list)) => verbs::list(&place, list).await,
        Some(Verb::History(wanted)) => verbs::history(&place, *wanted).await,
        Some(Verb::Watch { json }) => verbs::watch(&place, json).await,
        Some(Verb::Show { id, json }) => verbs::show(&place, &id, json).await,
        Some(Verb::File(file)) => filing::file(&place, *file).await,
        Some(Verb::Wait { id, timeout }) => filing::wait(&place, &id, timeout).await,
        Some(Verb::Approve(answer)) => verbs::decide(&place, answer, verbs::APPROVE).await,
        Some(Verb::Reject(answer)) => verbs::decide(&place, answer, verbs::REJECT).await,
        Some(Verb::Resume { id, note }) => {
            steering::direct(&place, &id, Control::Resume, note).await
        }
        Some(Verb::Steer { id, note }) => steering::direct(&place, &id, Control::Steer, note).await,
        Some(Verb::Cancel { id, note }) => {
            steering::direct(&place, &id, Control::Cancel, note).await
        }
        Some(Verb::Pause { run, note }) => {
            steering::direct(&place, &run, Control::Pause, note).await
        }
        Some(Verb::Rewind { run, task }) => {
            let rewind = Control::Rewind { task: task.into() };
            steering::direct(&place, &run, rewind, String::new()).await
        }
        Some(Verb::Status { run }) => {
            steering::direct(&place, &run, Control::StatusQuery, String::new()).await
        }
        Some(Verb::Extend { id, by }) => verbs::extend(&place, &id, by).await,
        Some(Verb::Dismiss { id, note }) => verbs::dismiss(&place, &id, note).await,
        Some(Verb::Audit(args::Audit::Verify(verify))) => audit::verify(&place, &verify),
        Some(Verb::Audit(args::Audit::Export(export))) => audit::export(&place, &export),
        Some(Verb::Backup { file }) => backup::backup(&place, &file),
        Some(Verb::Restore { file }) => backup::restore(&place, &file),
        Some(Verb::Config(args::ConfigVerb::Check { file })) => host::check(&file),
        Some(Verb::Whoami) => verbs::whoami(&place).await,
        Some(Verb::Token { new, verb }) => match (verb, new) {
            (Some(args::TokenVerb::New(new)), _) | (None, Some(new)) => verbs::token(&new),
            (Some(args::TokenVerb::Ticket { user, ttl, scopes }), _) => {
                verbs::ticket(&place, &user, ttl, &scopes).await
            }
            (None, None) => Err(Stopped::usage("token: whose? say --name and --role")),
        },
    }
}
