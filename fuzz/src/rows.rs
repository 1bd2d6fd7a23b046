//! Rows, keys, and puts.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstem_env::SimFileSystem;
use mainstem_format::{
    KeyEncoder, KeyEncoding, KvBatch, KvBatchBuilder, LogBatch, RowFormat, Value,
};
use mainstem_kv::memory::MemoryEngine;
use mainstem_kv::{
    ChangelogSource, KvResources, KvTable, KvTablet, PutMode, RecentBudget, Result,
    SequenceSource,
};
use mainstem_types::{AggFunction, DataType, Schema, TableDescriptor, TypeKind};

use crate::{next, schema};

/// Bytes of a row of every type, in a format that the first byte chooses. What can
/// be read is written and read again, and is the same.
pub fn row(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let formats = [RowFormat::Compacted, RowFormat::Indexed, RowFormat::Aligned];
    let format = formats[usize::from(*choice) % 3];
    let columns = schema().0.columns.as_slice();
    let Ok(values) = format.decode(bytes, columns) else {
        return;
    };
    let mut written = Vec::new();
    if format.encode(&values, columns, &mut written).is_err() {
        return;
    }
    let again = format
        .decode(&written, columns)
        .expect("it was just written");
    let mut twice = Vec::new();
    format
        .encode(&again, columns, &mut twice)
        .expect("it was written before");
    assert_eq!(written, twice);
}

/// Bytes of a key of some columns, in an encoding; the first byte chooses both. The
/// key of the values that are read is that key, or leads to the same values.
pub fn key(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let encoders = encoders();
    let encoder = &encoders[usize::from(*choice) % encoders.len()];
    let Ok(values) = encoder.decode(bytes) else {
        return;
    };
    let mut written = Vec::new();
    if encoder.encode(&values, &mut written).is_err() {
        return;
    }
    let again = encoder.decode(&written).expect("it was just written");
    let mut twice = Vec::new();
    encoder
        .encode(&again, &mut twice)
        .expect("it was written before");
    assert_eq!(written, twice);
}

/// A key of each type that may be one, a key of several columns, and those that
/// lakes have.
fn encoders() -> &'static [KeyEncoder] {
    static ENCODERS: OnceLock<Vec<KeyEncoder>> = OnceLock::new();
    ENCODERS.get_or_init(|| {
        let (schema, _) = schema();
        let names: Vec<&str> = schema.columns.iter().map(|column| &*column.name).collect();
        let encodings = [
            KeyEncoding::Compacted,
            KeyEncoding::Paimon,
            KeyEncoding::Iceberg,
        ];
        let single = encodings.into_iter().flat_map(|encoding| {
            names
                .iter()
                .map(move |name| KeyEncoder::new(encoding, schema, &[name]))
        });
        let several = encodings[..2].iter().flat_map(|encoding| {
            names
                .windows(3)
                .map(|names| KeyEncoder::new(*encoding, schema, names))
        });
        single.chain(several).flatten().collect()
    })
}

/// Puts into a table. The first bytes choose the table, the mode and the number of
/// records; the rest are the records of a batch that is sound otherwise.
pub fn put(data: &[u8]) {
    let mut bytes = data;
    let table = &tables()[usize::from(next(&mut bytes)) % tables().len()];
    let engine = MemoryEngine::default();
    let resources = Arc::new(KvResources {
        engine: Arc::new(engine),
        files: Arc::new(SimFileSystem::new(1)),
        recent: Arc::new(RecentBudget::new(1 << 20)),
        pressure_from_level0_files: 8,
        volatile_boot: None,
    });
    let tablet = KvTablet::new(PathBuf::from("/rows"), resources);
    let mut writer = tablet.lock();
    writer
        .open(table, &NoChangelog, 0)
        .expect("an empty tablet");
    let mut end = 0;
    for _ in 0..1 + next(&mut bytes) % 3 {
        let choice = next(&mut bytes);
        let columns: Vec<i32> = (0..choice % 4)
            .map(|_| i32::from(next(&mut bytes) as i8))
            .collect();
        let mode = PutMode {
            target_columns: &columns,
            overwrite: choice & 0x80 != 0,
        };
        let length = (usize::from(next(&mut bytes)) * 2).min(bytes.len());
        let (records, rest) = bytes.split_at(length);
        bytes = rest;
        let Some(batch) = sound_batch(choice >> 4 & 3, records) else {
            continue;
        };
        let Ok(prepared) = writer.prepare(table, &batch, mode, &Numbers) else {
            continue;
        };
        let log = LogBatch::parse(&prepared.changelog).expect("a log batch");
        log.verify_crc().expect("its checksum");
        assert_eq!(log.header().record_count as u64, prepared.record_count);
        end += (prepared.record_count as i64).max(1);
        writer
            .commit(end, prepared.changes, end)
            .expect("memory does not fail");
    }
    let (mut snapshot, offset) = writer.snapshot().expect("it is open");
    assert_eq!(offset, end);
    snapshot.seek(&[]);
    let mut rows = 0;
    while let Some((_, value)) = snapshot.entry() {
        let (schema_id, row) =
            mainstem_format::value_batch::split_stored_value(value).expect("a stored value");
        table
            .decode(schema_id, row)
            .expect("what was stored can be read");
        rows += 1;
        snapshot.advance();
    }
    if table.counts_rows() {
        assert_eq!(writer.row_count(), rows);
    }
}

/// As many records as are announced, or one more.
fn sound_batch(more: u8, records: &[u8]) -> Option<KvBatch> {
    const HEADER: usize = 28;
    let mut batch = KvBatchBuilder::new(1 + i16::from(more / 3), -1, -1)
        .finish()
        .to_vec();
    batch.truncate(HEADER);
    batch.extend_from_slice(records);
    for count in (0..records.len() as i32 / 4 + 1).rev() {
        let length = batch.len() as i32 - 4;
        batch[..4].copy_from_slice(&length.to_le_bytes());
        batch[24..HEADER].copy_from_slice(&count.to_le_bytes());
        let crc = crc32c::crc32c(&batch[9..]);
        batch[5..9].copy_from_slice(&crc.to_le_bytes());
        if let Ok(batch) = KvBatch::parse(Bytes::from(batch.clone())) {
            return Some(batch);
        }
    }
    None
}

/// Every type, every engine, both images.
fn tables() -> &'static [KvTable] {
    static TABLES: OnceLock<Vec<KvTable>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut all = schema().0.clone();
        let first = all.columns[0].name.clone();
        all.columns[0].data_type.nullable = false;
        all.primary_key = vec![first];
        let plain = TableDescriptor::new(all);
        let small = || {
            Schema::builder()
                .column("k", DataType::not_null(TypeKind::String))
                .column("n", DataType::nullable(TypeKind::Int))
                .aggregate(AggFunction::new("sum"))
                .column("t", DataType::nullable(TypeKind::String))
                .aggregate(AggFunction::new("listagg"))
                .column("b", DataType::nullable(TypeKind::Bytes))
                .aggregate(AggFunction::new("rbm32"))
                .column("c", DataType::nullable(TypeKind::Bytes))
                .aggregate(AggFunction::new("rbm64"))
                .primary_key(["k"])
        };
        let aggregated = TableDescriptor::new(small().build().expect("a schema"));
        let mut numbered = small().build().expect("a schema");
        for column in &mut numbered.columns {
            column.agg_function = None;
        }
        let unmerged = TableDescriptor::new(numbered.clone());
        numbered.auto_increment = vec!["n".to_owned()];
        let engine = "table.merge-engine";
        let version = "table.merge-engine.versioned.ver-column";
        let descriptors = [
            plain.clone(),
            plain.clone().with_property("table.changelog.image", "WAL"),
            plain.clone().with_property("table.log.format", "COMPACTED"),
            plain
                .with_property("table.log.format", "INDEXED")
                .with_property("table.kv.format", "INDEXED"),
            aggregated
                .with_property(engine, "aggregation")
                .with_property("table.delete.behavior", "ALLOW"),
            unmerged.clone().with_property(engine, "first_row"),
            unmerged
                .with_property(engine, "versioned")
                .with_property(version, "n"),
            TableDescriptor::new(numbered),
        ];
        let table = |descriptor: &TableDescriptor| {
            KvTable::new(descriptor, [(1, Arc::new(descriptor.schema.clone()))]).expect("a table")
        };
        descriptors.iter().map(table).collect()
    })
}

/// A bucket that begins.
struct NoChangelog;

impl ChangelogSource for NoChangelog {
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

/// Numbers that are few, so that a column runs out of them.
struct Numbers;

impl SequenceSource for Numbers {
    fn take(&self, _: i32, count: i64) -> Result<std::ops::RangeInclusive<i64>> {
        let last = i64::from(i32::MAX) + 3;
        Ok(last - count.min(10)..=last)
    }
}

/// A put of rows of `k`, for seeds: choices, and records.
pub fn put_seed(table: u8) -> Vec<u8> {
    let texts = [("a", 1), ("b", 2), ("a", 3)];
    let schema = Schema::of([
        ("k", DataType::not_null(TypeKind::String)),
        ("n", DataType::nullable(TypeKind::Int)),
        ("t", DataType::nullable(TypeKind::String)),
        ("b", DataType::nullable(TypeKind::Bytes)),
        ("c", DataType::nullable(TypeKind::Bytes)),
    ])
    .expect("a schema");
    let mut batch = KvBatchBuilder::new(1, -1, -1);
    for (key, number) in texts {
        let values = [
            Value::from(key),
            Value::Int(number),
            Value::from("x"),
            Value::Null,
            Value::Null,
        ];
        let mut row = Vec::new();
        let columns = schema.columns.as_slice();
        RowFormat::Compacted
            .encode(&values, columns, &mut row)
            .expect("a row");
        batch
            .append(&[&[1], key.as_bytes()].concat(), Some(&row))
            .expect("a record");
    }
    batch.append(b"\x01b", None).expect("a record");
    let records = batch.finish().slice(28..);
    let mut seed = vec![table, 1, 0, (records.len() / 2) as u8];
    seed.extend_from_slice(&records);
    seed
}
