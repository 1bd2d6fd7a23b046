//! Finding offsets by time, and deleting old segments.
//!
//! **Order of a deletion.** The new log start is made durable in a checkpoint,
//! then published to readers, then the files go. A crash in between leaves
//! files below the start, which the next open removes; readers in flight keep
//! their handles.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::LogError;
use crate::segment::Segment;
use crate::tablet::LogTablet;

/// What retention asks to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionRule {
    /// Segments whose largest timestamp is older than this are deletable;
    /// `None`, zero or negative: time deletes nothing.
    pub ttl_ms: Option<i64>,
    /// Oldest segments are deletable while the log is larger than this.
    pub retain_bytes: Option<u64>,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Number of segments.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl LogTablet {
    /// The first offset whose commit timestamp is `timestamp_ms` or later, which
    /// is the start of a batch; `None` if the whole log is older.
    ///
    /// # Errors
    /// [`LogError::Damaged`] or [`LogError::Storage`] when the log cannot be read.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64) -> Result<Option<i64>, LogError> {
        loop {
            let start = self.log_start_offset();
            let found = self.search_timestamp(timestamp_ms);
            match found {
                // Retention deleted a segment on the way; look at what is left.
                Err(error) if error.is_missing_file() && self.log_start_offset() > start => {}
                Err(error) => return Err(error),
                Ok(offset) => {
                    return Ok(offset.map(|offset| offset.max(self.log_start_offset())));
                }
            }
        }
    }

    fn search_timestamp(&self, timestamp_ms: i64) -> Result<Option<i64>, LogError> {
        // Without the active segment while it is empty: it has no time.
        let segments: Vec<Arc<Segment>> = {
            let segments = self.segments.read();
            segments
                .iter()
                .filter(|segment| segment.size_bytes() > 0)
                .cloned()
                .collect()
        };
        // Commit timestamps never decrease within a log, so the first segment
        // that is not all older is found by halving.
        let (mut low, mut high) = (0, segments.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if segments[middle].max_timestamp_ms(&self.dir)? < timestamp_ms {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(segment) = segments.get(low) else {
            return Ok(None);
        };
        let found = segment.batch_at_time(&self.dir, timestamp_ms)?;
        Ok((found != segment.end()).then_some(found.offset))
    }

    /// The offset below which whole segments may be deleted: those that `rule`
    /// does not keep, that end at `limit_offset` or before, and never the active
    /// one. Equals the log start when there are none.
    ///
    /// # Errors
    /// [`LogError::Damaged`] or [`LogError::Storage`] when a segment's times
    /// cannot be read.
    pub fn deletable_before(
        &self,
        rule: &RetentionRule,
        limit_offset: i64,
        now_ms: i64,
    ) -> Result<i64, LogError> {
        let mut excess_bytes = rule
            .retain_bytes
            .map_or(0, |retain| self.size_bytes().saturating_sub(retain));
        let ttl_ms = rule.ttl_ms.filter(|ttl| *ttl > 0);
        let mut before = self.log_start_offset();
        // One at a time: the list is long when segments are tiny, and usually
        // the first one is kept.
        for position in 0.. {
            let segment = {
                let segments = self.segments.read();
                if position + 1 >= segments.len() {
                    break;
                }
                Arc::clone(&segments[position])
            };
            let end = segment.end();
            if end.offset > limit_offset {
                break;
            }
            let too_much = excess_bytes > 0 && end.position <= excess_bytes;
            let too_old = match ttl_ms {
                Some(ttl_ms) if !too_much => {
                    let newest = segment.max_timestamp_ms(&self.dir)?;
                    newest < now_ms.saturating_sub(ttl_ms)
                }
                _ => false,
            };
            if !too_much && !too_old {
                break;
            }
            excess_bytes = excess_bytes.saturating_sub(end.position);
            before = end.offset;
        }
        Ok(before)
    }

    /// Deletes the segments that end at `offset` or before, except the active
    /// one, and moves the log start to the first that stays.
    ///
    /// # Errors
    /// Before anything was deleted: why the log takes no writes, or the error of
    /// making the new start durable. That a file cannot be removed is no error;
    /// the next open removes it.
    pub fn delete_segments_before(&self, offset: i64, now_ms: i64) -> Result<Deleted, LogError> {
        let _disk_state = self.disk_state.lock();
        self.check_writable()?;
        let deletable: Vec<Arc<Segment>> = {
            let segments = self.segments.read();
            let sealed = segments.len().saturating_sub(1);
            segments
                .iter()
                .take(sealed)
                .take_while(|segment| segment.end().offset <= offset)
                .cloned()
                .collect()
        };
        let Some(last) = deletable.last() else {
            return Ok(Deleted::default());
        };
        let new_start = last.end().offset;
        let bytes = deletable.iter().map(|segment| segment.size_bytes()).sum();

        let mut checkpoint = self.sync_and_capture(now_ms)?.checkpoint;
        checkpoint.log_start_offset = new_start;
        checkpoint.first_segment_base = new_start;
        checkpoint.sealed_count -= deletable.len() as u64;
        checkpoint.sealed_bytes -= bytes;
        checkpoint.epochs.raise_start_to(new_start);
        self.store(&checkpoint, now_ms)?;

        {
            let mut writer = self.writer.lock();
            writer.cuts += 1;
            writer.epochs.raise_start_to(new_start);
        }
        self.log_start.store(new_start, Ordering::Release);
        self.segments.write().drain(..deletable.len());
        self.size_bytes.fetch_sub(bytes, Ordering::Relaxed);
        for segment in &deletable {
            self.dir.resources.handles.forget(segment.id());
            for path in [
                self.dir.segment_path(segment.base_offset()),
                self.dir.index_path(segment.base_offset()),
            ] {
                if let Err(error) = self.dir.remove_path(&path) {
                    tracing::warn!(%error, "deleted segment was not removed");
                }
            }
        }
        Ok(Deleted {
            segments: deletable.len(),
            bytes,
        })
    }
}
