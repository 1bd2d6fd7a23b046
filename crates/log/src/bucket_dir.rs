//! The directory of one bucket.
//!
//! | Name | Content |
//! |---|---|
//! | `{base}.log` | a segment: batches as on the wire, back to back; `{base}` is the offset of the first one, 20 digits |
//! | `{base}.index` | sparse index of a segment ([`crate::index_file`]); may be missing, stale or torn |
//! | `checkpoint`, `checkpoint.prev` | state of the log at a durable point ([`crate::checkpoint`]) |
//! | `durable.mark` | lower bound of what was ever durable ([`crate::durable_mark`]) |
//! | `*.tmp` | being written, garbage after a crash |
//! | `*.quarantined` | set aside by recovery, never read again, never deleted |
//!
//! An empty bucket has no directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{FileSystem, OpenMode, StorageFile};

use crate::error::LogError;
use crate::resources::LogResources;

/// Digits of a base offset in a file name: enough for every `i64`.
const NAME_DIGITS: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct BucketDir {
    pub resources: Arc<LogResources>,
    path: Arc<Path>,
    /// Whether reads may wait for the disk. If not they fail with `WouldBlock`
    /// where they would have to.
    pub waits: bool,
}

impl BucketDir {
    pub fn new(resources: Arc<LogResources>, path: PathBuf) -> Self {
        Self {
            resources,
            path: path.into(),
            waits: true,
        }
    }

    /// The same directory for reads that must not wait for the disk.
    pub fn without_waiting(&self) -> Self {
        Self {
            waits: false,
            ..self.clone()
        }
    }

    pub fn fs(&self) -> &dyn FileSystem {
        &*self.resources.fs
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn segment_path(&self, base_offset: i64) -> PathBuf {
        self.file(&segment_name(base_offset))
    }

    pub fn index_path(&self, base_offset: i64) -> PathBuf {
        self.file(&index_name(base_offset))
    }

    /// Creates the directory with those above it.
    pub fn create(&self) -> Result<(), LogError> {
        self.resources
            .dirs
            .create(self.fs(), &self.resources.data_dir, &self.path)
    }

    /// Makes the directory's own entry, and those above it, durable.
    pub fn sync_lineage(&self) -> Result<(), LogError> {
        self.resources
            .dirs
            .sync(self.fs(), &self.resources.data_dir, &self.path)
    }

    /// Removes a file; that it is gone already is fine.
    pub fn remove(&self, name: &str) -> Result<(), LogError> {
        self.remove_path(&self.file(name))
    }

    pub fn remove_path(&self, path: &Path) -> Result<(), LogError> {
        match self.fs().remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LogError::io("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    pub fn sync(&self) -> Result<(), LogError> {
        self.fs()
            .sync_dir(&self.path)
            .map_err(|error| LogError::io("sync", &self.path, error))
    }

    /// Reads a small file whole; `None` when there is none. Of a file beyond
    /// `limit` bytes nothing is read.
    pub fn read_small(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, LogError> {
        let path = self.file(name);
        let read = || -> io::Result<Vec<u8>> {
            let file = self.fs().open(&path, OpenMode::Read)?;
            let len = file.size()?;
            if len > limit {
                return Ok(Vec::new());
            }
            // Bounded by `limit`.
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LogError::io("read", &path, error)),
        }
    }

    /// Writes a small file from nothing, replacing any content; not synced.
    pub fn write_small(&self, name: &str, bytes: &[u8]) -> Result<Arc<dyn StorageFile>, LogError> {
        let path = self.file(name);
        let write = || -> io::Result<Arc<dyn StorageFile>> {
            let file = match self.fs().create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let file = self.fs().open(&path, OpenMode::ReadWrite)?;
                    file.set_len(0)?;
                    file
                }
                result => result?,
            };
            file.write_all_at(&mut [io::IoSlice::new(bytes)], 0)?;
            Ok(file)
        };
        write().map_err(|error| LogError::io("write", &path, error))
    }
}

/// Fills `buffer` from `position` on.
///
/// # Errors
/// `WouldBlock` if not all of it is in memory and the read may not wait.
pub(crate) fn read_exact(
    file: &dyn StorageFile,
    buffer: &mut [u8],
    position: u64,
    waits: bool,
) -> io::Result<()> {
    if waits {
        return file.read_exact_at(buffer, position);
    }
    let mut filled = 0;
    while filled < buffer.len() {
        match file.try_read_cached(&mut buffer[filled..], position + filled as u64)? {
            // The end of what is in memory, or of the file: a read that waits tells.
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            count => filled += count,
        }
    }
    Ok(())
}

pub(crate) fn segment_name(base_offset: i64) -> String {
    format!("{base_offset:0NAME_DIGITS$}.log")
}

pub(crate) fn index_name(base_offset: i64) -> String {
    format!("{base_offset:0NAME_DIGITS$}.index")
}

/// The base offset of a file name with this ending, `None` for other names.
pub(crate) fn base_offset_of(name: &str, ending: &str) -> Option<i64> {
    let digits = name.strip_suffix(ending)?;
    let all_digits =
        digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits {
        digits.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_base_offsets_of_twenty_digits() {
        assert_eq!(segment_name(42), "00000000000000000042.log");
        assert_eq!(base_offset_of("00000000000000000042.log", ".log"), Some(42));
        assert_eq!(
            base_offset_of(&segment_name(i64::MAX), ".log"),
            Some(i64::MAX)
        );
        for name in [
            "42.log",
            "0000000000000000004x.log",
            "99999999999999999999.log",
            "a.log",
        ] {
            assert_eq!(base_offset_of(name, ".log"), None, "{name}");
        }
    }
}
