//! Arrays and maps inside rows (formats.md §4.5, §4.6). They look the same in
//! every row format, except for rows nested in them.

use mainstem_types::DataType;

use crate::binary_slot::{self, SlotReader, element_width};
use crate::byte_reader::ByteReader;
use crate::row::{RowFormat, bit, length_u32, set_bit};
use crate::value::Value;
use crate::{FormatError, Result};

/// Java's only NaN. Arrays canonicalize, other places keep the bits.
const FLOAT_NAN: f32 = f32::from_bits(0x7fc0_0000);
const DOUBLE_NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// Appends an array. Nested rows take `format`.
pub fn encode(
    values: &[Value<'_>],
    element: &DataType,
    format: RowFormat,
    out: &mut Vec<u8>,
) -> Result<()> {
    encode_elements(values.iter(), values.len(), element, format, out)
}

/// Appends a map: the length of the key array, key array, value array.
pub fn encode_map(
    entries: &[(Value<'_>, Value<'_>)],
    key: &DataType,
    value: &DataType,
    format: RowFormat,
    out: &mut Vec<u8>,
) -> Result<()> {
    if entries.iter().any(|(key, _)| key.is_null()) {
        return Err(FormatError::invalid("null as a map key"));
    }
    let start = out.len();
    out.extend([0; 4]);
    let count = entries.len();
    encode_elements(entries.iter().map(|(key, _)| key), count, key, format, out)?;
    let key_bytes = length_u32(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&key_bytes.to_le_bytes());
    encode_elements(
        entries.iter().map(|(_, value)| value),
        count,
        value,
        format,
        out,
    )
}

fn encode_elements<'v, 'd: 'v>(
    values: impl Iterator<Item = &'v Value<'d>>,
    count: usize,
    element: &DataType,
    format: RowFormat,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    let width = element_width(&element.kind);
    let slots = start + header_bytes(count);
    let fixed_end = start + (header_bytes(count) + count * width).next_multiple_of(8);
    length_u32(fixed_end - start)?;
    out.extend((count as u32).to_le_bytes());
    out.resize(fixed_end, 0);
    for (index, value) in values.enumerate() {
        let value = match value {
            Value::Null => {
                set_bit(&mut out[start + 4..], index);
                continue;
            }
            Value::Float(value) if value.is_nan() => &Value::Float(FLOAT_NAN),
            Value::Double(value) if value.is_nan() => &Value::Double(DOUBLE_NAN),
            value => value,
        };
        binary_slot::put(value, element, format, start, slots + index * width, out)?;
    }
    Ok(())
}

/// Count and null bits, which come in words of 4 bytes.
const fn header_bytes(count: usize) -> usize {
    4 + count.div_ceil(32) * 4
}

/// Reads an array. Bytes behind it are ignored.
pub fn decode<'a>(
    bytes: &'a [u8],
    element: &DataType,
    format: RowFormat,
) -> Result<Vec<Value<'a>>> {
    let count = ByteReader::new(bytes).i32()?;
    let width = element_width(&element.kind);
    let count = usize::try_from(count)
        .map_err(|_| FormatError::invalid(format!("array of {count} elements")))?;
    // Also bounds what is allocated: every element has bytes of its own.
    let fixed_bytes = count
        .checked_mul(width)
        .map(|slots| slots + header_bytes(count));
    if fixed_bytes.is_none_or(|fixed_bytes| fixed_bytes > bytes.len()) {
        return Err(FormatError::invalid(format!(
            "array of {count} elements in {} bytes",
            bytes.len()
        )));
    }
    let null_bits = &bytes[4..header_bytes(count)];
    let mut slots = SlotReader::new(bytes, format);
    let mut values = Vec::with_capacity(count);
    for index in 0..count {
        values.push(match bit(null_bits, index) {
            true => Value::Null,
            false => slots.value(header_bytes(count) + index * width, element)?,
        });
    }
    Ok(values)
}

/// Reads a map. Bytes behind it are ignored.
pub fn decode_map<'a>(
    bytes: &'a [u8],
    key: &DataType,
    value: &DataType,
    format: RowFormat,
) -> Result<Vec<(Value<'a>, Value<'a>)>> {
    let mut reader = ByteReader::new(bytes);
    let key_bytes = reader.prefixed_i32()?;
    let value_bytes = reader.take(reader.remaining())?;
    let keys = decode(key_bytes, key, format)?;
    let values = decode(value_bytes, value, format)?;
    if keys.len() != values.len() {
        return Err(FormatError::invalid(format!(
            "map of {} keys and {} values",
            keys.len(),
            values.len()
        )));
    }
    if keys.iter().any(Value::is_null) {
        return Err(FormatError::invalid("null as a map key"));
    }
    Ok(keys.into_iter().zip(values).collect())
}
