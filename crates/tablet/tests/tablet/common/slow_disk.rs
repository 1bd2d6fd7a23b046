//! A disk whose bytes are in memory only after they were waited for.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::thread::ThreadId;

use mainstem_env::{DirEntry, FileSystem, OpenMode, SimFileSystem, StorageFile};
use parking_lot::Mutex;

const PAGE: u64 = 4_096;

#[derive(Debug)]
pub struct SlowDisk {
    disk: SimFileSystem,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Pages in memory, by file and number.
    cached: HashSet<(String, u64)>,
    /// A thread that must never wait for the disk.
    hasty: Option<ThreadId>,
}

impl SlowDisk {
    pub fn new(disk: SimFileSystem) -> Self {
        Self {
            disk,
            state: Arc::default(),
        }
    }

    /// From now on this thread must not wait for the disk.
    pub fn forbid_waiting_here(&self) {
        self.state.lock().hasty = Some(std::thread::current().id());
    }

    /// Nothing is in memory any more.
    pub fn forget(&self) {
        self.state.lock().cached.clear();
    }

    fn wrap(&self, path: &Path, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(SlowFile {
            name: path.display().to_string(),
            file,
            state: self.state.clone(),
        })
    }
}

impl FileSystem for SlowDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(path, self.disk.create_new(path)?))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(path, self.disk.open(path, mode)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
}

#[derive(Debug)]
struct SlowFile {
    name: String,
    file: Arc<dyn StorageFile>,
    state: Arc<Mutex<State>>,
}

impl SlowFile {
    fn pages(&self, position: u64, len: usize) -> impl Iterator<Item = (String, u64)> + '_ {
        let end = position + (len as u64).max(1);
        (position / PAGE..end.div_ceil(PAGE)).map(|page| (self.name.clone(), page))
    }
}

impl StorageFile for SlowFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        let missing: Vec<_> = self
            .pages(position, buffer.len())
            .filter(|page| !state.cached.contains(page))
            .collect();
        if !missing.is_empty() && state.hasty == Some(std::thread::current().id()) {
            panic!("waits for {} on the thread of the requests", self.name);
        }
        state.cached.extend(missing);
        self.file.read_at(buffer, position)
    }

    fn try_read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.state.lock();
        if self
            .pages(position, buffer.len())
            .any(|page| !state.cached.contains(&page))
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read_at(buffer, position)
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        let pages: Vec<_> = self.pages(position, len).collect();
        self.state.lock().cached.extend(pages);
        self.file.write_all_at(slices, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn os_file(&self) -> Option<&Arc<File>> {
        None
    }
}
