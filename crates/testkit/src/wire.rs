//! A blocking connection that sends what it is told, right or wrong.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstem_protocol::frame::{DEFAULT_MAX_REQUEST_BYTES, check_response_length};
use mainstem_protocol::{RequestHeader, ResponseFrame};

use crate::wait::PATIENCE;

/// One frame from the server, or the end of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// SUCCESS.
    Success {
        /// Id of the request.
        id: i32,
        /// Encoded message.
        body: Bytes,
    },
    /// ERROR: the request failed.
    Error {
        /// Id of the request.
        id: i32,
        /// Code of wire.md §5.1.
        code: i32,
        /// Text for the user.
        message: String,
    },
    /// SERVER_FAILURE: the connection failed.
    Failure {
        /// Code of wire.md §5.1.
        code: i32,
        /// Text for the user.
        message: String,
    },
    /// The server has closed the connection.
    Closed,
}

impl Answer {
    /// The message of a success.
    ///
    /// # Panics
    /// If it is none.
    pub fn expect_success(self) -> Bytes {
        match self {
            Self::Success { body, .. } => body,
            other => panic!("a success was expected, not {other:?}"),
        }
    }

    /// Code of an ERROR frame; `None` for anything else.
    pub fn error_code(&self) -> Option<i32> {
        match self {
            Self::Error { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    next_id: i32,
    received: Vec<u8>,
}

impl Wire {
    /// Connects, and sends nothing.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).expect("a socket option");
        Self {
            stream,
            next_id: 0,
            received: Vec::new(),
        }
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes; false if the server has closed the connection.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream
            .set_write_timeout(Some(PATIENCE))
            .expect("a socket option");
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a request; returns its id.
    ///
    /// # Panics
    /// If the connection is closed.
    pub fn send(&mut self, api_key: i16, api_version: i16, body: &[u8]) -> i32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let sent = self.send_bytes(&Self::frame(api_key, api_version, id, body));
        assert!(sent, "the connection is closed");
        id
    }

    /// No more requests: the server sees the end of the stream.
    pub fn end_requests(&self) {
        // The other side may be gone already, which is the end as well.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes with a reset instead of an orderly end.
    ///
    /// # Panics
    /// If the option cannot be set.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))
            .expect("a socket option");
    }

    /// The next answer.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    pub fn receive(&mut self) -> Answer {
        self.receive_within(PATIENCE)
            .expect("the server must answer")
    }

    /// The next answer, if it comes in time.
    pub fn receive_within(&mut self, limit: Duration) -> Option<Answer> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = self.take_frame() {
                return Some(answer);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.stream
                .set_read_timeout(Some(left))
                .expect("a socket option");
            let mut buffer = [0; 64 << 10];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Some(Answer::Closed),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return None,
                    ErrorKind::Interrupted => {}
                    _ => return Some(Answer::Closed),
                },
            }
        }
    }

    /// Sends a request and returns its answer; no other may be under way.
    pub fn call(&mut self, api_key: i16, api_version: i16, body: &[u8]) -> Answer {
        let sent = self.send(api_key, api_version, body);
        let answer = self.receive();
        if let Answer::Success { id, .. } | Answer::Error { id, .. } = &answer {
            assert_eq!(*id, sent, "an answer to another request");
        }
        answer
    }

    /// A whole request with an id of one's own, length included.
    ///
    /// # Panics
    /// If it does not fit a frame.
    pub fn frame(api_key: i16, api_version: i16, id: i32, body: &[u8]) -> Vec<u8> {
        let header = RequestHeader {
            api_key,
            api_version,
            request_id: id,
        };
        let mut frame = header.encode(body.len() as u64).expect("a length").to_vec();
        frame.extend_from_slice(body);
        frame
    }

    fn take_frame(&mut self) -> Option<Answer> {
        let field: [u8; 4] = self.received.get(..4)?.try_into().ok()?;
        let length = check_response_length(field, DEFAULT_MAX_REQUEST_BYTES).expect("a length");
        if self.received.len() < 4 + length {
            return None;
        }
        let rest = self.received.split_off(4 + length);
        let frame = std::mem::replace(&mut self.received, rest).split_off(4);
        Some(
            match ResponseFrame::parse(frame.into()).expect("a response") {
                ResponseFrame::Success {
                    request_id: id,
                    body,
                } => Answer::Success { id, body },
                ResponseFrame::Error {
                    request_id: id,
                    error,
                } => {
                    let error = error.expect("an error response");
                    Answer::Error {
                        id,
                        code: error.error_code.expect("a code"),
                        message: error.error_message.unwrap_or_default(),
                    }
                }
                ResponseFrame::ServerFailure { error } => {
                    let error = error.expect("an error response");
                    Answer::Failure {
                        code: error.error_code.expect("a code"),
                        message: error.error_message.unwrap_or_default(),
                    }
                }
            },
        )
    }
}
