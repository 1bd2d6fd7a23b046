//! RocksDB does what every engine must do.

use mainstem_kv::engine::contract::Subject;
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
    fn with_small_buffers(check: fn(&Subject)) {
        let dir = tempfile::tempdir().unwrap();
        check(&Subject {
            engine: Box::new(|| {
                let config = RocksConfig {
                    write_buffer_bytes: 64 << 10,
                    target_file_bytes: 64 << 10,
                    level_base_bytes: 128 << 10,
                    block_cache_bytes: 1 << 20,
                    open_files: 4,
                    ..RocksConfig::default()
                };
                Box::new(RocksEngine::new(config).unwrap())
            }),
            dir: dir.path().join("db"),
        });
    }

    mainstem_kv::kv_engine_contract!(with_small_buffers:
        a_snapshot_does_not_see_later_writes,
        a_read_sees_whole_writes,
        closing_keeps_a_prefix_not_shorter_than_the_durable_one,
        random_operations_match_a_model,
    );
}
