//! Auto-increment numbers (tables.md §4.9, cluster.md §5.8).

use std::ops::RangeInclusive;

use mainstem_types::TableId;

use crate::MetaError;

/// Gives out the numbers of auto-increment columns, in ranges.
pub trait SequenceSource: Send + Sync {
    /// Takes the next `count` numbers of a column, which no other call gets, not
    /// even after a crash. The first number of a column is 1. The range is
    /// shorter than asked for only where [`i64::MAX`] ends it; a `count` below 1
    /// is taken as 1. Blocks until the range is durable.
    ///
    /// Whether the numbers fit the column's type is for the caller to check.
    ///
    /// # Errors
    /// [`MetaError::NotFound`]: the table does not exist.
    /// [`MetaError::Exhausted`]: the column had the last number.
    /// [`MetaError::Conflict`]: somebody else took numbers at the same time, or
    /// is in charge now.
    /// [`MetaError::Unavailable`] and others: the store failed; numbers may have
    /// been lost, and are never given out later.
    fn take(
        &self,
        table: TableId,
        column_id: i32,
        count: i64,
    ) -> Result<RangeInclusive<i64>, MetaError>;
}
