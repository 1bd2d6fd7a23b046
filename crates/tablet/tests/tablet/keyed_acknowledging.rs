//! No acknowledgement of a put and no row to anybody before the sync of its
//! changelog, and no record of the changelog before its row (reliability.md §5).

use std::sync::Arc;

use mainstem_env::{SimFileSystem, Survival};
use mainstem_meta::Catalog;

use crate::common::keyed::*;
use crate::common::*;

fn keyed(buckets: i32) -> Arc<Catalog> {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", buckets));
    catalog
}

fn start() -> (SimFileSystem, Server) {
    let disk = disk(1);
    let server = Server::start(&disk, &keyed(1), log_config());
    (disk, server)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn limited_rows(server: &Server) -> Vec<(i64, String)> {
    limited(server.at_once(1033, limit_scan(1, None, 0))).expect("rows")
}

fn scan(server: &Server) -> Scanned {
    scanned(server.at_once(1061, open_scan(1, None, 0, 1 << 20))).expect("rows")
}

fn count(server: &Server) -> i64 {
    counted(server.at_once(1059, statistics(1, None, 0))).expect("a number")
}

#[test]
fn writers_readers_and_lookups_wait_for_the_sync() {
    for acks in [-1, 1] {
        let (disk, server) = start();
        let mut reading = server.fetch(&Fetch::of(1).bucket(0, 0).waiting(1, 500));
        assert!(!server.is_answered(&mut reading));
        let records = put_batch(7, 0, &[upsert(1, "a"), upsert(2, "b")]);
        let mut writing = server.call(1016, put(1, None, 0, acks, records));
        assert!(!server.is_answered(&mut writing), "acks {acks}");
        assert!(!server.is_answered(&mut reading));
        let replica = server.replica(1, 0);
        assert_eq!((replica.high_watermark(), replica.log_end_offset()), (0, 2));
        assert_eq!(server.look_up(1, 0, &[1, 2]), Ok(vec![None, None]));
        assert_eq!(limited_rows(&server), []);
        let scanned = scan(&server);
        assert_eq!((scanned.rows, scanned.log_offset), (vec![], Some(0)));
        assert_eq!(count(&server), 0);
        let later = disk.power_loss(Survival::Nothing);
        let later = Server::start(&later, &keyed(1), log_config());
        assert_eq!(later.look_up(1, 0, &[1, 2]), Ok(vec![None, None]));

        assert!(server.syncer.run_next());
        assert!(server.is_answered(&mut writing));
        assert_eq!(put_outcome(writing.answer()), Ok(2));
        assert!(server.is_answered(&mut reading));
        let read = read_changes(&Fetch::parse(reading.answer())[0]);
        assert_eq!(
            read[0].changes,
            [(0, 1, 1, "a".to_owned()), (1, 1, 2, "b".to_owned())]
        );
        assert_eq!(
            server.look_up(1, 0, &[2, 1]),
            Ok(vec![text("b"), text("a")])
        );
        assert_eq!(limited_rows(&server).len(), 2);
        assert_eq!(scan(&server).log_offset, Some(2));
        assert_eq!(count(&server), 2);
        // The store was not flushed: its rows come from the changelog.
        let later = disk.power_loss(Survival::Nothing);
        let later = Server::start(&later, &keyed(1), log_config());
        assert_eq!(later.look_up(1, 0, &[2, 1]), Ok(vec![text("b"), text("a")]));
        assert_eq!(count(&later), 2);
    }
}

#[test]
fn a_put_builds_on_the_ones_before_that_nobody_sees_yet() {
    let (_disk, server) = start();
    for (sequence, ops) in [
        vec![upsert(1, "a")],
        vec![upsert(1, "b"), (2, None)],
        vec![(1, None)],
        vec![upsert(1, "c")],
    ]
    .iter()
    .enumerate()
    {
        let mut call = server.put(1, 0, put_batch(7, sequence as i32, ops));
        assert!(!server.is_answered(&mut call));
    }
    assert_eq!(server.look_up(1, 0, &[1]), Ok(vec![None]));
    server.sync();
    let fetched = server.fetched(&Fetch::of(1).bucket(0, 0));
    let types: Vec<u8> = read_changes(&fetched[0])
        .iter()
        .flat_map(|batch| {
            batch
                .changes
                .iter()
                .map(|(_, change_type, ..)| *change_type)
        })
        .collect();
    assert_eq!(types, [1, 2, 3, 4, 1]);
    assert_eq!(server.look_up(1, 0, &[1, 2]), Ok(vec![text("c"), None]));
    assert_eq!(count(&server), 1);
}

/// Whoever reads a record finds its row, also if that cannot be stored.
#[test]
fn no_record_is_shown_before_its_row_is_stored() {
    let (_disk, server) = start();
    assert_eq!(server.put_synced(1, 0, &[upsert(1, "a")]), Ok(1));
    let mut writing = server.put(1, 0, put_batch(7, 0, &[upsert(1, "b")]));
    let failing = mainstem_kv::memory::Faults {
        failing: true,
        ..Default::default()
    };
    server.engine.set_faults(failing);
    server.sync();
    let replica = server.replica(1, 0);
    assert_eq!((replica.high_watermark(), replica.log_end_offset()), (1, 3));
    assert!(server.is_answered(&mut writing));
    assert_eq!(put_outcome(writing.answer()), Err(11));
    assert_eq!(
        server.fetched(&Fetch::of(1).bucket(0, 1))[0].records.len(),
        0
    );
    // While the rows cannot be opened, nobody is told what they were before.
    server.replicas.maintain();
    assert_eq!(server.look_up(1, 0, &[1]), Err(11));
    // It heals by itself, and the repeat is recognised.
    server.engine.set_faults(Default::default());
    server.clock.advance_ms(1_000);
    server.replicas.maintain();
    assert_eq!(server.look_up(1, 0, &[1]), Ok(vec![text("b")]));
    let mut again = server.put(1, 0, put_batch(7, 0, &[upsert(1, "b")]));
    assert!(server.is_answered(&mut again));
    assert_eq!(put_outcome(again.answer()), Ok(3));
}

/// Known failure B054.
#[test]
fn a_repeated_put_waits_for_the_sync_of_the_first_and_changes_nothing() {
    let (_disk, server) = start();
    let mut first = server.put(1, 0, put_batch(7, 0, &[upsert(1, "a")]));
    let mut second = server.put(
        1,
        0,
        put_batch(7, 0, &[upsert(1, "other"), upsert(2, "more")]),
    );
    assert!(!server.is_answered(&mut first) && !server.is_answered(&mut second));
    server.sync();
    assert!(server.is_answered(&mut first) && server.is_answered(&mut second));
    assert_eq!(put_outcome(first.answer()), Ok(1));
    assert_eq!(put_outcome(second.answer()), Ok(1));
    assert_eq!(server.look_up(1, 0, &[1, 2]), Ok(vec![text("a"), None]));
    let mut next = server.put(1, 0, put_batch(7, 1, &[upsert(1, "b")]));
    server.sync();
    assert!(server.is_answered(&mut next));
    assert_eq!(put_outcome(next.answer()), Ok(3));
}

#[test]
fn a_server_that_is_closed_has_nothing_to_replay() {
    let (disk, server) = start();
    assert_eq!(
        server.put_synced(1, 0, &[upsert(1, "a"), upsert(2, "b")]),
        Ok(2)
    );
    assert_eq!(server.put_synced(1, 0, &[(2, None)]), Ok(3));
    let engine = server.engine.clone();
    server.replicas.close_all();
    drop(server);
    let disk = disk.power_loss(Survival::Nothing);
    let before = disk.operations();
    let server = Server::start_with(
        Arc::new(disk.clone()),
        engine,
        &keyed(1),
        log_config(),
        9_000_000,
    );
    assert_eq!(server.look_up(1, 0, &[1, 2]), Ok(vec![text("a"), None]));
    assert_eq!(count(&server), 1);
    assert_eq!(disk.operations(), before, "nothing is written");
}

#[test]
fn a_start_with_many_tables_opens_no_store() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", 500));
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    for bucket in [0, 499] {
        assert_eq!(server.put_synced(1, bucket, &[upsert(1, "a")]), Ok(1));
    }
    server.replicas.close_all();
    let engine = server.engine.clone();
    drop(server);
    let disk = disk.process_kill();
    // An engine that can open nothing shows that nothing is opened.
    let failing = mainstem_kv::memory::Faults {
        failing: true,
        ..Default::default()
    };
    engine.set_faults(failing);
    let before = disk.operations();
    let server = Server::start_with(
        Arc::new(disk.clone()),
        engine,
        &catalog,
        log_config(),
        9_000_000,
    );
    let replicas = (0..500).map(|bucket| server.replica(1, bucket));
    assert!(replicas.into_iter().all(|replica| !replica.rows_are_open()));
    assert_eq!(disk.operations(), before);
    assert_eq!(disk.open_handles(), 0);
    // The changelog needs no store.
    let fetched = server.fetched(&Fetch::of(1).bucket(499, 0));
    assert_eq!(read_changes(&fetched[0]).len(), 1);
    assert_eq!(server.look_up(1, 499, &[1]), Err(11));
    server.engine.set_faults(Default::default());
    // Opening may be much work: not every request tries it.
    assert_eq!(server.look_up(1, 499, &[1]), Err(11));
    server.clock.advance_ms(1_000);
    assert_eq!(server.look_up(1, 499, &[1]), Ok(vec![text("a")]));
    assert!(!server.replica(1, 0).rows_are_open());
}

#[test]
fn idle_rows_are_closed_and_opened_again() {
    let (_disk, server) = start();
    assert_eq!(server.put_synced(1, 0, &[upsert(1, "a")]), Ok(1));
    let replica = server.replica(1, 0);
    let idle = |milliseconds| {
        server.clock.advance_ms(milliseconds);
        server.replicas.maintain();
    };
    idle(9_000);
    assert!(replica.rows_are_open());
    assert_eq!(server.look_up(1, 0, &[1]), Ok(vec![text("a")]));
    idle(9_000);
    assert!(replica.rows_are_open(), "a lookup uses them");
    let scanned = scanned(server.at_once(1061, open_scan(1, None, 0, 1))).expect("rows");
    assert!(scanned.rows.len() == 1 && scanned.log_offset == Some(1));
    idle(11_000);
    assert!(!replica.rows_are_open());
    assert_eq!(server.look_up(1, 0, &[1]), Ok(vec![text("a")]));
    assert!(replica.rows_are_open());
    // What waits for its sync keeps them open.
    let mut writing = server.put(1, 0, put_batch(7, 0, &[upsert(1, "b")]));
    idle(60_000);
    assert!(replica.rows_are_open() || server.is_answered(&mut writing));
    server.sync();
    assert!(server.is_answered(&mut writing));
    assert_eq!(server.look_up(1, 0, &[1]), Ok(vec![text("b")]));
}

#[test]
fn a_scan_between_two_calls_keeps_its_view_while_rows_are_idle() {
    let (_disk, server) = start();
    assert_eq!(
        server.put_synced(1, 0, &[upsert(1, "a"), upsert(2, "b")]),
        Ok(2)
    );
    let first = scanned(server.at_once(1061, open_scan(1, None, 0, 1))).expect("rows");
    assert_eq!(server.put_synced(1, 0, &[upsert(2, "c")]), Ok(4));
    server.clock.advance_ms(60_000);
    server.replicas.maintain();
    let id = first.id.expect("an id");
    let rest = scanned(server.at_once(1061, go_on(&id, 1))).expect("rows");
    assert_eq!(
        [first.rows, rest.rows].concat(),
        [(1, "a".to_owned()), (2, "b".to_owned())]
    );
    assert_eq!(server.look_up(1, 0, &[2]), Ok(vec![text("c")]));
}

/// They read the store that is not to be trusted, and keep it from being closed.
#[test]
fn scans_end_with_rows_that_fail_and_the_rows_are_opened_anew() {
    let (_disk, server) = start();
    let ops = [upsert(1, "a"), upsert(2, "b")];
    assert_eq!(server.put_synced(1, 0, &ops), Ok(2));
    let first = scanned(server.at_once(1061, open_scan(1, None, 0, 1))).expect("rows");
    let mut writing = server.put(1, 0, put_batch(7, 0, &[upsert(2, "c")]));
    let failing = mainstem_kv::memory::Faults {
        failing: true,
        ..Default::default()
    };
    server.engine.set_faults(failing);
    server.sync();
    assert!(server.is_answered(&mut writing));
    assert_eq!(put_outcome(writing.answer()), Err(11));
    server.engine.set_faults(Default::default());
    server.replicas.maintain();
    let replica = server.replica(1, 0);
    assert!(replica.rows_are_open());
    assert_eq!(replica.high_watermark(), 4);
    let id = first.id.expect("an id");
    let next = scanned(server.at_once(1061, go_on(&id, 1)));
    assert_eq!(next.map(|scanned| scanned.rows), Err(67));
    let anew = scan(&server);
    let rows = vec![(1, "a".to_owned()), (2, "c".to_owned())];
    assert_eq!((anew.rows, anew.log_offset), (rows, Some(4)));
}
