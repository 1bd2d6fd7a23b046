//! An engine in memory, for tests and simulations. It keeps for each directory
//! what a disk would have kept, so that a crash can be played at any moment.
//!
//! Everything that happens follows from the calls: no threads, no clock, no
//! randomness of its own.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{KvEngine, KvSnapshot, KvStore, Reach, StoreStatistics};
use crate::{KvError, KvWrites, Result};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Level-0 files that a store of this engine says it slows writers down at.
const SLOWDOWN_TRIGGER: u64 = 20;

/// Stores in memory. Clones share them, as processes share a disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryEngine {
    disk: Arc<Mutex<Disk>>,
}

/// What goes wrong from now on, in all stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writers that may not wait are refused.
    pub stalled: bool,
    /// Reads of memory only are given up.
    pub cold: bool,
    /// Flushes for which nobody waits do not get anywhere.
    pub slow: bool,
    /// Every operation that needs the disk fails: opening, flushing, destroying,
    /// and writing.
    pub failing: bool,
}

#[derive(Debug, Default)]
struct Disk {
    directories: BTreeMap<PathBuf, Directory>,
    faults: Faults,
    openings: u64,
}

/// A store: what is durable, and what would be lost.
#[derive(Debug, Default)]
struct Directory {
    durable: Arc<Entries>,
    durable_sequence: u64,
    entries: Arc<Entries>,
    last_sequence: u64,
    /// Writes since the last flush, in order.
    pending: Vec<KvWrites>,
    /// The handle that has it open.
    opening: Option<u64>,
}

impl Directory {
    /// Closes it; the first `kept` of the writes since the last flush survive.
    fn close(&mut self, kept: usize) {
        self.opening = None;
        for writes in self.pending.drain(..).take(kept) {
            apply(Arc::make_mut(&mut self.durable), &writes);
            self.durable_sequence += writes.len() as u64;
        }
        self.entries = self.durable.clone();
        self.last_sequence = self.durable_sequence;
    }

    fn pending_bytes(&self) -> u64 {
        self.pending
            .iter()
            .map(|writes| writes.size_bytes() as u64)
            .sum()
    }
}

fn apply(entries: &mut Entries, writes: &KvWrites) {
    for (key, value) in writes.iter() {
        match value {
            Some(value) => drop(entries.insert(key.to_vec(), value.to_vec())),
            None => drop(entries.remove(key)),
        }
    }
}

impl MemoryEngine {
    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.disk.lock().faults = faults;
    }

    /// The machine stops: all open stores are gone, their handles fail from now
    /// on. `survivors` is asked for each of them, in the order of directories, how
    /// many of the given number of writes since the last flush the disk has all
    /// the same.
    pub fn crash(&self, mut survivors: impl FnMut(&Path, usize) -> usize) {
        for (dir, directory) in &mut self.disk.lock().directories {
            if directory.opening.is_some() {
                let kept = survivors(dir, directory.pending.len());
                directory.close(kept);
            }
        }
    }

    /// Directories that hold a store.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.disk.lock().directories.keys().cloned().collect()
    }
}

impl KvEngine for MemoryEngine {
    fn open(&self, dir: &Path) -> Result<Arc<dyn KvStore>> {
        let disk = &mut *self.disk.lock();
        if disk.faults.failing {
            return Err(failed(dir));
        }
        let directory = disk.directories.entry(dir.to_owned()).or_default();
        if directory.opening.is_some() {
            return Err(KvError::Storage(format!("{} is open", dir.display())));
        }
        disk.openings += 1;
        directory.opening = Some(disk.openings);
        Ok(Arc::new(MemoryStore {
            disk: self.disk.clone(),
            dir: dir.to_owned(),
            opening: disk.openings,
        }))
    }

    fn destroy(&self, dir: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        if disk.faults.failing {
            return Err(failed(dir));
        }
        match disk.directories.get(dir) {
            Some(directory) if directory.opening.is_some() => {
                Err(KvError::Storage(format!("{} is open", dir.display())))
            }
            _ => {
                disk.directories.remove(dir);
                Ok(())
            }
        }
    }
}

fn failed(dir: &Path) -> KvError {
    KvError::Storage(format!("{}: the disk fails", dir.display()))
}

/// A handle of an open store.
#[derive(Debug)]
struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
    dir: PathBuf,
    opening: u64,
}

impl MemoryStore {
    /// Runs `action` on the directory, unless a crash took it away.
    fn with<T>(&self, action: impl FnOnce(&mut Directory, Faults) -> Result<T>) -> Result<T> {
        let disk = &mut *self.disk.lock();
        let faults = disk.faults;
        match disk.directories.get_mut(&self.dir) {
            Some(directory) if directory.opening == Some(self.opening) => action(directory, faults),
            _ => Err(KvError::Storage(format!(
                "{} was open before a crash",
                self.dir.display()
            ))),
        }
    }

    /// A number of the directory, 0 after a crash.
    fn number(&self, number: impl FnOnce(&Directory) -> u64) -> u64 {
        self.with(|directory, _| Ok(number(directory)))
            .unwrap_or_default()
    }
}

impl KvStore for MemoryStore {
    fn multi_get(
        &self,
        keys: &[&[u8]],
        reach: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        let entries = self.with(|directory, faults| {
            let reached = reach == Reach::Disk || !faults.cold;
            Ok(reached.then(|| directory.entries.clone()))
        })?;
        let Some(entries) = entries else {
            return Ok(false);
        };
        for (at, key) in keys.iter().enumerate() {
            visit(at, entries.get(*key).map(Vec::as_slice));
        }
        Ok(true)
    }

    fn write(&self, writes: &KvWrites, may_wait: bool) -> Result<u64> {
        self.with(|directory, faults| {
            if faults.failing {
                return Err(failed(&self.dir));
            }
            if faults.stalled && !may_wait {
                return Err(KvError::Stalled("told so".to_owned()));
            }
            if !writes.is_empty() {
                apply(Arc::make_mut(&mut directory.entries), writes);
                directory.last_sequence += writes.len() as u64;
                directory.pending.push(writes.clone());
            }
            Ok(directory.last_sequence)
        })
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn KvSnapshot> {
        let entries = self.with(|directory, _| Ok(directory.entries.clone()));
        Box::new(MemorySnapshot {
            lost: entries.as_ref().err().cloned(),
            entries: entries.unwrap_or_default(),
            position: None,
        })
    }

    fn flush(&self, wait: bool) -> Result<()> {
        self.with(|directory, faults| {
            if faults.failing {
                return Err(failed(&self.dir));
            }
            if faults.slow && !wait {
                return Ok(());
            }
            directory.durable = directory.entries.clone();
            directory.durable_sequence = directory.last_sequence;
            directory.pending.clear();
            Ok(())
        })
    }

    fn last_sequence(&self) -> u64 {
        self.number(|directory| directory.last_sequence)
    }

    fn durable_sequence(&self) -> u64 {
        self.number(|directory| directory.durable_sequence)
    }

    fn statistics(&self) -> StoreStatistics {
        let bytes = |entries: &Entries| -> u64 {
            entries
                .iter()
                .map(|(key, value)| (key.len() + value.len()) as u64)
                .sum()
        };
        StoreStatistics {
            level0_files: 0,
            level0_slowdown_trigger: SLOWDOWN_TRIGGER,
            write_buffer_bytes: self.number(Directory::pending_bytes),
            file_bytes: self.number(|directory| bytes(&directory.durable)),
        }
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        // After a crash there is nothing to close.
        let _ = self.with(|directory, _| {
            directory.close(0);
            Ok(())
        });
    }
}

struct MemorySnapshot {
    entries: Arc<Entries>,
    position: Option<Vec<u8>>,
    lost: Option<KvError>,
}

impl MemorySnapshot {
    fn go(&mut self, from: Bound<&[u8]>) {
        self.position = self
            .entries
            .range::<[u8], _>((from, Bound::Unbounded))
            .next()
            .map(|(key, _)| key.clone());
    }
}

impl KvSnapshot for MemorySnapshot {
    fn seek(&mut self, key: &[u8]) {
        self.go(Bound::Included(key));
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.entries.get_key_value(self.position.as_ref()?)?;
        Some((key, value))
    }

    fn advance(&mut self) {
        if let Some(position) = self.position.take() {
            self.go(Bound::Excluded(&position));
        }
    }

    fn check(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contract::{self, Subject};

    fn with_memory(check: fn(&Subject)) {
        let disk = MemoryEngine::default();
        check(&Subject {
            engine: Box::new(move || Box::new(disk.clone())),
            dir: "store".into(),
        });
    }

    crate::kv_engine_contract!(with_memory);

    fn put(store: &dyn KvStore, key: &[u8]) {
        let mut writes = KvWrites::default();
        writes.put(key, 1, b"");
        store.write(&writes, false).unwrap();
    }

    fn has(store: &dyn KvStore, key: &[u8]) -> bool {
        contract::get(store, key).is_some()
    }

    #[test]
    fn a_crash_keeps_the_prefix_that_it_is_told_to() {
        let engine = MemoryEngine::default();
        let dir = Path::new("store");
        let store = engine.open(dir).unwrap();
        put(&*store, b"1");
        store.flush(true).unwrap();
        put(&*store, b"2");
        put(&*store, b"3");
        engine.crash(|_, pending| {
            assert_eq!(pending, 2);
            1
        });
        assert!(matches!(store.flush(true), Err(KvError::Storage(_))));
        assert!(store.clone().snapshot().check().is_err());

        let after = engine.open(dir).unwrap();
        drop(store);
        assert!(has(&*after, b"1") && has(&*after, b"2") && !has(&*after, b"3"));
        assert_eq!(after.last_sequence(), 2);
        assert_eq!(after.durable_sequence(), 2);
    }

    #[test]
    fn faults_hit_what_they_name() {
        let engine = MemoryEngine::default();
        let store = engine.open(Path::new("store")).unwrap();
        let mut writes = KvWrites::default();
        writes.put(b"1", 1, b"");
        engine.set_faults(Faults {
            stalled: true,
            cold: true,
            ..Faults::default()
        });
        assert!(matches!(
            store.write(&writes, false),
            Err(KvError::Stalled(_))
        ));
        store.write(&writes, true).unwrap();
        assert!(
            !store
                .multi_get(&[b"1"], Reach::Memory, &mut |_, _| {})
                .unwrap()
        );
        assert!(has(&*store, b"1"));
        engine.set_faults(Faults {
            failing: true,
            ..Faults::default()
        });
        assert!(matches!(store.flush(true), Err(KvError::Storage(_))));
        assert!(engine.open(Path::new("other")).is_err());
        assert!(has(&*store, b"1"));
    }
}
