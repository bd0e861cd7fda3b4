//! What an operator can do, and where on the screen each of it makes sense.

use std::fmt;

/// The part of the dashboard that has the keyboard. Each has its section in `keymap.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// Keys that hold everywhere, unless the context has its own use for them.
    Global,
    /// The list of what waits.
    Inbox,
    /// One question, with what will run.
    Card,
    /// The fields of an answer.
    Form,
    /// The note that goes with a decision.
    Note,
    /// «Are you sure?», with the cursor on "no".
    Confirm,
    /// The help page.
    Help,
    /// The list of the runs, and the lanes of one.
    Runs,
    /// The list of what has ended.
    History,
    /// All commands by their names.
    Palette,
    /// One run that stands still.
    Escalation,
    /// The direction that a run is steered with.
    Steer,
    /// The choice of a task that is to be done again.
    Rewind,
}

use Context::{
    Card, Confirm, Escalation, Form, Global, Help, History, Inbox, Note, Palette, Rewind, Runs,
    Steer,
};

impl Context {
    /// All of them, in the order of the file.
    pub const ALL: [Self; 13] = [
        Global, Inbox, Runs, History, Card, Form, Note, Escalation, Steer, Rewind, Confirm,
        Palette, Help,
    ];

    /// Its section's name in `keymap.toml`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Global => "global",
            Inbox => "inbox",
            Card => "card",
            Form => "form",
            Note => "note",
            Confirm => "confirm",
            Help => "help",
            Escalation => "escalation",
            Steer => "steer",
            Rewind => "rewind",
            Runs => "runs",
            History => "history",
            Palette => "palette",
        }
    }

    /// The context whose section has this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|context| context.word() == word)
    }

    /// Whether a plain character is text here, and so never a command of `[global]`.
    #[must_use]
    pub fn takes_text(self) -> bool {
        matches!(self, Form | Note | Steer | Palette)
    }

    /// What must keep a key here, else an operator is locked in.
    pub(super) fn required(self) -> &'static [Action] {
        match self {
            Global => &[],
            Inbox => &[Action::Quit, Action::Help, Action::Dismiss],
            Card | Escalation | Runs | History => &[Action::Quit, Action::Help, Action::Back],
            Form | Note | Steer => &[Action::Quit, Action::Help, Action::Back, Action::Submit],
            Confirm | Rewind => &[Action::Quit, Action::Help, Action::Dismiss, Action::Confirm],
            Palette => &[Action::Quit, Action::Help, Action::Dismiss, Action::Run],
            Help => &[Action::Quit, Action::Dismiss],
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.word())
    }
}

/// Declares [`Action`] and its table: the variant, its word in the file, its line in the help, the sections that may bind it.
macro_rules! actions {
    ($($variant:ident $word:literal $help:literal in $contexts:expr;)*) => {
        /// Something a key can do. The words are those of `keymap.toml`, the descriptions those of the help page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $(#[doc = $help] $variant,)*
        }

        impl Action {
            /// All of them, in the order of the help page.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its word in `keymap.toml`.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// One line for the help page.
            #[must_use]
            pub fn describe(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }

            /// The sections that may bind it.
            #[must_use]
            pub fn contexts(self) -> &'static [Context] {
                match self { $(Self::$variant => $contexts,)* }
            }
        }
    };
}

const EVERYWHERE: &[Context] = &Context::ALL;
const LISTS: &[Context] = &[Inbox, Runs, History, Card, Escalation, Help];
const STEPS: &[Context] = &[
    Inbox, Runs, History, Card, Escalation, Rewind, Help, Palette,
];
/// The screens, whose keys hold everywhere but in a text.
const SCREENS: &[Context] = &[Global, Inbox, Runs, History, Card, Escalation, Help];
const PLACES: &[Context] = &[Inbox, Runs, History, Card, Escalation];
const DECIDING: &[Context] = &[Inbox, Card];
const DIRECTING: &[Context] = &[Inbox, Escalation, Runs];

actions! {
    Open            "open"             "open what is selected"                             in &[Inbox, Runs, History];
    Back            "back"             "go back; what was typed is kept"                   in &[Card, Escalation, Runs, History, Form, Note, Steer];
    Next            "next"             "go one down"                                       in STEPS;
    Previous        "previous"         "go one up"                                         in STEPS;
    First           "first"            "go to the top"                                     in LISTS;
    Last            "last"             "go to the bottom"                                  in LISTS;
    PageDown        "page-down"        "go one page down"                                  in LISTS;
    PageUp          "page-up"          "go one page up"                                    in LISTS;
    Approve         "approve"          "approve, once the whole card was seen"             in DECIDING;
    ApproveUnread   "approve-unread"   "approve without having seen all of it"             in DECIDING;
    Reject          "reject"           "reject"                                            in DECIDING;
    EditForm        "edit-form"        "fill in the form"                                  in DECIDING;
    EditNote        "edit-note"        "write the note that goes with the decision"        in DECIDING;
    CopyId          "copy-id"          "copy the id to the clipboard"                      in PLACES;
    ShowRaw         "show-raw"         "show the text raw, with every escape spelled out"  in DECIDING;
    Resume          "resume"           "have a run that stands still go on as before"      in DIRECTING;
    Steer           "steer"            "give a run a new direction"                        in DIRECTING;
    Cancel          "cancel"           "call a run off"                                    in DIRECTING;
    Pause           "pause"            "have a run stand still until somebody says how it goes on" in &[Runs];
    Status          "status"           "ask a run where it is"                             in DIRECTING;
    Rewind          "rewind"           "have a run do a task again"                        in DIRECTING;
    Why             "why"              "show what says that a run stands still, and why"   in DIRECTING;
    FieldNext       "field-next"       "go to the next field"                              in &[Form];
    FieldPrevious   "field-previous"   "go to the field before"                            in &[Form];
    ChoiceNext      "choice-next"      "take the next choice of the field"                 in &[Form];
    ChoicePrevious  "choice-previous"  "take the choice before"                            in &[Form];
    Submit          "submit"           "keep the text; where a decision waits for it, send that decision"               in &[Form, Note, Steer];
    Confirm         "confirm"          "yes, do it"                                        in &[Confirm, Rewind];
    ShowInbox       "inbox"            "show what needs you"                               in SCREENS;
    ShowRuns        "runs"             "show the runs, and what their tasks did"           in SCREENS;
    ShowHistory     "history"          "show what has ended"                               in SCREENS;
    NextScreen      "next-screen"      "go to the next screen"                             in PLACES;
    PreviousScreen  "previous-screen"  "go to the screen before"                           in PLACES;
    Command         "command"          "find a command by its name"                        in PLACES;
    Run             "run"              "run the selected command"                          in &[Palette];
    Dismiss         "dismiss"          "close what is in front, do nothing"                in EVERYWHERE;
    RetryNow        "retry-now"        "connect again now"                                 in EVERYWHERE;
    Redraw          "redraw"           "draw the whole screen again"                       in EVERYWHERE;
    Suspend         "suspend"          "stop and go back to the shell, until fg"           in EVERYWHERE;
    Help            "help"             "show or leave the help"                            in EVERYWHERE;
    Quit            "quit"             "leave Pilothouse"                                  in EVERYWHERE;
}

impl Action {
    /// The action with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|action| action.word() == word)
    }

    /// Whether it only goes about in what is shown.
    pub(super) fn moves(self) -> bool {
        use Action::{First, Last, Next, PageDown, PageUp, Previous};
        matches!(self, Next | Previous | First | Last | PageDown | PageUp)
    }

    /// Whether it lets an agent do something. Such an action never sits on Enter, which a hurried hand presses twice.
    #[must_use]
    pub fn permits(self) -> bool {
        matches!(
            self,
            Self::Approve | Self::ApproveUnread | Self::Confirm | Self::Resume | Self::Cancel
        )
    }
}
