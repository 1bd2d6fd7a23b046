//! The 8-byte slot of values with variable length, in aligned rows and binary
//! arrays (formats.md §4.4): short bytes in place, anything else as length and
//! offset of a part behind the slots.

use mainstem_types::{DataType, TypeKind};

use crate::byte_reader::ByteReader;
use crate::row::{RowFormat, length_u32};
use crate::value::{
    COMPACT_DECIMAL_PRECISION_MAX, Timestamp, Value, check_decimal, compact_decimal,
    is_compact_timestamp, mismatch, parse_unscaled, text, unscaled_bytes,
};
use crate::{FormatError, Result, binary_array};

/// Longest bytes that stand in the slot itself.
const INLINE_BYTES_MAX: usize = 7;
/// Top bit of the slot's last byte: the bytes are in the slot.
const INLINE: u8 = 0x80;
/// What a decimal of more than 18 digits reserves.
const DECIMAL_BYTES: usize = 16;

/// Bytes that a value of the type takes when it stands in an array: its own
/// width, or that of a slot.
pub(crate) fn element_width(kind: &TypeKind) -> usize {
    match kind {
        TypeKind::Boolean | TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::Int | TypeKind::Float | TypeKind::Date | TypeKind::Time { .. } => 4,
        _ => 8,
    }
}

/// Writes a non-null value: its fixed part over the zeros at `slot`, the rest
/// to the end of `out`. Offsets count from `start`; `out` ends on a multiple of
/// 8 from there, before and after.
pub(crate) fn put(
    value: &Value<'_>,
    data_type: &DataType,
    format: RowFormat,
    start: usize,
    slot: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    match (&data_type.kind, value) {
        (TypeKind::Boolean, Value::Boolean(value)) => out[slot] = u8::from(*value),
        (TypeKind::TinyInt, Value::TinyInt(value)) => out[slot] = *value as u8,
        (TypeKind::SmallInt, Value::SmallInt(value)) => fill(out, slot, &value.to_le_bytes()),
        (TypeKind::Int, Value::Int(value))
        | (TypeKind::Date, Value::Date(value))
        | (TypeKind::Time { .. }, Value::Time(value)) => fill(out, slot, &value.to_le_bytes()),
        (TypeKind::BigInt, Value::BigInt(value)) => fill(out, slot, &value.to_le_bytes()),
        (TypeKind::Float, Value::Float(value)) => fill(out, slot, &value.to_le_bytes()),
        (TypeKind::Double, Value::Double(value)) => fill(out, slot, &value.to_le_bytes()),
        (TypeKind::Char { .. } | TypeKind::String, Value::String(value)) => {
            put_bytes(value.as_bytes(), start, slot, out)?;
        }
        (TypeKind::Binary { .. } | TypeKind::Bytes, Value::Bytes(value)) => {
            put_bytes(value, start, slot, out)?;
        }
        (TypeKind::Decimal { precision, .. }, Value::Decimal(value)) => {
            if *precision <= COMPACT_DECIMAL_PRECISION_MAX {
                let value = compact_decimal(*value, *precision)?;
                fill(out, slot, &value.to_le_bytes());
            } else {
                check_decimal(*value, *precision)?;
                let (bytes, first) = unscaled_bytes(*value);
                let part = out.len();
                out.extend_from_slice(&bytes[first..]);
                out.resize(part + DECIMAL_BYTES, 0);
                point(out, start, slot, (16 - first) as u32, part)?;
            }
        }
        (
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision },
            Value::Timestamp(value),
        ) => {
            if is_compact_timestamp(*precision) {
                fill(out, slot, &value.millis.to_le_bytes());
            } else {
                let part = out.len();
                out.extend(value.millis.to_le_bytes());
                point(out, start, slot, value.nanos_of_milli as u32, part)?;
            }
        }
        (TypeKind::Array(element), Value::Array(values)) => put_nested(start, slot, out, |out| {
            binary_array::encode(values, element, format, out)
        })?,
        (TypeKind::Map { key, value }, Value::Map(entries)) => {
            put_nested(start, slot, out, |out| {
                binary_array::encode_map(entries, key, value, format, out)
            })?;
        }
        (TypeKind::Row(fields), Value::Row(values)) => put_nested(start, slot, out, |out| {
            format.encode(values, fields.as_slice(), out)
        })?,
        (_, value) => return Err(mismatch(value, data_type)),
    }
    Ok(())
}

fn fill(out: &mut [u8], slot: usize, bytes: &[u8]) {
    out[slot..slot + bytes.len()].copy_from_slice(bytes);
}

/// Writes the slot of a part that begins at `part`.
fn point(out: &mut [u8], start: usize, slot: usize, low: u32, part: usize) -> Result<()> {
    let offset = length_u32(part - start)?;
    fill(out, slot, &low.to_le_bytes());
    fill(out, slot + 4, &offset.to_le_bytes());
    Ok(())
}

fn put_bytes(bytes: &[u8], start: usize, slot: usize, out: &mut Vec<u8>) -> Result<()> {
    if bytes.len() <= INLINE_BYTES_MAX {
        fill(out, slot, bytes);
        out[slot + 7] = INLINE | bytes.len() as u8;
        return Ok(());
    }
    put_nested(start, slot, out, |out| {
        out.extend_from_slice(bytes);
        Ok(())
    })
}

fn put_nested(
    start: usize,
    slot: usize,
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let part = out.len();
    encode(out)?;
    let length = out.len() - part;
    point(out, start, slot, length_u32(length)?, part)?;
    out.resize(part + length.next_multiple_of(8), 0);
    Ok(())
}

/// Reads values whose fixed parts lie in one aligned row or array.
///
/// Slots name their parts by offset, so hostile bytes could name the same part
/// from every slot and, nested, swell exponentially. All parts together may
/// therefore be no longer than the whole, as they are when nothing is shared.
pub(crate) struct SlotReader<'a> {
    /// The whole row or array.
    region: &'a [u8],
    format: RowFormat,
    part_bytes_left: usize,
}

impl<'a> SlotReader<'a> {
    pub(crate) fn new(region: &'a [u8], format: RowFormat) -> Self {
        Self {
            region,
            format,
            part_bytes_left: region.len(),
        }
    }

    /// Reads the non-null value whose fixed part begins at `slot`.
    pub(crate) fn value(&mut self, slot: usize, data_type: &DataType) -> Result<Value<'a>> {
        let mut fixed = self.fixed(slot)?;
        let format = self.format;
        Ok(match &data_type.kind {
            TypeKind::Boolean => Value::Boolean(fixed.u8()? != 0),
            TypeKind::TinyInt => Value::TinyInt(fixed.u8()? as i8),
            TypeKind::SmallInt => Value::SmallInt(fixed.i16()?),
            TypeKind::Int => Value::Int(fixed.i32()?),
            TypeKind::Date => Value::Date(fixed.i32()?),
            TypeKind::Time { .. } => Value::Time(fixed.i32()?),
            TypeKind::BigInt => Value::BigInt(fixed.i64()?),
            TypeKind::Float => Value::Float(fixed.f32()?),
            TypeKind::Double => Value::Double(fixed.f64()?),
            TypeKind::Char { .. } | TypeKind::String => text(self.bytes(slot)?)?,
            TypeKind::Binary { .. } | TypeKind::Bytes => Value::from(self.bytes(slot)?),
            TypeKind::Decimal { precision, .. } => {
                if *precision <= COMPACT_DECIMAL_PRECISION_MAX {
                    Value::Decimal(i128::from(fixed.i64()?))
                } else {
                    Value::Decimal(parse_unscaled(self.part(slot)?)?)
                }
            }
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
                if is_compact_timestamp(*precision) {
                    Value::Timestamp(Timestamp::from_millis(fixed.i64()?))
                } else {
                    let nanos = fixed.i32()?;
                    let offset = fixed.i32()? as u32 as usize;
                    let millis = self.fixed(offset)?.i64()?;
                    Value::Timestamp(Timestamp::checked(millis, nanos)?)
                }
            }
            TypeKind::Array(element) => {
                Value::Array(binary_array::decode(self.part(slot)?, element, format)?)
            }
            TypeKind::Map { key, value } => Value::Map(binary_array::decode_map(
                self.part(slot)?,
                key,
                value,
                format,
            )?),
            TypeKind::Row(fields) => {
                Value::Row(format.decode(self.part(slot)?, fields.as_slice())?)
            }
        })
    }

    fn fixed(&self, position: usize) -> Result<ByteReader<'a>> {
        match self.region.get(position..) {
            Some(bytes) => Ok(ByteReader::new(bytes)),
            None => Err(FormatError::invalid(format!(
                "offset {position} in a row or array of {} bytes",
                self.region.len()
            ))),
        }
    }

    fn bytes(&mut self, slot: usize) -> Result<&'a [u8]> {
        let in_place = self.fixed(slot)?.take(8)?;
        if in_place[7] & INLINE == 0 {
            return self.part(slot);
        }
        let length = usize::from(in_place[7] & !INLINE);
        in_place[..INLINE_BYTES_MAX].get(..length).ok_or_else(|| {
            FormatError::invalid(format!("{length} bytes in a slot of {INLINE_BYTES_MAX}"))
        })
    }

    fn part(&mut self, slot: usize) -> Result<&'a [u8]> {
        let mut fixed = self.fixed(slot)?;
        let length = fixed.i32()? as u32 as usize;
        let offset = fixed.i32()? as u32 as usize;
        match self.part_bytes_left.checked_sub(length) {
            Some(left) => self.part_bytes_left = left,
            None => {
                return Err(FormatError::invalid(
                    "parts of a row or array are longer than the whole",
                ));
            }
        }
        self.fixed(offset)?.take(length)
    }
}
