//! A disk that is full, or fails, at any operation, under a server that lives
//! on (known failures B034, B035).

use mainstem_env::{Fault, Survival};

use crate::common::*;

/// A life in which the operations from `first` on fail, `count` of them. True
/// if it came to that.
fn live(seed: u64, first: u64, count: u64, fault: Fault) -> bool {
    let mut world = World::new(seed, Harm::BadDisk);
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
    for seed in 0..3 {
        let failing = (1..).take_while(|first| live(seed, *first, 1, Fault::Io));
        assert!(failing.count() > 30);
    }
}

#[test]
fn a_disk_that_fails_for_a_while_is_survived() {
    for seed in 0..60 {
        for count in [2, 3, 8, 40] {
            for fault in [Fault::Io, Fault::DiskFull] {
                live(seed, 1 + seed * 7 % 40, count, fault);
            }
        }
    }
}

#[test]
fn a_failure_while_a_start_repairs_what_a_crash_left_is_survived() {
    for seed in 0..40 {
        for first in 1..12 {
            let mut world = World::new(seed, Harm::BadDisk);
            for _ in 0..60 {
                world.step();
                world.collect();
            }
            let disk = match seed % 3 {
                0 => world.disk.process_kill(),
                1 => world.disk.power_loss(Survival::Nothing),
                _ => world.disk.power_loss(Survival::Seeded(seed)),
            };
            for number in first..first + 1 + seed % 3 {
                disk.fail(number, Fault::Io);
            }
            world.restart(disk);
            for _ in 0..30 {
                world.step();
                world.collect();
            }
            world.finish();
            let disk = world.disk.power_loss(Survival::Nothing);
            world.restart(disk);
            world.check();
        }
    }
}

#[test]
fn a_disk_that_stays_full_is_read_restarted_and_used_again_when_there_is_room() {
    for seed in 0..60 {
        let mut world = World::new(seed, Harm::BadDisk);
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
            world.check();
        }
        world.finish();
        let disk = world.disk.power_loss(Survival::Nothing);
        world.restart(disk);
        world.check();
    }
}

#[test]
fn above_the_limit_of_the_disk_writes_are_refused_and_reads_go_on() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let server = Server::start(&disk(1), &catalog, log_config());
    server.append(1, 0, &rows(0, 3, 5));
    let request = Produce::to(1, -1).bucket(0, batch(7, 0, &rows(3, 1, 5)));
    assert!(server.replicas.disk().observe(0.9));
    assert_eq!(server.produced(server.produce(&request))[0].result, Err(10));
    assert_eq!(
        server.fetched(&Fetch::of(1).bucket(0, 0))[0].rows().len(),
        3
    );
    assert!(server.replicas.disk().observe(0.7));
    let call = server.produce(&request);
    server.sync();
    assert_eq!(server.produced(call)[0].result, Ok(3));
}
