//! Walking over the batch headers of a segment with few reads.

use std::sync::Arc;

use mainstem_env::StorageFile;
use mainstem_format::header::{BatchHeader, MAX_HEADER_LEN, MIN_HEADER_LEN};

use crate::bucket_dir::read_exact;
use crate::error::LogError;
use crate::sparse_index::Boundary;

/// Read at once while batches are small: one read for some 300 batches of 100
/// bytes.
const READ_AHEAD_BYTES: usize = 32 << 10;
/// Batches up to this size are worth reading ahead for.
const SMALL_BATCH_BYTES: usize = 4 << 10;

/// Reads the headers of one segment, forwards, between a boundary and an end.
#[derive(Debug)]
pub(crate) struct HeaderReader {
    file: Arc<dyn StorageFile>,
    at: Boundary,
    /// No batch reaches beyond this byte.
    end_position: u64,
    /// The bytes from `buffer_start` on; allocated by the first read.
    buffer: Vec<u8>,
    buffer_start: u64,
    /// Size of the last batch, to guess the next.
    last_batch_len: usize,
    waits: bool,
}

/// Why a walk stopped.
#[derive(Debug)]
pub(crate) enum WalkError {
    Io(std::io::Error),
    Damage(String),
}

impl WalkError {
    /// Whether the walk may not wait for the disk and would have to.
    pub fn would_block(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// The error of a walk that stopped at `position` of the file at `path`.
    pub fn at(self, path: std::path::PathBuf, position: u64) -> LogError {
        match self {
            Self::Io(error) => LogError::io("read", &path, error),
            Self::Damage(reason) => LogError::damaged(path, position, reason),
        }
    }
}

impl HeaderReader {
    pub fn new(file: Arc<dyn StorageFile>, start: Boundary, end_position: u64) -> Self {
        Self {
            file,
            at: start,
            end_position,
            buffer: Vec::new(),
            buffer_start: 0,
            last_batch_len: 0,
            waits: true,
        }
    }

    /// Whether the walk may wait for the disk.
    pub fn waiting(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }

    /// Where the next batch begins.
    pub fn at(&self) -> Boundary {
        self.at
    }

    /// The next header, `None` at the end. The walk then stands behind its
    /// batch; on an error it stays.
    ///
    /// # Errors
    /// Damage is everything but a whole batch that continues the offsets.
    pub fn next(&mut self) -> Result<Option<BatchHeader>, WalkError> {
        let left = self.end_position.saturating_sub(self.at.position);
        if left == 0 {
            return Ok(None);
        }
        if left < MIN_HEADER_LEN as u64 {
            return Err(WalkError::Damage(format!(
                "{left} bytes are too few for a batch"
            )));
        }
        let len = MAX_HEADER_LEN.min(left as usize);
        let bytes = self.window(len, left).map_err(WalkError::Io)?;
        let header =
            BatchHeader::parse(bytes).map_err(|error| WalkError::Damage(error.to_string()))?;
        if header.total_len as u64 > left {
            return Err(WalkError::Damage(format!(
                "batch of {} bytes in the last {left}",
                header.total_len
            )));
        }
        if header.base_offset != self.at.offset {
            return Err(WalkError::Damage(format!(
                "batch has offset {}, expected is {}",
                header.base_offset, self.at.offset
            )));
        }
        self.last_batch_len = header.total_len;
        self.at = Boundary {
            offset: header.next_offset(),
            position: self.at.position + header.total_len as u64,
        };
        Ok(Some(header))
    }

    fn window(&mut self, len: usize, left: u64) -> std::io::Result<&[u8]> {
        let position = self.at.position;
        let buffered = self.buffer_start..self.buffer_start + self.buffer.len() as u64;
        if !(buffered.contains(&position) && position + len as u64 <= buffered.end) {
            let wanted = if self.last_batch_len <= SMALL_BATCH_BYTES {
                if self.last_batch_len == 0 {
                    SMALL_BATCH_BYTES
                } else {
                    READ_AHEAD_BYTES
                }
            } else {
                len
            };
            // Bounded by the file and by READ_AHEAD_BYTES.
            self.buffer.resize(wanted.max(len).min(left as usize), 0);
            self.buffer_start = position;
            let result = read_exact(&*self.file, &mut self.buffer, position, self.waits);
            if result.is_err() {
                self.buffer.clear();
            }
            result?;
        }
        let at = (position - self.buffer_start) as usize;
        Ok(&self.buffer[at..at + len])
    }
}
