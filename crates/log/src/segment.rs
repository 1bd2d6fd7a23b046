//! One segment: a file of batches, its extent, and its index.
//!
//! A segment knows nothing of its directory; methods that touch the disk get
//! it. Appends are serialised by the tablet's writer lock; readers see a new
//! batch when the extent is published.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstem_env::{OpenMode, StorageFile};
use mainstem_format::header::BatchHeader;
use parking_lot::Mutex;

use crate::bucket_dir::{BucketDir, index_name};
use crate::error::LogError;
use crate::header_reader::{HeaderReader, WalkError};
use crate::index_file;
use crate::sparse_index::{Boundary, SparseIndex};

/// Segments smaller than this get no index file: reading them whole is one read.
const MIN_INDEXED_BYTES: u64 = 64 << 10;
/// Of sealed segments smaller than this the index is not kept in memory: a
/// look-up reads their headers at once, and there may be very many of them.
const MIN_KEPT_BYTES: u64 = 4 << 10;

#[derive(Debug)]
pub(crate) struct Segment {
    /// Key of its read handle.
    id: u64,
    base_offset: i64,
    index_interval_bytes: u32,
    /// Where its visible batches end. Bytes behind it are garbage or being
    /// written.
    end: Mutex<Boundary>,
    /// Whether the content was found to reach exactly to `end`: written by this
    /// process, scanned by recovery, or walked over since.
    checked: AtomicBool,
    sealed: AtomicBool,
    /// Loaded by the first lookup. Locked before `end`.
    index: Mutex<Option<Box<SparseIndex>>>,
}

impl Segment {
    /// A segment that was just created, empty.
    pub fn create(id: u64, base_offset: i64, index_interval_bytes: u32) -> Self {
        let segment = Self::found(
            id,
            Boundary {
                offset: base_offset,
                position: 0,
            },
            base_offset,
            index_interval_bytes,
        );
        segment.mark_checked();
        let index = SparseIndex::new(base_offset, index_interval_bytes);
        *segment.index.lock() = Some(Box::new(index));
        segment
    }

    /// A segment found on disk, that ends at `end` if all is well.
    pub fn found(id: u64, end: Boundary, base_offset: i64, index_interval_bytes: u32) -> Self {
        Self {
            id,
            base_offset,
            index_interval_bytes,
            end: Mutex::new(end),
            checked: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            index: Mutex::new(None),
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    pub fn end(&self) -> Boundary {
        *self.end.lock()
    }

    pub fn size_bytes(&self) -> u64 {
        self.end().position
    }

    pub fn mark_checked(&self) {
        self.checked.store(true, Ordering::Release);
    }

    /// Notes that no more batches will come.
    pub fn mark_sealed(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// A handle for reading.
    pub fn open(&self, dir: &BucketDir) -> Result<Arc<dyn StorageFile>, LogError> {
        let mut path = None;
        dir.resources
            .handles
            .get_or_open(self.id, || {
                let path = path.insert(dir.segment_path(self.base_offset));
                if !dir.waits {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                dir.fs().open(path, OpenMode::Read)
            })
            .map_err(|error| {
                let path = path.unwrap_or_else(|| dir.segment_path(self.base_offset));
                LogError::io("open", &path, error)
            })
    }

    /// Publishes batches that were written at the end.
    pub fn extend(&self, headers: &[BatchHeader]) {
        let mut index = self.index.lock();
        let mut end = self.end();
        for header in headers {
            if let Some(index) = index.as_deref_mut() {
                index.push(header);
            }
            end.position += header.total_len as u64;
            end.offset = header.next_offset();
        }
        *self.end.lock() = end;
    }

    /// Cuts the visible batches to those in front of a boundary.
    pub fn cut(&self, end: Boundary) {
        let mut index = self.index.lock();
        *index = None;
        self.sealed.store(false, Ordering::Release);
        *self.end.lock() = end;
    }

    /// Ends appending, and writes the index file. That it cannot be written
    /// costs a walk later.
    pub fn seal(&self, dir: &BucketDir) {
        self.mark_sealed();
        if let Some(bytes) = self.encode_index()
            && let Err(error) = self.write_index(dir, &bytes)
        {
            tracing::debug!(%error, "index was not written");
        }
        *self.index.lock() = None;
    }

    /// The index as a file, if the segment has one loaded and deserves it.
    pub fn encode_index(&self) -> Option<Vec<u8>> {
        let index = self.index.lock();
        let index = index
            .as_deref()
            .filter(|index| index.end().position >= MIN_INDEXED_BYTES)?;
        Some(index_file::encode(index))
    }

    pub fn write_index(&self, dir: &BucketDir, bytes: &[u8]) -> Result<(), LogError> {
        dir.write_small(&index_name(self.base_offset), bytes)
            .map(drop)
    }

    /// Whether the index is loaded. Somebody may be loading it: then not yet.
    pub fn is_indexed(&self) -> bool {
        self.index.try_lock().is_some_and(|index| index.is_some())
    }

    pub fn unload_index(&self) {
        // A busy index is in use; it is unloaded another time.
        if let Some(mut index) = self.index.try_lock()
            && self.sealed.load(Ordering::Acquire)
        {
            *index = None;
        }
    }

    /// Makes sure that the batches reach exactly to the end that the segment is
    /// believed to have, so that a hole in the log is an error, never a jump.
    pub fn check(self: &Arc<Self>, dir: &BucketDir) -> Result<(), LogError> {
        if self.checked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.with_index(dir, |_| ())
    }

    /// Loads the index, for appends to keep it up.
    pub fn load_index(self: &Arc<Self>, dir: &BucketDir) -> Result<(), LogError> {
        self.with_index(dir, |_| ())
    }

    /// Largest commit timestamp; `i64::MIN` without batches.
    pub fn max_timestamp_ms(self: &Arc<Self>, dir: &BucketDir) -> Result<i64, LogError> {
        self.with_index(dir, SparseIndex::max_timestamp_ms)
    }

    fn with_index<T>(
        self: &Arc<Self>,
        dir: &BucketDir,
        look: impl FnOnce(&SparseIndex) -> T,
    ) -> Result<T, LogError> {
        if !dir.waits {
            // Somebody may hold it while he reads the index from the disk.
            let index = self.index.try_lock();
            return match index.as_ref().and_then(|index| index.as_deref()) {
                Some(index) => Ok(look(index)),
                None => {
                    let path = dir.segment_path(self.base_offset);
                    let error = io::ErrorKind::WouldBlock.into();
                    Err(LogError::io("load the index of", &path, error))
                }
            };
        }
        let mut index = self.index.lock();
        if let Some(index) = index.as_deref() {
            return Ok(look(index));
        }
        let mut loaded = self.read_index(dir)?;
        // Read under the lock: sealing unloads the index afterwards.
        if !self.sealed.load(Ordering::Acquire) {
            return Ok(look(index.insert(Box::new(loaded))));
        }
        loaded.forget_recent();
        if loaded.end().position < MIN_KEPT_BYTES {
            return Ok(look(&loaded));
        }
        let bytes = loaded.memory_bytes();
        let seen = look(index.insert(Box::new(loaded)));
        drop(index);
        dir.resources.sealed_index_loaded(self, bytes);
        Ok(seen)
    }

    /// The index from its file as far as that goes, completed by a walk over the
    /// other headers; by a walk alone when the file does not fit the segment.
    fn read_index(&self, dir: &BucketDir) -> Result<SparseIndex, LogError> {
        let end = self.end();
        if end.position >= MIN_INDEXED_BYTES {
            let stored = dir
                .read_small(
                    &index_name(self.base_offset),
                    index_file::MAX_INDEX_FILE_LEN,
                )?
                .and_then(|bytes| index_file::decode(&bytes, self.base_offset))
                .filter(|index| {
                    let covered = index.end();
                    covered.position <= end.position && covered.offset <= end.offset
                });
            if let Some(stored) = stored {
                match self.complete_index(dir, stored, end) {
                    Err(LogError::Damaged { .. }) => {}
                    result => return result,
                }
            }
        }
        self.walk_index(dir, end)
    }

    /// An index made without its file.
    fn walk_index(&self, dir: &BucketDir, end: Boundary) -> Result<SparseIndex, LogError> {
        let empty = SparseIndex::new(self.base_offset, self.index_interval_bytes);
        self.complete_index(dir, empty, end)
    }

    fn complete_index(
        &self,
        dir: &BucketDir,
        mut index: SparseIndex,
        end: Boundary,
    ) -> Result<SparseIndex, LogError> {
        if index.end().position < end.position {
            let mut reader = HeaderReader::new(self.open(dir)?, index.end(), end.position);
            loop {
                let at = reader.at().position;
                match reader.next() {
                    Ok(Some(header)) => index.push(&header),
                    Ok(None) => break,
                    Err(error) => return Err(self.walk_error(dir, at, error)),
                }
            }
        }
        if index.end() != end {
            let reason = format!(
                "the batches end at offset {} instead of {}",
                index.end().offset,
                end.offset
            );
            let path = dir.segment_path(self.base_offset);
            return Err(LogError::damaged(path, index.end().position, reason));
        }
        self.mark_checked();
        Ok(index)
    }

    fn walk_error(&self, dir: &BucketDir, position: u64, error: WalkError) -> LogError {
        let path = dir.segment_path(self.base_offset);
        match error {
            // The file is shorter than it was.
            WalkError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                LogError::damaged(path, position, error.to_string())
            }
            error => error.at(path, position),
        }
    }

    /// The batch that contains `offset`, which lies within the segment.
    pub fn batch_containing(
        self: &Arc<Self>,
        dir: &BucketDir,
        offset: i64,
    ) -> Result<Boundary, LogError> {
        self.seek(
            dir,
            |index| index.floor_of_offset(offset),
            |header| header.next_offset() > offset,
        )
    }

    /// Where the batch ends that begins at `start`, before the end of the segment.
    pub fn batch_end(&self, dir: &BucketDir, start: Boundary) -> Result<Boundary, LogError> {
        let mut reader =
            HeaderReader::new(self.open(dir)?, start, self.end().position).waiting(dir.waits);
        match reader.next() {
            Ok(_) => Ok(reader.at()),
            Err(error) => Err(self.walk_error(dir, start.position, error)),
        }
    }

    /// The last boundary at `position` or before.
    pub fn boundary_before(
        self: &Arc<Self>,
        dir: &BucketDir,
        position: u64,
    ) -> Result<Boundary, LogError> {
        let batch_end = Cell::new(0);
        self.seek(
            dir,
            |index| {
                let floor = index.floor_of_position(position);
                batch_end.set(floor.position);
                floor
            },
            |header| {
                batch_end.set(batch_end.get() + header.total_len as u64);
                batch_end.get() > position
            },
        )
    }

    /// The first batch that is not older than `timestamp_ms`, or the end.
    pub fn batch_at_time(
        self: &Arc<Self>,
        dir: &BucketDir,
        timestamp_ms: i64,
    ) -> Result<Boundary, LogError> {
        self.seek(
            dir,
            |index| index.floor_of_timestamp(timestamp_ms),
            |header| header.commit_timestamp_ms >= timestamp_ms,
        )
    }

    /// Walks from a boundary of the index to the first batch of which `found`
    /// holds, or to the end. When the index turns out to lie, it is rebuilt.
    fn seek(
        self: &Arc<Self>,
        dir: &BucketDir,
        mut floor: impl FnMut(&SparseIndex) -> Boundary,
        mut found: impl FnMut(&BatchHeader) -> bool,
    ) -> Result<Boundary, LogError> {
        let mut rebuilt = false;
        loop {
            let (start, end) = self.with_index(dir, |index| (floor(index), index.end()))?;
            if start == end {
                return Ok(end);
            }
            let mut reader =
                HeaderReader::new(self.open(dir)?, start, end.position).waiting(dir.waits);
            let walked = loop {
                let at = reader.at();
                match reader.next() {
                    Ok(Some(header)) if found(&header) => break Ok(at),
                    Ok(Some(_)) => {}
                    Ok(None) => break Ok(at),
                    Err(error) => break Err((at, error)),
                }
            };
            match walked {
                Ok(at) => {
                    // A hint only: not worth waiting for whoever reads the index.
                    if let Some(mut index) = self.index.try_lock()
                        && let Some(index) = index.as_deref_mut()
                    {
                        index.remember(at);
                    }
                    return Ok(at);
                }
                Err((at, error)) => {
                    if rebuilt || at != start || start.position == 0 || error.would_block() {
                        return Err(self.walk_error(dir, at.position, error));
                    }
                    tracing::warn!(
                        path = ?dir.index_path(self.base_offset),
                        "index does not fit its segment, rebuilding it"
                    );
                    let mut index = self.index.lock();
                    *index = Some(Box::new(self.walk_index(dir, self.end())?));
                    rebuilt = true;
                }
            }
        }
    }
}
