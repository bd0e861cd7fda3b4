//! What is said across the whole screen while there is no connection.

use registry::Untrusted;

use super::{
    super::{
        actions::{Action, Context},
        lines::columns,
        msg::Link,
        words::clock,
    },
    Scene,
};

impl Scene<'_> {
    pub(super) fn offline(&self, width: usize) -> Option<String> {
        let model = self.model;
        let next = match &model.link {
            Link::Online { .. } => return None,
            Link::Connecting { .. } if !model.synced => return None,
            Link::Connecting { attempt } => format!("connecting, try {attempt}"),
            Link::Offline { retry_at, .. } => {
                let left = retry_at.saturating_sub(self.at).as_millis().div_ceil(1000);
                let key = model.key_for(Context::Global, Action::RetryNow, "r");
                format!("retrying in {left} s ({key} now)")
            }
        };
        let since = self.at.saturating_sub(model.link_since).as_secs();
        let seen = |words: &str| match model.now(model.link_since) {
            Some(from) if model.synced => format!(" · {words} {}", clock(from)),
            _ => String::new(),
        };
        let why = match &model.link {
            Link::Offline { why, .. } if !why.is_empty() => {
                // That there is no server is said already.
                let why = why.strip_prefix("no server: ").unwrap_or(why);
                format!(" · {}", Untrusted::new(why).line())
            }
            _ => String::new(),
        };
        let sign = model.signs().offline;
        let begin = format!(" {sign} OFFLINE {since} s · {next}");
        let whole = format!(
            "{begin}{} · decisions are not sent",
            seen("what you see is from")
        );
        match columns(&whole) <= width {
            true => Some(whole + &why),
            false => Some(format!("{begin}{} · nothing is sent", seen("as of"))),
        }
    }
}
