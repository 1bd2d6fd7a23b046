//! The compacted row (formats.md §4.1): null bits, then the non-null values
//! with variable-length integers and nothing between them.

use mainstem_types::{DataType, TypeKind};

use crate::byte_reader::ByteReader;
use crate::row::{Fields, RowFormat, bit, check_count, length_u32, put_null_bits};
use crate::value::{
    COMPACT_DECIMAL_PRECISION_MAX, Timestamp, Value, check_decimal, compact_decimal,
    is_compact_timestamp, mismatch, parse_unscaled, text, unscaled_bytes,
};
use crate::{Result, binary_array, varint};

/// Appends a row; see [`RowFormat::encode`].
pub fn encode<F: Fields + ?Sized>(
    values: &[Value<'_>],
    fields: &F,
    out: &mut Vec<u8>,
) -> Result<()> {
    check_count(values, fields)?;
    put_null_bits(values, out);
    for (index, value) in values.iter().enumerate() {
        if !value.is_null() {
            put_value(value, fields.data_type(index), out)?;
        }
    }
    Ok(())
}

/// Appends the values of a row; see [`RowFormat::decode`].
pub fn decode_into<'a, F: Fields + ?Sized>(
    bytes: &'a [u8],
    fields: &F,
    values: &mut Vec<Value<'a>>,
) -> Result<()> {
    let mut reader = ByteReader::new(bytes);
    let null_bits = reader.take(fields.count().div_ceil(8))?;
    for index in 0..fields.count() {
        let value = match bit(null_bits, index) {
            true => Value::Null,
            false => read_value(&mut reader, fields.data_type(index))?,
        };
        values.push(value);
    }
    Ok(())
}

/// Appends one value that is not null.
pub(crate) fn put_value(value: &Value<'_>, data_type: &DataType, out: &mut Vec<u8>) -> Result<()> {
    match (&data_type.kind, value) {
        (TypeKind::Boolean, Value::Boolean(value)) => out.push(u8::from(*value)),
        (TypeKind::TinyInt, Value::TinyInt(value)) => out.push(*value as u8),
        (TypeKind::SmallInt, Value::SmallInt(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Int, Value::Int(value))
        | (TypeKind::Date, Value::Date(value))
        | (TypeKind::Time { .. }, Value::Time(value)) => varint::put_u32(out, *value as u32),
        (TypeKind::BigInt, Value::BigInt(value)) => varint::put_u64(out, *value as u64),
        (TypeKind::Float, Value::Float(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Double, Value::Double(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Char { .. } | TypeKind::String, Value::String(value)) => {
            put_bytes(value.as_bytes(), out)?;
        }
        (TypeKind::Binary { .. } | TypeKind::Bytes, Value::Bytes(value)) => {
            put_bytes(value, out)?;
        }
        (TypeKind::Decimal { precision, .. }, Value::Decimal(value)) => {
            if *precision <= COMPACT_DECIMAL_PRECISION_MAX {
                varint::put_u64(out, compact_decimal(*value, *precision)? as u64);
            } else {
                check_decimal(*value, *precision)?;
                let (bytes, start) = unscaled_bytes(*value);
                put_bytes(&bytes[start..], out)?;
            }
        }
        (
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision },
            Value::Timestamp(value),
        ) => {
            varint::put_u64(out, value.millis as u64);
            if !is_compact_timestamp(*precision) {
                varint::put_u32(out, value.nanos_of_milli as u32);
            }
        }
        (TypeKind::Array(element), Value::Array(values)) => put_nested(out, |out| {
            binary_array::encode(values, element, RowFormat::Compacted, out)
        })?,
        (TypeKind::Map { key, value }, Value::Map(entries)) => put_nested(out, |out| {
            binary_array::encode_map(entries, key, value, RowFormat::Compacted, out)
        })?,
        (TypeKind::Row(fields), Value::Row(values)) => {
            put_nested(out, |out| encode(values, fields.as_slice(), out))?;
        }
        (_, value) => return Err(mismatch(value, data_type)),
    }
    Ok(())
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    varint::put_u32(out, length_u32(bytes.len())?);
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends what `encode` writes, behind its length. The length's own width is
/// known only afterwards, so the bytes are moved up by it.
fn put_nested(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    encode(out)?;
    let length = length_u32(out.len() - start)?;
    let end = out.len();
    varint::put_u32(out, length);
    let prefix = out.len() - end;
    out[start..].rotate_right(prefix);
    Ok(())
}

/// Reads one value that is not null.
pub(crate) fn read_value<'a>(
    reader: &mut ByteReader<'a>,
    data_type: &DataType,
) -> Result<Value<'a>> {
    Ok(match &data_type.kind {
        TypeKind::Boolean => Value::Boolean(reader.u8()? != 0),
        TypeKind::TinyInt => Value::TinyInt(reader.u8()? as i8),
        TypeKind::SmallInt => Value::SmallInt(reader.i16()?),
        TypeKind::Int => Value::Int(reader.uvar32()? as i32),
        TypeKind::Date => Value::Date(reader.uvar32()? as i32),
        TypeKind::Time { .. } => Value::Time(reader.uvar32()? as i32),
        TypeKind::BigInt => Value::BigInt(reader.uvar64()? as i64),
        TypeKind::Float => Value::Float(reader.f32()?),
        TypeKind::Double => Value::Double(reader.f64()?),
        TypeKind::Char { .. } | TypeKind::String => text(reader.prefixed_uvar32()?)?,
        TypeKind::Binary { .. } | TypeKind::Bytes => Value::from(reader.prefixed_uvar32()?),
        TypeKind::Decimal { precision, .. } => {
            if *precision <= COMPACT_DECIMAL_PRECISION_MAX {
                Value::Decimal(i128::from(reader.uvar64()? as i64))
            } else {
                Value::Decimal(parse_unscaled(reader.prefixed_uvar32()?)?)
            }
        }
        TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
            let millis = reader.uvar64()? as i64;
            let nanos = match is_compact_timestamp(*precision) {
                true => 0,
                false => reader.uvar32()? as i32,
            };
            Value::Timestamp(Timestamp::checked(millis, nanos)?)
        }
        TypeKind::Array(element) => {
            let bytes = reader.prefixed_uvar32()?;
            Value::Array(binary_array::decode(bytes, element, RowFormat::Compacted)?)
        }
        TypeKind::Map { key, value } => {
            let bytes = reader.prefixed_uvar32()?;
            Value::Map(binary_array::decode_map(
                bytes,
                key,
                value,
                RowFormat::Compacted,
            )?)
        }
        TypeKind::Row(fields) => {
            let bytes = reader.prefixed_uvar32()?;
            Value::Row(RowFormat::Compacted.decode(bytes, fields.as_slice())?)
        }
    })
}
