//! The memory of the write buffers of all stores, kept within its budget.
//!
//! RocksDB's own write-buffer manager flushes the store that is being written to when
//! the budget is used up. If most of the memory is that of stores that nobody writes
//! to any more, it flushes the busy one again and again, into tiny files. Here the
//! largest buffer gives way, whosever it is; RocksDB's manager stands behind it with a
//! larger budget.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rocksdb::properties::{
    CUR_SIZE_ACTIVE_MEM_TABLE, NUM_ENTRIES_IMM_MEM_TABLES, PropName, num_files_at_level,
};
use rocksdb::{DB, FlushOptions};

use crate::options::LEVEL0_SLOWDOWN;

/// Bytes that are written, to all stores, between two looks at the sizes; at least
/// so many, else a part of the budget.
const LOOK_AFTER_BYTES: u64 = 64 << 10;

/// The buffers of the open stores.
#[derive(Debug)]
pub(crate) struct Buffers {
    budget: u64,
    look_after: u64,
    unseen: AtomicU64,
    members: Mutex<Vec<Arc<Member>>>,
}

/// A store that is, or was, open. A look at it holds its lock, and so does its
/// closing: whoever closes a store knows that nobody else has it open still.
#[derive(Debug)]
pub(crate) struct Member {
    db: Mutex<Weak<DB>>,
}

impl Member {
    /// To be called before the database is dropped. Waits for a look at it.
    pub(crate) fn leave(&self) {
        *self.db.lock() = Weak::new();
    }

    fn with<T>(&self, action: impl FnOnce(&DB) -> T) -> Option<T> {
        let db = self.db.lock();
        db.upgrade().map(|db| action(&db))
    }

    /// Bytes of the buffer that is written to.
    fn bytes(&self) -> u64 {
        self.with(|db| number(db, CUR_SIZE_ACTIVE_MEM_TABLE))
            .flatten()
            .unwrap_or_default()
    }

    /// Begins a flush.
    fn flush_soon(&self) {
        if let Some(Err(failure)) = self.with(begin_flush) {
            // Its next write or flush fails and is answered for.
            tracing::warn!(%failure, "cannot flush a store to free memory");
        }
    }
}

/// A number that RocksDB keeps of a store, if it does.
pub(crate) fn number(db: &DB, property: &PropName) -> Option<u64> {
    db.property_int_value(property).ok().flatten()
}

/// Files of level 0.
pub(crate) fn level0_files(db: &DB) -> Option<u64> {
    let files = db.property_value(num_files_at_level(0)).ok().flatten();
    files?.parse().ok()
}

/// Begins a flush and does not wait for it; does nothing if one is under way. RocksDB
/// would wait, whatever it is told, where one flush more would make writers wait.
pub(crate) fn begin_flush(db: &DB) -> Result<(), rocksdb::Error> {
    let flushing = number(db, NUM_ENTRIES_IMM_MEM_TABLES) != Some(0);
    let files = level0_files(db).unwrap_or(u64::MAX);
    if flushing || files.saturating_add(2) >= LEVEL0_SLOWDOWN as u64 {
        return Ok(());
    }
    let mut options = FlushOptions::default();
    options.set_wait(false);
    db.flush_opt(&options)
}

impl Buffers {
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            look_after: (budget / 32).max(LOOK_AFTER_BYTES),
            unseen: AtomicU64::new(0),
            members: Mutex::default(),
        }
    }

    /// A store is opened.
    pub(crate) fn join(&self, db: &Arc<DB>) -> Arc<Member> {
        let member = Arc::new(Member {
            db: Mutex::new(Arc::downgrade(db)),
        });
        let mut members = self.members.lock();
        members.retain(|member| member.db.lock().strong_count() > 0);
        members.push(member.clone());
        member
    }

    /// Counts written bytes. Now and then looks whether all buffers together are too
    /// large, and begins flushes of the largest then.
    pub(crate) fn wrote(&self, bytes: u64) {
        let unseen = self.unseen.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unseen < self.look_after {
            return;
        }
        // Of several writers that get here at once, one looks.
        let taken = self
            .unseen
            .compare_exchange(unseen, 0, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            self.look();
        }
    }

    fn look(&self) {
        // No lock is held while RocksDB is asked but that of one store.
        let members = self.members.lock().clone();
        let mut sizes: Vec<(u64, Arc<Member>)> = members
            .into_iter()
            .map(|member| (member.bytes(), member))
            .collect();
        sizes.sort_unstable_by_key(|(bytes, _)| *bytes);
        let mut sum: u64 = sizes.iter().map(|(bytes, _)| bytes).sum();
        while sum > self.budget {
            let Some((bytes, largest)) = sizes.pop() else {
                break;
            };
            largest.flush_soon();
            sum -= bytes;
        }
    }
}
