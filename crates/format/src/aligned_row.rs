//! The aligned row (formats.md §4.3): a header byte, null bits, one slot of 8
//! bytes per field, then the parts that slots point to. It is Paimon's binary
//! row with row kind INSERT.

use crate::binary_slot::{self, SlotReader};
use crate::row::{Fields, RowFormat, bit, check_count, length_u32, set_bit};
use crate::value::Value;
use crate::{FormatError, Result};

/// The null bit of field 0: the header byte lies below it.
const NULL_BITS_START: usize = 8;
const SLOT_BYTES: usize = 8;

/// Appends a row; see [`RowFormat::encode`].
pub fn encode<F: Fields + ?Sized>(
    values: &[Value<'_>],
    fields: &F,
    out: &mut Vec<u8>,
) -> Result<()> {
    check_count(values, fields)?;
    encode_values(values.iter(), fields, out)
}

/// [`encode`] of values that do not lie in one list; as many as fields.
pub(crate) fn encode_values<'v, 'd: 'v, F: Fields + ?Sized>(
    values: impl ExactSizeIterator<Item = &'v Value<'d>>,
    fields: &F,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    let slots = start + bit_area_bytes(values.len());
    let fixed_end = slots + values.len() * SLOT_BYTES;
    out.resize(fixed_end, 0);
    for (index, value) in values.enumerate() {
        if value.is_null() {
            set_bit(&mut out[start..], NULL_BITS_START + index);
            continue;
        }
        let slot = slots + index * SLOT_BYTES;
        binary_slot::put(
            value,
            fields.data_type(index),
            RowFormat::Aligned,
            start,
            slot,
            out,
        )?;
    }
    length_u32(out.len() - start)?;
    Ok(())
}

/// Appends the values of a row; see [`RowFormat::decode`].
pub fn decode_into<'a, F: Fields + ?Sized>(
    bytes: &'a [u8],
    fields: &F,
    values: &mut Vec<Value<'a>>,
) -> Result<()> {
    let count = fields.count();
    let slots_start = bit_area_bytes(count);
    if bytes.len() < slots_start + count * SLOT_BYTES {
        return Err(FormatError::invalid(format!(
            "aligned row of {count} fields in {} bytes",
            bytes.len()
        )));
    }
    let mut slots = SlotReader::new(bytes, RowFormat::Aligned);
    for index in 0..count {
        values.push(match bit(bytes, NULL_BITS_START + index) {
            true => Value::Null,
            false => slots.value(slots_start + index * SLOT_BYTES, fields.data_type(index))?,
        });
    }
    Ok(())
}

/// Header byte and null bits, rounded up to 8 bytes.
const fn bit_area_bytes(count: usize) -> usize {
    (count + 71) / 64 * 8
}
