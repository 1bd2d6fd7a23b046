//! A disk that is full, or fails, at any operation.

use mainstem_env::{Fault, Survival};
use mainstem_log::{LogConfig, LogError};

use crate::support::*;

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        checkpoint_bytes: 1_000,
        checkpoint_min_interval_ms: 10,
        ..LogConfig::default()
    }
}

/// Writes 30 batches, each until it is taken, and syncs after every third. The
/// operation `failing` fails. Returns whether it came to that.
fn run(failing: u64, fault: Fault) -> bool {
    let fs = disk(failing);
    fs.fail(fs.operations() + failing, fault);
    let (mut tablet, _) = open(&fs, &config()).unwrap();
    let mut ledger = Ledger::default();
    let mut durable = 0;
    let mut failures = 0;
    for sequence in 0..30 {
        let now_ms = i64::from(sequence) * 7;
        let one = batch(7, sequence, 2, 60 + 40 * (sequence as usize % 7));
        loop {
            match append(&tablet, std::slice::from_ref(&one), now_ms) {
                Ok(appended) => {
                    if !appended.duplicate {
                        ledger.add(std::slice::from_ref(&one), now_ms);
                    }
                    assert_eq!(appended.end_offset, i64::from(sequence) * 2 + 2);
                    break;
                }
                Err(LogError::DiskFull { .. }) => {
                    assert_eq!(fault, Fault::DiskFull);
                    failures += 1;
                }
                Err(LogError::Storage { .. }) => {
                    assert_eq!(fault, Fault::Io);
                    failures += 1;
                }
                Err(other) => panic!("operation {failing}: {other}"),
            }
            assert!(failures < 3);
            // Nothing of the failed append is seen.
            assert_eq!(tablet.end_offset(), ledger.end());
        }
        assert_eq!(
            read_all(&tablet, 0, i64::MAX, 1 << 20),
            ledger.bytes(0, ledger.end())
        );
        if sequence % 3 != 2 {
            continue;
        }
        match tablet.sync(now_ms) {
            Ok(end) => {
                assert_eq!(end, ledger.end());
                durable = end;
            }
            Err(_) => {
                // The log is opened anew, and the writer sends again what was
                // not acknowledged.
                failures += 1;
                assert_eq!(tablet.durable_end_offset(), durable);
                drop(tablet);
                let (reopened, report) = open(&fs, &config()).unwrap();
                assert_eq!(report.quarantine, None);
                assert!(report.log_end_offset >= durable);
                ledger.cut(report.log_end_offset);
                for sequence in (ledger.end() / 2) as i32..=sequence {
                    let one = batch(7, sequence, 2, 60 + 40 * (sequence as usize % 7));
                    append(&reopened, std::slice::from_ref(&one), now_ms).unwrap();
                    ledger.add(&[one], now_ms);
                }
                tablet = reopened;
            }
        }
    }
    tablet.sync(1_000).unwrap();
    let happened = failures > 0 || fs.operations() >= failing;
    let (reopened, report) = open(&fs.power_loss(Survival::Nothing), &config()).unwrap();
    assert_eq!(report.log_end_offset, 60, "operation {failing}");
    assert_eq!(
        read_all(&reopened, 0, i64::MAX, 1 << 20),
        ledger.bytes(0, 60)
    );
    happened && failing < fs.operations()
}

#[test]
fn a_full_disk_at_any_operation_loses_nothing_and_service_resumes() {
    let mut failing = 1;
    while run(failing, Fault::DiskFull) {
        failing += 1;
    }
    assert!(failing > 100, "{failing}");
}

#[test]
fn an_error_at_any_operation_loses_nothing_that_was_durable() {
    let mut failing = 1;
    while run(failing, Fault::Io) {
        failing += 1;
    }
    assert!(failing > 100, "{failing}");
}

#[test]
fn what_a_failed_append_leaves_is_gone_before_anything_follows_it() {
    // The write fails, and in the second case the cut after it as well.
    for (failures, killed) in [(1, false), (2, false), (1, true)] {
        for seed in 0..40 {
            let mut fs = disk(seed);
            let (mut tablet, _) = open(&fs, &config()).unwrap();
            let mut ledger = Ledger::default();
            append(&tablet, &[batch(7, 0, 2, 100)], 0).unwrap();
            ledger.add(&[batch(7, 0, 2, 100)], 0);
            tablet.sync(0).unwrap();
            for number in 1..=failures {
                fs.fail(fs.operations() + number, Fault::DiskFull);
            }
            append(&tablet, &[batch(7, 1, 2, 400)], 0).unwrap_err();
            if killed {
                fs = fs.process_kill();
                tablet = open(&fs, &config()).unwrap().0;
            }
            let mut batches = Vec::new();
            match seed % 3 {
                // A smaller one in its place, then the next segment.
                0 => batches.push(batch(7, 1, 1, 10)),
                // The next segment at once, by hand or because it is large.
                1 => assert!(tablet.roll(0).unwrap()),
                _ => batches.push(batch(7, 1, 1, 650)),
            }
            let next = batches.len() as i32 + 1;
            batches.extend((next..next + 5).map(|sequence| batch(7, sequence, 1, 500)));
            for batch in batches {
                append(&tablet, std::slice::from_ref(&batch), 0).unwrap();
                ledger.add(&[batch], 0);
            }
            tablet.close(0).unwrap();
            let end = ledger.end();
            let losses = (0..20).map(|loss| fs.power_loss(Survival::Seeded(loss)));
            for fs in losses.chain([fs.process_kill()]) {
                let (tablet, report) = open(&fs, &config()).unwrap();
                assert!(report.is_clean(), "{failures} {killed} {seed} {report:?}");
                assert_eq!(
                    read_all(&tablet, 0, i64::MAX, 1 << 20),
                    ledger.bytes(0, end)
                );
            }
        }
    }
}

#[test]
fn a_log_that_outgrows_its_disk_goes_on_when_there_is_room() {
    for capacity in (3_000..4_000).step_by(37) {
        let fs = disk(capacity);
        fs.set_capacity(Some(capacity));
        let (tablet, _) = open(&fs, &config()).unwrap();
        let mut ledger = Ledger::default();
        let mut refused = None;
        for sequence in 0..60 {
            let one = batch(7, sequence, 1, 60);
            match append(&tablet, std::slice::from_ref(&one), 0) {
                Ok(_) => {
                    ledger.add(&[one], 0);
                    tablet.sync(i64::from(sequence) * 20).unwrap();
                }
                Err(error) => {
                    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
                    assert!(error.is_retriable());
                    refused = Some(sequence);
                    break;
                }
            }
        }
        let refused = refused.expect("the disk is too small");
        // Full, it can be read, closed, and opened again.
        assert_eq!(
            read_all(&tablet, 0, i64::MAX, 1 << 20),
            ledger.bytes(0, ledger.end())
        );
        append(&tablet, &[batch(7, refused, 1, 60)], 0).unwrap_err();
        tablet.close(2_000).unwrap();
        let (tablet, report) = open(&fs.power_loss(Survival::Nothing), &config()).unwrap();
        assert!(report.quarantine.is_none());
        assert_eq!(report.log_end_offset, ledger.end());
        drop(tablet);
        let (tablet, report) = open(&fs, &config()).unwrap();
        assert_eq!(report.log_end_offset, ledger.end());
        fs.set_capacity(None);
        append(&tablet, &[batch(7, refused, 1, 60)], 0).unwrap();
        ledger.add(&[batch(7, refused, 1, 60)], 0);
        tablet.sync(3_000).unwrap();
        let (tablet, _) = open(&fs.power_loss(Survival::Nothing), &config()).unwrap();
        assert_eq!(
            read_all(&tablet, 0, i64::MAX, 1 << 20),
            ledger.bytes(0, ledger.end())
        );
    }
}
