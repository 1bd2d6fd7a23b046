//! tables.md §9.2.

use super::*;

#[test]
fn pu1_to_pu5_columns_are_written_and_cleared_one_by_one() {
    let mut table = Table::new(schema_b(), &[]);
    assert_eq!(
        table.put(Target(&[0]), &["1", "2", "2"]),
        "+I[1,null,null] +I[2,null,null]"
    );
    assert_eq!(
        table.put(Target(&[0, 1]), &["1,v11", "2,v21", "2,v23"]),
        "-U[1,null,null] +U[1,v11,null] -U[2,null,null] +U[2,v21,null] \
         -U[2,v21,null] +U[2,v23,null]"
    );
    assert_eq!(
        table.put(Target(&[0, 2]), &["1,null,c3", "3,null,v211"]),
        "-U[1,v11,null] +U[1,v11,c3] +I[3,null,v211]"
    );
    assert_eq!(
        table.put(Target(&[0, 1]), &["-1"]),
        "-U[1,v11,c3] +U[1,null,c3]"
    );
    assert_eq!(table.put(Target(&[0, 2]), &["-1"]), "-D[1,null,c3]");
}

#[test]
fn pu6_pu7_values_in_other_columns_are_ignored() {
    let mut table = Table::new(schema_b(), &[]);
    assert_eq!(
        table.put(Target(&[0, 1]), &["1,v1,ignored"]),
        "+I[1,v1,null]"
    );
    assert_eq!(
        table.put(Target(&[0, 2]), &["1,ignored2,c1"]),
        "-U[1,v1,null] +U[1,v1,c1]"
    );
}

#[test]
fn pu10_to_pu13_the_other_columns_stay() {
    let boolean = DataType::nullable(TypeKind::Boolean);
    let columns = [("a", INT), ("b", STRING), ("c", INT), ("d", boolean)];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build();
    let mut table = Table::new(schema.unwrap(), &[]);
    table.put(Full, &["1,a,1,true"]);
    table.put(Target(&[0, 1]), &["1,aaa"]);
    assert_eq!(table.lookup("1"), "1,aaa,1,true");
    table.put(Target(&[0, 1, 2]), &["1,bbb,222"]);
    assert_eq!(table.lookup("1"), "1,bbb,222,true");
    table.put(Target(&[0, 1, 2]), &["-1"]);
    assert_eq!(table.lookup("1"), "1,null,null,true");
    table.put(Target(&[0, 3]), &["-1"]);
    assert_eq!(table.lookup("1"), "none");
}

#[test]
fn pu16_all_columns_are_no_target_at_all() {
    let strict = DataType::not_null(TypeKind::String);
    let columns = [("a", INT), ("b", STRING), ("c", strict)];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build();
    let schema = schema.unwrap();
    let rules = MergeRules::new(&TableDescriptor::new(schema.clone()), &schema);
    for target in [&[][..], &[0, 1, 2], &[2, 0, 1, 0]] {
        assert!(rules.merger(target, false).unwrap().is_plain());
    }
    let mut table = Table::new(schema, &[]);
    assert_eq!(table.put(Target(&[2, 1, 0]), &["1,b,c"]), "+I[1,b,c]");
}

#[test]
fn a_write_of_the_same_values_is_an_update_unless_it_is_of_the_key_alone() {
    let mut table = Table::new(schema_b(), &[]);
    table.put(Target(&[0, 1]), &["1,v"]);
    assert_eq!(
        table.put(Target(&[0, 1]), &["1,v"]),
        "-U[1,v,null] +U[1,v,null]"
    );
    assert_eq!(table.put(Target(&[0, 0]), &["1"]), "");
}

#[test]
fn targets_come_in_any_order_and_more_than_once() {
    let mut table = Table::new(schema_b(), &[]);
    assert_eq!(table.put(Target(&[2, 0, 2]), &["1,x,c"]), "+I[1,null,c]");
    let rules = MergeRules::new(&table.descriptor, &table.descriptor.schema);
    assert!(!rules.merger(&[2, 0, 2], false).unwrap().is_plain());
}

#[test]
fn a_column_that_the_old_schema_did_not_have_is_null() {
    let mut table = Table::new(schema_a(), &[]);
    table.put(Full, &["1,v", "2,w"]);
    let mut table = table.altered(schema_b());
    assert_eq!(
        table.put(Target(&[0, 1]), &["1,x"]),
        "-U[1,v,null] +U[1,x,null]"
    );
    assert_eq!(table.put(Target(&[0, 1]), &["-1"]), "-D[1,x,null]");
    assert_eq!(
        table.put(Target(&[0, 2]), &["-2"]),
        "-U[2,w,null] +U[2,w,null]"
    );
}

#[test]
fn a_delete_of_a_missing_key_and_a_full_delete() {
    let mut table = Table::new(schema_b(), &[]);
    assert_eq!(table.put(Target(&[0, 1]), &["-1"]), "");
    table.put(Full, &["1,b,c"]);
    assert_eq!(
        table.put(Full, &["1,b,c", "-1"]),
        "-U[1,b,c] +U[1,b,c] -D[1,b,c]"
    );
}
