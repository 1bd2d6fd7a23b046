//! `mainstem-conformance HOST:PORT`: the official Rust client creates, alters,
//! writes and reads tables on the server there, and compares every value. Ends
//! with status 1 at the first wrong one. Uses the database `conformance_rust`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use mainstem_conformance::{
    all_types, buckets, databases, evolution, filters, offsets, partitions, table,
};

#[tokio::main]
async fn main() -> ExitCode {
    let Some(server) = std::env::args().nth(1) else {
        eprintln!("usage: mainstem-conformance HOST:PORT");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    match run(&server).await {
        Ok(()) => {
            println!(
                "fluss-rs 1.0.0: all passed in {:.1} s",
                start.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fluss-rs 1.0.0: WRONG: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(server: &str) -> Result<()> {
    let connection = table::connect(server).await?;
    databases::run(&connection).await?;
    all_types::run(&connection).await?;
    all_types::not_tried();
    evolution::run(&connection, server).await?;
    partitions::run(&connection).await?;
    offsets::run(&connection).await?;
    buckets::run(&connection, server).await?;
    filters::run(&connection).await?;
    connection
        .get_admin()?
        .drop_database(table::DATABASE, false, true)
        .await?;
    connection.close(Duration::from_secs(5)).await?;
    Ok(())
}
