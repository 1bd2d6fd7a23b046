//! Which tables a cluster takes, and which changes of them (tables.md §1.4–§1.9).
//!
//! [`new_table`] is the part of createTable between reading the descriptor and
//! storing it; [`alter_properties`], [`alter_columns`] and [`alter_bucket_count`]
//! are alterTable. All are functions of values: the caller looks up whether
//! databases and tables exist. The order of checks decides which error wins, and
//! is that of the specification.

mod aggregation;
mod alter;
mod defaults;
mod log_options;
mod merge_engine;
mod partitions;

#[cfg(test)]
mod tests;

use crate::table_options::{self, KvFormat, LogFormat};
use crate::{ErrorCode, TableDescriptor, TableError};

pub use alter::{
    ColumnChange, alter_bucket_count, alter_columns, alter_properties, check_column_position,
};
pub use defaults::fill_defaults;

/// Names of columns that readers add to rows; tables cannot have them.
pub const RESERVED_COLUMNS: [&str; 6] = [
    "__offset",
    "__timestamp",
    "__bucket",
    "_change_type",
    "_log_offset",
    "_commit_timestamp",
];

/// What validation needs to know of the cluster: settings, and live servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `default.bucket.number`.
    pub default_bucket_number: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i32,
    /// `max.bucket.num`: most buckets of a table, or of one of its partitions.
    pub max_bucket_num: i32,
    /// `allow.create.log.tables`.
    pub allow_log_tables: bool,
    /// `allow.create.kv.tables`.
    pub allow_kv_tables: bool,
    /// `datalake.format`, if the cluster has a lake.
    pub datalake_format: Option<String>,
    /// Tablet servers that are alive.
    pub live_servers: i32,
}

impl Default for Cluster {
    /// One live server, everything else as a server without configuration has it.
    fn default() -> Self {
        Self {
            default_bucket_number: 1,
            default_replication_factor: 1,
            max_bucket_num: 4096,
            allow_log_tables: true,
            allow_kv_tables: true,
            datalake_format: None,
            live_servers: 1,
        }
    }
}

/// The descriptor to store for a table to create: permission, defaults,
/// validation and the number of servers, in this order (tables.md §1.4 steps
/// 4–7).
///
/// # Errors
/// InvalidTable, InvalidConfig, BucketMaxNum or InvalidReplicationFactor.
pub fn new_table(
    mut descriptor: TableDescriptor,
    cluster: &Cluster,
) -> Result<TableDescriptor, TableError> {
    check_allowed(&descriptor, cluster)?;
    fill_defaults(&mut descriptor, cluster)?;
    validate(&descriptor, cluster)?;
    check_live_servers(&descriptor, cluster)?;
    Ok(descriptor)
}

/// Whether the cluster lets tables of this kind be created.
///
/// # Errors
/// InvalidTable.
pub fn check_allowed(descriptor: &TableDescriptor, cluster: &Cluster) -> Result<(), TableError> {
    if descriptor.has_primary_key() && !cluster.allow_kv_tables {
        return Err(TableError::invalid_table(
            "Creation of Primary Key Tables is disallowed in the cluster.",
        ));
    }
    if !descriptor.has_primary_key() && !cluster.allow_log_tables {
        return Err(TableError::invalid_table(
            "Creation of Log Tables is disallowed in the cluster.",
        ));
    }
    Ok(())
}

/// The rules of tables.md §1.7, in their order. Defaults must be filled in.
///
/// # Errors
/// InvalidTable, InvalidConfig or BucketMaxNum.
pub fn validate(descriptor: &TableDescriptor, cluster: &Cluster) -> Result<(), TableError> {
    check_properties(descriptor)?;
    check_bucket_count(descriptor, cluster)?;
    check_key_types(descriptor)?;
    check_replication_factor(descriptor)?;
    check_formats(descriptor)?;
    log_options::check_compression(descriptor)?;
    merge_engine::check(descriptor)?;
    log_options::check_retention(descriptor)?;
    partitions::check(descriptor)?;
    check_reserved_columns(descriptor)?;
    log_options::check_statistics(descriptor)?;
    check_lake(descriptor, cluster)
}

/// A table without partitions gets its replicas when it is created; partitions
/// get theirs one by one.
///
/// # Errors
/// InvalidReplicationFactor.
pub fn check_live_servers(
    descriptor: &TableDescriptor,
    cluster: &Cluster,
) -> Result<(), TableError> {
    let replication_factor = descriptor.replication_factor()?.unwrap_or(1);
    if descriptor.is_partitioned() || replication_factor <= cluster.live_servers {
        return Ok(());
    }
    Err(TableError::new(
        ErrorCode::InvalidReplicationFactor,
        format!(
            "Replication factor: {replication_factor} larger than available tablet servers: {}.",
            cluster.live_servers
        ),
    ))
}

fn check_properties(descriptor: &TableDescriptor) -> Result<(), TableError> {
    for (key, value) in &descriptor.properties {
        match table_options::find(key) {
            Some(option) => option.check(value)?,
            None if table_options::is_table_key(key) => {
                return Err(TableError::invalid_config(format!(
                    "'{key}' is not a recognized Fluss table property in the current cluster version. \
                     You may be using an older Fluss cluster that does not support this property."
                )));
            }
            None => {
                return Err(TableError::invalid_config(format!(
                    "'{key}' is not a Fluss table property. Please use '.customProperty(..)' to set custom properties."
                )));
            }
        }
    }
    Ok(())
}

fn check_bucket_count(descriptor: &TableDescriptor, cluster: &Cluster) -> Result<(), TableError> {
    let Some(bucket_count) = descriptor.bucket_count else {
        return Err(TableError::invalid_table("Bucket number must be set."));
    };
    check_bucket_limit(bucket_count, cluster)?;
    if bucket_count <= 0 {
        return Err(TableError::invalid_table(format!(
            "Number of buckets must be larger than 0, but is {bucket_count}."
        )));
    }
    Ok(())
}

fn check_bucket_limit(bucket_count: i32, cluster: &Cluster) -> Result<(), TableError> {
    let max_bucket_num = cluster.max_bucket_num;
    if bucket_count > max_bucket_num {
        return Err(TableError::new(
            ErrorCode::BucketMaxNum,
            format!(
                "Bucket count {bucket_count} exceeds the maximum limit {max_bucket_num} \
                 for a non-partitioned table or partition."
            ),
        ));
    }
    Ok(())
}

/// Keys are encoded without nested types.
fn check_key_types(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let bucket_keys = descriptor.bucket_keys.iter().map(|key| ("Bucket", key));
    let primary_key = descriptor
        .schema
        .primary_key
        .iter()
        .map(|key| ("Primary", key));
    let by_name = descriptor.schema.positions_by_name();
    for (what, key) in bucket_keys.chain(primary_key) {
        let Some(position) = by_name.get(key.as_str()) else {
            continue;
        };
        let column = &descriptor.schema.columns[*position];
        if column.data_type.is_nested() {
            return Err(TableError::invalid_table(format!(
                "{what} key column '{key}' has unsupported data type {}. \
                 ARRAY, MAP and ROW are not supported in keys.",
                column.data_type
            )));
        }
    }
    Ok(())
}

fn check_replication_factor(descriptor: &TableDescriptor) -> Result<(), TableError> {
    match descriptor.replication_factor()? {
        Some(factor) if factor > 0 => Ok(()),
        Some(_) => Err(TableError::invalid_config(
            "'table.replication.factor' must be greater than 0.",
        )),
        None => Err(TableError::invalid_config(
            "'table.replication.factor' must be set.",
        )),
    }
}

fn check_formats(descriptor: &TableDescriptor) -> Result<(), TableError> {
    if descriptor.has_primary_key()
        && descriptor.kv_format()? == KvFormat::Compacted
        && descriptor.log_format()? == LogFormat::Indexed
    {
        return Err(TableError::invalid_config(
            "Currently, Primary Key Table supports ARROW or COMPACTED log format when kv format is COMPACTED.",
        ));
    }
    Ok(())
}

fn check_reserved_columns(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let names = descriptor
        .schema
        .columns
        .iter()
        .map(|column| column.name.as_str());
    let offenders: Vec<&str> = names
        .filter(|name| RESERVED_COLUMNS.contains(name))
        .collect();
    if offenders.is_empty() {
        return Ok(());
    }
    Err(TableError::invalid_table(format!(
        "{} cannot be used as column names, because they are reserved system columns in Fluss. \
         Please use other names for these columns. The reserved system columns are: {}",
        offenders.join(", "),
        RESERVED_COLUMNS.join(", ")
    )))
}

fn check_lake(descriptor: &TableDescriptor, cluster: &Cluster) -> Result<(), TableError> {
    if !descriptor.datalake_enabled()? {
        return Ok(());
    }
    let table = descriptor
        .properties
        .get(table_options::DATALAKE_FORMAT.key);
    let same = match (table, &cluster.datalake_format) {
        (Some(table), Some(cluster)) => table.eq_ignore_ascii_case(cluster),
        _ => false,
    };
    if same {
        return Ok(());
    }
    let shown = |format: Option<&String>| format.map_or("none", String::as_str).to_owned();
    Err(TableError::invalid_config(format!(
        "'table.datalake.format' ('{}') must match cluster 'datalake.format' ('{}') when 'table.datalake.enabled' is true.",
        shown(table),
        shown(cluster.datalake_format.as_ref())
    )))
}
