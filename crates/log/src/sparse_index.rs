//! Where in a segment offsets and times are, roughly.
//!
//! One entry for about every `interval` bytes; from there a reader walks over
//! batch headers. When the index is full, every second entry goes and the
//! interval doubles, so that a segment of any size takes bounded memory. The
//! last few batches are kept exactly: readers at the tail never walk.

use std::collections::VecDeque;

use mainstem_format::header::BatchHeader;

/// Entries of an index: 128 KiB, hence one entry per 128 KiB of a 1 GiB segment.
pub(crate) const MAX_ENTRIES: usize = 8192;
/// Batches at the tail that are kept exactly.
const RECENT_BATCHES: usize = 32;
/// Boundaries kept that were found by walking: a reader that goes on where its
/// last read ended finds it here.
const FOUND_BOUNDARIES: usize = 4;

/// A batch boundary: where a batch begins, or where the last one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boundary {
    pub offset: i64,
    pub position: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Base offset of a batch, relative to the segment's.
    pub relative_offset: u32,
    /// Where it begins.
    pub position: u32,
    /// Largest commit timestamp of the batches before it in the segment.
    pub earlier_max_timestamp_ms: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct SparseIndex {
    base_offset: i64,
    interval_bytes: u32,
    entries: Vec<IndexEntry>,
    recent: VecDeque<Boundary>,
    /// The latest boundaries found, in no order.
    found: [Boundary; FOUND_BOUNDARIES],
    next_found: usize,
    /// The index covers the batches in front of this.
    end: Boundary,
    max_timestamp_ms: i64,
}

impl SparseIndex {
    pub fn new(base_offset: i64, interval_bytes: u32) -> Self {
        let start = Boundary {
            offset: base_offset,
            position: 0,
        };
        Self {
            base_offset,
            interval_bytes: interval_bytes.max(1),
            entries: Vec::new(),
            recent: VecDeque::new(),
            found: [start; FOUND_BOUNDARIES],
            next_found: 0,
            end: start,
            max_timestamp_ms: i64::MIN,
        }
    }

    /// An index of stored parts; `None` when they contradict each other.
    pub fn from_parts(
        base_offset: i64,
        interval_bytes: u32,
        entries: Vec<IndexEntry>,
        end: Boundary,
        max_timestamp_ms: i64,
    ) -> Option<Self> {
        let ascending = entries.windows(2).all(|pair| {
            pair[0].relative_offset < pair[1].relative_offset
                && pair[0].position < pair[1].position
                && pair[0].earlier_max_timestamp_ms <= pair[1].earlier_max_timestamp_ms
        });
        let inside = entries.last().is_none_or(|last| {
            u64::from(last.position) < end.position
                && base_offset.saturating_add(i64::from(last.relative_offset)) < end.offset
        });
        let fits = entries.len() <= MAX_ENTRIES && end.offset >= base_offset && interval_bytes > 0;
        (ascending && inside && fits).then(|| Self {
            interval_bytes,
            entries,
            end,
            max_timestamp_ms,
            ..Self::new(base_offset, interval_bytes)
        })
    }

    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    pub fn interval_bytes(&self) -> u32 {
        self.interval_bytes
    }

    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Where the covered batches end.
    pub fn end(&self) -> Boundary {
        self.end
    }

    /// Largest commit timestamp; `i64::MIN` without batches.
    pub fn max_timestamp_ms(&self) -> i64 {
        self.max_timestamp_ms
    }

    /// Gives up the exact tail, when no more batches will come.
    pub fn forget_recent(&mut self) {
        self.recent = VecDeque::new();
        self.entries.shrink_to_fit();
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.entries.capacity() * size_of::<IndexEntry>()
    }

    /// Adds the batch that begins at the end of what is covered.
    pub fn push(&mut self, header: &BatchHeader) {
        let start = Boundary {
            offset: header.base_offset,
            position: self.end.position,
        };
        self.push_entry(start);
        if self.recent.len() == RECENT_BATCHES {
            self.recent.pop_front();
        }
        self.recent.push_back(start);
        self.max_timestamp_ms = self.max_timestamp_ms.max(header.commit_timestamp_ms);
        self.end = Boundary {
            offset: header.next_offset(),
            position: start.position + header.total_len as u64,
        };
    }

    fn push_entry(&mut self, start: Boundary) {
        let due = self.entries.last().is_none_or(|last| {
            start.position >= u64::from(last.position) + u64::from(self.interval_bytes)
        });
        // What 32 bits cannot say is found by walking from the entry before.
        let relative_offset = u32::try_from(start.offset - self.base_offset);
        let (true, Ok(relative_offset), Ok(position)) =
            (due, relative_offset, u32::try_from(start.position))
        else {
            return;
        };
        if self.entries.len() == MAX_ENTRIES {
            let mut position = 0;
            self.entries.retain(|_| {
                position += 1;
                position % 2 == 1
            });
            self.interval_bytes = self.interval_bytes.saturating_mul(2);
        }
        let earlier_max_timestamp_ms = self.max_timestamp_ms;
        self.entries.push(IndexEntry {
            relative_offset,
            position,
            earlier_max_timestamp_ms,
        });
    }

    fn boundary(&self, entry: &IndexEntry) -> Boundary {
        Boundary {
            offset: self.base_offset + i64::from(entry.relative_offset),
            position: u64::from(entry.position),
        }
    }

    fn start(&self) -> Boundary {
        Boundary {
            offset: self.base_offset,
            position: 0,
        }
    }

    /// Keeps a boundary that was found by walking.
    pub fn remember(&mut self, boundary: Boundary) {
        if boundary.position <= self.end.position {
            self.found[self.next_found] = boundary;
            self.next_found = (self.next_found + 1) % FOUND_BOUNDARIES;
        }
    }

    /// The last known boundary of which `is_before` holds, which must hold for
    /// all smaller ones as well; the start of the segment if for none.
    fn floor(&self, is_before: impl Fn(Boundary) -> bool) -> Boundary {
        if is_before(self.end) {
            return self.end;
        }
        let recent = self.recent.partition_point(|boundary| is_before(*boundary));
        if recent > 0 {
            return self.recent[recent - 1];
        }
        let entries = self
            .entries
            .partition_point(|entry| is_before(self.boundary(entry)));
        let indexed = match entries {
            0 => self.start(),
            count => self.boundary(&self.entries[count - 1]),
        };
        let found = self
            .found
            .iter()
            .copied()
            .filter(|boundary| is_before(*boundary));
        found.fold(indexed, |last, boundary| {
            if boundary.position > last.position {
                boundary
            } else {
                last
            }
        })
    }

    /// The last known boundary with an offset of at most `offset`.
    pub fn floor_of_offset(&self, offset: i64) -> Boundary {
        self.floor(|boundary| boundary.offset <= offset)
    }

    /// The last known boundary at `position` or before.
    pub fn floor_of_position(&self, position: u64) -> Boundary {
        self.floor(|boundary| boundary.position <= position)
    }

    /// A boundary before which all batches are older than `timestamp_ms`.
    pub fn floor_of_timestamp(&self, timestamp_ms: i64) -> Boundary {
        let older = self
            .entries
            .partition_point(|entry| entry.earlier_max_timestamp_ms < timestamp_ms);
        match older {
            0 => self.start(),
            count => self.boundary(&self.entries[count - 1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstem_format::log_batch_builder::BatchSpec;

    use super::*;

    fn header(base_offset: i64, commit_timestamp_ms: i64, total_len: usize) -> BatchHeader {
        let spec = BatchSpec {
            base_offset,
            commit_timestamp_ms,
            ..BatchSpec::default()
        };
        let header = BatchHeader::parse(&spec.build(2, &[], &[], b"").unwrap()).unwrap();
        BatchHeader {
            total_len,
            ..header
        }
    }

    /// `count` batches of 100 bytes and 2 offsets from offset 50, the time
    /// moving by 10 every batch.
    fn index(count: i64, interval_bytes: u32) -> SparseIndex {
        let mut index = SparseIndex::new(50, interval_bytes);
        for number in 0..count {
            index.push(&header(50 + 2 * number, 1_000 + 10 * number, 100));
        }
        index
    }

    #[test]
    fn lookups_never_go_past_what_they_look_for() {
        for count in [0, 1, 2, 31, 33, 1_000] {
            let index = index(count, 350);
            assert_eq!(index.end().offset, 50 + 2 * count);
            for number in 0..=count {
                let offset = 50 + 2 * number;
                let floor = index.floor_of_offset(offset);
                assert!(floor.offset <= offset && offset - floor.offset <= 8);
                assert_eq!(floor.position, (floor.offset - 50) as u64 / 2 * 100);
                assert_eq!(
                    floor,
                    index.floor_of_offset(offset + 1).min_by_offset(floor)
                );
                let position = number as u64 * 100;
                let floor = index.floor_of_position(position + 7);
                assert!(floor.position <= position && position - floor.position <= 400);
                let floor = index.floor_of_timestamp(1_000 + 10 * number);
                assert!(floor.offset <= offset && offset - floor.offset <= 16);
            }
        }
    }

    impl Boundary {
        fn min_by_offset(self, other: Self) -> Self {
            if other.offset < self.offset {
                other
            } else {
                self
            }
        }
    }

    #[test]
    fn the_tail_is_known_exactly() {
        let index = index(1_000, 1 << 20);
        for number in 968..=1_000 {
            assert_eq!(
                index.floor_of_offset(50 + 2 * number).position,
                number as u64 * 100
            );
        }
    }

    #[test]
    fn a_full_index_halves_itself_and_stays_right() {
        let index = index(100_000, 100);
        assert!(index.entries().len() <= MAX_ENTRIES);
        assert!(index.entries().len() > MAX_ENTRIES / 2 - 1);
        for number in (0..100_000).step_by(997) {
            let floor = index.floor_of_offset(50 + 2 * number);
            assert_eq!(floor.position, (floor.offset - 50) as u64 / 2 * 100);
            assert!(number as u64 * 100 - floor.position <= u64::from(index.interval_bytes()));
        }
    }

    #[test]
    fn offsets_beyond_32_bits_are_found_from_the_entry_before() {
        let mut index = SparseIndex::new(0, 1);
        index.push(&header(0, 0, 100));
        index.push(&header(1 << 40, 0, 100));
        for number in 1..100 {
            index.push(&header((1 << 40) + 2 * number, 0, 100));
        }
        assert_eq!(
            index.floor_of_offset(1 << 40),
            Boundary {
                offset: 0,
                position: 0
            }
        );
    }

    #[test]
    fn contradicting_parts_are_refused() {
        let good = index(100, 350);
        let rebuilt = |entries: Vec<IndexEntry>, end| {
            SparseIndex::from_parts(50, 350, entries, end, good.max_timestamp_ms())
        };
        assert!(rebuilt(good.entries().to_vec(), good.end()).is_some());
        let mut swapped = good.entries().to_vec();
        swapped.swap(1, 2);
        assert!(rebuilt(swapped, good.end()).is_none());
        let short = Boundary {
            offset: 60,
            position: 500,
        };
        assert!(rebuilt(good.entries().to_vec(), short).is_none());
    }
}
