//! Runs of entries of the Arrow metadata, and how they are read together.

use std::ops::Range;

use crate::arrow_message::ENTRY_LEN;
use crate::read_at::{ReadAt, ReadError, ReadWindow};

/// Runs that lie within so many bytes are read at once: to copy a page costs less
/// than another read.
const READ_TOGETHER: usize = 4096;

/// Neighbouring entries, nodes or buffers, that a projection needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    range: Range<usize>,
    /// Entries behind the run that are looked at as well.
    behind: usize,
    /// Where the last of the following runs ends that is read with this one.
    together: usize,
}

impl Run {
    /// Runs in ascending order, each looked at with `behind` entries more.
    pub(super) fn of(ranges: Vec<Range<usize>>, behind: usize) -> Vec<Self> {
        let mut last = 0;
        let together: Vec<usize> = (0..ranges.len())
            .map(|first| {
                let limit = ranges[first].start + READ_TOGETHER / ENTRY_LEN;
                last = last.max(first);
                while ranges
                    .get(last + 1)
                    .is_some_and(|next| next.end + behind <= limit)
                {
                    last += 1;
                }
                ranges[last].end + behind
            })
            .collect();
        let runs = ranges.into_iter().zip(together);
        runs.map(|(range, together)| Self {
            range,
            behind,
            together,
        })
        .collect()
    }

    /// The entries.
    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The entries with those behind, of `count` in all.
    pub(super) fn looked_at(&self, count: usize) -> Range<usize> {
        self.range.start..(self.range.end + self.behind).min(count)
    }

    /// Brings the entries into the window, if they are not there, together with
    /// those of runs that follow closely. The vector of `count` entries begins at
    /// `vector`; it was checked to lie within the bytes, and the run within it.
    ///
    /// # Errors
    /// A failed read.
    pub(super) fn cover<S: ReadAt + ?Sized>(
        &self,
        window: &mut ReadWindow<'_, S>,
        vector: u64,
        count: usize,
    ) -> Result<(), ReadError> {
        let needed = self.looked_at(count);
        let together = self.together.min(count) - needed.start;
        let position = vector + (needed.start * ENTRY_LEN) as u64;
        window.cover(position, needed.len() * ENTRY_LEN, together * ENTRY_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(ranges: &[Range<usize>], behind: usize) -> Vec<usize> {
        let runs = Run::of(ranges.to_vec(), behind);
        runs.iter().map(|run| run.together).collect()
    }

    #[test]
    fn runs_within_a_page_are_read_together() {
        // 256 entries make a page.
        assert_eq!(together(&[7..8, 50..51, 99..100], 0), [100, 100, 100]);
        assert_eq!(together(&[0..1, 255..256, 256..257], 0), [256, 257, 257]);
        assert_eq!(together(&[0..1, 254..255, 255..256], 1), [256, 257, 257]);
        assert_eq!(
            together(&[0..1, 5_000..5_001, 9_999..10_000], 0),
            [1, 5_001, 10_000]
        );
        assert_eq!(together(&[0..600, 601..602, 700..701], 0), [600, 701, 701]);
        assert_eq!(together(&[], 1), Vec::<usize>::new());
    }

    #[test]
    fn what_lies_behind_the_last_entry_is_not_looked_at() {
        let runs = Run::of(vec![0..1, 3..5], 1);
        assert_eq!((runs[1].looked_at(9), runs[1].looked_at(5)), (3..6, 3..5));
    }
}
