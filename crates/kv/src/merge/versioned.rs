//! The row with the higher version is kept (tables.md §4.6).

use std::cmp::Ordering;

use mainstem_format::Value;
use mainstem_format::value::Timestamp;

use super::{Merged, RowMerger};
use crate::Result;

/// The rule for a version column.
#[derive(Debug)]
pub(super) struct Versioned {
    column: Option<usize>,
}

impl Versioned {
    /// Position of the version column. Without one, all rows are of one version.
    pub(super) fn new(column: Option<usize>) -> Self {
        Self { column }
    }

    fn version<'r, 'a>(&self, row: &'r [Value<'a>]) -> &'r Value<'a> {
        self.column
            .and_then(|column| row.get(column))
            .unwrap_or(&Value::Null)
    }
}

impl RowMerger for Versioned {
    fn upsert<'a>(&self, old: Option<&[Value<'a>]>, new: &[Value<'a>]) -> Result<Merged<'a>> {
        let loses = old.is_some_and(|old| compare(self.version(old), self.version(new)).is_gt());
        Ok(match loses {
            true => Merged::Unchanged,
            false => Merged::AsSent,
        })
    }

    /// Tables with this engine take no deletes.
    fn delete<'a>(&self, _old: &[Value<'a>]) -> Result<Merged<'a>> {
        Ok(Merged::Unchanged)
    }
}

/// The order of versions. Null is the smallest value of the type, so that it ties
/// with that.
fn compare(old: &Value<'_>, new: &Value<'_>) -> Ordering {
    const FIRST: Timestamp = Timestamp::from_millis(i64::MIN);
    match (old, new) {
        (Value::Int(old), Value::Int(new)) => old.cmp(new),
        (Value::Int(old), Value::Null) => old.cmp(&i32::MIN),
        (Value::Null, Value::Int(new)) => i32::MIN.cmp(new),
        (Value::BigInt(old), Value::BigInt(new)) => old.cmp(new),
        (Value::BigInt(old), Value::Null) => old.cmp(&i64::MIN),
        (Value::Null, Value::BigInt(new)) => i64::MIN.cmp(new),
        (Value::Timestamp(old), Value::Timestamp(new)) => old.cmp(new),
        (Value::Timestamp(old), Value::Null) => old.cmp(&FIRST),
        (Value::Null, Value::Timestamp(new)) => FIRST.cmp(new),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wins(old: Value<'static>, new: Value<'static>, wins: bool) {
        let rule = Versioned::new(Some(1));
        let expected = if wins {
            Merged::AsSent
        } else {
            Merged::Unchanged
        };
        let (old, new) = ([Value::Int(1), old], [Value::Int(1), new]);
        assert_eq!(rule.upsert(Some(&old), &new).unwrap(), expected);
    }

    fn timestamp(millis: i64, nanos_of_milli: i32) -> Value<'static> {
        Value::Timestamp(Timestamp {
            millis,
            nanos_of_milli,
        })
    }

    #[test]
    fn vr5_numbers_are_compared_by_value_and_a_tie_is_won_by_the_new_row() {
        for of in [Value::Int as fn(i32) -> Value<'static>, |value| {
            Value::BigInt(i64::from(value) << 32)
        }] {
            check_wins(of(1), of(2), true);
            check_wins(of(2), of(1), false);
            check_wins(of(1), of(1), true);
            check_wins(of(-1), of(0), true);
        }
    }

    #[test]
    fn vr6_vr7_vr8_timestamps_are_compared_to_the_nanosecond() {
        let noon = 1_735_732_800_000;
        check_wins(timestamp(noon + 123, 0), timestamp(noon + 10_123, 0), true);
        check_wins(timestamp(noon + 123, 0), timestamp(noon + 122, 0), false);
        check_wins(timestamp(noon + 123, 0), timestamp(noon + 123, 0), true);
        check_wins(
            timestamp(noon + 123, 456_789),
            timestamp(noon + 123, 456_788),
            false,
        );
        check_wins(timestamp(-1, 999_999), timestamp(0, 0), true);
    }

    #[test]
    fn null_is_the_smallest_version_and_ties_with_the_smallest_value() {
        let smallest = [
            (Value::Int(i32::MIN), Value::Int(i32::MIN + 1)),
            (Value::BigInt(i64::MIN), Value::BigInt(i64::MIN + 1)),
            (timestamp(i64::MIN, 0), timestamp(i64::MIN, 1)),
        ];
        for (smallest, next) in smallest {
            check_wins(Value::Null, smallest.clone(), true);
            check_wins(smallest.clone(), Value::Null, true);
            check_wins(next, Value::Null, false);
        }
        check_wins(Value::Null, Value::Null, true);
    }

    #[test]
    fn a_delete_changes_nothing() {
        let row = [Value::Int(1), Value::Int(2)];
        let rule = Versioned::new(Some(1));
        assert_eq!(rule.delete(&row).unwrap(), Merged::Unchanged);
    }

    #[test]
    fn without_its_column_the_newest_row_wins() {
        let row = [Value::Int(1)];
        let rule = Versioned::new(None);
        assert_eq!(rule.upsert(Some(&row), &row).unwrap(), Merged::AsSent);
    }
}
