//! Order, long polls, and limits on what is under way (wire.md §1.4, B007,
//! B008).

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use mainstem_net::ServerOptions;
use socket2::SockRef;
use support::*;
use tokio::task::JoinSet;

#[tokio::test]
async fn a_long_poll_does_not_hold_up_what_comes_after_it() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    client.send(&frame(LONG_POLL, 0, 1, b"poll")).await;
    client.send(&frame(LIST_DATABASES, 0, 2, b"")).await;
    assert!(matches!(client.receive().await, Answer::Success(2, _)));
    server.service.open_gate();
    assert_eq!(client.receive().await, Answer::Success(1, "poll".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_start_in_the_order_of_arrival_under_load() {
    let server = TestServer::start();
    let mut clients = JoinSet::new();
    for number in 0..8usize {
        let mut client = server.connect().await;
        clients.spawn(async move {
            // Bodies from tiny to larger than any buffer, long polls between.
            let (count, mut sent) = (400u32, Vec::new());
            let requests: Vec<Vec<u8>> = (0..count)
                .map(|sequence| {
                    let size = [16, 200, 5_000, 70_000][(sequence as usize + number) % 4];
                    let mut body = sequence.to_be_bytes().to_vec();
                    body.resize(size, number as u8);
                    sent.push(Bytes::copy_from_slice(&body[..16]));
                    frame(PRODUCE, 0, sequence as i32, &body)
                })
                .collect();
            let (mut reader, mut writer) = client.stream.split();
            let write = async {
                for (index, request) in requests.iter().enumerate() {
                    if index % 50 == 0 {
                        let poll = frame(LONG_POLL, 0, -1, b"");
                        tokio::io::AsyncWriteExt::write_all(&mut writer, &poll)
                            .await
                            .unwrap();
                    }
                    tokio::io::AsyncWriteExt::write_all(&mut writer, request)
                        .await
                        .unwrap();
                }
            };
            let read = async {
                use tokio::io::AsyncReadExt;
                for expected in 0..count as i32 {
                    let length = reader.read_u32().await.unwrap();
                    let mut answer = vec![0; length as usize];
                    reader.read_exact(&mut answer).await.unwrap();
                    assert_eq!(answer[..5], [&[0u8][..], &expected.to_be_bytes()].concat());
                }
            };
            within(async { tokio::join!(write, read) }).await;
            (client, sent)
        });
    }
    let mut expected: Vec<Vec<Bytes>> = Vec::new();
    let mut open = Vec::new();
    while let Some(done) = clients.join_next().await {
        let (client, sent) = done.unwrap();
        open.push(client);
        expected.push(sent);
    }
    let mut seen: Vec<Vec<Bytes>> = server.service.log.lock().values().cloned().collect();
    seen.sort();
    expected.sort();
    assert!(seen == expected, "order of a connection was not kept");
    assert_eq!(server.service.waiting_polls(), 8 * 8);
}

#[tokio::test]
async fn a_reset_drops_what_is_in_flight_and_tells_the_service_once() {
    let server = TestServer::start();
    for round in 1..=50 {
        let mut client = server.connect().await;
        for id in 0..20 {
            client.send(&frame(LONG_POLL, 0, id, b"x")).await;
        }
        client
            .send(&frame(PRODUCE, 0, 99, &[1; 100_000])[..50_000])
            .await;
        until("they wait", || server.service.waiting_polls() == 20).await;
        SockRef::from(&client.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(client);
        until("they are dropped", || server.service.waiting_polls() == 0).await;
        until("it is told", || {
            server.service.closed.load(Ordering::SeqCst) == round
        })
        .await;
    }
    until("all are gone", || server.stats.open_connections() == 0).await;
    assert_eq!(server.stats.in_flight(), 0);
    assert_eq!(server.stats.request_memory_bytes(), 0);
    assert_eq!(server.stats.response_memory_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiny_queues_never_leave_a_connection_unread() {
    // B007: more connections and pipelined requests than any limit.
    for limit in [0, 1] {
        let server = TestServer::with_options(ServerOptions {
            max_queued_requests: limit,
            max_in_flight_per_connection: limit,
            max_in_flight: limit,
            request_memory_bytes: limit as u64,
            response_memory_bytes: limit as u64,
            ..Default::default()
        });
        let mut clients = JoinSet::new();
        for _ in 0..100 {
            let mut client = server.connect().await;
            clients.spawn(async move {
                let count = 300;
                let requests: Vec<u8> = (0..count)
                    .flat_map(|id| frame(PRODUCE, 0, id, &[1; 20]))
                    .collect();
                let big = frame(PRODUCE, 0, count, &[1; 20_000]);
                let (mut reader, mut writer) = client.stream.split();
                let write = async {
                    use tokio::io::AsyncWriteExt;
                    writer.write_all(&requests).await.unwrap();
                    writer.write_all(&big).await.unwrap();
                };
                let read = async {
                    use tokio::io::AsyncReadExt;
                    let mut answers = vec![0; (count as usize + 1) * (4 + 5 + 16)];
                    reader.read_exact(&mut answers).await.unwrap();
                };
                tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(write, read) })
                    .await
                    .expect("a connection is not read any more");
            });
        }
        let mut fresh = server.connect().await;
        let answered = tokio::time::timeout(Duration::from_secs(1), fresh.assert_usable()).await;
        assert!(answered.is_ok(), "a fresh client waits behind the others");
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
        let mut fresh = server.connect().await;
        assert_eq!(fresh.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 0);
    }
}

#[tokio::test]
async fn a_connection_is_read_again_when_its_own_requests_are_done() {
    let server = TestServer::with_options(ServerOptions {
        max_in_flight_per_connection: 3,
        ..Default::default()
    });
    let mut client = server.connect().await;
    for id in 0..10 {
        client.send(&frame(LONG_POLL, 0, id, b"x")).await;
    }
    until("three wait", || server.service.waiting_polls() == 3).await;
    let mut other = server.connect().await;
    other.assert_usable().await;
    assert_eq!(server.service.waiting_polls(), 3);
    server.service.open_gate();
    let mut answered = Vec::new();
    for _ in 0..10 {
        let Answer::Success(id, _) = client.receive().await else {
            panic!("refused")
        };
        answered.push(id);
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn long_polls_of_many_do_not_keep_others_out() {
    let server = TestServer::with_options(ServerOptions {
        max_queued_requests: 1,
        max_in_flight: 10,
        ..Default::default()
    });
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = server.connect().await;
        for id in 0..10 {
            reader.send(&frame(LONG_POLL, 0, id, b"x")).await;
        }
        readers.push(reader);
    }
    until("all wait", || server.service.waiting_polls() == 200).await;
    let mut client = server.connect().await;
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 0);
}
