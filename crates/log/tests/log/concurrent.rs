//! Readers beside a writer, rolls, retention and syncs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstem_env::{ManualClock, SeededRng};
use mainstem_format::Batches;
use mainstem_log::{LogConfig, LogError, LogTablet, ReadRequest, Syncer};

use crate::support::*;

const BATCHES: i32 = 3_000;

/// Reads on from where it stands until it has seen all; checks every batch.
fn follow(tablet: &LogTablet, seed: u64, done: &AtomicBool) {
    let mut rng = SeededRng::new(seed);
    let mut next = 0;
    loop {
        let finished = done.load(Ordering::SeqCst);
        let limit = tablet.durable_end_offset();
        let request = ReadRequest {
            start_offset: next,
            end_offset_limit: limit,
            max_bytes: 1 + rng.below(20_000),
            min_one_batch: true,
        };
        match tablet.read(&request) {
            Ok(slice) => {
                assert!(slice.end_offset <= limit.max(next));
                for batch in Batches::new(&slice.to_bytes().unwrap()) {
                    let batch = batch.unwrap();
                    batch.verify_crc().unwrap();
                    assert_eq!(batch.header().base_offset, next);
                    next = batch.header().next_offset();
                }
                assert_eq!(slice.end_offset, next);
            }
            // Retention has overtaken this reader.
            Err(LogError::OffsetOutOfRange { start, .. }) => {
                assert!(start > next);
                next = start;
            }
            Err(error) => panic!("{error}"),
        }
        if let Ok(mut cursor) = tablet.batches(next.max(tablet.log_start_offset()), limit) {
            let mut at = cursor.next_offset();
            for _ in 0..rng.below(5) {
                match cursor.next_batch() {
                    Ok(Some(found)) => {
                        assert_eq!(found.header.base_offset, at);
                        at = found.header.next_offset();
                    }
                    Ok(None) | Err(LogError::OffsetOutOfRange { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        if finished && next == i64::from(BATCHES) * 2 {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn readers_see_whole_batches_in_order_while_everything_else_goes_on() {
    for segment_bytes in [120, 3_000, 1 << 30] {
        let config = LogConfig {
            segment_bytes,
            index_interval_bytes: 500,
            ..LogConfig::default()
        };
        let fs = disk(segment_bytes);
        let (tablet, _) = open(&fs, &config).unwrap();
        let syncer = Syncer::new(2, Arc::new(ManualClock::new(0)));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tablet, syncer, done) = (&tablet, &syncer, &done);
            for seed in 0..2 {
                scope.spawn(move || follow(tablet, seed, done));
            }
            scope.spawn(move || {
                let mut rng = SeededRng::new(9);
                while !done.load(Ordering::SeqCst) {
                    let before = tablet.durable_end_offset() - 500 - rng.below(500) as i64;
                    tablet.delete_segments_before(before, 0).unwrap();
                    tablet.offset_for_timestamp(rng.below(100) as i64).unwrap();
                    std::thread::yield_now();
                }
            });
            for sequence in 0..BATCHES {
                let payload = [10, 60, 900][sequence as usize % 3];
                append(
                    tablet,
                    &[batch(7, sequence, 2, payload)],
                    i64::from(sequence / 40),
                )
                .unwrap();
                syncer.request(tablet);
            }
            tablet.sync(0).unwrap();
            done.store(true, Ordering::SeqCst);
        });
        drop(syncer);
        let (_, report) = open(&fs.process_kill(), &config).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.durable_end_offset, i64::from(BATCHES) * 2);
    }
}
