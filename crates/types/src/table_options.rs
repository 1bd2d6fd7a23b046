//! The table of all `table.*` options (tables.md §1.8).
//!
//! One entry says everything about an option; parsing, validation, the rules of
//! alterTable and the reference page read it from here.

mod reference;
mod values;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::TableError;
use crate::auto_partition::AutoPartitionUnit;

pub use reference::markdown_reference;
pub use values::{
    ArrowCompression, ChangelogImage, CompressionType, DeleteBehavior, KvFormat, LakeFormat,
    LogFormat, MergeEngine, OptionValue, StatisticsColumns,
};

/// Keys with this prefix belong to the system, all others to the user.
pub const TABLE_PREFIX: &str = "table.";

/// Keys about a table's lake table.
pub(crate) const LAKE_PREFIX: &str = "table.datalake.";

/// The newest key encoding (`table.kv.format-version`).
pub const CURRENT_KV_FORMAT_VERSION: i32 = 2;

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// `true` or `false` in any case.
    Bool,
    /// A 32-bit integer.
    Int,
    /// A 64-bit integer.
    Long,
    /// An integer with a unit, not negative.
    Duration,
    /// Any text.
    Text,
    /// One of these in any case.
    OneOf(&'static [&'static str]),
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOption {
    /// Key.
    pub key: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// Value of tables that do not have it. `None` if there is none, or if the
    /// server decides it when the table is created.
    pub default: Option<&'static str>,
    /// Whether alterTable may set and reset it.
    pub alterable: bool,
    /// What it means, in a line.
    pub help: &'static str,
}

macro_rules! table_options {
    ($($name:ident = $key:literal $kind:expr, $default:expr, $alterable:ident, $help:literal;)*) => {
        $(
            #[doc = concat!("`", $key, "`: ", $help)]
            pub const $name: TableOption = TableOption {
                key: $key,
                kind: $kind,
                default: $default,
                alterable: table_options!(@ $alterable),
                help: $help,
            };
        )*

        /// Every option, in the order of the specification.
        pub const TABLE_OPTIONS: &[TableOption] = &[$($name,)*];
    };
    (@ alterable) => { true };
    (@ fixed) => { false };
}

use OptionKind::{Bool, Duration as Time, Int, Long, OneOf, Text};

table_options! {
    REPLICATION_FACTOR = "table.replication.factor" Int, None, fixed,
        "Replicas of every bucket; the server's `default.replication.factor` when the table is created without it.";
    LOG_FORMAT = "table.log.format" OneOf(LogFormat::TEXTS), Some("ARROW"), fixed,
        "How log batches carry their rows, those of changelogs too.";
    LOG_ARROW_COMPRESSION_TYPE = "table.log.arrow.compression.type" OneOf(CompressionType::TEXTS), Some("ZSTD"), fixed,
        "Compression of Arrow bodies.";
    LOG_ARROW_COMPRESSION_ZSTD_LEVEL = "table.log.arrow.compression.zstd.level" Int, Some("3"), fixed,
        "Level of ZSTD, 1 to 22.";
    KV_FORMAT = "table.kv.format" OneOf(KvFormat::TEXTS), Some("COMPACTED"), fixed,
        "Encoding of rows in primary-key tables.";
    KV_FORMAT_VERSION = "table.kv.format-version" Int, None, fixed,
        "Encoding of keys in primary-key tables; 2 in new tables, 1 in tables without it.";
    KV_STANDBY_REPLICA_ENABLED = "table.kv.standby-replica.enabled" Bool, None, alterable,
        "Whether a follower keeps the rows ready to take over; true in new primary-key tables, false in tables without it.";
    AUTO_PARTITION_ENABLED = "table.auto-partition.enabled" Bool, Some("false"), alterable,
        "Whether partitions are created and dropped as time goes on.";
    AUTO_PARTITION_KEY = "table.auto-partition.key" Text, None, fixed,
        "Partition key that carries time; needed when there are several.";
    AUTO_PARTITION_TIME_UNIT = "table.auto-partition.time-unit" OneOf(&["HOUR", "DAY", "MONTH", "QUARTER", "YEAR"]), Some("DAY"), fixed,
        "Time that one partition covers.";
    AUTO_PARTITION_TIME_FORMAT = "table.auto-partition.time-format" Text, None, fixed,
        "Form of partition values: yyyyMMddHH, yyyyMMdd, yyyyMM, yyyyQ or yyyy without it, by unit.";
    AUTO_PARTITION_TIME_ZONE = "table.auto-partition.time-zone" Text, None, fixed,
        "Zone of partition values; without it the zone of each process.";
    AUTO_PARTITION_NUM_PRECREATE = "table.auto-partition.num-precreate" Int, Some("2"), alterable,
        "Partitions created ahead, the current one included; 0 with several partition keys.";
    AUTO_PARTITION_NUM_RETENTION = "table.auto-partition.num-retention" Int, Some("7"), alterable,
        "Past partitions that are kept; all if negative.";
    LOG_TTL = "table.log.ttl" Time, Some("7d"), alterable,
        "How long log and changelog are kept; for ever if 0.";
    LOG_TIERED_LOCAL_SEGMENTS = "table.log.tiered.local-segments" Int, Some("2"), alterable,
        "Log segments kept locally once they are in remote storage.";
    LOG_LOCAL_TTL = "table.log.local-ttl" Time, None, alterable,
        "How long log is kept locally; `table.log.ttl` without it.";
    DATALAKE_ENABLED = "table.datalake.enabled" Bool, Some("false"), alterable,
        "Whether the table is tiered to the lake.";
    DATALAKE_HISTORICAL_PARTITION_ENABLED = "table.datalake.historical-partition.enabled" Bool, Some("false"), alterable,
        "Whether keys of expired partitions can be looked up in the lake.";
    DATALAKE_FORMAT = "table.datalake.format" OneOf(LakeFormat::TEXTS), None, fixed,
        "Format of the lake table, which also decides bucketing and key encoding; the cluster's when the table is created without it.";
    DATALAKE_FRESHNESS = "table.datalake.freshness" Time, Some("3min"), alterable,
        "How far the lake table may be behind.";
    DATALAKE_AUTO_COMPACTION = "table.datalake.auto-compaction" Bool, Some("false"), alterable,
        "Whether tiering compacts the lake table.";
    DATALAKE_AUTO_EXPIRE_SNAPSHOT = "table.datalake.auto-expire-snapshot" Bool, Some("false"), fixed,
        "Whether tiering expires snapshots of the lake table.";
    DATALAKE_DATABASE_NAME = "table.datalake.database-name" Text, None, alterable,
        "Database of the lake table; the table's own without it.";
    DATALAKE_TABLE_NAME = "table.datalake.table-name" Text, None, alterable,
        "Name of the lake table; the table's own without it.";
    KV_TTL = "table.kv.ttl" Time, None, fixed,
        "How long rows of primary-key tables are kept.";
    KV_TTL_TIME_COLUMN = "table.kv.ttl.time-column" Text, None, fixed,
        "Column with the time from which `table.kv.ttl` counts.";
    KV_VALUE_LAYOUT_VERSION = "table.kv.value-layout-version" Int, None, fixed,
        "Layout of stored rows; 2 puts an 8-byte tag in front.";
    MERGE_ENGINE = "table.merge-engine" OneOf(MergeEngine::TEXTS), None, fixed,
        "What a second row of a key does; without it, it replaces the first.";
    MERGE_ENGINE_VERSION_COLUMN = "table.merge-engine.versioned.ver-column" Text, None, fixed,
        "Column with the version of the VERSIONED merge engine.";
    DELETE_BEHAVIOR = "table.delete.behavior" OneOf(DeleteBehavior::TEXTS), Some("ALLOW"), fixed,
        "What a delete does; IGNORE in new tables with a merge engine.";
    AUTO_INCREMENT_CACHE_SIZE = "table.auto-increment.cache-size" Long, Some("100000"), fixed,
        "Numbers of an auto-increment column that a bucket takes at once.";
    CHANGELOG_IMAGE = "table.changelog.image" OneOf(ChangelogImage::TEXTS), Some("FULL"), fixed,
        "Whether the changelog has the row before an update too.";
    STATISTICS_COLUMNS = "table.statistics.columns" Text, None, alterable,
        "Columns with statistics in log batches: `*`, or names with commas between them.";
}

/// The option of a key.
pub fn find(key: &str) -> Option<&'static TableOption> {
    TABLE_OPTIONS.iter().find(|option| option.key == key)
}

/// Whether a key belongs to the system; others are the user's (tables.md §1.9).
pub fn is_table_key(key: &str) -> bool {
    key.starts_with(TABLE_PREFIX)
}

impl OptionValue for AutoPartitionUnit {
    fn parse_option(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl TableOption {
    /// Checks that a text is a value of the option.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidConfig`](crate::ErrorCode::InvalidConfig).
    pub fn check(&self, text: &str) -> Result<(), TableError> {
        let good = match self.kind {
            Bool => bool::parse_option(text).is_some(),
            Int => i32::parse_option(text).is_some(),
            Long => i64::parse_option(text).is_some(),
            Time => Duration::parse_option(text).is_some(),
            Text => true,
            OneOf(texts) => texts.iter().any(|value| value.eq_ignore_ascii_case(text)),
        };
        if good {
            Ok(())
        } else {
            Err(self.unparsable(text))
        }
    }

    /// The value among a table's properties, else the default, if there is one.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidConfig`](crate::ErrorCode::InvalidConfig) if the text
    /// is no value; a table that passed validation has none such.
    pub fn read<T: OptionValue>(
        &self,
        properties: &BTreeMap<String, String>,
    ) -> Result<Option<T>, TableError> {
        match properties
            .get(self.key)
            .map(String::as_str)
            .or(self.default)
        {
            None => Ok(None),
            Some(text) => match T::parse_option(text) {
                Some(value) => Ok(Some(value)),
                None => Err(self.unparsable(text)),
            },
        }
    }

    /// The value of an option that has a default.
    pub(crate) fn read_or_default<T: OptionValue>(
        &self,
        properties: &BTreeMap<String, String>,
    ) -> Result<T, TableError> {
        let value = self.read(properties)?;
        Ok(value.expect("only called for options with a default, which a test parses"))
    }

    fn unparsable(&self, text: &str) -> TableError {
        let key = self.key;
        let mut message = format!(
            "Invalid value for config '{key}'. Reason: Could not parse value '{text}' for key '{key}'."
        );
        match self.kind {
            OneOf(texts) => {
                message.push_str(&format!(" Expected is one of: {}.", texts.join(", ")));
            }
            Time => {
                message.push_str(" Expected is an integer with a unit, such as '7d' or '30 min'.")
            }
            Bool => message.push_str(" Expected is true or false."),
            Int | Long => message.push_str(" Expected is an integer."),
            Text => {}
        }
        TableError::invalid_config(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_have_the_prefix() {
        let mut keys: Vec<&str> = TABLE_OPTIONS.iter().map(|option| option.key).collect();
        assert!(keys.iter().all(|key| is_table_key(key)));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), TABLE_OPTIONS.len());
    }

    #[test]
    fn every_default_is_a_value() {
        for option in TABLE_OPTIONS {
            if let Some(default) = option.default {
                assert_eq!(option.check(default), Ok(()), "{}", option.key);
            }
        }
    }

    #[test]
    fn twelve_keys_and_two_of_the_release_are_alterable() {
        let alterable: Vec<&str> = TABLE_OPTIONS
            .iter()
            .filter(|option| option.alterable)
            .map(|option| option.key)
            .collect();
        assert_eq!(
            alterable,
            [
                "table.kv.standby-replica.enabled",
                "table.auto-partition.enabled",
                "table.auto-partition.num-precreate",
                "table.auto-partition.num-retention",
                "table.log.ttl",
                "table.log.tiered.local-segments",
                "table.log.local-ttl",
                "table.datalake.enabled",
                "table.datalake.historical-partition.enabled",
                "table.datalake.freshness",
                "table.datalake.auto-compaction",
                "table.datalake.database-name",
                "table.datalake.table-name",
                "table.statistics.columns",
            ]
        );
    }

    #[test]
    fn time_units_of_the_option_are_those_of_auto_partition() {
        let OneOf(texts) = AUTO_PARTITION_TIME_UNIT.kind else {
            panic!("an enumeration")
        };
        for text in texts {
            assert!(AutoPartitionUnit::parse_option(text).is_some(), "{text}");
        }
        assert!(AutoPartitionUnit::parse_option("WEEK").is_none());
    }

    #[test]
    fn values_are_read_in_any_case_and_defaults_fill_in() {
        let properties = BTreeMap::from([
            ("table.log.format".to_owned(), "indexed".to_owned()),
            ("table.log.ttl".to_owned(), "7 days".to_owned()),
        ]);
        assert_eq!(LOG_FORMAT.read(&properties), Ok(Some(LogFormat::Indexed)));
        assert_eq!(
            LOG_TTL.read(&properties),
            Ok(Some(Duration::from_secs(7 * 86_400)))
        );
        assert_eq!(KV_FORMAT.read(&properties), Ok(Some(KvFormat::Compacted)));
        assert_eq!(MERGE_ENGINE.read::<MergeEngine>(&properties), Ok(None));
    }

    #[test]
    fn texts_that_are_no_values_are_refused_with_key_and_value() {
        for (option, text) in [
            (LOG_TTL, "unknown"),
            (LOG_TTL, "1000"),
            (LOG_TTL, "-1d"),
            (LOG_TIERED_LOCAL_SEGMENTS, "2147483648"),
            (LOG_TIERED_LOCAL_SEGMENTS, " 3 "),
            (LOG_TIERED_LOCAL_SEGMENTS, "x"),
            (DATALAKE_ENABLED, "yes"),
            (LOG_FORMAT, "parquet"),
            (AUTO_INCREMENT_CACHE_SIZE, "9223372036854775808"),
        ] {
            let error = option.check(text).expect_err(text);
            assert_eq!(error.code, crate::ErrorCode::InvalidConfig);
            let key = option.key;
            assert!(
                error.message.contains(&format!(
                    "Invalid value for config '{key}'. Reason: Could not parse value '{text}' for key '{key}'."
                )),
                "{error}"
            );
        }
    }

    #[test]
    fn statistics_columns_are_a_star_or_names() {
        assert_eq!(
            StatisticsColumns::parse_option("*"),
            Some(StatisticsColumns::All)
        );
        assert_eq!(
            StatisticsColumns::parse_option("a, b,,"),
            Some(StatisticsColumns::Named(vec![
                "a".to_owned(),
                "b".to_owned()
            ]))
        );
    }
}
