//! How a request fails.

use mainstem_meta::MetaError;
use mainstem_protocol::DecodeError;
use mainstem_types::{ErrorCode, TableError};

/// The answer to a request that failed: what the client acts on and what its
/// user reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// Code of wire.md §5.1.
    pub code: ErrorCode,
    /// Text for the user.
    pub message: String,
}

impl ApiError {
    /// An error of that code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<TableError> for ApiError {
    fn from(error: TableError) -> Self {
        Self {
            code: error.code,
            message: error.message,
        }
    }
}

/// Code 2, which no client retries: the same bytes cannot fare better.
impl From<DecodeError> for ApiError {
    fn from(error: DecodeError) -> Self {
        Self::new(ErrorCode::UnsupportedVersion, error.to_string())
    }
}

/// A store that fails for a while is worth another try, a damaged one is not.
impl From<MetaError> for ApiError {
    fn from(error: MetaError) -> Self {
        let code = match &error {
            MetaError::Unavailable { .. } | MetaError::Conflict { .. } => {
                ErrorCode::StorageException
            }
            MetaError::NotFound { .. } => ErrorCode::UnknownTableOrBucket,
            MetaError::Exhausted { .. }
            | MetaError::SessionExpired { .. }
            | MetaError::Compacted { .. }
            | MetaError::TooLarge { .. }
            | MetaError::Locked { .. }
            | MetaError::Corrupt { .. } => ErrorCode::UnknownServerError,
        };
        Self::new(code, error.to_string())
    }
}
