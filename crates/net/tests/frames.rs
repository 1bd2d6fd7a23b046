//! behaviour.md §1: frames and connection.

mod support;

use std::sync::Arc;

use mainstem_net::{RequestObserver, RequestOutcome, ServerOptions};

use mainstem_protocol::decode;
use mainstem_protocol::messages::{ApiVersionsResponse, ListDatabasesResponse};
use support::*;

#[tokio::test]
async fn api_versions_is_answered_in_version_0_only() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    client.send(&api_versions(0)).await;
    let Answer::Success(0, body) = client.receive().await else {
        panic!("no answer")
    };
    let answer: ApiVersionsResponse = decode(body).unwrap();
    assert_eq!(answer.server_type, None);
    let keys: Vec<i32> = answer
        .api_versions
        .iter()
        .filter_map(|api| api.api_key)
        .collect();
    assert_eq!(keys, [1000, 1003, 1004, 1014, 1015, 1033, 1038, 1059, 1061]);
    let body = &api_versions(0)[12..];
    for version in [5, -1] {
        assert_eq!(client.code(&frame(API_VERSIONS, version, 1, body)).await, 2);
    }
    for damaged in [
        &b""[..],
        b"\x0A\x01a",
        b"\x0A\x09a",
        b"\xFF\xFF",
        b"\x0A\x01a\x12\x01b\x0B",
    ] {
        assert_eq!(
            client.code(&frame(API_VERSIONS, 0, 1, damaged)).await,
            2,
            "{damaged:?}"
        );
    }
    client.assert_usable().await;
}

#[tokio::test]
async fn unknown_fields_and_other_wire_types_are_skipped() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    // Field 15 unknown; field 1, a flag, as text; a flag of 2.
    for body in [&b"\x78\x05"[..], b"\x0A\x01x", b"\x08\x02", b"\x08\x01"] {
        assert_eq!(
            client.code(&frame(LIST_DATABASES, 0, 1, body)).await,
            0,
            "{body:?}"
        );
    }
    assert_eq!(client.code(&frame(DATABASE_EXISTS, 0, 1, b"")).await, 2);
    assert_eq!(
        client
            .code(&frame(DATABASE_EXISTS, 0, 1, b"\x08\x01"))
            .await,
        2
    );
    assert_eq!(
        client
            .code(&frame(DATABASE_EXISTS, 0, 1, b"\x0A\x01a"))
            .await,
        0
    );
}

#[tokio::test]
async fn keys_that_are_not_served_are_unsupported() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    for key in [0, 18, 999, 1067, 2000, -1, 32767, 1001] {
        assert_eq!(client.code(&frame(key, 0, 1, b"")).await, 2, "{key}");
    }
    for version in [-1, 2] {
        assert_eq!(client.code(&frame(PRODUCE, version, 1, b"")).await, 2);
    }
    assert_eq!(client.code(&frame(PRODUCE, 1, 1, b"")).await, 0);
    assert_eq!(server.stats.errors(), 10);
}

#[tokio::test]
async fn any_request_id_is_echoed_also_twice_at_once() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    for id in [0, -1, i32::MIN, i32::MAX] {
        client.send(&frame(LIST_DATABASES, 0, id, b"")).await;
        assert!(matches!(client.receive().await, Answer::Success(answered, _) if answered == id));
    }
    for _ in 0..2 {
        client.send(&frame(LONG_POLL, 0, 5, b"x")).await;
    }
    until("both wait", || server.service.waiting_polls() == 2).await;
    server.service.open_gate();
    for _ in 0..2 {
        assert_eq!(client.receive().await, Answer::Success(5, "x".into()));
    }
}

#[tokio::test]
async fn the_first_request_need_not_be_api_versions() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    client.send(&frame(LIST_DATABASES, 0, 1, b"")).await;
    let Answer::Success(1, body) = client.receive().await else {
        panic!("refused")
    };
    let answer: ListDatabasesResponse = decode(body).unwrap();
    assert_eq!(answer.database_name, ["db"]);
}

#[tokio::test]
async fn five_requests_in_one_write_are_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    let requests: Vec<u8> = (0..5)
        .flat_map(|id| frame(PRODUCE, 0, id, &id.to_be_bytes()))
        .collect();
    client.send(&requests).await;
    for id in 0..5i32 {
        let body = id.to_be_bytes().to_vec().into();
        assert_eq!(client.receive().await, Answer::Success(id, body));
    }
}

#[tokio::test]
async fn a_frame_sent_byte_by_byte_is_read() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    for byte in frame(LIST_DATABASES, 0, 3, b"\x08\x01") {
        client.send(&[byte]).await;
    }
    assert!(matches!(client.receive().await, Answer::Success(3, _)));
}

#[tokio::test]
async fn lengths_below_a_header_fail_the_connection() {
    let server = TestServer::start();
    for length in [0u32, 1, 4, 7] {
        let mut client = server.connect().await;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(frame(LIST_DATABASES, 0, 1, b""));
        client.send(&bytes).await;
        assert_eq!(client.receive().await, Answer::Failure(-1), "{length}");
        assert_eq!(client.receive().await, Answer::Closed);
    }
    let mut client = server.connect().await;
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 0);
}

#[tokio::test]
async fn lengths_above_the_limit_fail_at_once_and_the_limit_itself_waits() {
    let server = TestServer::start();
    let lengths = [
        u32::MAX,
        i32::MIN as u32,
        i32::MAX as u32,
        104_857_597,
        104_857_600,
    ];
    for length in lengths {
        let mut client = server.connect().await;
        client.send(&length.to_be_bytes()).await;
        assert_eq!(client.receive().await, Answer::Failure(-1), "{length}");
        assert_eq!(client.receive().await, Answer::Closed);
    }
    let mut client = server.connect().await;
    client.send(&104_857_596u32.to_be_bytes()).await;
    client.send(&frame(PRODUCE, 0, 1, &[7; 1000])[4..]).await;
    until("the bytes are read", || {
        server.stats.request_memory_bytes() > 0
    })
    .await;
    // Not answered, and next to nothing allocated for what it claims.
    assert!(server.stats.request_memory_bytes() <= 64 * 1024);
    assert_eq!(server.stats.requests(), 0);
}

#[tokio::test]
async fn other_protocols_are_told_off() {
    let server = TestServer::start();
    let tls_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], tls_hello] {
        let mut client = server.connect().await;
        client.send(bytes).await;
        assert_eq!(client.receive().await, Answer::Failure(-1));
        assert_eq!(client.receive().await, Answer::Closed);
    }
}

#[tokio::test]
async fn a_failure_reaches_a_peer_that_goes_on_sending() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    let mut bytes = u32::MAX.to_be_bytes().to_vec();
    bytes.resize(500_000, 0);
    client.send(&bytes).await;
    assert_eq!(client.receive().await, Answer::Failure(-1));
}

#[tokio::test]
async fn half_a_frame_waits_and_is_completed_later() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    let mut other = server.connect().await;
    let request = frame(LIST_DATABASES, 0, 9, b"\x08\x01");
    client.send(&request[..3]).await;
    other.assert_usable().await;
    client.send(&request[3..9]).await;
    other.assert_usable().await;
    client.send(&request[9..]).await;
    assert!(matches!(client.receive().await, Answer::Success(9, _)));
}

#[tokio::test]
async fn a_plaintext_listener_answers_the_probe_only() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    for (mechanism, code) in [("PLAINTEXT", 0), ("plaintext", 0), ("PLAIN", 46), ("X", 46)] {
        assert_eq!(
            client.code(&login(1, mechanism, b"\0admin\0pw")).await,
            code,
            "{mechanism}"
        );
    }
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 0);
    assert_eq!(*server.service.principals.lock(), ["ANONYMOUS"]);
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_connection_survives() {
    let server = TestServer::start();
    let mut client = server.connect().await;
    for key in [PANIC, PANIC_LATER] {
        assert_eq!(client.code(&frame(key, 0, 1, b"")).await, -1);
    }
    client.assert_usable().await;
    assert_eq!(server.stats.panics(), 2);
}

#[derive(Default)]
struct Outcomes(parking_lot::Mutex<Vec<RequestOutcome>>);

impl RequestObserver for Outcomes {
    fn on_request(&self, outcome: &RequestOutcome) {
        self.0.lock().push(outcome.clone());
    }
}

#[tokio::test]
async fn every_answer_of_the_service_is_observed_once_it_is_sent() {
    let outcomes = Arc::new(Outcomes::default());
    let server = TestServer::with_observer(ServerOptions::default(), outcomes.clone());
    let mut client = server.connect().await;
    client.assert_usable().await;
    assert_eq!(
        client
            .code(&frame(DATABASE_EXISTS, 0, 1, b"\x0A\x01a"))
            .await,
        0
    );
    assert_eq!(client.code(&frame(DATABASE_EXISTS, 0, 1, b"")).await, 2);
    client.send(&frame(LONG_POLL, 0, 1, b"poll")).await;
    until("it waits", || server.service.waiting_polls() == 1).await;
    server.service.open_gate();
    client.receive().await;
    until("all are told", || outcomes.0.lock().len() == 3).await;
    let seen: Vec<_> = outcomes
        .0
        .lock()
        .iter()
        .map(|seen| {
            (
                seen.api_key,
                seen.error_code,
                seen.request_bytes,
                seen.response_bytes,
            )
        })
        .collect();
    assert_eq!(seen[0], (DATABASE_EXISTS, None, 3, 9 + 2));
    assert_eq!(
        (seen[1].0, seen[1].1, seen[1].2),
        (DATABASE_EXISTS, Some(2), 0)
    );
    assert_eq!(seen[2], (LONG_POLL, None, 4, 9 + 4));
}
