//! The agent side of a recorded session, played again over a real connection.
//!
//! Invariant: what goes up are the recorded bytes in the recorded order. Only the ids that the other side gives out
//! (stream, control, annotation) are replaced by those that it gave out this time. Times are not played.
//!
//! A `control` line is a place to wait: the agent answers a control that has come, whatever it holds. Who lets the
//! door send something else than the recording did gets the recorded answer to it.

use std::{collections::VecDeque, fs, future::Future, net, path::Path, sync::mpsc, time::Duration};

use hyper_util::rt::TokioIo;
use pilothouse::wire::pb::{
    goldfive::v1::{ControlEvent, Event, control_event, event},
    harmonograf::v1::{
        SubscribeControlRequest, TelemetryDown, TelemetryUp, telemetry_down, telemetry_up,
    },
};
use prost::{
    Message,
    bytes::{Buf, BufMut},
};
use tokio::{net::TcpStream, sync::mpsc as queue, time::timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint, Uri},
};

/// Longer than anything on loopback takes, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// One agent that plays its part.
pub(crate) struct Replay {
    ahead: VecDeque<Line>,
    channel: Channel,
    socket: net::TcpStream,
    up: queue::UnboundedSender<Vec<u8>>,
    down: queue::UnboundedReceiver<Vec<u8>>,
    arriving: queue::UnboundedReceiver<Arrived>,
    arrivals: queue::UnboundedSender<Arrived>,
    arrived: Vec<Arrived>,
    answered: usize,
    renamed: Vec<Renamed>,
}

/// A control that came.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    /// The stream id of the subscription that it came on.
    pub(crate) subscription: String,
    pub(crate) event: ControlEvent,
}

impl Arrived {
    pub(crate) fn agent_id(&self) -> &str {
        self.event
            .target
            .as_ref()
            .map_or("", |target| &target.agent_id)
    }

    /// Target and words of a decision; empty for anything else.
    pub(crate) fn decision(&self) -> (&str, &str) {
        match &self.event.payload {
            Some(control_event::Payload::Approve(it)) => (&it.target_id, &it.detail),
            Some(control_event::Payload::Reject(it)) => (&it.target_id, &it.detail),
            _ => ("", ""),
        }
    }
}

impl Replay {
    /// Connects to `http://host:port` and opens the telemetry stream; nothing has been sent yet.
    pub(crate) async fn open(endpoint: &str, capture: &str) -> Replay {
        let (channel, socket) = connect(endpoint).await;
        let (up, frames) = queue::unbounded_channel();
        let (down_tx, down) = queue::unbounded_channel();
        let (arrivals, arriving) = queue::unbounded_channel();
        let mut telemetry = Grpc::new(channel.clone());
        tokio::spawn(async move {
            telemetry.ready().await?;
            let request = Request::new(UnboundedReceiverStream::new(frames));
            let path = "/harmonograf.v1.Harmonograf/StreamTelemetry".parse()?;
            let mut answers = telemetry.streaming(request, path, Raw).await?.into_inner();
            while let Some(frame) = answers.message().await? {
                let _ = down_tx.send(frame);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
        let ahead = lines(capture).into();
        let (arrived, renamed) = (Vec::new(), Vec::new());
        Replay {
            ahead,
            channel,
            socket,
            up,
            down,
            arriving,
            arrivals,
            arrived,
            answered: 0,
            renamed,
        }
    }

    /// Plays on until the agent waits for a control; false if it has nothing more to do.
    pub(crate) async fn until_control(&mut self) -> bool {
        if self.waits() {
            self.control().await;
        }
        while !self.waits() {
            let Some(line) = self.ahead.pop_front() else {
                return false;
            };
            self.play(line).await;
        }
        true
    }

    /// Plays one line.
    pub(crate) async fn step(&mut self) {
        let line = self.ahead.pop_front().expect("something more to do");
        self.play(line).await;
    }

    /// The control that the agent waits for.
    pub(crate) async fn control(&mut self) -> Arrived {
        assert!(self.waits(), "the agent waits for no control here");
        let recorded = self
            .ahead
            .pop_front()
            .map(|line| decode::<ControlEvent>(&line.bytes))
            .unwrap();
        while self.arrived.len() <= self.answered {
            let next = within("a control", self.arriving.recv()).await;
            self.arrived.extend(next);
        }
        let ours = self.arrived[self.answered].clone();
        self.answered += 1;
        self.rename(&recorded.id, &ours.event.id);
        if let (Some(was), Some(is)) = (annotation(&recorded), annotation(&ours.event)) {
            self.rename(was, is);
        }
        ours
    }

    /// Plays all that is left, waiting wherever the agent waited.
    pub(crate) async fn rest(&mut self) {
        while self.until_control().await {}
    }

    /// Every control that has come so far, also those that nobody waited for.
    pub(crate) fn controls(&mut self) -> &[Arrived] {
        while let Ok(next) = self.arriving.try_recv() {
            self.arrived.push(next);
        }
        &self.arrived
    }

    /// Closes the telemetry stream from this side and waits until the other side has closed it, too.
    pub(crate) async fn finish(mut self) -> Vec<Arrived> {
        drop(std::mem::replace(
            &mut self.up,
            queue::unbounded_channel().0,
        ));
        while within("the end of the telemetry stream", self.down.recv())
            .await
            .is_some()
        {}
        self.controls().to_vec()
    }

    /// Ends the connection as the death of the process does: no goodbye, no half-close.
    pub(crate) fn kill(mut self) -> Vec<Arrived> {
        self.socket.shutdown(net::Shutdown::Both).unwrap();
        self.controls().to_vec()
    }

    fn waits(&self) -> bool {
        self.ahead
            .front()
            .is_some_and(|line| line.direction == Direction::Control)
    }

    async fn play(&mut self, line: Line) {
        match line.direction {
            Direction::Up => self
                .up
                .send(with_renamed(&line.bytes, &self.renamed))
                .unwrap(),
            Direction::Down => self.expect_down(&line).await,
            Direction::Subscribe => self.subscribe(decode(&line.bytes)).await,
            Direction::Control => unreachable!("waited for in `control`"),
        }
    }

    async fn expect_down(&mut self, line: &Line) {
        let ours = within(&line.name, self.down.recv())
            .await
            .expect("the server ended the telemetry stream");
        let recorded = decode::<TelemetryDown>(&line.bytes);
        match (recorded.msg, decode::<TelemetryDown>(&ours).msg) {
            (Some(telemetry_down::Msg::Welcome(was)), Some(telemetry_down::Msg::Welcome(is))) => {
                self.rename(&was.assigned_stream_id, &is.assigned_stream_id);
            }
            (was, is) => panic!("recorded: {was:?}, came: {is:?}"),
        }
    }

    /// Returns when the server has taken the subscription.
    async fn subscribe(&mut self, mut request: SubscribeControlRequest) {
        request.stream_id = renamed_text(&request.stream_id, &self.renamed);
        let path = "/harmonograf.v1.Harmonograf/SubscribeControl"
            .parse()
            .unwrap();
        let mut grpc = Grpc::new(self.channel.clone());
        within("a ready connection", grpc.ready()).await.unwrap();
        let call = grpc.server_streaming(Request::new(request.encode_to_vec()), path, Raw);
        let mut controls = within("a subscription", call).await.unwrap().into_inner();
        let (arrivals, subscription) = (self.arrivals.clone(), request.stream_id);
        tokio::spawn(async move {
            while let Ok(Some(bytes)) = controls.message().await {
                let _ = arrivals.send(Arrived {
                    subscription: subscription.clone(),
                    event: decode(&bytes),
                });
            }
        });
    }

    fn rename(&mut self, was: &str, is: &str) {
        self.renamed.push(Renamed {
            was: was.to_owned(),
            is: is.to_owned(),
        });
    }
}

/// One line of a capture.
pub(crate) struct Line {
    pub(crate) direction: Direction,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
    Subscribe,
    Control,
}

/// The lines of a file in `tests/captures/harmonograf`: `.frames`, or `.hex`, which has only frames that go up.
pub(crate) fn lines(capture: &str) -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/captures/harmonograf")
        .join(capture);
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(line).collect()
}

fn line(text: &str) -> Line {
    let parts: Vec<&str> = text.split(' ').collect();
    let (direction, name, size, hex) = match parts[..] {
        [_, "up", name, size, hex] | [name, size, hex] => (Direction::Up, name, size, hex),
        [_, "down", name, size, hex] => (Direction::Down, name, size, hex),
        [_, "subscribe", name, size, hex] => (Direction::Subscribe, name, size, hex),
        [_, "control", name, size, hex] => (Direction::Control, name, size, hex),
        _ => panic!("no line of a capture: {text}"),
    };
    let bytes = bytes(hex);
    assert_eq!(bytes.len(), size.parse::<usize>().unwrap(), "{text}");
    Line {
        direction,
        name: name.to_owned(),
        bytes,
    }
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// An id of the recording, and the one that stands for it this time.
struct Renamed {
    was: String,
    is: String,
}

/// The frame with this time's ids. A frame without a recorded id goes as it is, byte by byte.
fn with_renamed(frame: &[u8], renamed: &[Renamed]) -> Vec<u8> {
    if !renamed.iter().any(|id| holds(frame, &id.was)) {
        return frame.to_vec();
    }
    let mut up = decode::<TelemetryUp>(frame);
    match &mut up.msg {
        Some(telemetry_up::Msg::ControlAck(ack)) => {
            ack.control_id = renamed_text(&ack.control_id, renamed)
        }
        Some(telemetry_up::Msg::GoldfiveEvent(raw)) => {
            let mut event = decode::<Event>(raw);
            event
                .payload
                .iter_mut()
                .flat_map(ids_in)
                .for_each(|text| *text = renamed_text(text, renamed));
            *raw = event.encode_to_vec();
        }
        other => panic!("an id in a frame that is not looked into: {other:?}"),
    }
    let sent = up.encode_to_vec();
    for id in renamed.iter().filter(|id| id.was != id.is) {
        assert!(
            !holds(&sent, &id.was),
            "{} stands where it is not looked for: {up:?}",
            id.was
        );
    }
    sent
}

/// Where an agent repeats the id of a control or of an annotation.
fn ids_in(payload: &mut event::Payload) -> Vec<&mut String> {
    match payload {
        event::Payload::DriftDetected(drift) => vec![&mut drift.annotation_id],
        event::Payload::TaskCancelled(task) => vec![&mut task.reason],
        event::Payload::PlanRevised(revised) => {
            let plan = revised
                .plan
                .as_mut()
                .map(|plan| &mut plan.revision_trigger_event_id);
            plan.into_iter()
                .chain([&mut revised.trigger_event_id])
                .collect()
        }
        _ => vec![],
    }
}

fn renamed_text(text: &str, renamed: &[Renamed]) -> String {
    renamed
        .iter()
        .fold(text.to_owned(), |text, id| text.replace(&id.was, &id.is))
}

fn holds(bytes: &[u8], id: &str) -> bool {
    bytes
        .windows(id.len())
        .any(|window| window == id.as_bytes())
}

fn annotation(control: &ControlEvent) -> Option<&str> {
    match &control.payload {
        Some(control_event::Payload::Steer(steer)) => Some(&steer.annotation_id),
        _ => None,
    }
}

/// One connection, and a second handle on its socket to end it from outside.
pub(crate) async fn connect(endpoint: &str) -> (Channel, net::TcpStream) {
    let (handle_tx, handle) = mpsc::channel();
    let dial = tower::service_fn(move |uri: Uri| {
        let handle_tx = handle_tx.clone();
        async move {
            let to = (
                uri.host().unwrap_or_default().to_owned(),
                uri.port_u16().unwrap_or(80),
            );
            let socket = TcpStream::connect(to).await?.into_std()?;
            let _ = handle_tx.send(socket.try_clone()?);
            std::io::Result::Ok(TokioIo::new(TcpStream::from_std(socket)?))
        }
    });
    let endpoint = Endpoint::from_shared(endpoint.to_owned()).unwrap();
    let channel = within("a connection", endpoint.connect_with_connector(dial))
        .await
        .unwrap();
    (channel, handle.try_recv().unwrap())
}

async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}

fn decode<M: Message + Default>(bytes: &[u8]) -> M {
    M::decode(bytes).unwrap()
}

/// Messages as the bytes they are.
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).into()))
    }
}

#[test]
fn every_id_that_an_agent_repeats_is_looked_for() {
    for capture in super::goldfive_wire::SESSIONS {
        let lines = lines(capture);
        let controls = lines
            .iter()
            .filter(|line| line.direction == Direction::Control);
        let renamed: Vec<Renamed> = controls
            .map(|line| decode::<ControlEvent>(&line.bytes))
            .flat_map(|control| {
                [
                    Some(control.id.clone()),
                    annotation(&control).map(str::to_owned),
                ]
            })
            .flatten()
            .map(|was| Renamed {
                was,
                is: "another".to_owned(),
            })
            .collect();
        let frames = lines.iter().filter(|line| line.direction == Direction::Up);
        let changed = frames
            .filter(|line| with_renamed(&line.bytes, &renamed) != line.bytes)
            .count();
        let expected = match *capture {
            "session-open-task.frames" => 0,
            "session-two-sessions.frames" => 2,
            "session-escalation.frames" => 4,
            _ => 1,
        };
        assert_eq!(changed, expected, "{capture}");
    }
}

/// A stand-in for the door, so that the replayer is proven before there is one; goes when the door's own tests replay.
mod against_a_stand_in {
    use std::sync::{Arc, Mutex};

    use pilothouse::wire::{
        goldfive::{self, AckResult, Frame, What},
        pb::harmonograf::v1::harmonograf_server::{Harmonograf, HarmonografServer},
    };
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{Response, Streaming, transport::Server};

    use super::*;

    /// Welcomes everybody as `ours`, approves everything, and sends that to whoever subscribed first.
    #[derive(Clone)]
    struct StandIn {
        seen: Arc<Mutex<Seen>>,
        approvals: queue::UnboundedSender<Result<ControlEvent, Status>>,
        for_the_first: Arc<Mutex<Option<Controls>>>,
        ended: queue::UnboundedSender<Result<(), Status>>,
    }

    type Controls = queue::UnboundedReceiver<Result<ControlEvent, Status>>;

    #[derive(Default)]
    struct Seen {
        frames: Vec<TelemetryUp>,
        subscriptions: Vec<String>,
    }

    type Answers<T> = UnboundedReceiverStream<Result<T, Status>>;

    #[tonic::async_trait]
    impl Harmonograf for StandIn {
        type StreamTelemetryStream = Answers<TelemetryDown>;
        type SubscribeControlStream = Answers<ControlEvent>;

        async fn stream_telemetry(
            &self,
            request: Request<Streaming<TelemetryUp>>,
        ) -> Result<Response<Self::StreamTelemetryStream>, Status> {
            let (down, answers) = queue::unbounded_channel();
            let (mut frames, door) = (request.into_inner(), self.clone());
            tokio::spawn(async move {
                let end = loop {
                    match frames.message().await {
                        Ok(Some(up)) => door.take(up, &down),
                        Ok(None) => break Ok(()),
                        Err(status) => break Err(status),
                    }
                };
                let _ = door.ended.send(end);
            });
            Ok(Response::new(UnboundedReceiverStream::new(answers)))
        }

        async fn subscribe_control(
            &self,
            request: Request<SubscribeControlRequest>,
        ) -> Result<Response<Self::SubscribeControlStream>, Status> {
            self.seen
                .lock()
                .unwrap()
                .subscriptions
                .push(request.into_inner().stream_id);
            let nothing = || queue::unbounded_channel().1;
            let controls = self
                .for_the_first
                .lock()
                .unwrap()
                .take()
                .unwrap_or_else(nothing);
            Ok(Response::new(UnboundedReceiverStream::new(controls)))
        }
    }

    impl StandIn {
        fn take(
            &self,
            up: TelemetryUp,
            down: &queue::UnboundedSender<Result<TelemetryDown, Status>>,
        ) {
            let mut seen = self.seen.lock().unwrap();
            seen.frames.push(up.clone());
            match goldfive::frame(up) {
                Frame::Hello(hello) => {
                    let _ = down.send(Ok(goldfive::welcome(&hello.session_id, "ours", 0)));
                }
                Frame::Event(event) => {
                    if let What::ApprovalRequested(asked) = event.what {
                        let answer =
                            goldfive::answer("c1", "agent", &asked.target_id, true, "yes", 0);
                        let _ = self.approvals.send(Ok(answer));
                    }
                }
                _ => {}
            }
        }
    }

    async fn stand_in() -> (
        String,
        Arc<Mutex<Seen>>,
        queue::UnboundedReceiver<Result<(), Status>>,
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (approvals, controls) = queue::unbounded_channel();
        let (ended, ends) = queue::unbounded_channel();
        let seen = Arc::<Mutex<Seen>>::default();
        let for_the_first = Arc::new(Mutex::new(Some(controls)));
        let door = StandIn {
            seen: seen.clone(),
            approvals,
            for_the_first,
            ended,
        };
        let server = Server::builder().add_service(HarmonografServer::new(door));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (endpoint, seen, ends)
    }

    #[tokio::test]
    async fn a_session_is_played_with_the_ids_of_this_time() {
        let (endpoint, seen, _) = stand_in().await;
        let mut agent = Replay::open(&endpoint, "session-approved.frames").await;

        assert!(agent.until_control().await);
        let control = agent.control().await;
        assert_eq!(control.subscription, "ours");
        assert_eq!(control.agent_id(), "agent");
        assert_eq!(control.decision(), ("t7", "yes"));
        agent.rest().await;
        assert_eq!(agent.finish().await.len(), 1);

        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let recorded = lines("session-approved.frames");
        let recorded: Vec<&Line> = recorded
            .iter()
            .filter(|line| line.direction == Direction::Up)
            .collect();
        assert_eq!(seen.frames.len(), recorded.len());
        for (came, line) in seen.frames.into_iter().zip(recorded) {
            match line.name.as_str() {
                "control_ack" => assert_eq!(
                    goldfive::frame(came),
                    Frame::Ack {
                        control_id: "c1".to_owned(),
                        result: AckResult::Success,
                        detail: "approve dispatched to t7".to_owned()
                    }
                ),
                _ => assert_eq!(came.encode_to_vec(), line.bytes),
            }
        }
    }

    #[tokio::test]
    async fn a_subscription_that_is_older_than_the_welcome_keeps_its_bare_prefix() {
        let (endpoint, seen, _) = stand_in().await;
        let mut agent = Replay::open(&endpoint, "session-two-sessions.frames").await;
        agent.rest().await;
        let controls = agent.finish().await;
        assert!(
            controls
                .iter()
                .all(|control| control.subscription == "str.sess:sess-a")
        );
        assert_eq!(controls.len(), 2);
        assert_eq!(
            seen.lock().unwrap().subscriptions,
            ["str.sess:sess-a", "ours", "ours.sess:sess-b"]
        );
    }

    #[tokio::test]
    async fn a_killed_agent_says_nothing() {
        let (endpoint, seen, mut ends) = stand_in().await;
        let mut agent = Replay::open(&endpoint, "session-open-task.frames").await;
        assert!(!agent.until_control().await);
        agent.kill();
        let end = within("the end of the stream", ends.recv()).await.unwrap();
        assert!(end.is_err(), "a half-close: {end:?}");
        let last = seen.lock().unwrap().frames.pop().map(goldfive::frame);
        assert!(!matches!(last, Some(Frame::Goodbye { .. })));
    }
}
