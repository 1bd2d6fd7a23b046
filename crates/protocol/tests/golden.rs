//! Recorded exchanges of a reference server decode completely and encode to the
//! same bytes (testdata/README.md).
//!
//! `MAINSTEM_EXCHANGES=path` runs it on another capture of the same form.

use std::collections::BTreeSet;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mainstem_protocol::frame::{DEFAULT_MAX_REQUEST_BYTES, check_request_length};
use mainstem_protocol::messages::*;
use mainstem_protocol::{
    ApiKey, DecodeError, RequestHeader, Required, ResponseFrame, Shaped, decode,
};
use prost::Message;
use serde_json::Value;

/// Decodes, and returns the plain encoding of what was read.
fn recode<M: Message + Default + Required + Shaped>(body: Bytes) -> Result<Vec<u8>, DecodeError> {
    decode::<M>(body).map(|message| message.encode_to_vec())
}

macro_rules! recoders {
    ($($api:ident: $request:ident, $response:ident;)*) => {
        fn recode_request(api: ApiKey, body: Bytes) -> Result<Vec<u8>, DecodeError> {
            match api { $(ApiKey::$api => recode::<$request>(body),)* }
        }
        fn recode_response(api: ApiKey, body: Bytes) -> Result<Vec<u8>, DecodeError> {
            match api { $(ApiKey::$api => recode::<$response>(body),)* }
        }
    };
}

recoders! {
    ApiVersions: ApiVersionsRequest, ApiVersionsResponse;
    CreateDatabase: CreateDatabaseRequest, CreateDatabaseResponse;
    DropDatabase: DropDatabaseRequest, DropDatabaseResponse;
    ListDatabases: ListDatabasesRequest, ListDatabasesResponse;
    DatabaseExists: DatabaseExistsRequest, DatabaseExistsResponse;
    CreateTable: CreateTableRequest, CreateTableResponse;
    DropTable: DropTableRequest, DropTableResponse;
    GetTableInfo: GetTableInfoRequest, GetTableInfoResponse;
    ListTables: ListTablesRequest, ListTablesResponse;
    ListPartitionInfos: ListPartitionInfosRequest, ListPartitionInfosResponse;
    TableExists: TableExistsRequest, TableExistsResponse;
    GetTableSchema: GetTableSchemaRequest, GetTableSchemaResponse;
    GetMetadata: MetadataRequest, MetadataResponse;
    UpdateMetadata: UpdateMetadataRequest, UpdateMetadataResponse;
    ProduceLog: ProduceLogRequest, ProduceLogResponse;
    FetchLog: FetchLogRequest, FetchLogResponse;
    PutKv: PutKvRequest, PutKvResponse;
    Lookup: LookupRequest, LookupResponse;
    NotifyLeaderAndIsr: NotifyLeaderAndIsrRequest, NotifyLeaderAndIsrResponse;
    StopReplica: StopReplicaRequest, StopReplicaResponse;
    AdjustIsr: AdjustIsrRequest, AdjustIsrResponse;
    ListOffsets: ListOffsetsRequest, ListOffsetsResponse;
    CommitKvSnapshot: CommitKvSnapshotRequest, CommitKvSnapshotResponse;
    GetLatestKvSnapshots: GetLatestKvSnapshotsRequest, GetLatestKvSnapshotsResponse;
    GetKvSnapshotMetadata: GetKvSnapshotMetadataRequest, GetKvSnapshotMetadataResponse;
    GetFilesystemSecurityToken: GetFileSystemSecurityTokenRequest, GetFileSystemSecurityTokenResponse;
    InitWriter: InitWriterRequest, InitWriterResponse;
    CommitRemoteLogManifest: CommitRemoteLogManifestRequest, CommitRemoteLogManifestResponse;
    NotifyRemoteLogOffsets: NotifyRemoteLogOffsetsRequest, NotifyRemoteLogOffsetsResponse;
    NotifyKvSnapshotOffset: NotifyKvSnapshotOffsetRequest, NotifyKvSnapshotOffsetResponse;
    CommitLakeTableSnapshot: CommitLakeTableSnapshotRequest, CommitLakeTableSnapshotResponse;
    NotifyLakeTableOffset: NotifyLakeTableOffsetRequest, NotifyLakeTableOffsetResponse;
    GetLakeSnapshot: GetLakeSnapshotRequest, GetLakeSnapshotResponse;
    LimitScan: LimitScanRequest, LimitScanResponse;
    PrefixLookup: PrefixLookupRequest, PrefixLookupResponse;
    GetDatabaseInfo: GetDatabaseInfoRequest, GetDatabaseInfoResponse;
    CreatePartition: CreatePartitionRequest, CreatePartitionResponse;
    DropPartition: DropPartitionRequest, DropPartitionResponse;
    Authenticate: AuthenticateRequest, AuthenticateResponse;
    CreateAcls: CreateAclsRequest, CreateAclsResponse;
    ListAcls: ListAclsRequest, ListAclsResponse;
    DropAcls: DropAclsRequest, DropAclsResponse;
    LakeTieringHeartbeat: LakeTieringHeartbeatRequest, LakeTieringHeartbeatResponse;
    ControlledShutdown: ControlledShutdownRequest, ControlledShutdownResponse;
    AlterTable: AlterTableRequest, AlterTableResponse;
    DescribeClusterConfigs: DescribeClusterConfigsRequest, DescribeClusterConfigsResponse;
    AlterClusterConfigs: AlterClusterConfigsRequest, AlterClusterConfigsResponse;
    AddServerTag: AddServerTagRequest, AddServerTagResponse;
    RemoveServerTag: RemoveServerTagRequest, RemoveServerTagResponse;
    Rebalance: RebalanceRequest, RebalanceResponse;
    ListRebalanceProgress: ListRebalanceProgressRequest, ListRebalanceProgressResponse;
    CancelRebalance: CancelRebalanceRequest, CancelRebalanceResponse;
    PrepareLakeTableSnapshot: PrepareLakeTableSnapshotRequest, PrepareLakeTableSnapshotResponse;
    RegisterProducerOffsets: RegisterProducerOffsetsRequest, RegisterProducerOffsetsResponse;
    GetProducerOffsets: GetProducerOffsetsRequest, GetProducerOffsetsResponse;
    DeleteProducerOffsets: DeleteProducerOffsetsRequest, DeleteProducerOffsetsResponse;
    AcquireKvSnapshotLease: AcquireKvSnapshotLeaseRequest, AcquireKvSnapshotLeaseResponse;
    ReleaseKvSnapshotLease: ReleaseKvSnapshotLeaseRequest, ReleaseKvSnapshotLeaseResponse;
    DropKvSnapshotLease: DropKvSnapshotLeaseRequest, DropKvSnapshotLeaseResponse;
    GetTableStats: GetTableStatsRequest, GetTableStatsResponse;
    AlterDatabase: AlterDatabaseRequest, AlterDatabaseResponse;
    ScanKv: ScanKvRequest, ScanKvResponse;
    GetClusterHealth: GetClusterHealthRequest, GetClusterHealthResponse;
    ListRemoteLogManifests: ListRemoteLogManifestsRequest, ListRemoteLogManifestsResponse;
    ListKvSnapshots: ListKvSnapshotsRequest, ListKvSnapshotsResponse;
    AddServerTagByRack: AddServerTagByRackRequest, AddServerTagByRackResponse;
    RemoveServerTagByRack: RemoveServerTagByRackRequest, RemoveServerTagByRackResponse;
}

struct Exchange {
    seq: u64,
    api: Option<ApiKey>,
    version: Option<i16>,
    kind: String,
    request: Bytes,
    response: Option<Bytes>,
    canonical_request: Option<bool>,
    canonical_response: Option<bool>,
    error_code: Option<i64>,
}

fn exchanges() -> Vec<Exchange> {
    let path = std::env::var_os("MAINSTEM_EXCHANGES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/exchanges.jsonl"),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let bytes = |field: &str| {
                value[field]
                    .as_str()
                    .map(|text| Bytes::from(STANDARD.decode(text).unwrap()))
            };
            let number = |field: &str| value[field].as_i64().map(|key| key as i16);
            Exchange {
                seq: value["seq"].as_u64().unwrap(),
                api: number("api_key").and_then(ApiKey::from_code),
                version: number("api_version"),
                kind: value["kind"].as_str().unwrap().to_owned(),
                request: bytes("request").unwrap(),
                response: bytes("response"),
                canonical_request: value["canonical_request"].as_bool(),
                canonical_response: value["canonical_response"].as_bool(),
                error_code: value["error_code"].as_i64(),
            }
        })
        .collect()
}

/// Header and message of a request; `None` if its length is refused.
fn split_request(frame: &Bytes) -> Option<(RequestHeader, Bytes)> {
    let field = frame[..4].try_into().unwrap();
    let length = check_request_length(field, DEFAULT_MAX_REQUEST_BYTES).ok()?;
    assert_eq!(length, frame.len() - 4);
    Some(RequestHeader::parse(frame.slice(4..)).unwrap())
}

#[test]
fn every_request_decodes_and_canonical_ones_encode_to_the_same_bytes() {
    let mut canonical = 0;
    for exchange in exchanges() {
        let seq = exchange.seq;
        let Some((header, body)) = split_request(&exchange.request) else {
            assert_eq!(exchange.kind, "failure", "{seq}");
            continue;
        };
        let Some(api) = exchange.api else {
            assert_eq!(exchange.kind, "unanswered", "{seq}");
            continue;
        };
        assert_eq!(
            (header.api_key, Some(header.api_version)),
            (api.code(), exchange.version)
        );
        match (
            exchange.canonical_request,
            recode_request(api, body.clone()),
        ) {
            (Some(true), Ok(encoded)) => {
                assert_eq!(encoded, body, "{seq}");
                canonical += 1;
            }
            (Some(false), Ok(encoded)) => assert_ne!(encoded, body, "{seq}"),
            (None, Err(_)) => {}
            // The capture is older than the two last APIs and does not judge them.
            (None, Ok(_)) if api > ApiKey::ListKvSnapshots => {}
            (expected, result) => panic!("{seq} {api:?}: {expected:?}, {result:?}"),
        }
    }
    assert!(canonical > 100);
}

#[test]
fn every_response_decodes_and_canonical_ones_encode_to_the_same_bytes() {
    for exchange in exchanges() {
        let seq = exchange.seq;
        let Some(response) = exchange.response else {
            assert_eq!(exchange.kind, "unanswered", "{seq}");
            continue;
        };
        assert_eq!(
            response.len() - 4,
            u32::from_be_bytes(response[..4].try_into().unwrap()) as usize
        );
        let recoded = match ResponseFrame::parse(response.slice(4..)).unwrap() {
            ResponseFrame::Success { request_id, body } => {
                let (header, _) = split_request(&exchange.request).unwrap();
                assert_eq!(
                    (exchange.kind.as_str(), request_id),
                    ("ok", header.request_id),
                    "{seq}"
                );
                let encoded = recode_response(exchange.api.unwrap(), body.clone())
                    .unwrap_or_else(|error| panic!("{seq}: {error}"));
                encoded == body
            }
            ResponseFrame::Error { request_id, error } => {
                let (header, _) = split_request(&exchange.request).unwrap();
                assert_eq!(
                    (exchange.kind.as_str(), request_id),
                    ("error", header.request_id),
                    "{seq}"
                );
                same_error(&error.unwrap(), exchange.error_code, &response[9..])
            }
            ResponseFrame::ServerFailure { error } => {
                assert_eq!(exchange.kind, "failure", "{seq}");
                same_error(&error.unwrap(), exchange.error_code, &response[5..])
            }
        };
        if exchange.kind != "failure" {
            assert_eq!(Some(recoded), exchange.canonical_response, "{seq}");
        }
    }
}

fn same_error(error: &ErrorResponse, code: Option<i64>, body: &[u8]) -> bool {
    assert_eq!(error.error_code.map(i64::from), code);
    error.encode_to_vec() == body
}

#[test]
fn the_capture_covers_all_apis_of_the_reference() {
    let seen: BTreeSet<i16> = exchanges()
        .iter()
        .filter_map(|exchange| exchange.api.map(ApiKey::code))
        .collect();
    let missing: Vec<i16> = (1000..=1064).filter(|key| !seen.contains(key)).collect();
    assert_eq!(missing, [0i16; 0]);
}
