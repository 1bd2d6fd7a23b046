//! Which key holds what.
//!
//! | Key | Value |
//! |---|---|
//! | `databases/{database}` | [`DatabaseRecord`](crate::records::DatabaseRecord) |
//! | `tables/{database}/{table}` | [`TableRecord`](crate::records::TableRecord) |
//! | `schemas/{table id}/{schema id}` | the schema's JSON, as clients get it |
//! | `sequences/{table id}/{column id}` | counter: the last auto-increment number given out |
//! | `partitions/{table id}/{partition name}` | [`PartitionRecord`](crate::records::PartitionRecord) |
//! | `assignments/{owner}` | [`AssignmentRecord`](crate::records::AssignmentRecord) |
//! | `buckets/{owner}/{bucket}` | [`BucketRecord`](crate::records::BucketRecord) |
//! | `config/cluster` | [`ConfigRecord`](crate::records::ConfigRecord) |
//! | `producers/{producer id}` | [`ProducerOffsetsRecord`](crate::records::ProducerOffsetsRecord) |
//! | `counters/…` | counters |
//! | `coordinator/epoch` | counter: the next coordinator epoch |
//!
//! An owner is `t{table id}` or `p{partition id}`. Numbers have leading zeros,
//! so that the order of keys is the order of numbers. Nothing refers to a table
//! by its path but its own record: a new table of the same name is another one.

use mainstem_types::{BucketId, PartitionId, SchemaId, TableId, TablePath};

/// The coordinator's epoch; every write of a coordinator requires its version.
pub const COORDINATOR_EPOCH: &str = "coordinator/epoch";
/// The next table id.
pub const NEXT_TABLE_ID: &str = "counters/table";
/// The next partition id.
pub const NEXT_PARTITION_ID: &str = "counters/partition";
/// The next writer id that is not reserved.
pub const NEXT_WRITER_ID: &str = "counters/writer";
/// Configuration changed at run time.
pub const CLUSTER_CONFIG: &str = "config/cluster";
/// Below it are the offsets of producers.
pub const PRODUCERS: &str = "producers/";

/// What a list of buckets belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketOwner {
    /// A table without partitions.
    Table(TableId),
    /// A partition.
    Partition(PartitionId),
}

/// Record of a database.
pub fn database(name: &str) -> String {
    format!("databases/{name}")
}

/// Registration of a table.
pub fn table(path: &TablePath) -> String {
    format!("tables/{}/{}", path.database, path.table)
}

/// One schema version of a table.
pub fn schema(table: TableId, schema: SchemaId) -> String {
    format!("schemas/{:019}/{:010}", table.0, schema.0)
}

/// Below it are all schema versions of a table.
pub fn schemas(table: TableId) -> String {
    format!("schemas/{:019}/", table.0)
}

/// Auto-increment numbers of one column of a table.
pub fn sequence(table: TableId, column_id: i32) -> String {
    format!("sequences/{:019}/{column_id:010}", table.0)
}

/// Below it are the auto-increment numbers of all columns of a table.
pub fn sequences(table: TableId) -> String {
    format!("sequences/{:019}/", table.0)
}

/// Registration of a partition.
pub fn partition(table: TableId, name: &str) -> String {
    format!("partitions/{:019}/{name}", table.0)
}

/// Below it are all partitions of a table.
pub fn partitions(table: TableId) -> String {
    format!("partitions/{:019}/", table.0)
}

/// Replicas of the buckets of a table or partition.
pub fn assignment(owner: BucketOwner) -> String {
    format!("assignments/{}", owner_part(owner))
}

/// Leader and ISR of one bucket.
pub fn bucket(owner: BucketOwner, bucket: BucketId) -> String {
    format!("buckets/{}/{:010}", owner_part(owner), bucket.0)
}

/// Below it are the leaders and ISRs of all buckets of a table or partition.
pub fn buckets(owner: BucketOwner) -> String {
    format!("buckets/{}/", owner_part(owner))
}

/// Offsets of a producer.
pub fn producer(id: &str) -> String {
    format!("{PRODUCERS}{id}")
}

fn owner_part(owner: BucketOwner) -> String {
    match owner {
        BucketOwner::Table(id) => format!("t{:019}", id.0),
        BucketOwner::Partition(id) => format!("p{:019}", id.0),
    }
}

/// A key, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// See [`database`].
    Database(&'a str),
    /// See [`table`].
    Table(TablePath),
    /// See [`schema`].
    Schema(TableId, SchemaId),
    /// See [`partition`].
    Partition(TableId, &'a str),
    /// See [`assignment`].
    Assignment(BucketOwner),
    /// See [`bucket`].
    Bucket(BucketOwner, BucketId),
    /// Any other.
    Other(&'a str),
}

impl<'a> Key<'a> {
    /// Takes a key apart. What does not have one of the forms is
    /// [`Key::Other`]: a later version may have added it.
    pub fn parse(key: &'a str) -> Self {
        Self::parse_known(key).unwrap_or(Self::Other(key))
    }

    fn parse_known(key: &'a str) -> Option<Self> {
        let (kind, rest) = key.split_once('/')?;
        Some(match kind {
            "databases" => Self::Database(rest),
            "tables" => {
                let (database, table) = rest.split_once('/')?;
                Self::Table(TablePath::new(database, table))
            }
            "schemas" => {
                let (table, schema) = rest.split_once('/')?;
                Self::Schema(TableId(table.parse().ok()?), SchemaId(schema.parse().ok()?))
            }
            "partitions" => {
                let (table, name) = rest.split_once('/')?;
                Self::Partition(TableId(table.parse().ok()?), name)
            }
            "assignments" => Self::Assignment(parse_owner(rest)?),
            "buckets" => {
                let (owner, bucket) = rest.split_once('/')?;
                Self::Bucket(parse_owner(owner)?, BucketId(bucket.parse().ok()?))
            }
            _ => return None,
        })
    }
}

fn parse_owner(text: &str) -> Option<BucketOwner> {
    let id = text.get(1..)?.parse().ok()?;
    match text.as_bytes().first()? {
        b't' => Some(BucketOwner::Table(TableId(id))),
        b'p' => Some(BucketOwner::Partition(PartitionId(id))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_taken_apart_as_it_was_built() {
        let path = TablePath::new("fluss", "a-b_c");
        let (table_id, partition_id) = (TableId(7), PartitionId(i64::MAX));
        let by_table = BucketOwner::Table(table_id);
        let by_partition = BucketOwner::Partition(partition_id);
        let cases = [
            (database("fluss"), Key::Database("fluss")),
            (table(&path), Key::Table(path.clone())),
            (
                schema(table_id, SchemaId(3)),
                Key::Schema(table_id, SchemaId(3)),
            ),
            (
                partition(table_id, "2025$10"),
                Key::Partition(table_id, "2025$10"),
            ),
            (assignment(by_table), Key::Assignment(by_table)),
            (assignment(by_partition), Key::Assignment(by_partition)),
            (
                bucket(by_table, BucketId(12)),
                Key::Bucket(by_table, BucketId(12)),
            ),
            (
                bucket(by_partition, BucketId(0)),
                Key::Bucket(by_partition, BucketId(0)),
            ),
            (NEXT_TABLE_ID.to_owned(), Key::Other(NEXT_TABLE_ID)),
            ("buckets/x1/2".to_owned(), Key::Other("buckets/x1/2")),
            ("schemas/x".to_owned(), Key::Other("schemas/x")),
        ];
        for (text, key) in &cases {
            assert_eq!(Key::parse(text), *key, "{text}");
        }
    }

    #[test]
    fn keys_of_one_owner_are_never_below_another() {
        let one = buckets(BucketOwner::Table(TableId(1)));
        let ten = bucket(BucketOwner::Table(TableId(10)), BucketId(0));
        assert!(!ten.starts_with(&one));
        assert!(!partition(TableId(10), "a").starts_with(&partitions(TableId(1))));
        assert!(!schema(TableId(10), SchemaId(1)).starts_with(&schemas(TableId(1))));
        assert!(!sequence(TableId(10), 1).starts_with(&sequences(TableId(1))));
        assert!(sequence(TableId(10), 1).starts_with(&sequences(TableId(10))));
    }

    #[test]
    fn keys_are_ordered_as_their_numbers() {
        let owner = BucketOwner::Table(TableId(0));
        assert!(bucket(owner, BucketId(9)) < bucket(owner, BucketId(10)));
        assert!(schema(TableId(9), SchemaId(1)) < schema(TableId(10), SchemaId(1)));
    }
}
