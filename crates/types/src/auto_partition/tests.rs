//! The vectors PN1–PN6, PM1–PM7 and PC11–PC16 of tables.md §9.6.

use chrono::{NaiveDate, NaiveDateTime};

use super::AutoPartitionUnit::{Day, Hour, Month, Quarter, Year};
use super::*;
use crate::ErrorCode;

fn utc(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M").unwrap()
}

fn ms(text: &str) -> i64 {
    utc(text).and_utc().timestamp_millis()
}

fn strategy(unit: AutoPartitionUnit, precreate: i32, retention: i32) -> AutoPartitionStrategy {
    AutoPartitionStrategy {
        enabled: true,
        key_index: 0,
        key_count: 1,
        unit,
        format: TimeFormat::of_unit(unit),
        has_explicit_format: false,
        zone: TimeZone::GMT,
        precreate,
        retention,
    }
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| (format!("table.auto-partition.{key}"), (*value).to_owned()))
        .collect()
}

#[test]
fn pn1_to_pn6_names_around_a_moment() {
    // 11:11 local time; the zone id is one that Java takes for GMT.
    let now = ms("2024-11-11T11:11");
    let dashed = TimeFormat::parse(Day, "yyyy-MM-dd").unwrap();
    for (unit, format, names) in [
        (
            Year,
            None,
            &[
                (-1, "2023"),
                (0, "2024"),
                (1, "2025"),
                (2, "2026"),
                (3, "2027"),
            ][..],
        ),
        (
            Quarter,
            None,
            &[
                (-1, "20243"),
                (0, "20244"),
                (1, "20251"),
                (2, "20252"),
                (3, "20253"),
            ],
        ),
        (
            Month,
            None,
            &[
                (-1, "202410"),
                (0, "202411"),
                (1, "202412"),
                (2, "202501"),
                (3, "202502"),
            ],
        ),
        (
            Day,
            None,
            &[
                (-1, "20241110"),
                (0, "20241111"),
                (3, "20241114"),
                (20, "20241201"),
            ],
        ),
        (
            Day,
            Some(dashed),
            &[(-1, "2024-11-10"), (0, "2024-11-11"), (20, "2024-12-01")],
        ),
        (
            Hour,
            None,
            &[
                (-2, "2024111109"),
                (0, "2024111111"),
                (3, "2024111114"),
                (13, "2024111200"),
            ],
        ),
    ] {
        let mut strategy = strategy(unit, 0, 0);
        strategy.zone = TimeZone::parse("UTC-8");
        if let Some(format) = format {
            strategy.format = format;
        }
        for (steps, name) in names {
            assert_eq!(
                strategy.value_at(now, *steps).as_deref(),
                Some(*name),
                "{unit} {steps}"
            );
        }
    }
}

#[test]
fn months_end_where_they_end() {
    let january = ms("2024-01-31T00:00");
    assert_eq!(
        strategy(Month, 0, 0).value_at(january, 1).as_deref(),
        Some("202402")
    );
    assert_eq!(
        strategy(Year, 0, 0)
            .value_at(ms("2024-02-29T00:00"), 1)
            .as_deref(),
        Some("2025")
    );
}

#[test]
fn times_without_a_text_have_no_value() {
    let now = ms("2024-11-11T11:11");
    for unit in [Hour, Day, Month, Quarter, Year] {
        let strategy = strategy(unit, 0, 0);
        for steps in [i64::MAX, i64::MIN, 100_000_000_000] {
            assert_eq!(strategy.value_at(now, steps), None, "{unit} {steps}");
        }
        assert_eq!(strategy.value_at(i64::MAX, 0), None);
    }
    assert_eq!(
        strategy(Year, 0, 0).value_at(now, 7_975).as_deref(),
        Some("9999")
    );
    assert_eq!(strategy(Year, 0, 0).value_at(now, 7_976), None);
    assert_eq!(strategy(Year, 0, 0).value_at(now, -2_024), None);
}

/// A table whose partitions follow the plans of its strategy.
struct Table {
    strategy: AutoPartitionStrategy,
    names: Vec<String>,
}

impl Table {
    fn new(strategy: AutoPartitionStrategy) -> Self {
        Self {
            strategy,
            names: Vec::new(),
        }
    }

    fn round(&mut self, now: &str, jitter: u32, forced: bool) -> Plan {
        let plan = self
            .strategy
            .plan(&self.names, ms(now), jitter, forced, 1000);
        self.names.retain(|name| !plan.drop.contains(name));
        self.names.extend(plan.create.iter().cloned());
        self.names.sort();
        plan
    }

    fn add(&mut self, names: &[&str]) {
        self.names
            .extend(names.iter().map(|name| (*name).to_owned()));
        self.names.sort();
    }

    fn remove(&mut self, name: &str) {
        self.names.retain(|known| known != name);
    }

    #[track_caller]
    fn check(&self, names: &[&str]) {
        assert_eq!(self.names, names);
    }
}

type Manager<'a> = (
    AutoPartitionUnit,
    &'a str,
    &'a [&'a str],
    &'a str,
    [(&'a str, &'a [&'a str]); 2],
);

#[test]
fn pm1_to_pm5_partitions_follow_the_clock() {
    let vectors: [Manager<'_>; 5] = [
        (
            Hour,
            "2024-09-10T01:00",
            &["2024091001", "2024091002", "2024091003", "2024091004"],
            "2024091006",
            [
                (
                    "2024-09-10T04:00",
                    &[
                        "2024091002",
                        "2024091003",
                        "2024091004",
                        "2024091005",
                        "2024091006",
                        "2024091007",
                    ],
                ),
                (
                    "2024-09-10T06:00",
                    &[
                        "2024091004",
                        "2024091005",
                        "2024091006",
                        "2024091007",
                        "2024091008",
                        "2024091009",
                    ],
                ),
            ],
        ),
        (
            Day,
            "2024-09-10T00:00",
            &["20240910", "20240911", "20240912", "20240913"],
            "20240915",
            [
                (
                    "2024-09-13T23:00",
                    &[
                        "20240911", "20240912", "20240913", "20240914", "20240915", "20240916",
                    ],
                ),
                (
                    "2024-09-15T23:00",
                    &[
                        "20240913", "20240914", "20240915", "20240916", "20240917", "20240918",
                    ],
                ),
            ],
        ),
        (
            Month,
            "2024-09-10T00:00",
            &["202409", "202410", "202411", "202412"],
            "202502",
            [
                (
                    "2024-12-10T00:00",
                    &["202410", "202411", "202412", "202501", "202502", "202503"],
                ),
                (
                    "2025-02-10T00:00",
                    &["202412", "202501", "202502", "202503", "202504", "202505"],
                ),
            ],
        ),
        (
            Quarter,
            "2024-09-10T00:00",
            &["20243", "20244", "20251", "20252"],
            "20254",
            [
                (
                    "2025-06-10T00:00",
                    &["20244", "20251", "20252", "20253", "20254", "20261"],
                ),
                (
                    "2025-12-10T00:00",
                    &["20252", "20253", "20254", "20261", "20262", "20263"],
                ),
            ],
        ),
        (
            Year,
            "2024-09-10T00:00",
            &["2024", "2025", "2026", "2027"],
            "2029",
            [
                (
                    "2027-09-10T00:00",
                    &["2025", "2026", "2027", "2028", "2029", "2030"],
                ),
                (
                    "2029-09-10T00:00",
                    &["2027", "2028", "2029", "2030", "2031", "2032"],
                ),
            ],
        ),
    ];
    for jitter in [0, 700, MAX_JITTER_MINUTES] {
        for (unit, start, initially, manual, rounds) in &vectors {
            let mut table = Table::new(strategy(*unit, 4, 2));
            table.round(start, jitter, true);
            table.check(initially);
            table.add(&[manual]);
            table.remove(initially[0]);
            for (now, names) in rounds {
                table.round(now, jitter, false);
                table.check(names);
            }
        }
    }
}

#[test]
fn pm6_and_pm7_with_two_keys_partitions_are_only_dropped() {
    let two_keys = |unit| AutoPartitionStrategy {
        key_count: 2,
        ..strategy(unit, 4, 2)
    };
    let mut hours = Table::new(two_keys(Hour));
    hours.round("2024-09-10T01:00", 0, true);
    hours.check(&[]);
    hours.add(&[
        "2024091001$A",
        "2024091001$B",
        "2024091001$C",
        "2024091002$B",
        "2024091003$A",
        "2024091004$A",
        "2024091005$A",
    ]);
    hours.round("2024-09-10T04:00", 0, false);
    hours.check(&[
        "2024091002$B",
        "2024091003$A",
        "2024091004$A",
        "2024091005$A",
    ]);
    hours.round("2024-09-10T06:00", 0, false);
    hours.check(&["2024091004$A", "2024091005$A"]);

    let mut months = Table::new(two_keys(Month));
    months.add(&[
        "202409$A", "202409$B", "202409$C", "202410$B", "202411$A", "202412$A", "202413$A",
    ]);
    months.round("2024-12-10T00:00", 0, false);
    months.check(&["202410$B", "202411$A", "202412$A", "202413$A"]);
    months.round("2025-02-10T00:00", 0, false);
    months.check(&["202412$A", "202413$A"]);
}

#[test]
fn the_time_key_may_be_any_of_the_keys() {
    let mut table = Table::new(AutoPartitionStrategy {
        key_count: 2,
        key_index: 1,
        ..strategy(Year, 0, 1)
    });
    table.add(&["A$2020", "B$2023", "9999$2024", "only-one-value"]);
    let plan = table.round("2024-05-01T00:00", 0, false);
    assert_eq!(plan.drop, ["A$2020"]);
}

#[test]
fn only_unforced_creation_of_days_is_delayed() {
    let day = strategy(Day, 2, 7);
    let now = ms("2024-09-10T10:00");
    let none: [&str; 0] = [];
    assert_eq!(
        day.plan(&none, now, 601, false, 1000).create,
        ["20240909", "20240910"]
    );
    assert_eq!(
        day.plan(&none, now, 599, false, 1000).create,
        ["20240910", "20240911"]
    );
    assert_eq!(
        day.plan(&none, now, 601, true, 1000).create,
        ["20240910", "20240911"]
    );
    let month = strategy(Month, 1, 7);
    assert_eq!(
        month
            .plan(&none, ms("2024-09-01T00:01"), 601, false, 1000)
            .create,
        ["202409"]
    );
    // Drops are not delayed.
    let old = ["20240902", "20240903"];
    assert_eq!(day.plan(&old, now, 1_379, false, 1000).drop, ["20240902"]);
}

#[test]
fn a_delayed_round_never_creates_what_it_would_drop() {
    let strategy = strategy(Day, 2, 0);
    let mut table = Table::new(strategy);
    for _ in 0..2 {
        let plan = table.round("2024-09-10T10:00", 700, false);
        assert_eq!(plan.drop, Vec::<String>::new());
    }
    table.check(&["20240910"]);
}

#[test]
fn negative_retention_keeps_everything_and_the_hidden_partition_stays() {
    let now = ms("2024-09-10T10:00");
    let old = ["1990", "__historical__"];
    assert_eq!(
        strategy(Year, 0, -1).plan(&old, now, 0, false, 1000),
        Plan::default()
    );
    assert_eq!(
        strategy(Year, 0, 3).plan(&old, now, 0, false, 1000).drop,
        ["1990"]
    );
    // Back to before the first year: nothing is older.
    assert_eq!(
        strategy(Year, 0, i32::MAX).plan(&old, now, 0, false, 1000),
        Plan::default()
    );
    // Also where the hidden partition would sort before the values.
    let letters = AutoPartitionStrategy {
        format: TimeFormat::parse(Year, "'y'yyyy").unwrap(),
        ..strategy(Year, 0, 0)
    };
    assert_eq!(
        letters
            .plan(&["__historical__", "y2023"], now, 0, false, 9)
            .drop,
        ["y2023"]
    );
}

#[test]
fn creation_ends_at_the_limit_and_says_so() {
    let now = ms("2024-09-10T10:00");
    let plan = strategy(Hour, i32::MAX, 7).plan(&["x"], now, 0, true, 4);
    assert_eq!(plan.create.len(), 3);
    assert!(plan.limited);
    let none: [&str; 0] = [];
    let plan = strategy(Year, 10, 7).plan(&none, now, 0, true, 10);
    assert_eq!((plan.create.len(), plan.limited), (10, false));
    // The calendar ends before the precreation does.
    assert_eq!(
        strategy(Year, i32::MAX, 7)
            .plan(&none, now, 0, true, 100_000)
            .create
            .len(),
        7_976
    );
}

#[test]
fn disabled_tables_have_no_plan() {
    let off = AutoPartitionStrategy {
        enabled: false,
        ..strategy(Day, 2, 1)
    };
    assert_eq!(
        off.plan(&["19990101"], ms("2024-09-10T10:00"), 0, true, 1000),
        Plan::default()
    );
}

#[test]
fn an_hour_that_summer_time_repeats_is_created_once() {
    let mut strategy = strategy(Hour, 4, 7);
    strategy.zone = TimeZone::parse("Europe/Paris");
    let none: [&str; 0] = [];
    // 00:30 UTC on 27 October 2024 is 02:30 in summer time, an hour later again 02:30.
    let plan = strategy.plan(&none, ms("2024-10-27T00:30"), 0, true, 1000);
    assert_eq!(plan.create, ["2024102702", "2024102703", "2024102704"]);
}

#[track_caller]
fn check_refused(strategy: &AutoPartitionStrategy, value: &str, now: &str, fragment: &str) {
    let error = strategy
        .check_create(value, ms(now))
        .expect_err("must be refused");
    assert_eq!(error.code, ErrorCode::PartitionSpecInvalid);
    assert!(error.message.contains(fragment), "{error}");
}

#[test]
fn pc11_a_value_of_another_form_is_refused() {
    let strategy = strategy(Year, 2, 7);
    check_refused(
        &strategy,
        "2024-03-25",
        "2024-09-10T00:00",
        "does not match the expected format 'yyyy' for auto-partition time unit 'YEAR'",
    );
}

#[test]
fn pc12_values_before_the_retention_are_refused() {
    let now = "2024-09-10T00:00";
    for (unit, old, kept) in [
        (Year, "2016", "2017"),
        (Month, "202401", "202402"),
        (Day, "20240902", "20240903"),
        (Quarter, "20223", "20224"),
        (Hour, "2024090916", "2024090917"),
    ] {
        let strategy = strategy(unit, 2, 7);
        check_refused(
            &strategy,
            old,
            now,
            &format!("is out-of-date. The earliest retained partition is '{kept}'"),
        );
        assert_eq!(strategy.check_create(kept, ms(now)), Ok(()));
    }
}

#[test]
fn pc13_an_explicit_form_holds_without_auto_partition() {
    let strategy = AutoPartitionStrategy::from_properties(
        &["dt".to_owned()],
        &properties(&[("time-format", "yyyy-MM-dd")]),
    )
    .unwrap();
    assert!(!strategy.enabled);
    let now = "2024-09-10T00:00";
    assert_eq!(strategy.check_create("2000-01-01", ms(now)), Ok(()));
    assert_eq!(strategy.check_create("2024-02-31", ms(now)), Ok(()));
    for value in ["20000101", "2024-02-32", "0000-01-01"] {
        check_refused(
            &strategy,
            value,
            now,
            "does not match the expected format 'yyyy-MM-dd'",
        );
    }
    // Without one, anything goes.
    let free =
        AutoPartitionStrategy::from_properties(&["dt".to_owned()], &properties(&[])).unwrap();
    assert_eq!(free.check_create("whatever", ms(now)), Ok(()));
}

#[test]
fn pc14_the_future_is_not_limited() {
    assert_eq!(
        strategy(Year, 2, 7).check_create("2034", ms("2024-09-10T00:00")),
        Ok(())
    );
}

#[test]
fn pc16_what_is_past() {
    let strategy = AutoPartitionStrategy {
        format: TimeFormat::parse(Day, "yyyy-MM-dd").unwrap(),
        ..strategy(Day, 2, 7)
    };
    let now = NaiveDate::from_ymd_opt(2024, 1, 10)
        .unwrap()
        .and_hms_opt(0, 0, 0)
        .unwrap();
    let now = now.and_utc().timestamp_millis();
    for (value, past) in [
        ("2024-01-09", true),
        ("2024-01-10", false),
        ("2024-01-11", false),
        ("20240109", false),
    ] {
        assert_eq!(strategy.is_past(value, now), past, "{value}");
    }
}

#[test]
fn observed_cases_of_an_enabled_table() {
    // behaviour.md §7: auto on, retention 2.
    let now = "2026-11-30T12:00";
    let two = strategy(Day, 2, 2);
    for value in ["20261128", "20261130", "20261205"] {
        assert_eq!(two.check_create(value, ms(now)), Ok(()));
    }
    check_refused(&two, "20261127", now, "out-of-date");
    check_refused(&two, "20260230", now, "out-of-date");
    for value in [
        "abc",
        "2026113",
        "20261301",
        "00000101",
        "2026-11-30",
        "20261130x",
    ] {
        check_refused(&two, value, now, "does not match the expected format");
    }
    // Negative retention is no limit here; the reference refuses today.
    let all = strategy(Day, 2, -1);
    for value in ["19990101", "20261130", "20261201"] {
        assert_eq!(all.check_create(value, ms(now)), Ok(()));
    }
}

#[test]
fn options_are_read_with_their_defaults() {
    let keys = ["region".to_owned(), "dt".to_owned()];
    let strategy = AutoPartitionStrategy::from_properties(
        &keys,
        &properties(&[
            ("enabled", "true"),
            ("key", "dt"),
            ("time-unit", "month"),
            ("time-zone", "Asia/Shanghai"),
            ("num-precreate", "0"),
            ("num-retention", "-1"),
        ]),
    )
    .unwrap();
    assert_eq!(
        strategy,
        AutoPartitionStrategy {
            enabled: true,
            key_index: 1,
            key_count: 2,
            unit: Month,
            format: TimeFormat::of_unit(Month),
            has_explicit_format: false,
            zone: TimeZone::parse("Asia/Shanghai"),
            precreate: 0,
            retention: -1,
        }
    );
    let default = AutoPartitionStrategy::from_properties(&keys[..1], &properties(&[])).unwrap();
    assert_eq!(
        (default.unit, default.precreate, default.retention),
        (Day, 2, 7)
    );
    assert_eq!(default.zone, TimeZone::Local);
    let no_key = AutoPartitionStrategy::from_properties(&keys, &properties(&[("key", "x")]));
    assert_eq!(no_key.unwrap_err().code, ErrorCode::InvalidTable);
}
