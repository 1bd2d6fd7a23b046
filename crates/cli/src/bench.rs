//! `mainstem bench`: what a server costs, against the least that the machine
//! must do for the same work.
//!
//! Every measurement starts servers of its own, by default from this very
//! executable, on a core of their own, and drives them from another one with
//! batches that were encoded before. What is compared runs in one go, by turns;
//! figures are medians of the rounds with least and greatest. Each measurement
//! ends with a count of what was stored or read.
//!
//! - [`stage`]: processes, cores, rounds. [`report`]: figures and targets.
//! - [`floor`]: the program that does only the unavoidable.
//! - One module per subcommand, each a [`Workload`].

mod append;
mod arguments;
mod batches;
mod cores;
mod cpu;
mod ddl;
mod fetch;
mod figure;
mod floor;
mod idle;
mod keyed_rows;
mod latency;
mod lookup;
mod machine;
mod produce;
mod project;
mod read;
mod report;
mod restart;
mod server;
mod settle;
mod skew;
mod stage;
mod table;
mod tablets;
mod upsert;
mod wire;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use self::arguments::{CommonArguments, defaults};
use self::cores::Cores;
use self::report::Report;
use self::stage::Stage;

/// Subcommands of `mainstem bench`.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Append 100-byte rows in encoded batches of 1 MiB.
    Append(Measurement<append::AppendArguments>),
    /// Read whole batches from the page cache.
    Read(Measurement<read::ReadArguments>),
    /// Read few of many columns.
    Project(Measurement<project::ProjectArguments>),
    /// Time from the append of a row to a reader that waits for it.
    Latency(Measurement<latency::LatencyArguments>),
    /// Memory and CPU of a server with nothing to do.
    Idle(Measurement<idle::IdleArguments>),
    /// Time from the start of the process to the first answered request.
    Restart(Measurement<restart::RestartArguments>),
    /// Create tables one after another.
    Ddl(Measurement<ddl::DdlArguments>),
    /// Read a table that has most of its rows in one bucket.
    Skew(Measurement<skew::SkewArguments>),
    /// Put rows into a primary-key table.
    Upsert(Measurement<upsert::UpsertArguments>),
    /// Look up rows of a primary-key table.
    Lookup(Measurement<lookup::LookupArguments>),
    /// Buckets of primary-key tables that nobody uses, and their way back.
    Tablets(Measurement<tablets::TabletsArguments>),
    /// Room and waits of many rows in a primary-key table; takes minutes.
    Settle(Measurement<settle::SettleArguments>),
    /// Everything above but settle; prints the summary of docs/benchmarks.md.
    All(CommonArguments),
    /// The floor program, which the others start.
    Floor(floor::FloorArguments),
}

/// Options of one measurement.
#[derive(Args, Clone, Debug)]
pub struct Measurement<W: Args> {
    #[command(flatten)]
    common: CommonArguments,
    #[command(flatten)]
    workload: W,
}

/// Something that can be measured.
trait Workload {
    /// Runs it and says what came out.
    fn measure(&self, stage: &Stage) -> Result<Report>;
}

/// Runs a subcommand; one line to standard error says what is being done.
///
/// # Errors
/// A server that does not start or answers with an error, and counts that are
/// wrong. Targets that are missed are no error: the report shows them.
pub fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Floor(arguments) => floor::run(&arguments),
        BenchCommand::Append(measurement) => measure(&measurement),
        BenchCommand::Read(measurement) => measure(&measurement),
        BenchCommand::Project(measurement) => measure(&measurement),
        BenchCommand::Latency(measurement) => measure(&measurement),
        BenchCommand::Idle(measurement) => measure(&measurement),
        BenchCommand::Restart(measurement) => measure(&measurement),
        BenchCommand::Ddl(measurement) => measure(&measurement),
        BenchCommand::Skew(measurement) => measure(&measurement),
        BenchCommand::Upsert(measurement) => measure(&measurement),
        BenchCommand::Lookup(measurement) => measure(&measurement),
        BenchCommand::Tablets(measurement) => measure(&measurement),
        BenchCommand::Settle(measurement) => measure(&measurement),
        BenchCommand::All(common) => all(&common),
    }
}

fn measure<W: Args + Workload>(measurement: &Measurement<W>) -> Result<()> {
    let cores = Cores::choose(measurement.common.unpinned)?;
    let stage = Stage::new(&measurement.common, cores)?;
    let report = measurement.workload.measure(&stage)?;
    report.print();
    save(&measurement.common, &[report])
}

fn all(common: &CommonArguments) -> Result<()> {
    let workloads: [(&str, Box<dyn Workload>); 11] = [
        ("append", Box::new(defaults::<append::AppendArguments>()?)),
        ("read", Box::new(defaults::<read::ReadArguments>()?)),
        (
            "project",
            Box::new(defaults::<project::ProjectArguments>()?),
        ),
        (
            "latency",
            Box::new(defaults::<latency::LatencyArguments>()?),
        ),
        ("idle", Box::new(defaults::<idle::IdleArguments>()?)),
        (
            "restart",
            Box::new(defaults::<restart::RestartArguments>()?),
        ),
        ("ddl", Box::new(defaults::<ddl::DdlArguments>()?)),
        ("skew", Box::new(defaults::<skew::SkewArguments>()?)),
        ("upsert", Box::new(defaults::<upsert::UpsertArguments>()?)),
        ("lookup", Box::new(defaults::<lookup::LookupArguments>()?)),
        (
            "tablets",
            Box::new(defaults::<tablets::TabletsArguments>()?),
        ),
    ];
    // Once: afterwards this thread may use one core only.
    let cores = Cores::choose(common.unpinned)?;
    let mut reports = Vec::new();
    for (name, workload) in workloads {
        let stage = Stage::new(common, cores)?;
        let report = workload
            .measure(&stage)
            .with_context(|| format!("bench {name}"))?;
        report.print();
        reports.push(report);
    }
    println!("{}", report::markdown(&reports));
    save(common, &reports)
}

fn save(common: &CommonArguments, reports: &[Report]) -> Result<()> {
    let Some(path) = &common.json else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(&report::json(reports))?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
