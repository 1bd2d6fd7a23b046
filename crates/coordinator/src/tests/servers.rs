//! Servers that come and go, and coordinators that are replaced.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{GetClusterHealthRequest, GetClusterHealthResponse};
use mainstem_types::{LeaderEpoch, ServerId};

use super::fixture::*;
use crate::CoordinatorConfig;

fn health(fixture: &Fixture) -> (i32, i32, i32, i32, i32) {
    let answer: GetClusterHealthResponse = fixture
        .call(ApiKey::GetClusterHealth, &GetClusterHealthRequest {})
        .expect("answered");
    (
        answer.num_replicas.expect("sent"),
        answer.in_sync_replicas.expect("sent"),
        answer.num_leader_replicas.expect("sent"),
        answer.active_leader_replicas.expect("sent"),
        answer.status.expect("sent"),
    )
}

#[test]
fn health_counts_replicas_and_leaders() {
    let fixture = Fixture::new();
    assert_eq!(health(&fixture), (0, 0, 0, 0, 0));
    fixture.create("t", &log_table());
    fixture.create("p", &partitioned_table());
    fixture
        .create_partition("p", &[("b", "1")], false)
        .expect("created");
    assert_eq!(health(&fixture), (4, 4, 4, 4, 0));
    fixture.coordinator.remove(ServerId(0)).expect("removed");
    assert_eq!(health(&fixture), (4, 4, 4, 0, 2));
}

#[test]
fn with_several_servers_replicas_are_spread_and_a_follower_in_sync_takes_over() {
    let fixture = Fixture::new();
    for id in [1, 2] {
        fixture
            .coordinator
            .register(server(id))
            .expect("registered");
    }
    let mut table = with_options(log_table(), &[("table.replication.factor", "3")]);
    table["bucket_count"] = serde_json::json!(6);
    fixture.create("t", &table);
    let catalog = fixture.coordinator.catalog();
    let entry = catalog.table(&types_path("t")).expect("there");
    for id in 0..3 {
        let led = entry
            .buckets
            .iter()
            .filter(|bucket| bucket.leader == Some(ServerId(id)));
        assert_eq!(led.count(), 2, "leaders are even");
    }
    fixture.coordinator.remove(ServerId(1)).expect("removed");
    let after = catalog.table(&types_path("t")).expect("there");
    for (before, after) in entry.buckets.iter().zip(&after.buckets) {
        if before.leader == Some(ServerId(1)) {
            let next = before
                .replicas
                .iter()
                .find(|id| **id != ServerId(1))
                .copied();
            assert_eq!((after.leader, after.leader_epoch), (next, LeaderEpoch(1)));
        } else {
            assert_eq!(after, before);
        }
    }
    // The change is in the store, not only in memory.
    let reopened = Fixture::on(fixture.store.clone(), CoordinatorConfig::default());
    let stored = reopened
        .coordinator
        .catalog()
        .table(&types_path("t"))
        .expect("there");
    assert_eq!(stored.buckets.len(), 6);
    assert!(stored.buckets.iter().all(|bucket| bucket.leader.is_some()));
}

#[test]
fn a_bucket_without_leader_gets_it_back_when_its_server_is_back() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    fixture.coordinator.remove(ServerId(0)).expect("removed");
    fixture.coordinator.register(server(0)).expect("registered");
    let table = fixture
        .coordinator
        .catalog()
        .table(&types_path("t"))
        .expect("there");
    for bucket in &table.buckets {
        assert_eq!(
            (bucket.leader, bucket.leader_epoch),
            (Some(ServerId(0)), LeaderEpoch(2))
        );
        assert_eq!(bucket.isr, [ServerId(0)]);
    }
}

#[test]
fn a_restart_on_one_node_changes_no_bucket() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let before = fixture.store.list("").expect("listed");
    let again = Fixture::on(fixture.store.clone(), CoordinatorConfig::default());
    let after = fixture.store.list("").expect("listed");
    // Only the epoch was written.
    assert_eq!(after.revision.0, before.revision.0 + 1);
    assert_eq!(again.info("t").table_json, fixture.info("t").table_json);
}

#[test]
fn a_coordinator_that_was_replaced_changes_nothing() {
    let first = Fixture::new();
    first.create("t", &log_table());
    let second = Fixture::on(first.store.clone(), CoordinatorConfig::default());
    assert_eq!(
        second.coordinator.epoch().0,
        first.coordinator.epoch().0 + 1
    );
    let before = first.store.list("").expect("listed").revision;
    assert_eq!(code(first.drop_table("t", false)), 65);
    assert_eq!(
        code(first.try_create("u", log_table().to_string(), false)),
        65
    );
    assert_eq!(first.store.list("").expect("listed").revision, before);
    second.create("u", &log_table());
    assert_eq!(second.info("u").table_id, Some(1));
}

#[test]
fn the_first_epoch_is_zero() {
    assert_eq!(Fixture::new().coordinator.epoch().0, 0);
}
