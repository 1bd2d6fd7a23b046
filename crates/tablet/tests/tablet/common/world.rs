//! Writers and readers of a table whose server, disk and stores come to harm.
//! What they were promised is noted in a ledger for each bucket.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{Fault, SeededRng, SimFileSystem, Survival};
use mainstem_kv::memory::{Faults, MemoryEngine};
use mainstem_log::{Durability, LogConfig};
use mainstem_net::Response;
use mainstem_tablet::replica::Replica;
use mainstem_types::{BucketId, PartitionId, TableBucket, TableId};

use super::bodies::{Fetch, FetchedBucket};
use super::call::Call;
use super::server::{Server, disk};
use super::tables::{TableSpec, catalog, put_partition, put_table};

pub(super) const TABLE: i64 = 1;
/// What a writer has in flight at most.
const IN_FLIGHT: usize = 5;
/// Records of a batch at most.
pub(super) const BATCH_MAX: u64 = 4;

/// Writer and sequence number of a batch.
pub type BatchId = (i64, i32);

/// What clients have sent to a bucket of one kind of table, what they were promised,
/// and what they have seen.
pub trait Ledger: Default {
    /// Whether the table has a primary key.
    const KEYED: bool;
    /// With what a write may be refused because of the harm.
    const REFUSALS: &'static [i32];

    /// Makes up a batch of at most [`BATCH_MAX`] records, whose texts are numbers from
    /// `first` on.
    fn send(&mut self, id: BatchId, first: i64, rng: &mut SeededRng);

    /// The request with a batch: API key and body.
    fn request(&self, place: Place, id: BatchId, acks: i32) -> (i16, Bytes);

    /// Takes the answer to a batch, or returns its code.
    fn answered(&mut self, id: BatchId, response: Response) -> Result<(), i32>;

    /// A client looks at the bucket, which may be refused because of the harm.
    fn look(&mut self, bucket: &mut Bucket<'_>);

    /// Everything promised is there, once, and nothing else was made up.
    fn check(&mut self, bucket: &mut Bucket<'_>);

    /// What was sent is what was acknowledged, and what was seen.
    fn check_finished(&self);
}

/// What happens to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The power goes, or the process is killed.
    Crash,
    /// The disk, or stores, fail at times while the server lives.
    BadDisk,
}

/// A batch that is not acknowledged yet.
struct Pending {
    sequence: i32,
    call: Option<Call>,
}

/// What one writer sends to one bucket, in order.
struct Stream {
    writer: i64,
    /// Position among the places.
    at: usize,
    next_sequence: i32,
    pending: VecDeque<Pending>,
}

pub struct World<L> {
    seed: u64,
    recent_bytes: usize,
    pub rng: SeededRng,
    pub disk: SimFileSystem,
    pub server: Server,
    harm: Harm,
    log: LogConfig,
    /// Where the buckets are.
    places: Vec<Place>,
    now_ms: i64,
    next_number: i64,
    streams: Vec<Stream>,
    ledgers: Vec<L>,
}

impl<L> Drop for World<L> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this happened in the world of seed {}", self.seed);
        }
    }
}

impl<L: Ledger> World<L> {
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
        let engine = MemoryEngine::default();
        let recent_bytes = [0, 3_000, 1 << 20][rng.index(3)];
        let server = start::<L>(&disk, engine, &places, &log, now_ms, recent_bytes);
        let streams = (0..places.len())
            .flat_map(|at| (1..=2).map(move |writer| (writer, at)))
            .map(|(writer, at)| Stream {
                writer,
                at,
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
            recent_bytes,
            now_ms,
            next_number: 0,
            streams,
            ledgers: places.iter().map(|_| L::default()).collect(),
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

    /// Lives on, and takes all answers at once.
    pub fn live(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            self.collect();
        }
    }

    /// Lives on until the power goes at the `number`-th changing operation from now,
    /// or the steps are done. True if it has gone.
    pub fn live_until_power_goes(&mut self, number: u64, steps: usize) -> bool {
        let at = self.disk.operations() + number;
        self.disk.fail(at, Fault::PowerLoss);
        for _ in 0..steps {
            self.step();
            if self.disk.operations() >= at {
                break;
            }
        }
        // What was answered before counts, whether or not it was looked at.
        self.collect();
        self.disk.operations() >= at
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

    /// A new batch of some stream that may send one.
    fn send(&mut self) {
        let index = self.rng.index(self.streams.len());
        let stream = &mut self.streams[index];
        let waits_for_retry = stream.pending.iter().any(|one| one.call.is_none());
        if stream.pending.len() >= IN_FLIGHT || waits_for_retry {
            return;
        }
        let sequence = stream.next_sequence;
        stream.next_sequence += 1;
        let call = None;
        stream.pending.push_back(Pending { sequence, call });
        let last = stream.pending.len() - 1;
        let ledger = &mut self.ledgers[stream.at];
        ledger.send((stream.writer, sequence), self.next_number, &mut self.rng);
        self.next_number += BATCH_MAX as i64;
        self.start(index, last);
    }

    fn start(&mut self, stream: usize, position: usize) {
        let acks = if self.rng.chance(50) { -1 } else { 1 };
        let stream = &mut self.streams[stream];
        let pending = &mut stream.pending[position];
        let id = (stream.writer, pending.sequence);
        let ledger = &self.ledgers[stream.at];
        let (api_key, body) = ledger.request(self.places[stream.at], id, acks);
        pending.call = Some(self.server.call(api_key, body));
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
    fn collect(&mut self) {
        let runtime = &self.server.runtime;
        for stream in &mut self.streams {
            let ledger = &mut self.ledgers[stream.at];
            let mut refused_before = false;
            stream.pending.retain_mut(|pending| {
                let id = (stream.writer, pending.sequence);
                let answered = pending.call.take_if(|call| call.is_answered(runtime));
                match answered.map(|call| ledger.answered(id, call.answer())) {
                    None => refused_before |= pending.call.is_none(),
                    Some(Ok(())) => return false,
                    Some(Err(code)) => {
                        // Behind one that was refused, none can be taken.
                        let expected = L::REFUSALS.contains(&code) || code == 31 && refused_before;
                        assert!(expected, "code {code} for {id:?}");
                        refused_before = true;
                    }
                }
                true
            });
        }
    }

    /// A client looks at some bucket.
    pub fn look(&mut self) {
        let at = self.rng.index(self.places.len());
        let (ledger, mut bucket) = self.bucket(at);
        ledger.look(&mut bucket);
    }

    /// Everything promised is there, once, and nothing else was made up.
    pub fn check(&mut self) {
        for at in 0..self.places.len() {
            let (ledger, mut bucket) = self.bucket(at);
            ledger.check(&mut bucket);
        }
    }

    fn bucket(&mut self, at: usize) -> (&mut L, Bucket<'_>) {
        let bucket = Bucket {
            server: &self.server,
            rng: &mut self.rng,
            harm: self.harm,
            place: self.places[at],
        };
        (&mut self.ledgers[at], bucket)
    }

    /// The machine stops, and the server starts anew on what is left of its disk and
    /// its stores.
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
        self.server = start::<L>(
            &self.disk,
            engine,
            &self.places,
            &self.log,
            self.now_ms,
            self.recent_bytes,
        );
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
        for stream in &self.streams {
            assert!(stream.pending.is_empty(), "a writer is stuck");
        }
        self.check();
        for at in 0..self.places.len() {
            let (ledger, bucket) = self.bucket(at);
            ledger.check_finished();
            assert_eq!(bucket.replica().waiting(), (0, 0));
        }
    }

    /// Lets all writers finish. Everything is acknowledged then, so everything
    /// survives.
    pub fn finish_and_lose_power(&mut self) {
        self.finish();
        self.restart(self.disk.power_loss(Survival::Nothing));
        self.check();
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
}

/// A bucket as its clients come to it.
pub struct Bucket<'w> {
    pub server: &'w Server,
    pub rng: &'w mut SeededRng,
    pub harm: Harm,
    pub place: Place,
}

impl Bucket<'_> {
    pub fn replica(&self) -> Arc<Replica> {
        let replica = self.server.replicas.get(&self.place.table_bucket());
        replica.unwrap_or_else(|| panic!("{:?} is not there", self.place))
    }

    /// Whether the last life left what cannot be repaired yet.
    pub fn is_unopened(&self) -> bool {
        let bucket = self.place.table_bucket();
        self.server.replicas.is_unopened(&bucket)
    }

    pub fn fetched(&self, from: i64, max_bytes: i32) -> FetchedBucket {
        let Place { partition, bucket } = self.place;
        let fetch = Fetch::of(TABLE).bucket_within(partition, bucket, from, max_bytes);
        self.server.fetched(&fetch).remove(0)
    }
}

/// A bucket, perhaps of a partition.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub partition: Option<i64>,
    pub bucket: i32,
}

impl Place {
    fn of(bucket: i32) -> Self {
        Self {
            partition: None,
            bucket,
        }
    }

    fn in_partition((partition, bucket): (i64, i32)) -> Self {
        Self {
            partition: Some(partition),
            bucket,
        }
    }

    fn table_bucket(self) -> TableBucket {
        TableBucket {
            table_id: TableId(TABLE),
            partition_id: self.partition.map(PartitionId),
            bucket_id: BucketId(self.bucket),
        }
    }
}

/// A server with a table that has these buckets.
fn start<L: Ledger>(
    disk: &SimFileSystem,
    engine: MemoryEngine,
    places: &[Place],
    log: &LogConfig,
    now_ms: i64,
    recent_bytes: usize,
) -> Server {
    let catalog = catalog();
    let spec = TableSpec {
        id: TABLE,
        buckets: places.len() as i32,
        partitioned: places[0].partition.is_some(),
        keyed: L::KEYED,
        ..TableSpec::default()
    };
    put_table(&catalog, &spec);
    let partitions: BTreeSet<i64> = places.iter().filter_map(|place| place.partition).collect();
    for partition in partitions {
        put_partition(&catalog, TABLE, partition, 2);
    }
    let disk = Arc::new(disk.clone());
    Server::start_recent(disk, engine, &catalog, log.clone(), now_ms, recent_bytes)
}
