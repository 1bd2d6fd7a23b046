//! Keys and values of options.

use super::*;

#[test]
fn vf12_keys_that_are_no_options_are_refused() {
    check_refused(
        log_table(&[("connector", "fluss")]),
        E39,
        "'connector' is not a Fluss table property. Please use '.customProperty(..)'",
    );
    check_refused(
        log_table(&[("client.x", "1")]),
        E39,
        "is not a Fluss table property",
    );
    for key in ["table.nope", "table.datalake.paimon.warehouse"] {
        check_refused(
            log_table(&[(key, "1")]),
            E39,
            "is not a recognized Fluss table property in the current cluster version",
        );
    }
}

#[test]
fn vf13_values_that_do_not_parse_are_refused() {
    for (key, value) in [
        ("table.log.ttl", "unknown"),
        ("table.log.ttl", "1000"),
        ("table.log.ttl", "-1d"),
        ("table.auto-partition.num-retention", "x"),
        ("table.auto-partition.num-retention", "99999999999"),
        ("table.auto-partition.num-retention", " 7"),
        ("table.datalake.enabled", "maybe"),
        ("table.log.format", "PARQUET"),
        ("table.replication.factor", "one"),
        ("table.merge-engine", "newest"),
        ("table.kv.format-version", "two"),
        ("table.auto-increment.cache-size", "many"),
    ] {
        let fragment = format!("Could not parse value '{value}' for key '{key}'.");
        check_refused(log_table(&[(key, value)]), E39, &fragment);
        check_refused(pk_table(&[(key, value)]), E39, &fragment);
    }
    check_refused(
        pk_table(&[
            ("table.merge-engine", "first_row"),
            ("table.delete.behavior", "never"),
        ]),
        E39,
        "Could not parse value 'never'",
    );
}

#[test]
fn values_are_read_in_any_case_and_durations_with_words() {
    check_created(log_table(&[
        ("table.log.ttl", "7 days"),
        ("table.log.format", "indexed"),
    ]));
    check_created(pk_table(&[("table.changelog.image", "wal")]));
    check_created(pk_table(&[("table.auto-increment.cache-size", "0")]));
}
