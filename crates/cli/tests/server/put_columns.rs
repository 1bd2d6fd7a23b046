//! PutKv: target columns, modes, deletes and numbered columns (behaviour.md §10,
//! tables.md §4.2–4.9).

use mainstem_format::Value;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, PutBytes, Table, keyed_ab, keyed_table};
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};

use crate::support::{Outcome, assert_all_right, brief, changes, server_with};

/// `k INT` (the key), `b INT`, `c INT`.
fn kbc() -> TableDescriptor {
    let columns = [
        ("k", TypeKind::Int),
        ("b", TypeKind::Int),
        ("c", TypeKind::Int),
    ];
    keyed_table(&columns, &["k"], 1)
}

fn not_null(kind: TypeKind) -> DataType {
    DataType {
        nullable: false,
        ..DataType::nullable(kind)
    }
}

fn row(values: [Option<i32>; 3]) -> Vec<Value<'static>> {
    values
        .map(|value| value.map_or(Value::Null, Value::Int))
        .to_vec()
}

fn put(client: &mut Client, table: &Table, columns: &[i32], records: &PutBytes) -> Outcome {
    let request = pb::PutKvRequest {
        target_columns: columns.to_vec(),
        ..table.put([(None, 0, &records[..])])
    };
    client.put_one(&request)
}

fn put_in_mode(client: &mut Client, table: &Table, mode: i32, records: &PutBytes) -> Outcome {
    let request = pb::PutKvRequest {
        agg_mode: Some(mode),
        ..table.put([(None, 0, &records[..])])
    };
    client.put_one(&request)
}

/// Puts new rows of three columns into the named ones; offsets taken, or the code.
fn check_columns(client: &mut Client, table: &Table, cases: &[(&str, Vec<i32>, Outcome)]) {
    let mut wrong = Vec::new();
    for (at, (sentence, columns, expected)) in (100..).zip(cases) {
        let before = client.end(table, 0);
        let records = table.puts().rows(&[row([Some(at), Some(1), Some(2)])]);
        let got = put(client, table, columns, &records).map(|end| end - before);
        let taken = client.end(table, 0) - before;
        if got != *expected || taken != expected.unwrap_or(0) {
            wrong.push(format!(
                "{sentence}: {got:?} instead of {expected:?}, {taken} taken"
            ));
        }
    }
    assert_all_right(&wrong);
}

#[test]
fn target_columns_have_to_be_columns_and_hold_the_key() {
    let (_server, mut client, table) = server_with(&kbc());
    check_columns(
        &mut client,
        &table,
        &[
            ("all, by no list", vec![], Ok(1)),
            ("all, by a list", vec![0, 1, 2], Ok(1)),
            ("some", vec![0, 2], Ok(1)),
            ("in another order", vec![1, 0], Ok(1)),
            ("one of them twice", vec![0, 0, 1], Ok(1)),
            ("the key alone", vec![0], Ok(1)),
            ("without the key", vec![1], Err(35)),
            ("a position behind the last", vec![0, 9], Err(35)),
            ("the largest position", vec![0, i32::MAX], Err(35)),
            ("a negative position", vec![-1], Err(35)),
            ("a negative one and the key", vec![0, -1], Err(35)),
        ],
    );
}

/// Known failure B055.
#[test]
fn other_columns_keep_what_they_hold_and_are_null_at_first() {
    let (_server, mut client, table) = server_with(&kbc());
    let all = |b, c| table.puts().rows(&[row([Some(1), Some(b), Some(c)])]);
    let key = row([Some(1), None, None]);
    assert_eq!(put(&mut client, &table, &[0, 1], &all(5, 6)), Ok(1));
    assert_eq!(
        client.row(&table, &key),
        Some(row([Some(1), Some(5), None]))
    );
    assert_eq!(put(&mut client, &table, &[2, 0], &all(7, 8)), Ok(3));
    assert_eq!(
        client.row(&table, &key),
        Some(row([Some(1), Some(5), Some(8)]))
    );
    // The key alone of a row that is there changes nothing.
    assert_eq!(put(&mut client, &table, &[0], &all(9, 9)), Ok(4));
    assert_eq!(
        client.row(&table, &key),
        Some(row([Some(1), Some(5), Some(8)]))
    );
    // A delete takes the columns that it names.
    let delete = table.puts().deletes(std::slice::from_ref(&key));
    assert_eq!(put(&mut client, &table, &[0, 1], &delete), Ok(6));
    assert_eq!(
        client.row(&table, &key),
        Some(row([Some(1), None, Some(8)]))
    );
    assert_eq!(put(&mut client, &table, &[0, 2], &delete), Ok(7));
    assert_eq!(client.row(&table, &key), None);
    let log = changes(&mut client, &table, 0, 0);
    let rows: Vec<_> = log
        .iter()
        .map(|(offset, change_type, row)| (*offset, *change_type, row.clone()))
        .collect();
    assert_eq!(
        rows,
        [
            (0, 1, row([Some(1), Some(5), None])),
            (1, 2, row([Some(1), Some(5), None])),
            (2, 3, row([Some(1), Some(5), Some(8)])),
            (4, 2, row([Some(1), Some(5), Some(8)])),
            (5, 3, row([Some(1), None, Some(8)])),
            (6, 4, row([Some(1), None, Some(8)])),
        ]
    );
}

#[test]
fn a_not_null_column_has_to_be_written_with_all_others() {
    let schema = Schema::builder()
        .columns([
            ("k", not_null(TypeKind::Int)),
            ("b", not_null(TypeKind::Int)),
            ("c", DataType::nullable(TypeKind::Int)),
        ])
        .primary_key(["k"])
        .build()
        .expect("a schema");
    let (_server, mut client, table) = server_with(&TableDescriptor::new(schema));
    check_columns(
        &mut client,
        &table,
        &[
            ("partial, with it", vec![0, 1], Err(35)),
            ("partial, without it", vec![0, 2], Err(35)),
            ("all, by a list", vec![0, 1, 2], Ok(1)),
            ("all, by no list", vec![], Ok(1)),
        ],
    );
}

/// Known failure B188.
#[test]
fn first_row_and_versioned_tables_take_no_target_columns() {
    let versioned = [
        ("table.merge-engine", "versioned"),
        ("table.merge-engine.versioned.ver-column", "c"),
    ];
    for options in [&[("table.merge-engine", "first_row")][..], &versioned[..]] {
        let descriptor = options.iter().fold(kbc(), |table, (key, value)| {
            table.with_property(*key, *value)
        });
        let (_server, mut client, table) = server_with(&descriptor);
        check_columns(
            &mut client,
            &table,
            &[
                ("a part", vec![0, 1], Err(35)),
                ("all, by a list", vec![0, 1, 2], Err(35)),
                ("all, by no list", vec![], Ok(1)),
            ],
        );
    }
}

/// Known failures B026 and B071.
#[test]
fn first_rows_stay_and_older_versions_change_nothing() {
    let first = kbc().with_property("table.merge-engine", "first_row");
    let (server, mut client, table) = server_with(&first);
    let of = |c: Option<i32>| row([Some(1), Some(0), c]);
    let put = |client: &mut Client, table: &Table, c| {
        client.put_records(table, 0, &table.puts().rows(&[of(c)]))
    };
    assert_eq!(put(&mut client, &table, Some(1)), Ok(1));
    assert_eq!(
        put(&mut client, &table, Some(2)),
        Ok(2),
        "one offset without a record"
    );
    assert_eq!(client.row(&table, &of(None)), Some(of(Some(1))));
    let versioned = kbc()
        .with_property("table.merge-engine", "versioned")
        .with_property("table.merge-engine.versioned.ver-column", "c");
    let table = client.create_table("fluss.versioned", &versioned);
    let steps = [
        (None, 1, None),
        (None, 3, None),
        (Some(i32::MIN), 5, Some(i32::MIN)),
        (None, 7, None),
        (Some(5), 9, Some(5)),
        (Some(4), 10, Some(5)),
        (Some(5), 12, Some(5)),
        (None, 13, Some(5)),
    ];
    for (version, end, stored) in steps {
        assert_eq!(
            put(&mut client, &table, version),
            Ok(end),
            "version {version:?}"
        );
        assert_eq!(client.row(&table, &of(None)), Some(of(stored)));
    }
    // Their deletes are ignored, as the server has written into the table.
    let delete = table.puts().deletes(&[of(None)]);
    assert_eq!(client.put_records(&table, 0, &delete), Ok(14));
    assert!(client.row(&table, &of(None)).is_some());
    drop(server);
}

fn summing() -> TableDescriptor {
    let schema = Schema::builder()
        .column("k", not_null(TypeKind::Int))
        .column("b", DataType::nullable(TypeKind::Int))
        .aggregate(mainstem_types::AggFunction::new("sum"))
        .column("c", DataType::nullable(TypeKind::Int))
        .aggregate(mainstem_types::AggFunction::new("max"))
        .primary_key(["k"])
        .build()
        .expect("a schema");
    TableDescriptor::new(schema).with_property("table.merge-engine", "aggregation")
}

#[test]
fn aggregates_are_merged_in_part_or_overwritten() {
    let (_server, mut client, table) = server_with(&summing());
    let of = |b, c| row([Some(1), Some(b), Some(c)]);
    let records = |b, c| table.puts().rows(&[of(b, c)]);
    assert_eq!(
        put(&mut client, &table, &[1], &records(1, 1)),
        Err(35),
        "without the key"
    );
    assert_eq!(put(&mut client, &table, &[], &records(1, 5)), Ok(1));
    assert_eq!(put(&mut client, &table, &[], &records(2, 4)), Ok(3));
    assert_eq!(client.row(&table, &of(0, 0)), Some(of(3, 5)));
    assert_eq!(put(&mut client, &table, &[0, 1], &records(10, 99)), Ok(5));
    assert_eq!(client.row(&table, &of(0, 0)), Some(of(13, 5)));
    // What the reference does not know is its default.
    for (mode, end, b) in [(2, 7, 14), (-1, 9, 15), (0, 11, 16)] {
        assert_eq!(
            put_in_mode(&mut client, &table, mode, &records(1, 1)),
            Ok(end),
            "mode {mode}"
        );
        assert_eq!(client.row(&table, &of(0, 0)), Some(of(b, 5)), "mode {mode}");
    }
    assert_eq!(put_in_mode(&mut client, &table, 1, &records(1, 1)), Ok(13));
    assert_eq!(client.row(&table, &of(0, 0)), Some(of(1, 1)));
    // Deletes are ignored unless the table says otherwise; overwriting asks nobody.
    let delete = table.puts().deletes(&[of(0, 0)]);
    assert_eq!(put(&mut client, &table, &[], &delete), Ok(14));
    assert!(client.row(&table, &of(0, 0)).is_some());
    assert_eq!(put_in_mode(&mut client, &table, 1, &delete), Ok(15));
    assert_eq!(client.row(&table, &of(0, 0)), None);
}

#[test]
fn an_overflowing_sum_wraps_as_the_reference_does() {
    let (_server, mut client, table) = server_with(&summing());
    let of = |b| row([Some(1), Some(b), None]);
    for (b, end) in [(i32::MAX, 1), (1, 3)] {
        assert_eq!(
            client.put_records(&table, 0, &table.puts().rows(&[of(b)])),
            Ok(end)
        );
    }
    assert_eq!(client.row(&table, &of(0)), Some(of(i32::MIN)));
}

#[test]
fn overwriting_a_plain_table_is_a_put() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    for (mode, end) in [(1, 1), (2, 3), (-1, 5)] {
        let records = table.puts().numbers([1]);
        assert_eq!(put_in_mode(&mut client, &table, mode, &records), Ok(end));
    }
}

/// Known failure B072.
#[test]
fn deletes_are_allowed_ignored_or_refused_as_the_table_says() {
    let key = vec![Value::Int(1), Value::Null];
    for (behavior, existing, missing) in [
        (None, Ok(2), Ok(1)),
        (Some("allow"), Ok(2), Ok(1)),
        (Some("ignore"), Ok(2), Ok(1)),
        (Some("disable"), Err(57), Err(57)),
    ] {
        let mut descriptor = keyed_ab(2);
        if let Some(behavior) = behavior {
            descriptor = descriptor.with_property("table.delete.behavior", behavior);
        }
        let (_server, mut client, table) = server_with(&descriptor);
        let delete = table.puts().deletes(std::slice::from_ref(&key));
        assert_eq!(
            client.put_records(&table, 1, &delete),
            missing,
            "{behavior:?}"
        );
        assert_eq!(
            client.put_records(&table, 0, &table.puts().numbers([1])),
            Ok(1)
        );
        assert_eq!(
            client.put_records(&table, 0, &delete),
            existing,
            "{behavior:?}"
        );
        let stays = matches!(behavior, Some("ignore" | "disable"));
        assert_eq!(client.row(&table, &key).is_some(), stays, "{behavior:?}");
        let expected: &[_] = match stays {
            true => &[("+I", Value::from("row 1"))],
            false => &[("+I", Value::from("row 1")), ("-D", Value::from("row 1"))],
        };
        assert_eq!(
            brief(&changes(&mut client, &table, 0, 0)),
            expected,
            "{behavior:?}"
        );
        // In a batch with others it takes them along.
        let (kept, gone) = (table.puts().key(&[Value::Int(2)]), table.puts().key(&key));
        let value = table.puts().row(&[Value::Int(2), Value::from("new")]);
        let mixed = table
            .puts()
            .records([(&kept[..], Some(&value[..])), (&gone[..], None)]);
        let refused = client.put_records(&table, 0, &mixed) == Err(57);
        assert_eq!(refused, behavior == Some("disable"));
        let stored = client.row(&table, &[Value::Int(2)]).is_some();
        assert_eq!(stored, !refused, "{behavior:?}");
        // Who overwrites may delete.
        assert!(
            put_in_mode(&mut client, &table, 1, &delete).is_ok(),
            "{behavior:?}"
        );
        assert_eq!(client.row(&table, &key), None, "{behavior:?}");
    }
}

/// Known failures B073 and B074.
#[test]
fn the_changelog_says_what_the_image_promises() {
    let text = |text: &'static str| Value::from(text);
    let full = [
        ("+I", text("row 1")),
        ("-U", text("row 1")),
        ("+U", text("row 1")),
        ("-D", text("row 1")),
    ];
    let wal = [
        ("+U", text("row 1")),
        ("+U", text("row 1")),
        ("-D", text("row 1")),
    ];
    for (image, expected) in [("FULL", &full[..]), ("WAL", &wal[..])] {
        for format in ["ARROW", "INDEXED", "COMPACTED"] {
            let mut descriptor = keyed_ab(1)
                .with_property("table.changelog.image", image)
                .with_property("table.log.format", format);
            if format == "INDEXED" {
                descriptor = descriptor.with_property("table.kv.format", "INDEXED");
            }
            let (_server, mut client, table) = server_with(&descriptor);
            let one = table.puts().numbers([1]);
            client.put_records(&table, 0, &one).expect("a put");
            client.put_records(&table, 0, &one).expect("a put");
            let delete = table.puts().deletes(&[vec![Value::Int(1), Value::Null]]);
            client.put_records(&table, 0, &delete).expect("a delete");
            let log = changes(&mut client, &table, 0, 0);
            assert_eq!(brief(&log), expected, "{image} {format}");
            let offsets: Vec<i64> = log.iter().map(|(offset, ..)| *offset).collect();
            assert_eq!(offsets, (0..log.len() as i64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn deletes_of_a_wal_table_find_the_rows_of_their_own_batch_and_of_earlier_ones() {
    let descriptor = keyed_ab(1).with_property("table.changelog.image", "WAL");
    let (_server, mut client, table) = server_with(&descriptor);
    let puts = table.puts();
    let [one, two] = [1, 2].map(|key| puts.key(&[Value::Int(key)]));
    let row = puts.row(&[Value::Int(2), Value::from("new")]);
    client
        .put_records(&table, 0, &puts.numbers([1]))
        .expect("a put");
    let records = puts.records([
        (&two[..], Some(&row[..])),
        (&one[..], None),
        (&two[..], None),
        (&two[..], None),
    ]);
    client.put_records(&table, 0, &records).expect("a put");
    let expected = [
        ("+U", Value::from("row 1")),
        ("+U", Value::from("new")),
        ("-D", Value::from("row 1")),
        ("-D", Value::from("new")),
    ];
    assert_eq!(brief(&changes(&mut client, &table, 0, 0)), expected);
    assert_eq!(client.scan_all(&table, 0).0.len(), 0);
}

#[test]
fn the_server_alone_numbers_a_column() {
    let schema = Schema::builder()
        .columns([
            ("k", not_null(TypeKind::Int)),
            ("b", DataType::nullable(TypeKind::Int)),
            ("id", DataType::nullable(TypeKind::BigInt)),
        ])
        .primary_key(["k"])
        .auto_increment("id")
        .build()
        .expect("a schema");
    let (mut server, mut client, table) = server_with(&TableDescriptor::new(schema));
    let of = |k, b| vec![Value::Int(k), Value::Int(b), Value::Null];
    let records = |k, b| table.puts().rows(&[of(k, b)]);
    assert_eq!(
        put(&mut client, &table, &[], &records(1, 1)),
        Err(35),
        "no list"
    );
    assert_eq!(
        put(&mut client, &table, &[0, 1, 2], &records(1, 1)),
        Err(35),
        "in the list"
    );
    assert_eq!(put(&mut client, &table, &[0, 1], &records(1, 1)), Ok(1));
    assert_eq!(put(&mut client, &table, &[0, 1], &records(2, 1)), Ok(2));
    assert_eq!(put(&mut client, &table, &[0, 1], &records(1, 9)), Ok(4));
    let id = |client: &mut Client, k| client.row(&table, &of(k, 0)).expect("a row")[2].clone();
    assert_eq!(id(&mut client, 1), Value::BigInt(1));
    assert_eq!(id(&mut client, 2), Value::BigInt(2));
    server.crash();
    let mut client = server.client();
    assert_eq!(put(&mut client, &table, &[0, 1], &records(3, 1)), Ok(5));
    let Value::BigInt(next) = id(&mut client, 3) else {
        panic!("no number")
    };
    assert!(next > 2, "{next} was given before");
}
