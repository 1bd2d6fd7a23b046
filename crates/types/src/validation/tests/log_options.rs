//! Retention and statistics.

use super::*;

#[test]
fn vf14_at_least_one_segment_stays_local() {
    for value in ["0", "-1"] {
        check_refused(
            log_table(&[("table.log.tiered.local-segments", value)]),
            E39,
            "'table.log.tiered.local-segments' must be greater than 0.",
        );
    }
}

#[test]
fn vf15_the_local_ttl_is_not_longer_than_the_ttl() {
    let ttls = |ttl: &'static str, local: &'static str| {
        log_table(&[("table.log.ttl", ttl), ("table.log.local-ttl", local)])
    };
    let fragment = "'table.log.local-ttl' must be less than or equal to 'table.log.ttl'.";
    check_refused(ttls("1h", "2h"), E39, fragment);
    check_refused(log_table(&[("table.log.local-ttl", "8d")]), E39, fragment);
    check_created(log_table(&[("table.log.local-ttl", "7d")]));
    check_created(ttls("1h", "0ms"));
    check_created(ttls("0ms", "1h"));
    check_created(ttls("1h", "60min"));
}

#[test]
fn statistics_are_for_columns_of_log_tables_that_have_an_order() {
    let statistics = |columns: &'static str| [("table.statistics.columns", columns)];
    for columns in ["*", "a"] {
        check_refused(
            pk_table(&statistics(columns)),
            E39,
            "Statistics columns are not supported for primary key tables",
        );
    }
    for empty in ["", ",", " , "] {
        check_refused(log_table(&statistics(empty)), E39, "cannot be empty");
    }
    check_refused(
        log_table(&statistics("a,x")),
        E39,
        "'x' does not exist in table schema",
    );
    for unsupported in [
        "BYTES",
        "BINARY(2)",
        "ARRAY<INT>",
        "MAP<INT, INT>",
        "ROW<f INT>",
    ] {
        let table = with(log_table_of(&[("c", unsupported)]), &statistics("c"));
        check_refused(table, E39, "is not supported for statistics collection");
        check_created(with(log_table_of(&[("c", unsupported)]), &statistics("*")));
    }
    check_created(log_table(&statistics("a, b")));
    check_created(log_table(&statistics("a,a")));
    let indexed = ("table.log.format", "INDEXED");
    check_created(log_table(&[statistics("*")[0], indexed]));
    check_created(log_table_of(&[("c", "CHAR(3)")]).with_property("table.statistics.columns", "c"));
}
