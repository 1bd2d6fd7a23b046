//! The changelog with the image FULL (tables.md §4.1, §4.2; vectors of §9.1).

use super::bucket::{BIGINT, Bucket, DOUBLE, INT, Put, STRING, schema, schema_a};
use crate::KvError;

const CH1: [&str; 3] = ["1,v11", "2,v21", "2,v23"];
const CH2: [&str; 3] = ["2,v22", "1,v21", "-1"];

#[test]
fn ch1_and_ch2_updates_say_what_was_there_before() {
    Bucket::in_all_formats(&schema_a(), &[], |bucket| {
        assert_eq!(
            bucket.rows(&CH1),
            "+I[1,v11]@0 +I[2,v21]@1 -U[2,v21]@2 +U[2,v23]@3"
        );
        assert_eq!(bucket.end_offset(), 4);
        assert_eq!(
            bucket.rows(&CH2),
            "-U[2,v23]@4 +U[2,v22]@5 -U[1,v11]@6 +U[1,v21]@7 -D[1,v21]@8"
        );
        assert_eq!(bucket.end_offset(), 9);
        assert_eq!(
            (bucket.lookup("1"), bucket.row_count()),
            ("none".to_owned(), 1)
        );
        assert_eq!(bucket.lookup("2"), "2,v22");
    });
}

#[test]
fn ch3_and_ch4_a_row_may_come_and_go_within_a_batch() {
    Bucket::in_all_formats(&schema_a(), &[], |bucket| {
        assert_eq!(bucket.rows(&CH2), "+I[2,v22]@0 +I[1,v21]@1 -D[1,v21]@2");
        assert_eq!(
            bucket.rows(&CH1),
            "+I[1,v11]@3 -U[2,v22]@4 +U[2,v21]@5 -U[2,v21]@6 +U[2,v23]@7"
        );
        assert_eq!(bucket.end_offset(), 8);
    });
}

#[test]
fn ch5_what_is_not_committed_is_seen_by_puts_and_not_by_lookups() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.commits = false;
    bucket.rows(&CH1);
    assert_eq!(
        (bucket.lookup("1"), bucket.row_count()),
        ("none".to_owned(), 0)
    );
    assert_eq!(bucket.lookup_pending("1"), "1,v11");
    assert_eq!(bucket.lookup_pending("2"), "2,v23");
    assert_eq!(
        bucket.rows(&["-2", "1,v12"]),
        "-D[2,v23]@4 -U[1,v11]@5 +U[1,v12]@6"
    );
    assert_eq!(bucket.lookup_pending("2"), "none");

    // A batch is applied as a whole or not at all.
    assert_eq!(bucket.commit(3).unwrap(), 0);
    assert_eq!(bucket.lookup("1"), "none");
    assert_eq!(bucket.commit(4).unwrap(), 4);
    assert_eq!(
        (bucket.lookup("1"), bucket.lookup("2")),
        ("1,v11".to_owned(), "2,v23".to_owned())
    );
    assert_eq!(bucket.row_count(), 2);
    assert_eq!(bucket.commit(7).unwrap(), 7);
    assert_eq!(
        (bucket.lookup("1"), bucket.lookup("2")),
        ("1,v12".to_owned(), "none".to_owned())
    );
    assert_eq!(bucket.row_count(), 1);
    bucket.check_rebuild();
}

#[test]
fn ch6_a_batch_that_comes_again_changes_nothing() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    let put = Put::new(&CH1);
    bucket.put(put.writer(100, 0));
    for _ in 0..2 {
        assert_eq!(
            bucket.put(put.writer(100, 0)),
            "duplicate of the batch up to 4"
        );
        assert_eq!(bucket.lookup_pending("1"), "1,v11");
    }
    // Not even with other rows.
    let other = ["3,other"];
    assert_eq!(
        bucket.put(Put::new(&other).writer(100, 0)),
        "duplicate of the batch up to 4"
    );
    assert_eq!(bucket.lookup_pending("3"), "none");
    assert_eq!(
        bucket.put(put.writer(100, 1)),
        "-U[1,v11]@4 +U[1,v11]@5 -U[2,v23]@6 +U[2,v21]@7 -U[2,v21]@8 +U[2,v23]@9"
    );
    bucket.check_rebuild();
}

#[test]
fn ch7_a_batch_that_is_refused_by_the_log_changes_nothing() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.put(Put::new(&CH1).writer(100, 0));
    let rows = ["1,lost", "-2", "3,lost"];
    assert_eq!(bucket.put(Put::new(&rows).writer(100, 3)), "out of order");
    assert_eq!(bucket.end_offset(), 4);
    assert_eq!(bucket.lookup_pending("1"), "1,v11");
    assert_eq!(bucket.lookup_pending("2"), "2,v23");
    assert_eq!(bucket.lookup_pending("3"), "none");
    assert_eq!(bucket.put(Put::new(&["-1"]).writer(100, 1)), "-D[1,v11]@4");
}

#[test]
fn ch8_every_batch_ends_where_its_changes_end() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    let mut ends = Vec::new();
    for row in ["1,a", "2,b", "1,aa", "-1"] {
        bucket.rows(&[row]);
        ends.push(bucket.end_offset());
    }
    assert_eq!(ends, [1, 2, 4, 5]);
    assert_eq!(
        (bucket.lookup("1"), bucket.lookup("2")),
        ("none".to_owned(), "2,b".to_owned())
    );
}

#[test]
fn ch9_new_keys_take_one_offset_each() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.rows(&["1,a", "2,b", "3,c"]);
    assert_eq!(bucket.end_offset(), 3);
}

#[test]
fn ch10_deleting_what_is_not_there_takes_an_offset_all_the_same() {
    Bucket::in_all_formats(&schema_a(), &[], |bucket| {
        assert_eq!(bucket.rows(&["-42"]), "");
        assert_eq!(bucket.end_offset(), 1);
        assert_eq!(bucket.rows(&["42,a"]), "+I[42,a]@1");
        assert_eq!(bucket.rows(&["-42", "-42"]), "-D[42,a]@2");
        assert_eq!(bucket.rows(&[]), "");
        assert_eq!(bucket.end_offset(), 4);
        assert_eq!(bucket.row_count(), 0);
    });
}

#[test]
fn ch11_insert_update_delete() {
    let schema = schema(&[("a", INT), ("b", INT)]);
    Bucket::in_all_formats(&schema, &[], |bucket| {
        assert_eq!(bucket.rows(&["1,10"]), "+I[1,10]@0");
        assert_eq!(bucket.rows(&["1,20"]), "-U[1,10]@1 +U[1,20]@2");
        assert_eq!(bucket.rows(&["-1"]), "-D[1,20]@3");
    });
}

#[test]
fn ch12_rounds_of_inserts_updates_and_a_delete() {
    Bucket::in_all_formats(&schema_a(), &[], |bucket| {
        for round in 0..3 {
            let inserts: Vec<String> = (0..10).map(|id| format!("{},v", round * 10 + id)).collect();
            let updates: Vec<String> = (0..5).map(|id| format!("{},w", round * 10 + id)).collect();
            let deleted = format!("-{}", round * 10 + 9);
            let rows = inserts.iter().chain(&updates).map(String::as_str);
            let rows: Vec<&str> = rows.chain([deleted.as_str()]).collect();
            let changes = bucket.rows(&rows);
            let count = |sign: &str| changes.matches(sign).count();
            assert_eq!(
                (count("+I"), count("-U"), count("+U"), count("-D")),
                (10, 5, 5, 1)
            );
            assert_eq!(bucket.end_offset(), 21 * (round + 1));
        }
        assert_eq!(bucket.row_count(), 27);
    });
}

#[test]
fn ch13_orders_of_the_documents() {
    let schema = schema(&[("order_id", BIGINT), ("name", STRING), ("price", DOUBLE)]);
    Bucket::in_all_formats(&schema, &[], |bucket| {
        assert_eq!(bucket.rows(&["1,Rhea,100"]), "+I[1,Rhea,100.0]@0");
        assert_eq!(
            bucket.rows(&["1,Rhea,150"]),
            "-U[1,Rhea,100.0]@1 +U[1,Rhea,150.0]@2"
        );
        assert_eq!(bucket.rows(&["-1"]), "-D[1,Rhea,150.0]@3");
    });
}

#[test]
fn ch14_an_equal_row_is_an_update() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.rows(&["1,a"]);
    assert_eq!(bucket.rows(&["1,a"]), "-U[1,a]@1 +U[1,a]@2");
}

#[test]
fn ch15_a_batch_without_changes_keeps_the_sequence() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    assert_eq!(bucket.put(Put::new(&["-1"]).writer(100, 0)), "");
    assert_eq!(bucket.end_offset(), 1);
    assert_eq!(
        bucket.put(Put::new(&CH1[..2]).writer(100, 1)),
        "+I[1,v11]@1 +I[2,v21]@2"
    );
    assert_eq!(
        bucket.put(Put::new(&["-1"]).writer(100, 0)),
        "duplicate of the batch up to 1"
    );
}

#[test]
fn deletes_are_ignored_or_refused_as_the_table_says() {
    let option = "table.delete.behavior";
    Bucket::in_all_formats(&schema_a(), &[(option, "IGNORE")], |bucket| {
        bucket.rows(&["1,a"]);
        assert_eq!(bucket.rows(&["-1", "-2", "2,b"]), "+I[2,b]@1");
        assert_eq!(bucket.rows(&["-1"]), "");
        assert_eq!(bucket.end_offset(), 3);
        // Whoever overwrites may delete.
        assert_eq!(bucket.put(Put::new(&["-1"]).overwrite()), "-D[1,a]@3");
    });
    Bucket::in_all_formats(&schema_a(), &[(option, "DISABLE")], |bucket| {
        bucket.rows(&["1,a"]);
        let error = bucket.try_put(Put::new(&["2,b", "-7"])).unwrap_err();
        assert!(matches!(error, KvError::DeletionDisabled));
        assert_eq!(
            error.to_string(),
            "Delete operations are disabled for this table."
        );
        assert_eq!(
            (bucket.end_offset(), bucket.lookup_pending("2")),
            (1, "none".to_owned())
        );
        assert_eq!(bucket.put(Put::new(&["-1"]).overwrite()), "-D[1,a]@1");
    });
}
