//! What durable code needs from a disk.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// How an existing file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading only.
    Read,
    /// For reading and writing. Content and length stay.
    ReadWrite,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name within the directory. Names that are not UTF-8 are not listed: no
    /// file of ours has one.
    pub name: String,
    /// Length in bytes; 0 for directories.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A directory tree on a disk.
///
/// All paths are taken as they are. Creating, renaming and removing entries is
/// visible at once and **durable only after [`sync_dir`](Self::sync_dir)** of
/// the directory that holds the entry.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Creates a directory within an existing one.
    ///
    /// # Errors
    /// `AlreadyExists` when there is something of that name.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Creates `path` and the directories above it that are missing.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Creates a file for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens an existing file.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>>;

    /// Renames within one file system; a file at `to` is replaced atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles stay readable.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, in no order.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// An open file. All methods may be called from several threads at once; who
/// may write where is the caller's affair.
pub trait StorageFile: Send + Sync + fmt::Debug {
    /// Reads at most `buffer.len()` bytes at `position`; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// As [`read_at`](Self::read_at), but never waits for the disk.
    ///
    /// Where the file system cannot tell (RWF_NOWAIT unsupported), it reads
    /// plainly: such file systems are mostly memory ones.
    ///
    /// # Errors
    /// `WouldBlock` when not even the first byte is in the page cache. A short
    /// count means that the rest is not (or is beyond the end).
    fn try_read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all of `slices`, one after the other, at `position`. `slices` is
    /// consumed as it goes.
    ///
    /// # Errors
    /// On an error any part of it may have been written.
    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;

    /// Makes the content, and the length needed to read it, durable.
    ///
    /// # Errors
    /// After an error the unsynced bytes may be lost *although a later call
    /// succeeds* (the kernel marks failed pages clean): never retry it as if it
    /// had worked.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// The file of the operating system, for sendfile; `None` if simulated.
    fn os_file(&self) -> Option<&Arc<File>>;

    /// Fills `buffer` from `position`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], position + filled as u64)? {
                0 => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        format!(
                            "file ends at {} of {} bytes wanted from {position}",
                            filled,
                            buffer.len()
                        ),
                    ));
                }
                count => filled += count,
            }
        }
        Ok(())
    }
}

/// Whether an error says that there is no room: disk full or quota exceeded.
#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
