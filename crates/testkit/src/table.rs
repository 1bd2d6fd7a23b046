//! Tables of tests, and requests about them.

use mainstem_protocol::messages as pb;
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};

use crate::batch::BatchSource;

/// A table as the server describes it.
#[derive(Clone, Debug)]
pub struct Table {
    /// `database.table`.
    pub name: String,
    /// Id that the server gave.
    pub id: i64,
    /// Newest schema version.
    pub schema_id: i32,
    /// What it is.
    pub descriptor: TableDescriptor,
}

/// Names of databases and tables on the wire: `database.table`.
///
/// # Panics
/// Without a dot.
pub fn path(name: &str) -> pb::PbTablePath {
    let (database, table) = name.split_once('.').expect("database.table");
    pb::PbTablePath {
        database_name: Some(database.to_owned()),
        table_name: Some(table.to_owned()),
    }
}

/// Partition columns with their values.
pub fn spec(pairs: &[(&str, &str)]) -> pb::PbPartitionSpec {
    let pair = |(key, value): &(&str, &str)| pb::PbKeyValue {
        key: Some((*key).to_owned()),
        value: Some((*value).to_owned()),
    };
    pb::PbPartitionSpec {
        partition_key_values: pairs.iter().map(pair).collect(),
    }
}

/// A log table with the columns `a INT, b STRING`, as in the cases of
/// behaviour.md.
///
/// # Panics
/// Never: the columns are a schema.
pub fn ab(buckets: i32) -> TableDescriptor {
    log_table(&[("a", TypeKind::Int), ("b", TypeKind::String)], buckets)
}

/// A log table of nullable columns.
///
/// # Panics
/// If the columns are no schema.
pub fn log_table(columns: &[(&str, TypeKind)], buckets: i32) -> TableDescriptor {
    let columns = columns
        .iter()
        .map(|(name, kind)| (*name, DataType::nullable(kind.clone())));
    let schema = Schema::of(columns).expect("a schema");
    TableDescriptor::new(schema).distributed_by(buckets, Vec::<String>::new())
}

/// A primary-key table with the columns `a INT` (the key) and `b STRING`.
///
/// # Panics
/// Never: the columns are a schema.
pub fn keyed_ab(buckets: i32) -> TableDescriptor {
    keyed_table(
        &[("a", TypeKind::Int), ("b", TypeKind::String)],
        &["a"],
        buckets,
    )
}

/// A primary-key table whose columns are nullable but for the key.
///
/// # Panics
/// If the columns are no schema.
pub fn keyed_table(columns: &[(&str, TypeKind)], key: &[&str], buckets: i32) -> TableDescriptor {
    let columns = columns.iter().map(|(name, kind)| {
        let nullable = !key.contains(name);
        let kind = kind.clone();
        (*name, DataType { kind, nullable })
    });
    let schema = Schema::builder().columns(columns).primary_key(key.to_vec());
    let schema = schema.build().expect("a schema");
    TableDescriptor::new(schema).distributed_by(buckets, Vec::<String>::new())
}

impl Table {
    /// Its name on the wire.
    pub fn path(&self) -> pb::PbTablePath {
        path(&self.name)
    }

    /// Newest schema.
    pub fn schema(&self) -> &Schema {
        &self.descriptor.schema
    }

    /// Encodes rows of its newest schema.
    ///
    /// # Panics
    /// If the schema id is beyond that of a batch.
    pub fn source(&self) -> BatchSource {
        let schema_id = i16::try_from(self.schema_id).expect("a schema id");
        BatchSource::new(self.schema()).with_schema_id(schema_id)
    }

    /// A produce request with acks = all: partition, bucket and records per entry.
    pub fn produce<'r>(
        &self,
        entries: impl IntoIterator<Item = (Option<i64>, i32, &'r [u8])>,
    ) -> pb::ProduceLogRequest {
        let entry = |(partition_id, bucket_id, records): (Option<i64>, i32, &[u8])| {
            pb::PbProduceLogReqForBucket {
                partition_id,
                bucket_id: Some(bucket_id),
                records: Some(records.to_vec().into()),
                ..pb::PbProduceLogReqForBucket::default()
            }
        };
        pb::ProduceLogRequest {
            acks: Some(-1),
            table_id: Some(self.id),
            timeout_ms: Some(10_000),
            buckets_req: entries.into_iter().map(entry).collect(),
        }
    }

    /// A fetch of buckets of a plain table, from these offsets on, that does not
    /// wait.
    pub fn fetch(&self, buckets: impl IntoIterator<Item = (i32, i64)>) -> pb::FetchLogRequest {
        self.fetch_of(
            buckets
                .into_iter()
                .map(|(bucket, offset)| (None, bucket, offset)),
        )
    }

    /// As [`Table::fetch`], with the partition of each bucket.
    pub fn fetch_of(
        &self,
        buckets: impl IntoIterator<Item = (Option<i64>, i32, i64)>,
    ) -> pb::FetchLogRequest {
        let bucket = |(partition_id, bucket_id, offset)| pb::PbFetchLogReqForBucket {
            partition_id,
            bucket_id: Some(bucket_id),
            fetch_offset: Some(offset),
            max_fetch_bytes: Some(1 << 20),
            routing_bucket_count: None,
        };
        pb::FetchLogRequest {
            follower_server_id: Some(-1),
            max_bytes: Some(16 << 20),
            tables_req: vec![pb::PbFetchLogReqForTable {
                table_id: Some(self.id),
                projection_pushdown_enabled: Some(false),
                buckets_req: buckets.into_iter().map(bucket).collect(),
                ..pb::PbFetchLogReqForTable::default()
            }],
            ..pb::FetchLogRequest::default()
        }
    }

    /// As [`Table::fetch`], for some columns only.
    pub fn fetch_columns(&self, bucket: i32, offset: i64, columns: &[i32]) -> pb::FetchLogRequest {
        let mut request = self.fetch([(bucket, offset)]);
        request.tables_req[0].projection_pushdown_enabled = Some(true);
        request.tables_req[0].projected_fields = columns.to_vec();
        request
    }
}
