//! Values of a primary-key table as rows of its schema.
//!
//! A stored value names the schema that it was written with. Its columns are
//! found by id; those that the schema did not have yet are null (tables.md
//! §2.4).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::RecordBatch;
use mainstem_format::value_batch::split_stored_value;
use mainstem_format::{FormatError, RowFormat, RowsToBatch, Value};
use mainstem_types::Schema;

use crate::cluster::{Client, TableInfo};
use crate::error::{ClientError, Result};
use crate::upsert::row_format;

/// Decodes stored values of one table.
#[derive(Clone, Debug)]
pub(crate) struct StoredRows {
    client: Client,
    table: Arc<TableInfo>,
    format: RowFormat,
    written: HashMap<i16, Arc<Written>>,
}

/// A schema that values were written with.
#[derive(Debug)]
struct Written {
    schema: Schema,
    /// Per column of the table, its position in `schema`.
    sources: Vec<Option<usize>>,
    /// Whether both have the same columns in the same order.
    same: bool,
}

impl StoredRows {
    pub(crate) fn new(client: Client, table: Arc<TableInfo>) -> Result<Self> {
        let mut rows = Self {
            client,
            format: row_format(&table)?,
            written: HashMap::new(),
            table,
        };
        let current = rows.table.descriptor.schema.clone();
        if let Ok(id) = i16::try_from(rows.table.schema_id) {
            rows.add(id, current);
        }
        Ok(rows)
    }

    fn add(&mut self, schema_id: i16, schema: Schema) {
        let columns = &self.table.descriptor.schema.columns;
        let sources: Vec<Option<usize>> = columns
            .iter()
            .map(|wanted| schema.columns.iter().position(|c| c.id == wanted.id))
            .collect();
        let same = sources.len() == schema.columns.len()
            && sources.iter().enumerate().all(|(i, s)| *s == Some(i));
        let written = Written {
            schema,
            sources,
            same,
        };
        self.written.insert(schema_id, Arc::new(written));
    }

    /// Rows of values with their schema id in front.
    ///
    /// # Errors
    /// A value that is none; a schema that cannot be fetched.
    pub(crate) async fn decode_prefixed<'v>(
        &mut self,
        values: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<RecordBatch> {
        let split = values.into_iter().map(split_stored_value);
        let values = split
            .collect::<mainstem_format::Result<Vec<_>>>()
            .map_err(malformed)?;
        self.decode(&values).await
    }

    /// Rows of values given as schema id and row.
    ///
    /// # Errors
    /// As [`StoredRows::decode_prefixed`].
    pub(crate) async fn decode(&mut self, values: &[(i16, &[u8])]) -> Result<RecordBatch> {
        let ids: BTreeSet<i16> = values.iter().map(|(id, _)| *id).collect();
        for id in ids {
            if !self.written.contains_key(&id) {
                let schema = self.client.schema(&self.table.path, id.into()).await?;
                self.add(id, schema);
            }
        }
        self.decode_known(values).map_err(malformed)
    }

    /// All schemas are known.
    fn decode_known(&self, values: &[(i16, &[u8])]) -> mainstem_format::Result<RecordBatch> {
        let mut rows = RowsToBatch::new(&self.table.descriptor.schema, values.len());
        let mut fields = Vec::new();
        for (id, bytes) in values {
            let written = &self.written[id];
            let columns = written.schema.columns.as_slice();
            self.format.decode_into(bytes, columns, &mut fields)?;
            if written.same {
                rows.append(&fields)?;
                continue;
            }
            let row: Vec<Value<'_>> = written
                .sources
                .iter()
                .map(|source| match source {
                    // Each field is taken once: ids are unique.
                    Some(source) => std::mem::replace(&mut fields[*source], Value::Null),
                    None => Value::Null,
                })
                .collect();
            rows.append(&row)?;
        }
        rows.finish()
    }
}

pub(crate) fn malformed(error: FormatError) -> ClientError {
    ClientError::Malformed(error.to_string())
}
