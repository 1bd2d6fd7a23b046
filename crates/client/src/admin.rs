//! Administration: databases, tables, partitions, offsets, health.

use mainstem_protocol::{ApiKey, messages as pb};
use mainstem_types::{PartitionId, ServerId, TableDescriptor, TablePath};

use crate::cluster::{Client, TableInfo, path_to_proto};
use crate::error::{ClientError, Result};

/// A feature that the table does not have, here a count of its rows (wire.md
/// §4.11).
const ROWS_NOT_COUNTED: i32 = 15;

/// A partition of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Id.
    pub partition_id: PartitionId,
    /// Values joined with `$`, in the order of the partition keys.
    pub name: String,
}

/// What a bucket position is asked for (wire.md §4.9, ListOffsets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// First record kept.
    Earliest,
    /// End of the committed records.
    Latest,
    /// First record committed at this epoch millisecond or later.
    Timestamp(i64),
}

/// A change of a table's options; columns are added separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionChange {
    /// Set a key.
    Set(String, String),
    /// Reset a key to its default.
    Reset(String),
}

/// Health of the cluster's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Assigned replicas.
    pub replicas: i32,
    /// Those in sync.
    pub in_sync: i32,
    /// Buckets.
    pub buckets: i32,
    /// Buckets with an active leader.
    pub active_leaders: i32,
    /// 0 green, 1 yellow, 2 red, 3 unknown.
    pub status: i32,
}

impl Client {
    /// Creates a database.
    pub async fn create_database(&self, name: &str, ignore_if_exists: bool) -> Result<()> {
        let request = pb::CreateDatabaseRequest {
            database_name: Some(name.to_owned()),
            ignore_if_exists: Some(ignore_if_exists),
            database_json: None,
        };
        let _: pb::CreateDatabaseResponse = self
            .call_coordinator(ApiKey::CreateDatabase, &request)
            .await?;
        Ok(())
    }

    /// Drops a database, with `cascade` also a full one.
    pub async fn drop_database(&self, name: &str, ignore: bool, cascade: bool) -> Result<()> {
        let request = pb::DropDatabaseRequest {
            database_name: Some(name.to_owned()),
            ignore_if_not_exists: Some(ignore),
            cascade: Some(cascade),
        };
        let _: pb::DropDatabaseResponse = self
            .call_coordinator(ApiKey::DropDatabase, &request)
            .await?;
        Ok(())
    }

    /// Names of the databases.
    pub async fn databases(&self) -> Result<Vec<String>> {
        let request = pb::ListDatabasesRequest::default();
        let answer: pb::ListDatabasesResponse = self
            .call_coordinator(ApiKey::ListDatabases, &request)
            .await?;
        Ok(answer.database_name)
    }

    /// Names of the tables of a database.
    pub async fn tables(&self, database: &str) -> Result<Vec<String>> {
        let request = pb::ListTablesRequest {
            database_name: Some(database.to_owned()),
        };
        let answer: pb::ListTablesResponse =
            self.call_coordinator(ApiKey::ListTables, &request).await?;
        Ok(answer.table_name)
    }

    /// Creates a table.
    pub async fn create_table(
        &self,
        path: &TablePath,
        descriptor: &TableDescriptor,
        ignore_if_exists: bool,
    ) -> Result<()> {
        let request = pb::CreateTableRequest {
            table_path: Some(path_to_proto(path)),
            table_json: Some(descriptor.to_json_bytes().into()),
            ignore_if_exists: Some(ignore_if_exists),
        };
        let _: pb::CreateTableResponse =
            self.call_coordinator(ApiKey::CreateTable, &request).await?;
        Ok(())
    }

    /// Drops a table.
    pub async fn drop_table(&self, path: &TablePath, ignore_if_not_exists: bool) -> Result<()> {
        let request = pb::DropTableRequest {
            table_path: Some(path_to_proto(path)),
            ignore_if_not_exists: Some(ignore_if_not_exists),
        };
        let _: pb::DropTableResponse = self.call_coordinator(ApiKey::DropTable, &request).await?;
        Ok(())
    }

    /// Changes options of a table.
    pub async fn alter_options(&self, path: &TablePath, changes: &[OptionChange]) -> Result<()> {
        let config_changes = changes
            .iter()
            .map(|change| match change {
                OptionChange::Set(key, value) => pb::PbAlterConfig {
                    config_key: Some(key.clone()),
                    config_value: Some(value.clone()),
                    op_type: Some(0),
                },
                OptionChange::Reset(key) => pb::PbAlterConfig {
                    config_key: Some(key.clone()),
                    config_value: None,
                    op_type: Some(1),
                },
            })
            .collect();
        let request = pb::AlterTableRequest {
            table_path: Some(path_to_proto(path)),
            ignore_if_not_exists: Some(false),
            config_changes,
            ..pb::AlterTableRequest::default()
        };
        let _: pb::AlterTableResponse = self.call_coordinator(ApiKey::AlterTable, &request).await?;
        Ok(())
    }

    /// Adds nullable columns at the end: name and type document of each
    /// (formats.md §8.1).
    pub async fn add_columns(&self, path: &TablePath, columns: &[(String, String)]) -> Result<()> {
        let add_columns = columns
            .iter()
            .map(|(name, type_json)| pb::PbAddColumn {
                column_name: Some(name.clone()),
                data_type_json: Some(type_json.clone().into()),
                comment: None,
                column_position_type: Some(0),
                ..pb::PbAddColumn::default()
            })
            .collect();
        let request = pb::AlterTableRequest {
            table_path: Some(path_to_proto(path)),
            ignore_if_not_exists: Some(false),
            add_columns,
            ..pb::AlterTableRequest::default()
        };
        let _: pb::AlterTableResponse = self.call_coordinator(ApiKey::AlterTable, &request).await?;
        Ok(())
    }

    /// Creates a partition from the values of its keys; an existing one is fine.
    pub async fn create_partition(
        &self,
        path: &TablePath,
        spec: &[(String, String)],
    ) -> Result<()> {
        let request = pb::CreatePartitionRequest {
            table_path: Some(path_to_proto(path)),
            partition_spec: Some(spec_to_proto(spec)),
            ignore_if_not_exists: Some(true),
        };
        let _: pb::CreatePartitionResponse = self
            .call_coordinator(ApiKey::CreatePartition, &request)
            .await?;
        Ok(())
    }

    /// Partitions of a table.
    pub async fn partitions(&self, table: &TableInfo) -> Result<Vec<Partition>> {
        let request = pb::ListPartitionInfosRequest {
            table_path: Some(path_to_proto(&table.path)),
            partial_partition_spec: None,
            include_system_partitions: None,
        };
        let answer: pb::ListPartitionInfosResponse = self
            .call_coordinator(ApiKey::ListPartitionInfos, &request)
            .await?;
        answer
            .partitions_info
            .iter()
            .map(|info| partition_of(table, info))
            .collect()
    }

    /// One offset per bucket, in the order of `buckets`. All of them are led by
    /// `leader`.
    pub async fn list_offsets(
        &self,
        table: &TableInfo,
        partition_id: Option<PartitionId>,
        leader: ServerId,
        buckets: &[i32],
        spec: OffsetSpec,
    ) -> Result<Vec<i64>> {
        let (offset_type, start_timestamp) = match spec {
            OffsetSpec::Earliest => (0, None),
            OffsetSpec::Latest => (1, None),
            OffsetSpec::Timestamp(timestamp_ms) => (2, Some(timestamp_ms)),
        };
        let request = pb::ListOffsetsRequest {
            follower_server_id: Some(-1),
            offset_type: Some(offset_type),
            table_id: Some(table.table_id.0),
            partition_id: partition_id.map(|id| id.0),
            bucket_id: buckets.to_vec(),
            start_timestamp,
            routing_bucket_count: None,
        };
        let connection = self.tablet(leader).await?;
        let answer: pb::ListOffsetsResponse =
            connection.call(ApiKey::ListOffsets, 0, &request).await?;
        buckets
            .iter()
            .map(|bucket| {
                let entry = answer
                    .buckets_resp
                    .iter()
                    .find(|e| e.bucket_id == Some(*bucket));
                let entry = entry.ok_or_else(|| ClientError::absent("buckets_resp"))?;
                if let Some(code) = entry.error_code {
                    let message = entry.error_message.clone().unwrap_or_default();
                    return Err(ClientError::Api { code, message });
                }
                entry.offset.ok_or_else(|| ClientError::absent("offset"))
            })
            .collect()
    }

    /// Rows of each bucket, in the order of `buckets`: those of a log, or the
    /// keys of a primary-key table; `None` where they are not counted. All of
    /// the buckets are led by `leader`.
    pub async fn row_counts(
        &self,
        table: &TableInfo,
        partition_id: Option<PartitionId>,
        leader: ServerId,
        buckets: &[i32],
    ) -> Result<Vec<Option<i64>>> {
        let buckets_req = buckets.iter().map(|bucket| pb::PbTableStatsReqForBucket {
            partition_id: partition_id.map(|id| id.0),
            bucket_id: Some(*bucket),
            routing_bucket_count: None,
        });
        let request = pb::GetTableStatsRequest {
            table_id: Some(table.table_id.0),
            buckets_req: buckets_req.collect(),
            target_columns: Vec::new(),
        };
        let connection = self.tablet(leader).await?;
        let answer: pb::GetTableStatsResponse =
            connection.call(ApiKey::GetTableStats, 0, &request).await?;
        buckets
            .iter()
            .map(|bucket| {
                let entries = &mut answer.buckets_resp.iter();
                let entry = entries.find(|e| e.bucket_id == Some(*bucket));
                let entry = entry.ok_or_else(|| ClientError::absent("buckets_resp"))?;
                match entry.error_code {
                    None => Ok(entry.row_count),
                    Some(ROWS_NOT_COUNTED) => Ok(None),
                    Some(code) => Err(ClientError::Api {
                        code,
                        message: entry.error_message.clone().unwrap_or_default(),
                    }),
                }
            })
            .collect()
    }

    /// Health of the cluster.
    pub async fn health(&self) -> Result<Health> {
        let request = pb::GetClusterHealthRequest::default();
        let answer: pb::GetClusterHealthResponse = self
            .call_coordinator(ApiKey::GetClusterHealth, &request)
            .await?;
        Ok(Health {
            replicas: answer.num_replicas.unwrap_or_default(),
            in_sync: answer.in_sync_replicas.unwrap_or_default(),
            buckets: answer.num_leader_replicas.unwrap_or_default(),
            active_leaders: answer.active_leader_replicas.unwrap_or_default(),
            status: answer.status.unwrap_or(3),
        })
    }
}

fn spec_to_proto(spec: &[(String, String)]) -> pb::PbPartitionSpec {
    pb::PbPartitionSpec {
        partition_key_values: spec
            .iter()
            .map(|(key, value)| pb::PbKeyValue {
                key: Some(key.clone()),
                value: Some(value.clone()),
            })
            .collect(),
    }
}

fn partition_of(table: &TableInfo, info: &pb::PbPartitionInfo) -> Result<Partition> {
    let spec = info
        .partition_spec
        .clone()
        .unwrap_or_default()
        .partition_key_values;
    let mut values = Vec::new();
    for key in &table.descriptor.partition_keys {
        let pair = spec.iter().find(|pair| pair.key.as_deref() == Some(key));
        let value = pair.and_then(|pair| pair.value.clone());
        values.push(value.ok_or_else(|| ClientError::absent("partition value"))?);
    }
    Ok(Partition {
        partition_id: PartitionId(info.partition_id.unwrap_or_default()),
        name: values.join("$"),
    })
}
