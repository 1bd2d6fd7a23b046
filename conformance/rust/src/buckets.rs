//! Tables with several buckets: a key always lands in one bucket, round robin
//! uses all, a skewed table is read at full speed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType as ArrowType, Field, Schema as ArrowSchema};
use fluss::client::{EARLIEST_OFFSET, FlussConnection};
use fluss::config::NoKeyAssigner;
use fluss::metadata::{DataTypes, Schema, TableDescriptor};
use fluss::row::GenericRow;

use crate::value::Value;
use crate::{check, scan, table};

const BUCKETS: i32 = 4;

fn descriptor(bucket_keys: &[&str]) -> Result<TableDescriptor> {
    Ok(TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("key", DataTypes::bigint())
                .column("text", DataTypes::string())
                .build()?,
        )
        .distributed_by(
            Some(BUCKETS),
            bucket_keys.iter().map(ToString::to_string).collect(),
        )
        .build()?)
}

pub async fn run(connection: &FlussConnection, server: &str) -> Result<()> {
    println!("buckets");
    keyed(connection).await?;
    round_robin(server).await?;
    skewed(connection).await
}

async fn keyed(connection: &FlussConnection) -> Result<()> {
    const KEYS: i64 = 100;
    const ROWS: i64 = 1_000;
    let admin = connection.get_admin()?;
    let path = table::path("keyed");
    table::create(&admin, &path, &descriptor(&["key"])?).await?;
    let table = connection.get_table(&path).await?;
    let writer = table.new_append()?.create_writer()?;
    for n in 0..ROWS {
        let mut row = GenericRow::new(2);
        row.set_field(0, n % KEYS);
        row.set_field(1, format!("row {n}"));
        writer.append(&row)?;
    }
    writer.flush().await?;
    let rows = scan::table(&admin, &table, None).await?;
    let mut homes: HashMap<i64, i32> = HashMap::new();
    let mut texts = HashSet::new();
    for row in &rows {
        if let (Value::Long(key), Value::Text(text)) = (&row.cells[0], &row.cells[1]) {
            let home = *homes.entry(*key).or_insert(row.bucket);
            check::equal(&format!("bucket of key {key}"), &home, &row.bucket)?;
            check::that(&format!("{text} was read once"), texts.insert(text.clone()))?;
        }
    }
    check::equal("keys read", &(KEYS as usize), &homes.len())?;
    check::equal("rows read", &(ROWS as usize), &texts.len())?;
    let used: HashSet<i32> = homes.values().copied().collect();
    check::equal("buckets used by 100 keys", &(BUCKETS as usize), &used.len())?;
    check::passed("bucket key: one bucket for each key");
    Ok(())
}

async fn round_robin(server: &str) -> Result<()> {
    let mut config = table::config(server);
    config.writer_bucket_no_key_assigner = NoKeyAssigner::RoundRobin;
    let connection = FlussConnection::new(config).await?;
    let admin = connection.get_admin()?;
    let path = table::path("unkeyed");
    table::create(&admin, &path, &descriptor(&[])?).await?;
    let table = connection.get_table(&path).await?;
    let writer = table.new_append()?.create_writer()?;
    for n in 0..400i64 {
        let mut row = GenericRow::new(2);
        row.set_field(0, n);
        writer.append(&row)?;
    }
    writer.flush().await?;
    let rows = scan::table(&admin, &table, Some(&[0])).await?;
    let keys: HashSet<i64> = rows
        .iter()
        .filter_map(|row| match row.cells[0] {
            Value::Long(key) => Some(key),
            _ => None,
        })
        .collect();
    check::equal("different rows read", &400, &keys.len())?;
    let used: HashSet<i32> = rows.iter().map(|row| row.bucket).collect();
    check::equal("buckets used", &(BUCKETS as usize), &used.len())?;
    check::passed("no key: round robin over all buckets");
    Ok(connection.close(Duration::from_secs(5)).await?)
}

/// 90 % of the rows in one bucket. A server that lets the empty buckets' fetch
/// wait stalls this reader for 500 ms again and again.
async fn skewed(connection: &FlussConnection) -> Result<()> {
    const BATCH: usize = 2_000;
    const BATCHES: usize = 50;
    const BIG: usize = BATCHES * BATCH;
    const SMALL: usize = BIG / 9;
    let admin = connection.get_admin()?;
    let path = table::path("skewed");
    table::create(&admin, &path, &descriptor(&["key"])?).await?;
    let table = connection.get_table(&path).await?;
    let writer = table.new_append()?.create_writer()?;
    let schema = Arc::new(ArrowSchema::new(vec![
        Field::new("key", ArrowType::Int64, true),
        Field::new("text", ArrowType::Utf8, true),
    ]));
    let batch = |keys: Vec<i64>| -> Result<RecordBatch> {
        let texts: Vec<String> = (0..keys.len())
            .map(|n| format!("{n:0>100} {}", n.wrapping_mul(2_654_435_761)))
            .collect();
        Ok(RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(Int64Array::from(keys)),
                Arc::new(StringArray::from(texts)),
            ],
        )?)
    };
    for _ in 0..BATCHES {
        writer.append_arrow_batch(batch(vec![1; BATCH])?)?;
    }
    writer.append_arrow_batch(batch((0..SMALL as i64).collect())?)?;
    writer.flush().await?;

    let scanner = table.new_scan().create_record_batch_log_scanner()?;
    for bucket in 0..BUCKETS {
        scanner.subscribe(bucket, EARLIEST_OFFSET).await?;
    }
    let start = Instant::now();
    let mut rows = 0;
    while rows < BIG + SMALL && start.elapsed().as_secs() < 60 {
        rows += scanner
            .poll(Duration::from_millis(500))
            .await?
            .iter()
            .map(|batch| batch.num_records())
            .sum::<usize>();
    }
    check::equal("rows of the skewed table", &(BIG + SMALL), &rows)?;
    check::passed(&format!(
        "a skewed table of {rows} rows read in {:.2} s",
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}
