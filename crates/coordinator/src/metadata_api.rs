//! Where tables and servers are (wire.md §4.6).

use mainstem_meta::{BucketState, PartitionEntry, TableEntry};
use mainstem_net::Session;
use mainstem_protocol::messages::{
    MetadataRequest, MetadataResponse, PbBucketMetadata, PbPartitionMetadata, PbServerNode,
    PbTableMetadata,
};
use mainstem_types::listeners::Endpoint;
use mainstem_types::{ErrorCode, PartitionId, TablePath};

use crate::table_api::table_missing;
use crate::wire::{pb_table_path, table_path};
use crate::{ApiError, Coordinator};

/// Id under which clients know the coordinator.
const COORDINATOR_ID: i32 = 0;

impl Coordinator {
    pub(crate) fn get_metadata(
        &self,
        session: &Session,
        request: MetadataRequest,
    ) -> Result<MetadataResponse, ApiError> {
        let listener = session.listener.as_str();
        let mut answer = MetadataResponse {
            coordinator_server: self
                .servers
                .coordinator_endpoint(listener)
                .map(|endpoint| server_node(COORDINATOR_ID, &endpoint, None)),
            ..MetadataResponse::default()
        };
        for node in self.servers.tablets() {
            if let Some(endpoint) = node.endpoint(listener) {
                let node = server_node(node.id.0, endpoint, node.rack.clone());
                answer.tablet_servers.push(node);
            }
        }
        for path in request.table_path {
            answer
                .table_metadata
                .push(self.table_metadata(&table_path(Some(path)))?);
        }
        for path in request.partitions_path {
            let table = TablePath::new(
                path.database_name.unwrap_or_default(),
                path.table_name.unwrap_or_default(),
            );
            match path.partition_name {
                // A client that means the table itself says so by leaving the
                // name out.
                None => answer.table_metadata.push(self.table_metadata(&table)?),
                Some(name) => {
                    let partition = self.catalog.partition(&table, &name);
                    let partition = partition.ok_or_else(|| {
                        ApiError::new(
                            ErrorCode::PartitionNotExists,
                            format!("Table partition '{table}(p={name})' does not exist."),
                        )
                    })?;
                    answer
                        .partition_metadata
                        .push(self.partition_metadata(&partition));
                }
            }
        }
        for id in request.partitions_id {
            let partition = self
                .catalog
                .partition_by_id(PartitionId(id))
                .ok_or_else(|| {
                    ApiError::new(
                        ErrorCode::PartitionNotExists,
                        format!("The partition id '{id}' does not exist."),
                    )
                })?;
            answer
                .partition_metadata
                .push(self.partition_metadata(&partition));
        }
        Ok(answer)
    }

    fn table_metadata(&self, path: &TablePath) -> Result<PbTableMetadata, ApiError> {
        let table = self
            .catalog
            .table(path)
            .ok_or_else(|| table_missing(path))?;
        let TableEntry {
            table_id,
            schema_id,
            table_json,
            created_ms,
            modified_ms,
            ..
        } = &*table;
        Ok(PbTableMetadata {
            table_path: Some(pb_table_path(path)),
            table_id: Some(table_id.0),
            schema_id: Some(schema_id.0),
            table_json: Some(table_json.clone()),
            bucket_metadata: self.bucket_metadata(&table.buckets),
            created_time: Some(*created_ms),
            modified_time: Some(*modified_ms),
            remote_data_dir: table.remote_data_dir.clone(),
            bucket_count_epoch: Some(table.bucket_count_epoch),
        })
    }

    fn partition_metadata(&self, partition: &PartitionEntry) -> PbPartitionMetadata {
        PbPartitionMetadata {
            table_id: Some(partition.table_id.0),
            partition_name: Some(partition.name.clone()),
            partition_id: Some(partition.partition_id.0),
            bucket_metadata: self.bucket_metadata(&partition.buckets),
            bucket_count: Some(partition.bucket_count).filter(|count| *count > 0),
        }
    }

    /// All buckets, also those without leader: clients count them.
    fn bucket_metadata(&self, buckets: &[BucketState]) -> Vec<PbBucketMetadata> {
        (0..)
            .zip(buckets)
            .map(|(bucket, state)| {
                // A leader that is not among the servers of the answer would
                // send clients nowhere.
                let leader = state.leader.filter(|leader| self.servers.is_live(*leader));
                PbBucketMetadata {
                    bucket_id: Some(bucket),
                    leader_id: leader.map(|leader| leader.0),
                    replica_id: state.replicas.iter().map(|server| server.0).collect(),
                    leader_epoch: leader.map(|_| state.leader_epoch.0),
                    bucket_epoch: Some(state.bucket_epoch),
                    isr: state.isr.iter().map(|server| server.0).collect(),
                }
            })
            .collect()
    }
}

fn server_node(id: i32, endpoint: &Endpoint, rack: Option<String>) -> PbServerNode {
    PbServerNode {
        node_id: Some(id),
        host: Some(endpoint.address.host.clone()),
        port: Some(i32::from(endpoint.address.port)),
        listeners: None,
        rack,
    }
}
