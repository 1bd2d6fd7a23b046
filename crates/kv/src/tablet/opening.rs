//! Opening a tablet: the store as the last crash left it, and the changelog behind
//! it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_env::FileSystem;

use super::{KvTablet, KvWriter, storage};
use crate::pending::Changes;
use crate::replay::{Change, ChangelogSource, Replay};
use crate::state_file::TabletState;
use crate::{KvError, KvStore, KvTable, OpenRows, Result};

/// Bytes of changes that a replay applies at once.
const REPLAY_BYTES: usize = if cfg!(test) { 200 } else { 1 << 20 };

/// Changelog offsets after which a replay notes how far it is.
const NOTED_EVERY_OFFSETS: i64 = if cfg!(test) { 40 } else { 5_000_000 };

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpeningReport {
    /// Offset from which on the changelog was replayed.
    pub replayed_from: i64,
    /// Offset up to which the store holds everything now.
    pub applied: i64,
    /// Why the store was built anew, if it was.
    pub rebuilt: Option<String>,
}

impl KvTablet {
    pub(super) fn store_dir(&self) -> PathBuf {
        self.dir.join(super::STORE)
    }
}

impl KvWriter<'_> {
    /// Opens the store, if it is not, and brings it to the end of what is committed;
    /// what is appended only is pending then. Returns `None` if it was open.
    ///
    /// # Errors
    /// The disk fails, or the store is damaged or lost and the changelog does not
    /// reach back to its beginning. Nothing is served then; opening is tried again.
    pub fn open(
        &mut self,
        table: &KvTable,
        changelog: &dyn ChangelogSource,
        now_ms: i64,
    ) -> Result<Option<OpeningReport>> {
        self.tablet.last_used_ms.store(now_ms, Ordering::Relaxed);
        if self.is_open() {
            return Ok(None);
        }
        if self.tablet.is_open() && !self.drop_store() {
            return Err(KvError::Storage("it failed and is still read".to_owned()));
        }
        let (store, state, rebuilt) = self.find_store(changelog)?;
        self.writer.pending.clear();
        self.writer.turned = None;
        self.writer.flushing = None;
        self.writer.failing_since_ms = None;
        self.writer.marks.clear();
        self.writer.applied = state.offset;
        self.writer.row_count = state.row_count;
        self.writer.numbers = state.numbers;
        self.writer.noted = state;
        self.writer.noted_ms = now_ms;
        self.writer.failure = None;
        self.writer.damage = None;
        let hasher = self.writer.pending.hasher().clone();
        let recent = self.tablet.resources.recent.clone();
        let rows = OpenRows::new(store, hasher, recent);
        // Before the state says of any record more that the store has it.
        let opened = TabletState {
            boot: self.tablet.resources.volatile_boot.unwrap_or(0),
            ..self.writer.noted
        };
        self.note(opened)?;
        self.replay(table, changelog, &rows)?;
        *self.tablet.rows.write() = Some(Arc::new(rows));
        Ok(Some(OpeningReport {
            replayed_from: state.offset,
            applied: self.writer.applied,
            rebuilt,
        }))
    }

    /// After the changelog was opened anew: takes from it again what is not applied.
    ///
    /// # Errors
    /// The changelog cannot be read; the store has to be opened anew.
    pub fn replay_pending(
        &mut self,
        table: &KvTable,
        changelog: &dyn ChangelogSource,
    ) -> Result<()> {
        let rows = self.rows()?;
        self.writer.pending.clear();
        let replayed = self.replay(table, changelog, &rows);
        // What is damaged here is not the store.
        replayed.inspect_err(|error| self.writer.failure = Some(error.clone()))
    }

    /// Sees to it, now and then, that what was replayed is not replayed again.
    fn note_progress(&mut self, rows: &OpenRows) -> Result<()> {
        let now_ms = self.writer.noted_ms;
        let behind = |writer: &Self| writer.writer.applied - writer.writer.noted.offset;
        if behind(self) < NOTED_EVERY_OFFSETS {
            return Ok(());
        }
        self.note_durable(&**rows.store(), now_ms)?;
        if behind(self) >= NOTED_EVERY_OFFSETS {
            self.bring_to_store(rows)?;
            self.flush(&**rows.store(), true)?;
            self.note_durable(&**rows.store(), now_ms)?;
        }
        Ok(())
    }

    /// The store and what is known of it; a new one if the old is of no use.
    fn find_store(
        &self,
        changelog: &dyn ChangelogSource,
    ) -> Result<(Arc<dyn KvStore>, TabletState, Option<String>)> {
        let resources = &self.tablet.resources;
        let (files, dir) = (&*resources.files, &self.tablet.dir);
        let noted = TabletState::load(files, dir);
        let noted = noted.map_err(|error| storage("read the state", &error))?;
        let start = changelog.start_offset();
        let reason = match noted {
            // The first opening.
            None if changelog.end_offset() == 0 && changelog.is_whole() => None,
            None => Some("its state is missing or damaged".to_owned()),
            Some(state) => match self.open_noted(state, changelog)? {
                Ok(store) => return Ok((store, state, None)),
                Err(reason) => Some(reason),
            },
        };
        if !changelog.is_whole() {
            return Err(KvError::Damaged(format!(
                "{}, and the changelog is damaged: restore the files of {} or of the log",
                reason.unwrap_or_default(),
                dir.display()
            )));
        }
        if start > 0 {
            return Err(KvError::Damaged(format!(
                "{}, and the changelog below {start} is gone: restore the files of {}",
                reason.unwrap_or_default(),
                dir.display()
            )));
        }
        create_dir(files, dir).map_err(|error| storage("create its directory", &error))?;
        // First the state, so that no crash leaves it beside another store.
        TabletState::remove(files, dir).map_err(|error| storage("remove the state", &error))?;
        resources.engine.destroy(&self.tablet.store_dir())?;
        let store = resources.engine.open(&self.tablet.store_dir())?;
        let state = TabletState::default();
        let written = state.store(files, dir);
        written.map_err(|error| storage("write the state", &error))?;
        Ok((store, state, reason))
    }

    /// The store that a state was noted of, or why it is of no use.
    fn open_noted(
        &self,
        state: TabletState,
        changelog: &dyn ChangelogSource,
    ) -> Result<std::result::Result<Arc<dyn KvStore>, String>> {
        let TabletState {
            offset, sequence, ..
        } = state;
        let (start, end) = (changelog.start_offset(), changelog.end_offset());
        let holds = format!("it holds changes up to {offset}");
        // Of a damaged changelog the store has the better copy: it is served as it is. If
        // it got some changes beyond its offset before a crash, these are there as well.
        if offset > end && changelog.is_whole() {
            return Ok(Err(format!("{holds}, the changelog ends at {end}")));
        }
        if offset < start {
            return Ok(Err(format!("{holds}, the changelog begins at {start}")));
        }
        if let Some(boot) = self.tablet.resources.volatile_boot
            && changelog.is_whole()
            && state.boot != 0
            && state.boot != boot
        {
            let reason = "it was open when the machine stopped, which may have cut the changelog";
            return Ok(Err(reason.to_owned()));
        }
        if let Some(damage) = &self.writer.damage {
            return Ok(Err(damage.clone()));
        }
        let store = match self.tablet.resources.engine.open(&self.tablet.store_dir()) {
            Ok(store) => store,
            Err(KvError::Damaged(reason)) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        // An engine makes a new store where it finds none.
        match store.last_sequence() {
            found if found < sequence => Ok(Err(format!(
                "its files are missing or old: they have {found} of {sequence} changes"
            ))),
            _ => Ok(Ok(store)),
        }
    }

    fn replay(
        &mut self,
        table: &KvTable,
        changelog: &dyn ChangelogSource,
        rows: &OpenRows,
    ) -> Result<()> {
        let (from, committed) = (self.writer.applied, changelog.committed_offset());
        if from >= changelog.end_offset() {
            return Ok(());
        }
        let mut replay = Replay::new(table);
        let mut numbers = self.writer.numbers;
        // What is committed gathers, with its end.
        let mut changes = Changes::default();
        let mut end = from;
        changelog.read(from, &mut |batch| {
            let end_offset = batch.header().next_offset();
            let is_committed = end_offset <= committed;
            let gathers = changes.size_bytes() < REPLAY_BYTES;
            if end > self.writer.applied && !(is_committed && gathers) {
                self.apply(rows, end, &std::mem::take(&mut changes))?;
                self.writer.numbers = numbers;
                // A replay may take minutes: the next one is to begin where this one ends.
                self.note_progress(rows)?;
            }
            let pending = &self.writer.pending;
            let delta = replay.read(batch, from, &mut numbers, &mut |change| match change {
                Change::Put(key, schema_id, row) => {
                    changes.put(pending.hash(key), key, schema_id, row);
                }
                Change::Delete(key) => changes.delete(pending.hash(key), key),
            })?;
            changes.count_row(delta);
            if is_committed {
                end = end_offset;
            } else {
                let changes = std::mem::take(&mut changes);
                self.writer.pending.push(end_offset, changes);
            }
            Ok(())
        })?;
        if end > self.writer.applied {
            self.apply(rows, end, &changes)?;
        }
        self.writer.numbers = numbers;
        Ok(())
    }
}

/// Creates a directory, and those above it that are missing, durably.
fn create_dir(files: &dyn FileSystem, dir: &Path) -> io::Result<()> {
    files.create_dir_all(dir)?;
    // All of them: whoever created one may have failed, or crashed, before this.
    for above in dir.ancestors().skip(1) {
        match files.sync_dir(above) {
            // Not ours, so it was there before.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            // The directory that a relative path begins in.
            _ if above.as_os_str().is_empty() => break,
            synced => synced?,
        }
    }
    Ok(())
}
