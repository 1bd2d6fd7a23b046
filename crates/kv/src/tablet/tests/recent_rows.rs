//! Rows that changed last and are not in the store yet.

use mainstem_env::Fault;

use super::bucket::{Bucket, Put, schema_a};
use crate::{KvError, Reach};

const INTERVAL_MS: i64 = 1_000;

fn bucket() -> Bucket {
    Bucket::new(schema_a(), &[]).with_recent_rows(1 << 20)
}

impl Bucket {
    fn checkpoint(&mut self) {
        self.now_ms += 1;
        let mut writer = self.tablet.lock();
        writer.checkpoint(self.now_ms, INTERVAL_MS).unwrap();
    }

    /// Whether the store has all rows.
    fn is_stored(&self) -> bool {
        self.tablet.rows(self.now_ms).unwrap().is_stored()
    }
}

#[test]
fn keys_are_found_in_their_order_wherever_they_are() {
    let mut bucket = bucket();
    bucket.rows(&["1,a", "2,b", "3,c"]);
    bucket.content();
    // Two idle looks: the rows are in the store only.
    bucket.checkpoint();
    bucket.checkpoint();
    bucket.rows(&["2,B", "-3", "4,D"]);
    let keys: Vec<Vec<u8>> = ["4,x", "1,x", "3,x", "5,x", "2,x", "1,x"]
        .iter()
        .map(|row| bucket.key(&super::text::row(bucket.table.latest_schema(), row)))
        .collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let rows = bucket.tablet.rows(0).unwrap();
    let look_up = |keys: &[&[u8]]| {
        let mut found = Vec::new();
        let whole = rows
            .multi_get(keys, Reach::Disk, &mut |at, value| {
                assert_eq!(at, found.len());
                found.push(value.map_or("none".to_owned(), |value| bucket.text(value)));
            })
            .unwrap();
        assert!(whole);
        found.join(" ")
    };
    assert_eq!(look_up(&keys), "4,D 1,a none none 2,B 1,a");
    assert_eq!(look_up(&[keys[1], keys[3]]), "1,a none");
    assert_eq!(look_up(&[keys[4], keys[2]]), "2,B none");
    assert_eq!(look_up(&[]), "");
}

#[test]
fn a_look_at_all_rows_brings_them_to_the_store() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    let rows = bucket.tablet.rows(0).unwrap();
    assert!(!rows.is_stored() && rows.snapshot().is_none());
    assert_eq!(bucket.content().len(), 1);
    assert!(rows.is_stored() && rows.snapshot().is_some());
    // They stay in memory, and the next look brings what has changed since.
    assert!(!rows.recent().is_empty());
    bucket.rows(&["1,b", "2,c"]);
    let before = bucket.plan.changing_calls();
    assert_eq!(bucket.content().len(), 2);
    assert_eq!(bucket.plan.changing_calls() - before, 1);
    bucket.check_rebuild();
}

#[test]
fn memory_is_given_back_when_nothing_changes() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    assert!(bucket.recent.held_bytes() > 0);
    bucket.checkpoint();
    assert!(bucket.recent.held_bytes() > 0 && !bucket.is_stored());
    bucket.rows(&["2,b"]);
    bucket.checkpoint();
    assert!(bucket.recent.held_bytes() > 0);
    bucket.checkpoint();
    assert_eq!(bucket.recent.held_bytes(), 0);
    assert!(bucket.is_stored());
    assert_eq!(bucket.lookup("1"), "1,a");
    // What is looked up stays, as long as it is.
    bucket.rows(&["2,b"]);
    bucket.checkpoint();
    for _ in 0..3 {
        assert_eq!(bucket.lookup("2"), "2,b");
        bucket.checkpoint();
        assert!(bucket.recent.held_bytes() > 0 && bucket.is_stored());
    }
    bucket.lookup("1");
    bucket.checkpoint();
    assert_eq!(bucket.recent.held_bytes(), 0);
    bucket.rows(&["3,c"]);
    bucket.restart();
    assert_eq!(bucket.recent.held_bytes(), 0);
    let report = bucket.open().unwrap().unwrap();
    let end = bucket.end_offset();
    assert_eq!(
        report.replayed_from, end,
        "all was stored when it was closed"
    );
}

#[test]
fn batches_that_change_nothing_are_not_replayed_either() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    bucket.checkpoint();
    bucket.checkpoint();
    bucket.rows(&["-7"]);
    bucket.now_ms += INTERVAL_MS;
    bucket.checkpoint();
    bucket.kill(|_| 0);
    let report = bucket.open().unwrap().unwrap();
    assert_eq!(report.replayed_from, bucket.end_offset());
}

#[test]
fn full_memory_goes_to_the_store_and_no_more_is_held_than_allowed() {
    const BYTES: usize = 64 << 10;
    let mut bucket = Bucket::new(schema_a(), &[]).with_recent_rows(BYTES);
    let text = "x".repeat(50);
    for round in 0..200 {
        let rows: Vec<String> = (0..20)
            .map(|n| format!("{},{text}", round * 20 + n))
            .collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        bucket.rows(&rows);
        assert!(bucket.recent.held_bytes() <= BYTES);
    }
    assert_eq!(bucket.content().len(), 4_000);
    // Too large to gather: it passes by, and nothing old is found in its stead.
    bucket.rows(&["7,old", &format!("8,{}", "y".repeat(BYTES))]);
    bucket.rows(&["7,new"]);
    bucket.rows(&["7,newer", &format!("8,{}", "z".repeat(BYTES))]);
    assert_eq!(bucket.lookup("7"), "7,newer");
    assert!(bucket.lookup("8").ends_with("zz"));
    bucket.check_rebuild();
}

#[test]
fn while_the_disk_fails_there_is_room_for_some_changes_and_the_rest_is_refused_unharmed() {
    let mut bucket = Bucket::new(schema_a(), &[]).with_recent_rows(12_000);
    bucket.rows(&["1,a"]);
    bucket.plan.fail(true);
    let text = "x".repeat(1_000);
    let mut taken = 0;
    let error = loop {
        match bucket.try_put(Put::new(&[&format!("{},{text}", 2 + taken)])) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, KvError::Storage(_)), "{error}");
    assert!((3..20).contains(&taken), "{taken}");
    // It is not in the changelog, and all rows can be read on.
    assert_eq!(bucket.end_offset(), 1 + taken);
    assert!(bucket.tablet.lock().failure().is_none());
    assert_eq!(bucket.lookup("2"), format!("2,{text}"));
    bucket.plan.fail(false);
    assert_eq!(bucket.content().len() as i64, 1 + taken);
    bucket.check_rebuild();
}

#[test]
fn batches_that_change_nothing_leave_the_memory_counted() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    let held = bucket.recent.held_bytes();
    assert!(held > 0);
    bucket.rows(&["-7"]);
    assert_eq!(bucket.recent.held_bytes(), held);
}

#[test]
fn a_store_whose_checkpoints_fail_for_long_is_opened_anew() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    bucket.plan.fail(true);
    let mut failed_after_ms = None;
    for second in 1..120 {
        let now_ms = second * 1_000;
        let mut writer = bucket.tablet.lock();
        assert!(writer.checkpoint(now_ms, 500).is_err());
        if writer.failure().is_some() {
            failed_after_ms = Some(now_ms);
            break;
        }
    }
    assert_eq!(failed_after_ms, Some(31_000));
    bucket.plan.fail(false);
    assert_eq!(bucket.lookup("1"), "1,a");
}

#[test]
fn a_full_disk_is_waited_for_with_rows_that_can_be_read() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    for second in 1..120 {
        let operation = bucket.files.operations() + 1;
        bucket.files.fail(operation, Fault::DiskFull);
        let mut writer = bucket.tablet.lock();
        let error = writer.checkpoint(second * 1_000, 500).unwrap_err();
        assert!(matches!(error, KvError::DiskFull(_)), "{error}");
        assert!(writer.failure().is_none());
    }
    assert_eq!(bucket.lookup("1"), "1,a");
    bucket.now_ms = 120_000;
    bucket.checkpoint();
    assert_eq!(bucket.tablet.lock().writer.noted.offset, 1);
}

#[test]
fn a_slow_flush_is_not_begun_again_and_again() {
    let mut bucket = bucket();
    bucket.engine.set_faults(crate::memory::Faults {
        slow: true,
        ..Default::default()
    });
    bucket.rows(&["1,a"]);
    let before = bucket.plan.changing_calls();
    // A write and a flush; then another flush, as that one may have been lost.
    for calls in [2, 3] {
        for _ in 0..9 {
            bucket.now_ms += INTERVAL_MS;
            bucket.checkpoint();
        }
        assert_eq!(bucket.plan.changing_calls() - before, calls);
    }
}

#[test]
fn rows_in_memory_stay_readable_while_the_disk_is_full() {
    let mut bucket = bucket();
    bucket.rows(&["1,a"]);
    bucket.plan.fail(true);
    bucket.now_ms += INTERVAL_MS;
    let now_ms = bucket.now_ms;
    let mut writer = bucket.tablet.lock();
    assert!(writer.checkpoint(now_ms, INTERVAL_MS).is_err());
    assert!(writer.snapshot().is_err());
    assert!(writer.close(now_ms).is_err());
    assert!(writer.failure().is_none());
    drop(writer);
    assert_eq!(bucket.lookup("1"), "1,a");
    bucket.rows(&["2,b"]);
    bucket.plan.fail(false);
    assert_eq!(bucket.content().len(), 2);
    bucket.restart();
    let report = bucket.open().unwrap().unwrap();
    assert_eq!(report.replayed_from, 2);
}

#[test]
fn changes_go_to_the_store_little_by_little_before_there_is_no_room() {
    let mut bucket = Bucket::new(schema_a(), &[]).with_recent_rows(64 << 10);
    bucket.open().unwrap();
    let mut longest = 0;
    for round in 0..400 {
        let before = bucket.plan.changing_calls();
        bucket.rows(&[&format!("{round},{}", "x".repeat(300))]);
        longest = longest.max(bucket.plan.changing_calls() - before);
    }
    assert_eq!(longest, 1, "writes of the store with one put");
}

#[test]
fn a_checkpoint_does_not_wait_for_the_disk_and_a_later_one_notes_what_was_done() {
    let mut bucket = bucket();
    let slow = |slow| crate::memory::Faults {
        slow,
        ..Default::default()
    };
    bucket.engine.set_faults(slow(true));
    bucket.rows(&["1,a"]);
    bucket.now_ms += INTERVAL_MS;
    bucket.checkpoint();
    let noted = |bucket: &Bucket| bucket.tablet.lock().writer.noted.offset;
    assert_eq!(noted(&bucket), 0);
    bucket.rows(&["2,b"]);
    bucket.engine.set_faults(slow(false));
    let rows = bucket.tablet.rows(0).unwrap();
    rows.store().flush(true).unwrap();
    drop(rows);
    bucket.checkpoint();
    assert_eq!(noted(&bucket), 1);
    bucket.kill(|_| 0);
    assert_eq!(bucket.open().unwrap().unwrap().replayed_from, 1);
}

#[test]
fn a_crash_while_rows_go_to_the_store_loses_none() {
    for survivors in 0..8 {
        let mut bucket = bucket();
        // More than one piece.
        let text = "x".repeat(40_000);
        let rows: Vec<String> = (0..20).map(|n| format!("{n},{text}")).collect();
        for row in &rows {
            bucket.rows(&[row]);
        }
        bucket.rows(&["3,c", "-4"]);
        let content = bucket.content();
        assert_eq!(content.len(), 19);
        bucket.kill(|_| survivors);
        assert_eq!(bucket.content(), content);
        assert_eq!(bucket.row_count(), 19);
    }
}
