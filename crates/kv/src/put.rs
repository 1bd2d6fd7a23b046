//! What one KV batch does (tables.md §4.1–4.3, cluster.md §5.1): a function of the
//! batch, the rows that are stored, and the rules of the table.
//!
//! Nothing is applied here. The caller appends the changelog and then applies the
//! changes; if the log refuses, both are dropped.

use std::ops::Range;

use bytes::Bytes;
use mainstem_format::value_batch::split_stored_value;
use mainstem_format::{KvBatch, KvRecord, Value};
use mainstem_types::{ChangelogImage, DeleteBehavior};

use crate::auto_increment::Numbers;
use crate::changelog::{ChangeType, ChangelogBuilder};
use crate::pending::{Changes, Known, Pending};
use crate::recent::Recent;
use crate::{KvError, KvStore, KvTable, Merged, Reach, Result, RowMerger};

/// Bytes of old rows, and of new ones, that a batch may come to: a small record may
/// change a large row, and aggregate to a larger one each time.
const CHANGES_BYTES_MAX: usize = 256 << 20;

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
    pub recent: &'a Recent,
    pub store: &'a dyn KvStore,
}

impl<'a> Stored<'a> {
    /// What is known of a key without asking the store.
    fn known(&self, hash: u64, key: &[u8]) -> Known<'a> {
        match self.pending.get(hash, key) {
            Known::Nothing => self.recent.get(hash, key),
            known => known,
        }
    }
}

/// A record of the batch, with the hash of its key.
struct Keyed<'b> {
    hash: u64,
    record: KvRecord<'b>,
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
    numbers: Option<Numbers<'_>>,
) -> Result<Prepared> {
    let schema_id = batch.schema_id();
    table.schema(schema_id)?;
    let merger = table.rules().merger(mode.target_columns, mode.overwrite)?;
    let deletes = match mode.overwrite {
        true => DeleteBehavior::Allow,
        false => table.deletes(),
    };
    // Such upserts need not know what they replace, and the changelog does not say.
    let blind = table.image() == ChangelogImage::Wal
        && table.auto_increment().is_none()
        && merger.is_plain();
    let mut records = Vec::with_capacity(batch.record_count());
    for record in batch.records() {
        match (record.row, deletes) {
            (None, DeleteBehavior::Ignore) => continue,
            (None, DeleteBehavior::Disable) => return Err(KvError::DeletionDisabled),
            _ => {}
        }
        records.push(Keyed {
            hash: stored.pending.hash(record.key),
            record,
        });
    }
    let old = OldRows::look_up(stored, &records, blind)?;
    let mut put = Put {
        table,
        merger: &*merger,
        schema_id,
        numbers,
        changelog: table.builder(batch.writer_id(), batch.batch_sequence())?,
        changes: Changes::with_capacity(records.len(), batch.size_bytes()),
        record_count: 0,
        scratch: Vec::new(),
        values: Vec::new(),
    };
    let mut sent = Vec::new();
    for (position, Keyed { hash, record }) in records.iter().enumerate() {
        let key = Key {
            hash: *hash,
            bytes: record.key,
        };
        if let Some(row) = record.row {
            table.decode_into(schema_id, row, &mut sent)?;
        }
        match record.row {
            Some(row) if blind => {
                put.log(ChangeType::UpdateAfter, &sent)?;
                put.changes.put(key.hash, key.bytes, schema_id, row);
            }
            row => put.record(key, row.map(|row| (row, &mut sent)), old.get(position))?,
        }
        // Each change may be as large as the largest row, however small its record.
        if put.changes.size_bytes() > CHANGES_BYTES_MAX {
            return Err(too_large());
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

fn too_large() -> KvError {
    KvError::Corrupt(format!(
        "the rows that the batch changes have more than {CHANGES_BYTES_MAX} bytes"
    ))
}

/// The stored rows of the keys of a batch, looked up at once.
struct OldRows<'p> {
    rows: Vec<OldRow<'p>>,
    /// Copies of what the store has.
    copies: Vec<u8>,
}

#[derive(Clone)]
enum OldRow<'p> {
    None,
    Known(&'p [u8]),
    Copied(Range<usize>),
}

impl<'p> OldRows<'p> {
    /// `deletes_only` if what upserts replace does not matter.
    fn look_up(stored: &Stored<'p>, records: &[Keyed<'_>], deletes_only: bool) -> Result<Self> {
        let mut rows = Vec::with_capacity(records.len());
        let mut asked: Vec<&[u8]> = Vec::with_capacity(records.len());
        let mut positions = Vec::with_capacity(records.len());
        for Keyed { hash, record } in records {
            let known = match deletes_only && record.row.is_some() {
                true => Known::Deleted,
                false => stored.known(*hash, record.key),
            };
            if known == Known::Nothing {
                positions.push(rows.len());
                asked.push(record.key);
            }
            rows.push(known.value().map_or(OldRow::None, OldRow::Known));
        }
        let mut copies = Vec::new();
        let mut visit = |index: usize, value: Option<&[u8]>| {
            if let Some(value) = value
                && copies.len() <= CHANGES_BYTES_MAX
            {
                let start = copies.len();
                copies.extend_from_slice(value);
                rows[positions[index]] = OldRow::Copied(start..copies.len());
            }
        };
        if !asked.is_empty() {
            stored.store.multi_get(&asked, Reach::Disk, &mut visit)?;
        }
        match copies.len() > CHANGES_BYTES_MAX {
            true => Err(too_large()),
            false => Ok(Self { rows, copies }),
        }
    }

    /// The row of the record at a position.
    fn get(&self, position: usize) -> Option<&[u8]> {
        match &self.rows[position] {
            OldRow::None => None,
            OldRow::Known(value) => Some(value),
            OldRow::Copied(range) => Some(&self.copies[range.clone()]),
        }
    }
}

#[derive(Clone, Copy)]
struct Key<'b> {
    hash: u64,
    bytes: &'b [u8],
}

/// A row that was sent: its bytes, and its values.
type Sent<'s, 'b> = (&'b [u8], &'s mut Vec<Value<'b>>);

struct Put<'a> {
    table: &'a KvTable,
    merger: &'a dyn RowMerger,
    schema_id: i16,
    numbers: Option<Numbers<'a>>,
    changelog: ChangelogBuilder,
    changes: Changes,
    record_count: u64,
    scratch: Vec<u8>,
    /// Empty; its memory is that of the values of old rows.
    values: Vec<Value<'static>>,
}

impl Put<'_> {
    fn log(&mut self, change: ChangeType, row: &[Value<'_>]) -> Result<()> {
        self.record_count += 1;
        self.changelog.append(self.table, change, row)
    }

    /// One record, `sent` or a delete; `stored` is the stored row, unless this batch
    /// changed it.
    fn record(
        &mut self,
        key: Key<'_>,
        sent: Option<Sent<'_, '_>>,
        stored: Option<&[u8]>,
    ) -> Result<()> {
        let changed;
        let stored = match self.changes.get(key.hash, key.bytes) {
            Known::Nothing => stored,
            Known::Deleted => None,
            Known::Value(value) => {
                changed = value.to_vec();
                Some(changed.as_slice())
            }
        };
        let Some(stored) = stored else {
            return match sent {
                Some((row, values)) => self.insert(key, row, values),
                None => Ok(()),
            };
        };
        let mut old = recycled(std::mem::take(&mut self.values));
        self.decode_stored(stored, &mut old)?;
        match sent {
            Some((row, values)) => self.update(key, row, values, &old)?,
            None => self.delete(key, &old)?,
        }
        self.values = recycled(old);
        Ok(())
    }

    fn decode_stored<'v>(&self, value: &'v [u8], values: &mut Vec<Value<'v>>) -> Result<()> {
        let damaged = |error: &dyn std::fmt::Display| KvError::Damaged(error.to_string());
        let (schema_id, row) = split_stored_value(value).map_err(|error| damaged(&error))?;
        let decoded = self.table.decode_into(schema_id, row, values);
        decoded.map_err(|error| match error {
            // Another put knew the table better already.
            KvError::UnknownSchema { latest, .. } if schema_id > latest => {
                KvError::Storage(format!("schema {schema_id} is not known here yet"))
            }
            error => damaged(&error),
        })
    }

    fn insert<'v>(&mut self, key: Key<'_>, row: &[u8], sent: &mut Vec<Value<'v>>) -> Result<()> {
        let mut as_sent = Some(row);
        match self.merger.upsert(None, sent)? {
            Merged::Unchanged | Merged::Removed => return Ok(()),
            Merged::AsSent => {}
            Merged::Row(values) => {
                as_sent = None;
                *sent = values;
            }
        }
        if let Some(numbers) = &mut self.numbers {
            let column = numbers.column;
            sent[column.position] = column.value(numbers.next()?);
            as_sent = None;
        }
        self.log(ChangeType::Insert, sent)?;
        self.changes.count_row(1);
        self.store(key, sent, as_sent)
    }

    fn update(
        &mut self,
        key: Key<'_>,
        row: &[u8],
        sent: &[Value<'_>],
        old: &[Value<'_>],
    ) -> Result<()> {
        match self.merger.upsert(Some(old), sent)? {
            Merged::Unchanged => Ok(()),
            Merged::Removed => self.remove(key, old),
            Merged::AsSent => {
                self.log_update(old, sent)?;
                self.store(key, sent, Some(row))
            }
            Merged::Row(values) => {
                self.log_update(old, &values)?;
                self.store(key, &values, None)
            }
        }
    }

    fn delete(&mut self, key: Key<'_>, old: &[Value<'_>]) -> Result<()> {
        match self.merger.delete(old)? {
            Merged::Unchanged | Merged::AsSent => Ok(()),
            Merged::Removed => self.remove(key, old),
            Merged::Row(values) => {
                self.log_update(old, &values)?;
                self.store(key, &values, None)
            }
        }
    }

    fn remove(&mut self, key: Key<'_>, old: &[Value<'_>]) -> Result<()> {
        self.log(ChangeType::Delete, old)?;
        self.changes.count_row(-1);
        self.changes.delete(key.hash, key.bytes);
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
    fn store(&mut self, key: Key<'_>, values: &[Value<'_>], sent: Option<&[u8]>) -> Result<()> {
        let (schema_id, row) = match sent {
            Some(row) => (self.schema_id, row),
            None => {
                self.scratch.clear();
                self.table.encode(values, &mut self.scratch)?;
                (self.table.latest_schema_id(), self.scratch.as_slice())
            }
        };
        self.changes.put(key.hash, key.bytes, schema_id, row);
        Ok(())
    }
}

/// The memory of a list of values, for others.
fn recycled<'b>(mut values: Vec<Value<'_>>) -> Vec<Value<'b>> {
    values.clear();
    // The library collects into the memory it takes from.
    values.into_iter().map(|_| Value::Null).collect()
}
