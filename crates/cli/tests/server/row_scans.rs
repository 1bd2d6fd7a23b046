//! ScanKv, LimitScan and statistics of primary-key tables (behaviour.md §12,
//! wire.md §4.11, 6.7).

use std::collections::BTreeMap;

use bytes::Bytes;
use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Table, ab, keyed_ab, keyed_table, scanned, stored_values, until};
use mainstem_types::TypeKind;

use crate::support::{assert_all_right, changes, quick, server_with};

/// Bytes that no answer of these tests reaches.
const PLENTY: i32 = 1 << 20;

/// Stored rows of `a INT, b STRING` in the order of their keys.
fn stored(table: &Table, numbers: impl IntoIterator<Item = i32>) -> Vec<Bytes> {
    let puts = table.puts();
    let rows: BTreeMap<Vec<u8>, Bytes> = numbers
        .into_iter()
        .map(|number| {
            let text = format!("row {number}");
            let row = [Value::Int(number), Value::from(text.as_str())];
            (puts.key(&row), puts.stored(&row))
        })
        .collect();
    rows.into_values().collect()
}

fn limited(table: &Table, limit: Option<i64>) -> pb::ScanKvRequest {
    let mut request = table.open_scan(0, PLENTY);
    let opening = request.bucket_scan_req.as_mut().expect("a bucket");
    opening.limit = limit;
    request
}

fn next(id: &Bytes, call: i32) -> pb::ScanKvRequest {
    pb::ScanKvRequest {
        scanner_id: Some(id.clone()),
        call_seq_id: Some(call),
        batch_size_bytes: Some(1),
        ..pb::ScanKvRequest::default()
    }
}

fn code(client: &mut Client, request: &pb::ScanKvRequest) -> i32 {
    client.scan_kv(request).error_code.unwrap_or(0)
}

#[test]
fn a_scan_gives_all_rows_in_the_order_of_their_keys() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    client
        .put_records(&table, 0, &table.puts().numbers(0..1_000))
        .expect("a put");
    client
        .put_records(&table, 1, &table.puts().numbers([5]))
        .expect("a put");
    assert_eq!(
        client.scan_all(&table, 0),
        (stored(&table, 0..1_000), 1_000)
    );
    assert_eq!(client.scan_all(&table, 1), (stored(&table, [5]), 1));
}

#[test]
fn an_answer_has_a_row_at_least_and_stops_at_its_size() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..3))
        .expect("a put");
    let expected = stored(&table, 0..3);
    let first = client.scan_kv(&table.open_scan(0, 1));
    assert_eq!(scanned(&first), expected[..1]);
    assert_eq!(
        (first.has_more_results, first.log_offset),
        (Some(true), Some(3))
    );
    let id = first.scanner_id.expect("an id");
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    assert!(id.len() == 32 && id.iter().all(is_hex), "{id:?}");
    let second = client.scan_kv(&next(&id, 1));
    assert_eq!(scanned(&second), expected[1..2]);
    assert_eq!(
        (second.scanner_id.as_ref(), second.log_offset),
        (Some(&id), None)
    );
    let last = client.scan_kv(&next(&id, 2));
    assert_eq!(scanned(&last), expected[2..]);
    assert_eq!(
        (last.scanner_id.as_ref(), last.has_more_results),
        (Some(&id), Some(false))
    );
    assert_eq!(
        code(&mut client, &next(&id, 3)),
        67,
        "the server has closed it"
    );
}

/// Known failure B066.
#[test]
fn an_open_scan_does_not_see_what_is_written_since() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..3))
        .expect("a put");
    let first = client.scan_kv(&table.open_scan(0, 1));
    let puts = table.puts();
    let changed = [vec![Value::Int(1), Value::from("changed")]];
    client
        .put_records(&table, 0, &puts.rows(&changed))
        .expect("a put");
    client
        .put_records(
            &table,
            0,
            &puts.deletes(&[vec![Value::Int(2), Value::Null]]),
        )
        .expect("a delete");
    client
        .put_records(&table, 0, &puts.numbers([9]))
        .expect("a put");
    let id = first.scanner_id.clone().expect("an id");
    let rest = client.scan_kv(&pb::ScanKvRequest {
        batch_size_bytes: Some(PLENTY),
        ..next(&id, 1)
    });
    let seen = [scanned(&first), scanned(&rest)].concat();
    assert_eq!(seen, stored(&table, 0..3));
    // The changelog goes on where the scan stands.
    let from = first.log_offset.expect("an offset");
    assert_eq!(from, 3);
    let types: Vec<u8> = changes(&mut client, &table, 0, from)
        .iter()
        .map(|(_, change_type, _)| *change_type)
        .collect();
    assert_eq!(types, [2, 3, 4, 1]);
}

#[test]
fn requests_of_a_scan_that_make_no_sense_are_68() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..3))
        .expect("a put");
    let open = || table.open_scan(0, 1);
    let id = client.scan_kv(&open()).scanner_id.expect("an id");
    let cases = [
        (
            "neither a bucket nor an id",
            pb::ScanKvRequest {
                scanner_id: None,
                ..next(&id, 0)
            },
        ),
        (
            "both",
            pb::ScanKvRequest {
                scanner_id: Some(id.clone()),
                ..open()
            },
        ),
        (
            "a close of a bucket",
            pb::ScanKvRequest {
                close_scanner: Some(true),
                ..open()
            },
        ),
        (
            "a close of nothing",
            pb::ScanKvRequest {
                close_scanner: Some(true),
                ..pb::ScanKvRequest::default()
            },
        ),
        (
            "no size",
            pb::ScanKvRequest {
                batch_size_bytes: None,
                ..open()
            },
        ),
        ("size 0", table.open_scan(0, 0)),
        ("size -1", table.open_scan(0, -1)),
        (
            "no sequence number",
            pb::ScanKvRequest {
                call_seq_id: None,
                ..open()
            },
        ),
        (
            "sequence number 1 at first",
            pb::ScanKvRequest {
                call_seq_id: Some(1),
                ..open()
            },
        ),
        ("nothing at all", pb::ScanKvRequest::default()),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .map(|(sentence, request)| (sentence, code(&mut client, request)))
        .filter(|(_, code)| *code != 68)
        .map(|(sentence, code)| format!("{sentence}: {code}"))
        .collect();
    assert_all_right(&wrong);
    // None of them took the place of a scan, or ended the one that is open.
    assert_eq!(code(&mut client, &next(&id, 1)), 0);
}

#[test]
fn an_error_ends_a_scan() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..5))
        .expect("a put");
    let mut open = || {
        client
            .scan_kv(&table.open_scan(0, 1))
            .scanner_id
            .expect("an id")
    };
    let ids = [open(), open(), open()];
    for (id, call) in ids.iter().zip([Some(5), Some(0), None]) {
        let request = pb::ScanKvRequest {
            call_seq_id: call,
            ..next(id, 0)
        };
        assert_eq!(code(&mut client, &request), 68, "sequence number {call:?}");
        assert_eq!(
            code(&mut client, &next(id, 1)),
            67,
            "after sequence number {call:?}"
        );
    }
}

#[test]
fn a_scan_needs_a_bucket_with_rows() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    let log = client.create_table("fluss.log", &ab(1));
    let columns = [("k", TypeKind::Int), ("p", TypeKind::String)];
    let parted = keyed_table(&columns, &["k", "p"], 1).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    assert_eq!(code(&mut client, &log.open_scan(0, PLENTY)), 20);
    assert_eq!(code(&mut client, &table.open_scan(7, PLENTY)), 21);
    assert_eq!(code(&mut client, &parted.open_scan(0, PLENTY)), 21);
    let unknown = Table {
        id: 99_999,
        ..table.clone()
    };
    assert_eq!(code(&mut client, &unknown.open_scan(0, PLENTY)), 21);
    let mut counted = table.open_scan(0, PLENTY);
    let opening = counted.bucket_scan_req.as_mut().expect("a bucket");
    opening.routing_bucket_count = Some(5);
    assert_eq!(code(&mut client, &counted), 74);
    for id in [
        &b"0123456789abcdef0123456789abcdef"[..],
        b"",
        b"short",
        &[0xFF; 100],
    ] {
        let id = Bytes::copy_from_slice(id);
        assert_eq!(code(&mut client, &next(&id, 1)), 67, "{id:?}");
        let close = pb::ScanKvRequest {
            scanner_id: Some(id.clone()),
            close_scanner: Some(true),
            ..pb::ScanKvRequest::default()
        };
        let closed = client.scan_kv(&close);
        assert_eq!(
            (closed.error_code, closed.has_more_results),
            (None, Some(false))
        );
        assert_eq!(closed.scanner_id, Some(id));
    }
}

#[test]
fn an_empty_bucket_is_scanned_at_once() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let delete = table.puts().deletes(&[vec![Value::Int(1), Value::Null]]);
    for log_offset in [0, 1] {
        let answer = client.scan_kv(&table.open_scan(0, PLENTY));
        let expected = pb::ScanKvResponse {
            has_more_results: Some(false),
            log_offset: Some(log_offset),
            ..pb::ScanKvResponse::default()
        };
        assert_eq!(answer, expected);
        client.put_records(&table, 0, &delete).expect("a delete");
    }
}

#[test]
fn a_limit_of_a_scan_is_a_number_of_rows() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..10))
        .expect("a put");
    let all = stored(&table, 0..10);
    for (limit, rows) in [
        (None, 10),
        (Some(2), 2),
        (Some(10), 10),
        (Some(11), 10),
        (Some(i64::MAX), 10),
        (Some(0), 10),
        (Some(-1), 10),
        (Some(i64::MIN), 10),
    ] {
        let answer = client.scan_kv(&limited(&table, limit));
        assert_eq!(scanned(&answer), all[..rows], "limit {limit:?}");
        assert_eq!(answer.has_more_results, Some(false), "limit {limit:?}");
    }
    // Over several answers.
    let mut request = limited(&table, Some(2));
    request.batch_size_bytes = Some(1);
    let first = client.scan_kv(&request);
    assert_eq!(
        (scanned(&first).len(), first.has_more_results),
        (1, Some(true))
    );
    let last = client.scan_kv(&next(&first.scanner_id.expect("an id"), 1));
    assert_eq!(
        (scanned(&last).len(), last.has_more_results),
        (1, Some(false))
    );
}

/// Known failure B066.
#[test]
fn scans_are_bounded_per_bucket_and_per_server() {
    let options = quick().with("kv.scanner.max-per-server", "10");
    let server = options.start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &keyed_ab(2));
    for bucket in [0, 1] {
        client
            .put_records(&table, bucket, &table.puts().numbers(0..3))
            .expect("a put");
    }
    let mut open = |bucket| client.scan_kv(&table.open_scan(bucket, 1));
    let ids: Vec<Bytes> = (0..8).map(|_| open(0).scanner_id.expect("an id")).collect();
    let ninth = open(0);
    assert_eq!(ninth.error_code, Some(69));
    let message = ninth.error_message.expect("a message");
    assert!(
        message.contains('8') && message.contains("bucket"),
        "{message}"
    );
    for _ in 0..2 {
        assert_eq!(open(1).error_code, None);
    }
    let message = open(1).error_message.expect("a message");
    assert!(
        message.contains("10") && message.contains("server"),
        "{message}"
    );
    // One that is closed makes room. Scans outlive their connection.
    let close = pb::ScanKvRequest {
        scanner_id: Some(ids[0].clone()),
        close_scanner: Some(true),
        ..pb::ScanKvRequest::default()
    };
    let mut other = server.client();
    assert_eq!(code(&mut other, &close), 0);
    assert_eq!(code(&mut other, &table.open_scan(0, 1)), 0);
    assert_eq!(code(&mut other, &next(&ids[0], 1)), 67);
    assert_eq!(code(&mut other, &next(&ids[1], 1)), 0);
}

/// Known failure B066.
#[test]
fn a_scan_that_nobody_continues_expires() {
    let options = quick()
        .with("kv.scanner.ttl", "500ms")
        .with("kv.scanner.expiration-interval", "10ms");
    let server = options.start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..3))
        .expect("a put");
    let ids: Vec<Bytes> = (0..8)
        .map(|_| {
            client
                .scan_kv(&table.open_scan(0, 1))
                .scanner_id
                .expect("an id")
        })
        .collect();
    assert_eq!(code(&mut client, &table.open_scan(0, 1)), 69);
    // Opening one shows that the others are gone; asking for them would end them.
    until("room for a scan", || {
        (code(&mut client, &limited(&table, None)) == 0).then_some(())
    });
    let first = code(&mut client, &next(&ids[0], 1));
    assert!(first == 66 || first == 67, "{first}");
}

/// An abandoned scan keeps its view of the files, but not for ever.
#[test]
fn files_of_a_dropped_table_go_when_its_scans_have_ended() {
    let server = quick()
        .with("kv.scanner.expiration-interval", "100ms")
        .start();
    let mut client = server.client();
    let mut open = |name: &str| {
        let table = client.create_table(name, &keyed_ab(1));
        let records = table.puts().numbers(0..3);
        client.put_records(&table, 0, &records).expect("a put");
        let id = client.scan_kv(&table.open_scan(0, 1)).scanner_id;
        let dir = server.data_dir().join("kv").join(format!("t{}", table.id));
        assert!(dir.exists());
        client.drop_table(name);
        (id.expect("an id"), dir)
    };
    let (id, continued) = open("fluss.continued");
    let (_, abandoned) = open("fluss.abandoned");
    let got = code(&mut client, &next(&id, 1));
    assert!([12, 21, 66, 67].contains(&got), "{got}");
    until("the files to be removed", || {
        (!continued.exists() && !abandoned.exists()).then_some(())
    });
}

fn limit_scan(
    client: &mut Client,
    table: &Table,
    bucket: i32,
    limit: i32,
) -> Result<Vec<Bytes>, i32> {
    let request = pb::LimitScanRequest {
        table_id: Some(table.id),
        bucket_id: Some(bucket),
        limit: Some(limit),
        ..pb::LimitScanRequest::default()
    };
    let answer: pb::LimitScanResponse = client
        .try_call(ApiKey::LimitScan, &request)
        .map_err(|refused| refused.code)?;
    assert_eq!(
        (answer.error_code, answer.is_log_table),
        (None, Some(false))
    );
    let records = answer.records.expect("a batch, maybe an empty one");
    if limit <= 0 {
        assert_eq!(records.len(), 9, "an empty batch");
    }
    Ok(stored_values(records))
}

/// Known failure B040.
#[test]
fn a_limit_scan_gives_the_first_rows_in_the_order_of_their_keys() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    let delete = table.puts().deletes(&[vec![Value::Int(0), Value::Null]]);
    client
        .put_records(&table, 0, &table.puts().numbers(0..10))
        .expect("a put");
    client.put_records(&table, 0, &delete).expect("a delete");
    let all = stored(&table, 1..10);
    for (limit, rows) in [
        (0, 0),
        (-1, 0),
        (i32::MIN, 0),
        (1, 1),
        (9, 9),
        (10, 9),
        (i32::MAX, 9),
    ] {
        let got = limit_scan(&mut client, &table, 0, limit);
        assert_eq!(got, Ok(all[..rows].to_vec()), "limit {limit}");
    }
    assert_eq!(
        limit_scan(&mut client, &table, 1, 5),
        Ok(vec![]),
        "an empty bucket"
    );
    assert_eq!(limit_scan(&mut client, &table, 7, 5), Err(21));
    let unknown = Table {
        id: 99_999,
        ..table
    };
    assert_eq!(limit_scan(&mut client, &unknown, 0, 5), Err(21));
    let columns = [("k", TypeKind::Int), ("p", TypeKind::String)];
    let parted = keyed_table(&columns, &["k", "p"], 1).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    assert_eq!(limit_scan(&mut client, &parted, 0, 5), Err(21));
}

fn count(client: &mut Client, table: &Table, bucket: i32) -> Result<i64, i32> {
    let request = pb::GetTableStatsRequest {
        table_id: Some(table.id),
        buckets_req: vec![pb::PbTableStatsReqForBucket {
            bucket_id: Some(bucket),
            ..pb::PbTableStatsReqForBucket::default()
        }],
        target_columns: Vec::new(),
    };
    let answer: pb::GetTableStatsResponse = client.call(ApiKey::GetTableStats, &request);
    let entry = &answer.buckets_resp[0];
    assert_eq!(
        (answer.buckets_resp.len(), entry.bucket_id),
        (1, Some(bucket))
    );
    match (entry.row_count, entry.error_code) {
        (Some(rows), None) => Ok(rows),
        (None, Some(code)) => Err(code),
        _ => panic!("neither a success nor a failure: {entry:?}"),
    }
}

/// Known failure B064.
#[test]
fn statistics_count_live_keys_or_say_that_they_are_not_counted() {
    let (mut server, mut client, table) = server_with(&keyed_ab(2));
    let wal = keyed_ab(1).with_property("table.changelog.image", "WAL");
    let wal = client.create_table("fluss.wal", &wal);
    let puts = table.puts();
    client
        .put_records(&table, 0, &puts.numbers(0..10))
        .expect("a put");
    client
        .put_records(&table, 0, &puts.numbers(5..15))
        .expect("a put");
    let gone: Vec<_> = (0..4)
        .map(|number| vec![Value::Int(number), Value::Null])
        .collect();
    client
        .put_records(&table, 0, &puts.deletes(&gone))
        .expect("a delete");
    client
        .put_records(&table, 0, &puts.deletes(&gone))
        .expect("a delete");
    client
        .put_records(&wal, 0, &wal.puts().numbers(0..10))
        .expect("a put");
    for round in [
        "as written",
        "after an orderly stop",
        "after a crash",
        "after another",
    ] {
        match round {
            "as written" => {}
            "after an orderly stop" => drop(server.restart()),
            _ => drop(server.crash()),
        }
        let mut client = server.client();
        assert_eq!(count(&mut client, &table, 0), Ok(11), "{round}");
        assert_eq!(count(&mut client, &table, 1), Ok(0), "{round}");
        assert_eq!(count(&mut client, &table, 7), Err(21), "{round}");
        assert_eq!(count(&mut client, &wal, 0), Err(15), "{round}");
    }
}
