//! tables.md §5.4: partitions that follow time.

use mainstem_types::auto_partition::MAX_JITTER_MINUTES;
use serde_json::Value;

use super::fixture::*;
use crate::CoordinatorConfig;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn by_day(options: &[(&str, &str)]) -> Value {
    let table = with_options(
        partitioned_table(),
        &[
            ("table.auto-partition.enabled", "true"),
            ("table.auto-partition.time-zone", "UTC"),
        ],
    );
    with_options(table, options)
}

#[test]
fn a_new_table_has_its_partitions_in_the_transaction_that_creates_it() {
    let fixture = Fixture::new();
    let before = fixture.store.list("").expect("listed").revision;
    fixture.create("p", &by_day(&[("table.auto-partition.num-precreate", "3")]));
    assert_eq!(
        fixture.store.list("").expect("listed").revision.0,
        before.0 + 1
    );
    assert_eq!(
        fixture.partitions("p"),
        ["20241111", "20241112", "20241113"]
    );
}

#[test]
fn time_creates_partitions_ahead_and_drops_old_ones() {
    let fixture = Fixture::new();
    let options = [
        ("table.auto-partition.num-precreate", "2"),
        ("table.auto-partition.num-retention", "1"),
    ];
    fixture.create("p", &by_day(&options));
    assert_eq!(fixture.partitions("p"), ["20241111", "20241112"]);
    fixture.coordinator.tick();
    assert_eq!(fixture.partitions("p"), ["20241111", "20241112"]);

    // The next day's partition comes some time in the day, at the latest by now.
    fixture
        .clock
        .advance_ms(DAY_MS + i64::from(MAX_JITTER_MINUTES) * 60_000);
    fixture.coordinator.tick();
    assert!(fixture.partitions("p").contains(&"20241113".to_owned()));
    fixture.clock.advance_ms(2 * DAY_MS);
    fixture.coordinator.tick();
    let kept = fixture.partitions("p");
    assert!(!kept.contains(&"20241112".to_owned()), "{kept:?}");
    assert!(kept.contains(&"20241115".to_owned()), "{kept:?}");
}

#[test]
fn enabling_creates_at_once_and_disabling_keeps_what_is_there() {
    let fixture = Fixture::new();
    fixture.create("p", &by_day(&[("table.auto-partition.enabled", "false")]));
    assert_eq!(fixture.partitions("p"), Vec::<String>::new());
    fixture
        .set_options("p", &[("table.auto-partition.enabled", "true")])
        .expect("altered");
    assert_eq!(fixture.partitions("p"), ["20241111", "20241112"]);
    fixture
        .set_options("p", &[("table.auto-partition.num-precreate", "4")])
        .expect("altered");
    assert_eq!(fixture.partitions("p").len(), 4);
    fixture
        .set_options("p", &[("table.auto-partition.enabled", "false")])
        .expect("altered");
    fixture.clock.advance_ms(30 * DAY_MS);
    fixture.coordinator.tick();
    assert_eq!(fixture.partitions("p").len(), 4);
}

#[test]
fn a_table_that_may_have_no_more_does_not_stop_the_others() {
    let config = CoordinatorConfig {
        max_partition_num: 3,
        ..CoordinatorConfig::default()
    };
    let fixture = Fixture::with(config);
    fixture.create(
        "full",
        &by_day(&[("table.auto-partition.num-precreate", "5")]),
    );
    let replicas = [("table.replication.factor", "3")];
    fixture.create("no_servers", &by_day(&replicas));
    fixture.create("other", &by_day(&[]));
    assert_eq!(fixture.partitions("full").len(), 3);
    assert_eq!(fixture.partitions("no_servers").len(), 0);
    fixture.clock.advance_ms(20 * DAY_MS);
    fixture.coordinator.tick();
    for path in ["full", "other"] {
        let partitions = fixture.partitions(path);
        assert!(
            partitions.contains(&"20241201".to_owned()),
            "{path}: {partitions:?}"
        );
    }
}

#[test]
fn a_dropped_table_gets_no_partitions_and_leaves_none() {
    let fixture = Fixture::new();
    for _ in 0..3 {
        fixture.create("p", &by_day(&[]));
        fixture.drop_table("p", false).expect("dropped");
        fixture.clock.advance_ms(2 * DAY_MS);
        fixture.coordinator.tick();
    }
    assert_eq!(
        fixture
            .store
            .list("partitions/")
            .expect("listed")
            .entries
            .len(),
        0
    );
    assert_eq!(fixture.coordinator.catalog().partitions().len(), 0);
}

#[test]
fn one_round_creates_a_bounded_number_of_buckets_and_the_next_goes_on() {
    let fixture = Fixture::new();
    let mut table = by_day(&[("table.auto-partition.num-precreate", "900")]);
    table["bucket_count"] = serde_json::json!(4096);
    fixture.create("wide", &table);
    assert_eq!(fixture.partitions("wide").len(), 4);
    fixture.coordinator.tick();
    assert_eq!(fixture.partitions("wide").len(), 8);
}
