//! Frames and connections (behaviour.md §1, wire.md §1; known failures B003,
//! B006, B008, B015).

use std::time::{Duration, Instant};

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, Wire, until};
use prost::Message;

use crate::support::{assert_all_right, quick, server_with_table};

const API_VERSIONS: i16 = 1000;
const LIST_DATABASES: i16 = 1003;

fn hello() -> Vec<u8> {
    let request = pb::ApiVersionsRequest {
        client_software_name: Some("test".to_owned()),
        client_software_version: Some("1".to_owned()),
    };
    request.encode_to_vec()
}

#[test]
fn requests_that_cannot_be_served_are_answered_and_the_connection_goes_on() {
    let server = quick().start();
    let hello = hello();
    let cut = hello[..hello.len() - 1].to_vec();
    let mut unknown_field = hello.clone();
    unknown_field.extend([0x78, 0x01]);
    let mut other_wire_type = hello.clone();
    // Field 1 once more, as a number.
    other_wire_type.extend([0x08, 0x05]);
    let cases: Vec<(&str, i16, i16, Vec<u8>, Option<i32>)> = vec![
        ("ApiVersions", API_VERSIONS, 0, hello.clone(), None),
        (
            "ApiVersions version 5",
            API_VERSIONS,
            5,
            hello.clone(),
            Some(2),
        ),
        (
            "ApiVersions version -1",
            API_VERSIONS,
            -1,
            hello.clone(),
            Some(2),
        ),
        (
            "ApiVersions without its fields",
            API_VERSIONS,
            0,
            vec![],
            Some(2),
        ),
        (
            "ApiVersions without one of them",
            API_VERSIONS,
            0,
            hello[..6].to_vec(),
            Some(2),
        ),
        (
            "an undecodable body",
            API_VERSIONS,
            0,
            vec![0xFF; 9],
            Some(2),
        ),
        ("a cut last field", API_VERSIONS, 0, cut, Some(2)),
        ("a group", API_VERSIONS, 0, vec![0x0B, 0x0C], Some(2)),
        ("an unknown field", API_VERSIONS, 0, unknown_field, None),
        (
            "a known field of another wire type",
            API_VERSIONS,
            0,
            other_wire_type,
            None,
        ),
        (
            "a required field missing",
            ApiKey::GetTableInfo.code(),
            0,
            vec![],
            Some(2),
        ),
        ("a bool of 2", LIST_DATABASES, 0, vec![0x08, 0x02], None),
        ("an empty body", LIST_DATABASES, 0, vec![], None),
        ("key 0", 0, 0, vec![], Some(2)),
        ("key 18", 18, 0, vec![], Some(2)),
        ("key 999", 999, 0, vec![], Some(2)),
        ("key 1067", 1067, 0, vec![], Some(2)),
        ("key 2000", 2000, 0, vec![], Some(2)),
        ("key -1", -1, 0, vec![], Some(2)),
        ("the largest key", i16::MAX, 0, vec![], Some(2)),
    ];
    let mut wrong = Vec::new();
    let mut wire = server.wire();
    for (sentence, key, version, body, expected) in cases {
        let answer = wire.call(key, version, &body);
        let got = match &answer {
            Answer::Success { .. } => None,
            Answer::Error { code, .. } => Some(*code),
            other => panic!("{sentence}: {other:?}"),
        };
        if got != expected {
            wrong.push(format!("{sentence}: {answer:?} instead of {expected:?}"));
        }
    }
    assert_all_right(&wrong);
    assert!(matches!(
        wire.call(LIST_DATABASES, 0, &[]),
        Answer::Success { .. }
    ));
}

#[test]
fn every_api_that_is_not_offered_is_refused_and_every_offered_one_is_answered() {
    let server = quick().start();
    let mut wire = server.wire();
    let answer = wire.call(API_VERSIONS, 0, &hello()).expect_success();
    let answer = pb::ApiVersionsResponse::decode(answer).expect("a message");
    assert_eq!(answer.server_type, None, "one port serves both roles");
    for api in ApiKey::ALL {
        let offered = answer
            .api_versions
            .iter()
            .find(|offer| offer.api_key == Some(api.code().into()));
        // No body is right for most; what matters is that there is an answer.
        match (offered, wire.call(api.code(), 0, &[])) {
            (None, answer) => assert_eq!(answer.error_code(), Some(2), "{}", api.name()),
            (Some(_), Answer::Success { .. } | Answer::Error { .. }) => {}
            (Some(_), other) => panic!("{}: {other:?}", api.name()),
        }
        let range = offered.map_or(-1..=-1, |offer| {
            offer.min_version.expect("a version")..=offer.max_version.expect("a version")
        });
        for version in [-1, 99] {
            assert!(!range.contains(&i32::from(version)) || offered.is_none());
            let answer = wire.call(api.code(), version, &[]);
            assert_eq!(
                answer.error_code(),
                Some(2),
                "{} version {version}",
                api.name()
            );
        }
    }
}

#[test]
fn ids_are_echoed_whatever_they_are() {
    let server = quick().start();
    let mut wire = server.wire();
    for id in [-1, i32::MIN, i32::MAX, 7, 7] {
        assert!(wire.send_bytes(&Wire::frame(LIST_DATABASES, 0, id, &[])));
    }
    let mut ids: Vec<i32> = (0..5)
        .map(|_| match wire.receive() {
            Answer::Success { id, .. } => id,
            other => panic!("{other:?}"),
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [i32::MIN, -1, 7, 7, i32::MAX]);
}

#[test]
fn requests_in_one_write_and_byte_by_byte_are_answered() {
    let server = quick().start();
    let mut wire = server.wire();
    let five: Vec<u8> = (0..5)
        .flat_map(|id| Wire::frame(LIST_DATABASES, 0, id, &[]))
        .collect();
    assert!(wire.send_bytes(&five));
    for expected in 0..5 {
        assert!(matches!(wire.receive(), Answer::Success { id, .. } if id == expected));
    }
    for byte in Wire::frame(API_VERSIONS, 0, 9, &hello()) {
        assert!(wire.send_bytes(&[byte]));
    }
    assert!(matches!(wire.receive(), Answer::Success { id: 9, .. }));
}

/// Known failure B003.
#[test]
fn lengths_that_cannot_be_end_the_connection_with_a_short_text() {
    let server = quick().start();
    let good = Wire::frame(LIST_DATABASES, 0, 1, &[]);
    let lengths: [i32; 10] = [
        0,
        1,
        4,
        7,
        -1,
        i32::MIN,
        i32::MAX,
        104_857_597,
        104_857_600,
        1 << 30,
    ];
    for length in lengths {
        let mut wire = server.wire();
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(&good);
        wire.send_bytes(&bytes);
        match wire.receive() {
            Answer::Failure { code, message } => {
                assert_eq!(code, -1, "length {length}");
                assert!(
                    (4..200).contains(&message.len()),
                    "length {length}: {message}"
                );
            }
            other => panic!("length {length}: {other:?}"),
        }
        assert_eq!(wire.receive(), Answer::Closed, "length {length}");
    }
    for (sentence, bytes) in [
        ("HTTP", &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..]),
        (
            "TLS",
            &[
                0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03,
            ],
        ),
    ] {
        let mut wire = server.wire();
        wire.send_bytes(bytes);
        assert!(
            matches!(wire.receive(), Answer::Failure { code: -1, .. }),
            "{sentence}"
        );
        assert_eq!(wire.receive(), Answer::Closed, "{sentence}");
    }
}

#[test]
fn an_unfinished_frame_is_waited_for_without_memory_for_its_claim() {
    let server = quick().start();
    let mut check = server.wire();
    assert!(matches!(
        check.call(LIST_DATABASES, 0, &[]),
        Answer::Success { .. }
    ));
    let before = server.resident_bytes();
    let mut waiting: Vec<Wire> = (0..20).map(|_| server.wire()).collect();
    for (index, wire) in waiting.iter_mut().enumerate() {
        match index % 3 {
            // The largest frame that is allowed, announced and not sent.
            0 => assert!(wire.send_bytes(&104_857_596_i32.to_be_bytes())),
            1 => assert!(wire.send_bytes(&[0, 0, 0])),
            _ => assert!(wire.send_bytes(&Wire::frame(LIST_DATABASES, 0, 0, &[])[..9])),
        }
    }
    for wire in &mut waiting {
        assert_eq!(wire.receive_within(Duration::from_millis(5)), None);
    }
    assert!(matches!(
        check.call(LIST_DATABASES, 0, &[]),
        Answer::Success { .. }
    ));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 40 << 20,
        "{grown} bytes for frames that were only announced"
    );
    // The rest of a frame may come later.
    assert!(waiting[2].send_bytes(&Wire::frame(LIST_DATABASES, 0, 0, &[])[9..]));
    assert!(matches!(waiting[2].receive(), Answer::Success { .. }));
}

#[test]
fn names_that_are_not_utf_8_are_strange_names() {
    let server = quick().start();
    let mut wire = server.wire();
    // Database `\xFF`, in field 1.
    let database = [0x0A, 0x01, 0xFF];
    let code = |answer: Answer| answer.error_code();
    assert_eq!(
        code(wire.call(ApiKey::GetDatabaseInfo.code(), 0, &database)),
        Some(4)
    );
    assert_eq!(
        code(wire.call(
            ApiKey::CreateDatabase.code(),
            0,
            &[0x0A, 0x01, 0xFF, 0x10, 0x00]
        )),
        Some(16)
    );
    assert_eq!(
        code(wire.call(ApiKey::ListTables.code(), 0, &database)),
        Some(4)
    );
}

#[test]
fn authenticate_on_a_plaintext_listener_knows_plaintext_only() {
    let server = quick().start();
    let mut client = server.client();
    for (protocol, code) in [
        ("PLAINTEXT", 0),
        ("plaintext", 0),
        ("PLAIN", 46),
        ("KERBEROS", 46),
        ("", 46),
    ] {
        let request = pb::AuthenticateRequest {
            protocol: Some(protocol.to_owned()),
            token: Some(bytes::Bytes::new()),
        };
        assert_eq!(
            client.code(ApiKey::Authenticate, &request),
            code,
            "{protocol}"
        );
    }
}

/// Known failure B015.
#[test]
fn connecting_and_closing_leaves_no_trace() {
    let server = quick().start();
    let log_before = server.log().len();
    let mut check = server.wire();
    assert!(matches!(
        check.call(LIST_DATABASES, 0, &[]),
        Answer::Success { .. }
    ));
    let files_before = server.open_files();
    for index in 0..3_000 {
        let wire = server.wire();
        match index % 3 {
            0 => drop(wire),
            1 => wire.reset(),
            _ => wire.end_requests(),
        }
    }
    until("the descriptors to be closed", || {
        (server.open_files() <= files_before + 2).then_some(())
    });
    let log = server.log();
    assert!(
        log.len() - log_before < 2_000,
        "{} bytes of log:\n{log}",
        log.len() - log_before
    );
}

/// Known failure B008.
#[test]
fn connections_that_end_with_requests_in_flight_leave_nothing_behind() {
    let (server, mut client, table) = server_with_table(&quick(), 2);
    let records = table.source().numbers([1]);
    let produce = table.produce([(None, 0, &records[..])]).encode_to_vec();
    let mut fetch = table.fetch([(1, 0)]);
    fetch.min_bytes = Some(1);
    fetch.max_wait_ms = Some(60_000);
    let fetch = fetch.encode_to_vec();
    let round = |index: usize| {
        let mut wire = server.wire();
        wire.send(ApiKey::FetchLog.code(), 0, &fetch);
        wire.send(ApiKey::ProduceLog.code(), 0, &produce);
        wire.send(ApiKey::FetchLog.code(), 0, &fetch);
        if index.is_multiple_of(2) {
            wire.reset()
        } else {
            drop(wire)
        }
    };
    (0..200).for_each(round);
    let files_before = server.open_files();
    let memory_before = server.resident_bytes();
    (0..1_500).for_each(round);
    until("the descriptors to be closed", || {
        (server.open_files() <= files_before + 20).then_some(())
    });
    let grown = server.resident_bytes().saturating_sub(memory_before);
    assert!(grown < 16 << 20, "{grown} bytes more");
    // Every append happened whole or not at all.
    let end = until("the end to stand still", || {
        let end = client.end(&table, 0);
        (end == client.end(&table, 0)).then_some(end)
    });
    let mut next = 0;
    while next < end {
        let entry = client
            .fetch_one(&table.fetch([(0, next)]))
            .expect("readable");
        for (base, behind) in mainstem_testkit::offsets(&entry.records.expect("records")) {
            assert_eq!((base, behind), (next, next + 1));
            next = behind;
        }
    }
}

/// Known failure B006: the one port answers for both roles, and names both.
#[test]
fn metadata_names_the_coordinator_and_the_tablet_server_at_the_same_port() {
    let server = quick().start();
    let mut client = server.client();
    let answer: pb::MetadataResponse =
        client.call(ApiKey::GetMetadata, &pb::MetadataRequest::default());
    let coordinator = answer.coordinator_server.expect("a coordinator");
    let [tablet] = &answer.tablet_servers[..] else {
        panic!("{:?}", answer.tablet_servers)
    };
    let port = Some(i32::from(server.address().port()));
    assert_eq!((coordinator.port, tablet.port), (port, port));
    assert_eq!(
        (coordinator.host.as_deref(), tablet.host.as_deref()),
        (Some("127.0.0.1"), Some("127.0.0.1"))
    );
}

/// Known failure B007: pauses and goes on, also with the smallest queue.
#[test]
fn thousands_of_pipelined_requests_are_answered_and_a_new_client_is_not_kept_waiting() {
    let server = quick()
        .with("netty.server.max-queued-requests", "1")
        .start();
    const CONNECTIONS: usize = 40;
    const REQUESTS: usize = 500;
    let frames: Vec<u8> = (0..REQUESTS)
        .flat_map(|id| Wire::frame(LIST_DATABASES, 0, id as i32, &[]))
        .collect();
    let mut wires: Vec<Wire> = (0..CONNECTIONS).map(|_| server.wire()).collect();
    for wire in &mut wires {
        assert!(wire.send_bytes(&frames));
    }
    let begin = Instant::now();
    let mut fresh = server.wire();
    assert!(matches!(
        fresh.call(API_VERSIONS, 0, &hello()),
        Answer::Success { .. }
    ));
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
    for wire in &mut wires {
        for expected in 0..REQUESTS {
            assert!(matches!(wire.receive(), Answer::Success { id, .. } if id == expected as i32));
        }
    }
}

#[test]
fn connections_beyond_the_limit_are_closed_and_room_is_given_again() {
    let server = quick().with("mainstem.net.max-connections", "3").start();
    let mut first: Vec<Wire> = (0..3).map(|_| server.wire()).collect();
    for wire in &mut first {
        assert!(matches!(
            wire.call(LIST_DATABASES, 0, &[]),
            Answer::Success { .. }
        ));
    }
    let mut beyond = server.wire();
    assert!(matches!(beyond.receive(), Answer::Failure { .. }));
    assert_eq!(beyond.receive(), Answer::Closed);
    drop(first.pop());
    until("room for another", || {
        let mut wire = server.wire();
        wire.send_bytes(&Wire::frame(LIST_DATABASES, 0, 0, &[]));
        matches!(wire.receive(), Answer::Success { .. }).then_some(())
    });
    assert!(matches!(
        first[0].call(LIST_DATABASES, 0, &[]),
        Answer::Success { .. }
    ));
}

#[test]
fn an_idle_connection_is_closed_and_one_that_waits_for_an_answer_gets_it() {
    let options = quick().with("netty.connection.max-idle-time", "1s");
    let (server, mut client, table) = server_with_table(&options, 1);
    let mut idle = server.wire();
    let mut waiting = server.client();
    let mut fetch = table.fetch([(0, 0)]);
    fetch.min_bytes = Some(1);
    fetch.max_wait_ms = Some(700);
    waiting.send(ApiKey::FetchLog, &fetch);
    assert_eq!(idle.receive(), Answer::Closed);
    assert!(matches!(waiting.wire().receive(), Answer::Success { .. }));
    assert_eq!(client.wire().receive(), Answer::Closed);
}
