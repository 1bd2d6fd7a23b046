//! Log record batches, right ones and damaged ones.

use arrow_array::RecordBatch;
use bytes::Bytes;
use mainstem_format::row_batch::encode_rows;
use mainstem_format::{
    ArrowBatchEncoder, Compression, EncodeOptions, RowFormat, RowsToBatch, Value,
};
use mainstem_types::Schema;

/// Encodes rows of a schema.
#[derive(Clone, Debug)]
pub struct BatchSource {
    schema: Schema,
    schema_id: i16,
    compression: Compression,
    writer: (i64, i32),
    statistics: Vec<usize>,
}

impl BatchSource {
    /// Uncompressed batches without an idempotent writer, of schema version 1.
    pub fn new(schema: &Schema) -> Self {
        Self {
            schema: schema.clone(),
            schema_id: 1,
            compression: Compression::None,
            writer: (-1, -1),
            statistics: Vec::new(),
        }
    }

    /// Another schema version.
    #[must_use]
    pub fn with_schema_id(mut self, schema_id: i16) -> Self {
        self.schema_id = schema_id;
        self
    }

    /// Compressed batches.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Batches of an idempotent writer, with this sequence number.
    #[must_use]
    pub fn with_writer(mut self, writer_id: i64, sequence: i32) -> Self {
        self.writer = (writer_id, sequence);
        self
    }

    /// Batches of version 1 with statistics of these columns.
    #[must_use]
    pub fn with_statistics(mut self, columns: &[usize]) -> Self {
        self.statistics = columns.to_vec();
        self
    }

    fn options(&self) -> EncodeOptions<'_> {
        EncodeOptions {
            schema_id: self.schema_id,
            compression: self.compression,
            writer_id: self.writer.0,
            batch_sequence: self.writer.1,
            statistics_columns: Some(&self.statistics),
        }
    }

    fn rows(&self, rows: &[Vec<Value<'_>>]) -> RecordBatch {
        let mut builder = RowsToBatch::new(&self.schema, rows.len());
        for row in rows {
            builder.append(row).expect("a row of the schema");
        }
        builder.finish().expect("rows of the schema")
    }

    /// A batch of the ARROW format.
    ///
    /// # Panics
    /// If the rows are not of the schema.
    pub fn arrow(&self, rows: &[Vec<Value<'_>>]) -> BatchBytes {
        let mut encoder = ArrowBatchEncoder::new(&self.schema, self.compression).expect("a codec");
        let batch = encoder.encode(&self.rows(rows), None, self.options());
        BatchBytes(batch.expect("a batch").to_vec())
    }

    /// A batch of the ARROW format with change types.
    ///
    /// # Panics
    /// If the rows are not of the schema.
    pub fn arrow_changes(&self, rows: &[Vec<Value<'_>>], change_types: &[u8]) -> BatchBytes {
        let mut encoder = ArrowBatchEncoder::new(&self.schema, self.compression).expect("a codec");
        let batch = encoder.encode(&self.rows(rows), Some(change_types), self.options());
        BatchBytes(batch.expect("a batch").to_vec())
    }

    /// A batch of the INDEXED or COMPACTED format.
    ///
    /// # Panics
    /// If the rows are not of the schema.
    pub fn row_format(&self, format: RowFormat, rows: &[Vec<Value<'_>>]) -> BatchBytes {
        let batch = encode_rows(&self.rows(rows), format, None, self.options(), &self.schema);
        BatchBytes(batch.expect("a batch").to_vec())
    }

    /// A batch of the ARROW format for a table `a INT, b STRING`: one row per
    /// number, whose text is made of it.
    pub fn numbers(&self, numbers: impl IntoIterator<Item = i32>) -> BatchBytes {
        self.arrow(&ab_rows(numbers))
    }
}

/// Rows of a table `a INT, b STRING`.
pub(crate) fn ab_rows(numbers: impl IntoIterator<Item = i32>) -> Vec<Vec<Value<'static>>> {
    let row = |number: i32| {
        vec![
            Value::Int(number),
            Value::String(format!("row {number}").into()),
        ]
    };
    numbers.into_iter().map(row).collect()
}

/// A batch as bytes, to be damaged. Positions are those of header version 0
/// (formats.md §1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchBytes(pub Vec<u8>);

impl std::ops::Deref for BatchBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<BatchBytes> for Bytes {
    fn from(batch: BatchBytes) -> Self {
        batch.0.into()
    }
}

impl BatchBytes {
    /// Where the magic lies.
    pub const MAGIC: usize = 12;
    /// Where the checksum lies in versions 0 and 1.
    pub const CRC: usize = 21;
    /// Where the bytes begin that it covers.
    pub const COVERED: usize = 25;
    /// Length of the header of version 0.
    pub const HEADER: usize = 48;

    /// Changes bytes, and leaves the checksum as it is.
    #[must_use]
    pub fn set(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Another length field.
    #[must_use]
    pub fn with_length_field(self, length: i32) -> Self {
        self.set(8, &length.to_le_bytes())
    }

    /// Another magic, under the same checksum, which does not cover it.
    #[must_use]
    pub fn with_magic(self, magic: u8) -> Self {
        self.set(Self::MAGIC, &[magic])
    }

    /// A checksum that is wrong.
    #[must_use]
    pub fn with_wrong_checksum(self) -> Self {
        let wrong = self.0[Self::CRC] ^ 0xFF;
        self.set(Self::CRC, &[wrong])
    }

    /// Another schema id, checksum right.
    #[must_use]
    pub fn with_schema_id(self, id: i16) -> Self {
        self.set(25, &id.to_le_bytes()).sealed()
    }

    /// Other attributes, checksum right.
    #[must_use]
    pub fn with_attributes(self, attributes: u8) -> Self {
        self.set(27, &[attributes]).sealed()
    }

    /// Another offset of the last record, checksum right.
    #[must_use]
    pub fn with_last_offset_delta(self, delta: i32) -> Self {
        self.set(28, &delta.to_le_bytes()).sealed()
    }

    /// Another writer and sequence number, checksum right.
    #[must_use]
    pub fn with_writer(self, writer_id: i64, sequence: i32) -> Self {
        self.set(32, &writer_id.to_le_bytes())
            .set(40, &sequence.to_le_bytes())
            .sealed()
    }

    /// Another record count, checksum right.
    #[must_use]
    pub fn with_record_count(self, count: i32) -> Self {
        self.set(44, &count.to_le_bytes()).sealed()
    }

    /// Another body, checksum and length right.
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Self {
        self.0.truncate(Self::HEADER);
        self.0.extend_from_slice(body);
        let length = i32::try_from(self.0.len() - 12).expect("a length");
        self.with_length_field(length).sealed()
    }

    /// The first bytes only.
    #[must_use]
    pub fn cut_to(mut self, length: usize) -> Self {
        self.0.truncate(length);
        self
    }

    /// Followed by another batch.
    #[must_use]
    pub fn then(mut self, next: &[u8]) -> Self {
        self.0.extend_from_slice(next);
        self
    }

    /// The right checksum.
    #[must_use]
    pub fn sealed(self) -> Self {
        let crc = crc32c::crc32c(&self.0[Self::COVERED..]);
        self.set(Self::CRC, &crc.to_le_bytes())
    }
}
