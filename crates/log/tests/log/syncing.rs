use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mainstem_env::{Fault, ManualClock, Operation, SimFileSystem, Survival};
use mainstem_log::{Durability, DurabilityListener, LogConfig, LogError, LogTablet, Syncer};
use parking_lot::Mutex;

use crate::support::*;

/// Reports each move of the durable end, or the failure.
struct Reporter(Mutex<SyncSender<Result<i64, String>>>);

impl DurabilityListener for Reporter {
    fn durable_end_moved(&self, durable_end: i64) {
        self.0.lock().send(Ok(durable_end)).unwrap();
    }

    fn storage_failed(&self, error: &LogError) {
        self.0.lock().send(Err(error.to_string())).unwrap();
    }
}

fn report(tablet: &LogTablet) -> Receiver<Result<i64, String>> {
    // Larger than any test's number of syncs.
    let (sender, receiver) = sync_channel(10_000);
    assert!(
        tablet
            .set_listener(Arc::new(Reporter(Mutex::new(sender))))
            .is_ok()
    );
    receiver
}

#[test]
fn nothing_is_durable_before_its_bytes_and_all_entries_above_are_synced() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let appended = append(&tablet, &[plain(2, 10)], 0).unwrap();
    assert!(appended.sync_wanted);
    assert_eq!((tablet.end_offset(), tablet.durable_end_offset()), (2, 0));
    assert!(tablet.needs_sync(0));
    let before = fs.trace().len();
    assert_eq!(tablet.sync(0).unwrap(), 2);
    assert!(!tablet.needs_sync(0));
    let synced: Vec<_> = fs.trace()[before..]
        .iter()
        .filter_map(|one| match one {
            Operation::SyncData(path) | Operation::SyncDir(path) => {
                Some(path.to_str().unwrap().to_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        synced,
        [
            "/data/db/t-1/log-0/00000000000000000000.log",
            "/data/db/t-1/log-0",
            "/data/db/t-1",
            "/data/db",
            "/data"
        ]
    );
    let (_, report) = open(&fs.power_loss(Survival::Nothing), &LogConfig::default()).unwrap();
    assert_eq!(report.log_end_offset, 2);
}

#[test]
fn a_sync_without_anything_new_touches_nothing() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    tablet.sync(0).unwrap();
    append(&tablet, &[plain(2, 10)], 0).unwrap();
    tablet.sync(0).unwrap();
    let operations = fs.operations();
    tablet.sync(0).unwrap();
    // Only the durable mark could have been written.
    assert_eq!(fs.operations(), operations);
}

#[test]
fn with_durability_os_bytes_count_at_once_and_are_synced_with_checkpoints() {
    let config = LogConfig {
        durability: Durability::Os,
        checkpoint_bytes: 500,
        checkpoint_min_interval_ms: 100,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    let wanted: Vec<bool> = (0..10)
        .map(|number| {
            let appended = append(&tablet, &[plain(1, 52)], 1_000 + number * 30).unwrap();
            assert_eq!(tablet.durable_end_offset(), appended.end_offset);
            if appended.sync_wanted {
                tablet.sync(1_000 + number * 30).unwrap();
            }
            appended.sync_wanted
        })
        .collect();
    // The epoch is new: as soon as the interval allows. Then after 500 bytes.
    assert_eq!(
        wanted.iter().filter(|wanted| **wanted).count(),
        2,
        "{wanted:?}"
    );
    assert!(
        !fs.trace()
            .iter()
            .any(|one| matches!(one, Operation::Create(path) if path.ends_with("durable.mark")))
    );
    let (_, report) = open(&fs.power_loss(Survival::Nothing), &config).unwrap();
    assert!(report.log_end_offset >= 6 && report.quarantine.is_none());
    let (_, report) = open(&fs.process_kill(), &config).unwrap();
    assert_eq!((report.log_end_offset, report.durable_end_offset), (10, 10));
}

#[test]
fn a_checkpoint_comes_after_the_acknowledgement_and_bounds_the_scan() {
    let config = LogConfig {
        checkpoint_bytes: 1_000,
        ..LogConfig::default()
    };
    let fs = disk(1);
    let (tablet, _) = open(&fs, &config).unwrap();
    let durable = report(&tablet);
    for number in 0..100 {
        append(
            &tablet,
            &[batch(7, number, 1, 60)],
            1_000 + i64::from(number) * 1_000,
        )
        .unwrap();
        tablet.sync(1_000 + i64::from(number) * 1_000).unwrap();
        assert_eq!(durable.try_recv().unwrap(), Ok(i64::from(number) + 1));
    }
    let (_, report) = open(&fs.process_kill(), &config).unwrap();
    assert!(report.scanned_bytes <= 1_100, "{}", report.scanned_bytes);
    assert_eq!((report.log_end_offset, report.writers), (100, 1));
    // After a clean close nothing is read.
    tablet.close(200_000).unwrap();
    let (tablet, report) = open(&fs.process_kill(), &config).unwrap();
    assert_eq!((report.scanned_bytes, report.log_end_offset), (0, 100));
    assert!(
        append(&tablet, &[batch(7, 95, 1, 60)], 0)
            .unwrap()
            .duplicate
    );
}

#[test]
fn a_failed_sync_is_never_repeated_as_if_it_had_worked() {
    for fault in [Fault::Io, Fault::DiskFull] {
        for failing in 1..=5 {
            let fs = disk(failing);
            let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
            let told = report(&tablet);
            append(&tablet, &[batch(7, 0, 2, 3_000)], 0).unwrap();
            fs.fail(fs.operations() + failing, fault);
            tablet.sync(0).unwrap_err();
            assert!(told.recv().unwrap().is_err());
            assert_eq!(tablet.durable_end_offset(), 0);
            // No later sync, append or close pretends.
            assert!(matches!(tablet.sync(0).unwrap_err(), LogError::Failed(_)));
            let refused = append(&tablet, &[batch(7, 1, 2, 10)], 0).unwrap_err();
            assert!(matches!(refused, LogError::Failed(_)));
            tablet.close(0).unwrap();
            assert_eq!(tablet.durable_end_offset(), 0);
            // Nor does the next open: what it found it has written again.
            let (reopened, report) = open(&fs, &LogConfig::default()).unwrap();
            let durable_end = report.durable_end_offset;
            assert_eq!((durable_end, report.quarantine), (0, None));
            append(&reopened, &[batch(7, 0, 2, 3_000)], 0).unwrap();
            reopened.sync(0).unwrap();
            let after = fs.power_loss(Survival::Nothing);
            let (_, report) = open(&after, &LogConfig::default()).unwrap();
            assert_eq!(report.log_end_offset, 2);
        }
    }
}

#[test]
fn data_that_a_failed_sync_lost_is_not_promised_after_the_next_open() {
    for seed in 0..50 {
        let fs = disk(seed);
        let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
        append(&tablet, &[batch(7, 0, 2, 3_000)], 0).unwrap();
        tablet.sync(0).unwrap();
        append(&tablet, &[batch(7, 1, 2, 3_000)], 0).unwrap();
        fs.fail(fs.operations() + 1, Fault::Io);
        tablet.sync(0).unwrap_err();
        // Reads of what is durable go on.
        assert_eq!(tablet.durable_end_offset(), 2);
        assert_eq!(read_all(&tablet, 0, 2, 1 << 20).len(), 3_048);
        let (tablet, report) = open(&fs, &LogConfig::default()).unwrap();
        assert_eq!(report.durable_end_offset, 2);
        let survival = Survival::Seeded(seed);
        let (_, report) = open(&fs.power_loss(survival), &LogConfig::default()).unwrap();
        assert!(report.quarantine.is_none() && report.log_end_offset >= 2);
        // Once the next sync has worked, it has.
        assert_eq!(tablet.sync(0).unwrap(), 4);
        let survival = Survival::Nothing;
        let (_, report) = open(&fs.power_loss(survival), &LogConfig::default()).unwrap();
        assert_eq!((report.log_end_offset, report.quarantine), (4, None));
    }
}

#[test]
fn one_sync_covers_everything_that_came_before_it() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for number in 0..100 {
        append(&tablet, &[batch(7, number, 1, 60)], 0).unwrap();
    }
    tablet.sync(0).unwrap();
    let path = Path::new(DIR).join("00000000000000000000.log");
    let syncs = fs
        .trace()
        .into_iter()
        .filter(|one| *one == Operation::SyncData(path.clone()));
    assert_eq!(syncs.count(), 1);
    assert_eq!(tablet.durable_end_offset(), 100);
}

#[test]
fn the_syncer_serves_many_writers_and_says_when_each_is_durable() {
    let fs = disk(1);
    let syncer = Syncer::new(3, Arc::new(ManualClock::new(0)));
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let durable = report(&tablet);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (tablet, syncer) = (&tablet, &syncer);
            scope.spawn(move || {
                for sequence in 0..200 {
                    append(tablet, &[batch(writer, sequence, 1, 60)], 0).unwrap();
                    syncer.request(tablet);
                }
            });
        }
        // Whatever is reported durable survives a power loss at once.
        while let Ok(durable_end) = durable.recv().unwrap() {
            if durable_end % 50 == 0 || durable_end == 800 {
                let after = fs.power_loss(Survival::Nothing);
                let (_, report) = open(&after, &LogConfig::default()).unwrap();
                assert!(report.log_end_offset >= durable_end && report.quarantine.is_none());
            }
            if durable_end == 800 {
                break;
            }
        }
    });
    assert!(syncer.thread_count() <= 3);
    drop(syncer);
    assert_eq!(tablet.durable_end_offset(), 800);
}

#[test]
fn what_was_queued_is_synced_before_the_syncer_ends() {
    let fs = disk(1);
    let syncer = Syncer::new(2, Arc::new(ManualClock::new(0)));
    let config = LogConfig::default();
    let resources = mainstem_log::LogResources::new(Arc::new(fs.clone()), "/data".into(), 16);
    let tablets: Vec<Arc<LogTablet>> = (0..20)
        .map(|number| {
            let dir = format!("/data/db/t-1/log-{number}").into();
            let opened = LogTablet::open(Arc::clone(&resources), dir, config.clone().into(), 0);
            Arc::new(opened.unwrap().0)
        })
        .collect();
    for tablet in &tablets {
        append(tablet, &[plain(1, 5)], 0).unwrap();
        syncer.request(tablet);
        syncer.request(tablet);
    }
    drop(syncer);
    assert!(
        tablets
            .iter()
            .all(|tablet| tablet.durable_end_offset() == 1)
    );
}

#[test]
fn a_simulated_syncer_works_only_when_told() {
    let fs = disk(1);
    let syncer = Syncer::simulated(Arc::new(ManualClock::new(0)));
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    append(&tablet, &[plain(1, 5)], 0).unwrap();
    syncer.request(&tablet);
    syncer.request(&tablet);
    assert_eq!((tablet.durable_end_offset(), syncer.thread_count()), (0, 0));
    assert!(syncer.run_next());
    assert_eq!(tablet.durable_end_offset(), 1);
    assert!(!syncer.run_next());
}

/// Holds the syncer, as a server's replica does.
struct Owner(Mutex<Option<Arc<Syncer>>>);

impl DurabilityListener for Owner {
    fn durable_end_moved(&self, _: i64) {
        self.0.lock().take();
    }

    fn storage_failed(&self, _: &LogError) {}
}

#[test]
fn a_syncer_that_is_dropped_by_its_own_thread_does_not_wait_for_itself() {
    let fs = disk(1);
    let syncer = Arc::new(Syncer::new(1, Arc::new(ManualClock::new(0))));
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let owner = Arc::new(Owner(Mutex::new(Some(Arc::clone(&syncer)))));
    assert!(tablet.set_listener(owner.clone()).is_ok());
    append(&tablet, &[plain(1, 5)], 0).unwrap();
    syncer.request(&tablet);
    drop(syncer);
    while owner.0.lock().is_some() {
        std::thread::yield_now();
    }
    // The thread goes on to its end: it lets the tablet go.
    while Arc::strong_count(&tablet) > 1 {
        std::thread::yield_now();
    }
}

#[test]
fn a_failure_in_the_syncer_is_told_and_other_logs_go_on() {
    let fs = SimFileSystem::new(1);
    mainstem_env::FileSystem::create_dir_all(&fs, Path::new("/data")).unwrap();
    let syncer = Syncer::new(1, Arc::new(ManualClock::new(0)));
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    let told = report(&tablet);
    append(&tablet, &[plain(1, 5)], 0).unwrap();
    fs.fail(fs.operations() + 1, Fault::Io);
    syncer.request(&tablet);
    assert!(told.recv().unwrap().unwrap_err().contains("cannot sync"));
    syncer.request(&tablet);
    assert!(
        told.recv().unwrap().is_err(),
        "asked again, it says so again"
    );
}
