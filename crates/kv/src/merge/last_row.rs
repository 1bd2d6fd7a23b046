//! The newest row is kept: what a table does without a merge engine.

use mainstem_format::Value;

use super::{Merged, RowMerger};
use crate::Result;

/// The rule; it has no parameters.
#[derive(Debug)]
pub(super) struct LastRow;

impl RowMerger for LastRow {
    fn upsert<'a>(&self, _old: Option<&[Value<'a>]>, _new: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(Merged::AsSent)
    }

    fn delete<'a>(&self, _old: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(Merged::Removed)
    }

    fn is_plain(&self) -> bool {
        true
    }
}
