//! `skew HOST:PORT`: the official Rust client reads a table of 400,000 rows of
//! 100 columns with 90 % of the rows in one of four buckets, ten times, through
//! its Arrow batch scanner. Prints the time of every read; status 1 if one takes
//! longer than two seconds or returns another number of rows. Build it with
//! `--release`: the client decodes everything.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType as ArrowType, Field, Schema as ArrowSchema};
use fluss::client::{EARLIEST_OFFSET, FlussConnection};
use fluss::metadata::{DataTypes, Schema, TableDescriptor};
use mainstem_conformance::table;

const ROWS: usize = 400_000;
const BATCH: usize = 4_000;
const COLUMNS: usize = 100;
const BUCKETS: i32 = 4;
const READS: usize = 10;
const LIMIT: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    let Some(server) = std::env::args().nth(1) else {
        eprintln!("usage: skew HOST:PORT");
        return ExitCode::from(2);
    };
    match run(&server).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("skew: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(server: &str) -> Result<()> {
    let connection = table::connect(server).await?;
    let admin = connection.get_admin()?;
    admin.create_database(table::DATABASE, None, true).await?;
    let path = table::path("skew_of_400000");
    admin.drop_table(&path, true).await?;
    table::create(&admin, &path, &descriptor()?).await?;
    load(&connection, &path).await?;
    let mut slowest = Duration::ZERO;
    for read in 1..=READS {
        let took = read_all(&connection, &path).await?;
        println!("read {read:>2}: {ROWS} rows in {:.3} s", took.as_secs_f64());
        slowest = slowest.max(took);
    }
    println!("slowest of {READS}: {:.3} s", slowest.as_secs_f64());
    ensure!(slowest <= LIMIT, "slower than {} s", LIMIT.as_secs());
    admin.drop_table(&path, false).await?;
    Ok(connection.close(Duration::from_secs(5)).await?)
}

/// The kind of a column: half BIGINT, a quarter DOUBLE, a quarter STRING.
fn kind(column: usize) -> usize {
    column * 4 / COLUMNS
}

fn descriptor() -> Result<TableDescriptor> {
    let mut schema = Schema::builder();
    for column in 0..COLUMNS {
        let data_type = match kind(column) {
            0 | 1 => DataTypes::bigint(),
            2 => DataTypes::double(),
            _ => DataTypes::string(),
        };
        schema = schema.column(format!("c{column}"), data_type);
    }
    Ok(TableDescriptor::builder()
        .schema(schema.build()?)
        .distributed_by(Some(BUCKETS), vec!["c0".to_string()])
        .build()?)
}

/// A batch of rows with one key, which all go to one bucket.
fn batch(schema: &Arc<ArrowSchema>, key: i64, seed: usize) -> Result<RecordBatch> {
    let mix = |row: usize, column: usize| (row + seed).wrapping_mul(2_654_435_761 + column);
    let columns = (0..COLUMNS)
        .map(|column| -> ArrayRef {
            match kind(column) {
                _ if column == 0 => Arc::new(Int64Array::from(vec![key; BATCH])),
                0 | 1 => Arc::new(Int64Array::from_iter_values(
                    (0..BATCH).map(|row| mix(row, column) as i64),
                )),
                2 => Arc::new(Float64Array::from_iter_values(
                    (0..BATCH).map(|row| mix(row, column) as f64),
                )),
                _ => Arc::new(StringArray::from_iter_values(
                    (0..BATCH).map(|row| format!("{:015}", mix(row, column) % 1_000_000_000)),
                )),
            }
        })
        .collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

async fn load(connection: &FlussConnection, path: &fluss::metadata::TablePath) -> Result<()> {
    let fields: Vec<Field> = (0..COLUMNS)
        .map(|column| {
            let data_type = match kind(column) {
                0 | 1 => ArrowType::Int64,
                2 => ArrowType::Float64,
                _ => ArrowType::Utf8,
            };
            Field::new(format!("c{column}"), data_type, true)
        })
        .collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    let writer = connection
        .get_table(path)
        .await?
        .new_append()?
        .create_writer()?;
    for number in 0..ROWS / BATCH {
        // One batch in ten has another key than the rest.
        let key = if number % 10 == 9 {
            2 + number as i64
        } else {
            1
        };
        writer.append_arrow_batch(batch(&schema, key, number * BATCH)?)?;
    }
    Ok(writer.flush().await?)
}

async fn read_all(
    connection: &FlussConnection,
    path: &fluss::metadata::TablePath,
) -> Result<Duration> {
    let table = connection.get_table(path).await?;
    let scanner = table.new_scan().create_record_batch_log_scanner()?;
    for bucket in 0..BUCKETS {
        scanner.subscribe(bucket, EARLIEST_OFFSET).await?;
    }
    let start = Instant::now();
    let mut rows = 0;
    while rows < ROWS && start.elapsed() < Duration::from_secs(120) {
        let batches = scanner.poll(Duration::from_millis(500)).await?;
        rows += batches
            .iter()
            .map(|batch| batch.num_records())
            .sum::<usize>();
    }
    ensure!(rows == ROWS, "{rows} rows were read");
    Ok(start.elapsed())
}
