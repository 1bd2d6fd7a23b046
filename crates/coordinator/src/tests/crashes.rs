//! Operations that are cut short, races, and a store that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstem_meta::store::{Entry, Listing, Revision, SessionId, Watch};
use mainstem_meta::{MemoryStore, MetaError, MetaStore, Transaction};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    AlterTableRequest, CreateDatabaseRequest, CreateDatabaseResponse, PbAddColumn,
};
use parking_lot::Mutex;

use super::fixture::*;
use crate::CoordinatorConfig;

/// What happens to the next commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    /// Nothing is written.
    LostBefore,
    /// Everything is written, and the answer is lost.
    LostAfter,
}

/// A store that can fail, and counts.
pub(super) struct Counting {
    inner: Arc<dyn MetaStore>,
    calls: AtomicUsize,
    commits: AtomicUsize,
    fate: Mutex<Fate>,
}

impl Counting {
    pub(super) fn new(inner: Arc<dyn MetaStore>) -> Self {
        Self {
            inner,
            calls: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
            fate: Mutex::new(Fate::Works),
        }
    }

    pub(super) fn set_fate(&self, fate: Fate) {
        *self.fate.lock() = fate;
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(super) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    fn called(&self) -> &dyn MetaStore {
        self.calls.fetch_add(1, Ordering::SeqCst);
        &*self.inner
    }
}

fn lost<T>() -> Result<T, MetaError> {
    Err(MetaError::Unavailable {
        reason: "no space left on device".to_owned(),
    })
}

impl MetaStore for Counting {
    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
        self.called().get(key)
    }

    fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        self.called().list(prefix)
    }

    fn children(&self, parent: &str) -> Result<Vec<String>, MetaError> {
        self.called().children(parent)
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, MetaError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        match *self.fate.lock() {
            Fate::Works => self.called().commit(transaction),
            Fate::LostBefore => lost(),
            Fate::LostAfter => {
                self.called().commit(transaction)?;
                lost()
            }
        }
    }

    fn counter_add(&self, key: &str, amount: u64) -> Result<i64, MetaError> {
        self.called().counter_add(key, amount)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
        self.called().watch(prefix, after)
    }

    fn open_session(&self, timeout_ms: u64, now_ms: i64) -> Result<SessionId, MetaError> {
        self.called().open_session(timeout_ms, now_ms)
    }

    fn renew_session(&self, session: SessionId, now_ms: i64) -> Result<(), MetaError> {
        self.called().renew_session(session, now_ms)
    }

    fn close_session(&self, session: SessionId) -> Result<(), MetaError> {
        self.called().close_session(session)
    }

    fn expire_sessions(&self, now_ms: i64) -> Result<Vec<SessionId>, MetaError> {
        self.called().expire_sessions(now_ms)
    }
}

/// Everything that a reader can see, and everything that is stored.
fn picture(fixture: &Fixture) -> String {
    let catalog = fixture.coordinator.catalog();
    let mut tables = catalog.tables();
    tables.sort_by_key(|table| table.table_id);
    let mut partitions = catalog.partitions();
    partitions.sort_by_key(|partition| partition.partition_id);
    format!("{:#?} {tables:#?} {partitions:#?}", catalog.databases())
}

fn stored(store: &dyn MetaStore) -> Vec<(String, Vec<u8>)> {
    let entries = store.list("").expect("listed").entries;
    let epoch = "coordinator/epoch";
    let entries = entries.into_iter().filter(|(key, _)| key != epoch);
    entries
        .map(|(key, entry)| (key, entry.value.to_vec()))
        .collect()
}

type Step = (&'static str, fn(&Fixture) -> i32);

/// Operations of every kind, each with something to work on.
const STEPS: &[Step] = &[
    ("create database", |fixture| {
        let request = CreateDatabaseRequest {
            database_name: Some("db".to_owned()),
            ignore_if_exists: Some(true),
            database_json: None,
        };
        code(fixture.call::<CreateDatabaseResponse>(ApiKey::CreateDatabase, &request))
    }),
    ("create table", |fixture| {
        code(fixture.try_create("db/t", key_table().to_string(), true))
    }),
    ("create table with partitions", |fixture| {
        let options = [
            ("table.auto-partition.enabled", "true"),
            ("table.auto-partition.time-zone", "UTC"),
        ];
        let table = with_options(partitioned_table(), &options);
        code(fixture.try_create("db/p", table.to_string(), true))
    }),
    ("create partition", |fixture| {
        code(fixture.create_partition("db/p", &[("b", "20241120")], true))
    }),
    ("alter options", |fixture| {
        code(fixture.set_options("db/t", &[("table.log.ttl", "1d")]))
    }),
    ("add column", |fixture| {
        let column = PbAddColumn {
            column_name: Some("c".to_owned()),
            data_type_json: Some(r#"{"type":"STRING"}"#.into()),
            column_position_type: Some(0),
            ..PbAddColumn::default()
        };
        match fixture.alter(AlterTableRequest {
            add_columns: vec![column],
            ..alter_request("db/t")
        }) {
            // It is there already: the lost answer was a success.
            Err(error) if error.code.code() == 56 => OK,
            other => code(other),
        }
    }),
    ("drop table", |fixture| {
        code(fixture.drop_table("db/t", true))
    }),
    ("drop database", |fixture| {
        code(fixture.drop_database("db", true, true))
    }),
];

#[test]
fn every_operation_is_one_transaction() {
    let store = Arc::new(Counting::new(Arc::new(MemoryStore::new())));
    let fixture = Fixture::on(store.clone(), CoordinatorConfig::default());
    for (name, step) in STEPS {
        let before = store.commits();
        assert_eq!(step(&fixture), OK, "{name}");
        assert_eq!(store.commits(), before + 1, "{name}");
    }
}

#[test]
fn an_operation_whose_commit_fails_has_happened_or_not_and_can_be_repeated() {
    // What is stored after each step when nothing fails.
    let undisturbed = Fixture::new();
    let mut expected = vec![stored(&*undisturbed.store)];
    for (_, step) in STEPS {
        step(&undisturbed);
        expected.push(stored(&*undisturbed.store));
    }
    for fate in [Fate::LostBefore, Fate::LostAfter] {
        let store = Arc::new(Counting::new(Arc::new(MemoryStore::new())));
        let fixture = Fixture::on(store.clone(), CoordinatorConfig::default());
        for (index, (name, step)) in STEPS.iter().enumerate() {
            let seen_before = picture(&fixture);
            *store.fate.lock() = fate;
            let code = step(&fixture);
            assert_eq!(code, 26, "{name} {fate:?}: retriable");
            *store.fate.lock() = Fate::Works;
            assert_eq!(
                picture(&fixture),
                seen_before,
                "{name}: nothing is shown that may be lost"
            );

            // The process dies here: another one finds all of it or nothing.
            let now = if fate == Fate::LostAfter {
                index + 1
            } else {
                index
            };
            assert_eq!(stored(&*store.inner), expected[now], "{name} {fate:?}");

            // Or it lives on, and the client tries again.
            assert_eq!(step(&fixture), OK, "{name} {fate:?}");
            assert_eq!(
                stored(&*store.inner),
                expected[index + 1],
                "{name} {fate:?}"
            );
        }
    }
}

#[test]
fn after_a_lost_answer_the_catalog_is_that_of_a_fresh_start() {
    for (last, (name, _)) in STEPS.iter().enumerate() {
        let store = Arc::new(Counting::new(Arc::new(MemoryStore::new())));
        let fixture = Fixture::on(store.clone(), CoordinatorConfig::default());
        for (_, step) in &STEPS[..last] {
            step(&fixture);
        }
        *store.fate.lock() = Fate::LostAfter;
        STEPS[last].1(&fixture);
        *store.fate.lock() = Fate::Works;
        fixture.create_database("next");
        let lived_on = picture(&fixture);
        let restarted = Fixture::on(store.inner.clone(), CoordinatorConfig::default());
        assert_eq!(lived_on, picture(&restarted), "{name}");
    }
}

#[test]
fn a_failing_store_does_not_stop_reads() {
    let store = Arc::new(Counting::new(Arc::new(MemoryStore::new())));
    let fixture = Fixture::on(store.clone(), CoordinatorConfig::default());
    fixture.create("t", &log_table());
    *store.fate.lock() = Fate::LostBefore;
    assert_eq!(code(fixture.drop_table("t", false)), 26);
    assert_eq!(fixture.info("t").table_id, Some(0));
}

#[test]
fn of_many_who_create_one_table_exactly_one_wins() {
    let fixture = Fixture::new();
    for round in 0..20 {
        let path = format!("t{round}");
        let codes: Vec<i32> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| code(fixture.try_create(&path, log_table().to_string(), false)))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        assert_eq!(
            codes.iter().filter(|code| **code == OK).count(),
            1,
            "{codes:?}"
        );
        assert_eq!(
            codes.iter().filter(|code| **code == 8).count(),
            7,
            "{codes:?}"
        );
    }
    let ids: std::collections::BTreeSet<_> = fixture
        .coordinator
        .catalog()
        .tables()
        .iter()
        .map(|table| table.table_id.0)
        .collect();
    assert_eq!(ids, (0..20).collect());
}

#[test]
fn creating_and_dropping_from_many_threads_leaves_store_and_catalog_equal() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let fixture = &fixture;
            scope.spawn(move || {
                for round in 0..25 {
                    let path = format!("t{}", (thread + round) % 3);
                    let _ = fixture.try_create(&path, partitioned_table().to_string(), false);
                    let _ = fixture.create_partition(&path, &[("b", "x")], false);
                    let _ = fixture.drop_table(&path, round % 2 == 0);
                }
            });
        }
    });
    let lived = picture(&fixture);
    let restarted = Fixture::on(fixture.store.clone(), CoordinatorConfig::default());
    assert_eq!(lived, picture(&restarted));
}
