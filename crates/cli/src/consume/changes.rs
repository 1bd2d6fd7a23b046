//! The change type of a row as a column in front of its others.

use std::sync::Arc;

use anyhow::Result;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use mainstem_client::{ChangeType, ChangeTypes};

/// Name of the column; no table can have it.
pub const CHANGE_TYPE: &str = "_change_type";

/// The rows of a changelog with what each stands for: `+I`, `-U`, `+U`, `-D`.
pub fn with_change_types(batch: &RecordBatch, types: &ChangeTypes) -> Result<RecordBatch> {
    with_symbols(batch, |row| types.get(row))
}

/// Rows that are there as the insertions that would have made them.
pub fn as_insertions(batch: &RecordBatch) -> Result<RecordBatch> {
    with_symbols(batch, |_| ChangeType::Insert)
}

fn with_symbols(batch: &RecordBatch, of: impl Fn(usize) -> ChangeType) -> Result<RecordBatch> {
    let symbols = (0..batch.num_rows()).map(|row| of(row).symbol());
    let symbols: ArrayRef = Arc::new(StringArray::from_iter_values(symbols));
    let field: FieldRef = Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, false));
    let schema = batch.schema();
    let fields: Vec<FieldRef> = [field]
        .into_iter()
        .chain(schema.fields().iter().cloned())
        .collect();
    let columns = [symbols].into_iter().chain(batch.columns().iter().cloned());
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.collect(),
    )?)
}
