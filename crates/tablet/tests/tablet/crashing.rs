//! Power loss and kill at every operation: the disk loses any part of its unsynced
//! bytes, stores of rows keep any prefix of their writes, and clients go on through
//! it (reliability.md C-03, D-01, P1–P6; known failures R01, R02, B054).

use mainstem_env::{Fault, SimFileSystem, Survival};
use mainstem_log::Durability;

use crate::common::*;

fn crash_after_crash<L: Ledger>() {
    for seed in 0..150 {
        let mut world = World::<L>::new(seed, Harm::Crash);
        for _ in 0..6 {
            let number = 1 + world.rng.below(90);
            world.live_until_power_goes(number, 80);
            let mut disk = world.harmed_disk();
            // The next start may not get far either.
            if world.rng.chance(30) {
                disk.fail(1 + world.rng.below(6), Fault::PowerLoss);
                world.restart(disk);
                world.server.sync();
                world.look();
                disk = world.harmed_disk();
            }
            world.restart(disk);
            world.check();
        }
        world.finish();
    }
}

#[test]
fn clients_go_on_through_crash_after_crash_without_loss_or_repeat() {
    crash_after_crash::<LogLedger>();
}

#[test]
fn rows_and_changelog_stay_one_through_crash_after_crash() {
    crash_after_crash::<KeyedLedger>();
}

fn crash_at_every_operation<L: Ledger>(seeds: std::ops::Range<u64>) {
    let outcomes: [fn(&SimFileSystem) -> SimFileSystem; 5] = [
        |disk| disk.power_loss(Survival::Nothing),
        |disk| disk.power_loss(Survival::Everything),
        |disk| disk.power_loss(Survival::Seeded(1)),
        |disk| disk.power_loss(Survival::Seeded(2)),
        |disk| disk.process_kill(),
    ];
    let mut operations = 0;
    for seed in seeds {
        for number in 1.. {
            let mut went = false;
            for outcome in outcomes {
                // The same seed: the same life up to this operation.
                let mut world = World::<L>::new(seed, Harm::Crash);
                went = world.live_until_power_goes(number, 60);
                world.restart(outcome(&world.disk));
                world.check();
                world.finish();
            }
            operations += 1;
            if !went {
                break;
            }
        }
    }
    assert!(operations > 100, "{operations} operations");
}

#[test]
fn a_crash_at_every_operation_of_a_workload_is_survived() {
    crash_at_every_operation::<LogLedger>(1_000..1_004);
}

#[test]
fn a_crash_at_every_operation_of_a_workload_on_rows_is_survived() {
    crash_at_every_operation::<KeyedLedger>(1_000..1_003);
}

fn kill_in_mode_os<L: Ledger>() {
    for seed in 2_000..2_060 {
        let mut world = World::<L>::with_durability(seed, Harm::Crash, Durability::Os);
        for _ in 0..6 {
            let number = 1 + world.rng.below(60);
            world.live_until_power_goes(number, 80);
            world.restart(world.disk.process_kill());
            world.check();
        }
        world.finish();
    }
}

#[test]
fn in_mode_os_a_kill_at_any_moment_loses_nothing() {
    kill_in_mode_os::<LogLedger>();
}

#[test]
fn in_mode_os_a_kill_at_any_moment_loses_no_row() {
    kill_in_mode_os::<KeyedLedger>();
}
