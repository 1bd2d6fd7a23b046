//! Making record batches of any origin fit a table's columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{DataType as ArrowType, Schema as ArrowSchema, SchemaRef, TimeUnit};
use mainstem_types::Schema;

use crate::arrow_type::{arrow_schema, is_layout_of};
use crate::value_builder::arrow_error;
use crate::{FormatError, Result};

/// How batches of one Arrow schema become batches of a table.
#[derive(Clone, Debug)]
pub struct CastPlan {
    target: SchemaRef,
    /// Per column of the table, the position in the source; `None` = null.
    sources: Vec<Option<usize>>,
    unused: Vec<String>,
}

impl CastPlan {
    /// Plans the columns by name; where no name is equal, by one that differs
    /// only in ASCII case.
    ///
    /// Errors: a NOT NULL column that the source lacks, or a type that cannot
    /// become the column's.
    pub fn new(source: &ArrowSchema, table: &Schema) -> Result<Self> {
        let target = arrow_schema(table);
        let mut sources = Vec::with_capacity(table.columns.len());
        for (field, column) in target.fields().iter().zip(&table.columns) {
            let position = position(source, field.name());
            match position {
                None if !field.is_nullable() => {
                    return Err(FormatError::invalid(format!(
                        "column `{}` is NOT NULL and missing in the data",
                        field.name()
                    )));
                }
                Some(position) => {
                    let from = source.field(position).data_type();
                    let to = field.data_type();
                    if !is_layout_of(from, &column.data_type)
                        && (loses_meaning(from, to) || !can_cast_types(from, to))
                    {
                        return Err(FormatError::unsupported(format!(
                            "column `{}`: data of type {from} for a column of type {}",
                            field.name(),
                            field.data_type()
                        )));
                    }
                }
                None => {}
            }
            sources.push(position);
        }
        let unused = source.fields().iter().enumerate();
        let unused = unused
            .filter(|(position, _)| !sources.contains(&Some(*position)))
            .map(|(_, field)| field.name().clone())
            .collect();
        Ok(Self {
            target,
            sources,
            unused,
        })
    }

    /// Schema of the batches that [`CastPlan::apply`] returns.
    pub fn target(&self) -> &SchemaRef {
        &self.target
    }

    /// Names of source columns that no column of the table takes.
    pub fn unused_columns(&self) -> &[String] {
        &self.unused
    }

    /// Casts a batch of the planned schema. Values that their new type cannot
    /// hold (too large, or text that does not parse) are an error, not null.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .target
            .fields()
            .iter()
            .zip(&self.sources)
            .map(|(field, source)| {
                let Some(source) = *source else {
                    return Ok(new_null_array(field.data_type(), batch.num_rows()));
                };
                let Some(column) = batch.columns().get(source) else {
                    return Err(FormatError::invalid(format!(
                        "column `{}` is missing in a batch",
                        field.name()
                    )));
                };
                cast(column, field.data_type()).map_err(|error| {
                    FormatError::invalid(format!("column `{}`: {error}", field.name()))
                })
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        batch_of(&self.target, columns, batch.num_rows())
    }
}

/// Casts that Arrow knows and nobody means without saying so: fractions cut
/// off, numbers taken for points in time of whatever unit, or for truth.
fn loses_meaning(from: &ArrowType, to: &ArrowType) -> bool {
    let is_fraction = from.is_floating() || from.is_decimal();
    (is_fraction && to.is_integer())
        || (from.is_numeric() && (to.is_temporal() || *to == ArrowType::Boolean))
        || (from.is_temporal() && to.is_numeric())
}

fn position(schema: &ArrowSchema, name: &str) -> Option<usize> {
    let fields = schema.fields();
    fields
        .iter()
        .position(|field| field.name() == name)
        .or_else(|| {
            let mut similar = fields
                .iter()
                .enumerate()
                .filter(|(_, field)| field.name().eq_ignore_ascii_case(name))
                .map(|(position, _)| position);
            similar.next().filter(|_| similar.next().is_none())
        })
}

fn cast(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef, arrow_schema::ArrowError> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    // Another zone is the same instant; casting would look the zone up.
    if let (ArrowType::Timestamp(_, Some(_)), ArrowType::Timestamp(_, Some(zone))) =
        (array.data_type(), to)
    {
        let relabelled = with_zone(array, zone);
        return cast_with_options(&relabelled, to, &options());
    }
    cast_with_options(array, to, &options())
}

fn options() -> CastOptions<'static> {
    CastOptions {
        safe: false,
        ..CastOptions::default()
    }
}

fn with_zone(array: &ArrayRef, zone: &Arc<str>) -> ArrayRef {
    let ArrowType::Timestamp(unit, _) = array.data_type() else {
        return array.clone();
    };
    let zone = zone.clone();
    match unit {
        TimeUnit::Second => Arc::new(
            array
                .as_primitive::<TimestampSecondType>()
                .clone()
                .with_timezone(zone),
        ),
        TimeUnit::Millisecond => Arc::new(
            array
                .as_primitive::<TimestampMillisecondType>()
                .clone()
                .with_timezone(zone),
        ),
        TimeUnit::Microsecond => Arc::new(
            array
                .as_primitive::<TimestampMicrosecondType>()
                .clone()
                .with_timezone(zone),
        ),
        TimeUnit::Nanosecond => Arc::new(
            array
                .as_primitive::<TimestampNanosecondType>()
                .clone()
                .with_timezone(zone),
        ),
    }
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, row_count: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(row_count));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(arrow_error)
}

/// A batch of an older schema as one of a newer: columns that were added since
/// are null. Columns are matched by position, since they are only ever added at
/// the end.
///
/// Errors: columns that do not have the layout of the newer schema's, or an
/// added column that is NOT NULL.
pub fn cast_to_schema(batch: &RecordBatch, newer: &Schema) -> Result<RecordBatch> {
    let target = arrow_schema(newer);
    if batch.num_columns() > newer.columns.len() {
        return Err(FormatError::invalid(format!(
            "batch of {} columns for a newer schema of {}",
            batch.num_columns(),
            newer.columns.len()
        )));
    }
    let columns = target.fields().iter().zip(&newer.columns).enumerate();
    let columns = columns.map(
        |(position, (field, column))| match batch.columns().get(position) {
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            Some(array) if is_layout_of(array.data_type(), &column.data_type) => {
                cast(array, field.data_type()).map_err(arrow_error)
            }
            Some(array) => Err(FormatError::invalid(format!(
                "column `{}` was of type {}, now {}",
                field.name(),
                array.data_type(),
                field.data_type()
            ))),
        },
    );
    let columns = columns.collect::<Result<Vec<_>>>()?;
    batch_of(&target, columns, batch.num_rows())
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Date64Array, Int32Array, Int64Array, StringArray, StringViewArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    };
    use mainstem_types::{DataType, TypeKind};

    use super::*;
    use crate::arrow_type::fluss_columns;
    use crate::testing::{column, schema, schema_of};
    use crate::value::{Timestamp, Value};
    use crate::value_reader::column_readers;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )
        .unwrap()
    }

    fn first_row<'a>(batch: &'a RecordBatch, schema: &Schema) -> Vec<Value<'a>> {
        let readers = column_readers(batch, schema).unwrap();
        readers
            .iter()
            .map(|reader| reader.value(0).unwrap())
            .collect()
    }

    #[test]
    fn a_table_made_for_a_file_takes_its_batches() {
        let zone = TimestampMicrosecondArray::from(vec![-1]).with_timezone("Europe/Berlin");
        let file = batch(vec![
            ("big", Arc::new(UInt64Array::from(vec![u64::MAX]))),
            ("text", Arc::new(StringViewArray::from(vec!["text"]))),
            ("day", Arc::new(Date64Array::from(vec![86_400_000]))),
            ("at", Arc::new(zone)),
            ("naive", Arc::new(TimestampNanosecondArray::from(vec![-1]))),
            (
                "dictionary",
                Arc::new(
                    vec!["a", "b"]
                        .into_iter()
                        .collect::<arrow_array::DictionaryArray<arrow_array::types::Int8Type>>()
                        .slice(1, 1),
                ),
            ),
        ]);
        let columns = fluss_columns(&file.schema()).unwrap();
        let columns = columns
            .iter()
            .map(|(name, data_type)| column(name, data_type.clone()));
        let table = schema(columns.collect());
        let plan = CastPlan::new(&file.schema(), &table).unwrap();
        assert!(plan.unused_columns().is_empty());
        let cast = plan.apply(&file).unwrap();
        assert_eq!(cast.schema(), *plan.target());
        let timestamp = |millis, nanos_of_milli| {
            Value::Timestamp(Timestamp {
                millis,
                nanos_of_milli,
            })
        };
        let expected = [
            Value::Decimal(i128::from(u64::MAX)),
            "text".into(),
            timestamp(86_400_000, 0),
            timestamp(-1, 999_000),
            timestamp(-1, 999_999),
            "b".into(),
        ];
        assert_eq!(first_row(&cast, &table), expected);
    }

    #[test]
    fn columns_are_found_by_name_and_added_as_null() {
        let table = schema(vec![
            column("id", DataType::not_null(TypeKind::Int)),
            column("Name", DataType::nullable(TypeKind::String)),
            column("later", DataType::nullable(TypeKind::BigInt)),
        ]);
        let file = batch(vec![
            ("name", Arc::new(StringArray::from(vec!["n"]))),
            ("extra", Arc::new(Int32Array::from(vec![5]))),
            ("id", Arc::new(Int64Array::from(vec![7]))),
        ]);
        let plan = CastPlan::new(&file.schema(), &table).unwrap();
        assert_eq!(plan.unused_columns(), ["extra"]);
        let cast = plan.apply(&file).unwrap();
        assert_eq!(
            first_row(&cast, &table),
            [Value::Int(7), "n".into(), Value::Null]
        );
    }

    #[test]
    fn values_that_do_not_fit_are_errors_that_name_the_column() {
        let table = schema_of([TypeKind::Int]);
        let large = batch(vec![("f0", Arc::new(Int64Array::from(vec![1 << 40])))]);
        let text = batch(vec![("f0", Arc::new(StringArray::from(vec!["seven"])))]);
        for file in [large, text] {
            let plan = CastPlan::new(&file.schema(), &table).unwrap();
            let error = plan.apply(&file).unwrap_err();
            assert!(error.to_string().contains("`f0`"), "{error}");
        }
        let fraction = batch(vec![(
            "f0",
            Arc::new(arrow_array::Float64Array::from(vec![1.5])),
        )]);
        assert!(CastPlan::new(&fraction.schema(), &table).is_err());
        let time = schema_of([TypeKind::Timestamp { precision: 3 }]);
        let number = batch(vec![("f0", Arc::new(Int64Array::from(vec![1])))]);
        assert!(CastPlan::new(&number.schema(), &time).is_err());
        let missing = schema(vec![column("id", DataType::not_null(TypeKind::Int))]);
        let file = batch(vec![("f0", Arc::new(Int32Array::from(vec![1])))]);
        assert!(CastPlan::new(&file.schema(), &missing).is_err());
    }

    #[test]
    fn older_batches_gain_null_columns() {
        let newer = schema_of([TypeKind::Int, TypeKind::String]);
        let older = batch(vec![("f0", Arc::new(Int32Array::from(vec![3])))]);
        let cast = cast_to_schema(&older, &newer).unwrap();
        assert_eq!(first_row(&cast, &newer), [Value::Int(3), Value::Null]);
        let other = batch(vec![("f0", Arc::new(Int64Array::from(vec![3])))]);
        assert!(cast_to_schema(&other, &newer).is_err());
    }
}
