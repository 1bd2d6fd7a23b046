//! Many tables on a real file. Times are printed, not judged: `mainstem bench`
//! does that on a quiet machine.

use std::sync::Arc;
use std::time::Instant;

use mainstem_meta::EmbeddedStore;
use serde_json::json;

use super::fixture::*;
use crate::CoordinatorConfig;

fn four_buckets() -> serde_json::Value {
    let mut table = log_table();
    table["bucket_count"] = json!(4);
    table
}

fn open(directory: &tempfile::TempDir) -> Fixture {
    let path = directory.path().join("meta.redb");
    let store = EmbeddedStore::open(&path).expect("the store opens");
    Fixture::on(Arc::new(store), CoordinatorConfig::default())
}

#[test]
fn a_hundred_tables_are_created_with_one_commit_each() {
    let directory = tempfile::tempdir().expect("a directory");
    let fixture = open(&directory);
    let before = fixture.store.list("").expect("listed").revision;
    let start = Instant::now();
    for index in 0..100 {
        fixture.create(&format!("t{index}"), &four_buckets());
    }
    println!("100 tables of 4 buckets: {:?}", start.elapsed());
    assert_eq!(
        fixture.store.list("").expect("listed").revision.0,
        before.0 + 100
    );
}

#[test]
fn a_start_with_a_thousand_tables_finds_them_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let fixture = open(&directory);
    for index in 0..1000 {
        fixture.create(&format!("t{index}"), &four_buckets());
    }
    drop(fixture);
    let start = Instant::now();
    let fixture = open(&directory);
    println!(
        "start with 1,000 tables of 4 buckets: {:?}",
        start.elapsed()
    );
    let tables = fixture.coordinator.catalog().tables();
    assert_eq!(tables.len(), 1000);
    assert!(tables.iter().all(|table| table.buckets.len() == 4));
    fixture.create("next", &four_buckets());
    assert_eq!(fixture.info("next").table_id, Some(1000));
    let size = std::fs::metadata(directory.path().join("meta.redb"))
        .expect("there")
        .len();
    println!("file: {size} bytes");
}

#[test]
fn a_table_with_the_most_buckets_fits_into_one_transaction() {
    let directory = tempfile::tempdir().expect("a directory");
    let fixture = open(&directory);
    let mut table = log_table();
    table["bucket_count"] = json!(4096);
    let start = Instant::now();
    fixture.create("wide", &table);
    println!("a table of 4,096 buckets: created in {:?}", start.elapsed());
    drop(fixture);
    let fixture = open(&directory);
    let entry = fixture
        .coordinator
        .catalog()
        .table(&types_path("wide"))
        .expect("there");
    assert_eq!(entry.buckets.len(), 4096);
    fixture.drop_table("wide", false).expect("dropped");
    let left = fixture.store.list("buckets/").expect("listed");
    assert_eq!(left.entries.len(), 0);
}
