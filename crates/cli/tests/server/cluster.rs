//! Cluster administration of one node (behaviour.md §14).

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, ab, log_table};
use mainstem_types::TypeKind;

use crate::support::{assert_all_right, durable, quick};

const SET: i32 = 0;
const DELETE: i32 = 1;
const APPEND: i32 = 2;
const SUBTRACT: i32 = 3;

fn alter(client: &mut Client, changes: &[(&str, Option<&str>, i32)]) -> i32 {
    let change = |(key, value, op): &(&str, Option<&str>, i32)| pb::PbAlterConfig {
        config_key: Some((*key).to_owned()),
        config_value: value.map(str::to_owned),
        op_type: Some(*op),
    };
    let request = pb::AlterClusterConfigsRequest {
        alter_configs: changes.iter().map(change).collect(),
    };
    client.code(ApiKey::AlterClusterConfigs, &request)
}

fn described(client: &mut Client, key: &str) -> Option<(Option<String>, String)> {
    let answer: pb::DescribeClusterConfigsResponse = client.call(
        ApiKey::DescribeClusterConfigs,
        &pb::DescribeClusterConfigsRequest {},
    );
    let found = answer
        .configs
        .into_iter()
        .find(|config| config.config_key.as_deref() == Some(key));
    found.map(|config| (config.config_value, config.config_source.expect("a source")))
}

#[test]
fn cluster_settings_change_at_run_time_where_that_is_allowed() {
    let server = quick().start();
    let mut client = server.client();
    let interval = "kv.snapshot.interval";
    let users = "security.sasl.plain.credentials";
    let cases: &[(&str, &[(&str, Option<&str>, i32)], i32)] = &[
        ("an interval", &[(interval, Some("5s"), SET)], 0),
        ("back to the default", &[(interval, None, DELETE)], 0),
        ("the delete of an unset key", &[(interval, None, DELETE)], 0),
        (
            "minimum ISR 0",
            &[("log.replica.min-in-sync-replicas-number", Some("0"), SET)],
            0,
        ),
        (
            "a key of the lake",
            &[("datalake.paimon.x", Some("y"), SET)],
            0,
        ),
        ("an unparsable value", &[(interval, Some("soon"), SET)], 64),
        (
            "a key that needs a restart",
            &[("max.bucket.num", Some("3"), SET)],
            64,
        ),
        ("an unknown key", &[("no.such.key", Some("1"), SET)], 64),
        (
            "a disk ratio of 2",
            &[("server.data-disk.write-limit-ratio", Some("2"), SET)],
            64,
        ),
        (
            "APPEND to a plain option",
            &[(interval, Some("1s"), APPEND)],
            64,
        ),
        ("operation 9", &[(interval, Some("1s"), 9)], -1),
        ("SET without value", &[(interval, None, SET)], 0),
        ("a user with a blank", &[(users, Some("a b:pw"), SET)], 64),
        ("another user", &[(users, Some("carol:pw"), APPEND)], 0),
        (
            "SUBTRACT of the name alone",
            &[(users, Some("carol"), SUBTRACT)],
            64,
        ),
        (
            "SUBTRACT of user and password",
            &[(users, Some("carol:pw"), SUBTRACT)],
            0,
        ),
        (
            "a lake without a plug-in",
            &[("datalake.format", Some("paimon"), SET)],
            64,
        ),
        (
            "one good and one bad entry",
            &[(interval, Some("7s"), SET), ("no.such.key", None, SET)],
            64,
        ),
        ("no entries", &[], 0),
    ];
    let mut wrong = Vec::new();
    for (sentence, changes, expected) in cases {
        let got = alter(&mut client, changes);
        if got != *expected {
            wrong.push(format!("{sentence}: {got} instead of {expected}"));
        }
    }
    assert_all_right(&wrong);
    let dynamic = || "DYNAMIC_SERVER_CONFIG".to_owned();
    assert_eq!(
        described(&mut client, interval),
        Some((None, dynamic())),
        "set without a value"
    );
}

#[test]
fn cluster_settings_are_remembered_by_the_next_start_and_secrets_are_hidden() {
    let mut server = durable().start();
    let mut client = server.client();
    assert_eq!(
        alter(&mut client, &[("kv.snapshot.interval", Some("5s"), SET)]),
        0
    );
    assert_eq!(
        alter(
            &mut client,
            &[(
                "security.sasl.plain.credentials",
                Some("carol:hunter2"),
                SET
            )]
        ),
        0
    );
    server.crash();
    let mut client = server.client();
    let dynamic = "DYNAMIC_SERVER_CONFIG".to_owned();
    let interval = described(&mut client, "kv.snapshot.interval");
    assert_eq!(interval, Some((Some("5s".to_owned()), dynamic)));
    let initial = described(&mut client, "bind.listeners").expect("listed");
    assert_eq!(initial.1, "INITIAL_SERVER_CONFIG");
    let (users, _) = described(&mut client, "security.sasl.plain.credentials").expect("listed");
    assert!(!users.unwrap_or_default().contains("hunter2"));
    assert!(!server.log().contains("hunter2"), "a password in the log");
}

#[test]
fn acl_requests_are_47_without_an_authorizer() {
    let server = quick().start();
    let mut client = server.client();
    assert_eq!(
        client.code(ApiKey::CreateAcls, &pb::CreateAclsRequest::default()),
        47
    );
    assert_eq!(
        client.code(ApiKey::DropAcls, &pb::DropAclsRequest::default()),
        47
    );
    let filter = pb::PbAclFilter {
        resource_type: Some(1),
        operation_type: Some(1),
        permission_type: Some(1),
        ..pb::PbAclFilter::default()
    };
    assert_eq!(
        client.code(
            ApiKey::ListAcls,
            &pb::ListAclsRequest {
                acl_filter: Some(filter)
            }
        ),
        47
    );
}

fn health(client: &mut Client) -> [Option<i32>; 5] {
    let health: pb::GetClusterHealthResponse =
        client.call(ApiKey::GetClusterHealth, &pb::GetClusterHealthRequest {});
    [
        health.num_replicas,
        health.in_sync_replicas,
        health.num_leader_replicas,
        health.active_leader_replicas,
        health.status,
    ]
}

#[test]
fn health_counts_the_buckets_of_tables_and_partitions() {
    let server = quick().start();
    let mut client = server.client();
    assert_eq!(health(&mut client), [Some(0); 5]);
    client.create_table("fluss.t", &ab(3));
    let parted =
        log_table(&[("a", TypeKind::Int), ("p", TypeKind::String)], 2).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    for name in ["one", "two"] {
        client.create_partition(&parted, &[("p", name)]);
    }
    assert_eq!(
        health(&mut client),
        [Some(7), Some(7), Some(7), Some(7), Some(0)]
    );
    client.drop_partition(&parted, &[("p", "one")]);
    client.drop_table("fluss.t");
    assert_eq!(
        health(&mut client),
        [Some(2), Some(2), Some(2), Some(2), Some(0)]
    );
}

#[test]
fn producer_offsets_are_kept_once_and_for_known_tables() {
    let mut server = durable().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(2));
    let register =
        |id: &str, table_id: i64, offset: Option<i64>| pb::RegisterProducerOffsetsRequest {
            producer_id: Some(id.to_owned()),
            table_offsets: vec![pb::PbProducerTableOffsets {
                table_id: Some(table_id),
                bucket_offsets: vec![pb::PbBucketOffset {
                    partition_id: None,
                    bucket_id: Some(1),
                    log_end_offset: offset,
                }],
            }],
            ttl_ms: None,
        };
    let key = ApiKey::RegisterProducerOffsets;
    for id in ["", "a b", "..", "a/b"] {
        assert_eq!(
            client.code(key, &register(id, table.id, Some(1))),
            63,
            "'{id}'"
        );
    }
    assert_eq!(client.code(key, &register("job", 99_999, Some(1))), 7);
    let mut results = Vec::new();
    for offset in [7, 9] {
        let answer: pb::RegisterProducerOffsetsResponse =
            client.call(key, &register("job", table.id, Some(offset)));
        results.push(answer.result);
    }
    assert_eq!(results, [Some(0), Some(1)]);
    server.crash();
    let mut client = server.client();
    let of = |id: &str| pb::GetProducerOffsetsRequest {
        producer_id: Some(id.to_owned()),
    };
    let known: pb::GetProducerOffsetsResponse = client.call(ApiKey::GetProducerOffsets, &of("job"));
    assert_eq!(known.producer_id.as_deref(), Some("job"));
    assert!(known.expiration_time.is_some());
    assert_eq!(
        known.table_offsets[0].bucket_offsets[0].log_end_offset,
        Some(7)
    );
    let unknown: pb::GetProducerOffsetsResponse =
        client.call(ApiKey::GetProducerOffsets, &of("none"));
    assert_eq!(unknown, pb::GetProducerOffsetsResponse::default());
    for id in ["job", "job", "none"] {
        let delete = pb::DeleteProducerOffsetsRequest {
            producer_id: Some(id.to_owned()),
        };
        assert_eq!(
            client.code(ApiKey::DeleteProducerOffsets, &delete),
            0,
            "{id}"
        );
    }
    let gone: pb::GetProducerOffsetsResponse = client.call(ApiKey::GetProducerOffsets, &of("job"));
    assert_eq!(gone, pb::GetProducerOffsetsResponse::default());
}
