//! A value of any Fluss data type, independent of the client's own types: what
//! was written and what was read are compared in this form.

use anyhow::{Context, Result, bail};
use fluss::metadata::{DataType, MapType, RowType};
use fluss::row::binary_array::FlussArrayWriter;
use fluss::row::binary_map::FlussMapWriter;
use fluss::row::{
    ArrayView, DataGetters, Date, Datum, Decimal, FlussArray, GenericRow, InternalArray,
    InternalMap, MapView, Time, TimestampLtz, TimestampNtz,
};

/// Floats are held by their bits: NaN equals NaN, and −0.0 differs from 0.0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    Null,
    Bool(bool),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(u32),
    Double(u64),
    Text(String),
    Bytes(Vec<u8>),
    /// Unscaled.
    Decimal(i128),
    /// Days since 1970-01-01.
    Date(i32),
    /// Milliseconds of the day.
    Time(i32),
    /// Milliseconds since 1970-01-01 and nanoseconds within the millisecond,
    /// of both timestamp types.
    Timestamp(i64, i32),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Row(Vec<Value>),
}

impl Value {
    pub fn float(value: f32) -> Self {
        Value::Float(value.to_bits())
    }

    pub fn double(value: f64) -> Self {
        Value::Double(value.to_bits())
    }

    pub fn text(value: impl Into<String>) -> Self {
        Value::Text(value.into())
    }

    /// The client's form, for a column of `data_type`.
    pub fn to_datum(&self, data_type: &DataType) -> Result<Datum<'static>> {
        Ok(match (self, data_type) {
            (Value::Null, _) => Datum::Null,
            (Value::Bool(v), DataType::Boolean(_)) => Datum::from(*v),
            (Value::Byte(v), DataType::TinyInt(_)) => Datum::from(*v),
            (Value::Short(v), DataType::SmallInt(_)) => Datum::from(*v),
            (Value::Int(v), DataType::Int(_)) => Datum::from(*v),
            (Value::Long(v), DataType::BigInt(_)) => Datum::from(*v),
            (Value::Float(v), DataType::Float(_)) => Datum::from(f32::from_bits(*v)),
            (Value::Double(v), DataType::Double(_)) => Datum::from(f64::from_bits(*v)),
            (Value::Text(v), DataType::Char(_) | DataType::String(_)) => Datum::from(v.clone()),
            (Value::Bytes(v), DataType::Bytes(_) | DataType::Binary(_)) => Datum::from(v.clone()),
            (Value::Decimal(v), DataType::Decimal(t)) => {
                Datum::from(decimal(*v, t.precision(), t.scale())?)
            }
            (Value::Date(v), DataType::Date(_)) => Datum::from(Date::new(*v)),
            (Value::Time(v), DataType::Time(_)) => Datum::from(Time::new(*v)),
            (Value::Timestamp(ms, nanos), DataType::Timestamp(_)) => {
                Datum::from(TimestampNtz::from_millis_nanos(*ms, *nanos)?)
            }
            (Value::Timestamp(ms, nanos), DataType::TimestampLTz(_)) => {
                Datum::from(TimestampLtz::from_millis_nanos(*ms, *nanos)?)
            }
            (Value::Array(items), DataType::Array(t)) => {
                let element = t.get_element_type();
                let mut writer = FlussArrayWriter::new(items.len(), element);
                for (position, item) in items.iter().enumerate() {
                    write_element(&mut writer, position, item, element)?;
                }
                Datum::from(writer.complete()?)
            }
            (Value::Map(entries), DataType::Map(t)) => {
                let mut writer = FlussMapWriter::new(entries.len(), t.key_type(), t.value_type());
                for (key, value) in entries {
                    writer.write_entry(
                        key.to_datum(t.key_type())?,
                        value.to_datum(t.value_type())?,
                    )?;
                }
                Datum::from(writer.complete()?)
            }
            (Value::Row(fields), DataType::Row(t)) => {
                let values = fields
                    .iter()
                    .zip(t.field_types())
                    .map(|(value, field_type)| value.to_datum(field_type))
                    .collect::<Result<Vec<_>>>()?;
                Datum::Row(Box::new(GenericRow { values }))
            }
            (value, other) => bail!("{value:?} is no value of {other}"),
        })
    }

    /// Reads position `position` of a row or an array, whose type is `data_type`.
    pub fn read(from: &dyn DataGetters, position: usize, data_type: &DataType) -> Result<Self> {
        if from.is_null_at(position)? {
            return Ok(Value::Null);
        }
        Ok(match data_type {
            DataType::Boolean(_) => Value::Bool(from.get_boolean(position)?),
            DataType::TinyInt(_) => Value::Byte(from.get_byte(position)?),
            DataType::SmallInt(_) => Value::Short(from.get_short(position)?),
            DataType::Int(_) => Value::Int(from.get_int(position)?),
            DataType::BigInt(_) => Value::Long(from.get_long(position)?),
            DataType::Float(_) => Value::float(from.get_float(position)?),
            DataType::Double(_) => Value::double(from.get_double(position)?),
            DataType::Char(t) => Value::text(from.get_char(position, t.length() as usize)?),
            DataType::String(_) => Value::text(from.get_string(position)?),
            DataType::Bytes(_) => Value::Bytes(from.get_bytes(position)?.to_vec()),
            DataType::Binary(t) => Value::Bytes(from.get_binary(position, t.length())?.to_vec()),
            DataType::Decimal(t) => {
                let value =
                    from.get_decimal(position, t.precision() as usize, t.scale() as usize)?;
                Value::Decimal(unscaled(&value)?)
            }
            DataType::Date(_) => Value::Date(from.get_date(position)?.get_inner()),
            DataType::Time(_) => Value::Time(from.get_time(position)?.get_inner()),
            DataType::Timestamp(t) => {
                let value = from.get_timestamp_ntz(position, t.precision())?;
                Value::Timestamp(value.get_millisecond(), value.get_nano_of_millisecond())
            }
            DataType::TimestampLTz(t) => {
                let value = from.get_timestamp_ltz(position, t.precision())?;
                Value::Timestamp(
                    value.get_epoch_millisecond(),
                    value.get_nano_of_millisecond(),
                )
            }
            DataType::Array(t) => {
                Value::Array(read_array(from.get_array(position)?, t.get_element_type())?)
            }
            DataType::Map(t) => read_map(from.get_map(position)?, t)?,
            DataType::Row(t) => read_row(&from.get_row(position)?, t)?,
        })
    }
}

fn read_row(row: &dyn DataGetters, row_type: &RowType) -> Result<Value> {
    let fields = row_type
        .field_types()
        .enumerate()
        .map(|(field, field_type)| Value::read(row, field, field_type))
        .collect::<Result<Vec<_>>>()?;
    Ok(Value::Row(fields))
}

fn read_array(array: ArrayView<'_>, element: &DataType) -> Result<Vec<Value>> {
    match array {
        ArrayView::Binary(array) => read_binary(&array, element),
        ArrayView::Columnar(array) => read_all(&array, array.size(), element),
    }
}

fn read_map(map: MapView<'_>, map_type: &MapType) -> Result<Value> {
    let (key_type, value_type) = (map_type.key_type(), map_type.value_type());
    let (keys, values) = match map {
        MapView::Binary(map) => (
            read_binary(map.key_array(), key_type)?,
            read_binary(map.value_array(), value_type)?,
        ),
        MapView::Columnar(map) => (
            read_all(map.key_array(), map.size(), key_type)?,
            read_all(map.value_array(), map.size(), value_type)?,
        ),
    };
    Ok(Value::Map(keys.into_iter().zip(values).collect()))
}

/// The arrays of COMPACTED rows do not know their element's type, so that rows
/// and maps in them must be asked for by type.
fn read_binary(array: &FlussArray, element: &DataType) -> Result<Vec<Value>> {
    (0..array.size())
        .map(|position| match element {
            _ if array.is_null_at(position) => Ok(Value::Null),
            DataType::Row(t) => read_row(&array.get_row(position, t)?, t),
            DataType::Map(t) => {
                let map = array.get_map(position, t.key_type(), t.value_type())?;
                read_map(MapView::Binary(map), t)
            }
            DataType::Array(t) => {
                read_binary(&array.get_array(position)?, t.get_element_type()).map(Value::Array)
            }
            scalar => Value::read(array, position, scalar),
        })
        .collect()
}

fn read_all(from: &dyn DataGetters, size: usize, element: &DataType) -> Result<Vec<Value>> {
    (0..size)
        .map(|position| Value::read(from, position, element))
        .collect()
}

fn write_element(
    writer: &mut FlussArrayWriter,
    position: usize,
    value: &Value,
    data_type: &DataType,
) -> Result<()> {
    match value.to_datum(data_type)? {
        Datum::Null => writer.set_null_at(position),
        Datum::Bool(v) => writer.write_boolean(position, v),
        Datum::Int8(v) => writer.write_byte(position, v),
        Datum::Int16(v) => writer.write_short(position, v),
        Datum::Int32(v) => writer.write_int(position, v),
        Datum::Int64(v) => writer.write_long(position, v),
        Datum::Float32(v) => writer.write_float(position, v.into_inner()),
        Datum::Float64(v) => writer.write_double(position, v.into_inner()),
        Datum::String(v) => writer.write_string(position, &v),
        Datum::Blob(v) => writer.write_binary_bytes(position, &v),
        Datum::Decimal(v) => writer.write_decimal(position, &v, v.precision()),
        Datum::Date(v) => writer.write_date(position, v),
        Datum::Time(v) => writer.write_time(position, v),
        Datum::TimestampNtz(v) => {
            writer.write_timestamp_ntz(position, &v, timestamp_precision(data_type)?);
        }
        Datum::TimestampLtz(v) => {
            writer.write_timestamp_ltz(position, &v, timestamp_precision(data_type)?);
        }
        Datum::Array(v) => writer.write_array(position, &v),
        Datum::Map(v) => writer.write_map(position, &v),
        Datum::Row(v) => writer.write_row(position, v.as_ref())?,
    }
    Ok(())
}

fn timestamp_precision(data_type: &DataType) -> Result<u32> {
    match data_type {
        DataType::Timestamp(t) => Ok(t.precision()),
        DataType::TimestampLTz(t) => Ok(t.precision()),
        other => bail!("{other} is no timestamp"),
    }
}

fn decimal(unscaled: i128, precision: u32, scale: u32) -> Result<Decimal> {
    Ok(Decimal::from_unscaled_bytes(
        &unscaled.to_be_bytes(),
        precision,
        scale,
    )?)
}

/// Big-endian two's complement of any length up to 16 bytes.
fn unscaled(value: &Decimal) -> Result<i128> {
    let bytes = value.to_unscaled_bytes();
    let first = *bytes.first().context("a decimal without bytes")?;
    let mut out = if first & 0x80 == 0 {
        [0; 16]
    } else {
        [0xff; 16]
    };
    let start = out
        .len()
        .checked_sub(bytes.len())
        .context("a decimal of more than 16 bytes")?;
    out[start..].copy_from_slice(&bytes);
    Ok(i128::from_be_bytes(out))
}
