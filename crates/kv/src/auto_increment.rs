//! Numbers for an auto-increment column (tables.md §4.9). A bucket takes a range
//! from the cluster-wide counter and gives its numbers out one by one.

use std::ops::RangeInclusive;

use crate::table::AutoIncrementColumn;
use crate::{KvError, Result};

/// The cluster-wide counters.
pub trait SequenceSource: Send + Sync {
    /// Takes so many numbers, which nobody gets again, crash or not.
    ///
    /// # Errors
    /// The counter cannot be reached or advanced now; [`KvError::NoSequence`].
    fn take(&self, column_id: i32, count: i64) -> Result<RangeInclusive<i64>>;
}

/// What a bucket has left of the range that it took last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The column that the numbers are for.
    pub column_id: i32,
    /// The next number.
    pub next: i64,
    /// The last one, inclusive.
    pub end: i64,
}

impl NumberRange {
    /// Takes note of a number that a row was given: it and those before it are
    /// used. A number of another range says nothing.
    pub fn used(&mut self, number: i64) {
        if (self.next..=self.end).contains(&number) {
            self.next = number + 1;
        }
    }
}

/// Gives out numbers for one put. The range is the tablet's; that a new one was
/// taken is to be noted durably before the put is applied.
pub(crate) struct Numbers<'a> {
    pub column: &'a AutoIncrementColumn,
    pub range: &'a mut Option<NumberRange>,
    pub source: &'a dyn SequenceSource,
    /// Set when a new range is taken.
    pub taken: &'a mut bool,
}

impl Numbers<'_> {
    /// The next number.
    ///
    /// # Errors
    /// [`KvError::SequenceOverflow`], [`KvError::NoSequence`].
    pub fn next(&mut self) -> Result<i64> {
        let column = self.column;
        let overflow = || KvError::SequenceOverflow(column.name.clone());
        let left = self
            .range
            .filter(|range| range.column_id == column.column_id && range.next <= range.end);
        let mut range = match left {
            Some(range) => range,
            None => {
                let taken = self.source.take(column.column_id, column.cache_size)?;
                *self.taken = true;
                NumberRange {
                    column_id: column.column_id,
                    next: *taken.start(),
                    end: *taken.end(),
                }
            }
        };
        let number = range.next;
        if number > column.max {
            return Err(overflow());
        }
        range.next = number.checked_add(1).ok_or_else(overflow)?;
        *self.range = Some(range);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    struct Counter(AtomicI64);

    impl SequenceSource for Counter {
        fn take(&self, _: i32, count: i64) -> Result<RangeInclusive<i64>> {
            let before = self.0.fetch_add(count, Ordering::Relaxed);
            Ok(before + 1..=before + count)
        }
    }

    fn column(max: i64) -> AutoIncrementColumn {
        AutoIncrementColumn {
            name: "uid".to_owned(),
            position: 0,
            column_id: 4,
            max,
            cache_size: 3,
        }
    }

    fn take(
        count: usize,
        range: &mut Option<NumberRange>,
        source: &Counter,
        max: i64,
    ) -> Result<Vec<i64>> {
        let column = column(max);
        let mut taken = false;
        let mut numbers = Numbers {
            column: &column,
            range,
            source,
            taken: &mut taken,
        };
        (0..count).map(|_| numbers.next()).collect()
    }

    #[test]
    fn numbers_begin_at_one_and_go_on_in_the_next_range() {
        let (source, mut range) = (Counter(AtomicI64::new(0)), None);
        assert_eq!(take(2, &mut range, &source, i64::MAX).unwrap(), [1, 2]);
        let mut other = None;
        assert_eq!(take(1, &mut other, &source, i64::MAX).unwrap(), [4]);
        assert_eq!(take(3, &mut range, &source, i64::MAX).unwrap(), [3, 7, 8]);
    }

    #[test]
    fn the_last_number_of_the_type_is_given_and_none_after_it() {
        let (source, mut range) = (Counter(AtomicI64::new(7)), None);
        assert_eq!(take(3, &mut range, &source, 10).unwrap(), [8, 9, 10]);
        let error = take(1, &mut range, &source, 10).unwrap_err();
        assert!(matches!(error, KvError::SequenceOverflow(_)), "{error}");
    }

    #[test]
    fn used_numbers_are_left_out_and_foreign_ones_say_nothing() {
        let mut range = NumberRange {
            column_id: 4,
            next: 5,
            end: 9,
        };
        range.used(7);
        range.used(20);
        range.used(2);
        assert_eq!(range.next, 8);
    }
}
