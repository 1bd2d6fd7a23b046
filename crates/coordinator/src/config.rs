//! Settings of a coordinator.

use std::collections::{BTreeMap, BTreeSet};

/// Settings that are fixed while the server runs (cluster.md §9.2–9.3).
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// `default.bucket.number`.
    pub default_bucket_number: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i32,
    /// `max.bucket.num`: per table or partition.
    pub max_bucket_num: i32,
    /// `max.partition.num`: per table.
    pub max_partition_num: i32,
    /// `allow.create.log.tables`.
    pub allow_create_log_tables: bool,
    /// `allow.create.kv.tables`.
    pub allow_create_kv_tables: bool,
    /// `remote.data.dir`: recorded in new tables and partitions.
    pub remote_data_dir: Option<String>,
    /// `coordinator.producer-offsets.ttl` in milliseconds.
    pub producer_offsets_ttl_ms: i64,
    /// What the server's file and command line set, as DescribeClusterConfigs
    /// shows it.
    pub server_configs: BTreeMap<String, String>,
    /// Keys of those whose values came from a configuration provider, which
    /// DescribeClusterConfigs does not show.
    pub hidden_configs: BTreeSet<String>,
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self {
            default_bucket_number: 1,
            default_replication_factor: 1,
            max_bucket_num: 4096,
            max_partition_num: 1000,
            allow_create_log_tables: true,
            allow_create_kv_tables: true,
            remote_data_dir: None,
            producer_offsets_ttl_ms: 24 * 60 * 60 * 1000,
            server_configs: BTreeMap::new(),
            hidden_configs: BTreeSet::new(),
        }
    }
}
