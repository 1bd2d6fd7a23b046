//! What can go wrong, and what went on.

use std::io;
use std::path::PathBuf;

/// How a changing operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space left. A write leaves an arbitrary prefix of its bytes.
    DiskFull,
    /// Input/output error. A write leaves an arbitrary prefix; a failed sync of
    /// a file drops an arbitrary part of the unsynced bytes *for good*, while
    /// they stay readable and later syncs succeed, as Linux does.
    Io,
    /// The power goes: the operation may have happened in part, and it and all
    /// later ones fail, until [`power_loss`](crate::SimFileSystem::power_loss)
    /// gives the disk of the next start.
    PowerLoss,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::DiskFull => io::Error::new(io::ErrorKind::StorageFull, "simulated: disk full"),
            Self::Io => io::Error::other("simulated: input/output error"),
            Self::PowerLoss => io::Error::other("simulated: power is off"),
        }
    }
}

/// One successful changing operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A directory was created.
    CreateDir(PathBuf),
    /// A file was created.
    Create(PathBuf),
    /// Bytes were written.
    Write {
        /// The file, by the name under which it was opened.
        path: PathBuf,
        /// First byte.
        position: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The length was set.
    SetLen {
        /// The file.
        path: PathBuf,
        /// New length.
        len: u64,
    },
    /// The content was synced.
    SyncData(PathBuf),
    /// An entry was renamed.
    Rename {
        /// Old name.
        from: PathBuf,
        /// New name.
        to: PathBuf,
    },
    /// A file or an empty directory was removed.
    Remove(PathBuf),
    /// The entries of a directory were synced.
    SyncDir(PathBuf),
}
