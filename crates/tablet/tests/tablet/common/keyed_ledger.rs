//! What the clients of a bucket of a primary-key table were promised.
//!
//! The changelog is the truth: each of its batches must be what the puts of its
//! writer do to the rows before it, and lookups, scans and counts must be what the
//! changelog gives up to where readers may read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use mainstem_env::SeededRng;
use mainstem_net::Response;

use super::keyed::{
    Change, ChangeBatch, Op, counted, limit_scan, limited, looked_up, lookup, open_scan, put,
    put_batch, put_outcome, read_changes, scanned, statistics,
};
use super::world::{BATCH_MAX, BatchId, Bucket, Harm, Ledger, Place, TABLE};

/// Keys of a bucket; few, so that they are changed again and again.
const KEYS: u64 = 9;

/// Rows as a changelog makes them.
#[derive(Clone, Debug, Default)]
struct Fold {
    rows: BTreeMap<i64, String>,
    next_offset: i64,
}

#[derive(Default)]
pub struct KeyedLedger {
    sent: HashMap<BatchId, Vec<Op>>,
    /// End of the changelog that a put was answered with.
    acknowledged: BTreeMap<BatchId, i64>,
    /// What readers have read, in order.
    seen: Vec<ChangeBatch>,
    reader: Fold,
}

impl KeyedLedger {
    /// Reads the changelog on, up to the high watermark.
    fn read(&mut self, bucket: &mut Bucket<'_>) -> Result<(), i32> {
        loop {
            let next = self.reader.next_offset;
            let max_bytes = [100, 3_000, 1 << 20][bucket.rng.index(3)];
            let fetched = bucket.fetched(next, max_bytes);
            if let Some(code) = fetched.error {
                return Err(code);
            }
            if fetched.high_watermark < next {
                // A start that could not make the tail durable that a crash left.
                assert_eq!(bucket.harm, Harm::Crash, "it went back");
                return Err(10);
            }
            if next == fetched.high_watermark {
                return Ok(());
            }
            let batches = read_changes(&fetched);
            assert!(!batches.is_empty(), "nothing at {next}");
            for batch in batches {
                assert!(batch.next_offset <= fetched.high_watermark);
                self.reader.apply(&batch, &self.sent);
                self.seen.push(batch);
            }
        }
    }

    /// Reads the changelog anew, compares it with what was read before, and looks at
    /// the rows in every way.
    fn check_rows(&mut self, bucket: &mut Bucket<'_>) -> Result<(), i32> {
        let texts = looked_up_all(bucket)?;
        let seen = std::mem::take(&mut self.seen);
        self.reader = Fold::default();
        self.read(bucket)?;
        assert!(self.seen.starts_with(&seen), "the changelog has changed");
        assert_eq!(texts, self.reader.texts(), "looked up");
        let rows = self.reader.rows.clone();
        let all: Vec<(i64, String)> = rows.into_iter().collect();
        let (server, at) = (bucket.server, bucket.place);
        let body = limit_scan(TABLE, at.partition, at.bucket);
        assert_eq!(limited(server.at_once(1033, body))?, all, "limited");
        let body = open_scan(TABLE, at.partition, at.bucket, 1 << 20);
        let scan = scanned(server.at_once(1061, body))?;
        assert_eq!(scan.rows, all, "scanned");
        assert_eq!(scan.log_offset, Some(self.reader.next_offset));
        let body = statistics(TABLE, at.partition, at.bucket);
        let count = counted(server.at_once(1059, body))?;
        assert_eq!(count, all.len() as i64, "counted");
        Ok(())
    }
}

impl Ledger for KeyedLedger {
    const KEYED: bool = true;
    const REFUSALS: &'static [i32] = &[10, 11];

    fn send(&mut self, id: BatchId, first: i64, rng: &mut SeededRng) {
        let width = [1, 40, 900][rng.index(3)];
        let count = rng.below(BATCH_MAX + 1) as i64;
        let op = |number| {
            let key = rng.below(KEYS) as i64;
            (key, rng.chance(70).then(|| format!("{number:0width$}")))
        };
        self.sent
            .insert(id, (first..first + count).map(op).collect());
    }

    fn request(&self, place: Place, id: BatchId, acks: i32) -> (i16, Bytes) {
        let records = put_batch(id.0, id.1, &self.sent[&id]);
        let body = put(TABLE, place.partition, place.bucket, acks, records);
        (1016, body)
    }

    fn answered(&mut self, id: BatchId, response: Response) -> Result<(), i32> {
        let before = self.acknowledged.insert(id, put_outcome(response)?);
        assert_eq!(before, None, "{id:?} is acknowledged twice");
        Ok(())
    }

    /// Looks up all keys and then reads the changelog on: whatever readers may read
    /// was found.
    fn look(&mut self, bucket: &mut Bucket<'_>) {
        let (server, at) = (bucket.server, bucket.place);
        let texts = match bucket.rng.index(4) {
            0 => {
                let body = limit_scan(TABLE, at.partition, at.bucket);
                limited(server.at_once(1033, body)).map(by_key)
            }
            1 => {
                let body = open_scan(TABLE, at.partition, at.bucket, 1 << 20);
                scanned(server.at_once(1061, body)).map(|scanned| by_key(scanned.rows))
            }
            _ => looked_up_all(bucket),
        };
        match self.read(bucket).and(texts) {
            Ok(texts) => assert_eq!(texts, self.reader.texts(), "rows of {at:?}"),
            Err(code) => {
                let expected = [10, 11].contains(&code) || bucket.is_unopened();
                assert!(expected, "code {code}");
            }
        }
    }

    fn check(&mut self, bucket: &mut Bucket<'_>) {
        assert_eq!(self.check_rows(bucket), Ok(()));
        bucket.server.sync();
        assert_eq!(self.check_rows(bucket), Ok(()), "all is durable");
        let replica = bucket.replica();
        assert_eq!(replica.high_watermark(), replica.log_end_offset());
        let found: BTreeMap<BatchId, i64> = self
            .seen
            .iter()
            .map(|batch| ((batch.writer, batch.sequence), batch.next_offset))
            .collect();
        assert_eq!(found.len(), self.seen.len(), "a put is there twice");
        for (id, end) in &self.acknowledged {
            assert_eq!(found.get(id), Some(end), "acknowledged put {id:?}");
        }
    }

    fn check_finished(&self) {
        let sent: BTreeSet<_> = self.sent.keys().collect();
        let acknowledged: BTreeSet<_> = self.acknowledged.keys().collect();
        assert_eq!(sent, acknowledged);
        assert_eq!(sent.len(), self.seen.len());
    }
}

impl Fold {
    /// Takes a batch, which has to be what the put of its writer does now.
    fn apply(&mut self, batch: &ChangeBatch, sent: &HashMap<BatchId, Vec<Op>>) {
        let id = (batch.writer, batch.sequence);
        let ops = sent
            .get(&id)
            .unwrap_or_else(|| panic!("{id:?} was never sent"));
        let mut expected: Vec<Change> = Vec::new();
        let base = self.next_offset;
        for (key, text) in ops {
            let old = match text {
                Some(text) => self.rows.insert(*key, text.clone()),
                None => self.rows.remove(key),
            };
            let mut change = |change_type, text: String| {
                let offset = base + expected.len() as i64;
                expected.push((offset, change_type, *key, text));
            };
            match (old, text) {
                (None, None) => {}
                (None, Some(text)) => change(1, text.clone()),
                (Some(old), None) => change(4, old),
                (Some(old), Some(text)) => {
                    change(2, old);
                    change(3, text.clone());
                }
            }
        }
        assert_eq!(batch.changes, expected, "changes of {id:?}");
        self.next_offset += (expected.len() as i64).max(1);
        assert_eq!(batch.next_offset, self.next_offset, "end of {id:?}");
    }

    /// The rows as a lookup of all keys finds them.
    fn texts(&self) -> Vec<Option<String>> {
        let keys = 0..KEYS as i64;
        keys.map(|key| self.rows.get(&key).cloned()).collect()
    }
}

fn by_key(rows: Vec<(i64, String)>) -> Vec<Option<String>> {
    let rows = rows.into_iter().collect();
    let next_offset = 0;
    Fold { rows, next_offset }.texts()
}

fn looked_up_all(bucket: &Bucket<'_>) -> Result<Vec<Option<String>>, i32> {
    let keys: Vec<i64> = (0..KEYS as i64).collect();
    let Place {
        partition,
        bucket: number,
    } = bucket.place;
    let body = lookup(TABLE, partition, number, &keys);
    looked_up(bucket.server.at_once(1017, body), &keys)
}
