//! `bench restart`: from the start of the process to the first answered
//! requests, after an orderly end and after `kill -9`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Workload;
use super::batches::{Batch, BatchSource};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::{Durability, ServerProcess};
use super::stage::Stage;
use super::table::{self, BenchTable};
use super::wire::{Frame, WireConnection};

const WINDOW: usize = 16;
/// Rows of the small batches that every bucket gets before each end: 10 KB.
const SMALL_ROWS: usize = 100;
/// Rows of the large ones, of almost 1 MiB.
const LARGE_ROWS: usize = 10_500;

/// Options of `mainstem bench restart`.
#[derive(clap::Args, Clone, Debug)]
pub struct RestartArguments {
    /// Tables.
    #[arg(long, default_value_t = 10)]
    tables: usize,
    /// Buckets of each.
    #[arg(long, default_value_t = 100)]
    buckets: i32,
    /// Batches of almost 1 MiB written just before the third end.
    #[arg(long, default_value_t = 400)]
    recent_batches: usize,
}

/// The tables, and what they must hold.
struct Ledger {
    tables: Vec<BenchTable>,
    rows: Vec<u64>,
}

/// Seconds.
struct Round {
    stop: f64,
    clean: f64,
    killed: f64,
    killed_with_recent: f64,
}

impl Workload for RestartArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("restart");
        report.configured(
            "load",
            format!(
                "{} tables of {} buckets, {SMALL_ROWS} rows into each bucket before each end; with \
                 sync; until an append and an end offset of each table are answered",
                self.tables, self.buckets
            ),
        );
        let mut source = BatchSource::events()?;
        let (small, large) = (source.batch(SMALL_ROWS)?, source.batch(LARGE_ROWS)?);
        let dir = stage.fresh_dir("server")?;
        let server = stage.server(&dir, Durability::Fsync)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let descriptor = table::log_table(source.schema(), self.buckets);
        let mut ledger = Ledger {
            tables: Vec::new(),
            rows: vec![0; self.tables],
        };
        for number in 0..self.tables {
            let name = format!("table_{number}");
            ledger
                .tables
                .push(table::create(&mut connection, &name, &descriptor)?);
        }

        let mut running = Some(server);
        let mut peak = 0;
        let rounds = stage.rounds(&mut report, || {
            let server = running.take().context("the round before has ended early")?;
            let (round, server) = self.round(stage, &dir, &mut ledger, server, &small, &large)?;
            peak = peak.max(server.peak_resident_bytes()?);
            running = Some(server);
            Ok(round)
        })?;

        let recent = self.recent_batches * large.bytes.len() / 1_000_000;
        let mut add = |text: String, of: &dyn Fn(&Round) -> f64, target| {
            let mut figure = Figure::new(text, "s", rounds.iter().map(of).collect());
            figure.target = target;
            report.push(figure);
        };
        let within = Some(Target::AtMost(1.0));
        add(
            "start after an orderly end".to_owned(),
            &|round| round.clean,
            within,
        );
        add(
            "start after kill -9".to_owned(),
            &|round| round.killed,
            within,
        );
        add(
            format!("start after kill -9, {recent} MB just written"),
            &|round| round.killed_with_recent,
            within,
        );
        add("orderly end".to_owned(), &|round| round.stop, None);
        report.push(Figure::new(
            "peak memory after a start",
            "MB",
            vec![peak as f64 / 1e6],
        ));
        Ok(report)
    }
}

impl RestartArguments {
    fn round(
        &self,
        stage: &Stage,
        dir: &Path,
        ledger: &mut Ledger,
        server: ServerProcess,
        small: &Batch,
        large: &Batch,
    ) -> Result<(Round, ServerProcess)> {
        ledger.append_to_all(&server, small)?;
        let stop = server.stop()?.as_secs_f64();
        let (server, clean) = ledger.start(stage, dir, small)?;

        ledger.append_to_all(&server, small)?;
        server.kill()?;
        let (server, killed) = ledger.start(stage, dir, small)?;

        ledger.append_large(&server, large, self.recent_batches)?;
        server.kill()?;
        let (server, killed_with_recent) = ledger.start(stage, dir, small)?;
        Ok((
            Round {
                stop,
                clean,
                killed,
                killed_with_recent,
            },
            server,
        ))
    }
}

impl Ledger {
    /// One batch into every bucket.
    fn append_to_all(&mut self, server: &ServerProcess, batch: &Batch) -> Result<()> {
        let mut connection = WireConnection::open(server.address())?;
        for (table, rows) in self.tables.iter().zip(&mut self.rows) {
            let frames = requests(table, batch)?;
            produce::pump(&mut connection, &frames, frames.len(), WINDOW)?;
            *rows += frames.len() as u64 * batch.rows;
        }
        Ok(())
    }

    /// So many batches into the buckets of the first table.
    fn append_large(&mut self, server: &ServerProcess, batch: &Batch, count: usize) -> Result<()> {
        let mut connection = WireConnection::open(server.address())?;
        let frames = requests(&self.tables[0], batch)?;
        produce::pump(&mut connection, &frames, count, WINDOW)?;
        self.rows[0] += count as u64 * batch.rows;
        Ok(())
    }

    /// Starts a server over the data, and returns how long it took until it had
    /// answered an append and a question for each table. Then checks that every
    /// acknowledged row is there.
    fn start(&mut self, stage: &Stage, dir: &Path, batch: &Batch) -> Result<(ServerProcess, f64)> {
        let begin = Instant::now();
        let server = stage.server(dir, Durability::Fsync)?;
        let mut connection = WireConnection::open(server.address())?;
        let first = produce::request(self.tables[0].table_id, 0, batch)?;
        produce::pump(&mut connection, &[first], 1, 1)?;
        self.rows[0] += batch.rows;
        let mut stored = Vec::new();
        for table in &self.tables {
            stored.push(table.row_count(&mut connection)?);
        }
        let seconds = begin.elapsed().as_secs_f64();
        ensure!(
            stored == self.rows,
            "{stored:?} rows are stored, {:?} acknowledged",
            self.rows
        );
        Ok((server, seconds))
    }
}

fn requests(table: &BenchTable, batch: &Batch) -> Result<Vec<Frame>> {
    (0..table.buckets)
        .map(|bucket| produce::request(table.table_id, bucket, batch))
        .collect()
}
