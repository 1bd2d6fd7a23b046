//! Developer tasks: code generation and repository checks.
//!
//! `cargo xtask proto` regenerates the message types from `proto/fluss.proto`;
//! `cargo xtask proto --check` fails when the checked-in files differ.

mod proto;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["proto"] => proto::generate(false),
        ["proto", "--check"] => proto::generate(true),
        _ => bail!("usage: cargo xtask proto [--check]"),
    }
}
