//! `bench latency`: from the append of one row to a reader that waits for it.
//!
//! Rows are sent at a fixed rate, and times count from when a row should have
//! been sent, so that a slow answer also counts for the rows behind it. The
//! disk's own sync is measured in turn with the server's rounds, at the same
//! rate, with as many bytes.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;

use super::Workload;
use super::batches::{Batch, BatchSource};
use super::fetch::{self, FetchShape};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::Durability;
use super::stage::{Stage, pause};
use super::table::{self, BenchTable};
use super::wire::{Frame, WireConnection};

/// Rows of a round that are not counted.
const WARM_UP: usize = 50;
/// What official clients let a fetch wait.
const FETCH_WAIT_MS: i32 = 500;

/// Options of `mainstem bench latency`.
#[derive(clap::Args, Clone, Debug)]
pub struct LatencyArguments {
    /// Rows per second without sync.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Rows per second with sync.
    #[arg(long, default_value_t = 100)]
    fsync_rate: u32,
    /// Seconds of a round.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
}

/// When rows are due.
#[derive(Clone, Copy)]
struct Timetable {
    begin: Instant,
    period: Duration,
    rows: usize,
}

/// Times of a round, in microseconds.
struct Round {
    seen: Histogram<u64>,
    acknowledged: Histogram<u64>,
    synced: Option<Histogram<u64>>,
}

impl Workload for LatencyArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("latency");
        let mut source = BatchSource::events()?;
        let batch = source.batch(1)?;
        report.configured(
            "load",
            format!(
                "1 row in a batch of {} bytes, {} per second without sync, {} with, rounds of \
                 {} s; 1 connection writes, 1 reads with long polls of {FETCH_WAIT_MS} ms",
                batch.bytes.len(),
                self.rate,
                self.fsync_rate,
                self.seconds
            ),
        );
        for durability in Durability::BOTH {
            self.compare(stage, durability, &source, &batch, &mut report)?;
        }
        Ok(report)
    }
}

impl LatencyArguments {
    fn compare(
        &self,
        stage: &Stage,
        durability: Durability,
        source: &BatchSource,
        batch: &Batch,
        report: &mut Report,
    ) -> Result<()> {
        let server = stage.fresh_server(durability)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let probe_dir = stage.fresh_dir("probe")?;
        std::fs::create_dir_all(&probe_dir)?;
        let mut number = 0;
        let rounds = stage.rounds(report, || {
            let synced = match durability {
                Durability::Os => None,
                Durability::Fsync => Some(self.sync_times(&probe_dir, batch.bytes.len())?),
            };
            number += 1;
            let descriptor = table::log_table(source.schema(), 1);
            let table = table::create(&mut connection, &format!("latency_{number}"), &descriptor)?;
            let (seen, acknowledged) = self.round(durability, &server.address(), &table, batch)?;
            Ok(Round {
                seen,
                acknowledged,
                synced,
            })
        })?;

        let name = durability.name();
        let millis = |histogram: &Histogram<u64>, quantile: f64| {
            histogram.value_at_quantile(quantile) as f64 / 1e3
        };
        let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
        for (label, quantile) in quantiles {
            let values = rounds
                .iter()
                .map(|round| millis(&round.seen, quantile))
                .collect();
            let mut figure = Figure::new(format!("{name}: append to reader {label}"), "ms", values);
            figure.target = match (durability, label) {
                (Durability::Os, "p50") => Some(Target::AtMost(1.0)),
                (Durability::Os, "p99") => Some(Target::AtMost(5.0)),
                _ => None,
            };
            report.push(figure);
        }
        for (label, quantile) in &quantiles[..2] {
            let values = rounds
                .iter()
                .map(|round| millis(&round.acknowledged, *quantile))
                .collect();
            report.push(Figure::new(
                format!("{name}: append to answer {label}"),
                "ms",
                values,
            ));
        }
        if durability == Durability::Fsync {
            for ((label, quantile), bound) in quantiles.iter().zip([1.0, 5.0]) {
                let synced = |round: &Round| {
                    round
                        .synced
                        .as_ref()
                        .map_or(f64::NAN, |times| millis(times, *quantile))
                };
                let values = rounds.iter().map(synced).collect();
                report.push(Figure::new(
                    format!("{name}: sync of the disk {label}"),
                    "ms",
                    values,
                ));
                let more = |round: &Round| millis(&round.seen, *quantile) - synced(round);
                let values = rounds.iter().map(more).collect();
                report.push(
                    Figure::new(
                        format!("{name}: beyond the sync of the disk {label}"),
                        "ms",
                        values,
                    )
                    .with_target(Target::AtMost(bound)),
                );
            }
        }
        Ok(())
    }

    fn timetable(&self, durability: Durability) -> Timetable {
        let rate = match durability {
            Durability::Os => self.rate,
            Durability::Fsync => self.fsync_rate,
        }
        .max(1);
        Timetable {
            // The threads are waiting by then.
            begin: Instant::now() + Duration::from_millis(50),
            period: Duration::from_secs(1) / rate,
            rows: WARM_UP + (rate * self.seconds) as usize,
        }
    }

    /// Times from due to seen by the reader, and from due to acknowledged.
    fn round(
        &self,
        durability: Durability,
        address: &std::net::SocketAddr,
        table: &BenchTable,
        batch: &Batch,
    ) -> Result<(Histogram<u64>, Histogram<u64>)> {
        let mut writer = WireConnection::open(*address)?;
        let mut answers = writer.try_clone()?;
        let mut reader = WireConnection::open(*address)?;
        let frame = produce::request(table.table_id, 0, batch)?;
        let shape = FetchShape {
            wait_ms: FETCH_WAIT_MS,
            ..FetchShape::whole(table.table_id)
        };
        let timetable = self.timetable(durability);
        let seen = std::thread::spawn(move || read(&mut reader, &shape, timetable));
        let acknowledged = std::thread::spawn(move || {
            let mut times = histogram()?;
            for row in 0..timetable.rows {
                // With one bucket, answers come in the order of the appends.
                produce::check(answers.receive()?.1)?;
                timetable.record(row, &mut times)?;
            }
            Ok(times)
        });
        write(&mut writer, &frame, timetable)?;
        Ok((join(seen)?, join(acknowledged)?))
    }

    /// Times of `fdatasync` after an append, from when the append was due.
    fn sync_times(&self, dir: &Path, bytes: usize) -> Result<Histogram<u64>> {
        let path = dir.join("appended");
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let content = vec![1; bytes];
        let mut times = histogram()?;
        let timetable = self.timetable(Durability::Fsync);
        for row in 0..timetable.rows {
            timetable.wait_for(row)?;
            file.write_all(&content)?;
            file.sync_data()?;
            timetable.record(row, &mut times)?;
        }
        Ok(times)
    }
}

impl Timetable {
    fn due(&self, row: usize) -> Instant {
        self.begin + self.period * u32::try_from(row).unwrap_or(u32::MAX)
    }

    fn wait_for(&self, row: usize) -> Result<()> {
        let left = self.due(row).saturating_duration_since(Instant::now());
        if left > Duration::ZERO {
            pause(left);
        }
        Ok(())
    }

    fn record(&self, row: usize, times: &mut Histogram<u64>) -> Result<()> {
        if row >= WARM_UP {
            let micros = Instant::now()
                .saturating_duration_since(self.due(row))
                .as_micros();
            times.record(u64::try_from(micros)?)?;
        }
        Ok(())
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new(3).map_err(|error| anyhow!("histogram: {error}"))
}

fn write(connection: &mut WireConnection, frame: &Frame, timetable: Timetable) -> Result<()> {
    // The kernel otherwise wakes a sleeper up to 50 µs late.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("set the timer slack")?;
    for row in 0..timetable.rows {
        timetable.wait_for(row)?;
        connection.send(frame)?;
    }
    Ok(())
}

/// The offset of a row is its number: nobody else writes.
fn read(
    connection: &mut WireConnection,
    shape: &FetchShape,
    timetable: Timetable,
) -> Result<Histogram<u64>> {
    let mut times = histogram()?;
    let mut next = 0;
    while next < timetable.rows {
        connection.send(&shape.request([(0, i64::try_from(next)?)])?)?;
        for fetched in fetch::buckets(connection.receive()?.1)? {
            let walked = fetch::walk(&fetched.records)?;
            let end = next + usize::try_from(walked.rows)?;
            ensure!(
                walked.next_offset.is_none_or(|offset| offset == end as i64),
                "rows are missing before offset {:?}",
                walked.next_offset
            );
            for row in next..end {
                timetable.record(row, &mut times)?;
            }
            next = end;
        }
    }
    Ok(times)
}

fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread
        .join()
        .map_err(|_| anyhow!("a client thread panicked"))?
}
