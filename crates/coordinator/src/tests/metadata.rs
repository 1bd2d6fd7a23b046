//! behaviour.md §6.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{MetadataRequest, MetadataResponse, PbPhysicalTablePath};
use mainstem_types::ServerId;

use super::fixture::*;
use crate::ApiError;

fn ask(fixture: &Fixture, request: MetadataRequest) -> Result<MetadataResponse, ApiError> {
    fixture.call(ApiKey::GetMetadata, &request)
}

fn tables(paths: &[&str]) -> MetadataRequest {
    let table_path = paths.iter().map(|path| pb_path(path)).collect();
    MetadataRequest {
        table_path,
        ..MetadataRequest::default()
    }
}

fn partition(path: &str, name: Option<&str>) -> MetadataRequest {
    let path = pb_path(path);
    let path = PbPhysicalTablePath {
        database_name: path.database_name,
        table_name: path.table_name,
        partition_name: name.map(str::to_owned),
    };
    MetadataRequest {
        partitions_path: vec![path],
        ..MetadataRequest::default()
    }
}

fn partition_ids(ids: &[i64]) -> MetadataRequest {
    MetadataRequest {
        partitions_id: ids.to_vec(),
        ..MetadataRequest::default()
    }
}

#[test]
fn without_a_question_the_servers_of_the_listener_are_answered() {
    let mut fixture = Fixture::new();
    for (listener, port) in [("FLUSS", 9123), ("CLIENT", 9200)] {
        fixture.session = session(listener);
        let answer = ask(&fixture, MetadataRequest::default()).expect("answered");
        let coordinator = answer.coordinator_server.expect("known");
        assert_eq!(
            (coordinator.node_id, coordinator.port),
            (Some(0), Some(port))
        );
        assert_eq!(answer.tablet_servers.len(), 1);
        let server = &answer.tablet_servers[0];
        assert_eq!(server.host.as_deref(), Some("127.0.0.1"));
        assert_eq!((server.node_id, server.port), (Some(0), Some(port)));
        assert_eq!(server.listeners, None);
    }
    fixture.session = session("OTHER");
    let answer = ask(&fixture, MetadataRequest::default()).expect("answered");
    assert_eq!(
        (answer.coordinator_server, answer.tablet_servers.len()),
        (None, 0)
    );
}

#[test]
fn a_table_is_answered_with_all_its_buckets() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let answer = ask(&fixture, tables(&["t"])).expect("answered");
    let [table] = &answer.table_metadata[..] else {
        panic!("one table: {answer:?}")
    };
    assert_eq!(table.table_id, Some(0));
    assert_eq!(table.table_json, fixture.info("t").table_json);
    assert_eq!(table.bucket_count_epoch, Some(0));
    let buckets: Vec<_> = table
        .bucket_metadata
        .iter()
        .map(|bucket| bucket.bucket_id)
        .collect();
    assert_eq!(buckets, [Some(0), Some(1)]);
    for bucket in &table.bucket_metadata {
        assert_eq!((bucket.leader_id, bucket.leader_epoch), (Some(0), Some(0)));
        assert_eq!((&bucket.replica_id, &bucket.isr), (&vec![0], &vec![0]));
        assert_eq!(bucket.bucket_epoch, Some(0));
    }
}

#[test]
fn a_leader_that_is_gone_is_left_out_but_its_bucket_is_not() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    fixture.coordinator.remove(ServerId(0)).expect("removed");
    let answer = ask(&fixture, tables(&["t"])).expect("answered");
    assert_eq!(answer.tablet_servers.len(), 0);
    let buckets = &answer.table_metadata[0].bucket_metadata;
    assert_eq!(buckets.len(), 2);
    for bucket in buckets {
        assert_eq!((bucket.leader_id, bucket.leader_epoch), (None, None));
        assert_eq!(bucket.replica_id, [0]);
    }
}

#[test]
fn one_missing_table_fails_the_request() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    fixture.create("dropped", &log_table());
    fixture.drop_table("dropped", false).expect("dropped");
    for paths in [
        &["missing"][..],
        &["t", "missing"],
        &["dropped"],
        &["nope/t"],
        &[""],
    ] {
        assert_eq!(code(ask(&fixture, tables(paths))), 7, "{paths:?}");
    }
}

#[test]
fn partitions_are_found_by_name_and_by_id() {
    let fixture = Fixture::new();
    fixture.create("p", &partitioned_table());
    fixture.create("t", &log_table());
    fixture
        .create_partition("p", &[("b", "x")], false)
        .expect("created");

    let answer = ask(&fixture, tables(&["p"])).expect("answered");
    assert_eq!(answer.table_metadata[0].bucket_metadata.len(), 0);
    for request in [partition("p", Some("x")), partition_ids(&[0])] {
        let answer = ask(&fixture, request).expect("answered");
        assert_eq!(answer.table_metadata.len(), 0);
        let [partition] = &answer.partition_metadata[..] else {
            panic!("one: {answer:?}")
        };
        assert_eq!(partition.partition_name.as_deref(), Some("x"));
        assert_eq!(
            (partition.table_id, partition.partition_id),
            (Some(0), Some(0))
        );
        assert_eq!(partition.bucket_count, Some(2));
        assert_eq!(partition.bucket_metadata.len(), 2);
        assert_eq!(partition.bucket_metadata[0].leader_id, Some(0));
    }
    for request in [
        partition("p", Some("missing")),
        partition("p", Some("a b")),
        partition("missing", Some("x")),
        partition("t", Some("x")),
        partition_ids(&[0, 1]),
        partition_ids(&[-1]),
    ] {
        assert_eq!(code(ask(&fixture, request.clone())), 36, "{request:?}");
    }
}

#[test]
fn a_partition_path_without_a_name_means_the_table() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let answer = ask(&fixture, partition("t", None)).expect("answered");
    assert_eq!(answer.table_metadata.len(), 1);
    assert_eq!(answer.partition_metadata.len(), 0);
    assert_eq!(code(ask(&fixture, partition("missing", None))), 7);
}
