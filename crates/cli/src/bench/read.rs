//! `bench read`: whole batches from the page cache, against the floor program.

use anyhow::{Result, ensure};

use super::Workload;
use super::append::{BUCKETS, ROWS_PER_BATCH, round_robin};
use super::batches::{Batch, BatchSource};
use super::fetch::{self, FetchShape, ReadTotals};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::Durability;
use super::stage::{Stage, Usage};
use super::table;
use super::wire::WireConnection;

const WINDOW: usize = 16;

/// Options of `mainstem bench read`.
#[derive(clap::Args, Clone, Debug)]
pub struct ReadArguments {
    /// Batches, of almost 1 MiB, in the table; they should fit into memory.
    #[arg(long, default_value_t = 1024)]
    batches: usize,
    /// How often a round reads the table.
    #[arg(long, default_value_t = 2)]
    passes: usize,
    /// Fetches in flight, each for its share of the buckets.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    in_flight: u8,
}

impl Workload for ReadArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("read");
        let mut source = BatchSource::events()?;
        let batches: Vec<Batch> = (0..BUCKETS)
            .map(|_| source.batch(ROWS_PER_BATCH))
            .collect::<Result<_>>()?;
        let batch_bytes = batches[0].bytes.len();
        let groups = usize::from(self.in_flight);
        report.configured(
            "load",
            format!(
                "{} batches of {batch_bytes} bytes in {BUCKETS} buckets, read {} times; \
                 1 connection, {groups} fetches in flight, 1 MiB a bucket",
                self.batches, self.passes
            ),
        );

        let floor = stage.fresh_floor(Durability::Os)?;
        let mut floor_connection = WireConnection::open_silently(floor.address())?;
        produce::pump(
            &mut floor_connection,
            &round_robin(0, &batches)?,
            self.batches,
            WINDOW,
        )?;

        let server = stage.fresh_server(Durability::Os)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let descriptor = table::log_table(source.schema(), BUCKETS);
        let table = table::create(&mut connection, "read", &descriptor)?;
        let frames = round_robin(table.table_id, &batches)?;
        produce::pump(&mut connection, &frames, self.batches, WINDOW)?;
        let expected_rows = (self.batches * ROWS_PER_BATCH) as u64;
        let expected_bytes = (self.batches * batch_bytes) as u64;
        // Also brings everything into the page cache.
        let verified = fetch::verify(&mut connection, &table)?;
        ensure!(
            verified == (expected_rows, expected_bytes),
            "stored and read: {verified:?}"
        );

        let ends = table.end_offsets(&mut connection)?;
        let shape = FetchShape::whole(table.table_id);
        let rounds = stage.rounds(&mut report, || {
            let (theirs, ()) = Usage::of(&floor, || {
                for _ in 0..self.passes {
                    read_floor(&mut floor_connection, self.batches, batch_bytes, groups)?;
                }
                Ok(())
            })?;
            let (ours, totals) = Usage::of(&server, || {
                let mut totals = ReadTotals::default();
                for _ in 0..self.passes {
                    totals = fetch::read_all(&mut connection, &shape, &ends, groups)?;
                    ensure!(
                        totals.rows == expected_rows,
                        "{} rows were read",
                        totals.rows
                    );
                }
                Ok(totals)
            })?;
            Ok((theirs, ours, totals))
        })?;

        let bytes = expected_bytes as f64 * self.passes as f64;
        let rows = expected_rows as f64 * self.passes as f64;
        type Round = (Usage, Usage, ReadTotals);
        let mut add = |text: &str, unit, of: &dyn Fn(&Round) -> f64, target| {
            let mut figure = Figure::new(text, unit, rounds.iter().map(of).collect());
            figure.target = target;
            report.push(figure);
        };
        add(
            "rate / floor",
            "",
            &|(theirs, ours, _)| theirs.seconds / ours.seconds,
            None,
        );
        add(
            "rate",
            "MB/s",
            &|(_, ours, _)| bytes / 1e6 / ours.seconds,
            None,
        );
        add(
            "rate of the floor",
            "MB/s",
            &|(theirs, ..)| bytes / 1e6 / theirs.seconds,
            None,
        );
        add(
            "rows",
            "M/s",
            &|(_, ours, _)| rows / 1e6 / ours.seconds,
            None,
        );
        add(
            "server CPU / floor",
            "",
            &|(theirs, ours, _)| ours.cpu_seconds / theirs.cpu_seconds,
            Some(Target::AtMost(1.4)),
        );
        add(
            "server CPU",
            "s/GB",
            &|(_, ours, _)| ours.cpu_seconds / bytes * 1e9,
            Some(Target::AtMost(0.5)),
        );
        add(
            "floor CPU",
            "s/GB",
            &|(theirs, ..)| theirs.cpu_seconds / bytes * 1e9,
            None,
        );
        add(
            "bytes on the wire",
            "B/row",
            &|(.., totals)| totals.wire_bytes as f64 / totals.rows as f64,
            None,
        );
        let peak = server.peak_resident_bytes()? as f64 / 1e6;
        report.push(Figure::new("peak memory", "MB", vec![peak]));
        Ok(report)
    }
}

/// Reads all buckets of the floor program once, a batch of each bucket at a time.
fn read_floor(
    connection: &mut WireConnection,
    batches: usize,
    batch_bytes: usize,
    groups: usize,
) -> Result<()> {
    let buckets = BUCKETS as usize;
    let shape = FetchShape {
        bucket_bytes: i32::try_from(batch_bytes)?,
        ..FetchShape::whole(0)
    };
    // Batches went to the buckets in turn.
    let batches_of = |bucket: usize| batches / buckets + usize::from(bucket < batches % buckets);
    let ask = |connection: &mut WireConnection, group: usize, step: usize| {
        let unread: Vec<(i32, i64)> = (group..buckets)
            .step_by(groups)
            .filter(|bucket| step < batches_of(*bucket))
            .map(|bucket| (bucket as i32, (step * batch_bytes) as i64))
            .collect();
        if unread.is_empty() {
            return Ok(false);
        }
        connection.send(&shape.request(unread)?).map(|_| true)
    };
    // Answers come in the order of the requests: one thread serves a connection.
    let mut in_flight = std::collections::VecDeque::new();
    for group in 0..groups {
        if ask(connection, group, 0)? {
            in_flight.push_back((group, 0));
        }
    }
    let mut received = 0;
    while let Some((group, step)) = in_flight.pop_front() {
        received += connection.receive()?.1.len();
        if ask(connection, group, step + 1)? {
            in_flight.push_back((group, step + 1));
        }
    }
    ensure!(
        received == batches * batch_bytes,
        "the floor program sent {received} bytes"
    );
    Ok(())
}
