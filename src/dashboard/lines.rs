//! Lines of text in roles, and how they are laid into rows.
//!
//! Invariant: the rows of a line cover every byte of it, and never split a grapheme.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::theme::Role;

/// A piece of a line, safe to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What it is for.
    pub role: Role,
    /// Has passed the door, or is ours.
    pub text: String,
}

impl Part {
    /// A piece.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
        }
    }
}

/// What stands left of a line, so that lanes are told apart at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lane {
    /// What is known.
    #[default]
    Known,
    /// What the agent says: a bar.
    Says,
}

impl Lane {
    /// How many columns its bar takes.
    #[must_use]
    pub fn columns(self) -> usize {
        match self {
            Self::Known => 0,
            Self::Says => 2,
        }
    }
}

/// A line before it is laid into rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Whose words.
    pub lane: Lane,
    /// The text.
    pub parts: Vec<Part>,
    /// How far its later rows are set in, in columns.
    pub hang: usize,
    /// Stands at the right end of the first row, if it fits.
    pub right: Option<Part>,
    /// Which bytes of the card's text it shows; empty: nothing that has to be read.
    pub counted: Range<usize>,
    /// The field of the form it belongs to.
    pub field: Option<usize>,
}

impl Line {
    /// A line of one piece.
    pub fn of(role: Role, text: impl Into<String>) -> Self {
        Self {
            parts: vec![Part::new(role, text)],
            ..Self::default()
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.text.len()).sum()
    }
}

/// One row of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which line.
    pub line: usize,
    /// Which bytes of it.
    pub bytes: Range<usize>,
    /// Which bytes of the card's text.
    pub counted: Range<usize>,
}

/// Lines laid into rows of one width.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The lines.
    pub lines: Vec<Line>,
    /// Their rows, in order.
    pub rows: Vec<Row>,
}

impl Page {
    /// Lays the lines into rows of `width` columns, the lane's bar included.
    #[must_use]
    pub fn lay(lines: Vec<Line>, width: usize) -> Self {
        let mut rows = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            lay_line(at, line, width, &mut rows);
        }
        Self { lines, rows }
    }

    /// The pieces of a row.
    pub fn pieces(&self, row: &Row) -> impl Iterator<Item = (Role, &str)> {
        let mut at = 0;
        let bytes = row.bytes.clone();
        self.lines[row.line].parts.iter().filter_map(move |part| {
            let here = at..at + part.text.len();
            at = here.end;
            let from = bytes.start.clamp(here.start, here.end) - here.start;
            let to = bytes.end.clamp(here.start, here.end) - here.start;
            (from < to || (part.text.is_empty() && bytes.contains(&here.start)))
                .then(|| (part.role, part.text.get(from..to).unwrap_or_default()))
        })
    }
}

fn lay_line(at: usize, line: &Line, width: usize, rows: &mut Vec<Row>) {
    let text: String = line.parts.iter().map(|part| part.text.as_str()).collect();
    let inner = width.saturating_sub(line.lane.columns()).max(1);
    let hang = line.hang.min(inner / 2);
    let all = text.len().max(1);
    let counted = |bytes: &Range<usize>| {
        let of = |byte: usize| line.counted.start + byte * line.counted.len() / all;
        let end = if bytes.end == text.len() {
            line.counted.end
        } else {
            of(bytes.end)
        };
        of(bytes.start)..end
    };
    for bytes in wrap(&text, inner, hang) {
        rows.push(Row {
            line: at,
            counted: counted(&bytes),
            bytes,
        });
    }
}

/// Cuts the text into rows: at blanks where there are some, else between graphemes. Later rows have `hang` columns less.
#[must_use]
pub fn wrap(text: &str, width: usize, hang: usize) -> Vec<Range<usize>> {
    if text.len() <= width && text.is_ascii() {
        return std::iter::once(0..text.len()).collect();
    }
    let mut rows = Vec::new();
    let (mut start, mut used, mut gap) = (0, 0, None);
    let mut room = width.max(1);
    for (at, grapheme) in text.grapheme_indices(true) {
        let columns = grapheme.width();
        if used + columns > room && at > start && grapheme != " " {
            let cut = gap.unwrap_or(at);
            rows.push(start..cut);
            start = cut;
            used = text[cut..at].width();
            gap = None;
            room = width.saturating_sub(hang).max(1);
        }
        used += columns;
        if grapheme == " " && text[start..at].bytes().any(|byte| byte != b' ') {
            gap = Some(at + 1);
        }
    }
    rows.push(start..text.len());
    rows
}

/// How many columns it takes.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// As much of it as fits, and `more` where something was left out.
#[must_use]
pub fn cut(text: &str, width: usize, more: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(columns(more));
    let (mut kept, mut used) = (0, 0);
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme.width();
        if used > room {
            break;
        }
        kept = at + grapheme.len();
    }
    let more = if width < columns(more) { "" } else { more };
    format!("{}{more}", &text[..kept])
}

/// The text, cut or filled up to exactly this many columns.
#[must_use]
pub fn fit(text: &str, width: usize, more: &str) -> String {
    let cut = cut(text, width, more);
    let fill = width.saturating_sub(columns(&cut));
    format!("{cut}{:fill$}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_cover_every_byte_and_split_no_grapheme() {
        let texts = [
            "",
            "a",
            "one two three four",
            "一二三四五六七八",
            "averyveryverylongword and more",
            "  indented text that goes on",
            "👨\u{200d}🌾👨\u{200d}🌾👨\u{200d}🌾 e\u{301}e\u{301}e\u{301}e\u{301}",
            "        ",
        ];
        for text in texts {
            for width in 1..20 {
                for hang in [0, 1, 3] {
                    let rows = wrap(text, width, hang);
                    let joined: String = rows.iter().map(|row| &text[row.clone()]).collect();
                    assert_eq!(joined, text, "{width} {hang}");
                    let room = width.max(2);
                    for row in rows {
                        let shown = text[row.clone()].trim_end();
                        let one = shown.graphemes(true).count() <= 1;
                        assert!(columns(shown) <= room || one, "{text:?} {width} {shown:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_between_graphemes() {
        let rows = [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("发布日志", 5, "发布…"),
            ("发布日志", 4, "发…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("abc", 0, ""),
        ];
        for (text, width, expected) in rows {
            assert_eq!(cut(text, width, "…"), expected);
            assert_eq!(columns(&fit(text, width, "…")), width);
        }
    }
}
