//! What the server's hot path costs per batch: checking an append, projecting a
//! fetch. Run with `cargo bench -p mainstem-format`.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema};
use bytes::Bytes;
use mainstem_format::{BatchSpec, Projection, ReadAt, ReadWindow, SchemaLayout, check_append};
use mainstem_types::{Column, DataType, LogFormat, Schema, TypeKind};

/// Median of rounds, each long enough to be measured.
fn per_call(mut call: impl FnMut()) -> Duration {
    let mut rounds: Vec<Duration> = (0..15)
        .map(|_| {
            let start = Instant::now();
            let mut calls = 0;
            while start.elapsed() < Duration::from_millis(50) {
                for _ in 0..10 {
                    call();
                }
                calls += 10;
            }
            start.elapsed() / calls
        })
        .collect();
    rounds.sort();
    rounds[rounds.len() / 2]
}

fn table(column_count: usize) -> Schema {
    let column = |id| Column {
        name: format!("c{id}"),
        data_type: DataType::nullable(TypeKind::BigInt),
        comment: None,
        agg_function: None,
        id,
    };
    Schema {
        columns: (0..column_count as i32).map(column).collect(),
        primary_key: Vec::new(),
        auto_increment: Vec::new(),
        highest_field_id: column_count as i32 - 1,
    }
}

/// A batch of BIGINT columns.
fn batch(column_count: usize, rows: usize) -> Bytes {
    let fields: Vec<_> = (0..column_count)
        .map(|at| Field::new(format!("c{at}"), ArrowType::Int64, true))
        .collect();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let rows_batch = RecordBatch::try_new(
        Arc::new(ArrowSchema::new(fields)),
        vec![values; column_count],
    )
    .expect("columns fit the schema");
    let options = IpcWriteOptions::default();
    let (_, encoded) = IpcDataGenerator::default()
        .encode(
            &rows_batch,
            &mut DictionaryTracker::new(false),
            &options,
            &mut Default::default(),
        )
        .expect("a plain batch can be encoded");
    let mut message = Vec::new();
    write_message(&mut message, encoded, &options).expect("memory can be written");
    BatchSpec::default()
        .build(rows as i32, &[], &[], &message)
        .expect("a small batch")
        .into()
}

struct OnDisk(File);

impl ReadAt for OnDisk {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(buffer, position)
    }
}

fn bench_append(column_count: usize, rows: usize) {
    let records = batch(column_count, rows);
    let layout = Arc::new(SchemaLayout::new(&table(column_count)));
    let schemas = |_| Some(layout.clone());
    let checked = per_call(|| {
        black_box(check_append(&records, LogFormat::Arrow, &schemas).expect("a valid batch"));
    });
    let crc = per_call(|| {
        black_box(crc32c::crc32c(&records));
    });
    let rate = |time: Duration| records.len() as f64 / time.as_secs_f64() / 1e9;
    println!(
        "append {column_count:>6} columns, {:>8} bytes: {checked:>10.2?} = {:5.2} GB/s \
         (checksum alone {crc:.2?} = {:.2} GB/s)",
        records.len(),
        rate(checked),
        rate(crc)
    );
}

fn bench_projection(column_count: usize, rows: usize) {
    let records = batch(column_count, rows);
    let last = column_count as i32 - 3;
    let fields = [1, last / 2, last];
    let versions = [(1, Arc::new(SchemaLayout::new(&table(column_count))))];
    let projection = Projection::new(&versions, &fields).expect("fields exist");
    let path = std::env::temp_dir().join(format!("mainstem-bench-{}", std::process::id()));
    let mut file = File::create(&path).expect("a temporary file");
    file.write_all(&records)
        .expect("a temporary file is writable");
    let on_disk = OnDisk(File::open(&path).expect("the file was written"));
    std::fs::remove_file(&path).expect("the file is ours");

    fn project(projection: &Projection, source: &(impl ReadAt + ?Sized), len: usize) -> usize {
        let mut window = ReadWindow::new(source, len as u64);
        let header = window.batch_header(0).expect("readable").expect("whole");
        projection
            .project(&mut window, 0, &header)
            .expect("projectable")
            .len
    }
    let in_memory = per_call(|| {
        black_box(project(&projection, &records, records.len()));
    });
    let from_file = per_call(|| {
        black_box(project(&projection, &on_disk, records.len()));
    });
    let compiled = per_call(|| {
        black_box(Projection::new(&versions, &fields).expect("fields exist"));
    });
    println!(
        "project 3 of {column_count:>6} columns, {rows} rows: {in_memory:>8.0?} from memory, \
         {from_file:>8.0?} from page cache (compiling it: {compiled:.0?})"
    );
}

fn main() {
    bench_append(10, 13_000);
    bench_append(100, 1_300);
    bench_append(10_000, 100);
    for rows in [100, 1000] {
        for column_count in [10, 100, 1000, 10_000] {
            bench_projection(column_count, rows);
        }
    }
}
