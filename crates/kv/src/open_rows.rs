//! The rows of an open tablet, for readers: the store, and what changed last.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::DefaultHashBuilder;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::pending::{Changes, Known};
use crate::recent::{Queue, Recent, RecentBudget, Share, Which};
use crate::{KvSnapshot, KvStore, Reach, Result};

/// Rows that are changed under one lock, for which readers wait.
const ROWS_AT_ONCE: usize = 512;

/// See the module. Holds exactly what is committed and applied. Any number may read;
/// the tablet sees to it that one at a time changes the rows.
pub struct OpenRows {
    store: Arc<dyn KvStore>,
    recent: RwLock<Recent>,
    hasher: DefaultHashBuilder,
    share: Share,
    /// Rows were found in memory since somebody last asked.
    found: AtomicBool,
}

impl OpenRows {
    pub(crate) fn new(
        store: Arc<dyn KvStore>,
        hasher: DefaultHashBuilder,
        budget: Arc<RecentBudget>,
    ) -> Self {
        Self {
            store,
            recent: RwLock::default(),
            hasher,
            share: Share::new(budget),
            found: AtomicBool::new(false),
        }
    }

    /// Looks up keys. `visit` gets each key's position, in the order of the list, with
    /// the value if there is one. With [`Reach::Memory`] the answer is false if the
    /// disk would have been needed: some keys were not visited then. Of changes that
    /// are applied meanwhile some may be seen and others not.
    ///
    /// # Errors
    /// The disk fails or the store is damaged.
    pub fn multi_get(
        &self,
        keys: &[&[u8]],
        reach: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        let recent = self.recent.read();
        if recent.is_empty() {
            drop(recent);
            return self.store.multi_get(keys, reach, visit);
        }
        let known: Vec<Known<'_>> = keys
            .iter()
            .map(|key| recent.get(self.hasher.hash_one(key), key))
            .collect();
        let missing = |known: &Known<'_>| *known == Known::Nothing;
        let count = known.iter().filter(|known| missing(known)).count();
        if count == keys.len() {
            drop(known);
            drop(recent);
            return self.store.multi_get(keys, reach, visit);
        }
        if !self.found.load(Ordering::Relaxed) {
            self.found.store(true, Ordering::Relaxed);
        }
        if count == 0 {
            for (at, known) in known.into_iter().enumerate() {
                visit(at, known.value());
            }
            return Ok(true);
        }
        // The store may have to wait for the disk, and no change may wait for that.
        // What it finds is not older than what was not found here.
        let known: Vec<Option<Option<Vec<u8>>>> = known
            .into_iter()
            .map(|known| (!missing(&known)).then(|| known.value().map(<[u8]>::to_vec)))
            .collect();
        drop(recent);
        self.multi_get_rest(keys, &known, reach, visit)
    }

    /// The rest from the store, and all in order.
    fn multi_get_rest(
        &self,
        keys: &[&[u8]],
        known: &[Option<Option<Vec<u8>>>],
        reach: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        let unknown = || (0..keys.len()).filter(|at| known[*at].is_none());
        let positions: Vec<usize> = unknown().collect();
        let asked: Vec<&[u8]> = unknown().map(|at| keys[at]).collect();
        let mut next = 0;
        let mut visit_known = |until: usize, visit: &mut dyn FnMut(usize, Option<&[u8]>)| {
            for (at, known) in known.iter().enumerate().take(until).skip(next) {
                if let Some(value) = known {
                    visit(at, value.as_deref());
                }
            }
            next = until;
        };
        let whole = self.store.multi_get(&asked, reach, &mut |index, value| {
            visit_known(positions[index], visit);
            visit(positions[index], value);
        })?;
        visit_known(keys.len(), visit);
        Ok(whole)
    }

    /// A view of the rows as they are now; `None` if some are not in the store: it
    /// is the writer who brings them there ([`KvWriter::snapshot`](crate::KvWriter::snapshot)).
    pub fn snapshot(&self) -> Option<Box<dyn KvSnapshot>> {
        let recent = self.recent.read();
        (!recent.is_ahead()).then(|| self.store.clone().snapshot())
    }

    pub(crate) fn store(&self) -> &Arc<dyn KvStore> {
        &self.store
    }

    /// What changed last, for the one who changes rows.
    pub(crate) fn recent(&self) -> RwLockReadGuard<'_, Recent> {
        self.recent.read()
    }

    /// Bytes of changes that may gather.
    pub(crate) fn room(&self) -> usize {
        self.share.generation_bytes()
    }

    /// Takes changes over. The store does not get them yet.
    pub(crate) fn add(&self, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        let mut changes = changes.last_changes().peekable();
        let mut held = 0;
        while changes.peek().is_some() {
            let mut recent = self.recent.write();
            recent.add(changes.by_ref().take(ROWS_AT_ONCE));
            held = recent.held_bytes();
        }
        self.share.hold(held);
    }

    /// Whether the store has all changes.
    pub(crate) fn is_stored(&self) -> bool {
        !self.recent.read().is_ahead()
    }

    /// Begins a generation; the one before has to go to the store now.
    pub(crate) fn turn(&self) -> Queue {
        let room = self.room();
        self.recent.write().turn(room);
        let recent = self.recent.read();
        self.share.hold(recent.held_bytes());
        recent.queue(Which::Previous)
    }

    /// The changes of the present generation that the store lacks. Nothing may be added
    /// until it has them.
    pub(crate) fn gathered(&self) -> Queue {
        self.recent.read().queue(Which::Current)
    }

    /// Brings changes of a queue to the store, about so many bytes. Returns the
    /// sequence number of the last.
    ///
    /// # Errors
    /// The disk fails. The queue is as before.
    pub(crate) fn store_piece(&self, queue: &mut Queue, size_bytes: usize) -> Result<u64> {
        // Others read meanwhile; nobody but the caller changes anything.
        let (piece, next) = self.recent.read().piece(queue, size_bytes);
        let sequence = self.store.write(&piece, true)?;
        queue.next = next;
        if queue.is_done() {
            self.recent.write().set_stored(queue.which());
        }
        Ok(sequence)
    }

    /// Gives the memory back; the store must have all changes.
    pub(crate) fn forget(&self) {
        debug_assert!(self.is_stored(), "changes would be lost");
        let forgotten = std::mem::take(&mut *self.recent.write());
        // Giving memory back takes its time, and readers may go on.
        drop(forgotten);
        self.share.hold(0);
    }

    /// Whether the memory is of use: rows were found there since this was asked last,
    /// and it is not more than this tablet may have.
    pub(crate) fn are_worth_their_memory(&self) -> bool {
        self.found.swap(false, Ordering::Relaxed) && self.share.is_fair()
    }
}

impl fmt::Debug for OpenRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRows")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
