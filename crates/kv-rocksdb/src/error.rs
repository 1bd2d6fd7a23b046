//! RocksDB's errors, by what the caller can do.

use std::io;
use std::path::Path;

use mainstem_kv::KvError;
use rocksdb::{Error, ErrorKind};

/// Part of every message about a file that should be there.
const MISSING_FILE: &str = "No such file or directory";
/// Part of every message about a full disk.
const NO_SPACE: &str = "No space left on device";

/// Of an opening: also files of a form that no store of ours has mean damage.
pub(crate) fn opening(dir: &Path, error: Error) -> KvError {
    let text = format!("{}: {error}", dir.display());
    match error.kind() {
        ErrorKind::Corruption | ErrorKind::NotSupported | ErrorKind::InvalidArgument => {
            KvError::Damaged(text)
        }
        ErrorKind::IOError => disk(text),
        _ => KvError::Storage(text),
    }
}

/// RocksDB tells these apart in words only.
fn disk(text: String) -> KvError {
    match text {
        text if text.contains(MISSING_FILE) => KvError::Damaged(text),
        text if text.contains(NO_SPACE) => KvError::DiskFull(text),
        text => KvError::Storage(text),
    }
}

/// Of an open store.
pub(crate) fn running(error: Error) -> KvError {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Corruption => KvError::Damaged(text),
        ErrorKind::IOError => disk(text),
        ErrorKind::Incomplete => KvError::Stalled(text),
        _ => KvError::Storage(text),
    }
}

/// Of the file system.
pub(crate) fn file_system(path: &Path, error: &io::Error) -> KvError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull => KvError::DiskFull(text),
        _ => KvError::Storage(text),
    }
}
