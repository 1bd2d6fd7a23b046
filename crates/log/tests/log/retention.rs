use mainstem_env::{Fault, FileSystem, Operation, Survival};
use mainstem_log::{Deleted, DurabilityListener, LogConfig, LogError, LogTablet, RetentionRule};

use crate::support::*;

/// Ten segments of one batch each, the n-th with time 100·n, of 148 bytes and
/// 2 offsets.
fn filled(fs: &mainstem_env::SimFileSystem) -> (std::sync::Arc<LogTablet>, LogConfig, Ledger) {
    let config = LogConfig {
        segment_bytes: 120,
        ..LogConfig::default()
    };
    let (tablet, _) = open(fs, &config).unwrap();
    let mut ledger = Ledger::default();
    for number in 0..10 {
        append(&tablet, &[plain(2, 100)], 100 * number).unwrap();
        ledger.add(&[plain(2, 100)], 100 * number);
    }
    (tablet, config, ledger)
}

#[test]
fn offsets_are_found_by_time() {
    let fs = disk(1);
    let (empty, _) = open(&fs, &LogConfig::default()).unwrap();
    assert_eq!(empty.offset_for_timestamp(0).unwrap(), None);
    let (tablet, config, _) = filled(&fs);
    let check = |tablet: &LogTablet| {
        for number in 0..10 {
            let time = 100 * number;
            assert_eq!(
                tablet.offset_for_timestamp(time - 1).unwrap(),
                Some(2 * number)
            );
            assert_eq!(tablet.offset_for_timestamp(time).unwrap(), Some(2 * number));
            let next = Some(2 * number + 2).filter(|next| *next < 20);
            assert_eq!(tablet.offset_for_timestamp(time + 1).unwrap(), next);
        }
        assert_eq!(tablet.offset_for_timestamp(i64::MIN).unwrap(), Some(0));
        assert_eq!(tablet.offset_for_timestamp(i64::MAX).unwrap(), None);
    };
    check(&tablet);
    tablet.close(0).unwrap();
    check(&open(&fs, &config).unwrap().0);
}

#[test]
fn times_within_a_segment_are_found_through_its_index() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for number in 0..2_000 {
        append(&tablet, &[plain(2, 100)], number / 3 * 3).unwrap();
    }
    for time in 0..1_998 {
        let first = (time + 2) / 3 * 3;
        assert_eq!(
            tablet.offset_for_timestamp(time).unwrap(),
            Some(2 * first),
            "{time}"
        );
    }
}

#[test]
fn retention_finds_what_may_go() {
    let fs = disk(1);
    let (tablet, _, _) = filled(&fs);
    let before = |ttl_ms, retain_bytes, limit| {
        let rule = RetentionRule {
            ttl_ms,
            retain_bytes,
        };
        tablet.deletable_before(&rule, limit, 1_000).unwrap()
    };
    assert_eq!(before(None, None, i64::MAX), 0);
    assert_eq!(before(Some(0), None, i64::MAX), 0);
    assert_eq!(before(Some(-1), None, i64::MAX), 0);
    // Of 0, 100, 200 … those older than 1,000 − 700.
    assert_eq!(before(Some(700), None, i64::MAX), 6);
    assert_eq!(before(Some(1), None, i64::MAX), 18, "never the active one");
    assert_eq!(
        before(Some(1), None, 7),
        6,
        "nothing beyond the high watermark"
    );
    assert_eq!(before(None, Some(10 * 148), i64::MAX), 0);
    assert_eq!(before(None, Some(8 * 148), i64::MAX), 4);
    assert_eq!(
        before(None, Some(8 * 148 + 1), i64::MAX),
        2,
        "keeps at least that much"
    );
    assert_eq!(before(None, Some(0), i64::MAX), 18);
    assert_eq!(
        before(Some(700), Some(5 * 148), i64::MAX),
        10,
        "either rule"
    );
}

#[test]
fn deleted_segments_are_gone_for_readers_and_after_a_restart() {
    let fs = disk(1);
    let (tablet, config, mut ledger) = filled(&fs);
    let held = tablet
        .batches(2, 20)
        .unwrap()
        .next_batch()
        .unwrap()
        .unwrap();
    let deleted = tablet.delete_segments_before(7, 1_000).unwrap();
    assert_eq!(
        deleted,
        Deleted {
            segments: 3,
            bytes: 3 * 148
        }
    );
    ledger.delete_before(6);
    assert_eq!(tablet.log_start_offset(), 6);
    assert_eq!(tablet.size_bytes(), 7 * 148);
    assert_eq!(read_all(&tablet, 6, i64::MAX, 1 << 20), ledger.bytes(6, 20));
    let request = mainstem_log::ReadRequest {
        start_offset: 5,
        end_offset_limit: 20,
        max_bytes: 1,
        min_one_batch: true,
    };
    let error = tablet.read(&request).unwrap_err();
    assert!(matches!(error, LogError::OffsetOutOfRange { start: 6, .. }));
    assert_eq!(tablet.offset_for_timestamp(0).unwrap(), Some(6));
    held.file
        .read_exact_at(&mut [0; 148], held.position)
        .unwrap();

    assert_eq!(
        tablet.delete_segments_before(7, 1_000).unwrap(),
        Deleted::default()
    );
    let (tablet, report) = open(&fs.process_kill(), &config).unwrap();
    assert!(report.is_clean());
    assert_eq!((report.log_start_offset, report.scanned_bytes), (6, 0));
    assert_eq!(read_all(&tablet, 6, i64::MAX, 1 << 20), ledger.bytes(6, 20));
}

#[test]
fn the_new_start_is_durable_before_a_file_goes() {
    let fs = disk(1);
    let (tablet, _, _) = filled(&fs);
    let before = fs.trace().len();
    tablet.delete_segments_before(8, 1_000).unwrap();
    let trace = &fs.trace()[before..];
    let first_removal = trace.iter().position(
        |one| matches!(one, Operation::Remove(path) if path.to_str().unwrap().ends_with(".log")),
    );
    let checkpoint = trace
        .iter()
        .position(|one| matches!(one, Operation::Rename { to, .. } if to.ends_with("checkpoint")));
    let synced = trace[checkpoint.unwrap()..]
        .iter()
        .position(|one| matches!(one, Operation::SyncDir(path) if path.ends_with("log-0")));
    assert!(checkpoint.unwrap() + synced.unwrap() < first_removal.unwrap());
}

/// Deletes old segments when told of durability: between a sync and its
/// checkpoint.
struct Deleter(parking_lot::Mutex<std::sync::Weak<LogTablet>>);

impl DurabilityListener for Deleter {
    fn durable_end_moved(&self, _: i64) {
        let tablet = self.0.lock().upgrade().unwrap();
        tablet.delete_segments_before(8, 1_000).unwrap();
    }

    fn storage_failed(&self, error: &LogError) {
        panic!("{error}");
    }
}

#[test]
fn a_checkpoint_captured_before_a_deletion_does_not_replace_that_of_the_deletion() {
    let fs = disk(1);
    let (tablet, config, ledger) = filled(&fs);
    let deleter = Deleter(parking_lot::Mutex::new(std::sync::Arc::downgrade(&tablet)));
    assert!(tablet.set_listener(std::sync::Arc::new(deleter)).is_ok());
    // A checkpoint is due with this sync.
    tablet.sync(100_000).unwrap();
    assert_eq!(tablet.log_start_offset(), 8);
    let (tablet, report) = open(&fs.process_kill(), &config).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(read_all(&tablet, 8, i64::MAX, 1 << 20), ledger.bytes(8, 20));
}

#[test]
fn a_deletion_whose_checkpoint_may_not_be_durable_is_finished_only_once_it_is() {
    // Every operation of the deletion fails, then every one of the next open.
    for failing in 1..=9 {
        for failing_open in 1..=6 {
            let fs = disk(failing);
            let (tablet, config, ledger) = filled(&fs);
            tablet.sync(1_000).unwrap();
            fs.fail(fs.operations() + failing, Fault::DiskFull);
            let _ = tablet.delete_segments_before(8, 1_000);
            drop(tablet);
            fs.clear_faults();
            fs.fail(fs.operations() + failing_open, Fault::PowerLoss);
            let _ = open(&fs, &config);
            for seed in 0..20 {
                let fs = fs.power_loss(Survival::Seeded(seed));
                let (tablet, report) = open(&fs, &config).unwrap();
                assert_eq!(report.quarantine, None, "{failing} {failing_open} {seed}");
                let start = tablet.log_start_offset();
                assert!(start == 0 || start == 8);
                assert_eq!(
                    read_all(&tablet, start, i64::MAX, 1 << 20),
                    ledger.bytes(start, 20)
                );
            }
        }
    }
}

#[test]
fn a_crash_during_a_deletion_leaves_the_old_or_the_new_start() {
    let mut number = 1;
    loop {
        let fs = disk(number);
        let (tablet, config, ledger) = filled(&fs);
        tablet.sync(1_000).unwrap();
        fs.fail(fs.operations() + number, Fault::PowerLoss);
        let finished = tablet.delete_segments_before(8, 1_000).is_ok();
        let crashed = fs.list(DIR.as_ref()).is_err();
        for seed in 0..20 {
            let fs = fs.power_loss(Survival::Seeded(seed));
            let (tablet, report) = open(&fs, &config).unwrap();
            assert_eq!(report.quarantine, None, "operation {number} seed {seed}");
            let start = tablet.log_start_offset();
            assert!(
                start == 8 || start == 0 && !finished,
                "operation {number} seed {seed}"
            );
            assert_eq!(
                read_all(&tablet, start, i64::MAX, 1 << 20),
                ledger.bytes(start, 20)
            );
        }
        if !crashed {
            assert!(finished && number > 10);
            break;
        }
        number += 1;
    }
}
