//! The file system of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, ReadWriteFlags};

use crate::file_system::{DirEntry, FileSystem, OpenMode, StorageFile};

/// Slices per pwritev: IOV_MAX of Linux.
const SLICES_PER_WRITE: usize = 1024;

/// Files and directories through system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFileSystem;

impl FileSystem for RealFileSystem {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let write = mode == OpenMode::ReadWrite;
        let file = OpenOptions::new().read(true).write(write).open(path)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed between the listing and the look at it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let is_dir = metadata.is_dir();
            entries.push(DirEntry {
                name,
                len: if is_dir { 0 } else { metadata.len() },
                is_dir,
            });
        }
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[derive(Debug)]
struct RealFile {
    file: Arc<File>,
    /// Set once the file system has refused RWF_NOWAIT, to ask only once.
    nowait_refused: AtomicBool,
}

impl RealFile {
    fn new(file: File) -> Self {
        Self {
            file: Arc::new(file),
            nowait_refused: AtomicBool::new(false),
        }
    }
}

impl StorageFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn try_read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if self.nowait_refused.load(Ordering::Relaxed) {
            return self.read_at(buffer, position);
        }
        let mut slices = [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&*self.file, &mut slices, position, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(count),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.nowait_refused.store(true, Ordering::Relaxed);
                self.read_at(buffer, position)
            }
            // Interrupted before anything was read: the caller's slow path is right too.
            Err(Errno::AGAIN | Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut left = slices;
        let mut position = position;
        // Leading empty slices would look like a write of nothing.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let now = &left[..left.len().min(SLICES_PER_WRITE)];
            match rustix::io::pwritev(&*self.file, now, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut left, written);
                    position += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn os_file(&self) -> Option<&Arc<File>> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectored_writes_beyond_the_kernel_limit_are_written_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = RealFileSystem.create_new(&path).unwrap();
        let numbers: Vec<[u8; 4]> = (0..3_000u32).map(u32::to_le_bytes).collect();
        let mut slices = vec![IoSlice::new(&[])];
        slices.extend(numbers.iter().map(|number| IoSlice::new(number)));
        file.write_all_at(&mut slices, 5).unwrap();
        file.sync_data().unwrap();
        RealFileSystem.sync_dir(dir.path()).unwrap();
        assert_eq!(file.size().unwrap(), 5 + 12_000);

        let file = RealFileSystem.open(&path, OpenMode::Read).unwrap();
        let mut last = [0; 4];
        file.read_exact_at(&mut last, 5 + 4 * 2_999).unwrap();
        assert_eq!(u32::from_le_bytes(last), 2_999);
        let beyond = file.read_exact_at(&mut last, 12_003).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn cached_bytes_are_read_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealFileSystem.create_new(&dir.path().join("file")).unwrap();
        file.write_all_at(&mut [IoSlice::new(b"hot")], 0).unwrap();
        let mut buffer = [0; 3];
        // Just written, so in the page cache; or the file system cannot tell.
        assert_eq!(file.try_read_cached(&mut buffer, 0).unwrap(), 3);
        assert_eq!(&buffer, b"hot");
    }

    #[test]
    fn creating_over_an_existing_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        RealFileSystem.create_new(&path).unwrap();
        let error = RealFileSystem.create_new(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let names: Vec<_> = RealFileSystem.list(dir.path()).unwrap();
        assert_eq!(
            names,
            [DirEntry {
                name: "file".into(),
                len: 0,
                is_dir: false
            }]
        );
    }
}
