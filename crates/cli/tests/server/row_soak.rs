//! Any requests about rows: others are not affected, memory is bounded, nothing
//! panics, and rows and changelog stay one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, PutBytes, Server, Table, Wire, keyed_ab, keyed_table, until};
use mainstem_types::{Schema, TableDescriptor, TypeKind};
use prost::Message;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::{changes, quick};

const SEED: u64 = 20_261_201;
const REQUESTS: usize = 12_000;
/// What the server may grow by.
const GROWTH_MAX: u64 = 200 << 20;

/// Tables of every kind, all with the key `a INT`.
fn tables(client: &mut Client) -> Vec<Table> {
    let columns = [("a", TypeKind::Int), ("b", TypeKind::String)];
    let mut numbered: Schema =
        keyed_table(&[columns[0].clone(), ("b", TypeKind::Int)], &["a"], 1).schema;
    numbered.auto_increment = vec!["b".to_owned()];
    let descriptors = [
        keyed_ab(2),
        keyed_ab(1).with_property("table.changelog.image", "WAL"),
        keyed_ab(1).with_property("table.merge-engine", "first_row"),
        keyed_ab(1)
            .with_property("table.log.format", "INDEXED")
            .with_property("table.kv.format", "INDEXED"),
        keyed_ab(1).with_property("table.delete.behavior", "disable"),
        TableDescriptor::new(numbered).distributed_by(1, Vec::<String>::new()),
    ];
    descriptors
        .iter()
        .enumerate()
        .map(|(at, descriptor)| client.create_table(&format!("fluss.t{at}"), descriptor))
        .collect()
}

fn bytes(random: &mut StdRng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.random()).collect()
}

fn key(random: &mut StdRng, table: &Table) -> Vec<u8> {
    match random.random_range(0..10) {
        0 => {
            let length = random.random_range(0..12);
            bytes(random, length)
        }
        _ => table.puts().key(&[Value::Int(random.random_range(0..50))]),
    }
}

/// A batch of rows and deletes, often damaged.
fn batch(random: &mut StdRng, table: &Table) -> Vec<u8> {
    let puts = table.puts();
    let mut source = puts.clone();
    if random.random_bool(0.3) {
        source = source.with_writer(random.random_range(-1..4), random.random_range(-1..6));
    }
    let is_number = table.schema().columns[1].data_type.kind == TypeKind::Int;
    let records: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..random.random_range(0..6))
        .map(|_| {
            let key = key(random, table);
            let text = "x".repeat(random.random_range(0..300));
            let second = match is_number {
                true => Value::Int(random.random()),
                false => Value::from(text.as_str()),
            };
            let row = puts.row(&[Value::Int(random.random_range(0..50)), second]);
            (key, random.random_bool(0.8).then_some(row))
        })
        .collect();
    let records = records.iter().map(|(key, row)| (&key[..], row.as_deref()));
    let batch = source.records(records);
    match random.random_range(0..8) {
        0 => {
            let at = random.random_range(0..batch.len());
            let byte = random.random();
            batch.set(at, &[byte]).0
        }
        // Under the right checksum.
        1 if batch.len() > PutBytes::HEADER => {
            let at = random.random_range(PutBytes::HEADER..batch.len());
            let byte = random.random();
            batch.set(at, &[byte]).sealed().0
        }
        2 => batch.with_record_count(random.random_range(-1..9)).0,
        3 => batch.with_schema_id(random.random_range(-1..4)).0,
        4 => {
            let length = random.random_range(0..batch.len());
            batch.cut_to(length).0
        }
        _ => batch.0,
    }
}

/// A request about a table, more or less right.
fn request(random: &mut StdRng, tables: &[Table], scans: &[Bytes]) -> (ApiKey, Vec<u8>) {
    let table = tables.choose(random).expect("a table");
    let bucket = random.random_range(-1..3);
    let routing = random.random_bool(0.1).then(|| random.random_range(-1..4));
    let columns: Vec<i32> = match random.random_range(0..4) {
        0 => (0..random.random_range(0..4))
            .map(|_| random.random_range(-2..4))
            .collect(),
        1 => vec![0],
        _ => vec![],
    };
    match random.random_range(0..12) {
        0..5 => {
            let records = batch(random, table);
            let mut put = table.put([(None, bucket, &records[..])]);
            put.buckets_req[0].routing_bucket_count = routing;
            put.acks = Some(*[-1, -1, 0, 1, 5].choose(random).expect("one"));
            put.target_columns = columns;
            put.agg_mode = random.random_bool(0.3).then(|| random.random_range(-1..3));
            (ApiKey::PutKv, put.encode_to_vec())
        }
        5..8 => {
            let keys: Vec<Vec<u8>> = (0..random.random_range(0..20))
                .map(|_| key(random, table))
                .collect();
            let mut lookup = table.lookup([(None, bucket, &keys[..])]);
            lookup.buckets_req[0].routing_bucket_count = routing;
            if random.random_bool(0.3) {
                lookup.insert_if_not_exists = Some(true);
                lookup.acks = random.random_bool(0.9).then_some(-1);
                lookup.timeout_ms = Some(10_000);
            }
            (ApiKey::Lookup, lookup.encode_to_vec())
        }
        8 => {
            let keys = (0..random.random_range(0..4)).map(|_| {
                let length = random.random_range(0..3);
                bytes(random, length).into()
            });
            let entry = pb::PbPrefixLookupReqForBucket {
                bucket_id: Some(bucket),
                keys: keys.collect(),
                ..pb::PbPrefixLookupReqForBucket::default()
            };
            let lookup = pb::PrefixLookupRequest {
                table_id: Some(table.id),
                buckets_req: vec![entry],
            };
            (ApiKey::PrefixLookup, lookup.encode_to_vec())
        }
        9 => (
            ApiKey::ScanKv,
            table
                .open_scan(bucket, random.random_range(-1..400))
                .encode_to_vec(),
        ),
        10 => {
            let id = scans.choose(random).cloned();
            let scan = pb::ScanKvRequest {
                scanner_id: id.or_else(|| Some(Bytes::from(bytes(random, 32)))),
                call_seq_id: Some(random.random_range(0..4)),
                batch_size_bytes: Some(random.random_range(-1..400)),
                close_scanner: random.random_bool(0.5).then_some(true),
                ..pb::ScanKvRequest::default()
            };
            (ApiKey::ScanKv, scan.encode_to_vec())
        }
        _ => {
            let scan = pb::LimitScanRequest {
                table_id: Some(table.id),
                bucket_id: Some(bucket),
                limit: Some(random.random_range(-2..30)),
                routing_bucket_count: routing,
                ..pb::LimitScanRequest::default()
            };
            (ApiKey::LimitScan, scan.encode_to_vec())
        }
    }
}

/// Puts and looks up as long as it is asked to; rounds, and the longest.
fn keep_working(server: &Server, table: &Table, stop: &AtomicBool) -> (u64, Duration) {
    let mut client = server.client();
    let (mut rounds, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let number = 1_000_000 + rounds as i32;
        let end = client.put_records(table, 0, &table.puts().numbers([number]));
        assert!(end.is_ok(), "{end:?}");
        assert!(client.row(table, &[Value::Int(number)]).is_some());
        slowest = slowest.max(begin.elapsed());
        rounds += 1;
    }
    (rounds, slowest)
}

#[test]
fn random_requests_about_rows_hurt_nobody_else() {
    let mut server = quick().start();
    let mut client = server.client();
    let tables = tables(&mut client);
    let own = client.create_table("fluss.own", &keyed_ab(1));
    client
        .put_records(&own, 0, &own.puts().numbers([0]))
        .expect("a put");
    let before = server.resident_bytes();
    let stop = AtomicBool::new(false);
    let mut peak = before;
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| keep_working(&server, &own, &stop));
        let mut random = StdRng::seed_from_u64(SEED);
        let mut wire = server.wire();
        let mut scans = Vec::new();
        for index in 0..REQUESTS {
            let (api, mut body) = request(&mut random, &tables, &scans);
            if random.random_bool(0.05) && !body.is_empty() {
                let at = random.random_range(0..body.len());
                body[at] = random.random();
            }
            let version = random.random_range(0..2);
            wire.send(api.code(), version, &body);
            // Now and then who asked is gone before the answer.
            if random.random_bool(0.01) {
                std::mem::replace(&mut wire, server.wire()).reset();
                continue;
            }
            let answer = wire.receive();
            if let mainstem_testkit::Answer::Success { body, .. } = &answer
                && api == ApiKey::ScanKv
                && let Ok(scan) = pb::ScanKvResponse::decode(body.clone())
            {
                scans.extend(scan.scanner_id);
                if scans.len() > 20 {
                    scans.remove(0);
                }
            }
            let is_answer = !matches!(answer, mainstem_testkit::Answer::Closed);
            assert!(is_answer, "seed {SEED}, request {index}: {api:?} {body:x?}");
            if index % 500 == 0 {
                peak = peak.max(server.resident_bytes());
            }
        }
        stop.store(true, Ordering::Relaxed);
        let (rounds, slowest) = worker.join().expect("the other client works");
        assert!(rounds > 20, "{rounds} rounds of the other client");
        assert!(
            slowest < Duration::from_secs(10),
            "a round took {slowest:?}"
        );
    });
    let grown = peak.saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MB more", grown >> 20);
    let seen: Vec<_> = tables.iter().map(|table| state(&server, table)).collect();
    server.crash();
    for (table, seen) in tables.iter().zip(seen) {
        assert_eq!(state(&server, table), seen, "{}", table.name);
    }
}

/// End of the changelog and its records, that all can be read. The rows say nothing
/// here: keys that are not those of their rows become those when rows are built anew.
fn state(server: &Server, table: &Table) -> (i64, usize) {
    let mut client = server.client();
    let end = client.end(table, 0);
    (end, changes(&mut client, table, 0, 0).len())
}

/// A bare connection sends requests and is gone, again and again (known failure
/// B008).
#[test]
fn clients_that_are_gone_before_their_answers_leave_nothing_behind() {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..100))
        .expect("a put");
    let before = server.open_files();
    let keys: Vec<_> = (0..100)
        .map(|number| table.puts().key(&[Value::Int(number)]))
        .collect();
    let lookup = table.lookup([(None, 0, &keys[..])]).encode_to_vec();
    let put = table
        .put([(None, 0, &table.puts().numbers([7])[..])])
        .encode_to_vec();
    let scan = table.open_scan(0, 1 << 20).encode_to_vec();
    for _ in 0..200 {
        let mut wire: Wire = server.wire();
        for _ in 0..3 {
            wire.send(ApiKey::PutKv.code(), 1, &put);
            wire.send(ApiKey::Lookup.code(), 1, &lookup);
            wire.send(ApiKey::ScanKv.code(), 0, &scan);
        }
        wire.reset();
    }
    until("descriptors to be given back", || {
        (server.open_files() <= before + 5).then_some(())
    });
    assert!(client.row(&table, &[Value::Int(7)]).is_some());
    assert_eq!(client.scan_all(&table, 0).0.len(), 100);
}
