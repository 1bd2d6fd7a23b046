//! Creating tables and waiting until they can be used.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fluss::client::{FlussAdmin, FlussConnection};
use fluss::config::Config;
use fluss::metadata::{TableDescriptor, TablePath};
use fluss::rpc::message::OffsetSpec;

/// The database that all checks use; dropped first if an earlier run left it.
pub const DATABASE: &str = "conformance_rust";

/// How long a new table or partition may take until its buckets have leaders.
const READY_WITHIN: Duration = Duration::from_secs(10);

pub fn config(server: &str) -> Config {
    Config {
        bootstrap_servers: server.to_string(),
        writer_acks: "all".to_string(),
        // Half of the default: the checks wait for many small batches.
        writer_batch_timeout_ms: 10,
        // A lookup waits that long for others to share its request: 100 ms by
        // default, and most lookups here stand alone.
        lookup_batch_timeout_ms: 1,
        ..Config::default()
    }
}

pub async fn connect(server: &str) -> Result<FlussConnection> {
    FlussConnection::new(config(server))
        .await
        .with_context(|| format!("connect to {server}"))
}

pub fn path(table: &str) -> TablePath {
    TablePath::new(DATABASE, table)
}

/// Creates the table and returns when every bucket answers.
pub async fn create(
    admin: &FlussAdmin,
    table: &TablePath,
    descriptor: &TableDescriptor,
) -> Result<()> {
    admin
        .create_table(table, descriptor, false)
        .await
        .with_context(|| format!("create table {table}"))?;
    if descriptor.is_partitioned() {
        return Ok(());
    }
    let count = admin.get_table_info(table).await?.get_num_buckets();
    let buckets: Vec<i32> = (0..count).collect();
    wait(&format!("table {table}"), async || {
        admin
            .list_offsets(table, &buckets, OffsetSpec::Latest)
            .await
            .map(|_| ())
    })
    .await
}

/// Returns when every bucket of the partition answers.
pub async fn wait_for_partition(
    admin: &FlussAdmin,
    table: &TablePath,
    partition: &str,
    buckets: &[i32],
) -> Result<()> {
    wait(&format!("partition {partition} of {table}"), async || {
        admin
            .list_partition_offsets(table, partition, buckets, OffsetSpec::Latest)
            .await
            .map(|_| ())
    })
    .await
}

async fn wait(what: &str, mut probe: impl AsyncFnMut() -> fluss::error::Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > READY_WITHIN => {
                bail!("{what} is not ready after {READY_WITHIN:?}: {error}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
