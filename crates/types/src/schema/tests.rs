use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::data_type::tests::any_data_type;
use crate::{ErrorCode, RowField};

/// A type from its text form.
fn of(text: &str) -> DataType {
    text.parse().expect(text)
}

/// Schemas with ids as clients assign them, some with a primary key.
pub(crate) fn any_schema() -> impl Strategy<Value = Schema> {
    let column = (
        "[a-zé ]{0,4}",
        any_data_type(),
        proptest::option::of("[ -~]{0,8}"),
    );
    (proptest::collection::vec(column, 0..6), 0..3_usize).prop_map(|(columns, keys)| {
        let mut builder = Schema::builder();
        let mut names = Vec::new();
        for (index, (name, data_type, comment)) in columns.into_iter().enumerate() {
            let name = format!("{name}{index}");
            builder = builder.column(&name, data_type);
            if let Some(comment) = comment {
                builder = builder.comment(comment);
            }
            names.push(name);
        }
        names.truncate(keys);
        if !names.is_empty() {
            builder = builder.primary_key(names);
        }
        builder.build().expect("generated schemas keep the rules")
    })
}

proptest! {
    #[test]
    fn any_schema_is_read_back_from_json(schema in any_schema()) {
        prop_assert_eq!(Schema::from_json_bytes(&schema.to_json_bytes()), Ok(schema));
    }

    #[test]
    fn adding_a_column_keeps_every_old_column_and_id(
        schema in any_schema(),
        mut data_type in any_data_type(),
    ) {
        data_type.nullable = true;
        let next = schema.add_columns(&[NewColumn::new("new", data_type)]).expect("may be added");
        prop_assert_eq!(&next.columns[..schema.columns.len()], &schema.columns[..]);
        let added = next.columns.last().expect("added");
        prop_assert_eq!(added.id, schema.highest_field_id + 1);
        prop_assert_eq!(Schema::from_json_bytes(&next.to_json_bytes()), Ok(next));
    }
}

fn column(name: &str, id: i32) -> Value {
    json!({"name": name, "data_type": {"type": "INTEGER"}, "id": id})
}

fn nested(name: &str, id: Option<i32>) -> Value {
    let mut field = json!({"name": name, "field_type": {"type": "INTEGER"}});
    if let Some(id) = id {
        field["field_id"] = id.into();
    }
    field
}

fn row_column(name: &str, id: i32, fields: &[Value]) -> Value {
    json!({"name": name, "data_type": {"type": "ROW", "fields": fields}, "id": id})
}

/// Ids of the columns, each followed by those of the fields inside it.
fn ids(schema: &Schema) -> Vec<i32> {
    let mut ids = Vec::new();
    for column in &schema.columns {
        ids.push(column.id);
        let visited: Result<(), ()> = column.data_type.visit_fields(&mut |field: &RowField| {
            ids.push(field.field_id);
            Ok(())
        });
        visited.expect("never fails");
    }
    ids
}

#[track_caller]
fn check_refused(schema: Value, fragment: &str) {
    let error = Schema::from_json(&schema)
        .expect_err("must be refused")
        .to_string();
    assert!(error.contains(fragment), "{schema}: {error}");
}

#[test]
fn ids_are_assigned_depth_first_from_zero() {
    let schema = Schema::builder()
        .column("id", of("INT NOT NULL"))
        .column("rows", of("ARRAY<ROW<a INT, b ROW<c INT>, d INT>>"))
        .column("attributes", of("MAP<ROW<k INT>, ROW<v INT>>"))
        .column("last", of("STRING"))
        .build()
        .expect("valid");
    assert_eq!(ids(&schema), (0..=9).collect::<Vec<_>>());
    assert_eq!(schema.highest_field_id, 9);
    assert_eq!(
        schema
            .column("attributes")
            .map(|(position, column)| (position, column.id)),
        Some((2, 6))
    );
    assert_eq!(schema.column("last").map(|(_, column)| column.id), Some(9));
}

#[test]
fn a_schema_is_written_in_the_order_of_the_specification() {
    let schema = Schema::builder()
        .column("id", of("INT"))
        .column("v", of("STRING"))
        .comment("c")
        .column("n", of("BIGINT"))
        .column("list", of("STRING"))
        .aggregate(AggFunction::new("LISTAGG").with_parameter("delimiter", "|"))
        .primary_key(["id"])
        .auto_increment("n")
        .build()
        .expect("valid");
    assert_eq!(
        String::from_utf8(schema.to_json_bytes()).expect("text"),
        r#"{"version":1,"columns":[{"name":"id","data_type":{"type":"INTEGER","nullable":false},"id":0},{"name":"v","data_type":{"type":"STRING"},"comment":"c","id":1},{"name":"n","data_type":{"type":"BIGINT"},"id":2},{"name":"list","data_type":{"type":"STRING"},"agg_function":{"type":"listagg","parameters":{"delimiter":"|"}},"id":3}],"primary_key":["id"],"auto_increment_column":["n"],"highest_field_id":3}"#
    );
}

#[test]
fn primary_key_columns_become_not_null_and_the_auto_increment_column_does_not() {
    let schema = Schema::from_json(&json!({
        "columns": [column("id", 0), column("seq", 1)],
        "primary_key": ["id"],
        "auto_increment_column": ["seq"],
    }))
    .expect("valid");
    assert!(!schema.columns[0].data_type.nullable);
    assert!(schema.columns[1].data_type.nullable);
}

#[test]
fn what_may_be_absent_may_be_absent() {
    for schema in [
        json!({"columns": []}),
        json!({"version": 2, "columns": [column("a", 0)], "unknown": {"x": 1}}),
        json!({"columns": [column("a", 5), column("b", 2)]}),
        json!({"columns": [column("a", -7)], "highest_field_id": 0}),
        json!({"columns": [column(&"é".repeat(400), 0)], "primary_key": null}),
        json!({"columns": [column("a", 0)], "auto_increment_column": []}),
        json!({"columns": [row_column("r", 0, &[])]}),
        json!({"columns": [{"name": "a", "data_type": {"type": "INTEGER"}, "id": "3", "comment": null}]}),
    ] {
        let read = Schema::from_json(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert_eq!(Schema::from_json_bytes(&read.to_json_bytes()), Ok(read));
    }
}

#[test]
fn columns_without_ids_take_their_positions() {
    let without = |name: &str| json!({"name": name, "data_type": {"type": "INTEGER"}});
    let schema =
        Schema::from_json(&json!({"columns": [without("a"), without("b")]})).expect("valid");
    assert_eq!(ids(&schema), [0, 1]);
    assert_eq!(schema.highest_field_id, 1);
    check_refused(
        json!({"columns": [without("a"), column("b", 1)]}),
        "must have ids",
    );
}

#[test]
fn the_highest_id_is_that_of_all_fields_and_may_be_higher() {
    let fields = [nested("x", Some(8))];
    let columns = json!([row_column("r", 0, &fields), column("b", 3)]);
    let schema = |highest: i32| json!({"columns": columns, "highest_field_id": highest});
    assert_eq!(
        Schema::from_json(&json!({"columns": columns}))
            .expect("valid")
            .highest_field_id,
        8
    );
    assert_eq!(
        Schema::from_json(&schema(12))
            .expect("valid")
            .highest_field_id,
        12
    );
    check_refused(schema(7), "lower than");
}

#[test]
fn ids_that_are_there_twice_are_refused() {
    check_refused(
        json!({"columns": [column("a", 1), column("b", 1)]}),
        "unique",
    );
    let clash = [nested("x", Some(1))];
    check_refused(
        json!({"columns": [row_column("r", 0, &clash), column("b", 1)]}),
        "unique",
    );
    let unassigned = [nested("x", None), nested("y", None)];
    check_refused(
        json!({"columns": [row_column("r", 0, &unassigned)]}),
        "unique",
    );
    let one = [nested("x", None)];
    assert!(Schema::from_json(&json!({"columns": [row_column("r", 0, &one)]})).is_ok());
}

#[test]
fn each_broken_rule_has_its_reason() {
    let text = json!({"name": "s", "data_type": {"type": "STRING"}, "id": 2});
    let small = json!({"name": "n", "data_type": {"type": "SMALLINT"}, "id": 2});
    let columns = json!([column("a", 0), column("b", 1)]);
    for (schema, fragment) in [
        (json!([]), "must be an object"),
        (json!({}), "lacks member 'columns'"),
        (json!({"columns": 5}), "must be an array"),
        (
            json!({"columns": [{"name": "a", "id": 0}]}),
            "lacks member 'data_type'",
        ),
        (
            json!({"columns": [{"data_type": {"type": "INTEGER"}, "id": 0}]}),
            "lacks member 'name'",
        ),
        (
            json!({"columns": [column("a", 0), column("a", 1)]}),
            "must not contain duplicate fields. Found: ",
        ),
        (json!({"columns": [column("", 0)]}), "must not be blank"),
        (json!({"columns": [column(" \t", 0)]}), "must not be blank"),
        (
            json!({"columns": columns, "primary_key": ["zz"]}),
            "Table column [a, b] should include all primary key constraint [zz]",
        ),
        (
            json!({"columns": columns, "primary_key": ["a", "a"]}),
            "must not contain duplicate columns",
        ),
        (
            json!({"columns": columns, "primary_key": []}),
            "must be defined for at least a single column",
        ),
        (
            json!({"columns": columns, "auto_increment_column": ["a"]}),
            "primary key table",
        ),
        (
            json!({"columns": columns, "primary_key": ["a"], "auto_increment_column": ["a"]}),
            "can not be used as the primary key",
        ),
        (
            json!({"columns": columns, "primary_key": ["a"], "auto_increment_column": ["c"]}),
            "does not exist",
        ),
        (
            json!({"columns": columns, "primary_key": ["a"], "auto_increment_column": ["b", "a"]}),
            "Multiple auto increment columns are not supported yet.",
        ),
        (
            json!({"columns": [column("a", 0), text], "primary_key": ["a"], "auto_increment_column": ["s"]}),
            "must be INT or BIGINT",
        ),
        (
            json!({"columns": [column("a", 0), small], "primary_key": ["a"], "auto_increment_column": ["n"]}),
            "must be INT or BIGINT",
        ),
        (
            json!({
                "columns": [{"name": "a", "data_type": {"type": "INTEGER"}, "agg_function": {"type": "sum"}, "id": 0}],
                "primary_key": ["a"],
            }),
            "Cannot set aggregation function for primary key column",
        ),
    ] {
        check_refused(schema, fragment);
    }
}

#[test]
fn names_of_aggregation_functions_are_folded_and_unknown_ones_kept() {
    let schema = |function: &str| {
        Schema::from_json(&json!({"columns": [
            {"name": "a", "data_type": {"type": "INTEGER"}, "agg_function": {"type": function}, "id": 0},
        ]}))
        .expect("read")
    };
    let function = |name: &str| {
        schema(name).columns[0]
            .agg_function
            .clone()
            .expect("a function")
    };
    assert_eq!(function("first-value").name, "first_value");
    assert_eq!(function("first-value").kind(), Some(AggKind::FirstValue));
    assert_eq!(function("LISTAGG").kind(), Some(AggKind::ListAgg));
    assert_eq!(function("median").kind(), None);
    assert_eq!(function("median").name, "median");
}

#[test]
fn se1_one_request_adds_a_nested_column_and_a_plain_one() {
    let old = Schema::of([
        ("id", of("INT")),
        ("name", of("STRING")),
        ("age", of("INT")),
    ])
    .expect("valid");
    let new = old
        .add_columns(&[
            NewColumn::new("nested_row", of("ROW<f0 STRING, f1 INT>")),
            NewColumn::new("c1", of("STRING")),
        ])
        .expect("added");
    assert_eq!(ids(&new), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(new.highest_field_id, 6);
}

#[test]
fn se2_ids_of_nested_fields_come_between_those_of_columns() {
    let old = Schema::of([("a", of("INT")), ("b", of("INT"))]).expect("valid");
    let mut sent = of("ROW<x INT, y INT>");
    let renumbered: Result<(), ()> = sent.visit_fields_mut(&mut |field| {
        field.field_id += 1;
        Ok(())
    });
    renumbered.expect("never fails");
    let new = old
        .add_columns(&[
            NewColumn::new("new_nested_column", sent),
            NewColumn::new("new_column", of("STRING")),
        ])
        .expect("added");
    let columns: Vec<i32> = new.columns.iter().map(|column| column.id).collect();
    assert_eq!(columns, [0, 1, 2, 5]);
    assert_eq!(ids(&new), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn ids_of_columns_that_are_gone_are_not_given_again() {
    let old = Schema::from_json(&json!({"columns": [column("a", 0)], "highest_field_id": 9}))
        .expect("valid");
    let new = old
        .add_columns(&[NewColumn::new("b", of("INT"))])
        .expect("added");
    assert_eq!(ids(&new), [0, 10]);
}

#[test]
fn when_ids_run_out_a_column_is_refused() {
    let old = Schema::from_json(&json!({"columns": [column("a", i32::MAX)]})).expect("valid");
    let error = old
        .add_columns(&[NewColumn::new("b", of("INT"))])
        .expect_err("no ids left");
    assert!(error.message.contains("no field ids left"), "{error}");
}

#[test]
fn se3_a_name_that_is_there_already_is_an_invalid_alter() {
    let old = Schema::of([("nested_row", of("ROW<f0 STRING>"))]).expect("valid");
    let again = NewColumn::new("nested_row", of("ROW<f0 STRING>"));
    let error = old.add_columns(&[again]).expect_err("exists");
    assert_eq!(error.code, ErrorCode::InvalidAlterTable);
    assert!(
        error.message.contains("Column nested_row already exists."),
        "{error}"
    );
    let twice = [
        NewColumn::new("c", of("INT")),
        NewColumn::new("c", of("INT")),
    ];
    let error = old.add_columns(&twice).expect_err("twice");
    assert_eq!(error.code, ErrorCode::InvalidAlterTable);
}

#[test]
fn se5_an_added_column_must_be_nullable() {
    let old = Schema::of([("a", of("INT"))]).expect("valid");
    let error = old
        .add_columns(&[NewColumn::new("c1", of("INT NOT NULL"))])
        .expect_err("not null");
    assert_eq!(error.code, ErrorCode::UnknownServerError);
    assert!(
        error.message.contains("Column c1 must be nullable"),
        "{error}"
    );
    let error = old
        .add_columns(&[NewColumn::new("  ", of("INT"))])
        .expect_err("blank");
    assert_eq!(error.code, ErrorCode::UnknownServerError);
}

#[test]
fn positions_follow_the_names() {
    let schema = Schema::of([("a", of("INT")), ("b", of("INT")), ("c", of("INT"))]).expect("valid");
    assert_eq!(
        schema.positions(&["c".to_owned(), "a".to_owned()]),
        Some(vec![2, 0])
    );
    assert_eq!(schema.positions(&["c".to_owned(), "x".to_owned()]), None);
}
