//! Frames: what surrounds a message on the connection (wire.md §1.1–1.3).
//!
//! A frame is a big-endian length, which does not count itself, and that many
//! bytes. Requests carry key, version and id before the message; responses a
//! type byte and, except for failures of the whole connection, the id.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::decode::{DecodeError, decode};
use crate::messages::ErrorResponse;

/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 4;
/// Bytes of a request before its message, after the length.
pub const REQUEST_HEADER_BYTES: usize = 8;
/// Bytes of a SUCCESS or ERROR response before its message, after the length.
pub const RESPONSE_HEADER_BYTES: usize = 5;

/// Largest request that the server of the reference accepts: compared with
/// length + 4.
pub const DEFAULT_MAX_REQUEST_BYTES: u64 = 100 * 1024 * 1024;

const SUCCESS: u8 = 0;
const ERROR: u8 = 1;
const SERVER_FAILURE: u8 = 2;

/// Text of a SERVER_FAILURE whose cause has none. fluss-rs takes the first
/// bytes of the message for a request id and panics if there are fewer than
/// four (wire.md §1.5), so there always is a text.
const FAILURE_TEXT: &str = "connection failed";

/// Why a length field is no frame of ours. The connection cannot go on: where
/// the next frame begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Less than a header.
    #[error("frame of {length} bytes is shorter than its header of {minimum}")]
    TooShort {
        /// Claimed length.
        length: u32,
        /// Least length.
        minimum: usize,
    },
    /// More than the limit. Negative lengths are among these, read as unsigned.
    #[error("frame of {length} bytes is longer than {limit} allow")]
    TooLong {
        /// Claimed length.
        length: u32,
        /// The limit, compared with the length plus 4.
        limit: u64,
    },
    /// A response type that the protocol does not have.
    #[error("unknown response type {0}")]
    UnknownType(u8),
}

/// Checks the length field of a request; `limit` bounds the frame with its
/// length field.
///
/// # Errors
///
/// [`FrameError::TooShort`] and [`FrameError::TooLong`].
pub fn check_request_length(field: [u8; LENGTH_BYTES], limit: u64) -> Result<usize, FrameError> {
    check_length(field, REQUEST_HEADER_BYTES, limit)
}

/// Checks the length field of a response.
///
/// # Errors
///
/// [`FrameError::TooShort`] and [`FrameError::TooLong`].
pub fn check_response_length(field: [u8; LENGTH_BYTES], limit: u64) -> Result<usize, FrameError> {
    // A failure frame has a type only.
    check_length(field, 1, limit)
}

fn check_length(
    field: [u8; LENGTH_BYTES],
    minimum: usize,
    limit: u64,
) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(field);
    if u64::from(length) + LENGTH_BYTES as u64 > limit || length > i32::MAX as u32 {
        return Err(FrameError::TooLong { length, limit });
    }
    if (length as usize) < minimum {
        return Err(FrameError::TooShort { length, minimum });
    }
    Ok(length as usize)
}

/// What stands before the message of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Key of the API, known or not.
    pub api_key: i16,
    /// Version, in the range of the API or not.
    pub api_version: i16,
    /// Chosen by the client; echoed in the response.
    pub request_id: i32,
}

impl RequestHeader {
    /// Splits a frame, without its length field, into header and message.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooShort`].
    pub fn parse(mut frame: Bytes) -> Result<(RequestHeader, Bytes), FrameError> {
        if frame.len() < REQUEST_HEADER_BYTES {
            let length = frame.len() as u32;
            return Err(FrameError::TooShort {
                length,
                minimum: REQUEST_HEADER_BYTES,
            });
        }
        let header = RequestHeader {
            api_key: frame.get_i16(),
            api_version: frame.get_i16(),
            request_id: frame.get_i32(),
        };
        Ok((header, frame))
    }

    /// Length field and header of a request whose message has `body_bytes`;
    /// `None` if a frame cannot be that long.
    pub fn encode(self, body_bytes: u64) -> Option<[u8; LENGTH_BYTES + REQUEST_HEADER_BYTES]> {
        let mut out = [0; LENGTH_BYTES + REQUEST_HEADER_BYTES];
        let mut rest = &mut out[..];
        rest.put_i32(frame_length(REQUEST_HEADER_BYTES, body_bytes)?);
        rest.put_i16(self.api_key);
        rest.put_i16(self.api_version);
        rest.put_i32(self.request_id);
        Some(out)
    }
}

/// Length field and header of a SUCCESS response whose message has
/// `body_bytes`; `None` if a frame cannot be that long.
pub fn encode_success_header(
    request_id: i32,
    body_bytes: u64,
) -> Option<[u8; LENGTH_BYTES + RESPONSE_HEADER_BYTES]> {
    let mut out = [0; LENGTH_BYTES + RESPONSE_HEADER_BYTES];
    let mut rest = &mut out[..];
    rest.put_i32(frame_length(RESPONSE_HEADER_BYTES, body_bytes)?);
    rest.put_u8(SUCCESS);
    rest.put_i32(request_id);
    Some(out)
}

fn frame_length(header_bytes: usize, body_bytes: u64) -> Option<i32> {
    i32::try_from(body_bytes.checked_add(header_bytes as u64)?).ok()
}

/// A whole ERROR frame. An empty text is left out: the client shows its own for
/// the code.
pub fn encode_error(request_id: i32, code: i32, message: &str) -> Bytes {
    debug_assert_ne!(code, 0, "0 means success and is never in an error frame");
    let body = ErrorResponse {
        error_code: Some(code),
        error_message: (!message.is_empty()).then(|| message.to_owned()),
    };
    let length = RESPONSE_HEADER_BYTES + body.encoded_len();
    let mut out = BytesMut::with_capacity(LENGTH_BYTES + length);
    out.put_u32(length as u32);
    out.put_u8(ERROR);
    out.put_i32(request_id);
    body.encode_raw(&mut out);
    out.freeze()
}

/// A whole SERVER_FAILURE frame; the connection is closed after it.
pub fn encode_server_failure(code: i32, message: &str) -> Bytes {
    let message = if message.len() < 4 {
        FAILURE_TEXT
    } else {
        message
    };
    let body = ErrorResponse {
        error_code: Some(code),
        error_message: Some(message.to_owned()),
    };
    let length = 1 + body.encoded_len();
    let mut out = BytesMut::with_capacity(LENGTH_BYTES + length);
    out.put_u32(length as u32);
    out.put_u8(SERVER_FAILURE);
    body.encode_raw(&mut out);
    out.freeze()
}

/// A response as a client sees it, without its length field.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseFrame {
    /// The message of the response, still encoded.
    Success {
        /// Id of the request.
        request_id: i32,
        /// The message.
        body: Bytes,
    },
    /// The request failed.
    Error {
        /// Id of the request.
        request_id: i32,
        /// Code and text. An undecodable one is itself the error of the request,
        /// so that its caller does not wait for ever.
        error: Result<ErrorResponse, DecodeError>,
    },
    /// The connection failed.
    ServerFailure {
        /// Code and text.
        error: Result<ErrorResponse, DecodeError>,
    },
}

impl ResponseFrame {
    /// Reads a frame without its length field.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooShort`], [`FrameError::UnknownType`]: the connection
    /// cannot go on.
    pub fn parse(mut frame: Bytes) -> Result<ResponseFrame, FrameError> {
        let length = frame.len();
        let too_short = |minimum| {
            Err(FrameError::TooShort {
                length: length as u32,
                minimum,
            })
        };
        if length < 1 {
            return too_short(1);
        }
        let response_type = frame.get_u8();
        if response_type == SERVER_FAILURE {
            return Ok(ResponseFrame::ServerFailure {
                error: decode(frame),
            });
        }
        if length < RESPONSE_HEADER_BYTES {
            return too_short(RESPONSE_HEADER_BYTES);
        }
        let request_id = frame.get_i32();
        match response_type {
            SUCCESS => Ok(ResponseFrame::Success {
                request_id,
                body: frame,
            }),
            ERROR => Ok(ResponseFrame::Error {
                request_id,
                error: decode(frame),
            }),
            other => Err(FrameError::UnknownType(other)),
        }
    }
}

#[cfg(test)]
mod tests;
