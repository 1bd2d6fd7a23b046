//! Cutting the log.
//!
//! Only a follower cuts, and never below the high watermark, so nobody has been
//! promised what goes. **Order of a cut.** First every durable claim beyond the
//! cut is withdrawn, durably: the mark is lowered, then a checkpoint of the
//! state at the cut replaces all others. Then segments go, newest first, then
//! the cut segment is shortened, and all of it is synced before the log takes
//! appends again: a removed file that came back later could be mistaken for the
//! continuation of the new log.
//!
//! A crash in between leaves the old log, or a shorter prefix of it that still
//! contains the cut: replication will cut again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_env::OpenMode;
use parking_lot::MutexGuard;

use crate::checkpoint::{Checkpoint, RecoveryPoint};
use crate::error::LogError;
use crate::header_reader::HeaderReader;
use crate::segment::Segment;
use crate::sparse_index::Boundary;
use crate::tablet::{Health, LogTablet, Unsynced, UnsyncedDirs, Writer};
use crate::writers::TruncatedWriters;

impl LogTablet {
    /// Removes the batches that end beyond `offset`, whole: a batch that
    /// contains it goes as well. Returns the new end, `offset` or before. An
    /// offset at the end or beyond changes nothing.
    ///
    /// # Errors
    /// [`LogError::OffsetOutOfRange`] below the log start. After a disk error
    /// during the cut the tablet takes no writes until it is opened anew.
    pub fn truncate_to(&self, offset: i64, now_ms: i64) -> Result<i64, LogError> {
        let _disk_state = self.disk_state.lock();
        self.writer.lock().health.check()?;
        let (start, end) = (self.log_start_offset(), self.end_offset());
        if offset < start {
            return Err(LogError::OffsetOutOfRange {
                requested: offset,
                start,
                end,
            });
        }
        if offset >= end {
            return Ok(end);
        }
        let mut checkpoint = self.sync_and_capture(now_ms)?.checkpoint;

        let mut writer = self.writer.lock();
        writer.health.check()?;
        let segments: Vec<Arc<Segment>> = self.segments.read().iter().cloned().collect();
        let position = segments.partition_point(|segment| segment.base_offset() <= offset) - 1;
        let last = &segments[position];
        let cut = last.batch_containing(&self.dir, offset)?;
        self.describe_cut(&mut checkpoint, &segments[..=position], cut)?;
        let mut writers = writer.writers.clone();
        let mut truncated = writers.truncate_to(cut.offset);
        self.find_older_batches(&mut truncated, &segments[..=position], cut, now_ms)?;
        writers.restore(truncated);
        checkpoint.writers = writers.clone();
        checkpoint.epochs.truncate_to(cut.offset);

        let result = self
            .withdraw(&mut writer, &checkpoint, cut.offset)
            .and_then(|()| {
                self.cut_files(&mut writer, &segments[position + 1..], Some((last, cut)))
            });
        if let Err(error) = result {
            self.fail(&mut writer, &error);
            return Err(error);
        }
        self.segments.write().truncate(position + 1);
        last.cut(cut);
        writer.max_timestamp_ms = checkpoint.max_timestamp_ms;
        writer.writers = writers;
        writer.epochs = checkpoint.epochs;
        self.publish_cut(
            &mut writer,
            cut.offset,
            checkpoint.sealed_bytes + cut.position,
        );
        writer.checkpoint.captured(now_ms);
        Ok(cut.offset)
    }

    /// Empties the log, which goes on at `offset`: for a follower that is so
    /// far behind that the leader has deleted what it lacks. It also ends a
    /// quarantine, as everything will be copied anew.
    ///
    /// # Errors
    /// After a disk error the tablet takes no writes until it is opened anew.
    pub fn truncate_fully_and_start_at(&self, offset: i64, now_ms: i64) -> Result<(), LogError> {
        let _disk_state = self.disk_state.lock();
        let mut writer = self.writer.lock();
        if let Health::Closed | Health::Failed(_) = writer.health {
            writer.health.check()?;
        }
        let result = self.restart_files(&mut writer, offset);
        if let Err(error) = result {
            self.fail(&mut writer, &error);
            return Err(error);
        }
        self.segments.write().clear();
        writer.health = Health::Writable;
        writer.max_timestamp_ms = i64::MIN;
        writer.writers = Default::default();
        writer.epochs = Default::default();
        self.log_start.store(offset, Ordering::Release);
        self.publish_cut(&mut writer, offset, 0);
        writer.checkpoint.captured(now_ms);
        Ok(())
    }

    fn restart_files(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        offset: i64,
    ) -> Result<(), LogError> {
        self.dir.create()?;
        self.dir.sync_lineage()?;
        let segments: Vec<Arc<Segment>> = self.segments.read().iter().cloned().collect();
        let first_base = segments.first().map_or(offset, |first| first.base_offset());
        // While segments go, nothing is promised of them. The mark stays there:
        // it may be lower than the new start, never higher.
        self.withdraw(
            writer,
            &Checkpoint::empty_at(first_base),
            first_base.min(offset),
        )?;
        self.cut_files(writer, &segments, None)?;
        Checkpoint::empty_at(offset).store_alone(&self.dir)
    }

    /// Changes a checkpoint of the whole log into one of the log up to `cut` in
    /// the last of `segments`.
    fn describe_cut(
        &self,
        checkpoint: &mut Checkpoint,
        segments: &[Arc<Segment>],
        cut: Boundary,
    ) -> Result<(), LogError> {
        let (last, sealed) = segments.split_last().expect("the cut lies in a segment");
        checkpoint.recovery = RecoveryPoint {
            offset: cut.offset,
            segment_base: last.base_offset(),
            position: cut.position,
        };
        checkpoint.sealed_count = sealed.len() as u64;
        checkpoint.sealed_bytes = sealed.iter().map(|segment| segment.size_bytes()).sum();
        // Timestamps never decrease, so the largest is that of the last batch.
        checkpoint.max_timestamp_ms = i64::MIN;
        let mut reader = HeaderReader::new(
            last.open(&self.dir)?,
            Boundary {
                offset: last.base_offset(),
                position: 0,
            },
            cut.position,
        );
        loop {
            let at = reader.at().position;
            match reader.next() {
                Ok(Some(header)) => {
                    checkpoint.max_timestamp_ms =
                        checkpoint.max_timestamp_ms.max(header.commit_timestamp_ms);
                }
                Ok(None) => break,
                Err(error) => {
                    return Err(error.at(self.dir.segment_path(last.base_offset()), at));
                }
            }
        }
        if let Some(before) = sealed
            .last()
            .filter(|_| checkpoint.max_timestamp_ms == i64::MIN)
        {
            checkpoint.max_timestamp_ms = before.max_timestamp_ms(&self.dir)?;
        }
        Ok(())
    }

    /// Looks backwards through the log for older batches of the writers that
    /// the cut has shortened, until all are found or none can matter any more.
    fn find_older_batches(
        &self,
        truncated: &mut TruncatedWriters,
        segments: &[Arc<Segment>],
        cut: Boundary,
        now_ms: i64,
    ) -> Result<(), LogError> {
        for segment in segments.iter().rev() {
            if truncated.is_complete() {
                break;
            }
            let is_cut = segment.end().offset > cut.offset;
            let end = if is_cut {
                cut.position
            } else {
                segment.end().position
            };
            let start = Boundary {
                offset: segment.base_offset(),
                position: 0,
            };
            let mut reader = HeaderReader::new(segment.open(&self.dir)?, start, end);
            // Bounded by the segment; only headers of writers in question stay.
            let mut headers = Vec::new();
            let mut newest_ms = i64::MIN;
            loop {
                let at = reader.at().position;
                match reader.next() {
                    Ok(Some(header)) => {
                        newest_ms = newest_ms.max(header.commit_timestamp_ms);
                        if truncated.contains(header.writer_id) {
                            headers.push(header);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        return Err(error.at(self.dir.segment_path(segment.base_offset()), at));
                    }
                }
            }
            truncated.prepend(&headers);
            let oldest_ms = now_ms.saturating_sub(self.config.writer_expiration_ms);
            if newest_ms < oldest_ms && newest_ms != i64::MIN {
                break;
            }
        }
        Ok(())
    }

    /// Makes durable that nothing beyond `end_offset` is promised.
    fn withdraw(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        checkpoint: &Checkpoint,
        end_offset: i64,
    ) -> Result<(), LogError> {
        writer.cuts += 1;
        writer.mark.lower(&self.dir, end_offset)?;
        checkpoint.store_alone(&self.dir)
    }

    /// Removes whole segments, newest first, and shortens one, durably.
    pub(crate) fn cut_files(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        removed: &[Arc<Segment>],
        shortened: Option<(&Arc<Segment>, Boundary)>,
    ) -> Result<(), LogError> {
        writer.active_file = None;
        writer.must_roll = false;
        writer.tail_dirty = false;
        let fs = self.dir.fs();
        for segment in removed.iter().rev() {
            self.dir.resources.handles.forget(segment.id());
            self.dir
                .remove_path(&self.dir.segment_path(segment.base_offset()))?;
            self.dir
                .remove_path(&self.dir.index_path(segment.base_offset()))?;
        }
        if let Some((segment, cut)) = shortened {
            self.dir
                .remove_path(&self.dir.index_path(segment.base_offset()))?;
            let path = self.dir.segment_path(segment.base_offset());
            let file = fs
                .open(&path, OpenMode::ReadWrite)
                .map_err(|error| LogError::io("open", &path, error))?;
            file.set_len(cut.position)
                .map_err(|error| LogError::io("cut", &path, error))?;
            file.sync_data()
                .map_err(|error| LogError::io("sync", &path, error))?;
        }
        self.dir.sync()
    }

    fn publish_cut(&self, writer: &mut MutexGuard<'_, Writer>, end_offset: i64, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        self.synced_end.store(end_offset, Ordering::Release);
        self.written_end.store(end_offset, Ordering::Release);
        writer.unsynced = Unsynced {
            segments: Vec::new(),
            dirs: UnsyncedDirs::None,
        };
    }
}
