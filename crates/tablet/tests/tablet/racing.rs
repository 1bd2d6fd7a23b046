//! Appends, syncs, failures and reopenings beside each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mainstem_env::Fault;
use mainstem_log::{LogResources, LogTablet};
use mainstem_tablet::produce_wait::{Committed, ProduceWait};

use crate::common::*;

fn server() -> (mainstem_env::SimFileSystem, Server) {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    (disk, server)
}

/// Lets the next sync fail in such a way that the bytes are gone, and has the
/// log opened anew.
fn lose_the_tail(disk: &mainstem_env::SimFileSystem, server: &Server, position: u64) {
    disk.fail(disk.operations() + 1, Fault::Io);
    server.sync();
    let path = format!("{LOG_DIR}/t1/b0/{:020}.log", 0);
    disk.corrupt(std::path::Path::new(&path), position + 60, 0xff)
        .unwrap();
    server.replicas.maintain();
    assert_eq!(server.replica(1, 0).log_end_offset(), 0);
}

#[test]
fn a_batch_that_went_with_its_log_is_not_acknowledged_for_another_in_its_place() {
    let (disk, server) = server();
    let replica = server.replica(1, 0);
    let lost = replica.append(batch(7, 0, &rows(0, 2, 5)), -1).unwrap();
    lose_the_tail(&disk, &server, 0);
    // Another writer gets these offsets.
    assert_eq!(server.append(1, 0, &rows(100, 4, 5)), 0);
    // Only now the first request comes to wait.
    let (wait, mut finished) = ProduceWait::new(&[true]);
    replica.notify_committed(&lost, &wait, 0);
    assert!(finished.try_recv().is_ok());
    assert_eq!(wait.outcomes(), [Some(Committed::StorageFailed)]);
    // Its retry is taken as new.
    let again = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 2, 5))));
    server.sync();
    assert_eq!(server.produced(again)[0].result, Ok(4));
}

#[test]
fn writers_that_wait_while_their_log_is_opened_anew_are_told() {
    let (disk, server) = server();
    let mut waiting = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(0, 2, 5))));
    assert!(!server.is_answered(&mut waiting));
    let replica = server.replica(1, 0);
    let resources = LogResources::new(Arc::new(disk.clone()), LOG_DIR.into(), 16);
    let dir = replica.log().path().to_owned();
    let (log, _) = LogTablet::open(resources, dir, Arc::new(log_config()), 0).unwrap();
    replica.replace_log(Arc::new(log));
    assert_eq!(server.produced(waiting)[0].result, Err(10));
    assert_eq!(replica.waiting(), (0, 0));
}

#[test]
fn a_log_that_cannot_be_opened_at_the_start_is_opened_later() {
    let (disk, server) = server();
    server.append(1, 0, &rows(0, 2, 5));
    let mut unsynced = server.produce(&Produce::to(1, -1).bucket(0, batch(7, 0, &rows(2, 2, 5))));
    assert!(!server.is_answered(&mut unsynced));
    drop(server);
    let disk = disk.process_kill();
    // Cut the last batch, so that the start has to repair, and cannot.
    let path = format!("{LOG_DIR}/t1/b0/{:020}.log", 0);
    let torn = disk.content(std::path::Path::new(&path)).unwrap().len() as u64 - 1;
    disk.corrupt(std::path::Path::new(&path), torn, 0xff)
        .unwrap();
    for number in 1..20 {
        disk.fail(number, Fault::Io);
    }
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let server = Server::start(&disk, &catalog, log_config());
    let request = Produce::to(1, -1).bucket(0, batch(7, 0, &rows(2, 2, 5)));
    assert_eq!(server.produced(server.produce(&request))[0].result, Err(10));
    disk.clear_faults();
    server.replicas.maintain();
    server.sync();
    assert_eq!(
        server.fetched(&Fetch::of(1).bucket(0, 0))[0].rows().len(),
        2
    );
    let retried = server.produce(&request);
    server.sync();
    assert_eq!(server.produced(retried)[0].result, Ok(2));
}

/// Threads of writers and readers on a disk whose syncs fail at times: nobody
/// waits for something that has happened already.
#[test]
fn on_many_threads_nobody_is_forgotten() {
    const BUCKETS: i32 = 3;
    const BATCHES: i32 = 60;
    let disk = disk(1);
    let catalog = catalog();
    let spec = TableSpec {
        buckets: BUCKETS,
        ..TableSpec::default()
    };
    put_table(&catalog, &spec);
    let server = Threaded::start(&disk, &catalog);
    let done = Arc::new(AtomicBool::new(false));
    let failures = Arc::new(AtomicUsize::new(0));
    let upkeep = {
        let (replicas, disk, done) = (server.replicas.clone(), disk.clone(), done.clone());
        std::thread::spawn(move || {
            let mut rounds = 0_u64;
            while !done.load(Ordering::Relaxed) {
                replicas.maintain();
                rounds += 1;
                if rounds.is_multiple_of(50) {
                    disk.fail(disk.operations() + 1, Fault::Io);
                }
                std::thread::yield_now();
            }
        })
    };
    let all = async {
        let mut tasks = tokio::task::JoinSet::new();
        for bucket in 0..BUCKETS {
            for writer in 1..=2 {
                let (service, failures) = (server.service.clone(), failures.clone());
                tasks.spawn(async move {
                    for sequence in 0..BATCHES {
                        let records = batch(writer, sequence, &rows(sequence.into(), 1, 20));
                        let body = Produce::to(1, -1).bucket(bucket, records).encode();
                        loop {
                            let call: Call = service
                                .call(&session(writer as u64), request(1014, body.clone()))
                                .into();
                            match Produce::parse(call.ready().await)[0].result {
                                Ok(_) => break,
                                Err(10) => failures.fetch_add(1, Ordering::Relaxed),
                                Err(code) => panic!("error {code}"),
                            };
                            tokio::task::yield_now().await;
                        }
                    }
                });
            }
            let service = server.service.clone();
            tasks.spawn(async move {
                let mut next = 0;
                while next < i64::from(2 * BATCHES) {
                    let fetch = Fetch::of(1).bucket(bucket, next).waiting(1, 50_000);
                    let call: Call = service
                        .call(&session(100 + bucket as u64), request(1015, fetch.encode()))
                        .into();
                    let read = Fetch::parse(call.ready().await);
                    if read[0].error.is_none() {
                        next = read[0].rows().last().map_or(next, |last| last.offset + 1);
                    }
                }
                assert_eq!(next, i64::from(2 * BATCHES));
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
    };
    // A wait that was forgotten lasts 30 s at least.
    let finished =
        runtime().block_on(async { tokio::time::timeout(Duration::from_secs(20), all).await });
    done.store(true, Ordering::Relaxed);
    upkeep.join().unwrap();
    assert!(finished.is_ok(), "somebody was forgotten");
    println!("{} appends were refused", failures.load(Ordering::Relaxed));
}
