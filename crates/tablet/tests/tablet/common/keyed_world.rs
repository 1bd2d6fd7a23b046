//! Writers and readers of a primary-key table whose server, disk and stores come
//! to harm, and what they were promised.
//!
//! The changelog is the truth: each of its batches must be what the puts of its
//! writer do to the rows before it, and lookups, scans and counts must be what the
//! changelog gives up to where readers may read.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use mainstem_env::{Fault, SeededRng, SimFileSystem, Survival};
use mainstem_kv::memory::{Faults, MemoryEngine};
use mainstem_log::{Durability, LogConfig};
use mainstem_meta::Catalog;

use super::bodies::Fetch;
use super::call::Call;
use super::keyed::{
    Change, ChangeBatch, Op, counted, limit_scan, limited, looked_up, lookup, open_scan, put,
    put_batch, put_outcome, read_changes, scanned, statistics,
};
use super::server::{Server, disk};
use super::tables::{TableSpec, catalog, put_partition, put_table};
use super::world::{Harm, Place};

const TABLE: i64 = 1;
/// Keys of a bucket; few, so that they are changed again and again.
const KEYS: u64 = 9;
/// What a writer has in flight at most.
const IN_FLIGHT: usize = 5;

/// Rows as a changelog makes them.
#[derive(Clone, Debug, Default)]
struct Fold {
    rows: BTreeMap<i64, String>,
    next_offset: i64,
}

struct Pending {
    sequence: i32,
    call: Option<Call>,
}

/// What one writer sends to one bucket, in order.
struct Stream {
    writer: i64,
    place: usize,
    next_sequence: i32,
    pending: VecDeque<Pending>,
}

/// What is known of a bucket.
#[derive(Default)]
struct Ledger {
    /// By writer and sequence.
    sent: HashMap<(i64, i32), Vec<Op>>,
    /// End of the changelog that a put was answered with.
    acknowledged: BTreeMap<(i64, i32), i64>,
    /// What readers have read, in order.
    seen: Vec<ChangeBatch>,
    reader: Fold,
}

pub struct KeyedWorld {
    seed: u64,
    pub rng: SeededRng,
    pub disk: SimFileSystem,
    pub server: Server,
    harm: Harm,
    log: LogConfig,
    places: Vec<Place>,
    now_ms: i64,
    next_text: u64,
    streams: Vec<Stream>,
    ledgers: Vec<Ledger>,
}

impl KeyedWorld {
    pub fn new(seed: u64, harm: Harm) -> Self {
        Self::with_durability(seed, harm, Durability::Fsync)
    }

    pub fn with_durability(seed: u64, harm: Harm, durability: Durability) -> Self {
        let mut rng = SeededRng::new(seed);
        let places: Vec<Place> = match rng.index(3) {
            0 => [(10, 0), (11, 1)].map(Place::in_partition).into(),
            buckets => (0..buckets as i32).map(Place::of).collect(),
        };
        let log = LogConfig {
            segment_bytes: [300, 4_000, 1 << 20][rng.index(3)],
            checkpoint_bytes: [300, 5_000, 1 << 20][rng.index(3)],
            checkpoint_min_interval_ms: [0, 1_000][rng.index(2)],
            durability,
            ..LogConfig::default()
        };
        let disk = disk(seed);
        let now_ms = 1_000_000;
        let server = start(&disk, MemoryEngine::default(), &places, &log, now_ms);
        let streams = (0..places.len())
            .flat_map(|place| (1..=2).map(move |writer| (writer, place)))
            .map(|(writer, place)| Stream {
                writer,
                place,
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
            next_text: 0,
            streams,
            ledgers: places.iter().map(|_| Ledger::default()).collect(),
            places,
        }
    }

    /// Does something at random.
    pub fn step(&mut self) {
        let passed = self.rng.below(40) as i64;
        self.pass(passed);
        match self.rng.below(24) {
            0..8 => self.send(),
            8..12 => {
                self.server.syncer.run_next();
            }
            12..15 => self.look(),
            15..18 => self.collect(),
            18..20 => {
                // At times long enough for a flush, or for rows to be closed.
                let passed = [1_000, 1_000, 11_000, 70_000][self.rng.index(4)];
                self.pass(passed);
                self.server.replicas.maintain();
            }
            20 if self.harm == Harm::BadDisk => self.harm_stores(),
            _ => self.resend(),
        }
    }

    fn pass(&mut self, milliseconds: i64) {
        self.now_ms += milliseconds;
        self.server.clock.advance_ms(milliseconds);
    }

    /// Stores begin to fail, or stop failing.
    fn harm_stores(&mut self) {
        let faults = Faults {
            failing: self.rng.chance(40),
            cold: self.rng.chance(30),
            ..Faults::default()
        };
        self.server.engine.set_faults(faults);
    }

    fn send(&mut self) {
        let index = self.rng.index(self.streams.len());
        let stream = &mut self.streams[index];
        let waits_for_retry = stream.pending.iter().any(|one| one.call.is_none());
        if stream.pending.len() >= IN_FLIGHT || waits_for_retry {
            return;
        }
        let width = [1, 40, 900][self.rng.index(3)];
        let ops: Vec<Op> = (0..self.rng.below(5))
            .map(|_| {
                let key = self.rng.below(KEYS) as i64;
                self.next_text += 1;
                let text = format!("{:0width$}", self.next_text);
                (key, self.rng.chance(70).then_some(text))
            })
            .collect();
        let sequence = stream.next_sequence;
        stream.next_sequence += 1;
        stream.pending.push_back(Pending {
            sequence,
            call: None,
        });
        let last = stream.pending.len() - 1;
        let id = (stream.writer, sequence);
        self.ledgers[stream.place].sent.insert(id, ops);
        self.start(index, last);
    }

    fn start(&mut self, stream: usize, position: usize) {
        let acks = if self.rng.chance(50) { -1 } else { 1 };
        let stream = &mut self.streams[stream];
        let pending = &mut stream.pending[position];
        let place = self.places[stream.place];
        let ops = &self.ledgers[stream.place].sent[&(stream.writer, pending.sequence)];
        let records = put_batch(stream.writer, pending.sequence, ops);
        let body = put(TABLE, place.partition, place.bucket, acks, records);
        pending.call = Some(self.server.call(1016, body));
    }

    /// Sends again, in order, what was refused, once nothing of the stream is in
    /// flight.
    fn resend(&mut self) {
        for index in 0..self.streams.len() {
            let pending = &self.streams[index].pending;
            if pending.iter().all(|one| one.call.is_none()) {
                for position in 0..pending.len() {
                    self.start(index, position);
                }
            }
        }
    }

    /// Takes the answers that are there.
    pub fn collect(&mut self) {
        let what = self.what();
        for stream in &mut self.streams {
            let ledger = &mut self.ledgers[stream.place];
            let mut refused_before = false;
            for pending in &mut stream.pending {
                let answered = match &mut pending.call {
                    None => {
                        refused_before = true;
                        continue;
                    }
                    Some(call) => call.is_answered(&self.server.runtime),
                };
                let Some(call) = pending.call.take_if(|_| answered) else {
                    continue;
                };
                let id = (stream.writer, pending.sequence);
                match put_outcome(call.answer()) {
                    Ok(end) => {
                        let before = ledger.acknowledged.insert(id, end);
                        assert!(before.is_none_or(|before| before == end), "{what}: {id:?}");
                    }
                    Err(code) => {
                        // Behind one that was refused, none can be taken.
                        let expected = [10, 11].contains(&code) || code == 31 && refused_before;
                        assert!(expected, "{what}: code {code} for {id:?}");
                        refused_before = true;
                    }
                }
            }
            let acknowledged = &ledger.acknowledged;
            let is_done = |one: &Pending| acknowledged.contains_key(&(stream.writer, one.sequence));
            stream
                .pending
                .retain(|one| one.call.is_some() || !is_done(one));
        }
    }

    /// Looks up all keys of a bucket and then reads its changelog on: whatever
    /// readers may read was found.
    pub fn look(&mut self) {
        let at = self.rng.index(self.places.len());
        let place = self.places[at];
        let keys: Vec<i64> = (0..KEYS as i64).collect();
        let texts = match self.rng.index(4) {
            0 => {
                let body = limit_scan(TABLE, place.partition, place.bucket);
                limited(self.server.at_once(1033, body)).map(|rows| by_key(&rows))
            }
            1 => {
                let body = open_scan(TABLE, place.partition, place.bucket, 1 << 20);
                scanned(self.server.at_once(1061, body)).map(|scanned| by_key(&scanned.rows))
            }
            _ => {
                let body = lookup(TABLE, place.partition, place.bucket, &keys);
                looked_up(self.server.at_once(1017, body), &keys)
            }
        };
        if let Err(code) = self.read(at) {
            self.may_fail(at, code);
            return;
        }
        match texts {
            Err(code) => self.may_fail(at, code),
            Ok(texts) => {
                let rows = &self.ledgers[at].reader.rows;
                let expected: Vec<_> = keys.iter().map(|key| rows.get(key).cloned()).collect();
                assert_eq!(texts, expected, "{}: rows of {place:?}", self.what());
            }
        }
    }

    fn may_fail(&self, at: usize, code: i32) {
        let unopened = self
            .server
            .replicas
            .is_unopened(&self.places[at].table_bucket());
        assert!(
            [10, 11].contains(&code) || unopened,
            "{}: code {code}",
            self.what()
        );
    }

    /// Reads a changelog on, up to the high watermark.
    fn read(&mut self, at: usize) -> Result<(), i32> {
        let place = self.places[at];
        loop {
            let next = self.ledgers[at].reader.next_offset;
            let max_bytes = [100, 3_000, 1 << 20][self.rng.index(3)];
            let fetch =
                Fetch::of(TABLE).bucket_within(place.partition, place.bucket, next, max_bytes);
            let fetched = self.server.fetched(&fetch).remove(0);
            if let Some(code) = fetched.error {
                return Err(code);
            }
            if fetched.high_watermark < next {
                // A start that could not make the tail durable that a crash left.
                assert_eq!(self.harm, Harm::Crash, "{}: it went back", self.what());
                return Err(10);
            }
            if next == fetched.high_watermark {
                return Ok(());
            }
            let batches = read_changes(&fetched);
            assert!(!batches.is_empty(), "{}: nothing at {next}", self.what());
            for batch in batches {
                let what = self.what();
                let ledger = &mut self.ledgers[at];
                assert!(batch.next_offset <= fetched.high_watermark, "{what}");
                ledger.reader.apply(&batch, &ledger.sent, &what);
                ledger.seen.push(batch);
            }
        }
    }

    /// The machine stops, and the server starts anew on what is left of its disk
    /// and its stores.
    pub fn restart(&mut self, disk: SimFileSystem) {
        for stream in &mut self.streams {
            for pending in &mut stream.pending {
                pending.call = None;
            }
        }
        let engine = self.server.engine.clone();
        let rng = &mut self.rng;
        engine.crash(|_, writes| rng.below(writes as u64 + 1) as usize);
        engine.set_faults(Faults::default());
        self.disk = disk;
        self.now_ms += 5_000;
        self.server = start(&self.disk, engine, &self.places, &self.log, self.now_ms);
    }

    /// Everything promised is there, once; rows and changelog say the same.
    pub fn check(&mut self) {
        for at in 0..self.places.len() {
            let place = self.places[at];
            let what = format!("{}, {place:?}", self.what());
            let code = self.check_rows(at, &what);
            assert_eq!(code, Ok(()), "{what}");
            self.server.sync();
            let code = self.check_rows(at, &what);
            assert_eq!(code, Ok(()), "{what}: all is durable");
            let replica = self
                .server
                .replicas
                .get(&place.table_bucket())
                .expect("a replica");
            assert_eq!(replica.high_watermark(), replica.log_end_offset(), "{what}");
            let ledger = &self.ledgers[at];
            let found: BTreeMap<_, _> = ledger
                .seen
                .iter()
                .map(|batch| ((batch.writer, batch.sequence), batch.next_offset))
                .collect();
            assert_eq!(
                found.len(),
                ledger.seen.len(),
                "{what}: a put is there twice"
            );
            for (id, end) in &ledger.acknowledged {
                assert_eq!(found.get(id), Some(end), "{what}: acknowledged put {id:?}");
            }
        }
    }

    /// Reads the changelog anew, compares it with what was read before, and looks at
    /// the rows in every way.
    fn check_rows(&mut self, at: usize, what: &str) -> Result<(), i32> {
        let place = self.places[at];
        let keys: Vec<i64> = (0..KEYS as i64).collect();
        let body = lookup(TABLE, place.partition, place.bucket, &keys);
        let texts = looked_up(self.server.at_once(1017, body), &keys)?;
        let seen = std::mem::take(&mut self.ledgers[at].seen);
        self.ledgers[at].reader = Fold::default();
        self.read(at)?;
        let ledger = &self.ledgers[at];
        assert!(
            ledger.seen.starts_with(&seen),
            "{what}: the changelog has changed"
        );
        let rows = ledger.reader.rows.clone();
        let expected: Vec<_> = keys.iter().map(|key| rows.get(key).cloned()).collect();
        assert_eq!(texts, expected, "{what}: looked up");
        let all: Vec<(i64, String)> = rows.into_iter().collect();
        let body = limit_scan(TABLE, place.partition, place.bucket);
        assert_eq!(
            limited(self.server.at_once(1033, body))?,
            all,
            "{what}: limited"
        );
        let body = open_scan(TABLE, place.partition, place.bucket, 1 << 20);
        let scan = scanned(self.server.at_once(1061, body))?;
        let end = self.ledgers[at].reader.next_offset;
        assert_eq!(
            (scan.rows, scan.log_offset),
            (all.clone(), Some(end)),
            "{what}: scanned"
        );
        let body = statistics(TABLE, place.partition, place.bucket);
        let count = counted(self.server.at_once(1059, body))?;
        assert_eq!(count, all.len() as i64, "{what}: counted");
        Ok(())
    }

    /// Lets all writers finish, without further harm.
    pub fn finish(&mut self) {
        self.disk.clear_faults();
        self.disk.set_capacity(None);
        self.server.engine.set_faults(Faults::default());
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
        for (place, ledger) in self.places.iter().zip(&self.ledgers) {
            let sent: BTreeSet<_> = ledger.sent.keys().collect();
            let acknowledged: BTreeSet<_> = ledger.acknowledged.keys().collect();
            assert_eq!(sent, acknowledged, "{what}, {place:?}");
            assert_eq!(sent.len(), ledger.seen.len(), "{what}, {place:?}");
            let replica = self.server.replicas.get(&place.table_bucket());
            assert_eq!(
                replica.map(|replica| replica.waiting()),
                Some((0, 0)),
                "{what}"
            );
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

impl Fold {
    /// Takes a batch, which has to be what the put of its writer does now.
    fn apply(&mut self, batch: &ChangeBatch, sent: &HashMap<(i64, i32), Vec<Op>>, what: &str) {
        let id = (batch.writer, batch.sequence);
        let ops = sent
            .get(&id)
            .unwrap_or_else(|| panic!("{what}: {id:?} was never sent"));
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
        assert_eq!(batch.changes, expected, "{what}: changes of {id:?}");
        self.next_offset += (expected.len() as i64).max(1);
        assert_eq!(batch.next_offset, self.next_offset, "{what}: end of {id:?}");
    }
}

fn by_key(rows: &[(i64, String)]) -> Vec<Option<String>> {
    let rows: BTreeMap<_, _> = rows.iter().cloned().collect();
    (0..KEYS as i64)
        .map(|key| rows.get(&key).cloned())
        .collect()
}

fn start(
    disk: &SimFileSystem,
    engine: MemoryEngine,
    places: &[Place],
    log: &LogConfig,
    now_ms: i64,
) -> Server {
    let disk = Arc::new(disk.clone());
    Server::start_with(disk, engine, &table_of(places), log.clone(), now_ms)
}

/// A table with these buckets.
fn table_of(places: &[Place]) -> Arc<Catalog> {
    let catalog = catalog();
    let spec = TableSpec {
        partitioned: places[0].partition.is_some(),
        ..TableSpec::keyed(TABLE, "t", places.len() as i32)
    };
    put_table(&catalog, &spec);
    for partition in places.iter().filter_map(|place| place.partition) {
        put_partition(&catalog, TABLE, partition, 2);
    }
    catalog
}
