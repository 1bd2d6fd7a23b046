//! Added columns: old and new batches, readers and projections (tables.md §2.3 to
//! 2.5, SE1 to SE11, PJ5 to PJ8; known failures B040, B110).

use bytes::Bytes;
use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Server, Table, decode_batches, decode_projected, log_table};
use mainstem_types::{DataType, LogFormat, TypeKind};

use crate::support::{quick, server_with_table};

fn add_column(name: &str, kind: TypeKind) -> pb::PbAddColumn {
    let json = DataType::nullable(kind).to_json();
    pb::PbAddColumn {
        column_name: Some(name.to_owned()),
        data_type_json: Some(serde_json::to_vec(&json).expect("JSON").into()),
        column_position_type: Some(0),
        ..pb::PbAddColumn::default()
    }
}

fn alter(client: &mut Client, table: &Table, columns: Vec<pb::PbAddColumn>) -> i32 {
    let request = pb::AlterTableRequest {
        table_path: Some(table.path()),
        ignore_if_not_exists: Some(false),
        add_columns: columns,
        ..pb::AlterTableRequest::default()
    };
    client.code(ApiKey::AlterTable, &request)
}

fn abc(numbers: std::ops::Range<i32>) -> Vec<Vec<Value<'static>>> {
    let row = |number: i32| {
        vec![
            Value::Int(number),
            Value::String(format!("row {number}").into()),
            Value::BigInt(i64::from(number) * 10),
        ]
    };
    numbers.map(row).collect()
}

/// Ten rows of `a, b`, then ten of `a, b, c`: the table before and after.
fn widened() -> (Server, Client, Table, Table) {
    let (server, mut client, narrow) = server_with_table(&quick(), 2);
    client
        .append(&narrow, 0, &narrow.source().numbers(0..4))
        .expect("appended");
    client
        .append(&narrow, 0, &narrow.source().numbers(4..10))
        .expect("appended");
    assert_eq!(
        alter(
            &mut client,
            &narrow,
            vec![add_column("c", TypeKind::BigInt)]
        ),
        0
    );
    let wide = client.table("fluss.t");
    assert_eq!((wide.schema_id, wide.schema().columns.len()), (2, 3));
    client
        .append(&wide, 0, &wide.source().arrow(&abc(10..20)))
        .expect("appended");
    (server, client, narrow, wide)
}

fn records(client: &mut Client, request: &pb::FetchLogRequest) -> Bytes {
    client
        .fetch_one(request)
        .expect("readable")
        .records
        .expect("records")
}

/// SE8.
#[test]
fn batches_are_returned_as_they_were_written_and_each_schema_can_be_asked_for() {
    let (_server, mut client, narrow, wide) = widened();
    let read = records(&mut client, &narrow.fetch([(0, 0)]));
    let ids: Vec<_> = mainstem_format::Batches::new(&read)
        .map(|batch| batch.expect("a batch").header().schema_id)
        .collect();
    assert_eq!(ids, [1, 1, 2]);
    for (id, columns) in [(1, 2), (2, 3)] {
        let request = pb::GetTableSchemaRequest {
            table_path: Some(wide.path()),
            schema_id: Some(id),
        };
        let answer: pb::GetTableSchemaResponse = client.call(ApiKey::GetTableSchema, &request);
        let json: serde_json::Value =
            serde_json::from_slice(&answer.schema_json.expect("a schema")).expect("JSON");
        assert_eq!(
            json["columns"].as_array().map(Vec::len),
            Some(columns),
            "schema {id}"
        );
    }
}

#[test]
fn writers_of_the_old_schema_go_on_beside_those_of_the_new_one() {
    let (_server, mut client, narrow, wide) = widened();
    assert_eq!(
        client.append(&narrow, 0, &narrow.source().numbers(20..22)),
        Ok(20)
    );
    assert_eq!(
        client.append(&wide, 0, &wide.source().arrow(&abc(22..23))),
        Ok(22)
    );
    // A schema that does not exist yet, and rows that are not of the one they name.
    let ahead = wide.source().with_schema_id(3).arrow(&abc(0..1));
    assert_eq!(client.append(&wide, 0, &ahead), Err(15));
    let too_wide = wide.source().with_schema_id(1).arrow(&abc(0..1));
    assert_eq!(client.append(&wide, 0, &too_wide), Err(15));
    assert_eq!(client.end(&wide, 0), 23);
}

/// PJ6, SE8, SE11: a reader of the new schema projects over old batches.
#[test]
fn a_column_that_an_old_batch_lacks_is_null_in_its_projection() {
    let (_server, mut client, _, wide) = widened();
    let all = abc(0..20);
    for columns in [
        vec![2],
        vec![0, 2],
        vec![1, 2],
        vec![0, 1, 2],
        vec![0],
        vec![1],
    ] {
        let positions: Vec<i32> = columns
            .iter()
            .map(|at| i32::try_from(*at).expect("small"))
            .collect();
        let read = records(&mut client, &wide.fetch_columns(0, 0, &positions));
        let rows = decode_projected(&read, wide.schema(), &columns);
        assert_eq!(rows.len(), 20, "{columns:?}");
        for (offset, row) in rows {
            let number = usize::try_from(offset).expect("in range");
            let expected: Vec<_> = columns
                .iter()
                .map(|at| {
                    if number < 10 && *at == 2 {
                        Value::Null
                    } else {
                        all[number][*at].clone()
                    }
                })
                .collect();
            assert_eq!(row, expected, "{columns:?} at {offset}");
        }
    }
}

/// PJ6 on a bucket without any new batch, and PJ5.
#[test]
fn an_added_column_can_be_projected_before_anything_is_written_to_it() {
    let (_server, mut client, narrow) = server_with_table(&quick(), 1);
    client
        .append(&narrow, 0, &narrow.source().numbers(0..3))
        .expect("appended");
    let out_of_range = client.fetch_one(&narrow.fetch_columns(0, 0, &[2]));
    assert_eq!(out_of_range, Err(34));
    let nested = TypeKind::Array(Box::new(DataType::nullable(TypeKind::String)));
    let columns = vec![add_column("c", TypeKind::String), add_column("d", nested)];
    assert_eq!(alter(&mut client, &narrow, columns), 0);
    let wide = client.table("fluss.t");
    let read = records(&mut client, &wide.fetch_columns(0, 0, &[0, 2, 3]));
    let rows = decode_projected(&read, wide.schema(), &[0, 2, 3]);
    let expected: Vec<_> = (0..3)
        .map(|at| (at, vec![Value::Int(at as i32), Value::Null, Value::Null]))
        .collect();
    assert_eq!(rows, expected);
    let read = records(&mut client, &wide.fetch_columns(0, 0, &[1]));
    assert_eq!(
        decode_projected(&read, wide.schema(), &[1])[2].1,
        [Value::from("row 2")]
    );
    assert_eq!(client.fetch_one(&wide.fetch_columns(0, 0, &[4])), Err(34));
}

/// PJ8.
#[test]
fn a_batch_without_records_is_passed_through_a_projection() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let empty = table
        .source()
        .numbers([1])
        .with_body(&[])
        .with_record_count(0)
        .with_last_offset_delta(0);
    client
        .append(&table, 0, &table.source().numbers([1]))
        .expect("appended");
    client.append(&table, 0, &empty).expect("appended");
    client
        .append(&table, 0, &table.source().numbers([2]))
        .expect("appended");
    let read = records(&mut client, &table.fetch_columns(0, 0, &[0]));
    assert_eq!(mainstem_testkit::offsets(&read), [(0, 1), (1, 2), (2, 3)]);
    let read = records(&mut client, &table.fetch_columns(0, 1, &[0]));
    assert_eq!(mainstem_testkit::offsets(&read), [(1, 2), (2, 3)]);
}

/// SE11.
#[test]
fn polling_from_the_middle_crosses_the_change() {
    let (_server, mut client, _, wide) = widened();
    let mut next = 1;
    let mut seen = Vec::new();
    while next < 20 {
        let mut request = wide.fetch_columns(0, next, &[0, 2]);
        request.tables_req[0].buckets_req[0].max_fetch_bytes = Some(1);
        let read = records(&mut client, &request);
        for (offset, row) in decode_projected(&read, wide.schema(), &[0, 2]) {
            if offset >= next {
                seen.push(row);
                next = offset + 1;
            }
        }
    }
    assert_eq!(seen.len(), 19);
    assert_eq!(seen[8], [Value::Int(9), Value::Null]);
    assert_eq!(seen[9], [Value::Int(10), Value::BigInt(100)]);
}

/// Known failure B040.
#[test]
fn a_limit_scan_reaches_over_the_change() {
    let (_server, mut client, _, wide) = widened();
    let request = pb::LimitScanRequest {
        table_id: Some(wide.id),
        bucket_id: Some(0),
        limit: Some(12),
        ..pb::LimitScanRequest::default()
    };
    let answer: pb::LimitScanResponse = client.call(ApiKey::LimitScan, &request);
    let read = answer.records.expect("records");
    assert_eq!(mainstem_testkit::offsets(&read), [(4, 10), (10, 20)]);
}

#[test]
fn a_filter_of_the_new_schema_keeps_batches_of_the_old_one_only_where_null_may_match() {
    let server = quick().start();
    let mut client = server.client();
    let descriptor = log_table(&[("a", TypeKind::Int), ("b", TypeKind::String)], 1)
        .with_property("table.statistics.columns", "*");
    let narrow = client.create_table("fluss.t", &descriptor);
    client
        .append(
            &narrow,
            0,
            &narrow.source().with_statistics(&[0, 1]).numbers(0..3),
        )
        .expect("appended");
    assert_eq!(
        alter(
            &mut client,
            &narrow,
            vec![add_column("c", TypeKind::BigInt)]
        ),
        0
    );
    let wide = client.table("fluss.t");
    let source = wide.source().with_statistics(&[0, 1, 2]);
    client
        .append(&wide, 0, &source.arrow(&abc(3..6)))
        .expect("appended");
    let fetch = |function: i32, field_id: i32, value: i64| {
        let mut request = wide.fetch([(0, 0)]);
        request.tables_req[0].filter_schema_id = Some(2);
        request.tables_req[0].filter_predicate = Some(pb::PbPredicate {
            r#type: Some(0),
            leaf: Some(pb::PbLeafPredicate {
                function: Some(function),
                field_id: Some(field_id),
                literals: vec![pb::PbLiteralValue {
                    literal_type: Some(if field_id == 2 { 4 } else { 3 }),
                    is_null: Some(false),
                    bigint_value: (field_id == 2).then_some(value),
                    int_value: (field_id == 0).then_some(i32::try_from(value).expect("small")),
                    ..pb::PbLiteralValue::default()
                }],
            }),
            compound: None,
        });
        request
    };
    let mut read = |function, field, value| {
        mainstem_testkit::offsets(&records(&mut client, &fetch(function, field, value)))
    };
    assert_eq!(read(0, 0, 1), [(0, 3)], "a = 1");
    assert_eq!(read(0, 0, 4), [(3, 6)], "a = 4");
    // Nothing that matches may be left out; the old batch may be kept.
    assert!(read(0, 2, 40).contains(&(3, 6)), "c = 40");
    assert!(!read(0, 2, 999).contains(&(3, 6)), "c = 999");
}

/// SE3 to SE5, and that a refused change changes nothing.
#[test]
fn changes_that_cannot_be_are_refused_whole() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let mut strict = add_column("c", TypeKind::Int);
    strict.data_type_json = Some(Bytes::from_static(
        b"{\"type\":\"INTEGER\",\"nullable\":false}",
    ));
    let mut first = add_column("c", TypeKind::Int);
    first.column_position_type = Some(1);
    let good = || add_column("c", TypeKind::Int);
    for (sentence, columns, expected) in [
        (
            "a column that exists",
            vec![add_column("a", TypeKind::Int)],
            56,
        ),
        ("one name twice", vec![good(), good()], 56),
        (
            "a good one and one that exists",
            vec![good(), add_column("b", TypeKind::Int)],
            56,
        ),
        ("NOT NULL", vec![strict], -1),
        ("at the front", vec![first], -1),
        ("no name", vec![add_column(" ", TypeKind::Int)], -1),
        (
            "a reserved name",
            vec![add_column("__offset", TypeKind::Int)],
            15,
        ),
    ] {
        assert_eq!(alter(&mut client, &table, columns), expected, "{sentence}");
        assert_eq!(client.table("fluss.t").schema_id, 1, "{sentence}");
    }
}

/// SE2.
#[test]
fn schemas_are_remembered_and_old_batches_readable_after_a_restart() {
    let (mut server, _, _, wide) = widened();
    server.crash();
    let mut client = server.client();
    let again = client.table("fluss.t");
    assert_eq!((again.schema_id, again.schema()), (2, wide.schema()));
    let read = records(&mut client, &wide.fetch_columns(0, 0, &[2]));
    let rows = decode_projected(&read, wide.schema(), &[2]);
    assert_eq!(
        (&rows[9].1[0], &rows[10].1[0]),
        (&Value::Null, &Value::BigInt(100))
    );
    assert_eq!(
        client.append(&wide, 0, &wide.source().arrow(&abc(20..21))),
        Ok(20)
    );
}

#[test]
fn a_column_added_while_readers_wait_is_known_to_the_next_fetch() {
    let (server, mut writer, narrow) = server_with_table(&quick(), 1);
    let mut reader = server.client();
    for number in 0..10 {
        let name = format!("c{number}");
        assert_eq!(
            alter(&mut writer, &narrow, vec![add_column(&name, TypeKind::Int)]),
            0
        );
        let table = writer.table("fluss.t");
        let width = table.schema().columns.len();
        let mut row = vec![Value::Int(number), Value::Null];
        row.resize(width, Value::Int(-number));
        writer
            .append(&table, 0, &table.source().arrow(&[row]))
            .expect("appended");
        let newest = i32::try_from(width - 1).expect("small");
        let read = records(
            &mut reader,
            &table.fetch_columns(0, number.into(), &[0, newest]),
        );
        let rows = decode_projected(&read, table.schema(), &[0, width - 1]);
        assert_eq!(
            rows,
            [(number.into(), vec![Value::Int(number), Value::Int(-number)])]
        );
    }
    let last = writer.table("fluss.t");
    let whole = records(&mut reader, &last.fetch_columns(0, 0, &[0]));
    assert_eq!(decode_projected(&whole, last.schema(), &[0]).len(), 10);
    let newest = records(&mut reader, &last.fetch([(0, 9)]));
    assert_eq!(
        decode_batches(&newest, last.schema(), LogFormat::Arrow).len(),
        1
    );
}
