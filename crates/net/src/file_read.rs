//! Reading file ranges without blocking the runtime.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

/// Result of [`read_cached`].
#[derive(Debug)]
pub(crate) enum Cached {
    /// So many bytes, at least one, from the page cache.
    Read(usize),
    /// The first byte is not cached, or the file system cannot tell.
    Cold,
}

/// Reads what the page cache holds of a range, from its beginning.
///
/// # Errors
///
/// The range is not in the file, or the file cannot be read.
pub(crate) fn read_cached(file: &File, position: u64, into: &mut [u8]) -> io::Result<Cached> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut slices = [io::IoSliceMut::new(into)];
    match preadv2(file, &mut slices, position, ReadWriteFlags::NOWAIT) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(Cached::Read(read)),
        // The file system may not support the question: then every read is cold.
        Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            Ok(Cached::Cold)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads a whole range on a thread that may block. `permits` bounds how many
/// such reads run at once.
///
/// # Errors
///
/// The range is not in the file, or the file cannot be read.
pub(crate) async fn read_cold(
    file: Arc<File>,
    position: u64,
    length: usize,
    permits: Arc<Semaphore>,
) -> io::Result<Bytes> {
    let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
    let read = move || {
        // Held by the read itself, which goes on when its connection is gone.
        let _permit = permit;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, position)?;
        Ok(Bytes::from(bytes))
    };
    tokio::task::spawn_blocking(read)
        .await
        .map_err(io::Error::other)?
}
