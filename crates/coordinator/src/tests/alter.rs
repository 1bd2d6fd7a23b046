//! behaviour.md §5: alterTable.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    AlterTableRequest, GetTableSchemaRequest, GetTableSchemaResponse, PbAddColumn, PbDropColumn,
    PbKeyValue, PbModifyBucketCount, PbModifyColumn, PbRenameColumn,
};
use serde_json::{Value, json};

use super::fixture::*;
use crate::CoordinatorConfig;

fn column(name: &str) -> PbAddColumn {
    PbAddColumn {
        column_name: Some(name.to_owned()),
        data_type_json: Some(r#"{"type":"STRING"}"#.into()),
        comment: None,
        column_position_type: Some(0),
        agg_function_type: None,
        agg_function_params: Vec::new(),
    }
}

fn typed(name: &str, data_type: &'static str) -> PbAddColumn {
    PbAddColumn {
        data_type_json: Some(data_type.into()),
        ..column(name)
    }
}

fn add(fixture: &Fixture, path: &str, add_columns: Vec<PbAddColumn>) -> i32 {
    code(fixture.alter(AlterTableRequest {
        add_columns,
        ..alter_request(path)
    }))
}

fn schema(fixture: &Fixture, path: &str, id: Option<i32>) -> Value {
    let request = GetTableSchemaRequest {
        table_path: Some(pb_path(path)),
        schema_id: id,
    };
    let answer: GetTableSchemaResponse = fixture
        .call(ApiKey::GetTableSchema, &request)
        .expect("the schema is there");
    serde_json::from_slice(&answer.schema_json.expect("sent")).expect("JSON")
}

fn options(fixture: &Fixture, path: &str, changes: &[(&str, Option<&str>, i32)]) -> i32 {
    let config_changes = changes
        .iter()
        .map(|(key, value, op)| config(key, *value, *op))
        .collect();
    code(fixture.alter(AlterTableRequest {
        config_changes,
        ..alter_request(path)
    }))
}

#[test]
fn the_table_must_exist_unless_ignored_or_nothing_is_asked() {
    let fixture = Fixture::new();
    let set = |path: &str, ignore| {
        let request = AlterTableRequest {
            config_changes: vec![config("k", Some("v"), 0)],
            ignore_if_not_exists: Some(ignore),
            ..alter_request(path)
        };
        code(fixture.alter(request))
    };
    for path in ["missing", "nope/t"] {
        assert_eq!(set(path, false), 7);
        assert_eq!(set(path, true), OK);
        assert_eq!(code(fixture.alter(alter_request(path))), OK);
    }
    assert_eq!(set("a b", true), 15);
    assert_eq!(set("a b/t", true), 16);
}

#[test]
fn one_request_changes_one_kind_of_thing() {
    let fixture = Fixture::new();
    fixture.create("t", &partitioned_table());
    let configs = vec![config("k", Some("v"), 0)];
    let count = Some(PbModifyBucketCount {
        new_bucket_count: Some(3),
    });
    for request in [
        AlterTableRequest {
            config_changes: configs.clone(),
            add_columns: vec![column("c")],
            ..alter_request("t")
        },
        AlterTableRequest {
            config_changes: configs,
            modify_bucket_count: count,
            ..alter_request("t")
        },
        AlterTableRequest {
            drop_columns: vec![PbDropColumn {
                column_name: Some("a".to_owned()),
            }],
            modify_bucket_count: count,
            ..alter_request("t")
        },
    ] {
        assert_eq!(code(fixture.alter(request)), 56);
    }
    assert_eq!(fixture.info("t").schema_id, Some(1));
}

#[test]
fn options_that_cannot_change_are_all_named() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let keys = [
        "table.log.format",
        "table.kv.format",
        "table.nope",
        "table.datalake.auto-expire-snapshot",
        "table.datalake.paimon.x",
    ];
    for key in keys {
        assert_eq!(options(&fixture, "t", &[(key, Some("1"), 0)]), 56, "{key}");
        assert_eq!(options(&fixture, "t", &[(key, None, 1)]), 56, "{key}");
    }
    let changes: Vec<_> = keys.iter().map(|key| (*key, "1")).collect();
    let error = fixture.set_options("t", &changes).expect_err("refused");
    for key in keys {
        assert!(error.message.contains(key), "{error}");
    }
}

#[test]
fn custom_keys_are_free_and_deletes_come_last() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    fixture.clock.advance_ms(5);
    let changes = [
        ("bucket.num", Some("7"), 0),
        ("", Some("empty"), 0),
        ("twice", Some("1"), 0),
        ("twice", Some("2"), 0),
        ("gone", None, 1),
        ("gone", Some("1"), 0),
        ("client.connect-timeout", Some("240s"), 0),
    ];
    assert_eq!(options(&fixture, "t", &changes), OK);
    assert_eq!(
        fixture.table_json("t")["custom_properties"],
        json!({"": "empty", "bucket.num": "7", "client.connect-timeout": "240s", "twice": "2"})
    );
    assert_eq!(fixture.info("t").modified_time, Some(NOW_MS + 5));
    for change in [
        ("k", Some("v"), 2),
        ("k", Some("v"), 3),
        ("k", Some("v"), 7),
        ("k", None, 0),
    ] {
        assert_eq!(options(&fixture, "t", &[change]), -1);
    }
}

#[test]
fn options_are_checked_as_at_creation_and_a_reset_shows_the_default() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    fixture.create("k", &key_table());
    for (path, key, value, expected) in [
        ("t", "table.log.ttl", "unknown", 39),
        ("t", "table.log.tiered.local-segments", "0", 39),
        ("t", "table.log.local-ttl", "8d", 39),
        ("t", "table.statistics.columns", "missing", 39),
        ("k", "table.statistics.columns", "a", 39),
        ("t", "table.auto-partition.enabled", "true", 39),
        ("t", "table.kv.standby-replica.enabled", "false", 56),
        ("k", "table.kv.standby-replica.enabled", "false", OK),
        ("k", "table.kv.standby-replica.enabled", "maybe", 39),
        ("k", "table.datalake.enabled", "true", 56),
        ("t", "table.datalake.enabled", "true", 56),
        ("t", "table.datalake.enabled", "false", OK),
        ("t", "table.log.ttl", "30d", OK),
    ] {
        assert_eq!(
            options(&fixture, path, &[(key, Some(value), 0)]),
            expected,
            "{key}={value}"
        );
    }
    assert_eq!(
        fixture.table_json("t")["properties"]["table.log.ttl"],
        "30d"
    );
    assert_eq!(options(&fixture, "t", &[("table.log.ttl", None, 1)]), OK);
    assert_eq!(
        fixture.table_json("t")["properties"].get("table.log.ttl"),
        None
    );
}

#[test]
fn columns_are_added_behind_the_others_with_new_ids() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let row = r#"{"type":"ROW","fields":[{"name":"f0","field_type":{"type":"STRING"},"field_id":-1},{"name":"f1","field_type":{"type":"INTEGER"},"field_id":-1}]}"#;
    assert_eq!(
        add(&fixture, "t", vec![typed("nested_row", row), column("c1")]),
        OK
    );
    let new = schema(&fixture, "t", None);
    assert_eq!(new["columns"][2]["id"], 2);
    assert_eq!(new["columns"][2]["data_type"]["fields"][0]["field_id"], 3);
    assert_eq!(new["columns"][2]["data_type"]["fields"][1]["field_id"], 4);
    assert_eq!(new["columns"][3]["id"], 5);
    assert_eq!(new["highest_field_id"], 5);
    assert_eq!(fixture.info("t").schema_id, Some(2));
    assert_eq!(fixture.table_json("t")["schema"], new);
    // The first version stays readable.
    assert_eq!(
        schema(&fixture, "t", Some(1))["columns"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    assert_eq!(schema(&fixture, "t", Some(2)), new);

    assert_eq!(add(&fixture, "t", vec![column("nested_row")]), 56);
    assert_eq!(add(&fixture, "t", vec![column("d"), column("d")]), 56);
    assert_eq!(fixture.info("t").schema_id, Some(2));
}

#[test]
fn columns_that_cannot_be_added_are_refused() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let at = |position| PbAddColumn {
        column_position_type: Some(position),
        ..column("c")
    };
    for (bad, expected) in [
        (typed("c", r#"{"type":"STRING","nullable":false}"#), -1),
        (typed("c", "{"), -1),
        (typed("c", r#"{"type":"VARIANT"}"#), -1),
        (column(" "), -1),
        (at(1), -1),
        (at(3), -1),
        (column("__offset"), 15),
    ] {
        assert_eq!(
            add(&fixture, "t", vec![column("good"), bad.clone()]),
            expected,
            "{bad:?}"
        );
    }
    assert_eq!(fixture.info("t").schema_id, Some(1));
}

#[test]
fn aggregation_functions_of_new_columns_need_the_engine() {
    let fixture = Fixture::new();
    fixture.create("plain", &key_table());
    fixture.create(
        "agg",
        &with_options(key_table(), &[("table.merge-engine", "aggregation")]),
    );
    let with = |data_type, function: &str, parameter: Option<&str>| PbAddColumn {
        agg_function_type: Some(function.to_owned()),
        agg_function_params: parameter
            .map(|key| PbKeyValue {
                key: Some(key.to_owned()),
                value: Some("x".to_owned()),
            })
            .into_iter()
            .collect(),
        ..typed("c", data_type)
    };
    let int = r#"{"type":"INTEGER"}"#;
    let text = r#"{"type":"STRING"}"#;
    for (path, bad, expected) in [
        ("plain", with(int, "sum", None), 39),
        ("agg", with(int, "nope", None), 39),
        ("agg", with(text, "sum", None), 39),
        ("agg", with(int, "sum", Some("p")), 39),
        ("agg", with(int, "sum", None), OK),
    ] {
        assert_eq!(
            add(&fixture, path, vec![bad.clone()]),
            expected,
            "{path} {bad:?}"
        );
    }
}

#[test]
fn columns_are_not_dropped_renamed_or_modified() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let own = |name: &str| Some(name.to_owned());
    for name in ["a", "missing"] {
        for request in [
            AlterTableRequest {
                drop_columns: vec![PbDropColumn {
                    column_name: own(name),
                }],
                ..alter_request("t")
            },
            AlterTableRequest {
                rename_columns: vec![PbRenameColumn {
                    old_column_name: own(name),
                    new_column_name: own("x"),
                }],
                ..alter_request("t")
            },
            AlterTableRequest {
                modify_columns: vec![PbModifyColumn {
                    column_name: own(name),
                    ..PbModifyColumn::default()
                }],
                ..alter_request("t")
            },
        ] {
            let error = fixture.alter(request).expect_err("refused");
            assert_eq!(error.code.code(), -1);
            assert!(error.message.starts_with("Not support"), "{error}");
        }
    }
}

#[test]
fn another_bucket_count_is_for_partitions_to_come() {
    let config = CoordinatorConfig {
        max_bucket_num: 30,
        ..CoordinatorConfig::default()
    };
    let fixture = Fixture::with(config);
    fixture.create("plain", &log_table());
    fixture.create("p", &partitioned_table());
    fixture
        .create_partition("p", &[("b", "old")], false)
        .expect("created");
    let modify = |path: &str, count| {
        let modify_bucket_count = Some(PbModifyBucketCount {
            new_bucket_count: Some(count),
        });
        code(fixture.alter(AlterTableRequest {
            modify_bucket_count,
            ..alter_request(path)
        }))
    };
    for (path, count, expected) in [
        ("plain", 3, 56),
        ("p", 0, 56),
        ("p", -1, 56),
        ("p", 31, 49),
        ("p", 2, OK),
        ("missing", 2, 7),
    ] {
        assert_eq!(modify(path, count), expected, "{path} {count}");
    }
    assert_eq!(fixture.info("p").bucket_count_epoch, Some(0));
    assert_eq!(modify("p", 5), OK);
    assert_eq!(modify("p", 5), OK);
    assert_eq!(fixture.info("p").bucket_count_epoch, Some(1));
    assert_eq!(fixture.table_json("p")["bucket_count"], 5);
    fixture
        .create_partition("p", &[("b", "new")], false)
        .expect("created");
    let counts: Vec<_> = fixture
        .list_partitions("p", None)
        .expect("listed")
        .partitions_info
        .into_iter()
        .map(|partition| partition.bucket_count)
        .collect();
    assert_eq!(counts, [Some(5), Some(2)]);
}
