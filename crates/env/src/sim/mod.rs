//! A simulated disk that knows what was synced and what was not.
//!
//! Written bytes and changed directory entries are visible at once, as on a
//! real system, and durable only once synced. [`SimFileSystem::power_loss`]
//! gives the disk that a machine could find after losing power at this moment:
//! everything synced, and an arbitrary, seeded part of the rest (a prefix, a
//! torn last write, single sectors, zeros or garbage where a write had only
//! extended the file, entries lost or kept one by one). This is harsher than
//! journalling file systems are, on purpose: POSIX promises no more.
//!
//! [`SimFileSystem::fail`] makes the n-th changing operation fail, which with
//! [`Fault::PowerLoss`] enumerates the crash between any two operations.

mod disk;
mod fault;
mod inode;

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::file_system::{DirEntry, FileSystem, OpenMode, StorageFile};
use disk::{Disk, InodeNumber};
pub use fault::{Fault, Operation};

/// What happens to unsynced changes at a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All are lost.
    Nothing,
    /// All are kept, as if the kernel had just written everything back.
    Everything,
    /// An arbitrary part, chosen by this seed.
    Seeded(u64),
}

/// The simulated disk; clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct SimFileSystem {
    disk: Arc<Mutex<Disk>>,
}

impl SimFileSystem {
    /// An empty disk. `seed` decides what a failing operation leaves behind.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from_disk(Disk::new(seed))
    }

    fn from_disk(disk: Disk) -> Self {
        Self {
            disk: Arc::new(Mutex::new(disk)),
        }
    }

    /// The disk as a machine that loses power now could find it. This one is
    /// not changed, so that many outcomes can be tried from one state.
    #[must_use]
    pub fn power_loss(&self, survival: Survival) -> Self {
        Self::from_disk(self.disk.lock().after_power_loss(survival))
    }

    /// The disk as the next process sees it when this one is killed now: all
    /// written bytes are there, and those not synced still are not.
    #[must_use]
    pub fn process_kill(&self) -> Self {
        Self::from_disk(self.disk.lock().after_process_kill())
    }

    /// Lets the changing operation number `number` (from 1, see
    /// [`operations`](Self::operations)) end as `fault` says.
    pub fn fail(&self, number: u64, fault: Fault) {
        self.disk.lock().faults.insert(number, fault);
    }

    /// Removes all faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.disk.lock().faults.clear();
    }

    /// Number of changing operations so far: creations, writes, cuts, syncs,
    /// renames, removals; failed ones too. Reads and listings do not count.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk.lock().operations
    }

    /// The successful changing operations so far, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<Operation> {
        self.disk.lock().trace.clone()
    }

    /// Limits the bytes in files; `None` lifts the limit. Writes beyond it fail
    /// with `StorageFull` after filling what is left.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk.lock().capacity = bytes;
    }

    /// Bytes in files that have a name.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.disk.lock().used_bytes()
    }

    /// Number of file handles that are open now.
    #[must_use]
    pub fn open_handles(&self) -> usize {
        self.disk.lock().open_handles
    }

    /// Flips bits of a file behind everybody's back, on the medium and in the
    /// cache: the byte at `position` is combined with `mask` by exclusive or.
    ///
    /// # Errors
    /// `NotFound` for an unknown file, `UnexpectedEof` beyond its end.
    pub fn corrupt(&self, path: &Path, position: u64, mask: u8) -> io::Result<()> {
        self.disk.lock().corrupt(path, position, mask)
    }

    /// The visible content of a file.
    ///
    /// # Errors
    /// `NotFound` for an unknown file.
    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.lock().content(path)
    }

    /// The content of a file that a sync has made durable.
    ///
    /// # Errors
    /// `NotFound` for an unknown file.
    pub fn durable_content(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.lock().durable_content(path)
    }

    fn open_handle(&self, path: &Path, inode: InodeNumber, mode: OpenMode) -> Arc<dyn StorageFile> {
        self.disk.lock().open_handles += 1;
        Arc::new(SimFile {
            disk: Arc::clone(&self.disk),
            path: path.to_owned(),
            inode,
            mode,
        })
    }
}

impl FileSystem for SimFileSystem {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().create_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().create_dir_all(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let inode = self.disk.lock().create_new(path)?;
        Ok(self.open_handle(path, inode, OpenMode::ReadWrite))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let inode = self.disk.lock().open(path)?;
        Ok(self.open_handle(path, inode, mode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.lock().rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().remove(path, false)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().remove(path, true)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.lock().list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().sync_dir(path)
    }
}

#[derive(Debug)]
struct SimFile {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    inode: InodeNumber,
    mode: OpenMode,
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        match self.mode {
            OpenMode::ReadWrite => Ok(()),
            OpenMode::Read => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "file is opened for reading only",
            )),
        }
    }
}

impl StorageFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.disk.lock().read(self.inode, buffer, position)
    }

    fn try_read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(buffer, position)
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.check_writable()?;
        let bytes: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        self.disk
            .lock()
            .write(&self.path, self.inode, position, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.lock().sync_data(&self.path, self.inode)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.lock().set_len(&self.path, self.inode, len)
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.lock().size(self.inode)
    }

    fn os_file(&self) -> Option<&Arc<File>> {
        None
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.lock().open_handles -= 1;
    }
}

#[cfg(test)]
mod tests;
