//! A bounded number of open read handles.
//!
//! A server may hold a hundred thousand small segment files, and a process may
//! open a thousand. The cache keeps the recently used ones open; a handle that
//! is evicted while somebody reads from it lives on until that reader is done.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::file_system::StorageFile;

/// Open handles by key, evicted by second chance (an approximation of least
/// recently used without moving anything on a hit). Keys are chosen by the
/// caller and never reused for another file.
#[derive(Debug)]
pub struct HandleCache {
    capacity: usize,
    open: Mutex<OpenHandles>,
}

#[derive(Debug, Default)]
struct OpenHandles {
    by_key: HashMap<u64, Handle>,
    /// Keys in the order in which they are considered for eviction. May hold
    /// keys that were forgotten. Bounded by twice the capacity, plus one.
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Handle {
    file: Arc<dyn StorageFile>,
    used_since_considered: bool,
}

impl HandleCache {
    /// A cache of at most `capacity` handles (at least one).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            open: Mutex::default(),
        }
    }

    /// The handle of `key`, opened with `open` when it is not cached.
    ///
    /// `open` runs outside the cache's lock; when two threads open the same
    /// file at once, one of the two handles is kept.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn get_or_open(
        &self,
        key: u64,
        open: impl FnOnce() -> io::Result<Arc<dyn StorageFile>>,
    ) -> io::Result<Arc<dyn StorageFile>> {
        if let Some(handle) = self.open.lock().by_key.get_mut(&key) {
            handle.used_since_considered = true;
            return Ok(Arc::clone(&handle.file));
        }
        let file = open()?;
        self.insert(key, Arc::clone(&file));
        Ok(file)
    }

    /// Puts in a handle that the caller has opened anyway.
    pub fn insert(&self, key: u64, file: Arc<dyn StorageFile>) {
        // Dropped after the lock: closing a file may take its time.
        let evicted;
        {
            let mut open = self.open.lock();
            let handle = Handle {
                file,
                used_since_considered: false,
            };
            if open.by_key.insert(key, handle).is_none() {
                open.order.push_back(key);
            }
            evicted = open.evict_down_to(self.capacity);
        }
        drop(evicted);
    }

    /// Closes the handle of `key`, when its file is removed or replaced.
    pub fn forget(&self, key: u64) {
        let handle = self.open.lock().by_key.remove(&key);
        drop(handle);
    }

    /// Number of cached handles.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.lock().by_key.len()
    }

    /// Whether no handle is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl OpenHandles {
    fn evict_down_to(&mut self, capacity: usize) -> Vec<Handle> {
        if self.order.len() > 2 * capacity {
            let mut seen = HashSet::with_capacity(self.by_key.len());
            self.order
                .retain(|key| self.by_key.contains_key(key) && seen.insert(*key));
        }
        let mut evicted = Vec::new();
        while self.by_key.len() > capacity {
            let Some(key) = self.order.pop_front() else {
                break;
            };
            match self.by_key.get_mut(&key) {
                // Forgotten earlier.
                None => {}
                Some(handle) if handle.used_since_considered => {
                    handle.used_since_considered = false;
                    self.order.push_back(key);
                }
                Some(_) => evicted.extend(self.by_key.remove(&key)),
            }
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{FileSystem, OpenMode, SimFileSystem};

    fn open(fs: &SimFileSystem) -> io::Result<Arc<dyn StorageFile>> {
        fs.open(Path::new("/file"), OpenMode::Read)
    }

    fn file_system() -> SimFileSystem {
        let fs = SimFileSystem::new(1);
        fs.create_new(Path::new("/file")).unwrap();
        fs
    }

    #[test]
    fn the_number_of_open_handles_is_bounded() {
        let fs = file_system();
        let cache = HandleCache::new(10);
        for key in 0..1_000 {
            cache.get_or_open(key, || open(&fs)).unwrap();
            assert!(cache.len() <= 10);
        }
    }

    #[test]
    fn a_handle_in_use_survives_those_used_once() {
        let fs = file_system();
        let cache = HandleCache::new(4);
        for key in 0..100 {
            cache.get_or_open(1_000, || open(&fs)).unwrap();
            cache.get_or_open(key, || open(&fs)).unwrap();
        }
        cache.get_or_open(1_000, || panic!("was evicted")).unwrap();
    }

    #[test]
    fn forgotten_keys_do_not_pile_up() {
        let fs = file_system();
        let cache = HandleCache::new(8);
        for key in 0..10_000 {
            cache.get_or_open(key, || open(&fs)).unwrap();
            cache.forget(key);
        }
        assert!(cache.is_empty());
        assert!(cache.open.lock().order.len() <= 17);
    }
}
