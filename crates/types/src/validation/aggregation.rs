//! Rules of aggregation functions (tables.md §4.7).

use crate::schema::{AggKind, Column};
use crate::{AggFunction, Schema, TableDescriptor, TableError};

/// Only the aggregation engine runs functions.
pub(super) fn check_no_functions(descriptor: &TableDescriptor) -> Result<(), TableError> {
    for column in &descriptor.schema.columns {
        if let Some(function) = &column.agg_function {
            known(function)?;
            return Err(TableError::invalid_config(format!(
                "Aggregation function is only supported for aggregation merge engine table, \
                 but column '{}' has aggregation function '{}'.",
                column.name, function.name
            )));
        }
    }
    Ok(())
}

/// Parameters and types of all functions. Key columns have none.
pub(super) fn check_functions(schema: &Schema) -> Result<(), TableError> {
    schema.columns.iter().try_for_each(check_column)
}

fn check_column(column: &Column) -> Result<(), TableError> {
    let Some(function) = &column.agg_function else {
        return Ok(());
    };
    let kind = known(function)?;
    let refused = |reason: String| {
        TableError::invalid_config(format!(
            "Invalid aggregation function for column '{}': {reason}",
            column.name
        ))
    };
    for (name, value) in &function.parameters {
        if !kind.has_parameter(name) {
            return Err(refused(format!(
                "Parameter '{name}' is not supported for aggregation function '{}'.",
                kind.name()
            )));
        }
        if value.is_empty() {
            return Err(refused(format!(
                "Parameter '{name}' of aggregation function '{}' must not be empty.",
                kind.name()
            )));
        }
    }
    if !kind.supports(&column.data_type.kind) {
        return Err(refused(format!(
            "Data type for {} column must be part of [{}] but was '{}'.",
            kind.name(),
            kind.type_names().unwrap_or_default().join(", "),
            column.data_type
        )));
    }
    Ok(())
}

fn known(function: &AggFunction) -> Result<AggKind, TableError> {
    function.kind().ok_or_else(|| {
        TableError::invalid_config(format!(
            "Unknown aggregation function type: {}. Known are: {}.",
            function.name,
            AggKind::ALL.map(AggKind::name).join(", ")
        ))
    })
}
