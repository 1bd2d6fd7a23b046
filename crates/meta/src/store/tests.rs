//! The contract of [`MetaStore`], run on every implementation.

use std::sync::Arc;
use std::time::Duration;

use super::*;

type Check = fn(&dyn MetaStore);

fn on_every_store(check: Check) {
    check(&MemoryStore::new());
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("meta.redb");
    check(&EmbeddedStore::open(&path).expect("open"));
}

fn text(entry: Option<Entry>) -> Option<String> {
    entry.map(|entry| String::from_utf8(entry.value.to_vec()).expect("text"))
}

fn put(store: &dyn MetaStore, key: &str, value: &'static str) -> Revision {
    store
        .put(key, Bytes::from_static(value.as_bytes()))
        .expect("put")
}

fn keys(store: &dyn MetaStore, prefix: &str) -> Vec<String> {
    store
        .list(prefix)
        .expect("list")
        .entries
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

#[test]
fn a_value_is_read_back_with_the_revision_that_wrote_it() {
    on_every_store(|store| {
        assert_eq!(store.get("a").expect("get"), None);
        let first = put(store, "a", "1");
        let second = put(store, "a", "2");
        assert!(second > first);
        let entry = store.get("a").expect("get").expect("present");
        assert_eq!(
            entry,
            Entry {
                value: Bytes::from_static(b"2"),
                version: second
            }
        );
    });
}

#[test]
fn compare_and_set_needs_the_current_version() {
    on_every_store(|store| {
        let value = || Bytes::from_static(b"v");
        let first = store.compare_and_set("a", None, value()).expect("absent");
        for stale in [None, Some(Revision(first.0 + 1)), Some(Revision(0))] {
            let error = store
                .compare_and_set("a", stale, value())
                .expect_err("stale");
            assert!(
                matches!(&error, MetaError::Conflict { key } if key == "a"),
                "{error:?}"
            );
            assert!(error.is_retriable());
        }
        store
            .compare_and_set("a", Some(first), value())
            .expect("current");
    });
}

#[test]
fn a_key_that_was_deleted_and_created_again_has_a_new_version() {
    on_every_store(|store| {
        let first = put(store, "a", "1");
        store
            .commit(Transaction::new().delete("a"))
            .expect("delete");
        put(store, "a", "1");
        let error = store
            .compare_and_set("a", Some(first), Bytes::new())
            .expect_err("stale");
        assert!(matches!(error, MetaError::Conflict { .. }), "{error:?}");
    });
}

#[test]
fn a_transaction_whose_condition_fails_changes_nothing() {
    on_every_store(|store| {
        let version = put(store, "fence", "1");
        let before = store.list("").expect("list");
        let transaction = Transaction::new()
            .require_version("fence", version)
            .require_absent("fence")
            .put("a", "1")
            .delete("fence");
        assert!(matches!(
            store.commit(transaction),
            Err(MetaError::Conflict { .. })
        ));
        let after = store.list("").expect("list");
        assert_eq!(
            (before.revision, before.entries),
            (after.revision, after.entries)
        );
    });
}

#[test]
fn operations_apply_in_order_and_share_one_revision() {
    on_every_store(|store| {
        put(store, "dir/old", "x");
        let revision = store
            .commit(
                Transaction::new()
                    .put("dir/new", "lost")
                    .delete_prefix("dir/")
                    .put("dir/kept", "1")
                    .put("b", "2"),
            )
            .expect("commit");
        assert_eq!(keys(store, ""), ["b", "dir/kept"]);
        for key in ["b", "dir/kept"] {
            assert_eq!(
                store.get(key).expect("get").map(|entry| entry.version),
                Some(revision)
            );
        }
    });
}

#[test]
fn a_transaction_without_effect_gets_no_revision() {
    on_every_store(|store| {
        let revision = put(store, "a", "1");
        let nothing = Transaction::new().delete("b").delete_prefix("c/");
        assert_eq!(store.commit(nothing).expect("commit"), revision);
        assert_eq!(store.commit(Transaction::new()).expect("commit"), revision);
    });
}

#[test]
fn listings_are_ordered_and_end_at_their_prefix() {
    on_every_store(|store| {
        for key in ["t/1/b", "t/1/a", "t/10/a", "t", "u", "t-1", "t/ü"] {
            put(store, key, "x");
        }
        assert_eq!(keys(store, "t/1/"), ["t/1/a", "t/1/b"]);
        assert_eq!(keys(store, "t/"), ["t/1/a", "t/1/b", "t/10/a", "t/ü"]);
        assert_eq!(keys(store, "t").len(), 6);
        assert_eq!(keys(store, "missing/"), Vec::<String>::new());
        let listing = store.list("").expect("list");
        assert_eq!(listing.entries.len(), 7);
        assert_eq!(listing.revision, Revision(7));
    });
}

#[test]
fn children_are_the_next_parts_once_each() {
    on_every_store(|store| {
        for key in ["a/b/x", "a/b/y", "a/b-c", "a/c", "a/b-c/z", "ab/d"] {
            put(store, key, "x");
        }
        assert_eq!(store.children("a").expect("children"), ["b", "b-c", "c"]);
        assert_eq!(store.children("").expect("children"), ["a", "ab"]);
        assert_eq!(
            store.children("none").expect("children"),
            Vec::<String>::new()
        );
    });
}

#[test]
fn counters_hand_out_disjoint_ranges_to_many_threads() {
    on_every_store(|store| {
        let starts = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..25)
                            .map(|_| store.counter_add("ids", 10).expect("add"))
                            .collect()
                    })
                })
                .collect();
            let mut starts: Vec<i64> = threads
                .into_iter()
                .flat_map(|thread| -> Vec<i64> { thread.join().expect("no panic") })
                .collect();
            starts.sort_unstable();
            starts
        });
        let expected: Vec<i64> = (0..100).map(|index| index * 10).collect();
        assert_eq!(starts, expected);
    });
}

#[test]
fn a_counter_never_overflows_and_damage_is_reported() {
    on_every_store(|store| {
        store.put("ids", encode_counter(i64::MAX - 1)).expect("put");
        assert_eq!(store.counter_add("ids", 1).expect("add"), i64::MAX - 1);
        assert!(matches!(
            store.counter_add("ids", 1),
            Err(MetaError::Corrupt { .. })
        ));
        put(store, "damaged", "123");
        assert!(matches!(
            store.counter_add("damaged", 1),
            Err(MetaError::Corrupt { .. })
        ));
    });
}

#[test]
fn one_of_many_threads_wins_a_compare_and_set() {
    on_every_store(|store| {
        let winners = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| store.compare_and_set("a", None, Bytes::new()).is_ok()))
                .collect();
            threads
                .into_iter()
                .filter(|_| true)
                .map(|t| t.join().expect("no panic"))
                .filter(|won| *won)
                .count()
        });
        assert_eq!(winners, 1);
    });
}

#[test]
fn values_of_one_mebibyte_are_kept_and_absurd_ones_refused() {
    on_every_store(|store| {
        let large = Bytes::from(vec![7; 1 << 20]);
        store.put("large", large.clone()).expect("put");
        assert_eq!(
            store.get("large").expect("get").expect("present").value,
            large
        );
        let absurd = Transaction::new()
            .put("a", "1")
            .put("b", vec![0; MAX_VALUE_BYTES + 1]);
        assert!(matches!(
            store.commit(absurd),
            Err(MetaError::TooLarge { .. })
        ));
        let absurd = store.put(&"k".repeat(MAX_KEY_BYTES + 1), Bytes::new());
        assert!(matches!(absurd, Err(MetaError::TooLarge { .. })));
        assert_eq!(keys(store, ""), ["large"]);
    });
}

#[test]
fn a_watch_sees_every_change_below_its_prefix_in_order_with_old_and_new_value() {
    on_every_store(|store| {
        put(store, "t/a", "1");
        let start = store.list("t/").expect("list").revision;
        let mut watch = store.watch("t/", start).expect("watch");
        assert_eq!(watch.poll(Duration::ZERO).expect("poll"), []);
        put(store, "t/a", "2");
        put(store, "other", "x");
        store
            .commit(Transaction::new().delete_prefix("t/").put("t/b", "3"))
            .expect("commit");
        let seen: Vec<_> = watch
            .poll(Duration::ZERO)
            .expect("poll")
            .into_iter()
            .map(|event| (event.key, text_of(event.old), text_of(event.new)))
            .collect();
        let own = |text: &str| Some(text.to_owned());
        assert_eq!(
            seen,
            [
                ("t/a".to_owned(), own("1"), own("2")),
                ("t/a".to_owned(), own("2"), None),
                ("t/b".to_owned(), None, own("3")),
            ]
        );
        assert_eq!(watch.poll(Duration::ZERO).expect("poll"), []);
    });
}

fn text_of(value: Option<Bytes>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

#[test]
fn a_waiting_watch_is_woken_by_a_change() {
    on_every_store(|store| {
        let mut watch = store.watch("t/", Revision(0)).expect("watch");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || watch.poll(Duration::from_secs(60)));
            put(store, "other", "x");
            put(store, "t/a", "1");
            let events = waiting.join().expect("no panic").expect("poll");
            assert_eq!(events.len(), 1);
        });
    });
}

#[test]
fn a_watch_that_fell_too_far_behind_is_told() {
    on_every_store(|store| {
        let mut slow = store.watch("", Revision(0)).expect("watch");
        for _ in 0..6 {
            store
                .put("large", Bytes::from(vec![0; 1 << 20]))
                .expect("put");
        }
        assert!(matches!(
            slow.poll(Duration::ZERO),
            Err(MetaError::Compacted { .. })
        ));
        let Err(MetaError::Compacted { oldest }) = store.watch("", Revision(0)) else {
            panic!("the history has a bound");
        };
        let current = store.list("").expect("list").revision;
        assert!(oldest <= current);
        store
            .watch("", current)
            .expect("the present can always be watched");
    });
}

#[test]
fn ephemeral_keys_go_with_their_session_and_watchers_see_it() {
    on_every_store(|store| {
        let session = store.open_session(1000, 5_000).expect("open");
        store
            .commit(
                Transaction::new()
                    .put_ephemeral("live/1", "x", session)
                    .put_ephemeral("live/2", "y", session)
                    .put("kept", "z"),
            )
            .expect("commit");
        // Whoever writes the key plainly takes it over.
        put(store, "live/2", "mine");
        let mut watch = store
            .watch("", store.list("").expect("list").revision)
            .expect("watch");

        store.renew_session(session, 6_000).expect("renew");
        assert_eq!(store.expire_sessions(6_999).expect("expire"), []);
        assert_eq!(store.expire_sessions(7_000).expect("expire"), [session]);
        assert_eq!(keys(store, ""), ["kept", "live/2"]);
        let events = watch.poll(Duration::ZERO).expect("poll");
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].key.as_str(), &events[0].new), ("live/1", &None));

        assert!(matches!(
            store.renew_session(session, 7_000),
            Err(MetaError::SessionExpired { .. })
        ));
        let late = Transaction::new().put_ephemeral("live/1", "x", session);
        assert!(matches!(
            store.commit(late),
            Err(MetaError::SessionExpired { .. })
        ));
    });
}

#[test]
fn closing_a_session_removes_its_keys_at_once_and_twice_is_success() {
    on_every_store(|store| {
        let session = store.open_session(1000, 0).expect("open");
        let other = store.open_session(1000, 0).expect("open");
        store
            .commit(
                Transaction::new()
                    .put_ephemeral("a", "x", session)
                    .put_ephemeral("b", "x", other),
            )
            .expect("commit");
        store.close_session(session).expect("close");
        store.close_session(session).expect("close again");
        assert_eq!(keys(store, ""), ["b"]);
    });
}

#[test]
fn readers_see_whole_transactions_only() {
    on_every_store(|store| {
        store
            .commit(Transaction::new().put("a", "0").put("b", "0"))
            .expect("commit");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..=50u32 {
                    let value = n.to_string();
                    let both = Transaction::new().put("a", value.clone()).put("b", value);
                    store.commit(both).expect("commit");
                }
            });
            while !writer.is_finished() {
                let listing = store.list("").expect("list");
                assert_eq!(listing.entries[0].1, listing.entries[1].1);
            }
        });
        assert_eq!(text(store.get("a").expect("get")), Some("50".to_owned()));
    });
}

#[test]
fn stores_are_used_through_the_trait_from_any_thread() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let other = Arc::clone(&store);
    std::thread::spawn(move || put(&*other, "a", "1"))
        .join()
        .expect("no panic");
    assert!(store.get("a").expect("get").is_some());
}
