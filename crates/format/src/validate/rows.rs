//! Whether an INDEXED or COMPACTED batch has as many records as it says, and
//! each could be a row of its schema (formats.md §1.8).

use super::{LAST_CHANGE_TYPE, unknown_change_type};
use crate::little_endian::i32_at;
use crate::log_batch::LogBatch;
use crate::schema_layout::SchemaLayout;
use crate::{FormatError, Result};

pub(super) fn check(batch: &LogBatch, layout: &SchemaLayout, indexed: bool) -> Result<()> {
    let header = batch.header();
    let mut rest = &batch.bytes()[header.records_start()..];
    let min_row_len = layout.min_row_len(indexed);
    let not_null = Some(layout.not_null_bits()).filter(|bits| bits.iter().any(|byte| *byte != 0));
    for record in 0..header.record_count {
        let (change_type, row) = split_record(&mut rest)
            .filter(|(_, row)| row.len() >= min_row_len)
            .ok_or_else(|| {
                FormatError::invalid(format!(
                    "record {record} of {} is no row of schema {}",
                    header.record_count, header.schema_id
                ))
            })?;
        if change_type > LAST_CHANGE_TYPE {
            return Err(unknown_change_type(change_type));
        }
        // Both formats begin with the null bits.
        let null = not_null.is_some_and(|bits| bits.iter().zip(row).any(|(b, r)| b & r != 0));
        if null {
            return Err(FormatError::invalid(format!(
                "null in a NOT NULL column of record {record}"
            )));
        }
    }
    if !rest.is_empty() {
        return Err(FormatError::invalid(format!(
            "{} bytes behind the {} records of a batch",
            rest.len(),
            header.record_count
        )));
    }
    Ok(())
}

/// Takes a record off the front: `i32` length of what follows, change type, row.
fn split_record<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    if rest.len() < 5 {
        return None;
    }
    let len = usize::try_from(i32_at(rest, 0)).ok()?;
    let record = rest[4..].get(..len)?;
    *rest = &rest[4 + len..];
    record
        .split_first()
        .map(|(change_type, row)| (*change_type, row))
}
