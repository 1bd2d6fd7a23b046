//! Random access to stored bytes, and a window that saves reads.

use std::io;

use bytes::Bytes;

use crate::header::{BatchHeader, MAX_HEADER_LEN, MIN_HEADER_LEN, total_len};
use crate::{FormatError, Result};

/// Bytes that can be read at any position: memory, or an open file.
pub trait ReadAt {
    /// Fills `buffer` from `position` on.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::UnexpectedEof`] if the bytes end before.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(position)
            .ok()
            .and_then(|position| self.get(position..)?.get(..buffer.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Bytes {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        self[..].read_at(position, buffer)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        self[..].read_at(position, buffer)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(position, buffer)
    }
}

/// Why stored bytes could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// They could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// They were read and are wrong.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Something that hands out short runs of bytes by position.
pub(crate) trait Fetch {
    type Error: From<FormatError>;

    /// `len` bytes from `position` on.
    fn fetch(&mut self, position: u64, len: usize) -> Result<&[u8], Self::Error>;
}

/// Bytes in memory: no copy.
pub(crate) struct InMemory<'a>(pub(crate) &'a [u8]);

impl Fetch for InMemory<'_> {
    type Error = FormatError;

    fn fetch(&mut self, position: u64, len: usize) -> Result<&[u8]> {
        usize::try_from(position)
            .ok()
            .and_then(|position| self.0.get(position..)?.get(..len))
            .ok_or_else(|| past_end(position, len, self.0.len() as u64))
    }
}

/// Read with every batch header: with up to about 100 columns this also holds
/// the Arrow metadata, so that projecting such a batch takes a single read.
const READ_AHEAD: usize = 8 * 1024;
/// Read for a few bytes elsewhere: entries of neighbouring columns are near.
const READ_NEAR: usize = 512;

/// A moving window over stored bytes, for walking over batches and looking into
/// their metadata with few reads. One is made per fetch and bucket.
#[derive(Debug)]
pub struct ReadWindow<'a, S: ?Sized> {
    source: &'a S,
    /// Where the readable bytes end.
    end: u64,
    /// What was read with the last batch header. The metadata goes on far behind
    /// it when there are many columns, and back again.
    head: Held,
    /// What was read last elsewhere.
    near: Held,
}

/// Bytes held in memory.
#[derive(Debug, Default)]
struct Held {
    start: u64,
    /// The first `filled` bytes. The rest was needed before, and is kept so that
    /// it is zeroed only once.
    buffer: Vec<u8>,
    filled: usize,
}

impl Held {
    /// Where in the buffer some bytes are, if all of them are.
    fn find(&self, position: u64, len: usize) -> Option<usize> {
        position
            .checked_sub(self.start)
            .filter(|at| at.saturating_add(len as u64) <= self.filled as u64)
            .map(|at| at as usize)
    }

    fn fill(
        &mut self,
        source: &(impl ReadAt + ?Sized),
        position: u64,
        len: usize,
    ) -> io::Result<()> {
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        self.filled = 0;
        source.read_at(position, &mut self.buffer[..len])?;
        self.start = position;
        self.filled = len;
        Ok(())
    }
}

impl<'a, S: ReadAt + ?Sized> ReadWindow<'a, S> {
    /// A window over the bytes of `source` in front of `end`.
    pub fn new(source: &'a S, end: u64) -> Self {
        Self {
            source,
            end,
            head: Held::default(),
            near: Held::default(),
        }
    }

    /// Header of the batch at `position`; `None` if no whole batch lies between
    /// there and the end.
    ///
    /// # Errors
    /// A header that [`BatchHeader::parse`] refuses, or a failed read.
    pub fn batch_header(&mut self, position: u64) -> Result<Option<BatchHeader>, ReadError> {
        let available = self.end.saturating_sub(position);
        if available < MIN_HEADER_LEN as u64 {
            return Ok(None);
        }
        let len = MAX_HEADER_LEN.min(available as usize);
        let at = match self.head.find(position, len) {
            Some(at) => at,
            None => {
                let ahead = READ_AHEAD.min(available as usize).max(len);
                self.head.fill(self.source, position, ahead)?;
                0
            }
        };
        let bytes = &self.head.buffer[at..at + len];
        if total_len(bytes)? as u64 > available {
            return Ok(None);
        }
        Ok(Some(BatchHeader::parse(bytes)?))
    }

    /// The statistics block of a batch, empty if it has none.
    ///
    /// # Errors
    /// A failed read, or bytes that end before.
    pub fn statistics(&mut self, position: u64, header: &BatchHeader) -> Result<&[u8], ReadError> {
        let start = position.saturating_add(header.header_len() as u64);
        self.fetch(start, header.statistics_len)
    }

    /// Makes the next `fetch` of these bytes one without a read. If they are not
    /// in the window, `ahead` bytes are read from `position` on, for what is
    /// fetched after them.
    pub(crate) fn cover(
        &mut self,
        position: u64,
        len: usize,
        ahead: usize,
    ) -> Result<(), ReadError> {
        self.window(position, len, ahead).map(|_| ())
    }

    fn window(&mut self, position: u64, len: usize, ahead: usize) -> Result<&[u8], ReadError> {
        if let Some(at) = self.head.find(position, len) {
            return Ok(&self.head.buffer[at..at + len]);
        }
        let at = match self.near.find(position, len) {
            Some(at) => at,
            None => {
                let available = self.end.saturating_sub(position);
                if len as u64 > available {
                    return Err(past_end(position, len, self.end).into());
                }
                // Bounded by `available`: the bytes do exist.
                let wanted = (len.max(ahead) as u64).min(available) as usize;
                self.near.fill(self.source, position, wanted)?;
                0
            }
        };
        Ok(&self.near.buffer[at..at + len])
    }
}

impl<S: ReadAt + ?Sized> Fetch for ReadWindow<'_, S> {
    type Error = ReadError;

    fn fetch(&mut self, position: u64, len: usize) -> Result<&[u8], ReadError> {
        self.window(position, len, READ_NEAR)
    }
}

fn past_end(position: u64, len: usize, end: u64) -> FormatError {
    FormatError::corrupt(format!("{len} bytes at {position} of {end}"))
}
