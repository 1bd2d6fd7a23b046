//! Our own client against our own server.

mod support;

use std::time::Duration;

use bytes::Bytes;
use mainstem_net::{ClientOptions, Connection, Login, NetError, ServerOptions};
use mainstem_protocol::messages::{
    DatabaseExistsRequest, DatabaseExistsResponse, ListDatabasesRequest, ListDatabasesResponse,
};
use mainstem_protocol::{ApiKey, VersionRange};
use support::*;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

fn options(user: &str, password: &str) -> ClientOptions {
    let login = Login {
        user: user.into(),
        password: password.into(),
    };
    ClientOptions {
        login: Some(login),
        ..Default::default()
    }
}

async fn plain(server: &TestServer) -> Connection {
    within(Connection::connect(server.plain, ClientOptions::default()))
        .await
        .unwrap()
}

#[tokio::test]
async fn versions_are_negotiated_and_apis_that_are_not_offered_fail_locally() {
    let server = TestServer::start();
    let connection = plain(&server).await;
    let ours = |min, max| VersionRange { min, max };
    assert_eq!(connection.version(ApiKey::ProduceLog, ours(0, 5)), Some(1));
    assert_eq!(connection.version(ApiKey::ProduceLog, ours(2, 5)), None);
    assert_eq!(connection.version(ApiKey::CreateTable, ours(0, 0)), None);
    assert_eq!(connection.server_type(), None);
    let before = server.stats.requests();
    let result: Result<ListDatabasesResponse, _> = connection
        .call(ApiKey::ListDatabases, 1, &ListDatabasesRequest::default())
        .await;
    assert!(matches!(
        result,
        Err(NetError::UnsupportedVersion { api_key: 1003, .. })
    ));
    assert_eq!(server.stats.requests(), before);
}

#[tokio::test]
async fn many_tasks_share_a_connection() {
    let server = TestServer::start();
    let connection = plain(&server).await;
    let tasks: Vec<_> = (0..50u32)
        .map(|number| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for round in 0..20u32 {
                    let mut body = (number * 1000 + round).to_be_bytes().to_vec();
                    body.resize(16, 7);
                    let body = Bytes::from(body);
                    let limit = Duration::from_secs(10);
                    let parts = vec![body.slice(..5), body.slice(5..)];
                    let answer = connection
                        .call_raw(ApiKey::ProduceLog, 0, parts, limit)
                        .await;
                    assert_eq!(answer.unwrap(), body);
                }
            })
        })
        .collect();
    for task in tasks {
        within(task).await.unwrap();
    }
    let answer: ListDatabasesResponse = connection
        .call(ApiKey::ListDatabases, 0, &ListDatabasesRequest::default())
        .await
        .unwrap();
    assert_eq!(answer.database_name, ["db"]);
}

#[tokio::test]
async fn requests_are_sent_in_the_order_of_send() {
    let server = TestServer::start();
    let connection = plain(&server).await;
    let mut pending = Vec::new();
    for sequence in 0..1000u64 {
        let mut body = sequence.to_be_bytes().to_vec();
        body.resize(if sequence % 7 == 0 { 50_000 } else { 16 }, 0);
        let body = vec![Bytes::from(body)];
        pending.push(
            connection
                .send(PRODUCE, 0, body, Duration::from_secs(10))
                .await
                .unwrap(),
        );
    }
    for response in pending {
        within(response.response()).await.unwrap();
    }
    let log = server.service.log.lock();
    let seen: Vec<u64> = log
        .values()
        .flatten()
        .map(|note| u64::from_be_bytes(note[..8].try_into().unwrap()))
        .collect();
    assert_eq!(seen, (0..1000).collect::<Vec<u64>>());
}

#[tokio::test]
async fn errors_of_the_server_keep_their_code() {
    let server = TestServer::start();
    let connection = plain(&server).await;
    let result: Result<DatabaseExistsResponse, _> = connection
        .call(ApiKey::DatabaseExists, 0, &DatabaseExistsRequest::default())
        .await;
    let Err(error) = result else {
        panic!("accepted")
    };
    assert!(
        matches!(&error, NetError::Api { code: 2, message } if message.contains("database_name"))
    );
    assert!(!error.is_retriable());
}

#[tokio::test]
async fn a_login_is_made_while_connecting() {
    let server = TestServer::start();
    let connection = within(Connection::connect(server.sasl, options("alice", "secret")))
        .await
        .unwrap();
    let _: ListDatabasesResponse = connection
        .call(ApiKey::ListDatabases, 0, &ListDatabasesRequest::default())
        .await
        .unwrap();
    assert_eq!(*server.service.principals.lock(), ["alice"]);
    let refused = within(Connection::connect(server.sasl, options("alice", "wrong"))).await;
    assert!(matches!(refused, Err(NetError::Api { code: 46, .. })));
    assert!(!format!("{:?}", options("alice", "hunter2")).contains("hunter2"));
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_fails_and_the_connection_goes_on() {
    let server = TestServer::start();
    let connection = plain(&server).await;
    let body = vec![Bytes::from_static(b"poll")];
    let limit = Duration::from_millis(20);
    let result = connection.call_raw(ApiKey::FetchLog, 0, body, limit).await;
    assert!(matches!(&result, Err(error @ NetError::Timeout { .. }) if error.is_retriable()));
    server.service.open_gate();
    let body = vec![Bytes::from_static(b"again")];
    let answer = connection
        .call_raw(ApiKey::FetchLog, 0, body, Duration::from_secs(10))
        .await;
    assert_eq!(answer.unwrap(), "again");
}

#[tokio::test]
async fn a_lost_connection_fails_what_is_in_flight_and_what_comes_later() {
    let server = TestServer::with_options(ServerOptions {
        drain_timeout: Duration::ZERO,
        ..Default::default()
    });
    let connection = plain(&server).await;
    let limit = Duration::from_secs(10);
    let mut pending = Vec::new();
    for _ in 0..10 {
        pending.push(
            connection
                .send(LONG_POLL, 0, Vec::new(), limit)
                .await
                .unwrap(),
        );
    }
    until("they wait", || server.service.waiting_polls() == 10).await;
    server.shutdown.cancel();
    for response in pending {
        let Err(error) = within(response.response()).await else {
            panic!("answered")
        };
        assert!(
            matches!(error, NetError::Disconnected(_)) && error.is_retriable(),
            "{error}"
        );
    }
    within(connection.closed()).await;
    let later = connection.send(LONG_POLL, 0, Vec::new(), limit).await;
    assert!(matches!(later, Err(NetError::Disconnected(_))));
}

#[tokio::test]
async fn a_server_failure_fails_every_call_with_its_code() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = tokio::spawn(Connection::connect(address, ClientOptions::default()));
    let (mut stream, _) = listener.accept().await.unwrap();
    let failure = mainstem_protocol::frame::encode_server_failure(1, "too many connections");
    stream.write_all(&failure).await.unwrap();
    let Err(error) = within(connecting).await.unwrap() else {
        panic!("connected")
    };
    assert!(
        matches!(&error, NetError::Api { code: 1, .. }) && error.is_retriable(),
        "{error}"
    );
}

#[tokio::test]
async fn garbage_from_a_server_ends_the_connection() {
    for garbage in [
        &[0, 0, 0, 0][..],
        &[0, 0, 0, 5, 9, 0, 0, 0, 0],
        &[0x80, 0, 0, 0],
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = tokio::spawn(Connection::connect(address, ClientOptions::default()));
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let Err(error) = within(connecting).await.unwrap() else {
            panic!("connected")
        };
        assert!(matches!(error, NetError::Disconnected(_)), "{error}");
    }
}

#[tokio::test]
async fn dropping_the_connection_closes_it() {
    let server = TestServer::start();
    let connection = plain(&server).await;
    let clone = connection.clone();
    drop(connection);
    assert!(!clone.is_closed());
    assert_eq!(server.stats.open_connections(), 1);
    drop(clone);
    until("it is closed", || server.stats.open_connections() == 0).await;
}

#[tokio::test]
async fn nobody_listening_is_an_error_that_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let Err(error) = Connection::connect(address, ClientOptions::default()).await else {
        panic!("connected to nothing");
    };
    assert!(error.to_string().contains(&address.to_string()));
}
