//! Keys as Iceberg hashes them: one value, no length, times in microseconds.

use mainstem_types::{DataType, TypeKind};

use crate::byte_reader::ByteReader;
use crate::value::{
    Timestamp, Value, check_decimal, mismatch, parse_unscaled, text, unscaled_bytes,
};
use crate::{FormatError, Result};

pub(super) fn is_supported(kind: &TypeKind) -> bool {
    match kind {
        TypeKind::Int
        | TypeKind::BigInt
        | TypeKind::Float
        | TypeKind::Double
        | TypeKind::Char { .. }
        | TypeKind::String
        | TypeKind::Binary { .. }
        | TypeKind::Bytes
        | TypeKind::Decimal { .. }
        | TypeKind::Date
        | TypeKind::Time { .. }
        | TypeKind::Timestamp { .. } => true,
        TypeKind::Boolean
        | TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::TimestampLtz { .. }
        | TypeKind::Array(_)
        | TypeKind::Map { .. }
        | TypeKind::Row(_) => false,
    }
}

pub(super) fn put_value(value: &Value<'_>, data_type: &DataType, out: &mut Vec<u8>) -> Result<()> {
    match (&data_type.kind, value) {
        (TypeKind::Int, Value::Int(value)) | (TypeKind::Date, Value::Date(value)) => {
            out.extend(i64::from(*value).to_le_bytes());
        }
        (TypeKind::BigInt, Value::BigInt(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Time { .. }, Value::Time(millis)) => {
            out.extend((i64::from(*millis) * 1000).to_le_bytes());
        }
        (TypeKind::Timestamp { .. }, Value::Timestamp(value)) => {
            let micros = value
                .millis
                .checked_mul(1000)
                .and_then(|micros| micros.checked_add(i64::from(value.nanos_of_milli / 1000)))
                .ok_or_else(|| FormatError::invalid("timestamp beyond 64 bits of microseconds"))?;
            out.extend(micros.to_le_bytes());
        }
        (TypeKind::Float, Value::Float(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Double, Value::Double(value)) => out.extend(value.to_le_bytes()),
        (TypeKind::Decimal { precision, .. }, Value::Decimal(value)) => {
            check_decimal(*value, *precision)?;
            let (bytes, start) = unscaled_bytes(*value);
            out.extend_from_slice(&bytes[start..]);
        }
        (TypeKind::Char { .. } | TypeKind::String, Value::String(value)) => {
            out.extend_from_slice(value.as_bytes());
        }
        (TypeKind::Binary { .. } | TypeKind::Bytes, Value::Bytes(value)) => {
            out.extend_from_slice(value);
        }
        (_, value) => return Err(mismatch(value, data_type)),
    }
    Ok(())
}

pub(super) fn read_value<'a>(key: &'a [u8], data_type: &DataType) -> Result<Value<'a>> {
    let mut reader = ByteReader::new(key);
    let value = match &data_type.kind {
        TypeKind::Int => Value::Int(narrow(reader.i64()?)?),
        TypeKind::Date => Value::Date(narrow(reader.i64()?)?),
        TypeKind::BigInt => Value::BigInt(reader.i64()?),
        TypeKind::Time { .. } => Value::Time(narrow(reader.i64()?.div_euclid(1000))?),
        TypeKind::Timestamp { .. } => {
            let micros = reader.i64()?;
            Value::Timestamp(Timestamp {
                millis: micros.div_euclid(1000),
                nanos_of_milli: micros.rem_euclid(1000) as i32 * 1000,
            })
        }
        TypeKind::Float => Value::Float(reader.f32()?),
        TypeKind::Double => Value::Double(reader.f64()?),
        TypeKind::Decimal { .. } => Value::Decimal(parse_unscaled(reader.take(key.len())?)?),
        TypeKind::Char { .. } | TypeKind::String => text(reader.take(key.len())?)?,
        TypeKind::Binary { .. } | TypeKind::Bytes => Value::from(reader.take(key.len())?),
        kind => {
            return Err(FormatError::unsupported(format!(
                "Iceberg key of type {kind:?}"
            )));
        }
    };
    match reader.remaining() {
        0 => Ok(value),
        left => Err(FormatError::invalid(format!("{left} bytes behind a key"))),
    }
}

fn narrow(value: i64) -> Result<i32> {
    i32::try_from(value)
        .map_err(|_| FormatError::invalid(format!("{value} in a key of a 32-bit column")))
}
