//! The server, and the disk under it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{Clock, FileSystem, ManualClock, SimFileSystem, SystemClock};
use mainstem_kv::memory::MemoryEngine;
use mainstem_kv::{KvResources, RecentBudget};
use mainstem_log::{LogConfig, LogResources, Syncer};
use mainstem_meta::{Catalog, MetaError, SequenceSource};
use mainstem_net::{Request, Session};
use mainstem_tablet::disk_guard::DiskGuard;
use mainstem_tablet::metrics::TabletMetrics;
use mainstem_tablet::registry::{Replicas, ReplicasConfig, RowsConfig};
use mainstem_tablet::replica::Replica;
use mainstem_tablet::service::{ScanLimits, TabletService};
use mainstem_types::{BucketId, PartitionId, ServerId, TableBucket, TableId};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::bodies::{Fetch, FetchedBucket, Produce, Produced};
use super::call::Call;
use super::rows::batch;

pub const LOG_DIR: &str = "/data/log";
pub const ROWS_DIR: &str = "/data/kv";

/// A disk with a durable log directory.
pub fn disk(seed: u64) -> SimFileSystem {
    let disk = SimFileSystem::new(seed);
    disk.create_dir_all(Path::new(LOG_DIR)).unwrap();
    disk.create_dir_all(Path::new(ROWS_DIR)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.sync_dir(Path::new("/data")).unwrap();
    disk
}

/// Large segments, checkpoints rarely.
pub fn log_config() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 20,
        ..LogConfig::default()
    }
}

pub struct Server {
    pub runtime: Runtime,
    pub clock: Arc<ManualClock>,
    pub syncer: Arc<Syncer>,
    pub catalog: Arc<Catalog>,
    pub replicas: Arc<Replicas>,
    pub service: Arc<TabletService>,
    pub session: Arc<Session>,
    /// Stores of rows.
    pub engine: MemoryEngine,
}

impl Server {
    /// Starts as a server does: everything in the catalog is opened.
    pub fn start(disk: &SimFileSystem, catalog: &Arc<Catalog>, log: LogConfig) -> Self {
        Self::start_on(Arc::new(disk.clone()), catalog, log, 1_000_000)
    }

    pub fn start_on(
        disk: Arc<dyn FileSystem>,
        catalog: &Arc<Catalog>,
        log: LogConfig,
        now_ms: i64,
    ) -> Self {
        Self::start_with(disk, MemoryEngine::default(), catalog, log, now_ms)
    }

    /// On a disk with stores of rows.
    pub fn start_with(
        disk: Arc<dyn FileSystem>,
        engine: MemoryEngine,
        catalog: &Arc<Catalog>,
        log: LogConfig,
        now_ms: i64,
    ) -> Self {
        Self::start_recent(disk, engine, catalog, log, now_ms, 0)
    }

    /// With so many bytes for recent rows; without them, as above, every change is
    /// brought to the store at once.
    pub fn start_recent(
        disk: Arc<dyn FileSystem>,
        engine: MemoryEngine,
        catalog: &Arc<Catalog>,
        log: LogConfig,
        now_ms: i64,
        recent_bytes: usize,
    ) -> Self {
        let clock = Arc::new(ManualClock::new(now_ms));
        let syncer = Arc::new(Syncer::simulated(clock.clone()));
        let rows = rows_resources(disk.clone(), engine.clone(), recent_bytes);
        let config = config(disk, rows, catalog, log, clock.clone());
        let replicas = Replicas::simulated(config, syncer.clone());
        let metrics = TabletMetrics::new(replicas.clone());
        replicas.set_metrics(metrics.clone());
        catalog.subscribe(replicas.clone());
        replicas
            .open_all((TableId(i64::MAX), PartitionId(i64::MAX)))
            .expect("the log directory can be read");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        Self {
            service: TabletService::new(
                replicas.clone(),
                clock.clone(),
                metrics,
                ScanLimits::default(),
            ),
            runtime,
            clock,
            syncer,
            catalog: catalog.clone(),
            replicas,
            session: session(1),
            engine,
        }
    }

    /// Hands over a request.
    pub fn call(&self, api_key: i16, body: Bytes) -> Call {
        self.call_from(&self.session, api_key, body)
    }

    pub fn call_from(&self, session: &Arc<Session>, api_key: i16, body: Bytes) -> Call {
        let _inside = self.runtime.enter();
        self.service.call(session, request(api_key, body)).into()
    }

    pub fn produce(&self, request: &Produce) -> Call {
        self.call(1014, request.encode())
    }

    pub fn fetch(&self, request: &Fetch) -> Call {
        self.call(1015, request.encode())
    }

    pub fn is_answered(&self, call: &mut Call) -> bool {
        call.is_answered(&self.runtime)
    }

    /// Runs all syncs that were asked for.
    pub fn sync(&self) {
        while self.syncer.run_next() {}
    }

    /// Appends a batch and syncs it. Returns its offset.
    pub fn append(&self, table: i64, bucket: i32, rows: &[(i64, String)]) -> i64 {
        let records = batch(-1, -1, rows);
        let call = self.produce(&Produce::to(table, -1).bucket(bucket, records));
        self.sync();
        self.produced(call)[0].result.expect("appended")
    }

    /// The answer to a produce request, for which no time has to pass.
    pub fn produced(&self, mut call: Call) -> Vec<Produced> {
        assert!(self.is_answered(&mut call), "the writer waits");
        Produce::parse(call.answer())
    }

    /// The answer to a fetch request, for which no time has to pass. It may
    /// come from a thread that is allowed to wait for the disk.
    pub fn fetched(&self, request: &Fetch) -> Vec<FetchedBucket> {
        let started = self.now();
        let answer = self.fetch(request).wait(&self.runtime);
        assert_eq!(self.now(), started, "the reader waits");
        Fetch::parse(answer)
    }

    pub fn replica(&self, table: i64, bucket: i32) -> Arc<Replica> {
        let bucket = bucket_of(table, None, bucket);
        self.replicas.get(&bucket).expect("the bucket is there")
    }

    /// Simulated time of the runtime.
    pub fn now(&self) -> Instant {
        self.runtime.block_on(async { Instant::now() })
    }
}

fn config(
    disk: Arc<dyn FileSystem>,
    rows: Arc<KvResources>,
    catalog: &Arc<Catalog>,
    log: LogConfig,
    clock: Arc<dyn Clock>,
) -> ReplicasConfig {
    ReplicasConfig {
        server_id: ServerId(0),
        resources: LogResources::new(disk.clone(), LOG_DIR.into(), 64),
        log_dir: LOG_DIR.into(),
        log,
        catalog: catalog.clone(),
        clock,
        disk: Arc::new(DiskGuard::new(0.85, 0.80)),
        min_in_sync_replicas: 1,
        rows: RowsConfig {
            resources: rows,
            dir: ROWS_DIR.into(),
            numbers: Arc::new(NoNumbers),
            flush_interval_ms: 60_000,
            idle_ms: 10_000,
        },
    }
}

fn rows_resources(
    disk: Arc<dyn FileSystem>,
    engine: MemoryEngine,
    recent_bytes: usize,
) -> Arc<KvResources> {
    Arc::new(KvResources {
        engine: Arc::new(engine),
        files: disk,
        recent: Arc::new(RecentBudget::new(recent_bytes)),
        pressure_from_level0_files: 8,
        volatile_boot: None,
    })
}

/// For tables without an auto-increment column.
struct NoNumbers;

impl SequenceSource for NoNumbers {
    fn take(
        &self,
        table: TableId,
        _column_id: i32,
        _count: i64,
    ) -> Result<RangeInclusive<i64>, MetaError> {
        panic!("table {table} has no auto-increment column");
    }
}

/// A request of the newest version.
pub fn request(api_key: i16, body: Bytes) -> Request {
    Request {
        api_key,
        api_version: 2,
        body,
    }
}

/// A server with its own threads, as a real one, on a simulated disk.
pub struct Threaded {
    pub replicas: Arc<Replicas>,
    pub service: Arc<TabletService>,
    /// Stores of rows.
    pub engine: MemoryEngine,
}

impl Threaded {
    pub fn start(disk: &SimFileSystem, catalog: &Arc<Catalog>) -> Self {
        Self::start_idle(disk, catalog, 10_000)
    }

    /// Rows are closed after so long without a request.
    pub fn start_idle(disk: &SimFileSystem, catalog: &Arc<Catalog>, idle_ms: i64) -> Self {
        Self::start_by(disk, catalog, idle_ms, Replicas::new)
    }

    /// Syncs when `syncer` is told to.
    pub fn start_synced_by(
        disk: &SimFileSystem,
        catalog: &Arc<Catalog>,
        syncer: Arc<Syncer>,
    ) -> Self {
        Self::start_by(disk, catalog, 10_000, |config| {
            Replicas::synced_by(config, syncer)
        })
    }

    fn start_by(
        disk: &SimFileSystem,
        catalog: &Arc<Catalog>,
        idle_ms: i64,
        start: impl FnOnce(ReplicasConfig) -> Arc<Replicas>,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let disk: Arc<dyn FileSystem> = Arc::new(disk.clone());
        let engine = MemoryEngine::default();
        let rows = rows_resources(disk.clone(), engine.clone(), 1 << 20);
        let mut config = config(disk, rows, catalog, log_config(), clock.clone());
        config.rows.idle_ms = idle_ms;
        let replicas = start(config);
        let metrics = TabletMetrics::new(replicas.clone());
        replicas.set_metrics(metrics.clone());
        catalog.subscribe(replicas.clone());
        replicas
            .open_all((TableId(i64::MAX), PartitionId(i64::MAX)))
            .expect("the log directory can be read");
        Self {
            service: TabletService::new(replicas.clone(), clock, metrics, ScanLimits::default()),
            replicas,
            engine,
        }
    }

    /// The replica of a bucket of table 1.
    pub fn replica(&self, bucket: i32) -> Arc<Replica> {
        let bucket = bucket_of(1, None, bucket);
        self.replicas.get(&bucket).expect("the bucket is there")
    }
}

/// Threads as a server has them.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap()
}

fn bucket_of(table: i64, partition: Option<i64>, bucket: i32) -> TableBucket {
    TableBucket {
        table_id: TableId(table),
        partition_id: partition.map(PartitionId),
        bucket_id: BucketId(bucket),
    }
}

/// A client's connection.
pub fn session(id: u64) -> Arc<Session> {
    Arc::new(Session {
        id,
        listener: "CLIENT".to_owned(),
        internal: false,
        peer: ([127, 0, 0, 1], 40_000).into(),
        principal: "ANONYMOUS".to_owned(),
    })
}
