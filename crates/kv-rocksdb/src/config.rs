//! What can be set about the stores, and what it is if nobody sets it.

use std::thread::available_parallelism;

use mainstem_types::{memory_size, server_options};
use thiserror::Error;

/// Levels of every store: readers of snapshots open them with seven (formats.md
/// §7.5).
pub(crate) const LEVELS: usize = 7;

/// Settings of all stores of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct RocksConfig {
    /// Bytes of the block cache, indexes and filters included, of all stores.
    pub block_cache_bytes: u64,
    /// Bytes of all write buffers that are written to; beyond it the largest are
    /// flushed. Those that are being flushed may take as much again.
    pub write_buffers_bytes: u64,
    /// Bytes of one write buffer; a store that is hardly written to has a smaller one.
    pub write_buffer_bytes: u64,
    /// Write buffers of one store, the one in use and those that are being flushed.
    pub write_buffer_count: u32,
    /// Write buffers that one flush writes into one file.
    pub write_buffers_to_merge: u32,
    /// Flushes and compactions that run at once, of all stores.
    pub background_jobs: u32,
    /// Bytes that flushes and compactions write per second, of all stores; `None` =
    /// any.
    pub rate_limit_bytes_per_sec: Option<u64>,
    /// Files that one store keeps open.
    pub open_files: u32,
    /// Uncompressed bytes of a data block.
    pub block_bytes: u64,
    /// Bits per key of the Bloom filter of a file; `None` = no filter.
    pub bloom_bits_per_key: Option<f64>,
    /// How files are merged.
    pub compaction_style: CompactionStyle,
    /// Whether the sizes of levels follow from that of the last one, which keeps the
    /// space that old versions take under 11 %.
    pub dynamic_levels: bool,
    /// Compression of each level; the last one is that of the oldest data.
    pub compression: [Compression; LEVELS],
    /// Bytes of a file of level 1.
    pub target_file_bytes: u64,
    /// Bytes of level 1.
    pub level_base_bytes: u64,
    /// Least severe messages of RocksDB that are logged.
    pub log_level: LogLevel,
}

/// How the files of a store are merged. The other styles of RocksDB lose rows (FIFO)
/// or stop after some flushes (NONE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionStyle {
    /// In levels of growing size.
    Level,
    /// In runs of like size: fewer writes, more space.
    Universal,
}

/// A compression that readers of snapshots know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    No,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// How much RocksDB says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// All of it.
    Debug,
    /// Every flush and compaction.
    Info,
    /// Stalls and oddities.
    Warn,
    /// Failures.
    Error,
}

/// A value of an option that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {problem}")]
pub struct RocksConfigError {
    /// Key.
    pub key: &'static str,
    /// What is wrong.
    pub problem: String,
}

impl Default for RocksConfig {
    fn default() -> Self {
        let cores = available_parallelism().map_or(2, |cores| cores.get() as u32);
        Self {
            block_cache_bytes: 256 << 20,
            write_buffers_bytes: 256 << 20,
            // Larger ones cost more time for each read and write, as they do not fit the
            // caches of the processor: 64 MiB a third more (random rows).
            write_buffer_bytes: 32 << 20,
            // One in use, one being flushed, two for a burst meanwhile: a writer that
            // would have to wait is refused.
            write_buffer_count: 4,
            write_buffers_to_merge: 1,
            background_jobs: cores.max(2),
            rate_limit_bytes_per_sec: None,
            // With files of 64 MiB this is 16 GiB in one bucket.
            open_files: 256,
            block_bytes: 4 << 10,
            bloom_bits_per_key: Some(10.0),
            compaction_style: CompactionStyle::Level,
            dynamic_levels: true,
            compression: [
                Compression::Lz4,
                Compression::Lz4,
                Compression::Lz4,
                Compression::Lz4,
                Compression::Lz4,
                Compression::Zstd,
                Compression::Zstd,
            ],
            target_file_bytes: 64 << 20,
            level_base_bytes: 256 << 20,
            log_level: LogLevel::Warn,
        }
    }
}

impl RocksConfig {
    /// Reads the options `kv.rocksdb.*` (cluster.md §9.10). `option` gives the value
    /// that somebody set for a key; what nobody set is as in
    /// [`default`](Self::default), which differs from what the reference does where
    /// that is made for few buckets.
    ///
    /// Without effect are the options of the cache of a single bucket, of log files
    /// (messages go to the server's log) and of where indexes and filters are kept
    /// (always in the shared cache, pinned).
    ///
    /// # Errors
    /// The first value that is malformed or out of range.
    pub fn from_options(option: impl Fn(&str) -> Option<String>) -> Result<Self, RocksConfigError> {
        let options = Options { option: &option };
        let mut config = Self::default();
        options.bytes("kv.rocksdb.shared-block-cache.size", 0, |bytes| {
            // 0 is "one for each bucket" to the reference, which we do not do.
            if bytes > 0 {
                config.block_cache_bytes = bytes;
            }
        })?;
        options.bytes("kv.rocksdb.shared-write-buffer.size", 0, |bytes| {
            if bytes > 0 {
                config.write_buffers_bytes = bytes;
            }
        })?;
        options.bytes("kv.rocksdb.writebuffer.size", 64 << 10, |bytes| {
            config.write_buffer_bytes = bytes;
        })?;
        options.count("kv.rocksdb.writebuffer.count", 2, |count| {
            config.write_buffer_count = count;
        })?;
        options.count("kv.rocksdb.writebuffer.number-to-merge", 1, |count| {
            config.write_buffers_to_merge = count;
        })?;
        if config.write_buffers_to_merge >= config.write_buffer_count {
            return Err(RocksConfigError {
                key: "kv.rocksdb.writebuffer.number-to-merge",
                problem: format!(
                    "{} must be less than kv.rocksdb.writebuffer.count, {}",
                    config.write_buffers_to_merge, config.write_buffer_count
                ),
            });
        }
        options.count("kv.rocksdb.thread.num", 1, |count| {
            config.background_jobs = count;
        })?;
        options.bytes("kv.rocksdb.shared-rate-limiter.bytes-per-sec", 1, |bytes| {
            config.rate_limit_bytes_per_sec = (bytes < i64::MAX as u64).then_some(bytes);
        })?;
        options.parsed("kv.rocksdb.files.open", |value| {
            match value.parse::<i32>() {
                // All files: as many as RocksDB can count.
                Ok(-1) => config.open_files = i32::MAX as u32,
                Ok(count) if count >= 1 => config.open_files = count as u32,
                _ => return Err(format!("{value} is not a positive number or -1")),
            }
            Ok(())
        })?;
        options.bytes("kv.rocksdb.block.blocksize", 256, |bytes| {
            config.block_bytes = bytes;
        })?;
        options.parsed("kv.rocksdb.bloom-filter.bits-per-key", |value| {
            let bits: f64 = value.parse().unwrap_or(f64::NAN);
            if !(1.0..=100.0).contains(&bits) {
                return Err(format!("{value} is not a number from 1 to 100"));
            }
            config.bloom_bits_per_key = Some(bits);
            Ok(())
        })?;
        options.bool("kv.rocksdb.use-bloom-filter", |used| {
            if !used {
                config.bloom_bits_per_key = None;
            }
        })?;
        options.parsed("kv.rocksdb.compaction.style", |value| {
            config.compaction_style = match value {
                "LEVEL" => CompactionStyle::Level,
                "UNIVERSAL" => CompactionStyle::Universal,
                "FIFO" => return Err("FIFO would lose rows; use LEVEL".to_owned()),
                "NONE" => return Err("NONE would stop after some flushes; use LEVEL".to_owned()),
                _ => return Err(format!("{value} is neither LEVEL nor UNIVERSAL")),
            };
            Ok(())
        })?;
        options.bool("kv.rocksdb.compaction.level.use-dynamic-size", |dynamic| {
            config.dynamic_levels = dynamic;
        })?;
        options.parsed("kv.rocksdb.compression.per.level", |value| {
            config.compression = compressions(value)?;
            Ok(())
        })?;
        options.bytes(
            "kv.rocksdb.compaction.level.target-file-size-base",
            64 << 10,
            |bytes| config.target_file_bytes = bytes,
        )?;
        options.bytes(
            "kv.rocksdb.compaction.level.max-size-level-base",
            64 << 10,
            |bytes| config.level_base_bytes = bytes,
        )?;
        options.parsed("kv.rocksdb.log.level", |value| {
            config.log_level = match value {
                "DEBUG_LEVEL" => LogLevel::Debug,
                "INFO_LEVEL" => LogLevel::Info,
                "WARN_LEVEL" => LogLevel::Warn,
                "ERROR_LEVEL" | "FATAL_LEVEL" | "HEADER_LEVEL" => LogLevel::Error,
                _ => return Err(format!("{value} is not a level")),
            };
            Ok(())
        })?;
        Ok(config)
    }
}

fn compressions(value: &str) -> Result<[Compression; LEVELS], String> {
    let levels: Vec<Compression> = server_options::parse_list(value)
        .iter()
        .map(|name| match name.as_str() {
            "NO" => Ok(Compression::No),
            "SNAPPY" => Ok(Compression::Snappy),
            "LZ4" => Ok(Compression::Lz4),
            "ZSTD" => Ok(Compression::Zstd),
            other => Err(format!("{other} is not NO, SNAPPY, LZ4 or ZSTD")),
        })
        .collect::<Result<_, _>>()?;
    levels
        .try_into()
        .map_err(|levels: Vec<_>| format!("{} levels are named, there are 7", levels.len()))
}

/// Reads options that are set.
struct Options<'a> {
    option: &'a dyn Fn(&str) -> Option<String>,
}

impl Options<'_> {
    fn parsed(
        &self,
        key: &'static str,
        set: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<(), RocksConfigError> {
        match (self.option)(key) {
            Some(value) => set(value.trim()).map_err(|problem| RocksConfigError { key, problem }),
            None => Ok(()),
        }
    }

    /// Bytes that are at least `least`.
    fn bytes(
        &self,
        key: &'static str,
        least: u64,
        set: impl FnOnce(u64),
    ) -> Result<(), RocksConfigError> {
        self.parsed(key, |value| {
            let bytes = memory_size::parse(value)?;
            // RocksDB counts in signed 64-bit numbers in places.
            if bytes < least || bytes > i64::MAX as u64 {
                return Err(format!(
                    "{value} is not between {least} and {} bytes",
                    i64::MAX
                ));
            }
            set(bytes);
            Ok(())
        })
    }

    /// A number that is at least `least`, and small.
    fn count(
        &self,
        key: &'static str,
        least: u32,
        set: impl FnOnce(u32),
    ) -> Result<(), RocksConfigError> {
        const MOST: u32 = 1_024;
        self.parsed(key, |value| match value.parse() {
            Ok(count) if (least..=MOST).contains(&count) => {
                set(count);
                Ok(())
            }
            _ => Err(format!("{value} is not a number from {least} to {MOST}")),
        })
    }

    fn bool(&self, key: &'static str, set: impl FnOnce(bool)) -> Result<(), RocksConfigError> {
        self.parsed(key, |value| {
            set(server_options::parse_bool(value)?);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<RocksConfig, RocksConfigError> {
        for (key, _) in options {
            assert!(server_options::find(key).is_some(), "{key} is an option");
        }
        RocksConfig::from_options(|key| {
            let (_, value) = options.iter().find(|(found, _)| *found == key)?;
            Some((*value).to_owned())
        })
    }

    #[test]
    fn options_that_are_set_take_effect() {
        let config = read(&[
            ("kv.rocksdb.shared-block-cache.size", "1gb"),
            ("kv.rocksdb.shared-write-buffer.size", "128mb"),
            ("kv.rocksdb.writebuffer.size", "16mb"),
            ("kv.rocksdb.writebuffer.count", "3"),
            ("kv.rocksdb.writebuffer.number-to-merge", "2"),
            ("kv.rocksdb.thread.num", "7"),
            ("kv.rocksdb.shared-rate-limiter.bytes-per-sec", "10mb"),
            ("kv.rocksdb.files.open", "-1"),
            ("kv.rocksdb.block.blocksize", "8kb"),
            ("kv.rocksdb.bloom-filter.bits-per-key", "12.5"),
            ("kv.rocksdb.compaction.style", "UNIVERSAL"),
            ("kv.rocksdb.compaction.level.use-dynamic-size", "false"),
            (
                "kv.rocksdb.compression.per.level",
                "NO,NO,SNAPPY,LZ4,LZ4,LZ4,ZSTD",
            ),
            ("kv.rocksdb.compaction.level.target-file-size-base", "32mb"),
            ("kv.rocksdb.compaction.level.max-size-level-base", "512mb"),
            ("kv.rocksdb.log.level", "ERROR_LEVEL"),
        ]);
        let wanted = RocksConfig {
            block_cache_bytes: 1 << 30,
            write_buffers_bytes: 128 << 20,
            write_buffer_bytes: 16 << 20,
            write_buffer_count: 3,
            write_buffers_to_merge: 2,
            background_jobs: 7,
            rate_limit_bytes_per_sec: Some(10 << 20),
            open_files: i32::MAX as u32,
            block_bytes: 8 << 10,
            bloom_bits_per_key: Some(12.5),
            compaction_style: CompactionStyle::Universal,
            dynamic_levels: false,
            compression: [
                Compression::No,
                Compression::No,
                Compression::Snappy,
                Compression::Lz4,
                Compression::Lz4,
                Compression::Lz4,
                Compression::Zstd,
            ],
            target_file_bytes: 32 << 20,
            level_base_bytes: 512 << 20,
            log_level: LogLevel::Error,
        };
        assert_eq!(config, Ok(wanted));
        let without = read(&[("kv.rocksdb.use-bloom-filter", "false")]).unwrap();
        assert_eq!(without.bloom_bits_per_key, None);
    }

    #[test]
    fn sizes_of_zero_are_shared_defaults() {
        let config = read(&[
            ("kv.rocksdb.shared-block-cache.size", "0"),
            ("kv.rocksdb.shared-write-buffer.size", "0"),
        ]);
        assert_eq!(config, Ok(RocksConfig::default()));
    }

    #[test]
    fn values_that_cannot_be_are_refused_with_their_key() {
        for (key, value) in [
            ("kv.rocksdb.shared-block-cache.size", "much"),
            ("kv.rocksdb.writebuffer.size", "1"),
            ("kv.rocksdb.writebuffer.count", "1"),
            ("kv.rocksdb.writebuffer.count", "-3"),
            ("kv.rocksdb.writebuffer.number-to-merge", "4"),
            ("kv.rocksdb.thread.num", "0"),
            ("kv.rocksdb.files.open", "0"),
            ("kv.rocksdb.shared-rate-limiter.bytes-per-sec", "0"),
            ("kv.rocksdb.bloom-filter.bits-per-key", "NaN"),
            ("kv.rocksdb.use-bloom-filter", "perhaps"),
            ("kv.rocksdb.compaction.style", "FIFO"),
            ("kv.rocksdb.compaction.style", "NONE"),
            ("kv.rocksdb.compression.per.level", "LZ4,ZSTD"),
            (
                "kv.rocksdb.compression.per.level",
                "LZ4,LZ4,LZ4,LZ4,LZ4,LZ4,BROTLI",
            ),
            ("kv.rocksdb.log.level", "LOUD"),
        ] {
            let error = read(&[(key, value)]).expect_err(value);
            assert_eq!(error.key, key);
            assert!(error.to_string().starts_with(key), "{error}");
        }
    }
}
