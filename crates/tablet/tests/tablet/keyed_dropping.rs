//! Primary-key tables and partitions that go while they are used, and what they
//! leave behind (known failures B011, B036).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{Fault, FileSystem, OpenMode, Survival};

use crate::common::keyed::*;
use crate::common::*;

const ROWS_DIR: &str = "/data/kv";

fn store_of(place: &str) -> PathBuf {
    Path::new(ROWS_DIR).join(place).join("db")
}

#[test]
fn whoever_uses_a_table_that_is_dropped_is_told_at_once() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", 1));
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    assert_eq!(
        server.put_synced(1, 0, &[upsert(1, "a"), upsert(2, "b")]),
        Ok(2)
    );
    let scan = scanned(server.at_once(1061, open_scan(1, None, 0, 1))).expect("rows");
    let mut reading = server.fetch(&Fetch::of(1).bucket(0, 2).waiting(1, 60_000));
    let mut writing = server.put(1, 0, put_batch(7, 0, &[upsert(1, "b")]));
    assert!(!server.is_answered(&mut reading) && !server.is_answered(&mut writing));
    let started = server.now();
    drop_table(&catalog, "t");
    assert!(server.is_answered(&mut writing) && server.is_answered(&mut reading));
    assert_eq!(put_outcome(writing.answer()), Err(12));
    assert_eq!(Fetch::parse(reading.answer())[0].error, Some(21));
    let id = scan.id.expect("an id");
    let next = scanned(server.at_once(1061, go_on(&id, 1)));
    assert_eq!(next.map(|scanned| scanned.rows), Err(67));
    assert_eq!(server.now(), started);
    server.sync();
    assert_eq!(server.put_synced(1, 0, &[upsert(1, "c")]), Err(21));
    assert_eq!(server.look_up(1, 0, &[1]), Err(21));
    assert!(disk.list(Path::new(LOG_DIR)).unwrap().is_empty());
    assert!(disk.list(Path::new(ROWS_DIR)).unwrap().is_empty());
    assert_eq!(server.engine.directories(), Vec::<PathBuf>::new());
    assert_eq!(disk.open_handles(), 0);
}

/// Who found the replica before it was dropped must not make its files anew.
#[test]
fn a_request_that_holds_a_replica_while_it_is_dropped_makes_no_files() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", 1));
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    assert_eq!(server.put_synced(1, 0, &[upsert(1, "a")]), Ok(1));
    let replica = server.replica(1, 0);
    let (rows, _) = replica.rows().expect("it leads");
    drop_table(&catalog, "t");
    assert_eq!(
        replica.lock_rows().err().map(|refusal| refusal.code),
        Some(12)
    );
    assert_eq!(
        replica.opened_rows().err().map(|refusal| refusal.code),
        Some(12)
    );
    assert!(!rows.is_open());
    replica.maintain_rows(0, 0, &|_| {});
    assert!(disk.list(Path::new(ROWS_DIR)).unwrap().is_empty());
    assert_eq!(server.engine.directories(), Vec::<PathBuf>::new());
}

#[test]
fn a_table_that_is_created_again_has_no_rows() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", 1));
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    assert_eq!(server.put_synced(1, 0, &[upsert(1, "a")]), Ok(1));
    drop_table(&catalog, "t");
    put_table(&catalog, &TableSpec::keyed(2, "t", 1));
    assert_eq!(server.look_up(2, 0, &[1]), Ok(vec![None]));
    assert_eq!(server.put_synced(2, 0, &[upsert(1, "b")]), Ok(1));
    let engine = server.engine.clone();
    drop(server);
    engine.crash(|_, writes| writes);
    let disk = Arc::new(disk.process_kill());
    let server = Server::start_with(disk, engine, &catalog, log_config(), 2_000_000);
    assert_eq!(server.look_up(2, 0, &[1]), Ok(vec![Some("b".to_owned())]));
}

#[test]
fn a_partition_that_is_dropped_takes_no_other_with_it() {
    let catalog = catalog();
    let spec = TableSpec {
        partitioned: true,
        ..TableSpec::keyed(1, "t", 1)
    };
    put_table(&catalog, &spec);
    for partition in [10, 11] {
        put_partition(&catalog, 1, partition, 1);
    }
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    let write = |partition, sequence| {
        let records = put_batch(7, sequence, &[upsert(partition, "x")]);
        let mut call = server.call(1016, put(1, Some(partition), 0, -1, records));
        server.sync();
        assert!(server.is_answered(&mut call));
        put_outcome(call.answer())
    };
    let find = |partition| {
        let keys = [10, 11];
        let body = lookup(1, Some(partition), 0, &keys);
        looked_up(server.at_once(1017, body), &keys)
    };
    assert_eq!((write(10, 0), write(11, 0)), (Ok(1), Ok(1)));
    drop_partition(&catalog, 10);
    assert_eq!((write(10, 1), find(10)), (Err(21), Err(21)));
    assert_eq!(find(11), Ok(vec![None, Some("x".to_owned())]));
    assert_eq!(write(11, 1), Ok(3));
    assert_eq!(server.engine.directories(), [store_of("t1/p11/b0")]);
    assert!(disk.list(&Path::new(ROWS_DIR).join("t1/p10")).is_err());
}

#[test]
fn a_start_removes_rows_that_dropped_tables_left_and_nothing_else() {
    let tables = |catalog: &mainstem_meta::Catalog| {
        put_table(catalog, &TableSpec::keyed(1, "kept", 1));
        let parts = TableSpec {
            partitioned: true,
            ..TableSpec::keyed(5, "parts", 1)
        };
        put_table(catalog, &parts);
        put_partition(catalog, 5, 20, 1);
    };
    let full = catalog();
    tables(&full);
    put_table(&full, &TableSpec::keyed(2, "dropped", 3));
    put_partition(&full, 5, 21, 1);
    let disk = disk(1);
    let server = Server::start(&disk, &full, log_config());
    for (table, bucket) in [(1, 0), (2, 0), (2, 2)] {
        assert_eq!(server.put_synced(table, bucket, &[upsert(1, "a")]), Ok(1));
    }
    for partition in [20, 21] {
        let records = put_batch(7, 0, &[upsert(1, "a")]);
        let mut call = server.call(1016, put(5, Some(partition), 0, -1, records));
        server.sync();
        assert!(server.is_answered(&mut call));
    }
    let engine = server.engine.clone();
    assert_eq!(engine.directories().len(), 5);
    drop(server);
    engine.crash(|_, writes| writes);
    let disk = disk.process_kill();
    let foreign = ["lost+found", "t1/b0.old", "t2-backup", "tx/b0", "t2/notes"];
    for dir in foreign {
        let dir = Path::new(ROWS_DIR).join(dir);
        disk.create_dir_all(&dir).unwrap();
        disk.create_new(&dir.join("precious")).unwrap();
    }
    let rest = catalog();
    tables(&rest);
    let server = Server::start_with(
        Arc::new(disk.clone()),
        engine,
        &rest,
        log_config(),
        2_000_000,
    );
    let kept = [store_of("t1/b0"), store_of("t5/p20/b0")];
    assert_eq!(server.engine.directories(), kept);
    assert_eq!(server.look_up(1, 0, &[1]), Ok(vec![Some("a".to_owned())]));
    for gone in ["t2/b0", "t2/b2", "t5/p21"] {
        let gone = Path::new(ROWS_DIR).join(gone);
        assert!(disk.list(&gone).is_err(), "{gone:?} is still there");
    }
    for dir in foreign {
        let file = Path::new(ROWS_DIR).join(dir).join("precious");
        assert!(disk.open(&file, OpenMode::Read).is_ok(), "{file:?} is gone");
    }
}

#[test]
fn a_crash_while_a_table_is_dropped_leaves_nothing_that_matters() {
    for number in 1..18 {
        let tables = catalog();
        put_table(&tables, &TableSpec::keyed(1, "t", 1));
        put_table(&tables, &TableSpec::keyed(2, "other", 1));
        let disk = disk(number);
        let server = Server::start(&disk, &tables, log_config());
        for table in [1, 2] {
            assert_eq!(server.put_synced(table, 0, &[upsert(1, "a")]), Ok(1));
        }
        disk.fail(disk.operations() + number, Fault::PowerLoss);
        drop_table(&tables, "t");
        server.sync();
        let engine = server.engine.clone();
        drop(server);
        engine.crash(|_, _| 0);
        let disk = disk.power_loss(Survival::Seeded(number));
        let rest = catalog();
        put_table(&rest, &TableSpec::keyed(2, "other", 1));
        let server = Server::start_with(
            Arc::new(disk.clone()),
            engine,
            &rest,
            log_config(),
            2_000_000,
        );
        assert_eq!(server.look_up(2, 0, &[1]), Ok(vec![Some("a".to_owned())]));
        assert_eq!(server.engine.directories(), [store_of("t2/b0")], "{number}");
        for root in [LOG_DIR, ROWS_DIR] {
            let dirs = disk.list(Path::new(root)).unwrap();
            assert_eq!(dirs.len(), 1, "{number}: {dirs:?}");
        }
    }
}
