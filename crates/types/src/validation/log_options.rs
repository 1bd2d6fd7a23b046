//! Rules of options about the log: compression, retention, statistics.

use crate::table_options::{LOG_ARROW_COMPRESSION_ZSTD_LEVEL, StatisticsColumns};
use crate::{TableDescriptor, TableError};

/// The level must be good even where another codec is chosen.
pub(super) fn check_compression(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let level: i32 = LOG_ARROW_COMPRESSION_ZSTD_LEVEL.read_or_default(&descriptor.properties)?;
    if (1..=22).contains(&level) {
        return Ok(());
    }
    Err(TableError::invalid_config(format!(
        "Invalid ZSTD compression level: {level}. Expected a value between 1 and 22."
    )))
}

pub(super) fn check_retention(descriptor: &TableDescriptor) -> Result<(), TableError> {
    if descriptor.tiered_local_segments()? <= 0 {
        return Err(TableError::invalid_config(
            "'table.log.tiered.local-segments' must be greater than 0.",
        ));
    }
    // Zero keeps for ever, on either side.
    let ttl = descriptor.log_ttl()?;
    let local_ttl = descriptor.log_local_ttl()?;
    if !ttl.is_zero() && !local_ttl.is_zero() && local_ttl > ttl {
        return Err(TableError::invalid_config(
            "'table.log.local-ttl' must be less than or equal to 'table.log.ttl'.",
        ));
    }
    Ok(())
}

pub(super) fn check_statistics(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let Some(columns) = descriptor.statistics_columns()? else {
        return Ok(());
    };
    if descriptor.has_primary_key() {
        return Err(TableError::invalid_config(
            "Statistics columns are not supported for primary key tables.",
        ));
    }
    let StatisticsColumns::Named(names) = columns else {
        return Ok(());
    };
    if names.is_empty() {
        return Err(TableError::invalid_config(
            "'table.statistics.columns' cannot be empty; name columns, or '*' for all.",
        ));
    }
    let by_name = descriptor.schema.positions_by_name();
    for name in &names {
        let Some(position) = by_name.get(name.as_str()) else {
            return Err(TableError::invalid_config(format!(
                "Statistics column '{name}' does not exist in table schema."
            )));
        };
        let column = &descriptor.schema.columns[*position];
        if !StatisticsColumns::supports(&column.data_type.kind) {
            return Err(TableError::invalid_config(format!(
                "Statistics column '{name}' of type '{}' is not supported for statistics collection.",
                column.data_type
            )));
        }
    }
    Ok(())
}
