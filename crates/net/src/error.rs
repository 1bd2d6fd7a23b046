//! What can go wrong, by what the caller can do about it.

use std::io;
use std::net::SocketAddr;

use mainstem_protocol::DecodeError;
use mainstem_types::ErrorCode;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A port cannot be opened: choose another, or free it.
    #[error("listener {listener} cannot open {address}: {source}")]
    Bind {
        /// Name of the listener.
        listener: String,
        /// Address asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No connection could be made: try again or elsewhere.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address asked for.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The connection is lost, and with it every request in flight; whether the
    /// server has carried them out is not known. Connect again.
    #[error("connection lost: {0}")]
    Disconnected(String),
    /// No answer came in time; the server may still carry the request out.
    #[error("no answer after {millis} ms")]
    Timeout {
        /// Time waited.
        millis: u128,
    },
    /// The server answered with an error.
    #[error("error {code}: {message}")]
    Api {
        /// Code of wire.md §5.1.
        code: i32,
        /// Text of the server, maybe empty.
        message: String,
    },
    /// The server does not offer the API in a version that we have.
    #[error("the server does not support API {api_key} in version {api_version}")]
    UnsupportedVersion {
        /// Key asked for.
        api_key: i16,
        /// Version asked for.
        api_version: i16,
    },
    /// The request does not fit a frame.
    #[error("request of {bytes} bytes is too large for a frame")]
    RequestTooLarge {
        /// Length of the message.
        bytes: u64,
    },
    /// The answer is not what the protocol says.
    #[error("undecodable answer: {0}")]
    Decode(#[from] DecodeError),
}

impl NetError {
    /// Whether the same call can succeed later, on this server or another.
    pub fn is_retriable(&self) -> bool {
        match self {
            NetError::Connect { .. } | NetError::Disconnected(_) | NetError::Timeout { .. } => true,
            NetError::Api { code, .. } => ErrorCode::from_wire(*code).is_retriable(),
            NetError::Bind { .. }
            | NetError::UnsupportedVersion { .. }
            | NetError::RequestTooLarge { .. }
            | NetError::Decode(_) => false,
        }
    }
}
