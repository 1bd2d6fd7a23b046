//! What can go wrong, by what the caller can do about it.

use crate::Revision;

/// An error of the metadata store or of a record in it.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// A precondition of a transaction did not hold; nothing was changed. Read
    /// again and decide again.
    #[error("metadata key '{key}' was changed by somebody else")]
    Conflict {
        /// The key whose version was not the required one.
        key: String,
    },
    /// A key that has to be there is not: what it belonged to was removed.
    #[error("metadata key '{key}' does not exist")]
    NotFound {
        /// The key.
        key: String,
    },
    /// A sequence has given out its last number. Nothing helps.
    #[error("all numbers of '{key}' are used up")]
    Exhausted {
        /// Key of the sequence.
        key: String,
    },
    /// The session is closed or expired; its keys are gone. Open a new one.
    #[error("metadata session {session} has expired")]
    SessionExpired {
        /// The session.
        session: u64,
    },
    /// A watch asked for changes that are no longer kept. List again.
    #[error("changes before metadata revision {oldest} are no longer kept")]
    Compacted {
        /// The oldest revision from which changes are complete.
        oldest: Revision,
    },
    /// A key or value is over the limit. Nothing was changed.
    #[error("metadata key '{key}' has a value of {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The key.
        key: String,
        /// Size of the value.
        bytes: usize,
        /// Largest size allowed.
        limit: usize,
    },
    /// Another process has the store open.
    #[error("the metadata store {path} is in use by another process")]
    Locked {
        /// Path of the file.
        path: String,
    },
    /// The disk or the store behind it failed. If a transaction ended with
    /// this, it may or may not have been applied: read before retrying.
    #[error("metadata store is not available: {reason}")]
    Unavailable {
        /// What failed.
        reason: String,
    },
    /// Stored bytes are damaged, or written by a later version.
    #[error("metadata is unreadable at '{place}': {reason}")]
    Corrupt {
        /// Key or file.
        place: String,
        /// What was expected and found.
        reason: String,
    },
}

impl MetaError {
    /// Whether the same call can succeed later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Unavailable { .. })
    }
}
