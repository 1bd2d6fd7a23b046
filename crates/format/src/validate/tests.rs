use arrow_ipc::CompressionType;
use mainstem_types::{DataType, Schema, TypeKind};
use proptest::prelude::*;

use super::*;
use crate::arrow_message::tests::{LZ4_MESSAGE, MESSAGE};
use crate::arrow_testing::{
    CODECS, Random, ipc_message, log_batch, random_batch, schema_message, segments,
};
use crate::header::Magic;
use crate::log_batch_builder::BatchSpec;
use crate::row::RowFormat;
use crate::testing::{all_types, any_table, column, hex, schema, schema_of};
use crate::value::Value;

/// f0 INT, f1 STRING of formats.md §9.
fn s2() -> Schema {
    schema_of([TypeKind::Int, TypeKind::String])
}

fn check(records: &[u8], format: LogFormat, schema: &Schema) -> Result<Vec<LogBatch>> {
    let layout = Arc::new(SchemaLayout::new(schema));
    let schemas = |id| (id == 1).then(|| layout.clone());
    check_append(&Bytes::copy_from_slice(records), format, &schemas)
}

#[track_caller]
fn accepted(records: &[u8], format: LogFormat, schema: &Schema) {
    check(records, format, schema).unwrap();
}

#[track_caller]
fn corrupt(what: &str, records: &[u8]) {
    let result = check(records, LogFormat::Arrow, &s2());
    assert!(
        matches!(result, Err(FormatError::Corrupt(_))),
        "{what}: {result:?}"
    );
}

#[track_caller]
fn invalid(what: &str, records: &[u8], format: LogFormat, schema: &Schema) {
    let result = check(records, format, schema);
    assert!(
        matches!(result, Err(FormatError::Invalid(_))),
        "{what}: {result:?}"
    );
}

fn arrow_batch() -> Vec<u8> {
    BatchSpec::default()
        .build(2, &[], &[], &hex(MESSAGE))
        .unwrap()
}

fn compacted_batch() -> Vec<u8> {
    BatchSpec::default()
        .build(1, &[], &[], &hex("06000000 00 0001026131"))
        .unwrap()
}

fn indexed_batch() -> Vec<u8> {
    BatchSpec::default()
        .build(1, &[], &[], &hex("0c000000 00 0002000000010000006131"))
        .unwrap()
}

#[test]
fn the_worked_examples_are_accepted() {
    accepted(&arrow_batch(), LogFormat::Arrow, &s2());
    assert_eq!(
        arrow_batch()[21..25],
        hex("00b325b571")[1..],
        "CRC of formats.md §9.4"
    );
    let lz4 = BatchSpec::default()
        .build(2, &[], &[], &hex(LZ4_MESSAGE))
        .unwrap();
    accepted(&lz4, LogFormat::Arrow, &s2());
    accepted(&compacted_batch(), LogFormat::Compacted, &s2());
    accepted(&indexed_batch(), LogFormat::Indexed, &s2());
    let spec = BatchSpec {
        append_only: false,
        ..BatchSpec::default()
    };
    let changes = spec.build(2, &[], &[1, 4], &hex(MESSAGE)).unwrap();
    assert_eq!(changes[21..25], hex("2223753f")[..]);
    accepted(&changes, LogFormat::Arrow, &s2());
}

#[test]
fn batches_of_the_reference_are_accepted() {
    for segment in segments() {
        let layouts: Vec<_> = segment
            .schemas
            .iter()
            .map(|(id, schema)| (*id, Arc::new(SchemaLayout::new(schema))))
            .collect();
        let schemas = |id| {
            layouts
                .iter()
                .find(|(known, _)| *known == id)
                .map(|(_, l)| l.clone())
        };
        let batches = check_append(&segment.bytes, LogFormat::Arrow, &schemas).unwrap();
        assert_eq!(batches.len(), segment.batches.len(), "{}", segment.name);
    }
}

#[test]
fn damage_is_corrupt() {
    let batch = arrow_batch();
    let with = |at: usize, bytes: &[u8]| {
        let mut batch = batch.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        batch
    };
    corrupt("wrong checksum", &with(21, &[1, 2, 3, 4]));
    for length in [0, -5, 10, i32::MAX] {
        corrupt("wrong length", &with(8, &i32::to_le_bytes(length)));
    }
    corrupt("magic 3", &with(12, &[3]));
    corrupt("magic 99", &with(12, &[99]));
    for cut in [batch.len() - 1, 47, 12, 11, 0] {
        corrupt("cut", &batch[..cut]);
    }
    let mut negative = BatchSpec::default()
        .build(2, &[], &[], &hex(MESSAGE))
        .unwrap();
    negative[28..32].copy_from_slice(&(-3i32).to_le_bytes());
    let crc = crc32c::crc32c(&negative[25..]).to_le_bytes();
    negative[21..25].copy_from_slice(&crc);
    corrupt("last offset delta -3", &negative);
    corrupt(
        "a good batch and one with a bad checksum",
        &[batch.clone(), with(200, &[9])].concat(),
    );
}

#[test]
fn every_flipped_byte_under_the_checksum_is_refused() {
    let batch = arrow_batch();
    for at in 0..batch.len() {
        let mut flipped = batch.clone();
        flipped[at] ^= 0xff;
        // Base offset and commit timestamp are the leader's to write.
        let is_stamp = matches!(at, 0..8 | 13..21);
        let result = check(&flipped, LogFormat::Arrow, &s2());
        assert_eq!(result.is_ok(), is_stamp, "byte {at}: {result:?}");
    }
}

#[test]
fn a_cut_batch_behind_whole_ones_is_left_out() {
    let batch = arrow_batch();
    let records = [&batch[..], &batch[..], &batch[..100]].concat();
    assert_eq!(check(&records, LogFormat::Arrow, &s2()).unwrap().len(), 2);
    assert!(
        check_integrity(&Bytes::new()).unwrap().is_empty(),
        "nothing to replicate is fine"
    );
}

#[test]
fn an_empty_batch_is_accepted_in_every_format() {
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        let empty = BatchSpec {
            magic,
            ..BatchSpec::default()
        }
        .empty();
        for format in [LogFormat::Arrow, LogFormat::Indexed, LogFormat::Compacted] {
            accepted(&empty, format, &s2());
        }
    }
    let no_records = BatchSpec::default()
        .build(0, &[], &[], &hex(MESSAGE))
        .unwrap();
    invalid(
        "a body without records",
        &no_records,
        LogFormat::Arrow,
        &s2(),
    );
}

#[test]
fn unknown_schema_ids_are_invalid() {
    for schema_id in [0, 2, 99, -1] {
        let spec = BatchSpec {
            schema_id,
            ..BatchSpec::default()
        };
        let batch = spec.build(2, &[], &[], &hex(MESSAGE)).unwrap();
        invalid("schema id", &batch, LogFormat::Arrow, &s2());
    }
}

#[test]
fn batches_of_another_format_are_invalid() {
    use LogFormat::{Arrow, Compacted, Indexed};
    invalid("COMPACTED in ARROW", &compacted_batch(), Arrow, &s2());
    invalid("INDEXED in ARROW", &indexed_batch(), Arrow, &s2());
    invalid("ARROW in COMPACTED", &arrow_batch(), Compacted, &s2());
    invalid("ARROW in INDEXED", &arrow_batch(), Indexed, &s2());
    invalid("COMPACTED in INDEXED", &compacted_batch(), Indexed, &s2());
    invalid("INDEXED in COMPACTED", &indexed_batch(), Compacted, &s2());
}

#[test]
fn undecodable_bodies_are_invalid() {
    let build = |body: &[u8]| BatchSpec::default().build(2, &[], &[], body).unwrap();
    let message = hex(MESSAGE);
    invalid("no body", &build(&[]), LogFormat::Arrow, &s2());
    invalid(
        "garbage",
        &build(b"not an arrow message at all"),
        LogFormat::Arrow,
        &s2(),
    );
    invalid(
        "half a message",
        &build(&message[..100]),
        LogFormat::Arrow,
        &s2(),
    );
    invalid(
        "a cut body",
        &build(&message[..message.len() - 1]),
        LogFormat::Arrow,
        &s2(),
    );
    invalid(
        "a schema",
        &build(&schema_message(&s2())),
        LogFormat::Arrow,
        &s2(),
    );
    let three = BatchSpec::default().build(3, &[], &[], &message).unwrap();
    invalid("3 records of 2 rows", &three, LogFormat::Arrow, &s2());
    let spec = BatchSpec {
        append_only: false,
        ..BatchSpec::default()
    };
    let codes = spec.build(2, &[], &[1, 5], &message).unwrap();
    invalid("an unknown change type", &codes, LogFormat::Arrow, &s2());
}

#[test]
fn messages_of_another_schema_are_invalid() {
    use TypeKind::{BigInt, Boolean, Bytes, Double, Int, String, TinyInt};
    let row = crate::testing::row_type([("x", Int)]);
    let array = crate::testing::array_of(Int);
    for codec in CODECS {
        for (written, table) in [
            (vec![Int], vec![Int, Int]),
            (vec![Int, Int], vec![Int]),
            (vec![Int], vec![BigInt]),
            (vec![Boolean], vec![TinyInt]),
            (vec![Int], vec![String]),
            (vec![String], vec![Int]),
            (vec![row.clone()], vec![Int]),
            (vec![array.clone()], vec![Bytes]),
        ] {
            let rows = random_batch(&schema_of(written.clone()), 100, &mut Random(3));
            let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, codec, 8), 100);
            let what = format!("{written:?} in a table of {table:?}, {codec:?}");
            invalid(&what, &batch, LogFormat::Arrow, &schema_of(table));
            accepted(&batch, LogFormat::Arrow, &schema_of(written));
        }
    }
    // What has the same bytes cannot be told from them.
    let rows = random_batch(&schema_of([BigInt]), 10, &mut Random(4));
    let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, None, 8), 10);
    accepted(&batch, LogFormat::Arrow, &schema_of([Double]));
}

/// The worked example with one entry of its metadata replaced.
fn with_entry(at: usize, first: i64, second: i64) -> Vec<u8> {
    let mut message = hex(MESSAGE);
    message[at..at + 8].copy_from_slice(&first.to_le_bytes());
    message[at + 8..at + 16].copy_from_slice(&second.to_le_bytes());
    BatchSpec::default().build(2, &[], &[], &message).unwrap()
}

#[test]
fn nodes_and_buffers_that_readers_would_fail_at_are_invalid() {
    let index = crate::arrow_message::MessageIndex::locate(
        &mut crate::read_at::InMemory(&hex(MESSAGE)),
        0,
        256,
    )
    .unwrap();
    let (nodes, buffers) = (index.nodes_at as usize, index.buffers_at as usize);
    accepted(&with_entry(nodes, 2, 1), LogFormat::Arrow, &s2());
    for (what, length, nulls) in [
        ("a node longer than the batch", 3, 1),
        ("a node shorter than the batch", 1, 1),
        ("a node of negative length", -1, 0),
        ("more nulls than values", 2, 3),
        ("a negative number of nulls", 2, -1),
    ] {
        invalid(
            what,
            &with_entry(nodes, length, nulls),
            LogFormat::Arrow,
            &s2(),
        );
    }
    accepted(&with_entry(buffers + 16, 8, 8), LogFormat::Arrow, &s2());
    for (what, entry, offset, len) in [
        ("a buffer over the next one", 1, 8, 9),
        ("a buffer behind the next one", 1, 17, 0),
        ("a negative offset", 0, -1, 1),
        ("a negative length", 1, 8, -8),
        ("an end that overflows", 1, 8, i64::MAX),
        ("a buffer behind the body", 4, 40, 9),
        ("a validity too short, with nulls", 0, 0, 0),
        ("values too short", 1, 8, 7),
        ("offsets too short", 3, 24, 11),
        ("offsets behind the bytes", 4, 40, 2),
    ] {
        invalid(
            what,
            &with_entry(buffers + 16 * entry, offset, len),
            LogFormat::Arrow,
            &s2(),
        );
    }
    // The second column has no nulls, and may do without its validity.
    accepted(&with_entry(buffers + 32, 16, 0), LogFormat::Arrow, &s2());
}

#[test]
fn compressed_lengths_out_of_bounds_are_invalid() {
    let message = hex(LZ4_MESSAGE);
    let body = message.len() - 88;
    for (what, length) in [("negative", -2i64), ("huge", i64::MAX), ("too short", 0)] {
        let mut message = message.clone();
        // The values of the first column, at 16 of the body.
        message[body + 16..body + 24].copy_from_slice(&length.to_le_bytes());
        let batch = BatchSpec::default().build(2, &[], &[], &message).unwrap();
        invalid(what, &batch, LogFormat::Arrow, &s2());
    }
}

#[test]
fn nulls_in_not_null_columns_are_invalid() {
    let typed = |kind, nullable| DataType { kind, nullable };
    let row = |inner| {
        let TypeKind::Row(mut fields) = crate::testing::row_type([("x", TypeKind::Int)]) else {
            unreachable!()
        };
        fields[0].data_type.nullable = inner;
        TypeKind::Row(fields)
    };
    let table = |data_type| schema(vec![column("c", data_type)]);
    // Written by somebody who thinks that everything is nullable; this seed has
    // nulls in the column as well as in its field.
    for kind in [typed(TypeKind::Int, true), typed(row(true), true)] {
        let rows = random_batch(&table(kind.clone()), 64, &mut Random(1));
        assert!(rows.column(0).null_count() > 0);
        let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, None, 8), 64);
        accepted(&batch, LogFormat::Arrow, &table(kind.clone()));
        let not_null = table(typed(kind.kind, false));
        invalid("nulls", &batch, LogFormat::Arrow, &not_null);
    }
    let rows = random_batch(&table(typed(row(true), false)), 64, &mut Random(1));
    let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, None, 8), 64);
    let inner = table(typed(row(false), false));
    invalid(
        "nulls in a NOT NULL field of a NOT NULL row",
        &batch,
        LogFormat::Arrow,
        &inner,
    );
    // Below a null row, the field has no value at all.
    let outer_null = table(typed(row(false), true));
    accepted(&batch, LogFormat::Arrow, &outer_null);
}

#[test]
fn row_batches_with_other_records_than_they_say_are_invalid() {
    let record = hex("06000000 00 0001026131");
    let build = |count, records: &[u8]| {
        BatchSpec::default()
            .build(count, &[], &[], records)
            .unwrap()
    };
    let table = s2();
    let format = LogFormat::Compacted;
    accepted(&build(2, &record.repeat(2)), format, &table);
    invalid("3 of 2", &build(3, &record.repeat(2)), format, &table);
    invalid("1 of 2", &build(1, &record.repeat(2)), format, &table);
    invalid("a cut record", &build(1, &record[..9]), format, &table);
    invalid(
        "an empty record",
        &build(1, &hex("00000000")),
        format,
        &table,
    );
    invalid(
        "a record of negative length",
        &build(1, &hex("ffffffff 00")),
        format,
        &table,
    );
    invalid(
        "a row without null bits",
        &build(1, &hex("01000000 00")),
        format,
        &table,
    );
    invalid(
        "an unknown change type",
        &build(1, &hex("06000000 05 0001026131")),
        format,
        &table,
    );
    let mut not_null = s2();
    not_null.columns[0].data_type.nullable = false;
    invalid(
        "a null",
        &build(1, &hex("04000000 00 01 0162")),
        format,
        &not_null,
    );
    accepted(&build(1, &hex("06000000 00 0001026131")), format, &not_null);
}

#[test]
fn a_table_of_ten_thousand_columns_is_accepted() {
    let table = schema_of(std::iter::repeat_n(TypeKind::String, 10_000));
    let rows = random_batch(&table, 3, &mut Random(5));
    let message = ipc_message(&rows, Some(CompressionType::ZSTD), 8);
    accepted(
        &log_batch(&BatchSpec::default(), &message, 3),
        LogFormat::Arrow,
        &table,
    );
}

/// A batch of rows in one of the row formats.
fn row_batch(table: &Schema, rows: &[Vec<Value<'_>>], format: RowFormat) -> Vec<u8> {
    let mut records = Vec::new();
    for row in rows {
        let start = records.len();
        records.extend_from_slice(&[0; 5]);
        format
            .encode(row, table.columns.as_slice(), &mut records)
            .unwrap();
        let len = (records.len() - start - 4) as i32;
        records[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }
    BatchSpec::default()
        .build(rows.len() as i32, &[], &[], &records)
        .unwrap()
}

fn any_format() -> impl Strategy<Value = LogFormat> {
    prop_oneof![
        Just(LogFormat::Arrow),
        Just(LogFormat::Indexed),
        Just(LogFormat::Compacted)
    ]
}

proptest! {
    #[test]
    fn whatever_arrow_writes_is_accepted(
        (table, _) in any_table(6, 0), rows in 1usize..40, seed: u64, codec in 0usize..3,
        wide: bool, append_only: bool,
    ) {
        let rows_batch = random_batch(&table, rows, &mut Random(seed));
        let message = ipc_message(&rows_batch, CODECS[codec], if wide { 64 } else { 8 });
        let spec = BatchSpec { append_only, ..BatchSpec::default() };
        let batch = log_batch(&spec, &message, rows);
        check(&batch, LogFormat::Arrow, &table).unwrap();
    }

    #[test]
    fn rows_of_any_table_are_accepted((table, rows) in any_table(6, 5)) {
        for (row_format, format) in
            [(RowFormat::Indexed, LogFormat::Indexed), (RowFormat::Compacted, LogFormat::Compacted)]
        {
            check(&row_batch(&table, &rows, row_format), format, &table).unwrap();
        }
    }

    #[test]
    fn any_body_is_accepted_or_refused(
        format in any_format(), body in prop::collection::vec(any::<u8>(), 0..200),
        rows in 0i32..20, append_only: bool,
    ) {
        let spec = BatchSpec { append_only, ..BatchSpec::default() };
        let batch = spec.build(rows, &[], &[], &body).unwrap();
        let _ = check(&batch, format, &s2());
    }

    #[test]
    fn damaged_messages_with_valid_checksums_are_accepted_or_refused(
        seed: u64, codec in 0usize..3,
        changes in prop::collection::vec((0usize..4000, any::<u8>()), 1..4),
    ) {
        let table = schema_of(all_types());
        let mut message = ipc_message(&random_batch(&table, 5, &mut Random(seed)), CODECS[codec], 8);
        for (at, byte) in changes {
            let at = at % message.len();
            message[at] = byte;
        }
        let _ = check(&log_batch(&BatchSpec::default(), &message, 5), LogFormat::Arrow, &table);
    }
}
