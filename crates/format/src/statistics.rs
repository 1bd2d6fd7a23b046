//! Column statistics of a batch (formats.md §2.1): least and greatest value and
//! the number of nulls of some columns.
//!
//! ```text
//! version u8 = 1 | N i16 | N × position i16 | N × null count i32
//! | size i32, row of the minima | size i32, row of the maxima
//! ```
//!
//! The rows are aligned rows (formats.md §4.3). Writers are trusted with the
//! values, not with the bytes.

use mainstem_types::DataType;

use crate::aligned_row;
use crate::binary_slot::SlotReader;
use crate::byte_reader::ByteReader;
use crate::little_endian::{i16_at, i32_at};
use crate::row::{RowFormat, bit};
use crate::value::Value;
use crate::{FormatError, Result};

const VERSION: u8 = 1;

/// A statistics block whose parts lie within it; values are decoded on demand.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    positions: &'a [u8],
    null_counts: &'a [u8],
    min: &'a [u8],
    max: &'a [u8],
}

impl<'a> Statistics<'a> {
    /// Reads the block of a batch. `None` if it is empty or has no columns:
    /// there are no statistics then.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] if the block is cut or of another version.
    pub fn parse(block: &'a [u8]) -> Result<Option<Self>> {
        if block.is_empty() {
            return Ok(None);
        }
        let mut reader = ByteReader::new(block);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(FormatError::invalid(format!(
                "statistics of version {version}"
            )));
        }
        let column_count = reader.i16()?;
        let Ok(column_count) = usize::try_from(column_count) else {
            return Err(FormatError::invalid(format!(
                "statistics of {column_count} columns"
            )));
        };
        if column_count == 0 {
            return Ok(None);
        }
        let statistics = Self {
            positions: reader.take(2 * column_count)?,
            null_counts: reader.take(4 * column_count)?,
            min: reader.prefixed_i32()?,
            max: reader.prefixed_i32()?,
        };
        match reader.remaining() {
            0 => Ok(Some(statistics)),
            extra => Err(FormatError::invalid(format!(
                "{extra} bytes behind statistics"
            ))),
        }
    }

    /// Number of columns with statistics, at least 1.
    pub fn column_count(&self) -> usize {
        self.positions.len() / 2
    }

    /// Index within the block of the column at `position` of the batch's schema.
    pub fn find(&self, position: usize) -> Option<usize> {
        let is_it = |index: &usize| usize::try_from(self.position(*index)) == Ok(position);
        // With statistics of every column, they are in schema order.
        if position < self.column_count() && is_it(&position) {
            return Some(position);
        }
        (0..self.column_count()).find(is_it)
    }

    /// Position in the batch's schema of the column at `index` of the block.
    pub fn position(&self, index: usize) -> i16 {
        i16_at(self.positions, 2 * index)
    }

    /// Nulls of the column at `index`; `None` if unknown.
    pub fn null_count(&self, index: usize) -> Option<i32> {
        Some(i32_at(self.null_counts, 4 * index)).filter(|count| *count >= 0)
    }

    /// Least value of the column at `index`; null if there is none.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] if it does not lie within the block, or is no
    /// value of the type.
    pub fn min(&self, index: usize, data_type: &DataType) -> Result<Value<'a>> {
        self.value(self.min, index, data_type)
    }

    /// Greatest value of the column at `index`; null if there is none.
    ///
    /// # Errors
    /// As [`Statistics::min`].
    pub fn max(&self, index: usize, data_type: &DataType) -> Result<Value<'a>> {
        self.value(self.max, index, data_type)
    }

    /// One value of an aligned row, without decoding the others.
    fn value(&self, row: &'a [u8], index: usize, data_type: &DataType) -> Result<Value<'a>> {
        // A header byte and the null bits, in words of 64 bits; then the slots.
        let slots = (8 + self.column_count()).div_ceil(64) * 8;
        if row.len() < slots {
            return Err(FormatError::invalid(format!(
                "statistics row of {} bytes",
                row.len()
            )));
        }
        if bit(row, 8 + index) {
            return Ok(Value::Null);
        }
        SlotReader::new(row, RowFormat::Aligned).value(slots + 8 * index, data_type)
    }
}

/// Statistics of one column, to be written.
#[derive(Clone, Debug)]
pub struct ColumnStatistics<'a> {
    /// Position in the full schema.
    pub position: i16,
    /// Type of the column.
    pub data_type: &'a DataType,
    /// Nulls.
    pub null_count: i32,
    /// Least value; null if all values are.
    pub min: Value<'a>,
    /// Greatest value; likewise.
    pub max: Value<'a>,
}

/// The block for some columns; empty without columns, which is how a batch says
/// that it has no statistics.
///
/// # Errors
/// [`FormatError::Invalid`] if a value is not of its column's type, or there are
/// more columns than a block can hold.
pub fn encode_statistics(columns: &[ColumnStatistics<'_>]) -> Result<Vec<u8>> {
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let column_count = i16::try_from(columns.len())
        .map_err(|_| FormatError::invalid(format!("statistics of {} columns", columns.len())))?;
    let mut out = vec![VERSION];
    out.extend_from_slice(&column_count.to_le_bytes());
    for column in columns {
        out.extend_from_slice(&column.position.to_le_bytes());
    }
    for column in columns {
        out.extend_from_slice(&column.null_count.to_le_bytes());
    }
    let types: Vec<_> = columns
        .iter()
        .map(|column| column.data_type.clone())
        .collect();
    push_row(columns.iter().map(|column| &column.min), &types, &mut out)?;
    push_row(columns.iter().map(|column| &column.max), &types, &mut out)?;
    Ok(out)
}

/// Appends a row with its size in front.
fn push_row<'v, 'd: 'v>(
    values: impl ExactSizeIterator<Item = &'v Value<'d>>,
    types: &[DataType],
    out: &mut Vec<u8>,
) -> Result<()> {
    let size_at = out.len();
    out.extend_from_slice(&[0; 4]);
    aligned_row::encode_values(values, types, out)?;
    let size = i32::try_from(out.len() - size_at - 4)
        .map_err(|_| FormatError::invalid("statistics row of more than 2 GiB"))?;
    out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
