//! Developer tasks: code generation and repository checks.
//!
//! - `cargo xtask proto`: message types from `proto/fluss.proto`.
//! - `cargo xtask reference`: the pages on options in `docs/reference/`.
//! - `cargo xtask tidy`: crate edges, file sizes, forbidden words.
//!
//! With `--check` the generators fail when the checked-in files differ.

mod proto;
mod reference;
mod tidy;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

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
        ["reference"] => reference::generate(false),
        ["reference", "--check"] => reference::generate(true),
        ["tidy"] => tidy::check().and_then(|()| reference::generate(true)),
        _ => bail!("usage: cargo xtask proto|reference [--check], cargo xtask tidy"),
    }
}

/// The checkout that cargo was called in, asked for when the program runs: one
/// target directory may serve several checkouts.
fn workspace_root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run this with `cargo xtask`")?;
    let root = PathBuf::from(package);
    Ok(root.parent().context("workspace root")?.to_path_buf())
}
