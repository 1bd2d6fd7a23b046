//! Auto-increment numbers: once each, whatever happens (tables.md §4.9).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use mainstem_meta::store::{EmbeddedStore, encode_counter};
use mainstem_meta::{MemoryStore, MetaError, MetaStore, SequenceSource, keys};
use mainstem_types::TableId;

use super::crashes::{Counting, Fate};
use super::fixture::*;
use crate::CoordinatorConfig;

const COLUMN: i32 = 2;

fn fixture_on(store: Arc<dyn MetaStore>) -> Fixture {
    Fixture::on(store, CoordinatorConfig::default())
}

/// A cluster with the table `t`, and the table's id.
fn with_table(store: Arc<dyn MetaStore>) -> (Fixture, TableId) {
    let fixture = fixture_on(store);
    fixture.create("t", &key_table());
    let table = TableId(fixture.info("t").table_id.expect("sent"));
    (fixture, table)
}

#[test]
fn numbers_start_at_one_and_go_on_per_table_and_column() {
    let (fixture, table) = with_table(Arc::new(MemoryStore::new()));
    fixture.create("other", &key_table());
    let other = TableId(fixture.info("other").table_id.expect("sent"));
    let take = |table, column, count| {
        let range = fixture.coordinator.take(table, column, count);
        range.expect("a range")
    };
    assert_eq!(take(table, COLUMN, 5), 1..=5);
    assert_eq!(take(table, COLUMN, 100_000), 6..=100_005);
    assert_eq!(take(table, COLUMN + 1, 2), 1..=2);
    assert_eq!(take(other, COLUMN, 1), 1..=1);
    assert_eq!(take(table, COLUMN, 0), 100_006..=100_006);
}

#[test]
fn of_twenty_takers_at_once_no_two_get_the_same_number() {
    let (fixture, table) = with_table(Arc::new(MemoryStore::new()));
    let coordinator = &fixture.coordinator;
    let taken: Vec<i64> = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    let ranges = (0..13).map(|_| coordinator.take(table, COLUMN, 10));
                    ranges
                        .flat_map(|range| range.expect("a range"))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let taken = takers.into_iter().map(|taker| taker.join());
        taken
            .flat_map(|numbers| numbers.expect("no panic"))
            .collect()
    });
    let distinct: BTreeSet<i64> = taken.iter().copied().collect();
    assert_eq!(taken.len(), 2600);
    assert_eq!(distinct, (1..=2600).collect());
}

#[test]
fn a_take_is_one_transaction_and_a_lost_answer_costs_numbers_but_repeats_none() {
    for (fate, next) in [(Fate::LostBefore, 11), (Fate::LostAfter, 21)] {
        let store = Arc::new(Counting::new(Arc::new(MemoryStore::new())));
        let (fixture, table) = with_table(store.clone());
        let before = store.commits();
        let first = fixture.coordinator.take(table, COLUMN, 10);
        assert_eq!(first.expect("a range"), 1..=10);
        assert_eq!(store.commits(), before + 1);
        store.set_fate(fate);
        let lost = fixture.coordinator.take(table, COLUMN, 10);
        assert!(
            matches!(lost, Err(MetaError::Unavailable { .. })),
            "{lost:?}"
        );
        store.set_fate(Fate::Works);
        let after = fixture.coordinator.take(table, COLUMN, 10);
        assert_eq!(after.expect("a range"), next..=next + 9, "{fate:?}");
        // And after a restart on what is stored.
        let restarted = fixture_on(store);
        let later = restarted.coordinator.take(table, COLUMN, 1);
        assert_eq!(later.expect("a range"), next + 10..=next + 10, "{fate:?}");
    }
}

#[test]
fn numbers_that_were_taken_are_in_the_file_when_the_process_dies() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("meta.redb");
    let open = |path: &Path| Arc::new(EmbeddedStore::open(path).expect("open"));
    let (fixture, table) = with_table(open(&path));
    for round in 0..5 {
        let range = fixture.coordinator.take(table, COLUMN, 3).expect("a range");
        assert_eq!(range, 3 * round + 1..=3 * round + 3);
        // The file as a killed process leaves it.
        let copy = directory.path().join("killed.redb");
        std::fs::copy(&path, &copy).expect("copied");
        let restarted = fixture_on(open(&copy));
        let range = restarted.coordinator.take(table, COLUMN, 3);
        assert_eq!(range.expect("a range"), 3 * round + 4..=3 * round + 6);
    }
}

#[test]
fn a_coordinator_that_was_replaced_gives_out_nothing() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let (old, table) = with_table(store.clone());
    let new = fixture_on(store);
    let refused = old.coordinator.take(table, COLUMN, 10);
    assert!(
        matches!(&refused, Err(MetaError::Conflict { key }) if key == keys::COORDINATOR_EPOCH),
        "{refused:?}"
    );
    let range = new.coordinator.take(table, COLUMN, 10);
    assert_eq!(range.expect("a range"), 1..=10);
}

#[test]
fn sequences_go_with_their_table() {
    let (fixture, table) = with_table(Arc::new(MemoryStore::new()));
    fixture
        .coordinator
        .take(table, COLUMN, 10)
        .expect("a range");
    fixture.drop_table("t", false).expect("dropped");
    let gone = fixture.coordinator.take(table, COLUMN, 10);
    assert!(matches!(gone, Err(MetaError::NotFound { .. })), "{gone:?}");
    let left = fixture.store.list("sequences/").expect("listed").entries;
    assert_eq!(left, []);

    // A table of the same name counts from the start.
    fixture.create("t", &key_table());
    let next = TableId(fixture.info("t").table_id.expect("sent"));
    let range = fixture.coordinator.take(next, COLUMN, 10);
    assert_eq!(range.expect("a range"), 1..=10);

    fixture.create_database("db");
    fixture.create("db/t", &key_table());
    let table = TableId(fixture.info("db/t").table_id.expect("sent"));
    fixture.coordinator.take(table, COLUMN, 1).expect("a range");
    fixture.drop_database("db", false, true).expect("dropped");
    assert!(fixture.coordinator.take(table, COLUMN, 1).is_err());
    assert_eq!(
        fixture
            .store
            .list("sequences/")
            .expect("listed")
            .entries
            .len(),
        1
    );
}

#[test]
fn changes_of_the_table_do_not_disturb_its_sequence() {
    let (fixture, table) = with_table(Arc::new(MemoryStore::new()));
    fixture
        .coordinator
        .take(table, COLUMN, 10)
        .expect("a range");
    fixture
        .set_options("t", &[("table.log.ttl", "1d")])
        .expect("altered");
    let range = fixture.coordinator.take(table, COLUMN, 10);
    assert_eq!(range.expect("a range"), 11..=20);
}

#[test]
fn the_last_numbers_are_given_out_and_then_no_more() {
    let (fixture, table) = with_table(Arc::new(MemoryStore::new()));
    let counter = keys::sequence(table, COLUMN);
    let used = encode_counter(i64::MAX - 10);
    fixture.store.put(&counter, used).expect("stored");
    let take = |count| fixture.coordinator.take(table, COLUMN, count);
    assert_eq!(take(3).expect("a range"), i64::MAX - 9..=i64::MAX - 7);
    assert_eq!(take(100).expect("a range"), i64::MAX - 6..=i64::MAX);
    for _ in 0..2 {
        let over = take(1);
        assert!(matches!(over, Err(MetaError::Exhausted { .. })), "{over:?}");
    }
}

#[test]
fn a_damaged_counter_is_reported_and_not_used() {
    let (fixture, table) = with_table(Arc::new(MemoryStore::new()));
    let counter = keys::sequence(table, COLUMN);
    for damage in [&b"7"[..], &(-1i64).to_be_bytes()] {
        let damage = bytes::Bytes::copy_from_slice(damage);
        fixture.store.put(&counter, damage).expect("stored");
        let refused = fixture.coordinator.take(table, COLUMN, 1);
        assert!(
            matches!(&refused, Err(MetaError::Corrupt { place, .. }) if *place == counter),
            "{refused:?}"
        );
    }
}
