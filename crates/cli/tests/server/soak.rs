//! Any bytes on the port: others are not affected, memory is bounded, nothing
//! panics (the end of a [`mainstem_testkit::Server`] looks for that).

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, Client, Server, Table, Wire, golden, log_table, until};
use mainstem_types::TypeKind;
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{quick, server_with_table};

const SEED: u64 = 20_261_130;
/// What the server may grow by under garbage; a single frame may claim 100 MB.
const GROWTH_MAX: u64 = 96 << 20;

/// Bytes of one connection, and whether they are whole frames that must each be
/// answered.
fn garbage(random: &mut StdRng, recorded: &[golden::Exchange]) -> (Vec<u8>, usize) {
    match random.random_range(0..6) {
        0 => {
            let length = random.random_range(1..4_000);
            (bytes(random, length), 0)
        }
        // Whole frames: a key that exists, and any body.
        1 => {
            let key = ApiKey::ALL[random.random_range(0..ApiKey::ALL.len())].code();
            let length = random.random_range(0..300);
            let body = bytes(random, length);
            (
                Wire::frame(key, random.random_range(-1..4), random.random(), &body),
                1,
            )
        }
        2 => {
            let length = random.random_range(0..40);
            let body = bytes(random, length);
            (
                Wire::frame(random.random(), random.random(), random.random(), &body),
                1,
            )
        }
        // A recorded request with some of its bytes changed.
        3 | 4 => {
            let exchange = &recorded[random.random_range(0..recorded.len())];
            let mut frame = exchange.request.to_vec();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(8..frame.len().max(9));
                if let Some(byte) = frame.get_mut(at) {
                    *byte = random.random();
                }
            }
            (frame, 1)
        }
        // A large claim, and a little of it.
        _ => {
            let mut frame = random
                .random_range(1 << 20..104_857_596_i32)
                .to_be_bytes()
                .to_vec();
            frame.extend(bytes(random, 200));
            (frame, 0)
        }
    }
}

fn bytes(random: &mut StdRng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.random()).collect()
}

/// Appends and reads as long as it is asked to; the longest round trip.
fn keep_working(server: &Server, table: &Table, bucket: i32, stop: &AtomicBool) -> (u64, Duration) {
    let mut client = server.client();
    let (mut rounds, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        // A recorded append may have hit this bucket as well.
        let base = client
            .append(table, bucket, &table.source().numbers([7]))
            .expect("appended");
        let entry = client
            .fetch_one(&table.fetch([(bucket, base)]))
            .expect("readable");
        assert!(entry.high_watermark > Some(base) && !entry.records.expect("records").is_empty());
        slowest = slowest.max(begin.elapsed());
        rounds += 1;
    }
    (rounds, slowest)
}

#[test]
fn random_bytes_hurt_nobody_else() {
    let (server, mut client, table) = server_with_table(&quick(), 2);
    // Requests that would change what the others work on are not replayed.
    let recorded: Vec<_> = golden::exchanges()
        .into_iter()
        .filter(|exchange| exchange.api_key.is_some() && exchange.request.len() > 12)
        .filter(|exchange| {
            let key = exchange.api_key.and_then(ApiKey::from_code);
            !matches!(
                key,
                Some(ApiKey::DropTable | ApiKey::DropDatabase | ApiKey::AlterClusterConfigs)
            )
        })
        .collect();
    let before = server.resident_bytes();
    let stop = AtomicBool::new(false);
    let mut peak = before;
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| keep_working(&server, &table, 1, &stop));
        let mut random = StdRng::seed_from_u64(SEED);
        let mut open: Vec<Wire> = Vec::new();
        for index in 0..2_500 {
            let (bytes, answers) = garbage(&mut random, &recorded);
            let mut wire = server.wire();
            // The server may have closed the connection in the middle.
            let _ = wire.stream().write_all(&bytes);
            for _ in 0..answers {
                let answer = wire.receive_within(Duration::from_secs(90));
                assert!(
                    answer.is_some(),
                    "seed {SEED}, connection {index}: no answer to {bytes:x?}"
                );
            }
            // Some stay open with what they have begun.
            if index % 10 == 0 {
                open.push(wire);
            }
            if index % 100 == 0 {
                peak = peak.max(server.resident_bytes());
            }
        }
        stop.store(true, Ordering::Relaxed);
        let (rounds, slowest) = worker.join().expect("the other client works");
        assert!(rounds > 20, "{rounds} rounds of the other client");
        assert!(
            slowest < Duration::from_secs(10),
            "a round of the other client took {slowest:?}"
        );
    });
    let grown = peak.saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MB more", grown >> 20);
    client
        .append(&table, 0, &table.source().numbers([1]))
        .expect("appended");
}

/// Bytes that a client may announce and send are bounded over all connections
/// (`mainstem.net.request-memory`).
#[test]
fn requests_that_are_never_finished_do_not_fill_the_memory() {
    let (server, mut client, table) = server_with_table(&quick(), 1);
    let before = server.resident_bytes();
    let announced: i32 = 50 << 20;
    let mut open: Vec<Wire> = (0..12).map(|_| server.wire()).collect();
    for wire in &mut open {
        let stream = wire.stream();
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a socket option");
        let mut head = announced.to_be_bytes().to_vec();
        head.extend([0x03, 0xF6, 0, 0, 0, 0, 0, 0]);
        let mut stream = stream;
        // All but the end of the frame, as far as the server takes it.
        let block = vec![0_u8; 1 << 20];
        let _ = stream.write_all(&head);
        for _ in 0..49 {
            if stream.write_all(&block).is_err() {
                break;
            }
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 400 << 20,
        "{} MB for frames that are not whole",
        grown >> 20
    );
    assert_eq!(
        client.append(&table, 0, &table.source().numbers([1])),
        Ok(0)
    );
    drop(open);
    until("the memory to be given back", || {
        (server.resident_bytes().saturating_sub(before) < 150 << 20).then_some(())
    });
}

/// Known failure B175: who does not read its answers holds up nobody.
#[test]
fn clients_that_do_not_read_their_answers_hold_up_nobody() {
    let (server, mut client, table) = server_with_table(&quick(), 1);
    let text = "x".repeat(500_000);
    let big = table
        .source()
        .arrow(&[vec![Value::Int(1), text.as_str().into()]]);
    for _ in 0..4 {
        client.append(&table, 0, &big).expect("appended");
    }
    let before = server.resident_bytes();
    let fetch = table.fetch([(0, 0)]).encode_to_vec();
    let mut deaf: Vec<Wire> = (0..20).map(|_| server.wire()).collect();
    for wire in &mut deaf {
        for _ in 0..50 {
            wire.send(ApiKey::FetchLog.code(), 0, &fetch);
        }
    }
    let begin = Instant::now();
    for _ in 0..20 {
        client
            .append(&table, 0, &table.source().numbers([1]))
            .expect("appended");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    // A thousand answers of 2 MB are asked for; they are not all built.
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 300 << 20,
        "{} MB of answers that nobody reads",
        grown >> 20
    );
    // Who reads late gets all of them.
    let mut late: Client = Client::connect(server.address());
    late.send(ApiKey::FetchLog, &table.fetch([(0, 0)]));
    let answer: pb::FetchLogResponse = late.receive().expect("a success");
    assert_eq!(answer.tables_resp.len(), 1);
    for _ in 0..50 {
        assert!(matches!(deaf[0].receive(), Answer::Success { .. }));
    }
}

/// Projected records are in memory until they are sent; they are bounded over all
/// connections.
#[test]
fn projected_answers_that_nobody_reads_do_not_fill_the_memory() {
    let server = quick().start();
    let mut client = server.client();
    let names: Vec<String> = (0..10).map(|at| format!("c{at}")).collect();
    let columns: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), TypeKind::Int))
        .collect();
    let table = client.create_table("fluss.t", &log_table(&columns, 1));
    let rows: Vec<Vec<Value<'_>>> = (0..300)
        .map(|row| (0..10).map(|at| Value::Int(row * at)).collect())
        .collect();
    let batch = table.source().arrow(&rows);
    for _ in 0..25 {
        let many = (0..12).fold(batch.clone().cut_to(0), |all, _| all.then(&batch));
        client.append(&table, 0, &many).expect("appended");
    }
    let mut fetch = table.fetch_columns(0, 0, &[0, 1, 2, 3, 4, 6, 7, 8, 9]);
    fetch.tables_req[0].buckets_req[0].max_fetch_bytes = Some(64 << 20);
    let whole = client
        .fetch_one(&fetch)
        .expect("readable")
        .records
        .expect("records")
        .len();
    assert!(whole > 2 << 20, "{whole} bytes");
    let before = server.resident_bytes();
    let fetch = fetch.encode_to_vec();
    let mut deaf: Vec<Wire> = (0..16).map(|_| server.wire()).collect();
    for wire in &mut deaf {
        for _ in 0..40 {
            wire.send(ApiKey::FetchLog.code(), 0, &fetch);
        }
    }
    // What is asked for is more than 1.5 GB.
    let mut peak = 0;
    for _ in 0..50 {
        client.append(&table, 0, &batch).expect("appended");
        peak = peak.max(server.resident_bytes().saturating_sub(before));
    }
    assert!(
        peak < 450 << 20,
        "{} MB of answers that nobody reads",
        peak >> 20
    );
    // Those who read get everything they asked for.
    for wire in &mut deaf[..2] {
        for _ in 0..40 {
            assert!(matches!(wire.receive(), Answer::Success { .. }));
        }
    }
}
