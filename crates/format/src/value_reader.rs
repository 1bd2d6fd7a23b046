//! Reading values of rows from Arrow arrays.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray,
    PrimitiveArray, RecordBatch, StringArray, StructArray,
};
use arrow_schema::TimeUnit;
use mainstem_types::{DataType, Schema, TypeKind};

use crate::arrow_type::{is_layout_of, unit};
use crate::value::{Timestamp, Value};
use crate::{FormatError, Result};

const MILLIS_PER_SECOND: i64 = 1000;
const MICROS_PER_MILLI: i64 = 1000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// Reads values from one array. Its type is looked at once, not per value.
#[derive(Clone, Debug)]
pub struct ColumnReader<'a> {
    column: Column<'a>,
}

#[derive(Clone, Debug)]
enum Column<'a> {
    Boolean(&'a BooleanArray),
    TinyInt(&'a Int8Array),
    SmallInt(&'a Int16Array),
    Int(&'a Int32Array),
    BigInt(&'a Int64Array),
    Float(&'a Float32Array),
    Double(&'a Float64Array),
    String(&'a StringArray),
    FixedBytes(&'a FixedSizeBinaryArray),
    Bytes(&'a BinaryArray),
    Decimal(&'a Decimal128Array),
    Date(&'a Date32Array),
    TimeSeconds(&'a PrimitiveArray<Time32SecondType>),
    TimeMillis(&'a PrimitiveArray<Time32MillisecondType>),
    TimeMicros(&'a PrimitiveArray<Time64MicrosecondType>),
    TimeNanos(&'a PrimitiveArray<Time64NanosecondType>),
    TimestampSeconds(&'a PrimitiveArray<TimestampSecondType>),
    TimestampMillis(&'a PrimitiveArray<TimestampMillisecondType>),
    TimestampMicros(&'a PrimitiveArray<TimestampMicrosecondType>),
    TimestampNanos(&'a PrimitiveArray<TimestampNanosecondType>),
    Array(&'a ListArray, Box<Column<'a>>),
    Map(&'a MapArray, Box<Column<'a>>, Box<Column<'a>>),
    Row(&'a StructArray, Vec<Column<'a>>),
}

/// Readers of all columns of a batch.
///
/// Error: a batch whose columns do not have the layout of the schema's.
pub fn column_readers<'a>(
    batch: &'a RecordBatch,
    schema: &Schema,
) -> Result<Vec<ColumnReader<'a>>> {
    if batch.num_columns() != schema.columns.len() {
        return Err(FormatError::invalid(format!(
            "batch of {} columns for a table of {}",
            batch.num_columns(),
            schema.columns.len()
        )));
    }
    let columns = batch.columns().iter().zip(&schema.columns);
    columns
        .map(|(array, column)| ColumnReader::new(array.as_ref(), &column.data_type))
        .collect()
}

impl<'a> ColumnReader<'a> {
    /// A reader of an array.
    ///
    /// Error: an array that does not have the layout of the type.
    pub fn new(array: &'a dyn Array, data_type: &DataType) -> Result<Self> {
        if !is_layout_of(array.data_type(), data_type) {
            return Err(FormatError::invalid(format!(
                "Arrow array of type {} for a column of type {:?}",
                array.data_type(),
                data_type.kind
            )));
        }
        Ok(Self {
            column: Column::new(array, data_type),
        })
    }

    /// The value of a row, which is less than the array's length.
    ///
    /// Error: a time that is not within 32 bits of milliseconds.
    pub fn value(&self, row: usize) -> Result<Value<'a>> {
        self.column.value(row)
    }
}

impl<'a> Column<'a> {
    /// The array has the layout of the type.
    fn new(array: &'a dyn Array, data_type: &DataType) -> Self {
        match &data_type.kind {
            TypeKind::Boolean => Self::Boolean(array.as_boolean()),
            TypeKind::TinyInt => Self::TinyInt(array.as_primitive()),
            TypeKind::SmallInt => Self::SmallInt(array.as_primitive()),
            TypeKind::Int => Self::Int(array.as_primitive()),
            TypeKind::BigInt => Self::BigInt(array.as_primitive()),
            TypeKind::Float => Self::Float(array.as_primitive()),
            TypeKind::Double => Self::Double(array.as_primitive()),
            TypeKind::Char { .. } | TypeKind::String => Self::String(array.as_string()),
            TypeKind::Binary { .. } => Self::FixedBytes(array.as_fixed_size_binary()),
            TypeKind::Bytes => Self::Bytes(array.as_binary()),
            TypeKind::Decimal { .. } => Self::Decimal(array.as_primitive()),
            TypeKind::Date => Self::Date(array.as_primitive()),
            TypeKind::Time { precision } => match unit(*precision) {
                TimeUnit::Second => Self::TimeSeconds(array.as_primitive()),
                TimeUnit::Millisecond => Self::TimeMillis(array.as_primitive()),
                TimeUnit::Microsecond => Self::TimeMicros(array.as_primitive()),
                TimeUnit::Nanosecond => Self::TimeNanos(array.as_primitive()),
            },
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
                match unit(*precision) {
                    TimeUnit::Second => Self::TimestampSeconds(array.as_primitive()),
                    TimeUnit::Millisecond => Self::TimestampMillis(array.as_primitive()),
                    TimeUnit::Microsecond => Self::TimestampMicros(array.as_primitive()),
                    TimeUnit::Nanosecond => Self::TimestampNanos(array.as_primitive()),
                }
            }
            TypeKind::Array(element) => {
                let list = array.as_list();
                Self::Array(list, Box::new(Self::new(list.values().as_ref(), element)))
            }
            TypeKind::Map { key, value } => {
                let map = array.as_map();
                let keys = Self::new(map.keys().as_ref(), key);
                let values = Self::new(map.values().as_ref(), value);
                Self::Map(map, Box::new(keys), Box::new(values))
            }
            TypeKind::Row(fields) => {
                let row = array.as_struct();
                let columns = row.columns().iter().zip(fields);
                let columns = columns
                    .map(|(array, field)| Self::new(array.as_ref(), &field.data_type))
                    .collect();
                Self::Row(row, columns)
            }
        }
    }

    fn value(&self, row: usize) -> Result<Value<'a>> {
        if self.array().is_null(row) {
            return Ok(Value::Null);
        }
        Ok(match self {
            Self::Boolean(array) => Value::Boolean(array.value(row)),
            Self::TinyInt(array) => Value::TinyInt(array.value(row)),
            Self::SmallInt(array) => Value::SmallInt(array.value(row)),
            Self::Int(array) => Value::Int(array.value(row)),
            Self::BigInt(array) => Value::BigInt(array.value(row)),
            Self::Float(array) => Value::Float(array.value(row)),
            Self::Double(array) => Value::Double(array.value(row)),
            Self::String(array) => Value::from(array.value(row)),
            Self::FixedBytes(array) => Value::from(array.value(row)),
            Self::Bytes(array) => Value::from(array.value(row)),
            Self::Decimal(array) => Value::Decimal(array.value(row)),
            Self::Date(array) => Value::Date(array.value(row)),
            Self::TimeSeconds(array) => time(i64::from(array.value(row)) * MILLIS_PER_SECOND)?,
            Self::TimeMillis(array) => Value::Time(array.value(row)),
            Self::TimeMicros(array) => time(array.value(row).div_euclid(MICROS_PER_MILLI))?,
            Self::TimeNanos(array) => time(array.value(row).div_euclid(NANOS_PER_MILLI))?,
            Self::TimestampSeconds(array) => {
                let millis = array
                    .value(row)
                    .checked_mul(MILLIS_PER_SECOND)
                    .ok_or_else(|| {
                        FormatError::invalid("timestamp beyond 64 bits of milliseconds")
                    })?;
                Value::Timestamp(Timestamp::from_millis(millis))
            }
            Self::TimestampMillis(array) => {
                Value::Timestamp(Timestamp::from_millis(array.value(row)))
            }
            Self::TimestampMicros(array) => timestamp(array, row, MICROS_PER_MILLI),
            Self::TimestampNanos(array) => timestamp(array, row, NANOS_PER_MILLI),
            Self::Array(array, values) => {
                let offsets = array.value_offsets();
                let elements = offsets[row] as usize..offsets[row + 1] as usize;
                Value::Array(
                    elements
                        .map(|element| values.value(element))
                        .collect::<Result<_>>()?,
                )
            }
            Self::Map(array, keys, values) => {
                let offsets = array.value_offsets();
                let entries = offsets[row] as usize..offsets[row + 1] as usize;
                let entry = |entry| Ok((keys.value(entry)?, values.value(entry)?));
                Value::Map(entries.map(entry).collect::<Result<_>>()?)
            }
            Self::Row(_, columns) => {
                let values = columns.iter().map(|column| column.value(row));
                Value::Row(values.collect::<Result<_>>()?)
            }
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Boolean(array) => array,
            Self::TinyInt(array) => array,
            Self::SmallInt(array) => array,
            Self::Int(array) => array,
            Self::BigInt(array) => array,
            Self::Float(array) => array,
            Self::Double(array) => array,
            Self::String(array) => array,
            Self::FixedBytes(array) => array,
            Self::Bytes(array) => array,
            Self::Decimal(array) => array,
            Self::Date(array) => array,
            Self::TimeSeconds(array) => array,
            Self::TimeMillis(array) => array,
            Self::TimeMicros(array) => array,
            Self::TimeNanos(array) => array,
            Self::TimestampSeconds(array) => array,
            Self::TimestampMillis(array) => array,
            Self::TimestampMicros(array) => array,
            Self::TimestampNanos(array) => array,
            Self::Array(array, _) => array,
            Self::Map(array, ..) => array,
            Self::Row(array, _) => array,
        }
    }
}

fn time(millis: i64) -> Result<Value<'static>> {
    match i32::try_from(millis) {
        Ok(millis) => Ok(Value::Time(millis)),
        Err(_) => Err(FormatError::invalid(format!("time of {millis} ms"))),
    }
}

/// Rounds down to milliseconds, also before 1970.
fn timestamp<T: ArrowPrimitiveType<Native = i64>>(
    array: &PrimitiveArray<T>,
    row: usize,
    units_per_milli: i64,
) -> Value<'static> {
    let value = array.value(row);
    let nanos_per_unit = NANOS_PER_MILLI / units_per_milli;
    Value::Timestamp(Timestamp {
        millis: value.div_euclid(units_per_milli),
        nanos_of_milli: (value.rem_euclid(units_per_milli) * nanos_per_unit) as i32,
    })
}
