//! Walking over batches one by one: for projection, filters and scans.

use std::sync::Arc;

use mainstem_env::StorageFile;
use mainstem_format::header::BatchHeader;

use crate::error::LogError;
use crate::header_reader::HeaderReader;
use crate::segment::Segment;
use crate::sparse_index::Boundary;
use crate::tablet::LogTablet;

/// One batch in the log.
#[derive(Clone, Debug)]
pub struct BatchInLog {
    /// Its header.
    pub header: BatchHeader,
    /// The file that holds it.
    pub file: Arc<dyn StorageFile>,
    /// Where it begins in the file.
    pub position: u64,
}

/// A walk over the batches of a log, which reads headers only, and many at once
/// while batches are small. One descriptor is in use at a time.
#[derive(Debug)]
pub struct BatchCursor<'a> {
    tablet: &'a LogTablet,
    next_offset: i64,
    end_offset_limit: i64,
    current: Option<OpenSegment>,
    segments_visited: usize,
}

#[derive(Debug)]
struct OpenSegment {
    segment: Arc<Segment>,
    file: Arc<dyn StorageFile>,
    reader: HeaderReader,
    /// How far the reader may go.
    end: Boundary,
}

impl LogTablet {
    /// A walk from the batch that contains `start_offset` on, over batches that
    /// end at `end_offset_limit` or before.
    ///
    /// # Errors
    /// [`LogError::OffsetOutOfRange`] as for [`read`](Self::read).
    pub fn batches(
        &self,
        start_offset: i64,
        end_offset_limit: i64,
    ) -> Result<BatchCursor<'_>, LogError> {
        self.check_in_range(start_offset)?;
        Ok(BatchCursor {
            tablet: self,
            next_offset: start_offset,
            end_offset_limit: end_offset_limit.min(self.end_offset()),
            current: None,
            segments_visited: 0,
        })
    }
}

impl BatchCursor<'_> {
    /// The next batch; `None` at the limit.
    ///
    /// # Errors
    /// [`LogError::Damaged`] and [`LogError::Storage`] as for
    /// [`LogTablet::read`], and [`LogError::OffsetOutOfRange`] when retention
    /// has deleted what comes next.
    pub fn next_batch(&mut self) -> Result<Option<BatchInLog>, LogError> {
        while self.next_offset < self.end_offset_limit {
            let Some(current) = &mut self.current else {
                if !self.open_segment()? {
                    return Ok(None);
                }
                continue;
            };
            let at = current.reader.at();
            if at.position >= current.end.position {
                self.current = None;
                continue;
            }
            let header = current.reader.next().map_err(|error| {
                let base_offset = current.segment.base_offset();
                error.at(self.tablet.dir.segment_path(base_offset), at.position)
            })?;
            let Some(header) = header else {
                return Ok(None);
            };
            if header.next_offset() > self.end_offset_limit {
                return Ok(None);
            }
            self.next_offset = header.next_offset();
            let file = Arc::clone(&current.file);
            return Ok(Some(BatchInLog {
                header,
                file,
                position: at.position,
            }));
        }
        Ok(None)
    }

    /// Where the walk stands: the end of the last returned batch, the start
    /// offset before.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Number of segments that were opened so far.
    #[must_use]
    pub fn segments_visited(&self) -> usize {
        self.segments_visited
    }

    /// Opens the segment that contains the next offset. False if there is none.
    fn open_segment(&mut self) -> Result<bool, LogError> {
        let dir = &self.tablet.dir;
        let Some(segment) = self
            .tablet
            .segments_from(self.next_offset)
            .into_iter()
            .next()
        else {
            self.tablet.check_in_range(self.next_offset)?;
            return Ok(false);
        };
        let opened = (|| {
            segment.check(dir)?;
            let start = segment.batch_containing(dir, self.next_offset)?;
            Ok((segment.open(dir)?, start))
        })();
        let (file, start) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if LogError::is_missing_file(&error) {
                    self.tablet.check_in_range(self.next_offset)?;
                }
                return Err(error);
            }
        };
        let end = segment.end();
        if start.position >= end.position {
            return Ok(false);
        }
        let reader = HeaderReader::new(Arc::clone(&file), start, end.position);
        self.segments_visited += 1;
        self.current = Some(OpenSegment {
            segment,
            file,
            reader,
            end,
        });
        Ok(true)
    }
}
