//! What the catalog holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_types::{
    BucketId, LeaderEpoch, PartitionId, Schema, SchemaId, ServerId, TableBucket, TableDescriptor,
    TableId, TablePath,
};

use crate::records::{BucketRecord, DatabaseRecord, PartitionRecord, TableRecord};

/// A database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseEntry {
    /// Name.
    pub name: String,
    /// Everything else.
    pub record: DatabaseRecord,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Database and name.
    pub path: TablePath,
    /// Id.
    pub table_id: TableId,
    /// Id of the current schema.
    pub schema_id: SchemaId,
    /// All schemas.
    pub schemas: BTreeMap<SchemaId, Arc<Schema>>,
    /// The descriptor with the current schema and what the server filled in.
    pub descriptor: TableDescriptor,
    /// The same as JSON, ready to send.
    pub table_json: Bytes,
    /// Epoch milliseconds of its creation.
    pub created_ms: i64,
    /// Epoch milliseconds of its last change.
    pub modified_ms: i64,
    /// Where its remote files go.
    pub remote_data_dir: Option<String>,
    /// Number of changes of the bucket count.
    pub bucket_count_epoch: i64,
    /// The buckets; empty for a partitioned table. The index is the bucket.
    pub buckets: Vec<BucketState>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Id.
    pub partition_id: PartitionId,
    /// The table it belongs to.
    pub table_id: TableId,
    /// Values of the partition columns, joined with `$`.
    pub name: String,
    /// Its buckets; the index is the bucket.
    pub buckets: Vec<BucketState>,
    /// Their number, which a partition keeps for life.
    pub bucket_count: i32,
    /// Where its remote files go.
    pub remote_data_dir: Option<String>,
    /// Epoch milliseconds of its creation.
    pub created_ms: i64,
}

/// Replicas, leader and ISR of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketState {
    /// Servers with a replica, the preferred leader first.
    pub replicas: Vec<ServerId>,
    /// The leader, if there is one.
    pub leader: Option<ServerId>,
    /// Term of the leader.
    pub leader_epoch: LeaderEpoch,
    /// Replicas in sync.
    pub isr: Vec<ServerId>,
    /// Number of writes of this state; −1 = never written.
    pub bucket_epoch: i32,
}

impl TableEntry {
    /// The entry of a registered table.
    ///
    /// # Panics
    /// Without a schema: a table has one from its first moment on.
    pub fn new(
        path: TablePath,
        record: TableRecord,
        schemas: BTreeMap<SchemaId, Arc<Schema>>,
        buckets: Vec<BucketState>,
    ) -> Self {
        let (&schema_id, schema) = schemas.last_key_value().expect("a table has a schema");
        let descriptor = TableDescriptor {
            schema: Schema::clone(schema),
            comment: record.comment,
            partition_keys: record.partition_key,
            bucket_keys: record.bucket_key,
            bucket_count: Some(record.bucket_count),
            properties: record.properties,
            custom_properties: record.custom_properties,
        };
        Self {
            path,
            table_id: TableId(record.table_id),
            schema_id,
            table_json: descriptor.to_json_bytes().into(),
            schemas,
            descriptor,
            created_ms: record.created_time,
            modified_ms: record.modified_time,
            remote_data_dir: record.remote_data_dir,
            bucket_count_epoch: record.bucket_count_epoch,
            buckets,
        }
    }

    /// What the store keeps of it, besides schemas and buckets.
    pub fn record(&self) -> TableRecord {
        let descriptor = &self.descriptor;
        TableRecord {
            table_id: self.table_id.0,
            comment: descriptor.comment.clone(),
            partition_key: descriptor.partition_keys.clone(),
            bucket_key: descriptor.bucket_keys.clone(),
            bucket_count: self.bucket_count(),
            properties: descriptor.properties.clone(),
            custom_properties: descriptor.custom_properties.clone(),
            remote_data_dir: self.remote_data_dir.clone(),
            bucket_count_epoch: self.bucket_count_epoch,
            created_time: self.created_ms,
            modified_time: self.modified_ms,
        }
    }

    /// The same table after a change of its registration.
    pub fn with_record(&self, record: TableRecord) -> Self {
        Self::new(
            self.path.clone(),
            record,
            self.schemas.clone(),
            self.buckets.clone(),
        )
    }

    /// The current schema.
    pub fn schema(&self) -> &Schema {
        &self.descriptor.schema
    }

    /// Whether it has partition columns.
    pub fn is_partitioned(&self) -> bool {
        !self.descriptor.partition_keys.is_empty()
    }

    /// Whether it has a primary key.
    pub fn has_primary_key(&self) -> bool {
        self.descriptor.schema.has_primary_key()
    }

    /// Buckets of the table, or of each new partition.
    pub fn bucket_count(&self) -> i32 {
        self.descriptor.bucket_count.unwrap_or(0)
    }

    /// Identities of its own buckets; none if it is partitioned.
    pub fn table_buckets(&self) -> Vec<TableBucket> {
        identities(self.table_id, None, self.buckets.len())
    }
}

impl PartitionEntry {
    /// The entry of a registered partition.
    pub fn new(name: String, record: PartitionRecord, buckets: Vec<BucketState>) -> Self {
        Self {
            partition_id: PartitionId(record.partition_id),
            table_id: TableId(record.table_id),
            name,
            buckets,
            bucket_count: record.bucket_count,
            remote_data_dir: record.remote_data_dir,
            created_ms: record.created_time,
        }
    }

    /// Identities of its buckets.
    pub fn table_buckets(&self) -> Vec<TableBucket> {
        identities(self.table_id, Some(self.partition_id), self.buckets.len())
    }
}

impl BucketState {
    /// The state of a bucket with these replicas; without a record it has no
    /// leader yet.
    pub fn new(replicas: &[i32], record: Option<&BucketRecord>) -> Self {
        let servers = |ids: &[i32]| ids.iter().copied().map(ServerId).collect::<Vec<_>>();
        match record {
            Some(record) => Self {
                replicas: servers(replicas),
                leader: record.leader.map(ServerId),
                leader_epoch: LeaderEpoch(record.leader_epoch),
                isr: servers(&record.isr),
                bucket_epoch: record.bucket_epoch,
            },
            None => Self {
                replicas: servers(replicas),
                leader: None,
                leader_epoch: LeaderEpoch(0),
                isr: Vec::new(),
                bucket_epoch: -1,
            },
        }
    }
}

fn identities(
    table_id: TableId,
    partition_id: Option<PartitionId>,
    count: usize,
) -> Vec<TableBucket> {
    // Bounded by `max.bucket.num`, an i32.
    (0..count as i32)
        .map(|bucket| TableBucket {
            table_id,
            partition_id,
            bucket_id: BucketId(bucket),
        })
        .collect()
}
