//! Building Arrow arrays from values of rows.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, PrimitiveBuilder,
    StringBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{ArrayRef, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType as ArrowType, SchemaRef, TimeUnit};
use mainstem_types::{DataType, Schema, TypeKind};

use crate::arrow_type::{arrow_schema, arrow_type, unit};
use crate::value::{Timestamp, Value, check_decimal, mismatch};
use crate::{FormatError, Result};

/// Builds record batches from rows.
#[derive(Debug)]
pub struct RowsToBatch {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    row_count: usize,
}

impl RowsToBatch {
    /// A builder of batches of a schema, with room for so many rows.
    pub fn new(schema: &Schema, capacity_rows: usize) -> Self {
        let types = schema.columns.iter().map(|column| &column.data_type);
        Self {
            schema: arrow_schema(schema),
            columns: types
                .map(|data_type| ColumnBuilder::new(data_type, capacity_rows))
                .collect(),
            row_count: 0,
        }
    }

    /// Adds a row.
    ///
    /// Errors: values that their columns cannot hold. The builder is then of no
    /// further use.
    pub fn append(&mut self, row: &[Value<'_>]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(FormatError::invalid(format!(
                "{} values for a row of {} columns",
                row.len(),
                self.columns.len()
            )));
        }
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.append(value)?;
        }
        self.row_count += 1;
        Ok(())
    }

    /// Rows since the last batch.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The rows as a batch; the builder begins anew.
    ///
    /// Error: null in a NOT NULL column.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter_mut()
            .map(ColumnBuilder::finish)
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.row_count));
        self.row_count = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(arrow_error)
    }
}

/// An error of Arrow about data that it was given.
pub(crate) fn arrow_error(error: ArrowError) -> FormatError {
    FormatError::invalid(error.to_string())
}

/// Builds one array of a type.
#[derive(Debug)]
pub struct ColumnBuilder {
    data_type: DataType,
    arrow_type: ArrowType,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Boolean(BooleanBuilder),
    TinyInt(PrimitiveBuilder<Int8Type>),
    SmallInt(PrimitiveBuilder<Int16Type>),
    Int(PrimitiveBuilder<Int32Type>),
    BigInt(PrimitiveBuilder<Int64Type>),
    Float(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    String(StringBuilder),
    FixedBytes(FixedSizeBinaryBuilder, usize),
    Bytes(BinaryBuilder),
    Decimal(PrimitiveBuilder<Decimal128Type>, u8),
    Date(PrimitiveBuilder<Date32Type>),
    TimeSeconds(PrimitiveBuilder<Time32SecondType>),
    TimeMillis(PrimitiveBuilder<Time32MillisecondType>),
    TimeMicros(PrimitiveBuilder<Time64MicrosecondType>),
    TimeNanos(PrimitiveBuilder<Time64NanosecondType>),
    TimestampSeconds(PrimitiveBuilder<TimestampSecondType>),
    TimestampMillis(PrimitiveBuilder<TimestampMillisecondType>),
    TimestampMicros(PrimitiveBuilder<TimestampMicrosecondType>),
    TimestampNanos(PrimitiveBuilder<TimestampNanosecondType>),
    Array(Nested, Box<ColumnBuilder>),
    Map(Nested, Box<ColumnBuilder>, Box<ColumnBuilder>),
    Row(NullBufferBuilder, Vec<ColumnBuilder>),
}

/// Offsets and nulls of lists and maps.
#[derive(Debug)]
struct Nested {
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Nested {
    fn new(capacity: usize) -> Self {
        let mut offsets = Vec::with_capacity(capacity + 1);
        offsets.push(0);
        Self {
            offsets,
            nulls: NullBufferBuilder::new(capacity),
        }
    }

    fn append_null(&mut self) {
        let end = self.offsets[self.offsets.len() - 1];
        self.offsets.push(end);
        self.nulls.append_null();
    }

    fn append(&mut self, count: usize) -> Result<()> {
        let end = self.offsets[self.offsets.len() - 1];
        let end = i32::try_from(count)
            .ok()
            .and_then(|count| end.checked_add(count));
        self.offsets.push(end.ok_or_else(column_too_large)?);
        self.nulls.append_non_null();
        Ok(())
    }

    fn take_offsets(&mut self) -> OffsetBuffer<i32> {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        OffsetBuffer::new(ScalarBuffer::from(offsets))
    }
}

fn column_too_large() -> FormatError {
    FormatError::LimitExceeded {
        what: "bytes or elements of a column",
        actual: i32::MAX as u64 + 1,
        limit: i32::MAX as u64,
    }
}

impl ColumnBuilder {
    /// A builder with room for so many values.
    pub fn new(data_type: &DataType, capacity: usize) -> Self {
        let arrow_type = arrow_type(data_type);
        let values = match &data_type.kind {
            TypeKind::Boolean => Values::Boolean(BooleanBuilder::with_capacity(capacity)),
            TypeKind::TinyInt => Values::TinyInt(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::SmallInt => Values::SmallInt(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::Int => Values::Int(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::BigInt => Values::BigInt(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::Float => Values::Float(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::Double => Values::Double(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::Char { .. } | TypeKind::String => {
                Values::String(StringBuilder::with_capacity(capacity, 0))
            }
            TypeKind::Binary { length } => Values::FixedBytes(
                FixedSizeBinaryBuilder::new(*length as i32),
                *length as usize,
            ),
            TypeKind::Bytes => Values::Bytes(BinaryBuilder::with_capacity(capacity, 0)),
            TypeKind::Decimal { precision, .. } => {
                Values::Decimal(typed(capacity, &arrow_type), *precision)
            }
            TypeKind::Date => Values::Date(PrimitiveBuilder::with_capacity(capacity)),
            TypeKind::Time { precision } => match unit(*precision) {
                TimeUnit::Second => Values::TimeSeconds(PrimitiveBuilder::with_capacity(capacity)),
                TimeUnit::Millisecond => {
                    Values::TimeMillis(PrimitiveBuilder::with_capacity(capacity))
                }
                TimeUnit::Microsecond => {
                    Values::TimeMicros(PrimitiveBuilder::with_capacity(capacity))
                }
                TimeUnit::Nanosecond => {
                    Values::TimeNanos(PrimitiveBuilder::with_capacity(capacity))
                }
            },
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
                match unit(*precision) {
                    TimeUnit::Second => Values::TimestampSeconds(typed(capacity, &arrow_type)),
                    TimeUnit::Millisecond => Values::TimestampMillis(typed(capacity, &arrow_type)),
                    TimeUnit::Microsecond => Values::TimestampMicros(typed(capacity, &arrow_type)),
                    TimeUnit::Nanosecond => Values::TimestampNanos(typed(capacity, &arrow_type)),
                }
            }
            TypeKind::Array(element) => Values::Array(
                Nested::new(capacity),
                Box::new(Self::new(element, capacity)),
            ),
            TypeKind::Map { key, value } => {
                let key = Box::new(Self::new(key, capacity));
                Values::Map(
                    Nested::new(capacity),
                    key,
                    Box::new(Self::new(value, capacity)),
                )
            }
            TypeKind::Row(fields) => {
                let columns = fields
                    .iter()
                    .map(|field| Self::new(&field.data_type, capacity));
                Values::Row(NullBufferBuilder::new(capacity), columns.collect())
            }
        };
        Self {
            data_type: data_type.clone(),
            arrow_type,
            values,
        }
    }

    /// Adds a value, or null whatever the type's nullability: whether it may be
    /// there depends on what it is nested in, and is checked at the end.
    ///
    /// Errors: a value that the type cannot hold, or more than 2³¹ bytes or
    /// elements in the column.
    pub fn append(&mut self, value: &Value<'_>) -> Result<()> {
        match (&mut self.values, value) {
            (_, Value::Null) => return self.append_null(),
            (Values::Boolean(builder), Value::Boolean(value)) => builder.append_value(*value),
            (Values::TinyInt(builder), Value::TinyInt(value)) => builder.append_value(*value),
            (Values::SmallInt(builder), Value::SmallInt(value)) => builder.append_value(*value),
            (Values::Int(builder), Value::Int(value)) => builder.append_value(*value),
            (Values::BigInt(builder), Value::BigInt(value)) => builder.append_value(*value),
            (Values::Float(builder), Value::Float(value)) => builder.append_value(*value),
            (Values::Double(builder), Value::Double(value)) => builder.append_value(*value),
            (Values::String(builder), Value::String(value)) => {
                check_room(builder.values_slice().len(), value.len())?;
                builder.append_value(value);
            }
            (Values::FixedBytes(builder, width), Value::Bytes(value)) => {
                check_room(builder.len().saturating_mul(*width), *width)?;
                match value.len() {
                    length if length == *width => builder.append_value(value),
                    length if length < *width => {
                        let mut padded = value.to_vec();
                        padded.resize(*width, 0);
                        builder.append_value(padded)
                    }
                    length => {
                        return Err(FormatError::invalid(format!(
                            "{length} bytes for a column that holds {width}"
                        )));
                    }
                }
                .map_err(arrow_error)?;
            }
            (Values::Bytes(builder), Value::Bytes(value)) => {
                check_room(builder.values_slice().len(), value.len())?;
                builder.append_value(value);
            }
            (Values::Decimal(builder, precision), Value::Decimal(value)) => {
                check_decimal(*value, *precision)?;
                builder.append_value(*value);
            }
            (Values::Date(builder), Value::Date(value)) => builder.append_value(*value),
            (Values::TimeSeconds(builder), Value::Time(value)) => {
                builder.append_value(value.div_euclid(1000));
            }
            (Values::TimeMillis(builder), Value::Time(value)) => builder.append_value(*value),
            (Values::TimeMicros(builder), Value::Time(value)) => {
                builder.append_value(i64::from(*value) * 1000);
            }
            (Values::TimeNanos(builder), Value::Time(value)) => {
                builder.append_value(i64::from(*value) * 1_000_000);
            }
            (Values::TimestampSeconds(builder), Value::Timestamp(value)) => {
                builder.append_value(value.millis.div_euclid(1000));
            }
            (Values::TimestampMillis(builder), Value::Timestamp(value)) => {
                builder.append_value(value.millis);
            }
            (Values::TimestampMicros(builder), Value::Timestamp(value)) => {
                builder.append_value(scaled(*value, 1000)?);
            }
            (Values::TimestampNanos(builder), Value::Timestamp(value)) => {
                builder.append_value(scaled(*value, 1_000_000)?);
            }
            (Values::Array(nested, elements), Value::Array(values)) => {
                for value in values {
                    elements.append(value)?;
                }
                nested.append(values.len())?;
            }
            (Values::Map(nested, keys, values), Value::Map(entries)) => {
                for (key, value) in entries {
                    keys.append(key)?;
                    values.append(value)?;
                }
                nested.append(entries.len())?;
            }
            (Values::Row(nulls, columns), Value::Row(values)) if columns.len() == values.len() => {
                for (column, value) in columns.iter_mut().zip(values) {
                    column.append(value)?;
                }
                nulls.append_non_null();
            }
            (_, value) => return Err(mismatch(value, &self.data_type)),
        }
        Ok(())
    }

    fn append_null(&mut self) -> Result<()> {
        match &mut self.values {
            Values::Boolean(builder) => builder.append_null(),
            Values::TinyInt(builder) => builder.append_null(),
            Values::SmallInt(builder) => builder.append_null(),
            Values::Int(builder) => builder.append_null(),
            Values::BigInt(builder) => builder.append_null(),
            Values::Float(builder) => builder.append_null(),
            Values::Double(builder) => builder.append_null(),
            Values::String(builder) => builder.append_null(),
            Values::FixedBytes(builder, width) => {
                check_room(builder.len().saturating_mul(*width), *width)?;
                builder.append_null();
            }
            Values::Bytes(builder) => builder.append_null(),
            Values::Decimal(builder, _) => builder.append_null(),
            Values::Date(builder) => builder.append_null(),
            Values::TimeSeconds(builder) => builder.append_null(),
            Values::TimeMillis(builder) => builder.append_null(),
            Values::TimeMicros(builder) => builder.append_null(),
            Values::TimeNanos(builder) => builder.append_null(),
            Values::TimestampSeconds(builder) => builder.append_null(),
            Values::TimestampMillis(builder) => builder.append_null(),
            Values::TimestampMicros(builder) => builder.append_null(),
            Values::TimestampNanos(builder) => builder.append_null(),
            Values::Array(nested, _) => nested.append_null(),
            Values::Map(nested, ..) => nested.append_null(),
            Values::Row(nulls, columns) => {
                columns.iter_mut().try_for_each(Self::append_null)?;
                nulls.append_null();
            }
        }
        Ok(())
    }

    /// The values as an array; the builder begins anew.
    ///
    /// Error: a null that the type forbids, nested in it.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match &mut self.values {
            Values::Boolean(builder) => Arc::new(builder.finish()),
            Values::TinyInt(builder) => Arc::new(builder.finish()),
            Values::SmallInt(builder) => Arc::new(builder.finish()),
            Values::Int(builder) => Arc::new(builder.finish()),
            Values::BigInt(builder) => Arc::new(builder.finish()),
            Values::Float(builder) => Arc::new(builder.finish()),
            Values::Double(builder) => Arc::new(builder.finish()),
            Values::String(builder) => Arc::new(builder.finish()),
            Values::FixedBytes(builder, _) => Arc::new(builder.finish()),
            Values::Bytes(builder) => Arc::new(builder.finish()),
            Values::Decimal(builder, _) => Arc::new(builder.finish()),
            Values::Date(builder) => Arc::new(builder.finish()),
            Values::TimeSeconds(builder) => Arc::new(builder.finish()),
            Values::TimeMillis(builder) => Arc::new(builder.finish()),
            Values::TimeMicros(builder) => Arc::new(builder.finish()),
            Values::TimeNanos(builder) => Arc::new(builder.finish()),
            Values::TimestampSeconds(builder) => Arc::new(builder.finish()),
            Values::TimestampMillis(builder) => Arc::new(builder.finish()),
            Values::TimestampMicros(builder) => Arc::new(builder.finish()),
            Values::TimestampNanos(builder) => Arc::new(builder.finish()),
            Values::Array(nested, elements) => {
                let ArrowType::List(field) = &self.arrow_type else {
                    unreachable!("an ARRAY is an Arrow list")
                };
                let (offsets, nulls) = (nested.take_offsets(), nested.nulls.finish());
                let list = ListArray::try_new(field.clone(), offsets, elements.finish()?, nulls);
                Arc::new(list.map_err(arrow_error)?)
            }
            Values::Map(nested, keys, values) => {
                let ArrowType::Map(field, sorted) = &self.arrow_type else {
                    unreachable!("a MAP is an Arrow map")
                };
                let ArrowType::Struct(fields) = field.data_type() else {
                    unreachable!("entries of an Arrow map are structs")
                };
                let columns = vec![keys.finish()?, values.finish()?];
                let entries =
                    StructArray::try_new(fields.clone(), columns, None).map_err(arrow_error)?;
                let (offsets, nulls) = (nested.take_offsets(), nested.nulls.finish());
                let map = MapArray::try_new(field.clone(), offsets, entries, nulls, *sorted);
                Arc::new(map.map_err(arrow_error)?)
            }
            Values::Row(nulls, columns) => {
                let ArrowType::Struct(fields) = &self.arrow_type else {
                    unreachable!("a ROW is an Arrow struct")
                };
                let length = nulls.len();
                let columns = columns
                    .iter_mut()
                    .map(Self::finish)
                    .collect::<Result<_>>()?;
                let nulls = nulls.finish();
                let row = StructArray::try_new_with_length(fields.clone(), columns, nulls, length);
                Arc::new(row.map_err(arrow_error)?)
            }
        })
    }
}

fn typed<T: ArrowPrimitiveType>(capacity: usize, arrow_type: &ArrowType) -> PrimitiveBuilder<T> {
    PrimitiveBuilder::with_capacity(capacity).with_data_type(arrow_type.clone())
}

/// The Arrow builders panic on what passes 32 bits.
fn check_room(present: usize, added: usize) -> Result<()> {
    match i32::try_from(present.saturating_add(added)) {
        Ok(_) => Ok(()),
        Err(_) => Err(column_too_large()),
    }
}

fn scaled(value: Timestamp, units_per_milli: i64) -> Result<i64> {
    let fraction = i64::from(value.nanos_of_milli) / (1_000_000 / units_per_milli);
    value
        .millis
        .checked_mul(units_per_milli)
        .and_then(|units| units.checked_add(fraction))
        .ok_or_else(|| FormatError::invalid(format!("timestamp {value:?} beyond 64 bits")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_table, column, schema, schema_of};
    use crate::value_reader::column_readers;

    #[test]
    fn not_null_columns_refuse_null() {
        let schema = schema(vec![column("id", DataType::not_null(TypeKind::Int))]);
        let mut rows = RowsToBatch::new(&schema, 1);
        rows.append(&[Value::Null]).unwrap();
        assert!(matches!(rows.finish(), Err(FormatError::Invalid(_))));
    }

    #[test]
    fn short_binaries_are_padded_and_long_ones_refused() {
        let schema = schema_of([TypeKind::Binary { length: 3 }]);
        let mut rows = RowsToBatch::new(&schema, 2);
        rows.append(&[Value::from(&[9, 9, 9][..])]).unwrap();
        rows.append(&[Value::from(&[1][..])]).unwrap();
        let batch = rows.finish().unwrap();
        let readers = column_readers(&batch, &schema).unwrap();
        assert_eq!(readers[0].value(1).unwrap(), Value::from(&[1, 0, 0][..]));
        assert!(rows.append(&[Value::from(&[1, 2, 3, 4][..])]).is_err());
    }

    #[test]
    fn timestamps_that_do_not_fit_their_unit_are_refused() {
        let schema = schema_of([TypeKind::Timestamp { precision: 9 }]);
        let mut rows = RowsToBatch::new(&schema, 1);
        let far = Value::Timestamp(Timestamp::from_millis(i64::MAX / 1000));
        assert!(rows.append(&[far]).is_err());
    }

    #[test]
    fn timestamps_before_1970_round_down() {
        let schema = schema_of([TypeKind::Timestamp { precision: 6 }]);
        let mut rows = RowsToBatch::new(&schema, 1);
        let value = Value::Timestamp(Timestamp {
            millis: -1,
            nanos_of_milli: 1000,
        });
        rows.append(std::slice::from_ref(&value)).unwrap();
        let batch = rows.finish().unwrap();
        let readers = column_readers(&batch, &schema).unwrap();
        assert_eq!(readers[0].value(0).unwrap(), value);
    }

    proptest! {
        #[test]
        fn every_row_comes_back_from_a_batch((schema, rows) in any_table(6, 8)) {
            let mut builder = RowsToBatch::new(&schema, rows.len());
            for round in 0..2 {
                for row in &rows {
                    builder.append(row).unwrap();
                }
                let batch = builder.finish().unwrap();
                prop_assert_eq!(batch.num_rows(), rows.len(), "round {}", round);
                let readers = column_readers(&batch, &schema).unwrap();
                for (index, row) in rows.iter().enumerate() {
                    let values = readers.iter().map(|reader| reader.value(index));
                    prop_assert_eq!(&values.collect::<Result<Vec<_>>>().unwrap(), row);
                }
            }
        }
    }
}
