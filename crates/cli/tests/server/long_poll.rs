//! When a fetch that waits is answered (behaviour.md §9, wire.md §6.5; known
//! failures B014, R03, R11, B031).

use std::time::{Duration, Instant};

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Server, Table, ab, log_table, offsets, until};
use mainstem_types::TypeKind;

use crate::support::{durable, quick, server_with_table};

/// Far longer than any answer that is due may take.
const LONG_MS: i32 = 60_000;
/// What is due at once may take so long on a busy machine.
const SOON: Duration = Duration::from_secs(10);
/// What is not due is not there after so long.
const QUIET: Duration = Duration::from_millis(60);

fn waiting(mut request: pb::FetchLogRequest, min_bytes: i32) -> pb::FetchLogRequest {
    request.min_bytes = Some(min_bytes);
    request.max_wait_ms = Some(LONG_MS);
    request
}

fn answer(client: &mut Client) -> Vec<pb::PbFetchLogRespForBucket> {
    let answer: pb::FetchLogResponse = client.receive().expect("a success");
    answer
        .tables_resp
        .into_iter()
        .flat_map(|table| table.buckets_resp)
        .collect()
}

fn assert_quiet(client: &mut Client) {
    let early = client.wire().receive_within(QUIET);
    assert_eq!(early, None, "answered before anything is readable");
}

fn bounds(entry: &pb::PbFetchLogRespForBucket) -> Vec<(i64, i64)> {
    offsets(&entry.records.clone().expect("records"))
}

#[test]
fn a_waiting_fetch_is_answered_as_soon_as_data_is_readable() {
    for options in [quick(), durable()] {
        let (server, mut writer, table) = server_with_table(&options, 4);
        let mut reader = server.client();
        for round in 0..3 {
            reader.send(
                ApiKey::FetchLog,
                &waiting(table.fetch([(0, 0), (2, round), (3, 0)]), 1),
            );
            assert_quiet(&mut reader);
            let begin = Instant::now();
            writer
                .append(&table, 2, &table.source().numbers([1]))
                .expect("appended");
            let entries = answer(&mut reader);
            assert!(begin.elapsed() < SOON, "after {:?}", begin.elapsed());
            assert_eq!(entries.len(), 3);
            assert_eq!(bounds(&entries[1]), [(round, round + 1)]);
            assert!(bounds(&entries[0]).is_empty() && bounds(&entries[2]).is_empty());
        }
    }
}

#[test]
fn one_record_that_is_there_already_is_returned_at_once() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    client
        .append(&table, 1, &table.source().numbers([1]))
        .expect("appended");
    let begin = Instant::now();
    let entries = client.fetch(&waiting(table.fetch([(0, 0), (1, 0)]), 1));
    assert!(begin.elapsed() < SOON);
    assert_eq!(bounds(&entries[1]), [(0, 1)]);
}

#[test]
fn a_fetch_waits_for_the_bytes_it_asks_for() {
    let (server, mut writer, table) = server_with_table(&quick(), 2);
    let mut reader = server.client();
    let batch = table.source().numbers([1]);
    let bytes = i32::try_from(batch.len()).expect("a length");
    reader.send(
        ApiKey::FetchLog,
        &waiting(table.fetch([(0, 0), (1, 0)]), 3 * bytes),
    );
    writer.append(&table, 0, &batch).expect("appended");
    writer.append(&table, 1, &batch).expect("appended");
    assert_quiet(&mut reader);
    writer.append(&table, 0, &batch).expect("appended");
    let entries = answer(&mut reader);
    assert_eq!(
        entries
            .iter()
            .map(|entry| bounds(entry).len())
            .collect::<Vec<_>>(),
        [2, 1]
    );
}

#[test]
fn a_fetch_that_never_gets_its_bytes_returns_what_there_is_when_the_time_is_over() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    client
        .append(&table, 0, &table.source().numbers([1]))
        .expect("appended");
    let mut request = waiting(table.fetch([(0, 0)]), i32::MAX);
    request.max_wait_ms = Some(200);
    let begin = Instant::now();
    let entries = client.fetch(&request);
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert_eq!(bounds(&entries[0]), [(0, 1)]);
}

/// behaviour.md §1.
#[test]
fn other_requests_of_the_connection_do_not_wait_for_a_long_poll() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let mut request = waiting(table.fetch([(0, 0)]), 1);
    request.max_wait_ms = Some(800);
    let begin = Instant::now();
    let poll = client.send(ApiKey::FetchLog, &request);
    let list = client.send(ApiKey::ListDatabases, &pb::ListDatabasesRequest::default());
    let id = |answer| match answer {
        mainstem_testkit::Answer::Success { id, .. } => id,
        other => panic!("{other:?}"),
    };
    assert_eq!(id(client.wire().receive()), list);
    assert!(
        begin.elapsed() < Duration::from_millis(800),
        "the list waited"
    );
    assert_eq!(id(client.wire().receive()), poll);
    assert!(
        begin.elapsed() >= Duration::from_millis(800),
        "the poll did not wait"
    );
}

#[test]
fn a_failed_bucket_ends_the_wait_of_the_others_unless_it_is_unknown() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    let begin = Instant::now();
    let codes: Vec<_> = client
        .fetch(&waiting(table.fetch([(0, 0), (1, 99)]), 1))
        .iter()
        .map(|entry| entry.error_code)
        .collect();
    assert_eq!(codes, [None, Some(19)]);
    assert!(begin.elapsed() < SOON);
    // 21 is reported with the delayed answer.
    let mut request = waiting(table.fetch([(0, 0), (9, 0)]), 1);
    request.max_wait_ms = Some(150);
    let begin = Instant::now();
    let codes: Vec<_> = client
        .fetch(&request)
        .iter()
        .map(|entry| entry.error_code)
        .collect();
    assert_eq!(codes, [None, Some(21)]);
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

/// Known failure B031.
#[test]
fn a_reader_at_the_end_waits_and_one_behind_it_is_told() {
    let (server, mut writer, table) = server_with_table(&quick(), 1);
    writer
        .append(&table, 0, &table.source().numbers(0..3))
        .expect("appended");
    let mut reader = server.client();
    assert_eq!(
        reader.fetch_one(&waiting(table.fetch([(0, 4)]), 1)),
        Err(19)
    );
    reader.send(ApiKey::FetchLog, &waiting(table.fetch([(0, 3)]), 1));
    assert_quiet(&mut reader);
    writer
        .append(&table, 0, &table.source().numbers([3]))
        .expect("appended");
    assert_eq!(bounds(&answer(&mut reader)[0]), [(3, 4)]);
}

#[test]
fn dropping_the_table_ends_the_wait() {
    let (server, mut admin, table) = server_with_table(&quick(), 2);
    let mut reader = server.client();
    reader.send(ApiKey::FetchLog, &waiting(table.fetch([(0, 0), (1, 0)]), 1));
    assert_quiet(&mut reader);
    admin.drop_table(&table.name);
    let codes: Vec<_> = answer(&mut reader)
        .iter()
        .map(|entry| entry.error_code)
        .collect();
    assert_eq!(codes, [Some(21), Some(21)]);
}

#[test]
fn several_tables_are_waited_for_together() {
    let (server, mut writer, table) = server_with_table(&quick(), 1);
    let other = writer.create_table("fluss.other", &ab(1));
    let mut request = waiting(table.fetch([(0, 0)]), 1);
    request.tables_req.extend(other.fetch([(0, 0)]).tables_req);
    let mut reader = server.client();
    reader.send(ApiKey::FetchLog, &request);
    assert_quiet(&mut reader);
    writer
        .append(&other, 0, &other.source().numbers([1]))
        .expect("appended");
    let answer: pb::FetchLogResponse = reader.receive().expect("a success");
    let got: Vec<_> = answer
        .tables_resp
        .iter()
        .map(|table| {
            (
                table.table_id.expect("an id"),
                bounds(&table.buckets_resp[0]).len(),
            )
        })
        .collect();
    assert_eq!(got, [(table.id, 0), (other.id, 1)]);
}

/// Known failure B014: no spinning while nothing comes.
#[test]
fn a_thousand_waiting_fetches_take_no_cpu_and_are_all_answered() {
    let (server, mut writer, table) = server_with_table(&quick(), 1);
    let mut readers: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for reader in &mut readers {
        for _ in 0..50 {
            reader.send(ApiKey::FetchLog, &waiting(table.fetch([(0, 0)]), 1));
        }
    }
    for reader in &mut readers {
        // Requests begin in their order: behind all others, this one is answered.
        let _ = reader.code(ApiKey::ListDatabases, &pb::ListDatabasesRequest::default());
    }
    let before = server.cpu_time();
    assert_quiet(&mut readers[0]);
    let window = Instant::now();
    until("some time without work", || {
        (window.elapsed() > Duration::from_millis(300)).then_some(())
    });
    let used = server.cpu_time() - before;
    assert!(
        used < Duration::from_millis(100),
        "{used:?} of CPU while idle"
    );
    writer
        .append(&table, 0, &table.source().numbers([1]))
        .expect("appended");
    for reader in &mut readers {
        for _ in 0..50 {
            assert_eq!(bounds(&answer(reader)[0]), [(0, 1)]);
        }
    }
}

/// A client as the official ones are: one fetch in flight, and a bucket whose
/// rows it has not consumed yet is left out of it.
fn read_as_clients_do(server: &Server, table: &Table, ends: [i64; 4]) -> Duration {
    let mut client = server.client();
    let mut next = [0_i64; 4];
    let mut buffered = [false; 4];
    let begin = Instant::now();
    while next != ends {
        let wanted: Vec<(i32, i64)> = (0..4)
            .filter(|at| !buffered[*at])
            .map(|at| (at as i32, next[at]))
            .collect();
        buffered = [false; 4];
        let mut request = table.fetch(wanted);
        request.min_bytes = Some(1);
        request.max_wait_ms = Some(500);
        request.tables_req[0]
            .buckets_req
            .iter_mut()
            .for_each(|bucket| {
                bucket.max_fetch_bytes = Some(2_000);
            });
        for entry in client.fetch(&request) {
            let bucket = entry.bucket_id.expect("a bucket") as usize;
            if let Some((_, end)) = bounds(&entry).last() {
                next[bucket] = *end;
                buffered[bucket] = true;
            }
        }
    }
    begin.elapsed()
}

/// Known failure R11: what is buffered of the long bucket would be waited for 500
/// ms at every turn, that is 20 s in all.
#[test]
fn a_reader_that_is_behind_is_not_stalled_by_empty_buckets() {
    let (server, mut writer, table) = server_with_table(&quick(), 4);
    for number in 0..40 {
        let rows = table.source().numbers(number * 40..(number + 1) * 40);
        writer.append(&table, 1, &rows).expect("appended");
    }
    for bucket in [0, 2, 3] {
        writer
            .append(&table, bucket, &table.source().numbers(0..10))
            .expect("appended");
    }
    let taken = read_as_clients_do(&server, &table, [10, 1600, 10, 10]);
    assert!(taken < Duration::from_secs(5), "{taken:?}");
    // Caught up, it waits as it asks.
    let mut client = server.client();
    let mut request = table.fetch([(0, 10), (1, 1600), (2, 10), (3, 10)]);
    request.min_bytes = Some(1);
    request.max_wait_ms = Some(300);
    let begin = Instant::now();
    client.fetch(&request);
    assert!(begin.elapsed() >= Duration::from_millis(300));
}

/// Known failure B028.
#[test]
fn a_filter_that_drops_everything_lets_the_reader_reach_the_end() {
    let options = quick().with("log.segment.file-size", "1000");
    let server = options.start();
    let mut client = server.client();
    let descriptor = log_table(&[("a", TypeKind::Int), ("b", TypeKind::String)], 1)
        .with_property("table.statistics.columns", "*");
    let table = client.create_table("fluss.t", &descriptor);
    let source = table.source().with_statistics(&[0, 1]);
    for number in 0..30 {
        client
            .append(&table, 0, &source.numbers(number * 3..(number + 1) * 3))
            .expect("appended");
    }
    let fetch = |offset, value, equals| {
        let mut request = waiting(table.fetch([(0, offset)]), 1);
        request.tables_req[0].filter_schema_id = Some(1);
        request.tables_req[0].filter_predicate = Some(pb::PbPredicate {
            r#type: Some(0),
            leaf: Some(pb::PbLeafPredicate {
                function: Some(if equals { 0 } else { 4 }),
                field_id: Some(0),
                literals: vec![pb::PbLiteralValue {
                    literal_type: Some(3),
                    is_null: Some(false),
                    int_value: Some(value),
                    ..pb::PbLiteralValue::default()
                }],
            }),
            compound: None,
        });
        request
    };
    // Nothing matches: the reader is told where to go on, without waiting.
    let mut next = 0;
    let begin = Instant::now();
    while next < 90 {
        let entry = client
            .fetch_one(&fetch(next, 1_000_000, true))
            .expect("a success");
        assert!(bounds(&entry).is_empty());
        let end = entry
            .filtered_end_offset
            .expect("an end of what was left out");
        assert!(end > next && end <= 90, "{end} after {next}");
        next = end;
    }
    assert!(begin.elapsed() < SOON);
    // Some match: they are found, wherever they are.
    let mut found = Vec::new();
    let mut next = 0;
    while next < 90 {
        let entry = client.fetch_one(&fetch(next, 46, true)).expect("a success");
        found.extend(bounds(&entry));
        let end = entry
            .filtered_end_offset
            .or(bounds(&entry).last().map(|(_, end)| *end));
        next = end.expect("progress");
    }
    assert_eq!(found, [(45, 48)]);
    // Behind the last match, the end of the answer is the end of the log.
    let entry = client.fetch_one(&fetch(0, 80, false)).expect("a success");
    let last = bounds(&entry);
    assert_eq!(
        last.iter().map(|(base, _)| *base).collect::<Vec<_>>(),
        [81, 84, 87],
        "{last:?}"
    );
}
