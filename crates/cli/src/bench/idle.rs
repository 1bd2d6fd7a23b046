//! `bench idle`: memory and CPU of a server with nothing to do.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Workload;
use super::batches::{Batch, BatchSource};
use super::fetch::{self, FetchShape};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::{Durability, ServerProcess};
use super::stage::{Stage, pause};
use super::table::{self, BenchTable};
use super::wire::WireConnection;

const FETCH_WAIT_MS: i32 = 500;
/// What was allocated for the work before is given back by then.
const SETTLE: Duration = Duration::from_secs(2);

/// Options of `mainstem bench idle`.
#[derive(clap::Args, Clone, Debug)]
pub struct IdleArguments {
    /// Buckets of the table.
    #[arg(long, default_value_t = 1000)]
    buckets: i32,
    /// Seconds that a reader of all buckets waits for nothing.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

struct Round {
    empty_bytes: u64,
    buckets_bytes: u64,
    idle_share: f64,
    reader_share: f64,
}

impl Workload for IdleArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("idle");
        report.configured(
            "load",
            format!(
                "a table of {} buckets with one row each; one reader at their ends, long polls of \
                 {FETCH_WAIT_MS} ms over all of them, for {} s",
                self.buckets, self.seconds
            ),
        );
        let mut source = BatchSource::events()?;
        let batch = source.batch(1)?;
        let rounds = stage.rounds(&mut report, || self.round(stage, &source, &batch))?;
        let mut add = |text: String, unit, of: &dyn Fn(&Round) -> f64, target| {
            let mut figure = Figure::new(text, unit, rounds.iter().map(of).collect());
            figure.target = target;
            report.push(figure);
        };
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let buckets = self.buckets;
        add(
            "memory, nothing in it".to_owned(),
            "MB",
            &|round| megabytes(round.empty_bytes),
            Some(Target::AtMost(30.0)),
        );
        add(
            format!("memory, {buckets} idle buckets"),
            "MB",
            &|round| megabytes(round.buckets_bytes),
            Some(Target::AtMost(60.0)),
        );
        add(
            format!("CPU, {buckets} buckets, no client"),
            "% of a core",
            &|round| round.idle_share * 100.0,
            None,
        );
        add(
            format!("CPU, {buckets} buckets, one reader"),
            "% of a core",
            &|round| round.reader_share * 100.0,
            Some(Target::AtMost(1.0)),
        );
        Ok(report)
    }
}

impl IdleArguments {
    fn round(&self, stage: &Stage, source: &BatchSource, batch: &Batch) -> Result<Round> {
        let server = stage.fresh_server(Durability::Os)?;
        pause(SETTLE);
        let empty_bytes = server.resident_bytes()?;

        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let descriptor = table::log_table(source.schema(), self.buckets);
        let table = table::create(&mut connection, "idle", &descriptor)?;
        let frames = (0..self.buckets)
            .map(|bucket| produce::request(table.table_id, bucket, batch))
            .collect::<Result<Vec<_>>>()?;
        produce::pump(&mut connection, &frames, frames.len(), 16)?;
        pause(SETTLE);
        let buckets_bytes = server.resident_bytes()?;
        let idle_share = share_of_a_core(&server, || {
            pause(SETTLE);
            Ok(())
        })?;
        let reader_share =
            share_of_a_core(&server, || self.wait_at_the_ends(&mut connection, &table))?;
        Ok(Round {
            empty_bytes,
            buckets_bytes,
            idle_share,
            reader_share,
        })
    }

    fn wait_at_the_ends(&self, connection: &mut WireConnection, table: &BenchTable) -> Result<()> {
        let shape = FetchShape {
            wait_ms: FETCH_WAIT_MS,
            ..FetchShape::whole(table.table_id)
        };
        let request = shape.request((0..self.buckets).map(|bucket| (bucket, 1)))?;
        let begin = Instant::now();
        let mut fetches = 0;
        while begin.elapsed() < Duration::from_secs(self.seconds) {
            connection.send(&request)?;
            for fetched in fetch::buckets(connection.receive()?.1)? {
                ensure!(fetched.records.is_empty(), "there are rows behind the end");
            }
            fetches += 1;
        }
        let waited = begin.elapsed().as_millis() / FETCH_WAIT_MS as u128;
        ensure!(
            fetches <= waited + 1,
            "{fetches} fetches: the server does not let readers wait"
        );
        Ok(())
    }
}

fn share_of_a_core(server: &ServerProcess, wait: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (cpu, begin) = (server.cpu_seconds()?, Instant::now());
    wait()?;
    Ok((server.cpu_seconds()? - cpu) / begin.elapsed().as_secs_f64())
}
