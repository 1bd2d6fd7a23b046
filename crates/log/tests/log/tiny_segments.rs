//! Segments of 120 bytes, one batch each: files, descriptors, syncs and
//! checkpoints must bear it.

use mainstem_env::Operation;
use mainstem_log::LogConfig;

use crate::support::*;

const BATCHES: i64 = 10_000;

#[test]
fn ten_thousand_segments_are_appended_read_and_recovered() {
    let config = LogConfig {
        segment_bytes: 120,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    for number in 0..BATCHES {
        // Ten appends a millisecond, a sync for each hundred.
        let now_ms = 1_000 + number / 10;
        append(&tablet, &[batch(7, number as i32, 1, 60)], now_ms).unwrap();
        if number % 100 == 99 {
            tablet.sync(now_ms).unwrap();
        }
    }
    assert_eq!(tablet.segment_count() as i64, BATCHES);
    let handles = fs.open_handles();
    assert!(handles < 40, "{handles} open handles");
    let checkpoints = fs
        .trace()
        .iter()
        .filter(|one| matches!(one, Operation::Rename { to, .. } if to.ends_with("checkpoint")))
        .count();
    assert!(
        (1..=2).contains(&checkpoints),
        "{checkpoints} checkpoints in one second"
    );

    let start = tablet
        .read(&mainstem_log::ReadRequest {
            start_offset: 5_000,
            end_offset_limit: i64::MAX,
            max_bytes: 100_000,
            min_one_batch: true,
        })
        .unwrap();
    assert_eq!(start.end_offset, 5_000 + 100_000 / 108);
    assert_eq!(
        read_all(&tablet, 0, i64::MAX, 1 << 20).len() as i64,
        BATCHES * 108
    );
    let mut cursor = tablet.batches(0, i64::MAX).unwrap();
    let mut count = 0;
    while cursor.next_batch().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, BATCHES);
    assert!(fs.open_handles() < 40);

    let killed = fs.process_kill();
    let (reopened, report) = open(&killed, &config).unwrap();
    assert!(report.is_clean());
    assert_eq!(
        (report.log_end_offset, report.durable_end_offset),
        (BATCHES, BATCHES)
    );
    assert!(killed.open_handles() < 5, "opening keeps no segment open");
    assert!(
        append(&reopened, &[batch(7, BATCHES as i32 - 3, 1, 60)], 2_000)
            .unwrap()
            .duplicate
    );
    append(&reopened, &[batch(7, BATCHES as i32, 1, 60)], 2_000).unwrap();
    reopened.close(2_000).unwrap();
    let (_, report) = open(&killed, &config).unwrap();
    assert_eq!(
        (report.scanned_batches, report.segments as i64),
        (0, BATCHES + 1)
    );
}

#[test]
fn a_slow_disk_does_not_pile_up_descriptors() {
    let config = LogConfig {
        segment_bytes: 120,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    for number in 0..2_000 {
        append(&tablet, &[batch(7, number, 1, 60)], 0).unwrap();
    }
    assert!(fs.open_handles() < 40, "{}", fs.open_handles());
    tablet.sync(0).unwrap();
    let after = fs.power_loss(mainstem_env::Survival::Nothing);
    let (_, report) = open(&after, &config).unwrap();
    assert_eq!(report.log_end_offset, 2_000);
}
