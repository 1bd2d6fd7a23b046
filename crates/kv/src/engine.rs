//! The store under a KV tablet, as traits. Keys and values are opaque bytes, the
//! order is that of the key bytes.
//!
//! A store has no log of its own: after a crash it holds a prefix of what was
//! written, which a tablet does by key, not in the order of the changelog; with
//! [`KvStore::durable_sequence`] it says how long a prefix that would be now. The
//! tablet replays the changelog from there. The numbers are good for one opening: what
//! survived a crash may end before the number that the store goes on counting from.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use crate::{KvWrites, Result};

#[cfg(any(test, feature = "testing"))]
pub mod contract;

/// Opens stores, which share its caches, buffers and threads.
pub trait KvEngine: Debug + Send + Sync {
    /// Opens the store in a directory, which is created if it is missing. Nobody
    /// else has it open.
    ///
    /// # Errors
    /// [`Damaged`](crate::KvError::Damaged) if what is there cannot be a store any
    /// more, [`Storage`](crate::KvError::Storage) if the disk fails.
    fn open(&self, dir: &Path) -> Result<Arc<dyn KvStore>>;

    /// Removes a store that is not open, with its directory. One that is missing
    /// is removed already.
    ///
    /// # Errors
    /// The disk fails.
    fn destroy(&self, dir: &Path) -> Result<()>;
}

/// How far a read may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Memory only: a read that would need the disk is given up.
    Memory,
    /// The disk as well: the caller may wait.
    Disk,
}

/// An open store. Dropping the last reference closes it; what was not flushed is
/// lost then.
pub trait KvStore: Debug + Send + Sync {
    /// Looks up keys. `visit` gets each key's position, in the order of the list, with
    /// the value if there is one. With [`Reach::Memory`] the answer is false if the
    /// disk would have been needed: some keys were not visited then.
    ///
    /// # Errors
    /// The disk fails or the store is damaged.
    fn multi_get(
        &self,
        keys: &[&[u8]],
        reach: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool>;

    /// Applies all changes, or none. Returns the sequence number of the last.
    ///
    /// # Errors
    /// [`Stalled`](crate::KvError::Stalled) if the store is behind with flushes or
    /// compactions and `may_wait` is false; else the disk fails.
    fn write(&self, writes: &KvWrites, may_wait: bool) -> Result<u64>;

    /// A view of the store as it is now, which later writes do not change.
    fn snapshot(self: Arc<Self>) -> Box<dyn KvSnapshot>;

    /// Makes all that was written durable. Waits for the disk, or only begins if
    /// `wait` is false: [`durable_sequence`](Self::durable_sequence) says how far it is.
    ///
    /// # Errors
    /// The disk fails. Of what was only begun the next write or flush tells.
    fn flush(&self, wait: bool) -> Result<()>;

    /// Sequence number of the last change; grows by one with every change. After an
    /// opening it is not below what [`durable_sequence`](Self::durable_sequence) once
    /// said.
    fn last_sequence(&self) -> u64;

    /// Changes up to this number would survive a crash now, at least.
    fn durable_sequence(&self) -> u64;

    /// Sizes, for metrics and for back-pressure.
    fn statistics(&self) -> StoreStatistics;
}

/// Sizes of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Files of level 0.
    pub level0_files: u64,
    /// Level-0 files from which on the store slows writers down.
    pub level0_slowdown_trigger: u64,
    /// Bytes in write buffers.
    pub write_buffer_bytes: u64,
    /// Bytes in files.
    pub file_bytes: u64,
}

/// An unchanging view of a store, with a position that the first
/// [`seek`](Self::seek) sets. It keeps the store open.
pub trait KvSnapshot: Send {
    /// Goes to the first key that is not before `key`.
    fn seek(&mut self, key: &[u8]);

    /// The entry at the position; `None` at the end.
    fn entry(&self) -> Option<(&[u8], &[u8])>;

    /// Goes to the next entry.
    fn advance(&mut self);

    /// Whether [`entry`](Self::entry) says `None` because of the end.
    ///
    /// # Errors
    /// It does not: the disk fails or the store is damaged.
    fn check(&self) -> Result<()>;
}
