//! The `mainstem` binary: every command of the product.
//!
//! Commands parse their options here and nowhere else read the command line;
//! the work is done by the library crates.

#[cfg(feature = "bench")]
mod bench;
mod consume;
mod lookup;
mod produce;
mod server;
mod start;
mod status;
mod table;
mod target;
mod upsert;
mod where_clause;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Streaming storage for real-time lakehouses, in one binary.
#[derive(Parser, Debug)]
#[command(name = "mainstem", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start a server with every role in this process.
    Start(start::StartArguments),
    /// Put rows from a file or standard input into a table.
    Produce(produce::ProduceArguments),
    /// Put rows by key into a primary-key table, whole or in part, or delete them.
    Upsert(upsert::UpsertArguments),
    /// Find rows of a primary-key table by key.
    Lookup(lookup::LookupArguments),
    /// Print the rows of a table's log, or changes and rows of a primary-key table.
    Consume(consume::ConsumeArguments),
    /// Create, list, describe, drop and alter tables.
    #[command(subcommand)]
    Table(table::TableCommand),
    /// Show the health of a cluster and what is in it.
    Status(status::StatusArguments),
    /// Measure a server against the least that the machine must do.
    #[cfg(feature = "bench")]
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // One line: what is wrong, and because of what.
            eprintln!("mainstem: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Start(arguments) => start::run(&arguments)?,
        #[cfg(feature = "bench")]
        Command::Bench(command) => bench::run(command)?,
        Command::Produce(arguments) => client_runtime()?.block_on(produce::run(arguments))?,
        Command::Upsert(arguments) => client_runtime()?.block_on(upsert::run(arguments))?,
        // A key without a row is no error, but no success either.
        Command::Lookup(arguments) => return client_runtime()?.block_on(lookup::run(arguments)),
        Command::Consume(arguments) => client_runtime()?.block_on(consume::run(arguments))?,
        Command::Table(command) => client_runtime()?.block_on(table::run(command))?,
        Command::Status(arguments) => client_runtime()?.block_on(status::run(arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn client_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
