//! behaviour.md §4 as far as it is about more than the descriptor, and §5.

use std::sync::Arc;

use mainstem_meta::{CatalogChange, CatalogListener};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    GetTableInfoRequest, GetTableInfoResponse, GetTableSchemaRequest, GetTableSchemaResponse,
    ListTablesRequest, ListTablesResponse, TableExistsRequest, TableExistsResponse,
};
use parking_lot::Mutex;
use serde_json::json;

use super::fixture::*;
use crate::CoordinatorConfig;

#[test]
fn names_are_checked_before_everything_else_the_database_first() {
    let fixture = Fixture::new();
    let long = format!("fluss/{}", "x".repeat(201));
    for path in ["", ".", "..", "__x", "a b", "t$changelog", long.as_str()] {
        assert_eq!(
            code(fixture.try_create(path, log_table().to_string(), false)),
            15,
            "{path}"
        );
        assert_eq!(
            code(fixture.try_create(path, "no json", false)),
            15,
            "{path}"
        );
    }
    for path in ["/t", "__d/t", "a b/=bad", "./t"] {
        assert_eq!(
            code(fixture.try_create(path, log_table().to_string(), false)),
            16,
            "{path}"
        );
    }
}

#[test]
fn the_database_must_exist_but_a_bad_descriptor_is_seen_first() {
    let fixture = Fixture::new();
    for ignore in [false, true] {
        assert_eq!(
            code(fixture.try_create("nope/t", log_table().to_string(), ignore)),
            4
        );
    }
    let unknown = with_options(log_table(), &[("table.nope", "1")]);
    assert_eq!(
        code(fixture.try_create("nope/t", unknown.to_string(), false)),
        39
    );
}

#[test]
fn an_existing_table_is_an_error_unless_ignored_and_the_descriptor_is_checked_anyway() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let again = |table: &serde_json::Value, ignore| {
        code(fixture.try_create("t", table.to_string(), ignore))
    };
    assert_eq!(again(&log_table(), false), 8);
    assert_eq!(again(&log_table(), true), OK);
    assert_eq!(
        again(&with_options(log_table(), &[("table.nope", "1")]), true),
        39
    );
    let replicas = with_options(log_table(), &[("table.replication.factor", "3")]);
    assert_eq!(again(&replicas, true), 17);
}

#[test]
fn unreadable_descriptors_are_invalid_tables() {
    let fixture = Fixture::new();
    for json in [&b"{"[..], b"", b"{}", b"[]", b"\xff\xfe"] {
        assert_eq!(code(fixture.try_create("t", json, false)), 15);
    }
    for missing in [
        "schema",
        "partition_key",
        "properties",
        "custom_properties",
        "bucket_key",
    ] {
        let mut table = log_table();
        table.as_object_mut().expect("an object").remove(missing);
        assert_eq!(
            code(fixture.try_create("t", table.to_string(), false)),
            15,
            "{missing}"
        );
    }
}

#[test]
fn more_replicas_than_servers_are_refused_for_a_plain_table_and_clearly() {
    let fixture = Fixture::new();
    for factor in ["3", "40000"] {
        let table = with_options(log_table(), &[("table.replication.factor", factor)]);
        let error = fixture
            .try_create("t", table.to_string(), false)
            .expect_err("refused");
        assert_eq!(error.code.code(), 17);
        assert!(
            error
                .message
                .contains("larger than available tablet servers: 1"),
            "{error}"
        );
        let mut table = table;
        table["partition_key"] = json!(["b"]);
        fixture.create(&format!("p{factor}"), &table);
        let partition = fixture.create_partition(&format!("p{factor}"), &[("b", "1")], false);
        assert_eq!(code(partition), 17);
    }
}

#[test]
fn limits_and_permissions_of_the_server_apply() {
    let config = CoordinatorConfig {
        max_bucket_num: 30,
        allow_create_kv_tables: false,
        default_bucket_number: 3,
        ..CoordinatorConfig::default()
    };
    let fixture = Fixture::with(config);
    let mut table = log_table();
    table["bucket_count"] = json!(31);
    let error = fixture
        .try_create("t", table.to_string(), false)
        .expect_err("refused");
    assert_eq!(error.code.code(), 49);
    assert!(
        error.message.contains("31 exceeds the maximum limit 30"),
        "{error}"
    );
    assert_eq!(
        code(fixture.try_create("t", key_table().to_string(), false)),
        15
    );
    let mut table = log_table();
    table
        .as_object_mut()
        .expect("an object")
        .remove("bucket_count");
    fixture.create("t", &table);
    assert_eq!(fixture.table_json("t")["bucket_count"], 3);
    for count in [0, -1] {
        table["bucket_count"] = json!(count);
        assert_eq!(
            code(fixture.try_create("bad", table.to_string(), false)),
            15
        );
    }
}

#[test]
fn the_table_is_read_back_with_what_the_server_filled_in() {
    let config = CoordinatorConfig {
        remote_data_dir: Some("file:///remote".to_owned()),
        ..CoordinatorConfig::default()
    };
    let fixture = Fixture::with(config);
    fixture.create("log", &log_table());
    fixture.create("key", &key_table());
    let info = fixture.info("log");
    assert_eq!((info.table_id, info.schema_id), (Some(0), Some(1)));
    assert_eq!(
        (info.created_time, info.modified_time),
        (Some(NOW_MS), Some(NOW_MS))
    );
    assert_eq!(info.remote_data_dir.as_deref(), Some("file:///remote"));
    assert_eq!(info.bucket_count_epoch, Some(0));
    assert_eq!(
        fixture.table_json("log")["properties"],
        json!({"table.replication.factor": "1"})
    );
    assert_eq!(
        fixture.table_json("key")["properties"],
        json!({
            "table.kv.format-version": "2",
            "table.kv.standby-replica.enabled": "true",
            "table.replication.factor": "1"
        })
    );
    assert_eq!(fixture.info("key").table_id, Some(1));
    assert_eq!(
        fixture.table_json("key")["schema"]["columns"][0]["data_type"]["nullable"],
        false
    );
}

#[test]
fn dropped_tables_are_gone_and_their_name_is_free_at_once() {
    let fixture = Fixture::new();
    assert_eq!(code(fixture.drop_table("t", false)), 7);
    for path in ["nope/t", "a b/t", "a b", ""] {
        assert_eq!(code(fixture.drop_table(path, false)), 7, "{path}");
        assert_eq!(code(fixture.drop_table(path, true)), OK, "{path}");
    }
    let mut ids = Vec::new();
    for _ in 0..3 {
        fixture.create("t", &log_table());
        ids.push(fixture.info("t").table_id.expect("sent"));
        fixture.drop_table("t", false).expect("dropped");
    }
    assert_eq!(ids, [0, 1, 2]);
    let left = fixture.store.list("").expect("listed").entries;
    let left: Vec<&str> = left.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        left,
        ["coordinator/epoch", "counters/table", "databases/fluss"]
    );
}

#[test]
fn missing_tables_have_their_codes() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    for path in ["missing", "nope/t", ""] {
        let request = GetTableInfoRequest {
            table_path: Some(pb_path(path)),
        };
        assert_eq!(
            code(fixture.call::<GetTableInfoResponse>(ApiKey::GetTableInfo, &request)),
            7
        );
        let request = TableExistsRequest {
            table_path: Some(pb_path(path)),
        };
        let answer: TableExistsResponse = fixture
            .call(ApiKey::TableExists, &request)
            .expect("answered");
        assert_eq!(answer.exists, Some(false));
    }
    let request = TableExistsRequest {
        table_path: Some(pb_path("t")),
    };
    let answer: TableExistsResponse = fixture
        .call(ApiKey::TableExists, &request)
        .expect("answered");
    assert_eq!(answer.exists, Some(true));
    for (path, id, expected) in [
        ("missing", None, 9),
        ("missing", Some(1), 9),
        ("t", Some(2), 9),
        ("t", Some(0), 9),
        ("t", Some(1), OK),
        ("t", None, OK),
    ] {
        let request = GetTableSchemaRequest {
            table_path: Some(pb_path(path)),
            schema_id: id,
        };
        let answer = fixture.call::<GetTableSchemaResponse>(ApiKey::GetTableSchema, &request);
        assert_eq!(code(answer), expected, "{path} {id:?}");
    }
}

#[test]
fn tables_are_listed_in_order() {
    let fixture = Fixture::new();
    for name in ["z", "a", "m"] {
        fixture.create(name, &log_table());
    }
    let request = ListTablesRequest {
        database_name: Some("fluss".to_owned()),
    };
    let answer: ListTablesResponse = fixture
        .call(ApiKey::ListTables, &request)
        .expect("answered");
    assert_eq!(answer.table_name, ["a", "m", "z"]);
}

/// Notes changes, as a tablet server would act on them.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl CatalogListener for Notes {
    fn apply(&self, change: &CatalogChange) {
        let note = match change {
            CatalogChange::BucketsCreated { table, partition } => {
                let buckets = partition
                    .as_ref()
                    .map_or(&table.buckets, |entry| &entry.buckets);
                let led = buckets
                    .iter()
                    .filter(|bucket| bucket.leader.is_some())
                    .count();
                let name = partition
                    .as_ref()
                    .map_or("-", |partition| partition.name.as_str());
                format!(
                    "created {} {name}: {led} of {} led",
                    table.path.table,
                    buckets.len()
                )
            }
            CatalogChange::TableAltered { table } => {
                format!("altered {} to schema {}", table.path.table, table.schema_id)
            }
            CatalogChange::PartitionAltered { partition, .. } => {
                format!("altered partition {}", partition.name)
            }
            CatalogChange::TableDropped { table_id, buckets } => {
                let buckets: Vec<String> = buckets.iter().map(ToString::to_string).collect();
                format!("dropped {table_id}: {}", buckets.join(" "))
            }
            CatalogChange::PartitionDropped {
                partition_id,
                buckets,
                ..
            } => {
                format!(
                    "dropped partition {partition_id}: {} buckets",
                    buckets.len()
                )
            }
        };
        self.0.lock().push(note);
    }
}

#[test]
fn servers_are_told_of_every_change_in_order_before_the_answer() {
    let fixture = Fixture::new();
    let notes = Arc::new(Notes::default());
    fixture.coordinator.catalog().subscribe(notes.clone());
    let told = || std::mem::take(&mut *notes.0.lock());

    fixture.create("t", &log_table());
    assert_eq!(told(), ["created t -: 2 of 2 led"]);
    fixture.create("p", &partitioned_table());
    assert_eq!(told(), ["created p -: 0 of 0 led"]);
    fixture
        .create_partition("p", &[("b", "x")], false)
        .expect("created");
    fixture
        .create_partition("p", &[("b", "y")], false)
        .expect("created");
    assert_eq!(
        told(),
        ["created p x: 2 of 2 led", "created p y: 2 of 2 led"]
    );
    fixture
        .set_options("t", &[("table.log.ttl", "1d")])
        .expect("altered");
    assert_eq!(told(), ["altered t to schema 1"]);
    // What changes nothing is not told.
    fixture
        .set_options("t", &[("table.log.ttl", "1d")])
        .expect("altered");
    assert_eq!(told(), Vec::<String>::new());
    fixture.drop_table("t", false).expect("dropped");
    assert_eq!(told(), ["dropped 0: 0/0 0/1"]);
    fixture.drop_table("p", false).expect("dropped");
    assert_eq!(told(), ["dropped 1: 1/p0/0 1/p0/1 1/p1/0 1/p1/1"]);
}
