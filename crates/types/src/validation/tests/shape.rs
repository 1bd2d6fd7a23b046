//! Buckets, keys, replicas, columns.

use super::*;

#[test]
fn vf18_the_bucket_limit_holds_for_a_table_and_for_a_partition() {
    let buckets = |count: i32| log_table(&[]).distributed_by(count, ["a"]);
    let thirty = Cluster {
        max_bucket_num: 30,
        ..cluster()
    };
    for count in [40, 31] {
        let fragment = format!("Bucket count {count} exceeds the maximum limit 30");
        check_refused_in(buckets(count), &thirty, E49, &fragment);
    }
    check_created_in(buckets(30), &thirty);
    check_refused(
        buckets(4097),
        E49,
        "Bucket count 4097 exceeds the maximum limit 4096",
    );
    check_created(buckets(4096));
    let partition = |count: i32| partitioned("STRING", &["p"], &[]).distributed_by(count, ["a"]);
    check_refused(
        partition(4097),
        E49,
        "for a non-partitioned table or partition.",
    );
}

#[test]
fn vf19_the_bucket_limit_is_not_multiplied_by_partitions() {
    let thirty = Cluster {
        max_bucket_num: 30,
        ..cluster()
    };
    check_created_in(
        partitioned("STRING", &["p"], &[]).distributed_by(10, ["a"]),
        &thirty,
    );
}

#[test]
fn tables_have_at_least_one_bucket() {
    for count in [0, -1, i32::MIN] {
        for table in [log_table(&[]), partitioned("STRING", &["p"], &[])] {
            check_refused(
                table.distributed_by(count, ["a"]),
                E15,
                "Number of buckets must be larger than 0",
            );
        }
    }
}

#[test]
fn nested_types_are_no_keys() {
    for nested in ["ARRAY<INT>", "MAP<INT, INT>", "ROW<f INT>"] {
        let table = log_table_of(&[("k", nested), ("v", "INT")]).distributed_by(1, ["k"]);
        check_refused(
            table,
            E15,
            "Bucket key column 'k' has unsupported data type",
        );
        let key = pk_table_of(&[("k", nested), ("v", "INT")], &[]);
        check_refused(key, E15, "Bucket key column 'k' has unsupported data type");
        let schema = Schema::builder()
            .columns([("a", of("INT")), ("k", of(nested))])
            .primary_key(["a", "k"])
            .build()
            .expect("valid");
        let second = TableDescriptor::new(schema).distributed_by(1, ["a"]);
        check_refused(
            second,
            E15,
            "Primary key column 'k' has unsupported data type",
        );
    }
    for scalar in ["FLOAT", "BYTES", "DECIMAL(10, 2)"] {
        check_created(log_table_of(&[("k", scalar)]).distributed_by(1, ["k"]));
    }
}

#[test]
fn vf17_replicas_are_at_least_one_and_at_most_the_live_servers() {
    let factor = |factor: &'static str| [("table.replication.factor", factor)];
    for low in ["0", "-1"] {
        check_refused(
            log_table(&factor(low)),
            E39,
            "'table.replication.factor' must be greater than 0.",
        );
    }
    let two = Cluster {
        live_servers: 2,
        ..cluster()
    };
    check_refused_in(
        log_table(&factor("3")),
        &two,
        E17,
        "Replication factor: 3 larger than available tablet servers: 2.",
    );
    check_created_in(log_table(&factor("2")), &two);
    check_refused(
        log_table(&factor("40000")),
        E17,
        "Replication factor: 40000 larger",
    );
    check_created(partitioned("STRING", &["p"], &factor("3")));
}

#[test]
fn a_default_replication_factor_that_is_too_high_is_refused_as_well() {
    let three = Cluster {
        default_replication_factor: 3,
        live_servers: 1,
        ..cluster()
    };
    check_refused_in(log_table(&[]), &three, E17, "Replication factor: 3 larger");
}

#[test]
fn vf20_vf21_system_columns_are_reserved_at_the_top_level() {
    let all = RESERVED_COLUMNS.join(", ");
    check_refused(
        log_table_of(&[
            ("__offset", "INT"),
            ("__timestamp", "INT"),
            ("a", "INT"),
            ("__bucket", "INT"),
        ]),
        E15,
        "__offset, __timestamp, __bucket cannot be used as column names, because they are reserved system columns",
    );
    check_refused(
        log_table_of(&[
            ("_change_type", "INT"),
            ("_log_offset", "INT"),
            ("_commit_timestamp", "INT"),
        ]),
        E15,
        "_change_type, _log_offset, _commit_timestamp cannot be used as column names",
    );
    check_refused(log_table_of(&[("__offset", "INT")]), E15, &all);
    check_created(log_table_of(&[
        ("r", "ROW<__offset INT>"),
        ("__OFFSET", "INT"),
    ]));
    check_created(log_table_of(&[("before", "INT"), ("after", "INT")]));
}

#[test]
fn a_table_without_columns_is_a_table() {
    check_created(log_table_of(&[]));
}
