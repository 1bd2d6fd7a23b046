//! Partial updates (tables.md §4.5; vectors of §9.2).

use mainstem_types::{DataType, TypeKind};

use super::bucket::{BOOLEAN, Bucket, INT, Put, STRING, schema, schema_b};
use crate::KvError;

#[test]
fn pu1_to_pu5_columns_are_written_and_deleted_one_by_one() {
    Bucket::in_all_formats(&schema_b(), &[], |bucket| {
        let put = Put::new(&["1", "2", "2"]).target(&[0]);
        assert_eq!(bucket.put(put), "+I[1,null,null]@0 +I[2,null,null]@1");
        assert_eq!(bucket.end_offset(), 2);
        let put = Put::new(&["1,v11", "2,v21", "2,v23"]).target(&[0, 1]);
        assert_eq!(
            bucket.put(put),
            "-U[1,null,null]@2 +U[1,v11,null]@3 -U[2,null,null]@4 +U[2,v21,null]@5 \
             -U[2,v21,null]@6 +U[2,v23,null]@7"
        );
        let put = Put::new(&["1,null,c3", "3,null,v211"]).target(&[0, 2]);
        assert_eq!(
            bucket.put(put),
            "-U[1,v11,null]@8 +U[1,v11,c3]@9 +I[3,null,v211]@10"
        );
        assert_eq!(
            bucket.put(Put::new(&["-1"]).target(&[0, 1])),
            "-U[1,v11,c3]@11 +U[1,null,c3]@12"
        );
        assert_eq!(
            bucket.put(Put::new(&["-1"]).target(&[0, 2])),
            "-D[1,null,c3]@13"
        );
        assert_eq!(bucket.row_count(), 2);
    });
}

#[test]
fn pu6_and_pu7_what_is_sent_beside_the_target_is_not_stored() {
    Bucket::in_all_formats(&schema_b(), &[], |bucket| {
        let put = Put::new(&["1,v1,ignored"]).target(&[1, 0]);
        assert_eq!(bucket.put(put), "+I[1,v1,null]@0");
        assert_eq!(bucket.lookup("1"), "1,v1,null");
        let put = Put::new(&["1,ignored2,c1"]).target(&[2, 2, 0]);
        assert_eq!(bucket.put(put), "-U[1,v1,null]@1 +U[1,v1,c1]@2");
    });
}

#[test]
fn pu8_and_pu9_targets_that_do_not_fit_the_table_are_refused() {
    let mut bucket = Bucket::new(schema_b(), &[]);
    assert_eq!(
        bucket.refused(Put::new(&["1"]).target(&[1, 2])),
        "The target write columns [b, c] must contain the primary key columns [a]."
    );
    let strict = [
        ("a", INT),
        ("b", STRING),
        ("c", DataType::not_null(TypeKind::String)),
    ];
    let mut bucket = Bucket::new(schema(&strict), &[]);
    for target in [[0, 1], [0, 2]] {
        let text = bucket.refused(Put::new(&["1,b,c"]).target(&target));
        assert!(text.ends_with("but column c is NOT NULL."), "{text}");
    }
    // PU16
    let put = Put::new(&["1,b,c"]).target(&[0, 1, 2]);
    assert_eq!(bucket.put(put), "+I[1,b,c]@0");
}

#[test]
fn pu10_to_pu13_whole_and_partial_writers_share_a_row() {
    let columns = [("a", INT), ("b", STRING), ("c", INT), ("d", BOOLEAN)];
    Bucket::in_all_formats(&schema(&columns), &[], |bucket| {
        bucket.rows(&["1,a,1,true"]);
        bucket.put(Put::new(&["1,aaa"]).target(&[0, 1]));
        assert_eq!(bucket.lookup("1"), "1,aaa,1,true");
        bucket.put(Put::new(&["1,bbb,222"]).target(&[0, 1, 2]));
        assert_eq!(bucket.lookup("1"), "1,bbb,222,true");
        bucket.put(Put::new(&["-1"]).target(&[0, 1, 2]));
        assert_eq!(bucket.lookup("1"), "1,null,null,true");
        bucket.put(Put::new(&["-1"]).target(&[0, 3]));
        assert_eq!(bucket.lookup("1"), "none");
    });
}

#[test]
fn null_in_a_column_that_forbids_it_is_refused() {
    let strict = [("a", INT), ("b", DataType::not_null(TypeKind::String))];
    for (kv, log) in super::bucket::FORMATS {
        let options = [("table.kv.format", kv), ("table.log.format", log)];
        let mut bucket = Bucket::new(schema(&strict), &options);
        bucket.rows(&["1,a"]);
        let error = bucket.try_put(Put::new(&["2,b", "1,null"])).unwrap_err();
        assert!(matches!(error, KvError::Corrupt(_)), "{error}");
        assert_eq!(bucket.lookup_pending("2"), "none");
        assert_eq!(bucket.rows(&["1,b"]), "-U[1,a]@1 +U[1,b]@2");
    }
}
