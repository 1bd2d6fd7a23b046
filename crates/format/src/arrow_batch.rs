//! Log record batches of the ARROW format as Arrow record batches (formats.md
//! §1.4–1.7).

mod decode;
mod encode;
mod message;
mod statistics;
#[cfg(test)]
mod tests;

use arrow_array::RecordBatch;
use bytes::Bytes;
use mainstem_types::Schema;

use crate::compression::Compression;
use crate::{Result, header};

pub use decode::{ArrowBatchDecoder, Columns, DEFAULT_DECOMPRESSED_BYTES_MAX};
pub use encode::ArrowBatchEncoder;

/// What a new batch says besides its rows.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions<'a> {
    /// Schema of the rows.
    pub schema_id: i16,
    /// Compression of the Arrow body; the row formats have none.
    pub compression: Compression,
    /// Idempotent writer, or −1.
    pub writer_id: i64,
    /// Number of the batch within its writer, or −1.
    pub batch_sequence: i32,
    /// Columns to gather statistics of, by position, in the order of the table
    /// option; `None` or none at all = a batch of version 0.
    pub statistics_columns: Option<&'a [usize]>,
}

impl Default for EncodeOptions<'_> {
    fn default() -> Self {
        Self {
            schema_id: 1,
            compression: Compression::None,
            writer_id: -1,
            batch_sequence: -1,
            statistics_columns: None,
        }
    }
}

/// A log batch with its rows as an Arrow record batch.
#[derive(Clone, Debug)]
pub struct DecodedBatch {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset behind the last record. A batch without records takes an offset.
    pub next_offset: i64,
    /// When the leader appended it, epoch milliseconds.
    pub commit_timestamp_ms: i64,
    /// The schema that the rows were encoded with.
    pub schema_id: i16,
    /// Records, as many as `batch` has rows.
    pub record_count: usize,
    /// Change type of every record (formats.md §1.4), checked to be 0..=4;
    /// `None` = all are appends.
    pub change_types: Option<Bytes>,
    /// The rows.
    pub batch: RecordBatch,
}

impl DecodedBatch {
    pub(crate) fn new(
        header: &header::BatchHeader,
        change_types: Option<Bytes>,
        batch: RecordBatch,
    ) -> Self {
        Self {
            base_offset: header.base_offset,
            next_offset: header.last_offset().wrapping_add(1),
            commit_timestamp_ms: header.commit_timestamp_ms,
            schema_id: header.schema_id,
            record_count: batch.num_rows(),
            change_types,
            batch,
        }
    }
}

/// Encodes the rows of a log table as one whole log batch of the ARROW format.
/// Who writes many batches keeps an [`ArrowBatchEncoder`].
///
/// Errors: columns that do not have the layout of the schema's, null in a NOT
/// NULL column, or a batch beyond 2 GiB.
pub fn encode_append(
    batch: &RecordBatch,
    options: EncodeOptions<'_>,
    schema: &Schema,
) -> Result<Bytes> {
    ArrowBatchEncoder::new(schema, options.compression)?.encode(batch, None, options)
}

/// Decodes one whole log batch of the ARROW format.
///
/// `schema` is the one that the batch names. With `projected`, the batch was
/// projected by the server to these columns, and they are all it holds: its
/// checksum is then stale and not looked at, and `schema` is the one that the
/// projection was made for, which may be newer.
///
/// Who reads many batches keeps an [`ArrowBatchDecoder`], which also selects
/// columns and sets limits.
pub fn decode(
    batch_bytes: &Bytes,
    schema: &Schema,
    projected: Option<&[usize]>,
) -> Result<DecodedBatch> {
    let columns = projected.map_or(Columns::All, Columns::Projected);
    ArrowBatchDecoder::new(schema, columns)?.decode(batch_bytes)
}
