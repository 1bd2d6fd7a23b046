//! CPU time per row of a put, from the request's bytes to the handed-over changes,
//! without the time in the store. Run with `cargo bench -p mainstem-kv`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::SimFileSystem;
use mainstem_format::{KvBatch, KvBatchBuilder, LogBatch, Value};
use mainstem_kv::{
    ChangelogSource, KvEngine, KvError, KvResources, KvSnapshot, KvStore, KvTable, KvTablet,
    KvWrites, PutMode, Reach, RecentBudget, Result, SequenceSource, StoreStatistics,
};
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

const ROWS: usize = 1_000_000;
const BATCH_ROWS: usize = 2_000;

/// CPU time of this thread: others may use the machine at the same time.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A store that takes note of its own time.
#[derive(Clone, Debug, Default)]
struct Stub(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    rows: HashMap<Vec<u8>, Vec<u8>>,
    reading_ns: u64,
    writing_ns: u64,
    sequence: u64,
}

impl KvEngine for Stub {
    fn open(&self, _: &Path) -> Result<Arc<dyn KvStore>> {
        Ok(Arc::new(self.clone()))
    }

    fn destroy(&self, _: &Path) -> Result<()> {
        Ok(())
    }
}

impl KvStore for Stub {
    fn multi_get(
        &self,
        keys: &[&[u8]],
        _: Reach,
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<bool> {
        let start = cpu_ns();
        let inner = &mut *self.0.lock();
        let found: Vec<Option<&[u8]>> = keys
            .iter()
            .map(|key| inner.rows.get(*key).map(Vec::as_slice))
            .collect();
        inner.reading_ns += cpu_ns() - start;
        for (position, value) in found.into_iter().enumerate() {
            visit(position, value);
        }
        Ok(true)
    }

    fn write(&self, writes: &KvWrites, _: bool) -> Result<u64> {
        let start = cpu_ns();
        let inner = &mut *self.0.lock();
        for (key, value) in writes.iter() {
            match value {
                Some(value) => drop(inner.rows.insert(key.to_vec(), value.to_vec())),
                None => drop(inner.rows.remove(key)),
            }
        }
        inner.sequence += writes.len() as u64;
        inner.writing_ns += cpu_ns() - start;
        Ok(inner.sequence)
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn KvSnapshot> {
        unreachable!("nobody scans here")
    }

    fn flush(&self, _: bool) -> Result<()> {
        Ok(())
    }

    fn last_sequence(&self) -> u64 {
        self.0.lock().sequence
    }

    fn durable_sequence(&self) -> u64 {
        0
    }

    fn statistics(&self) -> StoreStatistics {
        StoreStatistics::default()
    }
}

struct NoNumbers;

impl SequenceSource for NoNumbers {
    fn take(&self, _: i32, _: i64) -> Result<std::ops::RangeInclusive<i64>> {
        Err(KvError::NoSequence("there is no such column".to_owned()))
    }
}

struct EmptyLog;

impl ChangelogSource for EmptyLog {
    fn start_offset(&self) -> i64 {
        0
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn committed_offset(&self) -> i64 {
        0
    }

    fn end_offset(&self) -> i64 {
        0
    }

    fn read(&self, _: i64, _: &mut dyn FnMut(&LogBatch) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

fn schema() -> Schema {
    let columns = [
        ("id", DataType::not_null(TypeKind::BigInt)),
        ("count", DataType::nullable(TypeKind::Int)),
        ("price", DataType::nullable(TypeKind::Double)),
        ("name", DataType::nullable(TypeKind::String)),
    ];
    let builder = Schema::builder().columns(columns).primary_key(["id"]);
    builder.build().expect("a schema")
}

/// A batch with every `BATCH_ROWS`-th part of the keys, in no order of theirs.
fn batch(table: &KvTable, number: usize, round: usize) -> bytes::Bytes {
    let mut builder = KvBatchBuilder::new(1, -1, -1);
    let (mut key, mut row) = (Vec::new(), Vec::new());
    for position in 0..BATCH_ROWS {
        let id = (number * BATCH_ROWS + position).wrapping_mul(387_420_489) % ROWS;
        let values = [
            Value::BigInt(id as i64),
            Value::Int((id + round) as i32),
            Value::Double(id as f64 * 0.25),
            Value::String(format!("n{:09}", id ^ round).into()),
        ];
        key.clear();
        row.clear();
        table.key().encode_row(&values, &mut key).expect("a key");
        table.encode(&values, &mut row).expect("a row");
        builder.append(&key, Some(&row)).expect("room for it");
    }
    builder.finish()
}

fn measure(name: &str, options: &[(&str, &str)]) {
    let descriptor = options
        .iter()
        .fold(TableDescriptor::new(schema()), |table, (key, value)| {
            table.with_property(*key, *value)
        });
    let table = KvTable::new(&descriptor, [(1, Arc::new(schema()))]).expect("a table");
    let stub = Stub::default();
    let resources = KvResources {
        engine: Arc::new(stub.clone()),
        files: Arc::new(SimFileSystem::new(0)),
        recent: Arc::new(RecentBudget::new(1 << 20)),
        pressure_from_level0_files: 4,
        volatile_boot: None,
    };
    let tablet = KvTablet::new(PathBuf::from("/bench"), Arc::new(resources));
    let mut writer = tablet.lock();
    writer.open(&table, &EmptyLog, 0).expect("it opens");
    let mut end_offset = 0;
    for (round, what) in ["new rows", "updates"].into_iter().enumerate() {
        let (mut parsing, mut preparing, mut committing) = (0, 0, 0);
        let mut changelog_bytes = 0;
        for number in 0..ROWS / BATCH_ROWS {
            let bytes = batch(&table, number, round);
            let start = cpu_ns();
            let batch = KvBatch::parse(bytes).expect("a batch");
            let parsed = cpu_ns();
            let prepared = writer
                .prepare(&table, &batch, PutMode::default(), &NoNumbers)
                .expect("a put");
            let done = cpu_ns();
            // What was appended before has been committed meanwhile.
            let committed = end_offset;
            end_offset += prepared.record_count as i64;
            changelog_bytes += prepared.changelog.len();
            writer
                .commit(end_offset, prepared.changes, committed)
                .expect("the store works");
            parsing += parsed - start;
            preparing += done - parsed;
            committing += cpu_ns() - done;
            // The store is read while preparing, and written while committing.
            let inner = &mut *stub.0.lock();
            preparing -= std::mem::take(&mut inner.reading_ns);
            committing -= std::mem::take(&mut inner.writing_ns);
        }
        let per_row = |ns: u64| ns as f64 / ROWS as f64;
        println!(
            "{name:<12} {what:<9} {:>4.0} ns a row: parse {:>3.0}, prepare {:>4.0}, commit {:>4.0}; \
             changelog {:>3} bytes a row",
            per_row(parsing + preparing + committing),
            per_row(parsing),
            per_row(preparing),
            per_row(committing),
            changelog_bytes / ROWS,
        );
    }
}

fn main() {
    let compression = "table.log.arrow.compression.type";
    measure("arrow", &[(compression, "NONE")]);
    measure("arrow, zstd", &[(compression, "ZSTD")]);
    measure("arrow, lz4", &[(compression, "LZ4_FRAME")]);
    measure("compacted", &[("table.log.format", "COMPACTED")]);
    measure(
        "arrow, wal",
        &[(compression, "NONE"), ("table.changelog.image", "WAL")],
    );
}
