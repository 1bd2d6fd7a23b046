//! Requests about rows to a tablet server without a network, on a simulated disk.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstem_env::{FileSystem, ManualClock, SimFileSystem};
use mainstem_format::{KvBatchBuilder, RowFormat, Value};
use mainstem_kv::{KvResources, RecentBudget};
use mainstem_kv::memory::MemoryEngine;
use mainstem_log::{LogConfig, LogResources, Syncer};
use mainstem_meta::records::{BucketRecord, DatabaseRecord, TableRecord};
use mainstem_meta::{BucketState, Catalog, DatabaseEntry, MetaError, SequenceSource, TableEntry};
use mainstem_net::{Reply, Request, Response, Session};
use mainstem_protocol::messages::*;
use mainstem_tablet::disk_guard::DiskGuard;
use mainstem_tablet::metrics::TabletMetrics;
use mainstem_tablet::registry::{Replicas, ReplicasConfig, RowsConfig};
use mainstem_tablet::service::{ScanLimits, TabletService};
use mainstem_types::{DataType, Schema, SchemaId, ServerId, TableId, TablePath, TypeKind};
use prost::Message;
use tokio::runtime::Runtime;

/// Table of the server.
pub const TABLE: i64 = 1;

/// PutKv, Lookup, PrefixLookup, ScanKv, LimitScan and GetTableStats.
const KEYS: [i16; 6] = [1016, 1017, 1034, 1061, 1033, 1059];

struct Server {
    runtime: Runtime,
    service: Arc<TabletService>,
    syncer: Arc<Syncer>,
    session: Arc<Session>,
}

/// Requests one after the other, each of an API and a version that a byte chooses,
/// of a length that two bytes say. Each gets its answer.
pub fn row_requests(data: &[u8]) {
    let server = server();
    let mut rest = data;
    while let Some(([api, low, high], body)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(body.len());
        let (body, next) = body.split_at(length);
        rest = next;
        let request = Request {
            api_key: KEYS[usize::from(*api) % KEYS.len()],
            api_version: i16::from(*api / 32 % 3),
            body: Bytes::copy_from_slice(body),
        };
        server.ask(request);
    }
    // What was written is still read.
    let lookup = LookupRequest {
        table_id: Some(TABLE),
        buckets_req: vec![PbLookupReqForBucket {
            bucket_id: Some(0),
            keys: vec![Bytes::from_static(b"\x02")],
            ..PbLookupReqForBucket::default()
        }],
        ..LookupRequest::default()
    };
    let answer = server.ask(Request {
        api_key: 1017,
        api_version: 1,
        body: lookup.encode_to_vec().into(),
    });
    assert!(matches!(answer, Response::Success(_)));
}

impl Server {
    fn ask(&self, request: Request) -> Response {
        let _inside = self.runtime.enter();
        let reply = self.service.call(&self.session, request);
        while self.syncer.run_next() {}
        match reply {
            Reply::Now(response) => response,
            Reply::Later(future) => self.runtime.block_on(future),
        }
    }
}

fn server() -> Server {
    static CATALOG: OnceLock<Arc<Catalog>> = OnceLock::new();
    let catalog = CATALOG.get_or_init(catalog);
    let disk: Arc<SimFileSystem> = Arc::new(SimFileSystem::new(1));
    for dir in ["/log", "/kv"] {
        disk.create_dir_all(Path::new(dir)).expect("a directory");
    }
    let clock = Arc::new(ManualClock::new(1_000_000));
    let syncer = Arc::new(Syncer::simulated(clock.clone()));
    let config = ReplicasConfig {
        server_id: ServerId(0),
        resources: LogResources::new(disk.clone(), "/log".into(), 64),
        log_dir: "/log".into(),
        log: LogConfig::default(),
        catalog: catalog.clone(),
        clock: clock.clone(),
        disk: Arc::new(DiskGuard::new(0.85, 0.80)),
        min_in_sync_replicas: 1,
        rows: RowsConfig {
            resources: Arc::new(KvResources {
                engine: Arc::new(MemoryEngine::default()),
                files: disk,
                recent: Arc::new(RecentBudget::new(1 << 20)),
                pressure_from_level0_files: 8,
                volatile_boot: None,
            }),
            dir: "/kv".into(),
            numbers: Arc::new(NoNumbers),
            flush_interval_ms: 60_000,
            idle_ms: 10_000,
        },
    };
    let replicas = Replicas::simulated(config, syncer.clone());
    let metrics = TabletMetrics::new(replicas.clone());
    replicas.set_metrics(metrics.clone());
    replicas.open_all((TableId(i64::MAX), PartitionId(i64::MAX))).expect("the directories can be read");
    Server {
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime"),
        service: TabletService::new(replicas, clock, metrics, ScanLimits::default()),
        syncer,
        session: Arc::new(Session {
            id: 1,
            listener: "CLIENT".to_owned(),
            internal: false,
            peer: ([127, 0, 0, 1], 40_000).into(),
            principal: "ANONYMOUS".to_owned(),
        }),
    }
}

/// A table `a INT, b STRING` with two buckets.
fn catalog() -> Arc<Catalog> {
    let catalog = Catalog::new();
    catalog.put_database(Arc::new(DatabaseEntry {
        name: "db".to_owned(),
        record: DatabaseRecord::default(),
    }));
    let schema = Schema::builder()
        .column("a", DataType::not_null(TypeKind::Int))
        .column("b", DataType::nullable(TypeKind::String))
        .primary_key(["a"])
        .build()
        .expect("a schema");
    let record = TableRecord {
        table_id: TABLE,
        comment: None,
        partition_key: Vec::new(),
        bucket_key: vec!["a".to_owned()],
        bucket_count: 2,
        properties: BTreeMap::new(),
        custom_properties: BTreeMap::new(),
        remote_data_dir: None,
        bucket_count_epoch: 0,
        created_time: 1,
        modified_time: 1,
    };
    let bucket = BucketRecord {
        leader: Some(0),
        leader_epoch: 0,
        isr: vec![0],
        coordinator_epoch: 0,
        bucket_epoch: 0,
    };
    let buckets = vec![BucketState::new(&[0], Some(&bucket)); 2];
    let schemas = BTreeMap::from([(SchemaId(1), Arc::new(schema))]);
    let path = TablePath::new("db", "t");
    catalog.put_table(Arc::new(TableEntry::new(path, record, schemas, buckets)));
    Arc::new(catalog)
}

struct NoNumbers;

impl SequenceSource for NoNumbers {
    fn take(&self, table: TableId, _: i32, _: i64) -> Result<RangeInclusive<i64>, MetaError> {
        panic!("table {table} has no auto-increment column");
    }
}

/// A put, a lookup that inserts, and scans, for seeds.
pub fn request_seed() -> Vec<u8> {
    let columns = [
        DataType::not_null(TypeKind::Int),
        DataType::nullable(TypeKind::String),
    ];
    let mut batch = KvBatchBuilder::new(1, -1, -1);
    for (key, text) in [(1, "x"), (2, "yz")] {
        let mut row = Vec::new();
        let values = [Value::Int(key), Value::from(text)];
        RowFormat::Compacted
            .encode(&values, &columns[..], &mut row)
            .expect("a row");
        batch
            .append(&[key as u8 * 2], Some(&row))
            .expect("a record");
    }
    let put = PutKvRequest {
        acks: Some(-1),
        table_id: Some(TABLE),
        timeout_ms: Some(1_000),
        buckets_req: vec![PbPutKvReqForBucket {
            bucket_id: Some(0),
            records: Some(batch.finish()),
            ..PbPutKvReqForBucket::default()
        }],
        ..PutKvRequest::default()
    };
    let lookup = LookupRequest {
        table_id: Some(TABLE),
        insert_if_not_exists: Some(true),
        acks: Some(-1),
        timeout_ms: Some(1_000),
        buckets_req: vec![PbLookupReqForBucket {
            bucket_id: Some(1),
            keys: vec![Bytes::from_static(b"\x02"), Bytes::from_static(b"\x04")],
            ..PbLookupReqForBucket::default()
        }],
    };
    let prefix = PrefixLookupRequest {
        table_id: Some(TABLE),
        buckets_req: vec![PbPrefixLookupReqForBucket {
            bucket_id: Some(1),
            keys: vec![Bytes::new()],
            ..PbPrefixLookupReqForBucket::default()
        }],
    };
    let scan = ScanKvRequest {
        bucket_scan_req: Some(PbScanReqForBucket {
            table_id: Some(TABLE),
            bucket_id: Some(1),
            ..PbScanReqForBucket::default()
        }),
        call_seq_id: Some(0),
        batch_size_bytes: Some(1),
        ..ScanKvRequest::default()
    };
    let limit = LimitScanRequest {
        table_id: Some(TABLE),
        bucket_id: Some(0),
        limit: Some(5),
        ..LimitScanRequest::default()
    };
    let bodies = [
        put.encode_to_vec(),
        lookup.encode_to_vec(),
        prefix.encode_to_vec(),
        scan.encode_to_vec(),
        limit.encode_to_vec(),
    ];
    let mut seed = Vec::new();
    // Multiples of six, and version 1.
    for (api, body) in (36_u8..).zip(bodies) {
        seed.push(api);
        seed.extend_from_slice(&(body.len() as u16).to_le_bytes());
        seed.extend_from_slice(&body);
    }
    seed
}
