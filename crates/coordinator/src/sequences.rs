//! Auto-increment numbers: one counter per table and column, with the last number
//! given out (tables.md §4.9).
//!
//! A range is taken by one transaction that requires this coordinator to be in
//! office, the table to exist, and the counter to be what was read. It does not
//! need the right to change metadata ([`crate::coordinator::Change`]): a writer
//! takes numbers under the lock of its bucket, and a change of metadata that
//! stops the bucket waits for that lock.

use std::ops::RangeInclusive;
use std::sync::Arc;

use mainstem_meta::store::{decode_counter, encode_counter};
use mainstem_meta::{MetaError, MetaStore, Revision, SequenceSource, Transaction, keys};
use mainstem_types::TableId;
use parking_lot::Mutex;

use crate::Coordinator;
use crate::table_api::FIRST_SCHEMA;

/// The sequences of all tables.
pub(crate) struct Sequences {
    store: Arc<dyn MetaStore>,
    /// Version of the epoch's key while this coordinator is in office.
    in_office: Revision,
    /// Held from reading a counter to its commit, so that the takers of this
    /// process wait for each other instead of failing.
    taking: Mutex<()>,
}

impl Sequences {
    pub(crate) fn new(store: Arc<dyn MetaStore>, in_office: Revision) -> Self {
        Self {
            store,
            in_office,
            taking: Mutex::new(()),
        }
    }

    fn take(
        &self,
        table: TableId,
        column_id: i32,
        count: i64,
    ) -> Result<RangeInclusive<i64>, MetaError> {
        let key = keys::sequence(table, column_id);
        // The first schema is written with the table, removed with it, and never
        // changed: as long as it has this version the table exists.
        let table_exists = keys::schema(table, FIRST_SCHEMA);
        let _taking = self.taking.lock();
        let Some(schema) = self.store.get(&table_exists)? else {
            return Err(MetaError::NotFound { key: table_exists });
        };
        let counter = self.store.get(&key)?;
        let used = match &counter {
            Some(entry) => decode_counter(&key, &entry.value)?,
            None => 0,
        };
        if used < 0 {
            let reason = format!("{used} is not the last number of a sequence");
            return Err(MetaError::Corrupt { place: key, reason });
        }
        let Some(first) = used.checked_add(1) else {
            return Err(MetaError::Exhausted { key });
        };
        let last = used.saturating_add(count.max(1));
        let transaction = Transaction::new()
            .require_version(keys::COORDINATOR_EPOCH, self.in_office)
            .require_version(&table_exists, schema.version);
        let transaction = match &counter {
            Some(entry) => transaction.require_version(&key, entry.version),
            None => transaction.require_absent(&key),
        };
        match self
            .store
            .commit(transaction.put(&key, encode_counter(last)))
        {
            Ok(_) => Ok(first..=last),
            // Dropped since it was looked at.
            Err(MetaError::Conflict { key }) if key == table_exists => {
                Err(MetaError::NotFound { key })
            }
            Err(error) => Err(error),
        }
    }
}

impl SequenceSource for Coordinator {
    fn take(
        &self,
        table: TableId,
        column_id: i32,
        count: i64,
    ) -> Result<RangeInclusive<i64>, MetaError> {
        self.sequences.take(table, column_id, count)
    }
}
