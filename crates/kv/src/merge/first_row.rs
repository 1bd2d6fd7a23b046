//! The first row of a key is kept (tables.md §4.6).

use mainstem_format::Value;

use super::{Merged, RowMerger};
use crate::Result;

/// The rule; it has no parameters.
#[derive(Debug)]
pub(super) struct FirstRow;

impl RowMerger for FirstRow {
    fn upsert<'a>(&self, old: Option<&[Value<'a>]>, _new: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(match old {
            Some(_) => Merged::Unchanged,
            None => Merged::AsSent,
        })
    }

    /// Tables with this engine take no deletes.
    fn delete<'a>(&self, _old: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(Merged::Unchanged)
    }
}
