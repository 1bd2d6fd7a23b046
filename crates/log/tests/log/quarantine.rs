//! Damage to data that was acknowledged (known-failures.md B187, P13).

use std::io::IoSlice;
use std::path::Path;

use mainstem_env::{FileSystem, OpenMode, SeededRng, SimFileSystem};
use mainstem_format::LogBatch;
use mainstem_log::{LogConfig, LogError, ReadRequest};

use crate::support::*;

/// Eight synced batches of two records, in segments of two batches.
fn synced(close: bool) -> (SimFileSystem, LogConfig, Ledger) {
    let config = LogConfig {
        segment_bytes: 250,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    let mut ledger = Ledger::default();
    for sequence in 0..8 {
        let batch = batch(7, sequence, 2, 60);
        append(&tablet, std::slice::from_ref(&batch), 5).unwrap();
        ledger.add(&[batch], 5);
    }
    tablet.sync(5).unwrap();
    if close {
        tablet.close(5).unwrap();
    }
    (fs.process_kill(), config, ledger)
}

fn check_quarantined(fs: &SimFileSystem, config: &LogConfig, ledger: &Ledger, end: i64) {
    // Twice: opening again comes to the same result.
    for _ in 0..2 {
        let (tablet, report) = open(fs, config).unwrap();
        let quarantine = report.quarantine.expect("quarantined");
        assert_eq!(
            (quarantine.readable_end, quarantine.promised_end),
            (end, 16)
        );
        assert_eq!(tablet.end_offset(), end);
        let start = tablet.log_start_offset();
        assert_eq!(
            read_all(&tablet, start, i64::MAX, 1 << 20),
            ledger.bytes(start, end)
        );
        let refused = append(&tablet, &[batch(7, 8, 2, 60)], 9).unwrap_err();
        assert!(matches!(refused, LogError::Quarantined { .. }), "{refused}");
        tablet.sync(9).unwrap_err();
        tablet.truncate_to(0, 9).unwrap_err();
        tablet.delete_segments_before(16, 9).unwrap_err();
        tablet.close(9).unwrap();
    }
}

#[test]
fn a_flipped_bit_in_synced_data_quarantines_what_follows() {
    let (fs, config, ledger) = synced(false);
    for number in 0..8_usize {
        let base = number as i64 / 2 * 4;
        let within = (number % 2 * 108) as u64;
        for byte in [0, 9, 12, 22, 30, 107] {
            let fs = fs.process_kill();
            fs.corrupt(&segment_path(base), within + byte, 0x20)
                .unwrap();
            check_quarantined(&fs, &config, &ledger, number as i64 * 2);
        }
    }
}

#[test]
fn nothing_of_a_quarantined_log_is_deleted() {
    let (fs, config, _) = synced(false);
    let bytes = fs.used_bytes();
    fs.corrupt(&segment_path(4), 30, 1).unwrap();
    let (_, report) = open(&fs, &config).unwrap();
    // The damaged one stays in its place.
    assert_eq!(report.set_aside.len(), 2);
    assert_eq!(fs.used_bytes(), bytes);
    for name in &report.set_aside {
        assert!(fs.content(&Path::new(DIR).join(name)).is_ok());
    }
}

#[test]
fn a_missing_or_cut_segment_is_found_without_reading_the_others() {
    let (fs, config, ledger) = synced(true);
    let (_, report) = open(&fs.process_kill(), &config).unwrap();
    assert_eq!((report.scanned_bytes, report.quarantine), (0, None));

    for number in 1..4 {
        let missing = fs.process_kill();
        missing.remove_file(&segment_path(4 * number)).unwrap();
        check_quarantined(&missing, &config, &ledger, 4 * number);

        for len in [0, 50, 108, 200] {
            let cut = fs.process_kill();
            let file = cut
                .open(&segment_path(4 * number), OpenMode::ReadWrite)
                .unwrap();
            file.set_len(len).unwrap();
            let whole = i64::try_from(len / 108).unwrap();
            check_quarantined(&cut, &config, &ledger, 4 * number + 2 * whole);
        }
    }
}

#[test]
fn a_lost_head_is_reported_and_the_rest_is_served() {
    let (fs, config, ledger) = synced(true);
    fs.remove_file(&segment_path(0)).unwrap();
    let (tablet, report) = open(&fs, &config).unwrap();
    assert!(
        report
            .quarantine
            .unwrap()
            .reason
            .contains("from offset 0 to 4 are missing")
    );
    assert_eq!(tablet.log_start_offset(), 4);
    assert_eq!(read_all(&tablet, 4, i64::MAX, 1 << 20), ledger.bytes(4, 16));
    append(&tablet, &[plain(1, 1)], 0).unwrap_err();
}

#[test]
fn with_all_segments_lost_the_log_is_not_taken_for_a_new_one() {
    for close in [false, true] {
        let (fs, config, _) = synced(close);
        for base in [0, 4, 8, 12] {
            fs.remove_file(&segment_path(base)).unwrap();
        }
        let (tablet, report) = open(&fs, &config).unwrap();
        assert_eq!(report.quarantine.unwrap().promised_end, 16);
        append(&tablet, &[plain(1, 1)], 0).unwrap_err();
    }
}

#[test]
fn damage_in_a_sealed_segment_is_an_error_to_its_reader_and_found_by_a_scrub() {
    let (fs, config, ledger) = synced(true);
    // Of the same length, so nothing is seen from outside.
    fs.corrupt(&segment_path(4), 108 + 60, 1).unwrap();
    fs.corrupt(&segment_path(8), 4, 1).unwrap();
    let (tablet, report) = open(&fs, &config).unwrap();
    assert!(report.is_clean());

    let mut start = 0;
    let mut damaged = Vec::new();
    while start < tablet.end_offset() {
        // One batch at a time, as a scrub that is told to go slowly.
        let verified = tablet.verify(start, 1).unwrap();
        assert!(verified.next_offset > start);
        start = verified.next_offset;
        damaged.extend(verified.damaged);
    }
    let ranges: Vec<_> = damaged
        .iter()
        .map(|one| (one.start_offset, one.end_offset))
        .collect();
    assert_eq!(ranges, [(6, 8), (8, 12)]);

    // A header that does not fit is never served; the rest still is.
    let read = |start_offset| {
        tablet.read(&ReadRequest {
            start_offset,
            end_offset_limit: i64::MAX,
            max_bytes: 200,
            min_one_batch: true,
        })
    };
    assert!(matches!(
        read(8).unwrap_err(),
        LogError::Damaged { position: 0, .. }
    ));
    assert!(matches!(read(10).unwrap_err(), LogError::Damaged { .. }));
    assert_eq!(read(12).unwrap().to_bytes().unwrap(), ledger.bytes(12, 14));
    assert_eq!(read(0).unwrap().to_bytes().unwrap(), ledger.bytes(0, 2));
}

#[test]
fn swapped_segments_are_noticed() {
    let (fs, config, _) = synced(true);
    let aside = Path::new(DIR).join("aside");
    fs.rename(&segment_path(4), &aside).unwrap();
    fs.rename(&segment_path(8), &segment_path(4)).unwrap();
    fs.rename(&aside, &segment_path(8)).unwrap();
    let (tablet, _) = open(&fs, &config).unwrap();
    let verified = tablet.verify(0, u64::MAX).unwrap();
    assert_eq!(verified.damaged.len(), 2);
    let request = ReadRequest {
        start_offset: 0,
        end_offset_limit: i64::MAX,
        max_bytes: 1 << 20,
        min_one_batch: true,
    };
    assert!(matches!(
        tablet.read(&request).unwrap_err(),
        LogError::Damaged { .. }
    ));
}

/// Damages one file at random. Returns what was done.
fn damage(fs: &SimFileSystem, rng: &mut SeededRng) -> String {
    let mut names: Vec<String> = fs
        .list(DIR.as_ref())
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    let name = names[rng.index(names.len())].clone();
    let path = Path::new(DIR).join(&name);
    let len = fs.content(&path).unwrap().len() as u64;
    let at = rng.below(len);
    let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
    match rng.below(6) {
        0 | 1 if len > 0 => {
            fs.corrupt(&path, at, 1 << rng.below(8)).unwrap();
            format!("bit of byte {at} of {name}")
        }
        2 => {
            file.set_len(at).unwrap();
            format!("{name} cut to {at}")
        }
        3 => {
            let zeros = vec![0; (len - at).min(700) as usize];
            file.write_all_at(&mut [IoSlice::new(&zeros)], at).unwrap();
            format!("zeros in {name} from {at}")
        }
        4 => {
            let mut garbage = vec![0; 1 + rng.index(300)];
            rng.fill(&mut garbage);
            file.write_all_at(&mut [IoSlice::new(&garbage)], len)
                .unwrap();
            format!("{} bytes of garbage behind {name}", garbage.len())
        }
        _ => {
            fs.remove_file(&path).unwrap();
            format!("{name} removed")
        }
    }
}

/// reliability.md D-05 to D-07 on one replica.
#[test]
fn any_damage_to_any_file_is_survived_and_never_served_or_dropped_unnoticed() {
    for seed in 0..1_500 {
        let mut rng = SeededRng::new(seed);
        let config = LogConfig {
            segment_bytes: [250, 3_000, 100_000][rng.index(3)],
            index_interval_bytes: 400,
            checkpoint_bytes: 2_000,
            checkpoint_min_interval_ms: 0,
            ..LogConfig::default()
        };
        let fs = disk(seed);
        let (tablet, _) = open(&fs, &config).unwrap();
        let mut ledger = Ledger::default();
        for sequence in 0..12 + rng.below(200) as i32 {
            let batch = batch(7, sequence, 2, 20 + rng.index(900));
            append(&tablet, std::slice::from_ref(&batch), 5).unwrap();
            ledger.add(&[batch], 5);
            if rng.chance(5) {
                tablet.sync(5).unwrap();
            }
        }
        let durable_end = tablet.sync(5).unwrap();
        if rng.chance(50) {
            tablet.close(5).unwrap();
        }
        let fs = fs.process_kill();
        let what = format!("seed {seed}: {}", damage(&fs, &mut rng));

        let (tablet, report) = open(&fs, &config).unwrap_or_else(|error| panic!("{what}: {error}"));
        let verified = tablet.verify(tablet.log_start_offset(), u64::MAX).unwrap();
        let complete = tablet.log_start_offset() == 0 && tablet.end_offset() >= durable_end;
        assert!(
            complete || report.quarantine.is_some(),
            "{what}: {} to {} of {durable_end}, {report:?}",
            tablet.log_start_offset(),
            tablet.end_offset()
        );
        // Every batch that can be read and is valid is the one that was written.
        let mut found = 0;
        for stored in &ledger.stored {
            let offset = stored.header.base_offset;
            let request = ReadRequest {
                start_offset: offset,
                end_offset_limit: i64::MAX,
                max_bytes: 1,
                min_one_batch: true,
            };
            let Ok(slice) = tablet.read(&request) else {
                continue;
            };
            let bytes = slice.to_bytes().unwrap();
            let Ok(read) = LogBatch::parse(&bytes) else {
                continue;
            };
            if read.verify_crc().is_err() {
                let reported = verified
                    .damaged
                    .iter()
                    .any(|range| range.start_offset <= offset);
                assert!(reported, "{what}: damage at {offset} is not reported");
                continue;
            }
            found += 1;
            assert_eq!(read.header().base_offset, offset, "{what}");
            // The commit timestamp is in no checksum.
            assert_eq!(bytes[21..], stored.bytes[21..], "{what}");
        }
        let whole = found == ledger.stored.len();
        assert!(
            whole || report.quarantine.is_some() || !verified.damaged.is_empty(),
            "{what}: {found} of {} batches",
            ledger.stored.len()
        );
    }
}

#[test]
fn a_quarantined_replica_starts_over_from_its_leader() {
    let (fs, config, _) = synced(false);
    fs.corrupt(&segment_path(4), 30, 1).unwrap();
    let (tablet, _) = open(&fs, &config).unwrap();
    tablet.truncate_fully_and_start_at(40, 9).unwrap();
    append(&tablet, &[plain(2, 1)], 9).unwrap();
    tablet.sync(9).unwrap();
    let (tablet, report) = open(&fs.process_kill(), &config).unwrap();
    assert_eq!(report.quarantine, None);
    assert_eq!((tablet.log_start_offset(), tablet.end_offset()), (40, 42));
}
