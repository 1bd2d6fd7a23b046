//! Memory, idle connections, too many connections, any bytes, the end of the
//! server (reliability.md P16, P17; B003, B015).

mod support;

use std::time::Duration;

use bytes::Bytes;
use mainstem_net::{BoundServer, Listener, NetError, SecurityProtocol, Segment, ServerOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MIB: u64 = 1024 * 1024;

#[tokio::test]
async fn half_frames_of_many_stay_within_the_memory_limit_and_all_complete() {
    let limit = 4 * MIB;
    let server = TestServer::with_options(ServerOptions {
        request_memory_bytes: limit,
        ..Default::default()
    });
    // Forty frames of 1 MiB: ten times the limit.
    let size = MIB as usize;
    let mut clients = Vec::new();
    for number in 0..40u8 {
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move {
            let request = frame(PRODUCE, 0, 1, &vec![number; size]);
            client.send(&request[..size / 2]).await;
            client.send(&request[size / 2..]).await;
            assert!(matches!(client.receive().await, Answer::Success(1, _)));
        }));
    }
    let mut highest = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        highest = highest.max(server.stats.request_memory_bytes());
        tokio::task::yield_now().await;
    }
    for client in clients {
        client.await.unwrap();
    }
    // One frame may exceed the limit.
    assert!(highest <= limit + MIB + 100, "{highest}");
    assert_eq!(server.stats.request_memory_bytes(), 0);
}

#[tokio::test]
async fn a_length_allocates_nothing_before_its_bytes_come() {
    let server = TestServer::start();
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = server.connect().await;
        client.send(&(100 * MIB as u32 - 4).to_be_bytes()).await;
        client.send(&[0; 8]).await;
        clients.push(client);
    }
    // What each gets for its first bytes, whatever it claims.
    let first = 64 * 1024;
    until("all are read", || {
        server.stats.request_memory_bytes() == 100 * first
    })
    .await;
    let mut dripping = clients.pop().unwrap();
    for _ in 0..20 {
        dripping.send(&[0; 10_000]).await;
    }
    // Grown twice to hold them.
    until("they are read", || {
        server.stats.request_memory_bytes() == 103 * first
    })
    .await;
    drop((clients, dripping));
    until("all is free", || server.stats.request_memory_bytes() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_frame_is_accepted() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    // 100 MiB with the length field.
    let body = vec![5; (100 * MIB) as usize - 12];
    client.send(&frame(PRODUCE, 0, 1, &body)).await;
    assert_eq!(
        client.receive().await,
        Answer::Success(1, vec![5; 16].into())
    );
    until("its memory is free", || {
        server.stats.request_memory_bytes() == 0
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_takes_no_responses_is_not_read_any_more() {
    let server = TestServer::with_options(ServerOptions {
        response_memory_bytes: 16 * MIB,
        ..Default::default()
    });
    let megabyte = Bytes::from(vec![1; MIB as usize]);
    server.service.set_parts(vec![Segment::Bytes(megabyte)]);
    let requests: Vec<u8> = (0..200).flat_map(|id| frame(SCAN, 0, id, b"")).collect();
    let mut greedy = Vec::new();
    for _ in 0..10 {
        let mut client = server.connect().await;
        client.send(&requests).await;
        greedy.push(client);
    }
    // As much as the limit allows waits; others are served.
    until("responses wait", || {
        server.stats.response_memory_bytes() > 8 * MIB
    })
    .await;
    let mut modest = server.connect().await;
    assert_eq!(modest.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 0);
    assert!(server.stats.response_memory_bytes() <= 20 * MIB);
    // A peer that begins to take them gets them all.
    let reader = greedy.pop().unwrap();
    drop(greedy);
    let mut stream = reader.stream;
    let mut rest = 200 * (4 + 5 + MIB as usize);
    let mut buffer = vec![0; 256 * 1024];
    while rest > 0 {
        let read = within(stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0);
        rest -= read;
    }
    until("all is sent", || server.stats.response_memory_bytes() < MIB).await;
}

#[tokio::test]
async fn a_connection_without_any_byte_is_closed_and_a_busy_one_is_not() {
    let server = TestServer::with_options(ServerOptions {
        max_idle: Duration::from_millis(200),
        ..Default::default()
    });
    let mut idle = server.connect().await;
    let mut half = server.connect().await;
    half.send(&[0, 0]).await;
    let mut busy = server.connect().await;
    let others = async {
        assert_eq!(idle.receive().await, Answer::Closed);
        assert_eq!(half.receive().await, Answer::Closed);
    };
    let keep_busy = async {
        loop {
            busy.assert_usable().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = others => {}
        () = keep_busy => {}
    }
    assert_eq!(server.stats.open_connections(), 1);
}

#[tokio::test]
async fn connections_above_the_limit_are_told_and_closed() {
    let server = TestServer::with_options(ServerOptions {
        max_connections: 2,
        ..Default::default()
    });
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.assert_usable().await;
    second.assert_usable().await;
    let mut third = server.connect().await;
    assert_eq!(third.receive().await, Answer::Failure(1));
    assert_eq!(third.receive().await, Answer::Closed);
    drop(first);
    until("there is room", || server.stats.open_connections() == 1).await;
    server.connect().await.assert_usable().await;
    assert_eq!(server.stats.refused(), 1);
}

#[tokio::test]
async fn connecting_and_closing_leaves_nothing_behind() {
    let server = TestServer::start();
    for _ in 0..500 {
        drop(server.connect().await);
    }
    until("all are gone", || {
        server.stats.accepted() == 500 && server.stats.open_connections() == 0
    })
    .await;
    server.connect().await.assert_usable().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bytes_get_an_answer_or_a_closed_connection() {
    let server = TestServer::start();
    let mut calm = server.connect().await;
    let mut random = StdRng::seed_from_u64(42);
    for round in 0..300 {
        let address = if round % 2 == 0 {
            server.plain
        } else {
            server.sasl
        };
        let mut client = RawClient::connect(address).await;
        let mut bytes = Vec::new();
        for _ in 0..random.random_range(1..20) {
            let mut body = vec![0; random.random_range(0..200)];
            random.fill(&mut body[..]);
            match random.random_range(0..4) {
                // Nothing but noise.
                0 => bytes.extend(&body),
                // A sound frame of any key with noise in it.
                1 => {
                    let key = random.random_range(990..1080);
                    bytes.extend(frame(
                        key,
                        random.random_range(-1..4),
                        random.random(),
                        &body,
                    ));
                }
                // An API that exists.
                2 => bytes.extend(frame(DATABASE_EXISTS, 0, random.random(), &body)),
                // A frame with some bits turned.
                _ => {
                    let mut damaged = frame(API_VERSIONS, 0, 1, &api_versions(1)[12..]);
                    let at = random.random_range(0..damaged.len());
                    damaged[at] ^= 1 << random.random_range(0..8);
                    bytes.extend(damaged);
                }
            }
        }
        // The server may close before everything is sent.
        let _ = client.stream.write_all(&bytes).await;
        let _ = client.stream.shutdown().await;
        let mut answers = Vec::new();
        let _ = within(client.stream.read_to_end(&mut answers)).await;
        calm.assert_usable().await;
    }
    until("all are gone", || server.stats.open_connections() == 1).await;
    assert_eq!(server.stats.request_memory_bytes(), 0);
    // The service of these tests panics when asked to; noise may ask.
    assert_eq!(server.stats.in_flight(), 0);
}

#[tokio::test]
async fn a_stopping_server_answers_what_is_in_flight() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    let mut idle = server.connect().await;
    idle.assert_usable().await;
    client.send(&frame(LONG_POLL, 0, 1, b"x")).await;
    until("it waits", || server.service.waiting_polls() == 1).await;
    server.shutdown.cancel();
    assert_eq!(idle.receive().await, Answer::Closed);
    client.send(&frame(LIST_DATABASES, 0, 2, b"")).await;
    server.service.open_gate();
    assert_eq!(client.receive().await, Answer::Success(1, "x".into()));
    assert_eq!(client.receive().await, Answer::Closed);
    within(server.task).await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.plain).await.is_err());
}

#[tokio::test]
async fn a_stopping_server_does_not_wait_for_ever() {
    let server = TestServer::with_options(ServerOptions {
        drain_timeout: Duration::from_millis(50),
        ..Default::default()
    });
    let mut client = server.connect().await;
    client.send(&frame(LONG_POLL, 0, 1, b"x")).await;
    until("it waits", || server.service.waiting_polls() == 1).await;
    server.shutdown.cancel();
    within(server.task).await.unwrap();
    assert_eq!(client.receive().await, Answer::Closed);
    assert_eq!(server.service.waiting_polls(), 0);
}

#[tokio::test]
async fn a_busy_port_is_an_error_that_names_it() {
    let server = TestServer::start();
    let listener = Listener {
        name: "CLIENT".into(),
        address: server.plain,
        protocol: SecurityProtocol::Plaintext,
        internal: false,
    };
    let Err(error) = BoundServer::bind(vec![listener], ServerOptions::default()) else {
        panic!("the port was opened twice");
    };
    assert!(matches!(error, NetError::Bind { .. }));
    let text = error.to_string();
    assert!(
        text.contains("CLIENT") && text.contains(&server.plain.to_string()),
        "{text}"
    );
}
