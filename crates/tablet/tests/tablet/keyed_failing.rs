//! A disk that is full or fails, and stores that fail, under a server with
//! primary-key tables that lives on (known failures B034, B035, R05).

use mainstem_env::{Fault, Survival};

use crate::common::*;

/// A life in which the operations from `first` on fail, `count` of them. True if it
/// came to that.
fn live(seed: u64, first: u64, count: u64, fault: Fault) -> bool {
    let mut world = KeyedWorld::new(seed, Harm::BadDisk);
    let start = world.disk.operations();
    for number in first..first + count {
        world.disk.fail(start + number, fault);
    }
    for _ in 0..80 {
        world.step();
        world.collect();
    }
    let happened = world.disk.operations() >= start + first;
    world.finish();
    // Everything is acknowledged now, so everything survives.
    let disk = world.disk.power_loss(Survival::Nothing);
    world.restart(disk);
    world.check();
    happened
}

#[test]
fn a_full_disk_at_any_operation_refuses_and_loses_nothing() {
    for seed in 0..3 {
        let failing = (1..).take_while(|first| live(seed, *first, 1, Fault::DiskFull));
        assert!(failing.count() > 30);
    }
}

#[test]
fn a_failure_of_any_operation_refuses_and_loses_nothing() {
    for seed in 10..13 {
        let failing = (1..).take_while(|first| live(seed, *first, 1, Fault::Io));
        assert!(failing.count() > 30);
    }
}

#[test]
fn a_disk_and_stores_that_fail_for_a_while_are_survived() {
    for seed in 0..60 {
        for count in [2, 3, 8, 40] {
            for fault in [Fault::Io, Fault::DiskFull] {
                live(seed, 1 + seed * 7 % 40, count, fault);
            }
        }
    }
}

#[test]
fn stores_that_fail_again_and_again_lose_nothing() {
    for seed in 100..250 {
        live(seed, u64::MAX / 2, 0, Fault::Io);
    }
}

#[test]
fn a_disk_that_stays_full_is_read_restarted_and_used_again_when_there_is_room() {
    for seed in 0..60 {
        let mut world = KeyedWorld::new(seed, Harm::BadDisk);
        for _ in 0..40 {
            world.step();
            world.collect();
        }
        let room = world.rng.below(3_000);
        world
            .disk
            .set_capacity(Some(world.disk.used_bytes() + room));
        for round in 0..3 {
            for _ in 0..40 {
                world.step();
                world.collect();
            }
            let disk = match (seed + round) % 3 {
                0 => world.disk.process_kill(),
                1 => world.disk.power_loss(Survival::Nothing),
                _ => world.disk.power_loss(Survival::Seeded(seed)),
            };
            world.restart(disk);
        }
        world.finish();
        let disk = world.disk.power_loss(Survival::Nothing);
        world.restart(disk);
        world.check();
    }
}
