//! Metadata (behaviour.md §6; known failures B001, B011, R09).

use std::time::{Duration, Instant};

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, Client, Refused, Server, Table, Wire, log_table, path};
use mainstem_types::TypeKind;
use prost::Message;

use crate::support::{assert_all_right, quick, server_with_table};

fn with_partitions() -> (Server, Client, Table, Table) {
    let (server, mut client, plain) = server_with_table(&quick(), 3);
    let parted =
        log_table(&[("a", TypeKind::Int), ("p", TypeKind::String)], 2).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    client.create_partition(&parted, &[("p", "one")]);
    (server, client, plain, parted)
}

fn physical(name: &str, partition: Option<&str>) -> pb::PbPhysicalTablePath {
    let (database, table) = name.split_once('.').expect("database.table");
    pb::PbPhysicalTablePath {
        database_name: Some(database.to_owned()),
        table_name: Some(table.to_owned()),
        partition_name: partition.map(str::to_owned),
    }
}

fn ask(
    client: &mut Client,
    request: &pb::MetadataRequest,
) -> Result<pb::MetadataResponse, Refused> {
    client.try_call(ApiKey::GetMetadata, request)
}

fn tables(names: &[&str]) -> pb::MetadataRequest {
    pb::MetadataRequest {
        table_path: names.iter().map(|name| path(name)).collect(),
        ..pb::MetadataRequest::default()
    }
}

fn partition(name: &str, partition: Option<&str>) -> pb::MetadataRequest {
    pb::MetadataRequest {
        partitions_path: vec![physical(name, partition)],
        ..pb::MetadataRequest::default()
    }
}

fn partition_id(id: i64) -> pb::MetadataRequest {
    pb::MetadataRequest {
        partitions_id: vec![id],
        ..pb::MetadataRequest::default()
    }
}

#[test]
fn what_does_not_exist_is_told_by_its_code() {
    let (_server, mut client, _, _) = with_partitions();
    client.create_table("fluss.dropped", &mainstem_testkit::ab(1));
    client.drop_table("fluss.dropped");
    let cases = [
        ("a missing table", tables(&["fluss.missing"]), 7),
        ("a table of a missing database", tables(&["nowhere.t"]), 7),
        ("a dropped table", tables(&["fluss.dropped"]), 7),
        (
            "a dropped table beside a good one",
            tables(&["fluss.t", "fluss.dropped"]),
            7,
        ),
        (
            "a missing partition",
            partition("fluss.parted", Some("two")),
            36,
        ),
        (
            "a partition of a missing table",
            partition("fluss.missing", Some("one")),
            36,
        ),
        (
            "a partition of a plain table",
            partition("fluss.t", Some("one")),
            36,
        ),
        (
            "an impossible partition",
            partition("fluss.parted", Some("a/b c")),
            36,
        ),
        ("an unknown partition id", partition_id(99_999), 36),
        (
            "no table and no partition",
            pb::MetadataRequest::default(),
            0,
        ),
        (
            "a partition that exists",
            partition("fluss.parted", Some("one")),
            0,
        ),
    ];
    let mut wrong = Vec::new();
    for (sentence, request, expected) in cases {
        let got = client.code(ApiKey::GetMetadata, &request);
        if got != expected {
            wrong.push(format!("{sentence}: {got} instead of {expected}"));
        }
    }
    assert_all_right(&wrong);
}

/// Known failure B001.
#[test]
fn a_partition_path_without_a_name_means_the_table() {
    let (_server, mut client, plain, parted) = with_partitions();
    let request = pb::MetadataRequest {
        table_path: vec![plain.path()],
        partitions_path: vec![
            physical("fluss.t", None),
            physical("fluss.parted", Some("one")),
            physical("fluss.parted", None),
        ],
        partitions_id: vec![],
    };
    let answer = ask(&mut client, &request).expect("a success");
    let mut ids: Vec<_> = answer
        .table_metadata
        .iter()
        .map(|table| table.table_id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids, [Some(plain.id), Some(parted.id)]);
    assert_eq!(answer.partition_metadata.len(), 1);
}

#[test]
fn every_bucket_is_listed_with_its_leader() {
    let (_server, mut client, plain, parted) = with_partitions();
    let answer = ask(&mut client, &tables(&["fluss.t", "fluss.parted"])).expect("a success");
    let buckets = |id: i64| {
        let table = answer
            .table_metadata
            .iter()
            .find(|table| table.table_id == Some(id));
        table.expect("the table is there").bucket_metadata.clone()
    };
    let listed = buckets(plain.id);
    let ids: Vec<_> = listed.iter().map(|bucket| bucket.bucket_id).collect();
    assert_eq!(ids, [Some(0), Some(1), Some(2)]);
    assert!(
        listed.iter().all(|bucket| bucket.leader_id == Some(0)),
        "{listed:?}"
    );
    assert!(
        listed
            .iter()
            .all(|bucket| bucket.replica_id == [0] && bucket.isr == [0]),
        "{listed:?}"
    );
    assert!(
        buckets(parted.id).is_empty(),
        "a partitioned table has no buckets of its own"
    );
    let id = client.partitions(&parted)[0].0;
    for request in [partition("fluss.parted", Some("one")), partition_id(id)] {
        let answer = ask(&mut client, &request).expect("a success");
        let [found] = &answer.partition_metadata[..] else {
            panic!("{answer:?}")
        };
        assert_eq!(
            (found.partition_id, found.bucket_metadata.len()),
            (Some(id), 2)
        );
    }
}

#[test]
fn a_table_is_led_as_soon_as_it_is_created() {
    let server = quick().start();
    let mut client = server.client();
    for number in 0..30 {
        let name = format!("fluss.t{number}");
        let table = client.create_table(&name, &mainstem_testkit::ab(2));
        assert_eq!(
            client.append(&table, 1, &table.source().numbers([number])),
            Ok(0)
        );
    }
}

/// Known failure R09: the Rust and Python clients of 1.0.0 ask 1,500 times a
/// second for a partition that is missing.
#[test]
fn repeated_questions_for_a_missing_partition_are_slowed_and_hinder_nobody() {
    let (server, mut client, _, parted) = with_partitions();
    let missing = partition("fluss.parted", Some("two"));
    let begin = Instant::now();
    assert_eq!(client.code(ApiKey::GetMetadata, &missing), 36);
    let first = begin.elapsed();
    let begin = Instant::now();
    for _ in 0..10 {
        assert_eq!(client.code(ApiKey::GetMetadata, &missing), 36);
    }
    let repeats = begin.elapsed();
    assert!(
        repeats >= Duration::from_millis(100),
        "ten repeats after {repeats:?}"
    );
    assert!(first < repeats, "the first one took {first:?}");
    // Another request of the same connection overtakes slowed ones.
    let body = missing.encode_to_vec();
    let mut bytes: Vec<u8> = (100..105)
        .flat_map(|id| Wire::frame(ApiKey::GetMetadata.code(), 0, id, &body))
        .collect();
    bytes.extend(Wire::frame(ApiKey::ListDatabases.code(), 0, 1, &[]));
    assert!(client.wire().send_bytes(&bytes));
    let order: Vec<i32> = (0..6)
        .map(|_| match client.wire().receive() {
            Answer::Success { id, .. } | Answer::Error { id, code: 36, .. } => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(order.last(), Some(&1), "{order:?}");
    // Once created it is known at once.
    let mut other = server.client();
    other.create_partition(&parted, &[("p", "two")]);
    assert_eq!(client.code(ApiKey::GetMetadata, &missing), 0);
}
