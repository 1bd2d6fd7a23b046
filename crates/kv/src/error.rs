//! What can go wrong with the rows of a bucket, by what the caller can do.

use mainstem_format::FormatError;
use thiserror::Error;

/// An error; nothing of the request was applied.
#[derive(Clone, Debug, Error)]
pub enum KvError {
    /// Bytes of the request are damaged or cannot be decoded (14).
    #[error("{0}")]
    Corrupt(String),
    /// The batch names a schema that the table does not have (9).
    #[error("Invalid schema id: {schema_id}, latest schema id: {latest}")]
    UnknownSchema {
        /// Named.
        schema_id: i16,
        /// Newest there is.
        latest: i16,
    },
    /// The columns that the request wants to write do not fit the table (35).
    #[error("{0}")]
    InvalidTarget(String),
    /// The table refuses deletes (57).
    #[error("Delete operations are disabled for this table.")]
    DeletionDisabled,
    /// All numbers of the auto-increment column are used up (−1).
    #[error("Reached maximum value of sequence {0}")]
    SequenceOverflow(String),
    /// The store would make the writer wait; nothing was written (72).
    #[error("the store of the bucket is busy: {0}")]
    Stalled(String),
    /// The store, or a file beside it, failed (10).
    #[error("the store of the bucket failed: {0}")]
    Storage(String),
    /// The disk is full; what is there can be read (10).
    #[error("the store of the bucket has no room: {0}")]
    DiskFull(String),
    /// What the store or the changelog holds is damaged (10). The store has to be
    /// built anew from the changelog.
    #[error("the store of the bucket is damaged: {0}")]
    Damaged(String),
    /// No range of auto-increment numbers can be had now (10).
    #[error("no auto-increment numbers can be had: {0}")]
    NoSequence(String),
}

impl From<FormatError> for KvError {
    fn from(error: FormatError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// A result with a [`KvError`].
pub type Result<T> = std::result::Result<T, KvError>;
