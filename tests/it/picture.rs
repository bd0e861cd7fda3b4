//! Pictures of a terminal, as text: the same screen gives the same SVG, byte for byte, on every machine.
//!
//! Every glyph has its own x, so that columns line up whatever font a viewer has; frames are drawn as lines, so that they
//! join. `screenshots/png` renders the pictures with the fonts in `screenshots/fonts`, which are the ones measured here.

use std::{env, fmt::Write, fs, path::Path};

use vt100::{Cell, Color, Screen};

/// DejaVu Sans Mono at 16 px.
const FONT_PX: f32 = 16.0;
const CELL_WIDTH_PX: f32 = 9.633;
const CELL_HEIGHT_PX: f32 = 18.625;
const BASELINE_PX: f32 = 14.852;
const MARGIN_PX: f32 = 8.0;
const CURVE_PX: f32 = 4.0;

const FONTS: &str = "'DejaVu Sans Mono','Noto Sans Symbols2','Noto Sans CJK JP',monospace";

/// What the sixteen colours look like.
pub(crate) struct Theme {
    text: u32,
    ground: u32,
    colors: [u32; 16],
}

/// Light text on dark ground.
pub(crate) const DARK: Theme = Theme {
    text: 0xd7dae0,
    ground: 0x16181d,
    colors: [
        0x2b2f37, 0xe5686d, 0x7fbf6a, 0xd9a94e, 0x6aa2e8, 0xc184dc, 0x58b9bd, 0xc3c8d1, 0x767d8a,
        0xf58a8e, 0x9ad986, 0xf0c674, 0x8bbcf5, 0xd8a3ee, 0x7fd3d6, 0xf2f4f8,
    ],
};

/// Dark text on light ground.
pub(crate) const LIGHT: Theme = Theme {
    text: 0x24292f,
    ground: 0xfcfcfa,
    colors: [
        0x24292f, 0xb3262e, 0x2f7d32, 0x8a5a00, 0x1f5fbf, 0x8a3ea8, 0x0f747a, 0x6e7681, 0x57606a,
        0xcf3a42, 0x3d9440, 0xa36f00, 0x3a78d6, 0xa256c0, 0x218b91, 0x8c959f,
    ],
};

/// What a run of glyphs has in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Style {
    ink: u32,
    ground: u32,
    bold: bool,
    italic: bool,
    underline: bool,
}

/// Draws a screen.
pub(crate) fn picture(screen: &Screen, theme: &Theme) -> String {
    let (rows, cols) = (screen.size().0.get(), screen.size().1.get());
    let (width, height) = (x(cols) + MARGIN_PX, y(rows) + MARGIN_PX);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" font-family=\"{FONTS}\" font-size=\"{FONT_PX}\">\n\
         <rect width=\"{w}\" height=\"{h}\" fill=\"{ground}\"/>\n",
        w = px(width),
        h = px(height),
        ground = hex(theme.ground)
    );
    for row in 0..rows {
        let cells: Vec<(u16, &Cell)> = (0..cols)
            .filter_map(|col| Some((col, screen.cell(row, col)?)))
            .filter(|(_, cell)| !cell.is_wide_continuation())
            .collect();
        for run in cells.chunk_by(|(_, a), (_, b)| style(a, theme).ground == style(b, theme).ground)
        {
            draw_ground(&mut svg, row, run, theme);
        }
        for run in cells.chunk_by(|(_, a), (_, b)| style(a, theme) == style(b, theme)) {
            draw_run(&mut svg, row, run, style(run[0].1, theme));
        }
    }
    if !screen.hide_cursor() {
        draw_cursor(&mut svg, screen.cursor_position(), theme);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Fails where a picture in `screenshots/` is not this one. Writes it only where `UPDATE_SCREENSHOTS=1`.
pub(crate) fn check_picture(name: &str, svg: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("screenshots")
        .join(format!("{name}.svg"));
    compare(
        &path,
        svg,
        env::var("UPDATE_SCREENSHOTS").is_ok_and(|value| value == "1"),
    );
}

fn compare(path: &Path, svg: &str, update: bool) {
    let stored = fs::read_to_string(path).unwrap_or_default();
    if stored == svg {
        return;
    }
    assert!(
        update,
        "{} is not what is drawn now: run with UPDATE_SCREENSHOTS=1, and look at it",
        path.display()
    );
    fs::write(path, svg).unwrap();
}

fn draw_ground(svg: &mut String, row: u16, run: &[(u16, &Cell)], theme: &Theme) {
    let (first, last) = (run[0], run[run.len() - 1]);
    let ground = style(first.1, theme).ground;
    if ground == theme.ground {
        return;
    }
    let width = x(last.0 + columns(last.1)) - x(first.0);
    rect(svg, x(first.0), y(row), width, CELL_HEIGHT_PX, ground);
}

/// Three kinds of glyphs: those of the font that are one character wide go into one text, frames and blocks into paths,
/// and what is wide or has combining marks gets a text of its own.
fn draw_run(svg: &mut String, row: u16, run: &[(u16, &Cell)], style: Style) {
    let (mut xs, mut text, mut lines) = (Vec::new(), String::new(), String::new());
    for (col, cell) in run {
        let glyph = cell.contents();
        let mut chars = glyph.chars();
        match (chars.next(), chars.next()) {
            (None | Some(' '), None) => {}
            (Some(c), None) if arms(c).is_some() => draw_lines(&mut lines, c, x(*col), y(row)),
            (Some(c), None) if block(c).is_some() => draw_block(svg, c, x(*col), y(row), style.ink),
            (Some(_), None) if !cell.is_wide() => {
                xs.push(px(x(*col)));
                text.push_str(&escaped(glyph));
            }
            _ => {
                let wide = format!(
                    " textLength=\"{}\"",
                    px(CELL_WIDTH_PX * f32::from(columns(cell)))
                );
                draw_text(svg, &px(x(*col)), row, &wide, &escaped(glyph), style);
            }
        }
    }
    if !text.is_empty() {
        draw_text(svg, &xs.join(" "), row, "", &text, style);
    }
    if !lines.is_empty() {
        let _ = writeln!(
            svg,
            "<path d=\"{lines}\" fill=\"none\" stroke=\"{}\"/>",
            hex(style.ink)
        );
    }
    if style.underline {
        let (first, last) = (run[0], run[run.len() - 1]);
        rect(
            svg,
            x(first.0),
            y(row) + BASELINE_PX + 1.5,
            x(last.0 + columns(last.1)) - x(first.0),
            1.0,
            style.ink,
        );
    }
}

fn draw_text(svg: &mut String, xs: &str, row: u16, more: &str, text: &str, style: Style) {
    let weight = if style.bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let slant = if style.italic {
        " font-style=\"italic\""
    } else {
        ""
    };
    let (y, ink) = (px(y(row) + BASELINE_PX), hex(style.ink));
    let _ = writeln!(
        svg,
        "<text x=\"{xs}\" y=\"{y}\"{more} fill=\"{ink}\"{weight}{slant}>{text}</text>"
    );
}

fn draw_cursor(svg: &mut String, (row, col): (u16, u16), theme: &Theme) {
    let (x, y, ink) = (px(x(col) + 0.5), px(y(row) + 0.5), hex(theme.text));
    let (w, h) = (px(CELL_WIDTH_PX - 1.0), px(CELL_HEIGHT_PX - 1.0));
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"none\" stroke=\"{ink}\"/>"
    );
}

/// The arms of a light box-drawing character (left, up, right, down), and whether they meet in a curve.
fn arms(c: char) -> Option<([bool; 4], bool)> {
    let arms = match c {
        '─' => "l r ",
        '│' => " u d",
        '┌' | '╭' => "  rd",
        '┐' | '╮' => "l  d",
        '└' | '╰' => " ur ",
        '┘' | '╯' => "lu  ",
        '├' => " urd",
        '┤' => "lu d",
        '┬' => "l rd",
        '┴' => "lur ",
        '┼' => "lurd",
        '╴' => "l   ",
        '╵' => " u  ",
        '╶' => "  r ",
        '╷' => "   d",
        _ => return None,
    };
    let mut drawn = [false; 4];
    drawn
        .iter_mut()
        .zip(arms.chars())
        .for_each(|(arm, c)| *arm = c != ' ');
    Some((drawn, matches!(c, '╭' | '╮' | '╰' | '╯')))
}

fn draw_lines(path: &mut String, c: char, x: f32, y: f32) {
    let Some((arms, curved)) = arms(c) else {
        return;
    };
    let (middle_x, middle_y) = (x + CELL_WIDTH_PX / 2.0, y + CELL_HEIGHT_PX / 2.0);
    let ends = [
        (x, middle_y),
        (middle_x, y),
        (x + CELL_WIDTH_PX, middle_y),
        (middle_x, y + CELL_HEIGHT_PX),
    ];
    let drawn: Vec<(f32, f32)> = ends
        .into_iter()
        .zip(arms)
        .filter_map(|(end, drawn)| drawn.then_some(end))
        .collect();
    if let ([from, to], true) = (drawn.as_slice(), curved) {
        let toward = |end: (f32, f32)| {
            let step = |from: f32, to: f32| from + (to - from).clamp(-CURVE_PX, CURVE_PX);
            format!(
                "{} {}",
                px(step(middle_x, end.0)),
                px(step(middle_y, end.1))
            )
        };
        let middle = format!("{} {}", px(middle_x), px(middle_y));
        let _ = write!(path, "M{} {}L{}", px(from.0), px(from.1), toward(*from));
        let _ = write!(path, "Q{middle} {}L{} {}", toward(*to), px(to.0), px(to.1));
        return;
    }
    for (end_x, end_y) in drawn {
        let _ = write!(
            path,
            "M{} {}L{} {}",
            px(middle_x),
            px(middle_y),
            px(end_x),
            px(end_y)
        );
    }
}

/// The part of a cell that a block element fills, in eighths: left, top, width, height.
fn block(c: char) -> Option<[u8; 4]> {
    Some(match c {
        '▀' => [0, 0, 8, 4],
        '▐' => [4, 0, 4, 8],
        '▁'..='█' => {
            let eighths = u8::try_from(u32::from(c) - u32::from('▁')).ok()? + 1;
            [0, 8 - eighths, 8, eighths]
        }
        '▉'..='▏' => [
            0,
            0,
            7 - u8::try_from(u32::from(c) - u32::from('▉')).ok()?,
            8,
        ],
        _ => return None,
    })
}

fn draw_block(svg: &mut String, c: char, x: f32, y: f32, ink: u32) {
    let Some(part) = block(c) else { return };
    let [left, top, width, height] = part.map(|eighths| f32::from(eighths) / 8.0);
    let (w, h) = (CELL_WIDTH_PX, CELL_HEIGHT_PX);
    rect(svg, x + left * w, y + top * h, width * w, height * h, ink);
}

fn rect(svg: &mut String, x: f32, y: f32, width: f32, height: f32, fill: u32) {
    let (x, y, width, height, fill) = (px(x), px(y), px(width), px(height), hex(fill));
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
    );
}

fn style(cell: &Cell, theme: &Theme) -> Style {
    let (mut ink, mut ground) = (
        theme.rgb(cell.fgcolor(), theme.text),
        theme.rgb(cell.bgcolor(), theme.ground),
    );
    if cell.inverse() {
        (ink, ground) = (ground, ink);
    }
    if cell.dim() {
        ink = half_way(ink, ground);
    }
    Style {
        ink,
        ground,
        bold: cell.bold(),
        italic: cell.italic(),
        underline: cell.underline(),
    }
}

impl Theme {
    fn rgb(&self, color: Color, default: u32) -> u32 {
        match color {
            Color::Default => default,
            Color::Idx(i @ 0..16) => self.colors[usize::from(i)],
            Color::Idx(i @ 16..232) => cube(i - 16),
            Color::Idx(i) => u32::from(8 + 10 * (i - 232)) * 0x01_01_01,
            Color::Rgb(r, g, b) => u32::from_be_bytes([0, r, g, b]),
        }
    }
}

/// The 6 × 6 × 6 colours of xterm.
fn cube(i: u8) -> u32 {
    let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
    u32::from_be_bytes([0, level(i / 36), level(i / 6 % 6), level(i % 6)])
}

fn half_way(a: u32, b: u32) -> u32 {
    let (a, b) = (a.to_be_bytes(), b.to_be_bytes());
    u32::from_be_bytes([0, 1, 2, 3].map(|i| a[i].midpoint(b[i])))
}

fn columns(cell: &Cell) -> u16 {
    if cell.is_wide() { 2 } else { 1 }
}

fn x(col: u16) -> f32 {
    MARGIN_PX + f32::from(col) * CELL_WIDTH_PX
}

fn y(row: u16) -> f32 {
    MARGIN_PX + f32::from(row) * CELL_HEIGHT_PX
}

/// Two decimals, and no zeros after them.
fn px(n: f32) -> String {
    format!("{n:.2}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

fn hex(rgb: u32) -> String {
    format!("#{rgb:06x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn drawn(bytes: &str, theme: &Theme) -> String {
    let mut parser = vt100::Parser::new(2.try_into().unwrap(), 12.try_into().unwrap(), 0);
    parser.process(bytes.as_bytes());
    picture(parser.screen(), theme)
}

#[test]
fn a_screen_is_drawn_run_by_run() {
    let svg = drawn(
        "\x1b[?25la<\x1b[1;31mbc\x1b[0m\x1b[7m d\x1b[0m\r\n╭─日e\u{301}\x1b[2m▌",
        &DARK,
    );
    let lines: Vec<&str> = svg.lines().skip(2).collect();
    let expected = [
        // The ground of ` d`, reversed, then the three runs of the first row.
        r##"<rect x="46.53" y="8" width="19.27" height="18.62" fill="#d7dae0"/>"##,
        r##"<text x="8 17.63" y="22.85" fill="#d7dae0">a&lt;</text>"##,
        r##"<text x="27.27 36.9" y="22.85" fill="#e5686d" font-weight="bold">bc</text>"##,
        r##"<text x="56.17" y="22.85" fill="#16181d">d</text>"##,
        // Wide, combined, frame, and a dim block.
        r##"<text x="27.27" y="41.48" textLength="19.27" fill="#d7dae0">日</text>"##,
        "<text x=\"46.53\" y=\"41.48\" textLength=\"9.63\" fill=\"#d7dae0\">e\u{301}</text>",
        r##"<path d="M17.63 35.94L16.82 35.94Q12.82 35.94 12.82 39.94L12.82 45.25M22.45 35.94L17.63 35.94M22.45 35.94L27.27 35.94" fill="none" stroke="#d7dae0"/>"##,
        r##"<rect x="56.17" y="26.62" width="4.82" height="18.62" fill="#76797e"/>"##,
        "</svg>",
    ];
    assert_eq!(lines, expected, "{svg}");
}

#[test]
fn colours_are_those_of_the_theme() {
    assert!(drawn("\x1b[31mx", &LIGHT).contains("#b3262e"));
    assert!(drawn("\x1b[38;5;196mx", &DARK).contains("#ff0000"));
    assert!(drawn("\x1b[38;5;255mx", &DARK).contains("#eeeeee"));
    assert!(drawn("\x1b[38;2;1;2;3mx", &DARK).contains("#010203"));
}

#[test]
fn a_picture_is_written_only_on_request() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("new.svg");
    let complaint = std::panic::catch_unwind(|| compare(&path, "<svg/>", false)).unwrap_err();
    let complaint = complaint.downcast::<String>().unwrap();
    assert!(
        complaint.contains("run with UPDATE_SCREENSHOTS=1"),
        "{complaint}"
    );
    assert!(!path.exists());
    compare(&path, "<svg/>", true);
    compare(&path, "<svg/>", false);
}
