//! Partition keys, auto-partitioning, historical partitions.

use super::*;

#[test]
fn auto_partition_needs_partitions() {
    check_refused(
        log_table(&[("table.auto-partition.enabled", "true")]),
        E39,
        "auto partition is only supported for partitioned table",
    );
}

#[test]
fn partition_keys_are_of_types_with_a_text_form() {
    for bad in [
        "DECIMAL(10, 2)",
        "ARRAY<INT>",
        "MAP<INT, INT>",
        "ROW<f INT>",
    ] {
        check_refused(
            partitioned(bad, &["p"], &[]),
            E15,
            "supported partition key type are",
        );
    }
    for good in [
        "CHAR(2)",
        "STRING",
        "BOOLEAN",
        "BINARY(2)",
        "BYTES",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "TIME(0)",
        "TIMESTAMP(3)",
        "TIMESTAMP_LTZ(3)",
    ] {
        check_created(partitioned(good, &["p"], &[]));
    }
    let auto = ("table.auto-partition.enabled", "true");
    check_created(partitioned("INT", &["p"], &[auto]));
    check_created(partitioned("BOOLEAN", &["p"], &[auto]));
}

/// A table by the hour, day, …, with that time format.
fn time_format(unit: &str, format: &str, enabled: &str) -> TableDescriptor {
    partitioned(
        "STRING",
        &["p"],
        &[
            ("table.auto-partition.enabled", enabled),
            ("table.auto-partition.time-unit", unit),
            ("table.auto-partition.time-format", format),
        ],
    )
}

#[test]
fn time_formats_are_checked_even_without_auto_partition() {
    let long = format!("yyyyMMdd'{}'", "x".repeat(200));
    for (unit, format) in [
        ("DAY", "yyyyMM"),
        ("DAY", "yyyyMMddHH"),
        ("DAY", "yyMMdd"),
        ("DAY", "yyyyMMd"),
        ("DAY", "yyyyMM[dd]"),
        ("DAY", "yyyy/MM/dd"),
        ("HOUR", "yyyyMMddHHmm"),
        ("DAY", "yyyyDDD"),
        ("HOUR", "yyyyMMddhh"),
        ("DAY", "'__'yyyyMMdd"),
        ("DAY", "ddMMyyyy"),
        ("DAY", ""),
        ("DAY", "yyyyMMdd'"),
        ("DAY", long.as_str()),
    ] {
        for enabled in ["true", "false"] {
            check_refused(
                time_format(unit, format, enabled),
                E15,
                "Invalid table property 'table.auto-partition.time-format': ",
            );
        }
    }
    for (unit, format) in [
        ("DAY", "yyyy-MM-dd"),
        ("day", "yyyy-MM-dd'T'"),
        ("YEAR", "uuuu"),
        ("QUARTER", "yyyyQ"),
        ("MONTH", "yyyyMM"),
        ("HOUR", "yyyyMMddHH"),
    ] {
        check_created(time_format(unit, format, "true"));
        check_created(time_format(unit, format, "false"));
    }
}

#[test]
fn auto_partition_by_several_keys_needs_one_that_carries_time() {
    let auto = ("table.auto-partition.enabled", "true");
    let key = |key: &'static str| ("table.auto-partition.key", key);
    let two = |properties: &[(&str, &str)]| partitioned("STRING", &["p", "q"], properties);
    check_refused(two(&[auto]), E15, "must set one auto partition key");
    check_refused(two(&[auto, key("a")]), E15, "is not a partition key");
    let precreate = |number: &'static str| ("table.auto-partition.num-precreate", number);
    check_refused(
        two(&[auto, key("p"), precreate("2")]),
        E15,
        "auto pre-create is unsupported and this value must be set to 0, but is 2",
    );
    check_created(two(&[auto, key("q"), precreate("0")]));
    check_created(two(&[auto, key("q")]));
    check_created(two(&[]));
    let one = partitioned("STRING", &["p"], &[auto, key("q")]);
    check_refused(one, E15, "is not a partition key");
    check_created(partitioned(
        "STRING",
        &["p"],
        &[auto, key("p"), precreate("5")],
    ));
}

#[test]
fn an_unknown_time_zone_is_taken() {
    let zone = ("table.auto-partition.time-zone", "Middle/Earth");
    check_created(partitioned(
        "STRING",
        &["p"],
        &[("table.auto-partition.enabled", "true"), zone],
    ));
}

#[test]
fn vf29_a_date_key_needs_days_with_dashes() {
    let date = |unit: &'static str, format: Option<&'static str>| {
        let mut properties = vec![
            ("table.auto-partition.enabled", "true"),
            ("table.auto-partition.time-unit", unit),
        ];
        properties.extend(format.map(|format| ("table.auto-partition.time-format", format)));
        partitioned("DATE", &["p"], &properties)
    };
    let fragment = "when auto partition key 'p' has DATE type";
    check_refused(date("DAY", None), E15, fragment);
    check_refused(date("MONTH", None), E15, fragment);
    check_refused(date("MONTH", Some("yyyy-MM")), E15, fragment);
    check_refused(date("DAY", Some("yyyyMMdd")), E15, fragment);
    check_created(date("DAY", Some("yyyy-MM-dd")));
    check_created(partitioned("DATE", &["p"], &[]));
}

#[test]
fn historical_partitions_list_all_that_is_unmet() {
    let historical = ("table.datalake.historical-partition.enabled", "true");
    let error = create(log_table(&[historical]), &cluster()).expect_err("unmet");
    assert_eq!(error.code, E39);
    for unmet in [
        "has unmet requirements:",
        "'table.auto-partition.enabled'",
        "'table.datalake.enabled'",
        "'table.datalake.format'",
        "primary key",
        "one partition key",
    ] {
        assert!(error.message.contains(unmet), "{unmet}: {error}");
    }
    let schema = Schema::builder()
        .columns([("a", of("INT")), ("p", of("STRING"))])
        .primary_key(["a", "p"])
        .build()
        .expect("valid");
    let met = with(
        TableDescriptor::new(schema).partitioned_by(["p"]),
        &[
            historical,
            ("table.auto-partition.enabled", "true"),
            ("table.datalake.enabled", "true"),
        ],
    );
    check_created_in(met.clone(), &lake_cluster("paimon"));
    check_refused_in(
        met,
        &lake_cluster("iceberg"),
        E39,
        "unmet requirements: 'table.datalake.format'",
    );
}
