//! No acknowledgement and no row to a reader before the sync of its bytes
//! (reliability.md §5).

use mainstem_env::{Operation, SimFileSystem, Survival};
use mainstem_log::{Durability, LogConfig};

use crate::common::*;

fn one_table(buckets: i32) -> std::sync::Arc<mainstem_meta::Catalog> {
    let catalog = catalog();
    put_table(
        &catalog,
        &TableSpec {
            buckets,
            ..TableSpec::default()
        },
    );
    catalog
}

/// What a reader of bucket 0 finds after the power has gone now, with nothing
/// kept that was not synced.
fn after_power_loss(disk: &SimFileSystem, log: &LogConfig) -> Vec<Row> {
    let disk = disk.power_loss(Survival::Nothing);
    let server = Server::start(&disk, &one_table(1), log.clone());
    server.sync();
    server.fetched(&Fetch::of(1).bucket(0, 0))[0].rows()
}

#[test]
fn writers_and_readers_wait_for_the_sync() {
    for acks in [-1, 1] {
        let disk = disk(1);
        let server = Server::start(&disk, &one_table(1), log_config());
        let mut reading = server.fetch(&Fetch::of(1).bucket(0, 0).waiting(1, 500));
        assert!(!server.is_answered(&mut reading));

        let request = Produce::to(1, acks).bucket(0, batch(7, 0, &rows(0, 3, 5)));
        let mut writing = server.produce(&request);
        assert!(!server.is_answered(&mut writing), "acks {acks}");
        assert!(!server.is_answered(&mut reading));
        let replica = server.replica(1, 0);
        assert_eq!((replica.high_watermark(), replica.log_end_offset()), (0, 3));
        let latest = server.call(1021, ListOffsets::latest(1, 0)).answer();
        assert_eq!(ListOffsets::parse(latest), Ok(0));
        let seen = server.fetched(&Fetch::of(1).bucket(0, 0));
        assert_eq!((seen[0].high_watermark, seen[0].records.len()), (0, 0));
        assert!(after_power_loss(&disk, &log_config()).is_empty());

        assert!(server.syncer.run_next());
        assert_eq!(server.produced(writing)[0].result, Ok(0));
        assert!(server.is_answered(&mut reading));
        let read = Fetch::parse(reading.answer())[0].rows();
        assert_eq!(read.len(), 3);
        assert_eq!(after_power_loss(&disk, &log_config()), read);
    }
}

#[test]
fn the_first_row_of_a_bucket_needs_its_file_and_every_directory_above() {
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(1), log_config());
    let before = disk.trace().len();
    let mut writing = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 1, 5))));
    assert!(!server.is_answered(&mut writing));
    let at_append = disk.trace().len();
    server.syncer.run_next();
    server.produced(writing);
    let trace = disk.trace();
    let (append, sync) = (&trace[before..at_append], &trace[at_append..]);

    let file = || format!("{LOG_DIR}/t1/b0/{:020}.log", 0).into();
    let position = |trace: &[Operation], wanted: &Operation| {
        let found = trace.iter().position(|operation| operation == wanted);
        found.unwrap_or_else(|| panic!("{wanted:?} is not in {trace:?}"))
    };
    assert!(
        !append
            .iter()
            .any(|operation| matches!(operation, Operation::SyncData(_) | Operation::SyncDir(_))),
        "an append never waits for the disk: {append:?}"
    );
    let file_synced = position(sync, &Operation::SyncData(file()));
    let dirs = ["/t1/b0", "/t1", ""].map(|dir| format!("{LOG_DIR}{dir}").into());
    for dir in dirs.map(Operation::SyncDir) {
        let dir_synced = position(sync, &dir);
        assert!(dir_synced > file_synced);
        // What comes behind the last sync is not waited for: the mark.
        let behind = &sync[dir_synced + 1..];
        assert!(!behind.contains(&Operation::SyncData(file())));
    }
}

#[test]
fn an_acknowledgement_of_acks_0_waits_for_nothing() {
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(1), log_config());
    let request = Produce::to(1, 0).bucket(0, batch(7, 0, &rows(0, 3, 5)));
    assert_eq!(server.produced(server.produce(&request))[0].result, Ok(0));
    // Readers do.
    assert_eq!(
        server.fetched(&Fetch::of(1).bucket(0, 0))[0].high_watermark,
        0
    );
    server.sync();
    assert_eq!(
        server.fetched(&Fetch::of(1).bucket(0, 0))[0].rows().len(),
        3
    );
}

#[test]
fn in_mode_os_nobody_waits_and_a_killed_process_loses_nothing() {
    let log = LogConfig {
        durability: Durability::Os,
        ..log_config()
    };
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(1), log.clone());
    let mut reading = server.fetch(&Fetch::of(1).bucket(0, 0).waiting(1, 500));
    assert!(!server.is_answered(&mut reading));
    for acks in [-1, 0, 1] {
        let request = Produce::to(1, acks).bucket(0, batch(7, acks + 1, &rows(0, 1, 5)));
        let written = server.produced(server.produce(&request));
        assert!(written[0].result.is_ok(), "acks {acks}: {written:?}");
    }
    assert!(server.is_answered(&mut reading));
    drop(server);
    let server = Server::start(&disk.process_kill(), &one_table(1), log);
    assert_eq!(
        server.fetched(&Fetch::of(1).bucket(0, 0))[0].rows().len(),
        3
    );
}

#[test]
fn a_server_that_is_closed_leaves_nothing_unsynced() {
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(3), log_config());
    for bucket in 0..3 {
        let request = Produce::to(1, 0).bucket(bucket, batch(7, 0, &rows(0, 3, 5)));
        server.produced(server.produce(&request));
    }
    server.replicas.close_all();
    drop(server);
    let disk = disk.power_loss(Survival::Nothing);
    let before = disk.operations();
    let server = Server::start(&disk, &one_table(3), log_config());
    for bucket in 0..3 {
        let read = server.fetched(&Fetch::of(1).bucket(bucket, 0));
        assert_eq!(read[0].rows().len(), 3, "without a sync");
    }
    assert_eq!(disk.operations(), before, "there is nothing to repair");
}

#[test]
fn a_repeated_batch_waits_for_the_sync_of_the_first() {
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(1), log_config());
    let request = Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 3, 5)));
    let mut first = server.produce(&request);
    let mut second = server.produce(&request);
    assert!(!server.is_answered(&mut first) && !server.is_answered(&mut second));
    server.sync();
    assert_eq!(server.produced(first)[0].result, Ok(0));
    assert_eq!(server.produced(second)[0].result, Ok(0));
    let third = server.produce(&request);
    assert_eq!(server.produced(third)[0].result, Ok(0), "at once");
    assert_eq!(server.replica(1, 0).log_end_offset(), 3);
}

#[test]
fn each_bucket_is_answered_for_itself_when_all_are_settled() {
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(3), log_config());
    let request = Produce::to(1, -1)
        .bucket(0, batch(7, 0, &rows(0, 1, 5)))
        .bucket(2, batch(7, 0, &rows(1, 1, 5)))
        .bucket(3, batch(7, 0, &rows(2, 1, 5)))
        .bucket(1, "no batch".into());
    let mut writing = server.produce(&request);
    assert!(server.syncer.run_next());
    assert!(!server.is_answered(&mut writing), "one of two is synced");
    server.sync();
    let results: Vec<_> = server
        .produced(writing)
        .iter()
        .map(|entry| (entry.bucket, entry.result))
        .collect();
    assert_eq!(
        results,
        [(0, Ok(0)), (2, Ok(0)), (3, Err(21)), (1, Err(14))]
    );
}

#[test]
fn a_writer_whose_sync_does_not_come_is_told_in_time() {
    let disk = disk(1);
    let server = Server::start(&disk, &one_table(1), log_config());
    let request = Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 1, 5)));
    let started = server.now();
    let writing = server.produce(&request);
    let answer = Produce::parse(writing.wait(&server.runtime));
    assert_eq!(answer[0].result, Err(25));
    assert_eq!((server.now() - started).as_secs(), 30, "its timeout_ms");
    // The row may come all the same; the repeat is recognised.
    let again = server.produce(&request);
    server.sync();
    assert_eq!(server.produced(again)[0].result, Ok(0));
    assert_eq!(server.replica(1, 0).waiting(), (0, 0));
}

#[test]
fn writers_that_are_gone_leave_nothing_behind() {
    let server = Server::start(&disk(1), &one_table(1), log_config());
    for value in 0..500 {
        let request = Produce::to(1, -1).bucket(0, batch(-1, -1, &rows(value, 1, 5)));
        drop(server.produce(&request));
    }
    assert_eq!(server.replica(1, 0).waiting().0, 500);
    server.sync();
    assert_eq!(server.replica(1, 0).waiting(), (0, 0));
    // What was accepted is there, whether or not anybody was told.
    let read = server.fetched(&Fetch::of(1).bucket(0, 0));
    assert_eq!(read[0].high_watermark, 500);
}
