use super::*;
use crate::schema::NewColumn;

const E56: ErrorCode = ErrorCode::InvalidAlterTable;
const UNKNOWN: ErrorCode = ErrorCode::UnknownServerError;

fn pairs(sets: &[(&str, &str)]) -> Vec<(String, String)> {
    sets.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn names(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn alter(
    table: &TableDescriptor,
    sets: &[(&str, &str)],
    deletes: &[&str],
    cluster: &Cluster,
) -> Result<Option<TableDescriptor>, TableError> {
    alter_properties(table, &pairs(sets), &names(deletes), cluster)
}

#[track_caller]
fn check_altered(
    table: &TableDescriptor,
    sets: &[(&str, &str)],
    deletes: &[&str],
) -> TableDescriptor {
    match alter(table, sets, deletes, &cluster()) {
        Ok(Some(altered)) => altered,
        other => panic!("{sets:?} {deletes:?}: {other:?}"),
    }
}

#[track_caller]
fn check_not_altered(
    result: Result<Option<TableDescriptor>, TableError>,
    code: ErrorCode,
    fragment: &str,
) {
    let error = result.expect_err("must be refused");
    assert_eq!(error.code, code, "{error}");
    assert!(error.message.contains(fragment), "{error}");
}

fn created(table: TableDescriptor) -> TableDescriptor {
    check_created(table)
}

#[test]
fn no_change_is_no_change() {
    let table = created(log_table(&[("table.log.ttl", "1d")]));
    assert_eq!(alter(&table, &[], &[], &cluster()), Ok(None));
    assert_eq!(
        alter(&table, &[("table.log.ttl", "1d")], &["owner"], &cluster()),
        Ok(None)
    );
    assert_eq!(
        alter(&table, &[("owner", "qa")], &["owner"], &cluster()),
        Ok(None)
    );
    assert_eq!(alter_columns(&table, &[]), Ok(None));
}

#[test]
fn vf24_other_keys_are_custom_properties() {
    let table = created(log_table(&[]));
    let altered = check_altered(
        &table,
        &[
            ("client.connect-timeout", "240s"),
            ("bucket.num", "4"),
            ("", "empty key"),
        ],
        &[],
    );
    assert_eq!(altered.custom_properties["client.connect-timeout"], "240s");
    assert_eq!(altered.custom_properties[""], "empty key");
    assert_eq!(altered.properties, table.properties);
    assert_eq!(altered.bucket_count, Some(1));
    let reset = check_altered(&altered, &[], &["bucket.num"]);
    assert!(!reset.custom_properties.contains_key("bucket.num"));
}

#[test]
fn vf25_the_ttl_is_set_and_reset_to_the_default() {
    let days = |days: u64| Ok(std::time::Duration::from_secs(days * 86_400));
    let mut table = created(log_table(&[("table.log.ttl", "1d")]));
    for (text, expected) in [("3d", 3), ("30d", 30)] {
        table = check_altered(&table, &[("table.log.ttl", text)], &[]);
        assert_eq!(table.log_ttl(), days(expected));
    }
    table = check_altered(&table, &[], &["table.log.ttl"]);
    assert!(!table.properties.contains_key("table.log.ttl"));
    assert_eq!(table.log_ttl(), days(7));
}

#[test]
fn vf26_local_segments_are_set_and_reset() {
    let key = "table.log.tiered.local-segments";
    let table = check_altered(&created(log_table(&[])), &[(key, "5")], &[]);
    assert_eq!(table.tiered_local_segments(), Ok(5));
    assert_eq!(
        check_altered(&table, &[], &[key]).tiered_local_segments(),
        Ok(2)
    );
}

#[test]
fn the_last_value_of_a_key_counts_and_deletes_come_last() {
    let table = created(log_table(&[]));
    let altered = check_altered(
        &table,
        &[
            ("a", "1"),
            ("a", "2"),
            ("b", "1"),
            ("table.log.ttl", "1d"),
            ("table.log.ttl", "2d"),
        ],
        &["b"],
    );
    assert_eq!(altered.custom_properties["a"], "2");
    assert!(!altered.custom_properties.contains_key("b"));
    assert_eq!(altered.properties["table.log.ttl"], "2d");
}

#[test]
fn vf27_options_that_cannot_be_altered_are_all_named() {
    let table = created(pk_table(&[]));
    let fragment = "The following options are not supported to alter yet: 'table.kv.format'.";
    check_not_altered(
        alter(&table, &[("table.kv.format", "indexed")], &[], &cluster()),
        E56,
        fragment,
    );
    check_not_altered(
        alter(
            &table,
            &[
                ("table.log.format", "indexed"),
                ("table.log.ttl", "1d"),
                ("table.nope", "1"),
            ],
            &[
                "table.datalake.auto-expire-snapshot",
                "table.datalake.paimon.x",
                "table.nope",
            ],
            &cluster(),
        ),
        E56,
        "'table.log.format', 'table.nope', 'table.datalake.auto-expire-snapshot', 'table.datalake.paimon.x'.",
    );
    check_not_altered(
        alter(&table, &[], &["table.kv.format"], &cluster()),
        E56,
        fragment,
    );
}

#[test]
fn an_altered_table_passes_validation_again() {
    let log = created(log_table(&[]));
    let pk = created(pk_table(&[]));
    for (table, key, value) in [
        (&log, "table.log.ttl", "soon"),
        (&log, "table.log.ttl", "1000"),
        (&log, "table.log.tiered.local-segments", "0"),
        (&log, "table.log.local-ttl", "8d"),
        (&log, "table.statistics.columns", "missing"),
        (&pk, "table.statistics.columns", "a"),
        (&log, "table.auto-partition.enabled", "true"),
        (&pk, "table.kv.standby-replica.enabled", "perhaps"),
    ] {
        check_not_altered(alter(table, &[(key, value)], &[], &cluster()), E39, "");
    }
}

#[test]
fn an_altered_table_needs_no_more_live_servers() {
    let two = Cluster {
        live_servers: 2,
        ..cluster()
    };
    let table = check_created_in(log_table(&[("table.replication.factor", "2")]), &two);
    let altered = alter(&table, &[("table.log.ttl", "1d")], &[], &cluster());
    assert!(matches!(altered, Ok(Some(_))), "{altered:?}");
}

#[test]
fn standby_replicas_are_for_primary_key_tables() {
    let key = "table.kv.standby-replica.enabled";
    let log = created(log_table(&[]));
    check_not_altered(alter(&log, &[(key, "true")], &[], &cluster()), E56, key);
    check_not_altered(alter(&log, &[], &[key], &cluster()), E56, key);
    let pk = check_altered(&created(pk_table(&[])), &[(key, "false")], &[]);
    assert_eq!(pk.standby_replica_enabled(), Ok(false));
}

#[test]
fn lake_options_need_a_recorded_lake_format() {
    let fragment = "created before the Fluss cluster enabled datalake";
    let pk = created(pk_table(&[]));
    let keyed = created(log_table(&[]).distributed_by(1, ["a"]));
    let free = created(log_table(&[]));
    let lake = lake_cluster("paimon");
    let enable = [("table.datalake.enabled", "true")];
    check_not_altered(alter(&pk, &enable, &[], &lake), E56, fragment);
    check_not_altered(alter(&keyed, &enable, &[], &lake), E56, fragment);
    let freshness = [("table.datalake.freshness", "1min")];
    check_not_altered(alter(&free, &freshness, &[], &lake), E56, fragment);
    check_not_altered(
        alter(&free, &[enable[0], freshness[0]], &[], &lake),
        E56,
        fragment,
    );
    check_not_altered(
        alter(&free, &[], &["table.datalake.freshness"], &lake),
        E56,
        fragment,
    );
}

#[test]
fn a_log_table_without_bucket_key_may_join_the_lake_later() {
    let free = created(log_table(&[]));
    let enable = [("table.datalake.enabled", "true")];
    check_not_altered(
        alter(&free, &enable, &[], &cluster()),
        E56,
        "does not enable datalake",
    );
    let altered = alter(&free, &enable, &[], &lake_cluster("paimon"))
        .expect("allowed")
        .expect("changed");
    assert_eq!(altered.properties["table.datalake.format"], "paimon");
    assert_eq!(altered.properties["table.datalake.enabled"], "true");
    let off = check_altered(&free, &[("table.datalake.enabled", "false")], &[]);
    assert!(!off.properties.contains_key("table.datalake.format"));
}

#[test]
fn a_table_with_a_recorded_lake_format_takes_lake_options() {
    let lake = lake_cluster("paimon");
    let table = check_created_in(pk_table(&[]), &lake);
    let sets = [
        ("table.datalake.enabled", "true"),
        ("table.datalake.freshness", "30s"),
    ];
    let altered = alter(&table, &sets, &[], &lake)
        .expect("allowed")
        .expect("changed");
    assert_eq!(altered.datalake_enabled(), Ok(true));
    check_not_altered(
        alter(&table, &sets, &[], &lake_cluster("iceberg")),
        E39,
        "must match cluster",
    );
}

fn add(name: &str, data_type: &str) -> ColumnChange {
    ColumnChange::Add(NewColumn::new(name, of(data_type)))
}

#[test]
fn added_columns_come_behind_the_others_and_nothing_else_changes() {
    let table = created(pk_table(&[]));
    let changes = [add("c", "ROW<f INT>"), add("d", "BIGINT")];
    let altered = alter_columns(&table, &changes)
        .expect("allowed")
        .expect("changed");
    let columns: Vec<(&str, i32)> = altered
        .schema
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.id))
        .collect();
    assert_eq!(columns, [("a", 0), ("b", 1), ("c", 2), ("d", 4)]);
    assert_eq!(altered.schema.highest_field_id, 4);
    assert_eq!(
        TableDescriptor {
            schema: table.schema.clone(),
            ..altered
        },
        table
    );
}

#[test]
fn se4_dropping_renaming_and_modifying_columns_is_not_supported() {
    let table = created(log_table(&[]));
    for (change, what) in [
        (ColumnChange::Drop("a".to_owned()), "drop"),
        (ColumnChange::Rename("missing".to_owned()), "rename"),
        (ColumnChange::Modify("b".to_owned()), "modify"),
    ] {
        let fragment = format!("Not support {what} column now.");
        check_not_altered(
            alter_columns(&table, &[add("c", "INT"), change]),
            UNKNOWN,
            &fragment,
        );
    }
    let both = [
        ColumnChange::Modify("a".to_owned()),
        ColumnChange::Drop("a".to_owned()),
    ];
    check_not_altered(alter_columns(&table, &both), UNKNOWN, "drop column");
}

#[test]
fn only_the_last_position_is_understood() {
    assert_eq!(check_column_position(0), Ok(()));
    for position in [1, 3, -1] {
        let error = check_column_position(position).expect_err("unsupported");
        assert_eq!(error.code, UNKNOWN);
        assert!(
            error.message.contains("Unsupported ColumnPositionType"),
            "{error}"
        );
    }
}

#[test]
fn added_columns_may_not_exist_be_reserved_or_refuse_null() {
    let table = created(log_table(&[]));
    check_not_altered(
        alter_columns(&table, &[add("b", "INT")]),
        E56,
        "Column b already exists.",
    );
    let twice = [add("c", "INT"), add("c", "INT")];
    check_not_altered(
        alter_columns(&table, &twice),
        E56,
        "Column c already exists.",
    );
    check_not_altered(
        alter_columns(&table, &[add("c1", "INT NOT NULL")]),
        UNKNOWN,
        "Column c1 must be nullable",
    );
    check_not_altered(alter_columns(&table, &[add(" ", "INT")]), UNKNOWN, "blank");
    check_not_altered(
        alter_columns(&table, &[add("__offset", "INT")]),
        E15,
        "reserved system columns",
    );
}

#[test]
fn added_columns_have_functions_only_in_aggregation_tables() {
    let function = |name: &str, data_type: &str| {
        let column = NewColumn::new("more", of(data_type));
        [ColumnChange::Add(NewColumn {
            agg_function: Some(AggFunction::new(name)),
            ..column
        })]
    };
    let plain = created(pk_table(&[]));
    check_not_altered(
        alter_columns(&plain, &function("sum", "BIGINT")),
        E39,
        "Aggregation function is only supported for aggregation merge engine table, \
         but column 'more' has aggregation function 'sum'.",
    );
    let aggregation = created(pk_table(&[("table.merge-engine", "aggregation")]));
    check_not_altered(
        alter_columns(&aggregation, &function("mode", "BIGINT")),
        E39,
        "Unknown aggregation function type: mode",
    );
    check_not_altered(
        alter_columns(&aggregation, &function("sum", "STRING")),
        E39,
        "Data type for sum column",
    );
    let altered = alter_columns(&aggregation, &function("Product", "BIGINT")).expect("allowed");
    let schema = altered.expect("changed").schema;
    let stored = schema
        .column("more")
        .and_then(|(_, column)| column.agg_function.clone());
    assert_eq!(stored, Some(AggFunction::new("product")));
}

#[test]
fn the_bucket_count_of_partitions_to_come_can_change() {
    let table = created(partitioned("STRING", &["p"], &[]).distributed_by(4, ["a"]));
    let altered = alter_bucket_count(&table, 8, &cluster())
        .expect("allowed")
        .expect("changed");
    assert_eq!(
        altered,
        TableDescriptor {
            bucket_count: Some(8),
            ..table.clone()
        }
    );
    assert_eq!(alter_bucket_count(&table, 4, &cluster()), Ok(None));
    for low in [0, -1] {
        check_not_altered(
            alter_bucket_count(&table, low, &cluster()),
            E56,
            "larger than 0",
        );
    }
    check_not_altered(
        alter_bucket_count(&table, 4097, &cluster()),
        E49,
        "maximum limit 4096",
    );
    let plain = created(log_table(&[]));
    check_not_altered(
        alter_bucket_count(&plain, 2, &cluster()),
        E56,
        "partitioned tables",
    );
}
