//! Puts, lookups, scans, fetches, closing of idle rows and drops beside each other,
//! on real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstem_net::Response;
use mainstem_tablet::service::TabletService;

use crate::common::keyed::*;
use crate::common::*;

const KEYS: i64 = 4;
const PUTS: i32 = 150;
/// Nobody is forgotten for longer; all is over long before.
const LIMIT: Duration = Duration::from_secs(60);

async fn ask(service: &Arc<TabletService>, client: u64, api_key: i16, body: Bytes) -> Response {
    let call: Call = service
        .call(&session(client), request(api_key, body))
        .into();
    call.ready().await
}

fn version(text: Option<&String>) -> i64 {
    text.map_or(-1, |text| text.parse().expect("a version"))
}

/// Each writer has a key and puts ever newer versions of it.
async fn write(service: Arc<TabletService>, key: i64, acknowledged: Arc<Vec<AtomicI64>>) {
    for sequence in 0..PUTS {
        let ops = [upsert(key, &sequence.to_string())];
        let body = put(1, None, 0, -1, put_batch(key + 1, sequence, &ops));
        put_outcome(ask(&service, key as u64, 1016, body).await).expect("a put");
        acknowledged[key as usize].store(sequence.into(), Ordering::SeqCst);
        // What is acknowledged is found.
        let body = lookup(1, None, 0, &[key]);
        let found = looked_up(ask(&service, key as u64, 1017, body).await, &[key]);
        assert_eq!(found.expect("a lookup"), [Some(sequence.to_string())]);
    }
}

/// Looks up all keys and scans until the last version of each is there; versions
/// never go back.
async fn look(service: Arc<TabletService>, client: u64, acknowledged: Arc<Vec<AtomicI64>>) {
    let keys: Vec<i64> = (0..KEYS).collect();
    let mut last = vec![-1; keys.len()];
    while last.iter().any(|version| *version < i64::from(PUTS) - 1) {
        let promised: Vec<i64> = acknowledged
            .iter()
            .map(|version| version.load(Ordering::SeqCst))
            .collect();
        let found: Vec<i64> = if client.is_multiple_of(2) {
            let body = lookup(1, None, 0, &keys);
            let texts = looked_up(ask(&service, client, 1017, body).await, &keys);
            texts
                .expect("a lookup")
                .iter()
                .map(|text| version(text.as_ref()))
                .collect()
        } else {
            let body = open_scan(1, None, 0, 1 << 20);
            let rows = scanned(ask(&service, client, 1061, body).await)
                .expect("a scan")
                .rows;
            let text = |key| {
                rows.iter()
                    .find(|(found, _)| found == key)
                    .map(|(_, text)| text)
            };
            keys.iter().map(|key| version(text(key))).collect()
        };
        for (at, version) in found.iter().enumerate() {
            assert!(
                *version >= last[at],
                "key {at} went back from {} to {version}",
                last[at]
            );
            assert!(
                *version >= promised[at],
                "key {at}: {version}, not {}",
                promised[at]
            );
        }
        last = found;
    }
}

/// Reads the changelog to its end; each record that is read is found by lookup.
async fn follow(service: Arc<TabletService>, client: u64) {
    let mut next = 0;
    // Of each key the first put is one record, the others are two.
    let end = KEYS * (2 * i64::from(PUTS) - 1);
    while next < end {
        let fetch = Fetch::of(1).bucket(0, next).waiting(1, 50_000);
        let read = Fetch::parse(ask(&service, client, 1015, fetch.encode()).await);
        for batch in read_changes(&read[0]) {
            next = batch.next_offset;
            let Some((_, _, key, text)) = batch.changes.last() else {
                continue;
            };
            let body = lookup(1, None, 0, &[*key]);
            let found = looked_up(ask(&service, client, 1017, body).await, &[*key]);
            let found = found.expect("a lookup");
            assert!(
                version(found[0].as_ref()) >= version(Some(text)),
                "key {key}"
            );
        }
    }
    assert_eq!(next, end);
}

#[test]
fn rows_that_are_closed_and_opened_all_the_time_are_always_found() {
    let disk = disk(1);
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", 1));
    // Idle at once.
    let server = Threaded::start_idle(&disk, &catalog, 0);
    let done = Arc::new(AtomicBool::new(false));
    let upkeep = {
        let (replicas, done) = (server.replicas.clone(), done.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                replicas.maintain();
                std::thread::yield_now();
            }
        })
    };
    let acknowledged: Arc<Vec<AtomicI64>> =
        Arc::new((0..KEYS).map(|_| AtomicI64::new(-1)).collect());
    let all = async {
        let mut tasks = tokio::task::JoinSet::new();
        for key in 0..KEYS {
            tasks.spawn(write(server.service.clone(), key, acknowledged.clone()));
        }
        for client in 100..104 {
            tasks.spawn(look(server.service.clone(), client, acknowledged.clone()));
        }
        for client in 200..202 {
            tasks.spawn(follow(server.service.clone(), client));
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
    };
    let finished = runtime().block_on(async { tokio::time::timeout(LIMIT, all).await });
    done.store(true, Ordering::Relaxed);
    upkeep.join().unwrap();
    assert!(finished.is_ok(), "somebody was forgotten");
}

#[test]
fn a_table_that_is_dropped_under_full_use_leaves_nothing() {
    for round in 0..6 {
        let disk = disk(round);
        let catalog = catalog();
        put_table(&catalog, &TableSpec::keyed(1, "t", 1));
        let server = Threaded::start(&disk, &catalog);
        let puts = Arc::new(AtomicI64::new(0));
        let all = async {
            let mut tasks = tokio::task::JoinSet::new();
            for client in 0..8_i64 {
                let (service, puts) = (server.service.clone(), puts.clone());
                tasks.spawn(async move {
                    for sequence in 0.. {
                        let outcome = match client % 4 {
                            0 | 1 => {
                                let ops = [upsert(client, &sequence.to_string())];
                                let records = put_batch(client, sequence, &ops);
                                let body = put(1, None, 0, -1, records);
                                puts.fetch_add(1, Ordering::Relaxed);
                                put_outcome(ask(&service, client as u64, 1016, body).await).err()
                            }
                            2 => {
                                let body = lookup(1, None, 0, &[0, 1]);
                                let answer = ask(&service, client as u64, 1017, body).await;
                                looked_up(answer, &[0, 1]).err()
                            }
                            _ => {
                                let body = open_scan(1, None, 0, 1 << 20);
                                scanned(ask(&service, client as u64, 1061, body).await).err()
                            }
                        };
                        match outcome {
                            None => tokio::task::yield_now().await,
                            Some(12 | 21) => break,
                            Some(code) => panic!("client {client}: code {code}"),
                        }
                    }
                });
            }
            while puts.load(Ordering::Relaxed) < 40 * round as i64 {
                tokio::task::yield_now().await;
            }
            drop_table(&catalog, "t");
            while let Some(task) = tasks.join_next().await {
                task.expect("no panic");
            }
        };
        let finished = runtime().block_on(async { tokio::time::timeout(LIMIT, all).await });
        assert!(finished.is_ok(), "somebody was forgotten");
        // Files go on a thread of their own, or with the maintenance that comes after
        // the last reader.
        let started = std::time::Instant::now();
        while !server.engine.directories().is_empty() {
            assert!(
                started.elapsed() < LIMIT,
                "{:?}",
                server.engine.directories()
            );
            server.replicas.maintain();
            std::thread::yield_now();
        }
    }
}
