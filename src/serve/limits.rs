//! How much one caller may take of the server. The sizes of what is filed are in [`registry::limits`].
//!
//! Every key has a default; `[limits]` of the config file overrides it.

use std::time::Duration;

use serde::Deserialize;

/// `[limits]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Questions filed and calls gated by one caller, and streams of orders that it opens.
    pub file: Rate,
    /// Decisions, extensions, dismissals and orders by one caller.
    pub decide: Rate,
    /// Lists and pages of history read by one caller.
    pub list: Rate,
    /// Streams opened by one caller.
    pub watch: Rate,
    /// By how much the rates and counts of a caller are greater on the Unix socket: who is let in there is a process of
    /// this machine, and a thousand local agents have one uid.
    pub local_times: u32,
    /// Streams that one caller holds open, counted.
    pub streams: u32,
    /// Calls that one caller has waiting for an answer, counted.
    pub waits: u32,
    /// Connections from one address, counted.
    pub connections_per_address: u32,
    /// Connections from this machine over TCP, counted.
    pub connections_loopback: u32,
    /// Connections on the Unix socket, counted.
    pub connections_socket: u32,
    /// In what time a new connection has to have said that it speaks HTTP/2, in seconds.
    pub first_word_seconds: u32,
    /// How long one call may take, in seconds; one that waits for a person is held for at most 55 s beside that.
    pub call_seconds: u32,
    /// For how long a watcher may leave unread what waits for it, in seconds.
    pub stalled_seconds: u32,
    /// How often a stream on which nothing happens says how far it is, in seconds.
    pub tick_seconds: u32,
    /// How often a silent connection is asked whether it is there, in seconds.
    pub ping_seconds: u32,
    /// How long it may take to say so, in seconds.
    pub pong_seconds: u32,
}

/// So many in a second, and so many at once.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// In the long run.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

impl Rate {
    const fn of(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst }
    }

    /// What one of them costs in time.
    pub(super) fn cost(self, times: u32) -> Duration {
        Duration::from_secs(1) / self.per_second.saturating_mul(times).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file: Rate::of(100, 500),
            decide: Rate::of(20, 50),
            list: Rate::of(20, 50),
            watch: Rate::of(1, 10),
            local_times: 1000,
            streams: 64,
            waits: 10_000,
            connections_per_address: 64,
            connections_loopback: 4096,
            connections_socket: 8192,
            first_word_seconds: 5,
            call_seconds: 30,
            stalled_seconds: 60,
            tick_seconds: 10,
            ping_seconds: 20,
            pong_seconds: 10,
        }
    }
}

impl Limits {
    /// Whether they go together.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub fn check(&self) -> Result<(), String> {
        let rates = [
            ("file", self.file),
            ("decide", self.decide),
            ("list", self.list),
            ("watch", self.watch),
        ];
        for (key, rate) in rates {
            if rate.per_second == 0 || rate.burst == 0 {
                return Err(format!(
                    "[limits] {key}: per_second and burst are 1 at least"
                ));
            }
        }
        let counts = [
            ("local_times", self.local_times),
            ("streams", self.streams),
            ("waits", self.waits),
            ("connections_per_address", self.connections_per_address),
            ("connections_loopback", self.connections_loopback),
            ("connections_socket", self.connections_socket),
            ("first_word_seconds", self.first_word_seconds),
            ("call_seconds", self.call_seconds),
            ("stalled_seconds", self.stalled_seconds),
            ("tick_seconds", self.tick_seconds),
            ("ping_seconds", self.ping_seconds),
            ("pong_seconds", self.pong_seconds),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((key, _)) => Err(format!("[limits] {key}: is 1 at least")),
            None => Ok(()),
        }
    }
}

pub(super) fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}
