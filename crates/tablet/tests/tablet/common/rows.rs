//! Rows as batches, and back.

use bytes::Bytes;
use mainstem_format::arrow_batch::decode;
use mainstem_format::{
    ArrowBatchEncoder, Batches, ColumnReader, Compression, EncodeOptions, RowsToBatch, Value,
};

use super::tables::schema;

/// A row as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub offset: i64,
    pub a: i64,
    pub b: Option<String>,
}

/// Rows with consecutive numbers and texts of `width` characters.
pub fn rows(first: i64, count: i64, width: usize) -> Vec<(i64, String)> {
    (first..first + count)
        .map(|a| (a, format!("{a:0width$}")))
        .collect()
}

/// A batch of the ARROW format with statistics of column `a`.
pub fn batch(writer_id: i64, sequence: i32, rows: &[(i64, String)]) -> Bytes {
    let schema = schema();
    let mut builder = RowsToBatch::new(&schema, rows.len());
    for (a, b) in rows {
        builder
            .append(&[Value::BigInt(*a), Value::from(b.as_str())])
            .unwrap();
    }
    let options = EncodeOptions {
        writer_id,
        batch_sequence: sequence,
        statistics_columns: Some(&[0]),
        ..EncodeOptions::default()
    };
    ArrowBatchEncoder::new(&schema, Compression::None)
        .unwrap()
        .encode(&builder.finish().unwrap(), None, options)
        .unwrap()
}

/// The rows of whole batches, checksums verified; with `projected` of batches
/// that hold only these columns.
pub fn read_rows(records: &Bytes, projected: Option<&[usize]>) -> Vec<Row> {
    let schema = schema();
    let mut found = Vec::new();
    let mut len = 0;
    for one in Batches::new(records) {
        let one = one.expect("whole batches");
        len += one.header().total_len;
        let bytes = one.bytes().clone();
        let decoded = decode(&bytes, &schema, projected).expect("an undamaged batch");
        let columns = projected.unwrap_or(&[0, 1]);
        let readers: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(position, column)| {
                ColumnReader::new(
                    &**decoded.batch.column(position),
                    &schema.columns[*column].data_type,
                )
                .unwrap()
            })
            .collect();
        for row in 0..decoded.record_count {
            let mut read = Row {
                offset: decoded.base_offset + row as i64,
                a: -1,
                b: None,
            };
            for (reader, column) in readers.iter().zip(columns) {
                match reader.value(row).unwrap() {
                    Value::BigInt(a) => read.a = a,
                    Value::String(b) => read.b = Some(b.into_owned()),
                    other => panic!("column {column} has {other:?}"),
                }
            }
            found.push(read);
        }
    }
    assert_eq!(len, records.len(), "whole batches");
    found
}
