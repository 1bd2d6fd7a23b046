//! What a crash can leave at the end of the log (known-failures.md B016).

use std::io::IoSlice;
use std::path::Path;

use mainstem_env::{Fault, FileSystem, OpenMode, SimFileSystem, Survival};
use mainstem_log::{Durability, LogConfig};

use crate::support::*;

/// A log of four batches, never synced, as `kill -9` leaves it.
fn killed(config: &LogConfig) -> (SimFileSystem, Ledger) {
    let fs = disk(1);
    let (tablet, _) = open(&fs, config).unwrap();
    let mut ledger = Ledger::default();
    for sequence in 0..4 {
        let batch = batch(7, sequence, 2, 60);
        append(&tablet, std::slice::from_ref(&batch), 5).unwrap();
        ledger.add(&[batch], 5);
    }
    (fs.process_kill(), ledger)
}

fn edit(fs: &SimFileSystem, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut content = fs.content(path).unwrap();
    edit(&mut content);
    let file = fs.open(path, OpenMode::ReadWrite).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(&mut [IoSlice::new(&content)], 0).unwrap();
}

fn check_recovers(fs: &SimFileSystem, config: &LogConfig, ledger: &Ledger, batches: usize) {
    let end = 2 * batches as i64;
    let (tablet, report) = open(fs, config).unwrap();
    assert_eq!(report.quarantine, None);
    assert_eq!(report.log_end_offset, end);
    assert_eq!(
        read_all(&tablet, 0, i64::MAX, 1 << 20),
        ledger.bytes(0, end)
    );
    // The writer goes on where the log ends, and repeats are known.
    for sequence in 0..batches as i32 {
        let again = append(&tablet, &[batch(7, sequence, 2, 60)], 9).unwrap();
        assert!(again.duplicate && again.base_offset == 2 * i64::from(sequence));
    }
    append(&tablet, &[batch(7, batches as i32, 2, 60)], 9).unwrap();
    assert_eq!(tablet.end_offset(), end + 2);
    tablet.sync(9).unwrap();
    let (_, report) = open(&fs.process_kill(), config).unwrap();
    assert_eq!(
        (report.log_end_offset, report.durable_end_offset),
        (end + 2, end + 2)
    );
    assert!(report.is_clean());
}

#[test]
fn a_tail_cut_by_any_number_of_bytes_leaves_whole_batches() {
    let config = LogConfig::default();
    let (fs, ledger) = killed(&config);
    let len = fs.content(&segment_path(0)).unwrap().len();
    let batch_len = len / 4;
    for cut in 0..len {
        let fs = fs.process_kill();
        edit(&fs, &segment_path(0), |content| content.truncate(len - cut));
        check_recovers(&fs, &config, &ledger, (len - cut) / batch_len);
    }
}

#[test]
fn garbage_or_zeros_of_any_length_behind_the_tail_are_cut_off() {
    let config = LogConfig::default();
    let (fs, ledger) = killed(&config);
    for garbage in 1..200 {
        for byte in [0, 0xa5] {
            let fs = fs.process_kill();
            edit(&fs, &segment_path(0), |content| {
                content.resize(content.len() + garbage, byte)
            });
            check_recovers(&fs, &config, &ledger, 4);
        }
    }
}

#[test]
fn a_torn_copy_of_an_earlier_batch_behind_the_tail_is_not_taken_for_new() {
    let config = LogConfig::default();
    let (fs, ledger) = killed(&config);
    let first = ledger.stored[0].bytes.clone();
    for len in [20, 60, first.len()] {
        let fs = fs.process_kill();
        edit(&fs, &segment_path(0), |content| {
            content.extend_from_slice(&first[..len])
        });
        check_recovers(&fs, &config, &ledger, 4);
    }
}

#[test]
fn every_changed_byte_of_an_unsynced_batch_ends_the_log_before_it() {
    let config = LogConfig::default();
    let (fs, ledger) = killed(&config);
    let batch_len = ledger.stored[0].bytes.len();
    for byte in 0..batch_len {
        if (13..21).contains(&byte) {
            // The commit timestamp is outside of the checksum.
            continue;
        }
        let fs = fs.process_kill();
        fs.corrupt(&segment_path(0), (2 * batch_len + byte) as u64, 0x40)
            .unwrap();
        check_recovers(&fs, &config, &ledger, 2);
    }
}

#[test]
fn segments_behind_a_hole_in_the_unsynced_part_are_removed() {
    let config = LogConfig {
        segment_bytes: 120,
        ..LogConfig::default()
    };
    let (fs, ledger) = killed(&config);
    for hole in 0..4 {
        let without = fs.process_kill();
        without.remove_file(&segment_path(2 * hole)).unwrap();
        check_recovers(&without, &config, &ledger, hole as usize);

        let short = fs.process_kill();
        edit(&short, &segment_path(2 * hole), |content| {
            content.truncate(50)
        });
        check_recovers(&short, &config, &ledger, hole as usize);
    }
}

#[test]
fn the_log_goes_on_in_the_segment_that_the_checkpoint_says_though_it_is_empty_or_gone() {
    for torn in [Some(0), Some(30), None] {
        let config = LogConfig {
            segment_bytes: 1_000,
            ..LogConfig::default()
        };
        let fs = disk(1);
        let (tablet, _) = open(&fs, &config).unwrap();
        append(&tablet, &[batch(7, 0, 2, 60), batch(7, 1, 2, 60)], 5).unwrap();
        tablet.roll(5).unwrap();
        // Late enough for a checkpoint.
        tablet.sync(5_000).unwrap();
        append(&tablet, &[batch(7, 2, 2, 60)], 5_000).unwrap();
        let fs = fs.process_kill();
        match torn {
            Some(len) => edit(&fs, &segment_path(4), |content| content.truncate(len)),
            None => fs.remove_file(&segment_path(4)).unwrap(),
        }
        for sequence in 2..5 {
            let (tablet, report) = open(&fs, &config).unwrap();
            assert_eq!(report.quarantine, None, "{torn:?} {sequence}");
            assert_eq!(report.log_end_offset, 2 * i64::from(sequence), "{torn:?}");
            append(&tablet, &[batch(7, sequence, 2, 60)], 5).unwrap();
            // Too soon for another checkpoint.
            tablet.sync(5).unwrap();
            assert_eq!(tablet.active_segment_base_offset(), Some(4));
        }
    }
}

#[test]
fn a_tail_that_was_cut_off_does_not_come_back() {
    for segment_bytes in [120, 250, 1 << 20] {
        let config = LogConfig {
            segment_bytes,
            ..LogConfig::default()
        };
        let (fs, ledger) = killed(&config);
        let (base, position) = if segment_bytes == 120 {
            (2, 30)
        } else {
            (0, 108 + 30)
        };
        fs.corrupt(&segment_path(base), position, 1).unwrap();
        // The kernel has written it all back meanwhile.
        let fs = fs.power_loss(Survival::Everything);
        let (_, report) = open(&fs, &config).unwrap();
        assert_eq!(report.log_end_offset, 2);
        // Even if nothing else reaches the disk.
        for survival in [Survival::Nothing, Survival::Everything] {
            let after = fs.power_loss(survival);
            let Ok((_, report)) = open(&after, &config) else {
                panic!("does not open")
            };
            assert!(
                report.log_end_offset <= 2 && report.cut_bytes == 0,
                "{report:?}"
            );
        }
        check_recovers(&fs, &config, &ledger, 1);
    }
}

#[test]
fn what_might_be_more_than_a_torn_tail_is_set_aside() {
    let config = LogConfig {
        durability: Durability::Os,
        ..LogConfig::default()
    };
    let (fs, ledger) = killed(&config);
    let batch_len = ledger.stored[0].bytes.len();
    fs.corrupt(&segment_path(0), (batch_len + 60) as u64, 1)
        .unwrap();
    let (_, report) = open(&fs, &config).unwrap();
    assert_eq!(report.log_end_offset, 2);
    assert_eq!(report.set_aside.len(), 1);
    let kept = fs
        .content(&Path::new(DIR).join(&report.set_aside[0]))
        .unwrap();
    assert_eq!(kept.len(), 3 * batch_len);
    assert_eq!(kept[batch_len..], ledger.bytes(4, 8)[..]);
}

#[test]
fn leftovers_of_earlier_lives_do_no_harm() {
    let config = LogConfig::default();
    let (fs, ledger) = killed(&config);
    for name in [
        "checkpoint.tmp",
        "00000000000000000000.log.tmp",
        "00000000000000000077.index",
        "00000000000000000002.log.deleted",
        "00000000000000000002.log.quarantined",
        "lost+found",
    ] {
        let file = fs.create_new(&Path::new(DIR).join(name)).unwrap();
        file.write_all_at(&mut [IoSlice::new(b"leftover")], 0)
            .unwrap();
    }
    fs.create_dir_all(&Path::new(DIR).join("00000000000000000003.log"))
        .unwrap();
    check_recovers(&fs, &config, &ledger, 4);
    let names: Vec<String> = fs
        .list(DIR.as_ref())
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name.ends_with(".tmp") || name.contains("77.index"))
    );
}

#[test]
fn damaged_checkpoints_and_marks_never_stop_a_start() {
    let config = LogConfig {
        checkpoint_min_interval_ms: 0,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    drop(tablet);
    let mut ledger = Ledger::default();
    for sequences in [0..2, 2..4] {
        // Each close leaves a checkpoint, the first becomes the previous one.
        let (tablet, _) = open(&fs, &config).unwrap();
        for sequence in sequences {
            let batch = batch(7, sequence, 2, 60);
            append(&tablet, std::slice::from_ref(&batch), 5).unwrap();
            ledger.add(&[batch], 5);
        }
        tablet.close(0).unwrap();
    }
    for name in ["checkpoint", "checkpoint.prev", "durable.mark"] {
        let path = Path::new(DIR).join(name);
        let len = fs.content(&path).unwrap().len();
        for cut in 0..len {
            let fs = fs.process_kill();
            edit(&fs, &path, |content| content.truncate(cut));
            check_recovers(&fs, &config, &ledger, 4);
        }
        for byte in 0..len {
            let fs = fs.process_kill();
            fs.corrupt(&path, byte as u64, 0x11).unwrap();
            check_recovers(&fs, &config, &ledger, 4);
        }
    }
    for name in ["checkpoint", "checkpoint.prev", "durable.mark"] {
        let fs = fs.process_kill();
        edit(&fs, &Path::new(DIR).join("checkpoint"), |content| {
            content.clear()
        });
        edit(&fs, &Path::new(DIR).join(name), |content| content.clear());
        check_recovers(&fs, &config, &ledger, 4);
    }
}

/// Its cut is in memory only then, and nothing shows that it is not on the disk.
#[test]
fn a_tail_whose_cut_could_not_be_synced_does_not_come_back_below_what_follows() {
    let config = LogConfig::default();
    let mut refused = 0;
    for seed in 0..30 {
        for number in 1..4 {
            let fs = disk(seed);
            let (tablet, _) = open(&fs, &config).unwrap();
            append(&tablet, &[batch(7, 0, 2, 60)], 5).unwrap();
            tablet.sync(5).unwrap();
            append(&tablet, &[batch(7, 1, 2, 900)], 5).unwrap();
            edit(&fs, &segment_path(0), |content| {
                content.pop();
            });
            let fs = fs.power_loss(Survival::Everything);
            fs.fail(number, Fault::Io);
            let tablet = match open(&fs, &config) {
                Ok((tablet, _)) => tablet,
                Err(_) => {
                    refused += 1;
                    open(&fs, &config).unwrap().0
                }
            };
            if tablet.check_writable().is_err() {
                continue;
            }
            for sequence in 1..3 {
                append(&tablet, &[batch(7, sequence, 2, 60)], 9).unwrap();
                tablet.sync(9).unwrap();
                tablet.roll(9).unwrap();
            }
            assert_eq!(tablet.durable_end_offset(), 6);
            let (_, report) = open(&fs.power_loss(Survival::Nothing), &config).unwrap();
            assert_eq!(report.log_end_offset, 6, "seed {seed}, operation {number}");
        }
    }
    assert!(refused > 0);
}
