//! Partitions that one transaction creates.

use std::sync::Arc;

use mainstem_meta::keys::{self, BucketOwner};
use mainstem_meta::records::{PartitionRecord, Record};
use mainstem_meta::{Catalog, PartitionEntry, TableEntry, Transaction};
use mainstem_types::partition::check_partition_count;
use mainstem_types::{ErrorCode, PartitionId};

use crate::ApiError;
use crate::coordinator::{Change, NewBuckets};

/// Planned partitions: first planned, then stored, then shown.
pub(crate) struct NewPartitions {
    next_id: PartitionId,
    planned: Vec<(Arc<PartitionEntry>, PartitionRecord, NewBuckets)>,
}

impl NewPartitions {
    pub(crate) fn new(change: &Change<'_>) -> Self {
        Self {
            next_id: change.next_partition_id(),
            planned: Vec::new(),
        }
    }

    /// Adds a partition of a table.
    pub(crate) fn plan(
        &mut self,
        change: &Change<'_>,
        table: &TableEntry,
        name: String,
    ) -> Result<(), ApiError> {
        let coordinator = change.coordinator;
        let most = usize::try_from(coordinator.config.max_partition_num).unwrap_or(0);
        let count = coordinator.catalog.partition_count(table.table_id) + self.planned.len();
        check_partition_count(count, most, &table.path)?;
        // The limit may have been lowered since the table was created.
        let (buckets, most) = (table.bucket_count(), coordinator.config.max_bucket_num);
        if buckets > most {
            return Err(ApiError::new(
                ErrorCode::BucketMaxNum,
                format!(
                    "Bucket count {buckets} exceeds the maximum limit {most} for a non-partitioned \
                     table or partition."
                ),
            ));
        }
        let factor = table.descriptor.replication_factor()?.unwrap_or(1);
        let buckets = change.plan_buckets(buckets, factor)?;
        let record = PartitionRecord {
            partition_id: self.next_id.0,
            table_id: table.table_id.0,
            bucket_count: table.bucket_count(),
            remote_data_dir: coordinator.config.remote_data_dir.clone(),
            created_time: coordinator.now_ms(),
        };
        let entry = PartitionEntry::new(name, record.clone(), buckets.states.clone());
        self.next_id = PartitionId(self.next_id.0 + 1);
        self.planned.push((Arc::new(entry), record, buckets));
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Buckets of all of them.
    pub(crate) fn bucket_count(&self) -> usize {
        self.planned
            .iter()
            .map(|(entry, ..)| entry.buckets.len())
            .sum()
    }

    /// Adds what stores them to a transaction.
    pub(crate) fn store(&self, change: &Change<'_>, transaction: Transaction) -> Transaction {
        let mut transaction = transaction;
        for (entry, record, buckets) in &self.planned {
            let key = keys::partition(entry.table_id, &entry.name);
            transaction = transaction.require_absent(&key).put(&key, record.encode());
            transaction = buckets.store(BucketOwner::Partition(entry.partition_id), transaction);
        }
        if self.planned.is_empty() {
            return transaction;
        }
        change.use_partition_ids(transaction, self.next_id)
    }

    /// The first partition id that is not used by them.
    pub(crate) fn next_id(&self) -> PartitionId {
        self.next_id
    }

    /// Shows them in the catalog, once they are stored.
    pub(crate) fn show(self, catalog: &Catalog) {
        for (entry, ..) in self.planned {
            catalog.put_partition(entry);
        }
    }
}
