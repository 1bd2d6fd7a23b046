//! A coordinator with one tablet server, and short ways to ask it.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::ManualClock;
use mainstem_meta::{Catalog, MemoryStore, MetaStore};
use mainstem_net::Session;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    AlterTableRequest, AlterTableResponse, CreateDatabaseRequest, CreateDatabaseResponse,
    CreatePartitionRequest, CreatePartitionResponse, CreateTableRequest, CreateTableResponse,
    DropDatabaseRequest, DropDatabaseResponse, DropPartitionRequest, DropPartitionResponse,
    DropTableRequest, DropTableResponse, GetTableInfoRequest, GetTableInfoResponse,
    ListPartitionInfosRequest, ListPartitionInfosResponse, PbAlterConfig, PbKeyValue,
    PbPartitionSpec, PbTablePath,
};
use mainstem_types::listeners::{Endpoint, HostPort};
use mainstem_types::{ServerId, TablePath};
use prost::Message;
use serde_json::{Value, json};

use crate::{ApiError, Coordinator, CoordinatorConfig, ServerNode};

/// 2024-11-11T11:11:00Z.
pub(super) const NOW_MS: i64 = 1_731_323_460_000;
pub(super) const OK: i32 = 0;

pub(super) struct Fixture {
    pub(super) coordinator: Coordinator,
    pub(super) clock: Arc<ManualClock>,
    pub(super) store: Arc<dyn MetaStore>,
    pub(super) session: Session,
}

pub(super) fn endpoint(listener: &str, port: u16) -> Endpoint {
    let address = HostPort {
        host: "127.0.0.1".to_owned(),
        port,
    };
    Endpoint {
        name: listener.to_owned(),
        address,
    }
}

pub(super) fn server(id: i32) -> ServerNode {
    let endpoints = vec![endpoint("FLUSS", 9123), endpoint("CLIENT", 9200)];
    ServerNode {
        id: ServerId(id),
        rack: None,
        endpoints,
    }
}

pub(super) fn session(listener: &str) -> Session {
    Session {
        id: 1,
        listener: listener.to_owned(),
        internal: false,
        peer: "127.0.0.1:1".parse().expect("an address"),
        principal: "ANONYMOUS".to_owned(),
    }
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(CoordinatorConfig::default())
    }

    pub(super) fn with(config: CoordinatorConfig) -> Self {
        Self::on(Arc::new(MemoryStore::new()), config)
    }

    /// A coordinator on a store that may hold something already.
    pub(super) fn on(store: Arc<dyn MetaStore>, config: CoordinatorConfig) -> Self {
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let catalog = Arc::new(Catalog::new());
        let coordinator = Coordinator::new(Arc::clone(&store), catalog, config, clock.clone())
            .expect("the coordinator starts");
        coordinator.set_coordinator_endpoints(server(0).endpoints);
        coordinator
            .register(server(0))
            .expect("the server is registered");
        Self {
            coordinator,
            clock,
            store,
            session: session("FLUSS"),
        }
    }

    pub(super) fn call<A: Message + Default>(
        &self,
        key: ApiKey,
        request: &impl Message,
    ) -> Result<A, ApiError> {
        let version = key.versions().max;
        let body = Bytes::from(request.encode_to_vec());
        let answer = self
            .coordinator
            .handle(&self.session, key as i16, version, body)?;
        Ok(A::decode(answer).expect("the answer is a message"))
    }

    pub(super) fn create_database(&self, name: &str) {
        let request = CreateDatabaseRequest {
            database_name: Some(name.to_owned()),
            ignore_if_exists: Some(false),
            database_json: None,
        };
        let created: Result<CreateDatabaseResponse, _> =
            self.call(ApiKey::CreateDatabase, &request);
        created.expect("the database is created");
    }

    pub(super) fn drop_database(
        &self,
        name: &str,
        ignore: bool,
        cascade: bool,
    ) -> Result<DropDatabaseResponse, ApiError> {
        let request = DropDatabaseRequest {
            database_name: Some(name.to_owned()),
            ignore_if_not_exists: Some(ignore),
            cascade: Some(cascade),
        };
        self.call(ApiKey::DropDatabase, &request)
    }

    pub(super) fn try_create(
        &self,
        path: &str,
        table_json: impl Into<Bytes>,
        ignore_if_exists: bool,
    ) -> Result<CreateTableResponse, ApiError> {
        let request = CreateTableRequest {
            table_path: Some(pb_path(path)),
            table_json: Some(table_json.into()),
            ignore_if_exists: Some(ignore_if_exists),
        };
        self.call(ApiKey::CreateTable, &request)
    }

    pub(super) fn create(&self, path: &str, table: &Value) {
        self.try_create(path, table.to_string(), false)
            .expect("the table is created");
    }

    pub(super) fn drop_table(
        &self,
        path: &str,
        ignore: bool,
    ) -> Result<DropTableResponse, ApiError> {
        let request = DropTableRequest {
            table_path: Some(pb_path(path)),
            ignore_if_not_exists: Some(ignore),
        };
        self.call(ApiKey::DropTable, &request)
    }

    pub(super) fn info(&self, path: &str) -> GetTableInfoResponse {
        let request = GetTableInfoRequest {
            table_path: Some(pb_path(path)),
        };
        self.call(ApiKey::GetTableInfo, &request)
            .expect("the table is there")
    }

    pub(super) fn table_json(&self, path: &str) -> Value {
        let json = self.info(path).table_json.expect("sent");
        serde_json::from_slice(&json).expect("JSON")
    }

    pub(super) fn alter(&self, request: AlterTableRequest) -> Result<AlterTableResponse, ApiError> {
        self.call(ApiKey::AlterTable, &request)
    }

    pub(super) fn set_options(
        &self,
        path: &str,
        options: &[(&str, &str)],
    ) -> Result<AlterTableResponse, ApiError> {
        let config_changes = options
            .iter()
            .map(|(key, value)| config(key, Some(value), 0))
            .collect();
        self.alter(AlterTableRequest {
            config_changes,
            ..alter_request(path)
        })
    }

    pub(super) fn create_partition(
        &self,
        path: &str,
        spec: &[(&str, &str)],
        ignore: bool,
    ) -> Result<CreatePartitionResponse, ApiError> {
        let request = CreatePartitionRequest {
            table_path: Some(pb_path(path)),
            partition_spec: Some(pb_spec(spec)),
            ignore_if_not_exists: Some(ignore),
        };
        self.call(ApiKey::CreatePartition, &request)
    }

    pub(super) fn drop_partition(
        &self,
        path: &str,
        spec: &[(&str, &str)],
        ignore: bool,
    ) -> Result<DropPartitionResponse, ApiError> {
        let request = DropPartitionRequest {
            table_path: Some(pb_path(path)),
            partition_spec: Some(pb_spec(spec)),
            ignore_if_not_exists: Some(ignore),
        };
        self.call(ApiKey::DropPartition, &request)
    }

    pub(super) fn list_partitions(
        &self,
        path: &str,
        filter: Option<&[(&str, &str)]>,
    ) -> Result<ListPartitionInfosResponse, ApiError> {
        let request = ListPartitionInfosRequest {
            table_path: Some(pb_path(path)),
            partial_partition_spec: filter.map(pb_spec),
            include_system_partitions: None,
        };
        self.call(ApiKey::ListPartitionInfos, &request)
    }

    /// Names of the partitions of a table.
    pub(super) fn partitions(&self, path: &str) -> Vec<String> {
        let table = self
            .coordinator
            .catalog()
            .table(&types_path(path))
            .expect("the table is there");
        let partitions = self.coordinator.catalog().partitions_of(table.table_id);
        partitions
            .iter()
            .map(|partition| partition.name.clone())
            .collect()
    }
}

/// `db.table`, either part may be empty; the last dot separates.
fn split(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or(("fluss", path))
}

pub(super) fn pb_path(path: &str) -> PbTablePath {
    let (database, table) = split(path);
    PbTablePath {
        database_name: Some(database.to_owned()),
        table_name: Some(table.to_owned()),
    }
}

pub(super) fn types_path(path: &str) -> TablePath {
    let (database, table) = split(path);
    TablePath::new(database, table)
}

pub(super) fn pb_spec(spec: &[(&str, &str)]) -> PbPartitionSpec {
    let pair = |(key, value): &(&str, &str)| PbKeyValue {
        key: Some((*key).to_owned()),
        value: Some((*value).to_owned()),
    };
    PbPartitionSpec {
        partition_key_values: spec.iter().map(pair).collect(),
    }
}

pub(super) fn config(key: &str, value: Option<&str>, op_type: i32) -> PbAlterConfig {
    PbAlterConfig {
        config_key: Some(key.to_owned()),
        config_value: value.map(str::to_owned),
        op_type: Some(op_type),
    }
}

pub(super) fn alter_request(path: &str) -> AlterTableRequest {
    AlterTableRequest {
        table_path: Some(pb_path(path)),
        ignore_if_not_exists: Some(false),
        ..AlterTableRequest::default()
    }
}

/// Columns a INT and b STRING, two buckets.
pub(super) fn log_table() -> Value {
    json!({
        "version": 1,
        "schema": {
            "version": 1,
            "columns": [
                {"name": "a", "data_type": {"type": "INTEGER"}, "id": 0},
                {"name": "b", "data_type": {"type": "STRING"}, "id": 1}
            ],
            "highest_field_id": 1
        },
        "partition_key": [],
        "bucket_key": [],
        "bucket_count": 2,
        "properties": {},
        "custom_properties": {}
    })
}

/// The same with the primary key a.
pub(super) fn key_table() -> Value {
    let mut table = log_table();
    table["schema"]["primary_key"] = json!(["a"]);
    table["bucket_key"] = json!(["a"]);
    table
}

/// A log table with the partition key b.
pub(super) fn partitioned_table() -> Value {
    let mut table = log_table();
    table["partition_key"] = json!(["b"]);
    table
}

pub(super) fn with_options(mut table: Value, options: &[(&str, &str)]) -> Value {
    for (key, value) in options {
        table["properties"][*key] = json!(value);
    }
    table
}

/// The code of an answer, 0 for success.
pub(super) fn code<A>(result: Result<A, ApiError>) -> i32 {
    result.map_or_else(|error| error.code.code(), |_| OK)
}
