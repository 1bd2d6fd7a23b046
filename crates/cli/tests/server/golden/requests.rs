//! Messages by API: their fields as lines, and requests with the ids that their
//! tables and partitions have here.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use mainstem_format::Batches;
use mainstem_protocol::messages::*;
use mainstem_protocol::{ApiKey, decode};
use mainstem_testkit::describe;
use mainstem_testkit::golden::Exchange;
use prost::Message;

use super::prepare::{Cluster, UNKNOWN};
use super::{NOT_BUILT, SHORT_WAIT};

macro_rules! response_lines {
    ($key:expr, $body:expr, $($api:ident => $message:ident),* $(,)?) => {
        match $key {
            $(ApiKey::$api => describe(&decode::<$message>($body).expect("a whole message")),)*
            other => panic!("{} is not built", other.name()),
        }
    };
}

/// The fields of a success.
pub fn lines(key: ApiKey, body: Bytes) -> Vec<(String, String)> {
    assert!(!NOT_BUILT.contains(&key));
    response_lines!(key, body,
        ApiVersions => ApiVersionsResponse,
        CreateDatabase => CreateDatabaseResponse,
        DropDatabase => DropDatabaseResponse,
        ListDatabases => ListDatabasesResponse,
        DatabaseExists => DatabaseExistsResponse,
        GetDatabaseInfo => GetDatabaseInfoResponse,
        AlterDatabase => AlterDatabaseResponse,
        CreateTable => CreateTableResponse,
        DropTable => DropTableResponse,
        GetTableInfo => GetTableInfoResponse,
        ListTables => ListTablesResponse,
        TableExists => TableExistsResponse,
        GetTableSchema => GetTableSchemaResponse,
        AlterTable => AlterTableResponse,
        ListPartitionInfos => ListPartitionInfosResponse,
        CreatePartition => CreatePartitionResponse,
        DropPartition => DropPartitionResponse,
        GetMetadata => MetadataResponse,
        ProduceLog => ProduceLogResponse,
        FetchLog => FetchLogResponse,
        ListOffsets => ListOffsetsResponse,
        LimitScan => LimitScanResponse,
        GetTableStats => GetTableStatsResponse,
        PutKv => PutKvResponse,
        Lookup => LookupResponse,
        PrefixLookup => PrefixLookupResponse,
        ScanKv => ScanKvResponse,
        InitWriter => InitWriterResponse,
        Authenticate => AuthenticateResponse,
        GetLatestKvSnapshots => GetLatestKvSnapshotsResponse,
        ListKvSnapshots => ListKvSnapshotsResponse,
        GetKvSnapshotMetadata => GetKvSnapshotMetadataResponse,
        AcquireKvSnapshotLease => AcquireKvSnapshotLeaseResponse,
        ReleaseKvSnapshotLease => ReleaseKvSnapshotLeaseResponse,
        DropKvSnapshotLease => DropKvSnapshotLeaseResponse,
        ListRemoteLogManifests => ListRemoteLogManifestsResponse,
        GetFilesystemSecurityToken => GetFileSystemSecurityTokenResponse,
        GetLakeSnapshot => GetLakeSnapshotResponse,
        CreateAcls => CreateAclsResponse,
        ListAcls => ListAclsResponse,
        DropAcls => DropAclsResponse,
        DescribeClusterConfigs => DescribeClusterConfigsResponse,
        AlterClusterConfigs => AlterClusterConfigsResponse,
        RegisterProducerOffsets => RegisterProducerOffsetsResponse,
        GetProducerOffsets => GetProducerOffsetsResponse,
        DeleteProducerOffsets => DeleteProducerOffsetsResponse,
        GetClusterHealth => GetClusterHealthResponse,
    )
}

/// Offsets of the batches of each bucket of a fetch.
pub fn batches(body: Bytes) -> Vec<Vec<(i64, i64)>> {
    let bounds = |records: Option<Bytes>| {
        Batches::new(&records.unwrap_or_default())
            .map(|batch| *batch.expect("a batch").header())
            .map(|header| (header.base_offset, header.next_offset()))
            .collect()
    };
    let answer: FetchLogResponse = decode(body).expect("a whole message");
    let entries = answer
        .tables_resp
        .into_iter()
        .flat_map(|table| table.buckets_resp);
    let mut found: Vec<Vec<(i64, i64)>> = entries.map(|entry| bounds(entry.records)).collect();
    // The order of the buckets is free.
    found.sort();
    found
}

/// A time that is in the future now as it was then.
fn in_an_hour() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_millis()).expect("in range") + 3_600_000
}

/// The message of a request with the ids of this server.
pub fn body_for(cluster: &Cluster, exchange: &Exchange, key: ApiKey) -> Bytes {
    let body = exchange.request_body();
    match key {
        ApiKey::ProduceLog => {
            let mut request = ProduceLogRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            for entry in &mut request.buckets_req {
                cluster.map_partition(recorded, &mut entry.partition_id);
            }
            encoded(&request)
        }
        ApiKey::PutKv => {
            let mut request = PutKvRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            for entry in &mut request.buckets_req {
                cluster.map_partition(recorded, &mut entry.partition_id);
            }
            encoded(&request)
        }
        ApiKey::Lookup => {
            let mut request = LookupRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            for entry in &mut request.buckets_req {
                cluster.map_partition(recorded, &mut entry.partition_id);
            }
            encoded(&request)
        }
        ApiKey::PrefixLookup => {
            let mut request = PrefixLookupRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            for entry in &mut request.buckets_req {
                cluster.map_partition(recorded, &mut entry.partition_id);
            }
            encoded(&request)
        }
        ApiKey::ScanKv => {
            let mut request = ScanKvRequest::decode(body).expect("a request");
            if let Some(opening) = &mut request.bucket_scan_req {
                let recorded = cluster.map_table(&mut opening.table_id);
                cluster.map_partition(recorded, &mut opening.partition_id);
            }
            if let Some(id) = &mut request.scanner_id
                && let Some((here, _)) = cluster.scans.get(id)
            {
                *id = here.clone();
            }
            encoded(&request)
        }
        ApiKey::GetKvSnapshotMetadata => {
            let mut request = GetKvSnapshotMetadataRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            cluster.map_partition(recorded, &mut request.partition_id);
            encoded(&request)
        }
        ApiKey::AcquireKvSnapshotLease => {
            let mut request = AcquireKvSnapshotLeaseRequest::decode(body).expect("a request");
            for table in &mut request.snapshots_to_lease {
                let recorded = cluster.map_table(&mut table.table_id);
                for bucket in &mut table.bucket_snapshots {
                    cluster.map_partition(recorded, &mut bucket.partition_id);
                }
            }
            encoded(&request)
        }
        ApiKey::FetchLog => {
            let mut request = FetchLogRequest::decode(body).expect("a request");
            for table in &mut request.tables_req {
                let recorded = cluster.map_table(&mut table.table_id);
                for entry in &mut table.buckets_req {
                    cluster.map_partition(recorded, &mut entry.partition_id);
                }
            }
            if request.max_wait_ms.is_some() {
                request.max_wait_ms = i32::try_from(SHORT_WAIT.as_millis()).ok();
            }
            encoded(&request)
        }
        ApiKey::ListOffsets => {
            let mut request = ListOffsetsRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            cluster.map_partition(recorded, &mut request.partition_id);
            if exchange.inner_error_codes.contains(&38) {
                request.start_timestamp = Some(in_an_hour());
            }
            encoded(&request)
        }
        ApiKey::LimitScan => {
            let mut request = LimitScanRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            cluster.map_partition(recorded, &mut request.partition_id);
            encoded(&request)
        }
        ApiKey::GetTableStats => {
            let mut request = GetTableStatsRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            for entry in &mut request.buckets_req {
                cluster.map_partition(recorded, &mut entry.partition_id);
            }
            encoded(&request)
        }
        ApiKey::GetMetadata => {
            let mut request = MetadataRequest::decode(body).expect("a request");
            for id in &mut request.partitions_id {
                *id = cluster.partition_anywhere(*id).unwrap_or(*id + UNKNOWN);
            }
            encoded(&request)
        }
        ApiKey::ListKvSnapshots => {
            let mut request = ListKvSnapshotsRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            cluster.map_partition(recorded, &mut request.partition_id);
            encoded(&request)
        }
        ApiKey::ListRemoteLogManifests => {
            let mut request = ListRemoteLogManifestsRequest::decode(body).expect("a request");
            let recorded = cluster.map_table(&mut request.table_id);
            cluster.map_partition(recorded, &mut request.partition_id);
            encoded(&request)
        }
        ApiKey::RegisterProducerOffsets => {
            let mut request = RegisterProducerOffsetsRequest::decode(body).expect("a request");
            for offsets in &mut request.table_offsets {
                cluster.map_table(&mut offsets.table_id);
            }
            encoded(&request)
        }
        // Some of the others are wrong on purpose, and have no ids.
        _ => body,
    }
}

fn encoded(request: &impl Message) -> Bytes {
    request.encode_to_vec().into()
}

/// What a request is about.
#[derive(Debug, Default)]
pub struct Subject {
    /// A database.
    pub database: Option<String>,
    /// Tables, as `database.table`.
    pub tables: Vec<String>,
    /// Values of a partition, by key.
    pub partition: Option<Vec<(String, String)>>,
    /// Columns to add.
    pub added: Vec<String>,
}

macro_rules! subject {
    ($key:expr, $body:expr, databases: [$($database:ident => $database_request:ident),*], tables: [$($table:ident => $table_request:ident),*]) => {
        match $key {
            $(ApiKey::$database => Subject {
                database: $database_request::decode($body).ok().and_then(|request| request.database_name),
                ..Subject::default()
            },)*
            $(ApiKey::$table => Subject {
                tables: $table_request::decode($body)
                    .ok()
                    .and_then(|request| request.table_path)
                    .and_then(|path| name(&path))
                    .into_iter()
                    .collect(),
                ..Subject::default()
            },)*
            ApiKey::CreatePartition => {
                let request = CreatePartitionRequest::decode($body).expect("a request");
                with_partition(request.table_path, request.partition_spec)
            }
            ApiKey::DropPartition => {
                let request = DropPartitionRequest::decode($body).expect("a request");
                with_partition(request.table_path, request.partition_spec)
            }
            ApiKey::AlterTable => {
                let request = AlterTableRequest::decode($body).expect("a request");
                Subject {
                    tables: request.table_path.as_ref().and_then(name).into_iter().collect(),
                    added: request.add_columns.into_iter().filter_map(|column| column.column_name).collect(),
                    ..Subject::default()
                }
            }
            ApiKey::GetMetadata => {
                let request = MetadataRequest::decode($body).expect("a request");
                Subject {
                    tables: request.table_path.iter().filter_map(name).collect(),
                    ..Subject::default()
                }
            }
            _ => Subject::default(),
        }
    };
}

/// What a request names.
pub fn subject(exchange: &Exchange, key: ApiKey) -> Subject {
    let body = exchange.request_body();
    subject!(key, body,
        databases: [
            CreateDatabase => CreateDatabaseRequest,
            DropDatabase => DropDatabaseRequest,
            DatabaseExists => DatabaseExistsRequest,
            GetDatabaseInfo => GetDatabaseInfoRequest,
            AlterDatabase => AlterDatabaseRequest,
            ListTables => ListTablesRequest
        ],
        tables: [
            CreateTable => CreateTableRequest,
            DropTable => DropTableRequest,
            GetTableInfo => GetTableInfoRequest,
            TableExists => TableExistsRequest,
            GetTableSchema => GetTableSchemaRequest,
            ListPartitionInfos => ListPartitionInfosRequest,
            GetLatestKvSnapshots => GetLatestKvSnapshotsRequest,
            GetLakeSnapshot => GetLakeSnapshotRequest
        ]
    )
}

fn name(path: &PbTablePath) -> Option<String> {
    Some(format!(
        "{}.{}",
        path.database_name.as_deref()?,
        path.table_name.as_deref()?
    ))
}

fn with_partition(path: Option<PbTablePath>, spec: Option<PbPartitionSpec>) -> Subject {
    let pairs = spec.unwrap_or_default().partition_key_values;
    Subject {
        tables: path.as_ref().and_then(name).into_iter().collect(),
        partition: Some(
            pairs
                .into_iter()
                .map(|pair| (pair.key.unwrap_or_default(), pair.value.unwrap_or_default()))
                .collect(),
        ),
        ..Subject::default()
    }
}
