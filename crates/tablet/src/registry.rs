//! The replicas of this server. Follows the catalog.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use mainstem_env::{Clock, FileSystem};
use mainstem_kv::{KvResources, KvTablet};
use mainstem_log::{LogConfig, LogError, LogResources, LogTablet, Syncer};
use mainstem_meta::{
    BucketState, Catalog, CatalogChange, CatalogListener, SequenceSource, TableEntry,
};
use mainstem_types::{PartitionId, ServerId, TableBucket, TableId};
use parking_lot::{Mutex, RwLock};
use tracing::{error, info, warn};

use crate::disk_guard::DiskGuard;
use crate::log_dirs;
use crate::metrics::TabletMetrics;
use crate::replica::core::Leadership;
use crate::replica::{Replica, ReplicaContext, RetentionPolicy};
use crate::row_appliers::RowAppliers;
use crate::table_view::TableView;

/// Threads that sync files: as many as a disk usefully takes at once.
const SYNC_THREADS: usize = 8;
/// A log without an append for so long gives its descriptors back.
const IDLE_MS: i64 = 10_000;
/// Threads that sync what a crash left: they wait for the disk, all for the same
/// journal.
const TAIL_THREADS: usize = 32;
/// `log.replica.max-lag-time`; with one server nobody lags.
const MAX_LAG_MS: i64 = 30_000;

/// What a server's replicas need.
pub struct ReplicasConfig {
    /// This server.
    pub server_id: ServerId,
    /// Files of the logs.
    pub resources: Arc<LogResources>,
    /// Directory of the logs; exists and is durable.
    pub log_dir: PathBuf,
    /// Settings of the logs.
    pub log: LogConfig,
    /// What exists.
    pub catalog: Arc<Catalog>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Says whether there is room for writes.
    pub disk: Arc<DiskGuard>,
    /// `log.replica.min-in-sync-replicas-number`.
    pub min_in_sync_replicas: usize,
    /// Rows of primary-key tables.
    pub rows: RowsConfig,
}

/// What the rows of primary-key tables need.
pub struct RowsConfig {
    /// Engine and files.
    pub resources: Arc<KvResources>,
    /// Directory of the rows.
    pub dir: PathBuf,
    /// Where auto-increment numbers come from.
    pub numbers: Arc<dyn SequenceSource>,
    /// Time after which the rows are made durable, so that a replay is short
    /// (`kv.snapshot.interval`).
    pub flush_interval_ms: i64,
    /// Time without a request after which rows are closed.
    pub idle_ms: i64,
}

/// Numbers for the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Replicas.
    pub replicas: usize,
    /// Those that lead.
    pub leaders: usize,
    /// Idempotent writers remembered.
    pub writers: usize,
    /// Writers that wait for a commit.
    pub delayed_writes: usize,
    /// Readers that wait for records.
    pub delayed_fetches: usize,
    /// Bytes of all logs.
    pub log_bytes: u64,
}

/// Ends the scans of a bucket.
pub type ScanCloser = Box<dyn Fn(&TableBucket) + Send + Sync>;

/// See the module.
pub struct Replicas {
    context: Arc<ReplicaContext>,
    resources: Arc<LogResources>,
    log_dir: PathBuf,
    log_config: Arc<LogConfig>,
    rows: RowsConfig,
    /// `kv.snapshot.interval`, which may change.
    rows_flush_interval_ms: AtomicI64,
    catalog: Arc<Catalog>,
    metrics: OnceLock<Arc<TabletMetrics>>,
    scan_closer: OnceLock<ScanCloser>,
    replicas: RwLock<HashMap<TableBucket, Arc<Replica>>>,
    /// Buckets whose log could not be opened yet.
    unopened: Mutex<BTreeSet<TableBucket>>,
    tables: RwLock<HashMap<TableId, Arc<TableView>>>,
    /// Dropped replicas whose rows somebody still reads.
    unremoved: Arc<Mutex<Vec<Arc<Replica>>>>,
    /// Whether everything happens on the thread of the caller.
    simulated: bool,
}

impl Replicas {
    /// No replicas yet.
    pub fn new(config: ReplicasConfig) -> Arc<Self> {
        let syncer = Arc::new(Syncer::new(SYNC_THREADS, config.clock.clone()));
        Self::synced_by(config, syncer)
    }

    /// Replicas that do everything on the thread of the caller and in the same
    /// order every time; syncs when `syncer` is told to run them.
    pub fn simulated(config: ReplicasConfig, syncer: Arc<Syncer>) -> Arc<Self> {
        Self::with_syncer(config, syncer, true)
    }

    /// Replicas with threads of their own that sync when `syncer` is told to.
    pub fn synced_by(config: ReplicasConfig, syncer: Arc<Syncer>) -> Arc<Self> {
        Self::with_syncer(config, syncer, false)
    }

    fn with_syncer(config: ReplicasConfig, syncer: Arc<Syncer>, simulated: bool) -> Arc<Self> {
        let context = ReplicaContext {
            server_id: config.server_id,
            syncer,
            clock: config.clock,
            disk: config.disk,
            min_in_sync_replicas: AtomicUsize::new(config.min_in_sync_replicas),
            max_lag_ms: MAX_LAG_MS,
            numbers: config.rows.numbers.clone(),
            row_appliers: match simulated {
                true => RowAppliers::on_the_caller(),
                false => RowAppliers::new(),
            },
        };
        Arc::new(Self {
            context: Arc::new(context),
            resources: config.resources,
            log_dir: config.log_dir,
            log_config: Arc::new(config.log),
            rows_flush_interval_ms: AtomicI64::new(config.rows.flush_interval_ms),
            rows: config.rows,
            catalog: config.catalog,
            metrics: OnceLock::new(),
            scan_closer: OnceLock::new(),
            replicas: RwLock::default(),
            unopened: Mutex::default(),
            tables: RwLock::default(),
            unremoved: Arc::default(),
            simulated,
        })
    }

    /// Where the replicas count. Once, before the first replica.
    pub fn set_metrics(&self, metrics: Arc<TabletMetrics>) {
        // A second call would come from a mistake at the start and change nothing.
        let _ = self.metrics.set(metrics);
    }

    /// How the scans of a bucket are ended when its rows are removed or opened anew.
    /// Once, by the service.
    pub fn set_scan_closer(&self, close: ScanCloser) {
        // A second service over the same replicas has the scans of the first left open.
        let _ = self.scan_closer.set(close);
    }

    fn close_scans(&self, bucket: &TableBucket) {
        if let Some(close) = self.scan_closer.get() {
            close(bucket);
        }
    }

    /// This server.
    pub fn server_id(&self) -> ServerId {
        self.context.server_id
    }

    /// The guard of the disk.
    pub fn disk(&self) -> &DiskGuard {
        &self.context.disk
    }

    /// The replica of a bucket.
    pub fn get(&self, bucket: &TableBucket) -> Option<Arc<Replica>> {
        self.replicas.read().get(bucket).cloned()
    }

    /// Whether there should be a replica of the bucket, but its log cannot be
    /// opened. It is tried again and again.
    pub fn is_unopened(&self, bucket: &TableBucket) -> bool {
        self.unopened.lock().contains(bucket)
    }

    /// Partition columns of the table and name of a partition.
    pub fn partition(&self, id: PartitionId) -> Option<(Vec<String>, String)> {
        let partition = self.catalog.partition_by_id(id)?;
        let table = self.catalog.table_by_id(partition.table_id)?;
        Some((
            table.descriptor.partition_keys.clone(),
            partition.name.clone(),
        ))
    }

    /// Whether the table exists here.
    pub fn has_table(&self, table_id: TableId) -> bool {
        self.tables.read().contains_key(&table_id)
    }

    /// Changes `kv.snapshot.interval`.
    pub fn set_rows_flush_interval_ms(&self, interval_ms: i64) {
        self.rows_flush_interval_ms
            .store(interval_ms, Ordering::Relaxed);
    }

    /// Changes `log.replica.min-in-sync-replicas-number`.
    pub fn set_min_in_sync_replicas(&self, minimum: usize) {
        self.context
            .min_in_sync_replicas
            .store(minimum, Ordering::Relaxed);
    }

    /// Memory of rows that changed last, over all buckets.
    pub fn recent_rows_bytes(&self) -> usize {
        self.rows.resources.recent.held_bytes()
    }

    /// Opens the logs of everything in the catalog, several at a time, and
    /// removes the directories of what is gone. Returns the number of replicas.
    /// `next` are the ids that the catalog gives out next.
    ///
    /// # Errors
    /// The directory of the logs cannot be read, or there are tables that the catalog
    /// has never heard of: it is not the one that they were made with, and nothing is
    /// removed. A single log that cannot be opened is reported, and tried again by
    /// [`maintain`](Self::maintain).
    pub fn open_all(&self, next: (TableId, PartitionId)) -> std::io::Result<usize> {
        let mut jobs: Vec<(Arc<TableEntry>, TableBucket, BucketState, i32)> = Vec::new();
        for table in self.catalog.tables() {
            for (bucket, state) in table.table_buckets().into_iter().zip(&table.buckets) {
                jobs.push((table.clone(), bucket, state.clone(), table.bucket_count()));
            }
        }
        for partition in self.catalog.partitions() {
            let Some(table) = self.catalog.table_by_id(partition.table_id) else {
                continue;
            };
            for (bucket, state) in partition
                .table_buckets()
                .into_iter()
                .zip(&partition.buckets)
            {
                jobs.push((table.clone(), bucket, state.clone(), partition.bucket_count));
            }
        }
        let buckets: Vec<&TableBucket> = jobs.iter().map(|(_, bucket, ..)| bucket).collect();
        self.remove_leftovers(&buckets, next)?;
        let threads = match self.simulated {
            true => 1,
            false => std::thread::available_parallelism().map_or(2, usize::from),
        }
        .min(8);
        let chunk = jobs.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            for jobs in jobs.chunks(chunk) {
                scope.spawn(move || {
                    for (table, bucket, state, count) in jobs {
                        self.start_replica(table, *bucket, state, *count);
                    }
                });
            }
        });
        self.sync_tails();
        Ok(self.replicas.read().len())
    }

    fn remove_leftovers(
        &self,
        buckets: &[&TableBucket],
        (next_table, next_partition): (TableId, PartitionId),
    ) -> std::io::Result<()> {
        let leftovers = |files: &dyn FileSystem, root: &Path| {
            let wanted = buckets
                .iter()
                .map(|bucket| log_dirs::directory(root, bucket));
            log_dirs::leftovers(files, root, &wanted.collect())
        };
        let log_files = self.resources.file_system().as_ref();
        let logs = leftovers(log_files, &self.log_dir)?;
        let rows = leftovers(self.rows.resources.files.as_ref(), &self.rows.dir)?;
        for found in [&logs, &rows] {
            let mut unheard_of = log_dirs::unheard_of(found, next_table, next_partition);
            if let Some(first) = unheard_of.next() {
                let more = match unheard_of.count() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                return Err(std::io::Error::other(format!(
                    "it does not know {}{more}: it is new, an older copy, or of other data; put \
                     the right one back, or move these directories away to start without them",
                    first.display()
                )));
            }
        }
        for leftover in logs {
            warn!(dir = %leftover.display(), "removing what a dropped table or partition left");
            if let Err(error) = log_dirs::remove(log_files, &leftover) {
                error!(dir = %leftover.display(), %error, "cannot remove it now");
            }
        }
        for leftover in rows {
            let removed = KvTablet::remove_files(&self.rows.resources, &leftover);
            if let Err(error) = removed {
                error!(dir = %leftover.display(), %error, "cannot remove left-over rows now");
            }
        }
        Ok(())
    }

    /// Makes durable what a crash left unsynced at the end of logs, so that the
    /// first client that comes sees everything that was ever acknowledged: the
    /// high watermark must not go back over a restart. Where that fails the
    /// bucket is served up to what is durable.
    fn sync_tails(&self) {
        let now_ms = self.context.clock.now_ms();
        let mut unsynced: Vec<Arc<LogTablet>> = self
            .all()
            .iter()
            .map(|replica| replica.log())
            .filter(|log| log.durable_end_offset() < log.end_offset())
            .collect();
        // In order, so that a simulation takes the same course every time.
        unsynced.sort_unstable_by(|one, other| one.path().cmp(other.path()));
        let threads = if self.simulated { 1 } else { TAIL_THREADS };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(unsynced.len()) {
                scope.spawn(|| {
                    while let Some(log) = unsynced.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = log.sync(now_ms) {
                            warn!(log = %log.path().display(), %error, "the tail is not durable");
                        }
                    }
                });
            }
        });
    }

    /// Drops expired segments of all logs.
    pub fn expire(&self, policy: &RetentionPolicy, now_ms: i64) {
        for replica in self.all() {
            replica.expire(policy, now_ms);
        }
    }

    /// Writes checkpoints that are due, and opens logs anew that have failed, or
    /// could not be opened.
    pub fn maintain(&self) {
        let now_ms = self.context.clock.now_ms();
        let mut replicas = self.all();
        // In order, so that a simulation takes the same course every time.
        replicas.sort_unstable_by_key(|replica| replica.bucket());
        for replica in replicas {
            let log = replica.log();
            match log.check_writable() {
                Ok(()) if log.needs_sync(now_ms) => self.context.syncer.request(&log),
                Ok(()) => log.release_idle_handles(now_ms, IDLE_MS),
                Err(LogError::Failed(_)) => self.reopen(&replica),
                Err(_) => {}
            }
            let close_scans = |bucket: &TableBucket| self.close_scans(bucket);
            let flush_interval_ms = self.rows_flush_interval_ms.load(Ordering::Relaxed);
            replica.maintain_rows(flush_interval_ms, self.rows.idle_ms, &close_scans);
        }
        let unopened = self.unopened.lock().clone();
        for bucket in unopened {
            self.open_later(bucket);
        }
        self.remove_later();
    }

    /// Removes the rows of dropped replicas that were read when they were dropped.
    fn remove_later(&self) {
        let dropped = std::mem::take(&mut *self.unremoved.lock());
        for replica in dropped {
            if replica.remove_rows().is_err() {
                self.unremoved.lock().push(replica);
                continue;
            }
            let dir = log_dirs::directory(&self.rows.dir, &replica.bucket());
            let above = dir.ancestors().skip(1);
            for dir in above.take_while(|dir| **dir != self.rows.dir) {
                // Others may be in it.
                let _ = self.rows.resources.files.remove_dir(dir);
            }
        }
    }

    fn open_later(&self, bucket: TableBucket) {
        if let Some((table, state, bucket_count)) = self.described(&bucket) {
            self.start_replica(&table, bucket, &state, bucket_count);
        }
        if self.described(&bucket).is_none() {
            // Dropped, perhaps just now: whoever dropped it may have missed it.
            self.unopened.lock().remove(&bucket);
            self.stop(&[bucket], Vec::new());
            if self.catalog.table_by_id(bucket.table_id).is_none() {
                self.tables.write().remove(&bucket.table_id);
            }
        }
    }

    /// What the catalog says of a bucket.
    fn described(&self, bucket: &TableBucket) -> Option<(Arc<TableEntry>, BucketState, i32)> {
        let table = self.catalog.table_by_id(bucket.table_id)?;
        let index = usize::try_from(bucket.bucket_id.0).ok()?;
        let (state, count) = match bucket.partition_id {
            None => (table.buckets.get(index)?.clone(), table.bucket_count()),
            Some(partition) => {
                let partition = self.catalog.partition_by_id(partition)?;
                let state = partition.buckets.get(index)?.clone();
                (state, partition.bucket_count)
            }
        };
        Some((table, state, count))
    }

    /// Closes all logs so that the next start reads nothing again.
    pub fn close_all(&self) {
        self.close_rows();
        let now_ms = self.context.clock.now_ms();
        let logs: Vec<Arc<LogTablet>> = self.all().iter().map(|replica| replica.log()).collect();
        let failed = LogTablet::close_all(&logs, now_ms);
        if failed > 0 {
            warn!(
                failed,
                "logs could not be closed; the next start recovers them"
            );
        }
    }

    /// Closes the rows of all replicas, several at a time: each waits for the disk.
    fn close_rows(&self) {
        let replicas = self.all();
        let threads = if self.simulated { 1 } else { SYNC_THREADS };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(replicas.len()) {
                scope.spawn(|| {
                    while let Some(replica) = replicas.get(next.fetch_add(1, Ordering::Relaxed)) {
                        replica.close_rows();
                    }
                });
            }
        });
    }

    /// Numbers for the metrics.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for replica in self.all() {
            let (writers, readers) = replica.waiting();
            let log = replica.log();
            summary.replicas += 1;
            summary.leaders += usize::from(replica.is_leader());
            summary.writers += log.writer_count();
            summary.delayed_writes += writers;
            summary.delayed_fetches += readers;
            summary.log_bytes += log.size_bytes();
        }
        summary
    }

    fn partition_directories(&self, buckets: &[TableBucket]) -> Vec<PathBuf> {
        let roots = [&self.log_dir, &self.rows.dir];
        roots
            .into_iter()
            .flat_map(|root| log_dirs::partition_directories(root, buckets))
            .collect()
    }

    fn directory(&self, bucket: &TableBucket) -> PathBuf {
        log_dirs::directory(&self.log_dir, bucket)
    }

    fn all(&self) -> Vec<Arc<Replica>> {
        self.replicas.read().values().cloned().collect()
    }

    fn view(&self, table: &Arc<TableEntry>) -> Arc<TableView> {
        let mut tables = self.tables.write();
        let view = tables.entry(table.table_id);
        view.or_insert_with(|| Arc::new(TableView::new(table.clone())))
            .clone()
    }

    fn start_replica(
        &self,
        table: &Arc<TableEntry>,
        bucket: TableBucket,
        state: &BucketState,
        bucket_count: i32,
    ) {
        if !state.replicas.contains(&self.context.server_id) || self.get(&bucket).is_some() {
            return;
        }
        let log = match self.open_log(&bucket) {
            Ok(log) => log,
            Err(error) => {
                if self.unopened.lock().insert(bucket) {
                    error!(%bucket, table = %table.path, %error, "the log cannot be opened yet");
                }
                return;
            }
        };
        let metrics = match self.metrics.get() {
            Some(metrics) => metrics.table(table.table_id, &table.path),
            None => Arc::default(),
        };
        let context = self.context.clone();
        let view = self.view(table);
        let rows = view.has_primary_key().then(|| {
            let dir = log_dirs::directory(&self.rows.dir, &bucket);
            KvTablet::new(dir, self.rows.resources.clone())
        });
        let replica = Replica::new(bucket, bucket_count, context, metrics, view, log, rows);
        if let Err(fenced) = replica.lead(leadership(state)) {
            error!(%bucket, %fenced, "the catalog's decision does not fit the log");
        }
        self.replicas.write().insert(bucket, replica);
        if self.unopened.lock().remove(&bucket) {
            info!(%bucket, table = %table.path, "the log is open now");
        }
    }

    fn open_log(&self, bucket: &TableBucket) -> Result<Arc<LogTablet>, LogError> {
        let now_ms = self.context.clock.now_ms();
        let (log, report) = LogTablet::open(
            self.resources.clone(),
            self.directory(bucket),
            self.log_config.clone(),
            now_ms,
        )?;
        if let Some(quarantine) = &report.quarantine {
            error!(
                %bucket,
                readable_end = quarantine.readable_end,
                promised_end = quarantine.promised_end,
                reason = quarantine.reason,
                "acknowledged records are damaged: the bucket is read-only; restore its files"
            );
        } else if !report.is_clean() {
            info!(
                %bucket,
                end = report.log_end_offset,
                cut_bytes = report.cut_bytes,
                set_aside = report.set_aside.len(),
                "repaired what a crash left"
            );
        }
        Ok(Arc::new(log))
    }

    fn reopen(&self, replica: &Arc<Replica>) {
        let bucket = replica.bucket();
        match self.open_log(&bucket) {
            Ok(log) => {
                info!(%bucket, "opened the failed log anew");
                replica.replace_log(log);
            }
            Err(error) => error!(%bucket, %error, "the failed log cannot be opened anew yet"),
        }
    }

    fn table_altered(&self, table: &Arc<TableEntry>) {
        let view = Arc::new(TableView::new(table.clone()));
        self.tables.write().insert(table.table_id, view.clone());
        for replica in self.all() {
            if replica.bucket().table_id == table.table_id {
                replica.set_table(view.clone());
            }
        }
    }

    fn lead_all(&self, buckets: &[TableBucket], states: &[BucketState]) {
        for (bucket, state) in buckets.iter().zip(states) {
            if let Some(replica) = self.get(bucket)
                && let Err(fenced) = replica.lead(leadership(state))
            {
                warn!(%bucket, %fenced, "an old decision is ignored");
            }
        }
    }

    /// Takes the replicas away at once, and their files on a thread of its own:
    /// deleting gigabytes must not hold up whoever dropped the table.
    fn stop(&self, buckets: &[TableBucket], emptied: Vec<PathBuf>) {
        let stopped: Vec<Arc<Replica>> = {
            let mut replicas = self.replicas.write();
            buckets
                .iter()
                .filter_map(|bucket| replicas.remove(bucket))
                .collect()
        };
        for replica in &stopped {
            replica.stop();
            self.close_scans(&replica.bucket());
        }
        let files = self.resources.file_system().clone();
        let unremoved = self.unremoved.clone();
        let delete = move || {
            for replica in stopped {
                // The next start finds and removes what stays.
                let bucket = replica.bucket();
                if let Err(error) = replica.log().remove() {
                    warn!(%bucket, %error, "cannot remove a dropped log now");
                }
                if let Err(error) = replica.remove_rows() {
                    warn!(%bucket, %error, "cannot remove dropped rows now");
                    unremoved.lock().push(replica);
                }
            }
            for dir in emptied {
                // It is missing if nothing was ever written; if it is not empty,
                // the next start looks into it.
                let _ = files.remove_dir(&dir);
            }
        };
        if self.simulated {
            delete();
        } else if let Err(error) = std::thread::Builder::new()
            .name("drop-log".into())
            .spawn(delete)
        {
            warn!(%error, "no thread to delete with; the next start deletes");
        }
    }
}

impl CatalogListener for Replicas {
    fn apply(&self, change: &CatalogChange) {
        match change {
            CatalogChange::BucketsCreated { table, partition } => {
                self.view(table);
                let (buckets, states, count) = match partition {
                    Some(partition) => (
                        partition.table_buckets(),
                        &partition.buckets,
                        partition.bucket_count,
                    ),
                    None => (table.table_buckets(), &table.buckets, table.bucket_count()),
                };
                for (bucket, state) in buckets.into_iter().zip(states) {
                    self.start_replica(table, bucket, state, count);
                }
            }
            CatalogChange::TableAltered { table } => {
                self.table_altered(table);
                self.lead_all(&table.table_buckets(), &table.buckets);
            }
            CatalogChange::PartitionAltered { partition, .. } => {
                self.lead_all(&partition.table_buckets(), &partition.buckets);
            }
            CatalogChange::TableDropped { table_id, buckets } => {
                self.tables.write().remove(table_id);
                let mut emptied = self.partition_directories(buckets);
                for root in [&self.log_dir, &self.rows.dir] {
                    emptied.push(log_dirs::table_directory(root, *table_id));
                }
                self.stop(buckets, emptied);
            }
            CatalogChange::PartitionDropped { buckets, .. } => {
                self.stop(buckets, self.partition_directories(buckets));
            }
        }
    }
}

fn leadership(state: &BucketState) -> Leadership {
    Leadership {
        leader: state.leader,
        leader_epoch: state.leader_epoch,
        bucket_epoch: state.bucket_epoch,
        replicas: state.replicas.clone(),
        isr: state.isr.clone(),
    }
}
