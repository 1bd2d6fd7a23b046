//! Rows of a table whose columns become more, and rows of every type (tables.md
//! §2.1–2.4; known failures B056, B070, B133, B135).

use mainstem_format::{Timestamp, Value};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, PutBytes, Table, keyed_table, path};
use mainstem_types::{AggFunction, DataType, RowField, Schema, TableDescriptor, TypeKind};

use crate::support::{assert_all_right, changes, quick, server_with};

fn add_columns(client: &mut Client, table: &Table, names: &[&str]) -> Table {
    let json = DataType::nullable(TypeKind::Int).to_json();
    let column = |name: &&str| pb::PbAddColumn {
        column_name: Some((*name).to_owned()),
        data_type_json: Some(serde_json::to_vec(&json).expect("JSON").into()),
        column_position_type: Some(0),
        ..pb::PbAddColumn::default()
    };
    let request = pb::AlterTableRequest {
        table_path: Some(table.path()),
        ignore_if_not_exists: Some(false),
        add_columns: names.iter().map(column).collect(),
        ..pb::AlterTableRequest::default()
    };
    let _: pb::AlterTableResponse = client.call(ApiKey::AlterTable, &request);
    client.table(&table.name)
}

fn put(
    client: &mut Client,
    table: &Table,
    columns: &[i32],
    records: &PutBytes,
) -> Result<i64, i32> {
    let request = pb::PutKvRequest {
        target_columns: columns.to_vec(),
        ..table.put([(None, 0, &records[..])])
    };
    client.put_one(&request)
}

fn ints(values: &[i32]) -> Vec<Value<'static>> {
    values.iter().map(|value| Value::Int(*value)).collect()
}

fn with_null(values: &[Option<i32>]) -> Vec<Value<'static>> {
    let value = |value: &Option<i32>| value.map_or(Value::Null, Value::Int);
    values.iter().map(value).collect()
}

/// Known failure B056.
#[test]
fn old_rows_are_changed_in_part_by_writers_of_every_schema() {
    let columns = [("k", TypeKind::Int), ("b", TypeKind::Int)];
    let (mut server, mut client, first) = server_with(&keyed_table(&columns, &["k"], 1));
    let old: Vec<_> = (0..8).map(|key| ints(&[key, 10])).collect();
    assert_eq!(
        put(&mut client, &first, &[], &first.puts().rows(&old)),
        Ok(8)
    );
    let second = add_columns(&mut client, &first, &["c"]);
    let third = add_columns(&mut client, &second, &["d", "e"]);
    assert_eq!((second.schema_id, third.schema_id), (2, 3));
    let wide = |key, b, c, d, e| with_null(&[Some(key), b, c, d, e]);
    let row = |client: &mut Client, key| client.row(&third, &wide(key, None, None, None, None));
    // Untouched rows stay in the schema that they were written with.
    let value = client
        .look_up(&first, 0, &[first.puts().key(&old[0])])
        .expect("a lookup");
    assert_eq!(
        first.puts().decode(value[0].as_ref().expect("a row")),
        old[0]
    );
    // The newest writer, in part: what the old row had stays, the rest is null.
    let records = third.puts().rows(&[wide(1, Some(99), None, Some(7), None)]);
    assert_eq!(put(&mut client, &third, &[0, 3], &records), Ok(10));
    assert_eq!(
        row(&mut client, 1),
        Some(wide(1, Some(10), None, Some(7), None))
    );
    // A writer of the middle schema, whose rows lack the newest columns.
    let records = second.puts().rows(&[with_null(&[Some(2), None, Some(5)])]);
    assert_eq!(put(&mut client, &second, &[0, 2], &records), Ok(12));
    assert_eq!(
        row(&mut client, 2),
        Some(wide(2, Some(10), Some(5), None, None))
    );
    // The oldest writer of all its columns writes a part of the newest ones.
    let records = first.puts().rows(&[ints(&[2, 11])]);
    assert_eq!(put(&mut client, &first, &[0, 1], &records), Ok(14));
    assert_eq!(
        row(&mut client, 2),
        Some(wide(2, Some(11), Some(5), None, None))
    );
    // Deletes in part, of rows of the first schema.
    let delete = |table: &Table, key| {
        table
            .puts()
            .records([(&first.puts().key(&ints(&[key, 0]))[..], None)])
    };
    assert_eq!(
        put(&mut client, &third, &[0, 4], &delete(&third, 3)),
        Ok(16)
    );
    assert_eq!(
        row(&mut client, 3),
        Some(wide(3, Some(10), None, None, None))
    );
    assert_eq!(
        put(&mut client, &first, &[0, 1], &delete(&first, 4)),
        Ok(17)
    );
    assert_eq!(row_or_old(&mut client, &first, &third, 4), None);
    // The changelog of these is in the newest schema.
    let log = changes_of(&mut client, &third, 8);
    assert_eq!(
        log,
        [
            (2, wide(1, Some(10), None, None, None)),
            (3, wide(1, Some(10), None, Some(7), None)),
            (2, wide(2, Some(10), None, None, None)),
            (3, wide(2, Some(10), Some(5), None, None)),
            (2, wide(2, Some(10), Some(5), None, None)),
            (3, wide(2, Some(11), Some(5), None, None)),
            (2, wide(3, Some(10), None, None, None)),
            (3, wide(3, Some(10), None, None, None)),
            (4, wide(4, Some(10), None, None, None)),
        ]
    );
    server.crash();
    let mut client = server.client();
    for (key, expected) in [
        (1, wide(1, Some(10), None, Some(7), None)),
        (2, wide(2, Some(11), Some(5), None, None)),
        (3, wide(3, Some(10), None, None, None)),
    ] {
        assert_eq!(row(&mut client, key), Some(expected));
    }
    assert_eq!(row_or_old(&mut client, &first, &third, 4), None);
}

fn row_or_old(client: &mut Client, first: &Table, third: &Table, key: i32) -> Option<bytes::Bytes> {
    let key = [first.puts().key(&ints(&[key, 0]))];
    client.look_up(third, 0, &key).expect("a lookup").remove(0)
}

fn changes_of(client: &mut Client, table: &Table, from: i64) -> Vec<(u8, Vec<Value<'static>>)> {
    changes(client, table, 0, from)
        .into_iter()
        .map(|(_, change_type, row)| (change_type, row))
        .collect()
}

/// Known failures B133 and B135.
#[test]
fn rows_of_every_type_come_back_by_lookup_and_changelog() {
    let nested = |kind: TypeKind| Box::new(DataType::nullable(kind));
    let fields = vec![
        RowField::new("x", DataType::nullable(TypeKind::Int)),
        RowField::new(
            "y",
            DataType::nullable(TypeKind::Array(nested(TypeKind::String))),
        ),
    ];
    let map = TypeKind::Map {
        key: Box::new(DataType::not_null(TypeKind::String)),
        value: nested(TypeKind::BigInt),
    };
    let timestamp = |millis, nanos_of_milli| {
        Value::Timestamp(Timestamp {
            millis,
            nanos_of_milli,
        })
    };
    // Year 9999 and before 1970, to the nanosecond.
    let (late, early) = (253_402_300_799_999, -62_135_596_800_000);
    let long = Value::Array(
        (0..5_000)
            .map(|at| Value::String(format!("{at}").into()))
            .collect(),
    );
    let cases: Vec<(TypeKind, Vec<Value<'static>>)> = vec![
        (
            TypeKind::Boolean,
            vec![Value::Boolean(true), Value::Boolean(false)],
        ),
        (
            TypeKind::TinyInt,
            vec![Value::TinyInt(i8::MIN), Value::TinyInt(i8::MAX)],
        ),
        (
            TypeKind::SmallInt,
            vec![Value::SmallInt(i16::MIN), Value::SmallInt(i16::MAX)],
        ),
        (
            TypeKind::BigInt,
            vec![Value::BigInt(i64::MIN), Value::BigInt(i64::MAX)],
        ),
        (
            TypeKind::Float,
            vec![Value::Float(-0.0), Value::Float(f32::MAX)],
        ),
        (
            TypeKind::Double,
            vec![Value::Double(f64::MIN), Value::Double(0.1)],
        ),
        (
            TypeKind::String,
            vec![Value::from(""), Value::from("a\0ü𝄞")],
        ),
        (
            TypeKind::Bytes,
            vec![
                Value::Bytes(vec![].into()),
                Value::Bytes(vec![0, 255].into()),
            ],
        ),
        (
            TypeKind::Date,
            vec![Value::Date(-719_162), Value::Date(2_932_896)],
        ),
        (
            TypeKind::Time { precision: 3 },
            vec![Value::Time(0), Value::Time(86_399_999)],
        ),
        (
            TypeKind::Timestamp { precision: 3 },
            vec![timestamp(late, 0), timestamp(early, 0)],
        ),
        (
            TypeKind::Timestamp { precision: 6 },
            vec![timestamp(late, 999_000), timestamp(early, 1_000)],
        ),
        (
            // As far as Arrow's 64 bits of nanoseconds reach.
            TypeKind::TimestampLtz { precision: 9 },
            vec![
                timestamp(9_223_372_036_853, 999_999),
                timestamp(-9_223_372_036_853, 1),
            ],
        ),
        (
            TypeKind::Decimal {
                precision: 38,
                scale: 10,
            },
            vec![Value::Decimal(-(10_i128.pow(38) - 1)), Value::Decimal(1)],
        ),
        (
            TypeKind::Decimal {
                precision: 5,
                scale: 2,
            },
            vec![Value::Decimal(-99_999)],
        ),
        (TypeKind::Char { length: 3 }, vec![Value::from("äöü")]),
        (
            TypeKind::Binary { length: 2 },
            vec![Value::Bytes(vec![0, 1].into())],
        ),
        (
            TypeKind::Array(nested(TypeKind::String)),
            vec![long, Value::Array(vec![]), Value::Array(vec![Value::Null])],
        ),
        (
            TypeKind::Row(fields),
            vec![
                Value::Row(vec![
                    Value::Int(1),
                    Value::Array(vec![Value::Null, Value::from("z")]),
                ]),
                Value::Row(vec![Value::Null, Value::Null]),
            ],
        ),
        (
            map,
            vec![
                Value::Map(vec![
                    (Value::from("a"), Value::Null),
                    (Value::from("b"), Value::BigInt(2)),
                ]),
                Value::Map(vec![]),
            ],
        ),
    ];
    let server = quick().start();
    let mut client = server.client();
    for (at, (kind, values)) in cases.into_iter().enumerate() {
        for format in ["ARROW", "COMPACTED"] {
            let columns = [("k", TypeKind::Int), ("v", kind.clone())];
            let descriptor =
                keyed_table(&columns, &["k"], 1).with_property("table.log.format", format);
            let table = client.create_table(
                &format!("fluss.t{at}_{}", format.to_lowercase()),
                &descriptor,
            );
            let rows: Vec<Vec<Value<'static>>> = values
                .iter()
                .cloned()
                .chain([Value::Null])
                .enumerate()
                .map(|(key, value)| vec![Value::Int(i32::try_from(key).expect("small")), value])
                .collect();
            client
                .put_records(&table, 0, &table.puts().rows(&rows))
                .unwrap_or_else(|code| panic!("{kind:?}, {format}: {code}"));
            for row in &rows {
                assert_eq!(
                    client.row(&table, row).as_ref(),
                    Some(row),
                    "{kind:?}, {format}"
                );
            }
            let log: Vec<_> = changes_of(&mut client, &table, 0)
                .into_iter()
                .map(|(_, row)| row)
                .collect();
            assert_eq!(log, rows, "{kind:?}, {format}");
        }
    }
}

/// What the changelog cannot hold is refused, not stored as something else.
#[test]
fn a_time_beyond_the_nanoseconds_of_arrow_is_refused() {
    for (format, expected) in [("ARROW", Err(14)), ("COMPACTED", Ok(1))] {
        let columns = [
            ("k", TypeKind::Int),
            ("v", TypeKind::Timestamp { precision: 9 }),
        ];
        let descriptor = keyed_table(&columns, &["k"], 1).with_property("table.log.format", format);
        let (_server, mut client, table) = server_with(&descriptor);
        let year_9999 = Value::Timestamp(Timestamp {
            millis: 253_402_300_799_999,
            nanos_of_milli: 999_999,
        });
        let records = table.puts().rows(&[vec![Value::Int(1), year_9999]]);
        assert_eq!(
            client.put_records(&table, 0, &records),
            expected,
            "{format}"
        );
        assert_eq!(client.end(&table, 0), expected.unwrap_or(0));
    }
}

/// Known failure B070.
#[test]
fn options_that_do_not_fit_together_are_refused_at_create_by_name() {
    let columns = [("k", TypeKind::Int), ("v", TypeKind::String)];
    let plain = || keyed_table(&columns, &["k"], 1);
    let with = |properties: &[(&str, &str)]| {
        let add =
            |table: TableDescriptor, (key, value): &(&str, &str)| table.with_property(*key, *value);
        properties.iter().fold(plain(), add)
    };
    let summed = Schema::builder()
        .column("k", DataType::not_null(TypeKind::Int))
        .column("v", DataType::nullable(TypeKind::String))
        .aggregate(AggFunction::new("sum"))
        .primary_key(["k"])
        .build()
        .expect("a schema");
    let summed = TableDescriptor::new(summed);
    let engine = "table.merge-engine";
    let cases = [
        (
            "aggregation with a WAL image",
            with(&[(engine, "aggregation"), ("table.changelog.image", "WAL")]),
            "changelog",
        ),
        (
            "a sum of texts",
            summed.clone().with_property(engine, "aggregation"),
            "sum",
        ),
        ("a function without the engine", summed, "aggregat"),
        (
            "deletes of first rows",
            with(&[(engine, "first_row"), ("table.delete.behavior", "allow")]),
            "delete",
        ),
        (
            "versions of no column",
            with(&[(engine, "versioned")]),
            "ver",
        ),
        (
            "versions of a text",
            with(&[
                (engine, "versioned"),
                ("table.merge-engine.versioned.ver-column", "v"),
            ]),
            "v",
        ),
    ];
    let server = quick().start();
    let mut client = server.client();
    let mut wrong = Vec::new();
    for (sentence, descriptor, word) in cases {
        let request = pb::CreateTableRequest {
            table_path: Some(path("fluss.t")),
            table_json: Some(descriptor.to_json_bytes().into()),
            ignore_if_exists: Some(false),
        };
        let answer: Result<pb::CreateTableResponse, _> =
            client.try_call(ApiKey::CreateTable, &request);
        match answer {
            Err(refused) if refused.code == 39 && refused.message.contains(word) => {}
            other => wrong.push(format!("{sentence}: {other:?} lacks {word}")),
        }
    }
    assert_all_right(&wrong);
}
