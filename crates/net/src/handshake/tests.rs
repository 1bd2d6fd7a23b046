use std::collections::HashMap;

use super::*;
use crate::sasl::PasswordMap;

fn handshake(protocol: SecurityProtocol) -> Handshake {
    let apis = ApiTable::new(&[(1003, 0, 0), (1016, 0, 3)]);
    let users = HashMap::from([
        ("admin".into(), "pw".into()),
        ("alice".into(), "secret".into()),
    ]);
    Handshake::new(
        Arc::new(apis),
        "CLIENT",
        protocol,
        Arc::new(PasswordMap::new(users)),
    )
}

fn request(api_key: i16, api_version: i16, body: &[u8]) -> (RequestHeader, Bytes) {
    (
        RequestHeader {
            api_key,
            api_version,
            request_id: 1,
        },
        Bytes::copy_from_slice(body),
    )
}

fn code(decision: &Decision) -> i32 {
    match decision {
        Decision::Answer(Response::Error { code, .. })
        | Decision::Rejected(Response::Error { code, .. }, _) => *code,
        Decision::Answer(Response::Success(_)) | Decision::Authenticated(_) => 0,
        other => panic!("{other:?}"),
    }
}

fn login(handshake: &mut Handshake, mechanism: &str, token: &[u8]) -> Decision {
    let message = AuthenticateRequest {
        protocol: Some(mechanism.into()),
        token: Some(Bytes::copy_from_slice(token)),
    };
    let (header, body) = request(1038, 0, &message.encode_to_vec());
    handshake.on_request(&header, &body)
}

fn judge(handshake: &mut Handshake, api_key: i16, api_version: i16, body: &[u8]) -> Decision {
    let (header, body) = request(api_key, api_version, body);
    handshake.on_request(&header, &body)
}

const API_VERSIONS: &[u8] = b"\x0A\x01a\x12\x01b";

#[test]
fn api_versions_lists_what_is_served_and_the_two_own_apis() {
    let mut handshake = handshake(SecurityProtocol::Plaintext);
    let Decision::Answer(Response::Success(parts)) = judge(&mut handshake, 1000, 0, API_VERSIONS)
    else {
        panic!("refused");
    };
    let [Segment::Bytes(body)] = parts.as_slice() else {
        panic!("{parts:?}")
    };
    let answer: ApiVersionsResponse = decode(body.clone()).unwrap();
    assert_eq!(answer.server_type, None);
    let listed: Vec<_> = answer
        .api_versions
        .iter()
        .map(|api| {
            (
                api.api_key.unwrap(),
                api.min_version.unwrap(),
                api.max_version.unwrap(),
            )
        })
        .collect();
    assert_eq!(
        listed,
        [(1000, 0, 0), (1003, 0, 0), (1016, 0, 3), (1038, 0, 0)]
    );
}

#[test]
fn versions_out_of_range_and_unknown_keys_are_unsupported() {
    let mut handshake = handshake(SecurityProtocol::Plaintext);
    for (key, version) in [(1000, 5), (1000, -1), (1016, 4), (1016, -1), (1038, 1)] {
        assert_eq!(code(&judge(&mut handshake, key, version, API_VERSIONS)), 2);
    }
    for key in [0, 18, 999, 1067, 2000, -1, 32767, 1001] {
        assert_eq!(code(&judge(&mut handshake, key, 0, &[])), 2);
    }
    assert!(matches!(
        judge(&mut handshake, 1016, 3, &[]),
        Decision::Pass
    ));
}

#[test]
fn an_undecodable_api_versions_is_unsupported_also_before_authentication() {
    let damaged: [&[u8]; 4] = [b"", b"\x0A\x01a", b"\x0A\x09a", b"\x0B"];
    for protocol in [SecurityProtocol::Plaintext, SecurityProtocol::Sasl] {
        let mut handshake = handshake(protocol);
        for body in damaged {
            assert_eq!(code(&judge(&mut handshake, 1000, 0, body)), 2, "{body:?}");
        }
    }
}

#[test]
fn a_plaintext_listener_knows_only_the_probe() {
    let mut handshake = handshake(SecurityProtocol::Plaintext);
    assert!(handshake.is_authenticated());
    for (mechanism, expected) in [
        ("PLAINTEXT", 0),
        ("plaintext", 0),
        ("PLAIN", 46),
        ("SASL", 46),
        ("", 46),
    ] {
        assert_eq!(
            code(&login(&mut handshake, mechanism, b"\0admin\0pw")),
            expected
        );
    }
}

#[test]
fn before_authentication_everything_else_is_refused() {
    let mut handshake = handshake(SecurityProtocol::Sasl);
    for key in [1003, 1012, 999, -1, 1067] {
        assert_eq!(code(&judge(&mut handshake, key, 0, b"\xFF")), 46);
    }
    assert_eq!(code(&judge(&mut handshake, 1000, 0, API_VERSIONS)), 0);
    assert_eq!(code(&judge(&mut handshake, 1038, 0, b"\xFF")), 46);
    assert!(!handshake.is_authenticated());
}

#[test]
fn wrong_logins_are_refused_with_one_text_and_growing_delay() {
    let mut handshake = handshake(SecurityProtocol::Sasl);
    let wrong: [&[u8]; 9] = [
        b"\0admin\0secret",
        b"\0nobody\0pw",
        b"\0\xFF\0pw",
        b"admin",
        b"admin\0pw",
        b"\0admin\0pw\0x",
        b"\0\0pw",
        b"\0admin\0",
        b"alice\0admin\0pw",
    ];
    let mut delays = Vec::new();
    for token in wrong {
        let Decision::Rejected(Response::Error { code: 46, message }, delay) =
            login(&mut handshake, "PLAIN", token)
        else {
            panic!("{token:?}");
        };
        assert_eq!(message, "wrong user or password");
        delays.push(delay.as_millis());
    }
    assert_eq!(delays, [0, 50, 100, 200, 400, 800, 1600, 3200, 3200]);
    let Decision::Authenticated(user) = login(&mut handshake, "PLAIN", b"admin\0admin\0pw") else {
        panic!("refused");
    };
    assert_eq!(user, "admin");
    assert!(matches!(
        judge(&mut handshake, 1003, 0, &[]),
        Decision::Pass
    ));
}

#[test]
fn other_mechanisms_are_refused() {
    let mut handshake = handshake(SecurityProtocol::Sasl);
    for mechanism in ["plain", "SCRAM-SHA-256", "PLAINTEXT", "SASL", ""] {
        assert_eq!(
            code(&login(&mut handshake, mechanism, b"\0admin\0pw")),
            46,
            "{mechanism}"
        );
    }
}

#[test]
fn once_authenticated_any_plain_token_is_success_and_changes_nothing() {
    let mut handshake = handshake(SecurityProtocol::Sasl);
    assert!(matches!(
        login(&mut handshake, "PLAIN", b"\0admin\0pw"),
        Decision::Authenticated(_)
    ));
    for token in [
        &b"\0admin\0pw"[..],
        b"",
        b"\0alice\0secret",
        b"\0admin\0wrong",
    ] {
        let decision = login(&mut handshake, "PLAIN", token);
        assert!(
            matches!(decision, Decision::Answer(Response::Success(_))),
            "{token:?}"
        );
    }
    assert_eq!(code(&login(&mut handshake, "SCRAM-SHA-256", b"")), 46);
    assert!(handshake.is_authenticated());
    assert_eq!(code(&judge(&mut handshake, 1038, 0, b"\xFF")), 2);
}
