//! Power loss and kill at every operation, with any part of the unsynced bytes
//! lost (reliability.md C-03, C-09, D-01, P1, P2, P5, P6, P13).

use std::sync::Arc;

use mainstem_env::{Fault, FileSystem, SeededRng, SimFileSystem, Survival};
use mainstem_log::{Durability, LogConfig, LogTablet};

use crate::support::*;

/// A log with three writers, driven until the power goes.
struct World {
    seed: u64,
    rng: SeededRng,
    config: LogConfig,
    /// What was written, acknowledged or not.
    ledger: Ledger,
    /// End of what was acknowledged.
    durable_end: i64,
    /// A deletion to this start was tried and may have happened.
    deleting_to: Option<i64>,
    sequences: [i32; 3],
    now_ms: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let config = LogConfig {
            segment_bytes: [120, 1_500, 6_000, 1 << 30][rng.index(4)],
            checkpoint_bytes: [300, 3_000, 1 << 20][rng.index(3)],
            checkpoint_min_interval_ms: 0,
            ..LogConfig::default()
        };
        Self {
            seed,
            rng,
            config,
            ledger: Ledger::default(),
            durable_end: 0,
            deleting_to: None,
            sequences: [0; 3],
            now_ms: 1_000,
        }
    }

    /// Works on the log until the disk fails, or for `steps`.
    fn drive(&mut self, tablet: &LogTablet, steps: usize) {
        for _ in 0..steps {
            self.now_ms += 3;
            let failed = match self.rng.below(10) {
                0..6 => self.append(tablet),
                6..8 => match tablet.sync(self.now_ms) {
                    Ok(end) => {
                        assert_eq!(end, self.ledger.end());
                        self.durable_end = end;
                        false
                    }
                    Err(_) => true,
                },
                8 => tablet.roll(self.now_ms).is_err(),
                _ => self.delete(tablet),
            };
            // An acknowledgement may have come before the failure.
            self.durable_end = self.durable_end.max(tablet.durable_end_offset());
            if failed {
                return;
            }
        }
    }

    fn append(&mut self, tablet: &LogTablet) -> bool {
        let writer = self.rng.index(4);
        let mut batches = Vec::new();
        for _ in 0..1 + self.rng.index(2) {
            let payload = [0, 60, 700, 2_500][self.rng.index(4)];
            if writer < 3 {
                batches.push(batch(writer as i64, self.sequences[writer], 2, payload));
                self.sequences[writer] += 1;
            } else {
                batches.push(plain(1, payload));
            }
        }
        let failed = append(tablet, &batches, self.now_ms).is_err();
        // Also when it failed: it may be on disk, and then must be whole.
        self.ledger.add(&batches, self.now_ms);
        failed
    }

    fn delete(&mut self, tablet: &LogTablet) -> bool {
        let span = (self.durable_end - self.ledger.start).max(0) as u64;
        let before = self.ledger.start + self.rng.below(span / 2 + 1) as i64;
        let start = self.ledger.start;
        let result = tablet.delete_segments_before(before, self.now_ms);
        let new_start = tablet.log_start_offset();
        if result.is_err() {
            // Which segments it would have deleted is up to it.
            self.deleting_to = (before > start).then_some(before);
            return true;
        }
        self.durable_end = self.durable_end.max(tablet.durable_end_offset());
        self.ledger.delete_before(new_start);
        false
    }

    /// Opens the log on a disk after a crash, and checks all promises.
    fn check(&self, fs: &SimFileSystem, what: &str) -> (Arc<LogTablet>, Ledger) {
        let context = format!("seed {} {what}", self.seed);
        let (tablet, report) = open(fs, &self.config).unwrap_or_else(|error| {
            panic!("{context}: {error}");
        });
        assert_eq!(report.quarantine, None, "{context}");
        let mut ledger = self.ledger.clone();
        let (start, end) = (tablet.log_start_offset(), tablet.end_offset());
        if start != ledger.start {
            let allowed = self.deleting_to.is_some_and(|before| start <= before);
            assert!(
                allowed && ledger.is_boundary(start),
                "{context}: starts at {start}"
            );
            ledger.delete_before(start);
        }
        assert!(
            end >= self.durable_end,
            "{context}: {end} of {} durable",
            self.durable_end
        );
        assert!(ledger.is_boundary(end), "{context}: ends at {end}");
        ledger.cut(end);
        let found = read_all(&tablet, start, i64::MAX, 1 << 20);
        assert_eq!(found, ledger.bytes(start, end), "{context}");
        assert!(tablet.durable_end_offset() <= end);

        // Writers: repeats are known.
        for writer in 0..3 {
            for known in ledger.latest_of(writer) {
                let again = batch(writer, known.batch_sequence, 1, 1);
                let again = append(&tablet, &[again], self.now_ms).unwrap_or_else(|error| {
                    panic!("{context}: repeat of {known:?}: {error}");
                });
                assert!(again.duplicate, "{context}");
                assert_eq!(again.base_offset, known.base_offset, "{context}");
            }
        }
        assert_eq!(tablet.end_offset(), end, "{context}");
        (tablet, ledger)
    }

    /// Takes the state after a crash as the new truth and goes on.
    fn resume(&mut self, ledger: Ledger, tablet: &LogTablet) {
        self.ledger = ledger;
        self.deleting_to = None;
        for writer in 0..3 {
            let last = tablet.writer_batches((writer as i64).into());
            self.sequences[writer] = last.last().map_or(0, |last| last.sequence + 1);
        }
        // The writers go on without a gap.
        for writer in 0..3 {
            let one = batch(writer as i64, self.sequences[writer], 1, 20);
            self.sequences[writer] += 1;
            let appended = append(tablet, std::slice::from_ref(&one), self.now_ms).unwrap();
            assert!(!appended.duplicate);
            self.ledger.add(&[one], self.now_ms);
        }
        self.durable_end = tablet.sync(self.now_ms).unwrap();
        assert_eq!(self.durable_end, self.ledger.end());
    }
}

fn survivals(seed: u64, count: u64) -> impl Iterator<Item = Survival> {
    [Survival::Nothing, Survival::Everything]
        .into_iter()
        .chain((0..count).map(move |number| Survival::Seeded(seed * 1_000 + number)))
}

#[test]
fn power_loss_at_every_operation_of_a_workload() {
    let mut states = 0;
    for seed in 0..10 {
        let mut failing = 1;
        loop {
            let fs = disk(seed);
            let mut world = World::new(seed);
            fs.fail(fs.operations() + failing, Fault::PowerLoss);
            let (tablet, _) = open(&fs, &world.config).unwrap();
            world.drive(&tablet, 60);
            drop(tablet);
            let crashed = fs.list("/".as_ref()).is_err();
            for survival in survivals(failing, 6) {
                world.check(
                    &fs.power_loss(survival),
                    &format!("operation {failing} {survival:?}"),
                );
                states += 1;
            }
            if !crashed {
                break;
            }
            failing += 1;
        }
        assert!(failing > 80, "{failing} operations");
    }
    println!("{states} crash states");
    assert!(states > 10_000);
}

#[test]
fn many_lives_of_a_log_each_ended_by_a_power_loss() {
    for seed in 100..300 {
        let mut world = World::new(seed);
        let mut fs = disk(seed);
        let (mut tablet, _) = open(&fs, &world.config).unwrap();
        for life in 0..8 {
            let failing = 1 + world.rng.below(120);
            fs.fail(fs.operations() + failing, Fault::PowerLoss);
            world.drive(&tablet, 60);
            drop(tablet);
            let survival = match world.rng.below(4) {
                0 => Survival::Nothing,
                _ => Survival::Seeded(world.rng.next_u64()),
            };
            fs = fs.power_loss(survival);
            // Crashes during recovery come on top.
            for _ in 0..world.rng.below(3) {
                fs.fail(1 + world.rng.below(6), Fault::PowerLoss);
                let _ = open(&fs, &world.config);
                fs = fs.power_loss(Survival::Seeded(world.rng.next_u64()));
            }
            let (opened, ledger) = world.check(&fs, &format!("life {life} {survival:?}"));
            world.resume(ledger, &opened);
            tablet = opened;
        }
    }
}

/// Failed writes and syncs, opening again in place, kills and power losses, one
/// after the other in any order.
#[test]
fn many_lives_with_every_kind_of_end() {
    for seed in 500..700 {
        let mut world = World::new(seed);
        let mut fs = disk(seed);
        let (mut tablet, _) = open(&fs, &world.config).unwrap();
        for life in 0..8 {
            let fault = [Fault::Io, Fault::DiskFull, Fault::PowerLoss][world.rng.index(3)];
            let failing = 1 + world.rng.below(120);
            fs.fail(fs.operations() + failing, fault);
            world.drive(&tablet, 60);
            drop(tablet);
            fs.clear_faults();
            let end = world.rng.below(3);
            let what = format!("life {life} {fault:?} {failing} {end}");
            fs = match (fault, end) {
                (Fault::PowerLoss, _) | (_, 0) => {
                    fs.power_loss(Survival::Seeded(world.rng.next_u64()))
                }
                (_, 1) => fs.process_kill(),
                _ => fs,
            };
            if world.rng.chance(20) {
                // The first try to open it meets a fault too.
                fs.fail(fs.operations() + 1 + world.rng.below(4), fault);
                let _ = open(&fs, &world.config);
                fs.clear_faults();
                fs = fs.power_loss(Survival::Seeded(world.rng.next_u64()));
            }
            let (opened, ledger) = world.check(&fs, &what);
            world.resume(ledger, &opened);
            tablet = opened;
        }
    }
}

#[test]
fn without_fsync_a_power_loss_leaves_a_prefix_and_never_a_quarantine() {
    for seed in 800..900 {
        let mut world = World::new(seed);
        world.config.durability = Durability::Os;
        let mut fs = disk(seed);
        let (mut tablet, _) = open(&fs, &world.config).unwrap();
        for life in 0..8 {
            let failing = 1 + world.rng.below(80);
            fs.fail(fs.operations() + failing, Fault::PowerLoss);
            world.drive(&tablet, 60);
            drop(tablet);
            fs = fs.power_loss(Survival::Seeded(world.rng.next_u64()));
            world.durable_end = 0;
            let (opened, ledger) = world.check(&fs, &format!("life {life}"));
            world.resume(ledger, &opened);
            tablet = opened;
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_written() {
    for seed in 300..400 {
        let mut world = World::new(seed);
        let mut fs = disk(seed);
        for life in 0..6 {
            let (tablet, _) = open(&fs, &world.config).unwrap();
            let written = tablet.end_offset();
            let steps = world.rng.index(30);
            world.drive(&tablet, steps);
            assert!(tablet.end_offset() >= written);
            // Kept open: the next process does not wait for this one.
            fs = fs.process_kill();
            let (opened, ledger) = world.check(&fs, &format!("life {life}"));
            assert_eq!(ledger.end(), world.ledger.end(), "seed {seed} life {life}");
            world.resume(ledger, &opened);
            drop(tablet);
        }
    }
}

#[test]
fn a_power_loss_during_a_cut_leaves_the_old_log_or_the_cut_one() {
    for segment_bytes in [120, 500, 1 << 20] {
        let config = LogConfig {
            segment_bytes,
            ..LogConfig::default()
        };
        let mut failing = 1;
        loop {
            let fs = disk(failing);
            let (tablet, _) = open(&fs, &config).unwrap();
            let mut ledger = Ledger::default();
            for sequence in 0..12 {
                let one = batch(7, sequence, 3, 60);
                append(&tablet, std::slice::from_ref(&one), 0).unwrap();
                ledger.add(&[one], 0);
            }
            tablet.sync(0).unwrap();
            fs.fail(fs.operations() + failing, Fault::PowerLoss);
            let cut = tablet.truncate_to(13, 0).is_ok();
            let mut longer = ledger.clone();
            longer.cut(12);
            if cut {
                // Goes on differently; no old batch may come back behind it.
                for sequence in 4..7 {
                    let one = batch(7, sequence, 3, 61);
                    if append(&tablet, std::slice::from_ref(&one), 0).is_ok() {
                        longer.add(&[one], 0);
                    }
                }
            }
            let crashed = fs.list("/".as_ref()).is_err();
            for survival in survivals(failing, 20) {
                let fs = fs.power_loss(survival);
                let context = format!("{segment_bytes} {failing} {survival:?}");
                let (tablet, report) = open(&fs, &config).unwrap();
                assert_eq!(report.quarantine, None, "{context}");
                let end = report.log_end_offset;
                assert!(end >= 12, "{context}");
                let found = read_all(&tablet, 0, i64::MAX, 1 << 20);
                let is_old = found == ledger.bytes(0, end);
                let is_new = found == longer.bytes(0, end);
                assert!(is_new || is_old && !cut, "{context} ends at {end}");
            }
            if !crashed {
                assert!(cut);
                break;
            }
            failing += 1;
        }
    }
}

#[test]
fn a_power_loss_during_a_restart_elsewhere_leaves_a_prefix_or_the_new_start() {
    for start in [0, 17, 36, 500] {
        let config = LogConfig {
            segment_bytes: 250,
            ..LogConfig::default()
        };
        let mut failing = 1;
        loop {
            let fs = disk(failing);
            let (tablet, _) = open(&fs, &config).unwrap();
            let mut ledger = Ledger::default();
            for sequence in 0..12 {
                let one = batch(7, sequence, 3, 60);
                append(&tablet, std::slice::from_ref(&one), 0).unwrap();
                ledger.add(&[one], 0);
            }
            tablet.sync(0).unwrap();
            fs.fail(fs.operations() + failing, Fault::PowerLoss);
            let done = tablet.truncate_fully_and_start_at(start, 0).is_ok();
            let crashed = fs.list("/".as_ref()).is_err();
            for survival in survivals(failing, 12) {
                let fs = fs.power_loss(survival);
                let (tablet, report) = open(&fs, &config).unwrap();
                let context = format!("{start} {failing} {survival:?}");
                assert_eq!(report.quarantine, None, "{context}");
                let restarted = report.log_start_offset == start && report.log_end_offset == start;
                assert!(restarted || !done, "{context}");
                if !restarted {
                    let end = report.log_end_offset;
                    let found = read_all(&tablet, 0, i64::MAX, 1 << 20);
                    assert_eq!(found, ledger.bytes(0, end), "{context}");
                }
                append(&tablet, &[plain(1, 1)], 0).unwrap();
            }
            if !crashed {
                assert!(done);
                break;
            }
            failing += 1;
        }
    }
}
