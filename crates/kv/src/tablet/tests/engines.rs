//! Merge engines and overwriting writers (tables.md §4.6, §4.7; vectors of §9.3
//! as far as offsets and the changelog are concerned).

use mainstem_types::{AggFunction, MergeEngine, Schema};

use super::bucket::{BIGINT, Bucket, INT, Put, STRING, engine, schema, schema_a};
use crate::KvError;

const IGNORE: (&str, &str) = ("table.delete.behavior", "IGNORE");

fn first_row() -> [(&'static str, &'static str); 2] {
    [engine(MergeEngine::FirstRow), IGNORE]
}

fn versioned() -> [(&'static str, &'static str); 3] {
    let version = ("table.merge-engine.versioned.ver-column", "b");
    [engine(MergeEngine::Versioned), version, IGNORE]
}

fn counts() -> Schema {
    Schema::builder()
        .column("a", INT)
        .column("count", BIGINT)
        .aggregate(AggFunction::new("sum"))
        .column("max_val", INT)
        .aggregate(AggFunction::new("max"))
        .column("name", STRING)
        .aggregate(AggFunction::new("last_value"))
        .primary_key(["a"])
        .build()
        .unwrap()
}

fn aggregation() -> [(&'static str, &'static str); 2] {
    [engine(MergeEngine::Aggregation), IGNORE]
}

#[test]
fn fr1_to_fr5_the_first_row_stays_also_over_a_new_schema() {
    Bucket::in_all_formats(&schema_a(), &first_row(), |bucket| {
        assert_eq!(
            bucket.rows(&["1,v11", "2,v21", "2,v23"]),
            "+I[1,v11]@0 +I[2,v21]@1"
        );
        for end_offset in 3..6 {
            assert_eq!(bucket.rows(&["1,x", "2,y"]), "");
            assert_eq!(bucket.end_offset(), end_offset);
        }
        assert_eq!(
            bucket.rows(&["2,v22", "1,v21", "-1", "3,v31"]),
            "+I[3,v31]@5"
        );
        bucket.add_columns(&[("c", STRING, None)]);
        assert_eq!(bucket.rows(&["3,v41,c1", "4,v41,c2"]), "+I[4,v41,c2]@6");
        let old = Put::new(&["4,v51", "5,v51"]).schema_id(1);
        assert_eq!(bucket.put(old), "+I[5,v51,null]@7");
        assert_eq!(bucket.lookup("3"), "3,v31,null");
        assert_eq!(bucket.row_count(), 5);
    });
}

#[test]
fn fr6_only_inserts_are_in_the_changelog() {
    let mut bucket = Bucket::new(schema_a(), &first_row());
    for value in 0..10 {
        for id in 0..5 {
            let row = format!("{id},value_{value}");
            bucket.rows(&[&row]);
        }
    }
    let changes = bucket.changes_since(0);
    assert_eq!(
        (changes.matches("+I").count(), changes.matches('@').count()),
        (5, 5)
    );
    assert_eq!(bucket.lookup("3"), "3,value_0");
    assert_eq!(bucket.end_offset(), 50);
}

#[test]
fn fr7_first_row_takes_no_partial_updates() {
    let mut bucket = Bucket::new(schema_a(), &first_row());
    for target in [&[0][..], &[0, 1]] {
        assert_eq!(
            bucket.refused(Put::new(&["1"]).target(target)),
            "Partial update is not supported for the first_row merge engine."
        );
    }
}

#[test]
fn vr1_to_vr4_the_newer_version_wins_also_over_a_new_schema() {
    let schema = schema(&[("a", INT), ("b", INT)]);
    Bucket::in_all_formats(&schema, &versioned(), |bucket| {
        assert_eq!(
            bucket.rows(&["1,1000", "2,1000", "2,1001"]),
            "+I[1,1000]@0 +I[2,1000]@1 -U[2,1000]@2 +U[2,1001]@3"
        );
        assert_eq!(
            bucket.rows(&["2,1000", "1,1001", "-1", "3,1000"]),
            "-U[1,1000]@4 +U[1,1001]@5 +I[3,1000]@6"
        );
        bucket.add_columns(&[("c", STRING, None)]);
        assert_eq!(
            bucket.rows(&["1,1002,a"]),
            "-U[1,1001,null]@7 +U[1,1002,a]@8"
        );
        assert_eq!(
            bucket.put(Put::new(&["1,1003"]).schema_id(1)),
            "-U[1,1002,a]@9 +U[1,1003,null]@10"
        );
    });
}

#[test]
fn vr9_losing_rows_take_no_offset_beside_that_of_their_batch() {
    let mut bucket = Bucket::new(schema(&[("a", INT), ("b", INT)]), &versioned());
    bucket.rows(&["0,1000", "1,1000", "2,1000"]);
    for _ in 0..20 {
        assert_eq!(bucket.rows(&["0,999"]), "");
    }
    assert_eq!(bucket.rows(&["1,1001"]), "-U[1,1000]@23 +U[1,1001]@24");
}

#[test]
fn ag1_to_ag3_columns_are_aggregated() {
    Bucket::in_all_formats(&counts(), &aggregation(), |bucket| {
        assert_eq!(
            bucket.rows(&["1,10,100,Alice", "2,20,200,Bob"]),
            "+I[1,10,100,Alice]@0 +I[2,20,200,Bob]@1"
        );
        assert_eq!(
            bucket.rows(&["1,15,150,Alice2", "2,25,180,Bob2"]),
            "-U[1,10,100,Alice]@2 +U[1,25,150,Alice2]@3 -U[2,20,200,Bob]@4 +U[2,45,200,Bob2]@5"
        );
        assert_eq!(bucket.rows(&["3,30,300,Charlie"]), "+I[3,30,300,Charlie]@6");
        // AG15
        assert_eq!(bucket.rows(&["-1"]), "");
        assert_eq!((bucket.end_offset(), bucket.row_count()), (8, 3));
        // Each row of a batch finds what those before it made.
        assert_eq!(
            bucket.rows(&["4,1,1,a", "4,1,2,b", "4,1,0,c"]),
            "+I[4,1,1,a]@8 -U[4,1,1,a]@9 +U[4,2,2,b]@10 -U[4,2,2,b]@11 +U[4,3,2,c]@12"
        );
    });
}

#[test]
fn ag6_a_partial_writer_aggregates_its_columns() {
    Bucket::in_all_formats(&counts(), &aggregation(), |bucket| {
        let target = &[0, 1];
        // The first row is stored as it was sent, a quirk of the reference.
        assert_eq!(
            bucket.put(Put::new(&["1,10,100,x"]).target(target)),
            "+I[1,10,100,x]@0"
        );
        assert_eq!(
            bucket.put(Put::new(&["1,5,500,y"]).target(target)),
            "-U[1,10,100,x]@1 +U[1,15,100,x]@2"
        );
    });
}

#[test]
fn ag7_and_ag16_added_columns_are_aggregated_from_null() {
    Bucket::in_all_formats(&counts(), &aggregation(), |bucket| {
        bucket.rows(&["1,10,100,x"]);
        bucket.add_columns(&[("total", BIGINT, Some("sum")), ("note", STRING, None)]);
        assert_eq!(
            bucket.put(Put::new(&["1,5,50,y,7,n"]).target(&[0, 1])),
            "-U[1,10,100,x,null,null]@1 +U[1,15,100,x,null,null]@2"
        );
        assert_eq!(
            bucket.rows(&["1,1,1,z,7,n"]),
            "-U[1,15,100,x,null,null]@3 +U[1,16,100,z,7,n]@4"
        );
        assert_eq!(
            bucket.put(Put::new(&["1,1,101,w"]).schema_id(1)),
            "-U[1,16,100,z,7,n]@5 +U[1,17,101,w,7,n]@6"
        );
    });
}

#[test]
fn ag12_and_ag13_a_partial_delete_removes_a_row_that_nobody_else_has_written() {
    let allowed = [
        engine(MergeEngine::Aggregation),
        ("table.delete.behavior", "ALLOW"),
    ];
    Bucket::in_all_formats(&counts(), &allowed, |bucket| {
        bucket.rows(&["1,100,50,keep", "2,100,null,null", "3,1,1,a"]);
        let target = &[0, 1, 2];
        assert_eq!(
            bucket.put(Put::new(&["-1", "-2"]).target(target)),
            "-U[1,100,50,keep]@3 +U[1,null,null,keep]@4 -D[2,100,null,null]@5"
        );
        assert_eq!(bucket.rows(&["-3"]), "-D[3,1,1,a]@6");
        assert_eq!(bucket.row_count(), 1);
    });
}

#[test]
fn ov1_to_ov8_overwriting_puts_the_engine_aside() {
    Bucket::in_all_formats(&counts(), &aggregation(), |bucket| {
        bucket.rows(&["1,10,100,Alice"]);
        assert_eq!(
            bucket.rows(&["1,5,150,Bob"]),
            "-U[1,10,100,Alice]@1 +U[1,15,150,Bob]@2"
        );
        assert_eq!(
            bucket.put(Put::new(&["1,5,50,Bob"]).overwrite()),
            "-U[1,15,150,Bob]@3 +U[1,5,50,Bob]@4"
        );
        assert_eq!(
            bucket.put(Put::new(&["7,10,100,Alice"]).overwrite()),
            "+I[7,10,100,Alice]@5"
        );
        assert_eq!(
            bucket.put(Put::new(&["7,5"]).target(&[0, 1]).overwrite()),
            "-U[7,10,100,Alice]@6 +U[7,5,100,Alice]@7"
        );
        assert_eq!(
            bucket.put(Put::new(&["-7"]).overwrite()),
            "-D[7,5,100,Alice]@8"
        );
        assert_eq!(
            bucket.rows(&["1,15,200,Eve"]),
            "-U[1,5,50,Bob]@9 +U[1,20,200,Eve]@10"
        );
        bucket.rows(&["2,20,200,Bob"]);
        assert_eq!(
            bucket.put(Put::new(&["1,5,50,Alice2", "2,8,80,Bob2"]).overwrite()),
            "-U[1,20,200,Eve]@12 +U[1,5,50,Alice2]@13 -U[2,20,200,Bob]@14 +U[2,8,80,Bob2]@15"
        );
    });
}

#[test]
fn a_merge_that_fails_refuses_the_whole_batch() {
    use mainstem_types::{DataType, TypeKind};
    let schema = Schema::builder()
        .column("a", INT)
        .column(
            "sum",
            DataType::not_null(TypeKind::Decimal {
                precision: 2,
                scale: 0,
            }),
        )
        .aggregate(AggFunction::new("sum"))
        .primary_key(["a"])
        .build()
        .unwrap();
    let mut bucket = Bucket::new(schema, &aggregation());
    bucket.rows(&["1,98"]);
    assert_eq!(bucket.rows(&["1,1"]), "-U[1,98]@1 +U[1,99]@2");
    let error = bucket.try_put(Put::new(&["2,1", "1,1"])).unwrap_err();
    assert!(matches!(error, KvError::Corrupt(_)), "{error}");
    assert_eq!(
        (bucket.end_offset(), bucket.lookup_pending("2")),
        (3, "none".to_owned())
    );
}
