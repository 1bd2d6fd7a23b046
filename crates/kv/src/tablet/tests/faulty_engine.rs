//! An engine over the one in memory whose calls fail as planned.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::memory::MemoryEngine;
use crate::{KvEngine, KvError, KvSnapshot, KvStore, KvWrites, Reach, Result, StoreStatistics};

/// What goes wrong; clones are the same plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan(Arc<Mutex<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    changing_calls: u64,
    fails_from: Option<u64>,
    damaged_when_opened: bool,
    damaged_when_read: bool,
    level0_files: u64,
}

impl Plan {
    /// Number of calls so far that change something: openings, removals, writes and
    /// flushes.
    pub fn changing_calls(&self) -> u64 {
        self.0.lock().changing_calls
    }

    /// The changing call of this number (from 1) and all after it fail; none does if
    /// there is no number.
    pub fn fail_from(&self, number: Option<u64>) {
        self.0.lock().fails_from = number;
    }

    /// Every call that changes something fails from now on, or none.
    pub fn fail(&self, failing: bool) {
        let mut faults = self.0.lock();
        faults.fails_from = failing.then_some(faults.changing_calls + 1);
    }

    /// The next opening finds damage.
    pub fn damage_opening(&self) {
        self.0.lock().damaged_when_opened = true;
    }

    /// Reads find damage until the store is removed.
    pub fn damage_reads(&self) {
        self.0.lock().damaged_when_read = true;
    }

    /// Stores have so many files of level 0.
    pub fn set_level0_files(&self, files: u64) {
        self.0.lock().level0_files = files;
    }

    fn change(&self) -> Result<()> {
        let mut faults = self.0.lock();
        faults.changing_calls += 1;
        match faults.fails_from {
            Some(from) if faults.changing_calls >= from => {
                Err(KvError::Storage("the disk fails as planned".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(super) struct FaultyEngine {
    inner: MemoryEngine,
    plan: Plan,
}

impl FaultyEngine {
    pub fn new(inner: MemoryEngine, plan: Plan) -> Self {
        Self { inner, plan }
    }
}

impl KvEngine for FaultyEngine {
    fn open(&self, dir: &Path) -> Result<Arc<dyn KvStore>> {
        self.plan.change()?;
        if std::mem::take(&mut self.plan.0.lock().damaged_when_opened) {
            return Err(KvError::Damaged("it is damaged as planned".to_owned()));
        }
        let inner = self.inner.open(dir)?;
        let plan = self.plan.clone();
        Ok(Arc::new(FaultyStore { inner, plan }))
    }

    fn destroy(&self, dir: &Path) -> Result<()> {
        self.plan.change()?;
        self.plan.0.lock().damaged_when_read = false;
        self.inner.destroy(dir)
    }
}

#[derive(Debug)]
struct FaultyStore {
    inner: Arc<dyn KvStore>,
    plan: Plan,
}

impl KvStore for FaultyStore {
    fn multi_get(
        &self,
        keys: &[&[u8]],
        reach: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        if self.plan.0.lock().damaged_when_read {
            return Err(KvError::Damaged("a block is damaged as planned".to_owned()));
        }
        self.inner.multi_get(keys, reach, visit)
    }

    fn write(&self, writes: &KvWrites, may_wait: bool) -> Result<u64> {
        self.plan.change()?;
        self.inner.write(writes, may_wait)
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn KvSnapshot> {
        // A snapshot keeps its store open.
        let inner = self.inner.clone().snapshot();
        Box::new(FaultySnapshot {
            inner,
            _store: self,
        })
    }

    fn flush(&self, wait: bool) -> Result<()> {
        self.plan.change()?;
        self.inner.flush(wait)
    }

    fn last_sequence(&self) -> u64 {
        self.inner.last_sequence()
    }

    fn durable_sequence(&self) -> u64 {
        self.inner.durable_sequence()
    }

    fn statistics(&self) -> StoreStatistics {
        StoreStatistics {
            level0_files: self.plan.0.lock().level0_files,
            ..self.inner.statistics()
        }
    }
}

struct FaultySnapshot {
    inner: Box<dyn KvSnapshot>,
    _store: Arc<FaultyStore>,
}

impl KvSnapshot for FaultySnapshot {
    fn seek(&mut self, key: &[u8]) {
        self.inner.seek(key);
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.inner.entry()
    }

    fn advance(&mut self) {
        self.inner.advance();
    }

    fn check(&self) -> Result<()> {
        self.inner.check()
    }
}
