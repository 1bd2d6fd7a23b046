//! The aggregation engine and overwriting (tables.md §9.3).

use super::*;

const AGGREGATION: (&str, &str) = ("table.merge-engine", "AGGREGATION");
const ALLOW: (&str, &str) = ("table.delete.behavior", "ALLOW");

/// The table of most vectors.
fn people() -> Table {
    let schema = aggregating(&[
        ("a", INT, None),
        ("count", BIGINT, Some("sum")),
        ("max_val", INT, Some("max")),
        ("name", STRING, Some("last_value")),
    ]);
    Table::new(schema, &[AGGREGATION])
}

#[test]
fn ag1_ag2_ag3_columns_are_aggregated() {
    let mut table = people();
    assert_eq!(
        table.put(Full, &["1,10,100,Alice", "2,20,200,Bob"]),
        "+I[1,10,100,Alice] +I[2,20,200,Bob]"
    );
    assert_eq!(
        table.put(Full, &["1,15,150,Alice2", "2,25,180,Bob2"]),
        "-U[1,10,100,Alice] +U[1,25,150,Alice2] -U[2,20,200,Bob] +U[2,45,200,Bob2]"
    );
    assert_eq!(
        table.put(Full, &["3,30,300,Charlie"]),
        "+I[3,30,300,Charlie]"
    );
}

#[test]
fn ag4_a_null_keeps_the_default_functions_value() {
    let schema = aggregating(&[
        ("id", INT, None),
        ("s1", BIGINT, Some("sum")),
        ("s2", DOUBLE, Some("sum")),
        ("max", INT, Some("max")),
        ("min", INT, Some("min")),
        ("name", STRING, None),
    ]);
    let mut table = Table::new(schema, &[AGGREGATION]);
    table.put(Full, &["1,5,10.5,10,3,Alice", "1,3,7.5,15,1,Bob"]);
    assert_eq!(table.lookup("1"), "1,8,18.0,15,1,Bob");
    table.put(Full, &["1,null,null,null,null,null"]);
    assert_eq!(table.lookup("1"), "1,8,18.0,15,1,Bob");
}

#[test]
fn ag5_an_example_of_the_documentation() {
    let schema = aggregating(&[
        ("product", INT, None),
        ("price", DOUBLE, Some("max")),
        ("sales", BIGINT, Some("sum")),
        ("ts", STRING, None),
    ]);
    let mut table = Table::new(schema, &[AGGREGATION]);
    table.put(Full, &["1,23.0,15,10:00", "1,30.2,20,11:00"]);
    assert_eq!(table.lookup("1"), "1,30.2,35,11:00");
}

fn totals(more: &[(&str, DataType, Option<&str>)]) -> Schema {
    let columns = [
        ("id", INT, None),
        ("count", BIGINT, Some("sum")),
        ("total", DOUBLE, Some("sum")),
    ];
    aggregating(&[&columns, more].concat())
}

#[test]
fn ag6_ag7_other_columns_keep_their_values() {
    let mut table = Table::new(totals(&[]), &[AGGREGATION]);
    table.put(Full, &["1,10,100.0"]);
    table.put(Target(&[0, 1]), &["1,5,50.0"]);
    assert_eq!(table.lookup("1"), "1,15,100.0");

    let mut table = Table::new(totals(&[]), &[AGGREGATION]);
    table.put(Full, &["1,10,100.0"]);
    let mut table = table.altered(totals(&[("new_field", INT, None)]));
    table.put(Target(&[0, 1]), &["1,5,50.0,20"]);
    assert_eq!(table.lookup("1"), "1,15,100.0,null");
}

#[test]
fn ag8_ag9_ag16_new_columns_are_aggregated_by_the_newest_schema() {
    let counts = [("id", INT, None), ("count", BIGINT, Some("sum"))];
    let mut table = Table::new(aggregating(&counts), &[AGGREGATION]);
    table.put(Full, &["1,10"]);
    let new_field = [("new_field", BIGINT, Some("sum"))];
    let schema = aggregating(&[&counts[..], &new_field].concat());
    let mut table = table.altered(schema.clone());
    table.put(Target(&[0, 2]), &["1,5,20"]);
    assert_eq!(table.lookup("1"), "1,10,20");

    let sum_and_max = [&counts[..], &[("max_val", INT, Some("max"))]].concat();
    let mut table = Table::new(aggregating(&sum_and_max), &[AGGREGATION]);
    table.put(Full, &["1,100,50"]);
    let more = [
        ("min_val", INT, Some("min")),
        ("new_sum", BIGINT, Some("sum")),
    ];
    let mut table = table.altered(aggregating(&[&sum_and_max[..], &more].concat()));
    table.put(Full, &["1,20,80,10,30"]);
    assert_eq!(table.lookup("1"), "1,120,80,10,30");

    let mut table = Table::new(schema, &[AGGREGATION]);
    table.put(Full, &["1,10,100", "1,20,200"]);
    assert_eq!(table.lookup("1"), "1,30,300");
}

/// Old rows come in the order of the newest schema, found by column id.
#[test]
fn ag10_ag11_columns_may_have_moved_or_gone() {
    let of_ids = |columns: &[(&str, DataType, Option<&str>)], ids: &[i32]| {
        let mut schema = aggregating(columns);
        for (column, id) in schema.columns.iter_mut().zip(ids) {
            column.id = *id;
        }
        schema
    };
    let old = [
        ("id", INT, None),
        ("name", STRING, None),
        ("age", INT, None),
    ];
    let mut table = Table::new(of_ids(&old, &[0, 1, 2]), &[AGGREGATION]);
    table.put(Full, &["1,Alice,20"]);
    let new = [
        ("id", INT, None),
        ("age", INT, Some("sum")),
        ("name", STRING, Some("last_value")),
    ];
    let mut table = table.altered(of_ids(&new, &[0, 2, 1]));
    table.put(Full, &["1,30,Bob"]);
    assert_eq!(table.lookup("1"), "1,50,Bob");

    let mut table = Table::new(of_ids(&old, &[0, 1, 2]), &[AGGREGATION]);
    table.put(Full, &["1,ignore,100"]);
    let mut table = table.altered(of_ids(&new[..2], &[0, 2]));
    table.put(Full, &["1,50"]);
    assert_eq!(table.lookup("1"), "1,150");
}

#[test]
fn ag12_ag13_a_partial_delete_clears_its_columns() {
    let schema = aggregating(&[
        ("id", INT, None),
        ("sum", BIGINT, Some("sum")),
        ("max", INT, Some("max")),
        ("name", STRING, None),
        ("other", INT, None),
    ]);
    let mut table = Table::new(schema, &[AGGREGATION, ALLOW]);
    table.put(Full, &["1,100,50,keep,200"]);
    assert_eq!(
        table.put(Target(&[0, 1, 2]), &["-1"]),
        "-U[1,100,50,keep,200] +U[1,null,null,keep,200]"
    );
    table.put(Full, &["2,100,null,null,null"]);
    assert_eq!(
        table.put(Target(&[0, 1]), &["-2"]),
        "-D[2,100,null,null,null]"
    );
    assert_eq!(table.put(Full, &["-1"]), "-D[1,null,null,keep,200]");
    // A partial writer of all columns leaves nothing.
    table.put(Full, &["3,1,1,x,1"]);
    assert_eq!(
        table.put(Target(&[0, 1, 2, 3, 4]), &["-3"]),
        "-D[3,1,1,x,1]"
    );
}

#[test]
fn ag14_a_partial_delete_keeps_every_key_column() {
    let builder = Schema::builder()
        .columns([("id", INT), ("pk", STRING), ("total", BIGINT)])
        .aggregate(AggFunction::new("sum"))
        .column("other", STRING)
        .primary_key(["id", "pk"]);
    let mut table = Table::new(builder.build().unwrap(), &[AGGREGATION, ALLOW]);
    table.put(Full, &["1,pk2,100,keep_me"]);
    table.put(Target(&[0, 1, 2]), &["-1,pk2"]);
    assert_eq!(table.lookup("1,pk2"), "1,pk2,null,keep_me");
}

#[test]
fn ag15_a_delete_is_ignored_by_default() {
    let mut table = people();
    table.put(Full, &["1,10,100,Alice"]);
    assert_eq!(table.put(Full, &["-1"]), "");
}

#[test]
fn the_first_row_of_a_key_is_stored_as_sent_even_beyond_the_target() {
    let mut table = people();
    assert_eq!(
        table.put(Target(&[0, 1]), &["1,10,100,Alice"]),
        "+I[1,10,100,Alice]"
    );
    let rules = MergeRules::new(&table.descriptor, &table.descriptor.schema);
    let merger = rules.merger(&[0, 1], false).unwrap();
    assert_eq!(
        merger.upsert(None, &table.row("2,1,1,x")).unwrap(),
        Merged::AsSent
    );
    assert!(!merger.is_plain());
}

#[test]
fn an_aggregate_is_an_update_even_if_nothing_changes() {
    let mut table = people();
    table.put(Full, &["1,10,100,Alice"]);
    assert_eq!(
        table.put(Full, &["1,0,100,Alice"]),
        "-U[1,10,100,Alice] +U[1,10,100,Alice]"
    );
    assert_eq!(
        table.put(Target(&[0]), &["1"]),
        "-U[1,10,100,Alice] +U[1,10,100,Alice]"
    );
}

#[test]
fn merged_rows_borrow_what_they_take_over() {
    use std::borrow::Cow;
    let table = people();
    let rules = MergeRules::new(&table.descriptor, &table.descriptor.schema);
    let merger = rules.merger(&[], false).unwrap();
    let old = [Value::Int(1), Value::Null, Value::Null, Value::from("old")];
    let new = [Value::Int(1), Value::Null, Value::Null, Value::from("new")];
    let Merged::Row(row) = merger.upsert(Some(&old), &new).unwrap() else {
        panic!("no row");
    };
    assert!(matches!(&row[3], Value::String(Cow::Borrowed("new"))));
}

#[test]
fn an_overflow_is_null_or_an_error_where_null_cannot_be() {
    let kind = TypeKind::Decimal {
        precision: 3,
        scale: 0,
    };
    let nullable = aggregating(&[
        ("a", INT, None),
        ("b", DataType::nullable(kind.clone()), Some("sum")),
    ]);
    let mut table = Table::new(nullable, &[AGGREGATION]);
    assert_eq!(
        table.put(Full, &["1,999", "1,1"]),
        "+I[1,999] -U[1,999] +U[1,null]"
    );

    let strict = aggregating(&[
        ("a", INT, None),
        ("b", DataType::not_null(kind), Some("sum")),
    ]);
    let mut table = Table::new(strict, &[AGGREGATION]);
    table.put(Full, &["1,999"]);
    let error = table.try_put(Full, &["1,1"]).unwrap_err();
    let text = "sum of column b: the result does not fit the type, and the column is NOT NULL";
    assert!(
        matches!(error, KvError::Corrupt(ref found) if found == text),
        "{error}"
    );
}

#[test]
fn ov1_ov2_ov3_overwriting_puts_the_row_as_it_is() {
    let mut table = people();
    table.put(Full, &["1,10,100,Alice"]);
    assert_eq!(
        table.put(Full, &["1,5,150,Bob"]),
        "-U[1,10,100,Alice] +U[1,15,150,Bob]"
    );
    assert_eq!(
        table.put(Overwrite, &["1,5,50,Bob"]),
        "-U[1,15,150,Bob] +U[1,5,50,Bob]"
    );
    let mut table = people();
    table.put(Full, &["1,100,500,Original"]);
    table.put(Full, &["1,50,600,Updated"]);
    assert_eq!(
        table.put(Overwrite, &["1,100,500,Original"]),
        "-U[1,150,600,Updated] +U[1,100,500,Original]"
    );
}

#[test]
fn ov4_ov5_overwriting_inserts_and_deletes() {
    let mut table = people();
    assert_eq!(
        table.put(Overwrite, &["1,10,100,Alice"]),
        "+I[1,10,100,Alice]"
    );
    assert_eq!(table.put(Overwrite, &["-1"]), "-D[1,10,100,Alice]");
}

#[test]
fn ov6_aggregation_goes_on_from_what_was_overwritten() {
    let mut table = people();
    table.put(Full, &["1,10,100,v1"]);
    table.put(Full, &["1,5,150,v2"]);
    table.put(Overwrite, &["1,20,80,v3"]);
    assert_eq!(
        table.put(Full, &["1,10,200,v4"]),
        "-U[1,20,80,v3] +U[1,30,200,v4]"
    );
}

#[test]
fn ov7_ov8_overwriting_some_columns_or_some_rows() {
    let mut table = people();
    table.put(Full, &["1,10,100,Alice"]);
    assert_eq!(
        table.put(OverwriteTarget(&[0, 1]), &["1,5"]),
        "-U[1,10,100,Alice] +U[1,5,100,Alice]"
    );
    let mut table = people();
    table.put(Full, &["1,10,100,Alice", "2,20,200,Bob"]);
    assert_eq!(
        table.put(Overwrite, &["1,5,50,Alice2", "2,8,80,Bob2"]),
        "-U[1,10,100,Alice] +U[1,5,50,Alice2] -U[2,20,200,Bob] +U[2,8,80,Bob2]"
    );
}
