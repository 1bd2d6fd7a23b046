//! `bench skew`: a table with most of its rows in one bucket, read by a client
//! that fetches as the official ones do (known failure R11): one fetch in flight
//! per server, and buckets whose rows are still buffered are left out of it.
//! A server that lets the fetch of the exhausted buckets wait for data stalls
//! the one bucket that has some.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use mainstem_format::{ArrowBatchDecoder, Columns, Compression};
use mainstem_types::Schema;

use super::Workload;
use super::batches::{Batch, BatchSource};
use super::fetch::{self, FetchShape, FetchedBucket};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::Durability;
use super::stage::{Stage, Usage};
use super::table;
use super::wire::WireConnection;

const BUCKETS: usize = 4;
const FETCH_WAIT_MS: i32 = 500;
const WINDOW: usize = 16;
/// The reference takes up to two minutes.
const STALLED: Duration = Duration::from_secs(120);
/// Of the table, the default of new tables.
const ZSTD_LEVEL: i32 = 3;

/// Options of `mainstem bench skew`.
#[derive(clap::Args, Clone, Debug)]
pub struct SkewArguments {
    /// Rows of the table, 90 % of them in the first bucket.
    #[arg(long, default_value_t = 400_000)]
    rows: usize,
    /// Columns: half BIGINT, a quarter DOUBLE, a quarter STRING of 15 bytes.
    #[arg(long, default_value_t = 100)]
    columns: usize,
    /// Rows per batch; 1,000 of 100 columns are about 1 MiB.
    #[arg(long, default_value_t = 1000)]
    batch_rows: usize,
    /// How often each round reads the table.
    #[arg(long, default_value_t = 2)]
    reads: usize,
    /// Do not compress the batches.
    #[arg(long)]
    uncompressed: bool,
}

impl Workload for SkewArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("skew");
        let compression = if self.uncompressed {
            Compression::None
        } else {
            Compression::Zstd(ZSTD_LEVEL)
        };
        let mut source = BatchSource::mixed(self.columns, compression)?;
        // Different enough not to be in the caches of the processor all the time.
        let batches: Vec<Batch> = (0..16)
            .map(|_| source.batch(self.batch_rows))
            .collect::<Result<_>>()?;
        report.configured(
            "load",
            format!(
                "{} rows of {} columns in batches of {} rows ({} bytes, {}), 90 % in one of \
                 {BUCKETS} buckets; 1 connection, 1 fetch in flight, long polls of \
                 {FETCH_WAIT_MS} ms; the client decodes every batch",
                self.rows,
                self.columns,
                self.batch_rows,
                batches[0].bytes.len(),
                if self.uncompressed {
                    "uncompressed"
                } else {
                    "zstd"
                }
            ),
        );
        let server = stage.fresh_server(Durability::Os)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let descriptor = table::log_table(source.schema(), BUCKETS as i32);
        let descriptor = match compression {
            Compression::None => descriptor,
            _ => descriptor.with_property("table.log.arrow.compression.type", "ZSTD"),
        };
        let table = table::create(&mut connection, "skew", &descriptor)?;
        let count = self.rows / self.batch_rows;
        for (number, batch) in batches.iter().cycle().take(count).enumerate() {
            // Of ten batches one goes to the other buckets, in turn.
            let bucket = if number % 10 == 9 {
                1 + number / 10 % (BUCKETS - 1)
            } else {
                0
            };
            let frame = produce::request(table.table_id, bucket as i32, batch)?;
            produce::pump(&mut connection, &[frame], 1, WINDOW)?;
        }
        let ends = table.end_offsets(&mut connection)?;
        let stored = table.row_count(&mut connection)?;
        ensure!(
            stored == (count * self.batch_rows) as u64,
            "{stored} rows are stored"
        );

        let shape = FetchShape {
            wait_ms: FETCH_WAIT_MS,
            ..FetchShape::whole(table.table_id)
        };
        let rounds = stage.rounds(&mut report, || {
            (0..self.reads)
                .map(|_| {
                    // A new connection, as a new client has.
                    let mut connection = WireConnection::open(server.address())?;
                    let (usage, read) = Usage::of(&server, || {
                        read(&mut connection, &shape, source.schema(), &ends)
                    })?;
                    ensure!(
                        read.rows == stored,
                        "{} rows of {stored} were read",
                        read.rows
                    );
                    Ok((usage, read))
                })
                .collect::<Result<Vec<(Usage, Read)>>>()
        })?;
        let reads: Vec<(Usage, Read)> = rounds.into_iter().flatten().collect();
        let values = |of: &dyn Fn(&(Usage, Read)) -> f64| reads.iter().map(of).collect();
        report.push(
            Figure::new(
                "read of the whole table",
                "s",
                values(&|(usage, _)| usage.seconds),
            )
            .with_target(Target::EachAtMost(2.0)),
        );
        report.push(Figure::new(
            "rows",
            "M/s",
            values(&|(usage, _)| stored as f64 / 1e6 / usage.seconds),
        ));
        report.push(Figure::new(
            "client without rows, in all",
            "s",
            values(&|(_, read)| read.starved.as_secs_f64()),
        ));
        report.push(Figure::new(
            "client without rows, longest",
            "s",
            values(&|(_, read)| read.longest_starved.as_secs_f64()),
        ));
        report.push(Figure::new(
            "fetches",
            "",
            values(&|(_, read)| f64::from(read.fetches)),
        ));
        report.push(Figure::new(
            "server CPU of a read",
            "s",
            values(&|(usage, _)| usage.cpu_seconds),
        ));
        Ok(report)
    }
}

/// How a read went.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    rows: u64,
    fetches: u32,
    /// Time in which the client waited and had no rows to work on.
    starved: Duration,
    longest_starved: Duration,
}

/// Reads up to `ends` and decodes all columns.
fn read(
    connection: &mut WireConnection,
    shape: &FetchShape,
    schema: &Schema,
    ends: &[i64],
) -> Result<Read> {
    let decoder = ArrowBatchDecoder::new(schema, Columns::All)?;
    let mut offsets = vec![0_i64; ends.len()];
    let mut buffered: VecDeque<(usize, Bytes)> = VecDeque::new();
    let (mut read, mut in_flight) = (Read::default(), false);
    let begin = Instant::now();
    while offsets.iter().zip(ends).any(|(offset, end)| offset < end) {
        ensure!(
            begin.elapsed() < STALLED,
            "the reader is stalled at {offsets:?} of {ends:?}"
        );
        if !in_flight {
            // Those at their end as well: the client does not know that it is one.
            let free: Vec<(i32, i64)> = (0..ends.len())
                .filter(|bucket| buffered.iter().all(|(full, _)| full != bucket))
                .map(|bucket| (bucket as i32, offsets[bucket]))
                .collect();
            if !free.is_empty() {
                connection.send(&shape.request(free)?)?;
                read.fetches += 1;
                in_flight = true;
            }
        }
        if in_flight && (buffered.is_empty() || connection.is_readable()?) {
            let waiting = Instant::now();
            let (_, body) = connection.receive()?;
            if buffered.is_empty() {
                read.starved += waiting.elapsed();
                read.longest_starved = read.longest_starved.max(waiting.elapsed());
            }
            for FetchedBucket { bucket, records } in fetch::buckets(body)? {
                if !records.is_empty() {
                    buffered.push_back((usize::try_from(bucket)?, records));
                }
            }
            in_flight = false;
        }
        let Some((bucket, mut records)) = buffered.pop_front() else {
            continue;
        };
        let Some(header) = fetch::first_batch(&records)? else {
            continue;
        };
        let batch = decoder.decode(&records.split_to(header.total_len))?;
        read.rows += batch.batch.num_rows() as u64;
        offsets[bucket] = batch.next_offset;
        if fetch::first_batch(&records)?.is_some() {
            buffered.push_front((bucket, records));
        }
    }
    Ok(read)
}
