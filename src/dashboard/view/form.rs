//! The form of a card and the note, as lines: what is asked, what was typed, and what is wrong with it.

use std::ops::Range;

use ratatui_textarea::{CursorMove, TextArea};
use registry::{
    Untrusted,
    form::{Field, Kind, Presence},
};
use unicode_segmentation::UnicodeSegmentation;

use super::super::{
    card::{Card, FieldText},
    draft::{Draft, Editor, FieldDraft},
    lines::{Line, Part, columns, fit},
    model::Hand,
    theme::Role,
    words::{self, Signs},
};

const LABEL_COLUMNS: usize = 18;
const BOX_COLUMNS: usize = 16;

/// What the form is drawn with.
pub(super) struct Paper {
    pub(super) signs: &'static Signs,
    pub(super) width: usize,
    pub(super) hand: Hand,
    pub(super) raw: bool,
}

/// The fields, and the note where there is one.
pub(super) fn lines(paper: &Paper, card: &Card, draft: &Draft) -> Vec<Line> {
    let note = !draft.note().is_empty() || paper.hand == Hand::Note;
    let mut lines = Vec::new();
    if card.form.is_empty() && !note {
        return lines;
    }
    lines.push(Line::of(Role::Text, ""));
    lines.push(Line::of(Role::Active, "YOUR ANSWER"));
    let labels = card
        .form
        .fields()
        .iter()
        .map(|field| columns(field.label.line().as_str()));
    let label = labels
        .chain(note.then_some(4))
        .max()
        .unwrap_or(0)
        .min(LABEL_COLUMNS);
    let label = label.min(paper.width / 3);
    let texts = card.text(paper.raw).fields();
    for (at, ((field, typed), text)) in card
        .form
        .fields()
        .iter()
        .zip(&draft.fields)
        .zip(texts)
        .enumerate()
    {
        let mut row = FieldRows {
            paper,
            label,
            at,
            lines: &mut lines,
        };
        row.field(field, typed, text, draft.errors.get(&field.name));
    }
    if note {
        note_lines(paper, label, draft, &mut lines);
    }
    lines
}

/// The note of a card that is not here.
pub(super) fn note_alone(
    signs: &'static Signs,
    width: usize,
    hand: Hand,
    draft: &Draft,
) -> Vec<Line> {
    let mut lines = Vec::new();
    if draft.note().is_empty() && hand != Hand::Note {
        return lines;
    }
    let paper = Paper {
        signs,
        width,
        hand,
        raw: false,
    };
    lines.push(Line::of(Role::Text, ""));
    lines.push(Line::of(Role::Active, "YOUR ANSWER"));
    note_lines(&paper, 4, draft, &mut lines);
    lines
}

struct FieldRows<'a> {
    paper: &'a Paper,
    label: usize,
    at: usize,
    lines: &'a mut Vec<Line>,
}

impl FieldRows<'_> {
    fn field(
        &mut self,
        field: &Field,
        typed: &FieldDraft,
        text: &FieldText,
        error: Option<&String>,
    ) {
        let has_cursor = self.paper.hand == Hand::Field(self.at);
        let before = self.lines.len();
        let (mut head, label) = self.head(field, has_cursor, text.label.clone());
        let secret = !field.secrecy.is_open();
        match &typed.editor {
            Editor::Line(input) if secret => {
                let dots = self.paper.signs.live.repeat(input.value().chars().count());
                head.extend(boxed(&dots, has_cursor.then(|| input.cursor())));
                head.push(Part::new(Role::Muted, format!("  {}", hint(field, typed))));
                self.push(head, label);
            }
            Editor::Line(input) => {
                head.extend(boxed(input.value(), has_cursor.then(|| input.cursor())));
                head.push(Part::new(Role::Muted, format!("  {}", hint(field, typed))));
                self.push(head, label);
            }
            Editor::Text(area) => {
                head.push(Part::new(Role::Muted, hint(field, typed)));
                self.push(head, label);
                let rows = if secret {
                    area_lines(&dotted(area, self.paper.signs), self.hang(), has_cursor)
                } else {
                    area_lines(area, self.hang(), has_cursor)
                };
                for parts in rows {
                    self.push(parts, 0..0);
                }
            }
            Editor::Choice { values, taken } => {
                let text = FieldText {
                    label,
                    ..text.clone()
                };
                self.choices(head, field, typed, &text, values, *taken);
            }
        }
        if !field.help.is_empty() {
            let help = field.help.line();
            let parts = vec![self.blank(), Part::new(Role::Muted, help.as_str())];
            self.push(parts, text.help.clone());
        }
        if let Some(error) = error {
            let words = format!("{} {error}", self.paper.signs.rejected);
            self.push(vec![self.blank(), Part::new(Role::Danger, words)], 0..0);
        }
        for line in &mut self.lines[before..] {
            line.field = Some(self.at);
        }
    }

    /// The label; whole in a row of its own, if it is too long for its column.
    fn head(
        &mut self,
        field: &Field,
        has_cursor: bool,
        counted: Range<usize>,
    ) -> (Vec<Part>, Range<usize>) {
        let label = field.label.line();
        let role = if has_cursor { Role::Active } else { Role::Key };
        let star = if field.presence == Presence::Required {
            "*"
        } else {
            " "
        };
        let here = if has_cursor {
            self.paper.signs.here
        } else {
            " "
        };
        let mut parts = vec![Part::new(Role::Active, format!("{here} "))];
        if columns(label.as_str()) > self.label {
            parts.push(Part::new(role, label.as_str()));
            parts.push(Part::new(Role::Warn, format!(" {star}")));
            let after = counted.end..counted.end;
            self.lines.push(Line {
                parts,
                hang: 2,
                counted,
                ..Line::default()
            });
            return (vec![self.blank()], after);
        }
        parts.push(Part::new(role, fit(label.as_str(), self.label, "")));
        parts.push(Part::new(Role::Warn, format!(" {star} ")));
        (parts, counted)
    }

    fn choices(
        &mut self,
        mut head: Vec<Part>,
        field: &Field,
        typed: &FieldDraft,
        text: &FieldText,
        values: &[String],
        taken: Option<usize>,
    ) {
        let labels: Vec<String> = match &field.kind {
            Kind::Enum(choices) => choices.iter().map(words::choice).collect(),
            _ => values.to_vec(),
        };
        let choice = |at: usize, label: &str| {
            let chosen = taken == Some(at);
            let sign = if chosen {
                self.paper.signs.chosen
            } else {
                self.paper.signs.open
            };
            let role = if chosen { Role::Strong } else { Role::Text };
            Part::new(role, format!("{sign} {label}"))
        };
        let hint = tag(field, typed);
        let wide: usize = labels.iter().map(|label| columns(label) + 6).sum();
        if self.hang() + wide + columns(&hint) <= self.paper.width {
            for (at, label) in labels.iter().enumerate() {
                head.push(choice(at, label));
                head.push(Part::new(Role::Text, "  "));
            }
            head.push(Part::new(Role::Muted, hint));
            let end = text
                .options
                .last()
                .map_or(text.label.end, |range| range.end);
            self.push(head, text.label.start..end);
            return;
        }
        head.push(Part::new(
            Role::Muted,
            if hint.is_empty() {
                "one of".to_owned()
            } else {
                hint
            },
        ));
        let rows: Vec<Part> = labels
            .iter()
            .enumerate()
            .map(|(at, label)| choice(at, label))
            .collect();
        self.push(head, text.label.clone());
        for (at, row) in rows.into_iter().enumerate() {
            let counted = text.options.get(at).cloned().unwrap_or(0..0);
            self.push(vec![self.blank(), row], counted);
        }
    }

    fn hang(&self) -> usize {
        2 + self.label + 3
    }

    fn blank(&self) -> Part {
        Part::new(Role::Text, " ".repeat(self.hang()))
    }

    fn push(&mut self, parts: Vec<Part>, counted: Range<usize>) {
        let hang = self.hang();
        self.lines.push(Line {
            parts,
            hang,
            counted,
            ..Line::default()
        });
    }
}

fn note_lines(paper: &Paper, label: usize, draft: &Draft, lines: &mut Vec<Line>) {
    let has_cursor = paper.hand == Hand::Note;
    let (here, role) = if has_cursor {
        (paper.signs.here, Role::Active)
    } else {
        (" ", Role::Key)
    };
    let hang = 2 + label + 3;
    let of = registry::limits::NOTE;
    let used = format!("{} of {of} bytes", draft.note().len());
    for (n, mut parts) in area_lines(&draft.note, hang, has_cursor)
        .into_iter()
        .enumerate()
    {
        if n == 0 {
            let head = format!("{here} {}", fit("Note", label + 3, ""));
            parts[0] = Part::new(role, head);
        }
        let right = (n == 0 && has_cursor).then(|| Part::new(Role::Muted, used.clone()));
        let field = has_cursor.then_some(usize::MAX);
        lines.push(Line {
            parts,
            hang: hang + 2,
            right,
            field,
            ..Line::default()
        });
    }
}

/// The same rows and cursor, and of what was typed only how long it is.
fn dotted(area: &TextArea<'static>, signs: &Signs) -> TextArea<'static> {
    let dots = |line: &String| signs.live.repeat(line.chars().count());
    let mut dotted = TextArea::new(area.lines().iter().map(dots).collect());
    let cursor = area.cursor();
    let at = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    dotted.move_cursor(CursorMove::Jump(at(cursor.0), at(cursor.1)));
    dotted
}

fn hint(field: &Field, typed: &FieldDraft) -> String {
    let kind = match field.kind {
        _ if !field.secrecy.is_open() => "secret: only the agent gets it",
        Kind::Date => "date, YYYY-MM-DD",
        ref kind => kind.word(),
    };
    let tag = tag(field, typed);
    if tag.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} · {tag}")
    }
}

/// Says where what stands there comes from.
fn tag(field: &Field, typed: &FieldDraft) -> String {
    match (&field.presence, typed.touched) {
        (Presence::Required, _) | (Presence::Defaulted(_), true) => String::new(),
        (Presence::Defaulted(_), false) => "default".to_owned(),
        (Presence::Optional(_), true) => "optional".to_owned(),
        (Presence::Optional(default), false) if default.to_raw().is_empty() => {
            "optional".to_owned()
        }
        (Presence::Optional(_), false) => "optional, default".to_owned(),
    }
}

/// `[ value     ]`
fn boxed(value: &str, cursor: Option<usize>) -> Vec<Part> {
    let role = if cursor.is_some() {
        Role::Editing
    } else {
        Role::Input
    };
    let typed = with_cursor(value, cursor, role);
    let used: usize = typed.iter().map(|part| columns(&part.text)).sum();
    let mut parts = vec![Part::new(Role::Muted, "[ ")];
    parts.extend(typed);
    parts.push(Part::new(
        role,
        " ".repeat(BOX_COLUMNS.saturating_sub(used)),
    ));
    parts.push(Part::new(Role::Muted, " ]"));
    parts
}

pub(super) fn area_lines(
    area: &TextArea<'static>,
    hang: usize,
    has_cursor: bool,
) -> Vec<Vec<Part>> {
    let cursor = area.cursor();
    let role = if has_cursor {
        Role::Editing
    } else {
        Role::Input
    };
    let row = |(n, line): (usize, &String)| {
        let here = (has_cursor && cursor.0 == n).then_some(cursor.1);
        let mut parts = vec![
            Part::new(Role::Text, " ".repeat(hang)),
            Part::new(Role::Muted, "│ "),
        ];
        parts.extend(with_cursor(line, here, role));
        parts
    };
    area.lines().iter().enumerate().map(row).collect()
}

/// The text around the cursor. What was typed goes through the door as well.
fn with_cursor(text: &str, cursor: Option<usize>, role: Role) -> Vec<Part> {
    let shown = |text: &str| Untrusted::new(text).line().to_string();
    let Some(cursor) = cursor else {
        return vec![Part::new(role, shown(text))];
    };
    let at = text
        .char_indices()
        .nth(cursor)
        .map_or(text.len(), |(at, _)| at);
    let (before, after) = text.split_at(at);
    let under = after.graphemes(true).next().unwrap_or(" ");
    let rest = after.get(under.len()..).unwrap_or_default();
    vec![
        Part::new(role, shown(before)),
        Part::new(Role::Cursor, shown(under)),
        Part::new(role, shown(rest)),
    ]
}
