//! The cases of behaviour.md §4 and §5 and of tables.md §9.7, one test per group.
//! Where Mainstem deliberately answers otherwise than the reference, the case
//! has Mainstem's answer.

mod alter;
mod defaults;
mod log_options;
mod merge_engine;
mod partitions;
mod properties;
mod recorded;
mod shape;

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
