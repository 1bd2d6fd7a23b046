//! The changelog as changes of a store: keys are not in it, they are encoded anew
//! from the rows (formats.md §4.8).

use mainstem_format::LogBatch;

use crate::auto_increment::NumberRange;
use crate::changelog::{ChangeType, ChangelogReader};
use crate::table::AutoIncrementColumn;
use crate::{KvError, KvTable, Result};

/// Where the changelog of a bucket can be read.
pub trait ChangelogSource {
    /// First offset there is.
    fn start_offset(&self) -> i64;

    /// Whether all that was ever committed is there, as far as is known. If not, the
    /// store may be the only good copy of the rows.
    fn is_whole(&self) -> bool;

    /// Exclusive end of what is committed.
    fn committed_offset(&self) -> i64;

    /// Exclusive end of what is appended.
    fn end_offset(&self) -> i64;

    /// Visits the batches from the one that holds `from` on, up to the end that
    /// [`end_offset`](Self::end_offset) says. Their checksums are verified.
    ///
    /// # Errors
    /// [`KvError::Storage`], [`KvError::Damaged`], and what `visit` returns.
    fn read(&self, from: i64, visit: &mut dyn FnMut(&LogBatch) -> Result<()>) -> Result<()>;
}

/// One change of the store.
pub(crate) enum Change<'a> {
    /// The key has this row, in that schema.
    Put(&'a [u8], i16, &'a [u8]),
    /// The key is gone.
    Delete(&'a [u8]),
}

/// Reads changelog batches as changes.
pub(crate) struct Replay<'t> {
    table: &'t KvTable,
    reader: ChangelogReader<'t>,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl<'t> Replay<'t> {
    pub fn new(table: &'t KvTable) -> Self {
        Self {
            table,
            reader: ChangelogReader::new(table),
            key: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Visits the changes of a batch, records below `from` left out. Returns by how
    /// many the rows have become more, and takes note of the numbers they were
    /// given.
    pub fn read(
        &mut self,
        batch: &LogBatch,
        from: i64,
        numbers: &mut Option<NumberRange>,
        apply: &mut dyn FnMut(Change<'_>),
    ) -> Result<i64> {
        let table = self.table;
        let (key, row) = (&mut self.key, &mut self.row);
        let schema_id = batch.header().schema_id;
        let columns = table
            .schema(schema_id)
            .map_err(|error| KvError::Damaged(format!("changelog: {error}")))?
            .columns
            .as_slice();
        let mut rows = 0;
        self.reader.read(batch, &mut |offset, change, values| {
            if offset < from || change == ChangeType::UpdateBefore {
                return Ok(());
            }
            let damaged = |error: &dyn std::fmt::Display| {
                KvError::Damaged(format!("record {offset}: {error}"))
            };
            key.clear();
            table
                .key()
                .encode_row(values, key)
                .map_err(|error| damaged(&error))?;
            match change {
                ChangeType::Delete => {
                    rows -= 1;
                    apply(Change::Delete(key));
                }
                ChangeType::Insert | ChangeType::UpdateAfter => {
                    if change == ChangeType::Insert {
                        rows += 1;
                        note_number(table.auto_increment(), values, numbers);
                    }
                    row.clear();
                    table
                        .row_format()
                        .encode(values, columns, row)
                        .map_err(|error| damaged(&error))?;
                    apply(Change::Put(key, schema_id, row));
                }
                ChangeType::Append | ChangeType::UpdateBefore => {
                    return Err(damaged(&"an append in a changelog"));
                }
            }
            Ok(())
        })?;
        Ok(rows)
    }
}

fn note_number(
    column: Option<&AutoIncrementColumn>,
    values: &[mainstem_format::Value<'_>],
    numbers: &mut Option<NumberRange>,
) {
    if let (Some(column), Some(range)) = (column, numbers)
        && let Some(number) = values
            .get(column.position)
            .and_then(AutoIncrementColumn::number)
    {
        range.used(number);
    }
}
