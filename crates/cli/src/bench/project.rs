//! `bench project`: what reading few of many columns saves, and that its price
//! does not grow with the columns left out.

use anyhow::{Result, ensure};

use super::Workload;
use super::batches::{Batch, BatchSource};
use super::fetch::{self, FetchShape, ReadTotals};
use super::figure::{Figure, Target};
use super::produce;
use super::report::Report;
use super::server::{Durability, ServerProcess};
use super::stage::{Stage, Usage};
use super::table::{self, BenchTable};
use super::wire::{Frame, WireConnection};

const WINDOW: usize = 16;
/// 20 texts of 96 bytes and their offsets make rows of 2,000 bytes.
const EQUAL_COLUMNS: usize = 20;
const TEXT_BYTES: usize = 96;
const EQUAL_ROWS_PER_BATCH: usize = 512;
const EQUAL_BUCKETS: i32 = 4;
const KEPT_OF_EQUAL: [i32; 2] = [3, 11];
const MANY_COLUMNS: usize = 10_000;
const SOME_COLUMNS: usize = 100;
const KEPT_OF_MANY: [i32; 3] = [7, 50, 99];

/// Options of `mainstem bench project`.
#[derive(clap::Args, Clone, Debug)]
pub struct ProjectArguments {
    /// Batches, of almost 1 MiB, of the table with 20 columns.
    #[arg(long, default_value_t = 768)]
    batches: usize,
    /// How often a round reads two of the columns; all of them are read once.
    #[arg(long, default_value_t = 8)]
    passes: usize,
    /// Rows per batch of the tables with 100 and 10,000 columns.
    #[arg(long, default_value_t = 64)]
    wide_rows: usize,
    /// Batches of each of these.
    #[arg(long, default_value_t = 24)]
    wide_batches: usize,
    /// Fetches of one batch per round.
    #[arg(long, default_value_t = 20_000)]
    fetches: usize,
}

impl Workload for ProjectArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("project");
        let server = stage.fresh_server(Durability::Os)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        self.equal_columns(stage, &server, &mut connection, &mut report)?;
        self.many_columns(stage, &server, &mut connection, &mut report)?;
        Ok(report)
    }
}

impl ProjectArguments {
    fn equal_columns(
        &self,
        stage: &Stage,
        server: &ServerProcess,
        connection: &mut WireConnection,
        report: &mut Report,
    ) -> Result<()> {
        let mut source = BatchSource::texts(EQUAL_COLUMNS, TEXT_BYTES)?;
        let batch = source.batch(EQUAL_ROWS_PER_BATCH)?;
        report.configured(
            "2 of 20",
            format!(
                "{} batches of {} bytes, {EQUAL_ROWS_PER_BATCH} rows of {EQUAL_COLUMNS} columns of \
                 {TEXT_BYTES} bytes, uncompressed, in {EQUAL_BUCKETS} buckets; 2 fetches in flight",
                self.batches,
                batch.bytes.len()
            ),
        );
        let descriptor = table::log_table(source.schema(), EQUAL_BUCKETS);
        let table = table::create(connection, "equal", &descriptor)?;
        fill(connection, &table, &batch, self.batches)?;
        let ends = table.end_offsets(connection)?;
        let expected = (self.batches * EQUAL_ROWS_PER_BATCH) as u64;
        let whole = FetchShape::whole(table.table_id);
        let kept = FetchShape {
            projection: Some(KEPT_OF_EQUAL.to_vec()),
            ..whole.clone()
        };
        let mut read = |shape: &FetchShape, passes: usize| {
            Usage::of(server, || {
                let mut totals = ReadTotals::default();
                for _ in 0..passes {
                    let pass = fetch::read_all(connection, shape, &ends, 2)?;
                    ensure!(
                        pass.rows == expected,
                        "{} rows of {expected} were read",
                        pass.rows
                    );
                    totals.rows += pass.rows;
                    totals.wire_bytes += pass.wire_bytes;
                }
                Ok(totals)
            })
        };
        read(&whole, 1)?;
        let rounds = stage.rounds(report, || Ok((read(&whole, 1)?, read(&kept, self.passes)?)))?;

        type Side = (Usage, ReadTotals);
        let rate = |(usage, totals): &Side| totals.rows as f64 / usage.seconds;
        let cpu = |(usage, totals): &Side| usage.cpu_seconds / totals.rows as f64 * 1e6;
        let wire = |(_, totals): &Side| totals.wire_bytes as f64 / totals.rows as f64;
        let mut add = |text: &str, unit, of: &dyn Fn(&(Side, Side)) -> f64, target| {
            let mut figure = Figure::new(text, unit, rounds.iter().map(of).collect());
            figure.target = target;
            report.push(figure);
        };
        add(
            "2 of 20: rows/s against all 20",
            "",
            &|(all, two)| rate(two) / rate(all),
            Some(Target::AtLeast(6.0)),
        );
        add("2 of 20: rows", "M/s", &|(_, two)| rate(two) / 1e6, None);
        add("all 20: rows", "M/s", &|(all, _)| rate(all) / 1e6, None);
        add(
            "2 of 20: bytes on the wire",
            "B/row",
            &|(_, two)| wire(two),
            None,
        );
        add(
            "all 20: bytes on the wire",
            "B/row",
            &|(all, _)| wire(all),
            None,
        );
        add("2 of 20: server CPU", "s/Mrow", &|(_, two)| cpu(two), None);
        add("all 20: server CPU", "s/Mrow", &|(all, _)| cpu(all), None);
        Ok(())
    }

    fn many_columns(
        &self,
        stage: &Stage,
        server: &ServerProcess,
        connection: &mut WireConnection,
        report: &mut Report,
    ) -> Result<()> {
        report.configured(
            "3 of many",
            format!(
                "{} batches of {} rows of {SOME_COLUMNS} and of {MANY_COLUMNS} BIGINT columns; \
                 {} fetches of one batch, 8 in flight, the same 3 columns",
                self.wide_batches, self.wide_rows, self.fetches
            ),
        );
        let some = self.wide_table(connection, SOME_COLUMNS)?;
        let many = self.wide_table(connection, MANY_COLUMNS)?;
        let mut read =
            |frames: &[Frame]| Usage::of(server, || self.fetch_batches(connection, frames));
        read(&some)?;
        read(&many)?;
        let rounds = stage.rounds(report, || Ok((read(&some)?.0, read(&many)?.0)))?;
        let micros = |usage: &Usage| usage.cpu_seconds / self.fetches as f64 * 1e6;
        let values = |of: &dyn Fn(&(Usage, Usage)) -> f64| rounds.iter().map(of).collect();
        report.push(
            Figure::new(
                "3 columns of 10,000: CPU of a fetch against 3 of 100",
                "",
                values(&|(some, many)| many.cpu_seconds / some.cpu_seconds),
            )
            .with_target(Target::AtMost(2.0)),
        );
        report.push(Figure::new(
            "3 of 10,000: server CPU of a fetch",
            "µs",
            values(&|(_, many)| micros(many)),
        ));
        report.push(Figure::new(
            "3 of 100: server CPU of a fetch",
            "µs",
            values(&|(some, _)| micros(some)),
        ));
        Ok(())
    }

    /// A filled table, as requests for each of its batches.
    fn wide_table(&self, connection: &mut WireConnection, columns: usize) -> Result<Vec<Frame>> {
        let mut source = BatchSource::integers(columns)?;
        let batch = source.batch(self.wide_rows)?;
        let descriptor = table::log_table(source.schema(), 1);
        let table = table::create(connection, &format!("columns_{columns}"), &descriptor)?;
        fill(connection, &table, &batch, self.wide_batches)?;
        let shape = FetchShape {
            projection: Some(KEPT_OF_MANY.to_vec()),
            // The first batch is returned however small the limit is.
            bucket_bytes: 1,
            ..FetchShape::whole(table.table_id)
        };
        (0..self.wide_batches)
            .map(|number| shape.request([(0, (number * self.wide_rows) as i64)]))
            .collect()
    }

    fn fetch_batches(&self, connection: &mut WireConnection, frames: &[Frame]) -> Result<()> {
        const IN_FLIGHT: usize = 8;
        let mut rows = 0;
        let mut receive = |connection: &mut WireConnection| -> Result<()> {
            for fetched in fetch::buckets(connection.receive()?.1)? {
                rows += fetch::walk(&fetched.records)?.rows;
            }
            Ok(())
        };
        for (number, frame) in frames.iter().cycle().take(self.fetches).enumerate() {
            if number >= IN_FLIGHT {
                receive(connection)?;
            }
            connection.send(frame)?;
        }
        for _ in 0..self.fetches.min(IN_FLIGHT) {
            receive(connection)?;
        }
        let expected = (self.fetches * self.wide_rows) as u64;
        ensure!(rows == expected, "{rows} rows of {expected} were read");
        Ok(())
    }
}

/// Appends a batch so many times, to the buckets in turn.
fn fill(
    connection: &mut WireConnection,
    table: &BenchTable,
    batch: &Batch,
    count: usize,
) -> Result<()> {
    let frames = (0..table.buckets)
        .map(|bucket| produce::request(table.table_id, bucket, batch))
        .collect::<Result<Vec<Frame>>>()?;
    produce::pump(connection, &frames, count, WINDOW)?;
    let stored = table.row_count(connection)?;
    ensure!(
        stored == count as u64 * batch.rows,
        "{stored} rows are stored"
    );
    Ok(())
}
