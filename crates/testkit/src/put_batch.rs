//! Put batches of primary-key tables, right ones and damaged ones.

use bytes::Bytes;
use mainstem_format::{KeyEncoder, KvBatchBuilder, RowFormat, Value};
use mainstem_types::{KvFormat, Schema};

use crate::Table;
use crate::batch::ab_rows;

/// Encodes rows and keys of a primary-key table.
#[derive(Clone, Debug)]
pub struct PutSource {
    schema: Schema,
    key: KeyEncoder,
    format: RowFormat,
    schema_id: i16,
    writer: (i64, i32),
}

impl PutSource {
    /// Batches without an idempotent writer, of the newest schema of a table.
    ///
    /// # Panics
    /// If the table has no primary key.
    pub fn new(table: &Table) -> Self {
        let format = table.descriptor.kv_format().expect("a format");
        Self {
            schema: table.schema().clone(),
            key: KeyEncoder::primary_key(&table.descriptor).expect("a primary key"),
            format: match format {
                KvFormat::Compacted => RowFormat::Compacted,
                KvFormat::Indexed => RowFormat::Indexed,
            },
            schema_id: i16::try_from(table.schema_id).expect("a schema id"),
            writer: (-1, -1),
        }
    }

    /// Batches of an idempotent writer, with this sequence number.
    #[must_use]
    pub fn with_writer(mut self, writer_id: i64, sequence: i32) -> Self {
        self.writer = (writer_id, sequence);
        self
    }

    /// Key of a row.
    ///
    /// # Panics
    /// If the row is not of the schema.
    pub fn key(&self, row: &[Value<'_>]) -> Vec<u8> {
        let mut key = Vec::new();
        self.key.encode_row(row, &mut key).expect("a key");
        key
    }

    /// Bytes of a row.
    ///
    /// # Panics
    /// If the row is not of the schema.
    pub fn row(&self, row: &[Value<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let encoded = self
            .format
            .encode(row, self.schema.columns.as_slice(), &mut bytes);
        encoded.expect("a row of the schema");
        bytes
    }

    /// A batch of keys with their rows, or without to delete them.
    ///
    /// # Panics
    /// For an empty row.
    pub fn records<'r>(
        &self,
        records: impl IntoIterator<Item = (&'r [u8], Option<&'r [u8]>)>,
    ) -> PutBytes {
        let mut batch = KvBatchBuilder::new(self.schema_id, self.writer.0, self.writer.1);
        for (key, row) in records {
            batch.append(key, row).expect("a record");
        }
        PutBytes(batch.finish().to_vec())
    }

    /// A batch that puts rows.
    ///
    /// # Panics
    /// If they are not of the schema.
    pub fn rows(&self, rows: &[Vec<Value<'_>>]) -> PutBytes {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (self.key(row), self.row(row)))
            .collect();
        self.records(rows.iter().map(|(key, row)| (&key[..], Some(&row[..]))))
    }

    /// A batch that deletes the keys of rows.
    ///
    /// # Panics
    /// If they are not of the schema.
    pub fn deletes(&self, rows: &[Vec<Value<'_>>]) -> PutBytes {
        let keys: Vec<_> = rows.iter().map(|row| self.key(row)).collect();
        self.records(keys.iter().map(|key| (&key[..], None)))
    }

    /// A batch for a table `a INT, b STRING`: one row per number, whose text is
    /// made of it.
    pub fn numbers(&self, numbers: impl IntoIterator<Item = i32>) -> PutBytes {
        self.rows(&ab_rows(numbers))
    }

    /// A row of that table as a lookup answers it: schema id and row.
    pub fn stored(&self, row: &[Value<'_>]) -> Bytes {
        let mut value = self.schema_id.to_le_bytes().to_vec();
        value.extend(self.row(row));
        value.into()
    }

    /// The row of a stored value of this schema.
    ///
    /// # Panics
    /// If it is of another schema, or no row.
    pub fn decode(&self, value: &[u8]) -> Vec<Value<'static>> {
        let (schema_id, row) =
            mainstem_format::value_batch::split_stored_value(value).expect("a stored value");
        assert_eq!(schema_id, self.schema_id, "schema of a stored value");
        let values = self.format.decode(row, self.schema.columns.as_slice());
        let values = values.expect("a row of the schema").into_iter();
        values.map(Value::into_owned).collect()
    }
}

/// A put batch as bytes, to be damaged. Positions are those of formats.md §4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBytes(pub Vec<u8>);

impl std::ops::Deref for PutBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl PutBytes {
    /// Length of the header.
    pub const HEADER: usize = 28;
    const MAGIC: usize = 4;
    const CRC: usize = 5;
    const COVERED: usize = 9;
    const RECORD_COUNT: usize = 24;

    /// Changes bytes, and leaves the checksum as it is.
    #[must_use]
    pub fn set(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The right checksum.
    #[must_use]
    pub fn sealed(self) -> Self {
        let crc = crc32c::crc32c(&self.0[Self::COVERED..]);
        self.set(Self::CRC, &crc.to_le_bytes())
    }

    /// Another length field, under the same checksum, which does not cover it.
    #[must_use]
    pub fn with_length_field(self, length: i32) -> Self {
        self.set(0, &length.to_le_bytes())
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
        self.set(Self::COVERED, &id.to_le_bytes()).sealed()
    }

    /// Another writer and sequence number, checksum right.
    #[must_use]
    pub fn with_writer(self, writer_id: i64, sequence: i32) -> Self {
        self.set(12, &writer_id.to_le_bytes())
            .set(20, &sequence.to_le_bytes())
            .sealed()
    }

    /// Another record count, checksum right.
    #[must_use]
    pub fn with_record_count(self, count: i32) -> Self {
        self.set(Self::RECORD_COUNT, &count.to_le_bytes()).sealed()
    }

    /// Other records, count as it was, checksum and length right.
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Self {
        self.0.truncate(Self::HEADER);
        self.0.extend_from_slice(body);
        let length = i32::try_from(self.0.len() - 4).expect("a length");
        self.with_length_field(length).sealed()
    }

    /// The first bytes only.
    #[must_use]
    pub fn cut_to(mut self, length: usize) -> Self {
        self.0.truncate(length);
        self
    }

    /// Followed by other bytes.
    #[must_use]
    pub fn then(mut self, next: &[u8]) -> Self {
        self.0.extend_from_slice(next);
        self
    }
}
