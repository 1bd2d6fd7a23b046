//! Columns and schemas (tables.md §1.5, §2.2, formats.md §8.2).
//!
//! **Invariant.** A [`Schema`] that was read or built has unique column names,
//! unique ids up to `highest_field_id` with nested fields included, and primary
//! key columns that exist and are NOT NULL. Fields are public for reading;
//! change a schema through [`Schema::add_columns`], not in place.

mod agg_function;
mod builder;
mod evolution;
mod json;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{HashMap, HashSet};

use crate::data_type::UNASSIGNED_ID;
use crate::{DataType, DescriptorError, TypeKind};

pub use agg_function::{AggFunction, AggKind};
pub use builder::SchemaBuilder;
pub use evolution::NewColumn;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Comment.
    pub comment: Option<String>,
    /// Aggregation function of tables with that merge engine.
    pub agg_function: Option<AggFunction>,
    /// Id that stays with the column through schema changes.
    pub id: i32,
}

/// One version of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Columns in order; position `i` is the same column in every version.
    pub columns: Vec<Column>,
    /// Names of the primary key columns; empty for a log table.
    pub primary_key: Vec<String>,
    /// Names of auto-increment columns (at most one).
    pub auto_increment: Vec<String>,
    /// Highest id given to a column or nested field so far; −1 without columns.
    pub highest_field_id: i32,
}

impl Schema {
    /// Position and column of a name.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns
            .iter()
            .enumerate()
            .find(|(_, column)| column.name == name)
    }

    /// Whether the table has a primary key.
    pub fn has_primary_key(&self) -> bool {
        !self.primary_key.is_empty()
    }

    /// Whether the column belongs to the primary key.
    pub fn is_primary_key_column(&self, name: &str) -> bool {
        self.primary_key.iter().any(|key| key == name)
    }

    /// Positions of some columns, in the order of the names; `None` if one is
    /// missing.
    pub fn positions<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Option<Vec<usize>> {
        let by_name = self.positions_by_name();
        names
            .into_iter()
            .map(|name| by_name.get(name.as_str()).copied())
            .collect()
    }

    /// Positions of all columns, for looking up many: documents may name as many
    /// as a frame holds, so a search per name would be a way to stall a server.
    pub(crate) fn positions_by_name(&self) -> HashMap<&str, usize> {
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(position, column)| (column.name.as_str(), position))
            .collect()
    }

    /// Applies the rules to columns with their ids.
    ///
    /// Columns without any ids take their positions, as documents of old clients
    /// mean them. Without `highest_field_id` it is the highest id that is there.
    pub(crate) fn from_parts(
        mut columns: Vec<Column>,
        primary_key: Vec<String>,
        auto_increment: Vec<String>,
        highest_field_id: Option<i32>,
    ) -> Result<Self, DescriptorError> {
        check_columns(&mut columns)?;
        check_primary_key(&columns, &primary_key)?;
        let keys = name_set(&primary_key);
        for column in &mut columns {
            if keys.contains(column.name.as_str()) {
                column.data_type.nullable = false;
            }
        }
        check_auto_increment(&columns, &primary_key, &auto_increment)?;
        assign_positions_as_ids(&mut columns)?;
        let highest_found = check_ids(&columns)?;
        let highest_field_id = highest_field_id.unwrap_or(highest_found);
        if highest_field_id < highest_found {
            return Err(DescriptorError::new(format!(
                "The highest field id {highest_field_id} is lower than the id {highest_found} of a field."
            )));
        }
        Ok(Self {
            columns,
            primary_key,
            auto_increment,
            highest_field_id,
        })
    }
}

fn check_columns(columns: &mut [Column]) -> Result<(), DescriptorError> {
    let mut seen = HashSet::with_capacity(columns.len());
    for column in columns.iter() {
        if column.name.trim().is_empty() {
            return Err(DescriptorError::new("A column name must not be blank."));
        }
        if !seen.insert(column.name.as_str()) {
            return Err(DescriptorError::new(format!(
                "Table columns must not contain duplicate fields. Found: [{}]",
                column.name
            )));
        }
    }
    for column in columns {
        let taken = std::mem::replace(&mut column.data_type, DataType::nullable(TypeKind::Boolean));
        column.data_type = taken.checked()?;
    }
    Ok(())
}

fn check_primary_key(columns: &[Column], primary_key: &[String]) -> Result<(), DescriptorError> {
    let mut missing = HashSet::with_capacity(primary_key.len());
    for name in primary_key {
        if !missing.insert(name.as_str()) {
            return Err(DescriptorError::new(format!(
                "Primary key constraint [{}] must not contain duplicate columns. Found: [{name}]",
                primary_key.join(", ")
            )));
        }
    }
    for column in columns {
        missing.remove(column.name.as_str());
    }
    if !missing.is_empty() {
        return Err(DescriptorError::new(format!(
            "Table column [{}] should include all primary key constraint [{}]",
            names(columns),
            primary_key.join(", ")
        )));
    }
    let keys = name_set(primary_key);
    let function_on_key = columns
        .iter()
        .find(|column| column.agg_function.is_some() && keys.contains(column.name.as_str()));
    match function_on_key {
        None => Ok(()),
        Some(column) => Err(DescriptorError::new(format!(
            "Cannot set aggregation function for primary key column '{}'.",
            column.name
        ))),
    }
}

fn check_auto_increment(
    columns: &[Column],
    primary_key: &[String],
    auto_increment: &[String],
) -> Result<(), DescriptorError> {
    let [name] = auto_increment else {
        if auto_increment.is_empty() {
            return Ok(());
        }
        return Err(DescriptorError::new(
            "Multiple auto increment columns are not supported yet.",
        ));
    };
    if primary_key.is_empty() {
        return Err(DescriptorError::new(
            "Auto increment column is only supported in primary key table.",
        ));
    }
    if primary_key.contains(name) {
        return Err(DescriptorError::new(format!(
            "Auto increment column '{name}' can not be used as the primary key."
        )));
    }
    let Some(column) = columns.iter().find(|column| column.name == *name) else {
        return Err(DescriptorError::new(format!(
            "Auto increment column '{name}' does not exist in table columns [{}].",
            names(columns)
        )));
    };
    if !matches!(column.data_type.kind, TypeKind::Int | TypeKind::BigInt) {
        return Err(DescriptorError::new(format!(
            "The data type of auto increment column '{name}' must be INT or BIGINT, but is {}.",
            column.data_type
        )));
    }
    Ok(())
}

fn assign_positions_as_ids(columns: &mut [Column]) -> Result<(), DescriptorError> {
    let without_id = columns
        .iter()
        .filter(|column| column.id == UNASSIGNED_ID)
        .count();
    if without_id == 0 {
        return Ok(());
    }
    if without_id < columns.len() {
        return Err(DescriptorError::new(
            "All columns must have ids, or none of them; some of these have and some have not.",
        ));
    }
    for (column, position) in columns.iter_mut().zip(0..) {
        column.id = position;
    }
    Ok(())
}

/// Ids of columns and nested fields are unique; the highest of them, or −1.
fn check_ids(columns: &[Column]) -> Result<i32, DescriptorError> {
    let mut seen = HashSet::with_capacity(columns.len());
    let mut check = |id: i32| {
        if seen.insert(id) {
            return Ok(());
        }
        Err(DescriptorError::new(format!(
            "Ids of columns and nested fields must be unique, but {id} is there twice."
        )))
    };
    for column in columns {
        check(column.id)?;
        column
            .data_type
            .visit_fields(&mut |field| check(field.field_id))?;
    }
    Ok(seen.into_iter().max().unwrap_or(UNASSIGNED_ID))
}

/// Some names, for looking up many (see [`Schema::positions_by_name`]).
pub(crate) fn name_set(names: &[String]) -> HashSet<&str> {
    names.iter().map(String::as_str).collect()
}

fn names(columns: &[Column]) -> String {
    columns
        .iter()
        .map(|column| column.name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Gives a column the next ids: its own, then those of the fields inside it
/// (tables.md §2.2).
fn assign_ids(column: &mut Column, highest: &mut i32) -> Result<(), DescriptorError> {
    let mut next = || {
        *highest = highest
            .checked_add(1)
            .ok_or_else(|| DescriptorError::new("The table has no field ids left."))?;
        Ok(*highest)
    };
    column.id = next()?;
    column.data_type.visit_fields_mut(&mut |field| {
        field.field_id = next()?;
        Ok(())
    })
}
