//! How far the reader on one connection has come in the buckets it was fed.
//!
//! The official clients keep one fetch in flight per server and leave a bucket
//! out of it while its rows are buffered. If the other buckets of the table are
//! at their end, that fetch would wait its whole `max_wait_ms` while the buffered
//! rows are consumed in no time, once per megabyte of the bucket that is behind
//! (known failure R11). So an empty fetch is cut short while a bucket of the same
//! table that this connection was fed lately, and that the fetch leaves out, has
//! more to give.

use std::collections::HashMap;

use mainstem_types::{TableBucket, TableId};

/// A bucket counts as being read for this long after it was fed. Longer than a
/// client plausibly works on one answer; bounds the cost of a reader that stopped.
const RECENT_MS: i64 = 3_000;

/// Longest wait of an empty fetch while another bucket is behind: short against
/// the time in which a client drains a buffered megabyte, long enough that its
/// repeats cost a fraction of a percent of a core.
pub const SHORT_WAIT_MS: i64 = 3;

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

    /// Whether the reader was lately fed a bucket of the table that has more, and
    /// that is not among those `requested` now. `high_watermark` tells a bucket's.
    pub fn is_behind(
        &mut self,
        table: TableId,
        now_ms: i64,
        requested: impl Fn(&TableBucket) -> bool,
        high_watermark: impl Fn(&TableBucket) -> Option<i64>,
    ) -> bool {
        self.fed.retain(|_, fed| now_ms - fed.at_ms <= RECENT_MS);
        self.fed.iter().any(|(bucket, fed)| {
            bucket.table_id == table
                && !requested(bucket)
                && high_watermark(bucket).is_some_and(|end| fed.next_offset < end)
        })
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
    fn a_bucket_left_out_with_more_to_give_cuts_the_wait_short() {
        let mut progress = ReaderProgress::default();
        progress.fed(bucket(1, 0), 100, 0);
        let asks = |b: &TableBucket| b.bucket_id == BucketId(1);
        assert!(progress.is_behind(TableId(1), 10, asks, |_| Some(500)));
        assert!(!progress.is_behind(TableId(1), 10, asks, |_| Some(100)));
        assert!(!progress.is_behind(TableId(2), 10, asks, |_| Some(500)));
        assert!(!progress.is_behind(TableId(1), 10, |_| true, |_| Some(500)));
        assert!(!progress.is_behind(TableId(1), RECENT_MS + 1, asks, |_| Some(500)));
    }

    #[test]
    fn a_caught_up_reader_waits_as_it_asked() {
        let mut progress = ReaderProgress::default();
        progress.fed(bucket(1, 0), 100, 0);
        progress.caught_up(&bucket(1, 0));
        assert!(!progress.is_behind(TableId(1), 1, |_| false, |_| Some(500)));
    }
}
