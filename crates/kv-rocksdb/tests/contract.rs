//! RocksDB does what every engine must do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mainstem_env::SeededRng;
use mainstem_kv::engine::contract::{self, Subject};
use mainstem_kv::{KvEngine, KvStore, KvWrites, Reach};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};

fn with_rocksdb(check: fn(&Subject)) {
    let dir = tempfile::tempdir().unwrap();
    check(&Subject {
        engine: Box::new(|| Box::new(RocksEngine::new(RocksConfig::default()).unwrap())),
        dir: dir.path().join("kv-0").join("db"),
    });
}

mainstem_kv::kv_engine_contract!(with_rocksdb);

/// Its reads of many keys read the disk whatever they are told.
#[test]
fn a_read_of_memory_is_given_up_when_the_rows_are_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let engine = || RocksEngine::new(RocksConfig::default()).unwrap();
    let store = engine().open(dir.path()).unwrap();
    let mut writes = KvWrites::default();
    for number in 0..1_000_u32 {
        writes.put(&number.to_be_bytes(), 1, &[7; 100]);
    }
    store.write(&writes, true).unwrap();
    store.flush(true).unwrap();
    drop(store);
    let store = engine().open(dir.path()).unwrap();
    let keys = [700_u32, 3, 990].map(u32::to_be_bytes);
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let look_up = |reach| {
        let mut found = 0;
        let whole = store.multi_get(&keys, reach, &mut |at, value| {
            assert_eq!(at, found);
            assert!(value.is_some());
            found += 1;
        });
        (whole.unwrap(), found)
    };
    assert_eq!(look_up(Reach::Memory), (false, 0));
    assert_eq!(look_up(Reach::Disk), (true, 3));
    assert_eq!(look_up(Reach::Memory), (true, 3));
}

mod small_buffers {
    use super::*;

    /// Buffers so small that flushes and compactions happen all the time.
    fn engine() -> RocksEngine {
        RocksEngine::new(RocksConfig {
            write_buffer_bytes: 64 << 10,
            target_file_bytes: 64 << 10,
            level_base_bytes: 128 << 10,
            block_cache_bytes: 1 << 20,
            open_files: 4,
            ..RocksConfig::default()
        })
        .unwrap()
    }

    fn with_small_buffers(check: fn(&Subject)) {
        let dir = tempfile::tempdir().unwrap();
        check(&Subject {
            engine: Box::new(|| Box::new(engine())),
            dir: dir.path().join("db"),
        });
    }

    mainstem_kv::kv_engine_contract!(with_small_buffers:
        a_snapshot_does_not_see_later_writes,
        a_read_sees_whole_writes,
        closing_keeps_a_prefix_not_shorter_than_the_durable_one,
        random_operations_match_a_model,
    );

    #[test]
    fn what_a_full_buffer_flushed_is_durable() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            let store = engine().open(dir.path()).unwrap();
            let start = store.last_sequence();
            let mut durable = start;
            let mut writes = KvWrites::default();
            let mut number = 0_u32;
            // It is flushed at the latest when no buffer is free any more.
            while durable == start || !number.is_multiple_of(1_000) {
                writes.clear();
                writes.put(&number.to_be_bytes(), 1, &[number as u8; 500]);
                writes.put(b"last", 1, &number.to_be_bytes());
                store.write(&writes, true).unwrap();
                number += 1;
                durable = store.durable_sequence().max(durable);
            }
            drop(store);

            let store = engine().open(dir.path()).unwrap();
            let last = contract::get(&*store, b"last").unwrap();
            let kept = u32::from_be_bytes(last[2..].try_into().unwrap()) + 1;
            let end = start + 2 * u64::from(kept);
            assert!(end >= durable, "{end} is not shorter than {durable}");
            drop(store);
            engine().destroy(dir.path()).unwrap();
        }
    }
}

#[test]
fn a_busy_store_gets_larger_write_buffers() {
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::new(RocksConfig {
        write_buffer_bytes: 64 << 20,
        ..RocksConfig::default()
    });
    let store = engine.unwrap().open(dir.path()).unwrap();
    let mut writes = KvWrites::default();
    for number in 0..400_u32 {
        writes.clear();
        writes.put(&number.to_be_bytes(), 1, &[7; 100_000]);
        store.write(&writes, true).unwrap();
    }
    let sizes = store.statistics();
    assert!(sizes.write_buffer_bytes > 30_000_000, "{sizes:?}");
    assert!(sizes.level0_files <= 1, "{sizes:?}");
}

/// Runs of neighbours, in buffers and in files: reads go from one key to the next.
#[test]
fn many_keys_match_a_model() {
    const KEYS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let store = RocksEngine::new(RocksConfig::default())
        .unwrap()
        .open(dir.path())
        .unwrap();
    let mut rng = SeededRng::new(7);
    let mut model: BTreeMap<[u8; 8], Vec<u8>> = BTreeMap::new();
    let mut writes = KvWrites::default();
    for round in 0..200 {
        writes.clear();
        for _ in 0..500 {
            let key = rng.below(KEYS).to_be_bytes();
            if rng.chance(25) {
                writes.delete(&key);
                model.remove(&key);
            } else {
                let row = rng.next_u64().to_le_bytes();
                writes.put(&key, 1, &row);
                model.insert(key, [b"\x01\0", &row[..]].concat());
            }
        }
        store.write(&writes, true).unwrap();
        if round % 60 == 59 {
            store.flush(true).unwrap();
        }
        let start = rng.below(KEYS);
        let step = 1 + rng.below(40);
        let keys: Vec<[u8; 8]> = (0..rng.below(600))
            .map(|at| (start + at * step).to_be_bytes())
            .collect();
        let asked: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        for (key, found) in keys.iter().zip(contract::multi_get(&*store, &asked)) {
            assert_eq!(found.as_ref(), model.get(key), "round {round}");
        }
    }
}

#[test]
fn stores_that_nobody_writes_to_give_way_to_one_that_is_busy() {
    const BUDGET: u64 = 6 << 20;
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::new(RocksConfig {
        write_buffers_bytes: BUDGET,
        ..RocksConfig::default()
    })
    .unwrap();
    let write = |store: &dyn KvStore, count: u64| {
        let mut writes = KvWrites::default();
        for number in 0..count {
            writes.clear();
            writes.put(&number.to_be_bytes(), 1, &[7; 10_000]);
            store.write(&writes, true).unwrap();
        }
    };
    let idle: Vec<_> = (0..5)
        .map(|number| {
            let store = engine.open(&dir.path().join(number.to_string())).unwrap();
            write(&*store, 100);
            store
        })
        .collect();
    let busy = engine.open(&dir.path().join("busy")).unwrap();
    write(&*busy, 150);
    // The flush is in the background.
    let deadline = Instant::now() + Duration::from_secs(60);
    while idle.iter().all(|store| store.durable_sequence() == 0) {
        assert!(Instant::now() < deadline, "an idle store is flushed");
        std::thread::yield_now();
    }
    assert!(
        busy.statistics().level0_files <= 1,
        "{:?}",
        busy.statistics()
    );
    drop(idle);
    // A store that was looked at can be closed and opened at once.
    for number in 0..5 {
        drop(engine.open(&dir.path().join(number.to_string())).unwrap());
    }
}

#[test]
fn what_was_just_flushed_is_read_without_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = RocksEngine::new(RocksConfig::default())
        .unwrap()
        .open(dir.path())
        .unwrap();
    let keys: Vec<[u8; 4]> = (0..5_000_u32).map(u32::to_be_bytes).collect();
    let mut writes = KvWrites::default();
    for key in &keys {
        writes.put(key, 1, key);
    }
    store.write(&writes, true).unwrap();
    store.flush(true).unwrap();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let mut found = 0;
    let whole = store.multi_get(&keys, Reach::Memory, &mut |_, value| {
        found += usize::from(value.is_some());
    });
    assert!(whole.unwrap());
    assert_eq!(found, keys.len());
}
