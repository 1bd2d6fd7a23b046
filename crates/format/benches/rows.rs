//! What clients and changelogs cost per batch: Arrow batches to log batches and
//! back, rows to bytes and back, keys to buckets. Run with
//! `cargo bench -p mainstem-format --bench rows`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use mainstem_format::row_batch::{decode_rows, encode_rows};
use mainstem_format::{
    ArrowBatchDecoder, ArrowBatchEncoder, BucketAssigner, Columns, Compression, EncodeOptions,
    RowFormat, RowsToBatch, Value,
};
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};

const ROWS: usize = 10_000;

/// Median of rounds, each long enough to be measured.
fn per_call(mut call: impl FnMut()) -> Duration {
    let mut rounds: Vec<Duration> = (0..9)
        .map(|_| {
            let start = Instant::now();
            let mut calls = 0;
            while start.elapsed() < Duration::from_millis(60) {
                call();
                calls += 1;
            }
            start.elapsed() / calls
        })
        .collect();
    rounds.sort();
    rounds[rounds.len() / 2]
}

/// About 100 bytes a row: numbers, a short text, a long one.
fn table() -> Schema {
    let columns = [
        ("id", DataType::not_null(TypeKind::BigInt)),
        (
            "at",
            DataType::nullable(TypeKind::Timestamp { precision: 6 }),
        ),
        (
            "amount",
            DataType::nullable(TypeKind::Decimal {
                precision: 12,
                scale: 2,
            }),
        ),
        ("ratio", DataType::nullable(TypeKind::Double)),
        ("code", DataType::nullable(TypeKind::String)),
        ("note", DataType::nullable(TypeKind::String)),
    ];
    Schema::builder()
        .columns(columns)
        .build()
        .expect("a schema within the rules")
}

fn batch(schema: &Schema) -> RecordBatch {
    let mut rows = RowsToBatch::new(schema, ROWS);
    for row in 0..ROWS as i64 {
        let scattered = row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        let values = [
            Value::BigInt(scattered),
            Value::Timestamp(mainstem_format::Timestamp::from_millis(
                1_700_000_000_000 + row,
            )),
            Value::Decimal(i128::from(scattered % 1_000_000)),
            Value::Double(row as f64 * 0.25),
            Value::String(format!("{:08x}", scattered as u32).into()),
            Value::String(format!("note {scattered:016x} on row {row:08} of this batch").into()),
        ];
        rows.append(&values).expect("values of the schema");
    }
    rows.finish().expect("no null in a NOT NULL column")
}

fn report(what: &str, bytes: usize, time: Duration) {
    let per_row = time.as_nanos() as f64 / ROWS as f64;
    println!("{what:<32} {bytes:>9} bytes {time:>11.1?} {per_row:>7.1} ns/row");
}

fn main() {
    let schema = table();
    let batch = batch(&schema);
    let options = EncodeOptions::default();
    println!(
        "{ROWS} rows, {} bytes in memory",
        batch.get_array_memory_size()
    );
    for compression in [
        Compression::None,
        Compression::Lz4Frame,
        Compression::Zstd(3),
    ] {
        let mut encoder = ArrowBatchEncoder::new(&schema, compression).expect("a valid level");
        let bytes = encoder
            .encode(&batch, None, options)
            .expect("a batch of the schema");
        let time = per_call(|| {
            black_box(encoder.encode(black_box(&batch), None, options).is_ok());
        });
        report(&format!("encode ARROW {compression:?}"), bytes.len(), time);
        let decoder = ArrowBatchDecoder::new(&schema, Columns::All).expect("all columns");
        let time = per_call(|| {
            black_box(decoder.decode(black_box(&bytes)).is_ok());
        });
        report(&format!("decode ARROW {compression:?}"), bytes.len(), time);
    }
    let statistics = EncodeOptions {
        statistics_columns: Some(&[0, 1, 2, 3, 4, 5]),
        ..options
    };
    let mut encoder = ArrowBatchEncoder::new(&schema, Compression::None).expect("no level");
    let time = per_call(|| {
        black_box(encoder.encode(black_box(&batch), None, statistics).is_ok());
    });
    let bytes = encoder
        .encode(&batch, None, statistics)
        .expect("columns with an order");
    report("encode ARROW with statistics", bytes.len(), time);
    for format in [RowFormat::Compacted, RowFormat::Indexed] {
        let encode = || encode_rows(black_box(&batch), format, None, options, &schema);
        let bytes = encode().expect("a batch of the schema");
        report(
            &format!("encode {format:?}"),
            bytes.len(),
            per_call(|| drop(black_box(encode()))),
        );
        let decode = || decode_rows(black_box(&bytes), format, &schema);
        report(
            &format!("decode {format:?}"),
            bytes.len(),
            per_call(|| drop(black_box(decode()))),
        );
    }
    let keyed = TableDescriptor::new(schema.clone()).distributed_by(16, ["id", "code"]);
    let mut assigner = BucketAssigner::new(&keyed)
        .expect("a bucket key")
        .expect("of two columns");
    let time = per_call(|| {
        black_box(assigner.assign_batch(black_box(&batch), 16).is_ok());
    });
    let per_row = time.as_nanos() as f64 / ROWS as f64;
    println!("buckets of two key columns: {per_row:.1} ns/row");
}
