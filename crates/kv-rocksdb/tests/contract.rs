//! RocksDB does what every engine must do.

use mainstem_kv::engine::contract::{self, Subject};
use mainstem_kv::{KvEngine, KvWrites};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};

fn with_rocksdb(check: fn(&Subject)) {
    let dir = tempfile::tempdir().unwrap();
    check(&Subject {
        engine: Box::new(|| Box::new(RocksEngine::new(RocksConfig::default()).unwrap())),
        dir: dir.path().join("kv-0").join("db"),
    });
}

mainstem_kv::kv_engine_contract!(with_rocksdb);

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
            while durable == start || number % 1_000 != 0 {
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
