//! The changelog with the image WAL (tables.md §4.3; vectors of §9.1).

use mainstem_types::MergeEngine;

use super::bucket::{Bucket, INT, Put, STRING, WAL, engine, schema, schema_a, schema_b};

#[test]
fn wa1_to_wa3_upserts_do_not_say_what_was_there_before_and_deletes_do() {
    Bucket::in_all_formats(&schema_a(), &[WAL], |bucket| {
        assert_eq!(bucket.rows(&["1,v11", "2,v21"]), "+U[1,v11]@0 +U[2,v21]@1");
        assert_eq!(bucket.rows(&["1,v12", "2,v22"]), "+U[1,v12]@2 +U[2,v22]@3");
        assert_eq!(bucket.rows(&["-1"]), "-D[1,v12]@4");
        assert_eq!(bucket.lookup("1"), "none");
        assert_eq!(
            bucket.rows(&["-1", "3,c", "-3", "-2", "-2"]),
            "+U[3,c]@5 -D[3,c]@6 -D[2,v22]@7"
        );
    });
}

#[test]
fn wa3_deletes_know_rows_that_are_not_committed() {
    let mut bucket = Bucket::new(schema_a(), &[WAL]);
    bucket.commits = false;
    bucket.rows(&["1,v11"]);
    assert_eq!(bucket.rows(&["2,v21", "-1"]), "+U[2,v21]@1 -D[1,v11]@2");
    assert_eq!(bucket.rows(&["-1"]), "");
}

#[test]
fn wa4_to_wa6_partial_updates_tell_inserts_from_updates() {
    Bucket::in_all_formats(&schema_b(), &[WAL], |bucket| {
        let put = |row| Put {
            target: &[0],
            ..Put::new(row)
        };
        assert_eq!(bucket.put(put(&["1"])), "+I[1,null,null]@0");
        let put = |row| Put {
            target: &[0, 1],
            ..Put::new(row)
        };
        assert_eq!(bucket.put(put(&["1,v1"])), "+U[1,v1,null]@1");
        let put = |row| Put {
            target: &[0, 2],
            ..Put::new(row)
        };
        assert_eq!(bucket.put(put(&["1,null,hello"])), "+U[1,v1,hello]@2");
        assert_eq!(bucket.put(put(&["-1"])), "+U[1,v1,null]@3");
        let put = |row| Put {
            target: &[0, 1],
            ..Put::new(row)
        };
        assert_eq!(bucket.put(put(&["-1"])), "-D[1,v1,null]@4");
    });
}

#[test]
fn a_target_of_all_columns_is_a_whole_row() {
    let mut bucket = Bucket::new(schema_b(), &[WAL]);
    let put = Put::new(&["1,a,b"]).target(&[2, 0, 1, 1]);
    assert_eq!(bucket.put(put), "+U[1,a,b]@0");
}

#[test]
fn wa7_rows_are_not_counted() {
    assert!(!Bucket::new(schema_a(), &[WAL]).table.counts_rows());
    assert!(Bucket::new(schema_a(), &[]).table.counts_rows());
}

#[test]
fn wa8_deleting_what_is_not_there_takes_an_offset() {
    Bucket::in_all_formats(&schema_a(), &[WAL], |bucket| {
        assert_eq!(bucket.rows(&["-1"]), "");
        assert_eq!(bucket.end_offset(), 1);
    });
}

#[test]
fn merge_engines_tell_inserts_from_updates() {
    let options = [
        WAL,
        engine(MergeEngine::Versioned),
        ("table.merge-engine.versioned.ver-column", "b"),
        ("table.delete.behavior", "IGNORE"),
    ];
    Bucket::in_all_formats(&schema(&[("a", INT), ("b", INT)]), &options, |bucket| {
        assert_eq!(bucket.rows(&["1,5", "1,4", "1,6"]), "+I[1,5]@0 +U[1,6]@1");
        assert_eq!(bucket.rows(&["1,5", "-1"]), "");
        assert_eq!(bucket.end_offset(), 3);
        // An overwriting writer is one of whole rows.
        assert_eq!(
            bucket.put(Put::new(&["1,1", "-1"]).overwrite()),
            "+U[1,1]@3 -D[1,1]@4"
        );
    });
    let options = [
        WAL,
        engine(MergeEngine::FirstRow),
        ("table.delete.behavior", "IGNORE"),
    ];
    Bucket::in_all_formats(&schema(&[("a", INT), ("b", STRING)]), &options, |bucket| {
        assert_eq!(bucket.rows(&["1,x", "1,y", "2,z"]), "+I[1,x]@0 +I[2,z]@1");
    });
}
