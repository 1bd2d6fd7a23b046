//! Rules of merge engines, aggregation functions and delete behaviour.

use super::aggregation;
use crate::table_options::{
    ChangelogImage, DELETE_BEHAVIOR, DeleteBehavior, MERGE_ENGINE_VERSION_COLUMN, MergeEngine,
};
use crate::{TableDescriptor, TableError, TypeKind};

pub(super) fn check(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let engine = descriptor.merge_engine()?;
    if engine != Some(MergeEngine::Aggregation) {
        aggregation::check_no_functions(descriptor)?;
    }
    if engine.is_some() && !descriptor.has_primary_key() {
        return Err(TableError::invalid_config(
            "Merge engine is only supported in primary key table.",
        ));
    }
    match engine {
        Some(MergeEngine::Versioned) => check_version_column(descriptor)?,
        Some(MergeEngine::Aggregation) => {
            if descriptor.changelog_image()? == ChangelogImage::Wal {
                return Err(TableError::invalid_config(
                    "Table with 'AGGREGATION' merge engine does not support 'WAL' changelog image mode.",
                ));
            }
            aggregation::check_functions(&descriptor.schema)?;
        }
        Some(MergeEngine::FirstRow) | None => {}
    }
    check_delete_behavior(descriptor, engine)
}

fn check_version_column(descriptor: &TableDescriptor) -> Result<(), TableError> {
    let Some(name) = descriptor.version_column() else {
        return Err(TableError::invalid_config(format!(
            "'{}' must be set for versioned merge engine.",
            MERGE_ENGINE_VERSION_COLUMN.key
        )));
    };
    let Some((_, column)) = descriptor.schema.column(name) else {
        return Err(TableError::invalid_config(format!(
            "The version column '{name}' for versioned merge engine doesn't exist in schema."
        )));
    };
    match column.data_type.kind {
        TypeKind::Int
        | TypeKind::BigInt
        | TypeKind::Timestamp { .. }
        | TypeKind::TimestampLtz { .. } => Ok(()),
        _ => Err(TableError::invalid_config(format!(
            "The version column '{name}' for versioned merge engine must be one type of \
             [INT, BIGINT, TIMESTAMP, TIMESTAMP_LTZ], but got {}.",
            column.data_type
        ))),
    }
}

fn check_delete_behavior(
    descriptor: &TableDescriptor,
    engine: Option<MergeEngine>,
) -> Result<(), TableError> {
    if !descriptor.properties.contains_key(DELETE_BEHAVIOR.key) {
        return Ok(());
    }
    if !descriptor.has_primary_key() {
        return Err(TableError::invalid_config(
            "The 'table.delete.behavior' configuration is only supported for primary key tables.",
        ));
    }
    let keeps_rows = matches!(engine, Some(MergeEngine::FirstRow | MergeEngine::Versioned));
    if keeps_rows && descriptor.delete_behavior()? == DeleteBehavior::Allow {
        let engine = engine.map_or("", MergeEngine::text);
        return Err(TableError::invalid_config(format!(
            "Table with '{engine}' merge engine does not support delete operations. \
             The 'table.delete.behavior' config must be set to 'ignore' or 'disable', but got 'allow'."
        )));
    }
    Ok(())
}
