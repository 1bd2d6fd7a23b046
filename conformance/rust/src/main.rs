//! `mainstem-conformance HOST:PORT [primary-key] [--keep]`: the official Rust client creates, alters,
//! writes and reads tables on the server there, and compares every value. Ends
//! with status 1 at the first wrong one. Uses the database `conformance_rust`,
//! and drops it at the end unless it is to be kept. With `primary-key` only the
//! tables with a primary key are tried.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use mainstem_conformance::{
    all_types, buckets, databases, evolution, filters, offsets, partitions, primary_key, table,
};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next();
    let (mut only_keyed, mut keep, mut known) = (false, false, true);
    for argument in arguments {
        match argument.as_str() {
            "primary-key" => only_keyed = true,
            "--keep" => keep = true,
            _ => known = false,
        }
    }
    let Some(server) = server.filter(|_| known) else {
        eprintln!("usage: mainstem-conformance HOST:PORT [primary-key] [--keep]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    match run(&server, only_keyed, keep).await {
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

async fn run(server: &str, only_keyed: bool, keep: bool) -> Result<()> {
    let connection = table::connect(server).await?;
    databases::run(&connection).await?;
    if !only_keyed {
        all_types::run(&connection).await?;
        all_types::not_tried();
        evolution::run(&connection, server).await?;
        partitions::run(&connection).await?;
        offsets::run(&connection).await?;
        buckets::run(&connection, server).await?;
        filters::run(&connection).await?;
    }
    primary_key::run(&connection, server).await?;
    if !keep {
        connection
            .get_admin()?
            .drop_database(table::DATABASE, false, true)
            .await?;
    }
    connection.close(Duration::from_secs(5)).await?;
    Ok(())
}
