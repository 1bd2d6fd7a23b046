//! Rules of partition keys, auto-partitioning and historical partitions
//! (tables.md §1.7 #19–#24, §5.1, §5.4).

use crate::auto_partition::{AutoPartitionUnit, TimeFormat};
use crate::table_options::{
    AUTO_PARTITION_KEY, AUTO_PARTITION_NUM_PRECREATE, AUTO_PARTITION_TIME_FORMAT,
    AUTO_PARTITION_TIME_UNIT, DATALAKE_HISTORICAL_PARTITION_ENABLED, LakeFormat,
};
use crate::{TableDescriptor, TableError, TypeKind};

/// The only form of auto-partition values in a DATE column.
const DATE_FORMAT: &str = "yyyy-MM-dd";

pub(super) fn check(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let auto = descriptor.auto_partition_enabled()?;
    check_historical(descriptor, auto)?;
    if !descriptor.is_partitioned() {
        if auto {
            return Err(TableError::invalid_config(
                "Currently, auto partition is only supported for partitioned table, \
                 please set table property 'table.auto-partition.enabled' to false.",
            ));
        }
        return Ok(());
    }
    check_key_types(descriptor)?;
    let unit: AutoPartitionUnit =
        AUTO_PARTITION_TIME_UNIT.read_or_default(&descriptor.properties)?;
    let format = descriptor.properties.get(AUTO_PARTITION_TIME_FORMAT.key);
    if let Some(format) = format {
        TimeFormat::parse(unit, format).map_err(|reason| {
            TableError::invalid_table(format!(
                "Invalid table property '{}': {reason}",
                AUTO_PARTITION_TIME_FORMAT.key
            ))
        })?;
    }
    if auto {
        check_auto_key(descriptor)?;
        check_date_key(descriptor, unit, format)?;
    }
    Ok(())
}

fn check_historical(descriptor: &TableDescriptor, auto: bool) -> Result<(), TableError> {
    if !DATALAKE_HISTORICAL_PARTITION_ENABLED.read_or_default(&descriptor.properties)? {
        return Ok(());
    }
    let requirements = [
        (auto, "'table.auto-partition.enabled' must be true"),
        (
            descriptor.datalake_enabled()?,
            "'table.datalake.enabled' must be true",
        ),
        (
            descriptor.lake_format()? == Some(LakeFormat::Paimon),
            "'table.datalake.format' must be paimon",
        ),
        (
            descriptor.has_primary_key(),
            "the table must have a primary key",
        ),
        (
            descriptor.partition_keys.len() == 1,
            "the table must have exactly one partition key",
        ),
    ];
    let unmet: Vec<&str> = requirements
        .iter()
        .filter(|(met, _)| !met)
        .map(|(_, requirement)| *requirement)
        .collect();
    if unmet.is_empty() {
        return Ok(());
    }
    Err(TableError::invalid_config(format!(
        "'{}' has unmet requirements: {}.",
        DATALAKE_HISTORICAL_PARTITION_ENABLED.key,
        unmet.join("; ")
    )))
}

/// Partition values are texts; DECIMAL and nested types have no text form.
fn check_key_types(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let by_name = descriptor.schema.positions_by_name();
    for key in &descriptor.partition_keys {
        let Some(position) = by_name.get(key.as_str()) else {
            continue;
        };
        let column = &descriptor.schema.columns[*position];
        if matches!(column.data_type.kind, TypeKind::Decimal { .. }) || column.data_type.is_nested()
        {
            return Err(TableError::invalid_table(format!(
                "Currently, partitioned table supported partition key type are \
                 [CHAR, STRING, BOOLEAN, BINARY, BYTES, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, \
                 DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ], but got partition key '{key}' with data type {}.",
                column.data_type
            )));
        }
    }
    Ok(())
}

fn check_auto_key(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let keys = &descriptor.partition_keys;
    let declared = descriptor.properties.get(AUTO_PARTITION_KEY.key);
    if let Some(key) = declared
        && !keys.contains(key)
    {
        return Err(TableError::invalid_table(format!(
            "The auto partition key '{key}' is not a partition key. The partition keys are [{}].",
            keys.join(", ")
        )));
    }
    if keys.len() == 1 {
        return Ok(());
    }
    if declared.is_none() {
        return Err(TableError::invalid_table(format!(
            "Currently, auto partitioned table with multiple partition keys must set one auto partition key \
             by '{}'. The partition keys are [{}].",
            AUTO_PARTITION_KEY.key,
            keys.join(", ")
        )));
    }
    let precreate: i32 = AUTO_PARTITION_NUM_PRECREATE.read_or_default(&descriptor.properties)?;
    if precreate > 0 {
        return Err(TableError::invalid_table(format!(
            "For a table with multiple partition keys, auto pre-create is unsupported and this value must be \
             set to 0, but is {precreate}."
        )));
    }
    Ok(())
}

fn check_date_key(
    descriptor: &TableDescriptor,
    unit: AutoPartitionUnit,
    format: Option<&String>,
) -> Result<(), TableError> {
    let column = descriptor
        .auto_partition_key()
        .and_then(|key| descriptor.schema.column(key));
    let Some((_, column)) = column.filter(|(_, column)| column.data_type.kind == TypeKind::Date)
    else {
        return Ok(());
    };
    if unit == AutoPartitionUnit::Day && format.is_some_and(|format| format == DATE_FORMAT) {
        return Ok(());
    }
    Err(TableError::invalid_table(format!(
        "'{}' must be DAY and '{}' must be '{DATE_FORMAT}' when auto partition key '{}' has DATE type.",
        AUTO_PARTITION_TIME_UNIT.key, AUTO_PARTITION_TIME_FORMAT.key, column.name
    )))
}
