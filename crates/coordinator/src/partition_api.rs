//! Partitions (tables.md §5, wire.md §4.7).

use std::sync::Arc;

use mainstem_meta::keys::BucketOwner;
use mainstem_meta::{PartitionEntry, TableEntry, Transaction, keys};
use mainstem_protocol::messages::{
    CreatePartitionRequest, CreatePartitionResponse, DropPartitionRequest, DropPartitionResponse,
    ListPartitionInfosRequest, ListPartitionInfosResponse, PbKeyValue, PbPartitionInfo,
    PbPartitionSpec,
};
use mainstem_types::partition::{HISTORICAL_PARTITION, Partition, PartitionSpec, values_of_name};
use mainstem_types::{ErrorCode, TablePath};

use crate::auto_partition::check_time;
use crate::coordinator::{Change, forget_buckets};
use crate::new_partitions::NewPartitions;
use crate::wire::table_path;
use crate::{ApiError, Coordinator};

impl Coordinator {
    pub(crate) fn create_partition(
        &self,
        request: CreatePartitionRequest,
    ) -> Result<CreatePartitionResponse, ApiError> {
        let path = table_path(request.table_path);
        let mut change = self.change()?;
        let table =
            self.partitioned_table(&path, "Only partitioned table support create partition.")?;
        let partition = resolve(&table, request.partition_spec)?;
        partition.check_values(true)?;
        check_time(&table, &partition, self.now_ms())?;
        let name = partition.name();
        if self.catalog.partition(&path, &name).is_some() {
            if request.ignore_if_not_exists == Some(true) {
                return Ok(CreatePartitionResponse {});
            }
            return Err(partition.already_exists(&path).into());
        }
        change.create_partition(&table, name)?;
        Ok(CreatePartitionResponse {})
    }

    pub(crate) fn drop_partition(
        &self,
        request: DropPartitionRequest,
    ) -> Result<DropPartitionResponse, ApiError> {
        let path = table_path(request.table_path);
        let mut change = self.change()?;
        let table =
            self.partitioned_table(&path, "Only partitioned table support drop partition.")?;
        let partition = resolve(&table, request.partition_spec)?;
        partition.check_values(false)?;
        let Some(entry) = self.catalog.partition(&path, &partition.name()) else {
            if request.ignore_if_not_exists == Some(true) {
                return Ok(DropPartitionResponse {});
            }
            return Err(partition.does_not_exist(&path).into());
        };
        change.drop_partitions(&[entry])?;
        Ok(DropPartitionResponse {})
    }

    pub(crate) fn list_partitions(
        &self,
        request: ListPartitionInfosRequest,
    ) -> Result<ListPartitionInfosResponse, ApiError> {
        let path = table_path(request.table_path);
        let missing = format!("Table '{path}' is not a partitioned table.");
        let table = self.partitioned_table(&path, &missing)?;
        let keys = &table.descriptor.partition_keys;
        let filter = partition_spec(request.partial_partition_spec);
        filter.check_filter(keys, &path)?;
        let system = request.include_system_partitions == Some(true);
        let partitions_info = self
            .catalog
            .partitions_of(table.table_id)
            .iter()
            .filter(|partition| system || partition.name != HISTORICAL_PARTITION)
            .filter(|partition| filter.matches(keys, &partition.name))
            .map(|partition| info(&table, partition))
            .collect();
        let system_partitions_included = system.then_some(true);
        Ok(ListPartitionInfosResponse {
            partitions_info,
            system_partitions_included,
        })
    }

    fn partitioned_table(
        &self,
        path: &TablePath,
        not_partitioned: &str,
    ) -> Result<Arc<TableEntry>, ApiError> {
        let table = self.table(path)?;
        if table.is_partitioned() {
            return Ok(table);
        }
        Err(ApiError::new(
            ErrorCode::TableNotPartitioned,
            not_partitioned,
        ))
    }
}

fn info(table: &TableEntry, partition: &PartitionEntry) -> PbPartitionInfo {
    let keys = &table.descriptor.partition_keys;
    let pairs = keys
        .iter()
        .zip(values_of_name(&partition.name))
        .map(|(key, value)| PbKeyValue {
            key: Some(key.clone()),
            value: Some(value.to_owned()),
        });
    PbPartitionInfo {
        partition_id: Some(partition.partition_id.0),
        partition_spec: Some(PbPartitionSpec {
            partition_key_values: pairs.collect(),
        }),
        remote_data_dir: partition.remote_data_dir.clone(),
        bucket_count: Some(partition.bucket_count),
    }
}

fn partition_spec(spec: Option<PbPartitionSpec>) -> PartitionSpec {
    let pairs = spec.unwrap_or_default().partition_key_values.into_iter();
    PartitionSpec::new(
        pairs.map(|pair| (pair.key.unwrap_or_default(), pair.value.unwrap_or_default())),
    )
}

fn resolve(table: &TableEntry, spec: Option<PbPartitionSpec>) -> Result<Partition, ApiError> {
    Ok(partition_spec(spec).resolve(&table.descriptor.partition_keys, &table.path)?)
}

impl Change<'_> {
    fn create_partition(&mut self, table: &TableEntry, name: String) -> Result<(), ApiError> {
        let mut new = NewPartitions::new(self);
        new.plan(self, table, name)?;
        let transaction = new.store(self, Transaction::new());
        self.commit(transaction)?;
        self.ids_used(0, new.next_id());
        new.show(&self.coordinator.catalog);
        Ok(())
    }

    /// Removes partitions of one table.
    pub(crate) fn drop_partitions(
        &mut self,
        partitions: &[Arc<PartitionEntry>],
    ) -> Result<(), ApiError> {
        let mut transaction = Transaction::new();
        for partition in partitions {
            transaction = forget_partition(partition, transaction);
        }
        self.commit(transaction)?;
        for partition in partitions {
            self.coordinator
                .catalog
                .remove_partition(partition.partition_id);
        }
        Ok(())
    }
}

/// Adds what removes a partition to a transaction.
fn forget_partition(partition: &PartitionEntry, transaction: Transaction) -> Transaction {
    let transaction = transaction.delete(keys::partition(partition.table_id, &partition.name));
    forget_buckets(BucketOwner::Partition(partition.partition_id), transaction)
}
