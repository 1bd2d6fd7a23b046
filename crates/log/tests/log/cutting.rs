use mainstem_env::FileSystem;
use mainstem_log::{LogConfig, LogError};
use mainstem_types::{LeaderEpoch, WriterId};

use crate::support::*;

fn filled(segment_bytes: u64) -> (mainstem_env::SimFileSystem, LogConfig, Ledger) {
    let config = LogConfig {
        segment_bytes,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    let mut ledger = Ledger::default();
    for sequence in 0..20 {
        let batch = batch(7, sequence, 3, 60);
        append(&tablet, std::slice::from_ref(&batch), i64::from(sequence)).unwrap();
        ledger.add(&[batch], i64::from(sequence));
    }
    tablet.close(20).unwrap();
    (fs, config, ledger)
}

#[test]
fn a_cut_removes_whole_batches_and_the_log_goes_on_there() {
    for segment_bytes in [120, 500, 1 << 20] {
        for offset in 0..60 {
            let (fs, config, mut ledger) = filled(segment_bytes);
            let (tablet, _) = open(&fs, &config).unwrap();
            let end = tablet.truncate_to(offset, 20).unwrap();
            assert_eq!(end, offset / 3 * 3);
            ledger.cut(end);
            assert_eq!(tablet.end_offset(), end);
            assert_eq!(tablet.durable_end_offset(), end);
            assert_eq!(tablet.size_bytes(), ledger.bytes(0, end).len() as u64);
            let timestamp = Some(ledger.max_timestamp_ms).filter(|_| end > 0);
            assert_eq!(tablet.max_timestamp_ms(), timestamp);

            // The writer is known as if the rest had never been.
            let known = tablet.writer_batches(WriterId(7));
            let mut expected = ledger.latest_of(7);
            expected.reverse();
            let expected: Vec<i32> = expected.iter().map(|one| one.batch_sequence).collect();
            let sequences: Vec<i32> = known.iter().map(|one| one.sequence).collect();
            assert_eq!(sequences, expected, "{segment_bytes} {offset}");

            let next = batch(7, (end / 3) as i32, 3, 99);
            append(&tablet, std::slice::from_ref(&next), 30).unwrap();
            ledger.add(&[next], 30);
            assert_eq!(
                read_all(&tablet, 0, i64::MAX, 1 << 20),
                ledger.bytes(0, end + 3)
            );

            let (tablet, report) = open(&fs.process_kill(), &config).unwrap();
            assert!(report.is_clean());
            assert_eq!(
                read_all(&tablet, 0, i64::MAX, 1 << 20),
                ledger.bytes(0, end + 3)
            );
        }
    }
}

#[test]
fn a_cut_at_the_end_or_beyond_changes_nothing_and_below_the_start_is_refused() {
    let (fs, config, ledger) = filled(500);
    let (tablet, _) = open(&fs, &config).unwrap();
    tablet.delete_segments_before(20, 20).unwrap();
    let operations = fs.operations();
    assert_eq!(tablet.truncate_to(60, 20).unwrap(), 60);
    assert_eq!(tablet.truncate_to(i64::MAX, 20).unwrap(), 60);
    assert_eq!(fs.operations(), operations);
    let error = tablet.truncate_to(3, 20).unwrap_err();
    assert!(matches!(
        error,
        LogError::OffsetOutOfRange {
            requested: 3,
            start: 12,
            end: 60
        }
    ));
    assert_eq!(read_all(&tablet, 12, 60, 1 << 20), ledger.bytes(12, 60));
}

#[test]
fn a_cut_forgets_the_epochs_beyond_it() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for epoch in [1, 2, 4] {
        tablet
            .append_as_leader(&checked(&[plain(2, 1)]), 0, LeaderEpoch(epoch))
            .unwrap();
    }
    tablet.truncate_to(3, 0).unwrap();
    assert_eq!(tablet.latest_leader_epoch(), Some(LeaderEpoch(1)));
    let (tablet, _) = open(&fs.process_kill(), &LogConfig::default()).unwrap();
    assert_eq!(tablet.latest_leader_epoch(), Some(LeaderEpoch(1)));
    assert_eq!(tablet.end_offset(), 2);
}

#[test]
fn a_restarted_log_is_empty_at_its_new_start() {
    for start in [0, 7, 60, 1_000] {
        for segment_bytes in [120, 1 << 20] {
            let (fs, config, _) = filled(segment_bytes);
            let (tablet, _) = open(&fs, &config).unwrap();
            tablet.truncate_fully_and_start_at(start, 20).unwrap();
            assert_eq!(
                (tablet.log_start_offset(), tablet.end_offset()),
                (start, start)
            );
            assert_eq!((tablet.segment_count(), tablet.size_bytes()), (0, 0));
            assert_eq!(tablet.writer_count(), 0);
            let (reopened, report) = open(&fs.process_kill(), &config).unwrap();
            assert!(report.is_clean());
            assert_eq!(
                (reopened.log_start_offset(), reopened.end_offset()),
                (start, start)
            );

            append(&tablet, &[plain(2, 10)], 21).unwrap();
            tablet.sync(21).unwrap();
            let (reopened, report) = open(&fs.process_kill(), &config).unwrap();
            assert!(report.is_clean());
            assert_eq!(reopened.end_offset(), start + 2);
            assert_eq!(read_all(&reopened, start, i64::MAX, 100).len(), 58);
        }
    }
}

#[test]
fn a_damaged_checkpoint_after_a_cut_does_not_bring_an_older_one_back() {
    let (fs, config, mut ledger) = filled(500);
    let (tablet, _) = open(&fs, &config).unwrap();
    tablet.truncate_to(30, 20).unwrap();
    ledger.cut(30);
    drop(tablet);
    fs.corrupt(&std::path::Path::new(DIR).join("checkpoint"), 20, 1)
        .unwrap();
    let (tablet, report) = open(&fs, &config).unwrap();
    assert_eq!(report.checkpoint, mainstem_log::CheckpointUsed::Unreadable);
    assert_eq!((report.log_end_offset, report.quarantine), (30, None));
    assert_eq!(read_all(&tablet, 0, i64::MAX, 1 << 20), ledger.bytes(0, 30));
}

#[test]
fn an_empty_log_can_begin_anywhere() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    tablet.truncate_fully_and_start_at(500, 0).unwrap();
    append(&tablet, &[plain(1, 1)], 0).unwrap();
    assert_eq!(tablet.end_offset(), 501);
}

#[test]
fn a_removed_log_leaves_no_file_and_takes_no_writes() {
    let (fs, config, _) = filled(500);
    let (tablet, _) = open(&fs, &config).unwrap();
    let held = tablet
        .batches(0, 60)
        .unwrap()
        .next_batch()
        .unwrap()
        .unwrap();
    tablet.remove().unwrap();
    tablet.remove().unwrap();
    let gone = fs.list(DIR.as_ref()).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
    assert!(matches!(
        append(&tablet, &[plain(1, 1)], 0).unwrap_err(),
        LogError::Closed
    ));
    // A reader in flight finishes.
    held.file
        .read_exact_at(&mut [0; 108], held.position)
        .unwrap();
}
