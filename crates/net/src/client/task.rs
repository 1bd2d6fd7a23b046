//! The task that owns the socket of a client's connection.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use mainstem_protocol::frame::check_response_length;
use mainstem_protocol::messages::ErrorResponse;
use mainstem_protocol::{DecodeError, FrameError, RequestHeader, ResponseFrame};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::frame_memory::FrameMemory;
use crate::frame_reader::{FrameReader, ReadError};
use crate::outbound::{FileSender, Outbound, SendMethod};
use crate::{NetError, Segment};

/// Bytes to send at which no more calls are taken.
const OUTBOUND_BYTES: usize = 4 * 1024 * 1024;
/// Calls without an answer, given up ones included, at which no more are taken.
const MAX_PENDING: usize = 65_536;
/// Response memory kept for reuse, and how often it is looked through.
const RETAINED_BYTES: usize = 8 * 1024 * 1024;
const TRIM_PERIOD: Duration = Duration::from_secs(10);
/// As much as the server takes, or gives, before other tasks get their turn.
const TURN_BYTES: u64 = 1024 * 1024;

/// A call on its way to the task.
pub(super) struct Outgoing {
    pub(super) api_key: i16,
    pub(super) api_version: i16,
    pub(super) body: Vec<Bytes>,
    pub(super) answer: Answer,
}

pub(super) type Answer = oneshot::Sender<Result<Bytes, NetError>>;

pub(super) struct Task {
    stream: TcpStream,
    calls: mpsc::Receiver<Outgoing>,
    memory: Arc<FrameMemory>,
    reader: FrameReader,
    out: Outbound,
    pending: HashMap<i32, Answer>,
    next_id: i32,
    end: Arc<OnceLock<String>>,
}

/// Why the connection is lost.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("closed by the server")]
    Server,
    #[error("closed")]
    Dropped,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("server failure {}: {}", .0.error_code.unwrap_or(-1), .0.error_message())]
    Failure(ErrorResponse),
    #[error("undecodable server failure: {0}")]
    UnreadableFailure(#[from] DecodeError),
}

impl Task {
    pub(super) fn new(
        stream: TcpStream,
        calls: mpsc::Receiver<Outgoing>,
        max_response_bytes: u64,
        end: Arc<OnceLock<String>>,
    ) -> Self {
        // What is in memory is what callers have asked for and hold.
        let memory = FrameMemory::new(u64::MAX, RETAINED_BYTES);
        Task {
            stream,
            calls,
            reader: FrameReader::new(
                Arc::clone(&memory),
                check_response_length,
                max_response_bytes,
            ),
            memory,
            out: Outbound::new(FileSender::new(SendMethod::Copy, 1)),
            pending: HashMap::new(),
            next_id: 0,
            end,
        }
    }

    /// Runs until the connection is lost, or nobody is interested in it.
    pub(super) async fn run(mut self) {
        let Err(end) = self.exchange().await;
        let _ = self.end.set(end.to_string());
        // No more calls are taken; those that wait see the reason.
        self.calls.close();
        for (_, answer) in self.pending.drain() {
            let error = match &end {
                End::Failure(failure) => api_error(failure.clone()),
                other => NetError::Disconnected(other.to_string()),
            };
            let _ = answer.send(Err(error));
        }
    }

    async fn exchange(&mut self) -> Result<std::convert::Infallible, End> {
        let mut trim = tokio::time::interval(TRIM_PERIOD);
        let mut turn_start = 0;
        loop {
            let takes_calls =
                self.out.memory_bytes() < OUTBOUND_BYTES && self.pending.len() < MAX_PENDING;
            tokio::select! {
                biased;
                call = self.calls.recv(), if takes_calls => match call {
                    Some(call) => {
                        self.take(call);
                        self.take_waiting();
                    }
                    None => return Err(End::Dropped),
                },
                flushed = self.out.flush(&self.stream), if !self.out.is_empty() => flushed?,
                frame = self.reader.next(&self.stream) => {
                    let mut next = Some(frame?.ok_or(End::Server)?);
                    while let Some(frame) = next {
                        self.deliver(ResponseFrame::parse(frame)?)?;
                        next = self.reader.buffered()?;
                    }
                }
                _ = trim.tick() => self.memory.trim(),
            }
            let moved = self.reader.received() + self.out.written();
            if moved - turn_start >= TURN_BYTES {
                turn_start = moved;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes the calls that wait, so that they are sent together.
    fn take_waiting(&mut self) {
        while self.out.memory_bytes() < OUTBOUND_BYTES && self.pending.len() < MAX_PENDING {
            match self.calls.try_recv() {
                Ok(call) => self.take(call),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, call: Outgoing) {
        let length = call.body.iter().map(|part| part.len() as u64).sum();
        let header = RequestHeader {
            api_key: call.api_key,
            api_version: call.api_version,
            request_id: self.next_id,
        };
        let Some(encoded) = header.encode(length) else {
            let _ = call
                .answer
                .send(Err(NetError::RequestTooLarge { bytes: length }));
            return;
        };
        self.out.push_small(&encoded);
        for part in call.body {
            self.out.push(Segment::Bytes(part));
        }
        self.pending.insert(header.request_id, call.answer);
        // fluss-rs masks to 31 bits, Java wraps through negative values; both
        // are fine. After two thousand million requests the first have answers.
        self.next_id = self.next_id.checked_add(1).unwrap_or(0);
    }

    /// Gives a response to its caller. Those that nobody waits for are ignored.
    fn deliver(&mut self, frame: ResponseFrame) -> Result<(), End> {
        let (request_id, result) = match frame {
            ResponseFrame::Success { request_id, body } => (request_id, Ok(body)),
            ResponseFrame::Error { request_id, error } => (
                request_id,
                Err(error.map_or_else(NetError::from, api_error)),
            ),
            ResponseFrame::ServerFailure { error } => return Err(End::Failure(error?)),
        };
        if let Some(answer) = self.pending.remove(&request_id) {
            let _ = answer.send(result);
        }
        Ok(())
    }
}

fn api_error(error: ErrorResponse) -> NetError {
    NetError::Api {
        code: error.error_code.unwrap_or(-1),
        message: error.error_message.unwrap_or_default(),
    }
}
