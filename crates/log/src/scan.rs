//! Reading batches whole to verify their checksums, in bounded memory.

use std::io::{self, IoSlice};
use std::sync::Arc;

use mainstem_env::StorageFile;
use mainstem_format::header::{BatchHeader, MAX_HEADER_LEN, MIN_HEADER_LEN};

use crate::sparse_index::Boundary;

/// Read at once. Batches larger than this are verified piece by piece.
const CHUNK_BYTES: usize = 256 << 10;

/// What lies at the position of a scan.
#[derive(Debug)]
pub(crate) enum Scanned {
    /// A whole, valid batch that continues the offsets.
    Batch(BatchHeader),
    /// The end of the bytes, exactly behind a batch.
    End,
    /// Anything else. The scan cannot go on.
    Damage(Damage),
}

/// Why bytes are no batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub reason: String,
    /// Whether the header is plausible and only the checksum is wrong: then
    /// the batch was written whole, or its last pages were lost.
    pub batch_len: Option<u64>,
}

impl Damage {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            batch_len: None,
        }
    }
}

/// Scans a file from a boundary to its end.
#[derive(Debug)]
pub(crate) struct BatchScanner<'a> {
    file: &'a dyn StorageFile,
    at: Boundary,
    end_position: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
    write_back: WriteBack,
}

/// See [`BatchScanner::write_back_to`].
#[derive(Debug, Default)]
enum WriteBack {
    #[default]
    Off,
    To(Arc<dyn StorageFile>),
    Failed(io::Error),
}

impl WriteBack {
    fn write(&mut self, bytes: &[u8], position: u64) {
        if let Self::To(file) = self
            && let Err(error) = file.write_all_at(&mut [IoSlice::new(bytes)], position)
        {
            *self = Self::Failed(error);
        }
    }
}

impl<'a> BatchScanner<'a> {
    pub fn new(file: &'a dyn StorageFile, start: Boundary, end_position: u64) -> Self {
        Self {
            file,
            at: start,
            end_position,
            buffer: Vec::new(),
            buffer_start: 0,
            write_back: WriteBack::Off,
        }
    }

    /// Writes what is read from the next batch on back to its place, through a
    /// handle of the same file: the bytes stay what they are, but the next sync
    /// covers them, whatever a failed one before has dropped.
    pub fn write_back_to(&mut self, file: Arc<dyn StorageFile>) {
        self.write_back = WriteBack::To(file);
        let read = self.at.position.saturating_sub(self.buffer_start) as usize;
        if let Some(ahead) = self.buffer.get(read..).filter(|ahead| !ahead.is_empty()) {
            self.write_back.write(ahead, self.at.position);
        }
    }

    /// Why not all could be written back; `None` if all was, or nothing had to.
    pub fn write_back_error(self) -> Option<io::Error> {
        match self.write_back {
            WriteBack::Failed(error) => Some(error),
            WriteBack::Off | WriteBack::To(_) => None,
        }
    }

    /// Where the next batch begins.
    pub fn at(&self) -> Boundary {
        self.at
    }

    /// Looks at the next batch and steps over it if it is valid.
    ///
    /// # Errors
    /// A failed read.
    pub fn step(&mut self) -> io::Result<Scanned> {
        let left = self.end_position.saturating_sub(self.at.position);
        if left == 0 {
            return Ok(Scanned::End);
        }
        if left < MIN_HEADER_LEN as u64 {
            return Ok(Scanned::Damage(Damage::new(format!(
                "{left} bytes are too few for a batch"
            ))));
        }
        let start = self.at.position;
        let header = BatchHeader::parse(self.bytes(start, MAX_HEADER_LEN)?);
        let header = match header {
            Ok(header) => header,
            Err(error) => return Ok(Scanned::Damage(Damage::new(error.to_string()))),
        };
        if header.total_len as u64 > left {
            return Ok(Scanned::Damage(Damage::new(format!(
                "batch of {} bytes in the last {left}",
                header.total_len
            ))));
        }
        if header.base_offset != self.at.offset {
            return Ok(Scanned::Damage(Damage::new(format!(
                "batch has offset {}, expected is {}",
                header.base_offset, self.at.offset
            ))));
        }
        let end = start + header.total_len as u64;
        let crc = self.crc(start + header.magic.crc_start() as u64, end)?;
        if crc != header.crc {
            return Ok(Scanned::Damage(Damage {
                reason: format!("checksum is {crc:08x}, the header says {:08x}", header.crc),
                batch_len: Some(header.total_len as u64),
            }));
        }
        let Some(next_offset) = header.last_offset().checked_add(1) else {
            return Ok(Scanned::Damage(Damage::new("offsets overflow")));
        };
        self.at = Boundary {
            offset: next_offset,
            position: end,
        };
        Ok(Scanned::Batch(header))
    }

    fn crc(&mut self, start: u64, end: u64) -> io::Result<u32> {
        let mut crc = 0;
        let mut position = start;
        while position < end {
            let bytes = self.bytes(position, 1)?;
            let take = bytes.len().min((end - position) as usize);
            crc = crc32c::crc32c_append(crc, &bytes[..take]);
            position += take as u64;
        }
        Ok(crc)
    }

    /// All buffered bytes from `position` on, at least `len` unless the scan
    /// ends before.
    fn bytes(&mut self, position: u64, len: usize) -> io::Result<&[u8]> {
        let len = len.min((self.end_position - position) as usize);
        let buffered_end = self.buffer_start + self.buffer.len() as u64;
        if position < self.buffer_start || position + len as u64 > buffered_end {
            // Bounded by the file and by CHUNK_BYTES.
            let wanted = CHUNK_BYTES.min((self.end_position - position) as usize);
            self.buffer.resize(wanted, 0);
            self.buffer_start = position;
            self.file.read_exact_at(&mut self.buffer, position)?;
            self.write_back.write(&self.buffer, position);
        }
        Ok(&self.buffer[(position - self.buffer_start) as usize..])
    }
}
