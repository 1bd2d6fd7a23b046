//! The rows of one bucket: a store, what is not in it yet, and the way back to both
//! after a crash.
//!
//! A tablet is closed at first, and when nobody has used it for a while: it has no
//! open store then, and its changelog holds no change that the store does not get
//! when it is opened. Opening replays the changelog from where the state file says.

mod applying;
mod marks;
mod opening;
#[cfg(test)]
mod tests;

pub use opening::OpeningReport;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mainstem_env::FileSystem;
use mainstem_format::KvBatch;
use parking_lot::{Mutex, MutexGuard, RwLock};

use self::marks::{Mark, Marks};
use crate::auto_increment::{NumberRange, Numbers, SequenceSource};
use crate::pending::{Known, Pending};
use crate::put::{Prepared, PutMode, Stored, prepare};
use crate::recent::Queue;
use crate::state_file::TabletState;
use crate::{
    KvEngine, KvError, KvSnapshot, KvStore, KvTable, OpenRows, Reach, RecentBudget, Result,
};

/// Changelog offsets after which the store is flushed, so that a replay is short.
const FLUSH_AFTER_OFFSETS: i64 = 1_000_000;
/// A flush that was begun is given so long before another one is begun.
const FLUSH_TAKES_MS: i64 = 10_000;
/// A store whose checkpoints fail for so long is opened anew.
const REOPEN_AFTER_MS: i64 = 30_000;
/// Bytes of changes that are put in order in no time.
const SMALL_BYTES: usize = 128 << 10;
/// Directory of the store, beside the state file.
const STORE: &str = "db";
/// Bytes of changes that may wait for their commit before puts are refused.
const PENDING_BYTES_MAX: usize = 128 << 20;

/// What the tablets of a server share.
#[derive(Debug)]
pub struct KvResources {
    /// Opens stores.
    pub engine: Arc<dyn KvEngine>,
    /// Memory for rows that changed last.
    pub recent: Arc<RecentBudget>,
    /// Where the state files are.
    pub files: Arc<dyn FileSystem>,
    /// Files of level 0 from which on writers are told of pressure
    /// (`kv.backpressure.l0-slowdown-trigger`).
    pub pressure_from_level0_files: u64,
    /// If an end of the machine may take appended changelog records away: a number of
    /// its present boot that is not 0.
    pub volatile_boot: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct KvTablet {
    dir: PathBuf,
    resources: Arc<KvResources>,
    /// The open rows, for readers. Changed under the writer's lock only.
    rows: RwLock<Option<Arc<OpenRows>>>,
    last_used_ms: AtomicI64,
    /// A read found damage.
    damaged: AtomicBool,
    /// Files of level 0 when the last put looked, and how many make the store slow.
    level0_files: AtomicU64,
    level0_limit: AtomicU64,
    pending_bytes_max: usize,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
struct Writer {
    /// The open rows have all changes below this offset, and none above.
    applied: i64,
    /// What was applied at the last checkpoint.
    seen: i64,
    row_count: i64,
    numbers: Option<NumberRange>,
    pending: Pending,
    /// Changes on their way to the store, and the mark that they make there.
    turned: Option<(Queue, Mark)>,
    /// A flush was begun of all up to this number, and when.
    flushing: Option<(u64, i64)>,
    /// Since when no checkpoint has succeeded.
    failing_since_ms: Option<i64>,
    /// Writes of the store that the state file does not count yet.
    marks: Marks,
    /// What the state file says.
    noted: TabletState,
    noted_ms: i64,
    /// The store, or the order of changes, is not to be trusted until it is opened
    /// anew.
    failure: Option<KvError>,
    /// What a read of the store found out about it.
    damage: Option<String>,
}

impl KvTablet {
    /// A tablet over a directory, which need not exist; closed.
    pub fn new(dir: PathBuf, resources: Arc<KvResources>) -> Self {
        Self {
            dir,
            resources,
            rows: RwLock::new(None),
            last_used_ms: AtomicI64::new(0),
            damaged: AtomicBool::new(false),
            level0_files: AtomicU64::new(0),
            level0_limit: AtomicU64::new(0),
            pending_bytes_max: PENDING_BYTES_MAX,
            writer: Mutex::default(),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Removes what a tablet left in a directory, if it is there, and the directory
    /// unless there is something else in it.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove_files(resources: &KvResources, dir: &Path) -> Result<()> {
        let files = &*resources.files;
        let failed = |error: &std::io::Error| storage("remove its files", error);
        // First the state, so that no crash leaves it beside half a store.
        TabletState::remove(files, dir).map_err(|error| failed(&error))?;
        resources.engine.destroy(&dir.join(STORE))?;
        match files.remove_dir(dir) {
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty => Ok(()),
                _ => Err(failed(&error)),
            },
            Ok(()) => Ok(()),
        }
    }

    /// The rows, if they are open.
    pub fn rows(&self, now_ms: i64) -> Option<Arc<OpenRows>> {
        let rows = self.rows.read().clone()?;
        self.last_used_ms.store(now_ms, Ordering::Relaxed);
        Some(rows)
    }

    /// Takes note of an error that a read of the store gave: after damage it is to be
    /// opened anew.
    pub fn report(&self, error: &KvError) {
        if matches!(error, KvError::Damaged(_)) {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the store is open.
    pub fn is_open(&self) -> bool {
        self.rows.read().is_some()
    }

    /// Locks the way to change the rows.
    pub fn lock(&self) -> KvWriter<'_> {
        KvWriter {
            tablet: self,
            writer: self.writer.lock(),
        }
    }

    /// As [`lock`](Self::lock), if it can be had within that time.
    pub fn lock_within(&self, time: Duration) -> Option<KvWriter<'_>> {
        Some(KvWriter {
            tablet: self,
            writer: self.writer.try_lock_for(time)?,
        })
    }

    /// As [`lock`](Self::lock), if nobody has it.
    pub fn try_lock(&self) -> Option<KvWriter<'_>> {
        Some(KvWriter {
            tablet: self,
            writer: self.writer.try_lock()?,
        })
    }

    /// How close the store is to making writers wait, from 0 to below 1
    /// (cluster.md §5.7).
    /// As of the last put: asking the store takes its lock.
    pub fn pressure(&self) -> f32 {
        let from = self.resources.pressure_from_level0_files;
        let files = self.level0_files.load(Ordering::Relaxed);
        let limit = self.level0_limit.load(Ordering::Relaxed);
        if files <= from || limit <= from {
            return 0.0;
        }
        (((files - from) as f32) / ((limit - from) as f32)).min(0.999)
    }
}

/// The way to change the rows of a tablet, held by one at a time.
pub struct KvWriter<'t> {
    tablet: &'t KvTablet,
    writer: MutexGuard<'t, Writer>,
}

impl KvWriter<'_> {
    /// Whether the store is open and can be trusted.
    pub fn is_open(&self) -> bool {
        self.writer.failure.is_none() && self.tablet.is_open()
    }

    /// Why the rows have to be opened anew, if they have failed.
    pub fn failure(&mut self) -> Option<&KvError> {
        if self.tablet.damaged.swap(false, Ordering::Relaxed) {
            self.failed(&KvError::Damaged("a read found it".to_owned()));
        }
        self.writer.failure.as_ref()
    }

    /// The store is not to be used until it is opened anew, or built anew if it is
    /// damaged.
    fn failed(&mut self, error: &KvError) {
        self.writer.failure = Some(error.clone());
        if let KvError::Damaged(reason) = error {
            self.writer.damage = Some(reason.clone());
        }
    }

    /// Whether a small put finds room for its changes: else many have to be put in order
    /// first, which takes a while.
    pub fn has_room(&self) -> bool {
        self.rows().is_ok_and(|rows| {
            let room = rows.room();
            room <= SMALL_BYTES || rows.recent().size_bytes() + SMALL_BYTES <= room
        })
    }

    /// Exclusive end of the changes that readers see.
    pub fn applied_offset(&self) -> i64 {
        self.writer.applied
    }

    /// Rows, as far as applied.
    pub fn row_count(&self) -> i64 {
        self.writer.row_count
    }

    /// The rows, which are open.
    ///
    /// # Errors
    /// They are not, or have failed.
    pub fn rows(&self) -> Result<Arc<OpenRows>> {
        if let Some(failure) = &self.writer.failure {
            return Err(failure.clone());
        }
        let rows = self.tablet.rows.read().clone();
        rows.ok_or_else(|| KvError::Storage("it is not open".to_owned()))
    }

    /// Works out what a batch does. Nothing is applied yet.
    ///
    /// # Errors
    /// The batch is refused. If an old row turns out to be damaged the store has
    /// failed.
    pub fn prepare(
        &mut self,
        table: &KvTable,
        batch: &KvBatch,
        mode: PutMode<'_>,
        source: &dyn SequenceSource,
    ) -> Result<Prepared> {
        let rows = self.rows()?;
        if self.writer.pending.size_bytes() > self.tablet.pending_bytes_max {
            let reason = "too many changes wait for their commit";
            return Err(KvError::Stalled(reason.to_owned()));
        }
        let statistics = rows.store().statistics();
        let tablet = self.tablet;
        let (files, limit) = (&tablet.level0_files, &tablet.level0_limit);
        files.store(statistics.level0_files, Ordering::Relaxed);
        limit.store(statistics.level0_slowdown_trigger, Ordering::Relaxed);
        if statistics.level0_slowdown_trigger > 0
            && statistics.level0_files >= statistics.level0_slowdown_trigger
        {
            let reason = format!("{} files wait for compaction", statistics.level0_files);
            return Err(KvError::Stalled(reason));
        }
        // While it can be refused.
        let room = rows.room();
        self.make_room(&rows, batch.size_bytes().min(room), room)?;
        let writer = &mut *self.writer;
        let recent = rows.recent();
        let stored = Stored {
            pending: &writer.pending,
            recent: &recent,
            store: &**rows.store(),
        };
        let mut taken = false;
        let numbers = table.auto_increment().map(|column| Numbers {
            column,
            range: &mut writer.numbers,
            source,
            taken: &mut taken,
        });
        let prepared = prepare(table, &stored, batch, mode, numbers);
        drop(recent);
        if taken {
            // Before a number of the range can be seen by anybody.
            let state = TabletState {
                numbers: writer.numbers,
                ..writer.noted
            };
            self.note(state)?;
        }
        if let Err(error @ KvError::Damaged(_)) = &prepared {
            self.failed(error);
        }
        prepared
    }

    /// Values of keys with what is pending included, in their order.
    ///
    /// # Errors
    /// The store failed.
    pub fn look_up(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let rows = self.rows()?;
        let mut values = vec![None; keys.len()];
        let read = rows.multi_get(keys, Reach::Disk, &mut |index, value| {
            values[index] = value.map(<[u8]>::to_vec);
        });
        read.inspect_err(|error| self.tablet.report(error))?;
        let pending = &self.writer.pending;
        for (key, value) in keys.iter().zip(&mut values) {
            match pending.get(pending.hash(key), key) {
                Known::Nothing => {}
                Known::Deleted => *value = None,
                Known::Value(newer) => *value = Some(newer.to_vec()),
            }
        }
        Ok(values)
    }

    /// A view of the rows with the offset of the changelog that they correspond to.
    ///
    /// # Errors
    /// The store is not open, or fails.
    pub fn snapshot(&mut self) -> Result<(Box<dyn KvSnapshot>, i64)> {
        let rows = self.rows()?;
        self.bring_to_store(&rows)?;
        Ok((rows.store().clone().snapshot(), self.writer.applied))
    }

    fn note(&mut self, state: TabletState) -> Result<()> {
        if state != self.writer.noted {
            state
                .store(&*self.tablet.resources.files, &self.tablet.dir)
                .map_err(|error| storage("write the state", &error))?;
            self.writer.noted = state;
        }
        Ok(())
    }

    /// Notes how far the store is durable; begins a flush if that was long ago, by
    /// changes or by time. To be called now and then: the next call notes what has
    /// become durable meanwhile, and if nothing has changed since the last one, and
    /// nobody has found anything there, the memory of recent changes is given back.
    ///
    /// # Errors
    /// The disk fails.
    pub fn checkpoint(&mut self, now_ms: i64, flush_interval_ms: i64) -> Result<()> {
        let outcome = self.check(now_ms, flush_interval_ms);
        self.checked(outcome, now_ms)
    }

    fn check(&mut self, now_ms: i64, flush_interval_ms: i64) -> Result<()> {
        if !self.tablet.is_open() {
            self.writer.noted_ms = now_ms;
            return Ok(());
        }
        let rows = self.rows()?;
        let applied = self.writer.applied;
        if std::mem::replace(&mut self.writer.seen, applied) == applied {
            self.bring_to_store(&rows)?;
            if !rows.are_worth_their_memory() {
                rows.forget();
            }
        }
        self.note_durable(&**rows.store(), now_ms)?;
        if self.writer.marks.is_empty() && rows.is_stored() {
            self.writer.noted_ms = now_ms;
            return Ok(());
        }
        let behind = self.writer.applied - self.writer.noted.offset;
        if behind >= FLUSH_AFTER_OFFSETS
            || now_ms.saturating_sub(self.writer.noted_ms) >= flush_interval_ms
        {
            let durable = rows.store().durable_sequence();
            if let Some((end, since_ms)) = self.writer.flushing
                && durable < end
                && (0..FLUSH_TAKES_MS).contains(&now_ms.saturating_sub(since_ms))
            {
                return Ok(());
            }
            // Nobody who wants to change rows is to wait for the disk.
            self.bring_to_store(&rows)?;
            self.flush(&**rows.store(), false)?;
            self.writer.flushing = Some((rows.store().last_sequence(), now_ms));
            self.note_durable(&**rows.store(), now_ms)?;
        }
        Ok(())
    }

    /// Takes note whether a checkpoint succeeded. A store that has failed for long does
    /// so until it is opened anew, unless the disk is full: it can be read meanwhile.
    fn checked(&mut self, outcome: Result<()>, now_ms: i64) -> Result<()> {
        let Err(error @ KvError::Storage(_)) = &outcome else {
            self.writer.failing_since_ms = None;
            return outcome;
        };
        let since_ms = *self.writer.failing_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) >= REOPEN_AFTER_MS {
            self.failed(error);
        }
        outcome
    }

    fn flush(&mut self, store: &dyn KvStore, wait: bool) -> Result<()> {
        // A full disk may have room later, and what is there can be read; damage stays.
        store
            .flush(wait)
            .inspect_err(|error| self.failed_if_damaged(error))
    }

    fn note_durable(&mut self, store: &dyn KvStore, now_ms: i64) -> Result<()> {
        if self.writer.marks.is_empty() {
            return Ok(());
        }
        let durable = store.durable_sequence();
        let mut state = TabletState {
            numbers: self.writer.numbers,
            ..self.writer.noted
        };
        if let Some(mark) = self.writer.marks.until(durable) {
            state.offset = mark.offset;
            state.row_count = mark.row_count;
            state.sequence = mark.sequence;
        }
        if state.offset != self.writer.noted.offset {
            self.note(state)?;
            self.writer.noted_ms = now_ms;
        }
        self.writer.marks.forget_until(durable);
        Ok(())
    }

    /// Closes the store if it was not used for so long, nothing is pending, and
    /// nobody reads. Returns whether it is closed now.
    ///
    /// # Errors
    /// The disk fails; the store stays open.
    pub fn close_idle(&mut self, now_ms: i64, idle_ms: i64) -> Result<bool> {
        let last_used_ms = self.tablet.last_used_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(last_used_ms) < idle_ms || !self.writer.pending.is_empty() {
            return Ok(!self.tablet.is_open());
        }
        self.close(now_ms)
    }

    /// Makes the store durable and closes it, unless somebody reads. What is pending
    /// is in the changelog.
    ///
    /// # Errors
    /// The disk fails; the store stays open.
    pub fn close(&mut self, now_ms: i64) -> Result<bool> {
        if self.writer.failure.is_some() {
            return Ok(self.drop_store());
        }
        let Ok(rows) = self.rows() else {
            return Ok(true);
        };
        self.bring_to_store(&rows)?;
        if !self.writer.marks.is_empty() {
            self.flush(&**rows.store(), true)?;
            self.note_durable(&**rows.store(), now_ms)?;
        }
        drop(rows);
        if !self.drop_store() {
            return Ok(false);
        }
        if self.writer.noted.offset < self.writer.applied {
            // The files may hold more than the state says.
            return Ok(true);
        }
        let state = TabletState {
            numbers: self.writer.numbers,
            boot: 0,
            ..self.writer.noted
        };
        // Without it the store is taken for one that was open when the machine stopped:
        // it may be built anew, and nothing is lost.
        let _ = self.note(state);
        Ok(true)
    }

    fn drop_store(&mut self) -> bool {
        let mut rows = self.tablet.rows.write();
        // Whoever reads now has a reference of his own, and gets no new one.
        let is_read = rows.as_mut().is_some_and(|rows| match Arc::get_mut(rows) {
            None => true,
            Some(rows) => Arc::strong_count(rows.store()) > 1,
        });
        if is_read {
            return false;
        }
        let closed = rows.take();
        // Readers ask for it meanwhile: closing takes its time.
        drop(rows);
        drop(closed);
        self.writer.pending.clear();
        self.writer.turned = None;
        self.writer.flushing = None;
        self.writer.failing_since_ms = None;
        self.writer.marks.clear();
        self.writer.failure = None;
        true
    }

    /// Closes the store and removes all files: the bucket is dropped.
    ///
    /// # Errors
    /// The disk fails, or somebody still reads.
    pub fn remove(&mut self) -> Result<()> {
        if !self.drop_store() {
            return Err(KvError::Storage("it is being read".to_owned()));
        }
        KvTablet::remove_files(&self.tablet.resources, &self.tablet.dir)
    }
}

fn storage(what: &str, error: &std::io::Error) -> KvError {
    let reason = format!("cannot {what}: {error}");
    match error.kind() {
        ErrorKind::StorageFull => KvError::DiskFull(reason),
        _ => KvError::Storage(reason),
    }
}
