//! Stopping: what is open ends by itself, soon.

use std::future::Future;

use tokio::sync::watch;

/// Tells every open call that the server stops.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// From now on the server stops.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// For a door that waits for it in its own way.
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Returns once the server stops.
    pub async fn wait(&self) {
        let mut stopping = self.0.subscribe();
        // The sender lives as long as this does.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

/// Doing something else until this happens.
pub trait Until: Future<Output = ()> + Sized {
    /// What `work` comes to; none if this happens before.
    fn until<T>(self, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        async {
            tokio::select! {
                biased;
                done = work => Some(done),
                () = self => None,
            }
        }
    }
}

impl<F: Future<Output = ()>> Until for F {}
