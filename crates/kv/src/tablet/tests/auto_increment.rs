//! Auto-increment columns (tables.md §4.9; vectors of §9.5).

use mainstem_env::Survival;
use mainstem_types::{DataType, Schema, TypeKind};

use super::bucket::{BIGINT, Bucket, FORMATS, Put, STRING};
use crate::KvError;

/// (key, number, value), the number being the server's.
fn schema(number: DataType) -> Schema {
    Schema::builder()
        .column("col1", DataType::not_null(TypeKind::String))
        .column("uid", number)
        .column("col3", STRING)
        .primary_key(["col1"])
        .auto_increment("uid")
        .build()
        .unwrap()
}

const CACHE: (&str, &str) = ("table.auto-increment.cache-size", "5");

fn bucket() -> Bucket {
    Bucket::new(schema(BIGINT), &[CACHE])
}

#[track_caller]
fn insert(bucket: &mut Bucket, keys: &[&str]) {
    bucket.put(Put::new(keys).target(&[0, 2]));
}

#[test]
fn ai1_to_ai4_numbers_go_on_over_updates_new_columns_and_restarts() {
    for (kv, log) in FORMATS {
        let options = [CACHE, ("table.kv.format", kv), ("table.log.format", log)];
        let mut bucket = Bucket::new(schema(BIGINT), &options);
        insert(&mut bucket, &["a", "b", "c", "d", "e"]);
        let put = Put::new(&["d,null,x", "e,99,y"]).target(&[0, 2]);
        assert_eq!(
            bucket.put(put),
            "-U[d,4,null]@5 +U[d,4,x]@6 -U[e,5,null]@7 +U[e,5,y]@8"
        );
        bucket.add_columns(&[("col4", STRING, None)]);
        let put = Put::new(&["a,null,null,new", "b,null,null,new", "f,null,null,new"]);
        bucket.put(put.target(&[0, 3]));
        assert_eq!(bucket.lookup("a"), "a,1,null,new");
        assert_eq!(bucket.lookup("b"), "b,2,null,new");
        assert_eq!(bucket.lookup("f"), "f,6,null,new");
        assert_eq!(bucket.lookup("c"), "c,3,null,null");

        bucket.restart();
        insert(&mut bucket, &["g"]);
        assert_eq!(bucket.lookup("g"), "g,7,null,null");
        insert(&mut bucket, &["h", "i", "j"]);
        bucket.restart();
        insert(&mut bucket, &["k"]);
        let ids = ["h", "i", "j", "k"].map(|key| bucket.lookup(key));
        assert_eq!(
            ids,
            [
                "h,8,null,null",
                "i,9,null,null",
                "j,10,null,null",
                "k,11,null,null"
            ]
        );
    }
}

#[test]
fn ai5_buckets_take_ranges_of_their_own() {
    let options = [("table.auto-increment.cache-size", "100000")];
    let mut one = Bucket::new(schema(BIGINT), &options);
    let mut other = Bucket::new(schema(BIGINT), &options);
    insert(&mut one, &["a"]);
    *other.numbers.taken.lock() = *one.numbers.taken.lock();
    insert(&mut other, &["b"]);
    insert(&mut one, &["c"]);
    insert(&mut other, &["d"]);
    let ids = [
        one.lookup("a"),
        other.lookup("b"),
        one.lookup("c"),
        other.lookup("d"),
    ];
    assert_eq!(
        ids,
        ["a,1,null", "b,100001,null", "c,2,null", "d,100002,null"]
    );
    insert(&mut one, &["a", "c"]);
    assert_eq!([one.lookup("a"), one.lookup("c")], ["a,1,null", "c,2,null"]);
}

#[test]
fn ai6_numbers_have_the_order_of_the_log() {
    let mut bucket = bucket();
    bucket.commits = false;
    for batch in 0..10 {
        let keys = [0, 1, 2].map(|row| format!("k{batch}_{row}"));
        let keys = keys.each_ref().map(String::as_str);
        insert(&mut bucket, &keys);
    }
    let end_offset = bucket.end_offset();
    bucket.commit(end_offset).unwrap();
    let changes = bucket.changes_since(0);
    let numbers = changes
        .split(' ')
        .map(|change| change.split(',').nth(1).unwrap());
    let numbers: Vec<i64> = numbers.map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
}

#[test]
fn ai7_and_ai8_writers_must_leave_the_column_out() {
    let mut bucket = bucket();
    assert_eq!(
        bucket.refused(Put::new(&["a,1"]).target(&[0, 1])),
        "Auto-increment column [uid] at index 1 must not be included in target columns."
    );
    let text = bucket.refused(Put::new(&["a,1,x"]));
    assert!(
        text.contains("but update target columns are not explicitly specified"),
        "{text}"
    );
    bucket.refused(Put::new(&["a,1,x"]).overwrite());
    assert_eq!(*bucket.numbers.taken.lock(), 0);
}

#[test]
fn ai9_after_the_last_number_of_the_type_there_is_none() {
    let int = DataType::nullable(TypeKind::Int);
    let mut bucket = Bucket::new(
        schema(int),
        &[("table.auto-increment.cache-size", "100000")],
    );
    *bucket.numbers.taken.lock() = i64::from(i32::MAX) - 10;
    for key in 0..10 {
        insert(&mut bucket, &[&format!("k{key}")]);
    }
    assert_eq!(bucket.lookup("k9"), "k9,2147483647,null");
    let error = bucket
        .try_put(Put::new(&["more"]).target(&[0, 2]))
        .unwrap_err();
    assert!(matches!(error, KvError::SequenceOverflow(_)));
    assert!(
        error
            .to_string()
            .starts_with("Reached maximum value of sequence")
    );
    insert(&mut bucket, &["k3"]);
    bucket.restart();
    assert!(bucket.try_put(Put::new(&["more"]).target(&[0, 2])).is_err());
}

#[test]
fn numbers_of_batches_that_come_again_are_left_out() {
    let mut bucket = bucket();
    let put = |keys, sequence| Put::new(keys).target(&[0, 2]).writer(1, sequence);
    bucket.put(put(&["a", "b"], 0));
    assert_eq!(
        bucket.put(put(&["c", "d"], 0)),
        "duplicate of the batch up to 2"
    );
    bucket.put(put(&["e"], 1));
    assert_eq!(bucket.lookup("e"), "e,5,null");
}

#[test]
fn a_delete_leaves_the_number_which_is_no_target() {
    let mut bucket = bucket();
    insert(&mut bucket, &["a"]);
    assert_eq!(
        bucket.put(Put::new(&["-a", "a"]).target(&[0, 2])),
        "-U[a,1,null]@1 +U[a,1,null]@2 -U[a,1,null]@3 +U[a,1,null]@4"
    );
}

#[test]
fn no_number_is_given_twice_whatever_a_crash_leaves() {
    for seed in 0..40 {
        let mut bucket = bucket();
        for round in 0..6 {
            for key in 0..=(seed + round) % 7 {
                insert(&mut bucket, &[&format!("k{round}_{key}")]);
            }
            let at = bucket.now_ms;
            if round % 2 == 0 {
                bucket.tablet.lock().checkpoint(at + 1, 0).unwrap();
            }
            bucket.crash(|pending| pending / 2, Survival::Seeded(seed * 10 + round));
        }
        let changes = bucket.changes_since(0);
        let numbers = changes
            .split(' ')
            .map(|change| change.split(',').nth(1).unwrap());
        let mut numbers: Vec<&str> = numbers.collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "seed {seed}");
    }
}
