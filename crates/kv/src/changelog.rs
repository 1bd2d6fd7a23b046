//! The changelog of a table: what puts append to the log of their bucket, and
//! what a store is built from (formats.md §1.9, tables.md §4.2–4.3).

use bytes::Bytes;
use mainstem_format::log_batch_builder::BatchSpec;
use mainstem_format::row_batch::records;
use mainstem_format::{
    ArrowBatchDecoder, ArrowBatchEncoder, Columns, EncodeOptions, LogBatch, RowBatchBuilder,
    RowFormat, RowsToBatch, Value, column_readers,
};

use crate::{KvError, KvTable, Result};

/// What a changelog record says of its row; the codes of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChangeType {
    /// `+A`: a row of a log table.
    Append = 0,
    /// `+I`: a row that was not there before.
    Insert = 1,
    /// `-U`: the row before an update.
    UpdateBefore = 2,
    /// `+U`: the row after an update.
    UpdateAfter = 3,
    /// `-D`: the row that was deleted.
    Delete = 4,
}

impl ChangeType {
    /// The type of a code.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Append,
            1 => Self::Insert,
            2 => Self::UpdateBefore,
            3 => Self::UpdateAfter,
            4 => Self::Delete,
            _ => return None,
        })
    }
}

/// Builds changelog batches, one after the other.
pub(crate) struct ChangelogBuilder {
    rows: Rows,
}

enum Rows {
    Arrow {
        encoder: Box<ArrowBatchEncoder>,
        rows: RowsToBatch,
        change_types: Vec<u8>,
    },
    Plain {
        format: RowFormat,
        batch: RowBatchBuilder,
    },
}

impl std::fmt::Debug for ChangelogBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChangelogBuilder").finish()
    }
}

impl ChangelogBuilder {
    pub fn new(table: &KvTable, writer_id: i64, batch_sequence: i32) -> Result<Self> {
        let rows = match RowFormat::of_log(table.log_format()) {
            None => Rows::Arrow {
                encoder: Box::new(ArrowBatchEncoder::new(
                    table.latest_schema(),
                    table.compression(),
                )?),
                rows: RowsToBatch::new(table.latest_schema(), 0),
                change_types: Vec::new(),
            },
            Some(format) => Rows::Plain {
                format,
                batch: RowBatchBuilder::new(
                    table.latest_schema_id(),
                    writer_id,
                    batch_sequence,
                    false,
                ),
            },
        };
        Ok(Self { rows })
    }

    /// Whether it can build another batch, of any writer.
    pub fn is_reusable(&self) -> bool {
        matches!(self.rows, Rows::Arrow { .. })
    }

    /// Adds a record; the row has the latest schema.
    pub fn append(&mut self, table: &KvTable, change: ChangeType, row: &[Value<'_>]) -> Result<()> {
        match &mut self.rows {
            Rows::Arrow {
                rows, change_types, ..
            } => {
                rows.append(row)?;
                change_types.push(change as u8);
            }
            Rows::Plain { format, batch } => {
                let columns = &table.latest_schema().columns;
                for (value, column) in row.iter().zip(columns) {
                    if value.is_null() && !column.data_type.nullable {
                        let name = &column.name;
                        return Err(KvError::Corrupt(format!(
                            "null in NOT NULL column `{name}`"
                        )));
                    }
                }
                batch.append(change as u8, |out| {
                    format.encode(row, columns.as_slice(), out)
                })?;
            }
        }
        Ok(())
    }

    /// The batch, and the builder with nothing in it if it is of further use. A
    /// batch without records still takes an offset, and keeps its writer's sequence.
    pub fn finish(
        self,
        table: &KvTable,
        writer_id: i64,
        batch_sequence: i32,
    ) -> Result<(Bytes, Option<Self>)> {
        let schema_id = table.latest_schema_id();
        let empty = || {
            let spec = BatchSpec {
                schema_id,
                append_only: false,
                writer_id,
                batch_sequence,
                ..BatchSpec::default()
            };
            Bytes::from(spec.empty())
        };
        match self.rows {
            Rows::Arrow {
                mut encoder,
                mut rows,
                mut change_types,
            } => {
                let bytes = if rows.row_count() == 0 {
                    empty()
                } else {
                    let options = EncodeOptions {
                        schema_id,
                        writer_id,
                        batch_sequence,
                        ..EncodeOptions::default()
                    };
                    encoder.encode(&rows.finish()?, Some(&change_types), options)?
                };
                change_types.clear();
                let rows = Rows::Arrow {
                    encoder,
                    rows,
                    change_types,
                };
                Ok((bytes, Some(Self { rows })))
            }
            Rows::Plain { batch, .. } if batch.record_count() == 0 => Ok((empty(), None)),
            Rows::Plain { batch, .. } => Ok((batch.finish()?, None)),
        }
    }
}

/// Reads changelog batches, one after the other.
pub(crate) struct ChangelogReader<'t> {
    table: &'t KvTable,
    arrow: Vec<(i16, ArrowBatchDecoder)>,
}

impl<'t> ChangelogReader<'t> {
    pub fn new(table: &'t KvTable) -> Self {
        Self {
            table,
            arrow: Vec::new(),
        }
    }

    /// Visits the records of a batch in order: offset, change type, and the row in
    /// the batch's schema.
    pub fn read(
        &mut self,
        batch: &LogBatch,
        visit: &mut dyn FnMut(i64, ChangeType, &[Value<'_>]) -> Result<()>,
    ) -> Result<()> {
        let header = batch.header();
        if header.record_count == 0 {
            return Ok(());
        }
        let schema = self.table.schema(header.schema_id).map_err(damaged)?;
        let mut offset = header.base_offset;
        let mut visit = |code: u8, row: &[Value<'_>]| {
            let change = ChangeType::from_code(code)
                .ok_or_else(|| KvError::Damaged(format!("change type {code} at {offset}")))?;
            visit(offset, change, row)?;
            offset += 1;
            Ok::<(), KvError>(())
        };
        if let Some(format) = RowFormat::of_log(self.table.log_format()) {
            let mut values = Vec::new();
            for record in records(batch) {
                let record = record.map_err(damaged)?;
                format
                    .decode_into(record.row, schema.columns.as_slice(), &mut values)
                    .map_err(damaged)?;
                visit(record.change_type, &values)?;
            }
            return Ok(());
        }
        let position = match self
            .arrow
            .iter()
            .position(|(id, _)| *id == header.schema_id)
        {
            Some(position) => position,
            None => {
                let decoder = ArrowBatchDecoder::new(schema, Columns::All).map_err(damaged)?;
                self.arrow.push((header.schema_id, decoder));
                self.arrow.len() - 1
            }
        };
        let decoded = self.arrow[position]
            .1
            .decode_batch(batch)
            .map_err(damaged)?;
        let readers = column_readers(&decoded.batch, schema).map_err(damaged)?;
        let change_types = decoded.change_types.unwrap_or_default();
        let mut values = Vec::with_capacity(readers.len());
        for row in 0..decoded.record_count {
            values.clear();
            for reader in &readers {
                values.push(reader.value(row).map_err(damaged)?);
            }
            let code = change_types.get(row).copied().unwrap_or_default();
            visit(code, &values)?;
        }
        Ok(())
    }
}

fn damaged(error: impl std::fmt::Display) -> KvError {
    KvError::Damaged(format!("changelog: {error}"))
}
