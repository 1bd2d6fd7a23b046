//! Lookups, changes, and the order in which they are told.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_types::{DataType, PartitionId, Schema, SchemaId, TableId, TablePath, TypeKind};
use parking_lot::Mutex;

use super::*;
use crate::load::Contents;
use crate::records::{BucketRecord, DatabaseRecord, PartitionRecord, TableRecord};

fn database(name: &str) -> Arc<DatabaseEntry> {
    Arc::new(DatabaseEntry {
        name: name.to_owned(),
        record: DatabaseRecord::default(),
    })
}

fn led() -> BucketState {
    let record = BucketRecord {
        leader: Some(0),
        leader_epoch: 0,
        isr: vec![0],
        coordinator_epoch: 0,
        bucket_epoch: 0,
    };
    BucketState::new(&[0], Some(&record))
}

fn table(path: (&str, &str), id: i64, partitioned: bool) -> Arc<TableEntry> {
    let schema = Schema::builder()
        .column("a", DataType::nullable(TypeKind::Int))
        .column("b", DataType::nullable(TypeKind::String))
        .build()
        .expect("a schema");
    let record = TableRecord {
        table_id: id,
        comment: None,
        partition_key: if partitioned {
            vec!["b".to_owned()]
        } else {
            Vec::new()
        },
        bucket_key: Vec::new(),
        bucket_count: 2,
        properties: BTreeMap::new(),
        custom_properties: BTreeMap::new(),
        remote_data_dir: None,
        bucket_count_epoch: 0,
        created_time: 1,
        modified_time: 1,
    };
    let schemas = BTreeMap::from([(SchemaId(1), Arc::new(schema))]);
    let buckets = if partitioned {
        Vec::new()
    } else {
        vec![led(), led()]
    };
    Arc::new(TableEntry::new(
        TablePath::new(path.0, path.1),
        record,
        schemas,
        buckets,
    ))
}

fn partition(table_id: i64, id: i64, name: &str) -> Arc<PartitionEntry> {
    let record = PartitionRecord {
        partition_id: id,
        table_id,
        bucket_count: 2,
        remote_data_dir: None,
        created_time: 1,
    };
    Arc::new(PartitionEntry::new(
        name.to_owned(),
        record,
        vec![led(), led()],
    ))
}

fn altered(entry: &TableEntry) -> Arc<TableEntry> {
    Arc::new(entry.with_record(TableRecord {
        modified_time: 2,
        ..entry.record()
    }))
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl CatalogListener for Notes {
    fn apply(&self, change: &CatalogChange) {
        let note = match change {
            CatalogChange::BucketsCreated {
                table,
                partition: None,
            } => {
                format!("+{}", table.table_id)
            }
            CatalogChange::BucketsCreated {
                partition: Some(partition),
                ..
            } => {
                format!("+p{}", partition.partition_id)
            }
            CatalogChange::TableAltered { table } => format!("~{}", table.table_id),
            CatalogChange::PartitionAltered { partition, .. } => {
                format!("~p{}", partition.partition_id)
            }
            CatalogChange::TableDropped { table_id, buckets } => {
                format!("-{table_id}({})", buckets.len())
            }
            CatalogChange::PartitionDropped {
                partition_id,
                buckets,
                ..
            } => {
                format!("-p{partition_id}({})", buckets.len())
            }
        };
        self.0.lock().push(note);
    }
}

fn watched() -> (Catalog, Arc<Notes>) {
    let catalog = Catalog::new();
    let notes = Arc::new(Notes::default());
    catalog.subscribe(notes.clone());
    catalog.put_database(database("db"));
    (catalog, notes)
}

#[test]
fn what_is_put_is_found_by_path_id_and_name() {
    let (catalog, _) = watched();
    let (plain, split) = (table(("db", "t"), 3, false), table(("db", "p"), 4, true));
    catalog.put_table(plain.clone());
    catalog.put_table(split.clone());
    catalog.put_partition(partition(4, 9, "x"));
    assert_eq!(catalog.table(&plain.path), Some(plain.clone()));
    assert_eq!(catalog.table_by_id(TableId(3)), Some(plain));
    assert_eq!(
        catalog
            .partition(&split.path, "x")
            .map(|entry| entry.partition_id.0),
        Some(9)
    );
    assert_eq!(
        catalog.partition_by_id(PartitionId(9)),
        Some(partition(4, 9, "x"))
    );
    assert_eq!(catalog.partitions_of(TableId(4)).len(), 1);
    assert_eq!(catalog.partition_count(TableId(3)), 0);
    let names: Vec<_> = catalog
        .tables_in("db")
        .expect("there")
        .iter()
        .map(|table| table.path.table.clone())
        .collect();
    assert_eq!(names, ["p", "t"]);
    assert_eq!(catalog.databases()[0].1, 2);
    assert_eq!(catalog.tables_in("nope"), None);
    assert_eq!(catalog.table(&TablePath::new("nope", "t")), None);
    assert_eq!(catalog.partition(&TablePath::new("db", "p"), "y"), None);
}

#[test]
fn what_is_dropped_is_found_nowhere() {
    let (catalog, notes) = watched();
    catalog.put_table(table(("db", "p"), 4, true));
    catalog.put_partition(partition(4, 9, "x"));
    catalog.put_partition(partition(4, 10, "y"));
    catalog.remove_partition(PartitionId(9));
    assert_eq!(catalog.partition_by_id(PartitionId(9)), None);
    assert_eq!(catalog.partitions_of(TableId(4)).len(), 1);
    catalog.remove_table(&TablePath::new("db", "p"));
    assert_eq!(catalog.table_by_id(TableId(4)), None);
    assert_eq!(catalog.partition_by_id(PartitionId(10)), None);
    assert_eq!(catalog.partitions_of(TableId(4)), []);
    assert_eq!(*notes.0.lock(), ["+4", "+p9", "+p10", "-p9(2)", "-4(2)"]);
}

#[test]
fn a_database_goes_with_its_tables() {
    let (catalog, notes) = watched();
    catalog.put_table(table(("db", "a"), 1, false));
    catalog.put_table(table(("db", "b"), 2, true));
    catalog.put_partition(partition(2, 5, "x"));
    catalog.remove_database("db");
    assert_eq!(catalog.database("db"), None);
    assert_eq!((catalog.tables().len(), catalog.partitions().len()), (0, 0));
    assert_eq!(*notes.0.lock(), ["+1", "+2", "+p5", "-1(2)", "-2(2)"]);
}

#[test]
fn a_change_of_a_table_is_told_as_such_and_another_of_its_name_as_a_drop() {
    let (catalog, notes) = watched();
    let first = table(("db", "t"), 1, false);
    catalog.put_table(first.clone());
    catalog.put_table(altered(&first));
    catalog.put_table(table(("db", "t"), 2, false));
    assert_eq!(*notes.0.lock(), ["+1", "~1", "-1(2)", "+2"]);
    assert_eq!(catalog.table_by_id(TableId(1)), None);
}

#[test]
fn a_replaced_catalog_tells_the_differences_drops_first() {
    let (catalog, notes) = watched();
    let kept = table(("db", "kept"), 1, false);
    let changed = table(("db", "changed"), 2, true);
    catalog.put_table(kept.clone());
    catalog.put_table(changed.clone());
    catalog.put_table(table(("db", "gone"), 3, true));
    catalog.put_partition(partition(2, 5, "gone"));
    catalog.put_partition(partition(2, 6, "kept"));
    catalog.put_partition(partition(3, 7, "with its table"));
    notes.0.lock().clear();
    catalog.replace(Contents {
        databases: vec![database("db")],
        tables: vec![kept, altered(&changed), table(("db", "new"), 4, false)],
        partitions: vec![partition(2, 6, "kept"), partition(2, 8, "new")],
        ..Contents::default()
    });
    let mut told = std::mem::take(&mut *notes.0.lock());
    assert_eq!(told[..2], ["-3(2)", "-p5(2)"]);
    told[2..].sort();
    assert_eq!(told[2..], ["+4", "+p8", "~2"]);
    assert_eq!(catalog.table_by_id(TableId(3)), None);
    assert_eq!(catalog.partitions_of(TableId(2)).len(), 2);
}
