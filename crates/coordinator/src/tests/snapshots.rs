//! What readers of KV snapshots are told while there are none (behaviour.md §13).
//! More cases are among the recorded exchanges.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    AcquireKvSnapshotLeaseRequest, AcquireKvSnapshotLeaseResponse, DropKvSnapshotLeaseRequest,
    DropKvSnapshotLeaseResponse, GetKvSnapshotMetadataRequest, GetKvSnapshotMetadataResponse,
    GetLatestKvSnapshotsRequest, GetLatestKvSnapshotsResponse, ListKvSnapshotsRequest,
    ListKvSnapshotsResponse, PbKvSnapshotLeaseForBucket, PbKvSnapshotLeaseForTable, PbTableBucket,
    ReleaseKvSnapshotLeaseRequest, ReleaseKvSnapshotLeaseResponse,
};

use super::fixture::*;
use crate::{APIS, ApiError, is_read_only};

const UNKNOWN: i64 = 99_999;

fn wanted(
    table_id: i64,
    partition_id: Option<i64>,
    snapshots: &[(i32, i64)],
) -> PbKvSnapshotLeaseForTable {
    let bucket_snapshots = snapshots
        .iter()
        .map(|(bucket, snapshot)| PbKvSnapshotLeaseForBucket {
            partition_id,
            bucket_id: Some(*bucket),
            snapshot_id: Some(*snapshot),
        })
        .collect();
    PbKvSnapshotLeaseForTable {
        table_id: Some(table_id),
        bucket_snapshots,
    }
}

fn acquire(
    fixture: &Fixture,
    duration_ms: i64,
    snapshots_to_lease: Vec<PbKvSnapshotLeaseForTable>,
) -> Result<Vec<PbKvSnapshotLeaseForTable>, ApiError> {
    let request = AcquireKvSnapshotLeaseRequest {
        lease_id: Some("lease".to_owned()),
        lease_duration_ms: Some(duration_ms),
        snapshots_to_lease,
    };
    let answer: AcquireKvSnapshotLeaseResponse =
        fixture.call(ApiKey::AcquireKvSnapshotLease, &request)?;
    Ok(answer.unavailable_snapshots)
}

/// A cluster with a log table, a table with a key, and one with partitions.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.create("log", &log_table());
    fixture.create("kv", &key_table());
    let mut table = key_table();
    table["schema"]["primary_key"] = serde_json::json!(["a", "b"]);
    table["partition_key"] = serde_json::json!(["b"]);
    fixture.create("split", &table);
    fixture
        .create_partition("split", &[("b", "x")], false)
        .expect("created");
    fixture
}

fn id(fixture: &Fixture, path: &str) -> i64 {
    fixture.info(path).table_id.expect("sent")
}

#[test]
fn every_bucket_has_an_entry_without_snapshot() {
    let fixture = fixture();
    let latest = |path: &str, partition: Option<&str>| {
        let request = GetLatestKvSnapshotsRequest {
            table_path: Some(pb_path(path)),
            partition_name: partition.map(str::to_owned),
        };
        fixture.call::<GetLatestKvSnapshotsResponse>(ApiKey::GetLatestKvSnapshots, &request)
    };
    for (path, partition) in [("kv", None), ("split", Some("x"))] {
        let answer = latest(path, partition).expect("answered");
        assert_eq!(answer.table_id, Some(id(&fixture, path)));
        assert_eq!(answer.partition_id.is_some(), partition.is_some());
        let buckets: Vec<_> = answer
            .latest_snapshots
            .iter()
            .map(|entry| (entry.bucket_id, entry.snapshot_id, entry.log_offset))
            .collect();
        assert_eq!(buckets, [(Some(0), None, None), (Some(1), None, None)]);
    }
    assert_eq!(code(latest("log", None)), 20);
    assert_eq!(code(latest("missing", None)), 7);
    assert_eq!(code(latest("kv", Some("x"))), 37);
    assert_eq!(code(latest("split", None)), 36);
    assert_eq!(code(latest("split", Some("y"))), 36);
}

#[test]
fn no_snapshot_has_files() {
    let fixture = fixture();
    for table_id in [id(&fixture, "kv"), id(&fixture, "log"), UNKNOWN] {
        for bucket in [0, 77] {
            let request = GetKvSnapshotMetadataRequest {
                table_id: Some(table_id),
                partition_id: None,
                bucket_id: Some(bucket),
                snapshot_id: Some(0),
            };
            let answer = fixture
                .call::<GetKvSnapshotMetadataResponse>(ApiKey::GetKvSnapshotMetadata, &request);
            assert_eq!(code(answer), 41, "{table_id} {bucket}");
        }
    }
}

#[test]
fn no_snapshot_is_in_use() {
    let fixture = fixture();
    let list = |table_id, partition_id| {
        let request = ListKvSnapshotsRequest {
            table_id: Some(table_id),
            partition_id,
        };
        fixture.call::<ListKvSnapshotsResponse>(ApiKey::ListKvSnapshots, &request)
    };
    for path in ["kv", "log"] {
        let answer = list(id(&fixture, path), None).expect("answered");
        assert_eq!(answer.active_snapshots, []);
    }
    assert_eq!(code(list(UNKNOWN, None)), 7);
    assert_eq!(code(list(id(&fixture, "split"), None)), 36);
    assert_eq!(code(list(id(&fixture, "split"), Some(UNKNOWN))), 36);
}

#[test]
fn a_lease_reports_every_snapshot_as_unavailable_and_stores_nothing() {
    let fixture = fixture();
    let split = fixture
        .coordinator
        .catalog()
        .partitions_of(mainstem_types::TableId(id(&fixture, "split")));
    let partition = split.first().expect("a partition").partition_id.0;
    let asked = vec![
        wanted(id(&fixture, "kv"), None, &[(0, 3), (1, 4), (99, 5)]),
        wanted(id(&fixture, "split"), Some(partition), &[(0, 0)]),
    ];
    let before = fixture.store.list("").expect("listed");
    for duration_ms in [60_000, 0, -1] {
        let unavailable = acquire(&fixture, duration_ms, asked.clone()).expect("answered");
        assert_eq!(unavailable, asked, "{duration_ms}");
    }
    let renewed = acquire(&fixture, 60_000, Vec::new()).expect("answered");
    assert_eq!(renewed, []);
    let nothing = vec![wanted(id(&fixture, "kv"), None, &[])];
    assert_eq!(acquire(&fixture, 60_000, nothing).expect("answered"), []);
    let after = fixture.store.list("").expect("listed");
    assert_eq!(before.revision, after.revision);
}

#[test]
fn a_lease_needs_tables_with_a_primary_key() {
    let fixture = fixture();
    let kv = wanted(id(&fixture, "kv"), None, &[(0, 0)]);
    for (other, expected) in [(id(&fixture, "log"), 20), (UNKNOWN, 21)] {
        let asked = vec![kv.clone(), wanted(other, None, &[(0, 0)])];
        assert_eq!(code(acquire(&fixture, 1000, asked)), expected);
    }
}

#[test]
fn an_unknown_lease_is_released_and_dropped() {
    let fixture = fixture();
    let release = ReleaseKvSnapshotLeaseRequest {
        lease_id: Some("nobody".to_owned()),
        buckets_to_release: vec![PbTableBucket {
            table_id: Some(id(&fixture, "kv")),
            partition_id: None,
            bucket_id: Some(0),
        }],
    };
    let released =
        fixture.call::<ReleaseKvSnapshotLeaseResponse>(ApiKey::ReleaseKvSnapshotLease, &release);
    assert_eq!(code(released), OK);
    let drop = DropKvSnapshotLeaseRequest {
        lease_id: Some("nobody".to_owned()),
    };
    let dropped = fixture.call::<DropKvSnapshotLeaseResponse>(ApiKey::DropKvSnapshotLease, &drop);
    assert_eq!(code(dropped), OK);
}

#[test]
fn the_apis_of_snapshots_are_advertised_and_answered_at_once() {
    for (key, highest) in [
        (1023, 0),
        (1024, 1),
        (1056, 0),
        (1057, 0),
        (1058, 0),
        (1064, 0),
    ] {
        assert!(APIS.contains(&(key, 0, highest)), "{key}");
        assert!(is_read_only(key), "{key}");
    }
    assert!(APIS.is_sorted());
}
