//! Log batches of the INDEXED and COMPACTED formats (formats.md §1.8): records
//! of `i32 length · u8 change type · row`.

use arrow_array::RecordBatch;
use bytes::Bytes;
use mainstem_types::{LogFormat, Schema};

use crate::arrow_batch::{DecodedBatch, EncodeOptions};
use crate::byte_reader::ByteReader;
use crate::log_batch::LogBatch;
use crate::log_batch_builder::BatchSpec;
use crate::row::{RowFormat, length_u32};
use crate::value::Value;
use crate::value_builder::RowsToBatch;
use crate::value_reader::column_readers;
use crate::{FormatError, Result};

const LENGTH_BYTES: usize = 4;
/// Highest code of a change type: delete.
const CHANGE_TYPE_MAX: u8 = 4;
/// Change type of the records of log tables.
const APPEND: u8 = 0;

impl RowFormat {
    /// The row format of a log format; `None` for ARROW.
    pub fn of_log(format: LogFormat) -> Option<Self> {
        match format {
            LogFormat::Arrow => None,
            LogFormat::Indexed => Some(Self::Indexed),
            LogFormat::Compacted => Some(Self::Compacted),
        }
    }
}

/// One record of a batch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRecord<'a> {
    /// Code of formats.md §1.4; of an append-only batch 0.
    pub change_type: u8,
    /// The row, in the format of the batch.
    pub row: &'a [u8],
}

/// The records of a batch, in order. After an error it ends.
///
/// Errors of the items: a length beyond the batch, an unknown change type;
/// after the last record, bytes that belong to none.
pub fn records(batch: &LogBatch) -> RowRecords<'_> {
    let start = batch.header().records_start();
    RowRecords {
        reader: ByteReader::new(&batch.bytes()[start..]),
        left: batch.header().record_count as usize,
        failed: false,
    }
}

/// See [`records`].
#[derive(Clone, Debug)]
pub struct RowRecords<'a> {
    reader: ByteReader<'a>,
    left: usize,
    failed: bool,
}

impl<'a> RowRecords<'a> {
    fn read(&mut self) -> Result<RowRecord<'a>> {
        let mut record = ByteReader::new(self.reader.prefixed_i32()?);
        let change_type = record.u8()?;
        if change_type > CHANGE_TYPE_MAX {
            return Err(FormatError::invalid(format!("change type {change_type}")));
        }
        Ok(RowRecord {
            change_type,
            row: record.take(record.remaining())?,
        })
    }
}

impl<'a> Iterator for RowRecords<'a> {
    type Item = Result<RowRecord<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.left == 0 {
            let behind = self.reader.remaining();
            self.failed = true;
            return (behind != 0).then(|| {
                Err(FormatError::invalid(format!(
                    "{behind} bytes behind the records of a batch"
                )))
            });
        }
        self.left -= 1;
        let record = self.read();
        self.failed = record.is_err();
        Some(record)
    }
}

/// Writes a log batch of rows, record by record.
#[derive(Debug)]
pub struct RowBatchBuilder {
    spec: BatchSpec,
    bytes: Vec<u8>,
    record_count: i32,
}

impl RowBatchBuilder {
    /// An empty batch, of version 0 as every batch of rows.
    pub fn new(schema_id: i16, writer_id: i64, batch_sequence: i32, append_only: bool) -> Self {
        let spec = BatchSpec {
            schema_id,
            append_only,
            writer_id,
            batch_sequence,
            ..BatchSpec::default()
        };
        let mut bytes = Vec::new();
        spec.begin(&mut bytes);
        Self {
            spec,
            bytes,
            record_count: 0,
        }
    }

    /// Adds a record whose row `write` appends.
    ///
    /// Errors: those of `write`, and a batch of 2 GiB. The batch is then as it
    /// was before.
    pub fn append(
        &mut self,
        change_type: u8,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend([0; LENGTH_BYTES]);
        self.bytes.push(change_type);
        let written = write(&mut self.bytes).and_then(|()| length_u32(self.bytes.len()));
        if let Err(error) = written {
            self.bytes.truncate(start);
            return Err(error);
        }
        let length = (self.bytes.len() - start - LENGTH_BYTES) as u32;
        self.bytes[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.record_count += 1;
        Ok(())
    }

    /// Size of the batch in bytes as it stands.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of records so far.
    pub fn record_count(&self) -> usize {
        self.record_count as usize
    }

    /// The finished batch.
    pub fn finish(mut self) -> Result<Bytes> {
        self.spec.finish(&mut self.bytes, 0, self.record_count, 0)?;
        Ok(Bytes::from(self.bytes))
    }
}

/// Encodes the rows of an Arrow batch as one log batch of rows; without
/// `change_types` all are appends. Compression and statistics of the options
/// do not apply.
///
/// Errors: columns that do not have the layout of the schema's, values that
/// their type cannot hold, null in a NOT NULL column, or a batch of 2 GiB.
pub fn encode_rows(
    batch: &RecordBatch,
    format: RowFormat,
    change_types: Option<&[u8]>,
    options: EncodeOptions<'_>,
    schema: &Schema,
) -> Result<Bytes> {
    if change_types.is_some_and(|types| types.len() != batch.num_rows()) {
        return Err(FormatError::invalid(
            "another number of change types than of records",
        ));
    }
    let EncodeOptions {
        schema_id,
        writer_id,
        batch_sequence,
        ..
    } = options;
    let append_only = change_types.is_none();
    let mut builder = RowBatchBuilder::new(schema_id, writer_id, batch_sequence, append_only);
    let readers = column_readers(batch, schema)?;
    let mut values = Vec::with_capacity(readers.len());
    for row in 0..batch.num_rows() {
        values.clear();
        for (reader, column) in readers.iter().zip(&schema.columns) {
            let value = reader.value(row)?;
            if value.is_null() && !column.data_type.nullable {
                return Err(FormatError::invalid(format!(
                    "null in NOT NULL column `{}`",
                    column.name
                )));
            }
            values.push(value);
        }
        let change_type = change_types.map_or(APPEND, |types| types[row]);
        builder.append(change_type, |out| {
            format.encode(&values, schema.columns.as_slice(), out)
        })?;
    }
    builder.finish()
}

/// Decodes one whole log batch of rows that was written with this schema.
///
/// Errors: [`FormatError::Corrupt`] for damage that header or checksum show,
/// [`FormatError::Invalid`] for rows that are not of the schema.
pub fn decode_rows(
    batch_bytes: &Bytes,
    format: RowFormat,
    schema: &Schema,
) -> Result<DecodedBatch> {
    let batch = LogBatch::parse(batch_bytes)?;
    batch.verify_crc()?;
    let header = batch.header();
    // Every record has bytes of its own, whatever the header claims.
    let capacity = (header.record_count as usize).min(header.total_len / (LENGTH_BYTES + 1));
    let mut rows = RowsToBatch::new(schema, capacity);
    let mut change_types = Vec::with_capacity(capacity);
    let mut values: Vec<Value<'_>> = Vec::with_capacity(schema.columns.len());
    for record in records(&batch) {
        let record = record?;
        format.decode_into(record.row, schema.columns.as_slice(), &mut values)?;
        rows.append(&values)?;
        change_types.push(record.change_type);
    }
    let change_types = (!header.is_append_only()).then(|| Bytes::from(change_types));
    Ok(DecodedBatch::new(header, change_types, rows.finish()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_table, hex, schema_of};
    use mainstem_types::TypeKind;

    fn check_vector(format: RowFormat, change_types: Option<&[u8]>, expected: &str) {
        let schema = schema_of([TypeKind::Int, TypeKind::String]);
        let mut rows = RowsToBatch::new(&schema, 1);
        rows.append(&[Value::Int(1), "a1".into()]).unwrap();
        let batch = rows.finish().unwrap();
        let options = EncodeOptions::default();
        let bytes = encode_rows(&batch, format, change_types, options, &schema).unwrap();
        assert_eq!(bytes, hex(expected));
        let decoded = decode_rows(&bytes, format, &schema).unwrap();
        assert_eq!(decoded.batch, batch);
        assert_eq!(decoded.change_types.as_deref(), change_types);
    }

    #[test]
    fn compacted_appends_have_the_reference_bytes() {
        let expected = "0000000000000000 2e000000 00 0000000000000000 3fa74a4a 0100 01 00000000
            ffffffffffffffff ffffffff 01000000 06000000 00 0001026131";
        check_vector(RowFormat::Compacted, None, expected);
    }

    #[test]
    fn indexed_inserts_have_the_reference_bytes() {
        let expected = "0000000000000000 34000000 00 0000000000000000 177e0441 0100 00 00000000
            ffffffffffffffff ffffffff 01000000 0c000000 01 0002000000010000006131";
        check_vector(RowFormat::Indexed, Some(&[1]), expected);
    }

    #[test]
    fn records_must_fill_the_batch_and_have_known_change_types() {
        let schema = schema_of([TypeKind::TinyInt]);
        let batch_of = |change_type, record_count| {
            let mut builder = RowBatchBuilder::new(1, -1, -1, false);
            builder
                .append(change_type, |out| {
                    out.extend([0, 7]);
                    Ok(())
                })
                .unwrap();
            builder.record_count = record_count;
            builder.finish().unwrap()
        };
        let decode = |bytes: Bytes| decode_rows(&bytes, RowFormat::Compacted, &schema);
        assert_eq!(decode(batch_of(4, 1)).unwrap().record_count, 1);
        for bytes in [
            batch_of(5, 1),
            batch_of(1, 0),
            batch_of(1, 2),
            batch_of(1, i32::MAX),
        ] {
            assert!(matches!(decode(bytes), Err(FormatError::Invalid(_))));
        }
    }

    proptest! {
        #[test]
        fn every_batch_comes_back((schema, rows) in any_table(5, 6), changes: bool) {
            let mut builder = RowsToBatch::new(&schema, rows.len());
            rows.iter().for_each(|row| builder.append(row).unwrap());
            let batch = builder.finish().unwrap();
            let types: Vec<u8> = (0..rows.len()).map(|row| (row % 5) as u8).collect();
            let types = changes.then_some(types.as_slice());
            for format in [RowFormat::Compacted, RowFormat::Indexed] {
                let options = EncodeOptions { writer_id: 3, batch_sequence: 9, ..Default::default() };
                let bytes = encode_rows(&batch, format, types, options, &schema).unwrap();
                let decoded = decode_rows(&bytes, format, &schema).unwrap();
                prop_assert_eq!(&decoded.batch, &batch);
                prop_assert_eq!(decoded.change_types.as_deref(), types);
                prop_assert_eq!(decoded.next_offset, rows.len().max(1) as i64);
            }
        }

        #[test]
        fn damaged_records_never_panic(
            (schema, rows) in any_table(3, 3),
            at: prop::sample::Index,
            with: u8,
        ) {
            let mut builder = RowsToBatch::new(&schema, rows.len());
            rows.iter().for_each(|row| builder.append(row).unwrap());
            let batch = builder.finish().unwrap();
            for format in [RowFormat::Compacted, RowFormat::Indexed] {
                let options = EncodeOptions::default();
                let bytes = encode_rows(&batch, format, None, options, &schema).unwrap();
                let mut damaged = bytes.to_vec();
                let at = at.index(damaged.len());
                damaged[at] = with;
                crate::testing::repair_crc(&mut damaged);
                let _ = decode_rows(&Bytes::from(damaged), format, &schema);
            }
        }
    }
}
