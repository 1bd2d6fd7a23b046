//! ListOffsets, LimitScan and statistics of log tables (behaviour.md §12).

use std::time::{SystemTime, UNIX_EPOCH};

use mainstem_format::{Batches, Value};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Refused, Table, ab, decode_batches, log_table, offsets};
use mainstem_types::{LogFormat, TypeKind};

use crate::support::{assert_all_right, quick, server_with_table};

fn now_ms() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_millis()).expect("in range")
}

#[test]
fn offsets_are_found_by_type_and_time() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    client
        .append(&table, 0, &table.source().numbers(0..5))
        .expect("appended");
    let cases = [
        ("earliest", 0, 0, None, Ok(0)),
        ("latest", 0, 1, None, Ok(5)),
        ("latest of an empty log", 1, 1, None, Ok(0)),
        ("earliest of an empty log", 1, 0, None, Ok(0)),
        ("type -1", 0, -1, None, Err(-1)),
        ("type 4", 0, 4, None, Err(-1)),
        ("type 99", 0, 99, None, Err(-1)),
        ("by time without a time", 0, 2, None, Err(-1)),
        (
            "a time in the future",
            0,
            2,
            Some(now_ms() + 60_000),
            Err(38),
        ),
        ("the largest time", 0, 2, Some(i64::MAX), Err(38)),
        ("time 0", 0, 2, Some(0), Ok(0)),
        ("time -5", 0, 2, Some(-5), Ok(0)),
        ("the smallest time", 0, 2, Some(i64::MIN), Ok(0)),
        ("a time of an empty log", 1, 2, Some(0), Ok(0)),
        ("now, of an empty log", 1, 2, Some(now_ms()), Ok(0)),
        ("the end when this server became leader", 0, 3, None, Ok(0)),
        ("an unknown bucket", 7, 1, None, Err(21)),
        (
            "an unknown bucket before an unknown type",
            7,
            99,
            None,
            Err(21),
        ),
        ("bucket -1", -1, 1, None, Err(21)),
    ];
    let mut wrong = Vec::new();
    for (sentence, bucket, kind, time, expected) in cases {
        let got = client.offset(&table, None, bucket, kind, time);
        if got != expected {
            wrong.push(format!("{sentence}: {got:?} instead of {expected:?}"));
        }
    }
    let unknown = Table {
        id: 99_999,
        ..table.clone()
    };
    assert_eq!(client.offset(&unknown, None, 0, 1, None), Err(21));
    assert_eq!(client.offset(&table, Some(3), 0, 1, None), Err(21));
    assert_all_right(&wrong);
}

#[test]
fn a_time_after_the_newest_record_is_the_end() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    client
        .append(&table, 0, &table.source().numbers(0..5))
        .expect("appended");
    let appended = now_ms();
    mainstem_testkit::until("the clock to move", || {
        (now_ms() > appended + 1).then_some(())
    });
    assert_eq!(client.offset(&table, None, 0, 2, Some(appended + 1)), Ok(5));
}

fn list(
    client: &mut Client,
    request: &pb::ListOffsetsRequest,
) -> Result<Vec<(i32, Option<i64>)>, Refused> {
    let answer: pb::ListOffsetsResponse = client.try_call(ApiKey::ListOffsets, request)?;
    let entry =
        |entry: &pb::PbListOffsetsRespForBucket| (entry.bucket_id.expect("a bucket"), entry.offset);
    Ok(answer.buckets_resp.iter().map(entry).collect())
}

#[test]
fn buckets_may_be_listed_once_twice_or_not_at_all() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    client
        .append(&table, 1, &table.source().numbers([1]))
        .expect("appended");
    let request = |buckets: &[i32]| pb::ListOffsetsRequest {
        follower_server_id: Some(-1),
        offset_type: Some(1),
        table_id: Some(table.id),
        bucket_id: buckets.to_vec(),
        ..pb::ListOffsetsRequest::default()
    };
    assert_eq!(list(&mut client, &request(&[1, 1])), Ok(vec![(1, Some(1))]));
    assert_eq!(list(&mut client, &request(&[])), Ok(vec![]));
    let mixed = list(&mut client, &request(&[1, 7, 0])).expect("a success");
    assert_eq!(mixed, [(1, Some(1)), (7, None), (0, Some(0))]);
    // A follower need not be one of the replicas.
    let follower = pb::ListOffsetsRequest {
        follower_server_id: Some(9),
        ..request(&[1])
    };
    assert_eq!(list(&mut client, &follower), Ok(vec![(1, Some(1))]));
    let follower = pb::ListOffsetsRequest {
        offset_type: Some(3),
        ..follower
    };
    assert_eq!(list(&mut client, &follower), Ok(vec![(1, Some(0))]));
}

/// wire.md §6.4.
#[test]
fn a_wrong_bucket_count_is_74_for_all_of_list_offsets_and_limit_scan() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    let list = |count| pb::ListOffsetsRequest {
        follower_server_id: Some(-1),
        offset_type: Some(1),
        table_id: Some(table.id),
        bucket_id: vec![0, 1],
        routing_bucket_count: count,
        ..pb::ListOffsetsRequest::default()
    };
    let scan = |count| pb::LimitScanRequest {
        table_id: Some(table.id),
        bucket_id: Some(0),
        limit: Some(1),
        routing_bucket_count: count,
        ..pb::LimitScanRequest::default()
    };
    for (count, code) in [
        (None, 0),
        (Some(2), 0),
        (Some(0), 0),
        (Some(-1), 0),
        (Some(3), 74),
    ] {
        assert_eq!(
            client.code(ApiKey::ListOffsets, &list(count)),
            code,
            "{count:?}"
        );
        assert_eq!(
            client.code(ApiKey::LimitScan, &scan(count)),
            code,
            "{count:?}"
        );
    }
    // A bucket that is not there is unknown, whatever the count.
    let unknown = pb::LimitScanRequest {
        bucket_id: Some(9),
        ..scan(Some(3))
    };
    assert_eq!(client.code(ApiKey::LimitScan, &unknown), 21);
}

fn scan(client: &mut Client, table: &Table, bucket: i32, limit: i32) -> Result<bytes::Bytes, i32> {
    let request = pb::LimitScanRequest {
        table_id: Some(table.id),
        bucket_id: Some(bucket),
        limit: Some(limit),
        ..pb::LimitScanRequest::default()
    };
    let answer: pb::LimitScanResponse = client
        .try_call(ApiKey::LimitScan, &request)
        .map_err(|refused| refused.code)?;
    assert_eq!((answer.error_code, answer.is_log_table), (None, Some(true)));
    Ok(answer.records.unwrap_or_default())
}

/// Known failure B040.
#[test]
fn a_limit_scan_gives_the_last_batches_that_hold_the_limit() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    for range in [0..3, 3..5, 5..10] {
        client
            .append(&table, 0, &table.source().numbers(range))
            .expect("appended");
    }
    let cases = [
        ("limit 0", 0, vec![]),
        ("limit -1", -1, vec![]),
        ("the smallest limit", i32::MIN, vec![]),
        ("limit 1", 1, vec![(5, 10)]),
        ("the whole last batch", 5, vec![(5, 10)]),
        ("one more than that", 6, vec![(3, 5), (5, 10)]),
        ("all", 10, vec![(0, 3), (3, 5), (5, 10)]),
        ("more than there is", 1000, vec![(0, 3), (3, 5), (5, 10)]),
        ("the largest limit", i32::MAX, vec![(0, 3), (3, 5), (5, 10)]),
    ];
    for (sentence, limit, expected) in cases {
        let records = scan(&mut client, &table, 0, limit).expect("a success");
        assert_eq!(offsets(&records), expected, "{sentence}");
    }
    assert!(
        scan(&mut client, &table, 1, 5)
            .expect("a success")
            .is_empty(),
        "an empty bucket"
    );
    assert_eq!(scan(&mut client, &table, 7, 5), Err(21));
    assert_eq!(
        scan(
            &mut client,
            &Table {
                id: 99_999,
                ..table.clone()
            },
            0,
            5
        ),
        Err(21)
    );
    let parted =
        log_table(&[("a", TypeKind::Int), ("p", TypeKind::String)], 1).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    assert_eq!(scan(&mut client, &parted, 0, 5), Err(21));
}

/// Known failure B040.
#[test]
fn a_limit_scan_works_with_nested_types() {
    let server = quick().start();
    let mut client = server.client();
    let nested = TypeKind::Array(Box::new(mainstem_types::DataType::nullable(
        TypeKind::String,
    )));
    let table = client.create_table("fluss.nested", &log_table(&[("n", nested)], 1));
    let rows = [
        vec![Value::Array(vec![Value::from("x"), Value::Null])],
        vec![Value::Null],
        vec![Value::Array(vec![])],
    ];
    client
        .append(&table, 0, &table.source().arrow(&rows))
        .expect("appended");
    let records = scan(&mut client, &table, 0, 2).expect("a success");
    let read = decode_batches(&records, table.schema(), LogFormat::Arrow);
    assert_eq!(
        read.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
        rows
    );
}

#[test]
fn statistics_of_a_log_table_count_its_committed_rows() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    client
        .append(&table, 0, &table.source().numbers(0..50))
        .expect("appended");
    let bucket = |bucket_id, partition_id, routing_bucket_count| pb::PbTableStatsReqForBucket {
        partition_id,
        bucket_id: Some(bucket_id),
        routing_bucket_count,
    };
    let request = pb::GetTableStatsRequest {
        table_id: Some(table.id),
        buckets_req: vec![
            bucket(0, None, None),
            bucket(1, None, Some(2)),
            bucket(7, None, None),
            bucket(0, Some(3), None),
            bucket(0, None, Some(5)),
        ],
        target_columns: vec![0, 99],
    };
    let answer: pb::GetTableStatsResponse = client.call(ApiKey::GetTableStats, &request);
    let got: Vec<_> = answer
        .buckets_resp
        .iter()
        .map(|entry| (entry.row_count, entry.error_code))
        .collect();
    assert_eq!(
        got,
        [
            (Some(50), None),
            (Some(0), None),
            (None, Some(21)),
            (None, Some(21)),
            (None, Some(74))
        ]
    );
    let unknown = pb::GetTableStatsRequest {
        table_id: Some(99_999),
        ..request
    };
    let answer: pb::GetTableStatsResponse = client.call(ApiKey::GetTableStats, &unknown);
    assert!(
        answer
            .buckets_resp
            .iter()
            .all(|entry| entry.error_code == Some(21)),
        "{answer:?}"
    );
}

/// Known failure B041.
#[test]
fn every_commit_time_and_its_neighbours_lead_to_the_right_batch() {
    let options = quick()
        .with("log.segment.file-size", "600")
        .with("log.index.interval-size", "200");
    let mut server = options.start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(1));
    for number in 0..12 {
        client
            .append(
                &table,
                0,
                &table.source().numbers(number * 2..number * 2 + 2),
            )
            .expect("appended");
        let appended = now_ms();
        mainstem_testkit::until("the clock to move", || {
            (now_ms() > appended + 2).then_some(())
        });
    }
    let fetched = client.fetch_one(&table.fetch([(0, 0)])).expect("readable");
    let batches: Vec<(i64, i64)> = Batches::new(&fetched.records.expect("records"))
        .map(|batch| *batch.expect("a batch").header())
        .map(|header| (header.commit_timestamp_ms, header.base_offset))
        .collect();
    assert_eq!(batches.len(), 12);
    let end = client.end(&table, 0);
    for round in ["as written", "after an orderly stop", "after a crash"] {
        match round {
            "as written" => {}
            "after a crash" => {
                server.crash();
            }
            _ => {
                server.restart();
            }
        }
        let mut client = server.client();
        for (index, (time, base)) in batches.iter().enumerate() {
            let next = batches.get(index + 1).map_or(end, |(_, base)| *base);
            let mut at = |time| client.offset(&table, None, 0, 2, Some(time));
            assert_eq!(
                (at(time - 1), at(*time), at(time + 1)),
                (Ok(*base), Ok(*base), Ok(next)),
                "batch {index} {round}"
            );
        }
    }
}

#[test]
fn a_limit_scan_of_more_than_fits_an_answer_gives_the_newest() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let text = "x".repeat(4 << 20);
    let batch = table
        .source()
        .arrow(&[vec![Value::Int(1), text.as_str().into()]]);
    for _ in 0..20 {
        client.append(&table, 0, &batch).expect("appended");
    }
    let found = offsets(&scan(&mut client, &table, 0, 20).expect("a success"));
    assert!(found.len() > 5, "{found:?}");
    assert_eq!(found.last(), Some(&(19, 20)));
    assert!(
        found.windows(2).all(|pair| pair[0].1 == pair[1].0),
        "{found:?}"
    );
}
