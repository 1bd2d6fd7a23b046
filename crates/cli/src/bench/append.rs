//! `bench append`: rows in encoded batches of 1 MiB, against the floor program.

use anyhow::{Result, ensure};

use super::Workload;
use super::batches::{Batch, BatchSource};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::{Durability, ServerProcess};
use super::stage::{Stage, Usage};
use super::table;
use super::wire::{Frame, WireConnection};

/// Rows of [`BatchSource::events`] that stay just below 1 MiB.
pub const ROWS_PER_BATCH: usize = 10_500;
pub const BUCKETS: i32 = 8;
/// Sent before the measurement: memory is mapped and code is in the caches.
const WARM_UP: usize = 64;

/// Options of `mainstem bench append`.
#[derive(clap::Args, Clone, Debug)]
pub struct AppendArguments {
    /// Batches, of almost 1 MiB, per round without sync.
    #[arg(long, default_value_t = 1536)]
    batches: usize,
    /// Batches per round with sync.
    #[arg(long, default_value_t = 1024)]
    fsync_batches: usize,
    /// Requests in flight.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: u16,
}

/// One side of a round.
struct Side {
    usage: Usage,
    peak_bytes: u64,
}

impl Workload for AppendArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("append");
        let mut source = BatchSource::events()?;
        let batches: Vec<Batch> = (0..BUCKETS)
            .map(|_| source.batch(ROWS_PER_BATCH))
            .collect::<Result<_>>()?;
        report.configured(
            "load",
            format!(
                "batches of {} bytes, {ROWS_PER_BATCH} rows, uncompressed Arrow; {BUCKETS} buckets; \
                 1 connection, {} requests in flight, acks all",
                batches[0].bytes.len(),
                self.window
            ),
        );
        for durability in Durability::BOTH {
            self.compare(stage, durability, &source, &batches, &mut report)?;
        }
        Ok(report)
    }
}

impl AppendArguments {
    fn compare(
        &self,
        stage: &Stage,
        durability: Durability,
        source: &BatchSource,
        batches: &[Batch],
        report: &mut Report,
    ) -> Result<()> {
        let count = match durability {
            Durability::Os => self.batches,
            Durability::Fsync => self.fsync_batches,
        };
        let rounds = stage.rounds(report, || {
            let floor = self.floor_side(stage, durability, batches, count)?;
            let ours = self.server_side(stage, durability, source, batches, count)?;
            Ok((floor, ours))
        })?;
        let bytes = (count * batches[0].bytes.len()) as f64;
        let (gb, rows) = (bytes / 1e9, (count * ROWS_PER_BATCH) as f64);
        let name = durability.name();
        let mut add = |text: &str, unit, of: &dyn Fn(&(Side, Side)) -> f64, target| {
            let values = rounds.iter().map(of).collect();
            let mut figure = Figure::new(format!("{name}: {text}"), unit, values);
            figure.target = target;
            report.push(figure);
        };
        let least_rate = match durability {
            Durability::Os => 0.6,
            Durability::Fsync => 0.7,
        };
        add(
            "rate / floor",
            "",
            &|(floor, ours)| floor.usage.seconds / ours.usage.seconds,
            Some(Target::AtLeast(least_rate)),
        );
        add(
            "rate",
            "MB/s",
            &|(_, ours)| bytes / 1e6 / ours.usage.seconds,
            None,
        );
        add(
            "rate of the floor",
            "MB/s",
            &|(floor, _)| bytes / 1e6 / floor.usage.seconds,
            None,
        );
        add(
            "rows",
            "M/s",
            &|(_, ours)| rows / 1e6 / ours.usage.seconds,
            None,
        );
        add(
            "server CPU / floor",
            "",
            &|(floor, ours)| ours.usage.cpu_seconds / floor.usage.cpu_seconds,
            Some(Target::AtMost(1.4)),
        );
        add(
            "server CPU",
            "s/GB",
            &|(_, ours)| ours.usage.cpu_seconds / gb,
            Some(Target::AtMost(0.8)),
        );
        add(
            "floor CPU",
            "s/GB",
            &|(floor, _)| floor.usage.cpu_seconds / gb,
            None,
        );
        add(
            "peak memory",
            "MB",
            &|(_, ours)| ours.peak_bytes as f64 / 1e6,
            None,
        );
        Ok(())
    }

    fn floor_side(
        &self,
        stage: &Stage,
        durability: Durability,
        batches: &[Batch],
        count: usize,
    ) -> Result<Side> {
        let floor = stage.fresh_floor(durability)?;
        let mut connection = WireConnection::open_silently(floor.address())?;
        let frames = round_robin(0, batches)?;
        let side = self.send(&floor, &mut connection, &frames, count)?;
        floor.kill()?;
        Ok(side)
    }

    fn server_side(
        &self,
        stage: &Stage,
        durability: Durability,
        source: &BatchSource,
        batches: &[Batch],
        count: usize,
    ) -> Result<Side> {
        let server = stage.fresh_server(durability)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let descriptor = table::log_table(source.schema(), BUCKETS);
        let table = table::create(&mut connection, "append", &descriptor)?;
        let frames = round_robin(table.table_id, batches)?;
        let side = self.send(&server, &mut connection, &frames, count)?;
        let stored = table.row_count(&mut connection)?;
        let sent = ((WARM_UP + count) * ROWS_PER_BATCH) as u64;
        ensure!(
            stored == sent,
            "{stored} rows are stored of {sent} acknowledged ones"
        );
        server.kill()?;
        Ok(side)
    }

    fn send(
        &self,
        server: &ServerProcess,
        connection: &mut WireConnection,
        frames: &[Frame],
        count: usize,
    ) -> Result<Side> {
        let window = usize::from(self.window);
        produce::pump(connection, frames, WARM_UP, window)?;
        let (usage, ()) = Usage::of(server, || produce::pump(connection, frames, count, window))?;
        Ok(Side {
            usage,
            peak_bytes: server.peak_resident_bytes()?,
        })
    }
}

/// A request per bucket, each with its own batch.
pub fn round_robin(table_id: i64, batches: &[Batch]) -> Result<Vec<Frame>> {
    batches
        .iter()
        .zip(0..)
        .map(|(batch, bucket)| produce::request(table_id, bucket, batch))
        .collect()
}
