//! Which leader epoch wrote which offsets.
//!
//! With it a follower that was away finds where its log and the leader's part
//! (Kafka's KIP-101 and KIP-279), instead of trusting a high watermark that may
//! be too low or too high (cluster.md §10 R1).

use mainstem_types::LeaderEpoch;

/// Epochs kept; the oldest are dropped beyond. A bucket that has had more
/// leaders within its retention has other troubles.
const MAX_EPOCHS: usize = 10_000;

/// The first offset that a leader epoch wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Its first offset.
    pub start_offset: i64,
}

/// Where an epoch ends in this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The asked epoch, or the largest smaller one in this log.
    pub epoch: LeaderEpoch,
    /// End of its offsets (exclusive).
    pub end_offset: i64,
}

/// Epochs with their first offsets, both strictly ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochTable {
    starts: Vec<EpochStart>,
}

impl EpochTable {
    /// A table of stored entries; `None` when they are not ascending.
    pub(crate) fn from_starts(starts: Vec<EpochStart>) -> Option<Self> {
        let ascending = starts.windows(2).all(|pair| {
            pair[0].epoch < pair[1].epoch && pair[0].start_offset < pair[1].start_offset
        });
        ascending.then_some(Self { starts })
    }

    /// The entries, ascending.
    #[must_use]
    pub fn starts(&self) -> &[EpochStart] {
        &self.starts
    }

    /// The latest epoch that wrote something.
    #[must_use]
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|last| last.epoch)
    }

    /// Notes that `epoch` writes from `start_offset` on. Returns whether that is
    /// news: an epoch not newer than the latest one is not.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start_offset: i64) -> bool {
        if self.latest().is_some_and(|latest| latest >= epoch) {
            return false;
        }
        // An epoch that wrote nothing leaves no trace.
        self.truncate_to(start_offset);
        if self.starts.len() == MAX_EPOCHS {
            self.starts.remove(0);
        }
        self.starts.push(EpochStart {
            epoch,
            start_offset,
        });
        true
    }

    /// Where `epoch` ends in a log that ends at `log_end_offset`: the start of
    /// the next larger epoch, or the end of the log. `None` if this log knows
    /// nothing of it: the epoch is larger than all, or the table is empty.
    #[must_use]
    pub fn end_of(&self, epoch: LeaderEpoch, log_end_offset: i64) -> Option<EpochEnd> {
        if epoch > self.latest()? {
            return None;
        }
        let next = self.starts.partition_point(|start| start.epoch <= epoch);
        let end_offset = self
            .starts
            .get(next)
            .map_or(log_end_offset, |next| next.start_offset);
        // Older than all that is known: nothing of it is left, so both logs
        // agree at most up to where the first known epoch begins.
        let epoch = if next == 0 {
            epoch
        } else {
            self.starts[next - 1].epoch
        };
        Some(EpochEnd { epoch, end_offset })
    }

    /// Forgets what was written at `end_offset` and beyond.
    pub(crate) fn truncate_to(&mut self, end_offset: i64) {
        let kept = self
            .starts
            .partition_point(|start| start.start_offset < end_offset);
        self.starts.truncate(kept);
    }

    /// Forgets what was written before `log_start_offset`; the epoch that spans
    /// it begins there now.
    pub(crate) fn raise_start_to(&mut self, log_start_offset: i64) {
        let after = self
            .starts
            .partition_point(|start| start.start_offset <= log_start_offset);
        if after > 0 {
            self.starts.drain(..after - 1);
            self.starts[0].start_offset = log_start_offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(starts: &[(i32, i64)]) -> EpochTable {
        let mut table = EpochTable::default();
        for (epoch, start) in starts {
            assert!(table.assign(LeaderEpoch(*epoch), *start));
        }
        table
    }

    fn end(table: &EpochTable, epoch: i32) -> Option<(i32, i64)> {
        table
            .end_of(LeaderEpoch(epoch), 100)
            .map(|end| (end.epoch.0, end.end_offset))
    }

    #[test]
    fn an_epoch_ends_where_the_next_one_begins() {
        let table = table(&[(2, 10), (4, 30), (7, 60)]);
        assert_eq!(end(&table, 2), Some((2, 30)));
        assert_eq!(end(&table, 3), Some((2, 30)));
        assert_eq!(end(&table, 4), Some((4, 60)));
        assert_eq!(end(&table, 7), Some((7, 100)));
        assert_eq!(end(&table, 8), None);
        assert_eq!(end(&table, 1), Some((1, 10)));
        assert_eq!(end(&EpochTable::default(), 0), None);
    }

    #[test]
    fn an_epoch_that_wrote_nothing_is_replaced() {
        let table = table(&[(1, 0), (2, 10), (3, 10)]);
        assert_eq!(end(&table, 2), Some((1, 10)));
        assert_eq!(end(&table, 3), Some((3, 100)));
    }

    #[test]
    fn an_epoch_not_newer_than_the_latest_is_no_news() {
        let mut table = table(&[(5, 0)]);
        assert!(!table.assign(LeaderEpoch(5), 10));
        assert!(!table.assign(LeaderEpoch(4), 10));
        assert_eq!(table.starts().len(), 1);
    }

    #[test]
    fn truncation_forgets_epochs_at_both_ends() {
        let mut table = table(&[(1, 0), (2, 10), (3, 20), (4, 30)]);
        table.truncate_to(30);
        assert_eq!(table.latest(), Some(LeaderEpoch(3)));
        table.raise_start_to(15);
        assert_eq!(end(&table, 2), Some((2, 20)));
        assert_eq!(table.starts()[0].start_offset, 15);
        table.raise_start_to(20);
        assert_eq!(table.starts().len(), 1);
        table.truncate_to(0);
        assert_eq!(table.latest(), None);
    }

    #[test]
    fn stored_entries_must_ascend() {
        let start = |epoch, start_offset| EpochStart {
            epoch: LeaderEpoch(epoch),
            start_offset,
        };
        assert!(EpochTable::from_starts(vec![start(1, 0), start(2, 5)]).is_some());
        assert!(EpochTable::from_starts(vec![start(1, 0), start(1, 5)]).is_none());
        assert!(EpochTable::from_starts(vec![start(1, 5), start(2, 5)]).is_none());
    }
}
