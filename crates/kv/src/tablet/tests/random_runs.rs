//! Random puts, restarts, crashes and failures, compared with the model after each.
//!
//! `MAINSTEM_SOAK_RUNS=100000 cargo test -p mainstem-kv random_runs` makes more of
//! them; `MAINSTEM_SEED` begins elsewhere. A failure names its seed.

use std::collections::{BTreeMap, HashSet};

use mainstem_env::{SeededRng, Survival};
use mainstem_format::Value;
use mainstem_types::{AggFunction, DataType, MergeEngine, Schema, TypeKind};

use super::bucket::{BIGINT, Bucket, FORMATS, INT, Put, STRING, WAL, engine};
use super::log::Appended;
use super::model::{Deletes, Engine, Function, Request, Row, Rows, Table};
use super::text;
use crate::changelog::ChangelogReader;
use crate::{ChangeType, ChangelogSource, KvError, PutMode};

const RUNS: u64 = 250;
const STEPS: usize = 60;
const WRITERS: usize = 4;
const COLUMNS_MAX: usize = 8;

#[test]
fn random_runs_match_the_model() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let first = number("MAINSTEM_SEED").unwrap_or(0);
    for seed in first..first + number("MAINSTEM_SOAK_RUNS").unwrap_or(RUNS) {
        let named = NamedSeed(seed);
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
            run.check();
        }
        run.finish();
        drop(named);
    }
}

/// Says which seed it was that failed.
struct NamedSeed(u64);

impl Drop for NamedSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("MAINSTEM_SEED={} MAINSTEM_SOAK_RUNS=1", self.0);
        }
    }
}

struct Writer {
    id: i64,
    next_sequence: i32,
    schema_id: i16,
    last: Option<(Request, i16, i32)>,
}

struct Run {
    rng: SeededRng,
    bucket: Bucket,
    table: Table,
    writers: Vec<Writer>,
    next_writer_id: i64,
    /// Rows at the end of every batch that the log has.
    history: BTreeMap<i64, Rows>,
    numbers_seen: HashSet<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let wal = rng.chance(30);
        let merging = match rng.below(6) {
            0 => Engine::FirstRow,
            1 => Engine::Versioned,
            2 | 3 if !wal => Engine::Aggregation,
            _ => Engine::None,
        };
        let is_numbered = merging == Engine::None && rng.chance(30);
        let deletes = match (merging, rng.below(4)) {
            (Engine::FirstRow | Engine::Versioned, 0) => Deletes::Disable,
            (Engine::FirstRow | Engine::Versioned, _) => Deletes::Ignore,
            (_, 0) => Deletes::Ignore,
            (_, 1) if rng.chance(30) => Deletes::Disable,
            _ => Deletes::Allow,
        };
        let (kv, log) = FORMATS[rng.index(FORMATS.len())];
        let mut options = vec![
            ("table.kv.format", kv),
            ("table.log.format", log),
            ("table.auto-increment.cache-size", "4"),
            (
                "table.delete.behavior",
                match deletes {
                    Deletes::Allow => "ALLOW",
                    Deletes::Ignore => "IGNORE",
                    Deletes::Disable => "DISABLE",
                },
            ),
        ];
        options.extend(wal.then_some(WAL));
        match merging {
            Engine::None => {}
            Engine::FirstRow => options.push(engine(MergeEngine::FirstRow)),
            Engine::Versioned => {
                options.push(engine(MergeEngine::Versioned));
                options.push(("table.merge-engine.versioned.ver-column", "n"));
            }
            Engine::Aggregation => options.push(engine(MergeEngine::Aggregation)),
        }
        let table = Table {
            engine: merging,
            wal,
            deletes,
            numbered: is_numbered.then_some(1),
            functions: vec![
                Function::Last,
                Function::Sum,
                Function::Max,
                Function::Last,
                Function::List,
            ],
        };
        let recent_bytes = [0, 3_000, 12_000, 1 << 20][rng.index(4)];
        let bucket = Bucket::new(schema(merging, is_numbered), &options);
        let bucket = bucket.with_recent_rows(recent_bytes);
        let writers = (0..WRITERS as i64).map(|number| Writer {
            id: if number == 0 { -1 } else { number },
            next_sequence: 0,
            schema_id: 1,
            last: None,
        });
        let mut run = Self {
            rng,
            bucket,
            table,
            writers: writers.collect(),
            next_writer_id: WRITERS as i64,
            history: BTreeMap::from([(0, Rows::new())]),
            numbers_seen: HashSet::new(),
        };
        run.bucket.commits = run.rng.chance(50);
        run
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..60 => self.put(),
            60..68 => self.put_again(),
            68..76 => {
                let offset = self.rng.below(self.bucket.end_offset() as u64 + 1) as i64;
                self.open();
                self.bucket.commit(offset).unwrap();
            }
            76..78 => self.bucket.log.sync(),
            78..84 => self.checkpoint(),
            84..86 => self.add_column(),
            86..88 => self.update_writer(),
            88..91 => self.close(),
            91..93 => self.fail(),
            93..95 => {
                let at = self.rng.index(10);
                self.bucket.kill(|pending| pending.min(at));
            }
            _ => self.crash(),
        }
        let end_offset = self.bucket.end_offset();
        self.history.retain(|end, _| *end <= end_offset);
    }

    fn open(&mut self) {
        self.bucket.open().unwrap();
    }

    fn request(&mut self, schema_id: i16) -> Request {
        let width = self.bucket.schemas[schema_id as usize - 1].columns.len();
        let latest = self.table.functions.len();
        let mut target = Vec::new();
        let wants_target = self.table.numbered.is_some() || self.rng.chance(35);
        if wants_target {
            target = (0..latest).filter(|_| self.rng.chance(50)).collect();
            if self.rng.chance(95) && !target.contains(&0) {
                target.push(0);
            }
            if let Some(numbered) = self.table.numbered
                && self.rng.chance(95)
            {
                target.retain(|column| *column != numbered);
            }
            if self.rng.chance(10) {
                target = (0..latest).rev().collect();
            }
        }
        let records = (0..self.rng.below(6)).map(|_| {
            let key = self.rng.below(8).to_string();
            let is_delete = self.rng.chance(25);
            let row = (!is_delete).then(|| self.row(&key, width));
            (key, row)
        });
        let records = records.collect();
        Request {
            target,
            overwrite: self.rng.chance(12),
            records,
        }
    }

    fn row(&mut self, key: &str, width: usize) -> Row {
        let columns = self.bucket.table.latest_schema().columns.clone();
        let fields = columns[1..width].iter().map(|column| {
            if self.rng.chance(25) {
                return None;
            }
            let number = self.rng.below(20) as i64 - 10;
            Some(match column.data_type.kind {
                TypeKind::BigInt if self.rng.chance(10) => (i64::MAX - number.abs()).to_string(),
                TypeKind::String => format!("t{}", number.abs()),
                _ => number.to_string(),
            })
        });
        let fields: Vec<_> = fields.collect();
        std::iter::once(Some(key.to_owned()))
            .chain(fields)
            .collect()
    }

    fn put(&mut self) {
        let writer = self.rng.index(WRITERS);
        let schema_id = self.writers[writer].schema_id;
        let request = self.request(schema_id);
        let sequence = self.writers[writer].next_sequence;
        if self.send(writer, &request, schema_id, sequence) {
            let writer = &mut self.writers[writer];
            writer.next_sequence += 1;
            writer.last = Some((request, schema_id, sequence));
        }
    }

    /// The writer did not get the answer, or the server lost the batch.
    fn put_again(&mut self) {
        let writer = self.rng.index(WRITERS);
        if let Some((request, schema_id, sequence)) = self.writers[writer].last.clone() {
            self.send(writer, &request, schema_id, sequence);
        }
    }

    /// Sends a request, and compares what it does. Returns whether the log has it.
    fn send(&mut self, writer: usize, request: &Request, schema_id: i16, sequence: i32) -> bool {
        let texts: Vec<String> = request.records.iter().map(record).collect();
        let rows: Vec<&str> = texts.iter().map(String::as_str).collect();
        let target: Vec<i32> = request.target.iter().map(|column| *column as i32).collect();
        let id = self.writers[writer].id;
        let put = Put {
            rows: &rows,
            target: &target,
            overwrite: request.overwrite,
            writer: if id < 0 { (-1, -1) } else { (id, sequence) },
            schema_id,
        };
        let batch = self.bucket.batch(&put);
        let mode = PutMode {
            target_columns: put.target,
            overwrite: put.overwrite,
        };
        let batches = self.bucket.log.batches().len();
        let start = self.bucket.end_offset();
        let outcome = self.bucket.put_batch(&batch, mode);
        let appended = self.bucket.log.batches().len() > batches;
        match outcome {
            Ok(Appended::New(_)) => {}
            Ok(Appended::Duplicate(end)) => {
                assert!(self.history.contains_key(&end) && !appended);
                return true;
            }
            Ok(Appended::OutOfOrder) => {
                // Its earlier batches were lost: it begins anew.
                assert!(!appended);
                self.next_writer_id += 1;
                self.writers[writer] = Writer {
                    id: self.next_writer_id,
                    next_sequence: 0,
                    schema_id,
                    last: None,
                };
                return false;
            }
            Err(KvError::Storage(_)) => {
                if !appended {
                    return false;
                }
            }
            Err(error) => {
                assert!(!appended);
                assert!(
                    matches!(error, KvError::InvalidTarget(_) | KvError::DeletionDisabled),
                    "{error}"
                );
                let mut rows = self.rows_at_end();
                let modelled = self.table.put(&mut rows, request, &|_| String::new());
                assert!(modelled.is_err(), "{request:?} is refused: {error}");
                return false;
            }
        }
        self.compare(request, batches, start);
        true
    }

    /// Compares the newest batch of the changelog with the model.
    fn compare(&mut self, request: &Request, batches: usize, start: i64) {
        let changes = self.bucket.changes_since(batches);
        let actual: Vec<&str> = changes.split_terminator(' ').collect();
        let number = |change: usize| {
            let fields = actual.get(change).map(|change| change.split(',').nth(1));
            fields.flatten().unwrap_or("none").to_owned()
        };
        let mut rows = self.history[&start].clone();
        let modelled = self
            .table
            .put(&mut rows, request, &number)
            .expect("it was not refused");
        let wanted: Vec<String> = (start..)
            .zip(&modelled)
            .map(|(offset, (sign, row))| format!("{sign}[{}]@{offset}", row_text(row)))
            .collect();
        assert_eq!(actual, wanted, "{request:?}");
        let end = start + modelled.len().max(1) as i64;
        assert_eq!(self.bucket.end_offset(), end);
        self.history.insert(end, rows);
    }

    fn rows_at_end(&self) -> Rows {
        self.history[&self.bucket.end_offset()].clone()
    }

    fn checkpoint(&mut self) {
        self.bucket.now_ms += 10;
        self.open();
        let now_ms = self.bucket.now_ms;
        let interval_ms = [0, 1000][self.rng.index(2)];
        let mut writer = self.bucket.tablet.lock();
        writer.checkpoint(now_ms, interval_ms).unwrap();
        let durable = writer.writer.noted.offset;
        drop(writer);
        if self.rng.chance(30) {
            self.bucket.log.trim(durable);
        }
    }

    fn add_column(&mut self) {
        if self.table.functions.len() == COLUMNS_MAX {
            return;
        }
        let name = format!("x{}", self.table.functions.len());
        let is_aggregating = self.table.engine == Engine::Aggregation;
        let (data_type, function, modelled) = match self.rng.below(4) {
            0 => (BIGINT, Some("sum"), Function::Sum),
            1 => (INT, Some("min"), Function::Min),
            2 => (STRING, Some("first_value"), Function::First),
            _ => (STRING, None, Function::LastNotNull),
        };
        self.table.functions.push(modelled);
        let rows = self.history.values_mut().flat_map(Rows::values_mut);
        rows.for_each(|row| row.push(None));
        let function = function.filter(|_| is_aggregating);
        self.bucket.add_columns(&[(&name, data_type, function)]);
    }

    fn update_writer(&mut self) {
        let latest = self.bucket.table.latest_schema_id();
        let writer = self.rng.index(WRITERS);
        self.writers[writer].schema_id = latest;
    }

    /// Closes the tablet in order, or because it is idle, with readers or without.
    fn close(&mut self) {
        self.open();
        self.bucket.now_ms += 1000;
        let now_ms = self.bucket.now_ms;
        let reader = self.rng.chance(30).then(|| self.bucket.tablet.rows(now_ms));
        let is_idle = self.rng.chance(50);
        let mut writer = self.bucket.tablet.lock();
        let applied = writer.applied_offset();
        let has_pending = !writer.writer.pending.is_empty();
        let closed = match is_idle {
            true => writer.close_idle(now_ms + 60, 50).unwrap(),
            false => writer.close(now_ms).unwrap(),
        };
        drop(writer);
        assert_eq!(closed, reader.is_none() && !(is_idle && has_pending));
        drop(reader);
        if closed {
            let report = self.bucket.open().unwrap().expect("it was closed");
            assert_eq!((report.replayed_from, report.rebuilt), (applied, None));
        }
    }

    /// The disk under the store fails for a while.
    fn fail(&mut self) {
        let at = self.bucket.plan.changing_calls() + 1 + self.rng.below(3);
        self.bucket.plan.fail_from(Some(at));
        for _ in 0..3 {
            self.put();
            let end_offset = self.bucket.end_offset();
            let _ = self.bucket.commit(end_offset);
        }
        self.bucket.plan.fail_from(None);
    }

    fn crash(&mut self) {
        let durable = self.bucket.log.durable_offset();
        let lost = (self.bucket.end_offset() - durable) as u64;
        let kept = durable + self.rng.below(lost + 1) as i64;
        self.bucket.log.lose_behind(kept);
        let survival = match self.rng.below(4) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            _ => Survival::Seeded(self.rng.next_u64()),
        };
        let survivors = self.rng.next_u64() as usize;
        self.bucket
            .crash(|pending| survivors % (pending + 1), survival);
        if self.rng.chance(30) {
            let end_offset = self.bucket.end_offset();
            self.bucket.log.commit(end_offset);
        }
    }

    fn check(&mut self) {
        self.open();
        // Batches are applied as soon as they are committed, and not before.
        let committed = self.bucket.log.committed_offset();
        let (wanted, rows) = self.history.range(..=committed).next_back().unwrap();
        let (wanted, rows) = (*wanted, rows.clone());
        let applied = self.bucket.tablet.lock().applied_offset();
        assert!(
            (wanted..=committed).contains(&applied),
            "{applied} of {wanted}"
        );
        for key in 0..8 {
            let key = key.to_string();
            let wanted = rows.get(&key).map_or("none".to_owned(), row_text);
            assert_eq!(self.bucket.lookup(&key), wanted);
        }
        self.check_pending();
        if self.rng.chance(70) {
            // A look at all rows brings them to the store.
            return;
        }
        let content: Vec<String> = self.bucket.content().into_values().collect();
        let texts: HashSet<String> = rows.values().map(row_text).collect();
        assert_eq!(content.len(), texts.len());
        assert_eq!(HashSet::from_iter(content), texts);
        if self.bucket.table.counts_rows() {
            assert_eq!(self.bucket.row_count(), rows.len() as i64);
        }
        self.check_pending();
    }

    fn check_pending(&mut self) {
        let at_end = self.rows_at_end();
        for key in 0..8 {
            let key = key.to_string();
            let wanted = at_end.get(&key).map_or("none".to_owned(), row_text);
            assert_eq!(self.bucket.lookup_pending(&key), wanted);
        }
    }

    /// The whole changelog makes the rows, and is true.
    fn finish(mut self) {
        let mut rows: BTreeMap<String, String> = BTreeMap::new();
        let mut reader = ChangelogReader::new(&self.bucket.table);
        let width = self.table.functions.len();
        let (wal, numbered) = (self.table.wal, self.table.numbered);
        for batch in self.bucket.log.batches() {
            let mut before = None;
            let mut visit = |_, change, row: &[Value<'_>]| {
                let mut row = row.to_vec();
                row.resize(width, Value::Null);
                let (key, row_text) = (text::of_row(&row[..1]), text::of_row(&row));
                assert!(before.is_none() || change == ChangeType::UpdateAfter);
                match change {
                    ChangeType::Append => panic!("an append"),
                    ChangeType::Insert => {
                        assert_eq!(rows.insert(key, row_text), None);
                        if let Some(column) = numbered {
                            let number = text::of_row(&row[column..=column]);
                            assert!(self.numbers_seen.insert(number), "a number twice");
                        }
                    }
                    ChangeType::UpdateBefore => {
                        assert_eq!(rows.get(&key), Some(&row_text));
                        before = Some(key);
                    }
                    ChangeType::UpdateAfter => {
                        assert!(wal || before.take() == Some(key.clone()));
                        rows.insert(key, row_text);
                    }
                    ChangeType::Delete => assert_eq!(rows.remove(&key), Some(row_text)),
                }
                Ok(())
            };
            reader.read(batch, &mut visit).unwrap();
            assert!(before.is_none(), "the row after an update is in its batch");
        }
        let at_end: BTreeMap<String, String> = self
            .rows_at_end()
            .iter()
            .map(|(key, row)| (key.clone(), row_text(row)))
            .collect();
        assert_eq!(rows, at_end);
        if self.bucket.log.start_offset() == 0 {
            self.bucket.log.sync();
            self.bucket.check_rebuild();
        }
    }
}

fn schema(merging: Engine, is_numbered: bool) -> Schema {
    let columns = [
        ("n", BIGINT, AggFunction::new("sum")),
        ("m", INT, AggFunction::new("max")),
        ("s", STRING, AggFunction::new("last_value")),
        (
            "l",
            STRING,
            AggFunction::new("listagg").with_parameter("delimiter", "|"),
        ),
    ];
    let mut builder = Schema::builder().column("k", DataType::not_null(TypeKind::Int));
    for (name, data_type, function) in columns {
        builder = builder.column(name, data_type);
        if merging == Engine::Aggregation {
            builder = builder.aggregate(function);
        }
    }
    if is_numbered {
        builder = builder.auto_increment("n");
    }
    builder.primary_key(["k"]).build().unwrap()
}

fn record((key, row): &(String, Option<Row>)) -> String {
    row.as_ref().map_or(format!("-{key}"), row_text)
}

fn row_text(row: &Row) -> String {
    let texts = row.iter().map(|field| field.as_deref().unwrap_or("null"));
    texts.collect::<Vec<_>>().join(",")
}
