//! An open store.
//!
//! It begins with a small write buffer. When it has been written to for a while, the
//! next buffers are of the size that was set: a server has many stores of which few
//! are busy, and RocksDB allocates the filter of a buffer at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstem_kv::writes::in_key_order;
use mainstem_kv::{KvSnapshot, KvStore, KvWrites, Reach, Result, StoreStatistics};
use rocksdb::properties::{
    CUR_SIZE_ALL_MEM_TABLES, LIVE_SST_FILES_SIZE, NUM_ENTRIES_ACTIVE_MEM_TABLE,
    NUM_ENTRIES_IMM_MEM_TABLES,
};
use rocksdb::{
    ColumnFamily, DB, DEFAULT_COLUMN_FAMILY_NAME, ErrorKind, ReadOptions, ReadTier, WriteBatch,
    WriteOptions,
};

use crate::buffers::{self, Buffers, Member};
use crate::error;
use crate::options::{FIRST_WRITE_BUFFER_BYTES, LEVEL0_SLOWDOWN};
use crate::snapshot::RocksSnapshot;

/// Written bytes after which a store is taken for a busy one. The first buffer has
/// room for more, so that the change comes before the second one is made.
const BUSY_AFTER_BYTES: u64 = FIRST_WRITE_BUFFER_BYTES / 4;

/// An open RocksDB.
pub(crate) struct RocksStore {
    /// The only lasting reference: dropping it closes the database.
    db: Arc<DB>,
    read_disk: ReadOptions,
    read_memory: ReadOptions,
    write_waiting: WriteOptions,
    write_at_once: WriteOptions,
    /// Bytes of the write buffers of a busy store.
    write_buffer_bytes: u64,
    /// Bytes written since the opening.
    written: AtomicU64,
    buffers: Arc<Buffers>,
    member: Arc<Member>,
}

impl RocksStore {
    pub(crate) fn new(db: DB, write_buffer_bytes: u64, buffers: &Arc<Buffers>) -> Self {
        let db = Arc::new(db);
        let mut read_memory = ReadOptions::default();
        read_memory.set_read_tier(ReadTier::BlockCache);
        let write = |no_slowdown| {
            let mut options = WriteOptions::default();
            // The changelog is the log.
            options.disable_wal(true);
            options.set_no_slowdown(no_slowdown);
            options
        };
        Self {
            read_disk: ReadOptions::default(),
            read_memory,
            write_waiting: write(false),
            write_at_once: write(true),
            write_buffer_bytes,
            written: AtomicU64::new(0),
            buffers: buffers.clone(),
            member: buffers.join(&db),
            db,
        }
    }

    pub(crate) fn db(&self) -> &DB {
        &self.db
    }

    fn family(&self) -> &ColumnFamily {
        self.db
            .cf_handle(DEFAULT_COLUMN_FAMILY_NAME)
            .expect("it was opened by this name")
    }

    /// Counts written bytes, and makes the next write buffers larger once.
    fn count_written(&self, bytes: u64) {
        self.buffers.wrote(bytes);
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        let turns_busy = before < BUSY_AFTER_BYTES && before + bytes >= BUSY_AFTER_BYTES;
        if turns_busy && self.write_buffer_bytes > FIRST_WRITE_BUFFER_BYTES {
            let size = self.write_buffer_bytes.to_string();
            if let Err(failure) = self.db.set_options(&[("write_buffer_size", &size)]) {
                // It goes on with small ones, which costs time and nothing else.
                tracing::warn!(store = ?self, %failure, "write buffers stay small");
            }
        }
    }

    /// Gets keys one by one, and none if one of them is not in memory. RocksDB's reads
    /// of many keys go to the disk whatever their options say.
    fn get_cached(
        &self,
        keys: &[&[u8]],
        order: &Order,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        let family = self.family();
        let mut values = Vec::with_capacity(keys.len());
        for rank in 0..keys.len() {
            let key = keys[order.position(rank)];
            match self.db.get_pinned_cf_opt(family, key, &self.read_memory) {
                Ok(value) => values.push(value),
                Err(failure) if failure.kind() == ErrorKind::Incomplete => return Ok(false),
                Err(failure) => return Err(error::running(failure)),
            }
        }
        for at in 0..keys.len() {
            visit(at, values[order.rank(at)].as_deref());
        }
        Ok(true)
    }
}

impl KvStore for RocksStore {
    fn multi_get(
        &self,
        keys: &[&[u8]],
        reach: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        let order = Order::of(keys);
        if reach == Reach::Memory {
            return self.get_cached(keys, &order, visit);
        }
        let sorted = (0..keys.len()).map(|rank| keys[order.position(rank)]);
        let mut values =
            self.db
                .batched_multi_get_cf_opt(self.family(), sorted, true, &self.read_disk);
        for at in 0..keys.len() {
            let rank = order.rank(at);
            match &values[rank] {
                Ok(value) => visit(at, value.as_deref()),
                Err(_) => {
                    let failed = values.swap_remove(rank).map(|_| false);
                    return failed.map_err(error::running);
                }
            }
        }
        Ok(true)
    }

    /// One write at a time: with several, the number is that of any later one.
    fn write(&self, writes: &KvWrites, may_wait: bool) -> Result<u64> {
        if !writes.is_empty() {
            let options = if may_wait {
                &self.write_waiting
            } else {
                &self.write_at_once
            };
            let batch = WriteBatch::from_data(writes.as_write_batch());
            self.db.write_opt(batch, options).map_err(error::running)?;
            self.count_written(writes.size_bytes() as u64);
        }
        Ok(self.db.latest_sequence_number())
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn KvSnapshot> {
        Box::new(RocksSnapshot::new(self))
    }

    fn flush(&self, wait: bool) -> Result<()> {
        let flushed = match wait {
            true => self.db.flush(),
            false => buffers::begin_flush(&self.db),
        };
        flushed.map_err(error::running)
    }

    fn last_sequence(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    fn durable_sequence(&self) -> u64 {
        // Every change is one entry of a write buffer until the file that it was
        // flushed to is in the synced manifest. Buffers are flushed in order. What
        // happens between these three reads moves entries from "active" to
        // "immutable" and from there to files, or adds some: in this order they are
        // counted twice at worst, never left out.
        let last = self.db.latest_sequence_number();
        let active = buffers::number(&self.db, NUM_ENTRIES_ACTIVE_MEM_TABLE);
        let immutable = buffers::number(&self.db, NUM_ENTRIES_IMM_MEM_TABLES);
        let (Some(active), Some(immutable)) = (active, immutable) else {
            return 0;
        };
        last.saturating_sub(active).saturating_sub(immutable)
    }

    fn statistics(&self) -> StoreStatistics {
        StoreStatistics {
            level0_files: buffers::level0_files(&self.db).unwrap_or_default(),
            level0_slowdown_trigger: LEVEL0_SLOWDOWN as u64,
            write_buffer_bytes: buffers::number(&self.db, CUR_SIZE_ALL_MEM_TABLES)
                .unwrap_or_default(),
            file_bytes: buffers::number(&self.db, LIVE_SST_FILES_SIZE).unwrap_or_default(),
        }
    }
}

/// The order of a list of keys. RocksDB would sort them as well, by comparing all of
/// their bytes each time.
enum Order {
    Given,
    /// Positions in the list by rank, and ranks by position.
    Sorted(Vec<u32>, Vec<u32>),
}

impl Order {
    fn of(keys: &[&[u8]]) -> Self {
        if keys.is_sorted() {
            return Self::Given;
        }
        let positions = in_key_order(0..keys.len() as u32, |at| keys[*at as usize]);
        let mut ranks = vec![0; keys.len()];
        for (rank, position) in (0..).zip(&positions) {
            ranks[*position as usize] = rank;
        }
        Self::Sorted(positions, ranks)
    }

    fn position(&self, rank: usize) -> usize {
        match self {
            Self::Given => rank,
            Self::Sorted(positions, _) => positions[rank] as usize,
        }
    }

    fn rank(&self, position: usize) -> usize {
        match self {
            Self::Given => position,
            Self::Sorted(_, ranks) => ranks[position] as usize,
        }
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        self.member.leave();
    }
}

impl fmt::Debug for RocksStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksStore")
            .field("dir", &self.db.path())
            .finish_non_exhaustive()
    }
}
