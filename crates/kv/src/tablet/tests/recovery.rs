//! What was lost or damaged, and what opening makes of it (cluster.md §5.4).

use std::path::Path;

use mainstem_env::{Fault, FileSystem, OpenMode, Survival};
use mainstem_format::LogBatch;

use super::bucket::{Bucket, DIR, Put, schema_a};
use crate::tablet::KvTablet;
use crate::{ChangelogSource, KvEngine, KvError, Result};

/// Three rows, the first two of which the store has durably.
fn bucket() -> Bucket {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.rows(&["1,a", "2,b"]);
    bucket.now_ms = 5;
    bucket.tablet.lock().checkpoint(5, 0).unwrap();
    bucket.rows(&["3,c", "-1"]);
    bucket
}

#[track_caller]
fn check_rows(bucket: &mut Bucket) {
    let rows: Vec<String> = bucket.content().into_values().collect();
    assert_eq!(rows, ["2,b", "3,c"]);
    assert_eq!(bucket.row_count(), 2);
    // And it goes on.
    let at = bucket.end_offset();
    assert_eq!(
        bucket.rows(&["3,d"]),
        format!("-U[3,c]@{at} +U[3,d]@{}", at + 1)
    );
}

/// Opens it, expects it to be built anew, and says why.
#[track_caller]
fn rebuilt(bucket: &mut Bucket) -> String {
    let report = bucket.open().unwrap().expect("it was closed");
    assert_eq!(report.replayed_from, 0);
    assert_eq!(report.applied, bucket.log.committed_offset());
    report.rebuilt.expect("it was built anew")
}

/// Opens it, expects that to fail for good, and that nothing is served.
#[track_caller]
fn refused(bucket: &mut Bucket) -> String {
    let mut texts = Vec::new();
    for _ in 0..3 {
        let error = bucket.open().unwrap_err();
        assert!(matches!(error, KvError::Damaged(_)), "{error}");
        assert!(!bucket.tablet.is_open());
        assert!(bucket.tablet.rows(0).is_none());
        let mut writer = bucket.tablet.lock();
        assert!(writer.look_up(&[b"1"]).is_err() && writer.snapshot().is_err());
        texts.push(error.to_string());
    }
    texts.pop().unwrap()
}

fn state_file() -> std::path::PathBuf {
    Path::new(DIR).join("state")
}

fn store_dir() -> std::path::PathBuf {
    Path::new(DIR).join("db")
}

#[test]
fn after_an_orderly_stop_nothing_is_replayed() {
    let mut bucket = bucket();
    bucket.restart();
    let report = bucket.open().unwrap().unwrap();
    assert_eq!((report.replayed_from, report.applied), (4, 4));
    assert_eq!(report.rebuilt, None);
    check_rows(&mut bucket);
}

#[test]
fn after_a_crash_what_was_not_durable_is_replayed() {
    for survivors in 0..=1 {
        let mut bucket = bucket();
        bucket.crash(|_| survivors, Survival::Nothing);
        let report = bucket.open().unwrap().unwrap();
        assert_eq!((report.replayed_from, report.applied), (2, 4));
        assert_eq!(report.rebuilt, None);
        check_rows(&mut bucket);
    }
}

#[test]
fn what_is_not_committed_is_pending_after_a_crash() {
    let mut bucket = bucket();
    bucket.commits = false;
    bucket.rows(&["2,x", "4,d"]);
    bucket.log.sync();
    bucket.crash(|_| 1, Survival::Nothing);
    assert_eq!(
        (bucket.lookup("2"), bucket.lookup("4")),
        ("2,b".to_owned(), "none".to_owned())
    );
    assert_eq!(bucket.lookup_pending("2"), "2,x");
    assert_eq!(bucket.rows(&["4,e"]), "-U[4,d]@7 +U[4,e]@8");
    bucket.commit(9).unwrap();
    assert_eq!(
        (bucket.lookup("2"), bucket.lookup("4")),
        ("2,x".to_owned(), "4,e".to_owned())
    );
    assert_eq!(bucket.row_count(), 3);
}

#[test]
fn what_the_log_lost_is_forgotten() {
    let mut bucket = bucket();
    bucket.commits = false;
    bucket.put(Put::new(&["2,lost", "4,lost"]).writer(9, 0));
    bucket.log.lose_behind(0);
    bucket.crash(|_| 1, Survival::Nothing);
    assert_eq!(bucket.lookup_pending("2"), "2,b");
    assert_eq!(bucket.lookup_pending("4"), "none");
    bucket.commits = true;
    // Its writer sends it again.
    assert_eq!(
        bucket.put(Put::new(&["2,lost", "4,lost"]).writer(9, 0)),
        "-U[2,b]@4 +U[2,lost]@5 +I[4,lost]@6"
    );
}

#[test]
fn a_log_that_was_opened_anew_is_read_again() {
    let mut bucket = bucket();
    bucket.commits = false;
    bucket.rows(&["2,kept"]);
    bucket.log.sync();
    bucket.rows(&["4,lost"]);
    bucket.log.lose_behind(0);
    let mut writer = bucket.tablet.lock();
    writer.replay_pending(&bucket.table, &bucket.log).unwrap();
    drop(writer);
    assert_eq!(bucket.lookup_pending("2"), "2,kept");
    assert_eq!(bucket.lookup_pending("4"), "none");
    bucket.log.unreadable = true;
    let mut writer = bucket.tablet.lock();
    assert!(writer.replay_pending(&bucket.table, &bucket.log).is_err());
    assert!(writer.failure().is_some());
    drop(writer);
    bucket.log.unreadable = false;
    bucket.commit(6).unwrap_err();
    assert_eq!(bucket.open().unwrap().unwrap().rebuilt, None);
    assert_eq!(
        (bucket.lookup("2"), bucket.row_count()),
        ("2,kept".to_owned(), 2)
    );
}

#[test]
fn without_a_state_file_the_store_is_built_anew() {
    let mut bucket = bucket();
    bucket.restart();
    bucket.files.remove_file(&state_file()).unwrap();
    assert!(rebuilt(&mut bucket).contains("state is missing"));
    check_rows(&mut bucket);
}

#[test]
fn with_a_damaged_state_file_the_store_is_built_anew() {
    for position in [0, 5, 11, 30, 55] {
        let mut bucket = bucket();
        bucket.restart();
        bucket.files.corrupt(&state_file(), position, 1).unwrap();
        assert!(rebuilt(&mut bucket).contains("missing or damaged"));
        check_rows(&mut bucket);
    }
    let mut bucket = bucket();
    bucket.restart();
    let file = bucket
        .files
        .open(&state_file(), OpenMode::ReadWrite)
        .unwrap();
    file.set_len(20).unwrap();
    assert!(rebuilt(&mut bucket).contains("missing or damaged"));
    check_rows(&mut bucket);
}

#[test]
fn without_its_files_the_store_is_built_anew() {
    let mut bucket = bucket();
    bucket.restart();
    bucket.engine.destroy(&store_dir()).unwrap();
    assert!(rebuilt(&mut bucket).contains("missing or old"));
    check_rows(&mut bucket);
}

#[test]
fn an_older_copy_of_the_store_is_not_taken_for_the_store() {
    let mut bucket = bucket();
    bucket.restart();
    // Fewer changes than the state was noted after.
    bucket.engine.destroy(&store_dir()).unwrap();
    let store = bucket.engine.open(&store_dir()).unwrap();
    let mut writes = crate::KvWrites::default();
    writes.put(b"old", 1, b"");
    store.write(&writes, true).unwrap();
    store.flush(true).unwrap();
    drop(store);
    assert!(rebuilt(&mut bucket).contains("missing or old"));
    check_rows(&mut bucket);
}

#[test]
fn a_store_that_is_damaged_when_opened_is_built_anew() {
    let mut bucket = bucket();
    bucket.restart();
    bucket.plan.damage_opening();
    assert!(rebuilt(&mut bucket).contains("damaged as planned"));
    check_rows(&mut bucket);
}

#[test]
fn a_store_that_turns_out_to_be_damaged_is_built_anew() {
    let mut bucket = bucket();
    bucket.plan.damage_reads();
    let error = bucket.try_put(Put::new(&["2,x"])).unwrap_err();
    assert!(matches!(error, KvError::Damaged(_)), "{error}");
    assert!(bucket.tablet.lock().failure().is_some());
    assert!(rebuilt(&mut bucket).contains("a block is damaged"));
    check_rows(&mut bucket);
}

#[test]
fn a_store_ahead_of_its_changelog_is_built_anew() {
    let mut bucket = bucket();
    bucket.restart();
    bucket.log.clear();
    bucket.commits = true;
    assert!(rebuilt(&mut bucket).contains("the changelog ends at 0"));
    assert!(bucket.content().is_empty());
    assert_eq!(bucket.row_count(), 0);
    assert_eq!(bucket.rows(&["1,new"]), "+I[1,new]@0");
}

#[test]
fn of_a_damaged_changelog_the_store_is_the_better_copy() {
    let mut bucket = bucket();
    bucket.restart();
    bucket.log.cut(2);
    bucket.log.damaged = true;
    bucket.open().unwrap();
    let rows: Vec<String> = bucket.content().into_values().collect();
    assert_eq!(rows, ["2,b", "3,c"]);
    bucket.restart();
    bucket.files.remove_file(&state_file()).unwrap();
    assert!(refused(&mut bucket).contains("the changelog is damaged"));
    assert!(!bucket.engine.directories().is_empty());
}

#[test]
fn where_a_power_cut_may_cut_the_changelog_the_rows_are_built_anew_after_one() {
    let mut bucket = bucket();
    bucket.boot = Some(11);
    bucket.restart();
    bucket.open().unwrap();
    // A process that is killed leaves the changelog as it is.
    bucket.kill(|pending| pending);
    assert_eq!(bucket.open().unwrap().unwrap().rebuilt, None);
    bucket.rows(&["4,e", "5,f"]);
    bucket.tablet.lock().checkpoint(9, 0).unwrap();
    bucket.rows(&["6,g"]);
    // The store has the row, the changelog has not.
    bucket.log.cut(bucket.end_offset() - 1);
    bucket.boot = Some(13);
    bucket.crash(|pending| pending, Survival::Everything);
    assert!(rebuilt(&mut bucket).contains("when the machine stopped"));
    let rows: Vec<String> = bucket.content().into_values().collect();
    assert_eq!(rows, ["2,b", "3,c", "4,e", "5,f"]);
    // After an orderly stop it is not.
    bucket.restart();
    bucket.boot = Some(17);
    bucket.restart();
    assert_eq!(bucket.open().unwrap().unwrap().rebuilt, None);
}

#[test]
fn a_replay_that_is_cut_short_goes_on_where_it_was() {
    let mut bucket = Bucket::new(schema_a(), &[]).with_recent_rows(1 << 20);
    for id in 0..500 {
        bucket.rows(&[&format!("{id},x")]);
    }
    bucket.kill(|_| 0);
    assert_eq!(bucket.open().unwrap().unwrap().replayed_from, 0);
    bucket.kill(|_| 0);
    let from = bucket.open().unwrap().unwrap().replayed_from;
    assert!((400..500).contains(&from), "{from}");
    assert_eq!(bucket.content().len(), 500);
    assert_eq!(bucket.row_count(), 500);
}

#[test]
fn a_store_that_is_still_read_when_it_is_to_be_closed_does_not_count_as_closed() {
    let mut bucket = bucket();
    bucket.boot = Some(11);
    bucket.restart();
    bucket.open().unwrap();
    let reader = bucket.tablet.rows(0).unwrap();
    assert!(!bucket.tablet.lock().close(9).unwrap());
    drop(reader);
    bucket.rows(&["4,e"]);
    bucket.tablet.lock().checkpoint(9, 0).unwrap();
    bucket.log.cut(bucket.end_offset() - 1);
    bucket.boot = Some(13);
    bucket.crash(|pending| pending, Survival::Everything);
    rebuilt(&mut bucket);
    check_rows(&mut bucket);
}

#[test]
fn a_state_that_could_not_be_written_is_written_the_next_time() {
    let mut bucket = bucket();
    bucket.boot = Some(11);
    bucket.restart();
    bucket.open().unwrap();
    bucket.rows(&["4,e"]);
    bucket
        .files
        .fail(bucket.files.operations() + 1, Fault::DiskFull);
    assert!(bucket.tablet.lock().checkpoint(9, 0).is_err());
    assert!(bucket.tablet.lock().close_idle(99, 50).unwrap());
    bucket.boot = Some(13);
    bucket.restart();
    let report = bucket.open().unwrap().unwrap();
    assert_eq!((report.replayed_from, report.rebuilt), (5, None));
}

#[test]
fn damage_of_the_changelog_is_not_taken_for_one_of_the_store() {
    /// Its records cannot be read.
    struct Damaged<'l>(&'l super::log::Log);
    impl ChangelogSource for Damaged<'_> {
        fn start_offset(&self) -> i64 {
            self.0.start_offset()
        }
        fn is_whole(&self) -> bool {
            true
        }
        fn committed_offset(&self) -> i64 {
            self.0.committed_offset()
        }
        fn end_offset(&self) -> i64 {
            self.0.end_offset()
        }
        fn read(&self, _: i64, _: &mut dyn FnMut(&LogBatch) -> Result<()>) -> Result<()> {
            Err(KvError::Damaged("no record there".to_owned()))
        }
    }
    let mut bucket = bucket();
    bucket.commits = false;
    bucket.rows(&["4,e"]);
    let mut writer = bucket.tablet.lock();
    let source = Damaged(&bucket.log);
    assert!(writer.replay_pending(&bucket.table, &source).is_err());
    drop(writer);
    let report = bucket.open().unwrap().expect("it had failed");
    assert_eq!(report.rebuilt, None);
    bucket.commit(bucket.end_offset()).unwrap();
    assert_eq!(bucket.lookup("4"), "4,e");
    assert_eq!(bucket.row_count(), 3);
}

#[test]
fn damage_that_a_read_finds_is_healed_from_the_changelog() {
    let mut bucket = bucket();
    check_rows(&mut bucket);
    bucket.tablet.report(&KvError::Storage("busy".to_owned()));
    assert!(bucket.tablet.lock().failure().is_none());
    bucket
        .tablet
        .report(&KvError::Damaged("block 7".to_owned()));
    assert!(bucket.tablet.lock().failure().is_some());
    assert!(rebuilt(&mut bucket).contains("a read found it"));
    let rows: Vec<String> = bucket.content().into_values().collect();
    assert_eq!(rows, ["2,b", "3,d"]);
}

#[test]
fn without_the_beginning_of_the_changelog_nothing_is_served_that_may_be_wrong() {
    let losses: [(&str, &dyn Fn(&mut Bucket)); 5] = [
        ("missing or damaged", &|bucket| {
            bucket.files.remove_file(&state_file()).unwrap();
        }),
        ("missing or damaged", &|bucket| {
            bucket.files.corrupt(&state_file(), 9, 1).unwrap();
        }),
        ("missing or old", &|bucket| {
            bucket.engine.destroy(&store_dir()).unwrap();
        }),
        ("the changelog begins at 4", &|bucket| {
            bucket.log.trim(4);
        }),
        ("the changelog ends at", &|bucket| {
            bucket.crash(|_| 0, Survival::Everything);
            bucket.log.clear();
            bucket.rows_without_tablet(3);
            bucket.log.trim(2);
        }),
    ];
    for (text, lose) in losses {
        let mut bucket = bucket();
        match text.contains("begins at") {
            true => bucket.crash(|_| 0, Survival::Nothing),
            false => bucket.restart(),
        }
        bucket.log.trim(2);
        lose(&mut bucket);
        let error = refused(&mut bucket);
        assert!(
            error.contains(text) && error.contains("restore the files of"),
            "{error}"
        );
    }
    // While the state and the store are there the beginning is not needed.
    let mut bucket = bucket();
    bucket.restart();
    bucket.log.trim(2);
    check_rows(&mut bucket);
}

#[test]
fn a_damaged_store_is_kept_when_the_changelog_cannot_replace_it() {
    let mut bucket = bucket();
    bucket.restart();
    bucket.log.trim(2);
    bucket.plan.damage_opening();
    let error = bucket.open().unwrap_err();
    assert!(matches!(error, KvError::Damaged(_)), "{error}");
    // Somebody has restored the files.
    check_rows(&mut bucket);
}

#[test]
fn opening_that_fails_is_tried_again() {
    let mut bucket = bucket();
    bucket.crash(|_| 0, Survival::Nothing);
    bucket.log.unreadable = true;
    for _ in 0..2 {
        assert!(matches!(bucket.open(), Err(KvError::Storage(_))));
        assert!(!bucket.tablet.is_open());
    }
    bucket.log.unreadable = false;
    bucket.plan.fail(true);
    assert!(matches!(bucket.open(), Err(KvError::Storage(_))));
    bucket.plan.fail(false);
    assert_eq!(bucket.open().unwrap().unwrap().replayed_from, 2);
    assert_eq!(bucket.open().unwrap(), None);
    check_rows(&mut bucket);
}

#[test]
fn after_a_write_that_failed_the_changelog_has_the_rows() {
    let mut bucket = bucket();
    bucket.plan.fail(true);
    let error = bucket
        .try_put(Put::new(&["2,x", "4,d"]).writer(3, 0))
        .unwrap_err();
    assert!(matches!(error, KvError::Storage(_)), "{error}");
    assert_eq!(bucket.end_offset(), 7);
    assert!(bucket.tablet.lock().failure().is_some() && !bucket.tablet.lock().is_open());
    // Readers have the rows from before.
    assert!(bucket.tablet.is_open());
    let mut writer = bucket.tablet.lock();
    assert!(writer.apply_until(7).is_err());
    assert!(writer.checkpoint(9, 0).is_err());
    drop(writer);
    bucket.plan.fail(false);
    assert_eq!(
        bucket.put(Put::new(&["2,x", "4,d"]).writer(3, 0)),
        "duplicate of the batch up to 7"
    );
    assert_eq!(
        (bucket.lookup("2"), bucket.lookup("4")),
        ("2,x".to_owned(), "4,d".to_owned())
    );
    assert_eq!(bucket.row_count(), 3);
}

#[test]
fn a_failed_store_that_is_being_read_is_opened_when_the_reader_has_gone() {
    let mut bucket = bucket();
    let reader = bucket.tablet.rows(0).unwrap();
    bucket.plan.fail(true);
    bucket.try_put(Put::new(&["2,x"])).unwrap_err();
    bucket.plan.fail(false);
    let error = bucket.open().unwrap_err();
    assert!(error.to_string().contains("still read"), "{error}");
    drop(reader);
    assert_eq!(bucket.lookup("2"), "2,x");
}

#[test]
fn a_store_in_use_is_not_closed() {
    let mut bucket = bucket();
    bucket.now_ms = 100;
    bucket.open().unwrap();
    let reader = bucket.tablet.rows(100).unwrap();
    let (snapshot, offset) = bucket.tablet.lock().snapshot().unwrap();
    assert_eq!(offset, 4);
    let close = |bucket: &Bucket, now_ms| bucket.tablet.lock().close_idle(now_ms, 50).unwrap();
    assert!(!close(&bucket, 149), "it was used just now");
    assert!(!close(&bucket, 200), "somebody has the store");
    drop(reader);
    assert!(!close(&bucket, 200), "somebody has a snapshot");
    drop(snapshot);
    bucket.commits = false;
    bucket.rows(&["4,d"]);
    assert!(!close(&bucket, 400), "something is pending");
    bucket.commit(5).unwrap();
    assert!(close(&bucket, 400) && !bucket.tablet.is_open());
    assert!(close(&bucket, 400));
    bucket.rows(&["-4"]);
    bucket.commit(6).unwrap();
    check_rows(&mut bucket);
}

#[test]
fn a_store_that_cannot_be_flushed_stays_open() {
    let mut bucket = bucket();
    bucket.plan.fail(true);
    assert!(bucket.tablet.lock().close(9).is_err());
    assert!(bucket.tablet.lock().close_idle(9, 0).is_err());
    assert!(bucket.tablet.is_open());
    bucket.plan.fail(false);
    check_rows(&mut bucket);
}

#[test]
fn closing_leaves_what_is_pending_to_the_changelog() {
    let mut bucket = bucket();
    bucket.commits = false;
    bucket.rows(&["2,x"]);
    bucket.log.sync();
    bucket.restart();
    let report = bucket.open().unwrap().unwrap();
    assert_eq!((report.replayed_from, report.applied), (4, 4));
    assert_eq!(bucket.lookup_pending("2"), "2,x");
}

#[test]
fn a_dropped_bucket_leaves_nothing() {
    let bucket = bucket();
    let reader = bucket.tablet.rows(0).unwrap();
    assert!(bucket.tablet.lock().remove().is_err());
    drop(reader);
    // What a crash in the middle of writing the state leaves.
    bucket
        .files
        .create_new(&Path::new(DIR).join("state.new"))
        .unwrap();
    bucket.tablet.lock().remove().unwrap();
    assert!(bucket.engine.directories().is_empty());
    assert!(bucket.files.list(Path::new(DIR)).is_err());
    let resources = bucket.tablet.resources.clone();
    KvTablet::remove_files(&resources, Path::new(DIR)).unwrap();

    // Files of others stay.
    bucket.files.create_dir_all(Path::new(DIR)).unwrap();
    bucket
        .files
        .create_new(&Path::new(DIR).join("other"))
        .unwrap();
    KvTablet::remove_files(&resources, Path::new(DIR)).unwrap();
    assert_eq!(bucket.files.list(Path::new(DIR)).unwrap().len(), 1);
}
