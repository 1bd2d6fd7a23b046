//! What the tablets of one data directory share.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use mainstem_env::{FileSystem, HandleCache};
use parking_lot::Mutex;

use crate::dir_registry::DirRegistry;
use crate::segment::Segment;

/// Bytes that the indexes of sealed segments may take in memory, all tablets
/// together: the working set of a few hundred segments read at once.
const SEALED_INDEX_BYTES: usize = 32 << 20;

/// File system, open handles and loaded indexes, shared by all tablets of a
/// data directory and bounded for all of them together.
pub struct LogResources {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) data_dir: PathBuf,
    pub(crate) handles: HandleCache,
    pub(crate) dirs: DirRegistry,
    next_segment_id: AtomicU64,
    sealed_indexes: Mutex<SealedIndexes>,
}

impl LogResources {
    /// Resources for tablets below `data_dir`, which exists and is durable.
    /// `open_handles` bounds the cached read handles; the open files of
    /// tablets that are being written come on top.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, data_dir: PathBuf, open_handles: usize) -> Arc<Self> {
        Arc::new(Self {
            fs,
            data_dir,
            handles: HandleCache::new(open_handles),
            dirs: DirRegistry::default(),
            next_segment_id: AtomicU64::new(0),
            sealed_indexes: Mutex::default(),
        })
    }

    /// The file system.
    #[must_use]
    pub fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Number of read handles that are cached now.
    #[must_use]
    pub fn cached_handles(&self) -> usize {
        self.handles.len()
    }

    /// A key for the handle cache that no other segment has or had.
    pub(crate) fn new_segment_id(&self) -> u64 {
        self.next_segment_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a sealed segment's index that was just loaded, and unloads the
    /// longest loaded ones beyond the limit. The caller holds no index lock.
    pub(crate) fn sealed_index_loaded(&self, segment: &Arc<Segment>, bytes: usize) {
        let mut unload = Vec::new();
        {
            let mut loaded = self.sealed_indexes.lock();
            loaded.segments.push_back((Arc::downgrade(segment), bytes));
            loaded.bytes += bytes;
            while loaded.bytes > SEALED_INDEX_BYTES && loaded.segments.len() > 1 {
                let Some((segment, bytes)) = loaded.segments.pop_front() else {
                    break;
                };
                loaded.bytes -= bytes;
                unload.push(segment);
            }
        }
        for segment in unload.iter().filter_map(Weak::upgrade) {
            segment.unload_index();
        }
    }
}

impl fmt::Debug for LogResources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LogResources")
            .field("data_dir", &self.data_dir)
            .finish()
    }
}

#[derive(Default)]
struct SealedIndexes {
    segments: VecDeque<(Weak<Segment>, usize)>,
    bytes: usize,
}
