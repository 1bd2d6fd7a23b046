//! What clients ask about files outside the log, on a server that makes none:
//! no KV snapshots, no remote log, no lake (wire.md §4.9, §4.12, §4.16).
//!
//! The answers are true, and the checks are those of the full server, so that
//! clients see the same errors.

use std::sync::Arc;

use mainstem_meta::{PartitionEntry, TableEntry};
use mainstem_protocol::messages::{
    GetFileSystemSecurityTokenRequest, GetFileSystemSecurityTokenResponse,
    GetKvSnapshotMetadataRequest, GetKvSnapshotMetadataResponse, GetLakeSnapshotRequest,
    GetLakeSnapshotResponse, GetLatestKvSnapshotsRequest, GetLatestKvSnapshotsResponse,
    ListKvSnapshotsRequest, ListKvSnapshotsResponse, ListRemoteLogManifestsRequest,
    ListRemoteLogManifestsResponse, PbKvSnapshot,
};
use mainstem_types::{ErrorCode, PartitionId, TableId};

use crate::wire::{refused, table_path};
use crate::{ApiError, Coordinator};

/// Error 20 for a log table.
pub(crate) fn check_primary_key(table: &TableEntry) -> Result<(), ApiError> {
    if table.has_primary_key() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::NonPrimaryKeyTable,
        format!("Table '{}' is not a primary key table.", table.path),
    ))
}

impl Coordinator {
    pub(crate) fn get_latest_kv_snapshots(
        &self,
        request: GetLatestKvSnapshotsRequest,
    ) -> Result<GetLatestKvSnapshotsResponse, ApiError> {
        let table = self.table(&table_path(request.table_path))?;
        check_primary_key(&table)?;
        let partition = match (table.is_partitioned(), request.partition_name) {
            (false, None) => None,
            (false, Some(_)) => {
                return Err(ApiError::new(
                    ErrorCode::TableNotPartitioned,
                    format!("Table '{}' is not a partitioned table.", table.path),
                ));
            }
            (true, None) => {
                return Err(ApiError::new(
                    ErrorCode::PartitionNotExists,
                    format!(
                        "Table '{}' is partitioned: the partition is missing.",
                        table.path
                    ),
                ));
            }
            (true, Some(name)) => {
                let partition = self.catalog.partition(&table.path, &name);
                Some(partition.ok_or_else(|| {
                    ApiError::new(
                        ErrorCode::PartitionNotExists,
                        format!("Table partition '{}(p={name})' does not exist.", table.path),
                    )
                })?)
            }
        };
        let buckets = partition
            .as_ref()
            .map_or(table.buckets.len(), |entry| entry.buckets.len());
        let latest_snapshots = (0..buckets as i32)
            .map(|bucket| PbKvSnapshot {
                bucket_id: Some(bucket),
                ..PbKvSnapshot::default()
            })
            .collect();
        Ok(GetLatestKvSnapshotsResponse {
            table_id: Some(table.table_id.0),
            partition_id: partition.map(|partition| partition.partition_id.0),
            latest_snapshots,
        })
    }

    /// There is no snapshot, whatever table and bucket are asked for.
    pub(crate) fn get_kv_snapshot_metadata(
        &self,
        request: GetKvSnapshotMetadataRequest,
    ) -> Result<GetKvSnapshotMetadataResponse, ApiError> {
        let table_id = request.table_id.unwrap_or_default();
        let partition = request
            .partition_id
            .map_or(String::new(), |id| format!(" of partition {id}"));
        Err(ApiError::new(
            ErrorCode::KvSnapshotNotExist,
            format!(
                "KV snapshot {} of bucket {}{partition} of the table with id {table_id} does not exist.",
                request.snapshot_id.unwrap_or_default(),
                request.bucket_id.unwrap_or_default(),
            ),
        ))
    }

    pub(crate) fn list_kv_snapshots(
        &self,
        request: ListKvSnapshotsRequest,
    ) -> Result<ListKvSnapshotsResponse, ApiError> {
        self.table_and_partition(request.table_id.unwrap_or_default(), request.partition_id)?;
        Ok(ListKvSnapshotsResponse {
            table_id: request.table_id,
            partition_id: request.partition_id,
            active_snapshots: Vec::new(),
        })
    }

    pub(crate) fn list_remote_log_manifests(
        &self,
        request: ListRemoteLogManifestsRequest,
    ) -> Result<ListRemoteLogManifestsResponse, ApiError> {
        self.table_and_partition(request.table_id.unwrap_or_default(), request.partition_id)?;
        Ok(ListRemoteLogManifestsResponse::default())
    }

    /// To a tool that cleans up, an empty answer means that nothing is in use:
    /// only a table, or a partition of it, that exists gets one.
    fn table_and_partition(
        &self,
        table_id: i64,
        partition_id: Option<i64>,
    ) -> Result<(Arc<TableEntry>, Option<Arc<PartitionEntry>>), ApiError> {
        let table = self.catalog.table_by_id(TableId(table_id)).ok_or_else(|| {
            ApiError::new(
                ErrorCode::TableNotExist,
                format!("Table with id {table_id} does not exist."),
            )
        })?;
        let partition = partition_id
            .and_then(|id| self.catalog.partition_by_id(PartitionId(id)))
            .filter(|partition| partition.table_id == table.table_id);
        if table.is_partitioned() != partition.is_some()
            || partition_id.is_some() != partition.is_some()
        {
            let asked = partition_id.map_or("none".to_owned(), |id| id.to_string());
            return Err(ApiError::new(
                ErrorCode::PartitionNotExists,
                format!("Table '{}' has no such partition: {asked}.", table.path),
            ));
        }
        Ok((table, partition))
    }

    pub(crate) fn get_lake_snapshot(
        &self,
        request: GetLakeSnapshotRequest,
    ) -> Result<GetLakeSnapshotResponse, ApiError> {
        let table = self.table(&table_path(request.table_path))?;
        if request.snapshot_id.is_some() && request.readable == Some(true) {
            return Err(refused(
                "Either a snapshot id or the latest readable snapshot can be asked for, not both.",
            ));
        }
        Err(ApiError::new(
            ErrorCode::LakeSnapshotNotExist,
            format!("Lake snapshot of table '{}' does not exist.", table.path),
        ))
    }

    /// The remote directory is a local one, for which no secret is needed.
    pub(crate) fn get_security_token(
        &self,
        _request: GetFileSystemSecurityTokenRequest,
    ) -> Result<GetFileSystemSecurityTokenResponse, ApiError> {
        Ok(GetFileSystemSecurityTokenResponse {
            schema: Some("file".to_owned()),
            token: Some(bytes::Bytes::new()),
            expiration_time: None,
            addition_info: Vec::new(),
        })
    }
}
