//! FetchLog: waking, waiting, limits, memory (wire.md §4.9, 6.5; known failures
//! B014, B028, R03, R07, R11).

use std::sync::Arc;
use std::time::Duration;

use mainstem_log::LogConfig;

use crate::common::*;

fn server(buckets: i32, log: LogConfig) -> Server {
    let catalog = catalog();
    let spec = TableSpec {
        buckets,
        ..TableSpec::default()
    };
    put_table(&catalog, &spec);
    Server::start(&disk(1), &catalog, log)
}

fn values(bucket: &FetchedBucket) -> Vec<i64> {
    bucket.rows().iter().map(|row| row.a).collect()
}

#[test]
fn a_reader_is_woken_by_the_sync_and_not_by_the_time() {
    let server = server(3, log_config());
    let started = server.now();
    let fetch = Fetch::of(1).bucket(0, 0).bucket(1, 0).bucket(2, 0);
    let mut reading = server.fetch(&fetch.waiting(1, 60_000));
    assert!(!server.is_answered(&mut reading));
    let mut writing = server.produce(&Produce::to(1, -1).bucket(2, batch(-1, -1, &rows(5, 2, 3))));
    assert!(!server.is_answered(&mut writing) && !server.is_answered(&mut reading));
    server.sync();
    assert!(server.is_answered(&mut reading));
    let read = Fetch::parse(reading.answer());
    assert_eq!(values(&read[2]), [5, 6]);
    assert_eq!(read[0].records.len() + read[1].records.len(), 0);
    assert_eq!(server.now(), started);
}

#[test]
fn an_idle_reader_waits_as_long_as_it_asked_and_does_not_spin() {
    let server = server(2, log_config());
    server.append(1, 0, &rows(0, 3, 5));
    for (min_bytes, wait_ms) in [(1, 500), (1_000_000, 7), (1, 0), (0, 300)] {
        let started = server.now();
        let fetch = Fetch::of(1).bucket(0, 3).bucket(1, 0);
        let mut reading = server.fetch(&fetch.waiting(min_bytes, wait_ms));
        if wait_ms > 0 && min_bytes > 0 {
            assert!(!reading.wakes_itself(&server.runtime));
        }
        let read = Fetch::parse(reading.wait(&server.runtime));
        assert_eq!((read[0].high_watermark, read[1].high_watermark), (3, 0));
        assert!(read.iter().all(|bucket| bucket.records.is_empty()));
        let expected = if min_bytes > 0 { wait_ms } else { 0 };
        // Timers are as exact as a millisecond.
        let waited = (server.now() - started).as_millis() as i32;
        assert!((expected..=expected + 1).contains(&waited), "{waited} ms");
    }
}

#[test]
fn a_reader_waits_for_the_bytes_it_asked_for_over_all_buckets() {
    let server = server(2, log_config());
    let one = batch(-1, -1, &rows(0, 1, 100)).len() as i32;
    let fetch = Fetch::of(1).bucket(0, 0).bucket(1, 0);
    let mut reading = server.fetch(&fetch.waiting(2 * one, 500));
    assert!(!server.is_answered(&mut reading));
    server.append(1, 0, &rows(0, 1, 100));
    assert!(!server.is_answered(&mut reading), "half of it");
    server.append(1, 1, &rows(1, 1, 100));
    assert!(server.is_answered(&mut reading));
    let read = Fetch::parse(reading.answer());
    assert_eq!((values(&read[0]), values(&read[1])), (vec![0], vec![1]));

    // What is there at the end of the time is given.
    let fetch = Fetch::of(1).bucket(0, 1).bucket(1, 1);
    let mut reading = server.fetch(&fetch.waiting(2 * one, 500));
    assert!(!server.is_answered(&mut reading));
    server.append(1, 1, &rows(2, 1, 100));
    let read = Fetch::parse(reading.wait(&server.runtime));
    assert_eq!((values(&read[0]), values(&read[1])), (vec![], vec![2]));
}

#[test]
fn a_reader_that_is_behind_does_not_wait_for_more_than_its_limits_allow() {
    let server = server(1, log_config());
    for value in 0..10 {
        server.append(1, 0, &rows(value, 1, 500));
    }
    let fetch = Fetch::of(1).bucket_within(None, 0, 0, 2_000);
    let mut reading = server.fetch(&fetch.waiting(1_000_000, 30_000));
    assert!(
        server.is_answered(&mut reading),
        "more is there than it takes"
    );
    assert_eq!(values(&Fetch::parse(reading.answer())[0]), [0, 1]);
}

#[test]
fn the_first_batch_is_always_given_and_limits_hold_for_the_rest() {
    let server = server(3, log_config());
    for bucket in 0..3 {
        for value in 0..4 {
            server.append(1, bucket, &rows(value, 1, 300));
        }
    }
    let one = batch(-1, -1, &rows(0, 1, 300)).len() as i32;
    let counts = |max_bytes: i32, max_bucket_bytes: i32, projected: bool| -> Vec<usize> {
        let mut fetch = Fetch::of(1).within(max_bytes);
        for bucket in 0..3 {
            fetch = fetch.bucket_within(None, bucket, 0, max_bucket_bytes);
        }
        if projected {
            fetch = fetch.projected(&[1]);
        }
        let read = server.fetched(&fetch);
        read.iter()
            .map(|bucket| read_rows(&bucket.records, projected.then_some(&[1])).len())
            .collect()
    };
    for projected in [false, true] {
        // The smallest limits at which the number of batches is certain, projected or not.
        assert_eq!(counts(0, 0, projected), [1, 0, 0]);
        assert_eq!(counts(1, 1, projected), [1, 0, 0]);
        assert_eq!(counts(1 << 20, 1, projected), [1, 0, 0]);
        assert_eq!(counts(1 << 20, 1 << 20, projected), [4, 4, 4]);
    }
    assert_eq!(counts(2 * one, 1 << 20, false), [2, 0, 0]);
    assert_eq!(counts(5 * one, 2 * one, false), [2, 2, 1]);
    assert_eq!(counts(5 * one + 1, 3 * one, false), [3, 2, 0]);
    let read = server.fetched(&Fetch::of(1).within(-1).bucket(0, 0).bucket(1, 0));
    assert!(read.iter().all(|bucket| bucket.error == Some(-1)));
}

#[test]
fn offsets_outside_of_the_log_are_refused_and_the_end_is_waited_at() {
    let server = server(1, log_config());
    server.append(1, 0, &rows(0, 3, 5));
    let mut unsynced = server.produce(&Produce::to(1, -1).bucket(0, batch(-1, -1, &rows(3, 2, 5))));
    assert!(!server.is_answered(&mut unsynced));
    for (offset, expected) in [
        (-2, Ok(3)),
        (0, Ok(3)),
        (2, Ok(3)),
        (3, Ok(0)),
        (4, Ok(0)),
        (5, Ok(0)),
        (6, Err(19)),
        (-1, Err(19)),
        (i64::MIN, Err(19)),
    ] {
        let read = &server.fetched(&Fetch::of(1).bucket(0, offset))[0];
        let found = read.error.map_or_else(|| Ok(read.rows().len()), Err);
        assert_eq!(found, expected, "offset {offset}");
    }
}

#[test]
fn buckets_with_errors_do_not_keep_others_from_being_read() {
    let server = server(2, log_config());
    server.append(1, 1, &rows(0, 3, 5));
    let fetch = Fetch::of(1)
        .bucket(7, 0)
        .bucket(0, 99)
        .bucket(1, 0)
        .and_of(9)
        .bucket(0, 0);
    let read = server.fetched(&fetch.waiting(1_000_000, 500));
    let errors: Vec<_> = read.iter().map(|bucket| bucket.error).collect();
    assert_eq!(errors, [Some(21), Some(19), None, Some(21)]);
    assert_eq!(values(&read[2]), [0, 1, 2]);
    // Errors that a new location cures are told at the end of the wait.
    let mut reading = server.fetch(&Fetch::of(1).bucket(7, 0).bucket(1, 3).waiting(1, 500));
    assert!(!server.is_answered(&mut reading));
    server.append(1, 1, &rows(3, 1, 5));
    assert!(server.is_answered(&mut reading));
    // Without any bucket to wait for there is no wait.
    let read = server.fetched(&Fetch::of(1).bucket(7, 0).bucket(8, 0).waiting(1, 500));
    assert_eq!(read[1].error, Some(21));
}

#[test]
fn a_bucket_without_a_leader_is_reported_at_the_end_of_the_wait_without_a_spin() {
    let server = server(2, log_config());
    server.append(1, 0, &rows(0, 3, 5));
    server.append(1, 1, &rows(0, 3, 5));
    let fetch = Fetch::of(1).bucket(0, 3).bucket(1, 3).waiting(1, 500);
    let mut waiting = server.fetch(&fetch);
    assert!(!server.is_answered(&mut waiting));
    lose_leader(&server.catalog, 1, 0);
    assert!(!waiting.wakes_itself(&server.runtime));
    let mut reading = server.fetch(&fetch);
    assert!(!reading.wakes_itself(&server.runtime));
    for call in [waiting, reading] {
        let read = Fetch::parse(call.wait(&server.runtime));
        assert_eq!((read[0].error, read[1].error), (Some(12), None));
    }
}

#[test]
fn waiting_readers_that_are_gone_leave_nothing_behind() {
    let server = server(4, log_config());
    for _ in 0..2_000 {
        let fetch = Fetch::of(1)
            .bucket(0, 0)
            .bucket(1, 0)
            .bucket(2, 0)
            .bucket(3, 0);
        let mut reading = server.fetch(&fetch.waiting(1, 60_000));
        assert!(!server.is_answered(&mut reading));
    }
    for bucket in 0..4 {
        let (_, readers) = server.replica(1, bucket).waiting();
        assert!(readers <= 8, "bucket {bucket} keeps {readers}");
    }
    server.service.closed(&server.session);
}

#[test]
fn a_reader_that_is_woken_often_stands_in_each_quiet_bucket_once() {
    let server = server(3, log_config());
    let fetch = Fetch::of(1).bucket(0, 0).bucket(1, 0).bucket(2, 0);
    let mut reading = server.fetch(&fetch.waiting(1 << 20, 60_000));
    for value in 0..500 {
        assert!(!server.is_answered(&mut reading));
        server.append(1, 0, &rows(value, 1, 5));
    }
    for bucket in 1..3 {
        assert_eq!(
            server.replica(1, bucket).waiting(),
            (0, 1),
            "bucket {bucket}"
        );
    }
    drop(reading);
}

#[test]
fn an_empty_fetch_is_short_while_another_bucket_of_the_connection_is_behind() {
    let server = server(3, log_config());
    for value in 0..10 {
        server.append(1, 0, &rows(value, 1, 500));
    }
    let waited = |session, buckets: &[i32]| {
        let mut fetch = Fetch::of(1);
        for bucket in buckets {
            fetch = fetch.bucket(*bucket, 0);
        }
        let started = server.now();
        let body = fetch.waiting(1, 500).encode();
        let call = server.call_from(session, 1015, body);
        let read = Fetch::parse(call.wait(&server.runtime));
        assert!(read.iter().all(|bucket| bucket.records.is_empty()));
        (server.now() - started).as_millis()
    };
    let (reader, other) = (session(7), session(8));
    assert!(waited(&reader, &[1, 2]) >= 500, "was never fed");
    // Fed with a part of bucket 0, the client buffers it and asks for the rest.
    let feed = Fetch::of(1).bucket_within(None, 0, 0, 2_000).encode();
    let fed = Fetch::parse(server.call_from(&reader, 1015, feed).answer());
    assert_eq!(values(&fed[0]), [0, 1]);
    assert!(waited(&reader, &[1, 2]) <= 5);
    assert!(waited(&other, &[1, 2]) >= 500, "another connection");
    // A client that has gone away from the bucket is not disturbed for long.
    server.clock.advance_ms(10_000);
    assert!(waited(&reader, &[1, 2]) >= 500);
    server.service.closed(&reader);
}

#[test]
fn an_empty_fetch_ends_when_a_bucket_that_it_leaves_out_gets_more() {
    let server = server(2, log_config());
    server.append(1, 0, &rows(0, 1, 5));
    // The reader has all of bucket 0, and waits in bucket 1 while it works on it.
    let fed = server.fetched(&Fetch::of(1).bucket(0, 0));
    assert_eq!(values(&fed[0]), [0]);
    let started = server.now();
    let mut reading = server.fetch(&Fetch::of(1).bucket(1, 0).waiting(1, 500));
    assert!(!server.is_answered(&mut reading));
    let pause = async { tokio::time::sleep(Duration::from_millis(20)).await };
    server.runtime.block_on(pause);
    assert!(!server.is_answered(&mut reading));
    server.append(1, 0, &rows(1, 1, 5));
    let read = Fetch::parse(reading.wait(&server.runtime));
    assert!(read[0].records.is_empty());
    let waited = (server.now() - started).as_millis();
    assert!((20..=25).contains(&waited), "{waited} ms");
    assert!(server.replica(1, 0).waiting().1 <= 1);
}

#[test]
fn projected_and_filtered_reads_agree_with_whole_ones_however_the_log_lies_on_disk() {
    // Parts in memory (small ranges of small segments) and parts of files.
    for (segment_bytes, width) in [(200, 10), (3_000, 400), (1 << 20, 10), (1 << 20, 3_000)] {
        let log = LogConfig {
            segment_bytes,
            ..log_config()
        };
        let server = server(1, log);
        for value in 0..60 {
            let mut call = server
                .produce(&Produce::to(1, -1).bucket(0, batch(-1, -1, &rows(10 * value, 3, width))));
            if value % 7 == 0 {
                server.sync();
            }
            server.is_answered(&mut call);
        }
        server.sync();
        let all = read_on(&server, |fetch| fetch, None);
        assert_eq!(all.len(), 180);
        let numbers = read_on(&server, |fetch| fetch.projected(&[0]), Some(&[0]));
        let texts = read_on(&server, |fetch| fetch.projected(&[1]), Some(&[1]));
        for ((whole, number), text) in all.iter().zip(&numbers).zip(&texts) {
            assert_eq!((whole.offset, whole.a), (number.offset, number.a));
            assert_eq!((whole.offset, &whole.b), (text.offset, &text.b));
        }
        // Only the batch that may have the value, and the position moves on.
        let wanted: Vec<Row> = all[33..36].to_vec();
        assert_eq!(read_on(&server, |fetch| fetch.with_a(111), None), wanted);
        let found = read_on(
            &server,
            |fetch| fetch.with_a(111).projected(&[0]),
            Some(&[0]),
        );
        assert_eq!(found.len(), 3);
        assert_eq!(read_on(&server, |fetch| fetch.with_a(5), None), []);
    }
}

/// Reads bucket 0 from the start to its end, as a client does.
fn read_on(
    server: &Server,
    shape: impl Fn(Fetch) -> Fetch,
    projected: Option<&[usize]>,
) -> Vec<Row> {
    let mut found: Vec<Row> = Vec::new();
    let mut next = 0;
    loop {
        let fetch = shape(Fetch::of(1).bucket_within(None, 0, next, 5_000));
        let call = server.fetch(&fetch.waiting(1, 0));
        let read = &Fetch::parse(call.wait(&server.runtime))[0];
        assert_eq!(read.error, None);
        let rows = read_rows(&read.records, projected);
        let before = next;
        if let Some(last) = rows.last() {
            next = last.offset + 1;
        }
        if let Some(filtered) = read.filtered_end {
            assert!(filtered >= next && filtered <= read.high_watermark);
            next = filtered;
        }
        found.extend(rows);
        if next == read.high_watermark {
            return found;
        }
        assert!(next > before, "stuck at {next}");
    }
}

#[test]
fn a_filter_wakes_the_reader_with_every_batch_and_never_points_beyond_what_is_synced() {
    let server = server(1, log_config());
    server.append(1, 0, &rows(0, 3, 5));
    let filtered = |offset| Fetch::of(1).bucket(0, offset).with_a(1_000);
    let read = &server.fetched(&filtered(0).waiting(1, 500))[0];
    assert_eq!((read.records.len(), read.filtered_end), (0, Some(3)));
    let mut reading = server.fetch(&filtered(3).waiting(1, 500));
    let mut writing = server.produce(&Produce::to(1, -1).bucket(0, batch(-1, -1, &rows(3, 2, 5))));
    assert!(!server.is_answered(&mut writing) && !server.is_answered(&mut reading));
    server.sync();
    assert!(server.is_answered(&mut reading));
    let read = &Fetch::parse(reading.answer())[0];
    assert_eq!((read.records.len(), read.filtered_end), (0, Some(5)));
    server.append(1, 0, &rows(999, 3, 5));
    let read = &server.fetched(&filtered(0))[0];
    assert_eq!(
        (values(read), read.filtered_end),
        (vec![999, 1_000, 1_001], None)
    );
}

#[test]
fn one_fetch_looks_at_a_bounded_number_of_batches() {
    let server = server(1, log_config());
    for value in 0..300 {
        let mut records = Vec::new();
        for _ in 0..100 {
            records.extend_from_slice(&batch(-1, -1, &rows(value, 1, 1)));
        }
        server.produce(&Produce::to(1, 0).bucket(0, records.into()));
    }
    server.sync();
    let read = &server.fetched(&Fetch::of(1).bucket(0, 0).with_a(1_000).waiting(1, 500))[0];
    let looked_at = read.filtered_end.expect("it goes on");
    assert!((1_000..30_000).contains(&looked_at), "{looked_at}");
    assert_eq!(read_on(&server, |fetch| fetch.with_a(1_000), None), []);
    assert_eq!(read_on(&server, |fetch| fetch.with_a(299), None).len(), 100);
}

#[test]
fn a_read_that_needs_the_disk_leaves_the_thread_of_the_requests() {
    for segment_bytes in [400, 1 << 20] {
        let log = LogConfig {
            segment_bytes,
            ..log_config()
        };
        let catalog = catalog();
        put_table(&catalog, &TableSpec::default());
        let disk = disk(1);
        let before = Server::start(&disk, &catalog, log.clone());
        for value in 0..100 {
            before.append(1, 0, &rows(value, 2, 1_000));
        }
        drop(before);
        // Started anew, nothing is in memory, and the requests may not wait.
        let slow = Arc::new(SlowDisk::new(disk.process_kill()));
        let server = Server::start_on(slow.clone(), &catalog_of_one(), log, 2_000_000);
        server.sync();
        slow.forbid_waiting_here();
        for shape in [
            |fetch: Fetch| fetch,
            |fetch: Fetch| fetch.projected(&[0, 1]),
            |fetch: Fetch| fetch.with_a(77),
            |fetch: Fetch| fetch.with_a(78).projected(&[0, 1]),
        ] {
            slow.forget();
            let found = read_on(&server, shape, None);
            assert!(!found.is_empty());
            let again = read_on(&server, shape, None);
            assert_eq!(again, found);
        }
        slow.forget();
        let by_time = server.call(1021, ListOffsets::at_time(1, 0, 1_000_000));
        let answer = by_time.wait(&server.runtime);
        assert_eq!(ListOffsets::parse(answer), Ok(0));
        slow.forget();
        let scan = server.call(1033, LimitScan::of(1, 0, 3));
        let answer = LimitScan::parse(scan.wait(&server.runtime));
        assert_eq!(answer.last().map(|row| row.offset), Some(199));
    }
}

fn catalog_of_one() -> Arc<mainstem_meta::Catalog> {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    catalog
}

#[test]
fn a_limit_scan_gives_the_newest_rows_over_however_many_files() {
    for (segment_bytes, width) in [(300, 10), (18_000, 17_000), (1 << 20, 100)] {
        let log = LogConfig {
            segment_bytes,
            ..log_config()
        };
        let server = server(1, log);
        for value in 0..50 {
            server.append(1, 0, &rows(2 * value, 2, width));
        }
        let mut unsynced =
            server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 1, 5))));
        assert!(!server.is_answered(&mut unsynced));
        for (limit, first) in [(1, 98), (2, 98), (3, 96), (80, 20), (100, 0), (i32::MAX, 0)] {
            let scan = server.call(1033, LimitScan::of(1, 0, limit));
            let found = LimitScan::parse(scan.wait(&server.runtime));
            let offsets: Vec<i64> = found.iter().map(|row| row.offset).collect();
            assert_eq!(offsets, (first..100).collect::<Vec<_>>(), "limit {limit}");
        }
        let scan = server.call(1033, LimitScan::of(1, 0, 0));
        assert!(LimitScan::parse(scan.wait(&server.runtime)).is_empty());
    }
}

#[test]
fn a_stranger_cannot_read_as_a_follower() {
    let server = server(1, log_config());
    server.append(1, 0, &rows(0, 3, 5));
    for follower in [0, 1, i32::MAX] {
        let fetch = Fetch::of(1).bucket(0, 0).by_follower(follower);
        let read = &server.fetched(&fetch.waiting(1, 500))[0];
        assert_eq!((read.error, read.records.len()), (Some(12), 0));
    }
}
