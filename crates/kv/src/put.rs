//! What one KV batch does (tables.md §4.1–4.3, cluster.md §5.1): a function of the
//! batch, the rows that are stored, and the rules of the table.
//!
//! Nothing is applied here. The caller appends the changelog and then applies the
//! changes; if the log refuses, both are dropped.

use bytes::Bytes;
use mainstem_format::value_batch::split_stored_value;
use mainstem_format::{KvBatch, Value};
use mainstem_types::{ChangelogImage, DeleteBehavior};

use crate::auto_increment::Numbers;
use crate::changelog::{ChangeType, ChangelogBuilder};
use crate::pending::{Changes, Known, Pending};
use crate::{KvError, KvStore, KvTable, Merged, Reach, Result, RowMerger};

/// What a request asks for besides the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutMode<'a> {
    /// Positions of the columns to write, as the client sent them; empty = all.
    pub target_columns: &'a [i32],
    /// Whether rows replace what is stored, whatever the merge engine and the
    /// delete behaviour say.
    pub overwrite: bool,
}

/// What a batch does.
#[derive(Debug)]
pub struct Prepared {
    /// One log batch, with the writer and the sequence of the KV batch.
    pub changelog: Bytes,
    /// What happens to the rows.
    pub changes: Changes,
    /// Records of the changelog.
    pub record_count: u64,
}

/// Where the stored rows are.
pub(crate) struct Stored<'a> {
    pub pending: &'a Pending,
    pub store: &'a dyn KvStore,
}

/// Works out what a batch does.
///
/// # Errors
/// The batch is refused as a whole.
pub(crate) fn prepare(
    table: &KvTable,
    stored: &Stored<'_>,
    batch: &KvBatch,
    mode: PutMode<'_>,
    mut numbers: Option<Numbers<'_>>,
) -> Result<Prepared> {
    let schema_id = batch.schema_id();
    table.schema(schema_id)?;
    let merger = table.rules().merger(mode.target_columns, mode.overwrite)?;
    let deletes = match mode.overwrite {
        true => DeleteBehavior::Allow,
        false => table.deletes(),
    };
    // Such a put need not know what it replaces, and its changelog does not say.
    let blind = table.image() == ChangelogImage::Wal
        && table.auto_increment().is_none()
        && merger.is_plain();
    let old = match blind {
        true => OldRows::default(),
        false => OldRows::look_up(stored, batch)?,
    };
    let mut put = Put {
        table,
        merger: &*merger,
        schema_id,
        changelog: table.builder(batch.writer_id(), batch.batch_sequence())?,
        changes: Changes::default(),
        record_count: 0,
        scratch: Vec::new(),
    };
    for (position, record) in batch.records().enumerate() {
        let hash = stored.pending.hash(record.key);
        match (record.row, deletes) {
            (None, DeleteBehavior::Ignore) => {}
            (None, DeleteBehavior::Disable) => return Err(KvError::DeletionDisabled),
            (Some(row), _) if blind => put.replace(hash, record.key, row)?,
            (row, _) => {
                put.record(hash, record.key, row, old.get(position), &mut numbers)?;
            }
        }
    }
    let (changelog, builder) =
        put.changelog
            .finish(table, batch.writer_id(), batch.batch_sequence())?;
    if let Some(builder) = builder {
        table.keep_builder(builder);
    }
    Ok(Prepared {
        changelog,
        changes: put.changes,
        record_count: put.record_count,
    })
}

/// The stored rows of all keys of a batch, looked up at once.
#[derive(Default)]
struct OldRows<'p> {
    rows: Vec<OldRow<'p>>,
    /// Copies of what the store has.
    copies: Vec<u8>,
}

#[derive(Clone)]
enum OldRow<'p> {
    None,
    Pending(&'p [u8]),
    Copied(std::ops::Range<usize>),
}

impl<'p> OldRows<'p> {
    fn look_up(stored: &Stored<'p>, batch: &KvBatch) -> Result<Self> {
        let mut rows = Vec::with_capacity(batch.record_count());
        let mut asked: Vec<&[u8]> = Vec::with_capacity(batch.record_count());
        let mut positions = Vec::with_capacity(batch.record_count());
        for record in batch.records() {
            let known = match stored.pending.is_empty() {
                true => Known::Nothing,
                false => stored
                    .pending
                    .get(stored.pending.hash(record.key), record.key),
            };
            if known == Known::Nothing {
                positions.push(rows.len());
                asked.push(record.key);
            }
            rows.push(known.value().map_or(OldRow::None, OldRow::Pending));
        }
        let mut copies = Vec::new();
        stored
            .store
            .multi_get(&asked, Reach::Disk, &mut |index, value| {
                if let Some(value) = value {
                    let start = copies.len();
                    copies.extend_from_slice(value);
                    rows[positions[index]] = OldRow::Copied(start..copies.len());
                }
            })?;
        Ok(Self { rows, copies })
    }

    /// The row of the record at a position.
    fn get(&self, position: usize) -> Option<&[u8]> {
        match self.rows.get(position)? {
            OldRow::None => None,
            OldRow::Pending(value) => Some(value),
            OldRow::Copied(range) => Some(&self.copies[range.clone()]),
        }
    }
}

struct Put<'a> {
    table: &'a KvTable,
    merger: &'a dyn RowMerger,
    schema_id: i16,
    changelog: ChangelogBuilder,
    changes: Changes,
    record_count: u64,
    scratch: Vec<u8>,
}

impl Put<'_> {
    fn log(&mut self, change: ChangeType, row: &[Value<'_>]) -> Result<()> {
        self.record_count += 1;
        self.changelog.append(self.table, change, row)
    }

    /// An upsert that does not look at the row before.
    fn replace(&mut self, hash: u64, key: &[u8], row: &[u8]) -> Result<()> {
        let values = self.table.decode(self.schema_id, row)?;
        self.log(ChangeType::UpdateAfter, &values)?;
        self.changes.put(hash, key, self.schema_id, row);
        Ok(())
    }

    /// One record; `old` is the stored row, unless this batch changed it.
    fn record(
        &mut self,
        hash: u64,
        key: &[u8],
        row: Option<&[u8]>,
        old: Option<&[u8]>,
        numbers: &mut Option<Numbers<'_>>,
    ) -> Result<()> {
        let changed;
        let old = match self.changes.get(hash, key) {
            Known::Nothing => old,
            Known::Deleted => None,
            Known::Value(value) => {
                changed = value.to_vec();
                Some(changed.as_slice())
            }
        };
        let old = match old {
            Some(value) => Some(self.decode_stored(value)?),
            None => None,
        };
        match (row, &old) {
            (None, None) => Ok(()),
            (None, Some(old)) => self.delete(hash, key, old),
            (Some(row), None) => self.insert(hash, key, row, numbers),
            (Some(row), Some(old)) => self.update(hash, key, row, old),
        }
    }

    fn decode_stored<'v>(&self, value: &'v [u8]) -> Result<Vec<Value<'v>>> {
        let damaged = |error: &dyn std::fmt::Display| KvError::Damaged(error.to_string());
        let (schema_id, row) = split_stored_value(value).map_err(|error| damaged(&error))?;
        self.table
            .decode(schema_id, row)
            .map_err(|error| damaged(&error))
    }

    fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        row: &[u8],
        numbers: &mut Option<Numbers<'_>>,
    ) -> Result<()> {
        let sent = self.table.decode(self.schema_id, row)?;
        let merged = self.merger.upsert(None, &sent)?;
        let (mut values, mut as_sent) = match merged {
            Merged::Unchanged | Merged::Removed => return Ok(()),
            Merged::AsSent => (sent, true),
            Merged::Row(values) => (values, false),
        };
        if let Some(numbers) = numbers {
            let column = numbers.column;
            values[column.position] = column.value(numbers.next()?);
            as_sent = false;
        }
        self.log(ChangeType::Insert, &values)?;
        self.changes.count_row(1);
        self.store(hash, key, &values, as_sent.then_some(row))
    }

    fn update(&mut self, hash: u64, key: &[u8], row: &[u8], old: &[Value<'_>]) -> Result<()> {
        let sent = self.table.decode(self.schema_id, row)?;
        let (values, as_sent) = match self.merger.upsert(Some(old), &sent)? {
            Merged::Unchanged => return Ok(()),
            Merged::Removed => return self.remove(hash, key, old),
            Merged::AsSent => (sent, true),
            Merged::Row(values) => (values, false),
        };
        self.log_update(old, &values)?;
        self.store(hash, key, &values, as_sent.then_some(row))
    }

    fn delete(&mut self, hash: u64, key: &[u8], old: &[Value<'_>]) -> Result<()> {
        match self.merger.delete(old)? {
            Merged::Unchanged | Merged::AsSent => Ok(()),
            Merged::Removed => self.remove(hash, key, old),
            Merged::Row(values) => {
                self.log_update(old, &values)?;
                self.store(hash, key, &values, None)
            }
        }
    }

    fn remove(&mut self, hash: u64, key: &[u8], old: &[Value<'_>]) -> Result<()> {
        self.log(ChangeType::Delete, old)?;
        self.changes.count_row(-1);
        self.changes.delete(hash, key);
        Ok(())
    }

    fn log_update(&mut self, old: &[Value<'_>], new: &[Value<'_>]) -> Result<()> {
        if self.table.image() == ChangelogImage::Full {
            self.log(ChangeType::UpdateBefore, old)?;
        }
        self.log(ChangeType::UpdateAfter, new)
    }

    /// Stores a row: the bytes that were sent, with their schema, or the values with
    /// the latest one.
    fn store(
        &mut self,
        hash: u64,
        key: &[u8],
        values: &[Value<'_>],
        sent: Option<&[u8]>,
    ) -> Result<()> {
        if let Some(row) = sent {
            self.changes.put(hash, key, self.schema_id, row);
            return Ok(());
        }
        self.scratch.clear();
        self.table.encode(values, &mut self.scratch)?;
        self.changes
            .put(hash, key, self.table.latest_schema_id(), &self.scratch);
        Ok(())
    }
}
