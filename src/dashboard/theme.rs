//! Colours are roles. Each role is also said by a word, a sign or a place, so that no colour is needed.

use ratatui::style::{Color, Modifier, Style};

/// Which colours there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// The sixteen of the terminal, on its own background: dark and light both work.
    #[default]
    Sixteen,
    /// None at all, for `NO_COLOR`: bold, dim, underlined and reversed only.
    Mono,
}

/// What a piece of the screen is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// What is read first.
    #[default]
    Text,
    /// What is read if there is time.
    Muted,
    /// Lines and frames.
    Frame,
    /// The frame of what has the keyboard.
    Active,
    /// Headings, and what is brought out.
    Strong,
    /// The name of an argument or a fact.
    Key,
    /// A string of the arguments.
    Quoted,
    /// A number, a word or a date of the arguments.
    Literal,
    /// The agent's own words.
    Said,
    /// A key of the keyboard.
    Hint,
    /// Good news.
    Ok,
    /// Take care.
    Warn,
    /// Bad news.
    Danger,
    /// What is typed into.
    Input,
    /// What is typed into, and has the cursor.
    Editing,
    /// Where the cursor stands.
    Cursor,
    /// The row under the hand.
    Selected,
    /// A line across the whole screen that cannot be overlooked.
    Alarm,
}

impl Theme {
    /// How the role looks.
    #[must_use]
    pub fn style(self, role: Role) -> Style {
        let style = match self {
            Self::Mono => mono(role),
            Self::Sixteen => sixteen(role),
        };
        // What is drawn over something takes nothing of it along: bold over dim is neither, or both, as terminals like.
        Style::reset().patch(style)
    }
}

fn mono(role: Role) -> Style {
    let plain = Style::new();
    match role {
        Role::Text | Role::Quoted | Role::Literal | Role::Said | Role::Input | Role::Ok => plain,
        Role::Muted | Role::Frame => plain.add_modifier(Modifier::DIM),
        Role::Active | Role::Strong | Role::Hint | Role::Warn => plain.add_modifier(Modifier::BOLD),
        Role::Key => plain,
        Role::Danger => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Role::Editing | Role::Cursor => plain.add_modifier(Modifier::UNDERLINED),
        Role::Selected | Role::Alarm => plain.add_modifier(Modifier::REVERSED),
    }
}

/// Only foregrounds that read on black and on white; reversed where a background is wanted.
fn sixteen(role: Role) -> Style {
    let fg = |color| Style::new().fg(color);
    match role {
        Role::Key => fg(Color::Blue),
        Role::Active => fg(Color::Cyan),
        Role::Quoted => fg(Color::Green),
        Role::Literal => fg(Color::Magenta),
        Role::Hint => fg(Color::Cyan).add_modifier(Modifier::BOLD),
        Role::Ok => fg(Color::Green),
        Role::Warn => fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Role::Danger => fg(Color::Red).add_modifier(Modifier::BOLD),
        Role::Alarm => fg(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED),
        Role::Editing => fg(Color::Cyan).add_modifier(Modifier::UNDERLINED),
        Role::Text
        | Role::Muted
        | Role::Frame
        | Role::Strong
        | Role::Said
        | Role::Input
        | Role::Cursor
        | Role::Selected => mono(role),
    }
}
