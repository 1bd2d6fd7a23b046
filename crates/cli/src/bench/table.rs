//! Tables for measurements.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mainstem_protocol::{ApiKey, messages as pb};
use mainstem_types::{Schema, TableDescriptor};

use super::wire::WireConnection;

/// Where all tables are.
pub const DATABASE: &str = "bench";
const READY_MAX: Duration = Duration::from_secs(30);

/// A table whose buckets have leaders.
#[derive(Clone, Debug)]
pub struct BenchTable {
    /// Its id.
    pub table_id: i64,
    /// Number of buckets.
    pub buckets: i32,
}

/// The database that all tables are in.
pub fn create_database(connection: &mut WireConnection) -> Result<()> {
    let request = pb::CreateDatabaseRequest {
        database_name: Some(DATABASE.to_owned()),
        ignore_if_exists: Some(true),
        database_json: None,
    };
    let _: pb::CreateDatabaseResponse = connection.call(ApiKey::CreateDatabase, &request)?;
    Ok(())
}

/// A log table of uncompressed Arrow batches.
pub fn log_table(schema: &Schema, buckets: i32) -> TableDescriptor {
    TableDescriptor::new(schema.clone())
        .distributed_by(buckets, [] as [&str; 0])
        .with_property("table.log.format", "ARROW")
        .with_property("table.log.arrow.compression.type", "NONE")
}

/// Creates a table and waits until each bucket has a leader.
pub fn create(
    connection: &mut WireConnection,
    name: &str,
    descriptor: &TableDescriptor,
) -> Result<BenchTable> {
    let path = pb::PbTablePath {
        database_name: Some(DATABASE.to_owned()),
        table_name: Some(name.to_owned()),
    };
    let request = pb::CreateTableRequest {
        table_path: Some(path.clone()),
        table_json: Some(descriptor.to_json_bytes().into()),
        ignore_if_exists: Some(false),
    };
    let _: pb::CreateTableResponse = connection.call(ApiKey::CreateTable, &request)?;
    let buckets = descriptor.bucket_count.context("a bucket count")?;
    let request = pb::MetadataRequest {
        table_path: vec![path],
        ..Default::default()
    };
    let begin = Instant::now();
    loop {
        let answer: pb::MetadataResponse = connection.call(ApiKey::GetMetadata, &request)?;
        let table = answer
            .table_metadata
            .first()
            .context("the new table in the metadata")?;
        let led = table
            .bucket_metadata
            .iter()
            .filter(|bucket| bucket.leader_id.is_some())
            .count();
        if led == usize::try_from(buckets)? {
            return Ok(BenchTable {
                table_id: table.table_id.unwrap_or_default(),
                buckets,
            });
        }
        ensure!(
            begin.elapsed() < READY_MAX,
            "{led} of {buckets} buckets of {name} have leaders"
        );
    }
}

impl BenchTable {
    /// End of each bucket, by its id.
    pub fn end_offsets(&self, connection: &mut WireConnection) -> Result<Vec<i64>> {
        const LATEST: i32 = 1;
        let request = pb::ListOffsetsRequest {
            follower_server_id: Some(-1),
            offset_type: Some(LATEST),
            table_id: Some(self.table_id),
            partition_id: None,
            bucket_id: (0..self.buckets).collect(),
            start_timestamp: None,
            routing_bucket_count: None,
        };
        let answer: pb::ListOffsetsResponse = connection.call(ApiKey::ListOffsets, &request)?;
        (0..self.buckets)
            .map(|bucket| {
                let entry = answer
                    .buckets_resp
                    .iter()
                    .find(|entry| entry.bucket_id == Some(bucket));
                entry
                    .and_then(|entry| entry.offset)
                    .with_context(|| format!("bucket {bucket}"))
            })
            .collect()
    }

    /// Rows in all buckets: every log begins at offset 0 here.
    pub fn row_count(&self, connection: &mut WireConnection) -> Result<u64> {
        Ok(self
            .end_offsets(connection)?
            .iter()
            .sum::<i64>()
            .unsigned_abs())
    }
}
