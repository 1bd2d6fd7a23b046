//! behaviour.md §2: SASL listener.

mod support;

use support::*;

async fn sasl() -> (TestServer, RawClient) {
    let server = TestServer::start();
    let client = RawClient::connect(server.sasl).await;
    (server, client)
}

#[tokio::test]
async fn before_authentication_only_the_handshake_is_served() {
    let (_server, mut client) = sasl().await;
    for key in [LIST_DATABASES, 1012, 999, -1, PRODUCE] {
        assert_eq!(client.code(&frame(key, 0, 1, b"\xFF")).await, 46, "{key}");
    }
    client.assert_usable().await;
    assert_eq!(client.code(&login(2, "PLAIN", b"\0admin\0pw")).await, 0);
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 3, b"")).await, 0);
}

#[tokio::test]
async fn success_has_no_challenge_and_later_logins_change_nothing() {
    let (server, mut client) = sasl().await;
    client.send(&login(1, "PLAIN", b"admin\0admin\0pw")).await;
    assert_eq!(client.receive().await, Answer::Success(1, "".into()));
    for token in [
        &b"\0admin\0pw"[..],
        b"",
        b"\0alice\0secret",
        b"\0admin\0wrong",
    ] {
        client.send(&login(2, "PLAIN", token)).await;
        assert_eq!(client.receive().await, Answer::Success(2, "".into()));
    }
    assert_eq!(client.code(&login(3, "SCRAM-SHA-256", b"")).await, 46);
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 4, b"")).await, 0);
    assert_eq!(*server.service.principals.lock(), ["admin"]);
}

#[tokio::test]
async fn wrong_logins_are_refused_and_a_right_one_follows() {
    let (server, mut client) = sasl().await;
    for token in [
        &b"\0admin\0wrong"[..],
        b"\0nobody\0pw",
        b"\0\xFF\0pw",
        b"admin",
    ] {
        assert_eq!(client.code(&login(1, "PLAIN", token)).await, 46);
    }
    for mechanism in ["plain", "SCRAM-SHA-256", "PLAINTEXT", "SASL"] {
        assert_eq!(client.code(&login(1, mechanism, b"\0admin\0pw")).await, 46);
    }
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 46);
    assert_eq!(client.code(&login(1, "PLAIN", b"\0alice\0secret")).await, 0);
    assert_eq!(client.code(&frame(LIST_DATABASES, 0, 1, b"")).await, 0);
    assert_eq!(*server.service.principals.lock(), ["alice"]);
}

#[tokio::test]
async fn requests_sent_with_the_login_are_served_after_it() {
    let (_server, mut client) = sasl().await;
    let mut bytes = api_versions(1);
    bytes.extend(login(2, "PLAIN", b"\0admin\0pw"));
    bytes.extend(frame(LIST_DATABASES, 0, 3, b""));
    client.send(&bytes).await;
    for id in 1..=3 {
        assert!(matches!(client.receive().await, Answer::Success(answered, _) if answered == id));
    }
}

#[tokio::test]
async fn before_authentication_frames_are_small() {
    let (server, mut client) = sasl().await;
    client.send(&(64 * 1024 - 4u32).to_be_bytes()).await;
    let mut other = RawClient::connect(server.sasl).await;
    other.send(&(64 * 1024 - 3u32).to_be_bytes()).await;
    assert_eq!(other.receive().await, Answer::Failure(-1));
    let mut user = RawClient::connect(server.sasl).await;
    assert_eq!(user.code(&login(1, "PLAIN", b"\0admin\0pw")).await, 0);
    assert_eq!(user.code(&frame(PRODUCE, 0, 2, &[1; 100_000])).await, 0);
}

#[tokio::test]
async fn the_service_never_hears_of_a_connection_that_did_not_log_in() {
    let (server, mut client) = sasl().await;
    assert_eq!(client.code(&login(1, "PLAIN", b"\0admin\0wrong")).await, 46);
    drop(client);
    until("it is gone", || server.stats.open_connections() == 0).await;
    assert_eq!(
        server
            .service
            .closed
            .load(std::sync::atomic::Ordering::SeqCst),
        0
    );
}
