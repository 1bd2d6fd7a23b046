//! Which requests the coordinator answers, and how they reach their function.

use bytes::Bytes;
use mainstem_net::Session;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    CreateAclsRequest, DropAclsRequest, InitWriterRequest, InitWriterResponse, ListAclsRequest,
    ListAclsResponse,
};
use mainstem_types::ErrorCode;

use crate::wire::call;
use crate::{ApiError, Coordinator};

/// The APIs served here: key, lowest version, highest version, ascending by key.
pub const APIS: &[(i16, i16, i16)] = &[
    (ApiKey::CreateDatabase as i16, 0, 0),
    (ApiKey::DropDatabase as i16, 0, 0),
    (ApiKey::ListDatabases as i16, 0, 0),
    (ApiKey::DatabaseExists as i16, 0, 0),
    (ApiKey::CreateTable as i16, 0, 0),
    (ApiKey::DropTable as i16, 0, 0),
    (ApiKey::GetTableInfo as i16, 0, 0),
    (ApiKey::ListTables as i16, 0, 0),
    (ApiKey::ListPartitionInfos as i16, 0, 0),
    (ApiKey::TableExists as i16, 0, 0),
    (ApiKey::GetTableSchema as i16, 0, 0),
    (ApiKey::GetMetadata as i16, 0, 0),
    (ApiKey::GetLatestKvSnapshots as i16, 0, 0),
    (ApiKey::GetKvSnapshotMetadata as i16, 0, 1),
    (ApiKey::GetFilesystemSecurityToken as i16, 0, 0),
    (ApiKey::InitWriter as i16, 0, 0),
    (ApiKey::GetLakeSnapshot as i16, 0, 0),
    (ApiKey::GetDatabaseInfo as i16, 0, 0),
    (ApiKey::CreatePartition as i16, 0, 0),
    (ApiKey::DropPartition as i16, 0, 0),
    (ApiKey::CreateAcls as i16, 0, 0),
    (ApiKey::ListAcls as i16, 0, 0),
    (ApiKey::DropAcls as i16, 0, 0),
    (ApiKey::AlterTable as i16, 0, 1),
    (ApiKey::DescribeClusterConfigs as i16, 0, 0),
    (ApiKey::AlterClusterConfigs as i16, 0, 0),
    (ApiKey::RegisterProducerOffsets as i16, 0, 0),
    (ApiKey::GetProducerOffsets as i16, 0, 0),
    (ApiKey::DeleteProducerOffsets as i16, 0, 0),
    (ApiKey::AcquireKvSnapshotLease as i16, 0, 0),
    (ApiKey::ReleaseKvSnapshotLease as i16, 0, 0),
    (ApiKey::DropKvSnapshotLease as i16, 0, 0),
    (ApiKey::AlterDatabase as i16, 0, 0),
    (ApiKey::GetClusterHealth as i16, 0, 0),
    (ApiKey::ListRemoteLogManifests as i16, 0, 0),
    (ApiKey::ListKvSnapshots as i16, 0, 0),
];

/// Whether a request is answered from memory, at once. All others may wait for
/// the store and belong on a thread that may block.
pub fn is_read_only(api_key: i16) -> bool {
    matches!(
        ApiKey::from_code(api_key),
        Some(
            ApiKey::ListDatabases
                | ApiKey::DatabaseExists
                | ApiKey::GetTableInfo
                | ApiKey::ListTables
                | ApiKey::ListPartitionInfos
                | ApiKey::TableExists
                | ApiKey::GetTableSchema
                | ApiKey::GetMetadata
                | ApiKey::GetLatestKvSnapshots
                | ApiKey::GetKvSnapshotMetadata
                | ApiKey::GetFilesystemSecurityToken
                | ApiKey::GetLakeSnapshot
                | ApiKey::GetDatabaseInfo
                | ApiKey::CreateAcls
                | ApiKey::ListAcls
                | ApiKey::DropAcls
                | ApiKey::DescribeClusterConfigs
                | ApiKey::AcquireKvSnapshotLease
                | ApiKey::ReleaseKvSnapshotLease
                | ApiKey::DropKvSnapshotLease
                | ApiKey::GetClusterHealth
                | ApiKey::ListRemoteLogManifests
                | ApiKey::ListKvSnapshots
        )
    )
}

impl Coordinator {
    /// Answers a request with an encoded response message. Blocks on the store
    /// unless [`is_read_only`].
    ///
    /// # Errors
    /// The code and text to answer with; [`ErrorCode::UnsupportedVersion`] for an
    /// API or version that is not in [`APIS`], and for a body that cannot be
    /// decoded.
    pub fn handle(
        &self,
        session: &Session,
        api_key: i16,
        api_version: i16,
        body: Bytes,
    ) -> Result<Bytes, ApiError> {
        let served = APIS.iter().any(|(key, lowest, highest)| {
            *key == api_key && (*lowest..=*highest).contains(&api_version)
        });
        match ApiKey::from_code(api_key).filter(|_| served) {
            Some(key) => self.dispatch(session, key, body),
            None => Err(unsupported(api_key, api_version)),
        }
    }

    fn dispatch(&self, session: &Session, key: ApiKey, body: Bytes) -> Result<Bytes, ApiError> {
        match key {
            ApiKey::CreateDatabase => call(body, |request| self.create_database(request)),
            ApiKey::DropDatabase => call(body, |request| self.drop_database(request)),
            ApiKey::ListDatabases => call(body, |request| self.list_databases(request)),
            ApiKey::DatabaseExists => call(body, |request| self.database_exists(request)),
            ApiKey::GetDatabaseInfo => call(body, |request| self.get_database_info(request)),
            ApiKey::AlterDatabase => call(body, |request| self.alter_database(request)),
            ApiKey::CreateTable => call(body, |request| self.create_table(request)),
            ApiKey::DropTable => call(body, |request| self.drop_table(request)),
            ApiKey::AlterTable => call(body, |request| self.alter_table(request)),
            ApiKey::GetTableInfo => call(body, |request| self.get_table_info(request)),
            ApiKey::ListTables => call(body, |request| self.list_tables(request)),
            ApiKey::TableExists => call(body, |request| self.table_exists(request)),
            ApiKey::GetTableSchema => call(body, |request| self.get_table_schema(request)),
            ApiKey::ListPartitionInfos => call(body, |request| self.list_partitions(request)),
            ApiKey::CreatePartition => call(body, |request| self.create_partition(request)),
            ApiKey::DropPartition => call(body, |request| self.drop_partition(request)),
            ApiKey::GetMetadata => call(body, |request| self.get_metadata(session, request)),
            ApiKey::InitWriter => call(body, |request| self.init_writer(request)),
            ApiKey::DescribeClusterConfigs => {
                call(body, |request| self.describe_cluster_configs(request))
            }
            ApiKey::AlterClusterConfigs => {
                call(body, |request| self.alter_cluster_configs(request))
            }
            ApiKey::RegisterProducerOffsets => {
                call(body, |request| self.register_producer_offsets(request))
            }
            ApiKey::GetProducerOffsets => call(body, |request| self.get_producer_offsets(request)),
            ApiKey::DeleteProducerOffsets => {
                call(body, |request| self.delete_producer_offsets(request))
            }
            ApiKey::GetClusterHealth => call(body, |request| self.get_cluster_health(request)),
            ApiKey::GetFilesystemSecurityToken => {
                call(body, |request| self.get_security_token(request))
            }
            ApiKey::GetLatestKvSnapshots => {
                call(body, |request| self.get_latest_kv_snapshots(request))
            }
            ApiKey::GetKvSnapshotMetadata => {
                call(body, |request| self.get_kv_snapshot_metadata(request))
            }
            ApiKey::AcquireKvSnapshotLease => {
                call(body, |request| self.acquire_kv_snapshot_lease(request))
            }
            ApiKey::ReleaseKvSnapshotLease => {
                call(body, |request| self.release_kv_snapshot_lease(request))
            }
            ApiKey::DropKvSnapshotLease => {
                call(body, |request| self.drop_kv_snapshot_lease(request))
            }
            ApiKey::ListKvSnapshots => call(body, |request| self.list_kv_snapshots(request)),
            ApiKey::ListRemoteLogManifests => {
                call(body, |request| self.list_remote_log_manifests(request))
            }
            ApiKey::GetLakeSnapshot => call(body, |request| self.get_lake_snapshot(request)),
            ApiKey::CreateAcls => call(body, |_: CreateAclsRequest| {
                Err::<ListAclsResponse, _>(no_authorizer())
            }),
            ApiKey::ListAcls => call(body, |_: ListAclsRequest| {
                Err::<ListAclsResponse, _>(no_authorizer())
            }),
            ApiKey::DropAcls => call(body, |_: DropAclsRequest| {
                Err::<ListAclsResponse, _>(no_authorizer())
            }),
            other => Err(unsupported(other as i16, 0)),
        }
    }

    fn init_writer(&self, _request: InitWriterRequest) -> Result<InitWriterResponse, ApiError> {
        let id = self.writer_ids.next()?;
        Ok(InitWriterResponse {
            writer_id: Some(id.0),
        })
    }
}

fn unsupported(api_key: i16, api_version: i16) -> ApiError {
    ApiError::new(
        ErrorCode::UnsupportedVersion,
        format!("API {api_key} version {api_version} is not supported by this server."),
    )
}

fn no_authorizer() -> ApiError {
    ApiError::new(ErrorCode::SecurityDisabled, "No authorizer is configured.")
}
