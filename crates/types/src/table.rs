//! Paths of tables and partitions (tables.md §1.1).

use std::fmt;

/// Database and table name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TablePath {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
}

impl TablePath {
    /// A path, unchecked; see [`check_table_path`](crate::names::check_table_path).
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            table: table.into(),
        }
    }
}

impl fmt::Display for TablePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.database, self.table)
    }
}

/// A table, or one partition of it by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalTablePath {
    /// The table.
    pub table: TablePath,
    /// Values of the partition joined with `$`; `None` = the table itself.
    pub partition: Option<String>,
}
