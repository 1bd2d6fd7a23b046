//! Whether an INDEXED or COMPACTED batch has as many records as it says, and
//! each is a row of its schema (formats.md §1.8, §4.1, §4.2).
//!
//! The two row formats carry no mark, so a batch of one is told from the other
//! only by walking over the columns of each row: it has to end where the record
//! ends. Nothing is decoded beyond lengths.

use mainstem_types::TypeKind;

use super::{LAST_CHANGE_TYPE, unknown_change_type};
use crate::byte_reader::ByteReader;
use crate::log_batch::LogBatch;
use crate::row::bit;
use crate::schema_layout::SchemaLayout;
use crate::value::{COMPACT_DECIMAL_PRECISION_MAX, has_variable_length, is_compact_timestamp};
use crate::{FormatError, Result};

pub(super) fn check(batch: &LogBatch, layout: &SchemaLayout, indexed: bool) -> Result<()> {
    let header = batch.header();
    let mut records = ByteReader::new(&batch.bytes()[header.records_start()..]);
    for record in 0..header.record_count {
        let mut row = ByteReader::new(records.prefixed_i32()?);
        let change_type = row.u8()?;
        if change_type > LAST_CHANGE_TYPE {
            return Err(unknown_change_type(change_type));
        }
        // Both formats begin with the null bits.
        let null_bits = row.take(layout.not_null_bits().len())?;
        if null_bits
            .iter()
            .zip(layout.not_null_bits())
            .any(|(null, not_null)| null & not_null != 0)
        {
            return Err(FormatError::invalid(format!(
                "null in a NOT NULL column of record {record}"
            )));
        }
        if indexed {
            skip_indexed(&mut row, null_bits, layout)?;
        } else {
            skip_compacted(&mut row, null_bits, layout)?;
        }
        if row.remaining() > 0 {
            return Err(FormatError::invalid(format!(
                "record {record} is longer than a row of schema {}",
                header.schema_id
            )));
        }
    }
    match records.remaining() {
        0 => Ok(()),
        extra => Err(FormatError::invalid(format!(
            "{extra} bytes behind the {} records of a batch",
            header.record_count
        ))),
    }
}

fn skip_indexed(row: &mut ByteReader<'_>, null_bits: &[u8], layout: &SchemaLayout) -> Result<()> {
    let mut lengths = ByteReader::new(row.take(4 * layout.variable_column_count())?);
    for (index, column) in layout.columns().iter().enumerate() {
        if bit(null_bits, index) {
            continue;
        }
        let kind = &column.data_type.kind;
        let len = if has_variable_length(kind) {
            let length = lengths.i32()?;
            usize::try_from(length)
                .map_err(|_| FormatError::invalid(format!("column of length {length}")))?
        } else {
            indexed_width(kind)
        };
        row.take(len)?;
    }
    Ok(())
}

/// Bytes of a value of fixed width in an indexed row.
fn indexed_width(kind: &TypeKind) -> usize {
    match kind {
        TypeKind::Boolean | TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::Int | TypeKind::Date | TypeKind::Time { .. } | TypeKind::Float => 4,
        TypeKind::Char { length } | TypeKind::Binary { length } => *length as usize,
        TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision }
            if !is_compact_timestamp(*precision) =>
        {
            12
        }
        _ => 8,
    }
}

fn skip_compacted(row: &mut ByteReader<'_>, null_bits: &[u8], layout: &SchemaLayout) -> Result<()> {
    for (index, column) in layout.columns().iter().enumerate() {
        if bit(null_bits, index) {
            continue;
        }
        match &column.data_type.kind {
            TypeKind::Boolean | TypeKind::TinyInt => {
                row.take(1)?;
            }
            TypeKind::SmallInt => {
                row.take(2)?;
            }
            TypeKind::Float => {
                row.take(4)?;
            }
            TypeKind::Double => {
                row.take(8)?;
            }
            TypeKind::Int | TypeKind::Date | TypeKind::Time { .. } => {
                row.uvar32()?;
            }
            TypeKind::BigInt => {
                row.uvar64()?;
            }
            TypeKind::Decimal { precision, .. } if *precision <= COMPACT_DECIMAL_PRECISION_MAX => {
                row.uvar64()?;
            }
            TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
                row.uvar64()?;
                if !is_compact_timestamp(*precision) {
                    row.uvar32()?;
                }
            }
            TypeKind::Char { .. }
            | TypeKind::String
            | TypeKind::Binary { .. }
            | TypeKind::Bytes
            | TypeKind::Decimal { .. }
            | TypeKind::Array(_)
            | TypeKind::Map { .. }
            | TypeKind::Row(_) => {
                row.prefixed_uvar32()?;
            }
        }
    }
    Ok(())
}
