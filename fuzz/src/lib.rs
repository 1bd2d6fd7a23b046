//! What the fuzz targets run, as functions: they return nothing, and must neither
//! panic nor take memory out of proportion to their input.

mod requests_of_rows;
mod rows;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstem_format::row_batch::decode_rows;
use mainstem_format::{
    ArrowBatchDecoder, BatchHeader, BatchSpec, Batches, Columns, Filter, KvBatch, LeafFunction,
    LogBatch, Magic, Predicate, Projection, ReadWindow, RowFormat, SchemaLayout, Statistics,
    Timestamp, Value, ValueBatch, check_append,
};
use mainstem_protocol::frame::{
    DEFAULT_MAX_REQUEST_BYTES, check_request_length, check_response_length,
};
use mainstem_protocol::messages::*;
use mainstem_protocol::{ApiKey, RequestHeader, ResponseFrame, decode};
use mainstem_types::{LogFormat, Schema};

pub use requests_of_rows::{request_seed, row_requests};
pub use rows::{key, put, put_seed, row};

/// What decompressed batches may take here.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;

/// Bytes of a connection, read as requests and as responses.
pub fn frame(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let mut rest = data.clone();
    while let Some(field) = rest.first_chunk() {
        let Ok(length) = check_request_length(*field, DEFAULT_MAX_REQUEST_BYTES) else {
            break;
        };
        if rest.len() - 4 < length {
            break;
        }
        let frame = rest.split_to(4 + length).slice(4..);
        let (header, body) = RequestHeader::parse(frame).expect("the length was checked");
        if let Some(api) = ApiKey::from_code(header.api_key) {
            decode_request(api, body);
        }
    }
    if let Some(field) = data.first_chunk()
        && let Ok(length) = check_response_length(*field, DEFAULT_MAX_REQUEST_BYTES)
        && data.len() - 4 >= length
    {
        let _ = ResponseFrame::parse(data.slice(4..4 + length));
    }
    let _ = ResponseFrame::parse(data);
}

/// An API, chosen by the first byte, and the body of its request.
pub fn requests(data: &[u8]) {
    if let Some((api, body)) = split_api(data) {
        decode_request(api, body);
    }
}

/// An API, chosen by the first byte, and the body of its response.
pub fn responses(data: &[u8]) {
    if let Some((api, body)) = split_api(data) {
        decode_response(api, body);
    }
}

fn split_api(data: &[u8]) -> Option<(ApiKey, Bytes)> {
    let (api, body) = data.split_first()?;
    let api = ApiKey::ALL[usize::from(*api) % ApiKey::ALL.len()];
    Some((api, Bytes::copy_from_slice(body)))
}

macro_rules! decoders {
    ($($api:ident: $request:ident, $response:ident;)*) => {
        fn decode_request(api: ApiKey, body: Bytes) {
            match api { $(ApiKey::$api => drop(decode::<$request>(body)),)* }
        }
        fn decode_response(api: ApiKey, body: Bytes) {
            match api { $(ApiKey::$api => drop(decode::<$response>(body)),)* }
        }
    };
}

decoders! {
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

/// A schema with every data type, nested ones too.
pub(crate) fn schema() -> &'static (Schema, Arc<SchemaLayout>) {
    static SCHEMA: OnceLock<(Schema, Arc<SchemaLayout>)> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let json = include_bytes!("../testdata/schema.json");
        let schema = Schema::from_json_bytes(json).expect("the schema is sound");
        let layout = Arc::new(SchemaLayout::new(&schema));
        (schema, layout)
    })
}

/// Records of a produce request as they come: for every log format.
pub fn log_batch(data: &[u8]) {
    let records = Bytes::copy_from_slice(data);
    let (_, layout) = schema();
    for format in [LogFormat::Arrow, LogFormat::Indexed, LogFormat::Compacted] {
        let _ = check_append(&records, format, &|_| Some(Arc::clone(layout)));
    }
    for batch in Batches::new(&records) {
        let Ok(batch) = batch else { break };
        let _ = (
            batch.verify_crc(),
            batch.change_types(),
            batch.arrow_message(),
        );
        let _ = Statistics::parse(batch.statistics());
        read(batch.bytes());
    }
    read(&records);
}

/// The Arrow message of a batch that is sound otherwise. The first bytes choose
/// the number of records, change types and the version.
pub fn arrow_metadata(data: &[u8]) {
    let Some(([choice, count], message)) =
        data.split_first_chunk().map(|(head, rest)| (*head, rest))
    else {
        return;
    };
    if let Some(batch) = sound_batch(choice, count, message) {
        let (_, layout) = schema();
        let _ = check_append(&batch, LogFormat::Arrow, &|_| Some(Arc::clone(layout)));
        read(&batch);
    }
}

/// The rows of a batch that is sound otherwise, in both row formats.
pub fn row_batch(data: &[u8]) {
    let Some(([choice, count], rows)) = data.split_first_chunk().map(|(head, rest)| (*head, rest))
    else {
        return;
    };
    let Some(batch) = sound_batch(choice & !1, count, rows) else {
        return;
    };
    let (schema, layout) = schema();
    for (format, row_format) in [
        (LogFormat::Indexed, RowFormat::Indexed),
        (LogFormat::Compacted, RowFormat::Compacted),
    ] {
        let _ = check_append(&batch, format, &|_| Some(Arc::clone(layout)));
        let _ = decode_rows(&batch, row_format, schema);
        let _ = row_format.decode(rows, schema.columns.as_slice());
    }
    let _ = RowFormat::Aligned.decode(rows, schema.columns.as_slice());
}

fn sound_batch(choice: u8, count: u8, records: &[u8]) -> Option<Bytes> {
    let magic = [Magic::V0, Magic::V1, Magic::V2][usize::from(choice >> 1) % 3];
    let spec = BatchSpec {
        magic,
        append_only: choice & 1 == 0,
        ..BatchSpec::default()
    };
    let change_types = if spec.append_only {
        Vec::new()
    } else {
        vec![0; count.into()]
    };
    spec.build(count.into(), &[], &change_types, records)
        .ok()
        .map(Bytes::from)
}

/// What a server and a client do with a stored batch.
fn read(batch: &Bytes) {
    let (schema, layout) = schema();
    let columns = [0, 2, 9, 20, 24];
    for columns in [
        Columns::All,
        Columns::Selected(&columns),
        Columns::Projected(&columns),
    ] {
        let decoder = ArrowBatchDecoder::new(schema, columns).expect("the columns exist");
        let decoder = decoder
            .with_crc_check(false)
            .with_decompressed_bytes_max(DECOMPRESSED_BYTES_MAX);
        let _ = decoder.decode(batch);
    }
    let versions = [(1, Arc::clone(layout))];
    let fields: Vec<i32> = columns.iter().map(|column| *column as i32).collect();
    let projection = Projection::new(&versions, &fields).expect("the columns exist");
    let mut window = ReadWindow::new(&batch[..], batch.len() as u64);
    if let Ok(Some(header)) = window.batch_header(0) {
        let _ = window.statistics(0, &header).map(Statistics::parse);
        if let Ok(projected) = projection.project(&mut window, 0, &header) {
            let _ = projected.assemble(&batch[..]);
        }
    }
}

/// Records of a put request, and values that a lookup returned.
pub fn kv_batch(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let (schema, _) = schema();
    if let Ok(batch) = KvBatch::parse(bytes.clone()) {
        for row in batch.records().filter_map(|record| record.row) {
            let _ = RowFormat::Compacted.decode(row, schema.columns.as_slice());
        }
    }
    if let Ok(batch) = ValueBatch::parse(bytes) {
        assert_eq!(batch.records().count(), batch.record_count());
    }
}

/// A predicate as the protocol has it, and one made from the bytes that judges
/// the rest of them as the statistics of a batch.
pub fn predicate(data: &[u8]) {
    let _ = decode::<PbPredicate>(Bytes::copy_from_slice(data));
    let mut bytes = data;
    let predicate = any_predicate(&mut bytes, 0);
    let versions = [(1, Arc::clone(&schema().1))];
    let Some(filter) = Filter::new(&versions, 1, &predicate) else {
        return;
    };
    let spec = BatchSpec {
        magic: Magic::V1,
        ..BatchSpec::default()
    };
    if let Ok(batch) = spec.build(bytes.len().min(100) as i32, bytes, &[], &[]) {
        let header = BatchHeader::parse(&batch).expect("it was just built");
        let _ = filter.may_match(&header, bytes);
    }
}

fn any_predicate(bytes: &mut &[u8], depth: usize) -> Predicate {
    let kind = next(bytes);
    if depth < 8 && kind.is_multiple_of(4) {
        let children = (0..next(bytes) % 4)
            .map(|_| any_predicate(bytes, depth + 1))
            .collect();
        return if kind & 4 == 0 {
            Predicate::And(children)
        } else {
            Predicate::Or(children)
        };
    }
    Predicate::Leaf {
        function: LeafFunction::from_code((kind % 13).into()).expect("there are 13"),
        column_id: (next(bytes) % 28).into(),
        literals: (0..next(bytes) % 3).map(|_| any_literal(bytes)).collect(),
    }
}

fn any_literal(bytes: &mut &[u8]) -> Value<'static> {
    let kind = next(bytes);
    let number = i64::from_le_bytes(std::array::from_fn(|_| next(bytes)));
    match kind % 14 {
        0 => Value::Null,
        1 => Value::Boolean(number & 1 == 1),
        2 => Value::TinyInt(number as i8),
        3 => Value::SmallInt(number as i16),
        4 => Value::Int(number as i32),
        5 => Value::BigInt(number),
        6 => Value::Float(f32::from_bits(number as u32)),
        7 => Value::Double(f64::from_bits(number as u64)),
        8 => Value::String(Cow::Owned(number.to_string())),
        9 => Value::Decimal(number.into()),
        10 => Value::Date(number as i32),
        11 => Value::Time(number as i32),
        12 => Value::Timestamp(Timestamp {
            millis: number,
            nanos_of_milli: kind.into(),
        }),
        _ => Value::Bytes(Cow::Owned(number.to_le_bytes().to_vec())),
    }
}

/// The next byte; 0 when there are no more.
pub(crate) fn next(bytes: &mut &[u8]) -> u8 {
    let Some((first, rest)) = bytes.split_first() else {
        return 0;
    };
    *bytes = rest;
    *first
}

/// Parses one batch; for seeds.
pub fn first_batch(records: &Bytes) -> Option<LogBatch> {
    LogBatch::parse(records).ok()
}
