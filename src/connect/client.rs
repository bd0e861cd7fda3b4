//! Calls: typed, and sent again where the same twice is the same as once.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use registry::{
    ApprovalId, Control, Digest, ItemId, RunId, Seq, Settled, Timestamp, Untrusted,
    approval::{AppliedResult, Filing},
    command::{AckResult, Decide, Ending, Order},
    drift::Level,
    escalation::Ended,
    names::{ClaimToken, ControlId, WaitId},
    run::{Plan, TaskState},
};
use tokio::{
    io::DuplexStream,
    net::UnixStream,
    time::{Instant, error::Elapsed, sleep, sleep_until, timeout},
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{
    Code, Request, Response, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;

use super::{
    backoff::pause,
    server::{Server, Token},
};
use crate::wire::{
    pb::pilothouse::v1::{
        agent_service_client::AgentServiceClient, operator_service_client::OperatorServiceClient,
    },
    pilothouse::{
        self as wire, Awaited, Decided, DriftReport, Filed, Garbled, GateSays, Got, Item, ListWish,
        Me, Opening, RunRecord,
    },
    status::{Told, refused},
};

/// The largest answer that is read. A page of 500 stays far below it.
const ANSWER_MAX_BYTES: usize = 8 * 1024 * 1024;
/// A refusal travels in the headers, and names every wrong field of a form.
const HEADERS_MAX_BYTES: u32 = 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may take that waits for nobody.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The server holds an Await for at most 55 s.
const AWAIT_TIMEOUT: Duration = Duration::from_secs(65);
/// A waiter is armed again at most this often.
const REARM_MIN: Duration = Duration::from_secs(1);
/// How often a call is made before its caller is told.
const TRIES: u32 = 4;

pub(super) type Operator = OperatorServiceClient<InterceptedService<Channel, Sign>>;
type Agent = AgentServiceClient<InterceptedService<Channel, Sign>>;

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server said no, and why.
    #[error("{}", .0.message)]
    Refused(Box<Told>),
    /// Nobody answered. Whether the call was done is unknown; the same may be sent again.
    #[error("no server: {0}")]
    NoServer(String),
    /// What answered does not speak as we do.
    #[error("the server's answer cannot be read: {0}")]
    Garbled(Garbled),
}

/// A client of one server. Clones share its connection.
#[derive(Clone)]
pub struct Client {
    reach: Reach,
    sign: Sign,
    channel: Arc<Mutex<Option<Channel>>>,
}

#[derive(Clone)]
enum Reach {
    Server(Server),
    Pipe(Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync>),
}

/// Puts the token where the server looks for it.
#[derive(Clone)]
pub(super) struct Sign(Option<AsciiMetadataValue>);

impl Interceptor for Sign {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let header = token.clone();
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.sign.0.as_ref().map(|_| "***");
        write!(f, "Client({}, token: {token:?})", self.place())
    }
}

/// Connecting.
impl Client {
    /// A client of `server`. Nothing is connected before the first call.
    pub fn connect(server: Server, token: Option<Token>) -> Self {
        Self::new(Reach::Server(server), token)
    }

    /// A client of a server in this process: `pipe` gives our end of a new pipe to it.
    pub fn over(pipe: impl Fn() -> io::Result<DuplexStream> + Send + Sync + 'static) -> Self {
        Self::new(Reach::Pipe(Arc::new(pipe)), None)
    }

    fn new(reach: Reach, token: Option<Token>) -> Self {
        Self {
            reach,
            sign: Sign(token.map(|token| token.header())),
            channel: Arc::default(),
        }
    }

    /// Where its server is, for people.
    pub fn place(&self) -> String {
        match &self.reach {
            Reach::Server(server) => server.to_string(),
            Reach::Pipe(_) => "this process".to_owned(),
        }
    }

    pub(super) fn operator(&self) -> Operator {
        OperatorServiceClient::with_interceptor(self.channel(), self.sign.clone())
            .max_decoding_message_size(ANSWER_MAX_BYTES)
    }

    fn agent(&self) -> Agent {
        AgentServiceClient::with_interceptor(self.channel(), self.sign.clone())
            .max_decoding_message_size(ANSWER_MAX_BYTES)
    }

    /// The next call makes a new connection: the old one may be dead without knowing it.
    pub(super) fn reconnect(&self) {
        *self.held() = None;
    }

    fn channel(&self) -> Channel {
        self.held().get_or_insert_with(|| self.reach.open()).clone()
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Channel>> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reach {
    fn open(&self) -> Channel {
        match self {
            Self::Server(Server::Tcp(uri)) => endpoint(Endpoint::from(uri.clone())).connect_lazy(),
            Self::Server(Server::Unix(path)) => open_socket(path.clone()),
            Self::Pipe(pipe) => {
                let pipe = pipe.clone();
                let connect = move |_: Uri| std::future::ready(pipe().map(TokioIo::new));
                nowhere().connect_with_connector_lazy(service_fn(connect))
            }
        }
    }
}

fn open_socket(path: PathBuf) -> Channel {
    let connect = move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    nowhere().connect_with_connector_lazy(service_fn(connect))
}

/// HTTP wants an authority, also where there is none.
fn nowhere() -> Endpoint {
    endpoint(Endpoint::from_static("http://pilothouse.invalid"))
}

fn endpoint(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_max_header_list_size(HEADERS_MAX_BYTES)
}

/// What people call.
impl Client {
    /// Who we are to the server.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn whoami(&self) -> Result<Me, CallError> {
        let request = wire::ask_whoami();
        self.person(request, Operator::whoami, wire::me).await
    }

    /// The same, asked once: for a caller with its own patience.
    pub(super) async fn whoami_once(&self) -> Result<Me, CallError> {
        let request = wire::ask_whoami();
        self.person_call(request, Operator::whoami, wire::me).await
    }

    /// All that is open, runs that stand still first, then oldest first, of all pages from the one that `wish` names.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn list(&self, wish: &ListWish) -> Result<Vec<Item>, CallError> {
        let mut items = Vec::new();
        let mut wish = wish.clone();
        loop {
            let request = wire::ask_list(&wish);
            let page = self
                .person(request, Operator::list, wire::page_back)
                .await?;
            items.extend(page.items);
            if page.next <= wish.after {
                return Ok(items); // the last one, or a server that leads in circles
            }
            wish.after = page.next;
        }
    }

    /// One approval or escalation, whole.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn get(&self, id: impl Into<ItemId>) -> Result<Got, CallError> {
        let request = wire::ask_get(id.into());
        self.person(request, Operator::get, wire::got_back).await
    }

    /// A run, by our id or the agent's own, and a piece of its record after the event `after`.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn get_run(&self, run: &Untrusted, after: Seq) -> Result<RunRecord, CallError> {
        let request = wire::ask_get_run(run, after);
        self.person(request, Operator::get_run, wire::run_record)
            .await
    }

    /// At most `limit` of what ended before the event `before`, newest first, and where the next page begins.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn history(
        &self,
        limit: usize,
        before: Option<Seq>,
    ) -> Result<(Vec<Ended>, Option<Seq>), CallError> {
        let request = wire::ask_history(limit, before);
        self.person(request, Operator::history, wire::history_back)
            .await
    }

    /// A decision. Sent again with the same id, so it counts once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn decide(&self, decide: &Decide) -> Result<Decided, CallError> {
        let request = wire::ask_decide(decide);
        self.person(request, Operator::decide, wire::decided_as)
            .await
    }

    /// Has a run do something. Sent again with the same id, so it is done once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn control(&self, order: &Order) -> Result<Control, CallError> {
        let request = wire::ask_control(order);
        self.person(request, Operator::control, wire::controlled_as)
            .await
    }

    /// Moves a deadline to `after` from now, and gives the moment.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn extend(&self, id: ApprovalId, after: Duration) -> Result<Timestamp, CallError> {
        let request = wire::ask_extend(id, after);
        self.person(request, Operator::extend, wire::extended_to)
            .await
    }

    /// Takes a card away.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn dismiss(&self, id: ApprovalId, note: &Untrusted) -> Result<(), CallError> {
        let request = wire::ask_dismiss(id, note);
        self.person(request, Operator::dismiss, done).await
    }
}

/// What agents call.
impl Client {
    /// A run begins, or its agent comes back.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn open_run(&self, run: &Opening) -> Result<RunId, CallError> {
        let request = wire::ask_open_run(run);
        let opened = self.work(request, Agent::open_run, wire::opened_as).await?;
        Ok(opened.run)
    }

    /// A run ends, or only its turn.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn end_run(
        &self,
        run: RunId,
        how: Ending,
        reason: &Untrusted,
    ) -> Result<(), CallError> {
        let request = wire::ask_end_run(run, how, reason);
        self.work(request, Agent::end_run, done).await
    }

    /// A task moves.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn report_task(
        &self,
        run: RunId,
        task: &Untrusted,
        title: &Untrusted,
        state: &TaskState,
        detail: &Untrusted,
    ) -> Result<(), CallError> {
        let request = wire::ask_report_task(run, task, title, state, detail);
        self.work(request, Agent::report_task, done).await
    }

    /// A plan was made or revised.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn report_plan(
        &self,
        run: RunId,
        plan: &Plan,
        cause: &Untrusted,
    ) -> Result<(), CallError> {
        let request = wire::ask_report_plan(run, plan, cause);
        self.work(request, Agent::report_plan, done).await
    }

    /// For the run's record. Made once only: said twice, it would be recorded twice.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn say(&self, run: RunId, text: &Untrusted) -> Result<(), CallError> {
        let call = self.agent_call(wire::ask_say(run, text), Agent::say, done);
        call.await
    }

    /// Asks a human. Sent again with the same key, so it is filed once; without a key it is made once only.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn file(&self, run: RunId, filing: &Filing) -> Result<Filed, CallError> {
        let request = wire::ask_file(run, filing);
        match filing.key {
            Some(_) => self.work(request, Agent::file, wire::filed_as).await,
            None => self.agent_call(request, Agent::file, wire::filed_as).await,
        }
    }

    /// May this call run? Sent again where it has a key, so it counts once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn gate(&self, run: RunId, filing: &Filing) -> Result<GateSays, CallError> {
        let request = wire::ask_gate(run, filing);
        match filing.key {
            Some(_) => self.work(request, Agent::gate, wire::gate_said).await,
            None => self.agent_call(request, Agent::gate, wire::gate_said).await,
        }
    }

    /// How a question stands, at once; nothing is recorded.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn look(&self, id: ApprovalId) -> Result<Awaited, CallError> {
        let request = wire::ask_await(id, None, None);
        self.work(request, Agent::r#await, wire::awaited).await
    }

    /// How a question stands when it has ended or `held` is over, whichever is first; nothing is recorded.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn poll(&self, id: ApprovalId, held: Duration) -> Result<Awaited, CallError> {
        let request = wire::ask_await(id, None, Some(held));
        self.work(request, Agent::r#await, wire::awaited).await
    }

    /// Waits until the question has ended or `patience` is over, also while the server is away; only
    /// a server that was never there is said at once. Never gives [`Awaited::Pending`].
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::NoServer`] also where patience ended while the server was away.
    pub async fn await_(
        &self,
        id: ApprovalId,
        wait: &WaitId,
        patience: Duration,
    ) -> Result<Awaited, CallError> {
        let request = wire::ask_await(id, Some(wait), Some(patience));
        let until = Instant::now() + patience;
        let mut was_there = false;
        let mut missed = 0;
        loop {
            let armed = Instant::now();
            let request = request.clone();
            match self.work(request, Agent::r#await, wire::awaited).await {
                Ok(Awaited::Pending { .. }) => {
                    (was_there, missed) = (true, 0);
                    sleep_until(armed + REARM_MIN).await;
                }
                Err(CallError::NoServer(_)) if was_there && Instant::now() < until => {
                    missed += 1;
                    sleep(pause(missed)).await;
                }
                ended => return ended,
            }
        }
    }

    /// Takes a question back.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn withdraw(&self, id: ApprovalId, reason: &Untrusted) -> Result<(), CallError> {
        let request = wire::ask_withdraw(id, reason);
        self.work(request, Agent::withdraw, done).await
    }

    /// Takes the decisions of a step: `digests` is what is about to run, by the agent's own ids, recomputed from what stands
    /// there now. Sent again with the same token, so it counts once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn claim(
        &self,
        run: RunId,
        step: &Untrusted,
        digests: &BTreeMap<Untrusted, Digest>,
        token: &ClaimToken,
    ) -> Result<Vec<Settled>, CallError> {
        let request = wire::ask_claim(run, step, digests, token);
        self.work(request, Agent::claim, wire::claimed_back).await
    }

    /// Gives them back, if nothing was begun with; if not, the answer says why.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn restore(
        &self,
        run: RunId,
        step: &Untrusted,
        token: &ClaimToken,
    ) -> Result<Result<(), Untrusted>, CallError> {
        let request = wire::ask_restore(run, step, token);
        self.work(request, Agent::restore, wire::restored_back)
            .await
    }

    /// Begins with a decision that was taken: from now on nobody begins again.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn report_started(
        &self,
        id: ApprovalId,
        token: &ClaimToken,
    ) -> Result<(), CallError> {
        let request = wire::ask_report_started(id, token);
        self.work(request, Agent::report_started, done).await
    }

    /// What came of a decision.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn report_applied(
        &self,
        id: ApprovalId,
        result: AppliedResult,
        detail: &Untrusted,
    ) -> Result<(), CallError> {
        let request = wire::ask_report_applied(id, result, detail);
        self.work(request, Agent::report_applied, done).await
    }

    /// Something went wrong; gives how strongly it is answered. Sent again with the same id, so it counts once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn report_drift(&self, run: RunId, drift: &DriftReport) -> Result<Level, CallError> {
        let request = wire::ask_report_drift(run, drift);
        self.work(request, Agent::report_drift, wire::drifted_as)
            .await
    }

    /// What the run is told to do: what was not acked yet, then each as it is given. It ends with the run; after an
    /// error it has to be opened again.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn controls(
        &self,
        run: RunId,
    ) -> Result<impl Stream<Item = Result<Control, CallError>> + use<>, CallError> {
        let mut to = self.agent();
        let opened = timeout(CALL_TIMEOUT, to.controls(wire::ask_controls(run))).await;
        let orders = self.heard(opened, CALL_TIMEOUT, Ok)?;
        Ok(orders.map(|order| match order {
            Ok(order) => wire::order_of(order).map_err(CallError::Garbled),
            Err(status) => Err(CallError::of(&status)),
        }))
    }

    /// The agent takes an order, or does not.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn ack_control(
        &self,
        run: RunId,
        control: &ControlId,
        result: AckResult,
        detail: &Untrusted,
    ) -> Result<(), CallError> {
        let request = wire::ask_ack_control(run, control, result, detail);
        self.work(request, Agent::ack_control, done).await
    }

    /// The agent of these runs is there; gives the server's clock.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn heartbeat(&self, runs: &[RunId]) -> Result<Timestamp, CallError> {
        let request = wire::ask_heartbeat(runs);
        self.work(request, Agent::heartbeat, wire::server_time)
            .await
    }
}

fn done<A>(_answer: A) -> Result<(), Garbled> {
    Ok(())
}

/// Trying again.
impl Client {
    async fn person<Q: Clone, A, T>(
        &self,
        request: Q,
        call: impl AsyncFn(&mut Operator, Q) -> Result<Response<A>, Status> + Copy,
        read: fn(A) -> Result<T, Garbled>,
    ) -> Result<T, CallError> {
        let mut tried = 1;
        loop {
            match self.person_call(request.clone(), call, read).await {
                Err(error) if tried < TRIES && error.may_pass() => sleep(pause(tried)).await,
                heard => return heard,
            }
            tried += 1;
        }
    }

    async fn person_call<Q, A, T>(
        &self,
        request: Q,
        call: impl AsyncFn(&mut Operator, Q) -> Result<Response<A>, Status> + Copy,
        read: fn(A) -> Result<T, Garbled>,
    ) -> Result<T, CallError> {
        let mut to = self.operator();
        let answer = timeout(CALL_TIMEOUT, call(&mut to, request)).await;
        self.heard(answer, CALL_TIMEOUT, read)
    }

    async fn work<Q: Clone, A, T>(
        &self,
        request: Q,
        call: impl AsyncFn(&mut Agent, Q) -> Result<Response<A>, Status> + Copy,
        read: fn(A) -> Result<T, Garbled>,
    ) -> Result<T, CallError> {
        let mut tried = 1;
        loop {
            match self.agent_call(request.clone(), call, read).await {
                Err(error) if tried < TRIES && error.may_pass() => sleep(pause(tried)).await,
                heard => return heard,
            }
            tried += 1;
        }
    }

    async fn agent_call<Q, A, T>(
        &self,
        request: Q,
        call: impl AsyncFn(&mut Agent, Q) -> Result<Response<A>, Status> + Copy,
        read: fn(A) -> Result<T, Garbled>,
    ) -> Result<T, CallError> {
        let mut to = self.agent();
        let answer = timeout(AWAIT_TIMEOUT, call(&mut to, request)).await;
        self.heard(answer, AWAIT_TIMEOUT, read)
    }

    fn heard<A, T>(
        &self,
        answer: Result<Result<Response<A>, Status>, Elapsed>,
        waited: Duration,
        read: fn(A) -> Result<T, Garbled>,
    ) -> Result<T, CallError> {
        let heard = match answer {
            Ok(Ok(response)) => read(response.into_inner()).map_err(CallError::Garbled),
            Ok(Err(status)) => Err(CallError::of(&status)),
            Err(Elapsed { .. }) => Err(CallError::silent(waited)),
        };
        if let Err(CallError::NoServer(_)) = heard {
            self.reconnect();
        }
        heard
    }
}

impl CallError {
    pub(super) fn silent(waited: Duration) -> Self {
        Self::NoServer(format!("no answer for {} s", waited.as_secs()))
    }

    /// What a status means: our own refusals are in its detail; without one, the connection failed
    /// or something else answered.
    pub(super) fn of(status: &Status) -> Self {
        if let Some(told) = refused(status) {
            return Self::Refused(Box::new(told));
        }
        match status.code() {
            Code::Unavailable
            | Code::Unknown
            | Code::Cancelled
            | Code::Internal
            | Code::Aborted
            | Code::DeadlineExceeded => Self::NoServer(cause(status)),
            code => {
                let message = Untrusted::new(status.message());
                Self::Garbled(Garbled(format!("{code}: {}", message.line())))
            }
        }
    }

    /// Whether the same call may go through a moment later.
    fn may_pass(&self) -> bool {
        match self {
            Self::Refused(told) => ["unavailable", "busy", "rate_limited"].contains(&&*told.word),
            Self::NoServer(_) => true,
            Self::Garbled(_) => false,
        }
    }
}

/// The innermost reason, which is the one that says something: «Connection refused».
fn cause(status: &Status) -> String {
    let mut innermost = status.source();
    while let Some(inner) = innermost.and_then(Error::source) {
        innermost = Some(inner);
    }
    let said = innermost.map_or_else(|| status.message().to_owned(), ToString::to_string);
    Untrusted::new(said).line().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::wire::status::status;
    use registry::Refusal;

    fn is_send<T: Send>(future: T) -> T {
        future
    }

    #[test]
    fn only_what_may_pass_is_sent_again() {
        let ours = |refusal: Refusal| CallError::of(&status(&refusal));
        let rows = [
            (ours(Refusal::Busy), true),
            (ours(Refusal::RateLimited), true),
            (ours(Refusal::Unavailable("no space".into())), true),
            (ours(Refusal::ThreadBusy), false),
            (ours(Refusal::NotFound("approval")), false),
            (CallError::of(&Status::unavailable("gone")), true),
            (CallError::of(&Status::unimplemented("what?")), false),
            (CallError::of(&Status::out_of_range("too long")), false),
            (CallError::silent(CALL_TIMEOUT), true),
        ];
        for (error, may_pass) in rows {
            assert_eq!(error.may_pass(), may_pass, "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_that_was_never_there_is_said_at_once() {
        let nowhere: Server = "unix:/nonexistent/pilothouse.sock".parse().unwrap();
        let client = Client::connect(nowhere, Some(Token::parse("s3cret").unwrap()));
        let shown = format!("{client:?}");
        assert!(
            shown.contains("***") && !shown.contains("s3cret"),
            "{shown}"
        );
        let begun = Instant::now();
        let id = ApprovalId::mint(Timestamp::from_ms(1), 1);
        let wait = WaitId::parse("w").unwrap();
        let day = Duration::from_secs(86_400);
        let error = is_send(client.await_(id, &wait, day)).await.unwrap_err();
        let CallError::NoServer(why) = &error else {
            panic!("{error}")
        };
        assert!(why.contains("No such file"), "{why}");
        let error = is_send(client.whoami()).await.unwrap_err();
        assert!(matches!(error, CallError::NoServer(_)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
