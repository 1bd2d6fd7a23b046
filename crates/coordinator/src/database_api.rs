//! Databases (tables.md §1.3, wire.md §4.4).

use std::sync::Arc;

use mainstem_meta::keys;
use mainstem_meta::records::{DatabaseRecord, Record};
use mainstem_meta::{DatabaseEntry, Transaction};
use mainstem_protocol::messages::{
    AlterDatabaseRequest, AlterDatabaseResponse, CreateDatabaseRequest, CreateDatabaseResponse,
    DatabaseExistsRequest, DatabaseExistsResponse, DropDatabaseRequest, DropDatabaseResponse,
    GetDatabaseInfoRequest, GetDatabaseInfoResponse, ListDatabasesRequest, ListDatabasesResponse,
    PbDatabaseSummary,
};
use mainstem_types::ErrorCode;
use mainstem_types::descriptor::DatabaseDescriptor;
use mainstem_types::names::check_database_name;

use crate::coordinator::DEFAULT_DATABASE;
use crate::table_api::forget_table;
use crate::wire::{PropertyChanges, database_descriptor, refused};
use crate::{ApiError, Coordinator};

impl Coordinator {
    pub(crate) fn create_database(
        &self,
        request: CreateDatabaseRequest,
    ) -> Result<CreateDatabaseResponse, ApiError> {
        let name = request.database_name.unwrap_or_default();
        check_database_name(&name)?;
        let descriptor = match &request.database_json {
            Some(json) => DatabaseDescriptor::from_json_bytes(json).map_err(|error| {
                ApiError::new(
                    ErrorCode::InvalidDatabase,
                    format!("Database {name}: {error}"),
                )
            })?,
            None => DatabaseDescriptor::default(),
        };
        let mut change = self.change()?;
        if self.catalog.database(&name).is_some() {
            if request.ignore_if_exists == Some(true) {
                return Ok(CreateDatabaseResponse {});
            }
            return Err(ApiError::new(
                ErrorCode::DatabaseAlreadyExist,
                format!("Database {name} already exists."),
            ));
        }
        let now_ms = self.now_ms();
        let record = DatabaseRecord {
            comment: descriptor.comment,
            custom_properties: descriptor.custom_properties,
            created_time: now_ms,
            modified_time: now_ms,
        };
        let key = keys::database(&name);
        change.commit(
            Transaction::new()
                .require_absent(&key)
                .put(&key, record.encode()),
        )?;
        self.catalog
            .put_database(Arc::new(DatabaseEntry { name, record }));
        Ok(CreateDatabaseResponse {})
    }

    pub(crate) fn alter_database(
        &self,
        request: AlterDatabaseRequest,
    ) -> Result<AlterDatabaseResponse, ApiError> {
        let name = request.database_name.unwrap_or_default();
        let changes = PropertyChanges::of(request.config_changes)?;
        let mut change = self.change()?;
        let Some(entry) = self.catalog.database(&name) else {
            if request.ignore_if_not_exists == Some(true) {
                return Ok(AlterDatabaseResponse {});
            }
            return Err(ApiError::new(
                ErrorCode::DatabaseNotExist,
                format!("Database {name} not exists."),
            ));
        };
        let descriptor = database_descriptor(&entry);
        let comment = request.comment.as_deref();
        if let Some(altered) = descriptor.altered(&changes.sets, &changes.deletes, comment) {
            let record = DatabaseRecord {
                comment: altered.comment,
                custom_properties: altered.custom_properties,
                created_time: entry.record.created_time,
                modified_time: self.now_ms(),
            };
            change.commit(Transaction::new().put(keys::database(&name), record.encode()))?;
            self.catalog
                .put_database(Arc::new(DatabaseEntry { name, record }));
        }
        Ok(AlterDatabaseResponse {})
    }

    pub(crate) fn drop_database(
        &self,
        request: DropDatabaseRequest,
    ) -> Result<DropDatabaseResponse, ApiError> {
        let name = request.database_name.unwrap_or_default();
        if name == DEFAULT_DATABASE {
            return Err(refused(format!(
                "Cannot drop the default database {DEFAULT_DATABASE}."
            )));
        }
        let mut change = self.change()?;
        let Some(tables) = self.catalog.tables_in(&name) else {
            if request.ignore_if_not_exists == Some(true) {
                return Ok(DropDatabaseResponse {});
            }
            return Err(database_missing(&name));
        };
        if !tables.is_empty() && request.cascade != Some(true) {
            return Err(ApiError::new(
                ErrorCode::DatabaseNotEmpty,
                format!("Database {name} is not empty."),
            ));
        }
        let mut transaction = Transaction::new().delete(keys::database(&name));
        for table in &tables {
            transaction = forget_table(&self.catalog, table, transaction);
        }
        change.commit(transaction)?;
        self.catalog.remove_database(&name);
        Ok(DropDatabaseResponse {})
    }

    pub(crate) fn list_databases(
        &self,
        request: ListDatabasesRequest,
    ) -> Result<ListDatabasesResponse, ApiError> {
        let databases = self.catalog.databases();
        let mut answer = ListDatabasesResponse::default();
        if request.include_summary == Some(true) {
            answer.database_summary = databases
                .into_iter()
                .map(|(database, tables)| PbDatabaseSummary {
                    database_name: Some(database.name.clone()),
                    created_time: Some(database.record.created_time),
                    table_count: Some(i32::try_from(tables).unwrap_or(i32::MAX)),
                })
                .collect();
        } else {
            answer.database_name = databases
                .into_iter()
                .map(|(database, _)| database.name.clone())
                .collect();
        }
        Ok(answer)
    }

    pub(crate) fn database_exists(
        &self,
        request: DatabaseExistsRequest,
    ) -> Result<DatabaseExistsResponse, ApiError> {
        let name = request.database_name.unwrap_or_default();
        Ok(DatabaseExistsResponse {
            exists: Some(self.catalog.database(&name).is_some()),
        })
    }

    pub(crate) fn get_database_info(
        &self,
        request: GetDatabaseInfoRequest,
    ) -> Result<GetDatabaseInfoResponse, ApiError> {
        let name = request.database_name.unwrap_or_default();
        let Some(entry) = self.catalog.database(&name) else {
            return Err(ApiError::new(
                ErrorCode::DatabaseNotExist,
                format!("Database '{name}' does not exist."),
            ));
        };
        Ok(GetDatabaseInfoResponse {
            database_json: Some(database_descriptor(&entry).to_json_bytes().into()),
            created_time: Some(entry.record.created_time),
            modified_time: Some(entry.record.modified_time),
        })
    }
}

pub(crate) fn database_missing(name: &str) -> ApiError {
    ApiError::new(
        ErrorCode::DatabaseNotExist,
        format!("Database {name} does not exist."),
    )
}
