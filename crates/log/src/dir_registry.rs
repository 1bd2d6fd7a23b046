//! Which directories have a durable entry in the one above.
//!
//! Before the first bytes of a bucket count as durable, so must the entries of
//! its directory and of those above it, which buckets of the same table share.
//! Syncing all of them for every bucket would cost several disk flushes each;
//! the registry remembers what has been done.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use mainstem_env::FileSystem;
use parking_lot::Mutex;

use crate::error::LogError;

/// Directories remembered; all are forgotten beyond, which costs syncs only.
const MAX_DIRS: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct DirRegistry {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    dirs: HashMap<PathBuf, State>,
    creations: u64,
}

/// What is known of a directory; nothing at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Created, as the n-th one.
    Created(u64),
    /// Its entry was synced since it was created.
    Durable,
}

impl DirRegistry {
    /// Creates `path` and what is missing between it and `data_dir`.
    pub fn create(
        &self,
        fs: &dyn FileSystem,
        data_dir: &Path,
        path: &Path,
    ) -> Result<(), LogError> {
        // Under the lock, so that nobody takes a directory that is created anew
        // for the durable one that was there before.
        let mut known = self.known.lock();
        for dir in lineage(data_dir, path).into_iter().rev() {
            match fs.create_dir(dir) {
                Ok(()) => {
                    known.creations += 1;
                    let state = State::Created(known.creations);
                    known.set(dir, state);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(LogError::io("create", dir, error)),
            }
        }
        Ok(())
    }

    /// Makes the entries that lead from `data_dir` to `path` durable.
    pub fn sync(&self, fs: &dyn FileSystem, data_dir: &Path, path: &Path) -> Result<(), LogError> {
        for dir in lineage(data_dir, path) {
            let before = self.known.lock().dirs.get(dir).copied();
            if before == Some(State::Durable) {
                continue;
            }
            let parent = dir.parent().unwrap_or(data_dir);
            fs.sync_dir(parent)
                .map_err(|error| LogError::io("sync", parent, error))?;
            let mut known = self.known.lock();
            // Unless it was removed and created anew meanwhile.
            if known.dirs.get(dir).copied() == before {
                known.set(dir, State::Durable);
            }
        }
        Ok(())
    }

    /// Forgets a directory that is removed.
    pub fn forget(&self, path: &Path) {
        self.known.lock().dirs.remove(path);
    }
}

impl Known {
    fn set(&mut self, dir: &Path, state: State) {
        if self.dirs.len() >= MAX_DIRS {
            self.dirs.clear();
        }
        self.dirs.insert(dir.to_owned(), state);
    }
}

/// `path` and the directories above it, below `data_dir`.
fn lineage<'a>(data_dir: &Path, path: &'a Path) -> Vec<&'a Path> {
    path.ancestors()
        .take_while(|dir| dir.starts_with(data_dir) && *dir != data_dir)
        .collect()
}

#[cfg(test)]
mod tests {
    use mainstem_env::{Operation, SimFileSystem};

    use super::*;

    fn syncs(fs: &SimFileSystem) -> usize {
        fs.trace()
            .iter()
            .filter(|one| matches!(one, Operation::SyncDir(_)))
            .count()
    }

    #[test]
    fn shared_directories_are_synced_once_and_again_when_created_anew() {
        let fs = SimFileSystem::new(1);
        let registry = DirRegistry::default();
        let data_dir = Path::new("/");
        let create_and_sync = |path: &str| {
            registry.create(&fs, data_dir, Path::new(path)).unwrap();
            registry.sync(&fs, data_dir, Path::new(path)).unwrap();
        };
        create_and_sync("/db/t-1/log-0");
        assert_eq!(syncs(&fs), 3);
        create_and_sync("/db/t-1/log-1");
        assert_eq!(syncs(&fs), 4);
        create_and_sync("/db/t-1/log-1");
        assert_eq!(syncs(&fs), 4);
        // Removed by somebody who does not tell the registry.
        fs.remove_dir(Path::new("/db/t-1/log-1")).unwrap();
        create_and_sync("/db/t-1/log-1");
        assert_eq!(syncs(&fs), 5);
    }
}
