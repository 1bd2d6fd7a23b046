use mainstem_env::FileSystem;
use mainstem_format::{BatchHeader, BatchSpec, LogBatch, Magic};
use mainstem_log::{CheckedBatches, LogConfig, LogError};
use mainstem_types::{LeaderEpoch, WriterId};

use crate::support::*;

#[test]
fn an_empty_log_has_no_file_until_the_first_append() {
    let fs = disk(1);
    let (tablet, report) = open(&fs, &LogConfig::default()).unwrap();
    assert!(report.is_clean());
    assert_eq!(fs.list("/data".as_ref()).unwrap(), []);
    tablet.close(0).unwrap();
    assert_eq!(fs.list("/data".as_ref()).unwrap(), []);

    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    append(&tablet, &[plain(1, 10)], 5).unwrap();
    assert!(fs.content(&segment_path(0)).is_ok());
}

#[test]
fn an_empty_log_takes_less_than_a_kibibyte() {
    // Its only allocation is the path.
    assert!(size_of::<mainstem_log::LogTablet>() + DIR.len() < 1_024);
}

#[test]
fn files_of_an_idle_log_are_closed_and_opened_again_when_needed() {
    let fs = disk(1);
    let resources =
        mainstem_log::LogResources::new(std::sync::Arc::new(fs.clone()), "/data".into(), 1);
    let open = |number| {
        let dir = format!("/data/log-{number}").into();
        let config = std::sync::Arc::new(LogConfig::default());
        mainstem_log::LogTablet::open(std::sync::Arc::clone(&resources), dir, config, 0)
            .unwrap()
            .0
    };
    let tablets: Vec<_> = (0..10).map(open).collect();
    for tablet in &tablets {
        append(tablet, &[plain(1, 5)], 5_000).unwrap();
        tablet.release_idle_handles(9_000, 0);
        tablet.sync(5_000).unwrap();
    }
    assert!(fs.open_handles() >= 20, "not synced, then in use");
    for tablet in &tablets {
        tablet.release_idle_handles(5_900, 1_000);
    }
    assert!(fs.open_handles() >= 20, "in use");
    for tablet in &tablets {
        tablet.release_idle_handles(6_000, 1_000);
    }
    // The cache of read handles holds one.
    assert_eq!(fs.open_handles(), 1);
    for tablet in &tablets {
        append(tablet, &[plain(1, 5)], 7_000).unwrap();
        assert_eq!(tablet.sync(7_000).unwrap(), 2);
    }
}

#[test]
fn a_leader_gives_dense_offsets_and_one_timestamp_that_never_goes_back() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let first = append(&tablet, &[plain(3, 10), plain(0, 0), plain(2, 9_000)], 500).unwrap();
    assert_eq!(
        (first.base_offset, first.end_offset, first.timestamp_ms),
        (0, 6, 500)
    );
    let second = append(&tablet, &[plain(1, 100_000)], 400).unwrap();
    assert_eq!(
        (second.base_offset, second.end_offset, second.timestamp_ms),
        (6, 7, 500)
    );

    let mut ledger = Ledger::default();
    ledger.add(&[plain(3, 10), plain(0, 0), plain(2, 9_000)], 500);
    ledger.add(&[plain(1, 100_000)], 400);
    assert_eq!(read_all(&tablet, 0, i64::MAX, 1 << 20), ledger.bytes(0, 7));
    assert_eq!(tablet.max_timestamp_ms(), Some(500));
    assert_eq!(tablet.size_bytes(), ledger.bytes(0, 7).len() as u64);
    for stored in &ledger.stored {
        let stored = LogBatch::parse(&stored.bytes.clone().into()).unwrap();
        stored.verify_crc().unwrap();
    }
}

#[test]
fn the_epoch_is_stamped_into_batches_that_have_a_place_for_it() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let v2 = BatchSpec {
        magic: Magic::V2,
        ..BatchSpec::default()
    };
    let batch = v2.build(1, &[], &[], &[7; 20_000]).unwrap();
    append(&tablet, &[batch.into()], 1).unwrap();
    let stored = read_all(&tablet, 0, 1, 1);
    assert_eq!(
        BatchHeader::parse(&stored).unwrap().leader_epoch,
        Some(EPOCH.0)
    );
    LogBatch::parse(&stored).unwrap().verify_crc().unwrap();
}

#[test]
fn damaged_or_cut_batches_are_not_appended() {
    let good = plain(2, 50);
    for byte in 21..good.len() {
        let mut damaged = good.to_vec();
        damaged[byte] ^= 1;
        let error = CheckedBatches::verify(&damaged.into()).unwrap_err();
        assert!(matches!(error, LogError::InvalidAppend(_)), "byte {byte}");
    }
    for len in 0..good.len() {
        CheckedBatches::verify(&good.slice(..len)).unwrap_err();
    }
    let followed_by_a_cut_one = [&good[..], &good[..60]].concat();
    CheckedBatches::verify(&followed_by_a_cut_one.into()).unwrap_err();
}

#[test]
fn a_repeated_batch_is_answered_with_its_first_offsets() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for sequence in 0..8 {
        append(&tablet, &[batch(7, sequence, 2, 30)], i64::from(sequence)).unwrap();
    }
    for sequence in 3..8 {
        // With other content: only the sequence counts.
        let again = append(&tablet, &[batch(7, sequence, 5, 99)], 100).unwrap();
        assert!(again.duplicate);
        assert_eq!(again.base_offset, i64::from(sequence) * 2);
        assert_eq!(again.end_offset, i64::from(sequence) * 2 + 2);
        assert_eq!(again.timestamp_ms, i64::from(sequence));
    }
    let older = append(&tablet, &[batch(7, 2, 2, 30)], 100).unwrap_err();
    assert!(
        matches!(older, LogError::OutOfOrderSequence { expected: 8, .. }),
        "{older}"
    );
    let repeat_and_new = append(&tablet, &[batch(7, 7, 2, 30), batch(7, 8, 2, 30)], 100).unwrap();
    assert!(repeat_and_new.duplicate);
    append(&tablet, &[batch(7, 8, 2, 30), batch(7, 10, 2, 30)], 100).unwrap_err();
    assert_eq!(tablet.end_offset(), 16);
    append(&tablet, &[batch(7, 8, 2, 30), batch(7, 9, 2, 30)], 100).unwrap();
    assert_eq!(tablet.end_offset(), 20);
}

#[test]
fn sequences_wrap_around_in_the_log() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    // Only a replicated log can begin in the middle of a writer.
    for (offset, sequence) in [(0, i32::MAX - 1), (1, i32::MAX)] {
        let spec = BatchSpec {
            writer_id: 1,
            batch_sequence: sequence,
            base_offset: offset,
            ..BatchSpec::default()
        };
        let bytes = spec.build(1, &[], &[], b"row").unwrap();
        tablet
            .append_as_follower(&checked(&[bytes.into()]), 0, EPOCH)
            .unwrap();
    }
    append(&tablet, &[batch(1, 0, 1, 3)], 0).unwrap();
    append(&tablet, &[batch(1, 1, 1, 3)], 0).unwrap();
    assert!(
        append(&tablet, &[batch(1, i32::MAX, 1, 3)], 0)
            .unwrap()
            .duplicate
    );
}

#[test]
fn an_older_leader_epoch_is_fenced() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    append(&tablet, &[plain(1, 1)], 0).unwrap();
    tablet
        .append_as_leader(&checked(&[plain(4, 1)]), 0, LeaderEpoch(5))
        .unwrap();
    let error = append(&tablet, &[plain(1, 1)], 0).unwrap_err();
    assert!(matches!(error, LogError::StaleLeaderEpoch { .. }));
    assert_eq!(tablet.end_offset(), 5);
    assert_eq!(tablet.end_offset_for_epoch(EPOCH).unwrap().end_offset, 1);
    assert_eq!(
        tablet.end_offset_for_epoch(LeaderEpoch(4)).unwrap().epoch,
        EPOCH
    );
    assert_eq!(
        tablet
            .end_offset_for_epoch(LeaderEpoch(5))
            .unwrap()
            .end_offset,
        5
    );
    assert_eq!(tablet.end_offset_for_epoch(LeaderEpoch(6)), None);
}

#[test]
fn a_follower_takes_batches_only_where_its_log_ends() {
    let fs = disk(1);
    let (leader, _) = open(&fs, &LogConfig::default()).unwrap();
    for sequence in 0..4 {
        append(&leader, &[batch(7, sequence, 3, 40)], 900).unwrap();
    }
    let copied = read_all(&leader, 0, i64::MAX, 1 << 20);

    let fs = disk(2);
    let (follower, _) = open(&fs, &LogConfig::default()).unwrap();
    let all = CheckedBatches::verify(&copied).unwrap();
    follower.append_as_follower(&all, 0, EPOCH).unwrap();
    assert_eq!(read_all(&follower, 0, i64::MAX, 1 << 20), copied);
    let error = follower.append_as_follower(&all, 0, EPOCH).unwrap_err();
    assert!(matches!(
        error,
        LogError::UnexpectedOffset {
            expected: 12,
            actual: 0
        }
    ));
    // It knows the writers as the leader does.
    assert_eq!(
        follower.writer_batches(WriterId(7)),
        leader.writer_batches(WriterId(7))
    );
    assert!(
        append(&follower, &[batch(7, 3, 3, 40)], 950)
            .unwrap()
            .duplicate
    );
}

#[test]
fn an_expired_writer_may_continue_and_is_forgotten_later() {
    let fs = disk(1);
    let config = LogConfig {
        writer_expiration_ms: 1_000,
        ..LogConfig::default()
    };
    let (tablet, _) = open(&fs, &config).unwrap();
    append(&tablet, &[batch(7, 0, 1, 3)], 0).unwrap();
    append(&tablet, &[batch(7, 9, 1, 3)], 1_000).unwrap_err();
    append(&tablet, &[batch(7, 9, 1, 3)], 1_001).unwrap();
    append(&tablet, &[batch(7, 10, 1, 3)], 1_002).unwrap();
    assert_eq!(tablet.remove_expired_writers(3_002), 0);
    assert_eq!(tablet.remove_expired_writers(3_003), 1);
    append(&tablet, &[batch(7, 11, 1, 3)], 3_003).unwrap_err();
    append(&tablet, &[batch(7, 0, 1, 3)], 3_003).unwrap();
}

#[test]
fn segments_roll_at_their_size_and_appends_stay_whole() {
    let fs = disk(1);
    let config = LogConfig {
        segment_bytes: 1_000,
        ..LogConfig::default()
    };
    let (tablet, _) = open(&fs, &config).unwrap();
    let mut ledger = Ledger::default();
    for payload in [400, 400, 10, 5_000, 300, 300, 300, 300] {
        append(&tablet, &[plain(2, payload), plain(1, 1)], 7).unwrap();
        ledger.add(&[plain(2, payload), plain(1, 1)], 7);
    }
    let bases: Vec<i64> = {
        let mut names: Vec<String> = fs
            .list(DIR.as_ref())
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        names.retain(|name| name.ends_with(".log"));
        names
            .iter()
            .map(|name| name.trim_end_matches(".log").parse().unwrap())
            .collect()
    };
    assert_eq!(bases, [0, 6, 9, 12, 18]);
    assert_eq!(tablet.segment_count(), 5);
    assert_eq!(read_all(&tablet, 0, i64::MAX, 1 << 20), ledger.bytes(0, 24));
    assert!(tablet.roll(0).unwrap());
    assert!(!tablet.roll(0).unwrap(), "an empty segment is not rolled");
    assert_eq!(tablet.active_segment_base_offset(), Some(24));
}

#[test]
fn batches_with_more_offsets_than_a_segment_can_number_get_a_segment_each() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..3 {
        let one = plain(1, 0).to_vec();
        let header = BatchHeader::parse(&one).unwrap();
        // The checksum covers the delta, so build it anew with a false one.
        let mut false_delta = one.clone();
        false_delta[28..32].copy_from_slice(&i32::MAX.to_le_bytes());
        let crc = crc32c::crc32c(&false_delta[header.magic.crc_start()..]);
        false_delta[21..25].copy_from_slice(&crc.to_le_bytes());
        append(&tablet, &[false_delta.clone().into()], 0).unwrap();
        bytes.extend_from_slice(&false_delta);
    }
    assert_eq!(tablet.end_offset(), 3 << 31);
    assert_eq!(tablet.segment_count(), 3);
    assert_eq!(
        read_all(&tablet, (1 << 31) + 5, i64::MAX, 1 << 20).len(),
        2 * 48
    );
    // All in one append: one segment, found by walking.
    append(&tablet, &[bytes.into()], 0).unwrap();
    assert_eq!(tablet.end_offset(), 6 << 31);
    assert_eq!(
        read_all(&tablet, (5 << 31) + 1, i64::MAX, 1 << 20).len(),
        48
    );
}
