//! Tables and partitions that go while they are used, and what they leave
//! behind (known failures B011, B036).

use std::path::Path;

use mainstem_env::{Fault, FileSystem, OpenMode, Survival};

use crate::common::*;

#[test]
fn whoever_waits_in_a_table_that_is_dropped_is_told_at_once() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    let mut reading = server.fetch(&Fetch::of(1).bucket(0, 0).waiting(1, 60_000));
    let mut writing = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 1, 5))));
    assert!(!server.is_answered(&mut reading) && !server.is_answered(&mut writing));
    let started = server.now();
    drop_table(&catalog, "t");
    assert_eq!(server.produced(writing)[0].result, Err(12));
    assert!(server.is_answered(&mut reading));
    assert_eq!(Fetch::parse(reading.answer())[0].error, Some(21));
    assert_eq!(server.now(), started);
    // The sync that was asked for finds nothing, and hurts nobody.
    server.sync();
    let again = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 1, 5))));
    assert_eq!(server.produced(again)[0].result, Err(21));
    assert!(disk.list(Path::new(LOG_DIR)).unwrap().is_empty());
    assert_eq!(disk.open_handles(), 0);
}

#[test]
fn a_request_that_holds_a_replica_while_it_is_dropped_is_refused_and_does_not_wait() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let server = Server::start(&disk(1), &catalog, log_config());
    let replica = server.replica(1, 0);
    let appended = replica.append(batch(7, 0, &rows(0, 1, 5)), -1).unwrap();
    drop_table(&catalog, "t");
    let (wait, mut finished) = mainstem_tablet::produce_wait::ProduceWait::new(&[true]);
    replica.notify_committed(&appended, &wait, 0);
    assert!(
        finished.try_recv().is_ok(),
        "the writer would wait for ever"
    );
    let refused = replica.append(batch(7, 1, &rows(1, 1, 5)), -1).unwrap_err();
    assert_eq!(refused.code, 12);
    let reader = mainstem_tablet::fetch_wait::FetchWait::new(1);
    assert!(
        !replica.wait_for_records(0, &reader, 0),
        "the reader would too"
    );
    assert!(replica.check_leader().is_err());
    assert_eq!(replica.waiting(), (0, 0));
}

#[test]
fn a_table_that_is_created_again_begins_anew() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    server.append(1, 0, &rows(0, 5, 5));
    drop_table(&catalog, "t");
    let second = TableSpec {
        id: 2,
        ..TableSpec::default()
    };
    put_table(&catalog, &second);
    let read = server.fetched(&Fetch::of(1).bucket(0, 5).and_of(2).bucket(0, 0));
    assert_eq!((read[0].error, read[1].error), (Some(21), None));
    assert_eq!((read[1].high_watermark, read[1].log_start), (0, 0));
    // The same writer with the same sequence is a new one here.
    assert_eq!(server.append(2, 0, &rows(10, 2, 5)), 0);
    drop(server);
    let server = Server::start(&disk.process_kill(), &catalog, log_config());
    server.sync();
    assert_eq!(
        server.fetched(&Fetch::of(2).bucket(0, 0))[0].rows().len(),
        2
    );
}

#[test]
fn a_partition_that_is_dropped_takes_no_other_with_it() {
    let catalog = catalog();
    let spec = TableSpec {
        partitioned: true,
        ..TableSpec::default()
    };
    put_table(&catalog, &spec);
    for partition in [10, 11, 12] {
        put_partition(&catalog, 1, partition, 2);
    }
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    let produce = |partition: i64, sequence| {
        let records = batch(7, sequence, &rows(partition, 1, 5));
        let call = server.produce(&Produce::to(1, -1).partition(Some(partition), 1, records));
        server.sync();
        server.produced(call)[0].result
    };
    for partition in [10, 11, 12] {
        assert_eq!(produce(partition, 0), Ok(0));
    }
    let fetch = Fetch::of(1).partition(10, 1, 1).partition(11, 1, 1);
    let mut reading = server.fetch(&fetch.waiting(1, 60_000));
    assert!(!server.is_answered(&mut reading));
    drop_partition(&catalog, 10);
    assert!(!server.is_answered(&mut reading), "the other goes on");
    assert_eq!(produce(10, 1), Err(21));
    assert_eq!(produce(11, 1), Ok(1));
    assert!(server.is_answered(&mut reading));
    let read = Fetch::parse(reading.answer());
    assert_eq!((read[0].error, read[0].partition), (Some(21), Some(10)));
    assert_eq!(read[1].rows()[0].a, 11);
    assert!(disk.list(&Path::new(LOG_DIR).join("t1/p10")).is_err());
    assert_eq!(produce(12, 1), Ok(1));
}

#[test]
fn a_start_removes_what_dropped_tables_left_and_nothing_else() {
    let full = catalog();
    let two = |catalog: &mainstem_meta::Catalog| {
        for (id, name) in [(1, "kept"), (11, "like the first"), (3, "empty")] {
            let spec = TableSpec {
                id,
                name,
                ..TableSpec::default()
            };
            put_table(catalog, &spec);
        }
        let spec = TableSpec {
            id: 5,
            name: "parts",
            partitioned: true,
            ..TableSpec::default()
        };
        put_table(catalog, &spec);
        put_partition(catalog, 5, 20, 1);
    };
    two(&full);
    let dropped = TableSpec {
        id: 2,
        name: "dropped",
        buckets: 3,
        ..TableSpec::default()
    };
    put_table(&full, &dropped);
    put_partition(&full, 5, 21, 1);
    let disk = disk(1);
    let server = Server::start(&disk, &full, log_config());
    for (table, bucket) in [(1, 0), (11, 0), (2, 0), (2, 2)] {
        server.append(table, bucket, &rows(0, 2, 5));
    }
    for partition in [20, 21] {
        let records = batch(7, 0, &rows(0, 1, 5));
        let call = server.produce(&Produce::to(5, -1).partition(Some(partition), 0, records));
        server.sync();
        assert_eq!(server.produced(call)[0].result, Ok(0));
    }
    drop(server);
    let disk = disk.process_kill();
    // Not ours, whatever they are.
    let foreign = ["lost+found", "t1/b0.old", "t2-backup", "tx/b0", "t2/notes"];
    for dir in foreign {
        let dir = Path::new(LOG_DIR).join(dir);
        disk.create_dir_all(&dir).unwrap();
        disk.create_new(&dir.join("precious")).unwrap();
    }
    let rest = catalog();
    two(&rest);
    let server = Server::start(&disk, &rest, log_config());
    server.sync();
    for table in [1, 11] {
        assert_eq!(
            server.fetched(&Fetch::of(table).bucket(0, 0))[0]
                .rows()
                .len(),
            2
        );
    }
    let read = server.fetched(&Fetch::of(5).partition(20, 0, 0).partition(21, 0, 0));
    assert_eq!((read[0].rows().len(), read[1].error), (1, Some(21)));
    for gone in ["t2/b0", "t2/b2", "t5/p21"] {
        let gone = Path::new(LOG_DIR).join(gone);
        assert!(disk.list(&gone).is_err(), "{gone:?} is still there");
    }
    for dir in foreign {
        let file = Path::new(LOG_DIR).join(dir).join("precious");
        assert!(disk.open(&file, OpenMode::Read).is_ok(), "{file:?} is gone");
    }
}

#[test]
fn a_crash_while_a_table_is_dropped_leaves_nothing_that_matters() {
    for number in 1..14 {
        let tables = catalog();
        put_table(&tables, &TableSpec::default());
        let other = TableSpec {
            id: 2,
            name: "other",
            ..TableSpec::default()
        };
        put_table(&tables, &other);
        let disk = disk(number);
        let server = Server::start(&disk, &tables, log_config());
        server.append(1, 0, &rows(0, 3, 5));
        server.append(2, 0, &rows(0, 3, 5));
        disk.fail(disk.operations() + number, Fault::PowerLoss);
        drop_table(&tables, "t");
        server.sync();
        drop(server);
        let disk = disk.power_loss(Survival::Seeded(number));
        let rest = catalog();
        put_table(&rest, &other);
        let server = Server::start(&disk, &rest, log_config());
        server.sync();
        assert_eq!(
            server.fetched(&Fetch::of(2).bucket(0, 0))[0].rows().len(),
            3
        );
        let dirs = disk.list(Path::new(LOG_DIR)).unwrap();
        assert_eq!(dirs.len(), 1, "{number}: {dirs:?}");
    }
}
