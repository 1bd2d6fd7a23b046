//! How an old row and a new row make the row that is kept (tables.md §4.5–4.7).
//!
//! All rows here have the columns of the table's latest schema, in its order;
//! columns that a row's own schema does not have are null.

mod aggregate;
mod bitmap32;
mod bitmap64;
mod first_row;
mod function;
mod last_row;
mod partial;
mod rules;
mod target;
mod versioned;

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use mainstem_format::Value;

use crate::Result;

pub use rules::MergeRules;

/// What becomes of the row of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Merged<'a> {
    /// The stored row stays, or there still is none: no changelog record.
    Unchanged,
    /// The row that was sent is stored, with the bytes and the schema id that the
    /// client gave it.
    AsSent,
    /// This row is stored, with the latest schema.
    Row(Vec<Value<'a>>),
    /// The row is removed.
    Removed,
}

/// A rule. Made for one version of the table and one list of target columns, by
/// [`MergeRules::merger`].
pub trait RowMerger: Debug + Send + Sync {
    /// A row is sent for a key; `old` is the stored one.
    ///
    /// # Errors
    /// The values cannot be merged; the whole batch is refused.
    fn upsert<'a>(&self, old: Option<&[Value<'a>]>, new: &[Value<'a>]) -> Result<Merged<'a>>;

    /// The key is deleted; `old` is the stored row. Whether the table takes deletes
    /// at all is decided elsewhere.
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert).
    fn delete<'a>(&self, old: &[Value<'a>]) -> Result<Merged<'a>>;

    /// Whether every upsert is stored as sent and every delete removes the row,
    /// whatever the stored row is: it need not be read to be merged.
    fn is_plain(&self) -> bool {
        false
    }
}
