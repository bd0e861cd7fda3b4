//! The desk: a model, a screen, and a hand on the keys.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ratatui::{Terminal, backend::TestBackend};
use registry::{
    Approval, ApprovalId, Asks, Detail, Event, Name, Recorded, Role, RunId, State, Tenant,
    Timestamp, Untrusted,
    approval::{Decision, Hold, OnDeadline, Risk, Subject, Verdict, digest_of},
    digest::Sha256,
    event::Scope,
    form::{Answers, Form},
    names::DecisionId,
    run::{Presence, Run, RunKey, RunState, Source},
    who::Decider,
};

use crate::dashboard::{
    Drawn, Effect, Link, Me, Model, Moment, Msg, Setup, Submit, Theme, keymap::Keymap, keys::Key,
    update, view,
};

/// 2026-11-30T14:05:00Z
pub(super) const NOW_MS: i64 = 1_796_047_500_000;

pub(super) fn now() -> Timestamp {
    Timestamp::from_ms(NOW_MS)
}

pub(super) fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_ms(NOW_MS - seconds * 1000)
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// What a test asks: the parts that differ.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) n: u128,
    pub(super) agent: &'static str,
    pub(super) source: Source,
    pub(super) title: String,
    pub(super) tool: Option<&'static str>,
    pub(super) prompt: String,
    pub(super) args: Option<String>,
    pub(super) form: &'static str,
    pub(super) asks: Asks,
    pub(super) waited_s: i64,
    pub(super) left_s: Option<i64>,
    pub(super) risk: Risk,
}

pub(super) fn ask(n: u128, title: &str) -> Ask {
    Ask {
        n,
        agent: "billing-agent",
        source: Source::Native,
        title: title.to_owned(),
        tool: None,
        prompt: "May I?".to_owned(),
        args: None,
        form: "[]",
        asks: Asks::Operator,
        waited_s: 240,
        left_s: None,
        risk: Risk::Normal,
    }
}

impl Ask {
    pub(super) fn id(&self) -> ApprovalId {
        ApprovalId::mint(ago(self.waited_s), self.n)
    }

    pub(super) fn run(&self) -> RunId {
        RunId::mint(ago(self.waited_s), self.n)
    }

    pub(super) fn detail(&self) -> Detail {
        Detail {
            prompt: self.prompt.as_str().into(),
            args: self.args.as_deref().map(Untrusted::from),
            form: serde_json::from_str::<Form>(self.form).unwrap(),
            ..Detail::default()
        }
    }

    fn key(&self) -> RunKey {
        RunKey {
            tenant: Tenant::local(),
            source: self.source,
            agent: self.agent.into(),
            session: "demo".into(),
            invocation: "7c21".into(),
        }
    }

    pub(super) fn approval(&self) -> Approval {
        let detail = self.detail();
        let subject = match self.tool {
            Some(tool) => Subject::Tool {
                name: tool.into(),
                task: "t7".into(),
            },
            None => Subject::Task { task: "t7".into() },
        };
        let (from, title) = (self.key(), Untrusted::new(self.title.as_str()));
        let labels = BTreeMap::new();
        Approval {
            digest: digest_of(&from, &subject, &title, self.asks, &labels, &detail),
            id: self.id(),
            run: self.run(),
            from,
            owner: None,
            filed_by: name("agent:test"),
            filed_at: ago(self.waited_s),
            key: None,
            target: "call-1".into(),
            step: "call-1".into(),
            subject,
            title,
            asks: self.asks,
            labels,
            args_sha256: detail.args_sha256(),
            detail_sha256: Sha256::of(detail.to_bytes()),
            fields: u32::try_from(detail.form.fields().len()).unwrap(),
            deadline: self.left_s.map(|left| ago(-left)),
            on_deadline: OnDeadline::Expire,
            hold: Hold::Nothing,
            risk: self.risk,
            votes: 1,
        }
    }

    pub(super) fn events(&self) -> Vec<Event> {
        let run = begun(self.run(), self.key(), ago(self.waited_s));
        vec![
            run,
            Event::ApprovalRequested {
                approval: Arc::new(self.approval()),
            },
        ]
    }
}

/// A run begins.
pub(super) fn begun(id: RunId, key: RunKey, opened_at: Timestamp) -> Event {
    let run = Run {
        id,
        key,
        project: Untrusted::default(),
        thread: Untrusted::default(),
        origin: Untrusted::default(),
        owner: None,
        opened_by: name("agent:test"),
        parent: None,
        can_resume: false,
        mode: Default::default(),
        opened_at,
        state: RunState::Running,
        presence: Presence::Attached,
        tasks: BTreeMap::new(),
        plan: None,
        open: [].into(),
        pause: None,
        held_by: None,
        drifts: Vec::new(),
        counts: Default::default(),
        controls: Vec::new(),
    };
    Event::RunOpened {
        run: Box::new(run),
        context: Untrusted::default(),
    }
}

pub(super) struct Desk {
    pub(super) model: Model,
    pub(super) at: Moment,
    pub(super) effects: Vec<Effect>,
    pub(super) terminal: Terminal<TestBackend>,
    pub(super) drawn: Drawn,
    seq: u64,
    /// All that was recorded: what the server would tell of a run.
    log: Vec<Recorded>,
    details: BTreeMap<ApprovalId, Detail>,
    /// Whether the server answers what is fetched.
    pub(super) answers: bool,
}

impl Desk {
    pub(super) fn new(width: u16, height: u16) -> Self {
        Self::with(width, height, |_| {})
    }

    pub(super) fn with(width: u16, height: u16, change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup {
            keymap: Keymap::default(),
            theme: Theme::Mono,
            ascii: false,
            seed: 7,
            server_label: "prod-eu · unix".to_owned(),
            banner: None,
        };
        change(&mut setup);
        let mut desk = Self {
            model: Model::new(setup),
            at: Duration::from_secs(1),
            effects: Vec::new(),
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
            drawn: Drawn::default(),
            seq: 0,
            log: Vec::new(),
            details: BTreeMap::new(),
            answers: true,
        };
        desk.send(Msg::Resized(width, height));
        desk
    }

    /// A desk that is online, has what was asked, and has shown it long enough.
    pub(super) fn showing(width: u16, height: u16, asks: &[Ask]) -> Self {
        let mut desk = Self::new(width, height);
        desk.settle_in(asks);
        desk
    }

    pub(super) fn settle_in(&mut self, asks: &[Ask]) {
        self.online();
        self.send(Msg::Snapshot {
            state: State::default(),
            server_now: now(),
        });
        self.file(asks);
        self.show();
    }

    pub(super) fn send(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects = update(&mut self.model, self.at, msg);
        let fetched: Vec<ApprovalId> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::FetchDetail(id) => Some(*id),
                _ => None,
            })
            .collect();
        for id in fetched.into_iter().filter(|_| self.answers) {
            if let Some(detail) = self.details.get(&id).cloned() {
                effects.extend(update(
                    &mut self.model,
                    self.at,
                    Msg::Detail {
                        id,
                        detail: Ok(detail),
                    },
                ));
            }
        }
        let runs: Vec<RunId> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::FetchRun(id) => Some(*id),
                _ => None,
            })
            .collect();
        for id in runs.into_iter().filter(|_| self.answers) {
            let of_run = |recorded: &&Recorded| recorded.event.run() == Some(id);
            let record = Ok(self.log.iter().filter(of_run).cloned().collect());
            effects.extend(update(
                &mut self.model,
                self.at,
                Msg::RunRecord { id, record },
            ));
        }
        self.effects.extend(effects.iter().cloned());
        effects
    }

    pub(super) fn online(&mut self) {
        let me = Me {
            name: name("user:ada"),
            roles: vec![Role::Admin],
            tenant: Tenant::local(),
        };
        self.send(Msg::Link(Link::Online {
            me,
            epoch: "e1".into(),
        }));
    }

    pub(super) fn offline(&mut self) {
        let retry_at = self.at + Duration::from_secs(5);
        self.send(Msg::Link(Link::Offline {
            why: "connection refused".into(),
            retry_at,
        }));
    }

    pub(super) fn server_now(&self) -> Timestamp {
        now().plus(self.at - Duration::from_secs(1))
    }

    pub(super) fn record(&mut self, events: impl IntoIterator<Item = Event>) {
        self.record_at(self.server_now(), events);
    }

    pub(super) fn record_at(&mut self, at: Timestamp, events: impl IntoIterator<Item = Event>) {
        let scope = Scope {
            tenant: Tenant::local(),
            owner: None,
        };
        let events: Vec<Recorded> = events
            .into_iter()
            .map(|event| {
                self.seq += 1;
                Recorded {
                    seq: self.seq,
                    at,
                    scope: scope.clone(),
                    event: Arc::new(event),
                }
            })
            .collect();
        self.log.extend(events.iter().cloned());
        let server_now = self.server_now();
        self.send(Msg::Recorded { events, server_now });
    }

    pub(super) fn know(&mut self, ask: &Ask) {
        self.details.insert(ask.id(), ask.detail());
    }

    pub(super) fn file(&mut self, asks: &[Ask]) {
        for ask in asks {
            self.know(ask);
        }
        let events: Vec<Event> = asks.iter().flat_map(Ask::events).collect();
        self.record(events);
    }

    pub(super) fn wait(&mut self, ms: u64) {
        self.at += Duration::from_millis(ms);
        self.send(Msg::Tick);
    }

    pub(super) fn draw(&mut self) {
        let (model, at) = (&self.model, self.at);
        let mut drawn = None;
        self.terminal
            .draw(|frame| drawn = Some(view(model, at, frame)))
            .unwrap();
        self.drawn = drawn.unwrap();
        self.send(Msg::Drawn(self.drawn.clone()));
    }

    /// Draws, and lets it stand there long enough.
    pub(super) fn show(&mut self) {
        self.draw();
        self.wait(300);
        self.draw();
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.send(Msg::Resized(width, height));
    }

    /// Keys with blanks between, each drawn and looked at.
    pub(super) fn press(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in keys.split_whitespace() {
            effects.extend(self.hit(key));
            self.show();
        }
        effects
    }

    /// One key, nothing drawn.
    pub(super) fn hit(&mut self, key: &str) -> Vec<Effect> {
        self.send(Msg::Key(Key::parse(key).unwrap()))
    }

    pub(super) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.send(Msg::Key(Key::char(c)));
        }
        self.show();
    }

    pub(super) fn screen(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let area = buffer.area;
        let mut rows = Vec::new();
        for y in area.top()..area.bottom() {
            let mut row = String::new();
            let mut x = area.left();
            while x < area.right() {
                let symbol = buffer[(x, y)].symbol();
                row.push_str(symbol);
                x += u16::try_from(crate::dashboard::lines::columns(symbol).max(1)).unwrap();
            }
            rows.push(row.trim_end().to_owned());
        }
        rows.join("\n")
    }

    pub(super) fn notice(&self) -> String {
        self.model
            .notice
            .as_ref()
            .map(|notice| notice.words.clone())
            .unwrap_or_default()
    }

    pub(super) fn submits(&self) -> Vec<Submit> {
        submits(&self.effects)
    }
}

pub(super) fn submits(effects: &[Effect]) -> Vec<Submit> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Submit(submit) => Some(submit.clone()),
            _ => None,
        })
        .collect()
}

/// The fact that a decision became, by somebody.
pub(super) fn decided(ask: &Ask, verdict: Verdict, by: &str, decision: DecisionId) -> Event {
    let decision = Decision {
        id: decision,
        decider: Decider {
            by: name(by),
            on_behalf_of: None,
        },
        answers: Answers::default(),
        note: Untrusted::default(),
        seen: registry::approval::Seen::Whole,
    };
    match verdict {
        Verdict::Approve => Event::ApprovalGranted {
            id: ask.id(),
            decision,
        },
        Verdict::Reject => Event::ApprovalRejected {
            id: ask.id(),
            decision,
        },
    }
}

pub(super) const FORM: &str = r#"[
  {"name":"cost_centre","kind":"integer"},
  {"name":"vis","label":"Visibility","kind":{"enum":[{"value":"public"},{"value":"internal"}]},"presence":{"defaulted":{"text":"internal"}}},
  {"name":"pay_on","kind":"date","presence":{"defaulted":{"date":"2026-12-01"}}}
]"#;

pub(super) fn wire_transfer() -> Ask {
    Ask {
        tool: Some("wire_transfer"),
        prompt: "ok to pay the outstanding invoice for ACME?".into(),
        args: Some(
            r#"{"to":"ACME GmbH","iban":"DE02 1203 0000 0000 2020 51","amount":1250.00,"memo":"INV-2291\u202e"}"#
                .into(),
        ),
        form: FORM,
        asks: Asks::Admin,
        left_s: Some(3_300),
        ..ask(1, "Wire transfer")
    }
}

pub(super) fn full_inbox() -> Vec<Ask> {
    vec![
        wire_transfer(),
        Ask {
            waited_s: 720,
            left_s: Some(6 * 86_400 + 60),
            ..ask(2, "ok to spend 40 EUR on test data?")
        },
        Ask {
            agent: "logbook",
            form: FORM,
            waited_s: 4_000,
            left_s: Some(6 * 86_400 + 60),
            ..ask(3, "Publish the logbook of November")
        },
        Ask {
            agent: "claude ~/infra",
            tool: Some("Bash"),
            args: Some(r#"{"command":"terraform apply -auto-approve","timeout":120000}"#.into()),
            risk: Risk::High,
            waited_s: 20,
            ..ask(4, "Bash: terraform apply")
        },
        Ask {
            agent: "crm (langgraph)",
            tool: Some("send_email"),
            args: Some(r#"{"to":"kunde@example.org","body":"Hello\nworld"}"#.into()),
            waited_s: 3 * 3_600,
            left_s: Some(240),
            ..ask(5, "Send email")
        },
    ]
}
