//! Writers and rows of older schemas (tables.md §2.4; vectors of §9.8).

use super::bucket::{BIGINT, Bucket, INT, Put, STRING, schema, schema_a, schema_b};
use crate::KvError;

#[test]
fn se6_rows_of_both_schemas_are_kept() {
    Bucket::in_all_formats(&schema_a(), &[], |bucket| {
        bucket.rows(&["1,a"]);
        bucket.add_columns(&[("c", STRING, None)]);
        assert_eq!(bucket.rows(&["2,b,bb"]), "+I[2,b,bb]@1");
        assert_eq!(
            (bucket.lookup("1"), bucket.lookup("2")),
            ("1,a,null".to_owned(), "2,b,bb".to_owned())
        );
        // A writer that does not know the column yet.
        let old = Put::new(&["1,aa", "2,bbb", "3,x"]).schema_id(1);
        assert_eq!(
            bucket.put(old),
            "-U[1,a,null]@2 +U[1,aa,null]@3 -U[2,b,bb]@4 +U[2,bbb,null]@5 +I[3,x,null]@6"
        );
    });
}

#[test]
fn a_whole_row_is_stored_as_it_was_sent_and_a_merged_one_with_the_latest_schema() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.add_columns(&[("c", STRING, None)]);
    bucket.put(Put::new(&["1,a", "2,b"]).schema_id(1));
    bucket.put(Put::new(&["2,bb"]).schema_id(1).target(&[0, 1]));
    let schema_ids: Vec<i16> = ["1", "2"]
        .map(|key| {
            let key = bucket.key(&super::text::row(bucket.table.latest_schema(), key));
            let value = bucket
                .tablet
                .lock()
                .look_up(&[&key])
                .unwrap()
                .remove(0)
                .unwrap();
            i16::from_le_bytes([value[0], value[1]])
        })
        .to_vec();
    assert_eq!(schema_ids, [1, 2]);
}

#[test]
fn se9_and_se10_old_partial_writers_leave_the_new_column() {
    Bucket::in_all_formats(&schema_b(), &[], |bucket| {
        bucket.rows(&["1,b_val,c_val"]);
        bucket.add_columns(&[("d", STRING, None)]);
        let old = Put::new(&["1,new_b"]).schema_id(1).target(&[0, 1]);
        assert_eq!(
            bucket.put(old),
            "-U[1,b_val,c_val,null]@1 +U[1,new_b,c_val,null]@2"
        );
        let old = Put::new(&["-1"]).schema_id(1).target(&[0, 1]);
        assert_eq!(
            bucket.put(old),
            "-U[1,new_b,c_val,null]@3 +U[1,null,c_val,null]@4"
        );
        // What was all columns is some of them now.
        bucket.put(Put::new(&["1,b,c,d"]).target(&[0, 1, 2, 3]));
        let old = Put::new(&["1,x,y"]).schema_id(1).target(&[0, 1, 2]);
        assert_eq!(bucket.put(old), "-U[1,b,c,d]@7 +U[1,x,y,d]@8");
    });
}

#[test]
fn partial_updates_and_deletes_reach_over_three_schemas() {
    Bucket::in_all_formats(&schema_a(), &[], |bucket| {
        bucket.rows(&["1,a", "2,a", "3,a"]);
        for column in ["c", "d", "e"] {
            bucket.add_columns(&[(column, BIGINT, None)]);
        }
        let put = Put::new(&["1,null,null,null,5"]).target(&[0, 4]);
        assert_eq!(
            bucket.put(put),
            "-U[1,a,null,null,null]@3 +U[1,a,null,null,5]@4"
        );
        let put = Put::new(&["2,b,3"]).schema_id(2).target(&[0, 2]);
        assert_eq!(
            bucket.put(put),
            "-U[2,a,null,null,null]@5 +U[2,a,3,null,null]@6"
        );
        let put = Put::new(&["-1", "-2", "-3"]).schema_id(3).target(&[0, 1]);
        assert_eq!(
            bucket.put(put),
            "-U[1,a,null,null,5]@7 +U[1,null,null,null,5]@8 \
             -U[2,a,3,null,null]@9 +U[2,null,3,null,null]@10 -D[3,a,null,null,null]@11"
        );
    });
}

#[test]
fn se13_a_schema_that_the_table_does_not_have_is_refused() {
    let mut bucket = Bucket::new(schema_a(), &[]);
    bucket.add_columns(&[("c", STRING, None)]);
    for schema_id in [3, -1, i16::MIN] {
        let builder = mainstem_format::KvBatchBuilder::new(schema_id, -1, -1);
        let batch = mainstem_format::KvBatch::parse(builder.finish()).unwrap();
        let error = bucket.put_batch(&batch, Default::default()).unwrap_err();
        assert!(matches!(error, KvError::UnknownSchema { .. }));
        assert_eq!(
            error.to_string(),
            format!("Invalid schema id: {schema_id}, latest schema id: 2")
        );
    }
}

#[test]
fn a_put_with_an_older_view_of_the_table_waits_for_the_newer_one() {
    let mut bucket = Bucket::new(schema(&[("a", INT), ("b", INT)]), &[]);
    let older = bucket.schemas.clone();
    bucket.add_columns(&[("c", INT, None)]);
    bucket.rows(&["1,2,3"]);
    let descriptor = mainstem_types::TableDescriptor {
        schema: (*older[0]).clone(),
        ..bucket.descriptor.clone()
    };
    bucket.table = crate::KvTable::new(&descriptor, [(1, older[0].clone())]).unwrap();
    let error = bucket.try_put(Put::new(&["1,3"])).unwrap_err();
    assert!(matches!(error, KvError::Storage(_)), "{error}");
    assert!(bucket.tablet.lock().failure().is_none());
}
