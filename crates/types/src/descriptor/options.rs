//! Options of a table as values, defaults filled in.
//!
//! Every function here fails, with InvalidConfig, only on a text that is no
//! value of its option. A table that passed validation has none such; a table of
//! another cluster may.

use std::collections::HashSet;
use std::time::Duration;

use super::TableDescriptor;
use crate::table_options::{
    self as options, ArrowCompression, ChangelogImage, CompressionType, DeleteBehavior, KvFormat,
    LakeFormat, LogFormat, MergeEngine, StatisticsColumns,
};
use crate::{Schema, TableError, TypeKind};

/// Version of the key encoding of tables that do not say theirs.
const LEGACY_KV_FORMAT_VERSION: i32 = 1;

impl TableDescriptor {
    /// Replicas of every bucket; `None` before the server filled it in.
    pub fn replication_factor(&self) -> Result<Option<i32>, TableError> {
        options::REPLICATION_FACTOR.read(&self.properties)
    }

    /// How log batches carry their rows.
    pub fn log_format(&self) -> Result<LogFormat, TableError> {
        options::LOG_FORMAT.read_or_default(&self.properties)
    }

    /// Compression of Arrow bodies.
    pub fn arrow_compression(&self) -> Result<ArrowCompression, TableError> {
        let level = options::LOG_ARROW_COMPRESSION_ZSTD_LEVEL.read_or_default(&self.properties)?;
        let codec = options::LOG_ARROW_COMPRESSION_TYPE.read_or_default(&self.properties)?;
        Ok(match codec {
            CompressionType::None => ArrowCompression::None,
            CompressionType::Lz4Frame => ArrowCompression::Lz4Frame,
            CompressionType::Zstd => ArrowCompression::Zstd { level },
        })
    }

    /// How long the log is kept; zero = for ever.
    pub fn log_ttl(&self) -> Result<Duration, TableError> {
        options::LOG_TTL.read_or_default(&self.properties)
    }

    /// How long the log is kept locally, the log's own limit if the table does
    /// not say; zero = as long as the log.
    pub fn log_local_ttl(&self) -> Result<Duration, TableError> {
        match options::LOG_LOCAL_TTL.read(&self.properties)? {
            Some(local_ttl) => Ok(local_ttl),
            None => self.log_ttl(),
        }
    }

    /// Log segments kept locally once they are in remote storage.
    pub fn tiered_local_segments(&self) -> Result<i32, TableError> {
        options::LOG_TIERED_LOCAL_SEGMENTS.read_or_default(&self.properties)
    }

    /// Encoding of rows in primary-key tables.
    pub fn kv_format(&self) -> Result<KvFormat, TableError> {
        options::KV_FORMAT.read_or_default(&self.properties)
    }

    /// Encoding of keys in primary-key tables.
    pub fn kv_format_version(&self) -> Result<i32, TableError> {
        let version = options::KV_FORMAT_VERSION.read(&self.properties)?;
        Ok(version.unwrap_or(LEGACY_KV_FORMAT_VERSION))
    }

    /// Whether a follower keeps the rows ready to take over.
    pub fn standby_replica_enabled(&self) -> Result<bool, TableError> {
        let enabled = options::KV_STANDBY_REPLICA_ENABLED.read(&self.properties)?;
        Ok(enabled.unwrap_or(false))
    }

    /// What a second row of a key does; `None` = it replaces the first.
    pub fn merge_engine(&self) -> Result<Option<MergeEngine>, TableError> {
        options::MERGE_ENGINE.read(&self.properties)
    }

    /// Version column of the VERSIONED merge engine.
    pub fn version_column(&self) -> Option<&str> {
        self.properties
            .get(options::MERGE_ENGINE_VERSION_COLUMN.key)
            .map(String::as_str)
    }

    /// What a delete does.
    pub fn delete_behavior(&self) -> Result<DeleteBehavior, TableError> {
        options::DELETE_BEHAVIOR.read_or_default(&self.properties)
    }

    /// What the changelog says of an update.
    pub fn changelog_image(&self) -> Result<ChangelogImage, TableError> {
        options::CHANGELOG_IMAGE.read_or_default(&self.properties)
    }

    /// Numbers of an auto-increment column that a bucket takes at once.
    pub fn auto_increment_cache_size(&self) -> Result<i64, TableError> {
        options::AUTO_INCREMENT_CACHE_SIZE.read_or_default(&self.properties)
    }

    /// Whether partitions are created and dropped as time goes on.
    pub fn auto_partition_enabled(&self) -> Result<bool, TableError> {
        options::AUTO_PARTITION_ENABLED.read_or_default(&self.properties)
    }

    /// Partition key that carries time: the declared one, else the first.
    pub fn auto_partition_key(&self) -> Option<&str> {
        let declared = self.properties.get(options::AUTO_PARTITION_KEY.key);
        declared.or(self.partition_keys.first()).map(String::as_str)
    }

    /// Format of the lake table, which also decides bucketing and key encoding.
    pub fn lake_format(&self) -> Result<Option<LakeFormat>, TableError> {
        options::DATALAKE_FORMAT.read(&self.properties)
    }

    /// Whether the table is tiered to the lake.
    pub fn datalake_enabled(&self) -> Result<bool, TableError> {
        options::DATALAKE_ENABLED.read_or_default(&self.properties)
    }

    /// How far the lake table may be behind.
    pub fn datalake_freshness(&self) -> Result<Duration, TableError> {
        options::DATALAKE_FRESHNESS.read_or_default(&self.properties)
    }

    /// Columns with statistics in log batches; `None` = no statistics.
    pub fn statistics_columns(&self) -> Result<Option<StatisticsColumns>, TableError> {
        options::STATISTICS_COLUMNS.read(&self.properties)
    }
}

impl StatisticsColumns {
    /// Whether statistics can be kept of columns of that type (formats.md §2.1).
    pub fn supports(kind: &TypeKind) -> bool {
        !matches!(
            kind,
            TypeKind::Binary { .. }
                | TypeKind::Bytes
                | TypeKind::Array(_)
                | TypeKind::Map { .. }
                | TypeKind::Row(_)
        )
    }

    /// Positions of the columns in a schema, each once, in the order of the
    /// option. Columns that the schema lacks, or of other types, are left out.
    pub fn positions(&self, schema: &Schema) -> Vec<usize> {
        let supported =
            |position: &usize| Self::supports(&schema.columns[*position].data_type.kind);
        match self {
            Self::All => (0..schema.columns.len()).filter(supported).collect(),
            Self::Named(names) => {
                let by_name = schema.positions_by_name();
                let mut seen = HashSet::new();
                names
                    .iter()
                    .filter_map(|name| by_name.get(name.as_str()).copied())
                    .filter(supported)
                    .filter(|position| seen.insert(*position))
                    .collect()
            }
        }
    }
}
