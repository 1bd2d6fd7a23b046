//! Appending.
//!
//! A batch becomes visible in this order: bytes written, index extended, extent
//! of the segment published, end of the log published. An error before that
//! leaves nothing but bytes behind the visible end, which are cut off at once,
//! or, if that fails too, before the next write.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_env::{OpenMode, StorageFile};
use mainstem_format::BatchHeader;
use mainstem_types::LeaderEpoch;
use parking_lot::MutexGuard;

use crate::batches::CheckedBatches;
use crate::config::Durability;
use crate::error::LogError;
use crate::segment::Segment;
use crate::tablet::{LogTablet, UnsyncedDirs, UnsyncedSegment, Writer};
use crate::writers::SequenceCheck;

/// Unsynced segments whose handles stay open, per tablet. Older ones are opened
/// again by the sync, so that thousands of tiny segments do not need thousands
/// of descriptors.
const UNSYNCED_HANDLES: usize = 8;

/// Result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record: of the repeated batch, if it was a duplicate.
    pub base_offset: i64,
    /// End (exclusive) of what the append waits for to become durable and
    /// replicated.
    pub end_offset: i64,
    /// The commit timestamp of the batches.
    pub timestamp_ms: i64,
    /// A batch of the append was in the log already, and nothing was appended.
    pub duplicate: bool,
    /// A sync should be requested now.
    pub sync_wanted: bool,
}

impl LogTablet {
    /// Appends batches as the leader: gives them the next offsets, one commit
    /// timestamp and the leader's epoch.
    ///
    /// When the append contains a batch that is in the log already, nothing is
    /// appended and the old offsets are returned.
    ///
    /// # Errors
    /// Nothing was appended, and the log is as before:
    /// [`LogError::OutOfOrderSequence`], [`LogError::StaleLeaderEpoch`],
    /// [`LogError::InvalidAppend`], [`LogError::DiskFull`],
    /// [`LogError::Storage`], or why the log takes no writes.
    pub fn append_as_leader(
        &self,
        batches: &CheckedBatches,
        now_ms: i64,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, LogError> {
        let mut writer = self.writer.lock();
        writer.health.check()?;
        if let Some(current) = writer
            .epochs
            .latest()
            .filter(|latest| *latest > leader_epoch)
        {
            return Err(LogError::StaleLeaderEpoch {
                current,
                given: leader_epoch,
            });
        }
        let timestamp_ms = now_ms.max(writer.max_timestamp_ms);
        let expiration_ms = self.config.writer_expiration_ms;
        let check = writer
            .writers
            .check(batches.headers(), timestamp_ms, expiration_ms)?;
        if let SequenceCheck::Duplicate(batch) = check {
            return Ok(Appended {
                base_offset: batch.base_offset(),
                end_offset: batch.last_offset + 1,
                timestamp_ms: batch.timestamp_ms,
                duplicate: true,
                sync_wanted: self.sync_wanted(&writer, now_ms),
            });
        }
        let headers = stamp(
            batches.headers(),
            self.end_offset(),
            timestamp_ms,
            leader_epoch,
        )?;
        let active = self.write(&mut writer, &headers, now_ms, |file, position| {
            batches.write_stamped(file, position, &headers)
        })?;
        Ok(self.publish(&mut writer, active, &headers, now_ms, leader_epoch))
    }

    /// Appends batches that a leader has stamped, as they are. Sequences of
    /// writers are noted, not judged: the leader has done that.
    ///
    /// # Errors
    /// Nothing was appended: [`LogError::UnexpectedOffset`] when the batches do
    /// not continue the log without a gap; the others of
    /// [`append_as_leader`](Self::append_as_leader).
    pub fn append_as_follower(
        &self,
        batches: &CheckedBatches,
        now_ms: i64,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, LogError> {
        let mut writer = self.writer.lock();
        writer.health.check()?;
        if let Some(current) = writer
            .epochs
            .latest()
            .filter(|latest| *latest > leader_epoch)
        {
            return Err(LogError::StaleLeaderEpoch {
                current,
                given: leader_epoch,
            });
        }
        let mut expected = self.end_offset();
        for header in batches.headers() {
            if header.base_offset != expected {
                return Err(LogError::UnexpectedOffset {
                    expected,
                    actual: header.base_offset,
                });
            }
            expected = next_offset(header)?;
        }
        let active = self.write(&mut writer, batches.headers(), now_ms, |file, position| {
            batches.write(file, position)
        })?;
        Ok(self.publish(&mut writer, active, batches.headers(), now_ms, leader_epoch))
    }

    /// Seals the active segment if it has a batch; the next append begins a new
    /// one. Returns whether it did.
    ///
    /// # Errors
    /// [`LogError::DiskFull`] or [`LogError::Storage`] when the new segment
    /// cannot be created, or why the log takes no writes.
    pub fn roll(&self, now_ms: i64) -> Result<bool, LogError> {
        let mut writer = self.writer.lock();
        writer.health.check()?;
        match self.active_segment() {
            Some(active) if active.size_bytes() > 0 => {
                self.begin_segment(&mut writer, now_ms)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    pub(crate) fn active_segment(&self) -> Option<Arc<Segment>> {
        self.segments.read().back().cloned()
    }

    fn write(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        headers: &[BatchHeader],
        now_ms: i64,
        write: impl FnOnce(&dyn StorageFile, u64) -> std::io::Result<()>,
    ) -> Result<Arc<Segment>, LogError> {
        let bytes: u64 = headers.iter().map(|header| header.total_len as u64).sum();
        let end_offset = headers.last().map_or(0, BatchHeader::next_offset);
        let active = match self.active_segment() {
            Some(active) if !writer.must_roll && !self.is_full(&active, bytes, end_offset) => {
                self.open_active(writer, &active)?;
                active
            }
            _ => self.begin_segment(writer, now_ms)?,
        };
        let file = Arc::clone(writer.active_file.as_ref().expect("it is open now"));
        let position = active.size_bytes();
        let path = || self.dir.segment_path(active.base_offset());
        if writer.tail_dirty {
            file.set_len(position)
                .map_err(|error| LogError::io("cut", &path(), error))?;
            writer.tail_dirty = false;
        }
        if let Err(error) = write(&*file, position) {
            writer.tail_dirty = file.set_len(position).is_err();
            // A sync beside this may have made the bytes durable: the cut is to
            // be as well, before anything behind it counts.
            note_unsynced(writer, &active);
            return Err(LogError::io("append to", &path(), error));
        }
        Ok(active)
    }

    fn is_full(&self, active: &Segment, bytes: u64, end_offset: i64) -> bool {
        let size = active.size_bytes();
        let relative_end = end_offset - active.base_offset();
        size > 0
            && (size + bytes > self.config.segment_limit() || relative_end > i64::from(i32::MAX))
    }

    /// Opens the active segment for writing, after a start or a rest.
    fn open_active(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        active: &Arc<Segment>,
    ) -> Result<(), LogError> {
        if writer.active_file.is_some() {
            return Ok(());
        }
        active.load_index(&self.dir)?;
        let path = self.dir.segment_path(active.base_offset());
        let file = self
            .dir
            .fs()
            .open(&path, OpenMode::ReadWrite)
            .map_err(|error| LogError::io("open", &path, error))?;
        writer.active_file = Some(file);
        Ok(())
    }

    /// Creates the next segment, and with the first one the directory.
    pub(crate) fn begin_segment(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        now_ms: i64,
    ) -> Result<Arc<Segment>, LogError> {
        let base_offset = self.end_offset();
        let path = self.dir.segment_path(base_offset);
        let sealed = self.active_segment();
        if sealed.is_none() {
            self.dir.create()?;
            writer.unsynced.dirs = UnsyncedDirs::Lineage;
        }
        let file = match self.dir.fs().create_new(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // Not one of ours: recovery lists every segment, and cuts remove
                // what they take out of the list.
                tracing::warn!(
                    ?path,
                    "a file is in the place of a new segment, emptying it"
                );
                self.dir
                    .fs()
                    .open(&path, OpenMode::ReadWrite)
                    .and_then(|file| file.set_len(0).map(|()| file))
            }
            result => result,
        };
        let file = file.map_err(|error| LogError::io("create", &path, error))?;
        if let Some(sealed) = sealed.as_ref().filter(|_| writer.tail_dirty) {
            // The sealed segment must end where its batches end.
            let cut = self.open_active(writer, sealed).and_then(|()| {
                let old = writer.active_file.as_ref().expect("it is open now");
                let cut = old.set_len(sealed.size_bytes());
                cut.map_err(|error| LogError::io("cut", &path, error))
            });
            if let Err(error) = cut {
                let _ = self.dir.fs().remove_file(&path);
                return Err(error);
            }
            writer.tail_dirty = false;
            note_unsynced(writer, sealed);
        }
        let id = self.dir.resources.new_segment_id();
        let interval = self.config.index_interval_bytes;
        let segment = Arc::new(Segment::create(id, base_offset, interval));
        self.dir.resources.handles.insert(id, Arc::clone(&file));
        self.segments.write().push_back(Arc::clone(&segment));
        if let Some(sealed) = sealed {
            sealed.seal(&self.dir);
        }
        writer.active_file = Some(file);
        writer.must_roll = false;
        writer.unsynced.dirs = writer.unsynced.dirs.max(UnsyncedDirs::Bucket);
        writer.checkpoint.segments_since += 1;
        writer.checkpoint.touch(now_ms);
        Ok(segment)
    }

    fn publish(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        active: Arc<Segment>,
        headers: &[BatchHeader],
        now_ms: i64,
        leader_epoch: LeaderEpoch,
    ) -> Appended {
        let first = headers.first().expect("an append has a batch");
        let last = headers.last().expect("an append has a batch");
        let base_offset = first.base_offset;
        let end_offset = last.next_offset();
        assert!(
            base_offset == self.end_offset() && end_offset > base_offset,
            "dense offsets"
        );
        let bytes: u64 = headers.iter().map(|header| header.total_len as u64).sum();

        active.extend(headers);
        self.size_bytes.fetch_add(bytes, Ordering::Relaxed);
        for header in headers {
            writer.max_timestamp_ms = writer.max_timestamp_ms.max(header.commit_timestamp_ms);
            writer.writers.record(header, self.config.max_writers);
        }
        if writer.epochs.assign(leader_epoch, base_offset) {
            writer.checkpoint.urgent = true;
        }
        writer.last_append_ms = now_ms;
        writer.checkpoint.bytes_since += bytes;
        writer.checkpoint.touch(now_ms);
        note_unsynced(writer, &active);
        self.appends_since_sync.fetch_add(1, Ordering::Relaxed);
        self.written_end.store(end_offset, Ordering::Release);
        Appended {
            base_offset,
            end_offset,
            timestamp_ms: last.commit_timestamp_ms,
            duplicate: false,
            sync_wanted: self.sync_wanted(writer, now_ms),
        }
    }

    pub(crate) fn sync_wanted(&self, writer: &Writer, now_ms: i64) -> bool {
        let unsynced = self.config.durability == Durability::Fsync
            && self.synced_end.load(Ordering::Acquire) < self.end_offset();
        unsynced || writer.checkpoint.is_due(&self.config, now_ms)
    }
}

fn note_unsynced(writer: &mut MutexGuard<'_, Writer>, active: &Arc<Segment>) {
    let file = writer.active_file.clone();
    let segments = &mut writer.unsynced.segments;
    if segments
        .last()
        .is_some_and(|last| last.segment.id() == active.id())
    {
        return;
    }
    segments.push(UnsyncedSegment {
        segment: Arc::clone(active),
        file,
    });
    if let Some(old) = segments.len().checked_sub(UNSYNCED_HANDLES + 1) {
        segments[old].file = None;
    }
}

fn next_offset(header: &BatchHeader) -> Result<i64, LogError> {
    header
        .base_offset
        .checked_add(i64::from(header.last_offset_delta) + 1)
        .ok_or_else(|| LogError::InvalidAppend("offsets overflow".to_owned()))
}

/// The headers of batches as they are stored: with the offsets from
/// `base_offset` on, and what else a leader stamps.
fn stamp(
    headers: &[BatchHeader],
    base_offset: i64,
    commit_timestamp_ms: i64,
    leader_epoch: LeaderEpoch,
) -> Result<Vec<BatchHeader>, LogError> {
    let mut stamped = Vec::with_capacity(headers.len());
    let mut base_offset = base_offset;
    for header in headers {
        let header = BatchHeader {
            base_offset,
            commit_timestamp_ms,
            leader_epoch: header.leader_epoch.map(|_| leader_epoch.0),
            ..*header
        };
        base_offset = next_offset(&header)?;
        stamped.push(header);
    }
    Ok(stamped)
}
