//! The error type of the crate.

use std::io;
use std::path::{Path, PathBuf};

use mainstem_env::is_disk_full;
use mainstem_types::{LeaderEpoch, WriterId};

/// Why a log tablet did not do what it was asked. Variants are by what the
/// caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The offset is not in the local log (wire code 19). An offset equal to
    /// `end` is one to wait at, not an error.
    #[error("offset {requested} is outside of the log, which reaches from {start} to {end}")]
    OffsetOutOfRange {
        /// What was asked for.
        requested: i64,
        /// Log start offset.
        start: i64,
        /// Log end offset (exclusive).
        end: i64,
    },
    /// The writer's batch does not follow its last one (wire code 31). Nothing
    /// was appended.
    #[error("writer {writer_id} sent batch sequence {sequence}, expected is {expected}")]
    OutOfOrderSequence {
        /// The writer.
        writer_id: WriterId,
        /// The sequence it sent.
        sequence: i32,
        /// The one that would have been accepted.
        expected: i32,
    },
    /// A replicated batch does not begin at the end of the log. Agree with the
    /// leader on where the logs part, truncate, fetch again.
    #[error("batch begins at offset {actual}, the log ends at {expected}")]
    UnexpectedOffset {
        /// End of the log.
        expected: i64,
        /// First offset of the batch.
        actual: i64,
    },
    /// The caller's leader epoch is older than one already in the log.
    #[error("leader epoch {given} is older than {current}")]
    StaleLeaderEpoch {
        /// Latest epoch in the log.
        current: LeaderEpoch,
        /// Epoch of the caller.
        given: LeaderEpoch,
    },
    /// The batches cannot be appended as they are; sending them again will not
    /// help.
    #[error("invalid append: {0}")]
    InvalidAppend(String),
    /// No room on the disk, or the quota is used up. Nothing was appended, and
    /// appends succeed again once there is room (wire code 10, which every
    /// client retries).
    #[error("no space left to {operation}")]
    DiskFull {
        /// What was tried.
        operation: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk failed. Nothing was appended or changed that this log would
    /// show or acknowledge.
    #[error("cannot {operation}: {source}")]
    Storage {
        /// What was tried.
        operation: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The tablet takes no more writes, because what a failed sync or cut left
    /// on disk is unknown. Reads go on. Open it anew.
    #[error("the log takes no writes until it is opened anew: {0}")]
    Failed(String),
    /// Acknowledged data was found damaged or missing when the tablet was
    /// opened; it serves what is readable and takes no writes.
    #[error("the log is quarantined and readable only up to offset {readable_end}: {reason}")]
    Quarantined {
        /// End of what can be read (exclusive).
        readable_end: i64,
        /// What is wrong.
        reason: String,
    },
    /// Bytes of the log that were written once cannot be read as batches.
    #[error("{path:?} is damaged at byte {position}: {reason}")]
    Damaged {
        /// The segment file.
        path: PathBuf,
        /// First byte of the damaged batch.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The tablet was closed or removed.
    #[error("the log is closed")]
    Closed,
}

impl LogError {
    /// Whether the same request may succeed later without anybody doing
    /// anything but making room.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }

    /// The error of a failed operation on `path`.
    pub(crate) fn io(verb: &str, path: &Path, source: io::Error) -> Self {
        let operation = format!("{verb} {}", path.display());
        if is_disk_full(&source) {
            Self::DiskFull { operation, source }
        } else {
            Self::Storage { operation, source }
        }
    }

    pub(crate) fn damaged(path: PathBuf, position: u64, reason: impl Into<String>) -> Self {
        Self::Damaged {
            path,
            position,
            reason: reason.into(),
        }
    }

    /// Whether a read that may not wait would have to.
    pub(crate) fn would_block(&self) -> bool {
        matches!(self, Self::Storage { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether a file that was expected is not there, because it was deleted
    /// while a reader was on its way to it.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self, Self::Storage { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
