//! Some columns are written, the others stay (tables.md §4.5).

use mainstem_format::Value;

use super::target::TargetColumns;
use super::{Merged, RowMerger};
use crate::Result;

/// The rule for a list of target columns.
#[derive(Debug)]
pub(super) struct PartialUpdate {
    target: TargetColumns,
    key_only: bool,
}

impl PartialUpdate {
    /// A list that passed its checks and is not complete.
    pub(super) fn new(target: TargetColumns) -> Self {
        Self {
            key_only: target.is_key_only(),
            target,
        }
    }
}

impl RowMerger for PartialUpdate {
    fn upsert<'a>(&self, old: Option<&[Value<'a>]>, new: &[Value<'a>]) -> Result<Merged<'a>> {
        if self.key_only && old.is_some() {
            return Ok(Merged::Unchanged);
        }
        Ok(Merged::Row(self.target.select(new, old)))
    }

    fn delete<'a>(&self, old: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(self.target.delete(old))
    }
}
