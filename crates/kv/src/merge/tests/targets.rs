//! Which target columns are refused (tables.md §4.5–4.9, §9.2, §9.5).

use super::*;

#[test]
fn pu8_the_key_must_be_written() {
    let mut table = Table::new(schema_b(), &[]);
    let text = "The target write columns [b, c] must contain the primary key columns [a].";
    assert_eq!(table.refused(Target(&[1, 2])), text);
    assert_eq!(table.refused(OverwriteTarget(&[2, 1, 1])), text);
}

#[test]
fn every_key_column_must_be_written() {
    let columns = [("a", INT), ("b", INT), ("c", STRING)];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["b", "a"])
        .build();
    let mut table = Table::new(schema.unwrap(), &[]);
    assert_eq!(
        table.refused(Target(&[2, 0])),
        "The target write columns [a, c] must contain the primary key columns [a, b]."
    );
}

#[test]
fn pu9_every_column_beside_the_key_must_be_nullable() {
    let strict = DataType::not_null(TypeKind::String);
    let columns = [("a", INT), ("b", STRING), ("c", strict)];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build();
    let mut table = Table::new(schema.unwrap(), &[]);
    for target in [[0, 1], [0, 2]] {
        assert_eq!(
            table.refused(Target(&target)),
            "Partial Update requires all columns except primary key to be nullable, \
             but column c is NOT NULL."
        );
    }
}

#[test]
fn positions_that_the_table_does_not_have_are_refused() {
    let mut table = Table::new(schema_b(), &[]);
    let text = "Invalid target column index: 3. The table has 3 columns.";
    assert_eq!(table.refused(Target(&[0, 3])), text);
    for position in [-1, i32::MIN, i32::MAX] {
        table.refused(Target(&[0, 1, 2, position]));
        table.refused(OverwriteTarget(&[0, position]));
    }
}

#[test]
fn fr7_engines_that_keep_whole_rows_take_no_target_at_all() {
    let version = ("table.merge-engine.versioned.ver-column", "b");
    let tables = [
        (
            Table::new(schema_a(), &[engine(MergeEngine::FirstRow)]),
            "first_row",
        ),
        (
            Table::new(schema_a(), &[engine(MergeEngine::Versioned), version]),
            "versioned",
        ),
    ];
    for (mut table, name) in tables {
        for target in [&[0][..], &[0, 1]] {
            assert_eq!(
                table.refused(Target(target)),
                format!("Partial update is not supported for the {name} merge engine.")
            );
        }
        assert_eq!(table.put(OverwriteTarget(&[0]), &["1,b"]), "+I[1,null]");
    }
}

#[test]
fn an_aggregating_table_checks_complete_targets_too() {
    let strict = DataType::not_null(TypeKind::Int);
    let schema = aggregating(&[
        ("a", INT, None),
        ("b", INT, None),
        ("c", strict, Some("sum")),
    ]);
    let mut table = Table::new(schema, &[engine(MergeEngine::Aggregation)]);
    for target in [&[0, 1][..], &[0, 1, 2]] {
        assert_eq!(
            table.refused(Target(target)),
            "Partial aggregate requires all columns except primary key to be nullable, \
             but column c is NOT NULL."
        );
    }
    assert_eq!(
        table.refused(Target(&[1])),
        "The target write columns [b] must contain the primary key columns [a]."
    );
    assert_eq!(table.put(Full, &["1,1,1"]), "+I[1,1,1]");
}

#[test]
fn ai7_ai8_numbers_of_the_server_are_never_written() {
    let columns = [("id", STRING), ("uid", INT), ("c", STRING)];
    let schema = Schema::builder().columns(columns).primary_key(["id"]);
    let schema = schema.auto_increment("uid").build().unwrap();
    let mut table = Table::new(schema, &[]);
    for write in [
        Target(&[0, 1]),
        Target(&[0, 1, 2]),
        OverwriteTarget(&[1, 0]),
    ] {
        assert_eq!(
            table.refused(write),
            "Auto-increment column [uid] at index 1 must not be included in target columns."
        );
    }
    for write in [Full, Overwrite] {
        let text = table.refused(write);
        let fragments = [
            "Explicitly specifying values for an auto increment column is not allowed",
            "but update target columns are not explicitly specified",
        ];
        assert!(
            fragments.iter().all(|fragment| text.contains(fragment)),
            "{text}"
        );
    }
    // The number itself is filled in behind the merge.
    assert_eq!(table.put(Target(&[0, 2]), &["k,7,c"]), "+I[k,null,c]");
}
