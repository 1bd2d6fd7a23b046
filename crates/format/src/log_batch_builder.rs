//! Writing log record batches.

use crate::header::{BatchHeader, MAX_BATCH_LEN, Magic};
use crate::{FormatError, Result};

/// What a batch says of itself, apart from its records. The default is what an
/// appending client without an idempotent writer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSpec {
    /// Version.
    pub magic: Magic,
    /// Offset of the first record.
    pub base_offset: i64,
    /// Time of the append, epoch milliseconds.
    pub commit_timestamp_ms: i64,
    /// Epoch of the leader, stored by V2 only; −1 = none.
    pub leader_epoch: i32,
    /// Schema of the rows.
    pub schema_id: i16,
    /// Whether all records are appends and no change types are stored.
    pub append_only: bool,
    /// Idempotent writer, or −1.
    pub writer_id: i64,
    /// Number of the batch within its writer, or −1.
    pub batch_sequence: i32,
}

impl Default for BatchSpec {
    fn default() -> Self {
        Self {
            magic: Magic::V0,
            base_offset: 0,
            commit_timestamp_ms: 0,
            leader_epoch: -1,
            schema_id: 1,
            append_only: true,
            writer_id: -1,
            batch_sequence: -1,
        }
    }
}

impl BatchSpec {
    /// Begins a batch at the end of `out`: makes room for its header. The caller
    /// then appends statistics, change types and records, and calls
    /// [`BatchSpec::finish`] with the position returned here.
    pub fn begin(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.resize(start + self.magic.header_len(), 0);
        start
    }

    /// Writes the header, checksum included, of the batch that began at `start`
    /// and reaches to the end of `out`. `statistics_len` are the bytes of the
    /// statistics block that was appended first.
    ///
    /// # Errors
    /// [`FormatError::LimitExceeded`] if the batch is too large for its length
    /// field, [`FormatError::Invalid`] if `record_count` is negative, or there
    /// are statistics that the version or the size has no room for.
    pub fn finish(
        &self,
        out: &mut [u8],
        start: usize,
        record_count: i32,
        statistics_len: usize,
    ) -> Result<BatchHeader> {
        let batch = &mut out[start..];
        if batch.len() > MAX_BATCH_LEN {
            return Err(FormatError::LimitExceeded {
                what: "batch bytes",
                actual: batch.len() as u64,
                limit: MAX_BATCH_LEN as u64,
            });
        }
        let room = batch.len() - self.magic.header_len();
        if record_count < 0
            || statistics_len > room
            || (self.magic == Magic::V0 && statistics_len > 0)
        {
            return Err(FormatError::invalid(format!(
                "{record_count} records and {statistics_len} bytes of statistics in a batch of \
                 version {:?} and {} bytes",
                self.magic,
                batch.len()
            )));
        }
        let mut header = BatchHeader {
            base_offset: self.base_offset,
            total_len: batch.len(),
            magic: self.magic,
            commit_timestamp_ms: self.commit_timestamp_ms,
            leader_epoch: (self.magic == Magic::V2).then_some(self.leader_epoch),
            crc: 0,
            schema_id: self.schema_id,
            attributes: u8::from(self.append_only),
            last_offset_delta: (record_count - 1).max(0),
            writer_id: self.writer_id,
            batch_sequence: self.batch_sequence,
            record_count,
            statistics_len,
        };
        header.write_to(batch);
        header.crc = crc32c::crc32c(&batch[self.magic.crc_start()..]);
        header.write_to(batch);
        Ok(header)
    }

    /// A whole batch of parts that lie ready. Change types are left out when
    /// the batch is append-only and for the row formats.
    ///
    /// # Errors
    /// As [`BatchSpec::finish`].
    pub fn build(
        &self,
        record_count: i32,
        statistics: &[u8],
        change_types: &[u8],
        records: &[u8],
    ) -> Result<Vec<u8>> {
        let len = statistics.len() + change_types.len() + records.len();
        let mut out = Vec::with_capacity(self.magic.header_len() + len);
        let start = self.begin(&mut out);
        out.extend_from_slice(statistics);
        out.extend_from_slice(change_types);
        out.extend_from_slice(records);
        self.finish(&mut out, start, record_count, statistics.len())?;
        Ok(out)
    }

    /// A batch without records, which occupies one offset: what a put without
    /// any change leaves in the changelog.
    pub fn empty(&self) -> Vec<u8> {
        self.build(0, &[], &[], &[])
            .expect("a header alone is within every limit")
    }
}
