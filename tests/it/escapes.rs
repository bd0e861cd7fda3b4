//! What a program may send to a terminal: text that the one door lets through, and a few sequences of ours.

use std::iter::Peekable;

use registry::Untrusted;

/// Show the cursor, focus, alternate screen, marked pastes, synchronized update.
const MODES: [&str; 5] = ["25", "1004", "1049", "2004", "2026"];

/// What was not plain text in a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) titles: Vec<String>,
    pub(crate) bells: usize,
    /// The numbers of the colours and looks that were set.
    pub(crate) looks: Vec<String>,
    pub(crate) escapes: usize,
}

/// Fails at the first thing that is neither text nor ours.
pub(crate) fn only_ours(bytes: &[u8]) -> Sent {
    let text = std::str::from_utf8(bytes).expect("UTF-8, to the last byte");
    let mut sent = Sent::default();
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                sent.escapes += 1;
                escape(&mut chars, &mut sent);
            }
            '\x07' => sent.bells += 1,
            '\r' | '\n' => plain.push('\n'),
            '\t' => panic!("a tab, behind {plain:?}"),
            c => plain.push(c),
        }
    }
    for line in plain.lines() {
        let shown = Untrusted::new(line).line();
        assert_eq!(shown.altered(), 0, "not through the door: {shown}");
    }
    sent
}

fn escape(chars: &mut Peekable<impl Iterator<Item = char>>, sent: &mut Sent) {
    match chars.next() {
        Some('[') => control(chars, sent),
        Some(']') => {
            let text: String = chars.by_ref().take_while(|c| *c != '\x07').collect();
            let title = text.strip_prefix("0;");
            let title = title.unwrap_or_else(|| panic!("an OSC that is no title: {text:?}"));
            assert!(title.chars().all(|c| matches!(c, ' '..='~')), "{title:?}");
            sent.titles.push(title.to_owned());
        }
        other => panic!("an escape that is not ours: ESC {other:?}"),
    }
}

fn control(chars: &mut Peekable<impl Iterator<Item = char>>, sent: &mut Sent) {
    let mut parameters = String::new();
    let last = loop {
        match chars.next() {
            Some(c @ (' '..='?')) => parameters.push(c),
            Some(c @ ('@'..='~')) => break c,
            other => panic!("CSI {parameters} {other:?}"),
        }
    };
    let numbers = parameters
        .chars()
        .all(|c| matches!(c, '0'..='9' | ';' | ':'));
    match last {
        'm' if numbers => sent.looks.extend(parameters.split(';').map(str::to_owned)),
        'H' | 'A' | 'B' | 'C' | 'D' | 'G' | 'd' | 'J' | 'K' if numbers => {}
        't' if ["22;0", "23;0"].contains(&&*parameters) => {}
        'h' | 'l' if parameters.starts_with('?') => {
            for mode in parameters[1..].split(';') {
                assert!(MODES.contains(&mode), "CSI {parameters}{last}");
            }
        }
        _ => panic!("not ours: CSI {parameters}{last}"),
    }
}

#[test]
fn what_is_not_ours_is_found_wherever_it_stands() {
    let ours = "\x1b[?1049h\x1b[2J\x1b[1;1H\x1b[38;5;6mtext ␛[2J‹U+009B›\x1b[0m\r\n\x1b]0;(2) pilothouse\x07\x07";
    let sent = only_ours(ours.as_bytes());
    assert_eq!((sent.titles.len(), sent.bells), (1, 1));
    assert_eq!(sent.looks, ["38", "5", "6", "0"]);
    for foreign in [
        "\x1b]52;c;QUJD\x07",
        "\x1b]0;\u{9b}\x07",
        "\u{9b}31m",
        "\u{202e}",
        "\x08",
        "\x7f",
        "\t",
        "\x1bc",
        "\x1bP+q\x1b\\",
        "\x1b[?1000h",
        "\x1b[6n",
    ] {
        let text = format!("{ours}{foreign}");
        let found = std::panic::catch_unwind(|| only_ours(text.as_bytes()));
        assert!(found.is_err(), "{foreign:?}");
    }
}
