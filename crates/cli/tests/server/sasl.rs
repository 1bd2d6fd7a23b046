//! Listeners and SASL/PLAIN (behaviour.md §2, wire.md §3).

use bytes::Bytes;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, Client, Server};

use crate::support::{assert_all_right, quick};

const JAAS: &str = "org.apache.fluss.security.auth.sasl.plain.PlainLoginModule required \
                    user_admin=\"admin-secret\" user_alice=\"alice-secret\";";

fn secured() -> Server {
    quick()
        .with(
            "bind.listeners",
            "INTERNAL://127.0.0.1:0,CLIENT://127.0.0.1:0",
        )
        .with("internal.listener.name", "INTERNAL")
        .with("security.protocol.map", "CLIENT:SASL")
        .with("security.sasl.enabled.mechanisms", "PLAIN")
        .with("security.sasl.plain.jaas.config", JAAS)
        .start()
}

fn client(server: &Server) -> Client {
    Client::connect(server.listener("CLIENT"))
}

fn login(client: &mut Client, mechanism: &str, token: &[u8]) -> Result<Option<Bytes>, i32> {
    let request = pb::AuthenticateRequest {
        protocol: Some(mechanism.to_owned()),
        token: Some(Bytes::copy_from_slice(token)),
    };
    client
        .try_call::<pb::AuthenticateResponse>(ApiKey::Authenticate, &request)
        .map(|answer| answer.challenge)
        .map_err(|refused| refused.code)
}

fn list(client: &mut Client) -> i32 {
    client.code(ApiKey::ListDatabases, &pb::ListDatabasesRequest::default())
}

#[test]
fn only_versions_and_login_are_served_before_the_login() {
    let server = secured();
    let mut client = client(&server);
    assert_eq!(list(&mut client), 46);
    assert_eq!(
        client.code(ApiKey::GetMetadata, &pb::MetadataRequest::default()),
        46
    );
    // Neither a key that does not exist nor a broken body tells more.
    for (key, body) in [(1999, &[][..]), (ApiKey::GetTableInfo.code(), &[0xFF][..])] {
        assert_eq!(
            client.wire().call(key, 0, body).error_code(),
            Some(46),
            "key {key}"
        );
    }
    let hello = pb::ApiVersionsRequest {
        client_software_name: Some("test".to_owned()),
        client_software_version: Some("1".to_owned()),
    };
    assert_eq!(client.code(ApiKey::ApiVersions, &hello), 0);
    assert_eq!(
        login(&mut client, "PLAIN", b"\0admin\0admin-secret"),
        Ok(None)
    );
    assert_eq!(list(&mut client), 0);
}

#[test]
fn a_login_is_right_or_46_and_may_be_tried_again() {
    let server = secured();
    let cases: &[(&str, &str, &[u8], bool)] = &[
        ("right", "PLAIN", b"\0admin\0admin-secret", true),
        ("with authzid", "PLAIN", b"alice\0alice\0alice-secret", true),
        ("a wrong password", "PLAIN", b"\0admin\0wrong", false),
        (
            "an unknown user",
            "PLAIN",
            b"\0mallory\0admin-secret",
            false,
        ),
        (
            "a user that is not UTF-8",
            "PLAIN",
            b"\0\xFF\0admin-secret",
            false,
        ),
        ("one part", "PLAIN", b"admin", false),
        ("two parts", "PLAIN", b"admin\0admin-secret", false),
        ("four parts", "PLAIN", b"\0admin\0admin-secret\0more", false),
        ("no bytes", "PLAIN", b"", false),
        ("no user", "PLAIN", b"\0\0admin-secret", false),
        ("no password", "PLAIN", b"\0admin\0", false),
        (
            "another authzid",
            "PLAIN",
            b"alice\0admin\0admin-secret",
            false,
        ),
        (
            "mechanism in lower case",
            "plain",
            b"\0admin\0admin-secret",
            false,
        ),
        ("SCRAM", "SCRAM-SHA-256", b"\0admin\0admin-secret", false),
        ("PLAINTEXT", "PLAINTEXT", b"", false),
        ("SASL", "SASL", b"\0admin\0admin-secret", false),
    ];
    let mut wrong = Vec::new();
    for (sentence, mechanism, token, right) in cases {
        let mut client = client(&server);
        let got = login(&mut client, mechanism, token);
        let expected = if *right { Ok(None) } else { Err(46) };
        if got != expected || (list(&mut client) == 0) != *right {
            wrong.push(format!("{sentence}: {got:?}"));
        }
        if !right && login(&mut client, "PLAIN", b"\0admin\0admin-secret") != Ok(None) {
            wrong.push(format!("{sentence}: then the right login is refused"));
        }
    }
    assert_all_right(&wrong);
}

#[test]
fn after_the_login_further_ones_change_nothing() {
    let server = secured();
    let mut client = client(&server);
    assert_eq!(
        login(&mut client, "PLAIN", b"\0admin\0admin-secret"),
        Ok(None)
    );
    for token in [
        &b"\0admin\0admin-secret"[..],
        b"",
        b"\0alice\0alice-secret",
        b"\0admin\0wrong",
    ] {
        assert_eq!(login(&mut client, "PLAIN", token), Ok(None));
    }
    assert_eq!(login(&mut client, "OTHER", b""), Err(46));
    assert_eq!(list(&mut client), 0);
}

#[test]
fn metadata_names_the_endpoints_of_the_listener_it_came_in_on() {
    let server = secured();
    let mut inner = server.client();
    let mut outer = client(&server);
    assert_eq!(
        login(&mut outer, "PLAIN", b"\0alice\0alice-secret"),
        Ok(None)
    );
    for (client, listener) in [(&mut inner, "INTERNAL"), (&mut outer, "CLIENT")] {
        let answer: pb::MetadataResponse =
            client.call(ApiKey::GetMetadata, &pb::MetadataRequest::default());
        let port = Some(i32::from(server.listener(listener).port()));
        assert_eq!(answer.coordinator_server.expect("a coordinator").port, port);
        assert_eq!(answer.tablet_servers[0].port, port);
    }
}

#[test]
fn a_login_and_requests_may_come_in_one_write() {
    let server = secured();
    let mut client = client(&server);
    let request = pb::AuthenticateRequest {
        protocol: Some("PLAIN".to_owned()),
        token: Some(Bytes::from_static(b"\0admin\0admin-secret")),
    };
    client.send(ApiKey::ListDatabases, &pb::ListDatabasesRequest::default());
    client.send(ApiKey::Authenticate, &request);
    client.send(ApiKey::ListDatabases, &pb::ListDatabasesRequest::default());
    let answers: Vec<Answer> = (0..3).map(|_| client.wire().receive()).collect();
    assert_eq!(answers[0].error_code(), Some(46), "{answers:?}");
    assert!(matches!(answers[1], Answer::Success { .. }), "{answers:?}");
    assert!(matches!(answers[2], Answer::Success { .. }), "{answers:?}");
}
