//! A view of a store that later writes do not change.

use std::sync::Arc;

use mainstem_kv::{KvSnapshot, Result};
use rocksdb::{DB, DBRawIterator};

use crate::error;
use crate::store::RocksStore;

/// An iterator, which sees the store as it was when it was made.
pub(crate) struct RocksSnapshot {
    /// Borrows from `_store`, so it stands, and is dropped, before it.
    iterator: DBRawIterator<'static>,
    _store: Arc<RocksStore>,
}

impl RocksSnapshot {
    pub(crate) fn new(store: Arc<RocksStore>) -> Self {
        let db: *const DB = store.db();
        // SAFETY: the database is inside the allocation of `store`, which does not
        // move and of which nothing takes a mutable reference. The iterator is the
        // only user of this reference; it does not leave the struct, and the struct
        // drops it before it lets go of `store`.
        let db: &'static DB = unsafe { &*db };
        Self {
            iterator: db.raw_iterator(),
            _store: store,
        }
    }
}

impl KvSnapshot for RocksSnapshot {
    fn seek(&mut self, key: &[u8]) {
        self.iterator.seek(key);
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.iterator.item()
    }

    fn advance(&mut self) {
        // Beyond the end there is nothing to go to, and RocksDB must not be asked.
        if self.iterator.valid() {
            self.iterator.next();
        }
    }

    fn check(&self) -> Result<()> {
        self.iterator.status().map_err(error::running)
    }
}
