//! Columns are aggregated, each by its function (tables.md §4.7).

use std::sync::Arc;

use mainstem_format::Value;

use super::rules::ColumnRule;
use super::target::TargetColumns;
use super::{Merged, RowMerger};
use crate::{KvError, Result};

/// The rule for all columns, or for the target columns of a partial writer.
#[derive(Debug)]
pub(super) struct Aggregate {
    columns: Arc<[ColumnRule]>,
    target: Option<TargetColumns>,
}

impl Aggregate {
    /// A target that passed its checks, or none for a writer of whole rows.
    pub(super) fn new(columns: Arc<[ColumnRule]>, target: Option<TargetColumns>) -> Self {
        Self { columns, target }
    }

    fn is_target(&self, position: usize) -> bool {
        let target = self.target.as_ref();
        target.is_none_or(|target| target.contains(position))
    }
}

impl RowMerger for Aggregate {
    /// The first row of a key is stored as it came, with what a partial writer sent
    /// in other columns (unlike a partial update).
    fn upsert<'a>(&self, old: Option<&[Value<'a>]>, new: &[Value<'a>]) -> Result<Merged<'a>> {
        let Some(old) = old else {
            return Ok(Merged::AsSent);
        };
        let mut merged = Vec::with_capacity(self.columns.len());
        let rows = old.iter().zip(new);
        for (position, (column, (accumulator, input))) in self.columns.iter().zip(rows).enumerate()
        {
            merged.push(match self.is_target(position) {
                true => column.aggregate(accumulator, input)?,
                false => accumulator.clone(),
            });
        }
        Ok(Merged::Row(merged))
    }

    fn delete<'a>(&self, old: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(match &self.target {
            None => Merged::Removed,
            Some(target) => target.delete(old),
        })
    }
}

impl ColumnRule {
    fn aggregate<'a>(&self, accumulator: &Value<'a>, input: &Value<'a>) -> Result<Value<'a>> {
        let refused = |reason: String| {
            let (function, column) = (self.function.name(), &self.name);
            KvError::Corrupt(format!("{function} of column {column}: {reason}"))
        };
        let merged = self.function.apply(accumulator, input).map_err(refused)?;
        // Null would make a row that the column's readers cannot hold.
        if merged.is_null() && !self.nullable {
            return Err(refused(
                "the result does not fit the type, and the column is NOT NULL".to_owned(),
            ));
        }
        Ok(merged)
    }
}
