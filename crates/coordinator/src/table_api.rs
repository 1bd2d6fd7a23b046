//! Tables: create, drop, look at (tables.md §1.4–1.9, wire.md §4.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_meta::keys::{self, BucketOwner};
use mainstem_meta::records::{Record, TableRecord};
use mainstem_meta::{Catalog, TableEntry, Transaction};
use mainstem_protocol::messages::{
    CreateTableRequest, CreateTableResponse, DropTableRequest, DropTableResponse,
    GetTableInfoRequest, GetTableInfoResponse, GetTableSchemaRequest, GetTableSchemaResponse,
    ListTablesRequest, ListTablesResponse, TableExistsRequest, TableExistsResponse,
};
use mainstem_types::names::check_table_path;
use mainstem_types::validation::new_table;
use mainstem_types::{ErrorCode, SchemaId, TableDescriptor, TableError, TablePath};

use crate::coordinator::forget_buckets;
use crate::database_api::database_missing;
use crate::wire::table_path;
use crate::{ApiError, Coordinator};

/// The first schema of a table.
pub(crate) const FIRST_SCHEMA: SchemaId = SchemaId(1);

impl Coordinator {
    pub(crate) fn create_table(
        &self,
        request: CreateTableRequest,
    ) -> Result<CreateTableResponse, ApiError> {
        let path = table_path(request.table_path);
        check_table_path(&path)?;
        let json = request.table_json.unwrap_or_default();
        let descriptor = TableDescriptor::from_json_bytes(&json).map_err(TableError::from)?;
        let mut change = self.change()?;
        let descriptor = new_table(descriptor, &self.cluster())?;
        if self.catalog.table(&path).is_some() {
            if request.ignore_if_exists == Some(true) {
                return Ok(CreateTableResponse {});
            }
            return Err(ApiError::new(
                ErrorCode::TableAlreadyExist,
                format!("Table {path} already exists."),
            ));
        }
        if self.catalog.database(&path.database).is_none() {
            return Err(database_missing(&path.database));
        }
        let buckets = match descriptor.is_partitioned() {
            true => None,
            false => Some(change.plan_buckets(
                descriptor.bucket_count.unwrap_or_default(),
                descriptor.replication_factor()?.unwrap_or(1),
            )?),
        };
        let now_ms = self.now_ms();
        let table_id = change.next_table_id();
        let record = TableRecord {
            table_id: table_id.0,
            comment: descriptor.comment,
            partition_key: descriptor.partition_keys,
            bucket_key: descriptor.bucket_keys,
            bucket_count: descriptor.bucket_count.unwrap_or_default(),
            properties: descriptor.properties,
            custom_properties: descriptor.custom_properties,
            remote_data_dir: self.config.remote_data_dir.clone(),
            bucket_count_epoch: 0,
            created_time: now_ms,
            modified_time: now_ms,
        };
        let schema = Arc::new(descriptor.schema);
        let key = keys::table(&path);
        let mut transaction = Transaction::new()
            .require_absent(&key)
            .put(&key, record.encode())
            .put(keys::schema(table_id, FIRST_SCHEMA), schema.to_json_bytes());
        if let Some(buckets) = &buckets {
            transaction = buckets.store(BucketOwner::Table(table_id), transaction);
        }
        transaction = change.use_table_id(transaction);
        let schemas = BTreeMap::from([(FIRST_SCHEMA, schema)]);
        let states = buckets.map(|buckets| buckets.states).unwrap_or_default();
        let table = Arc::new(TableEntry::new(path, record, schemas, states));
        let first = change.plan_first_partitions(&table, now_ms);
        transaction = first.store(&change, transaction);
        change.commit(transaction)?;
        change.ids_used(1, first.next_id());
        self.catalog.put_table(table);
        first.show(&self.catalog);
        Ok(CreateTableResponse {})
    }

    pub(crate) fn drop_table(
        &self,
        request: DropTableRequest,
    ) -> Result<DropTableResponse, ApiError> {
        let path = table_path(request.table_path);
        let mut change = self.change()?;
        let Some(table) = self.catalog.table(&path) else {
            if request.ignore_if_not_exists == Some(true) {
                return Ok(DropTableResponse {});
            }
            return Err(ApiError::new(
                ErrorCode::TableNotExist,
                format!("Table {path} does not exist."),
            ));
        };
        change.commit(forget_table(&self.catalog, &table, Transaction::new()))?;
        self.catalog.remove_table(&path);
        Ok(DropTableResponse {})
    }

    pub(crate) fn get_table_info(
        &self,
        request: GetTableInfoRequest,
    ) -> Result<GetTableInfoResponse, ApiError> {
        let table = self.table(&table_path(request.table_path))?;
        Ok(GetTableInfoResponse {
            table_id: Some(table.table_id.0),
            schema_id: Some(table.schema_id.0),
            table_json: Some(table.table_json.clone()),
            created_time: Some(table.created_ms),
            modified_time: Some(table.modified_ms),
            remote_data_dir: table.remote_data_dir.clone(),
            bucket_count_epoch: Some(table.bucket_count_epoch),
        })
    }

    pub(crate) fn list_tables(
        &self,
        request: ListTablesRequest,
    ) -> Result<ListTablesResponse, ApiError> {
        let name = request.database_name.unwrap_or_default();
        let tables = self
            .catalog
            .tables_in(&name)
            .ok_or_else(|| database_missing(&name))?;
        let table_name = tables
            .iter()
            .map(|table| table.path.table.clone())
            .collect();
        Ok(ListTablesResponse { table_name })
    }

    pub(crate) fn table_exists(
        &self,
        request: TableExistsRequest,
    ) -> Result<TableExistsResponse, ApiError> {
        let path = table_path(request.table_path);
        Ok(TableExistsResponse {
            exists: Some(self.catalog.table(&path).is_some()),
        })
    }

    pub(crate) fn get_table_schema(
        &self,
        request: GetTableSchemaRequest,
    ) -> Result<GetTableSchemaResponse, ApiError> {
        let path = table_path(request.table_path);
        let table = self.catalog.table(&path);
        let found = table.as_ref().and_then(|table| {
            let id = request.schema_id.map_or(table.schema_id, SchemaId);
            Some((id, table.schemas.get(&id)?))
        });
        let Some((id, schema)) = found else {
            let id = request.schema_id.unwrap_or(FIRST_SCHEMA.0);
            return Err(ApiError::new(
                ErrorCode::SchemaNotExist,
                format!("Schema for table {path} with schema id {id} does not exist."),
            ));
        };
        Ok(GetTableSchemaResponse {
            schema_id: Some(id.0),
            schema_json: Some(schema.to_json_bytes().into()),
        })
    }

    /// A table, or error 7.
    pub(crate) fn table(&self, path: &TablePath) -> Result<Arc<TableEntry>, ApiError> {
        self.catalog.table(path).ok_or_else(|| table_missing(path))
    }
}

pub(crate) fn table_missing(path: &TablePath) -> ApiError {
    ApiError::new(
        ErrorCode::TableNotExist,
        format!("Table '{path}' does not exist."),
    )
}

/// Adds what removes a table, with its partitions, to a transaction.
pub(crate) fn forget_table(
    catalog: &Catalog,
    table: &TableEntry,
    transaction: Transaction,
) -> Transaction {
    let id = table.table_id;
    let mut transaction = transaction
        .delete(keys::table(&table.path))
        .delete_prefix(keys::schemas(id))
        .delete_prefix(keys::sequences(id))
        .delete_prefix(keys::partitions(id));
    transaction = forget_buckets(BucketOwner::Table(id), transaction);
    for partition in catalog.partitions_of(id) {
        transaction = forget_buckets(BucketOwner::Partition(partition.partition_id), transaction);
    }
    transaction
}
