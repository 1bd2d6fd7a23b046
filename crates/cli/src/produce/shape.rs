//! Fitting the columns of an input to those of a table.

use anyhow::{Result, bail};
use arrow_array::{Array, RecordBatch, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use mainstem_format::arrow_type::fluss_type;
use mainstem_types::{DataType, Schema};

use super::input::Unknown;

/// A table schema with the columns of an Arrow schema. Inferred columns are
/// nullable, those of a file with a schema are what it says.
pub fn table_schema(arrow: &ArrowSchema) -> Result<Schema> {
    let mut columns = Vec::new();
    for field in arrow.fields() {
        let mut data_type: DataType = fluss_type(field.data_type())
            .map_err(|error| anyhow::anyhow!("column '{}': {error}", field.name()))?;
        data_type.nullable = field.is_nullable();
        columns.push((field.name().clone(), data_type));
    }
    Schema::builder()
        .columns(columns)
        .build()
        .map_err(|error| anyhow::anyhow!("{error}"))
}

/// The batch with the table's columns, in its order and types.
///
/// # Errors
/// A column that the table does not have, if those are refused, a missing NOT NULL column, a value
/// that the table's type cannot hold, a null where none may be.
pub fn fit(batch: &RecordBatch, table: &SchemaRef, unknown: Unknown) -> Result<RecordBatch> {
    let input = batch.schema();
    for field in input.fields() {
        if unknown == Unknown::Refused && table.field_with_name(field.name()).is_err() {
            bail!("the table has no column '{}'", field.name());
        }
    }
    let mut columns = Vec::with_capacity(table.fields().len());
    for field in table.fields() {
        let column = match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => column.clone(),
            Some(column) => {
                let options = CastOptions {
                    safe: false,
                    ..CastOptions::default()
                };
                cast_with_options(column, field.data_type(), &options).map_err(|error| {
                    anyhow::anyhow!(
                        "column '{}' holds {} that is not {}: {error}",
                        field.name(),
                        column.data_type(),
                        field.data_type()
                    )
                })?
            }
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        if !field.is_nullable() && column.null_count() > 0 {
            bail!(
                "column '{}' is NOT NULL, but the input has null in it",
                field.name()
            );
        }
        columns.push(column);
    }
    Ok(RecordBatch::try_new(table.clone(), columns)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, Int64Array, StringArray};
    use arrow_schema::{DataType as ArrowType, Field};

    use super::*;

    fn table() -> SchemaRef {
        Arc::new(ArrowSchema::new(vec![
            Field::new("id", ArrowType::Int64, false),
            Field::new("name", ArrowType::Utf8, true),
        ]))
    }

    fn input(name: &str, values: Arc<dyn Array>) -> RecordBatch {
        let field = Field::new(name, values.data_type().clone(), true);
        RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![values]).expect("batch")
    }

    #[test]
    fn columns_are_matched_by_name_cast_and_filled_with_null() {
        let fitted = fit(
            &input("id", Arc::new(Int32Array::from(vec![1, 2]))),
            &table(),
            Unknown::Refused,
        );
        let fitted = fitted.expect("fits");
        let ids = fitted
            .column(0)
            .as_any()
            .downcast_ref::<Int64Array>()
            .expect("int64");
        assert_eq!(ids.values(), &[1, 2]);
        assert_eq!(fitted.column(1).null_count(), 2);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (batch, expected) in [
            (
                input("nope", Arc::new(Int32Array::from(vec![1]))),
                "no column 'nope'",
            ),
            (
                input("name", Arc::new(StringArray::from(vec!["a"]))),
                "'id' is NOT NULL",
            ),
            (
                input("id", Arc::new(StringArray::from(vec!["x"]))),
                "column 'id' holds Utf8",
            ),
        ] {
            let error = fit(&batch, &table(), Unknown::Refused)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
