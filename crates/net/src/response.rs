//! Response bodies made of memory and file ranges.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

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
