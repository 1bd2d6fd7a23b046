//! The indexed row (formats.md §4.2): null bits, the lengths of the variable
//! columns, then the non-null values in fixed little-endian widths.

use mainstem_types::{DataType, TypeKind};

use crate::byte_reader::ByteReader;
use crate::row::{Fields, RowFormat, bit, check_count, length_u32, put_null_bits};
use crate::value::{
    COMPACT_DECIMAL_PRECISION_MAX, Timestamp, Value, check_decimal, compact_decimal,
    has_variable_length, is_compact_timestamp, mismatch, parse_unscaled, text, unscaled_bytes,
};
use crate::{FormatError, Result, binary_array};

/// Appends a row; see [`RowFormat::encode`].
pub fn encode<F: Fields + ?Sized>(
    values: &[Value<'_>],
    fields: &F,
    out: &mut Vec<u8>,
) -> Result<()> {
    check_count(values, fields)?;
    put_null_bits(values, out);
    // The list is packed over the non-null variable columns; what a null does
    // not use stays zero at its end.
    let mut next_length = out.len();
    out.resize(next_length + 4 * variable_count(fields), 0);
    for (index, value) in values.iter().enumerate() {
        if value.is_null() {
            continue;
        }
        let data_type = fields.data_type(index);
        let start = out.len();
        put_value(value, data_type, out)?;
        if has_variable_length(&data_type.kind) {
            let length = length_u32(out.len() - start)?;
            out[next_length..next_length + 4].copy_from_slice(&length.to_le_bytes());
            next_length += 4;
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
    let mut lengths = ByteReader::new(reader.take(4 * variable_count(fields))?);
    for index in 0..fields.count() {
        let data_type = fields.data_type(index);
        let value = match bit(null_bits, index) {
            true => Value::Null,
            false if has_variable_length(&data_type.kind) => {
                let length = lengths.i32()?;
                let length = usize::try_from(length).map_err(|_| {
                    FormatError::invalid(format!("length {length} of a column is negative"))
                })?;
                read_variable(reader.take(length)?, data_type)?
            }
            false => read_fixed(&mut reader, data_type)?,
        };
        values.push(value);
    }
    Ok(())
}

fn variable_count<F: Fields + ?Sized>(fields: &F) -> usize {
    (0..fields.count())
        .filter(|&index| has_variable_length(&fields.data_type(index).kind))
        .count()
}

fn put_value(value: &Value<'_>, data_type: &DataType, out: &mut Vec<u8>) -> Result<()> {
    match (&data_type.kind, value) {
        (TypeKind::Boolean, Value::Boolean(value)) => out.push(u8::from(*value)),
        (TypeKind::TinyInt, Value::TinyInt(value)) => out.push(*value as u8),
        (TypeKind::SmallInt, Value::SmallInt(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Int, Value::Int(value))
        | (TypeKind::Date, Value::Date(value))
        | (TypeKind::Time { .. }, Value::Time(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::BigInt, Value::BigInt(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Float, Value::Float(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Double, Value::Double(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Char { length }, Value::String(value)) => {
            put_padded(value.as_bytes(), *length, out)?;
        }
        (TypeKind::Binary { length }, Value::Bytes(value)) => put_padded(value, *length, out)?,
        (TypeKind::String, Value::String(value)) => out.extend_from_slice(value.as_bytes()),
        (TypeKind::Bytes, Value::Bytes(value)) => out.extend_from_slice(value),
        (TypeKind::Decimal { precision, .. }, Value::Decimal(value)) => {
            if *precision <= COMPACT_DECIMAL_PRECISION_MAX {
                out.extend(compact_decimal(*value, *precision)?.to_le_bytes());
            } else {
                check_decimal(*value, *precision)?;
                let (bytes, start) = unscaled_bytes(*value);
                out.extend_from_slice(&bytes[start..]);
            }
        }
        (
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision },
            Value::Timestamp(value),
        ) => {
            out.extend(value.millis.to_le_bytes());
            if !is_compact_timestamp(*precision) {
                out.extend(value.nanos_of_milli.to_le_bytes());
            }
        }
        (TypeKind::Array(element), Value::Array(values)) => {
            binary_array::encode(values, element, RowFormat::Indexed, out)?;
        }
        (TypeKind::Map { key, value }, Value::Map(entries)) => {
            binary_array::encode_map(entries, key, value, RowFormat::Indexed, out)?;
        }
        (TypeKind::Row(fields), Value::Row(values)) => encode(values, fields.as_slice(), out)?,
        (_, value) => return Err(mismatch(value, data_type)),
    }
    Ok(())
}

/// CHAR and BINARY take exactly `length` bytes, whatever a character takes.
fn put_padded(bytes: &[u8], length: u32, out: &mut Vec<u8>) -> Result<()> {
    let length = length as usize;
    if bytes.len() > length {
        return Err(FormatError::invalid(format!(
            "value of {} bytes for a column that holds {length}",
            bytes.len()
        )));
    }
    let start = out.len();
    out.extend_from_slice(bytes);
    out.resize(start + length, 0);
    Ok(())
}

fn read_padded<'a>(reader: &mut ByteReader<'a>, length: u32) -> Result<&'a [u8]> {
    let bytes = reader.take(length as usize)?;
    let end = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    Ok(&bytes[..end])
}

fn read_fixed<'a>(reader: &mut ByteReader<'a>, data_type: &DataType) -> Result<Value<'a>> {
    Ok(match &data_type.kind {
        TypeKind::Boolean => Value::Boolean(reader.u8()? != 0),
        TypeKind::TinyInt => Value::TinyInt(reader.u8()? as i8),
        TypeKind::SmallInt => Value::SmallInt(reader.i16()?),
        TypeKind::Int => Value::Int(reader.i32()?),
        TypeKind::Date => Value::Date(reader.i32()?),
        TypeKind::Time { .. } => Value::Time(reader.i32()?),
        TypeKind::BigInt => Value::BigInt(reader.i64()?),
        TypeKind::Float => Value::Float(reader.f32()?),
        TypeKind::Double => Value::Double(reader.f64()?),
        TypeKind::Char { length } => text(read_padded(reader, *length)?)?,
        TypeKind::Binary { length } => Value::from(read_padded(reader, *length)?),
        TypeKind::Decimal { .. } => Value::Decimal(i128::from(reader.i64()?)),
        TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
            let millis = reader.i64()?;
            let nanos = match is_compact_timestamp(*precision) {
                true => 0,
                false => reader.i32()?,
            };
            Value::Timestamp(Timestamp::checked(millis, nanos)?)
        }
        kind => return Err(FormatError::invalid(format!("{kind:?} has no fixed width"))),
    })
}

fn read_variable<'a>(bytes: &'a [u8], data_type: &DataType) -> Result<Value<'a>> {
    Ok(match &data_type.kind {
        TypeKind::String => text(bytes)?,
        TypeKind::Bytes => Value::from(bytes),
        TypeKind::Decimal { .. } => Value::Decimal(parse_unscaled(bytes)?),
        TypeKind::Array(element) => {
            Value::Array(binary_array::decode(bytes, element, RowFormat::Indexed)?)
        }
        TypeKind::Map { key, value } => Value::Map(binary_array::decode_map(
            bytes,
            key,
            value,
            RowFormat::Indexed,
        )?),
        TypeKind::Row(fields) => Value::Row(RowFormat::Indexed.decode(bytes, fields.as_slice())?),
        kind => return Err(FormatError::invalid(format!("{kind:?} has no length"))),
    })
}
