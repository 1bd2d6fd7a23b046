//! Primary-key tables: what is written by key is looked up, scanned and read
//! from the changelog, and every value compared.

mod additions;
mod changes;
mod engines;
mod keys;
mod lookups;
mod partitions;
mod values;

use anyhow::Result;
use fluss::client::FlussConnection;

use crate::check;

pub async fn run(connection: &FlussConnection, server: &str) -> Result<()> {
    println!("primary-key tables");
    values::run(connection).await?;
    keys::run(connection).await?;
    changes::run(connection, server).await?;
    engines::run(connection).await?;
    lookups::run(connection).await?;
    partitions::run(connection).await?;
    additions::run(connection, server).await?;
    check::cannot(
        "fluss-rs 1.0.0 knows no aggregate functions, no OVERWRITE, no insert-if-not-exists, no full scan: tried by the Java client",
    );
    check::cannot(
        "fluss-rs 1.0.0 writes COMPACTED rows and reads ARROW changelogs only: INDEXED rows and the other log formats are tried by the Java client",
    );
    Ok(())
}
