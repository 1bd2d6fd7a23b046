//! A bucket: its changelog, its tablet, and the disk under both.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{SimFileSystem, Survival};
use mainstem_format::{KvBatch, KvBatchBuilder, LogBatch, Value};
use mainstem_types::{AggFunction, DataType, MergeEngine, Schema, TableDescriptor, TypeKind};
use parking_lot::Mutex;

use super::faulty_engine::{FaultyEngine, Plan};
use super::log::{Appended, Log};
use super::text;
use crate::changelog::ChangelogReader;
use crate::memory::MemoryEngine;
use crate::tablet::{KvResources, KvTablet, OpeningReport};
use crate::{ChangelogSource, KvTable, PutMode, RecentBudget, Result, SequenceSource};

pub(super) const INT: DataType = DataType::nullable(TypeKind::Int);
pub(super) const BIGINT: DataType = DataType::nullable(TypeKind::BigInt);
pub(super) const DOUBLE: DataType = DataType::nullable(TypeKind::Double);
pub(super) const STRING: DataType = DataType::nullable(TypeKind::String);
pub(super) const BOOLEAN: DataType = DataType::nullable(TypeKind::Boolean);

/// Format of rows and format of the changelog, as far as tables may have them.
pub(super) const FORMATS: [(&str, &str); 5] = [
    ("COMPACTED", "ARROW"),
    ("COMPACTED", "COMPACTED"),
    ("INDEXED", "ARROW"),
    ("INDEXED", "COMPACTED"),
    ("INDEXED", "INDEXED"),
];

/// A table whose first column is the key.
pub(super) fn schema(columns: &[(&str, DataType)]) -> Schema {
    Schema::builder()
        .columns(columns.iter().cloned())
        .primary_key([columns[0].0])
        .build()
        .unwrap()
}

/// Schema A of tables.md §9.1.
pub(super) fn schema_a() -> Schema {
    schema(&[("a", INT), ("b", STRING)])
}

/// Schema B of tables.md §9.2.
pub(super) fn schema_b() -> Schema {
    schema(&[("a", INT), ("b", STRING), ("c", STRING)])
}

pub(super) fn engine(engine: MergeEngine) -> (&'static str, &'static str) {
    ("table.merge-engine", engine.text())
}

pub(super) const WAL: (&str, &str) = ("table.changelog.image", "WAL");

/// The counter of one column.
#[derive(Debug, Default)]
pub(super) struct Counter {
    pub taken: Mutex<i64>,
}

impl SequenceSource for Counter {
    fn take(&self, _column_id: i32, count: i64) -> Result<RangeInclusive<i64>> {
        let mut taken = self.taken.lock();
        let first = *taken + 1;
        *taken += count;
        Ok(first..=*taken)
    }
}

/// One request. Rows are texts, `-` before one being the delete of its key.
#[derive(Clone, Copy)]
pub(super) struct Put<'a> {
    pub rows: &'a [&'a str],
    pub target: &'a [i32],
    pub overwrite: bool,
    pub writer: (i64, i32),
    /// Schema of the writer; 0 = the latest.
    pub schema_id: i16,
}

impl<'a> Put<'a> {
    pub fn new(rows: &'a [&'a str]) -> Self {
        Self {
            rows,
            target: &[],
            overwrite: false,
            writer: (-1, -1),
            schema_id: 0,
        }
    }

    pub fn target(self, target: &'a [i32]) -> Self {
        Self { target, ..self }
    }

    pub fn overwrite(self) -> Self {
        Self {
            overwrite: true,
            ..self
        }
    }

    pub fn writer(self, id: i64, sequence: i32) -> Self {
        Self {
            writer: (id, sequence),
            ..self
        }
    }

    pub fn schema_id(self, schema_id: i16) -> Self {
        Self { schema_id, ..self }
    }
}

/// See the module.
pub(super) struct Bucket {
    pub engine: MemoryEngine,
    /// What goes wrong with the engine.
    pub plan: Plan,
    pub files: SimFileSystem,
    pub log: Log,
    pub descriptor: TableDescriptor,
    pub schemas: Vec<Arc<Schema>>,
    pub table: KvTable,
    pub tablet: KvTablet,
    pub numbers: Counter,
    /// Whether every batch is committed at once.
    pub commits: bool,
    pub now_ms: i64,
    /// Memory of recent rows; at first there is none, so that every change is in the
    /// store at once.
    pub recent: Arc<RecentBudget>,
    /// Boot of the machine, if its end may take appended records away.
    pub boot: Option<u64>,
}

pub(super) const DIR: &str = "/kv/t7/b0";

impl Bucket {
    pub fn new(schema: Schema, options: &[(&str, &str)]) -> Self {
        let descriptor = TableDescriptor::new(schema.clone());
        let descriptor = options.iter().fold(descriptor, |descriptor, (key, value)| {
            descriptor.with_property(*key, *value)
        });
        let schemas = vec![Arc::new(schema)];
        let (engine, files) = (MemoryEngine::default(), SimFileSystem::new(7));
        let plan = Plan::default();
        let recent = Arc::new(RecentBudget::new(0));
        Self {
            table: KvTable::new(&descriptor, [(1, schemas[0].clone())]).unwrap(),
            tablet: tablet(&engine, &plan, &files, &recent, None),
            recent,
            engine,
            plan,
            files,
            log: Log::default(),
            descriptor,
            schemas,
            numbers: Counter::default(),
            commits: true,
            now_ms: 0,
            boot: None,
        }
    }

    /// The same with memory for recent rows. To be called before anything is opened.
    pub fn with_recent_rows(mut self, bytes: usize) -> Self {
        self.recent = Arc::new(RecentBudget::new(bytes));
        self.begin();
        self
    }

    /// Starts a new process on the disk as it is.
    fn begin(&mut self) {
        let (files, recent) = (&self.files, &self.recent);
        self.tablet = tablet(&self.engine, &self.plan, files, recent, self.boot);
    }

    /// Runs a test with every format of rows and changelog, with memory for recent
    /// rows and without. At its end the rows must be those that the changelog gives.
    pub fn in_all_formats(schema: &Schema, options: &[(&str, &str)], test: impl Fn(&mut Self)) {
        for (number, (kv, log)) in FORMATS.into_iter().enumerate() {
            let mut options = options.to_vec();
            options.extend([("table.kv.format", kv), ("table.log.format", log)]);
            let recent_bytes = [0, 3_000, 1 << 20][number % 3];
            let mut bucket = Self::new(schema.clone(), &options).with_recent_rows(recent_bytes);
            test(&mut bucket);
            bucket.check_rebuild();
        }
    }

    /// Adds nullable columns.
    pub fn add_columns(&mut self, columns: &[(&str, DataType, Option<&str>)]) {
        let new: Vec<_> = columns
            .iter()
            .map(|(name, data_type, function)| {
                let mut column = mainstem_types::schema::NewColumn::new(*name, data_type.clone());
                column.agg_function = function.map(AggFunction::new);
                column
            })
            .collect();
        let schema = self.descriptor.schema.add_columns(&new).unwrap();
        self.descriptor.schema = schema.clone();
        self.schemas.push(Arc::new(schema));
        self.table = KvTable::new(&self.descriptor, (1_i16..).zip(self.schemas.clone())).unwrap();
    }

    pub fn key(&self, row: &[Value<'_>]) -> Vec<u8> {
        let mut key = Vec::new();
        self.table.key().encode_row(row, &mut key).unwrap();
        key
    }

    pub fn batch(&self, put: &Put<'_>) -> KvBatch {
        let schema_id = match put.schema_id {
            0 => self.table.latest_schema_id(),
            schema_id => schema_id,
        };
        let schema = &self.schemas[schema_id as usize - 1];
        let (writer_id, sequence) = put.writer;
        let mut builder = KvBatchBuilder::new(schema_id, writer_id, sequence);
        for record in put.rows {
            let row = text::row(schema, record.trim_start_matches('-'));
            let mut bytes = Vec::new();
            let format = self.table.row_format();
            format
                .encode(&row, schema.columns.as_slice(), &mut bytes)
                .unwrap();
            let sent = (!record.starts_with('-')).then_some(bytes.as_slice());
            builder.append(&self.key(&row), sent).unwrap();
        }
        KvBatch::parse(builder.finish()).unwrap()
    }

    pub fn open(&mut self) -> Result<Option<OpeningReport>> {
        self.tablet.lock().open(&self.table, &self.log, self.now_ms)
    }

    /// Puts a batch; the changelog must take it.
    pub fn put_batch(&mut self, batch: &KvBatch, mode: PutMode<'_>) -> Result<Appended> {
        self.open()?;
        let mut writer = self.tablet.lock();
        let prepared = writer.prepare(&self.table, batch, mode, &self.numbers)?;
        self.check_batch(&prepared.changelog, batch, prepared.record_count);
        let appended = self.log.append(&prepared.changelog);
        if let Appended::New(end_offset) = appended {
            if self.commits {
                self.log.commit(end_offset);
            }
            let committed = self.log.committed_offset();
            writer.commit(end_offset, prepared.changes, committed)?;
        }
        Ok(appended)
    }

    /// What every batch of a changelog must be, whatever is in it (formats.md §1.9).
    fn check_batch(&self, bytes: &Bytes, batch: &KvBatch, record_count: u64) {
        let changelog = LogBatch::parse(bytes).unwrap();
        let header = changelog.header();
        assert_eq!(header.total_len, bytes.len());
        assert_eq!(header.schema_id, self.table.latest_schema_id());
        assert_eq!(header.writer_id, batch.writer_id());
        assert_eq!(header.batch_sequence, batch.batch_sequence());
        assert_eq!(header.record_count as u64, record_count);
        assert!(!header.is_append_only());
        assert_eq!(header.magic as u8, 0);
    }

    /// Puts rows; returns what the changelog says of it.
    pub fn try_put(&mut self, put: Put<'_>) -> Result<String> {
        let batch = self.batch(&put);
        let mode = PutMode {
            target_columns: put.target,
            overwrite: put.overwrite,
        };
        let before = self.log.batches().len();
        Ok(match self.put_batch(&batch, mode)? {
            Appended::New(_) => self.changes_since(before),
            Appended::Duplicate(end_offset) => format!("duplicate of the batch up to {end_offset}"),
            Appended::OutOfOrder => "out of order".to_owned(),
        })
    }

    #[track_caller]
    pub fn put(&mut self, put: Put<'_>) -> String {
        self.try_put(put).unwrap()
    }

    /// Puts whole rows.
    #[track_caller]
    pub fn rows(&mut self, rows: &[&str]) -> String {
        self.put(Put::new(rows))
    }

    /// The text of an error.
    #[track_caller]
    pub fn refused(&mut self, put: Put<'_>) -> String {
        let end_offset = self.log.end_offset();
        let error = self.try_put(put).expect_err("the batch is refused");
        assert_eq!(self.log.end_offset(), end_offset);
        error.to_string()
    }

    /// The changelog from the n-th batch on.
    pub fn changes_since(&self, batch: usize) -> String {
        let mut changes = Vec::new();
        let mut reader = ChangelogReader::new(&self.table);
        for batch in &self.log.batches()[batch..] {
            let mut visit = |offset, change, row: &[Value<'_>]| {
                changes.push(text::of_change(offset, change, row));
                Ok(())
            };
            reader.read(batch, &mut visit).unwrap();
        }
        changes.join(" ")
    }

    pub fn end_offset(&self) -> i64 {
        self.log.end_offset()
    }

    /// The row of a key, as committed.
    pub fn lookup(&mut self, key: &str) -> String {
        self.open().unwrap();
        let key = self.key(&text::row(self.table.latest_schema(), key));
        let rows = self.tablet.rows(self.now_ms).unwrap();
        let mut found = "none".to_owned();
        let mut visit = |_: usize, value: Option<&[u8]>| {
            if let Some(value) = value {
                found = self.text(value);
            }
        };
        rows.multi_get(&[&key], crate::Reach::Disk, &mut visit)
            .unwrap();
        found
    }

    /// The row of a key with what is pending.
    pub fn lookup_pending(&mut self, key: &str) -> String {
        self.open().unwrap();
        let key = self.key(&text::row(self.table.latest_schema(), key));
        let values = self.tablet.lock().look_up(&[&key]).unwrap();
        values[0]
            .as_ref()
            .map_or("none".to_owned(), |value| self.text(value))
    }

    /// The text of a stored value.
    pub fn text(&self, value: &[u8]) -> String {
        let (schema_id, row) = mainstem_format::value_batch::split_stored_value(value).unwrap();
        text::of_row(&self.table.decode(schema_id, row).unwrap())
    }

    /// All committed rows by key.
    pub fn content(&mut self) -> BTreeMap<Vec<u8>, String> {
        self.open().unwrap();
        let (mut snapshot, _) = self.tablet.lock().snapshot().unwrap();
        let mut rows = BTreeMap::new();
        snapshot.seek(b"");
        while let Some((key, value)) = snapshot.entry() {
            rows.insert(key.to_vec(), self.text(value));
            snapshot.advance();
        }
        snapshot.check().unwrap();
        rows
    }

    pub fn row_count(&mut self) -> i64 {
        self.open().unwrap();
        self.tablet.lock().row_count()
    }

    /// Commits what is appended up to an offset.
    pub fn commit(&mut self, offset: i64) -> Result<i64> {
        self.log.commit(offset);
        let committed = self.log.committed_offset();
        self.tablet.lock().apply_until(committed)
    }

    /// Closes the tablet in order and starts a new process.
    pub fn restart(&mut self) {
        assert!(self.tablet.lock().close(self.now_ms).unwrap());
        self.files = self.files.process_kill();
        self.begin();
    }

    /// The machine stops and starts: of the store the first `survivors` writes since
    /// the last flush are left, of the files what `survival` says.
    pub fn crash(&mut self, survivors: impl Fn(usize) -> usize, survival: Survival) {
        self.engine.crash(|_, pending| survivors(pending));
        self.files = self.files.power_loss(survival);
        self.begin();
    }

    /// The process is killed and starts anew: what it gave to the disk is there.
    pub fn kill(&mut self, survivors: impl Fn(usize) -> usize) {
        self.engine.crash(|_, pending| survivors(pending));
        self.files = self.files.process_kill();
        self.begin();
    }

    /// Loses all files, and expects the same rows from the changelog.
    #[track_caller]
    pub fn check_rebuild(&mut self) {
        let (content, row_count) = (self.content(), self.row_count());
        self.engine.crash(|_, _| 0);
        self.files = SimFileSystem::new(7);
        self.begin();
        assert_eq!(self.content(), content);
        assert_eq!(self.row_count(), row_count);
    }
}

fn tablet(
    engine: &MemoryEngine,
    plan: &Plan,
    files: &SimFileSystem,
    recent: &Arc<RecentBudget>,
    volatile_boot: Option<u64>,
) -> KvTablet {
    let resources = KvResources {
        engine: Arc::new(FaultyEngine::new(engine.clone(), plan.clone())),
        files: Arc::new(files.clone()),
        recent: recent.clone(),
        pressure_from_level0_files: 4,
        volatile_boot,
    };
    KvTablet::new(PathBuf::from(DIR), Arc::new(resources))
}

impl Bucket {
    /// Appends so many rows to the log that no tablet has seen, and commits them.
    pub fn rows_without_tablet(&mut self, count: i32) {
        let mut other = Self::new((*self.schemas[0]).clone(), &[]);
        for id in 0..count {
            other.rows(&[&format!("{id},x")]);
        }
        self.log = other.log;
    }
}
