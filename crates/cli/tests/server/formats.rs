//! Batches of every version, codec and type through the server (known failures
//! B004, B025, B037, B038, B172).

use mainstem_format::{BatchSpec, Compression, Magic, Value};
use mainstem_testkit::{BatchBytes, ab, decode_batches, decode_projected, log_table, offsets};
use mainstem_types::{DataType, LogFormat, RowField, TypeKind};

use crate::support::{quick, server_with_table};

/// Known failure B004.
#[test]
fn batches_of_all_versions_may_be_mixed_in_a_bucket() {
    let server = quick().start();
    let mut client = server.client();
    let descriptor = ab(1).with_property("table.statistics.columns", "*");
    let table = client.create_table("fluss.t", &descriptor);
    let plain = table.source();
    let with_statistics = table.source().with_statistics(&[0, 1]);
    let second_version = |numbers: std::ops::Range<i32>| {
        let count = numbers.end - numbers.start;
        let body = plain.numbers(numbers).0.split_off(BatchBytes::HEADER);
        let spec = BatchSpec {
            magic: Magic::V2,
            ..BatchSpec::default()
        };
        BatchBytes(spec.build(count, &[], &[], &body).expect("a batch"))
    };
    let batches = [
        plain.numbers(0..3),
        with_statistics.numbers(3..5),
        second_version(5..9),
        with_statistics
            .clone()
            .with_compression(Compression::Zstd(3))
            .numbers(9..10),
        plain
            .clone()
            .with_compression(Compression::Lz4Frame)
            .numbers(10..12),
    ];
    for batch in &batches {
        client.append(&table, 0, batch).expect("appended");
    }
    let fetched = client.fetch_one(&table.fetch([(0, 0)])).expect("readable");
    let records = fetched.records.expect("records");
    // Stored as written, but for offset, time and leader epoch.
    let mut at = 0;
    for batch in &batches {
        let stored = &records[at..at + batch.len()];
        let covered = if batch[BatchBytes::MAGIC] == 2 {
            25
        } else {
            21
        };
        assert_eq!(stored[8..13], batch[8..13]);
        assert_eq!(stored[covered..], batch[covered..]);
        at += batch.len();
    }
    assert_eq!(at, records.len());
    let rows = decode_batches(&records, table.schema(), LogFormat::Arrow);
    assert_eq!(rows.len(), 12);
    for columns in [vec![0], vec![1], vec![0, 1]] {
        let positions: Vec<i32> = columns
            .iter()
            .map(|at| i32::try_from(*at).expect("small"))
            .collect();
        let fetched = client
            .fetch_one(&table.fetch_columns(0, 0, &positions))
            .expect("readable");
        let projected =
            decode_projected(&fetched.records.expect("records"), table.schema(), &columns);
        let expected: Vec<_> = rows
            .iter()
            .map(|(offset, row)| {
                (
                    *offset,
                    columns
                        .iter()
                        .map(|at| row[*at].clone())
                        .collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(projected, expected, "{columns:?}");
    }
}

/// Known failure B025.
#[test]
fn a_flip_of_any_byte_under_the_checksum_is_found() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let good = table.source().numbers([1, 2]);
    let mut stored = 0;
    for at in 0..good.len() {
        let flipped = good.clone().set(at, &[good[at] ^ 0xFF]);
        let got = client.append(&table, 0, &flipped);
        // The leader writes offset and time; nothing else is not covered.
        let expected = if at < 8 || (13..21).contains(&at) {
            stored += 2;
            Ok(stored - 2)
        } else {
            Err(14)
        };
        assert_eq!(got, expected, "byte {at}");
    }
    assert_eq!(client.end(&table, 0), stored);
    let fetched = client.fetch_one(&table.fetch([(0, 0)])).expect("readable");
    let rows = decode_batches(
        &fetched.records.expect("records"),
        table.schema(),
        LogFormat::Arrow,
    );
    assert_eq!(rows.len() as i64, stored);
}

/// Known failure B037.
#[test]
fn values_from_nothing_to_megabytes_survive_every_codec() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let noise = |length: usize| -> String {
        let mut state = 88_172_645_463_325_252_u64;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b' ' + (state % 90) as u8)
        };
        (0..length).map(|_| letter()).collect()
    };
    let values = [
        "".to_owned(),
        noise(5_000),
        "same".repeat(250_000),
        noise(3 << 20),
    ];
    let codecs = [
        Compression::None,
        Compression::Lz4Frame,
        Compression::Zstd(1),
        Compression::Zstd(3),
        Compression::Zstd(12),
    ];
    let rows: Vec<Vec<Value<'_>>> = (0..)
        .zip(&values)
        .map(|(at, text)| vec![Value::Int(at), text.as_str().into()])
        .collect();
    for (round, codec) in codecs.into_iter().enumerate() {
        let base = (round * values.len()) as i64;
        let batch = table.source().with_compression(codec).arrow(&rows);
        assert_eq!(client.append(&table, 0, &batch), Ok(base), "{codec:?}");
        let fetched = client
            .fetch_one(&table.fetch([(0, base)]))
            .expect("readable");
        let read = decode_batches(
            &fetched.records.expect("records"),
            table.schema(),
            LogFormat::Arrow,
        );
        assert!(
            read.into_iter()
                .map(|(_, row)| row)
                .eq(rows.iter().cloned()),
            "{codec:?}"
        );
        let fetched = client
            .fetch_one(&table.fetch_columns(0, base, &[1]))
            .expect("readable");
        let read = decode_projected(&fetched.records.expect("records"), table.schema(), &[1]);
        assert!(
            read.iter()
                .map(|(_, row)| &row[0])
                .eq(rows.iter().map(|row| &row[1])),
            "{codec:?}"
        );
    }
    // The strongest level needs a moment in these tests, so it gets less.
    let small = table
        .source()
        .with_compression(Compression::Zstd(22))
        .arrow(&rows[..2]);
    assert_eq!(client.append(&table, 0, &small), Ok(20));
}

fn all_kinds() -> Vec<(&'static str, TypeKind)> {
    let nullable = DataType::nullable;
    let field = |name: &str, kind| RowField {
        name: name.to_owned(),
        data_type: nullable(kind),
        description: None,
        field_id: -1,
    };
    vec![
        ("boolean", TypeKind::Boolean),
        ("text", TypeKind::String),
        (
            "decimal",
            TypeKind::Decimal {
                precision: 20,
                scale: 2,
            },
        ),
        (
            "list",
            TypeKind::Array(Box::new(nullable(TypeKind::String))),
        ),
        (
            "row",
            TypeKind::Row(vec![
                field("x", TypeKind::BigInt),
                field("y", TypeKind::String),
            ]),
        ),
        (
            "map",
            TypeKind::Map {
                key: Box::new(DataType {
                    nullable: false,
                    ..nullable(TypeKind::String)
                }),
                value: Box::new(nullable(TypeKind::Int)),
            },
        ),
        ("bytes", TypeKind::Bytes),
    ]
}

fn all_kinds_row(number: i32) -> Vec<Value<'static>> {
    if number % 5 == 4 {
        return vec![Value::Null; all_kinds().len()];
    }
    let text = |prefix: &str| Value::String(format!("{prefix}{number}").into());
    vec![
        Value::Boolean(number % 2 == 0),
        text("text "),
        Value::Decimal(i128::from(number) - 7),
        Value::Array(
            (0..number % 4)
                .map(|at| if at == 1 { Value::Null } else { text("e") })
                .collect(),
        ),
        Value::Row(vec![Value::BigInt(i64::from(number) << 33), text("y")]),
        Value::Map(vec![
            (text("k"), Value::Int(number)),
            (text("l"), Value::Null),
        ]),
        Value::Bytes(vec![number as u8; number as usize % 9].into()),
    ]
}

/// Known failure B038.
#[test]
fn every_subset_of_columns_can_be_projected_under_every_codec() {
    let server = quick().start();
    let mut client = server.client();
    let kinds = all_kinds();
    let table = client.create_table("fluss.t", &log_table(&kinds, 3));
    let rows: Vec<_> = (0..25).map(all_kinds_row).collect();
    for (bucket, codec) in (0..).zip([
        Compression::None,
        Compression::Lz4Frame,
        Compression::Zstd(3),
    ]) {
        let source = table.source().with_compression(codec);
        for piece in rows.chunks(9) {
            client
                .append(&table, bucket, &source.arrow(piece))
                .expect("appended");
        }
        for subset in 1..1_u32 << kinds.len() {
            let columns: Vec<usize> = (0..kinds.len())
                .filter(|at| subset >> at & 1 == 1)
                .collect();
            let positions: Vec<i32> = columns
                .iter()
                .map(|at| i32::try_from(*at).expect("small"))
                .collect();
            let fetched = client
                .fetch_one(&table.fetch_columns(bucket, 0, &positions))
                .expect("readable");
            let read =
                decode_projected(&fetched.records.expect("records"), table.schema(), &columns);
            assert_eq!(read.len(), rows.len(), "{codec:?} {columns:?}");
            for ((_, got), row) in read.iter().zip(&rows) {
                assert!(
                    got.iter().eq(columns.iter().map(|at| &row[*at])),
                    "{codec:?} {columns:?}"
                );
            }
        }
    }
}

/// Known failure B172.
#[test]
fn reading_from_every_offset_continues_densely_over_the_seams_of_segments() {
    let options = quick()
        .with("log.segment.file-size", "700")
        .with("log.index.interval-size", "1");
    let server = options.start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(1));
    for number in 0..40 {
        client
            .append(
                &table,
                0,
                &table.source().numbers(number * 3..number * 3 + 3),
            )
            .expect("appended");
    }
    for start in 0..120 {
        let mut next = start;
        for limit in [1, 500, 1_500, 1 << 20] {
            let mut request = table.fetch([(0, next)]);
            request.tables_req[0].buckets_req[0].max_fetch_bytes = Some(limit);
            let fetched = client.fetch_one(&request).expect("readable");
            let batches = offsets(&fetched.records.expect("records"));
            if next == 120 {
                assert!(batches.is_empty());
                break;
            }
            assert_eq!(batches[0].0, next - next % 3, "from {next}");
            assert!(
                batches.windows(2).all(|pair| pair[0].1 == pair[1].0),
                "{batches:?}"
            );
            next = batches.last().map_or(next, |(_, end)| *end);
        }
        assert_eq!(next, 120, "from {start}");
    }
}

/// Known failure B037: a batch beyond every limit of a fetch.
#[test]
fn a_batch_larger_than_a_fetch_is_stored_and_returned() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    let text = "0123456789abcdef".repeat(20 << 16);
    let rows = [vec![Value::Int(7), text.as_str().into()]];
    for (base, codec) in [(0, Compression::None), (1, Compression::Zstd(1))] {
        let batch = table.source().with_compression(codec).arrow(&rows);
        assert_eq!(client.append(&table, 1, &batch), Ok(base));
    }
    let fetched = client.fetch(&table.fetch([(0, 0), (1, 0)])).remove(1);
    let read = decode_batches(
        &fetched.records.expect("records"),
        table.schema(),
        LogFormat::Arrow,
    );
    assert!(read[0].1 == rows[0]);
    let fetched = client
        .fetch_one(&table.fetch_columns(1, 0, &[0]))
        .expect("readable");
    let read = decode_projected(&fetched.records.expect("records"), table.schema(), &[0]);
    assert_eq!(read, [(0, vec![Value::Int(7)]), (1, vec![Value::Int(7)])]);
}
