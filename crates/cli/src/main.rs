//! The `mainstem` binary: every command of the product.
//!
//! Commands parse their options here and nowhere else read the command line;
//! the work is done by the library crates.

#[cfg(feature = "bench")]
mod bench;
mod consume;
mod produce;
mod server;
mod start;
mod status;
mod table;
mod target;
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
    /// Append rows from a file or standard input to a log table.
    Produce(produce::ProduceArguments),
    /// Print rows of a log table.
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
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: what is wrong, and because of what.
            eprintln!("mainstem: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Start(arguments) => start::run(&arguments),
        #[cfg(feature = "bench")]
        Command::Bench(command) => bench::run(command),
        Command::Produce(arguments) => client_runtime()?.block_on(produce::run(arguments)),
        Command::Consume(arguments) => client_runtime()?.block_on(consume::run(arguments)),
        Command::Table(command) => client_runtime()?.block_on(table::run(command)),
        Command::Status(arguments) => client_runtime()?.block_on(status::run(arguments)),
    }
}

fn client_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
