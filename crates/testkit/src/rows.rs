//! Rows of fetched records.

use bytes::Bytes;
use mainstem_format::{
    ArrowBatchDecoder, Batches, Columns, DecodedBatch, LogBatch, RowFormat, Value, column_readers,
    row_batch,
};
use mainstem_types::{LogFormat, Schema};

/// Rows with their offsets.
pub type Rows = Vec<(i64, Vec<Value<'static>>)>;

/// Rows of whole batches of one schema.
///
/// # Panics
/// If they are damaged, or not of the schema.
pub fn decode_batches(records: &Bytes, schema: &Schema, format: LogFormat) -> Rows {
    let rows = match format {
        LogFormat::Arrow => None,
        LogFormat::Indexed => Some(RowFormat::Indexed),
        LogFormat::Compacted => Some(RowFormat::Compacted),
    };
    let decoder = ArrowBatchDecoder::new(schema, Columns::All).expect("columns");
    whole(records)
        .iter()
        .flat_map(|batch| {
            batch.verify_crc().expect("an undamaged batch");
            let decoded = match rows {
                Some(format) => row_batch::decode_rows(batch.bytes(), format, schema),
                None => decoder.decode_batch(batch),
            };
            rows_of(&decoded.expect("a batch of the schema"), schema)
        })
        .collect()
}

/// Rows with their offsets and change types (0 +A, 1 +I, 2 -U, 3 +U, 4 -D).
pub type Changes = Vec<(i64, u8, Vec<Value<'static>>)>;

/// Changes of whole batches of one schema. Batches without records are left out.
///
/// # Panics
/// If they are damaged, or not of the schema.
pub fn decode_changes(records: &Bytes, schema: &Schema, format: LogFormat) -> Changes {
    let decoder = ArrowBatchDecoder::new(schema, Columns::All).expect("columns");
    let mut changes = Changes::new();
    for batch in whole(records) {
        batch.verify_crc().expect("an undamaged batch");
        if batch.header().record_count == 0 {
            continue;
        }
        let decoded = match RowFormat::of_log(format) {
            Some(format) => row_batch::decode_rows(batch.bytes(), format, schema),
            None => decoder.decode_batch(&batch),
        };
        let decoded = decoded.expect("a batch of the schema");
        let types = decoded.change_types.clone();
        for (at, (offset, row)) in rows_of(&decoded, schema).into_iter().enumerate() {
            let change_type = types.as_ref().map_or(0, |types| types[at]);
            changes.push((offset, change_type, row));
        }
    }
    changes
}

/// Rows of batches that the server projected to these columns of the schema.
///
/// # Panics
/// If they are not projected so.
pub fn decode_projected(records: &Bytes, schema: &Schema, columns: &[usize]) -> Rows {
    let decoder = ArrowBatchDecoder::new(schema, Columns::Projected(columns)).expect("columns");
    let selected = Schema::of(columns.iter().map(|at| {
        let column = &schema.columns[*at];
        (column.name.clone(), column.data_type.clone())
    }))
    .expect("columns of a schema");
    whole(records)
        .iter()
        .flat_map(|batch| {
            let decoded = decoder
                .decode_batch(batch)
                .expect("a batch of these columns");
            rows_of(&decoded, &selected)
        })
        .collect()
}

/// Base offset and offset behind the end of every batch.
///
/// # Panics
/// If they are no whole batches.
pub fn offsets(records: &Bytes) -> Vec<(i64, i64)> {
    let bounds = |batch: &LogBatch| (batch.header().base_offset, batch.header().next_offset());
    whole(records).iter().map(bounds).collect()
}

fn whole(records: &Bytes) -> Vec<LogBatch> {
    let mut batches = Batches::new(records);
    let found = batches.by_ref().collect::<Result<_, _>>().expect("batches");
    assert_eq!(batches.remaining(), 0, "a cut batch");
    found
}

fn rows_of(decoded: &DecodedBatch, schema: &Schema) -> Rows {
    let readers = column_readers(&decoded.batch, schema).expect("columns of the schema");
    (0..decoded.record_count)
        .map(|row| {
            let values = readers
                .iter()
                .map(|reader| reader.value(row).expect("a value"));
            let offset = decoded.base_offset + row as i64;
            (offset, values.map(Value::into_owned).collect())
        })
        .collect()
}
