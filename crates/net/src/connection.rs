//! One connection of a server.
//!
//! One task does everything: it takes frames off the socket and starts them in
//! the order of arrival, polls the requests in flight, and sends responses as
//! they become ready. Nothing is locked, a response that is ready at once needs
//! no other task to be woken, and those that are ready together leave together.
//! While the peer does not take what is there, while too much is in flight, or
//! while others need the memory, the socket is not read ([`crate::admission`]).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use mainstem_protocol::frame::{
    check_request_length, encode_error, encode_server_failure, encode_success_header,
};
use mainstem_protocol::{ApiError, FrameError, RequestHeader};
use mainstem_types::ErrorCode;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::admission::{Admission, Share};
use crate::frame_reader::{FrameReader, ReadError};
use crate::handshake::{ANONYMOUS, ApiTable, Decision, Handshake, SecurityProtocol, success};
use crate::in_flight::{InFlight, Ticket, Times, panicked};
use crate::outbound::{FileSender, Outbound};
use crate::sasl::Credentials;
use crate::stats::{RequestObserver, RequestOutcome, ServerStats, count};
use crate::{Reply, Request, Response, Segment, Service, Session};

/// Largest frame before authentication: a login is far smaller.
const UNAUTHENTICATED_MAX_BYTES: u64 = 64 * 1024;
/// So much is taken off the socket, or sent, before other tasks get their turn.
const TURN_BYTES: u64 = 1024 * 1024;
/// A burst of requests ends when so much is to be sent.
const BURST_RESPONSE_BYTES: u64 = 64 * 1024;
/// How often a connection that waits for others looks again.
const RECHECK: Duration = Duration::from_millis(50);
/// How often a connection whose peer takes nothing looks whether it must go.
const RECHECK_BLOCKED: Duration = Duration::from_secs(2);
/// How long a peer may take nothing while its responses keep memory that others
/// need.
const BLOCKED_MAX: Duration = Duration::from_secs(10);
/// How long and how much is read, and thrown away, after a failure, so that it
/// reaches the peer: closing with unread bytes resets the connection.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 1024 * 1024;

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) apis: Arc<ApiTable>,
    pub(crate) credentials: Arc<dyn Credentials>,
    pub(crate) files: Arc<FileSender>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) observer: Option<Arc<dyn RequestObserver>>,
    pub(crate) max_request_bytes: u64,
    pub(crate) max_idle: Duration,
    /// No more requests; those in flight are answered.
    pub(crate) stop: CancellationToken,
    /// The end, whatever is in flight.
    pub(crate) kill: CancellationToken,
}

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) id: u64,
    pub(crate) listener: String,
    pub(crate) internal: bool,
    pub(crate) protocol: SecurityProtocol,
    pub(crate) peer: SocketAddr,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("closed by the peer")]
    Peer,
    #[error("idle")]
    Idle,
    #[error("the server stops")]
    Stopped,
    #[error("the peer took no response while memory was short")]
    Blocked,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot send: {0}")]
    Write(std::io::Error),
}

/// Serves a connection until it ends.
pub(crate) async fn serve(stream: TcpStream, origin: Origin, shared: Arc<Shared>) {
    count(&shared.stats.open, 1);
    let (id, peer) = (origin.id, origin.peer);
    let mut connection = Connection::new(stream, origin, shared);
    let end = connection.run().await;
    // Connecting and closing, and bytes of another protocol, are everyday
    // events of any open port.
    debug!(id, %peer, "connection ended: {end}");
    if let End::Read(ReadError::Frame(error)) = end {
        connection.fail(error).await;
    }
    connection.count_bytes();
    connection
        .shared
        .stats
        .open
        .fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
}

/// Tells the service when the connection is gone. Dropped after the futures.
struct OpenSession {
    session: Arc<Session>,
    service: Arc<dyn Service>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.service.closed(&self.session);
    }
}

/// A request that keeps the connection from being read.
enum Held {
    /// It waits for its turn among all connections.
    Turn {
        header: RequestHeader,
        body: Bytes,
        arrived: Option<Instant>,
        permit: BoxFuture<'static, Option<OwnedSemaphorePermit>>,
    },
    /// A wrong login, answered after a while.
    Login {
        request_id: i32,
        response: Response,
        delay: std::pin::Pin<Box<Sleep>>,
    },
}

/// A response on its way, for the observer.
struct Sending {
    /// Position in the outgoing bytes after its last one.
    end: u64,
    ready: Instant,
    outcome: RequestOutcome,
}

struct Connection {
    stream: TcpStream,
    origin: Origin,
    shared: Arc<Shared>,
    handshake: Handshake,
    reader: FrameReader,
    out: Outbound,
    // Fields drop in order: futures before the session that is told of it.
    in_flight: FuturesUnordered<InFlight>,
    held: Option<Held>,
    session: Option<OpenSession>,
    share: Share,
    sending: VecDeque<Sending>,
    /// Bytes read and written that are in the statistics.
    counted: (u64, u64),
    /// Bytes since other tasks had their turn.
    turn_start: u64,
}

impl Connection {
    fn new(stream: TcpStream, origin: Origin, shared: Arc<Shared>) -> Self {
        let handshake = Handshake::new(
            Arc::clone(&shared.apis),
            &origin.listener,
            origin.protocol,
            Arc::clone(&shared.credentials),
        );
        let limit = UNAUTHENTICATED_MAX_BYTES.min(shared.max_request_bytes);
        let mut connection = Connection {
            reader: FrameReader::new(
                Arc::clone(&shared.stats.memory),
                check_request_length,
                limit,
            ),
            out: Outbound::new(Arc::clone(&shared.files)),
            share: shared.stats.admission.share(),
            stream,
            origin,
            shared,
            handshake,
            in_flight: FuturesUnordered::new(),
            held: None,
            session: None,
            sending: VecDeque::new(),
            counted: (0, 0),
            turn_start: 0,
        };
        if connection.handshake.is_authenticated() {
            connection.open_session(ANONYMOUS.to_owned());
        }
        connection
    }

    fn open_session(&mut self, principal: String) {
        let session = Arc::new(Session {
            id: self.origin.id,
            listener: self.origin.listener.clone(),
            internal: self.origin.internal,
            peer: self.origin.peer,
            principal,
        });
        let service = Arc::clone(&self.shared.service);
        self.session = Some(OpenSession { session, service });
        self.reader.set_limit(self.shared.max_request_bytes);
    }

    async fn run(&mut self) -> End {
        let shared = Arc::clone(&self.shared);
        // Tokens of its own: polling one takes a lock.
        let stop = shared.stop.child_token().cancelled_owned();
        let kill = shared.kill.child_token().cancelled_owned();
        let mut activity = Activity::new(shared.max_idle);
        let check_idle = sleep(activity.period());
        tokio::pin!(stop, kill, check_idle);
        let mut stopping = false;
        loop {
            self.settle();
            if stopping && self.in_flight.is_empty() && self.out.is_empty() && self.held.is_none() {
                return End::Stopped;
            }
            let admission = self.share.admission();
            let reads = admission == Admission::Open && self.held.is_none() && !stopping;
            let recheck = match admission {
                Admission::WaitForOthers => RECHECK,
                _ => RECHECK_BLOCKED,
            };
            let rechecks = admission == Admission::WaitForOthers || !self.out.is_empty();
            tokio::select! {
                biased;
                () = &mut stop, if !stopping => stopping = true,
                () = &mut kill, if stopping => return End::Stopped,
                Some(first) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    self.answer(first);
                    while let Some(Some(next)) = self.in_flight.next().now_or_never() {
                        self.answer(next);
                    }
                }
                flushed = self.out.flush(&self.stream), if !self.out.is_empty() => {
                    if let Err(error) = flushed {
                        return End::Write(error);
                    }
                }
                permit = next_turn(&mut self.held), if self.held.is_some() => {
                    self.go_on(permit);
                }
                frame = self.reader.next(&self.stream), if reads => match frame {
                    Ok(Some(frame)) => {
                        if let Err(error) = self.burst(frame) {
                            return End::Read(error.into());
                        }
                    }
                    Ok(None) => return End::Peer,
                    Err(error) => return End::Read(error),
                },
                () = pause(recheck), if rechecks => {
                    if self.out.blocked() > BLOCKED_MAX
                        && shared.stats.admission.is_short_of_response_memory()
                    {
                        return End::Blocked;
                    }
                }
                () = &mut check_idle => {
                    if activity.is_idle(self.reader.received(), self.out.written()) {
                        return End::Idle;
                    }
                    check_idle.as_mut().reset(Instant::now() + activity.period());
                }
            }
            let moved = self.reader.received() + self.out.written();
            if moved - self.turn_start >= TURN_BYTES {
                self.turn_start = moved;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Brings totals and statistics up to date.
    fn settle(&mut self) {
        self.share
            .set(self.in_flight.len(), self.out.memory_bytes());
        self.count_bytes();
        if let Some(observer) = &self.shared.observer {
            while let Some(mut sent) = self
                .sending
                .pop_front_if(|sending| sending.end <= self.out.written())
            {
                sent.outcome.send_time = sent.ready.elapsed();
                observer.on_request(&sent.outcome);
            }
        }
    }

    fn count_bytes(&mut self) {
        let now = (self.reader.received(), self.out.written());
        if now != self.counted {
            count(&self.shared.stats.received_bytes, now.0 - self.counted.0);
            count(&self.shared.stats.sent_bytes, now.1 - self.counted.1);
            self.counted = now;
        }
    }

    /// Starts a request and those that have arrived with it.
    fn burst(&mut self, first: Bytes) -> Result<(), FrameError> {
        let arrived = self.shared.observer.is_some().then(Instant::now);
        let mut next = Some(first);
        while let Some(frame) = next {
            let (header, body) = RequestHeader::parse(frame)?;
            count(&self.shared.stats.requests, 1);
            self.start(header, body, arrived);
            self.share
                .set(self.in_flight.len(), self.out.memory_bytes());
            let goes_on = self.held.is_none()
                && self.out.unsent() < BURST_RESPONSE_BYTES
                && self.share.admission() == Admission::Open;
            next = if goes_on {
                self.reader.buffered()?
            } else {
                None
            };
        }
        Ok(())
    }

    fn start(&mut self, header: RequestHeader, body: Bytes, arrived: Option<Instant>) {
        match self.handshake.on_request(&header, &body) {
            Decision::Pass => {
                match Arc::clone(&self.shared.stats.admission.calls).try_acquire_owned() {
                    Ok(permit) => self.call(header, body, arrived, Some(permit)),
                    Err(_) => {
                        let calls = Arc::clone(&self.shared.stats.admission.calls);
                        let permit = calls.acquire_owned().map(Result::ok).boxed();
                        self.held = Some(Held::Turn {
                            header,
                            body,
                            arrived,
                            permit,
                        });
                    }
                }
            }
            Decision::Answer(response) => {
                self.respond(header.request_id, response);
            }
            Decision::Authenticated(user) => {
                self.open_session(user);
                self.respond(header.request_id, success());
            }
            Decision::Rejected(response, delay) => {
                warn!(peer = %self.origin.peer, listener = %self.origin.listener, "login refused");
                if delay.is_zero() {
                    self.respond(header.request_id, response);
                } else {
                    let delay = Box::pin(sleep(delay));
                    let request_id = header.request_id;
                    self.held = Some(Held::Login {
                        request_id,
                        response,
                        delay,
                    });
                }
            }
        }
    }

    /// What was held goes on.
    fn go_on(&mut self, permit: Option<OwnedSemaphorePermit>) {
        match self.held.take() {
            Some(Held::Turn {
                header,
                body,
                arrived,
                ..
            }) => {
                self.call(header, body, arrived, permit);
            }
            Some(Held::Login {
                request_id,
                response,
                ..
            }) => {
                self.respond(request_id, response);
            }
            None => {}
        }
    }

    /// Hands a request to the service. The permit is returned with the call.
    fn call(
        &mut self,
        header: RequestHeader,
        body: Bytes,
        arrived: Option<Instant>,
        _permit: Option<OwnedSemaphorePermit>,
    ) {
        let Some(OpenSession { session, service }) = &self.session else {
            // Unreachable: without a session the handshake lets nothing pass.
            return self.respond_with_panic(header.request_id);
        };
        let ticket = Ticket {
            request_id: header.request_id,
            api_key: header.api_key,
            request_bytes: body.len() as u64,
            times: arrived.map(|arrived| Times {
                arrived,
                called: Instant::now(),
            }),
        };
        let request = Request {
            api_key: header.api_key,
            api_version: header.api_version,
            body,
        };
        match catch_unwind(AssertUnwindSafe(|| service.call(session, request))) {
            Ok(Reply::Now(response)) => self.answer((ticket, Some(response))),
            Ok(Reply::Later(future)) => self.in_flight.push(InFlight { ticket, future }),
            Err(_) => self.answer((ticket, None)),
        }
    }

    fn respond_with_panic(&mut self, request_id: i32) {
        count(&self.shared.stats.panics, 1);
        self.respond(request_id, panicked());
    }

    /// Queues the answer of the service.
    fn answer(&mut self, (ticket, response): (Ticket, Option<Response>)) {
        let response = response.unwrap_or_else(|| {
            error!(api_key = ticket.api_key, "a request panicked");
            count(&self.shared.stats.panics, 1);
            panicked()
        });
        let start = self.out.queued();
        let error_code = self.respond(ticket.request_id, response);
        if let Some(times) = ticket.times {
            let ready = Instant::now();
            let end = self.out.queued();
            let outcome = RequestOutcome {
                api_key: ticket.api_key,
                request_bytes: ticket.request_bytes,
                response_bytes: end - start,
                error_code,
                queue_time: times.called - times.arrived,
                process_time: ready - times.called,
                send_time: Duration::ZERO,
            };
            self.sending.push_back(Sending {
                end,
                ready,
                outcome,
            });
        }
    }

    /// Queues a response; the code if it is an error.
    fn respond(&mut self, request_id: i32, response: Response) -> Option<i32> {
        let response = match response {
            Response::Success(parts) => {
                let length = parts.iter().map(Segment::length).sum();
                match encode_success_header(request_id, length) {
                    Some(header) => {
                        self.out.push_small(&header);
                        parts.into_iter().for_each(|part| self.out.push(part));
                        return None;
                    }
                    None => {
                        let text = format!("the response of {length} bytes exceeds a frame");
                        ApiError::new(ErrorCode::UnknownServerError, text).into()
                    }
                }
            }
            error => error,
        };
        let Response::Error { code, message } = response else {
            return None;
        };
        // 0 would be taken for success.
        let code = if code == 0 {
            ErrorCode::UnknownServerError.code()
        } else {
            code
        };
        count(&self.shared.stats.errors, 1);
        self.out
            .push_small(&encode_error(request_id, code, &message));
        Some(code)
    }

    /// Tells the peer that it does not speak the protocol.
    async fn fail(&mut self, error: FrameError) {
        self.in_flight.clear();
        let code = ErrorCode::UnknownServerError.code();
        self.out.push(Segment::Bytes(encode_server_failure(
            code,
            &error.to_string(),
        )));
        let farewell = async {
            while !self.out.is_empty() {
                self.out.flush(&self.stream).await?;
            }
            SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)?;
            let mut rest = [0; 4096];
            let mut thrown_away = 0;
            while thrown_away < LINGER_BYTES {
                self.stream.readable().await?;
                match self.stream.try_read(&mut rest) {
                    Ok(0) => break,
                    Ok(read) => thrown_away += read,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            Ok::<(), std::io::Error>(())
        };
        // The peer may be gone, or may not care; there is nothing to do about it.
        let _ = tokio::time::timeout(LINGER, farewell).await;
    }
}

/// [`sleep`] that costs nothing until it is polled.
async fn pause(duration: Duration) {
    sleep(duration).await;
}

/// Waits until the held request may go on; the permit if it needs one.
async fn next_turn(held: &mut Option<Held>) -> Option<OwnedSemaphorePermit> {
    match held {
        Some(Held::Turn { permit, .. }) => permit.await,
        Some(Held::Login { delay, .. }) => {
            delay.await;
            None
        }
        None => None,
    }
}

/// Finds out whether nothing has moved for a while, by looking now and then.
struct Activity {
    max_idle: Duration,
    moved: (u64, u64),
    last: Instant,
}

impl Activity {
    fn new(max_idle: Duration) -> Self {
        Activity {
            max_idle,
            moved: (0, 0),
            last: Instant::now(),
        }
    }

    /// Time between looks: an idle connection lives at most a quarter too long.
    fn period(&self) -> Duration {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        (self.max_idle / 4).clamp(Duration::from_millis(1), DAY)
    }

    fn is_idle(&mut self, received: u64, written: u64) -> bool {
        if self.moved != (received, written) {
            self.moved = (received, written);
            self.last = Instant::now();
        }
        self.last.elapsed() >= self.max_idle
    }
}
