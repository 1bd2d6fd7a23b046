//! Rows of a primary-key table by key: whole keys, or prefixes of them.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};

use crate::cluster::{Client, TableInfo};
use crate::error::{ClientError, Result};
use crate::key_calls::{Ask, KeyCalls};
use crate::key_route::KeyRoute;
use crate::scan::positions_of;
use crate::stored_rows::StoredRows;

/// How to look up.
#[derive(Clone, Debug, Default)]
pub struct LookupOptions {
    /// Columns wanted, in this order; `None` = all. All of them travel.
    pub columns: Option<Vec<String>>,
    /// Insert a key that is not there, with null in all other columns but one
    /// that the server numbers (tables.md §4.10).
    pub insert_if_not_exists: bool,
}

/// What a lookup of keys found.
#[derive(Clone, Debug)]
pub struct FoundRows {
    /// The rows, in the order of their keys.
    pub rows: RecordBatch,
    /// For each of `rows`, the position of its key in the batch of keys.
    pub keys: UInt32Array,
    /// Positions of the keys that no row has.
    pub missing: Vec<u32>,
}

/// Finds rows by their whole primary key.
#[derive(Debug)]
pub struct Lookup {
    calls: KeyCalls,
    rows: StoredRows,
    output: Option<Vec<usize>>,
}

impl Lookup {
    /// Prepares lookups in a table.
    ///
    /// # Errors
    /// A log table; unknown columns; rows that cannot be inserted with nothing
    /// but their key.
    pub fn new(client: Client, table: TableInfo, options: &LookupOptions) -> Result<Self> {
        let route = KeyRoute::primary_key(&table.descriptor)?;
        if options.insert_if_not_exists {
            check_insertable(&table)?;
        }
        let output = positions_of(&table.descriptor.schema, options.columns.as_deref())?;
        let table = Arc::new(table);
        let ask = Ask::Rows {
            insert: options.insert_if_not_exists,
        };
        Ok(Self {
            calls: KeyCalls::new(client.clone(), table.clone(), route, ask),
            rows: StoredRows::new(client, table)?,
            output,
        })
    }

    /// The rows of some keys. `keys` has the columns of the primary key, found by
    /// name; other columns in it do not matter.
    ///
    /// # Errors
    /// Null in a key; what retries did not cure.
    pub async fn lookup(&mut self, keys: &RecordBatch) -> Result<FoundRows> {
        found(
            &mut self.calls,
            &mut self.rows,
            self.output.as_deref(),
            keys,
        )
        .await
    }
}

/// Finds rows by the columns of the bucket key, which begin their primary key.
#[derive(Debug)]
pub struct PrefixLookup {
    calls: KeyCalls,
    rows: StoredRows,
    output: Option<Vec<usize>>,
}

impl PrefixLookup {
    /// Prepares prefix lookups in a table; `columns` as in [`LookupOptions`].
    ///
    /// # Errors
    /// A log table; a bucket key that is no proper prefix of the primary key;
    /// unknown columns.
    pub fn new(client: Client, table: TableInfo, columns: Option<&[String]>) -> Result<Self> {
        let route = KeyRoute::prefix(&table.descriptor)?;
        let output = positions_of(&table.descriptor.schema, columns)?;
        let table = Arc::new(table);
        Ok(Self {
            calls: KeyCalls::new(client.clone(), table.clone(), route, Ask::Prefixes),
            rows: StoredRows::new(client, table)?,
            output,
        })
    }

    /// The rows whose keys begin with some prefixes. `prefixes` has the columns
    /// of the bucket key and of the partition, found by name. The rows of a
    /// prefix are in the order of their key bytes.
    ///
    /// # Errors
    /// As [`Lookup::lookup`].
    pub async fn lookup(&mut self, prefixes: &RecordBatch) -> Result<FoundRows> {
        let output = self.output.as_deref();
        found(&mut self.calls, &mut self.rows, output, prefixes).await
    }
}

async fn found(
    calls: &mut KeyCalls,
    rows: &mut StoredRows,
    output: Option<&[usize]>,
    keys: &RecordBatch,
) -> Result<FoundRows> {
    let values = calls.values(keys).await?;
    let (mut positions, mut missing) = (Vec::new(), Vec::new());
    for (position, values) in (0u32..).zip(&values) {
        positions.extend(values.iter().map(|_| position));
        if values.is_empty() {
            missing.push(position);
        }
    }
    let values = values.iter().flatten().map(|value| value.as_ref());
    let mut rows = rows.decode_prefixed(values).await?;
    if let Some(output) = output {
        rows = rows
            .project(output)
            .map_err(|error| ClientError::Usage(error.to_string()))?;
    }
    Ok(FoundRows {
        rows,
        keys: UInt32Array::from(positions),
        missing,
    })
}

fn check_insertable(table: &TableInfo) -> Result<()> {
    let schema = &table.descriptor.schema;
    let blocking = schema.columns.iter().find(|column| {
        !column.data_type.nullable
            && !schema.is_primary_key_column(&column.name)
            && !schema.auto_increment.contains(&column.name)
    });
    match blocking {
        None => Ok(()),
        Some(column) => Err(ClientError::Usage(format!(
            "a missing key cannot be inserted by a lookup: column '{}' is NOT NULL",
            column.name
        ))),
    }
}
