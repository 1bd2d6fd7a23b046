//! Connections to the servers of a cluster, and where its buckets are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_net::{ClientOptions as NetOptions, Connection, Login};
use mainstem_protocol::{ApiKey, messages as pb};
use mainstem_protocol::{Required, Shaped};
use mainstem_types::{
    BucketId, PartitionId, Schema, ServerId, TableBucket, TableDescriptor, TableId, TablePath,
};
use parking_lot::Mutex;

use crate::error::{ClientError, Result};

/// How to reach and use a cluster.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// User and password for SASL/PLAIN; `None` = plaintext listener.
    pub sasl: Option<(String, String)>,
    /// Deadline of one call.
    pub request_timeout: Duration,
    /// How long failed writes and reads are repeated.
    pub delivery_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            sasl: None,
            request_timeout: Duration::from_secs(30),
            delivery_timeout: Duration::from_secs(120),
        }
    }
}

/// What a client needs to know of a table.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Path.
    pub path: TablePath,
    /// Id.
    pub table_id: TableId,
    /// Current schema id.
    pub schema_id: i32,
    /// Descriptor, with the defaults that the server wrote into it.
    pub descriptor: TableDescriptor,
    /// Creation time, epoch ms.
    pub created_ms: i64,
    /// Last change, epoch ms.
    pub modified_ms: i64,
}

/// Bucket count and leaders of a table or partition.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    /// The partition; `None` for a table without partitions.
    pub partition_id: Option<PartitionId>,
    /// Leader of each bucket, by bucket id.
    pub leaders: Vec<Option<ServerId>>,
}

#[derive(Debug, Default)]
struct Known {
    coordinator: Option<String>,
    tablets: HashMap<ServerId, String>,
    connections: HashMap<String, Connection>,
}

/// A connection to a cluster; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bootstrap: Vec<String>,
    options: ClientOptions,
    known: Mutex<Known>,
}

impl Client {
    /// Connects to the first bootstrap address that answers.
    ///
    /// # Errors
    /// The last failure if none does.
    pub async fn connect(bootstrap: &[String], options: ClientOptions) -> Result<Self> {
        let shared = Shared {
            bootstrap: bootstrap.to_vec(),
            options,
            known: Mutex::new(Known::default()),
        };
        let client = Self {
            shared: Arc::new(shared),
        };
        client.refresh().await?;
        Ok(client)
    }

    /// The options given at connect.
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// Asks for the servers of the cluster again.
    pub async fn refresh(&self) -> Result<()> {
        let mut last = ClientError::Usage("no server address was given".to_owned());
        for address in &self.shared.bootstrap {
            let answer = match self.connection(address).await {
                Ok(connection) => {
                    self.metadata_on(&connection, pb::MetadataRequest::default())
                        .await
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => {
                    self.learn(&answer)?;
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn learn(&self, answer: &pb::MetadataResponse) -> Result<()> {
        let mut known = self.shared.known.lock();
        known.coordinator = answer
            .coordinator_server
            .as_ref()
            .map(address_of)
            .transpose()?;
        known.tablets.clear();
        for node in &answer.tablet_servers {
            let id = ServerId(node.node_id.ok_or_else(|| ClientError::absent("node_id"))?);
            let address = address_of(node)?;
            known.tablets.insert(id, address);
        }
        Ok(())
    }

    async fn connection(&self, address: &str) -> Result<Connection> {
        if let Some(connection) = self.shared.known.lock().connections.get(address)
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        let options = NetOptions {
            login: self
                .shared
                .options
                .sasl
                .clone()
                .map(|(user, password)| Login { user, password }),
            request_timeout: self.shared.options.request_timeout,
            ..NetOptions::default()
        };
        let connection = Connection::connect(address, options).await?;
        let mut known = self.shared.known.lock();
        known
            .connections
            .insert(address.to_owned(), connection.clone());
        Ok(connection)
    }

    /// A connection to the coordinator.
    pub async fn coordinator(&self) -> Result<Connection> {
        let address = self.shared.known.lock().coordinator.clone();
        match address {
            Some(address) => self.connection(&address).await,
            None => Err(ClientError::Usage(
                "the cluster has no coordinator now".to_owned(),
            )),
        }
    }

    /// A connection to a tablet server.
    pub async fn tablet(&self, server: ServerId) -> Result<Connection> {
        let address = self.shared.known.lock().tablets.get(&server).cloned();
        match address {
            Some(address) => self.connection(&address).await,
            None => Err(ClientError::Api {
                code: 44,
                message: format!("tablet server {server} is not known"),
            }),
        }
    }

    /// A connection to any tablet server.
    pub async fn any_tablet(&self) -> Result<Connection> {
        let addresses: Vec<String> = self.shared.known.lock().tablets.values().cloned().collect();
        let mut last = ClientError::Usage("the cluster has no tablet server now".to_owned());
        for address in addresses {
            match self.connection(&address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn metadata_on(
        &self,
        connection: &Connection,
        request: pb::MetadataRequest,
    ) -> Result<pb::MetadataResponse> {
        Ok(connection.call(ApiKey::GetMetadata, 0, &request).await?)
    }

    /// A call to the coordinator.
    pub async fn call_coordinator<Q, R>(&self, api: ApiKey, request: &Q) -> Result<R>
    where
        Q: prost::Message,
        R: prost::Message + Default + Required + Shaped,
    {
        let connection = match self.coordinator().await {
            Ok(connection) => connection,
            Err(_) => {
                self.refresh().await?;
                self.coordinator().await?
            }
        };
        Ok(connection.call(api, 0, request).await?)
    }

    /// Describes a table.
    pub async fn table(&self, path: &TablePath) -> Result<TableInfo> {
        let request = pb::GetTableInfoRequest {
            table_path: Some(path_to_proto(path)),
        };
        let answer: pb::GetTableInfoResponse = self
            .call_coordinator(ApiKey::GetTableInfo, &request)
            .await?;
        let json = answer.table_json.unwrap_or_default();
        let descriptor = TableDescriptor::from_json_bytes(&json)
            .map_err(|error| ClientError::Malformed(format!("table description: {error}")))?;
        Ok(TableInfo {
            path: path.clone(),
            table_id: TableId(answer.table_id.unwrap_or_default()),
            schema_id: answer.schema_id.unwrap_or_default(),
            descriptor,
            created_ms: answer.created_time.unwrap_or_default(),
            modified_ms: answer.modified_time.unwrap_or_default(),
        })
    }

    /// A schema version of a table, as JSON bytes.
    pub async fn schema_json(&self, path: &TablePath, schema_id: i32) -> Result<Bytes> {
        let request = pb::GetTableSchemaRequest {
            table_path: Some(path_to_proto(path)),
            schema_id: Some(schema_id),
        };
        let answer: pb::GetTableSchemaResponse = self
            .call_coordinator(ApiKey::GetTableSchema, &request)
            .await?;
        Ok(answer.schema_json.unwrap_or_default())
    }

    /// A schema version of a table.
    pub async fn schema(&self, path: &TablePath, schema_id: i32) -> Result<Schema> {
        let json = self.schema_json(path, schema_id).await?;
        Schema::from_json_bytes(&json)
            .map_err(|error| ClientError::Malformed(format!("schema {schema_id}: {error}")))
    }

    /// Buckets and leaders of a table without partitions.
    pub async fn table_buckets(&self, path: &TablePath) -> Result<Buckets> {
        let request = pb::MetadataRequest {
            table_path: vec![path_to_proto(path)],
            ..pb::MetadataRequest::default()
        };
        let answer = self.metadata(request).await?;
        let table = answer.table_metadata.first();
        let table = table.ok_or_else(|| ClientError::absent("table_metadata"))?;
        Ok(Buckets {
            partition_id: None,
            leaders: leaders(&table.bucket_metadata),
        })
    }

    /// Buckets and leaders of a partition.
    pub async fn partition_buckets(&self, path: &TablePath, partition: &str) -> Result<Buckets> {
        let request = pb::MetadataRequest {
            partitions_path: vec![pb::PbPhysicalTablePath {
                database_name: Some(path.database.clone()),
                table_name: Some(path.table.clone()),
                partition_name: Some(partition.to_owned()),
            }],
            ..pb::MetadataRequest::default()
        };
        let answer = self.metadata(request).await?;
        let entry = answer.partition_metadata.first();
        let entry = entry.ok_or_else(|| ClientError::absent("partition_metadata"))?;
        Ok(Buckets {
            partition_id: entry.partition_id.map(PartitionId),
            leaders: leaders(&entry.bucket_metadata),
        })
    }

    async fn metadata(&self, request: pb::MetadataRequest) -> Result<pb::MetadataResponse> {
        let connection = match self.any_tablet().await {
            Ok(connection) => connection,
            Err(_) => {
                self.refresh().await?;
                self.any_tablet().await?
            }
        };
        let answer = self.metadata_on(&connection, request).await?;
        self.learn(&answer)?;
        Ok(answer)
    }
}

/// The path as the protocol carries it.
pub(crate) fn path_to_proto(path: &TablePath) -> pb::PbTablePath {
    pb::PbTablePath {
        database_name: Some(path.database.clone()),
        table_name: Some(path.table.clone()),
    }
}

fn address_of(node: &pb::PbServerNode) -> Result<String> {
    let host = node
        .host
        .as_deref()
        .ok_or_else(|| ClientError::absent("host"))?;
    let port = node.port.ok_or_else(|| ClientError::absent("port"))?;
    Ok(format!("{host}:{port}"))
}

fn leaders(metadata: &[pb::PbBucketMetadata]) -> Vec<Option<ServerId>> {
    let mut leaders = vec![None; metadata.len()];
    for bucket in metadata {
        let id = bucket.bucket_id.unwrap_or(-1);
        if let Some(slot) = usize::try_from(id).ok().and_then(|id| leaders.get_mut(id)) {
            *slot = bucket.leader_id.map(ServerId);
        }
    }
    leaders
}

/// The bucket with the ids of its table and partition.
pub(crate) fn table_bucket(
    table_id: TableId,
    partition_id: Option<PartitionId>,
    bucket: i32,
) -> TableBucket {
    TableBucket {
        table_id,
        partition_id,
        bucket_id: BucketId(bucket),
    }
}
