//! first_row and versioned (tables.md §9.3).

use super::*;

#[test]
fn fr1_fr2_fr3_the_first_row_stays() {
    let mut table = Table::new(schema_a(), &[engine(MergeEngine::FirstRow)]);
    assert_eq!(
        table.put(Full, &["1,v11", "2,v21", "2,v23"]),
        "+I[1,v11] +I[2,v21]"
    );
    for value in ["x", "y", "z"] {
        let rows = [format!("1,{value}"), format!("2,{value}")];
        assert_eq!(table.put(Full, &[&rows[0], &rows[1]]), "");
    }
    assert_eq!(
        table.put(Full, &["2,v22", "1,v21", "-1", "3,v31"]),
        "+I[3,v31]"
    );
}

#[test]
fn fr4_fr5_the_first_row_stays_across_schemas() {
    let mut table = Table::new(schema_a(), &[engine(MergeEngine::FirstRow)]);
    table.put(Full, &["3,v31"]);
    let mut table = table.altered(schema_b());
    assert_eq!(table.put(Full, &["3,v41,c1", "4,v41,c2"]), "+I[4,v41,c2]");
    assert_eq!(table.put(Full, &["4,v51", "5,v51"]), "+I[5,v51,null]");
}

#[test]
fn fr6_ten_rows_of_each_key_are_one_insert() {
    let mut table = Table::new(schema_a(), &[engine(MergeEngine::FirstRow)]);
    let mut changes = Vec::new();
    for value in 0..10 {
        for id in 0..5 {
            changes.push(table.put(Full, &[&format!("{id},value_{value}")]));
        }
    }
    changes.retain(|change| !change.is_empty());
    let expected: Vec<_> = (0..5).map(|id| format!("+I[{id},value_0]")).collect();
    assert_eq!(changes, expected);
    assert_eq!(table.lookup("4"), "4,value_0");
}

fn versioned() -> Table {
    let schema = Schema::builder()
        .columns([("a", INT), ("b", INT)])
        .primary_key(["a"]);
    let version = ("table.merge-engine.versioned.ver-column", "b");
    Table::new(
        schema.build().unwrap(),
        &[engine(MergeEngine::Versioned), version],
    )
}

#[test]
fn vr1_to_vr4_the_higher_version_wins() {
    let mut table = versioned();
    assert_eq!(
        table.put(Full, &["1,1000", "2,1000", "2,1001"]),
        "+I[1,1000] +I[2,1000] -U[2,1000] +U[2,1001]"
    );
    assert_eq!(
        table.put(Full, &["2,1000", "1,1001", "-1", "3,1000"]),
        "-U[1,1000] +U[1,1001] +I[3,1000]"
    );
    let columns = [("a", INT), ("b", INT), ("c", STRING)];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build();
    let mut table = table.altered(schema.unwrap());
    assert_eq!(
        table.put(Full, &["1,1002,a"]),
        "-U[1,1001,null] +U[1,1002,a]"
    );
    assert_eq!(table.put(Full, &["1,1003"]), "-U[1,1002,a] +U[1,1003,null]");
}

#[test]
fn vr9_lower_versions_change_nothing() {
    let mut table = versioned();
    assert_eq!(
        table.put(Full, &["0,1000", "1,1000", "2,1000"]),
        "+I[0,1000] +I[1,1000] +I[2,1000]"
    );
    assert_eq!(table.put(Full, &["0,999"; 20]), "");
    assert_eq!(table.put(Full, &["1,1001"]), "-U[1,1000] +U[1,1001]");
}

#[test]
fn the_winner_of_versions_is_stored_as_sent() {
    let table = versioned();
    let rules = MergeRules::new(&table.descriptor, &table.descriptor.schema);
    let merger = rules.merger(&[], false).unwrap();
    let (old, new) = (table.row("1,5"), table.row("1,6"));
    assert_eq!(merger.upsert(None, &new).unwrap(), Merged::AsSent);
    assert_eq!(merger.upsert(Some(&old), &new).unwrap(), Merged::AsSent);
    assert!(!merger.is_plain());
}

/// The column is found by its name in the newest schema.
#[test]
fn the_version_column_may_have_moved() {
    let columns = [("a", INT), ("c", STRING), ("b", INT)];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build();
    let mut table = versioned().altered(schema.unwrap());
    assert_eq!(
        table.put(Full, &["1,x,5", "1,z,4", "1,y,5"]),
        "+I[1,x,5] -U[1,x,5] +U[1,y,5]"
    );
}

#[test]
fn overwriting_goes_past_every_engine() {
    let mut first_row = Table::new(schema_a(), &[engine(MergeEngine::FirstRow)]);
    assert_eq!(
        first_row.put(Overwrite, &["1,a", "1,b"]),
        "+I[1,a] -U[1,a] +U[1,b]"
    );
    assert_eq!(first_row.put(Overwrite, &["-1"]), "-D[1,b]");
    let mut versioned = versioned();
    assert_eq!(
        versioned.put(Overwrite, &["1,5", "1,4"]),
        "+I[1,5] -U[1,5] +U[1,4]"
    );
    let rules = MergeRules::new(&versioned.descriptor, &versioned.descriptor.schema);
    assert!(rules.merger(&[], true).unwrap().is_plain());
}
