//! behaviour.md §7.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{ListPartitionInfosRequest, ListPartitionInfosResponse};
use serde_json::{Value, json};

use super::fixture::*;
use crate::CoordinatorConfig;

/// Partition keys b and c.
fn two_keys() -> Value {
    let mut table = log_table();
    table["schema"]["columns"] = json!([
        {"name": "a", "data_type": {"type": "INTEGER"}, "id": 0},
        {"name": "b", "data_type": {"type": "STRING"}, "id": 1},
        {"name": "c", "data_type": {"type": "STRING"}, "id": 2}
    ]);
    table["schema"]["highest_field_id"] = json!(2);
    table["partition_key"] = json!(["b", "c"]);
    table
}

fn create(fixture: &Fixture, path: &str, spec: &[(&str, &str)]) -> i32 {
    code(fixture.create_partition(path, spec, false))
}

fn drop_partition(fixture: &Fixture, path: &str, spec: &[(&str, &str)], ignore: bool) -> i32 {
    code(fixture.drop_partition(path, spec, ignore))
}

fn names(fixture: &Fixture, path: &str, filter: Option<&[(&str, &str)]>) -> Vec<String> {
    let answer = fixture.list_partitions(path, filter).expect("listed");
    let name = |partition: mainstem_protocol::messages::PbPartitionInfo| {
        let pairs = partition.partition_spec.expect("sent").partition_key_values;
        let values: Vec<String> = pairs
            .into_iter()
            .map(|pair| pair.value.expect("sent"))
            .collect();
        values.join("$")
    };
    answer.partitions_info.into_iter().map(name).collect()
}

#[test]
fn the_table_must_exist_and_be_partitioned_whatever_is_ignored() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    for (path, expected) in [("missing", 7), ("t", 37)] {
        for ignore in [false, true] {
            let created = fixture.create_partition(path, &[("b", "1")], ignore);
            assert_eq!(code(created), expected);
            assert_eq!(
                drop_partition(&fixture, path, &[("b", "1")], ignore),
                expected
            );
        }
        assert_eq!(code(fixture.list_partitions(path, None)), expected);
    }
}

#[test]
fn a_spec_names_exactly_the_partition_keys_in_any_order() {
    let fixture = Fixture::new();
    fixture.create("p", &partitioned_table());
    fixture.create("q", &two_keys());
    for (path, spec) in [
        ("p", &[][..]),
        ("p", &[("b", "1"), ("a", "2")]),
        ("p", &[("name", "1")]),
        ("q", &[("b", "1")]),
        ("q", &[("b", "1"), ("b", "2")]),
    ] {
        assert_eq!(create(&fixture, path, spec), 43, "{spec:?}");
        for ignore in [false, true] {
            assert_eq!(drop_partition(&fixture, path, spec, ignore), 43, "{spec:?}");
        }
    }
    assert_eq!(create(&fixture, "q", &[("c", "2"), ("b", "1")]), OK);
    assert_eq!(names(&fixture, "q", None), ["1$2"]);
}

#[test]
fn values_obey_the_rules_of_names_but_not_of_their_type() {
    let fixture = Fixture::new();
    fixture.create("p", &partitioned_table());
    let mut by_number = log_table();
    by_number["partition_key"] = json!(["a"]);
    fixture.create("n", &by_number);
    let long = "x".repeat(201);
    for value in ["", ".", "..", "a b", "a$b", "é", "$10", long.as_str()] {
        assert_eq!(create(&fixture, "p", &[("b", value)]), 43, "{value}");
        assert_eq!(
            drop_partition(&fixture, "p", &[("b", value)], true),
            43,
            "{value}"
        );
    }
    assert_eq!(create(&fixture, "p", &[("b", "__x")]), 43);
    assert_eq!(drop_partition(&fixture, "p", &[("b", "__x")], false), 36);
    assert_eq!(
        drop_partition(&fixture, "p", &[("b", "__historical__")], false),
        36
    );
    for value in [&long[..200], "NULL", "-"] {
        assert_eq!(create(&fixture, "p", &[("b", value)]), OK, "{value}");
    }
    assert_eq!(create(&fixture, "n", &[("a", "abc")]), OK);
}

#[test]
fn a_partition_is_created_once_and_dropped_once_unless_that_is_ignored() {
    let fixture = Fixture::new();
    fixture.create("p", &partitioned_table());
    let error = {
        assert_eq!(create(&fixture, "p", &[("b", "11")]), OK);
        fixture
            .create_partition("p", &[("b", "11")], false)
            .expect_err("there already")
    };
    assert_eq!(error.code.code(), 42);
    assert!(
        error
            .message
            .contains("Partition 'b=11' already exists for table fluss.p"),
        "{error}"
    );
    assert_eq!(
        code(fixture.create_partition("p", &[("b", "11")], true)),
        OK
    );
    assert_eq!(drop_partition(&fixture, "p", &[("b", "13")], false), 36);
    assert_eq!(drop_partition(&fixture, "p", &[("b", "13")], true), OK);
    assert_eq!(drop_partition(&fixture, "p", &[("b", "11")], false), OK);
    assert_eq!(drop_partition(&fixture, "p", &[("b", "11")], false), 36);
}

#[test]
fn a_partition_that_is_created_again_is_another_one() {
    let fixture = Fixture::new();
    fixture.create("p", &partitioned_table());
    let mut ids = Vec::new();
    for _ in 0..3 {
        create(&fixture, "p", &[("b", "1")]);
        let answer = fixture.list_partitions("p", None).expect("listed");
        ids.push(answer.partitions_info[0].partition_id.expect("sent"));
        drop_partition(&fixture, "p", &[("b", "1")], false);
    }
    assert_eq!(ids, [0, 1, 2]);
    let left = fixture
        .store
        .list("partitions/")
        .expect("listed")
        .entries
        .len()
        + fixture
            .store
            .list("buckets/")
            .expect("listed")
            .entries
            .len()
        + fixture
            .store
            .list("assignments/")
            .expect("listed")
            .entries
            .len();
    assert_eq!(left, 0);
}

#[test]
fn long_names_of_several_values_work() {
    let fixture = Fixture::new();
    fixture.create("q", &two_keys());
    let value = "v".repeat(150);
    assert_eq!(create(&fixture, "q", &[("b", &value), ("c", &value)]), OK);
    assert_eq!(names(&fixture, "q", None), [format!("{value}${value}")]);
}

#[test]
fn partitions_are_filtered_by_some_of_their_values() {
    let fixture = Fixture::new();
    fixture.create("q", &two_keys());
    for (b, c) in [("2025", "10"), ("2025", "11"), ("2026", "12")] {
        create(&fixture, "q", &[("b", b), ("c", c)]);
    }
    for (filter, expected) in [
        (&[("b", "2025")][..], &["2025$10", "2025$11"][..]),
        (&[("c", "12")], &["2026$12"]),
        (&[("b", "2025"), ("c", "12")], &[]),
        (&[("b", "2024")], &[]),
        (&[("b", "a b")], &[]),
        (&[], &["2025$10", "2025$11", "2026$12"]),
    ] {
        assert_eq!(names(&fixture, "q", Some(filter)), expected, "{filter:?}");
    }
    assert_eq!(
        code(fixture.list_partitions("q", Some(&[("pt1", "1")]))),
        43
    );
}

#[test]
fn whether_system_partitions_are_included_is_said_only_when_asked() {
    let fixture = Fixture::new();
    fixture.create("p", &partitioned_table());
    for (asked, said) in [(None, None), (Some(false), None), (Some(true), Some(true))] {
        let request = ListPartitionInfosRequest {
            table_path: Some(pb_path("p")),
            partial_partition_spec: None,
            include_system_partitions: asked,
        };
        let answer: ListPartitionInfosResponse = fixture
            .call(ApiKey::ListPartitionInfos, &request)
            .expect("listed");
        assert_eq!(answer.system_partitions_included, said);
    }
}

#[test]
fn a_table_has_at_most_its_number_of_partitions() {
    let config = CoordinatorConfig {
        max_partition_num: 10,
        ..CoordinatorConfig::default()
    };
    let fixture = Fixture::with(config);
    fixture.create("p", &partitioned_table());
    for value in 0..10 {
        assert_eq!(create(&fixture, "p", &[("b", &value.to_string())]), OK);
    }
    let error = fixture
        .create_partition("p", &[("b", "10")], false)
        .expect_err("too many");
    assert_eq!(error.code.code(), 45);
    assert!(
        error.message.contains("only allow 10 partitions."),
        "{error}"
    );
    assert_eq!(code(fixture.create_partition("p", &[("b", "9")], true)), OK);
    drop_partition(&fixture, "p", &[("b", "0")], false);
    assert_eq!(create(&fixture, "p", &[("b", "10")]), OK);
}

/// A table by day with the given options; today is 20241111 in UTC.
fn by_day(options: &[(&str, &str)]) -> Value {
    let table = with_options(
        partitioned_table(),
        &[("table.auto-partition.time-zone", "UTC")],
    );
    with_options(table, options)
}

#[test]
fn auto_partitioned_tables_refuse_other_forms_and_what_is_over() {
    let fixture = Fixture::new();
    let on = ("table.auto-partition.enabled", "true");
    fixture.create(
        "kept2",
        &by_day(&[on, ("table.auto-partition.num-retention", "2")]),
    );
    fixture.create(
        "all",
        &by_day(&[on, ("table.auto-partition.num-retention", "-1")]),
    );
    fixture.create(
        "off",
        &by_day(&[("table.auto-partition.time-format", "yyyy-MM-dd")]),
    );
    for (path, value, expected) in [
        ("kept2", "20241109", OK),
        ("kept2", "20241108", 43),
        ("kept2", "20241116", OK),
        ("kept2", "abc", 43),
        ("kept2", "2024111", 43),
        ("kept2", "20241311", 43),
        ("kept2", "00001111", 43),
        ("kept2", "2024-11-11", 43),
        ("kept2", "20241111x", 43),
        ("kept2", "20230230", 43),
        ("all", "20241113", OK),
        ("all", "19990101", OK),
        ("off", "2000-01-01", OK),
        ("off", "2025-02-31", OK),
        ("off", "20000101", 43),
        ("off", "2000-01-32", 43),
        ("off", "0000-01-01", 43),
    ] {
        assert_eq!(
            create(&fixture, path, &[("b", value)]),
            expected,
            "{path} {value}"
        );
    }
    let error = fixture
        .create_partition("kept2", &[("b", "20230230")], false)
        .expect_err("over");
    assert!(error.message.contains("out-of-date"), "{error}");
}
