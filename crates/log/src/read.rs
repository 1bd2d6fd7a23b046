//! Reading whole batches as ranges of segment files.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mainstem_env::StorageFile;

use crate::bucket_dir::{BucketDir, read_exact};
use crate::error::LogError;
use crate::segment::Segment;
use crate::sparse_index::Boundary;
use crate::tablet::LogTablet;

/// Ranges up to this size are read into memory at once, and neighbours of them
/// joined: a descriptor held and a sendfile for each cost more than the copy.
const INLINE_BYTES: u64 = 16 << 10;
/// Ranges of files in one slice, each of which keeps a descriptor open until
/// the slice is sent.
const MAX_FILE_RANGES: usize = 32;
/// Segments looked up at a time, while the list is locked.
const SEGMENTS_AT_ONCE: usize = 16;

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// First offset wanted; the batch that contains it is returned whole.
    pub start_offset: i64,
    /// No batch that reaches beyond this offset is returned: high watermark for
    /// clients, `i64::MAX` for followers.
    pub end_offset_limit: i64,
    /// Byte budget.
    pub max_bytes: u64,
    /// Return the first batch even if it is larger than the budget.
    pub min_one_batch: bool,
}

/// Bytes of whole batches, back to back.
#[derive(Clone, Debug)]
pub struct LogSlice {
    /// The parts, in order.
    pub parts: Vec<LogPart>,
    /// Their bytes together.
    pub len: u64,
    /// Base offset of the first batch; the wanted offset when empty.
    pub base_offset: i64,
    /// End (exclusive) of the last batch; the wanted offset when empty.
    pub end_offset: i64,
}

impl LogSlice {
    /// Whether there is no batch in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes in memory. For tests and small reads.
    ///
    /// # Errors
    /// The error of a read.
    pub fn to_bytes(&self) -> std::io::Result<Bytes> {
        let mut all = BytesMut::with_capacity(self.len as usize);
        for part in &self.parts {
            match part {
                LogPart::Bytes(bytes) => all.extend_from_slice(bytes),
                LogPart::File(range) => {
                    let start = all.len();
                    all.resize(start + range.len as usize, 0);
                    range
                        .file
                        .read_exact_at(&mut all[start..], range.position)?;
                }
            }
        }
        Ok(all.freeze())
    }
}

/// A part of a slice.
#[derive(Clone, Debug)]
pub enum LogPart {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a segment file.
    File(FileRange),
}

/// A range of a segment file. Its bytes never change: a log is only cut above
/// the high watermark, and a deleted segment stays readable through the handle.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The open file.
    pub file: Arc<dyn StorageFile>,
    /// First byte.
    pub position: u64,
    /// Number of bytes.
    pub len: u64,
}

impl LogTablet {
    /// Reads whole batches from the one that contains `start_offset` on, up to
    /// the limits. Empty when `start_offset` is at the limit or between it and
    /// the end.
    ///
    /// May read from the disk: a few headers, and small ranges.
    ///
    /// # Errors
    /// [`LogError::OffsetOutOfRange`] outside of `log start..=log end`;
    /// [`LogError::Damaged`] when the log is not what it was when written;
    /// [`LogError::Storage`] when it cannot be read.
    pub fn read(&self, request: &ReadRequest) -> Result<LogSlice, LogError> {
        self.read_in(&self.dir, request)
    }

    /// As [`read`](Self::read), but never waits for the disk: `None` if it would
    /// have to.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn try_read(&self, request: &ReadRequest) -> Result<Option<LogSlice>, LogError> {
        match self.read_in(&self.dir.without_waiting(), request) {
            Err(error) if error.would_block() => Ok(None),
            result => result.map(Some),
        }
    }

    fn read_in(&self, dir: &BucketDir, request: &ReadRequest) -> Result<LogSlice, LogError> {
        let start_offset = request.start_offset;
        self.check_in_range(start_offset)?;
        let limit = request.end_offset_limit.min(self.end_offset());
        let mut slice = SliceBuilder::new(start_offset);
        while slice.wants_more(request, limit) {
            let before = slice.end_offset;
            for segment in &self.segments_from(before) {
                if !slice.wants_more(request, limit) {
                    break;
                }
                match slice.add_segment(dir, segment, request, limit) {
                    Ok(SegmentRead::Whole) => {}
                    Ok(SegmentRead::Part) => return Ok(slice.finish()),
                    // Deleted by retention while on the way to it.
                    Err(error) if error.is_missing_file() => {
                        self.check_in_range(start_offset)?;
                        return if slice.len == 0 {
                            Err(error)
                        } else {
                            Ok(slice.finish())
                        };
                    }
                    Err(error) => return Err(error),
                }
            }
            if slice.end_offset == before {
                // The log was cut below the limit meanwhile, or deleted up to
                // somewhere behind the next offset.
                if slice.len == 0 {
                    self.check_in_range(start_offset)?;
                }
                break;
            }
        }
        Ok(slice.finish())
    }

    /// Whether a read from `offset` on finds everything in memory in all
    /// likelihood: in the segment that is being written, whose index is loaded.
    /// Others may wait for the disk, or walk over a segment to build its index.
    #[must_use]
    pub fn is_recent(&self, offset: i64) -> bool {
        let active = self.segments.read().back().cloned();
        active.is_some_and(|active| offset >= active.base_offset() && active.is_indexed())
    }

    /// Whether `offset` may be read or waited at.
    pub(crate) fn check_in_range(&self, offset: i64) -> Result<(), LogError> {
        let (start, end) = (self.log_start_offset(), self.end_offset());
        if (start..=end).contains(&offset) {
            Ok(())
        } else {
            Err(LogError::OffsetOutOfRange {
                requested: offset,
                start,
                end,
            })
        }
    }

    /// Some segments in order, beginning with the one that contains `offset`;
    /// none when retention has deleted that.
    pub(crate) fn segments_from(&self, offset: i64) -> Vec<Arc<Segment>> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.base_offset() <= offset);
        let Some(first) = after.checked_sub(1) else {
            return Vec::new();
        };
        segments
            .range(first..)
            .take(SEGMENTS_AT_ONCE)
            .cloned()
            .collect()
    }
}

enum SegmentRead {
    /// Read to the end, go on with the next segment.
    Whole,
    /// A limit was met within.
    Part,
}

struct SliceBuilder {
    parts: Vec<LogPart>,
    file_ranges: usize,
    /// Small ranges that were read and are not a part yet.
    inline: BytesMut,
    len: u64,
    base_offset: i64,
    end_offset: i64,
}

impl SliceBuilder {
    fn new(start_offset: i64) -> Self {
        Self {
            parts: Vec::new(),
            file_ranges: 0,
            inline: BytesMut::new(),
            len: 0,
            base_offset: start_offset,
            end_offset: start_offset,
        }
    }

    fn wants_more(&self, request: &ReadRequest, limit: i64) -> bool {
        let room = self.len < request.max_bytes || (self.len == 0 && request.min_one_batch);
        self.end_offset < limit && room && self.file_ranges < MAX_FILE_RANGES
    }

    fn add_segment(
        &mut self,
        dir: &BucketDir,
        segment: &Arc<Segment>,
        request: &ReadRequest,
        limit: i64,
    ) -> Result<SegmentRead, LogError> {
        segment.check(dir)?;
        let segment_end = segment.end();
        let start = if self.end_offset > segment.base_offset() {
            segment.batch_containing(dir, self.end_offset)?
        } else {
            Boundary {
                offset: segment.base_offset(),
                position: 0,
            }
        };
        let visible_end = if segment_end.offset <= limit {
            segment_end
        } else {
            segment.batch_containing(dir, limit)?
        };
        let budget = start
            .position
            .saturating_add(request.max_bytes.saturating_sub(self.len));
        let mut end = if visible_end.position <= budget {
            visible_end
        } else {
            segment.boundary_before(dir, budget)?
        };
        if end.position <= start.position
            && visible_end.position > start.position
            && self.len == 0
            && request.min_one_batch
        {
            end = segment.batch_end(dir, start)?;
        }
        if end.position > start.position {
            self.add_range(segment.open(dir)?, start, end, dir.waits)
                .map_err(|error| {
                    LogError::io("read", &dir.segment_path(segment.base_offset()), error)
                })?;
        }
        Ok(if end == segment_end {
            SegmentRead::Whole
        } else {
            SegmentRead::Part
        })
    }

    fn add_range(
        &mut self,
        file: Arc<dyn StorageFile>,
        start: Boundary,
        end: Boundary,
        waits: bool,
    ) -> std::io::Result<()> {
        let len = end.position - start.position;
        if len <= INLINE_BYTES {
            let at = self.inline.len();
            self.inline.resize(at + len as usize, 0);
            read_exact(&*file, &mut self.inline[at..], start.position, waits)?;
        } else {
            self.flush_inline();
            self.file_ranges += 1;
            self.parts.push(LogPart::File(FileRange {
                file,
                position: start.position,
                len,
            }));
        }
        if self.len == 0 {
            self.base_offset = start.offset;
        }
        self.len += len;
        self.end_offset = end.offset;
        Ok(())
    }

    fn flush_inline(&mut self) {
        if !self.inline.is_empty() {
            self.parts
                .push(LogPart::Bytes(self.inline.split().freeze()));
        }
    }

    fn finish(mut self) -> LogSlice {
        self.flush_inline();
        LogSlice {
            parts: self.parts,
            len: self.len,
            base_offset: self.base_offset,
            end_offset: self.end_offset,
        }
    }
}
