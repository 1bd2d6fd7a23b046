//! What can go wrong in the client, by what the caller can do about it.

use mainstem_net::NetError;
use thiserror::Error;

/// Result of client calls.
pub type Result<T> = std::result::Result<T, ClientError>;

/// Failure of a client call.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server answered with an error code (wire.md §5.1).
    #[error("{message} (error {code})")]
    Api {
        /// Code.
        code: i32,
        /// Text from the server.
        message: String,
    },
    /// No answer: connection refused, lost, or too slow.
    #[error("{0}")]
    Net(NetError),
    /// The answer, or a stored batch, is not what the protocol promises.
    #[error("malformed data from the server: {0}")]
    Malformed(String),
    /// The call makes no sense for this table, or its data does not fit.
    #[error("{0}")]
    Usage(String),
    /// Gave up after retries; the text holds the last reason.
    #[error("gave up after {seconds} s: {last}")]
    GaveUp {
        /// How long it was tried.
        seconds: u64,
        /// The last failure.
        last: String,
    },
}

impl From<NetError> for ClientError {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Api { code, message } => Self::Api { code, message },
            other => Self::Net(other),
        }
    }
}

impl ClientError {
    /// Whether the same call may succeed later (column R of wire.md §5.1).
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Api { code, .. } => {
                matches!(
                    code,
                    1 | 3 | 9 | 10 | 11 | 12 | 14 | 21 | 25 | 26 | 28 | 29 | 44 | 70 | 72 | 73
                )
            }
            Self::Net(error) => error.is_retriable(),
            Self::Malformed(_) | Self::Usage(_) | Self::GaveUp { .. } => false,
        }
    }

    /// Whether the location of the bucket is to be asked again first.
    pub fn is_stale_metadata(&self) -> bool {
        matches!(
            self,
            Self::Api {
                code: 12 | 21 | 44,
                ..
            } | Self::Net(_)
        )
    }

    /// An absent field of an answer.
    pub(crate) fn absent(field: &str) -> Self {
        Self::Malformed(format!("{field} is absent"))
    }
}
