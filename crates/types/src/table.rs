//! Table paths and descriptors (tables.md §1, formats.md §8.2).

use std::collections::BTreeMap;
use std::fmt;

use crate::Schema;

/// Database and table name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TablePath {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
}

impl TablePath {
    /// A path, unchecked.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self { database: database.into(), table: table.into() }
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

/// How log batches of a table carry their rows (`table.log.format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogFormat {
    #[default]
    Arrow,
    Indexed,
    Compacted,
}

/// What a table is: the document that clients send to create it and get back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescriptor {
    /// Current schema.
    pub schema: Schema,
    /// Comment.
    pub comment: Option<String>,
    /// Names of partition columns; empty = not partitioned.
    pub partition_keys: Vec<String>,
    /// Names of bucket columns; empty = the writer chooses.
    pub bucket_keys: Vec<String>,
    /// Buckets of the table, or of each new partition.
    pub bucket_count: Option<i32>,
    /// `table.*` options.
    pub properties: BTreeMap<String, String>,
    /// Everything else, returned verbatim.
    pub custom_properties: BTreeMap<String, String>,
}
