//! Changes of tables (tables.md §1.9, §2.3, wire.md §6.14).

use std::sync::Arc;

use mainstem_meta::records::{Record, TableRecord};
use mainstem_meta::{TableEntry, Transaction, keys};
use mainstem_protocol::messages::{
    AlterTableRequest, AlterTableResponse, PbAddColumn, PbAlterConfig,
};
use mainstem_types::names::check_table_path;
use mainstem_types::schema::NewColumn;
use mainstem_types::validation::{
    ColumnChange, alter_bucket_count, alter_columns, alter_properties, check_column_position,
};
use mainstem_types::{AggFunction, DataType, ErrorCode, SchemaId, TableDescriptor};

use crate::coordinator::Change;
use crate::table_api::table_missing;
use crate::wire::{PropertyChanges, refused, table_path};
use crate::{ApiError, Coordinator};

/// What one request changes: exactly one kind.
enum Alteration {
    Nothing,
    Properties(Vec<PbAlterConfig>),
    Columns(Vec<ColumnChange>),
    BucketCount(i32),
}

impl Coordinator {
    pub(crate) fn alter_table(
        &self,
        request: AlterTableRequest,
    ) -> Result<AlterTableResponse, ApiError> {
        let path = table_path(request.table_path.clone());
        check_table_path(&path)?;
        let ignore_missing = request.ignore_if_not_exists == Some(true);
        let alteration = Alteration::of(request)?;
        if matches!(alteration, Alteration::Nothing) {
            return Ok(AlterTableResponse {});
        }
        let mut change = self.change()?;
        let Some(table) = self.catalog.table(&path) else {
            if ignore_missing {
                return Ok(AlterTableResponse {});
            }
            return Err(table_missing(&path));
        };
        match alteration {
            Alteration::Nothing => {}
            Alteration::Properties(entries) => change.alter_properties(&table, entries)?,
            Alteration::Columns(changes) => change.alter_columns(&table, &changes)?,
            Alteration::BucketCount(count) => change.alter_bucket_count(&table, count)?,
        }
        Ok(AlterTableResponse {})
    }
}

impl Alteration {
    fn of(request: AlterTableRequest) -> Result<Self, ApiError> {
        let properties = !request.config_changes.is_empty();
        let columns = !request.add_columns.is_empty()
            || !request.drop_columns.is_empty()
            || !request.rename_columns.is_empty()
            || !request.modify_columns.is_empty();
        let distribution = request.modify_bucket_count.is_some();
        if u8::from(properties) + u8::from(columns) + u8::from(distribution) > 1 {
            return Err(ApiError::new(
                ErrorCode::InvalidAlterTable,
                "Table properties, schema and distribution cannot be altered by one request.",
            ));
        }
        if properties {
            return Ok(Self::Properties(request.config_changes));
        }
        if let Some(change) = request.modify_bucket_count {
            return Ok(Self::BucketCount(
                change.new_bucket_count.unwrap_or_default(),
            ));
        }
        if !columns {
            return Ok(Self::Nothing);
        }
        let mut changes = Vec::new();
        for column in request.add_columns {
            changes.push(ColumnChange::Add(new_column(column)?));
        }
        for column in request.drop_columns {
            changes.push(ColumnChange::Drop(column.column_name.unwrap_or_default()));
        }
        for column in request.rename_columns {
            changes.push(ColumnChange::Rename(
                column.old_column_name.unwrap_or_default(),
            ));
        }
        for column in request.modify_columns {
            changes.push(ColumnChange::Modify(column.column_name.unwrap_or_default()));
        }
        Ok(Self::Columns(changes))
    }
}

fn new_column(column: PbAddColumn) -> Result<NewColumn, ApiError> {
    let name = column.column_name.unwrap_or_default();
    check_column_position(column.column_position_type.unwrap_or_default())?;
    let json = column.data_type_json.unwrap_or_default();
    let data_type = DataType::from_json_bytes(&json)
        .map_err(|error| refused(format!("The type of column {name} is invalid: {error}")))?;
    let agg_function = column.agg_function_type.map(|function| {
        let parameters = column.agg_function_params.into_iter();
        parameters.fold(AggFunction::new(&function), |function, parameter| {
            function.with_parameter(
                parameter.key.unwrap_or_default(),
                parameter.value.unwrap_or_default(),
            )
        })
    });
    Ok(NewColumn {
        name,
        data_type,
        comment: column.comment,
        agg_function,
    })
}

impl Change<'_> {
    fn alter_properties(
        &mut self,
        table: &Arc<TableEntry>,
        entries: Vec<PbAlterConfig>,
    ) -> Result<(), ApiError> {
        let changes = PropertyChanges::of(entries)?;
        let cluster = self.coordinator.cluster();
        let altered =
            alter_properties(&table.descriptor, &changes.sets, &changes.deletes, &cluster)?;
        let Some(altered) = altered else {
            return Ok(());
        };
        let record = TableRecord {
            properties: altered.properties,
            custom_properties: altered.custom_properties,
            modified_time: self.coordinator.now_ms(),
            ..table.record()
        };
        self.store_record(table, record)?;
        self.auto_partition_now(&table.path);
        Ok(())
    }

    fn alter_bucket_count(&mut self, table: &Arc<TableEntry>, count: i32) -> Result<(), ApiError> {
        let cluster = self.coordinator.cluster();
        let Some(altered) = alter_bucket_count(&table.descriptor, count, &cluster)? else {
            return Ok(());
        };
        let record = TableRecord {
            bucket_count: altered.bucket_count.unwrap_or(count),
            bucket_count_epoch: table.bucket_count_epoch + 1,
            modified_time: self.coordinator.now_ms(),
            ..table.record()
        };
        self.store_record(table, record)
    }

    fn store_record(&mut self, table: &TableEntry, record: TableRecord) -> Result<(), ApiError> {
        let altered = Arc::new(table.with_record(record.clone()));
        self.commit(Transaction::new().put(keys::table(&table.path), record.encode()))?;
        self.coordinator.catalog.put_table(altered);
        Ok(())
    }

    fn alter_columns(
        &mut self,
        table: &Arc<TableEntry>,
        changes: &[ColumnChange],
    ) -> Result<(), ApiError> {
        let Some(TableDescriptor { schema, .. }) = alter_columns(&table.descriptor, changes)?
        else {
            return Ok(());
        };
        // 16 bits carry it in every batch.
        let id = SchemaId(table.schema_id.0 + 1);
        if id.0 > i32::from(i16::MAX) {
            return Err(ApiError::new(
                ErrorCode::InvalidAlterTable,
                format!(
                    "Table {} has had {} schemas, more are not possible.",
                    table.path,
                    i16::MAX
                ),
            ));
        }
        let record = TableRecord {
            modified_time: self.coordinator.now_ms(),
            ..table.record()
        };
        let schema = Arc::new(schema);
        let mut schemas = table.schemas.clone();
        schemas.insert(id, Arc::clone(&schema));
        let altered = TableEntry::new(
            table.path.clone(),
            record.clone(),
            schemas,
            table.buckets.clone(),
        );
        let key = keys::schema(table.table_id, id);
        self.commit(
            Transaction::new()
                .require_absent(&key)
                .put(&key, schema.to_json_bytes())
                .put(keys::table(&table.path), record.encode()),
        )?;
        self.coordinator.catalog.put_table(Arc::new(altered));
        Ok(())
    }
}
