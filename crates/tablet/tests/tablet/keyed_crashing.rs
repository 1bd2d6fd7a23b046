//! Power loss and kill at every operation of a server with primary-key tables: the
//! disk loses any part of its unsynced bytes, the stores keep any prefix of their
//! writes, and clients go on through it (reliability.md C-03, D-01, P1–P6; known
//! failures R01, R02, B054).

use mainstem_env::{Fault, SimFileSystem, Survival};
use mainstem_log::Durability;

use crate::common::*;

/// Drives until the power has gone or the steps are done. True if it has.
fn drive(world: &mut KeyedWorld, power_goes_at: u64, steps: usize) -> bool {
    for _ in 0..steps {
        world.step();
        if world.disk.operations() >= power_goes_at {
            break;
        }
    }
    // What was answered before counts, whether or not it was looked at.
    world.collect();
    world.disk.operations() >= power_goes_at
}

#[test]
fn rows_and_changelog_stay_one_through_crash_after_crash() {
    for seed in 0..150 {
        let mut world = KeyedWorld::new(seed, Harm::Crash);
        for _ in 0..6 {
            let number = 1 + world.rng.below(90);
            let at = world.power_goes_at(number);
            drive(&mut world, at, 80);
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
fn a_crash_at_every_operation_of_a_workload_is_survived() {
    let outcomes: [fn(&SimFileSystem) -> SimFileSystem; 4] = [
        |disk| disk.power_loss(Survival::Nothing),
        |disk| disk.power_loss(Survival::Everything),
        |disk| disk.power_loss(Survival::Seeded(1)),
        |disk| disk.process_kill(),
    ];
    let mut operations = 0;
    for seed in 1_000..1_003 {
        for number in 1.. {
            let mut went = false;
            for outcome in outcomes {
                // The same seed: the same life up to this operation.
                let mut world = KeyedWorld::new(seed, Harm::Crash);
                let at = world.power_goes_at(number);
                went = drive(&mut world, at, 60);
                let disk = outcome(&world.disk);
                world.restart(disk);
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
fn in_mode_os_a_kill_at_any_moment_loses_nothing() {
    for seed in 2_000..2_060 {
        let mut world = KeyedWorld::with_durability(seed, Harm::Crash, Durability::Os);
        for _ in 0..6 {
            let number = 1 + world.rng.below(60);
            let at = world.power_goes_at(number);
            drive(&mut world, at, 80);
            let disk = world.disk.process_kill();
            world.restart(disk);
            world.check();
        }
        world.finish();
    }
}
