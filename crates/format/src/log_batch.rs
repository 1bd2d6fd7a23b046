//! One log record batch as bytes, and the walk over batches back to back.

use bytes::Bytes;

use crate::header::{BatchHeader, SIZE_PREFIX_LEN, total_len};
use crate::{FormatError, Result};

/// A whole batch: its decoded header and its bytes. Nothing behind the header
/// is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    header: BatchHeader,
    bytes: Bytes,
}

impl LogBatch {
    /// The batch that `bytes` begin with; bytes behind it are left out.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] as [`BatchHeader::parse`], or if the batch is
    /// cut. The checksum is not looked at.
    pub fn parse(bytes: &Bytes) -> Result<Self> {
        let header = BatchHeader::parse(bytes)?;
        if bytes.len() < header.total_len {
            return Err(FormatError::corrupt(format!(
                "batch cut: {} bytes needed, {} there",
                header.total_len,
                bytes.len()
            )));
        }
        Ok(Self {
            header,
            bytes: bytes.slice(..header.total_len),
        })
    }

    /// The header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Compares the checksum.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] if it is wrong.
    pub fn verify_crc(&self) -> Result<()> {
        self.header.verify_crc(&self.bytes)
    }

    /// The statistics block, empty if there is none.
    pub fn statistics(&self) -> &[u8] {
        &self.bytes[self.header.header_len()..self.header.records_start()]
    }

    /// All behind the statistics.
    pub fn records(&self) -> Bytes {
        self.bytes.slice(self.header.records_start()..)
    }

    /// The change types of an ARROW batch, one byte per record; empty if every
    /// record is an append.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] if the batch is too short for them.
    pub fn change_types(&self) -> Result<&[u8]> {
        self.bytes
            .get(self.header.records_start()..self.header.arrow_start())
            .ok_or_else(no_room)
    }

    /// The Arrow message of an ARROW batch; empty for a batch without records.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] if the batch is too short for its change types.
    pub fn arrow_message(&self) -> Result<Bytes> {
        let start = self.header.arrow_start();
        if start > self.bytes.len() {
            return Err(no_room());
        }
        Ok(self.bytes.slice(start..))
    }
}

fn no_room() -> FormatError {
    FormatError::invalid("batch too short for its change types")
}

/// Walks over batches back to back.
///
/// Ends without an error at the end of the bytes and in front of a batch that
/// is cut there, which is legal at the end of a fetch response or a segment
/// (formats.md §1.3). After an error it ends as well.
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
    consumed: usize,
}

impl Batches {
    /// A walk over `records`.
    pub fn new(records: &Bytes) -> Self {
        Self {
            rest: records.clone(),
            consumed: 0,
        }
    }

    /// Bytes of the batches returned so far.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// Bytes not returned: at the end, those of a cut batch.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }
}

impl Iterator for Batches {
    type Item = Result<LogBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < SIZE_PREFIX_LEN {
            return None;
        }
        let batch = match total_len(&self.rest) {
            Ok(len) if len > self.rest.len() => return None,
            Ok(_) => LogBatch::parse(&self.rest),
            Err(error) => Err(error),
        };
        match &batch {
            Ok(batch) => {
                let len = batch.header.total_len;
                self.rest = self.rest.slice(len..);
                self.consumed += len;
            }
            Err(_) => self.rest = Bytes::new(),
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests;
