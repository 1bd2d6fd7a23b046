//! One log tablet: its state and its life. What it does is in the modules
//! beside: [`crate::append`], [`crate::read`], [`crate::sync`],
//! [`crate::truncate`], [`crate::retention`], [`crate::recovery`].
//!
//! **Locks**, in the order in which they may be taken:
//! 1. `disk_state`: syncs, checkpoints, cuts and deletions, one at a time;
//!    held through their disk operations.
//! 2. `writer`: everything that decides the order of the log. Held while an
//!    append is written; never while something is synced, except by cuts.
//! 3. `segments`, then a segment's index and extent: for moments.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use mainstem_env::StorageFile;
use mainstem_types::{LeaderEpoch, WriterId};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::bucket_dir::BucketDir;
use crate::config::{Durability, LogConfig};
use crate::durable_mark::DurableMark;
use crate::epochs::{EpochEnd, EpochStart, EpochTable};
use crate::error::LogError;
use crate::recovery::{self, RecoveryReport};
use crate::resources::LogResources;
use crate::segment::Segment;
use crate::syncer::SyncSchedule;
use crate::writers::{WriterStates, WrittenBatch};

/// Threads of [`LogTablet::close_all`]: they wait for the disk, all for the same
/// journal.
const CLOSING_THREADS: usize = 32;

/// Told when the durable end moves, outside of all locks of the tablet.
pub trait DurabilityListener: Send + Sync {
    /// Everything below `durable_end` is durable now. Calls may come out of
    /// order; the largest counts.
    fn durable_end_moved(&self, durable_end: i64);

    /// What was appended and is not durable never will be: the tablet has
    /// failed, waiting appends must be answered with this error.
    fn storage_failed(&self, error: &LogError);
}

/// The log of one bucket.
pub struct LogTablet {
    pub(crate) dir: BucketDir,
    pub(crate) config: Arc<LogConfig>,
    pub(crate) log_start: AtomicI64,
    pub(crate) written_end: AtomicI64,
    pub(crate) synced_end: AtomicI64,
    pub(crate) size_bytes: AtomicU64,
    /// Ascending, without holes; the last one is written. Empty until the first
    /// append.
    pub(crate) segments: RwLock<VecDeque<Arc<Segment>>>,
    pub(crate) disk_state: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) listener: OnceLock<Arc<dyn DurabilityListener>>,
    /// Appends that the next sync will cover.
    pub(crate) appends_since_sync: AtomicU32,
    /// Appends that the last sync covered.
    pub(crate) last_group: AtomicU32,
    /// Owned by [`crate::Syncer`].
    pub(crate) schedule: SyncSchedule,
}

/// The part of a tablet that appends change.
#[derive(Debug)]
pub(crate) struct Writer {
    pub health: Health,
    /// The last segment's file, open for writing.
    pub active_file: Option<Arc<dyn StorageFile>>,
    /// When something was appended last, by the caller's clock.
    pub last_append_ms: i64,
    /// The next append begins a new segment, however small the last one is.
    pub must_roll: bool,
    /// A failed write, or a cut whose sync failed, may have left bytes behind the
    /// visible end.
    pub tail_dirty: bool,
    /// Largest commit timestamp in the log; `i64::MIN` when empty.
    pub max_timestamp_ms: i64,
    pub writers: WriterStates,
    pub epochs: EpochTable,
    pub unsynced: Unsynced,
    pub mark: DurableMark,
    pub checkpoint: CheckpointProgress,
    /// Counts cuts, so that a checkpoint captured before one is not stored.
    pub cuts: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Health {
    Writable,
    /// A sync or a cut failed.
    Failed(Arc<str>),
    Quarantined {
        readable_end: i64,
        reason: Arc<str>,
    },
    Closed,
}

impl Health {
    pub fn check(&self) -> Result<(), LogError> {
        match self {
            Self::Writable => Ok(()),
            Self::Failed(reason) => Err(LogError::Failed(reason.to_string())),
            Self::Quarantined {
                readable_end,
                reason,
            } => Err(LogError::Quarantined {
                readable_end: *readable_end,
                reason: reason.to_string(),
            }),
            Self::Closed => Err(LogError::Closed),
        }
    }
}

/// What the next sync has to cover.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    pub segments: Vec<UnsyncedSegment>,
    pub dirs: UnsyncedDirs,
}

#[derive(Debug)]
pub(crate) struct UnsyncedSegment {
    pub segment: Arc<Segment>,
    /// The handle it was written through, so that a write-back error cannot
    /// get lost. Kept for a bounded number of segments.
    pub file: Option<Arc<dyn StorageFile>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnsyncedDirs {
    #[default]
    None,
    /// The bucket's own directory.
    Bucket,
    /// The directories up to the data directory as well.
    Lineage,
}

/// When the next checkpoint is due.
#[derive(Debug, Default)]
pub(crate) struct CheckpointProgress {
    /// When the first change was made that the last checkpoint does not cover.
    pub dirty_since_ms: Option<i64>,
    pub last_ms: i64,
    pub bytes_since: u64,
    pub segments_since: u64,
    /// A change that nothing but a checkpoint keeps.
    pub urgent: bool,
}

impl CheckpointProgress {
    pub fn touch(&mut self, now_ms: i64) {
        self.dirty_since_ms.get_or_insert(now_ms);
    }

    pub fn is_due(&self, config: &LogConfig, now_ms: i64) -> bool {
        let Some(dirty_since_ms) = self.dirty_since_ms else {
            return false;
        };
        // A clock that went back makes it due, rather than never.
        let too_soon = (0..config.checkpoint_min_interval_ms).contains(&(now_ms - self.last_ms));
        let old = !(0..config.checkpoint_max_interval_ms).contains(&(now_ms - dirty_since_ms));
        let much = self.bytes_since >= config.checkpoint_bytes
            || self.segments_since >= config.checkpoint_segments;
        !too_soon && (old || much || self.urgent)
    }

    pub fn captured(&mut self, now_ms: i64) {
        *self = Self {
            last_ms: now_ms,
            ..Self::default()
        };
    }
}

impl LogTablet {
    /// Opens the log in directory `dir`, repairing what a crash left. A
    /// directory that does not exist is an empty log, and is created by the
    /// first append.
    ///
    /// In mode [`Durability::Fsync`] the durable end may be below the end after
    /// a crash: request a sync when [`needs_sync`](Self::needs_sync) says so.
    ///
    /// # Errors
    /// [`LogError::Storage`] when the disk cannot be read, or not be repaired.
    /// Damaged content is no error: see [`RecoveryReport::quarantine`]. A disk
    /// that is full or fails at what has to be written leaves the log open for
    /// reading: writes get [`LogError::Failed`] until it is opened anew.
    pub fn open(
        resources: Arc<LogResources>,
        dir: PathBuf,
        config: Arc<LogConfig>,
        now_ms: i64,
    ) -> Result<(Self, RecoveryReport), LogError> {
        let dir = BucketDir::new(resources, dir);
        let recovered = recovery::recover(&dir, &config)?;
        let report = recovered.report;
        let size_bytes = recovered
            .segments
            .iter()
            .map(|segment| segment.size_bytes())
            .sum();
        let health = match (&report.quarantine, &recovered.write_back_error) {
            (Some(quarantine), _) => Health::Quarantined {
                readable_end: quarantine.readable_end,
                reason: quarantine.reason.as_str().into(),
            },
            (None, Some(error)) => {
                tracing::error!(log = ?dir.path(), %error, "log takes no writes yet");
                Health::Failed(error.to_string().into())
            }
            (None, None) => Health::Writable,
        };
        let writer = Writer {
            health,
            active_file: None,
            last_append_ms: now_ms,
            must_roll: recovered.last_is_sealed,
            // A cut may have been made whose sync failed: it is not on the disk then,
            // and nothing shows it.
            tail_dirty: !recovered.last_is_sealed && !recovered.segments.is_empty(),
            max_timestamp_ms: recovered.max_timestamp_ms,
            writers: recovered.writers,
            epochs: recovered.epochs,
            unsynced: recovered.unsynced,
            mark: DurableMark::default(),
            checkpoint: CheckpointProgress {
                dirty_since_ms: recovered.checkpoint_is_behind.then_some(now_ms),
                last_ms: now_ms,
                ..CheckpointProgress::default()
            },
            cuts: 0,
        };
        let tablet = Self {
            dir,
            config,
            log_start: AtomicI64::new(report.log_start_offset),
            written_end: AtomicI64::new(report.log_end_offset),
            synced_end: AtomicI64::new(recovered.synced_end),
            size_bytes: AtomicU64::new(size_bytes),
            segments: RwLock::new(recovered.segments),
            disk_state: Mutex::new(()),
            writer: Mutex::new(writer),
            listener: OnceLock::new(),
            appends_since_sync: AtomicU32::new(0),
            last_group: AtomicU32::new(0),
            schedule: SyncSchedule::default(),
        };
        Ok((tablet, report))
    }

    /// Sets who is told of durability, once.
    ///
    /// # Errors
    /// The listener, if there is one already.
    pub fn set_listener(
        &self,
        listener: Arc<dyn DurabilityListener>,
    ) -> Result<(), Arc<dyn DurabilityListener>> {
        self.listener.set(listener)
    }

    /// The directory of the log.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// First offset that can be read locally.
    #[must_use]
    pub fn log_start_offset(&self) -> i64 {
        self.log_start.load(Ordering::Acquire)
    }

    /// Log end offset (exclusive): the offset of the next record.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        self.written_end.load(Ordering::Acquire)
    }

    /// End (exclusive) of what is as durable as [`LogConfig::durability`] asks.
    #[must_use]
    pub fn durable_end_offset(&self) -> i64 {
        match self.config.durability {
            Durability::Fsync => self.synced_end.load(Ordering::Acquire),
            Durability::Os => self.end_offset(),
        }
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.read().len()
    }

    /// Base offset of the segment that is written, if there is one.
    #[must_use]
    pub fn active_segment_base_offset(&self) -> Option<i64> {
        self.segments
            .read()
            .back()
            .map(|segment| segment.base_offset())
    }

    /// Largest commit timestamp in the log; `None` when it never had a batch.
    #[must_use]
    pub fn max_timestamp_ms(&self) -> Option<i64> {
        Some(self.writer.lock().max_timestamp_ms).filter(|timestamp| *timestamp != i64::MIN)
    }

    /// Whether the log takes writes.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check_writable(&self) -> Result<(), LogError> {
        self.writer.lock().health.check()
    }

    /// Latest leader epoch that appended something.
    #[must_use]
    pub fn latest_leader_epoch(&self) -> Option<LeaderEpoch> {
        self.writer.lock().epochs.latest()
    }

    /// All leader epochs in the log with their first offsets.
    #[must_use]
    pub fn leader_epochs(&self) -> Vec<EpochStart> {
        self.writer.lock().epochs.starts().to_vec()
    }

    /// Where `epoch` ends in this log; `None` if the log knows nothing of it.
    /// See [`EpochTable::end_of`].
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let writer = self.writer.lock();
        writer.epochs.end_of(epoch, self.end_offset())
    }

    /// The latest batches of an idempotent writer, oldest first.
    #[must_use]
    pub fn writer_batches(&self, writer: WriterId) -> Vec<WrittenBatch> {
        self.writer.lock().writers.batches(writer).to_vec()
    }

    /// Number of idempotent writers that are remembered.
    #[must_use]
    pub fn writer_count(&self) -> usize {
        self.writer.lock().writers.len()
    }

    /// Forgets writers that have long been silent. Returns how many.
    pub fn remove_expired_writers(&self, now_ms: i64) -> usize {
        self.writer
            .lock()
            .writers
            .remove_expired(now_ms, self.config.writer_expiration_ms)
    }

    /// Closes the files of a log to which nothing was appended for `idle_ms`, and
    /// which is synced as far as it asks. They are opened again when needed.
    /// Call it from time to time, so that open files follow the buckets that are
    /// written, not all there are.
    pub fn release_idle_handles(&self, now_ms: i64, idle_ms: i64) {
        let mut writer = self.writer.lock();
        let idle = !(0..idle_ms).contains(&(now_ms - writer.last_append_ms));
        if idle && !self.sync_wanted(&writer, now_ms) {
            for unsynced in &mut writer.unsynced.segments {
                unsynced.file = None;
            }
            writer.active_file = None;
            writer.mark.close();
        }
    }

    /// Syncs everything, writes a checkpoint, and closes the log: the next open
    /// reads no data. Further writes are refused; readers in flight go on.
    ///
    /// # Errors
    /// The error of the sync. A checkpoint that cannot be written is none: the
    /// next open reads more.
    pub fn close(&self, now_ms: i64) -> Result<(), LogError> {
        let result = match self.check_writable() {
            Ok(()) => self.sync_with_checkpoint(now_ms).map(drop),
            // Nothing that could be saved.
            Err(_) => Ok(()),
        };
        self.shut();
        result
    }

    /// Closes many logs, several at a time, so that a server with thousands of
    /// them stops in a moment: the file system commits their syncs together.
    /// Returns how many could not be synced.
    pub fn close_all(tablets: &[Arc<Self>], now_ms: i64) -> usize {
        let next = AtomicUsize::new(0);
        let failed = AtomicUsize::new(0);
        let close_some = || {
            while let Some(tablet) = tablets.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = tablet.close(now_ms) {
                    tracing::error!(log = ?tablet.path(), %error, "log was not synced at its close");
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..tablets.len().min(CLOSING_THREADS) {
                scope.spawn(close_some);
            }
            close_some();
        });
        failed.into_inner()
    }

    /// Removes the log with its directory: for a dropped table or a replica
    /// that moved away. The directories above stay.
    ///
    /// # Errors
    /// [`LogError::Storage`]; files that were not removed stay, and the call can
    /// be repeated.
    pub fn remove(&self) -> Result<(), LogError> {
        let _disk_state = self.disk_state.lock();
        self.shut();
        let entries = match self.dir.fs().list(self.dir.path()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            result => result.map_err(|error| LogError::io("list", self.dir.path(), error))?,
        };
        let segments = std::mem::take(&mut *self.segments.write());
        for segment in segments {
            self.dir.resources.handles.forget(segment.id());
        }
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            self.dir.remove(&entry.name)?;
        }
        let path = self.dir.path();
        self.dir.resources.dirs.forget(path);
        self.dir
            .fs()
            .remove_dir(path)
            .map_err(|error| LogError::io("remove", path, error))
    }

    fn shut(&self) {
        let mut writer = self.writer.lock();
        writer.health = Health::Closed;
        writer.active_file = None;
        writer.mark.close();
        writer.unsynced = Unsynced::default();
    }

    /// Refuses writes from now on: what is on disk is unknown.
    pub(crate) fn fail(&self, writer: &mut MutexGuard<'_, Writer>, error: &LogError) {
        tracing::error!(log = ?self.dir.path(), %error, "log takes no more writes");
        writer.health = Health::Failed(error.to_string().into());
        writer.unsynced = Unsynced::default();
    }
}

impl fmt::Debug for LogTablet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LogTablet")
            .field("path", &self.dir.path())
            .field("start", &self.log_start_offset())
            .field("end", &self.end_offset())
            .field("durable_end", &self.durable_end_offset())
            .finish_non_exhaustive()
    }
}
