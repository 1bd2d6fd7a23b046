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
