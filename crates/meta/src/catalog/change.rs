//! Changes of the catalog and who is told.

use std::sync::Arc;

use mainstem_types::{PartitionId, TableBucket, TableId};

use super::{PartitionEntry, TableEntry};

/// A change that concerns the servers with replicas.
#[derive(Clone, Debug)]
pub enum CatalogChange {
    /// A new table or partition. The buckets are those of the partition if there
    /// is one, else those of the table (none if it is partitioned).
    BucketsCreated {
        /// The table.
        table: Arc<TableEntry>,
        /// The partition.
        partition: Option<Arc<PartitionEntry>>,
    },
    /// Properties, schema, bucket count or the leadership of a table changed.
    TableAltered {
        /// The table as it is now.
        table: Arc<TableEntry>,
    },
    /// The leadership of a partition changed.
    PartitionAltered {
        /// Its table.
        table: Arc<TableEntry>,
        /// The partition as it is now.
        partition: Arc<PartitionEntry>,
    },
    /// A table is gone, with all its partitions.
    TableDropped {
        /// Its id, which is not used again.
        table_id: TableId,
        /// Its buckets, those of its partitions included.
        buckets: Vec<TableBucket>,
    },
    /// A partition is gone.
    PartitionDropped {
        /// Its table.
        table_id: TableId,
        /// Its id, which is not used again.
        partition_id: PartitionId,
        /// Its buckets.
        buckets: Vec<TableBucket>,
    },
}

/// Is told of changes.
pub trait CatalogListener: Send + Sync {
    /// Called after the store has committed the change and the catalog shows
    /// it, before the operation that made it is answered, and in order: must not
    /// wait for long, and must not change the catalog.
    fn apply(&self, change: &CatalogChange);
}
