//! Response bodies made of memory and file ranges.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_protocol::{ApiError, BodyPart};
use prost::Message;

/// A part of a response body.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Bytes),
    /// `length` bytes of a file from `position`. The range does not change
    /// while it is sent (segments of a log are append-only).
    File {
        /// The open file.
        file: Arc<File>,
        /// First byte.
        position: u64,
        /// Number of bytes.
        length: u64,
    },
}

impl Segment {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::File { length, .. } => *length,
        }
    }
}

impl From<Bytes> for Segment {
    fn from(bytes: Bytes) -> Self {
        Segment::Bytes(bytes)
    }
}

impl BodyPart for Segment {
    fn length(&self) -> u64 {
        Segment::length(self)
    }
}

/// What a request is answered with (wire.md §1.3).
#[derive(Clone, Debug)]
pub enum Response {
    /// SUCCESS: the encoded response message, in parts.
    Success(Vec<Segment>),
    /// ERROR: code and text.
    Error {
        /// Code of wire.md §5.1, never 0.
        code: i32,
        /// Text for the user.
        message: String,
    },
}

impl Response {
    /// SUCCESS with a message.
    pub fn message(message: &impl Message) -> Self {
        let body = message.encode_to_vec();
        Response::Success(vec![Segment::Bytes(Bytes::from(body))])
    }

    /// ERROR with a code, which is not 0, and a text.
    pub fn error(code: i32, message: impl Into<String>) -> Self {
        Response::Error {
            code,
            message: message.into(),
        }
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        Response::Error {
            code: error.code.code(),
            message: error.message,
        }
    }
}
