//! What the clients of a bucket of a log table were promised.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use mainstem_env::SeededRng;
use mainstem_net::Response;

use super::bodies::Produce;
use super::rows::{Row, batch, rows};
use super::world::{BATCH_MAX, BatchId, Bucket, Harm, Ledger, Place, TABLE};

#[derive(Default)]
pub struct LogLedger {
    batches: HashMap<BatchId, Vec<(i64, String)>>,
    sent: HashSet<i64>,
    /// Values by offset.
    acknowledged: BTreeMap<i64, i64>,
    seen: BTreeMap<i64, i64>,
    next_read: i64,
}

impl LogLedger {
    /// End of what was promised to anybody.
    fn promised_end(&self) -> i64 {
        let last = |map: &BTreeMap<i64, i64>| map.last_key_value().map_or(0, |(last, _)| last + 1);
        last(&self.acknowledged).max(last(&self.seen))
    }

    fn see(&mut self, rows: &[Row]) {
        for row in rows {
            assert!(self.sent.contains(&row.a), "{row:?} was never sent");
            let before = self.seen.insert(row.offset, row.a).unwrap_or(row.a);
            assert_eq!(before, row.a, "offset {} has changed", row.offset);
            let promised = self.acknowledged.get(&row.offset).copied();
            assert_eq!(promised.unwrap_or(row.a), row.a, "offset {}", row.offset);
        }
    }
}

impl Ledger for LogLedger {
    const KEYED: bool = false;
    const REFUSALS: &'static [i32] = &[10];

    fn send(&mut self, id: BatchId, first: i64, rng: &mut SeededRng) {
        let count = 1 + rng.below(BATCH_MAX) as i64;
        let width = [3, 40, 300, 1_300][rng.index(4)];
        let rows = rows(first, count, width);
        self.sent.extend(rows.iter().map(|(a, _)| a));
        self.batches.insert(id, rows);
    }

    fn request(&self, place: Place, id: BatchId, acks: i32) -> (i16, Bytes) {
        let records = batch(id.0, id.1, &self.batches[&id]);
        let request = Produce::to(TABLE, acks).partition(place.partition, place.bucket, records);
        (1014, request.encode())
    }

    fn answered(&mut self, id: BatchId, response: Response) -> Result<(), i32> {
        let base_offset = Produce::parse(response)[0].result?;
        for (offset, (value, _)) in (base_offset..).zip(&self.batches[&id]) {
            let seen = self.seen.get(&offset).unwrap_or(value);
            assert_eq!(seen, value, "offset {offset} was read otherwise");
            let other = self.acknowledged.insert(offset, *value);
            assert_eq!(other, None, "offset {offset} is given twice");
        }
        Ok(())
    }

    /// Reads on, or again from somewhere before.
    fn look(&mut self, bucket: &mut Bucket<'_>) {
        let next = self.next_read;
        let start = match bucket.rng.chance(70) {
            true => next,
            false => bucket.rng.below(next as u64 + 1) as i64,
        };
        let max_bytes = [100, 3_000, 1 << 20][bucket.rng.index(3)];
        let fetched = bucket.fetched(start, max_bytes);
        // The power is off, or what the last life left cannot be repaired yet.
        if fetched.error == Some(10) && (bucket.harm == Harm::Crash || bucket.is_unopened()) {
            return;
        }
        let rows = fetched.rows();
        let end = rows.last().map_or(start, |last| last.offset + 1);
        // After a crash the position may be beyond what is synced again yet.
        assert!(rows.is_empty() || end <= fetched.high_watermark);
        self.see(&rows);
        self.next_read = next.max(end);
    }

    fn check(&mut self, bucket: &mut Bucket<'_>) {
        let replica = bucket.replica();
        let log = replica.log();
        log.check_writable().expect("a log that takes writes");
        let visible_end = replica.high_watermark();
        assert!(visible_end <= log.durable_end_offset());
        let promised_end = self.promised_end();
        assert!(
            visible_end >= promised_end,
            "visible up to {visible_end}, promised {promised_end}"
        );
        bucket.server.sync();
        let end = log.end_offset();
        assert_eq!(replica.high_watermark(), end, "all is durable");
        let mut found: Vec<Row> = Vec::new();
        while (found.len() as i64) < end {
            let rows = bucket.fetched(found.len() as i64, 1 << 20).rows();
            assert!(!rows.is_empty(), "nothing at {}", found.len());
            found.extend(rows);
        }
        let offsets: Vec<i64> = found.iter().map(|row| row.offset).collect();
        assert_eq!(offsets, (0..end).collect::<Vec<_>>());
        let once: HashSet<i64> = found.iter().map(|row| row.a).collect();
        assert_eq!(once.len(), found.len(), "a row is there twice");
        self.see(&found);
    }

    fn check_finished(&self) {
        assert_eq!(self.sent.len(), self.acknowledged.len());
        assert_eq!(self.acknowledged, self.seen);
    }
}
