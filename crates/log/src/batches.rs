//! Batches that may be appended.

use std::cell::RefCell;
use std::io::{self, IoSlice};

use bytes::Bytes;
use mainstem_env::StorageFile;
use mainstem_format::header::{BatchHeader, LeaderStamp, StampedPrefix};
use mainstem_format::log_batch::Batches;

use crate::error::LogError;

/// Up to this size a batch is copied beside its stamped prefix and written with
/// one slice: cheaper than two slices each.
const COPY_BATCH_BYTES: usize = 8 << 10;
/// What a thread keeps of its copy buffer between appends.
const KEPT_BUFFER_BYTES: usize = 4 << 20;

thread_local! {
    static COPY_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One or more whole log record batches back to back, whose length, magic and
/// checksum were verified.
///
/// Verify outside of any lock; the tablet trusts what it is given here.
#[derive(Clone, Debug)]
pub struct CheckedBatches {
    bytes: Bytes,
    headers: Vec<BatchHeader>,
}

impl CheckedBatches {
    /// Verifies length, magic and checksum of every batch in `bytes`.
    ///
    /// # Errors
    /// [`LogError::InvalidAppend`] when there is no batch, or one is damaged or
    /// cut.
    pub fn verify(bytes: &Bytes) -> Result<Self, LogError> {
        let mut headers = Vec::with_capacity(1);
        let mut batches = Batches::new(bytes);
        for batch in &mut batches {
            let batch = batch.map_err(|error| LogError::InvalidAppend(error.to_string()))?;
            batch
                .verify_crc()
                .map_err(|error| LogError::InvalidAppend(error.to_string()))?;
            headers.push(*batch.header());
        }
        Self::from_verified(bytes.clone(), headers)
    }

    /// Batches that the caller has verified, with their headers in order.
    ///
    /// # Errors
    /// [`LogError::InvalidAppend`] when there is no header, or the headers do
    /// not account for exactly these bytes.
    pub fn from_verified(bytes: Bytes, headers: Vec<BatchHeader>) -> Result<Self, LogError> {
        let total: usize = headers.iter().map(|header| header.total_len).sum();
        if headers.is_empty() || total != bytes.len() {
            return Err(LogError::InvalidAppend(format!(
                "{} batches of {total} bytes in {} bytes",
                headers.len(),
                bytes.len()
            )));
        }
        Ok(Self { bytes, headers })
    }

    /// The headers, in order, as they arrived.
    #[must_use]
    pub fn headers(&self) -> &[BatchHeader] {
        &self.headers
    }

    /// All bytes, as they arrived.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Writes the bytes as they are.
    pub(crate) fn write(&self, file: &dyn StorageFile, position: u64) -> io::Result<()> {
        file.write_all_at(&mut [IoSlice::new(&self.bytes)], position)
    }

    /// Writes the bytes with what a leader stamps, taken from `stamped`, one
    /// header per batch, in place of what arrived. Large batches are not copied.
    pub(crate) fn write_stamped(
        &self,
        file: &dyn StorageFile,
        position: u64,
        stamped: &[BatchHeader],
    ) -> io::Result<()> {
        if self.bytes.len() / self.headers.len() <= COPY_BATCH_BYTES {
            return self.write_copied(file, position, stamped);
        }
        let prefixes: Vec<StampedPrefix> = stamped.iter().map(prefix_of).collect();
        let mut slices = Vec::with_capacity(2 * prefixes.len());
        let mut start = 0;
        for (prefix, header) in prefixes.iter().zip(&self.headers) {
            let end = start + header.total_len;
            slices.push(IoSlice::new(prefix));
            slices.push(IoSlice::new(&self.bytes[start + prefix.len()..end]));
            start = end;
        }
        file.write_all_at(&mut slices, position)
    }

    fn write_copied(
        &self,
        file: &dyn StorageFile,
        position: u64,
        stamped: &[BatchHeader],
    ) -> io::Result<()> {
        COPY_BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            buffer.extend_from_slice(&self.bytes);
            let mut start = 0;
            for header in stamped {
                let prefix = prefix_of(header);
                buffer[start..start + prefix.len()].copy_from_slice(&prefix);
                start += header.total_len;
            }
            let result = file.write_all_at(&mut [IoSlice::new(buffer)], position);
            if buffer.capacity() > KEPT_BUFFER_BYTES {
                *buffer = Vec::new();
            }
            result
        })
    }
}

fn prefix_of(stamped: &BatchHeader) -> StampedPrefix {
    let stamp = LeaderStamp {
        base_offset: stamped.base_offset,
        commit_timestamp_ms: stamped.commit_timestamp_ms,
        leader_epoch: stamped.leader_epoch.unwrap_or(-1),
    };
    stamp.prefix(stamped)
}
