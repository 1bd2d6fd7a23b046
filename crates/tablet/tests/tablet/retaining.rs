//! Retention by time while writers and readers go on (cluster.md §4.8; known
//! failures B030, B031).

use mainstem_env::Fault;
use mainstem_log::LogConfig;
use mainstem_tablet::replica::RetentionPolicy;

use crate::common::*;

const TTL_MS: i64 = 60_000;

fn server_with_ttl() -> (mainstem_env::SimFileSystem, Server) {
    let disk = disk(1);
    let server = start_on(&disk);
    (disk, server)
}

fn start_on(disk: &mainstem_env::SimFileSystem) -> Server {
    let catalog = catalog();
    let spec = TableSpec {
        properties: &[("table.log.ttl", "1min")],
        ..TableSpec::default()
    };
    put_table(&catalog, &spec);
    let log = LogConfig {
        segment_bytes: 1_000,
        ..log_config()
    };
    Server::start(disk, &catalog, log)
}

fn expire(server: &Server) {
    use mainstem_env::Clock;
    let now_ms = server.clock.now_ms();
    server.replicas.expire(&RetentionPolicy::default(), now_ms);
}

#[test]
fn old_segments_go_and_readers_behind_the_start_are_told() {
    let (disk, server) = server_with_ttl();
    for value in 0..20 {
        server.append(1, 0, &rows(value, 1, 300));
        server.clock.advance_ms(TTL_MS / 10);
    }
    let from_start = || server.fetched(&Fetch::of(1).bucket(0, 0))[0].clone();
    assert_eq!(from_start().rows().len(), 20);
    let mut at_end = server.fetch(&Fetch::of(1).bucket(0, 20).waiting(1, 60_000));
    assert!(!server.is_answered(&mut at_end));
    expire(&server);
    let replica = server.replica(1, 0);
    let start = replica.log_start_offset();
    assert!((5..=10).contains(&start), "{start}");
    assert_eq!(from_start().error, Some(19));
    let earliest = &server.fetched(&Fetch::of(1).bucket(0, -2))[0];
    assert_eq!(earliest.rows()[0].offset, start);
    assert_eq!((earliest.log_start, earliest.high_watermark), (start, 20));
    let inside = &server.fetched(&Fetch::of(1).bucket(0, start + 1))[0];
    assert_eq!(inside.rows().last().map(|row| row.offset), Some(19));
    let by_time = server.call(1021, ListOffsets::at_time(1, 0, 0));
    assert_eq!(ListOffsets::parse(by_time.wait(&server.runtime)), Ok(start));
    // Who waits at the end does not notice.
    assert!(!server.is_answered(&mut at_end));
    server.append(1, 0, &rows(20, 1, 300));
    assert!(server.is_answered(&mut at_end));
    drop(at_end);
    drop(server);
    let server = start_on(&disk.process_kill());
    server.sync();
    assert_eq!(server.replica(1, 0).log_start_offset(), start);
    assert_eq!(server.replica(1, 0).high_watermark(), 21);
}

#[test]
fn a_reader_that_reads_on_never_sees_a_gap_or_an_error_while_segments_go() {
    let (_disk, server) = server_with_ttl();
    let mut next = 0;
    for value in 0..200 {
        server.append(1, 0, &rows(value, 1, 300));
        server.clock.advance_ms(TTL_MS / 30);
        if value % 3 == 0 {
            expire(&server);
        }
        // It is always less than a minute behind.
        if value % 5 == 0 {
            let read = &server.fetched(&Fetch::of(1).bucket(0, next))[0];
            for row in read.rows() {
                assert_eq!((row.offset, row.a), (next, next));
                next += 1;
            }
        }
    }
    assert!(next > 190 && server.replica(1, 0).log_start_offset() > 150);
}

#[test]
fn what_is_not_committed_is_kept_however_old() {
    let (_disk, server) = server_with_ttl();
    let mut calls = Vec::new();
    for value in 0..10 {
        let records = batch(-1, -1, &rows(value, 1, 300));
        calls.push(server.produce(&Produce::to(1, -1).bucket(0, records)));
    }
    server.clock.advance_ms(10 * TTL_MS);
    expire(&server);
    assert_eq!(server.replica(1, 0).log_start_offset(), 0);
    server.sync();
    for call in calls {
        assert!(server.produced(call)[0].result.is_ok());
    }
}

#[test]
fn a_sync_by_retention_answers_the_writers_that_it_covers() {
    let (_disk, server) = server_with_ttl();
    for value in 0..10 {
        server.append(1, 0, &rows(value, 1, 300));
    }
    server.clock.advance_ms(10 * TTL_MS);
    let mut reading = server.fetch(&Fetch::of(1).bucket(0, 10).waiting(1, 60_000));
    let mut writing = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(10, 1, 5))));
    assert!(!server.is_answered(&mut writing) && !server.is_answered(&mut reading));
    expire(&server);
    assert!(server.replica(1, 0).log_start_offset() > 0);
    server.sync();
    assert_eq!(server.produced(writing)[0].result, Ok(10));
    assert!(server.is_answered(&mut reading));
}

#[test]
fn a_sync_by_retention_that_fails_tells_the_writers() {
    let (disk, server) = server_with_ttl();
    for value in 0..10 {
        server.append(1, 0, &rows(value, 1, 300));
    }
    server.clock.advance_ms(10 * TTL_MS);
    let request = Produce::to(1, -1).bucket(0, batch(7, 0, &rows(10, 1, 5)));
    let mut writing = server.produce(&request);
    assert!(!server.is_answered(&mut writing));
    disk.fail(disk.operations() + 1, Fault::Io);
    expire(&server);
    assert_eq!(server.produced(writing)[0].result, Err(10));
    server.replicas.maintain();
    let again = server.produce(&request);
    server.sync();
    assert_eq!(server.produced(again)[0].result, Ok(10));
}
