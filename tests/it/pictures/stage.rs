//! A server whose clock stands where it is put, agents that work beside it, and people who may answer.

use std::{pin::Pin, time::Duration};

use pilothouse::{
    connect::{CallError, Client, Token},
    serve::{
        Listeners, Server, clock::Clock, identity::Identity, listen_on_loopback, owner::Owner,
        stop::Stop,
    },
    wire::pilothouse::{DriftReport, Filed, Opening},
};
use registry::{
    Control, EscalationId, RunId, Timestamp, Untrusted,
    approval::{AppliedResult, Filing, Seen, Verdict},
    command::{AckResult, Decide, Ending, Order},
    control::Verb,
    digest::Sha256,
    form::{Form, RawAnswers},
    log::Memory,
    names::{ControlId, DecisionId, DriftId},
    run::{End, Plan, PlanTask, TaskState},
};
use tempfile::TempDir;
use tokio::{
    runtime::Runtime,
    time::{sleep, timeout},
};
use tokio_stream::{Stream, StreamExt as _};

use crate::{pty::Pty, server::PROGRAM};

/// 2026-11-30T14:04:22Z.
pub(super) const NOW_MS: i64 = 1_796_047_462_000;
/// How the dashboard says it.
pub(super) const NOW: &str = "14:04:22Z";

const PATIENCE: Duration = Duration::from_secs(20);

/// Where a picture is set up.
pub(super) struct Stage {
    agents: Runtime,
    server: Runtime,
    clock: Clock,
    agent: Client,
    ada: Client,
    grace: Client,
    address: String,
    dir: TempDir,
}

/// Who decides.
#[derive(Clone, Copy)]
pub(super) enum Person {
    Ada,
    Grace,
}

/// The orders that a run gets.
pub(super) type Orders = Pin<Box<dyn Stream<Item = Result<Control, CallError>> + Send>>;

/// So long before now; some seconds more, so that a picture that takes a while shows the same.
pub(super) fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60 + 5)
}

// === The house ===

impl Stage {
    pub(super) fn set() -> Self {
        let (agents, server) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let dir = TempDir::new().unwrap();
        let row = |name: &str, role: &str, token: &str| {
            let hash = Sha256::of(token);
            format!("[[token]]\nname = \"{name}\"\nroles = [\"{role}\"]\nsha256 = \"{hash}\"\n")
        };
        let rows = [
            row("agent:all", "agent", "agents-token"),
            row("user:ada", "admin", "adas-token"),
            row("user:grace", "operator", "graces-token"),
        ];
        let tokens = dir.path().join("tokens.toml");
        std::fs::write(&tokens, rows.concat()).unwrap();
        crate::server::write_secret(dir.path().join("token"), "adas-token");
        let clock = Clock::standing(Timestamp::from_ms(NOW_MS));
        let log = Box::new(Memory::new("pictures"));
        let owner =
            Owner::start(log, clock.clone(), None, Box::new(|why| panic!("{why}"))).unwrap();
        let identity = Identity::with_tokens(&tokens).unwrap();
        let address = server.block_on(async {
            let any = "127.0.0.1:0".parse().unwrap();
            let listener = listen_on_loopback(any).await.unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let listeners = Listeners {
                tcp: Some(listener),
                ..Listeners::default()
            };
            tokio::spawn(Server::new(owner, identity, Stop::default()).run(listeners));
            address
        });
        let client = |token: &str| {
            let token = Token::parse(token).unwrap();
            Client::connect(address.parse().unwrap(), Some(token))
        };
        let clients = ["agents-token", "adas-token", "graces-token"];
        let [agent, ada, grace] = agents.block_on(async { clients.map(client) });
        Self {
            agents,
            server,
            clock,
            agent,
            ada,
            grace,
            address,
            dir,
        }
    }

    /// From here on it is so long before now.
    pub(super) fn at(&self, before: Duration) {
        let before = i64::try_from(before.as_millis()).unwrap();
        self.clock.set(Timestamp::from_ms(NOW_MS - before));
    }

    /// From here on it is so long after now.
    pub(super) fn later(&self, after: Duration) {
        let after = i64::try_from(after.as_millis()).unwrap();
        self.clock.set(Timestamp::from_ms(NOW_MS + after));
    }

    /// What the person at the terminal sees, now.
    pub(super) fn open(&self, rows: u16, columns: u16, env: &[(&str, &str)]) -> Pty {
        self.at(Duration::ZERO);
        let token = self.dir.path().join("token").display().to_string();
        let args = [
            "attach",
            "--server",
            &self.address,
            "--token-file",
            &token,
            "--server-name",
            "prod-eu",
        ];
        let mut pty = Pty::spawn(PROGRAM, &args, env, rows, columns);
        pty.wait_text("● live");
        pty
    }

    /// The server is gone.
    pub(super) fn without_server(self) {
        self.server.shutdown_background();
        self.agents.shutdown_background();
    }
}

// === The agents ===

impl Stage {
    /// A run of an agent that stays.
    pub(super) fn run(&self, agent: &str, invocation: &str) -> RunId {
        let opening = Opening {
            agent: agent.into(),
            invocation: invocation.into(),
            session: "demo".into(),
            ..Opening::default()
        };
        let client = self.agent.clone();
        self.agents.block_on(async {
            let run = client.open_run(&opening).await.unwrap();
            tokio::spawn(async move {
                loop {
                    let _ = client.heartbeat(&[run]).await;
                    sleep(Duration::from_secs(3)).await;
                }
            });
            run
        })
    }

    /// A new run asks.
    pub(super) fn ask(&self, agent: &str, invocation: &str, filing: &Filing) -> Filed {
        self.file(self.run(agent, invocation), filing)
    }

    pub(super) fn file(&self, run: RunId, filing: &Filing) -> Filed {
        self.agents.block_on(self.agent.file(run, filing)).unwrap()
    }

    pub(super) fn task(&self, run: RunId, task: &str, state: &TaskState) {
        let none = Untrusted::default();
        let task = task.into();
        let reported = self.agent.report_task(run, &task, &none, state, &none);
        self.agents.block_on(reported).unwrap();
    }

    pub(super) fn plan(
        &self,
        run: RunId,
        revision: u32,
        tasks: &[(&str, &str, TaskState)],
        because_of: Option<&Control>,
    ) {
        let task = |(id, title, state): &(&str, &str, TaskState)| PlanTask {
            id: (*id).into(),
            title: (*title).into(),
            state: state.clone(),
        };
        let plan = Plan {
            revision,
            summary: Untrusted::default(),
            tasks: tasks.iter().map(task).collect(),
        };
        let cause = because_of.map_or_else(Untrusted::default, |order| order.id.as_str().into());
        let planned = self.agent.report_plan(run, &plan, &cause);
        self.agents.block_on(planned).unwrap();
    }

    /// `id` is the agent's own; `kind` and `severity` stand together as they are said.
    pub(super) fn drift(&self, run: RunId, id: &str, task: &str, what: (&str, &str), detail: &str) {
        let drift = DriftReport {
            id: DriftId::parse(id).unwrap(),
            kind: what.0.into(),
            severity: what.1.into(),
            detail: detail.into(),
            task: task.into(),
        };
        let reported = self.agent.report_drift(run, &drift);
        self.agents.block_on(reported).unwrap();
    }

    pub(super) fn listen(&self, run: RunId) -> Orders {
        let listened = self.agents.block_on(self.agent.controls(run));
        Box::pin(listened.unwrap())
    }

    pub(super) fn hear(&self, orders: &mut Orders) -> Control {
        let order = async { timeout(PATIENCE, orders.next()).await };
        let order = self.agents.block_on(order).expect("an order in time");
        order.expect("the stream goes on").unwrap()
    }

    pub(super) fn ack(&self, order: &Control, words: &str) {
        let words = words.into();
        let taken = AckResult::Success;
        let acked = self.agent.ack_control(order.run, &order.id, taken, &words);
        self.agents.block_on(acked).unwrap();
    }

    pub(super) fn applied(&self, filed: &Filed, result: AppliedResult, words: &str) {
        let words = words.into();
        let reported = self.agent.report_applied(filed.id, result, &words);
        self.agents.block_on(reported).unwrap();
    }

    pub(super) fn end(&self, run: RunId, end: End) {
        let none = Untrusted::default();
        let ended = self.agent.end_run(run, Ending::Over(end), &none);
        self.agents.block_on(ended).unwrap();
    }

    pub(super) fn take_back(&self, filed: &Filed, words: &str) {
        let words = words.into();
        let withdrawn = self.agent.withdraw(filed.id, &words);
        self.agents.block_on(withdrawn).unwrap();
    }
}

// === The people ===

impl Stage {
    fn client(&self, who: Person) -> &Client {
        match who {
            Person::Ada => &self.ada,
            Person::Grace => &self.grace,
        }
    }

    pub(super) fn decide(
        &self,
        who: Person,
        filed: &Filed,
        verdict: Verdict,
        answers: &[(&str, &str)],
        note: &str,
    ) {
        let answers = answers.iter();
        let decide = Decide {
            id: filed.id,
            decision: DecisionId::parse(&format!("decision-{}", filed.id)).unwrap(),
            verdict,
            digest: filed.digest,
            answers: answers
                .map(|(name, answer)| ((*name).to_owned(), (*answer).to_owned()))
                .collect::<RawAnswers>(),
            note: note.into(),
            seen: Seen::Whole,
            on_behalf_of: None,
            form: Form::default(),
            past: None,
            decided_before: None,
        };
        let decided = self.client(who).decide(&decide);
        self.agents.block_on(decided).unwrap();
    }

    /// Gives an order; `answers` the escalation that holds the run, if one does.
    pub(super) fn direct(&self, who: Person, id: &str, run: RunId, verb: Verb, note: &str) {
        let answers = if verb.answers() { self.held(run) } else { None };
        let order = Order {
            id: ControlId::parse(id).unwrap(),
            run,
            verb,
            note: note.into(),
            answers,
        };
        let directed = self.client(who).control(&order);
        self.agents.block_on(directed).unwrap();
    }

    fn held(&self, run: RunId) -> Option<EscalationId> {
        let named = run.to_string().as_str().into();
        let record = self.agents.block_on(self.ada.get_run(&named, 0));
        record.unwrap().run.held_by
    }
}
