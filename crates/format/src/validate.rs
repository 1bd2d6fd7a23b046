//! What a leader checks before it appends the records that a client sent for
//! one bucket (wire.md §4.8, tables.md §3, behaviour.md §8).
//!
//! | Finding | Error | Wire code |
//! |---|---|---|
//! | checksum, length, magic, a negative count, no whole batch | [`FormatError::Corrupt`] | 14 |
//! | an undamaged batch that the table cannot hold | [`FormatError::Invalid`] | 15 |
//!
//! The checksum is computed once, and is the only pass over the bytes of an
//! ARROW batch: the rest looks at metadata, O(columns). INDEXED and COMPACTED
//! batches are walked record by record, which reads a few bytes of each.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_types::LogFormat;

use crate::log_batch::{Batches, LogBatch};
use crate::schema_layout::SchemaLayout;
use crate::{FormatError, Result};

mod arrow;
mod rows;

/// Checks the batches of one bucket in a produce request and returns them. A
/// cut batch behind the whole ones is left out silently.
///
/// `schemas` finds the layout of a schema id of the table.
///
/// # Errors
/// See the module; nothing of the records may be stored then.
pub fn check_append(
    records: &Bytes,
    log_format: LogFormat,
    schemas: &dyn Fn(i16) -> Option<Arc<SchemaLayout>>,
) -> Result<Vec<LogBatch>> {
    let batches = check_integrity(records)?;
    for batch in &batches {
        check_fits(batch, log_format, schemas)?;
    }
    if batches.is_empty() {
        return Err(FormatError::corrupt(format!(
            "no whole batch in {} bytes of records",
            records.len()
        )));
    }
    Ok(batches)
}

/// Checks length fields, counts and checksums of batches back to back, which is
/// all that a follower or a recovery asks of them, and returns those in front
/// of the end or of a cut batch.
///
/// # Errors
/// [`FormatError::Corrupt`] if any whole batch is damaged.
pub fn check_integrity(records: &Bytes) -> Result<Vec<LogBatch>> {
    // Clients send one batch.
    let mut batches = Vec::with_capacity(1);
    for batch in Batches::new(records) {
        let batch = batch?;
        batch.verify_crc()?;
        batches.push(batch);
    }
    Ok(batches)
}

fn check_fits(
    batch: &LogBatch,
    log_format: LogFormat,
    schemas: &dyn Fn(i16) -> Option<Arc<SchemaLayout>>,
) -> Result<()> {
    let header = batch.header();
    let layout = schemas(header.schema_id)
        .ok_or_else(|| FormatError::invalid(format!("unknown schema id {}", header.schema_id)))?;
    if header.record_count == 0 {
        if header.is_header_only() {
            return Ok(());
        }
        return Err(FormatError::invalid(
            "bytes behind the header of a batch without records",
        ));
    }
    match log_format {
        LogFormat::Arrow => arrow::check(batch, &layout),
        LogFormat::Indexed => rows::check(batch, &layout, true),
        LogFormat::Compacted => rows::check(batch, &layout, false),
    }
}

/// Codes of change types end here (formats.md §1.4). Readers fail at others.
const LAST_CHANGE_TYPE: u8 = 4;

fn unknown_change_type(code: u8) -> FormatError {
    FormatError::invalid(format!("unknown change type {code}"))
}

#[cfg(test)]
mod tests;
