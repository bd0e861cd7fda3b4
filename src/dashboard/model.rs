//! What the dashboard knows: a mirror of the registry, and what stands under the operator's hand.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use registry::{
    Approval, ApprovalId, Digest, ItemId, State, Timestamp, Untrusted,
    approval::{Pending, Settled, Verdict},
    escalation::Ended,
    names::{ControlId, DecisionId},
    run::Presence,
};

use super::{
    card::Card,
    draft::{Draft, Intent},
    keymap::{Context, Keymap},
    keys::Key,
    listing::Listing,
    msg::{Drawn, Face, Link, Moment, Rows, RunFace, Submit},
    palette::Palette,
    past::{Older, Past},
    runs::{Fetched, Runs},
    seen::Ranges,
    steering::{self, Steering},
    theme::Theme,
    words::{self, ASCII_SIGNS, SIGNS, Signs},
};

/// How long a card has to stand on the screen before it takes a decision key.
pub const SETTLING: Duration = Duration::from_millis(250);
/// How long a notice stands in the place of the key hints.
pub const NOTICE: Duration = Duration::from_secs(8);
/// How long plain characters are no commands after a text did not open, counted from the last of them.
pub const DEAF: Duration = Duration::from_secs(1);
/// So many keys are kept for a form whose card has not arrived.
pub(super) const EARLY_KEYS: usize = 4_096;
/// In so many steps the bar of that fills.
const SETTLING_STEPS: u32 = 5;
/// A question that ends sooner than this comes first.
pub const URGENT: Duration = Duration::from_secs(10 * 60);
/// The bell rings at most this often.
pub(super) const BELL_GAP: Duration = Duration::from_secs(30);
/// Lanes grow at most this often.
const LANE_STEP: Duration = Duration::from_secs(1);
/// From this width on, list and card stand side by side.
pub const WIDE_COLUMNS: u16 = 90;
/// Below this nothing can be decided.
pub const SMALLEST: (u16, u16) = (40, 10);
/// Cards whose text is kept, besides the one that is open.
pub(super) const CARDS_KEPT: usize = 64;

/// What a dashboard begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The keys.
    pub keymap: Keymap,
    /// The colours.
    pub theme: Theme,
    /// Whether signs and frames are spelled in ASCII.
    pub ascii: bool,
    /// Makes decision ids unique among all dashboards: 64 random bits.
    pub seed: u64,
    /// Where we connect to, as the operator knows it.
    pub server_label: String,
    /// Stands across the screen as long as it runs: `DEMO`, or what is wrong with the keymap.
    pub banner: Option<String>,
}

/// Everything that is shown follows from this.
#[derive(Debug)]
pub struct Model {
    pub(super) setup: Setup,
    pub(super) generation: u64,
    pub(super) drawn_generation: Option<u64>,
    /// When something that is shown changes by itself.
    pub(super) wake: Option<Moment>,
    pub(super) size: (u16, u16),
    pub(super) link: Link,
    pub(super) link_since: Moment,
    pub(super) me: Option<super::msg::Me>,
    pub(super) clock: Option<(Timestamp, Moment)>,
    pub(super) state: State,
    pub(super) synced: bool,
    /// What needs a human.
    pub(super) inbox: Listing<ItemId>,
    /// How many questions wait, and how many of them end soon.
    pub(super) waiting: usize,
    pub(super) urgent: usize,
    /// How many runs stand still.
    pub(super) paused: usize,
    pub(super) runs: Runs,
    pub(super) past: Past,
    pub(super) screen: Screen,
    /// The card that is open on a screen.
    pub(super) opened: BTreeMap<Screen, Open>,
    pub(super) cards: BTreeMap<ApprovalId, Slot>,
    pub(super) drafts: BTreeMap<ApprovalId, Draft>,
    pub(super) seen: BTreeMap<(ApprovalId, Digest, bool), Ranges>,
    pub(super) sent: BTreeMap<ApprovalId, Sent>,
    pub(super) refused: BTreeMap<ApprovalId, String>,
    pub(super) steering: Steering,
    pub(super) hand: Hand,
    pub(super) front: Option<Front>,
    /// The moment of the last message.
    pub(super) latest: Moment,
    pub(super) typed: Vec<Key>,
    /// Keys for a form whose card has not arrived.
    pub(super) early: Vec<Key>,
    /// Until then plain characters are no commands: they are meant for a text that did not open, or for an «are you
    /// sure?» that was taken away.
    pub(super) deaf: Option<Moment>,
    pub(super) notice: Option<Notice>,
    pub(super) drawn: Option<Drawn>,
    /// What stood on the screen, whether «are you sure?» stood before it, and since when.
    pub(super) standing: Option<(Face, bool, Moment)>,
    pub(super) decisions: u64,
    pub(super) focused: Option<bool>,
    pub(super) rang_at: Option<Moment>,
    pub(super) title: String,
}

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Screen {
    /// What needs a human.
    Inbox,
    /// The work of the agents.
    Runs,
    /// What has ended.
    History,
}

impl Screen {
    /// All of them, in the order of their keys.
    pub const ALL: [Self; 3] = [Self::Inbox, Self::Runs, Self::History];

    /// Where one is, in the header.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Runs => "runs",
            Self::History => "history",
        }
    }
}

/// The card under the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) id: ItemId,
    pub(super) top: usize,
    /// Its other side: a text with its escapes spelled out; of a run that stands still, the evidence.
    pub(super) raw: bool,
}

impl Open {
    /// From its top, as it reads.
    pub(super) fn of(id: ItemId) -> Self {
        Self {
            id,
            top: 0,
            raw: false,
        }
    }
}

/// Where the detail of a card stands.
#[derive(Debug)]
pub(super) enum Slot {
    Fetching,
    Failed(String),
    Here(Box<Card>),
}

/// A decision of ours that has not come back as a fact.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) submit: Submit,
    pub(super) at: Moment,
    pub(super) progress: Progress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// On its way, or taken; the event is not back.
    UnderWay,
    /// It may not have arrived; the same decision may go again.
    Lost(String),
}

/// What has the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hand {
    List,
    Card,
    Field(usize),
    Note,
}

/// What stands before all that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Front {
    Help {
        of: Context,
        top: usize,
    },
    /// With the cursor on "no".
    Sure {
        face: Face,
        intent: Intent,
    },
    /// Before a run is called off, likewise.
    Stop(RunFace),
    /// Before a task is done again: which of them.
    Again {
        face: RunFace,
        task: Untrusted,
    },
    Palette(Palette),
}

impl Front {
    /// Whether it is about what can change behind it, or is out of reach without a connection.
    pub(super) fn decides(&self) -> bool {
        matches!(self, Self::Sure { .. } | Self::Stop(_) | Self::Again { .. })
    }
}

/// One line for the operator, until the next key, or until it is old or not so any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) bad: bool,
    pub(super) words: String,
    pub(super) until: Moment,
}

/// A question as the list knows it: waiting, or ended under the hand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stands<'a> {
    Waits(&'a Pending),
    Ended(&'a Settled),
}

impl<'a> Stands<'a> {
    pub(super) fn approval(self) -> &'a Approval {
        match self {
            Self::Waits(pending) => &pending.approval,
            Self::Ended(settled) => &settled.approval,
        }
    }
}

impl Model {
    /// Nothing is known yet; the first frame can be drawn at once.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            generation: 1,
            drawn_generation: None,
            wake: None,
            size: (80, 24),
            link: Link::Connecting { attempt: 1 },
            link_since: Moment::ZERO,
            me: None,
            clock: None,
            state: State::default(),
            synced: false,
            inbox: Listing::default(),
            waiting: 0,
            urgent: 0,
            paused: 0,
            runs: Runs::default(),
            past: Past::default(),
            screen: Screen::Inbox,
            opened: BTreeMap::new(),
            cards: BTreeMap::new(),
            drafts: BTreeMap::new(),
            seen: BTreeMap::new(),
            sent: BTreeMap::new(),
            refused: BTreeMap::new(),
            steering: Steering::default(),
            hand: Hand::List,
            front: None,
            latest: Moment::ZERO,
            typed: Vec::new(),
            early: Vec::new(),
            deaf: None,
            notice: None,
            drawn: None,
            standing: None,
            decisions: 0,
            focused: None,
            rang_at: None,
            title: String::new(),
        }
    }

    /// Counts what changed on the screen.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether what is shown is not what the last written frame showed.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.drawn_generation != Some(self.generation)
    }

    /// When something that is shown changes by itself: then a [`Msg::Tick`](super::Msg::Tick) is due.
    #[must_use]
    pub fn next_deadline(&self, at: Moment) -> Option<Moment> {
        self.wake.map(|wake| wake.max(at))
    }

    /// What time it is for the server.
    pub(super) fn now(&self, at: Moment) -> Option<Timestamp> {
        let (server, then) = self.clock?;
        Some(server.plus(at.saturating_sub(then)))
    }

    pub(super) fn signs(&self) -> &'static Signs {
        if self.setup.ascii {
            &ASCII_SIGNS
        } else {
            &SIGNS
        }
    }

    pub(super) fn is_online(&self) -> bool {
        matches!(self.link, Link::Online { .. })
    }

    /// Whether list and card stand side by side.
    pub(super) fn is_wide(&self) -> bool {
        self.screen == Screen::Inbox && self.size.0 >= WIDE_COLUMNS
    }

    /// The section of the keymap that counts now.
    pub(super) fn context(&self) -> Context {
        match &self.front {
            Some(Front::Help { .. }) => Context::Help,
            Some(Front::Sure { .. } | Front::Stop(_)) => Context::Confirm,
            Some(Front::Again { .. }) => Context::Rewind,
            Some(Front::Palette(_)) => Context::Palette,
            None => self.place(),
        }
    }

    /// The same, whatever stands in front.
    pub(super) fn place(&self) -> Context {
        if self.steering.writing.is_some() {
            return Context::Steer;
        }
        match (self.screen, self.hand) {
            (Screen::Runs, _) => Context::Runs,
            (Screen::Inbox, Hand::List) => Context::Inbox,
            (Screen::History, Hand::List) => Context::History,
            (_, Hand::Card) if self.open_held().is_some() => Context::Escalation,
            (_, Hand::Card) => Context::Card,
            (_, Hand::Field(_)) => Context::Form,
            (_, Hand::Note) => Context::Note,
        }
    }

    /// The card that is open on the screen.
    pub(super) fn open(&self) -> Option<Open> {
        self.opened.get(&self.screen).copied()
    }

    pub(super) fn open_mut(&mut self) -> Option<&mut Open> {
        self.opened.get_mut(&self.screen)
    }

    /// The question that is open.
    pub(super) fn open_approval(&self) -> Option<ApprovalId> {
        match self.open()?.id {
            ItemId::Approval(id) => Some(id),
            ItemId::Escalation(_) => None,
        }
    }

    /// Whether it is still there, waiting or ended.
    pub(super) fn knows(&self, id: ItemId) -> bool {
        match id {
            ItemId::Approval(id) => self.stands(id).is_some(),
            ItemId::Escalation(id) => self.held(id).is_some(),
        }
    }

    /// Whether it still needs a human.
    pub(super) fn waits(&self, id: ItemId) -> bool {
        match id {
            ItemId::Approval(id) => self.state.pending(id).is_some(),
            ItemId::Escalation(id) => self.state.escalation(id).is_some(),
        }
    }

    pub(super) fn stands(&self, id: ApprovalId) -> Option<Stands<'_>> {
        let waits = self.state.pending(id).map(|pending| Stands::Waits(pending));
        let ended = || self.state.settled(id).map(|settled| &**settled);
        let ended = || ended().or_else(|| self.past.under_hand(id));
        waits.or_else(|| ended().map(Stands::Ended))
    }

    pub(super) fn card(&self, id: ApprovalId) -> Option<&Card> {
        match self.cards.get(&id)? {
            Slot::Here(card) => Some(card),
            Slot::Fetching | Slot::Failed(_) => None,
        }
    }

    /// How many decisions and orders have left, and have not come back as facts.
    #[must_use]
    pub fn under_way(&self) -> usize {
        let decisions = self.sent.values().map(|sent| &sent.progress);
        let orders = self.steering.sent.values().map(|given| &given.progress);
        let under_way = |progress: &&Progress| **progress == Progress::UnderWay;
        decisions.chain(orders).filter(under_way).count()
    }

    /// What the open card is now.
    pub(super) fn face(&self) -> Option<Face> {
        let id = self.open_approval()?;
        let stands = self.stands(id)?;
        let card = self.card(id);
        let (settled, happened) = match stands {
            Stands::Waits(pending) => {
                let away = self.away_since(&pending.approval).is_some();
                let passed = pending.passed_at.is_some();
                let tried = 4 * (pending.attempts.len() + pending.timed_out.len())
                    + 2 * usize::from(away)
                    + usize::from(passed);
                let deadline = pending.deadline.map_or(0, Timestamp::ms).unsigned_abs();
                (
                    false,
                    deadline.wrapping_mul(1_000).wrapping_add(tried as u64),
                )
            }
            Stands::Ended(_) => (true, 0),
        };
        Some(Face {
            id,
            digest: stands.approval().digest,
            readable: card.is_some_and(|card| card.matches),
            settled,
            happened,
        })
    }

    /// Whether an answer can still reach the agent: a foreign one that is gone does not come back.
    pub(super) fn is_unreachable(&self, approval: &Approval) -> bool {
        approval.from.source.is_foreign() && self.away_since(approval).is_some()
    }

    /// Since when the agent of a question is not there.
    pub(super) fn away_since(&self, approval: &Approval) -> Option<Timestamp> {
        match self.state.run(approval.run)?.presence {
            Presence::Away { since } => Some(since),
            Presence::Attached | Presence::Detached => None,
        }
    }

    /// Why we may not answer it, in the server's words; none where we may.
    pub(super) fn not_ours(&self, approval: &Approval) -> Option<String> {
        let refused = self.me.as_ref()?.may_answer(approval).err()?;
        Some(refused.to_string())
    }

    /// Whether what the screen wants could not be fetched.
    pub(super) fn has_failed(&self) -> bool {
        match self.screen {
            Screen::Runs => {
                let record = self.runs.record();
                record.is_some_and(|record| matches!(record.fetched, Fetched::Failed(_)))
            }
            Screen::History if self.open().is_none() => {
                matches!(self.past.older, Older::Failed(..))
            }
            Screen::History | Screen::Inbox => {
                let card = self.open_approval().and_then(|id| self.cards.get(&id));
                matches!(card, Some(Slot::Failed(_)))
            }
        }
    }

    /// Whether all of a card's text has been on the screen, in one of its spellings.
    pub(super) fn is_seen(&self, id: ApprovalId, digest: Digest, card: &Card) -> bool {
        [false, true].into_iter().any(|raw| {
            let whole = 0..card.text(raw).bytes;
            self.seen
                .get(&(id, digest, raw))
                .is_some_and(|seen| seen.covers(&whole))
        })
    }

    pub(super) fn draft_of(&self, id: ApprovalId) -> Option<&Draft> {
        self.drafts.get(&id)
    }

    /// What ended, newest first.
    pub(super) fn history(&self) -> Vec<Ended> {
        let mut ended: Vec<Ended> = self.state.all_ended().collect();
        ended.sort_by_key(|ended| std::cmp::Reverse((ended.at(), ended.seq())));
        ended
    }

    /// How many end within ten minutes.
    pub(super) fn expiring(&self) -> usize {
        self.urgent
    }

    /// A new decision id.
    pub(super) fn mint(&mut self) -> Option<DecisionId> {
        self.decisions += 1;
        let id = format!("tui-{:016x}-{}", self.setup.seed, self.decisions);
        DecisionId::parse(&id).ok()
    }

    /// A new id for an order.
    pub(super) fn mint_order(&mut self) -> Option<ControlId> {
        let id = self.mint()?;
        ControlId::parse(id.as_str()).ok()
    }

    /// Puts the list in order: runs that stand still; what ends soon, soonest first; then the oldest first. What ended
    /// under the hand stays where it was.
    pub(super) fn put_in_order(&mut self, at: Moment) {
        let soon = self.now(at).map(|now| now.plus(URGENT)).unwrap_or_default();
        let urgent: Vec<ApprovalId> = self
            .state
            .ending_before(soon)
            .into_iter()
            .map(|pending| pending.approval.id)
            .collect();
        let first: BTreeSet<ApprovalId> = urgent.iter().copied().collect();
        let rest = self.state.all_pending().map(|pending| pending.approval.id);
        let rest = rest.filter(|id| !first.contains(id));
        let waiting = urgent.iter().copied().chain(rest).map(ItemId::Approval);
        let mut order = self.held_in_order();
        self.paused = order.len();
        order.extend(waiting);
        self.urgent = urgent.len();
        self.waiting = order.len() - self.paused;
        self.keep_ended_under_hand(&mut order);
        self.inbox.reorder(order);
        if self.screen == Screen::Runs {
            self.runs.put_in_order(&self.state);
        }
    }

    fn keep_ended_under_hand(&self, order: &mut Vec<ItemId>) {
        let Some(id) = self.opened.get(&Screen::Inbox).map(|open| open.id) else {
            return;
        };
        if self.waits(id) || !self.knows(id) {
            return;
        }
        let before = &self.inbox.order;
        let was = before.iter().position(|other| *other == id);
        let at = was.map_or(0, |was| {
            let kept = |other: &&ItemId| order.contains(other);
            let after = before[was + 1..].iter().find(kept);
            let after = after.and_then(|after| order.iter().position(|id| id == after));
            after.unwrap_or(order.len())
        });
        order.insert(at.min(order.len()), id);
    }

    pub(super) fn changed(&mut self) {
        self.generation += 1;
    }

    pub(super) fn say(&mut self, words: impl Into<String>) {
        self.notice = Some(Notice {
            bad: false,
            words: words.into(),
            until: self.latest + NOTICE,
        });
    }

    pub(super) fn warn(&mut self, words: impl Into<String>) {
        self.notice = Some(Notice {
            bad: true,
            words: words.into(),
            until: self.latest + NOTICE,
        });
    }

    /// Takes a notice away that says what is over.
    pub(super) fn unsay(&mut self, over: &[&str]) {
        self.notice
            .take_if(|notice| over.contains(&notice.words.as_str()));
    }

    /// When something that was drawn at `at` reads otherwise.
    pub(super) fn wakes_after(&self, at: Moment) -> Option<Moment> {
        let notice = self.notice.as_ref().map(|notice| notice.until);
        let times = [
            self.settling_ends(at),
            self.countdown(at),
            self.ages(at),
            notice,
        ];
        times.into_iter().flatten().min()
    }

    /// How much of the bar is filled, of 1000; none once it is full.
    pub(super) fn settling(&self, at: Moment) -> Option<u32> {
        let face = self.face().filter(|face| !face.settled)?;
        let since = self.standing.filter(|(standing, ..)| *standing == face);
        Self::filled(at, since.map(|(.., since)| since))
    }

    pub(super) fn filled(at: Moment, since: Option<Moment>) -> Option<u32> {
        let since = since.map_or(Duration::ZERO, |since| at.saturating_sub(since));
        let part = since.as_millis() * 1000 / SETTLING.as_millis();
        (since < SETTLING).then(|| u32::try_from(part).unwrap_or(1000))
    }

    fn settling_ends(&self, at: Moment) -> Option<Moment> {
        let card = self.standing.map(|(.., since)| since);
        let run = self.steering.standing.map(|(.., since)| since);
        let step = SETTLING / SETTLING_STEPS;
        let ends = card.into_iter().chain(run);
        let ends = ends.flat_map(|since| (1..=SETTLING_STEPS).map(move |n| since + step * n));
        ends.filter(|end| *end > at).min()
    }

    fn countdown(&self, at: Moment) -> Option<Moment> {
        match &self.link {
            Link::Offline { .. } => {
                let since = at.saturating_sub(self.link_since);
                Some(
                    at + words::until_older(Duration::from_millis(u64::from(
                        since.subsec_millis(),
                    ))),
                )
            }
            Link::Connecting { .. } | Link::Online { .. } => None,
        }
    }

    fn ages(&self, at: Moment) -> Option<Moment> {
        let now = self.now(at)?;
        let drawn = self.drawn.as_ref();
        let rows = drawn
            .and_then(|drawn| drawn.list)
            .map(|list| list.rows)
            .unwrap_or_default();
        if self.screen == Screen::Runs {
            return self.runs_change(rows, now).map(|span| at + span);
        }
        let listed = (self.screen == Screen::Inbox).then(|| self.inbox.shown(rows));
        let shown = listed.into_iter().flatten();
        let shown = shown.chain(self.open().map(|open| open.id));
        let changes = shown.flat_map(|id| match id {
            ItemId::Approval(id) => {
                let stands = self.stands(id);
                stands.map_or_else(Vec::new, |stands| self.change(stands, now))
            }
            ItemId::Escalation(id) => self.held_changes(id, now),
        });
        let urgent = self.next_urgent(now);
        changes.chain(urgent).min().map(|span| at + span)
    }

    /// In how long the times of the runs read otherwise, or a lane grows.
    fn runs_change(&self, rows: Rows, now: Timestamp) -> Option<Duration> {
        let runs = self.runs.list.shown(rows).chain(self.runs.list.selected);
        let runs = runs.filter_map(|id| self.state.run(id));
        let times = runs.flat_map(|run| {
            let asked = run.open.iter().filter_map(|id| self.state.pending(*id));
            let asked = asked.map(|pending| pending.approval.filed_at);
            let left = match run.presence {
                Presence::Away { since } => Some(since),
                Presence::Attached | Presence::Detached => None,
            };
            asked.chain(left).chain([run.opened_at])
        });
        let ages = times.map(|time| words::until_older(now.since(time)));
        let selected = self.runs.list.selected.and_then(|id| self.state.run(id));
        let goes_on = selected.filter(|run| !run.state.is_over());
        let grows = goes_on.map(|run| now.since(run.opened_at) / u32::from(self.size.0.max(1)));
        let grows = grows.map(|step| step.max(LANE_STEP));
        let newest = selected.and_then(|run| run.controls.last());
        let waited = newest.and_then(steering::unanswered_since);
        let waited = waited.map(|since| words::until_older(now.since(since)));
        ages.chain(grows).chain(waited).min()
    }

    /// In how long the times of a question read otherwise.
    fn change(&self, stands: Stands<'_>, now: Timestamp) -> Vec<Duration> {
        let approval = stands.approval();
        let mut spans = vec![words::until_older(now.since(approval.filed_at))];
        spans.extend(
            self.away_since(approval)
                .map(|since| words::until_older(now.since(since))),
        );
        if let Stands::Waits(pending) = stands {
            let tried = pending.attempts.iter().map(|attempt| attempt.at);
            let gave_up = pending.timed_out.iter().map(|wait| wait.at);
            spans.extend(
                tried
                    .chain(gave_up)
                    .map(|then| words::until_older(now.since(then))),
            );
            let left = pending
                .deadline
                .map(|end| end.since(now))
                .filter(|left| !left.is_zero());
            spans.extend(left.map(words::until_shorter));
        }
        spans
    }

    fn next_urgent(&self, now: Timestamp) -> Option<Duration> {
        let soon = now.plus(URGENT);
        let next = self.state.next_ending(soon)?;
        Some(next.since(soon) + Duration::from_millis(1))
    }
}

impl Sent {
    /// Whether pressing the same key again means this decision.
    pub(super) fn is_same(&self, verdict: Verdict, digest: Digest, draft: &Draft) -> bool {
        let submit = &self.submit;
        submit.verdict == verdict
            && submit.digest == digest
            && submit.answers == draft.answers()
            && submit.note.raw() == draft.note()
    }
}
