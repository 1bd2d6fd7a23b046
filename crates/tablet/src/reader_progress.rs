//! How far the reader on one connection has come in the buckets it was fed.
//!
//! The official clients keep one fetch in flight per server and leave a bucket
//! out of it while its rows are buffered. If the other buckets of the table are
//! at their end, that fetch would wait its whole `max_wait_ms` while the buffered
//! rows are consumed in no time, once per megabyte of the bucket that is behind
//! (known failure R11). So an empty fetch is cut short while a bucket of the same
//! table that this connection was fed lately, and that the fetch leaves out, has
//! more to give, or when it gets more.

use std::collections::HashMap;
use std::time::Duration;

use mainstem_types::{TableBucket, TableId};

/// A bucket counts as being read for this long after it was fed. Longer than a
/// client plausibly works on one answer; bounds the cost of a reader that stopped.
const RECENT_MS: i64 = 3_000;

/// Longest wait of an empty fetch while another bucket is behind: short against
/// the time in which a client drains a buffered megabyte, long enough that its
/// repeats cost a fraction of a percent of a core.
pub const SHORT_WAIT: Duration = Duration::from_millis(3);

/// Buckets remembered per connection; a reader of more is never cut short for
/// the rest, which only costs it time.
const MAX_BUCKETS: usize = 4_096;

#[derive(Clone, Copy, Debug)]
struct Fed {
    next_offset: i64,
    at_ms: i64,
}

/// Progress of one connection's reader. Times are monotonic milliseconds.
#[derive(Debug, Default)]
pub struct ReaderProgress {
    fed: HashMap<TableBucket, Fed>,
}

impl ReaderProgress {
    /// The reader got records of the bucket up to `next_offset`.
    pub fn fed(&mut self, bucket: TableBucket, next_offset: i64, now_ms: i64) {
        if self.fed.len() < MAX_BUCKETS || self.fed.contains_key(&bucket) {
            self.fed.insert(
                bucket,
                Fed {
                    next_offset,
                    at_ms: now_ms,
                },
            );
        }
    }

    /// The reader asked for the bucket and there was nothing: it is at the end.
    pub fn caught_up(&mut self, bucket: &TableBucket) {
        self.fed.remove(bucket);
    }

    /// The buckets of the table that the reader was fed lately and that are not
    /// among those `requested` now, each with the first offset that it lacks.
    pub fn left_out(
        &mut self,
        table: TableId,
        now_ms: i64,
        requested: impl Fn(&TableBucket) -> bool,
    ) -> Vec<(TableBucket, i64)> {
        self.fed.retain(|_, fed| now_ms - fed.at_ms <= RECENT_MS);
        self.fed
            .iter()
            .filter(|(bucket, _)| bucket.table_id == table && !requested(bucket))
            .map(|(bucket, fed)| (*bucket, fed.next_offset))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use mainstem_types::BucketId;

    use super::*;

    fn bucket(table: i64, bucket: i32) -> TableBucket {
        TableBucket {
            table_id: TableId(table),
            partition_id: None,
            bucket_id: BucketId(bucket),
        }
    }

    #[test]
    fn buckets_that_were_fed_lately_and_are_left_out_are_told() {
        let mut progress = ReaderProgress::default();
        progress.fed(bucket(1, 0), 100, 0);
        let asks = |b: &TableBucket| b.bucket_id == BucketId(1);
        let fed = [(bucket(1, 0), 100)];
        assert_eq!(progress.left_out(TableId(1), 10, asks), fed);
        assert_eq!(progress.left_out(TableId(2), 10, asks), []);
        assert_eq!(progress.left_out(TableId(1), 10, |_| true), []);
        assert_eq!(progress.left_out(TableId(1), RECENT_MS + 1, asks), []);
    }

    #[test]
    fn a_caught_up_reader_waits_as_it_asked() {
        let mut progress = ReaderProgress::default();
        progress.fed(bucket(1, 0), 100, 0);
        progress.caught_up(&bucket(1, 0));
        assert_eq!(progress.left_out(TableId(1), 1, |_| false), []);
    }
}
