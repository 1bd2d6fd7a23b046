//! What is bounded, and what happens at the bound.

use mainstem_types::{AggFunction, MergeEngine, Schema};

use super::bucket::{Bucket, INT, Put, STRING, engine, schema_a};
use crate::{ChangelogSource, KvError};

#[test]
fn puts_are_refused_while_too_much_waits_for_its_commit() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.tablet.pending_bytes_max = 10_000;
    bucket.commits = false;
    let row = format!("1,{}", "x".repeat(3000));
    let mut accepted = 0;
    let error = loop {
        match bucket.try_put(Put::new(&[&row])) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, KvError::Stalled(_)), "{error}");
    assert_eq!(accepted, 4);
    let end_offset = bucket.log.end_offset();
    assert_eq!(bucket.commit(1).unwrap(), 1);
    bucket.rows(&[&row]);
    assert!(bucket.log.end_offset() > end_offset);
    bucket.check_rebuild();
}

#[test]
fn puts_are_refused_while_compactions_are_behind() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.rows(&["1,a"]);
    bucket.plan.set_level0_files(19);
    bucket.rows(&["1,b"]);
    assert!(bucket.tablet.pressure() > 0.9 && bucket.tablet.pressure() < 1.0);
    bucket.plan.set_level0_files(20);
    let error = bucket.try_put(Put::new(&["1,c"])).unwrap_err();
    assert!(matches!(error, KvError::Stalled(_)), "{error}");
    assert!(bucket.tablet.pressure() < 1.0);
    bucket.plan.set_level0_files(4);
    assert_eq!(bucket.rows(&["1,c"]), "-U[1,b]@3 +U[1,c]@4");
    assert_eq!(bucket.tablet.pressure(), 0.0);
}

#[test]
fn a_small_batch_cannot_make_changes_without_bound() {
    let schema = Schema::builder()
        .column("a", INT)
        .column("list", STRING)
        .aggregate(AggFunction::new("listagg"))
        .primary_key(["a"])
        .build()
        .unwrap();
    let mut bucket = Bucket::new(schema, &[engine(MergeEngine::Aggregation)]);
    bucket.rows(&[&format!("1,{}", "x".repeat(1 << 20))]);
    // 300 bytes that change a row of a megabyte again and again.
    let rows = ["1,y"; 300];
    let error = bucket.try_put(Put::new(&rows)).unwrap_err();
    assert!(matches!(error, KvError::Corrupt(_)), "{error}");
    assert_eq!(bucket.log.end_offset(), 1);
    bucket.rows(&rows[..10]);
    assert_eq!(bucket.log.end_offset(), 21);
}

#[test]
fn after_many_batches_without_a_flush_the_newest_mark_is_kept() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    for round in 0..1500 {
        bucket.rows(&[&format!("{},a", round % 7)]);
        let writer = bucket.tablet.lock();
        assert_eq!(
            writer.writer.marks.newest_offset(),
            Some(writer.applied_offset())
        );
    }
    bucket.restart();
    let report = bucket.open().unwrap().unwrap();
    assert_eq!(report.replayed_from, bucket.log.end_offset());
}
