use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, Float64Array, Int32Array, StringArray};
use mainstem_types::{DataType, LogFormat, TypeKind};
use proptest::prelude::*;

use super::*;
use crate::arrow_type::arrow_schema;
use crate::golden::{self, GoldenRecord};
use crate::log_batch::{Batches, LogBatch};
use crate::statistics::Statistics;
use crate::testing::{any_table, column, hex, repair_crc, schema, schema_of};
use crate::value::Value;
use crate::value_builder::RowsToBatch;
use crate::value_reader::column_readers;
use crate::{FormatError, ReadWindow, SchemaLayout};

const COMPRESSIONS: [Compression; 3] = [
    Compression::None,
    Compression::Lz4Frame,
    Compression::Zstd(3),
];

fn batch_of(schema: &Schema, rows: &[Vec<Value<'_>>]) -> RecordBatch {
    let mut builder = RowsToBatch::new(schema, rows.len());
    rows.iter().for_each(|row| builder.append(row).unwrap());
    builder.finish().unwrap()
}

fn row<'a>(batch: &'a RecordBatch, schema: &Schema, row: usize) -> Vec<Value<'a>> {
    let readers = column_readers(batch, schema).unwrap();
    readers
        .iter()
        .map(|reader| reader.value(row).unwrap())
        .collect()
}

fn s2() -> Schema {
    schema_of([TypeKind::Int, TypeKind::String])
}

fn r1_r2() -> RecordBatch {
    batch_of(
        &s2(),
        &[
            vec![Value::Int(1), "a1".into()],
            vec![Value::Null, "b".into()],
        ],
    )
}

const APPEND: &str = "
    00000000 00000000 24010000 00000000 00000000 00b325b5 71010001 01000000
    ffffffff ffffffff ffffffff 02000000 ffffffff c8000000 14000000 00000000
    0c001600 0e001500 10000400 0c000000 30000000 00000000 00000400 10000000
    00030a00 18000c00 08000400 0a000000 14000000 68000000 02000000 00000000
    00000000 05000000 00000000 00000000 01000000 00000000 08000000 00000000
    08000000 00000000 10000000 00000000 01000000 00000000 18000000 00000000
    0c000000 00000000 28000000 00000000 03000000 00000000 00000000 02000000
    02000000 00000000 01000000 00000000 02000000 00000000 00000000 00000000
    01000000 00000000 01000000 00000000 03000000 00000000 00000000 02000000
    03000000 00000000 61316200 00000000";

const LZ4: &str = "
    00000000 00000000 5c010000 00000000 00000000 005c0b3f 4c010001 01000000
    ffffffff ffffffff ffffffff 02000000 ffffffff d8000000 14000000 00000000
    0c001800 0e001700 10000400 0c000000 58000000 00000000 00000400 14000000
    00000003 0c001c00 10000c00 08000400 0c000000 1c000000 1c000000 70000000
    02000000 00000000 00000000 04000400 04000000 05000000 00000000 00000000
    09000000 00000000 10000000 00000000 10000000 00000000 20000000 00000000
    09000000 00000000 30000000 00000000 14000000 00000000 48000000 00000000
    0b000000 00000000 00000000 02000000 02000000 00000000 01000000 00000000
    02000000 00000000 00000000 00000000 ffffffff ffffffff 01000000 00000000
    ffffffff ffffffff 01000000 00000000 ffffffff ffffffff 03000000 00000000
    ffffffff ffffffff 00000000 02000000 03000000 00000000 ffffffff ffffffff
    61316200 00000000";

#[track_caller]
fn check_bytes(actual: &[u8], expected: &str) {
    let expected = hex(expected);
    let first = actual
        .iter()
        .zip(&expected)
        .position(|(actual, expected)| actual != expected);
    assert_eq!(
        first.or((actual.len() != expected.len()).then_some(0)),
        None,
        "{actual:02x?}"
    );
}

#[test]
fn an_append_has_the_bytes_that_java_writes() {
    let bytes = encode_append(&r1_r2(), EncodeOptions::default(), &s2()).unwrap();
    check_bytes(&bytes, APPEND);
}

#[test]
fn a_changelog_batch_has_the_bytes_that_java_writes() {
    let mut encoder = ArrowBatchEncoder::new(&s2(), Compression::None).unwrap();
    let bytes = encoder
        .encode(&r1_r2(), Some(&[1, 4]), EncodeOptions::default())
        .unwrap();
    let expected = APPEND
        .replace("24010000", "26010000")
        .replace("00b325b5 71010001", "00222375 3f010000")
        .replace(
            "02000000 ffffffff c8000000",
            "02000000 0104 ffffffff c8000000",
        );
    check_bytes(&bytes, &expected);
    let decoded = decode(&bytes, &s2(), None).unwrap();
    assert_eq!(decoded.change_types.as_deref(), Some(&[1, 4][..]));
    assert_eq!(decoded.batch, r1_r2());
}

#[test]
fn buffers_that_lz4_does_not_shrink_have_the_bytes_that_java_writes() {
    let options = EncodeOptions {
        compression: Compression::Lz4Frame,
        ..Default::default()
    };
    let bytes = encode_append(&r1_r2(), options, &s2()).unwrap();
    check_bytes(&bytes, LZ4);
    assert_eq!(decode(&bytes, &s2(), None).unwrap().batch, r1_r2());
}

#[test]
fn statistics_have_the_bytes_that_java_writes() {
    let options = EncodeOptions {
        statistics_columns: Some(&[0, 1]),
        ..Default::default()
    };
    let bytes = encode_append(&r1_r2(), options, &s2()).unwrap();
    let header = "0000000000000000 6f010000 01 0000000000000000 5e871762 0100 01 01000000
        ffffffffffffffff ffffffff 02000000 47000000
        01 0200 0000 0100 01000000 00000000
        18000000 0000000000000000 0100000000000000 6131000000000082
        18000000 0000000000000000 0100000000000000 6200000000000081";
    let message = &hex(APPEND)[48..];
    check_bytes(&bytes[..header_and_statistics()], header);
    assert_eq!(&bytes[header_and_statistics()..], message);
    assert_eq!(decode(&bytes, &s2(), None).unwrap().batch, r1_r2());
}

fn header_and_statistics() -> usize {
    52 + 71
}

#[test]
fn a_batch_without_rows_is_a_header() {
    let empty = batch_of(&s2(), &[]);
    let mut encoder = ArrowBatchEncoder::new(&s2(), Compression::Zstd(3)).unwrap();
    let bytes = encoder
        .encode(&empty, Some(&[]), EncodeOptions::default())
        .unwrap();
    let expected = "0000000000000000 24000000 00 0000000000000000 1f2b1728 0100 00 00000000
        ffffffffffffffff ffffffff 00000000";
    assert_eq!(bytes, hex(expected));
    let decoded = decode(&bytes, &s2(), None).unwrap();
    assert_eq!((decoded.record_count, decoded.next_offset), (0, 1));
    assert_eq!(decoded.batch, empty);
}

#[test]
fn statistics_know_what_they_do_not_know() {
    let columns = [
        ("double", TypeKind::Double),
        ("nan", TypeKind::Double),
        ("char", TypeKind::Char { length: 3 }),
        ("null", TypeKind::Int),
        ("flag", TypeKind::Boolean),
    ];
    let columns = columns.map(|(name, kind)| column(name, DataType::nullable(kind)));
    let schema = schema(columns.to_vec());
    let rows = [
        vec![
            Value::Double(-0.5),
            Value::Double(1.0),
            "x".into(),
            Value::Null,
            Value::Null,
        ],
        vec![
            Value::Double(f64::NEG_INFINITY),
            Value::Double(f64::NAN),
            "y".into(),
            Value::Null,
            Value::Boolean(true),
        ],
        vec![
            Value::Double(2.0),
            Value::Null,
            "z".into(),
            Value::Null,
            Value::Boolean(true),
        ],
    ];
    let all = [0, 1, 2, 3, 4];
    let options = EncodeOptions {
        statistics_columns: Some(&all),
        ..Default::default()
    };
    let bytes = encode_append(&batch_of(&schema, &rows), options, &schema).unwrap();
    let batch = LogBatch::parse(&bytes).unwrap();
    let block = batch.statistics();
    // Version, count, five indexes.
    let null_counts: Vec<_> = block[13..33].chunks(4).map(|count| count[0]).collect();
    assert_eq!(null_counts, [0, 1, 0, 3, 1]);
    let types: Vec<_> = schema
        .columns
        .iter()
        .map(|column| column.data_type.clone())
        .collect();
    let row_len = i32::from_le_bytes(block[33..37].try_into().unwrap()) as usize;
    let min = crate::RowFormat::Aligned
        .decode(&block[37..37 + row_len], &types[..])
        .unwrap();
    let max = crate::RowFormat::Aligned
        .decode(&block[41 + row_len..], &types[..])
        .unwrap();
    let (inf, two) = (Value::Double(f64::NEG_INFINITY), Value::Double(2.0));
    let flag = Value::Boolean(true);
    assert_eq!(
        min,
        [inf, Value::Null, Value::Null, Value::Null, flag.clone()]
    );
    assert_eq!(max, [two, Value::Null, Value::Null, Value::Null, flag]);
    // The server's reader takes the block as well.
    let statistics = Statistics::parse(block).unwrap().unwrap();
    assert_eq!(statistics.max(0, &types[0]).unwrap(), Value::Double(2.0));
}

#[test]
fn statistics_of_types_without_order_are_refused() {
    let schema = schema_of([TypeKind::Bytes]);
    let batch = batch_of(&schema, &[vec![Value::Null]]);
    for columns in [&[0][..], &[1][..]] {
        let options = EncodeOptions {
            statistics_columns: Some(columns),
            ..Default::default()
        };
        assert!(encode_append(&batch, options, &schema).is_err());
    }
}

#[test]
fn columns_that_are_not_the_tables_are_refused() {
    let not_null = schema(vec![column("id", DataType::not_null(TypeKind::Int))]);
    let null = RecordBatch::try_from_iter_with_nullable([(
        "id",
        Arc::new(Int32Array::from(vec![None])) as _,
        true,
    )])
    .unwrap();
    let options = EncodeOptions::default();
    let error = encode_append(&null, options, &not_null).unwrap_err();
    assert!(error.to_string().contains("`id`"), "{error}");
    let wider = RecordBatch::try_from_iter([("id", Arc::new(Float64Array::from(vec![1.0])) as _)]);
    let error = encode_append(&wider.unwrap(), options, &not_null).unwrap_err();
    assert!(matches!(error, FormatError::Invalid(_)), "{error}");
    assert!(encode_append(&null, options, &s2()).is_err());
    let mut encoder = ArrowBatchEncoder::new(&s2(), Compression::None).unwrap();
    assert!(encoder.encode(&r1_r2(), Some(&[0]), options).is_err());
}

#[test]
fn uncompressed_columns_are_shared_with_the_bytes() {
    let schema = schema_of([TypeKind::String]);
    let text = "a long enough string".to_owned();
    let batch = batch_of(&schema, &[vec![Value::String(text.into())]]);
    let bytes = encode_append(&batch, EncodeOptions::default(), &schema).unwrap();
    let decoded = decode(&bytes, &schema, None).unwrap();
    let values = decoded.batch.column(0).as_string::<i32>().values().as_ptr();
    assert!(bytes.as_ptr_range().contains(&values));
}

#[test]
fn misaligned_columns_are_copied() {
    let schema = schema_of([
        TypeKind::Decimal {
            precision: 20,
            scale: 0,
        },
        TypeKind::BigInt,
    ]);
    let batch = batch_of(&schema, &[vec![Value::Decimal(5), Value::BigInt(7)]]);
    let bytes = encode_append(&batch, EncodeOptions::default(), &schema).unwrap();
    for shift in 0..17 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(&bytes);
        let shifted = Bytes::from(shifted).slice(shift..);
        assert_eq!(decode(&shifted, &schema, None).unwrap().batch, batch);
    }
}

#[test]
fn damage_is_told_from_what_does_not_fit() {
    let bytes = encode_append(&r1_r2(), EncodeOptions::default(), &s2()).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[260] ^= 1;
    let error = decode(&Bytes::from(damaged), &s2(), None).unwrap_err();
    assert!(matches!(error, FormatError::Corrupt(_)), "{error}");
    let other = schema_of([TypeKind::String]);
    let error = decode(&bytes, &other, None).unwrap_err();
    assert!(matches!(error, FormatError::Invalid(_)), "{error}");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let schema = schema_of([TypeKind::String]);
    let batch = batch_of(&schema, &[vec!["xyz".into()]]);
    let mut bytes = encode_append(&batch, EncodeOptions::default(), &schema)
        .unwrap()
        .to_vec();
    let at = bytes.len() - 8;
    bytes[at] = 0xff;
    repair_crc(&mut bytes);
    let error = decode(&Bytes::from(bytes), &schema, None).unwrap_err();
    assert!(error.to_string().contains("UTF8"), "{error}");
}

#[test]
fn what_decompresses_to_too_much_is_refused() {
    let schema = schema_of([TypeKind::String]);
    let zeros = "0".repeat(1 << 20);
    let batch = batch_of(&schema, &[vec![Value::String(zeros.into())]]);
    let options = EncodeOptions {
        compression: Compression::Zstd(3),
        ..Default::default()
    };
    let bytes = encode_append(&batch, options, &schema).unwrap();
    let decoder = ArrowBatchDecoder::new(&schema, Columns::All).unwrap();
    let decoder = decoder.with_decompressed_bytes_max((1 << 20) - 1);
    let error = decoder.decode(&bytes).err();
    assert!(
        matches!(error, Some(FormatError::LimitExceeded { .. })),
        "{error:?}"
    );
    // Validity and offsets do not shrink and are shared, not counted.
    assert!(
        decoder
            .with_decompressed_bytes_max(1 << 20)
            .decode(&bytes)
            .is_ok()
    );
}

#[test]
fn nulls_without_validity_bits_are_all_or_none() {
    // As other Arrow writers leave validity out: no buffer, and the null count.
    let bytes = encode_append(
        &batch_of(
            &schema_of([TypeKind::Int]),
            &[vec![Value::Null], vec![Value::Null]],
        ),
        EncodeOptions::default(),
        &schema_of([TypeKind::Int]),
    )
    .unwrap();
    let batch = LogBatch::parse(&bytes).unwrap();
    let mut source = crate::read_at::InMemory(&bytes);
    let (start, end) = (batch.header().arrow_start() as u64, bytes.len() as u64);
    let message = crate::arrow_message::MessageIndex::locate(&mut source, start, end).unwrap();
    let validity_length = message.buffers_at as usize + 8;
    let null_count = message.nodes_at as usize + 8;
    let decode_with = |count: i64| {
        let mut changed = bytes.to_vec();
        changed[validity_length..validity_length + 8].fill(0);
        changed[null_count..null_count + 8].copy_from_slice(&count.to_le_bytes());
        repair_crc(&mut changed);
        let decoded = decode(&Bytes::from(changed), &schema_of([TypeKind::Int]), None);
        decoded.map(|decoded| decoded.batch.column(0).null_count())
    };
    assert_eq!(decode_with(2).unwrap(), 2);
    assert_eq!(decode_with(0).unwrap(), 0);
    assert!(decode_with(1).is_err());
}

#[test]
fn offsets_may_be_followed_by_bytes_that_are_none() {
    let schema = schema_of([TypeKind::String]);
    let batch = batch_of(&schema, &[vec!["a".into()]]);
    let bytes = encode_append(&batch, EncodeOptions::default(), &schema).unwrap();
    let decode_with = |offsets_length: u8| {
        let mut changed = bytes.to_vec();
        // The second buffer entry: offset 8, then its length.
        let entry = changed
            .windows(16)
            .position(|it| it[0] == 8 && it[8] == 8)
            .unwrap();
        changed[entry + 8] = offsets_length;
        repair_crc(&mut changed);
        decode(&Bytes::from(changed), &schema, None).map(|decoded| decoded.batch)
    };
    assert_eq!(decode_with(11).unwrap(), batch);
    assert!(decode_with(7).is_err());
}

/// Every batch of a segment gives the rows, offsets, times and change types
/// that the reference's own clients saw.
fn check_segment(name: &str) {
    let table = golden::table(name);
    let mut records = table.log.iter();
    let mut batch_count = 0;
    for batch in Batches::new(&golden::segment(name)) {
        let batch = batch.unwrap();
        let schema = &table.schemas[&batch.header().schema_id];
        let decoded = decode(batch.bytes(), schema, None).unwrap();
        for index in 0..decoded.record_count {
            let record = records.next().unwrap();
            assert_eq!(decoded.base_offset + index as i64, record.offset, "{name}");
            assert_eq!(decoded.commit_timestamp_ms, record.timestamp_ms, "{name}");
            let change_type = decoded
                .change_types
                .as_ref()
                .map_or(0, |types| types[index]);
            assert_eq!(change_type, record.change_type, "{name} {}", record.offset);
            assert_eq!(
                row(&decoded.batch, schema, index),
                record.row(schema),
                "{name}"
            );
        }
        check_newer_schema(&decoded, &table.schemas, &table.log);
        check_encoded_again(&batch, &decoded, schema);
        batch_count += 1;
    }
    assert!(batch_count > 0 && records.next().is_none(), "{name}");
}

fn check_newer_schema(
    decoded: &DecodedBatch,
    schemas: &std::collections::BTreeMap<i16, Schema>,
    log: &[GoldenRecord],
) {
    let newest = schemas.values().last().unwrap();
    let cast = crate::cast_to_schema(&decoded.batch, newest).unwrap();
    for index in 0..decoded.record_count {
        let offset = decoded.base_offset + index as i64;
        let record = log.iter().find(|record| record.offset == offset).unwrap();
        assert_eq!(row(&cast, newest, index), record.row(newest));
    }
}

/// Decoded rows give the same batch when encoded again: the same bytes if it
/// came from Java, and the same rows if from Arrow's other writer, which aligns
/// buffers to 64.
fn check_encoded_again(batch: &LogBatch, decoded: &DecodedBatch, schema: &Schema) {
    let header = batch.header();
    let codec = match decoded.record_count {
        0 => None,
        _ => {
            let message = batch.arrow_message().unwrap();
            let mut source = crate::read_at::InMemory(&message);
            let end = message.len() as u64;
            crate::arrow_message::MessageIndex::locate(&mut source, 0, end)
                .unwrap()
                .codec
        }
    };
    let compression = match codec {
        None => Compression::None,
        Some(crate::BodyCodec::Lz4Frame) => Compression::Lz4Frame,
        Some(crate::BodyCodec::Zstd) => Compression::Zstd(3),
    };
    let options = EncodeOptions {
        schema_id: header.schema_id,
        compression,
        writer_id: header.writer_id,
        batch_sequence: header.batch_sequence,
        statistics_columns: None,
    };
    let mut encoder = ArrowBatchEncoder::new(schema, compression).unwrap();
    let bytes = encoder
        .encode(&decoded.batch, decoded.change_types.as_deref(), options)
        .unwrap();
    let from_java = !header.is_append_only();
    if from_java {
        // Offset and time are the leader's; the checksum covers all the rest.
        assert_eq!(bytes.len(), batch.bytes().len());
        let first = (21..bytes.len()).find(|&at| bytes[at] != batch.bytes()[at]);
        assert_eq!(first, None, "offset {}", decoded.base_offset);
    }
    let again = decode(&bytes, schema, None).unwrap();
    assert_eq!(again.batch, decoded.batch);
    assert_eq!(again.change_types, decoded.change_types);
}

#[test]
fn segments_of_a_reference_server_decode_to_what_its_clients_saw() {
    for name in [
        "log_none",
        "log_lz4",
        "log_zstd",
        "log_small",
        "log_types",
        "log_stats",
    ] {
        check_segment(name);
    }
    for name in ["kv_small", "kv_types", "kv_partial"] {
        check_segment(name);
    }
}

#[test]
fn what_a_server_projects_decodes_to_the_projected_columns() {
    let table = golden::table("kv_types");
    let schema = &table.schemas[&1];
    let columns = [0, 9, 20, 23, 26];
    let versions = [(1, Arc::new(SchemaLayout::new(schema)))];
    let projection =
        crate::Projection::new(&versions, &columns.map(|column| column as i32)).unwrap();
    for batch in Batches::new(&golden::segment("kv_types")) {
        let batch = batch.unwrap();
        let whole = decode(batch.bytes(), schema, None).unwrap();
        let expected = whole.batch.project(&columns).unwrap();
        let decoder = ArrowBatchDecoder::new(schema, Columns::Selected(&columns)).unwrap();
        assert_eq!(decoder.decode(batch.bytes()).unwrap().batch, expected);
        let bytes = batch.bytes();
        let mut window = ReadWindow::new(&bytes[..], bytes.len() as u64);
        let projected = projection.project(&mut window, 0, batch.header()).unwrap();
        let projected = Bytes::from(projected.assemble(bytes).unwrap());
        let decoded = decode(&projected, schema, Some(&columns)).unwrap();
        assert_eq!(decoded.batch, expected);
        assert_eq!(decoded.change_types, whole.change_types);
        assert_eq!(decoded.base_offset, whole.base_offset);
    }
    assert!(ArrowBatchDecoder::new(schema, Columns::Selected(&[99])).is_err());
}

#[test]
fn slices_are_encoded_as_if_they_were_whole() {
    let schema = schema_of([
        TypeKind::Boolean,
        TypeKind::String,
        TypeKind::Binary { length: 2 },
        crate::testing::array_of(TypeKind::String),
        crate::testing::map_of(TypeKind::Int, TypeKind::String),
        crate::testing::row_type([("x", TypeKind::Boolean), ("y", TypeKind::String)]),
        TypeKind::Time { precision: 0 },
        TypeKind::TimestampLtz { precision: 9 },
    ]);
    let rows: Vec<Vec<Value<'_>>> = (0..40_i32)
        .map(|index| {
            if index % 7 == 3 {
                return vec![Value::Null; 8];
            }
            let text = || Value::String(format!("text {index}").into());
            vec![
                Value::Boolean(index % 2 == 0),
                text(),
                Value::Bytes(vec![1, index as u8 + 1].into()),
                Value::Array(vec![text(); index as usize % 3]),
                Value::Map(vec![(Value::Int(index), text())]),
                Value::Row(vec![Value::Boolean(index % 3 == 0), text()]),
                Value::Time(index * 1000),
                Value::Timestamp(crate::Timestamp::from_millis(-i64::from(index))),
            ]
        })
        .collect();
    let whole = batch_of(&schema, &rows);
    for (start, length) in [(0, 40), (1, 39), (3, 9), (8, 16), (39, 1), (5, 0)] {
        let slice = whole.slice(start, length);
        let copy = batch_of(&schema, &rows[start..start + length]);
        for compression in COMPRESSIONS {
            let options = EncodeOptions {
                compression,
                ..Default::default()
            };
            let bytes = encode_append(&slice, options, &schema).unwrap();
            assert_eq!(bytes, encode_append(&copy, options, &schema).unwrap());
            assert_eq!(decode(&bytes, &schema, None).unwrap().batch, copy);
        }
    }
}

#[test]
fn an_encoder_can_be_used_again_after_an_error() {
    let mut encoder = ArrowBatchEncoder::new(&s2(), Compression::Zstd(1)).unwrap();
    let options = EncodeOptions::default();
    let first = encoder.encode(&r1_r2(), None, options).unwrap();
    let wrong = RecordBatch::try_from_iter([("f0", Arc::new(StringArray::from(vec!["x"])) as _)]);
    assert!(encoder.encode(&wrong.unwrap(), None, options).is_err());
    assert_eq!(encoder.encode(&r1_r2(), None, options).unwrap(), first);
}

#[test]
fn the_schema_returned_is_that_of_the_table() {
    let bytes = encode_append(&r1_r2(), EncodeOptions::default(), &s2()).unwrap();
    assert_eq!(
        decode(&bytes, &s2(), None).unwrap().batch.schema(),
        arrow_schema(&s2())
    );
}

proptest! {
    #[test]
    fn every_batch_comes_back((schema, rows) in any_table(5, 9)) {
        let batch = batch_of(&schema, &rows);
        let types: Vec<u8> = (0..rows.len()).map(|row| (row % 5) as u8).collect();
        for compression in COMPRESSIONS {
            let mut encoder = ArrowBatchEncoder::new(&schema, compression).unwrap();
            for change_types in [None, Some(types.as_slice())] {
                let bytes = encoder.encode(&batch, change_types, EncodeOptions::default()).unwrap();
                let decoded = decode(&bytes, &schema, None).unwrap();
                prop_assert_eq!(&decoded.batch, &batch);
                prop_assert_eq!(decoded.change_types.as_deref(), change_types);
                let last = Columns::Selected(&[schema.columns.len() - 1]);
                let selected = ArrowBatchDecoder::new(&schema, last).unwrap().decode(&bytes).unwrap();
                prop_assert_eq!(selected.batch.column(0), batch.columns().last().unwrap());
                // The server's checks take what is written here.
                let layout = Arc::new(SchemaLayout::new(&schema));
                if change_types.is_none() && !rows.is_empty() {
                    let find = |_| Some(layout.clone());
                    prop_assert!(crate::check_append(&bytes, LogFormat::Arrow, &find).is_ok());
                }
            }
        }
    }

    #[test]
    fn damaged_batches_never_panic(
        (schema, rows) in any_table(4, 5),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let batch = batch_of(&schema, &rows);
        for compression in COMPRESSIONS {
            let options = EncodeOptions { compression, ..Default::default() };
            let mut bytes = encode_append(&batch, options, &schema).unwrap().to_vec();
            for (at, with) in &damage {
                // Behind the length, so that header and message stay in reach.
                let at = 21 + at.index(bytes.len() - 21);
                bytes[at] = *with;
            }
            repair_crc(&mut bytes);
            if let Ok(decoded) = decode(&Bytes::from(bytes), &schema, None) {
                // What was let through can be read to the last value.
                let readers = column_readers(&decoded.batch, &schema).unwrap();
                for row in 0..decoded.record_count {
                    readers.iter().for_each(|reader| drop(reader.value(row)));
                }
            }
        }
    }
}
