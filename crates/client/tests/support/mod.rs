//! A server in this process with one primary-key table in memory: it keeps what
//! is put, checks sequences, and fails when it is told to.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_client::{Client, ClientOptions, TableInfo};
use mainstem_format::value_batch::put_stored_value;
use mainstem_format::{KvBatch, ValueBatchBuilder};
use mainstem_net::{
    BoundServer, Listener, Reply, Request, Response, SecurityProtocol, ServerOptions, Service,
    Session,
};
use mainstem_protocol::{ApiKey, Required, Shaped, decode, messages as pb};
use mainstem_types::{Schema, TableDescriptor, TableId, TablePath};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

const TABLE_ID: i64 = 7;
/// Sessions that a scan may have open.
const MAX_SCANNERS: usize = 3;

/// One bucket: its rows by key, and who wrote last.
#[derive(Default)]
struct Bucket {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    log_end: i64,
    sequences: HashMap<i64, i32>,
}

struct Scanner {
    values: VecDeque<Vec<u8>>,
    next_call: i32,
}

/// What the server has, and what it saw.
#[derive(Default)]
pub struct State {
    bucket_count: i32,
    port: u16,
    writers: i64,
    pub schemas: HashMap<i32, Schema>,
    /// By name: id of the partition.
    pub partitions: BTreeMap<String, i64>,
    partitioned: bool,
    buckets: BTreeMap<(Option<i64>, i32), Bucket>,
    /// Codes that the next bucket entries of an API are answered with.
    pub failures: HashMap<i16, VecDeque<i32>>,
    /// Pressure that successful puts report.
    pub pressure: Option<f32>,
    pub puts: Vec<pb::PutKvRequest>,
    pub put_versions: Vec<i16>,
    pub lookups: Vec<pb::LookupRequest>,
    scanners: HashMap<Vec<u8>, Scanner>,
    pub scanners_opened: u64,
    /// Records applied, counted once each.
    pub applied: usize,
}

impl State {
    /// All rows, as key and stored value.
    pub fn rows(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let rows = self.buckets.values().flat_map(|bucket| &bucket.rows);
        rows.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Sessions that are open.
    pub fn open_scanners(&self) -> usize {
        self.scanners.len()
    }

    /// Stores a value past all writers.
    pub fn insert(&mut self, partition: Option<i64>, bucket: i32, key: &[u8], value: Vec<u8>) {
        let bucket = self.buckets.entry((partition, bucket)).or_default();
        bucket.rows.insert(key.to_vec(), value);
        bucket.log_end += 1;
    }

    fn failure(&mut self, api: ApiKey) -> Option<i32> {
        self.failures.get_mut(&api.code())?.pop_front()
    }
}

/// The server; it stops when it is dropped.
pub struct FakeServer {
    pub state: Arc<Mutex<State>>,
    pub table: TableInfo,
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl FakeServer {
    /// Starts a server with an empty table.
    pub fn start(descriptor: TableDescriptor) -> Self {
        let state = State {
            bucket_count: descriptor.bucket_count.unwrap_or(1),
            partitioned: descriptor.is_partitioned(),
            schemas: HashMap::from([(1, descriptor.schema.clone())]),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let listener = Listener {
            name: "FLUSS".to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            protocol: SecurityProtocol::Plaintext,
            internal: false,
        };
        let server = BoundServer::bind(vec![listener], ServerOptions::default()).expect("a port");
        let address = server.addresses()[0].1;
        state.lock().port = address.port();
        let shutdown = CancellationToken::new();
        let service = Arc::new(FakeService {
            state: state.clone(),
        });
        tokio::spawn(server.serve(service, shutdown.clone()));
        let table = TableInfo {
            path: TablePath::new("db", "t"),
            table_id: TableId(TABLE_ID),
            schema_id: 1,
            descriptor,
            created_ms: 0,
            modified_ms: 0,
        };
        Self {
            state,
            table,
            address,
            shutdown,
        }
    }

    pub async fn client(&self) -> Client {
        let bootstrap = [self.address.to_string()];
        let client = Client::connect(&bootstrap, ClientOptions::default()).await;
        client.expect("the server answers")
    }

    /// The next entries of an API are answered with these codes.
    pub fn fail(&self, api: ApiKey, codes: impl IntoIterator<Item = i32>) {
        let mut state = self.state.lock();
        state.failures.entry(api.code()).or_default().extend(codes);
    }
}

struct FakeService {
    state: Arc<Mutex<State>>,
}

const APIS: [(i16, i16, i16); 9] = [
    (1011, 0, 0),
    (1012, 0, 0),
    (1016, 0, 3),
    (1017, 0, 1),
    (1026, 0, 0),
    (1033, 0, 0),
    (1034, 0, 1),
    (1036, 0, 0),
    (1061, 0, 0),
];

impl Service for FakeService {
    fn apis(&self) -> &[(i16, i16, i16)] {
        &APIS
    }

    fn call(&self, _: &Arc<Session>, request: Request) -> Reply {
        let state = &mut *self.state.lock();
        let api = ApiKey::from_code(request.api_key).expect("an API that is offered");
        let body = request.body;
        Reply::Now(match api {
            ApiKey::GetTableSchema => schema(state, &read(body)),
            ApiKey::GetMetadata => metadata(state, &read(body)),
            ApiKey::InitWriter => {
                let writer_id = Some(11 + state.writers);
                state.writers += 1;
                Response::message(&pb::InitWriterResponse { writer_id })
            }
            ApiKey::CreatePartition => create_partition(state, &read(body)),
            ApiKey::PutKv => {
                state.put_versions.push(request.api_version);
                put(state, read(body))
            }
            ApiKey::Lookup => lookup(state, read(body)),
            ApiKey::PrefixLookup => prefix_lookup(state, &read(body)),
            ApiKey::LimitScan => limit_scan(state, &read(body)),
            ApiKey::ScanKv => scan_kv(state, &read(body)),
            other => panic!("{other:?} is not offered"),
        })
    }
}

fn read<M: prost::Message + Default + Required + Shaped>(body: Bytes) -> M {
    decode(body).expect("a message")
}

fn schema(state: &State, request: &pb::GetTableSchemaRequest) -> Response {
    let id = request.schema_id.expect("a schema id");
    match state.schemas.get(&id) {
        Some(schema) => Response::message(&pb::GetTableSchemaResponse {
            schema_id: Some(id),
            schema_json: Some(schema.to_json_bytes().into()),
        }),
        None => Response::error(9, "no such schema"),
    }
}

fn metadata(state: &State, request: &pb::MetadataRequest) -> Response {
    let node = pb::PbServerNode {
        node_id: Some(0),
        host: Some("127.0.0.1".to_owned()),
        port: Some(state.port.into()),
        ..pb::PbServerNode::default()
    };
    let buckets: Vec<pb::PbBucketMetadata> = (0..state.bucket_count)
        .map(|bucket| pb::PbBucketMetadata {
            bucket_id: Some(bucket),
            leader_id: Some(0),
            ..pb::PbBucketMetadata::default()
        })
        .collect();
    let mut answer = pb::MetadataResponse {
        coordinator_server: Some(node.clone()),
        tablet_servers: vec![node],
        ..pb::MetadataResponse::default()
    };
    for path in &request.table_path {
        answer.table_metadata.push(pb::PbTableMetadata {
            table_path: Some(path.clone()),
            table_id: Some(TABLE_ID),
            schema_id: Some(1),
            table_json: Some(Bytes::from_static(b"{}")),
            created_time: Some(0),
            modified_time: Some(0),
            bucket_metadata: buckets.clone(),
            ..pb::PbTableMetadata::default()
        });
    }
    for path in &request.partitions_path {
        let name = path.partition_name.clone().expect("a name");
        let Some(id) = state.partitions.get(&name) else {
            return Response::error(36, "no such partition");
        };
        answer.partition_metadata.push(pb::PbPartitionMetadata {
            table_id: Some(TABLE_ID),
            partition_name: Some(name),
            partition_id: Some(*id),
            bucket_metadata: buckets.clone(),
            ..pb::PbPartitionMetadata::default()
        });
    }
    Response::message(&answer)
}

fn create_partition(state: &mut State, request: &pb::CreatePartitionRequest) -> Response {
    let spec = request.partition_spec.as_ref().expect("a spec");
    let values = spec.partition_key_values.iter();
    let values: Vec<String> = values.filter_map(|pair| pair.value.clone()).collect();
    let next = 100 + i64::try_from(state.partitions.len()).expect("few");
    state.partitions.entry(values.join("$")).or_insert(next);
    Response::message(&pb::CreatePartitionResponse::default())
}

fn put(state: &mut State, request: pb::PutKvRequest) -> Response {
    let mut answer = pb::PutKvResponse::default();
    for entry in &request.buckets_req {
        let mut done = pb::PbPutKvRespForBucket {
            partition_id: entry.partition_id,
            bucket_id: entry.bucket_id,
            ..pb::PbPutKvRespForBucket::default()
        };
        assert_eq!(entry.routing_bucket_count, Some(state.bucket_count));
        assert_eq!(entry.partition_id.is_some(), state.partitioned);
        match state
            .failure(ApiKey::PutKv)
            .map_or_else(|| apply(state, entry), Err)
        {
            Ok(log_end) => {
                done.log_end_offset = Some(log_end);
                done.pressure = state.pressure;
            }
            Err(code) => done.error_code = Some(code),
        }
        answer.buckets_resp.push(done);
    }
    state.puts.push(request);
    Response::message(&answer)
}

/// As a server does: exactly the next sequence, a known one once more, or 31.
fn apply(state: &mut State, entry: &pb::PbPutKvReqForBucket) -> Result<i64, i32> {
    let batch = KvBatch::parse(entry.records.clone().expect("records")).expect("a KV batch");
    let place = (entry.partition_id, entry.bucket_id.expect("a bucket"));
    let bucket = state.buckets.entry(place).or_default();
    let last = bucket
        .sequences
        .get(&batch.writer_id())
        .copied()
        .unwrap_or(-1);
    if batch.batch_sequence() <= last {
        return Ok(bucket.log_end);
    }
    if batch.batch_sequence() != last + 1 {
        return Err(31);
    }
    bucket
        .sequences
        .insert(batch.writer_id(), batch.batch_sequence());
    for record in batch.records() {
        match record.row {
            Some(row) => {
                let mut value = Vec::new();
                put_stored_value(batch.schema_id(), row, &mut value);
                bucket.rows.insert(record.key.to_vec(), value);
            }
            None => drop(bucket.rows.remove(record.key)),
        }
        bucket.log_end += 1;
        state.applied += 1;
    }
    Ok(bucket.log_end)
}

fn lookup(state: &mut State, request: pb::LookupRequest) -> Response {
    let mut answer = pb::LookupResponse::default();
    for entry in &request.buckets_req {
        let place = (entry.partition_id, entry.bucket_id.expect("a bucket"));
        let failure = state.failure(ApiKey::Lookup);
        let bucket = state.buckets.entry(place).or_default();
        let value = |key: &Bytes| pb::PbValue {
            values: bucket.rows.get(key.as_ref()).cloned().map(Bytes::from),
        };
        answer.buckets_resp.push(pb::PbLookupRespForBucket {
            partition_id: place.0,
            bucket_id: Some(place.1),
            error_code: failure,
            values: match failure {
                Some(_) => Vec::new(),
                None => entry.keys.iter().map(value).collect(),
            },
            ..pb::PbLookupRespForBucket::default()
        });
    }
    state.lookups.push(request);
    Response::message(&answer)
}

fn prefix_lookup(state: &mut State, request: &pb::PrefixLookupRequest) -> Response {
    let mut answer = pb::PrefixLookupResponse::default();
    for entry in &request.buckets_req {
        let place = (entry.partition_id, entry.bucket_id.expect("a bucket"));
        let bucket = state.buckets.entry(place).or_default();
        let list = |prefix: &Bytes| pb::PbValueList {
            values: bucket
                .rows
                .iter()
                .filter(|(key, _)| key.starts_with(prefix))
                .map(|(_, value)| Bytes::from(value.clone()))
                .collect(),
        };
        answer.buckets_resp.push(pb::PbPrefixLookupRespForBucket {
            partition_id: place.0,
            bucket_id: Some(place.1),
            value_lists: entry.keys.iter().map(list).collect(),
            ..pb::PbPrefixLookupRespForBucket::default()
        });
    }
    Response::message(&answer)
}

fn value_batch<'v>(values: impl Iterator<Item = &'v Vec<u8>>) -> Bytes {
    let mut batch = ValueBatchBuilder::default();
    for value in values {
        batch.append(value).expect("a small batch");
    }
    batch.finish()
}

fn limit_scan(state: &mut State, request: &pb::LimitScanRequest) -> Response {
    let place = (request.partition_id, request.bucket_id.expect("a bucket"));
    let limit = usize::try_from(request.limit.expect("a limit")).expect("not negative");
    let bucket = state.buckets.entry(place).or_default();
    Response::message(&pb::LimitScanResponse {
        is_log_table: Some(false),
        records: Some(value_batch(bucket.rows.values().take(limit))),
        ..pb::LimitScanResponse::default()
    })
}

fn scan_kv(state: &mut State, request: &pb::ScanKvRequest) -> Response {
    let failed = |code| {
        Response::message(&pb::ScanKvResponse {
            error_code: Some(code),
            ..pb::ScanKvResponse::default()
        })
    };
    if let Some(code) = state.failure(ApiKey::ScanKv) {
        return failed(code);
    }
    let mut answer = pb::ScanKvResponse::default();
    let id = match &request.bucket_scan_req {
        Some(open) => {
            let place = (open.partition_id, open.bucket_id.expect("a bucket"));
            let bucket = state.buckets.entry(place).or_default();
            answer.log_offset = Some(bucket.log_end);
            if bucket.rows.is_empty() {
                answer.has_more_results = Some(false);
                return Response::message(&answer);
            }
            if state.scanners.len() >= MAX_SCANNERS {
                return failed(69);
            }
            state.scanners_opened += 1;
            let id = format!("{:032x}", state.scanners_opened).into_bytes();
            let scanner = Scanner {
                values: bucket.rows.values().cloned().collect(),
                next_call: 0,
            };
            state.scanners.insert(id.clone(), scanner);
            id
        }
        None => request.scanner_id.clone().expect("an id").to_vec(),
    };
    answer.scanner_id = Some(Bytes::from(id.clone()));
    if request.close_scanner == Some(true) {
        state.scanners.remove(&id);
        answer.has_more_results = Some(false);
        return Response::message(&answer);
    }
    let Some(scanner) = state.scanners.get_mut(&id) else {
        return failed(67);
    };
    if request.call_seq_id != Some(scanner.next_call) {
        state.scanners.remove(&id);
        return failed(68);
    }
    scanner.next_call += 1;
    let budget = usize::try_from(request.batch_size_bytes.expect("a size")).expect("positive");
    let (mut values, mut bytes) = (Vec::new(), 0);
    while bytes < budget
        && let Some(value) = scanner.values.pop_front()
    {
        bytes += value.len();
        values.push(value);
    }
    let more = !scanner.values.is_empty();
    if !more {
        state.scanners.remove(&id);
    }
    answer.has_more_results = Some(more);
    answer.records = Some(value_batch(values.iter()));
    Response::message(&answer)
}
