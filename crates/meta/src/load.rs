//! Reads everything that the catalog and the coordinator need, in one pass.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mainstem_types::{BucketId, PartitionId, Schema, SchemaId, TableId, TablePath};

use crate::catalog::{BucketState, DatabaseEntry, PartitionEntry, TableEntry};
use crate::keys::{self, BucketOwner, Key};
use crate::records::{
    AssignmentRecord, BucketRecord, ConfigRecord, DatabaseRecord, PartitionRecord, Record,
    TableRecord,
};
use crate::store::decode_counter;
use crate::{MetaError, MetaStore, Revision};

/// What a store holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// The newest change contained.
    pub revision: Revision,
    /// The databases.
    pub databases: Vec<Arc<DatabaseEntry>>,
    /// The tables.
    pub tables: Vec<Arc<TableEntry>>,
    /// The partitions.
    pub partitions: Vec<Arc<PartitionEntry>>,
    /// Configuration changed at run time.
    pub config: ConfigRecord,
    /// The next table id.
    pub next_table_id: i64,
    /// The next partition id.
    pub next_partition_id: i64,
}

/// Reads a store.
///
/// Fails with [`MetaError::Corrupt`] if a record is damaged or one that another
/// needs is missing: the server must not start on half of its tables.
pub fn load(store: &dyn MetaStore) -> Result<Contents, MetaError> {
    let listing = store.list("")?;
    let mut found = Found::default();
    for (key, entry) in &listing.entries {
        found.take(key, &entry.value)?;
    }
    found.contents.revision = listing.revision;
    found.assemble()
}

#[derive(Default)]
struct Found {
    contents: Contents,
    tables: Vec<(TablePath, TableRecord)>,
    schemas: HashMap<TableId, BTreeMap<SchemaId, Arc<Schema>>>,
    partitions: Vec<(String, PartitionRecord)>,
    assignments: HashMap<BucketOwner, AssignmentRecord>,
    buckets: HashMap<BucketOwner, HashMap<BucketId, BucketRecord>>,
}

impl Found {
    fn take(&mut self, key: &str, value: &[u8]) -> Result<(), MetaError> {
        match Key::parse(key) {
            Key::Database(name) => {
                let record = DatabaseRecord::decode(key, value)?;
                let entry = DatabaseEntry {
                    name: name.to_owned(),
                    record,
                };
                self.contents.databases.push(Arc::new(entry));
            }
            Key::Table(path) => self.tables.push((path, TableRecord::decode(key, value)?)),
            Key::Schema(table, id) => {
                let schema = Schema::from_json_bytes(value)
                    .map_err(|error| corrupt(key, error.to_string()))?;
                self.schemas
                    .entry(table)
                    .or_default()
                    .insert(id, Arc::new(schema));
            }
            Key::Partition(_, name) => {
                self.partitions
                    .push((name.to_owned(), PartitionRecord::decode(key, value)?));
            }
            Key::Assignment(owner) => {
                self.assignments
                    .insert(owner, AssignmentRecord::decode(key, value)?);
            }
            Key::Bucket(owner, bucket) => {
                let record = BucketRecord::decode(key, value)?;
                self.buckets
                    .entry(owner)
                    .or_default()
                    .insert(bucket, record);
            }
            Key::Other(keys::CLUSTER_CONFIG) => {
                self.contents.config = ConfigRecord::decode(key, value)?;
            }
            Key::Other(keys::NEXT_TABLE_ID) => {
                self.contents.next_table_id = decode_counter(key, value)?;
            }
            Key::Other(keys::NEXT_PARTITION_ID) => {
                self.contents.next_partition_id = decode_counter(key, value)?;
            }
            Key::Other(_) => {}
        }
        Ok(())
    }

    fn assemble(mut self) -> Result<Contents, MetaError> {
        for (path, record) in std::mem::take(&mut self.tables) {
            let key = keys::table(&path);
            if !self
                .contents
                .databases
                .iter()
                .any(|database| database.name == path.database)
            {
                return Err(corrupt(&key, "its database is missing"));
            }
            let id = TableId(record.table_id);
            let schemas = self.schemas.remove(&id).unwrap_or_default();
            let buckets = if record.partition_key.is_empty() {
                self.buckets(BucketOwner::Table(id), &key)?
            } else {
                Vec::new()
            };
            if schemas.is_empty() {
                return Err(corrupt(&key, "it has no schema"));
            }
            let entry = TableEntry::new(path, record, schemas, buckets);
            self.contents.tables.push(Arc::new(entry));
        }
        for (name, record) in std::mem::take(&mut self.partitions) {
            let key = keys::partition(TableId(record.table_id), &name);
            let owner = BucketOwner::Partition(PartitionId(record.partition_id));
            let buckets = self.buckets(owner, &key)?;
            let entry = PartitionEntry::new(name, record, buckets);
            self.contents.partitions.push(Arc::new(entry));
        }
        Ok(self.contents)
    }

    fn buckets(&mut self, owner: BucketOwner, key: &str) -> Result<Vec<BucketState>, MetaError> {
        let assignment = self
            .assignments
            .remove(&owner)
            .ok_or_else(|| corrupt(key, "it has no assignment"))?;
        let records = self.buckets.remove(&owner).unwrap_or_default();
        Ok((0..)
            .zip(&assignment.buckets)
            .map(|(bucket, replicas)| BucketState::new(replicas, records.get(&BucketId(bucket))))
            .collect())
    }
}

fn corrupt(key: &str, reason: impl Into<String>) -> MetaError {
    MetaError::Corrupt {
        place: key.to_owned(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use mainstem_types::{DataType, TypeKind};

    use super::*;
    use crate::store::encode_counter;
    use crate::{MemoryStore, Transaction};

    fn schema() -> Schema {
        let builder = Schema::builder().column("a", DataType::nullable(TypeKind::Int));
        builder
            .column("b", DataType::nullable(TypeKind::String))
            .build()
            .expect("a schema")
    }

    fn table(id: i64, partition_key: &[&str]) -> TableRecord {
        TableRecord {
            table_id: id,
            comment: None,
            partition_key: partition_key.iter().map(|key| (*key).to_owned()).collect(),
            bucket_key: Vec::new(),
            bucket_count: 2,
            properties: BTreeMap::new(),
            custom_properties: BTreeMap::new(),
            remote_data_dir: None,
            bucket_count_epoch: 0,
            created_time: 1,
            modified_time: 1,
        }
    }

    /// A database with a plain table 3 and a table 4 with one partition 9.
    fn stored() -> MemoryStore {
        let (plain, split) = (TablePath::new("db", "plain"), TablePath::new("db", "split"));
        let (of_plain, of_split) = (
            BucketOwner::Table(TableId(3)),
            BucketOwner::Partition(PartitionId(9)),
        );
        let partition = PartitionRecord {
            partition_id: 9,
            table_id: 4,
            bucket_count: 1,
            remote_data_dir: None,
            created_time: 1,
        };
        let led = BucketRecord {
            leader: Some(0),
            leader_epoch: 5,
            isr: vec![0],
            coordinator_epoch: 0,
            bucket_epoch: 6,
        };
        let transaction = Transaction::new()
            .put(keys::database("db"), DatabaseRecord::default().encode())
            .put(keys::table(&plain), table(3, &[]).encode())
            .put(
                keys::schema(TableId(3), SchemaId(1)),
                schema().to_json_bytes(),
            )
            .put(
                keys::schema(TableId(3), SchemaId(2)),
                schema().to_json_bytes(),
            )
            .put(
                keys::assignment(of_plain),
                AssignmentRecord {
                    buckets: vec![vec![0], vec![1]],
                }
                .encode(),
            )
            .put(keys::bucket(of_plain, BucketId(0)), led.encode())
            .put(keys::table(&split), table(4, &["b"]).encode())
            .put(
                keys::schema(TableId(4), SchemaId(1)),
                schema().to_json_bytes(),
            )
            .put(keys::partition(TableId(4), "x"), partition.encode())
            .put(
                keys::assignment(of_split),
                AssignmentRecord {
                    buckets: vec![vec![0]],
                }
                .encode(),
            )
            .put(keys::NEXT_TABLE_ID, encode_counter(5))
            .put(keys::NEXT_PARTITION_ID, encode_counter(10))
            .put("something/from/a/later/version", "?");
        let store = MemoryStore::new();
        store.commit(transaction).expect("stored");
        store
    }

    #[test]
    fn everything_is_found_with_its_parts() {
        let contents = load(&stored()).expect("readable");
        assert_eq!(
            (contents.next_table_id, contents.next_partition_id),
            (5, 10)
        );
        let [plain, split] = &contents.tables[..] else {
            panic!("two tables")
        };
        assert_eq!((plain.schema_id, plain.schemas.len()), (SchemaId(2), 2));
        assert_eq!(plain.buckets.len(), 2);
        assert_eq!(plain.buckets[0].leader_epoch.0, 5);
        assert_eq!(
            (plain.buckets[1].leader, plain.buckets[1].bucket_epoch),
            (None, -1)
        );
        assert!(split.is_partitioned() && split.buckets.is_empty());
        let [partition] = &contents.partitions[..] else {
            panic!("one partition")
        };
        assert_eq!((partition.name.as_str(), partition.buckets.len()), ("x", 1));
    }

    #[test]
    fn a_store_with_a_part_missing_or_damaged_is_refused_with_the_place() {
        for (key, value) in [
            (keys::schema(TableId(4), SchemaId(1)), None),
            (keys::assignment(BucketOwner::Table(TableId(3))), None),
            (
                keys::assignment(BucketOwner::Partition(PartitionId(9))),
                None,
            ),
            (keys::database("db"), None),
            (keys::schema(TableId(3), SchemaId(1)), Some("{")),
            (keys::table(&TablePath::new("db", "plain")), Some("{}")),
            (
                keys::bucket(BucketOwner::Table(TableId(3)), BucketId(0)),
                Some(r#"{"version":2}"#),
            ),
            (keys::NEXT_TABLE_ID.to_owned(), Some("x")),
        ] {
            let store = stored();
            let change = match value {
                None => Transaction::new().delete(&key),
                Some(value) => Transaction::new().put(&key, value),
            };
            store.commit(change).expect("stored");
            let error = load(&store).expect_err("a part is missing");
            assert!(matches!(error, MetaError::Corrupt { .. }), "{key}: {error}");
        }
    }
}
