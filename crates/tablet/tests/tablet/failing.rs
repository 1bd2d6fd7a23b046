//! A disk that is full, or fails, at any operation, and stores of rows that fail,
//! under a server that lives on (known failures B034, B035, R05).

use mainstem_env::{Fault, SimFileSystem, Survival};

use crate::common::*;

/// A life in which the operations from `first` on fail, `count` of them. True if it
/// came to that.
fn live<L: Ledger>(seed: u64, first: u64, count: u64, fault: Fault) -> bool {
    let mut world = World::<L>::new(seed, Harm::BadDisk);
    let start = world.disk.operations();
    for number in first..first + count {
        world.disk.fail(start + number, fault);
    }
    world.live(80);
    let happened = world.disk.operations() >= start + first;
    world.finish_and_lose_power();
    happened
}

fn fail_every_operation<L: Ledger>(fault: Fault) {
    for seed in 0..3 {
        let failing = (1..).take_while(|first| live::<L>(seed, *first, 1, fault));
        assert!(failing.count() > 30);
    }
}

#[test]
fn a_full_disk_at_any_operation_refuses_and_loses_nothing() {
    fail_every_operation::<LogLedger>(Fault::DiskFull);
}

#[test]
fn a_full_disk_at_any_operation_refuses_and_loses_no_row() {
    fail_every_operation::<KeyedLedger>(Fault::DiskFull);
}

#[test]
fn a_failure_of_any_operation_refuses_and_loses_nothing() {
    fail_every_operation::<LogLedger>(Fault::Io);
}

#[test]
fn a_failure_of_any_operation_refuses_and_loses_no_row() {
    fail_every_operation::<KeyedLedger>(Fault::Io);
}

fn fail_for_a_while<L: Ledger>() {
    for seed in 0..60 {
        for count in [2, 3, 8, 40] {
            for fault in [Fault::Io, Fault::DiskFull] {
                live::<L>(seed, 1 + seed * 7 % 40, count, fault);
            }
        }
    }
}

#[test]
fn a_disk_that_fails_for_a_while_is_survived() {
    fail_for_a_while::<LogLedger>();
}

#[test]
fn a_disk_and_stores_that_fail_for_a_while_are_survived() {
    fail_for_a_while::<KeyedLedger>();
}

#[test]
fn stores_that_fail_again_and_again_lose_nothing() {
    for seed in 100..250 {
        live::<KeyedLedger>(seed, u64::MAX / 2, 0, Fault::Io);
    }
}

/// The disk after the machine has stopped in one of three ways.
fn stopped(disk: &SimFileSystem, way: u64) -> SimFileSystem {
    match way % 3 {
        0 => disk.process_kill(),
        1 => disk.power_loss(Survival::Nothing),
        _ => disk.power_loss(Survival::Seeded(way)),
    }
}

#[test]
fn a_failure_while_a_start_repairs_what_a_crash_left_is_survived() {
    for seed in 0..40 {
        for first in 1..12 {
            let mut world = World::<LogLedger>::new(seed, Harm::BadDisk);
            world.live(60);
            let disk = stopped(&world.disk, seed);
            for number in first..first + 1 + seed % 3 {
                disk.fail(number, Fault::Io);
            }
            world.restart(disk);
            world.live(30);
            world.finish_and_lose_power();
        }
    }
}

fn stay_full<L: Ledger>() {
    for seed in 0..60 {
        let mut world = World::<L>::new(seed, Harm::BadDisk);
        world.live(40);
        let room = world.rng.below(3_000);
        let capacity = world.disk.used_bytes() + room;
        world.disk.set_capacity(Some(capacity));
        for round in 0..3 {
            world.live(40);
            world.restart(stopped(&world.disk, seed + round));
            // Rows may not be opened as long as there is no room.
            if !L::KEYED {
                world.check();
            }
        }
        world.finish_and_lose_power();
    }
}

#[test]
fn a_disk_that_stays_full_is_read_restarted_and_used_again_when_there_is_room() {
    stay_full::<LogLedger>();
}

#[test]
fn rows_on_a_disk_that_stays_full_are_there_when_there_is_room() {
    stay_full::<KeyedLedger>();
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
