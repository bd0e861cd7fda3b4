//! What is said across the whole screen while there is no connection.

use registry::Untrusted;

use super::{
    super::{
        actions::{Action, Context},
        msg::Link,
        words::clock,
    },
    Scene,
};

impl Scene<'_> {
    pub(super) fn offline(&self) -> Option<String> {
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
        let seen = match model.now(model.link_since) {
            Some(from) if model.synced => format!(" · what you see is from {}", clock(from)),
            _ => String::new(),
        };
        let why = match &model.link {
            Link::Offline { why, .. } if !why.is_empty() => {
                format!(" · {}", Untrusted::new(why.as_str()).line())
            }
            _ => String::new(),
        };
        let sign = model.signs().offline;
        Some(format!(
            " {sign} OFFLINE {since} s · {next}{seen} · decisions are not sent{why}"
        ))
    }
}
