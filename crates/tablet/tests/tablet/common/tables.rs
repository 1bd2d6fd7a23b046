//! Tables of two columns, `a BIGINT` and `b STRING`.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_meta::records::{BucketRecord, DatabaseRecord, PartitionRecord, TableRecord};
use mainstem_meta::{BucketState, Catalog, DatabaseEntry, PartitionEntry, TableEntry};
use mainstem_types::{
    DataType, LeaderEpoch, PartitionId, Schema, SchemaId, TableId, TablePath, TypeKind,
};

const DATABASE: &str = "db";

/// A table to be.
#[derive(Clone, Debug)]
pub struct TableSpec {
    pub id: i64,
    pub name: &'static str,
    pub buckets: i32,
    pub partitioned: bool,
    /// Whether `a` is its primary key.
    pub keyed: bool,
    pub properties: &'static [(&'static str, &'static str)],
}

impl TableSpec {
    /// A primary-key table.
    pub fn keyed(id: i64, name: &'static str, buckets: i32) -> Self {
        Self {
            id,
            name,
            buckets,
            keyed: true,
            ..Self::default()
        }
    }
}

impl Default for TableSpec {
    fn default() -> Self {
        Self {
            id: 1,
            name: "t",
            buckets: 1,
            partitioned: false,
            keyed: false,
            properties: &[],
        }
    }
}

pub fn schema() -> Schema {
    Schema::builder()
        .column("a", DataType::not_null(TypeKind::BigInt))
        .column("b", DataType::nullable(TypeKind::String))
        .build()
        .unwrap()
}

/// The columns with `a` as primary key.
pub fn keyed_schema() -> Schema {
    Schema::builder()
        .column("a", DataType::not_null(TypeKind::BigInt))
        .column("b", DataType::nullable(TypeKind::String))
        .primary_key(["a"])
        .build()
        .unwrap()
}

/// The columns with both as primary key, for partitions by `b`.
fn parted_schema() -> Schema {
    let mut schema = keyed_schema();
    schema.primary_key.push("b".to_owned());
    schema
}

/// A catalog with a database.
pub fn catalog() -> Arc<Catalog> {
    let catalog = Catalog::new();
    catalog.put_database(Arc::new(DatabaseEntry {
        name: DATABASE.to_owned(),
        record: DatabaseRecord::default(),
    }));
    Arc::new(catalog)
}

pub fn put_table(catalog: &Catalog, spec: &TableSpec) {
    let record = TableRecord {
        table_id: spec.id,
        comment: None,
        partition_key: spec
            .partitioned
            .then(|| "b".to_owned())
            .into_iter()
            .collect(),
        bucket_key: spec.keyed.then(|| "a".to_owned()).into_iter().collect(),
        bucket_count: spec.buckets,
        properties: spec
            .properties
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        custom_properties: BTreeMap::new(),
        remote_data_dir: None,
        bucket_count_epoch: 0,
        created_time: 1,
        modified_time: 1,
    };
    let buckets = if spec.partitioned { 0 } else { spec.buckets };
    let schema = match (spec.keyed, spec.partitioned) {
        (false, _) => schema(),
        (true, false) => keyed_schema(),
        (true, true) => parted_schema(),
    };
    put_entry(catalog, spec.name, record, led(buckets), schema);
}

fn put_entry(
    catalog: &Catalog,
    name: &str,
    record: TableRecord,
    buckets: Vec<BucketState>,
    schema: Schema,
) {
    let schemas = BTreeMap::from([(SchemaId(1), Arc::new(schema))]);
    let path = TablePath::new(DATABASE, name);
    catalog.put_table(Arc::new(TableEntry::new(path, record, schemas, buckets)));
}

/// Takes the leader away from one bucket of a table.
pub fn lose_leader(catalog: &Catalog, table_id: i64, bucket: usize) {
    let entry = catalog.table_by_id(TableId(table_id)).unwrap();
    let mut buckets = entry.buckets.clone();
    buckets[bucket].leader = None;
    buckets[bucket].leader_epoch = LeaderEpoch(1);
    buckets[bucket].bucket_epoch += 1;
    let schema = entry.descriptor.schema.clone();
    put_entry(catalog, &entry.path.table, entry.record(), buckets, schema);
}

pub fn drop_table(catalog: &Catalog, name: &str) {
    catalog.remove_table(&TablePath::new(DATABASE, name));
}

pub fn put_partition(catalog: &Catalog, table_id: i64, partition_id: i64, buckets: i32) {
    let record = PartitionRecord {
        partition_id,
        table_id,
        bucket_count: buckets,
        remote_data_dir: None,
        created_time: 1,
    };
    catalog.put_partition(Arc::new(PartitionEntry::new(
        format!("p{partition_id}"),
        record,
        led(buckets),
    )));
}

pub fn drop_partition(catalog: &Catalog, partition_id: i64) {
    catalog.remove_partition(PartitionId(partition_id));
}

/// Buckets led by server 0.
fn led(count: i32) -> Vec<BucketState> {
    let record = BucketRecord {
        leader: Some(0),
        leader_epoch: 0,
        isr: vec![0],
        coordinator_epoch: 0,
        bucket_epoch: 0,
    };
    (0..count)
        .map(|_| BucketState::new(&[0], Some(&record)))
        .collect()
}
