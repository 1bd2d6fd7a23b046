//! Rules of alterTable (tables.md §1.9, §2.3, wire.md §4.5).

use std::collections::{BTreeMap, HashSet};

use super::{Cluster, aggregation, check_bucket_limit, check_reserved_columns, validate};
use crate::schema::NewColumn;
use crate::table_options::{
    self, DATALAKE_ENABLED, DATALAKE_FORMAT, DATALAKE_HISTORICAL_PARTITION_ENABLED,
    KV_STANDBY_REPLICA_ENABLED, LAKE_PREFIX, MergeEngine,
};
use crate::{ErrorCode, TableDescriptor, TableError};

/// The table after setting some properties and then deleting others; `None` if
/// that changes nothing. Keys with the prefix `table.` are options, all others
/// are the user's.
///
/// The last value of a key that is set twice counts; a key that is set and
/// deleted ends up absent.
///
/// # Errors
/// InvalidAlterTable for an option that cannot be changed (all of them are
/// named), or not on this table; else the errors of [`validate`].
pub fn alter_properties(
    descriptor: &TableDescriptor,
    sets: &[(String, String)],
    deletes: &[String],
    cluster: &Cluster,
) -> Result<Option<TableDescriptor>, TableError> {
    let changed = changed_options(sets, deletes);
    check_alterable(descriptor, &changed)?;
    let mut altered = descriptor.clone();
    for (key, value) in sets {
        properties_of(&mut altered, key).insert(key.clone(), value.clone());
    }
    for key in deletes {
        properties_of(&mut altered, key).remove(key);
    }
    record_lake_format(&mut altered, &changed, cluster)?;
    if altered == *descriptor {
        return Ok(None);
    }
    validate(&altered, cluster)?;
    Ok(Some(altered))
}

/// A change of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnChange {
    /// A column behind the others.
    Add(NewColumn),
    /// The column of that name goes.
    Drop(String),
    /// The column of that name gets another one.
    Rename(String),
    /// The column of that name gets another type, comment or position.
    Modify(String),
}

/// Checks `column_position_type` of a request: only LAST (0) is understood.
///
/// # Errors
/// UnknownServerError, as the reference says.
pub fn check_column_position(position_type: i32) -> Result<(), TableError> {
    if position_type == 0 {
        return Ok(());
    }
    Err(unsupported(format!(
        "Unsupported ColumnPositionType: {position_type}"
    )))
}

/// The table with the next version of its schema; `None` without changes. All
/// columns are added, or none.
///
/// # Errors
/// Those of [`Schema::add_columns`](crate::Schema::add_columns); InvalidTable
/// for reserved names, InvalidConfig for aggregation functions that the table
/// cannot run; UnknownServerError for drops, renames and modifications, which
/// are not supported.
pub fn alter_columns(
    descriptor: &TableDescriptor,
    changes: &[ColumnChange],
) -> Result<Option<TableDescriptor>, TableError> {
    if changes.is_empty() {
        return Ok(None);
    }
    let mut added = Vec::new();
    let (mut drops, mut renames, mut modifies) = (false, false, false);
    for change in changes {
        match change {
            ColumnChange::Add(column) => added.push(column.clone()),
            ColumnChange::Drop(_) => drops = true,
            ColumnChange::Rename(_) => renames = true,
            ColumnChange::Modify(_) => modifies = true,
        }
    }
    let schema = descriptor.schema.add_columns(&added)?;
    for (asked, what) in [(drops, "drop"), (renames, "rename"), (modifies, "modify")] {
        if asked {
            return Err(unsupported(format!("Not support {what} column now.")));
        }
    }
    let altered = TableDescriptor {
        schema,
        ..descriptor.clone()
    };
    check_reserved_columns(&altered)?;
    if altered.merge_engine()? == Some(MergeEngine::Aggregation) {
        aggregation::check_functions(&altered.schema)?;
    } else {
        aggregation::check_no_functions(&altered)?;
    }
    Ok(Some(altered))
}

/// The table with another bucket count for partitions to come; `None` if it is
/// the one it has (wire.md §4.5, PbModifyBucketCount).
///
/// # Errors
/// InvalidAlterTable for a count below 1, a table without partitions or with
/// historical ones; BucketMaxNum for a count over the limit.
pub fn alter_bucket_count(
    descriptor: &TableDescriptor,
    bucket_count: i32,
    cluster: &Cluster,
) -> Result<Option<TableDescriptor>, TableError> {
    if bucket_count < 1 {
        return Err(TableError::invalid_alter(format!(
            "The new bucket count must be larger than 0, but is {bucket_count}."
        )));
    }
    if !descriptor.is_partitioned() {
        return Err(TableError::invalid_alter(
            "The bucket count can only be changed for partitioned tables.",
        ));
    }
    if DATALAKE_HISTORICAL_PARTITION_ENABLED.read_or_default(&descriptor.properties)? {
        return Err(TableError::invalid_alter(
            "The bucket count cannot be changed while historical partitions are enabled.",
        ));
    }
    check_bucket_limit(bucket_count, cluster)?;
    if descriptor.bucket_count == Some(bucket_count) {
        return Ok(None);
    }
    Ok(Some(TableDescriptor {
        bucket_count: Some(bucket_count),
        ..descriptor.clone()
    }))
}

/// Keys of options in a request, each once, in the order of the request.
fn changed_options<'a>(sets: &'a [(String, String)], deletes: &'a [String]) -> Vec<&'a str> {
    let keys = sets
        .iter()
        .map(|(key, _)| key.as_str())
        .chain(deletes.iter().map(String::as_str));
    let mut seen = HashSet::new();
    keys.filter(|key| table_options::is_table_key(key) && seen.insert(*key))
        .collect()
}

fn check_alterable(descriptor: &TableDescriptor, changed: &[&str]) -> Result<(), TableError> {
    let fixed: Vec<&str> = changed
        .iter()
        .copied()
        .filter(|key| !table_options::find(key).is_some_and(|option| option.alterable))
        .collect();
    if !fixed.is_empty() {
        return Err(TableError::invalid_alter(format!(
            "The following options are not supported to alter yet: {}.",
            quoted(&fixed)
        )));
    }
    if changed.contains(&KV_STANDBY_REPLICA_ENABLED.key) && !descriptor.has_primary_key() {
        return Err(TableError::invalid_alter(format!(
            "The option '{}' is only supported for primary key tables.",
            KV_STANDBY_REPLICA_ENABLED.key
        )));
    }
    Ok(())
}

/// A table without a recorded lake format was made for no lake: its buckets and
/// keys are encoded in another way. Only where that cannot matter, in a log table
/// whose rows have no bucket key, tiering may still be enabled.
fn record_lake_format(
    altered: &mut TableDescriptor,
    changed: &[&str],
    cluster: &Cluster,
) -> Result<(), TableError> {
    let lake: Vec<&str> = changed
        .iter()
        .copied()
        .filter(|key| key.starts_with(LAKE_PREFIX))
        .collect();
    if lake.is_empty() || altered.properties.contains_key(DATALAKE_FORMAT.key) {
        return Ok(());
    }
    let free = !altered.has_primary_key() && altered.bucket_keys.is_empty();
    if !free || lake != [DATALAKE_ENABLED.key] {
        return Err(TableError::invalid_alter(format!(
            "The following options cannot be altered for tables that were created before the Fluss cluster \
             enabled datalake: {}.",
            quoted(&lake)
        )));
    }
    if !altered.datalake_enabled()? {
        return Ok(());
    }
    let Some(format) = &cluster.datalake_format else {
        return Err(TableError::invalid_alter(format!(
            "'{}' cannot be set to true: the Fluss cluster does not enable datalake.",
            DATALAKE_ENABLED.key
        )));
    };
    altered
        .properties
        .insert(DATALAKE_FORMAT.key.to_owned(), format.clone());
    Ok(())
}

fn properties_of<'a>(
    descriptor: &'a mut TableDescriptor,
    key: &str,
) -> &'a mut BTreeMap<String, String> {
    if table_options::is_table_key(key) {
        &mut descriptor.properties
    } else {
        &mut descriptor.custom_properties
    }
}

fn quoted(keys: &[&str]) -> String {
    keys.iter()
        .map(|key| format!("'{key}'"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn unsupported(message: String) -> TableError {
    TableError::new(ErrorCode::UnknownServerError, message)
}
