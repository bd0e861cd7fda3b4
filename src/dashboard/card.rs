//! The text of a card: what an agent asks, in three lanes that are never mixed.
//!
//! What must be read before one approves is counted, byte by byte: every line says which bytes of the card's text it
//! shows. The text depends on the approval and its detail alone; ages, presence and drafts are drawn around it.

use std::{cell::RefCell, ops::Range, sync::Arc};

use registry::{
    Approval, Detail, Untrusted,
    form::{Field, Form, Kind},
};

use super::{
    args::{self, hidden},
    lines::{Lane, Line, Page, Part, columns},
    theme::Role,
};

/// A card whose detail is there.
#[derive(Debug)]
pub struct Card {
    /// Whether the digest over what was sent is the one of the approval.
    pub matches: bool,
    /// What the person fills in.
    pub form: Form,
    /// As it is shown.
    pub plain: Text,
    /// With every escape spelled out.
    pub raw: Text,
    /// How many characters are shown as something else.
    pub altered: usize,
}

/// The lines of a card in one spelling.
#[derive(Debug)]
pub struct Text {
    lines: Vec<Line>,
    /// Which of them spell what will run.
    args: Range<usize>,
    fields: Vec<FieldText>,
    /// How many bytes there are to read.
    pub bytes: usize,
    laid: RefCell<Option<(usize, Arc<Page>)>>,
}

/// Which bytes of a card's text a field of the form takes.
#[derive(Clone, Debug, Default)]
pub struct FieldText {
    /// Its label.
    pub label: Range<usize>,
    /// Its options, where it has some.
    pub options: Vec<Range<usize>>,
    /// Its advice.
    pub help: Range<usize>,
}

/// How wide the names of facts are.
const FACT_COLUMNS: usize = 10;

impl Card {
    /// Checks the digest, and only then makes text of what was sent.
    #[must_use]
    pub fn new(approval: &Approval, detail: &Detail) -> Self {
        let mut lines = Writer::default();
        lines.whole(approval, detail, Spelling::Plain);
        let mut raw = Writer::default();
        raw.whole(approval, detail, Spelling::Raw);
        let altered = lines.altered + form_altered(&detail.form);
        Self {
            matches: approval.matches(detail),
            form: detail.form.clone(),
            plain: Text::new(lines.lines, lines.args_at, &detail.form),
            raw: Text::new(raw.lines, raw.args_at, &detail.form),
            altered,
        }
    }

    /// One of the two spellings.
    #[must_use]
    pub fn text(&self, raw: bool) -> &Text {
        if raw { &self.raw } else { &self.plain }
    }
}

impl Text {
    fn new(mut lines: Vec<Line>, args: Range<usize>, form: &Form) -> Self {
        let mut bytes = 0;
        for line in &mut lines {
            let start = bytes;
            bytes += line.bytes();
            line.counted = start..bytes;
        }
        let fields = form
            .fields()
            .iter()
            .map(|field| FieldText::after(&mut bytes, field))
            .collect();
        Self {
            lines,
            args,
            fields,
            bytes,
            laid: RefCell::default(),
        }
    }

    /// The lines that spell the arguments of the tool.
    #[must_use]
    pub fn args(&self) -> &[Line] {
        &self.lines[self.args.clone()]
    }

    /// The lines above the form, laid into rows; kept until another width is asked for.
    #[must_use]
    pub fn lay(&self, width: usize) -> Arc<Page> {
        let mut laid = self.laid.borrow_mut();
        if let Some((at, page)) = &*laid
            && *at == width
        {
            return page.clone();
        }
        let page = Arc::new(Page::lay(self.lines.clone(), width));
        *laid = Some((width, page.clone()));
        page
    }

    /// Which bytes the fields of the form take, in its order.
    #[must_use]
    pub fn fields(&self) -> &[FieldText] {
        &self.fields
    }
}

impl FieldText {
    fn after(bytes: &mut usize, field: &Field) -> Self {
        let mut take = |text: &Untrusted| {
            let start = *bytes;
            *bytes += text.raw().len();
            start..*bytes
        };
        let label = take(&field.label);
        let options = match &field.kind {
            Kind::Enum(choices) => choices.iter().map(|choice| take(&choice.label)).collect(),
            Kind::String
            | Kind::Text
            | Kind::Number
            | Kind::Integer
            | Kind::Boolean
            | Kind::Date => Vec::new(),
        };
        Self {
            label,
            options,
            help: take(&field.help),
        }
    }
}

fn form_altered(form: &Form) -> usize {
    let of_field = |field: &Field| {
        let options = match &field.kind {
            Kind::Enum(choices) => choices
                .iter()
                .map(|choice| choice.label.line().altered())
                .sum(),
            _ => 0,
        };
        field.label.line().altered() + field.help.block().altered() + options
    };
    form.fields().iter().map(of_field).sum()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Plain,
    Raw,
}

#[derive(Default)]
struct Writer {
    lines: Vec<Line>,
    args_at: Range<usize>,
    altered: usize,
}

impl Writer {
    fn whole(&mut self, approval: &Approval, detail: &Detail, spelling: Spelling) {
        self.block(Lane::Known, Role::Strong, &approval.title, spelling, 0);
        self.asker(&approval.from.agent, spelling);
        for (name, value) in &approval.labels {
            self.fact(name, value, spelling);
        }
        self.says(detail, spelling);
        self.runs(approval, detail, spelling);
        if !detail.facts.is_empty() {
            self.heading("FROM ITS PROGRAM");
            self.block(Lane::Known, Role::Text, &detail.facts, spelling, 2);
        }
    }

    fn asker(&mut self, agent: &Untrusted, spelling: Spelling) {
        let (agent, altered) = spelled(agent, spelling, Rows::One);
        let mut parts = vec![
            Part::new(Role::Muted, "asked by "),
            Part::new(Role::Text, agent),
        ];
        if altered > 0 {
            parts.push(hidden(altered));
        }
        self.altered += altered;
        self.lines.push(Line {
            parts,
            ..Line::default()
        });
    }

    fn says(&mut self, detail: &Detail, spelling: Spelling) {
        let said: Vec<&Untrusted> = [&detail.prompt, &detail.body]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        if said.is_empty() {
            return;
        }
        self.heading("THE AGENT SAYS");
        for (n, text) in said.into_iter().enumerate() {
            if n > 0 {
                self.lines.push(Line {
                    lane: Lane::Says,
                    ..Line::of(Role::Said, "")
                });
            }
            self.block(Lane::Says, Role::Said, text, spelling, 0);
        }
    }

    fn runs(&mut self, approval: &Approval, detail: &Detail, spelling: Spelling) {
        let tool = approval.subject.tool();
        if tool.is_none() && detail.args.is_none() {
            return;
        }
        self.heading("WHAT WILL RUN");
        self.sign_with(approval);
        if let Some(tool) = tool {
            self.block(Lane::Known, Role::Strong, tool, spelling, 2);
        }
        if let Some(args) = &detail.args {
            let start = self.lines.len();
            self.args(args, spelling);
            self.args_at = start..self.lines.len();
        }
    }

    fn args(&mut self, args: &Untrusted, spelling: Spelling) {
        match (spelling, args::tree(args.raw(), 4)) {
            (Spelling::Plain, Some((lines, altered))) => {
                self.altered += altered;
                self.lines.extend(lines);
            }
            (Spelling::Plain | Spelling::Raw, _) => {
                self.block(Lane::Known, Role::Quoted, args, spelling, 4);
            }
        }
    }

    fn sign_with(&mut self, approval: &Approval) {
        if let Some(line) = self.lines.last_mut() {
            line.right = Some(Part::new(
                Role::Muted,
                format!("sha {}", approval.digest.short()),
            ));
        }
    }

    fn heading(&mut self, words: &str) {
        self.lines.push(Line::of(Role::Text, ""));
        self.lines.push(Line::of(Role::Active, words));
    }

    fn fact(&mut self, name: &Untrusted, value: &Untrusted, spelling: Spelling) {
        let (name, hidden_name) = spelled(name, spelling, Rows::One);
        let (value, hidden_value) = spelled(value, spelling, Rows::One);
        let altered = hidden_name + hidden_value;
        let fill = FACT_COLUMNS.saturating_sub(columns(&name)).max(2);
        let hang = (columns(&name) + fill).min(2 * FACT_COLUMNS);
        let mut parts = vec![
            Part::new(Role::Key, name),
            Part::new(Role::Text, " ".repeat(fill)),
            Part::new(Role::Text, value),
        ];
        if altered > 0 {
            parts.push(hidden(altered));
        }
        self.altered += altered;
        self.lines.push(Line {
            parts,
            hang,
            ..Line::default()
        });
    }

    fn block(
        &mut self,
        lane: Lane,
        role: Role,
        text: &Untrusted,
        spelling: Spelling,
        indent: usize,
    ) {
        let (shown, altered) = spelled(text, spelling, Rows::Many);
        for row in shown.split('\n') {
            let parts = vec![Part::new(role, " ".repeat(indent)), Part::new(role, row)];
            self.lines.push(Line {
                lane,
                parts,
                hang: indent,
                ..Line::default()
            });
        }
        if altered > 0
            && let Some(line) = self.lines.last_mut()
        {
            line.parts.push(hidden(altered));
        }
        self.altered += altered;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    One,
    Many,
}

fn spelled(text: &Untrusted, spelling: Spelling, rows: Rows) -> (String, usize) {
    match (spelling, rows) {
        (Spelling::Plain, Rows::One) => {
            let shown = text.line();
            (shown.as_str().to_owned(), shown.altered())
        }
        (Spelling::Plain, Rows::Many) => {
            let shown = text.block();
            (shown.as_str().to_owned(), shown.altered())
        }
        (Spelling::Raw, rows) => (escaped(text.raw(), rows), 0),
    }
}

/// Everything outside printable ASCII by its number; a row still ends where the text has a newline.
fn escaped(text: &str, rows: Rows) -> String {
    let mut spelled = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' if rows == Rows::Many => spelled.push_str("\\n\n"),
            ' '..='~' => spelled.push(c),
            _ => spelled.extend(c.escape_default()),
        }
    }
    spelled
}
