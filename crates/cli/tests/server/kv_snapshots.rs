//! KV snapshots and their leases on a server that makes none (behaviour.md §13,
//! wire.md §4.12).

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Server, Table, ab, keyed_ab, keyed_table, log_table, path};
use mainstem_types::TypeKind;

use crate::support::{assert_all_right, quick};

struct Tables {
    log: Table,
    keyed: Table,
    parted: Table,
    parted_log: Table,
    /// Of `parted`.
    partition: i64,
    /// Of `parted_log`.
    foreign: i64,
}

fn server_with_tables() -> (Server, Client, Tables) {
    let server = quick().start();
    let mut client = server.client();
    let columns = [("k", TypeKind::Int), ("p", TypeKind::String)];
    let parted = keyed_table(&columns, &["k", "p"], 3).partitioned_by(["p"]);
    let parted = client.create_table("fluss.parted", &parted);
    let parted_log = log_table(&columns, 1).partitioned_by(["p"]);
    let parted_log = client.create_table("fluss.parted_log", &parted_log);
    let tables = Tables {
        log: client.create_table("fluss.log", &ab(1)),
        keyed: client.create_table("fluss.keyed", &keyed_ab(2)),
        partition: client.create_partition(&parted, &[("p", "x")]),
        foreign: client.create_partition(&parted_log, &[("p", "x")]),
        parted,
        parted_log,
    };
    (server, client, tables)
}

#[test]
fn buckets_are_listed_without_a_snapshot() {
    let (_server, mut client, tables) = server_with_tables();
    let latest = |name: &str, partition: Option<&str>| pb::GetLatestKvSnapshotsRequest {
        table_path: Some(path(name)),
        partition_name: partition.map(str::to_owned),
    };
    let mut wrong = Vec::new();
    for (name, partition, code) in [
        ("fluss.log", None, 20),
        ("fluss.parted_log", None, 20),
        ("fluss.parted_log", Some("x"), 20),
        ("fluss.missing", None, 7),
        ("nowhere.missing", None, 7),
        ("fluss.keyed", Some("x"), 37),
        ("fluss.parted", None, 36),
        ("fluss.parted", Some("y"), 36),
        ("fluss.parted", Some(""), 36),
    ] {
        let got = client.code(ApiKey::GetLatestKvSnapshots, &latest(name, partition));
        if got != code {
            wrong.push(format!("{name} {partition:?}: {got} instead of {code}"));
        }
    }
    assert_all_right(&wrong);
    for (table, partition, partition_id, buckets) in [
        (&tables.keyed, None, None, 2),
        (&tables.parted, Some("x"), Some(tables.partition), 3),
    ] {
        let answer: pb::GetLatestKvSnapshotsResponse = client.call(
            ApiKey::GetLatestKvSnapshots,
            &latest(&table.name, partition),
        );
        assert_eq!(
            (answer.table_id, answer.partition_id),
            (Some(table.id), partition_id)
        );
        let listed: Vec<_> = answer
            .latest_snapshots
            .iter()
            .map(|entry| (entry.bucket_id, entry.snapshot_id, entry.log_offset))
            .collect();
        let expected: Vec<_> = (0..buckets)
            .map(|bucket| (Some(bucket), None, None))
            .collect();
        assert_eq!(listed, expected, "{}", table.name);
    }
}

#[test]
fn no_snapshot_has_metadata() {
    let (_server, mut client, tables) = server_with_tables();
    let of = |table: &Table, partition_id, bucket| pb::GetKvSnapshotMetadataRequest {
        table_id: Some(table.id),
        partition_id,
        bucket_id: Some(bucket),
        snapshot_id: Some(0),
    };
    let unknown = Table {
        id: 99_999,
        ..tables.keyed.clone()
    };
    for request in [
        of(&tables.keyed, None, 0),
        of(&tables.keyed, None, 9),
        of(&tables.log, None, 0),
        of(&tables.parted, Some(tables.partition), 0),
        of(&tables.parted, None, 0),
        of(&unknown, None, 0),
    ] {
        let got = client.code(ApiKey::GetKvSnapshotMetadata, &request);
        assert_eq!(got, 41, "{request:?}");
    }
}

/// To a tool that cleans up, an empty list means that nothing is in use.
#[test]
fn lists_of_snapshots_are_of_tables_and_partitions_that_exist() {
    let (_server, mut client, tables) = server_with_tables();
    let unknown = Table {
        id: 99_999,
        ..tables.keyed.clone()
    };
    let mut wrong = Vec::new();
    for (table, partition_id, code) in [
        (&unknown, None, 7),
        (&tables.log, None, 0),
        (&tables.keyed, None, 0),
        (&tables.keyed, Some(tables.partition), 36),
        (&tables.parted, Some(tables.partition), 0),
        (&tables.parted, None, 36),
        (&tables.parted, Some(tables.foreign), 36),
        (&tables.parted, Some(99_999), 36),
        (&tables.parted_log, Some(tables.foreign), 0),
    ] {
        let snapshots = pb::ListKvSnapshotsRequest {
            table_id: Some(table.id),
            partition_id,
        };
        let manifests = pb::ListRemoteLogManifestsRequest {
            table_id: Some(table.id),
            partition_id,
        };
        let got = [
            client.code(ApiKey::ListKvSnapshots, &snapshots),
            client.code(ApiKey::ListRemoteLogManifests, &manifests),
        ];
        if got != [code; 2] {
            wrong.push(format!(
                "{} {partition_id:?}: {got:?} instead of {code}",
                table.name
            ));
        }
        if code == 0 {
            let answer: pb::ListKvSnapshotsResponse =
                client.call(ApiKey::ListKvSnapshots, &snapshots);
            assert!(answer.active_snapshots.is_empty());
            assert_eq!(
                (answer.table_id, answer.partition_id),
                (Some(table.id), partition_id)
            );
        }
    }
    assert_all_right(&wrong);
}

fn lease(
    duration_ms: i64,
    tables: &[(&Table, &[(i32, i64)])],
) -> pb::AcquireKvSnapshotLeaseRequest {
    let bucket = |(bucket, snapshot): &(i32, i64)| pb::PbKvSnapshotLeaseForBucket {
        partition_id: None,
        bucket_id: Some(*bucket),
        snapshot_id: Some(*snapshot),
    };
    let table = |(table, buckets): &(&Table, &[(i32, i64)])| pb::PbKvSnapshotLeaseForTable {
        table_id: Some(table.id),
        bucket_snapshots: buckets.iter().map(bucket).collect(),
    };
    pb::AcquireKvSnapshotLeaseRequest {
        lease_id: Some("job-1".to_owned()),
        lease_duration_ms: Some(duration_ms),
        snapshots_to_lease: tables.iter().map(table).collect(),
    }
}

/// Known failure B078: what cannot be leased is reported, not passed over.
#[test]
fn snapshots_that_do_not_exist_are_reported_as_unavailable() {
    let (_server, mut client, tables) = server_with_tables();
    let unknown = Table {
        id: 99_999,
        ..tables.keyed.clone()
    };
    for (request, code) in [
        (lease(1_000, &[(&tables.log, &[(0, 0)])]), 20),
        (lease(1_000, &[(&unknown, &[(0, 0)])]), 21),
        (
            lease(
                1_000,
                &[(&tables.keyed, &[(0, 0)]), (&tables.log, &[(0, 0)])],
            ),
            20,
        ),
    ] {
        assert_eq!(
            client.code(ApiKey::AcquireKvSnapshotLease, &request),
            code,
            "{request:?}"
        );
    }
    for duration_ms in [1_000, 0, -1, i64::MAX] {
        let request = lease(duration_ms, &[(&tables.keyed, &[(0, 3), (1, 0)])]);
        let answer: pb::AcquireKvSnapshotLeaseResponse =
            client.call(ApiKey::AcquireKvSnapshotLease, &request);
        assert_eq!(answer.unavailable_snapshots, request.snapshots_to_lease);
    }
    let renewal: pb::AcquireKvSnapshotLeaseResponse =
        client.call(ApiKey::AcquireKvSnapshotLease, &lease(1_000, &[]));
    assert_eq!(renewal.unavailable_snapshots, []);
}

#[test]
fn a_lease_that_does_not_exist_is_released_and_dropped() {
    let (_server, mut client, tables) = server_with_tables();
    let release = pb::ReleaseKvSnapshotLeaseRequest {
        lease_id: Some("nobody's".to_owned()),
        buckets_to_release: vec![pb::PbTableBucket {
            table_id: Some(tables.keyed.id),
            bucket_id: Some(0),
            ..pb::PbTableBucket::default()
        }],
    };
    assert_eq!(client.code(ApiKey::ReleaseKvSnapshotLease, &release), 0);
    let drop = pb::DropKvSnapshotLeaseRequest {
        lease_id: Some("nobody's".to_owned()),
    };
    assert_eq!(client.code(ApiKey::DropKvSnapshotLease, &drop), 0);
}

#[test]
fn the_local_file_system_needs_no_secrets() {
    let (_server, mut client, _tables) = server_with_tables();
    let answer: pb::GetFileSystemSecurityTokenResponse = client.call(
        ApiKey::GetFilesystemSecurityToken,
        &pb::GetFileSystemSecurityTokenRequest {},
    );
    assert_eq!(answer.schema.as_deref(), Some("file"));
    assert!(answer.token.is_some_and(|token| token.is_empty()));
}

#[test]
fn tables_without_a_lake_have_no_lake_snapshot() {
    let (_server, mut client, _tables) = server_with_tables();
    for (name, code) in [("fluss.log", 53), ("fluss.keyed", 53), ("fluss.missing", 7)] {
        let request = pb::GetLakeSnapshotRequest {
            table_path: Some(path(name)),
            ..pb::GetLakeSnapshotRequest::default()
        };
        assert_eq!(
            client.code(ApiKey::GetLakeSnapshot, &request),
            code,
            "{name}"
        );
    }
}
