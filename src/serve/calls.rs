//! What surrounds every call: a number, how long it may take, and a line in the server's own log.
//!
//! The line says method, caller, and how it ended; nothing that was said in the call.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::time::Instant;
use tonic::{Code, Status, body::Body, codegen::http};
use tower::{Layer, Service};

use super::{
    limits::{Limits, seconds},
    metrics::Metrics,
};
use crate::wire::status::refused;

/// One call, for whoever finds out who called.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) path: Arc<str>,
    pub(super) who: Arc<OnceLock<String>>,
}

/// Around every service.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) limits: Arc<Limits>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) last: Arc<AtomicU64>,
}

impl<S> Layer<S> for Calls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            calls: self.clone(),
        }
    }
}

/// A service whose calls are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    calls: Calls,
}

type Answer = Result<http::Response<Body>, Infallible>;

impl<S> Service<http::Request<Body>> for Counted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let (id, began) = (
            self.calls.last.fetch_add(1, Ordering::Relaxed),
            Instant::now(),
        );
        let call = Call {
            path: request.uri().path().into(),
            who: Arc::default(),
        };
        request.extensions_mut().insert(call.clone());
        let (limits, metrics) = (self.calls.limits.clone(), self.calls.metrics.clone());
        let mut limit = seconds(limits.call_seconds);
        if call.path.ends_with("/Await") {
            limit += super::agent::HELD;
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            metrics.calls.add(1);
            let Ok(answer) = tokio::time::timeout(limit, answer).await else {
                metrics.refused("timed_out");
                told(id, &call, "timed_out", began);
                let late = format!("the call was not over within {} s", limit.as_secs());
                return Ok(Status::deadline_exceeded(late).into_http());
            };
            let Ok(answer) = answer;
            match Status::from_header_map(answer.headers()) {
                Some(status) if status.code() != Code::Ok => {
                    let word = refused(&status).map_or_else(|| "other".into(), |told| told.word);
                    metrics.refused(&word);
                    told(id, &call, &word, began);
                }
                _ => told(id, &call, "ok", began),
            }
            Ok(answer)
        })
    }
}

fn told(id: u64, call: &Call, ended: &str, began: Instant) {
    // The path is foreign where the method is none of ours.
    let known = call.path.starts_with("/pilothouse.v1.") && call.path.len() < 64;
    let method = if known { &*call.path } else { "unknown" };
    let method = if method.bytes().all(|byte| byte.is_ascii_graphic()) {
        method
    } else {
        "unknown"
    };
    let who = call.who.get().map_or("nobody", String::as_str);
    let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    tracing::debug!(request = id, method, who, ended, us, "call");
}
