//! Which write of the store holds which part of the changelog.

use std::collections::VecDeque;

/// Marks kept; more are thinned out.
const MARKS_MAX: usize = 512;

/// A write of the store: with it, the store holds all changes below an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Sequence number of its last change.
    pub sequence: u64,
    /// Exclusive end of the changes.
    pub offset: i64,
    /// Rows then.
    pub row_count: i64,
}

/// Marks that the state file does not count yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<Mark>);

impl Marks {
    /// Adds the newest.
    pub fn push(&mut self, mark: Mark) {
        let Self(marks) = self;
        match marks.back_mut() {
            Some(last) if last.sequence == mark.sequence => *last = mark,
            _ => marks.push_back(mark),
        }
        if marks.len() > MARKS_MAX {
            // Every other one, the last among those that stay.
            let mut stays = marks.len().is_multiple_of(2);
            marks.retain(|_| {
                stays = !stays;
                stays
            });
        }
    }

    /// The newest of writes up to a sequence number.
    pub fn until(&self, sequence: u64) -> Option<Mark> {
        let done = self.0.partition_point(|mark| mark.sequence <= sequence);
        done.checked_sub(1).map(|last| self.0[last])
    }

    /// Takes out those of writes up to a sequence number: they have been noted.
    pub fn forget_until(&mut self, sequence: u64) {
        let done = self.0.partition_point(|mark| mark.sequence <= sequence);
        self.0.drain(..done);
    }

    /// Offset of the newest.
    pub fn newest_offset(&self) -> Option<i64> {
        self.0.back().map(|mark| mark.offset)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64) -> Mark {
        Mark {
            sequence,
            offset: sequence as i64 * 10,
            row_count: 0,
        }
    }

    #[test]
    fn many_marks_are_thinned_out_and_the_newest_stays() {
        let mut marks = Marks::default();
        for sequence in 1..=10_000 {
            marks.push(mark(sequence));
            assert_eq!(marks.0.back(), Some(&mark(sequence)));
            assert!(marks.0.len() <= MARKS_MAX);
        }
        assert!(marks.0.len() >= MARKS_MAX / 2);
        let taken = marks.until(9_000).unwrap();
        marks.forget_until(9_000);
        assert!(
            taken.sequence <= 9_000 && taken.sequence > 8_900,
            "{taken:?}"
        );
        assert!(marks.0.iter().all(|mark| mark.sequence > 9_000));
    }
}
