//! Options that all measurements have.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Command};

/// Options that all measurements have.
#[derive(Args, Clone, Debug)]
pub struct CommonArguments {
    /// Alternating rounds of each comparison.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Directory for the data of the servers, on the disk to measure. A
    /// directory in it is created, and removed at the end.
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Executable of the server to measure, if not this one.
    #[arg(long, value_name = "FILE")]
    pub server: Option<PathBuf>,
    /// Let the scheduler choose the cores instead of pinning server and client.
    #[arg(long)]
    pub unpinned: bool,
    /// How long to wait, in all, for other processes to be quiet before rounds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub patience: u64,
}

/// A workload with the sizes that its options default to.
pub fn defaults<W: Args>() -> Result<W> {
    let command = W::augment_args(Command::new("bench"));
    Ok(W::from_arg_matches(
        &command.try_get_matches_from(["bench"])?,
    )?)
}
