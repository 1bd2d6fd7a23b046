//! RocksDB's options for all stores of an engine.

use mainstem_kv::{KvError, Result};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BlockBasedTablePinningTier, Cache, ChecksumType,
    DBCompactionStyle, DBCompressionType, InfoLogger, Options, WriteBufferManager,
};

use crate::config::{CompactionStyle, Compression, LEVELS, LogLevel, RocksConfig};

/// Newest format of table files that RocksDB 6.20 reads (formats.md §7.5).
const TABLE_FORMAT: i32 = 5;
/// Level-0 files from which on writers are slowed down.
pub(crate) const LEVEL0_SLOWDOWN: i32 = 20;
/// Level-0 files from which on writers wait.
const LEVEL0_STOP: i32 = 36;
/// Bytes that a write buffer grows by. Small, as most stores hold little.
const ARENA_BLOCK_BYTES: usize = 64 << 10;

/// Bytes of the write buffer that a store begins with. A store that is written to
/// more than a little gets larger ones ([`crate::store`]), as they take memory from
/// the start: for their filter.
pub(crate) const FIRST_WRITE_BUFFER_BYTES: u64 = 2 << 20;
/// Part of a write buffer that is a Bloom filter of its keys: 10 to 15 bits each, if
/// rows are short. Most keys that are asked for are not in the buffer, and a filter
/// finds that out in a tenth of the time that a search takes.
const WRITE_BUFFER_FILTER_RATIO: f64 = 0.02;

/// Options that the crate has no functions for:
/// - Closing does not flush: nobody waits for a disk to drop a table.
/// - Reads of many keys go through a write buffer from one to the next, not from its
///   top for each.
/// - A flush leaves its blocks in the cache, for what was written last is read next,
///   and reads that may not wait for the disk find it.
const BY_NAME: &str = "avoid_flush_during_shutdown=true;\
     memtable_batch_lookup_optimization=true;\
     block_based_table_factory={prepopulate_block_cache=kFlushOnly;}";

/// The options of all stores. Opening with them shares the cache, the write-buffer
/// manager and the rate limiter.
pub(crate) fn build(config: &RocksConfig) -> Result<Options> {
    let mut options = Options::default();
    options.set_block_based_table_factory(&table(config));
    // Before the logger is set, whose life is bound to this object.
    let mut options = options
        .get_options_from_string(BY_NAME)
        .map_err(|error| KvError::Storage(error.to_string()))?;
    options.create_if_missing(true);
    options.set_paranoid_checks(true);
    set_memory(&mut options, config);
    set_files(&mut options, config);
    set_logging(&mut options, config.log_level);
    Ok(options)
}

fn set_memory(options: &mut Options, config: &RocksConfig) {
    options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager(
        // The budget is kept by `buffers`; this is for what is being flushed as well,
        // and for the case that flushes do not keep up.
        size(config.write_buffers_bytes.saturating_mul(2)),
        // It does not make writers wait: level-0 files and full buffers of a store do.
        false,
    ));
    options.set_write_buffer_size(size(
        config.write_buffer_bytes.min(FIRST_WRITE_BUFFER_BYTES),
    ));
    options.set_memtable_prefix_bloom_ratio(WRITE_BUFFER_FILTER_RATIO);
    options.set_memtable_whole_key_filtering(true);
    options.set_max_write_buffer_number(config.write_buffer_count as i32);
    options.set_min_write_buffer_number_to_merge(config.write_buffers_to_merge as i32);
    options.set_arena_block_size(ARENA_BLOCK_BYTES);
    // A bucket has one writer, so nothing is won by coordinating several.
    options.set_allow_concurrent_memtable_write(false);
    options.set_enable_write_thread_adaptive_yield(false);
    options.set_max_background_jobs(config.background_jobs as i32);
    // Nobody asks for the versions that a flush replaced.
    options.set_max_write_buffer_size_to_maintain(0);
}

fn set_files(options: &mut Options, config: &RocksConfig) {
    options.set_num_levels(LEVELS as i32);
    options.set_compaction_style(match config.compaction_style {
        CompactionStyle::Level => DBCompactionStyle::Level,
        CompactionStyle::Universal => DBCompactionStyle::Universal,
    });
    options.set_level_compaction_dynamic_level_bytes(config.dynamic_levels);
    options.set_compression_per_level(&config.compression.map(compression));
    // With dynamic levels the first level that is used is number 1 of the list above,
    // whatever its number is, and may be the last one.
    options.set_bottommost_compression_type(compression(config.compression[LEVELS - 1]));
    options.set_target_file_size_base(config.target_file_bytes);
    options.set_max_bytes_for_level_base(config.level_base_bytes);
    options.set_level_zero_slowdown_writes_trigger(LEVEL0_SLOWDOWN);
    options.set_level_zero_stop_writes_trigger(LEVEL0_STOP);
    if let Some(bytes_per_sec) = config.rate_limit_bytes_per_sec {
        // 100 ms and 10 are RocksDB's own defaults.
        options.set_ratelimiter(bytes_per_sec as i64, 100_000, 10);
    }
    options.set_bytes_per_sync(1 << 20);
    options.set_max_open_files(i32::try_from(config.open_files).unwrap_or(i32::MAX));
    // An opening reads the manifest and few of the files, with no threads of its own.
    options.set_max_file_opening_threads(1);
    options.set_skip_stats_update_on_db_open(true);
    options.set_table_cache_num_shard_bits(2);
    // The end of an iterator does not delete files.
    options.set_avoid_unnecessary_blocking_io(true);
}

/// What RocksDB 6.20 can read: the defaults of this version are not (formats.md
/// §7.5).
fn table(config: &RocksConfig) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_format_version(TABLE_FORMAT);
    table.set_checksum_type(ChecksumType::CRC32c);
    table.set_index_type(BlockBasedIndexType::BinarySearch);
    table.set_block_size(size(config.block_bytes));
    if let Some(bits) = config.bloom_bits_per_key {
        table.set_bloom_filter(bits, false);
    }
    // Not the "hyper clock" cache: it ends the process if it cannot reserve addresses.
    table.set_block_cache(&Cache::new_lru_cache(size(config.block_cache_bytes)));
    // Indexes and filters count against the cache, so that memory is bounded over all
    // stores; they are pinned, so that a read does not search for them there.
    table.set_cache_index_and_filter_blocks(true);
    table.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    table
}

fn set_logging(options: &mut Options, level: LogLevel) {
    let level = match level {
        LogLevel::Debug => rocksdb::LogLevel::Debug,
        LogLevel::Info => rocksdb::LogLevel::Info,
        LogLevel::Warn => rocksdb::LogLevel::Warn,
        LogLevel::Error => rocksdb::LogLevel::Error,
    };
    options.set_info_logger(InfoLogger::new_callback_logger(level, |level, text| {
        use rocksdb::LogLevel::{Debug, Error, Fatal, Header, Info, Warn};
        // What fails is reported by the call that fails; this is only the reason.
        match level {
            // It lists all options whenever a store is opened, and stores come and go.
            Debug | Info | Header => tracing::debug!("{text}"),
            Warn | Error | Fatal => tracing::warn!("{text}"),
        }
    }));
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_keep_log_file_num(1);
}

fn compression(compression: Compression) -> DBCompressionType {
    match compression {
        Compression::No => DBCompressionType::None,
        Compression::Snappy => DBCompressionType::Snappy,
        Compression::Lz4 => DBCompressionType::Lz4,
        Compression::Zstd => DBCompressionType::Zstd,
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
