//! The statistics block of a batch (formats.md §2.1), gathered from its columns.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, ArrowNativeTypeOp, BooleanArray, PrimitiveArray, RecordBatch, downcast_primitive_array,
};
use mainstem_types::{DataType, TypeKind};

use crate::statistics::{ColumnStatistics, encode_statistics};
use crate::value::Value;
use crate::value_reader::ColumnReader;
use crate::{FormatError, Result};

/// Appends the block of some columns of a batch; returns its size in bytes.
///
/// Errors: a column that does not exist, or of a type without order.
pub(super) fn append(
    batch: &RecordBatch,
    types: &[DataType],
    columns: &[usize],
    out: &mut Vec<u8>,
) -> Result<usize> {
    let gathered = columns
        .iter()
        .map(|&position| gather(batch, types, position));
    let block = encode_statistics(&gathered.collect::<Result<Vec<_>>>()?)?;
    out.extend_from_slice(&block);
    Ok(block.len())
}

fn gather<'a>(
    batch: &'a RecordBatch,
    types: &'a [DataType],
    position: usize,
) -> Result<ColumnStatistics<'a>> {
    let (Some(array), Some(data_type)) = (batch.columns().get(position), types.get(position))
    else {
        return Err(FormatError::invalid(format!(
            "statistics of missing column {position}"
        )));
    };
    let (min, max) = extremes(array.as_ref(), data_type)?;
    Ok(ColumnStatistics {
        position: i16::try_from(position)
            .map_err(|_| FormatError::invalid(format!("statistics of column {position}")))?,
        data_type,
        // Rows of a batch are counted in 32 bits.
        null_count: array.null_count() as i32,
        min,
        max,
    })
}

/// Smallest and largest value; nulls where there is none, or none is known.
fn extremes<'a>(array: &'a dyn Array, data_type: &DataType) -> Result<(Value<'a>, Value<'a>)> {
    let unknown = Ok((Value::Null, Value::Null));
    match &data_type.kind {
        TypeKind::Binary { .. }
        | TypeKind::Bytes
        | TypeKind::Array(_)
        | TypeKind::Map { .. }
        | TypeKind::Row(_) => Err(FormatError::unsupported(format!(
            "statistics of type {:?}",
            data_type.kind
        ))),
        // Java keeps none of CHAR; neither side may come to rely on them.
        TypeKind::Char { .. } => unknown,
        TypeKind::String => {
            let values = || array.as_string::<i32>().iter().flatten();
            Ok((text(values().min()), text(values().max())))
        }
        _ => {
            let rows = downcast_primitive_array! {
                array => extreme_rows(array),
                _ => extreme_boolean_rows(array.as_boolean()),
            };
            let Some((min, max)) = rows else {
                return unknown;
            };
            let reader = ColumnReader::new(array, data_type)?;
            let (min, max) = (reader.value(min)?, reader.value(max)?);
            // NaN has no place among the numbers, so that anything may match.
            // It lies at an end of the order that found it.
            if is_nan(&min) || is_nan(&max) {
                unknown
            } else {
                Ok((min, max))
            }
        }
    }
}

fn text(value: Option<&str>) -> Value<'_> {
    value.map_or(Value::Null, Value::from)
}

fn is_nan(value: &Value<'_>) -> bool {
    match value {
        Value::Float(value) => value.is_nan(),
        Value::Double(value) => value.is_nan(),
        _ => false,
    }
}

/// Rows of the smallest and the largest value that are not null.
fn extreme_rows<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<(usize, usize)> {
    let values = array.values();
    let mut rows = (0..values.len()).filter(|&row| array.is_valid(row));
    let first = rows.next()?;
    Some(rows.fold((first, first), |(min, max), row| {
        if values[row].is_lt(values[min]) {
            (row, max)
        } else if values[row].is_gt(values[max]) {
            (min, row)
        } else {
            (min, max)
        }
    }))
}

fn extreme_boolean_rows(array: &BooleanArray) -> Option<(usize, usize)> {
    let first = |wanted| array.iter().position(|value| value == Some(wanted));
    match (first(false), first(true)) {
        (Some(min), Some(max)) => Some((min, max)),
        (only, None) | (None, only) => only.map(|row| (row, row)),
    }
}
