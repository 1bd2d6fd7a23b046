//! Writers and readers of a table whose server and disk come to harm, and a
//! ledger of what they were promised.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{Fault, SeededRng, SimFileSystem, Survival};
use mainstem_log::{Durability, LogConfig};
use mainstem_meta::Catalog;
use mainstem_net::Response;
use mainstem_types::{BucketId, PartitionId, TableBucket, TableId};

use super::bodies::{Fetch, Produce};
use super::call::Call;
use super::rows::{Row, batch, rows};
use super::server::{Server, disk};
use super::tables::{TableSpec, catalog, put_partition, put_table};

const TABLE: i64 = 1;
/// What clients have in flight per bucket at most.
const IN_FLIGHT: usize = 5;

/// What happens to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The power goes, or the process is killed.
    Crash,
    /// The disk fails at times while the server lives.
    BadDisk,
}

/// A batch that is not acknowledged yet.
struct Pending {
    sequence: i32,
    values: Vec<i64>,
    records: Bytes,
    call: Option<Call>,
}

/// What one writer sends to one bucket, in order.
struct Stream {
    writer_id: i64,
    /// Position among the places.
    bucket: usize,
    next_sequence: i32,
    pending: VecDeque<Pending>,
}

/// What is known of a bucket.
#[derive(Default)]
struct Ledger {
    sent: HashSet<i64>,
    acknowledged: BTreeMap<i64, i64>,
    seen: BTreeMap<i64, i64>,
}

impl Ledger {
    /// End of what was promised to anybody.
    fn promised_end(&self) -> i64 {
        let last = |map: &BTreeMap<i64, i64>| map.last_key_value().map_or(0, |(last, _)| last + 1);
        last(&self.acknowledged).max(last(&self.seen))
    }
}

pub struct World {
    pub seed: u64,
    pub rng: SeededRng,
    pub disk: SimFileSystem,
    pub server: Server,
    harm: Harm,
    log: LogConfig,
    /// Where the buckets are.
    places: Vec<Place>,
    now_ms: i64,
    next_value: i64,
    streams: Vec<Stream>,
    ledgers: Vec<Ledger>,
    next_read: Vec<i64>,
    pub errors: usize,
}

impl World {
    pub fn new(seed: u64, harm: Harm) -> Self {
        Self::with_durability(seed, harm, Durability::Fsync)
    }

    pub fn with_durability(seed: u64, harm: Harm, durability: Durability) -> Self {
        let mut rng = SeededRng::new(seed);
        let places: Vec<Place> = match rng.index(4) {
            0 => [(10, 0), (10, 1), (11, 0)].map(Place::in_partition).into(),
            buckets => (0..buckets as i32).map(Place::of).collect(),
        };
        let log = LogConfig {
            segment_bytes: [200, 1_500, 8_000, 1 << 20][rng.index(4)],
            checkpoint_bytes: [300, 5_000, 1 << 20][rng.index(3)],
            checkpoint_min_interval_ms: [0, 1_000][rng.index(2)],
            durability,
            ..LogConfig::default()
        };
        let disk = disk(seed);
        let now_ms = 1_000_000;
        let catalog = table_of(&places);
        let server = Server::start_on(Arc::new(disk.clone()), &catalog, log.clone(), now_ms);
        let streams = (0..places.len())
            .flat_map(|bucket| (1..=2).map(move |writer| (writer, bucket)))
            .map(|(writer_id, bucket)| Stream {
                writer_id,
                bucket,
                next_sequence: 0,
                pending: VecDeque::new(),
            })
            .collect();
        Self {
            seed,
            rng,
            disk,
            server,
            harm,
            log,
            now_ms,
            next_value: 0,
            streams,
            ledgers: places.iter().map(|_| Ledger::default()).collect(),
            next_read: vec![0; places.len()],
            errors: 0,
            places,
        }
    }

    /// Does something at random.
    pub fn step(&mut self) {
        self.pass(self.rng.clone().below(40) as i64);
        match self.rng.below(20) {
            0..8 => self.send(),
            8..12 => {
                self.server.syncer.run_next();
            }
            12..15 => self.read(),
            15..18 => self.collect(),
            18 => {
                self.pass(1_000);
                self.server.replicas.maintain();
            }
            _ => self.resend(),
        }
    }

    fn pass(&mut self, milliseconds: i64) {
        self.now_ms += milliseconds;
        self.server.clock.advance_ms(milliseconds);
    }

    /// A new batch of some stream that may send one.
    fn send(&mut self) {
        let index = self.rng.index(self.streams.len());
        let stream = &mut self.streams[index];
        let waits_for_retry = stream.pending.iter().any(|one| one.call.is_none());
        if stream.pending.len() >= IN_FLIGHT || waits_for_retry {
            return;
        }
        let count = 1 + self.rng.below(4) as i64;
        let width = [3, 40, 300, 1_300][self.rng.index(4)];
        let rows = rows(self.next_value, count, width);
        self.next_value += count;
        let values: Vec<i64> = rows.iter().map(|(a, _)| *a).collect();
        self.ledgers[stream.bucket].sent.extend(&values);
        let sequence = stream.next_sequence;
        stream.next_sequence += 1;
        stream.pending.push_back(Pending {
            sequence,
            values,
            records: batch(stream.writer_id, sequence, &rows),
            call: None,
        });
        let last = stream.pending.len() - 1;
        self.start(index, last);
    }

    fn start(&mut self, stream: usize, position: usize) {
        let acks = if self.rng.chance(50) { -1 } else { 1 };
        let stream = &mut self.streams[stream];
        let pending = &mut stream.pending[position];
        let place = self.places[stream.bucket];
        let request = Produce::to(TABLE, acks).partition(
            place.partition,
            place.bucket,
            pending.records.clone(),
        );
        pending.call = Some(self.server.produce(&request));
    }

    /// Sends again, in order, what was refused, once nothing of the stream is
    /// in flight.
    fn resend(&mut self) {
        for index in 0..self.streams.len() {
            if self.streams[index]
                .pending
                .iter()
                .all(|one| one.call.is_none())
            {
                for position in 0..self.streams[index].pending.len() {
                    self.start(index, position);
                }
            }
        }
    }

    /// Takes the answers that are there.
    pub fn collect(&mut self) {
        for index in 0..self.streams.len() {
            for position in 0..self.streams[index].pending.len() {
                let pending = &mut self.streams[index].pending[position];
                let Some(call) = &mut pending.call else {
                    continue;
                };
                if call.is_answered(&self.server.runtime)
                    && let Some(call) = pending.call.take()
                {
                    self.answered(index, position, call.answer());
                }
            }
            let stream = &mut self.streams[index];
            stream.pending.retain(|one| !one.values.is_empty());
        }
    }

    fn answered(&mut self, stream: usize, position: usize, response: Response) {
        let what = self.what();
        let stream = &mut self.streams[stream];
        let sequence = stream.pending[position].sequence;
        let ledger = &mut self.ledgers[stream.bucket];
        match Produce::parse(response)[0].result {
            Ok(base_offset) => {
                let values = std::mem::take(&mut stream.pending[position].values);
                for (offset, value) in (base_offset..).zip(values) {
                    let seen = ledger.seen.get(&offset).copied().unwrap_or(value);
                    assert_eq!(seen, value, "{what}: offset {offset} was read otherwise");
                    let other = ledger.acknowledged.insert(offset, value);
                    assert_eq!(other, None, "{what}: offset {offset} is given twice");
                }
            }
            Err(code) => {
                self.errors += 1;
                // Behind one that was refused, none can be taken.
                let mut before = stream.pending.iter().take(position);
                let behind_refused = before.any(|one| one.call.is_none() && !one.values.is_empty());
                let expected = code == 10 || code == 31 && behind_refused;
                assert!(expected, "{what}: code {code} for sequence {sequence}");
            }
        }
    }

    /// Reads on in a bucket, or again from somewhere before.
    pub fn read(&mut self) {
        let bucket = self.rng.index(self.places.len());
        let next = self.next_read[bucket];
        let start = if self.rng.chance(70) {
            next
        } else {
            self.rng.below(next as u64 + 1) as i64
        };
        let max_bytes = [100, 3_000, 1 << 20][self.rng.index(3)];
        let place = self.places[bucket];
        let fetch = Fetch::of(TABLE).bucket_within(place.partition, place.bucket, start, max_bytes);
        let fetched = &self.server.fetched(&fetch)[0];
        // The power is off, or what the last life left cannot be repaired yet.
        let unopened = self.server.replicas.is_unopened(&place.table_bucket());
        if fetched.error == Some(10) && (self.harm == Harm::Crash || unopened) {
            self.errors += 1;
            return;
        }
        let rows = fetched.rows();
        let end = rows.last().map_or(start, |last| last.offset + 1);
        // After a crash the position may be beyond what is synced again yet.
        assert!(
            rows.is_empty() || end <= fetched.high_watermark,
            "{}",
            self.what()
        );
        self.see(bucket, &rows);
        self.next_read[bucket] = next.max(end);
    }

    fn see(&mut self, bucket: usize, rows: &[Row]) {
        let what = self.what();
        let ledger = &mut self.ledgers[bucket];
        for row in rows {
            assert!(
                ledger.sent.contains(&row.a),
                "{what}: {row:?} was never sent"
            );
            let before = ledger.seen.insert(row.offset, row.a).unwrap_or(row.a);
            assert_eq!(before, row.a, "{what}: offset {} has changed", row.offset);
            let promised = ledger.acknowledged.get(&row.offset).copied();
            assert_eq!(
                promised.unwrap_or(row.a),
                row.a,
                "{what}: offset {}",
                row.offset
            );
        }
    }

    /// Starts the server anew on a disk.
    pub fn restart(&mut self, disk: SimFileSystem) {
        for pending in self
            .streams
            .iter_mut()
            .flat_map(|stream| &mut stream.pending)
        {
            pending.call = None;
        }
        self.disk = disk;
        let catalog = table_of(&self.places);
        let disk = Arc::new(self.disk.clone());
        self.now_ms += 5_000;
        self.server = Server::start_on(disk, &catalog, self.log.clone(), self.now_ms);
    }

    /// Everything promised is there, once, and nothing else was made up.
    pub fn check(&mut self) {
        for bucket in 0..self.places.len() {
            let what = format!("{}, bucket {bucket}", self.what());
            let place = self.places[bucket];
            let replica = self.server.replicas.get(&place.table_bucket());
            let replica = replica.unwrap_or_else(|| panic!("{what}: it is not there"));
            let log = replica.log();
            log.check_writable()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(
                replica.high_watermark() <= log.durable_end_offset(),
                "{what}"
            );
            let promised_end = self.ledgers[bucket].promised_end();
            let visible_end = replica.high_watermark();
            assert!(
                visible_end >= promised_end,
                "{what}: visible up to {visible_end}, promised {promised_end}"
            );
            self.server.sync();
            let end = log.end_offset();
            assert_eq!(replica.high_watermark(), end, "{what}: all is durable");
            assert!(
                end >= promised_end,
                "{what}: ends at {end}, promised {promised_end}"
            );
            let mut found: Vec<Row> = Vec::new();
            while (found.len() as i64) < end {
                let next = found.len() as i64;
                let fetch =
                    Fetch::of(TABLE).bucket_within(place.partition, place.bucket, next, 1 << 20);
                let rows = self.server.fetched(&fetch)[0].rows();
                assert!(!rows.is_empty(), "{what}: nothing at {}", found.len());
                found.extend(rows);
            }
            let offsets: Vec<i64> = found.iter().map(|row| row.offset).collect();
            assert_eq!(offsets, (0..end).collect::<Vec<_>>(), "{what}");
            let once: HashSet<i64> = found.iter().map(|row| row.a).collect();
            assert_eq!(once.len(), found.len(), "{what}: a row is there twice");
            self.see(bucket, &found);
        }
    }

    /// Lets all writers finish, without further harm.
    pub fn finish(&mut self) {
        self.disk.clear_faults();
        self.disk.set_capacity(None);
        for _ in 0..20 {
            self.pass(1_000);
            self.server.replicas.maintain();
            self.resend();
            self.server.sync();
            self.collect();
        }
        let what = self.what();
        for stream in &self.streams {
            assert!(stream.pending.is_empty(), "{what}: a writer is stuck");
        }
        self.check();
        for (bucket, ledger) in self.ledgers.iter().enumerate() {
            assert_eq!(
                ledger.sent.len(),
                ledger.acknowledged.len(),
                "{what}, bucket {bucket}"
            );
            assert_eq!(ledger.acknowledged, ledger.seen, "{what}, bucket {bucket}");
            let replica = self
                .server
                .replicas
                .get(&self.places[bucket].table_bucket());
            let waiting = replica.map(|replica| replica.waiting());
            assert_eq!(waiting, Some((0, 0)), "{what}");
        }
    }

    /// The disk after the power has gone, or the process was killed.
    pub fn harmed_disk(&mut self) -> SimFileSystem {
        match self.rng.below(6) {
            0 => self.disk.power_loss(Survival::Nothing),
            1 => self.disk.power_loss(Survival::Everything),
            2 => self.disk.process_kill(),
            _ => {
                let seed = self.rng.next_u64();
                self.disk.power_loss(Survival::Seeded(seed))
            }
        }
    }

    /// Lets the power go at the `number`-th changing operation from now.
    pub fn power_goes_at(&self, number: u64) -> u64 {
        let at = self.disk.operations() + number;
        self.disk.fail(at, Fault::PowerLoss);
        at
    }

    fn what(&self) -> String {
        format!("seed {}", self.seed)
    }
}

/// A bucket, perhaps of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub partition: Option<i64>,
    pub bucket: i32,
}

impl Place {
    pub fn of(bucket: i32) -> Self {
        Self {
            partition: None,
            bucket,
        }
    }

    pub fn in_partition((partition, bucket): (i64, i32)) -> Self {
        Self {
            partition: Some(partition),
            bucket,
        }
    }

    pub fn table_bucket(self) -> TableBucket {
        TableBucket {
            table_id: TableId(TABLE),
            partition_id: self.partition.map(PartitionId),
            bucket_id: BucketId(self.bucket),
        }
    }
}

/// A table with these buckets.
fn table_of(places: &[Place]) -> Arc<Catalog> {
    let catalog = catalog();
    let spec = TableSpec {
        id: TABLE,
        buckets: places.len() as i32,
        partitioned: places[0].partition.is_some(),
        ..TableSpec::default()
    };
    put_table(&catalog, &spec);
    let partitions: BTreeSet<i64> = places.iter().filter_map(|place| place.partition).collect();
    for partition in partitions {
        put_partition(&catalog, TABLE, partition, 2);
    }
    catalog
}
