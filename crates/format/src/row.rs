//! What all row formats share: the fields of a row, and the choice of format.

use mainstem_types::{Column, DataType, RowField};

use crate::value::Value;
use crate::{FormatError, Result, aligned_row, compacted_row, indexed_row};

/// The types of a row's fields, in order: columns of a schema, fields of a ROW
/// type, or a plain list.
pub trait Fields {
    /// Number of fields.
    fn count(&self) -> usize;

    /// Type of field `index`, which is less than [`Fields::count`].
    fn data_type(&self, index: usize) -> &DataType;
}

impl Fields for [DataType] {
    fn count(&self) -> usize {
        self.len()
    }

    fn data_type(&self, index: usize) -> &DataType {
        &self[index]
    }
}

impl Fields for [Column] {
    fn count(&self) -> usize {
        self.len()
    }

    fn data_type(&self, index: usize) -> &DataType {
        &self[index].data_type
    }
}

impl Fields for [RowField] {
    fn count(&self) -> usize {
        self.len()
    }

    fn data_type(&self, index: usize) -> &DataType {
        &self[index].data_type
    }
}

/// How a row is laid out in bytes. Rows nested in it follow the same format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// [`compacted_row`]: default of KV tables.
    Compacted,
    /// [`indexed_row`].
    Indexed,
    /// [`aligned_row`]: statistics and Paimon keys.
    Aligned,
}

impl RowFormat {
    /// Appends the row to `out`. NOT NULL is not checked here: rows of partial
    /// updates carry nulls for columns that the table declares NOT NULL.
    ///
    /// Errors: a value that its type cannot hold, another number of values than
    /// of fields, a null map key, or a row of 2 GiB.
    pub fn encode<F: Fields + ?Sized>(
        self,
        values: &[Value<'_>],
        fields: &F,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Compacted => compacted_row::encode(values, fields, out),
            Self::Indexed => indexed_row::encode(values, fields, out),
            Self::Aligned => aligned_row::encode(values, fields, out),
        }
    }

    /// Reads a row that was written with exactly these fields. Bytes behind it
    /// are ignored.
    ///
    /// The depth of recursion is that of the types; the size of the result is
    /// at most [`size_of::<Value>`](Value) per byte and level of nesting.
    pub fn decode<'a, F: Fields + ?Sized>(
        self,
        bytes: &'a [u8],
        fields: &F,
    ) -> Result<Vec<Value<'a>>> {
        let mut values = Vec::with_capacity(fields.count());
        self.decode_into(bytes, fields, &mut values)?;
        Ok(values)
    }

    /// [`RowFormat::decode`] into a list that is used again and again: it is
    /// emptied first.
    pub fn decode_into<'a, F: Fields + ?Sized>(
        self,
        bytes: &'a [u8],
        fields: &F,
        values: &mut Vec<Value<'a>>,
    ) -> Result<()> {
        values.clear();
        match self {
            Self::Compacted => compacted_row::decode_into(bytes, fields, values),
            Self::Indexed => indexed_row::decode_into(bytes, fields, values),
            Self::Aligned => aligned_row::decode_into(bytes, fields, values),
        }
    }
}

/// Checks the number of values against the fields.
pub(crate) fn check_count<F: Fields + ?Sized>(values: &[Value<'_>], fields: &F) -> Result<()> {
    if values.len() == fields.count() {
        return Ok(());
    }
    Err(FormatError::invalid(format!(
        "{} values for a row of {} fields",
        values.len(),
        fields.count()
    )))
}

/// Whether bit `index` of a bit set is 1 (= null, where it is about nulls).
pub(crate) fn bit(bits: &[u8], index: usize) -> bool {
    bits[index / 8] & (1 << (index % 8)) != 0
}

/// Sets bit `index` of a bit set.
pub(crate) fn set_bit(bits: &mut [u8], index: usize) {
    bits[index / 8] |= 1 << (index % 8);
}

/// Appends the null bits of a row, `ceil(n/8)` bytes.
pub(crate) fn put_null_bits(values: &[Value<'_>], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len().div_ceil(8), 0);
    for (index, value) in values.iter().enumerate() {
        if value.is_null() {
            set_bit(&mut out[start..], index);
        }
    }
}

/// Checks that a length or offset fits the signed 32 bits of the formats.
pub(crate) fn length_u32(length: usize) -> Result<u32> {
    match i32::try_from(length) {
        Ok(length) => Ok(length as u32),
        Err(_) => Err(FormatError::LimitExceeded {
            what: "length in bytes of a row or value",
            actual: length as u64,
            limit: i32::MAX as u64,
        }),
    }
}

#[cfg(test)]
mod tests;
