//! Defaults that the server writes into a new table (tables.md §1.6).
//!
//! They are visible to clients, which choose encodings and the changelog mode by
//! them. Every other option stays absent, and clients apply its default.

use super::Cluster;
use crate::table_options::{
    self as options, CURRENT_KV_FORMAT_VERSION, DeleteBehavior, TableOption,
};
use crate::{TableDescriptor, TableError};

/// Fills in what a new table does not say.
///
/// # Errors
/// InvalidTable if the table wants a lake that the cluster does not have,
/// InvalidConfig for a key format that is too new (or 0, with which a table
/// would lose its rows at the first restart), and for unparsable texts of
/// options that are read here.
pub fn fill_defaults(
    descriptor: &mut TableDescriptor,
    cluster: &Cluster,
) -> Result<(), TableError> {
    descriptor
        .bucket_count
        .get_or_insert(cluster.default_bucket_number);
    set_if_absent(
        descriptor,
        &options::REPLICATION_FACTOR,
        cluster.default_replication_factor.to_string(),
    );
    if descriptor.partition_keys.len() > 1 && descriptor.auto_partition_enabled()? {
        set_if_absent(descriptor, &options::AUTO_PARTITION_NUM_PRECREATE, "0");
    }
    fill_lake(descriptor, cluster)?;
    if descriptor.has_primary_key() {
        if descriptor.merge_engine()?.is_some() {
            set_if_absent(
                descriptor,
                &options::DELETE_BEHAVIOR,
                DeleteBehavior::Ignore.text(),
            );
            descriptor.delete_behavior()?;
        }
        fill_kv_format_version(descriptor)?;
        set_if_absent(descriptor, &options::KV_STANDBY_REPLICA_ENABLED, "true");
    }
    Ok(())
}

/// The cluster's lake format is recorded even if the table is not tiered: it
/// decides bucketing and key encoding, which cannot change later.
fn fill_lake(descriptor: &mut TableDescriptor, cluster: &Cluster) -> Result<(), TableError> {
    if let Some(format) = &cluster.datalake_format {
        set_if_absent(descriptor, &options::DATALAKE_FORMAT, format.clone());
    } else if descriptor.datalake_enabled()? {
        return Err(TableError::invalid_table(
            "'table.datalake.enabled' is set to true, but the current Fluss cluster doesn't enable datalake tables.",
        ));
    }
    Ok(())
}

fn fill_kv_format_version(descriptor: &mut TableDescriptor) -> Result<(), TableError> {
    let newest = CURRENT_KV_FORMAT_VERSION;
    set_if_absent(descriptor, &options::KV_FORMAT_VERSION, newest.to_string());
    let version = descriptor.kv_format_version()?;
    if !(1..=newest).contains(&version) {
        return Err(TableError::invalid_config(format!(
            "Unsupported kv format version: {version}. Versions 1 to {newest} are supported."
        )));
    }
    Ok(())
}

fn set_if_absent(descriptor: &mut TableDescriptor, option: &TableOption, value: impl Into<String>) {
    descriptor
        .properties
        .entry(option.key.to_owned())
        .or_insert_with(|| value.into());
}
