//! The rows of the rules, once more: over a real connection, each line with the token of whoever
//! says it. What came back has to be the same.
//!
//! What has no call of its own goes to the owning thread: the passing of time, what foreign agents
//! did, and callers to whom no token file can give a token.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use pilothouse::{
    connect::{CallError, Client, Token},
    serve::{
        Listeners, Server, clock::Clock, identity::Identity, listen_on_loopback, owner::Owner,
        stop::Stop,
    },
    wire::pilothouse::{Asked, Decided, DriftReport, ListWish, Open, Opening},
};
use registry::{
    Approval, ApprovalId, Command, Principal, Refusal, Run, RunId, Seq, Timestamp, Untrusted, Wish,
    command::AckResult,
    decide::Reply,
    digest::Sha256,
    escalation::Ended,
    log::Memory,
    names::{DriftId, WaitId},
    run::Source,
};
use tokio::runtime::{Handle, Runtime};

use crate::{
    house::plenty,
    script::{BEGINNING, Line, World, play, principal},
    wishes::{
        Known, command, list, shown_claimed, shown_closed, shown_drifts, shown_escalation,
        shown_gated, shown_level, shown_order, shown_orders, shown_pending, shown_run,
        shown_settled, word,
    },
};

#[test]
fn every_row_holds_over_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let mut wrong = String::new();
    for file in files() {
        let tokens = Tokens::of_everybody_in(&file, dir.path());
        let world = || OverGrpc::start(runtime.handle(), &tokens);
        wrong += &play(&file, world);
    }
    assert!(wrong.is_empty(), "these came out otherwise:\n{wrong}");
}

fn files() -> Vec<PathBuf> {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/registry/tests/rules/rows");
    let files = std::fs::read_dir(rows).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    files
}

/// A token file of all who speak in some rows.
struct Tokens {
    file: PathBuf,
    tenants: BTreeSet<String>,
}

impl Tokens {
    fn of_everybody_in(rows: &Path, dir: &Path) -> Self {
        let text = std::fs::read_to_string(rows).unwrap();
        let mut tenants = BTreeSet::from(["default".to_owned()]);
        let mut everybody = BTreeSet::from(["agent:billing".to_owned()]);
        for word in text.split_whitespace() {
            if let Some(who) = word.strip_prefix("by=") {
                everybody.insert(who.to_owned());
            }
            if let Some(who) = word.strip_prefix("agent=") {
                everybody.insert(format!("agent:{who}"));
            }
        }
        for who in &everybody {
            tenants.insert(principal(who).tenant().as_str().to_owned());
        }
        everybody.extend(tenants.iter().map(|tenant| onlooker(tenant)));
        let mut file = String::new();
        for by in everybody.iter().map(|who| principal(who)) {
            if has_token(&by) {
                let roles: Vec<&str> = by.roles().map(|role| role.word()).collect();
                let (name, tenant) = (by.name().as_str(), by.tenant().as_str());
                let sha256 = Sha256::of(token(&by));
                let _ = write!(
                    file,
                    "[[token]]\nname = {name:?}\nroles = {roles:?}\ntenant = {tenant:?}\nsha256 = \"{sha256}\"\n"
                );
            }
        }
        let path = dir.join(rows.file_name().unwrap());
        std::fs::write(&path, file).unwrap();
        Self {
            file: path,
            tenants,
        }
    }
}

fn onlooker(tenant: &str) -> String {
    format!("viewer:onlooker@{tenant}")
}

fn token(by: &Principal) -> String {
    format!("token-of-{}@{}", by.name(), by.tenant().as_str())
}

fn has_token(by: &Principal) -> bool {
    let roles: Vec<_> = by.roles().collect();
    pilothouse::serve::identity::go_together(&roles).is_ok()
}

/// A server of its own, on a port, with a clock that stands.
struct OverGrpc<'a> {
    runtime: Handle,
    tokens: &'a Tokens,
    url: String,
    owner: Owner,
    clock: Clock,
    stop: Stop,
    clients: RefCell<BTreeMap<String, Client>>,
    minted: u128,
    /// The head before the turn before.
    wrote_after: Seq,
}

impl<'a> OverGrpc<'a> {
    fn start(runtime: &Handle, tokens: &'a Tokens) -> Self {
        let clock = Clock::standing(BEGINNING);
        let log = Box::new(Memory::new("rows"));
        let fatal = Box::new(|why: &str| panic!("{why}"));
        let owner = Owner::start(log, clock.clone(), None, fatal).unwrap();
        let stop = Stop::default();
        let identity = Identity::with_tokens(&tokens.file).unwrap();
        let server = Server::new(owner.clone(), identity, stop.clone()).with_limits(plenty());
        let loopback = "127.0.0.1:0".parse().unwrap();
        let tcp = runtime.block_on(listen_on_loopback(loopback)).unwrap();
        let url = format!("http://{}", tcp.local_addr().unwrap());
        let listeners = Listeners {
            tcp: Some(tcp),
            ..Listeners::default()
        };
        runtime.spawn(server.run(listeners));
        Self {
            runtime: runtime.clone(),
            tokens,
            url,
            owner,
            clock,
            stop,
            clients: RefCell::default(),
            minted: 0,
            wrote_after: 0,
        }
    }

    fn client(&self, by: &Principal) -> Client {
        let token = token(by);
        let connect = || {
            let token = Token::parse(&token).unwrap();
            Client::connect(self.url.parse().unwrap(), Some(token))
        };
        let mut clients = self.clients.borrow_mut();
        clients.entry(token.clone()).or_insert_with(connect).clone()
    }

    /// Asks in every tenant, as one who may look there.
    fn onlookers(&self) -> impl Iterator<Item = Client> {
        let tenants = self.tokens.tenants.iter();
        tenants.map(|tenant| self.client(&principal(&onlooker(tenant))))
    }
}

impl Drop for OverGrpc<'_> {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl Known for OverGrpc<'_> {
    fn run(&self, id: RunId) -> Option<Arc<Run>> {
        self.owner.state().run(id).cloned()
    }

    fn approval(&self, id: ApprovalId) -> Option<Arc<Approval>> {
        let known = self.owner.state().approval(id).cloned();
        known.or_else(|| match self.asked(id)? {
            Asked::Pending(pending) => Some(pending.approval.clone()),
            Asked::Settled(settled) => Some(settled.approval.clone()),
            Asked::Escalation(_) | Asked::Closed(_) => None,
        })
    }

    /// Only the server mints here; this one is for what goes past it.
    fn mint(&mut self) -> u128 {
        self.minted += 1;
        self.minted
    }
}

impl World for OverGrpc<'_> {
    fn run(&mut self, now: Timestamp, lines: &[Line]) -> Vec<String> {
        if let [line] = lines
            && let Some(answer) = self.look(line)
        {
            return vec![answer];
        }
        self.wrote_after = self.owner.state().head();
        self.clock.set(now);
        if let [line] = lines
            && line.command == "tick"
        {
            self.pass();
            return vec!["done".into()];
        }
        let answers: Vec<_> = lines
            .iter()
            .map(|line| {
                let command = command(self, now, line).map_err(|refusal| said(&refusal))?;
                let drift = drift_of(&command);
                Ok((self.send(command)?, drift))
            })
            .collect();
        // As one turn is: what became of a question is told when all of it is over.
        let tell = |answer| match answer {
            Err(refused) => refused,
            Ok((reply, drift)) => self.told(reply, drift),
        };
        answers.into_iter().map(tell).collect()
    }

    fn is_escalation(&self, id: &str) -> bool {
        let asked = id.parse().ok().and_then(|id| self.asked(id));
        matches!(asked, Some(Asked::Escalation(_) | Asked::Closed(_)))
    }
}

fn drift_of(command: &Command) -> Option<DriftId> {
    match &command.wish {
        Wish::ReportDrift(report) => Some(report.drift.id.clone()),
        _ => None,
    }
}

fn said(refusal: &Refusal) -> String {
    format!("{}: {refusal}", refusal.word())
}

fn told(error: CallError) -> String {
    match error {
        CallError::Refused(told) => format!("{}: {}", told.word, told.message),
        other => panic!("{other}"),
    }
}

/// A line that wishes for something.
impl OverGrpc<'_> {
    /// A turn in which nobody wishes for anything.
    fn pass(&self) {
        let nothing = Wish::GiveUp {
            id: ApprovalId::mint(BEGINNING, 0),
            wait: WaitId::parse("nobody").unwrap(),
        };
        let _ = self.submit(principal("agent:billing"), nothing);
    }

    fn send(&self, command: Command) -> Result<Reply, String> {
        let Command { by, wish } = command;
        if !has_token(&by) {
            return self.submit(by, wish);
        }
        let client = self.client(&by);
        let call = async {
            match wish {
                Wish::OpenRun(open) if !open.key.source.is_foreign() => {
                    let run = Opening {
                        agent: open.key.agent,
                        session: open.key.session,
                        invocation: open.key.invocation,
                        project: open.project,
                        thread: open.thread,
                        origin: open.origin,
                        user: open.owner,
                        parent: open.parent,
                        can_resume: open.can_resume,
                        context: open.context,
                        detached: open.key.source == Source::Cli,
                    };
                    client.open_run(&run).await.map(Reply::Run)
                }
                Wish::EndRun { run, how, reason } => done(client.end_run(run, how, &reason).await),
                Wish::ReportTask {
                    run,
                    task,
                    title,
                    state,
                    detail,
                } => done(
                    client
                        .report_task(run, &task, &title, &state, &detail)
                        .await,
                ),
                Wish::ReportPlan { run, plan, cause } => {
                    done(client.report_plan(run, &plan, &cause).await)
                }
                Wish::Say { run, text } => done(client.say(run, &text).await),
                Wish::File(file) => {
                    let filed = client.file(file.run, &file.filing).await.map_err(told)?;
                    Ok(Reply::Approval(filed.id))
                }
                Wish::Withdraw { id, reason, .. } => done(client.withdraw(id, &reason).await),
                Wish::Decide(decide) => {
                    let of = match client.decide(&decide).await.map_err(told)? {
                        Decided::Settled(settled) => settled.approval.id,
                        Decided::Voted(pending) => pending.approval.id,
                    };
                    assert_eq!(of, decide.id);
                    Ok(Reply::Approval(decide.id))
                }
                Wish::Extend { id, span, .. } => {
                    let until = client.extend(id, span).await.map_err(told)?;
                    assert_eq!(until, self.owner.now().plus(span));
                    Ok(Reply::Done)
                }
                Wish::Dismiss { id, note, .. } => done(client.dismiss(id, &note).await),
                Wish::ReportApplied {
                    id, result, detail, ..
                } => done(client.report_applied(id, result, &detail).await),
                Wish::Claim(wish) => {
                    let taken = client.claim(wish.run, &wish.step, &wish.digests, &wish.token);
                    let taken = taken.await.map_err(told)?;
                    let ids = taken.iter().map(|settled| settled.approval.id);
                    Ok(Reply::Claimed(ids.collect()))
                }
                Wish::Restore(wish) => {
                    let restored = client.restore(wish.run, &wish.step, &wish.token).await;
                    // Here it is an answer, there a refusal; it says the same.
                    let why_not = restored.map_err(told)?.err();
                    let why_not = why_not.map(|why| format!("not_now: {}", why.line()));
                    return why_not.map_or(Ok(Reply::Done), Err);
                }
                Wish::ReportStarted { id, token, .. } => {
                    done(client.report_started(id, &token).await)
                }
                Wish::ReportDrift(report) => {
                    let drift = DriftReport {
                        id: report.drift.id,
                        kind: report.drift.kind.text().clone(),
                        severity: report.drift.severity.word(),
                        detail: report.drift.detail,
                        task: report.drift.task,
                    };
                    let level = client.report_drift(report.run, &drift).await;
                    level.map(Reply::Level)
                }
                Wish::Direct(direct) => {
                    let order = direct.order;
                    let given = client.control(&order).await.map_err(told)?;
                    assert_eq!((&given.id, given.run), (&order.id, order.run));
                    Ok(Reply::Control(order.run, order.id))
                }
                Wish::Ack(ack) if ack.result != AckResult::NoAnswer => {
                    let acked = client.ack_control(ack.run, &ack.control, ack.result, &ack.detail);
                    done(acked.await)
                }
                Wish::OpenRun(_)
                | Wish::Attend { .. }
                | Wish::GiveUp { .. }
                | Wish::Observe(_)
                | Wish::HandOver { .. }
                | Wish::Gate(_)
                | Wish::Ack(_) => {
                    return self
                        .owner
                        .submit(by, wish)
                        .await
                        .map_err(|refusal| said(&refusal));
                }
            }
            .map_err(told)
        };
        self.runtime.block_on(call)
    }

    fn told(&self, reply: Reply, drift: Option<DriftId>) -> String {
        match (reply, drift) {
            (Reply::Done, _) => "done".to_owned(),
            (Reply::Run(id), _) => id.to_string(),
            (Reply::Approval(id), _) => format!("{id} {}", self.standing(id)),
            (Reply::Gated(gated), _) => shown_gated(&gated),
            (Reply::Claimed(ids), _) => shown_claimed(ids.iter().map(|id| match self.asked(*id) {
                Some(Asked::Settled(settled)) => (*settled).clone(),
                other => panic!("{other:?}"),
            })),
            (Reply::Control(run, id), _) => shown_order(&self.owner.state(), run, &id),
            (Reply::Level(level), Some(drift)) => shown_level(&self.owner.state(), level, &drift),
            (Reply::Level(level), None) => panic!("{level:?} of no drift"),
        }
    }

    fn submit(&self, by: Principal, wish: Wish) -> Result<Reply, String> {
        let reply = self.runtime.block_on(self.owner.submit(by, wish));
        reply.map_err(|refusal| said(&refusal))
    }
}

fn done(answer: Result<(), CallError>) -> Result<Reply, CallError> {
    answer.map(|()| Reply::Done)
}

fn open_id(open: &Open) -> String {
    match open {
        Open::Pending(pending) => pending.approval.id.to_string(),
        Open::Escalation(escalation) => escalation.id.to_string(),
    }
}

/// A line that looks.
impl OverGrpc<'_> {
    fn look(&self, line: &Line) -> Option<String> {
        Some(match line.command.as_str() {
            "show" => self.show(line.word(0)),
            "wrote" => self.wrote(),
            "drifts" => self.of_run(line, shown_drifts),
            "orders" => self.of_run(line, shown_orders),
            "inbox" => self.inbox(),
            "history" => self.history(line),
            "record" => self.record(line.word(0)),
            _ => return None,
        })
    }

    fn asked(&self, id: ApprovalId) -> Option<Asked> {
        for client in self.onlookers() {
            match self.runtime.block_on(client.get(id)) {
                Ok(got) => return Some(got.asked),
                Err(error) => assert!(told(error).starts_with("not_found")),
            }
        }
        None
    }

    fn standing(&self, id: ApprovalId) -> &'static str {
        match self.asked(id) {
            Some(Asked::Pending(_)) => "pending",
            Some(Asked::Settled(settled)) => settled.outcome.word(),
            Some(Asked::Escalation(_)) => "held",
            Some(Asked::Closed(closed)) => closed.how.word(),
            None => "unknown",
        }
    }

    fn show(&self, id: &str) -> String {
        for client in self.onlookers() {
            let run = self.runtime.block_on(client.get_run(&id.into(), 0));
            match run {
                Ok(whole) => return shown_run(&whole.run),
                Err(error) => assert!(!id.is_empty() && told(error).starts_with("not_found")),
            }
        }
        let asked = id.parse().ok().and_then(|id| self.asked(id));
        match asked {
            Some(Asked::Pending(pending)) => shown_pending(&pending),
            Some(Asked::Settled(settled)) => shown_settled(&settled),
            Some(Asked::Escalation(escalation)) => shown_escalation(&escalation),
            Some(Asked::Closed(closed)) => shown_closed(&closed),
            None => "nothing".into(),
        }
    }

    fn of_run(&self, line: &Line, shown: fn(&Run) -> String) -> String {
        for client in self.onlookers() {
            let named = Untrusted::new(line.word(0));
            if let Ok(whole) = self.runtime.block_on(client.get_run(&named, 0)) {
                return shown(&whole.run);
            }
        }
        "nothing".into()
    }

    fn wrote(&self) -> String {
        let after = self.wrote_after;
        let read = self.owner.read_log(move |log| log.read(after, usize::MAX));
        let events = self.runtime.block_on(read).unwrap();
        list(events.iter().map(|recorded| word(&recorded.event)))
    }

    fn inbox(&self) -> String {
        let open = self.onlookers().flat_map(|client| {
            let everything = ListWish::default();
            let items = self.runtime.block_on(client.list(&everything)).unwrap();
            items.into_iter().map(|item| open_id(&item.open))
        });
        list(open.collect::<Vec<_>>())
    }

    fn history(&self, line: &Line) -> String {
        // The rows ask the log itself, which asks nobody for a right.
        let tenant = line.by("viewer:v").tenant().as_str().to_owned();
        let by = principal(&onlooker(&tenant));
        let limit = line
            .get("limit")
            .map_or(500, |limit| limit.parse().unwrap());
        let after = line
            .get("after")
            .and_then(|id| self.asked(id.parse().unwrap()));
        let before = after.map(|asked| match asked {
            Asked::Settled(settled) => settled.seq,
            Asked::Closed(closed) => closed.seq,
            Asked::Pending(_) | Asked::Escalation(_) => panic!("it is open"),
        });
        let page = self.client(&by);
        let (page, _) = self.runtime.block_on(page.history(limit, before)).unwrap();
        let row = |ended: &Ended| match ended {
            Ended::Approval(settled) => {
                format!("{} {}", settled.approval.id, settled.outcome.word())
            }
            Ended::Escalation(closed) => format!("{} {}", closed.escalation.id, closed.how.word()),
        };
        list(page.iter().map(row))
    }

    fn record(&self, run: &str) -> String {
        for client in self.onlookers() {
            let named = Untrusted::new(run);
            if let Ok(whole) = self.runtime.block_on(client.get_run(&named, 0)) {
                return list(whole.record.iter().map(|recorded| word(&recorded.event)));
            }
        }
        "nothing".into()
    }
}
