//! FetchLog (behaviour.md §9, wire.md §4.9, 6.5).

use std::time::{Duration, Instant};

use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{
    Client, Server, Table, ab, decode_batches, decode_projected, log_table, offsets,
};
use mainstem_types::{LogFormat, TypeKind};

use crate::support::{assert_all_right, quick, server_with_table};

/// A bucket with batches at 0..3, 3..5 and 5..10, and an empty one.
fn filled() -> (Server, Client, Table) {
    let (server, mut client, table) = server_with_table(&quick(), 2);
    for range in [0..3, 3..5, 5..10] {
        client
            .append(&table, 0, &table.source().numbers(range))
            .expect("appended");
    }
    (server, client, table)
}

fn wait(
    mut request: pb::FetchLogRequest,
    min_bytes: Option<i32>,
    max_wait_ms: Option<i32>,
) -> pb::FetchLogRequest {
    request.min_bytes = min_bytes;
    request.max_wait_ms = max_wait_ms;
    request
}

/// Bounds of the batches of the first bucket, or its code.
fn read(client: &mut Client, request: &pb::FetchLogRequest) -> Result<Vec<(i64, i64)>, i32> {
    client
        .fetch_one(request)
        .map(|entry| offsets(&entry.records.expect("records")))
}

const ALL: [(i64, i64); 3] = [(0, 3), (3, 5), (5, 10)];

#[test]
fn reading_begins_with_the_batch_that_holds_the_offset() {
    let (_server, mut client, table) = filled();
    let cases: &[(&str, i64, Result<&[(i64, i64)], i32>)] = &[
        ("from 0", 0, Ok(&ALL)),
        ("from -2, the earliest", -2, Ok(&ALL)),
        ("inside of the first batch", 2, Ok(&ALL)),
        ("the second batch", 3, Ok(&ALL[1..])),
        ("inside of the last batch", 9, Ok(&ALL[2..])),
        ("the end", 10, Ok(&[])),
        ("-1", -1, Err(19)),
        ("-9", -9, Err(19)),
        ("the smallest number", i64::MIN, Err(19)),
        ("behind the end", 11, Err(19)),
        ("the largest number", i64::MAX, Err(19)),
    ];
    let mut wrong = Vec::new();
    for (sentence, offset, expected) in cases {
        // An answer that would wait shows as a slow one.
        let request = match expected {
            Err(_) => wait(table.fetch([(0, *offset)]), Some(1), Some(60_000)),
            Ok(_) => table.fetch([(0, *offset)]),
        };
        let got = read(&mut client, &request);
        if got.as_deref().map_err(|code| *code) != *expected {
            wrong.push(format!("{sentence}: {got:?} instead of {expected:?}"));
        }
    }
    let entry = client.fetch_one(&table.fetch([(0, 0)])).expect("a success");
    assert_eq!(
        (entry.high_watermark, entry.log_start_offset),
        (Some(10), Some(0))
    );
    let rows = decode_batches(
        &entry.records.expect("records"),
        table.schema(),
        LogFormat::Arrow,
    );
    assert_eq!(
        rows.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
    assert_all_right(&wrong);
}

#[test]
fn the_message_of_an_offset_out_of_range_tells_the_range() {
    let (_server, mut client, table) = filled();
    let entry = client.fetch(&table.fetch([(0, 11)])).remove(0);
    let message = entry.error_message.expect("a text");
    assert!(
        message.contains("11") && message.contains("10"),
        "{message}"
    );
}

#[test]
fn buckets_that_do_not_exist_are_21_at_once() {
    let (_server, mut client, table) = filled();
    let unknown = Table {
        id: 99_999,
        ..table.clone()
    };
    let parted =
        log_table(&[("a", TypeKind::Int), ("p", TypeKind::String)], 1).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    for (sentence, request) in [
        ("an unknown table", unknown.fetch([(0, 0)])),
        ("an unknown bucket", table.fetch([(7, 0)])),
        (
            "a partitioned table without a partition",
            parted.fetch([(0, 0)]),
        ),
        ("an unknown partition", parted.fetch_of([(Some(9), 0, 0)])),
        (
            "the partition of a plain table",
            table.fetch_of([(Some(9), 0, 0)]),
        ),
    ] {
        let begin = Instant::now();
        let got = read(&mut client, &wait(request, Some(1), Some(60_000)));
        assert_eq!(got, Err(21), "{sentence}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{sentence}");
    }
}

#[test]
fn at_the_end_an_answer_waits_only_if_it_is_asked_to() {
    let (_server, mut client, table) = filled();
    let cases = [
        ("no min_bytes", None, None, 0),
        ("only max_wait_ms", None, Some(60_000), 0),
        ("min_bytes 0", Some(0), Some(60_000), 0),
        ("max_wait_ms 0", Some(1), Some(0), 0),
        ("max_wait_ms -1", Some(1), Some(-1), 0),
        ("min_bytes 1, wait 300", Some(1), Some(300), 300),
        ("min_bytes 1 only", Some(1), None, 100),
    ];
    for (sentence, min_bytes, max_wait_ms, expected_ms) in cases {
        let begin = Instant::now();
        let got = read(
            &mut client,
            &wait(table.fetch([(0, 10)]), min_bytes, max_wait_ms),
        );
        let taken = begin.elapsed();
        assert_eq!(got, Ok(vec![]), "{sentence}");
        let expected = Duration::from_millis(expected_ms);
        assert!(taken >= expected, "{sentence}: after {taken:?}");
        assert!(
            taken < expected + Duration::from_secs(5),
            "{sentence}: after {taken:?}"
        );
    }
}

#[test]
fn limits_leave_room_for_one_batch() {
    let (_server, mut client, table) = filled();
    let request = |all: i32, bucket: i32| {
        let mut request = table.fetch([(0, 0)]);
        request.max_bytes = Some(all);
        request.tables_req[0].buckets_req[0].max_fetch_bytes = Some(bucket);
        request
    };
    let first = table.source().numbers(0..3).len() as i32;
    let second = table.source().numbers(3..5).len() as i32;
    let cases: &[(&str, i32, i32, Result<&[(i64, i64)], i32>)] = &[
        ("max_bytes 0", 0, 1 << 20, Ok(&ALL[..1])),
        ("max_bytes 1", 1, 1 << 20, Ok(&ALL[..1])),
        ("bucket bytes 0", 1 << 20, 0, Ok(&ALL[..1])),
        ("bucket bytes 1", 1 << 20, 1, Ok(&ALL[..1])),
        ("bucket bytes -1", 1 << 20, -1, Ok(&ALL[..1])),
        ("room for one batch", first, 1 << 20, Ok(&ALL[..1])),
        (
            "room for two batches",
            first + second,
            1 << 20,
            Ok(&ALL[..2]),
        ),
        ("one byte less", first + second - 1, 1 << 20, Ok(&ALL[..1])),
        (
            "room for two batches of the bucket",
            1 << 20,
            first + second,
            Ok(&ALL[..2]),
        ),
        ("max_bytes -1", -1, 1 << 20, Err(-1)),
    ];
    for (sentence, all, bucket, expected) in cases {
        let got = read(&mut client, &request(*all, *bucket));
        assert_eq!(
            got.as_deref().map_err(|code| *code),
            *expected,
            "{sentence}"
        );
    }
}

#[test]
fn the_budget_goes_to_the_buckets_in_their_order() {
    let (_server, mut client, table) = filled();
    client
        .append(&table, 1, &table.source().numbers(0..3))
        .expect("appended");
    let mut request = table.fetch([(1, 3), (0, 3), (1, 0)]);
    request.max_bytes = Some(1);
    let read: Vec<_> = client
        .fetch(&request)
        .into_iter()
        .map(|entry| (entry.bucket_id, offsets(&entry.records.expect("records"))))
        .collect();
    // The first that is not empty gives one batch, the others nothing.
    assert_eq!(
        read,
        [
            (Some(1), vec![]),
            (Some(0), vec![(3, 5)]),
            (Some(1), vec![])
        ]
    );
}

#[test]
fn only_followers_of_the_bucket_fetch_as_followers() {
    let (_server, mut client, table) = filled();
    for follower in [0, 5, i32::MAX] {
        let request = pb::FetchLogRequest {
            follower_server_id: Some(follower),
            ..wait(table.fetch([(0, 0)]), Some(1), Some(60_000))
        };
        assert_eq!(read(&mut client, &request), Err(12), "follower {follower}");
    }
}

#[test]
fn no_tables_is_an_empty_success() {
    let (_server, mut client, table) = filled();
    let mut request = wait(table.fetch([]), Some(1), Some(60_000));
    let answer: pb::FetchLogResponse = client.call(ApiKey::FetchLog, &request);
    assert_eq!(answer.tables_resp.len(), 1);
    request.tables_req.clear();
    let answer: pb::FetchLogResponse = client.call(ApiKey::FetchLog, &request);
    assert!(answer.tables_resp.is_empty());
}

/// Known failure B038.
#[test]
fn a_projection_is_ascending_without_repeats_and_in_range() {
    let (_server, mut client, table) = filled();
    let cases: &[(&[i32], i64, Result<&[(i64, i64)], i32>)] = &[
        (&[0], 0, Ok(&ALL)),
        (&[1], 0, Ok(&ALL)),
        (&[0, 1], 0, Ok(&ALL)),
        (&[1, 0], 0, Err(34)),
        (&[0, 0], 0, Err(34)),
        (&[2], 0, Err(34)),
        (&[0, 5], 0, Err(34)),
        (&[-1], 0, Err(34)),
        (&[], 0, Err(34)),
        (&[9], 10, Ok(&[])),
    ];
    let mut wrong = Vec::new();
    for (columns, offset, expected) in cases {
        let got = read(&mut client, &table.fetch_columns(0, *offset, columns));
        if got.as_deref().map_err(|code| *code) != *expected {
            wrong.push(format!(
                "{columns:?} from {offset}: {got:?} instead of {expected:?}"
            ));
        }
    }
    assert_all_right(&wrong);
    let mut off = table.fetch_columns(0, 0, &[9]);
    off.tables_req[0].projection_pushdown_enabled = Some(false);
    assert_eq!(
        read(&mut client, &off),
        Ok(ALL.to_vec()),
        "the flag is false"
    );
}

#[test]
fn projected_records_hold_the_columns_asked_for() {
    let (_server, mut client, table) = filled();
    let whole = client.fetch_one(&table.fetch([(0, 0)])).expect("readable");
    let whole = decode_batches(
        &whole.records.expect("records"),
        table.schema(),
        LogFormat::Arrow,
    );
    for columns in [vec![0], vec![1], vec![0, 1]] {
        let positions: Vec<i32> = columns.iter().map(|at| *at as i32).collect();
        let entry = client
            .fetch_one(&table.fetch_columns(0, 0, &positions))
            .expect("readable");
        let rows = decode_projected(&entry.records.expect("records"), table.schema(), &columns);
        let expected: Vec<_> = whole
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
        assert_eq!(rows, expected, "{columns:?}");
    }
}

/// Known failure R07.
#[test]
fn the_first_batch_is_returned_even_if_its_projection_is_larger_than_the_limit() {
    let (_server, mut client, table) = filled();
    for (all, bucket) in [(1, 1 << 20), (1 << 20, 1), (0, 0)] {
        let mut request = table.fetch_columns(0, 0, &[0, 1]);
        request.max_bytes = Some(all);
        request.tables_req[0].buckets_req[0].max_fetch_bytes = Some(bucket);
        for offset in [0, 3, 5] {
            request.tables_req[0].buckets_req[0].fetch_offset = Some(offset);
            let got = read(&mut client, &request).expect("readable");
            assert_eq!(got.len(), 1, "limits {all}, {bucket} from {offset}");
            assert_eq!(got[0].0, offset);
        }
    }
}

#[test]
fn row_formats_cannot_be_projected() {
    let server = quick().start();
    let mut client = server.client();
    for format in ["INDEXED", "COMPACTED"] {
        let name = format!("fluss.{}", format.to_lowercase());
        let table = client.create_table(&name, &ab(1).with_property("table.log.format", format));
        for columns in [&[0][..], &[0, 1], &[9], &[]] {
            let got = read(&mut client, &table.fetch_columns(0, 0, columns));
            assert_eq!(got, Err(34), "{format} {columns:?}");
        }
    }
}

#[test]
fn predicates_that_say_nothing_do_not_filter() {
    let (_server, mut client, table) = filled();
    let with = |predicate: Option<pb::PbPredicate>, schema_id: Option<i32>| {
        let mut request = table.fetch([(0, 0)]);
        request.tables_req[0].filter_predicate = predicate;
        request.tables_req[0].filter_schema_id = schema_id;
        request
    };
    let leaf = |function, field_id| pb::PbPredicate {
        r#type: Some(0),
        leaf: Some(pb::PbLeafPredicate {
            function: Some(function),
            field_id: Some(field_id),
            literals: vec![pb::PbLiteralValue {
                literal_type: Some(3),
                is_null: Some(false),
                int_value: Some(1_000),
                ..pb::PbLiteralValue::default()
            }],
        }),
        compound: None,
    };
    let kind = |r#type| pb::PbPredicate {
        r#type: Some(r#type),
        ..pb::PbPredicate::default()
    };
    for (sentence, request) in [
        ("leaf type without leaf", with(Some(kind(0)), Some(1))),
        (
            "compound type without compound",
            with(Some(kind(1)), Some(1)),
        ),
        ("an unknown type", with(Some(kind(7)), Some(1))),
        ("an unknown function", with(Some(leaf(99, 0)), Some(1))),
        ("an unknown field", with(Some(leaf(0, 77)), Some(1))),
        ("an unknown schema", with(Some(leaf(0, 0)), Some(55))),
        ("a schema id without predicate", with(None, Some(1))),
        (
            "batches without statistics",
            with(Some(leaf(0, 0)), Some(1)),
        ),
    ] {
        assert_eq!(read(&mut client, &request), Ok(ALL.to_vec()), "{sentence}");
    }
    for (sentence, request) in [
        (
            "a predicate without schema id",
            with(Some(leaf(0, 0)), None),
        ),
        (
            "a predicate with schema id -1",
            with(Some(leaf(0, 0)), Some(-1)),
        ),
    ] {
        assert_eq!(client.code(ApiKey::FetchLog, &request), -1, "{sentence}");
    }
    // A predicate without its required type is no message.
    let mut empty = table.fetch([(0, 0)]);
    empty.tables_req[0].filter_predicate = Some(pb::PbPredicate::default());
    empty.tables_req[0].filter_schema_id = Some(1);
    assert_eq!(client.code(ApiKey::FetchLog, &empty), 2);
}

/// wire.md §6.4.
#[test]
fn a_wrong_bucket_count_is_74_for_its_bucket_only() {
    let (_server, mut client, table) = filled();
    let mut request = table.fetch([(0, 0), (1, 0), (0, 0)]);
    for (entry, count) in request.tables_req[0].buckets_req.iter_mut().zip([3, 2, 0]) {
        entry.routing_bucket_count = Some(count);
    }
    let codes: Vec<_> = client
        .fetch(&request)
        .iter()
        .map(|entry| entry.error_code)
        .collect();
    assert_eq!(codes, [Some(74), None, None]);
    let records = table.source().numbers([1]);
    let mut produce = table.produce([(None, 0, &records[..]), (None, 1, &records[..])]);
    produce.buckets_req[0].routing_bucket_count = Some(3);
    produce.buckets_req[1].routing_bucket_count = Some(2);
    let codes: Vec<_> = client
        .produce(&produce)
        .iter()
        .map(|entry| entry.error_code)
        .collect();
    assert_eq!(codes, [Some(74), None]);
    assert_eq!(client.end(&table, 0), 10);
}

/// A frame holds 2 GiB at most: a client that allows as much must not be refused
/// as soon as there is more.
#[test]
fn an_answer_is_bounded_whatever_the_client_allows() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let text = "x".repeat(4 << 20);
    let batch = table
        .source()
        .arrow(&[vec![Value::Int(1), text.as_str().into()]]);
    for _ in 0..5 {
        client.append(&table, 0, &batch).expect("appended");
    }
    // 2.2 GB altogether.
    let mut request = table.fetch(std::iter::repeat_n((0, 0), 110));
    request.max_bytes = Some(i32::MAX);
    for bucket in &mut request.tables_req[0].buckets_req {
        bucket.max_fetch_bytes = Some(i32::MAX);
    }
    let entries = client.fetch(&request);
    assert!(entries.iter().all(|entry| entry.error_code.is_none()));
    let bytes: usize = entries
        .iter()
        .flat_map(|entry| &entry.records)
        .map(|records| records.len())
        .sum();
    assert!((5 * batch.len()..=128 << 20).contains(&bytes), "{bytes}");
}
