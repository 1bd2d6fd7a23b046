//! The cases of behaviour.md §4 and §5 and of tables.md §9.7, one test per group.
//! Where Mainstem deliberately answers otherwise than the reference, the case
//! has Mainstem's answer.

mod alter;
mod recorded;

use super::*;
use crate::{AggFunction, DataType, Schema};

/// A type from its text form.
fn of(text: &str) -> DataType {
    text.parse().expect(text)
}

fn cluster() -> Cluster {
    Cluster::default()
}

fn lake_cluster(format: &str) -> Cluster {
    Cluster {
        datalake_format: Some(format.to_owned()),
        ..cluster()
    }
}

/// A log table with columns `a INT, b STRING` and these properties.
fn log_table(properties: &[(&str, &str)]) -> TableDescriptor {
    with(TableDescriptor::new(log_schema()), properties)
}

/// The same with primary key `a`.
fn pk_table(properties: &[(&str, &str)]) -> TableDescriptor {
    pk_table_of(&[("a", "INT"), ("b", "STRING")], properties)
}

/// A table with these columns, the first of which is the primary key.
fn pk_table_of(columns: &[(&str, &str)], properties: &[(&str, &str)]) -> TableDescriptor {
    let schema = Schema::builder()
        .columns(columns.iter().map(|(name, text)| (*name, of(text))))
        .primary_key([columns[0].0])
        .build()
        .expect("valid");
    with(TableDescriptor::new(schema), properties)
}

/// A log table with columns `a INT, p <type>, q STRING`, partitioned by `keys`.
fn partitioned(type_of_p: &str, keys: &[&str], properties: &[(&str, &str)]) -> TableDescriptor {
    let columns = [("a", of("INT")), ("p", of(type_of_p)), ("q", of("STRING"))];
    let schema = Schema::of(columns).expect("valid");
    with(
        TableDescriptor::new(schema).partitioned_by(keys.iter().copied()),
        properties,
    )
}

fn log_schema() -> Schema {
    Schema::of([("a", of("INT")), ("b", of("STRING"))]).expect("valid")
}

fn log_table_of(columns: &[(&str, &str)]) -> TableDescriptor {
    let columns = columns.iter().map(|(name, text)| (*name, of(text)));
    TableDescriptor::new(Schema::of(columns).expect("valid"))
}

fn with(descriptor: TableDescriptor, properties: &[(&str, &str)]) -> TableDescriptor {
    properties
        .iter()
        .fold(descriptor, |descriptor, (key, value)| {
            descriptor.with_property(*key, *value)
        })
}

/// What createTable does with a descriptor, as in a request.
fn create(descriptor: TableDescriptor, cluster: &Cluster) -> Result<TableDescriptor, TableError> {
    new_table(descriptor.checked()?, cluster)
}

#[track_caller]
fn check_created(descriptor: TableDescriptor) -> TableDescriptor {
    check_created_in(descriptor, &cluster())
}

#[track_caller]
fn check_created_in(descriptor: TableDescriptor, cluster: &Cluster) -> TableDescriptor {
    match create(descriptor.clone(), cluster) {
        Ok(created) => created,
        Err(error) => panic!("{:?}: {error}", descriptor.properties),
    }
}

#[track_caller]
fn check_refused(descriptor: TableDescriptor, code: ErrorCode, fragment: &str) {
    check_refused_in(descriptor, &cluster(), code, fragment);
}

#[track_caller]
fn check_refused_in(
    descriptor: TableDescriptor,
    cluster: &Cluster,
    code: ErrorCode,
    fragment: &str,
) {
    let properties = descriptor.properties.clone();
    let error = create(descriptor, cluster).expect_err("must be refused");
    assert_eq!(error.code, code, "{properties:?}: {error}");
    assert!(error.message.contains(fragment), "{properties:?}: {error}");
}

const E15: ErrorCode = ErrorCode::InvalidTable;
const E17: ErrorCode = ErrorCode::InvalidReplicationFactor;
const E39: ErrorCode = ErrorCode::InvalidConfig;
const E49: ErrorCode = ErrorCode::BucketMaxNum;

// Permission and defaults.

#[test]
fn vf31_a_cluster_may_disallow_either_kind_of_table() {
    let no_pk = Cluster {
        allow_kv_tables: false,
        ..cluster()
    };
    check_refused_in(
        pk_table(&[]),
        &no_pk,
        E15,
        "Creation of Primary Key Tables is disallowed in the cluster.",
    );
    check_created_in(log_table(&[]), &no_pk);
    let no_log = Cluster {
        allow_log_tables: false,
        ..cluster()
    };
    check_refused_in(
        log_table(&[]),
        &no_log,
        E15,
        "Creation of Log Tables is disallowed in the cluster.",
    );
    check_created_in(pk_table(&[]), &no_log);
}

#[test]
fn vf11_a_table_without_distribution_gets_the_default_bucket_count() {
    let seven = Cluster {
        default_bucket_number: 7,
        ..cluster()
    };
    assert_eq!(
        check_created_in(log_table(&[]), &seven).bucket_count,
        Some(7)
    );
    let given = log_table(&[]).distributed_by(3, ["a"]);
    assert_eq!(check_created_in(given, &seven).bucket_count, Some(3));
}

#[test]
fn written_defaults_are_those_that_clients_rely_on() {
    let names = |descriptor: &TableDescriptor| -> Vec<String> {
        let properties = &descriptor.properties;
        properties
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    };
    assert_eq!(
        names(&check_created(log_table(&[]))),
        ["table.replication.factor=1"]
    );
    assert_eq!(
        names(&check_created(pk_table(&[]))),
        [
            "table.kv.format-version=2",
            "table.kv.standby-replica.enabled=true",
            "table.replication.factor=1",
        ]
    );
    assert_eq!(
        names(&check_created(pk_table(&[(
            "table.merge-engine",
            "first_row"
        )]))),
        [
            "table.delete.behavior=IGNORE",
            "table.kv.format-version=2",
            "table.kv.standby-replica.enabled=true",
            "table.merge-engine=first_row",
            "table.replication.factor=1",
        ]
    );
    let several = partitioned(
        "STRING",
        &["p", "q"],
        &[
            ("table.auto-partition.enabled", "true"),
            ("table.auto-partition.key", "p"),
        ],
    );
    let created = check_created(several);
    assert_eq!(
        created.properties["table.auto-partition.num-precreate"],
        "0"
    );
    let one = partitioned(
        "STRING",
        &["p"],
        &[("table.auto-partition.enabled", "true")],
    );
    let created = check_created(one);
    assert!(
        !created
            .properties
            .contains_key("table.auto-partition.num-precreate")
    );
}

#[test]
fn given_properties_are_never_overwritten() {
    let given = [
        ("table.replication.factor", "2"),
        ("table.kv.format-version", "1"),
        ("table.kv.standby-replica.enabled", "FALSE"),
        ("table.merge-engine", "aggregation"),
        ("table.delete.behavior", "allow"),
        ("table.datalake.format", "iceberg"),
    ];
    let two = Cluster {
        live_servers: 2,
        ..lake_cluster("paimon")
    };
    let created = check_created_in(pk_table(&given), &two);
    assert_eq!(created.properties, with(log_table(&[]), &given).properties);
}

#[test]
fn vf23_merge_engines_ignore_deletes_unless_told_otherwise() {
    let version = ("table.merge-engine.versioned.ver-column", "a");
    for engine in ["first_row", "versioned", "aggregation"] {
        let created = check_created(pk_table(&[("table.merge-engine", engine), version]));
        assert_eq!(created.properties["table.delete.behavior"], "IGNORE");
    }
    let allow = pk_table(&[
        ("table.merge-engine", "aggregation"),
        ("table.delete.behavior", "ALLOW"),
    ]);
    assert_eq!(
        check_created(allow).properties["table.delete.behavior"],
        "ALLOW"
    );
}

#[test]
fn the_lake_format_of_the_cluster_is_recorded_even_without_tiering() {
    let created = check_created_in(log_table(&[]), &lake_cluster("iceberg"));
    assert_eq!(created.properties["table.datalake.format"], "iceberg");
    check_created(log_table(&[("table.datalake.format", "paimon")]));
}

#[test]
fn tiering_needs_a_lake_of_the_same_format() {
    let enabled = ("table.datalake.enabled", "true");
    check_refused(log_table(&[enabled]), E15, "doesn't enable datalake tables");
    check_created_in(log_table(&[enabled]), &lake_cluster("paimon"));
    check_created_in(
        log_table(&[enabled, ("table.datalake.format", "PAIMON")]),
        &lake_cluster("paimon"),
    );
    check_refused_in(
        log_table(&[enabled, ("table.datalake.format", "iceberg")]),
        &lake_cluster("paimon"),
        E39,
        "must match cluster",
    );
}

#[test]
fn kv_format_versions_one_and_two_are_known() {
    let version = |version: &'static str| [("table.kv.format-version", version)];
    for unsupported in ["3", "0", "-1"] {
        check_refused(
            pk_table(&version(unsupported)),
            E39,
            "Unsupported kv format version",
        );
    }
    check_created(pk_table(&version("1")));
    check_created(pk_table(&version("2")));
    for any in ["0", "1", "99"] {
        check_created(log_table(&version(any)));
    }
}

// Properties.

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

// Buckets, keys, replicas.

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

// Formats, compression, merge engines.

#[test]
fn vf16_an_indexed_log_needs_an_indexed_kv_format() {
    let formats =
        |log: &'static str, kv: &'static str| [("table.log.format", log), ("table.kv.format", kv)];
    check_refused(
        pk_table(&formats("INDEXED", "COMPACTED")),
        E39,
        "supports ARROW or COMPACTED log format when kv format is COMPACTED",
    );
    check_refused(
        pk_table(&[("table.log.format", "indexed")]),
        E39,
        "log format",
    );
    for (log, kv) in [
        ("ARROW", "COMPACTED"),
        ("COMPACTED", "COMPACTED"),
        ("ARROW", "INDEXED"),
        ("COMPACTED", "INDEXED"),
        ("INDEXED", "INDEXED"),
    ] {
        check_created(pk_table(&formats(log, kv)));
    }
    check_created(log_table(&formats("INDEXED", "COMPACTED")));
}

#[test]
fn zstd_levels_run_from_1_to_22_whatever_the_codec() {
    let level = "table.log.arrow.compression.zstd.level";
    for other in [
        ("table.log.arrow.compression.type", "ZSTD"),
        ("table.log.arrow.compression.type", "NONE"),
        ("table.log.format", "INDEXED"),
    ] {
        for bad in ["0", "23", "-5"] {
            let fragment = format!("Invalid ZSTD compression level: {bad}");
            check_refused(log_table(&[(level, bad), other]), E39, &fragment);
        }
        for good in ["1", "22"] {
            check_created(log_table(&[(level, good), other]));
        }
    }
}

#[test]
fn merge_engines_need_a_primary_key() {
    for engine in ["first_row", "versioned", "aggregation"] {
        check_refused(
            log_table(&[("table.merge-engine", engine)]),
            E39,
            "Merge engine is only supported in primary key table.",
        );
    }
}

#[test]
fn the_versioned_engine_needs_a_version_column_of_four_types() {
    let versioned = |type_of_v: &str, column: &'static str| {
        pk_table_of(
            &[("a", "INT"), ("v", type_of_v)],
            &[
                ("table.merge-engine", "versioned"),
                ("table.merge-engine.versioned.ver-column", column),
            ],
        )
    };
    check_refused(
        pk_table(&[("table.merge-engine", "versioned")]),
        E39,
        "'table.merge-engine.versioned.ver-column' must be set for versioned merge engine.",
    );
    check_refused(
        versioned("INT", "x"),
        E39,
        "The version column 'x' for versioned merge engine doesn't exist in schema.",
    );
    for bad in ["STRING", "SMALLINT", "DATE"] {
        let fragment =
            format!("must be one type of [INT, BIGINT, TIMESTAMP, TIMESTAMP_LTZ], but got {bad}.");
        check_refused(versioned(bad, "v"), E39, &fragment);
    }
    for good in ["INT", "BIGINT", "TIMESTAMP(3)", "TIMESTAMP_LTZ(9)"] {
        check_created(versioned(good, "v"));
    }
    check_created(versioned("STRING", "a"));
    check_created(pk_table(&[(
        "table.merge-engine.versioned.ver-column",
        "missing",
    )]));
}

#[test]
fn only_the_aggregation_engine_needs_the_full_changelog() {
    let image = ("table.changelog.image", "WAL");
    check_refused(
        pk_table(&[("table.merge-engine", "aggregation"), image]),
        E39,
        "Table with 'AGGREGATION' merge engine does not support 'WAL' changelog image mode",
    );
    check_created(pk_table(&[("table.merge-engine", "first_row"), image]));
    check_created(log_table(&[image]));
}

/// An aggregation table with one column that has a function.
fn aggregated(type_of_c: &str, function: AggFunction) -> TableDescriptor {
    let schema = Schema::builder()
        .column("a", of("INT"))
        .column("c", of(type_of_c))
        .aggregate(function)
        .primary_key(["a"])
        .build()
        .expect("valid");
    TableDescriptor::new(schema).with_property("table.merge-engine", "aggregation")
}

#[test]
fn aggregation_functions_need_the_aggregation_engine() {
    let mut table = aggregated("INT", AggFunction::new("sum"));
    table.properties.clear();
    check_refused(
        table.clone(),
        E39,
        "Aggregation function is only supported for aggregation merge engine table",
    );
    table
        .properties
        .insert("table.merge-engine".to_owned(), "first_row".to_owned());
    check_refused(table, E39, "Aggregation function is only supported");
}

#[test]
fn aggregation_functions_work_on_types_of_their_own() {
    for (function, data_type) in [
        ("sum", "STRING"),
        ("product", "DATE"),
        ("max", "BOOLEAN"),
        ("min", "BYTES"),
        ("listagg", "INT"),
        ("listagg", "CHAR(3)"),
        ("string_agg", "CHAR(3)"),
        ("bool_and", "INT"),
        ("bool_or", "STRING"),
        ("rbm32", "STRING"),
        ("rbm64", "BINARY(3)"),
    ] {
        let table = aggregated(data_type, AggFunction::new(function));
        check_refused(
            table,
            E39,
            &format!(
                "Invalid aggregation function for column 'c': Data type for {function} column must be part of ["
            ),
        );
    }
    for (function, data_type) in [
        ("sum", "DECIMAL(10, 2)"),
        ("product", "TINYINT"),
        ("max", "CHAR(3)"),
        ("min", "TIMESTAMP_LTZ(3)"),
        ("last_value", "ARRAY<INT>"),
        ("last_value_ignore_nulls", "ROW<f INT>"),
        ("first-value", "MAP<INT, INT>"),
        ("FIRST_VALUE_IGNORE_NULLS", "BYTES"),
        ("LISTAGG", "STRING"),
        ("bool_or", "BOOLEAN"),
        ("rbm64", "BYTES"),
    ] {
        check_created(aggregated(data_type, AggFunction::new(function)));
    }
}

#[test]
fn only_listagg_takes_a_parameter_and_it_is_not_empty() {
    let listagg = AggFunction::new("listagg");
    check_created(aggregated(
        "STRING",
        listagg.clone().with_parameter("delimiter", "|"),
    ));
    check_refused(
        aggregated("STRING", listagg.clone().with_parameter("delimiter", "")),
        E39,
        "must not be empty",
    );
    check_refused(
        aggregated("STRING", listagg.with_parameter("order", "asc")),
        E39,
        "Parameter 'order' is not supported for aggregation function 'listagg'",
    );
    check_refused(
        aggregated(
            "INT",
            AggFunction::new("sum").with_parameter("delimiter", "|"),
        ),
        E39,
        "Parameter 'delimiter' is not supported for aggregation function 'sum'",
    );
}

#[test]
fn an_unknown_aggregation_function_is_refused_instead_of_dropped() {
    check_refused(
        aggregated("INT", AggFunction::new("median")),
        E39,
        "Unknown aggregation function type: median",
    );
}

#[test]
fn vf22_delete_behaviour_is_for_primary_key_tables_and_fits_the_engine() {
    let behavior = |value: &'static str| ("table.delete.behavior", value);
    check_refused(
        log_table(&[behavior("ignore")]),
        E39,
        "configuration is only supported for primary key tables",
    );
    for (engine, name) in [("first_row", "FIRST_ROW"), ("versioned", "VERSIONED")] {
        let table = |value| {
            pk_table(&[
                ("table.merge-engine", engine),
                ("table.merge-engine.versioned.ver-column", "a"),
                behavior(value),
            ])
        };
        let fragment =
            format!("Table with '{name}' merge engine does not support delete operations.");
        check_refused(table("Allow"), E39, &fragment);
        check_refused(table("Allow"), E39, "but got 'allow'.");
        check_created(table("ignore"));
        check_created(table("disable"));
    }
    for value in ["ALLOW", "IGNORE", "DISABLE"] {
        check_created(pk_table(&[behavior(value)]));
        check_created(pk_table(&[
            ("table.merge-engine", "aggregation"),
            behavior(value),
        ]));
    }
}

// Retention and statistics.

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

// Columns.

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

// Partitions.

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

// Which error wins.

#[test]
fn the_first_of_two_errors_in_the_order_of_the_specification_wins() {
    let unknown = ("table.nope", "1");
    check_refused(
        pk_table(&[unknown, ("table.kv.format-version", "3")]),
        E39,
        "Unsupported kv format version",
    );
    check_refused(
        log_table(&[unknown]).distributed_by(5000, ["a"]),
        E39,
        "table.nope",
    );
    let reserved = || log_table_of(&[("a", "INT"), ("__offset", "INT")]);
    check_refused(
        reserved().distributed_by(5000, ["a"]),
        E49,
        "Bucket count 5000",
    );
    let statistics = reserved().with_property("table.statistics.columns", "x");
    check_refused(statistics, E15, "reserved system columns");
    let replicas = reserved().with_property("table.replication.factor", "3");
    check_refused(replicas, E15, "reserved system columns");
    check_refused(
        log_table(&[
            ("table.delete.behavior", "ignore"),
            ("table.log.tiered.local-segments", "0"),
        ]),
        E39,
        "only supported for primary key tables",
    );
}
