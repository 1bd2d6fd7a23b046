//! Columns and schemas (tables.md §2.2, formats.md §8.2).

use std::collections::BTreeMap;

use crate::DataType;

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

/// An aggregation function with its parameters, e.g. `listagg` and `delimiter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggFunction {
    /// Name in lower case with underscores.
    pub name: String,
    /// Parameters as given.
    pub parameters: BTreeMap<String, String>,
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
    /// Highest id given to a column or nested field so far.
    pub highest_field_id: i32,
}

impl Schema {
    /// Position and column of a name.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }

    /// Whether the table has a primary key.
    pub fn has_primary_key(&self) -> bool {
        !self.primary_key.is_empty()
    }
}
