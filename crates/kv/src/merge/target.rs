//! The columns that a partial writer writes.

use std::sync::Arc;

use mainstem_format::Value;

use super::Merged;
use super::rules::ColumnRule;
use crate::{KvError, Result};

/// Some columns of a table.
#[derive(Clone, Debug)]
pub(super) struct TargetColumns {
    columns: Arc<[ColumnRule]>,
    /// For each column whether it is a target.
    is_target: Vec<bool>,
}

impl TargetColumns {
    /// The columns at some positions, in any order, repeats allowed.
    pub(super) fn new(positions: &[i32], columns: &Arc<[ColumnRule]>) -> Result<Self> {
        let mut is_target = vec![false; columns.len()];
        for &position in positions {
            let found = usize::try_from(position)
                .ok()
                .and_then(|position| is_target.get_mut(position));
            *found.ok_or_else(|| {
                KvError::InvalidTarget(format!(
                    "Invalid target column index: {position}. The table has {} columns.",
                    columns.len()
                ))
            })? = true;
        }
        Ok(Self {
            columns: columns.clone(),
            is_target,
        })
    }

    /// Checks that rows can be written by just these columns: the key is among
    /// them, and every other column of the table may be null, for a delete makes it
    /// so, and an insert leaves it so. `what` begins the message.
    pub(super) fn check(&self, what: &str) -> Result<()> {
        let misses_key = |(column, &target): (&ColumnRule, &bool)| column.is_key && !target;
        if self.columns.iter().zip(&self.is_target).any(misses_key) {
            return Err(KvError::InvalidTarget(format!(
                "The target write columns [{}] must contain the primary key columns [{}].",
                self.names(|_, target| target),
                self.names(|column, _| column.is_key)
            )));
        }
        let strict = |column: &&ColumnRule| !column.is_key && !column.nullable;
        match self.columns.iter().find(strict) {
            None => Ok(()),
            Some(column) => Err(KvError::InvalidTarget(format!(
                "{what} requires all columns except primary key to be nullable, \
                 but column {} is NOT NULL.",
                column.name
            ))),
        }
    }

    fn names(&self, chosen: impl Fn(&ColumnRule, bool) -> bool) -> String {
        let mut names = Vec::new();
        for (column, &target) in self.columns.iter().zip(&self.is_target) {
            if chosen(column, target) {
                names.push(column.name.as_str());
            }
        }
        names.join(", ")
    }

    /// Whether the column at a position is a target.
    pub(super) fn contains(&self, position: usize) -> bool {
        self.is_target.get(position).is_some_and(|&target| target)
    }

    /// Whether every column is a target.
    pub(super) fn is_complete(&self) -> bool {
        self.is_target.iter().all(|&target| target)
    }

    /// Whether there is no target beside the key.
    pub(super) fn is_key_only(&self) -> bool {
        let mut columns = self.columns.iter().zip(&self.is_target);
        columns.all(|(column, &target)| column.is_key || !target)
    }

    /// The row with `of_targets` in the target columns and `of_others` in the rest.
    pub(super) fn select<'a>(
        &self,
        of_targets: &[Value<'a>],
        of_others: Option<&[Value<'a>]>,
    ) -> Vec<Value<'a>> {
        let value = |(position, &target): (usize, &bool)| match target {
            true => of_targets[position].clone(),
            false => of_others.map_or(Value::Null, |row| row[position].clone()),
        };
        self.is_target.iter().enumerate().map(value).collect()
    }

    /// What a delete by a writer of these columns leaves of a row: the other
    /// columns, unless they are all null.
    pub(super) fn delete<'a>(&self, old: &[Value<'a>]) -> Merged<'a> {
        let mut others = self
            .is_target
            .iter()
            .zip(old)
            .filter(|(target, _)| !**target);
        if others.all(|(_, value)| value.is_null()) {
            return Merged::Removed;
        }
        let columns = self.columns.iter().zip(&self.is_target).zip(old);
        let rest = columns.map(
            |((column, &target), value)| match target && !column.is_key {
                true => Value::Null,
                false => value.clone(),
            },
        );
        Merged::Row(rest.collect())
    }
}
