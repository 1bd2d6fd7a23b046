//! `bench tablets`: buckets of primary-key tables that nobody uses, the first
//! request to one of them, and the way back after `kill -9`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use mainstem_protocol::{decode, messages as pb};

use super::Workload;
use super::figure::{Figure, Target};
use super::keyed_rows::{KeyedRows, lookup_request, put_request};
use super::report::Report;
use super::server::{Durability, ServerProcess};
use super::stage::{Stage, pause};
use super::table::{self, BenchTable};
use super::upsert;
use super::wire::WireConnection;

const WINDOW: usize = 16;
const SETTLE: std::time::Duration = std::time::Duration::from_secs(2);
/// Buckets and batches of the rows that are written just before `kill -9`.
const RECENT_BUCKETS: u64 = 4;
const RECENT_BATCH: u64 = 1_000;

/// Options of `mainstem bench tablets`.
#[derive(clap::Args, Clone, Debug)]
pub struct TabletsArguments {
    /// Buckets with one row each.
    #[arg(long, default_value_t = 1000)]
    buckets: i32,
    /// Rows in four buckets that are written just before `kill -9`.
    #[arg(long, default_value_t = 1_000_000)]
    recent: u64,
}

struct Round {
    start: f64,
    memory_bytes: u64,
    descriptors_per_bucket: f64,
    first_request: f64,
    start_after_kill: f64,
    first_lookup_after_kill: f64,
}

impl Workload for TabletsArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("tablets");
        report.configured(
            "load",
            format!(
                "{} buckets of a primary-key table with one row each, after a restart; {} rows in \
                 {RECENT_BUCKETS} buckets of another just before kill -9; with sync",
                self.buckets, self.recent
            ),
        );
        let rows = KeyedRows::new()?;
        let rounds = stage.rounds(&mut report, || self.round(stage, &rows))?;
        let mut add = |text: String, unit, of: &dyn Fn(&Round) -> f64, target| {
            let values = rounds.iter().map(of).collect();
            let mut figure = Figure::new(text, unit, values);
            figure.target = Some(Target::AtMost(target));
            report.push(figure);
        };
        let buckets = self.buckets;
        add(
            format!("start with {buckets} buckets"),
            "s",
            &|round| round.start,
            2.0,
        );
        add(
            format!("memory, {buckets} idle buckets"),
            "MB",
            &|round| round.memory_bytes as f64 / 1e6,
            100.0,
        );
        add(
            "descriptors of an idle bucket".to_owned(),
            "",
            &|round| round.descriptors_per_bucket,
            3.0,
        );
        add(
            "first lookup in an idle bucket".to_owned(),
            "ms",
            &|round| round.first_request * 1e3,
            20.0,
        );
        add(
            format!("start after kill -9, {} rows just written", self.recent),
            "s",
            &|round| round.start_after_kill,
            2.0,
        );
        add(
            "kill -9 to the first lookups, one in each bucket".to_owned(),
            "s",
            &|round| round.first_lookup_after_kill,
            3.0,
        );
        Ok(report)
    }
}

impl TabletsArguments {
    fn round(&self, stage: &Stage, rows: &KeyedRows) -> Result<Round> {
        let dir = stage.fresh_dir("server")?;
        let server = stage.server(&dir, Durability::Fsync)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let many = table::create(&mut connection, "many", &rows.table(self.buckets))?;
        let frames = (0..self.buckets)
            .map(|bucket| put_request(many.table_id, bucket, rows.batch(&[bucket as u64], 0)?))
            .collect::<Result<Vec<_>>>()?;
        upsert::pump(&mut connection, &frames, WINDOW)?;
        server.stop()?;

        let begin = Instant::now();
        let server = stage.server(&dir, Durability::Fsync)?;
        let start = begin.elapsed().as_secs_f64();
        pause(SETTLE);
        let memory_bytes = server.resident_bytes()?;
        let descriptors_per_bucket = server.descriptors()? as f64 / f64::from(self.buckets);
        let mut connection = WireConnection::open(server.address())?;
        let begin = Instant::now();
        look_up(&mut connection, rows, many.table_id, 7, 7)?;
        let first_request = begin.elapsed().as_secs_f64();

        let few = self.write_recent(&mut connection, rows)?;
        server.kill()?;
        let (start_after_kill, first_lookup_after_kill) =
            self.return_after_kill(stage, &dir, rows, &few)?;
        Ok(Round {
            start,
            memory_bytes,
            descriptors_per_bucket,
            first_request,
            start_after_kill,
            first_lookup_after_kill,
        })
    }

    fn write_recent(
        &self,
        connection: &mut WireConnection,
        rows: &KeyedRows,
    ) -> Result<BenchTable> {
        let buckets = i32::try_from(RECENT_BUCKETS)?;
        let few = table::create(connection, "few", &rows.table(buckets))?;
        let of_bucket = self.recent / RECENT_BUCKETS;
        let mut frames = Vec::new();
        for first in (0..of_bucket).step_by(RECENT_BATCH as usize) {
            for bucket in 0..RECENT_BUCKETS {
                let last = (first + RECENT_BATCH).min(of_bucket);
                let ids: Vec<u64> = (first..last).map(|n| n * RECENT_BUCKETS + bucket).collect();
                let batch = rows.batch(&ids, 0)?;
                frames.push(put_request(few.table_id, i32::try_from(bucket)?, batch)?);
            }
        }
        upsert::pump(connection, &frames, WINDOW)?;
        Ok(few)
    }

    /// Times until the server is ready, and until the last row of every bucket is
    /// found.
    fn return_after_kill(
        &self,
        stage: &Stage,
        dir: &Path,
        rows: &KeyedRows,
        few: &BenchTable,
    ) -> Result<(f64, f64)> {
        let begin = Instant::now();
        let server = stage.server(dir, Durability::Fsync)?;
        let start = begin.elapsed().as_secs_f64();
        let mut connection = WireConnection::open(server.address())?;
        let last = (self.recent / RECENT_BUCKETS - 1) * RECENT_BUCKETS;
        let frames = (0..RECENT_BUCKETS)
            .map(|bucket| lookup(rows, few.table_id, bucket, last + bucket))
            .collect::<Result<Vec<_>>>()?;
        for frame in &frames {
            connection.send(frame)?;
        }
        for _ in &frames {
            expect_found(connection.receive()?.1)?;
        }
        let found = begin.elapsed().as_secs_f64();
        let stored = upsert::row_count(&mut connection, few.table_id, few.buckets)?;
        let sent = (self.recent / RECENT_BUCKETS * RECENT_BUCKETS) as i64;
        ensure!(stored == sent, "{stored} rows are stored of {sent}");
        server.kill()?;
        Ok((start, found))
    }
}

fn lookup(rows: &KeyedRows, table_id: i64, bucket: u64, id: u64) -> Result<super::wire::Frame> {
    let mut key = Vec::new();
    rows.key(id, &mut key);
    lookup_request(table_id, i32::try_from(bucket)?, vec![key.into()])
}

fn look_up(
    connection: &mut WireConnection,
    rows: &KeyedRows,
    table_id: i64,
    bucket: u64,
    id: u64,
) -> Result<()> {
    connection.send(&lookup(rows, table_id, bucket, id)?)?;
    expect_found(connection.receive()?.1)
}

fn expect_found(body: Bytes) -> Result<()> {
    let answer: pb::LookupResponse = decode(body)?;
    let bucket = answer.buckets_resp.first().context("one bucket")?;
    ensure!(
        bucket.error_code.is_none(),
        "lookup: error {:?}: {:?}",
        bucket.error_code,
        bucket.error_message
    );
    ensure!(
        bucket.values.iter().all(|value| value.values.is_some()),
        "a row that was acknowledged is not found"
    );
    Ok(())
}

impl ServerProcess {
    /// Open file descriptors.
    fn descriptors(&self) -> Result<usize> {
        let dir = format!("/proc/{}/fd", self.pid());
        Ok(std::fs::read_dir(dir)?.count())
    }
}
