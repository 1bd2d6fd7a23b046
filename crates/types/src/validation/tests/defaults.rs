//! Permission to create tables, and defaults that are written into them.

use super::*;

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
