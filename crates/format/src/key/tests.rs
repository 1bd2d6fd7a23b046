use std::collections::BTreeMap;

use mainstem_types::BucketId;
use proptest::prelude::*;

use super::*;
use crate::bucketing::BucketAssigner;
use crate::golden;
use crate::testing::{all_types, all_types_row, any_table, hex, schema_of};
use crate::value::Timestamp;
use crate::value_batch::split_stored_value;
use crate::value_builder::RowsToBatch;

fn encoder(encoding: KeyEncoding, kinds: Vec<TypeKind>) -> Result<KeyEncoder> {
    let schema = schema_of(kinds);
    let names: Vec<_> = schema
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    KeyEncoder::new(encoding, &schema, &names)
}

fn check(encoding: KeyEncoding, kinds: Vec<TypeKind>, row: &[Value<'_>], expected: &str) {
    let encoder = encoder(encoding, kinds).unwrap();
    let mut key = Vec::new();
    encoder.encode_row(row, &mut key).unwrap();
    assert_eq!(key, hex(expected), "{key:02x?}");
    assert_eq!(encoder.decode(&key).unwrap(), row);
}

#[test]
fn compacted_keys_have_the_reference_bytes() {
    let kinds = vec![TypeKind::Int, TypeKind::BigInt, TypeKind::Int];
    let row = [Value::Int(1), Value::BigInt(3), Value::Int(2)];
    check(KeyEncoding::Compacted, kinds, &row, "01 03 02");
    check(
        KeyEncoding::Compacted,
        vec![TypeKind::Int],
        &[Value::Int(-5)],
        "fb ff ff ff 0f",
    );
    check(
        KeyEncoding::Compacted,
        vec![TypeKind::String],
        &["a1".into()],
        "02 61 31",
    );
}

#[test]
fn paimon_keys_have_the_reference_bytes() {
    let kinds = vec![TypeKind::Int, TypeKind::String];
    let expected = "0000000000000000 0100000000000000 6131000000000082";
    check(
        KeyEncoding::Paimon,
        kinds,
        &[Value::Int(1), "a1".into()],
        expected,
    );
    let expected = "
        00000000 00000000 01000000 00000000 ff000000 00000000 2c010000 00000000
        fbffffff 00000000 00000000 00010000 0000c03f 00000000 00000000 000002c0
        c74c0000 00000000 c0d90902 00000000 61620000 00000082 68c3a96c 6c6f0086
        01020000 00000082 09080700 00000083 2efbffff ffffffff 09000000 98000000
        decfb566 8b010000 40f50600 a8000000 e8030000 b0000000 ff54ab56 7314e0f5
        2e000000 00000000 decfb566 8b010000 ffffffff ffffffff";
    check(
        KeyEncoding::Paimon,
        all_types()[..18].to_vec(),
        &all_types_row()[..18],
        expected,
    );
}

#[test]
fn iceberg_keys_are_the_bytes_that_iceberg_hashes() {
    let check = |kind, value: Value<'static>, expected: &str| {
        super::tests::check(KeyEncoding::Iceberg, vec![kind], &[value], expected);
    };
    check(TypeKind::Int, Value::Int(1), "0100000000000000");
    check(TypeKind::Int, Value::Int(-1), "ffffffffffffffff");
    check(TypeKind::Date, Value::Date(17_486), "4e44000000000000");
    check(
        TypeKind::Time { precision: 3 },
        Value::Time(1),
        "e803000000000000",
    );
    check(TypeKind::String, "iceberg".into(), "69636562657267");
    check(
        TypeKind::Decimal {
            precision: 4,
            scale: 2,
        },
        Value::Decimal(1420),
        "058c",
    );
    let timestamp = Timestamp {
        millis: -1,
        nanos_of_milli: 999_000,
    };
    let kind = TypeKind::Timestamp { precision: 6 };
    check(kind, Value::Timestamp(timestamp), "ffffffffffffffff");
}

#[test]
fn an_encoding_refuses_columns_that_it_cannot_take() {
    let refused = |encoding, kinds: &[TypeKind]| encoder(encoding, kinds.to_vec()).is_err();
    assert!(refused(
        KeyEncoding::Iceberg,
        &[TypeKind::Int, TypeKind::Int]
    ));
    assert!(refused(KeyEncoding::Iceberg, &[TypeKind::Boolean]));
    assert!(refused(
        KeyEncoding::Iceberg,
        &[TypeKind::TimestampLtz { precision: 3 }]
    ));
    assert!(refused(KeyEncoding::Hudi, &[TypeKind::Bytes]));
    assert!(refused(KeyEncoding::Compacted, &[]));
    let schema = schema_of([TypeKind::Int]);
    assert!(KeyEncoder::new(KeyEncoding::Compacted, &schema, &["g"]).is_err());
}

#[test]
fn null_is_refused_where_it_cannot_be_told_from_a_value() {
    for encoding in [KeyEncoding::Compacted, KeyEncoding::Iceberg] {
        let encoder = encoder(encoding, vec![TypeKind::Int]).unwrap();
        assert!(encoder.encode(&[Value::Null], &mut Vec::new()).is_err());
    }
}

#[test]
fn keys_with_bytes_behind_them_are_refused() {
    for encoding in [KeyEncoding::Compacted, KeyEncoding::Iceberg] {
        let encoder = encoder(encoding, vec![TypeKind::BigInt]).unwrap();
        let mut key = Vec::new();
        encoder.encode(&[Value::BigInt(1)], &mut key).unwrap();
        key.push(0);
        assert!(encoder.decode(&key).is_err());
    }
}

/// A table of INT columns a, b, c with primary key (a, b, c).
fn table(
    bucket_keys: &[&str],
    partition_keys: &[&str],
    properties: &[(&str, &str)],
) -> TableDescriptor {
    let mut schema = schema_of([TypeKind::Int, TypeKind::Int, TypeKind::Int]);
    for (column, name) in schema.columns.iter_mut().zip(["a", "b", "c"]) {
        column.name = name.into();
    }
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    schema.primary_key = owned(&["a", "b", "c"]);
    TableDescriptor {
        schema,
        comment: None,
        partition_keys: owned(partition_keys),
        bucket_keys: owned(bucket_keys),
        bucket_count: Some(4),
        properties: properties
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        custom_properties: BTreeMap::new(),
    }
}

#[test]
fn a_table_chooses_its_encoders_by_lake_and_version() {
    use KeyEncoding::{Compacted, Hudi, Iceberg, Paimon};
    let check = |bucket_keys: &[&str], properties: &[(&str, &str)], primary, bucket| {
        let table = table(bucket_keys, &[], properties);
        let actual = (
            KeyEncoder::primary_key(&table)
                .map(|key| key.encoding())
                .ok(),
            KeyEncoder::bucket_key(&table)
                .map(|key| key.map(|key| key.encoding()))
                .ok()
                .flatten(),
        );
        assert_eq!(actual, (primary, bucket), "{bucket_keys:?} {properties:?}");
    };
    let lake = |name| ("table.datalake.format", name);
    let version = |number| ("table.kv.format-version", number);
    check(&[], &[], Some(Compacted), Some(Compacted));
    check(
        &[],
        &[lake("lance"), version("2")],
        Some(Compacted),
        Some(Compacted),
    );
    check(
        &[],
        &[lake("paimon"), version("2")],
        Some(Paimon),
        Some(Paimon),
    );
    check(
        &["a"],
        &[lake("paimon"), version("2")],
        Some(Compacted),
        Some(Paimon),
    );
    check(
        &["a"],
        &[lake("paimon"), version("1")],
        Some(Paimon),
        Some(Paimon),
    );
    check(&["a"], &[lake("paimon")], Some(Paimon), Some(Paimon));
    check(
        &["a"],
        &[lake("HUDI"), version("2")],
        Some(Compacted),
        Some(Hudi),
    );
    check(
        &["a"],
        &[lake("iceberg"), version("2")],
        Some(Compacted),
        Some(Iceberg),
    );
    check(&[], &[lake("iceberg"), version("2")], None, None);
    check(&[], &[lake("delta")], None, None);
}

#[test]
fn partition_columns_are_not_part_of_the_key() {
    let table = table(&[], &["b"], &[]);
    assert_eq!(KeyEncoder::primary_key(&table).unwrap().columns(), [0, 2]);
    assert_eq!(
        KeyEncoder::bucket_key(&table).unwrap().unwrap().columns(),
        [0, 2]
    );
}

#[test]
fn a_prefix_key_begins_the_primary_key() {
    let properties = [
        ("table.datalake.format", "paimon"),
        ("table.kv.format-version", "2"),
    ];
    let table = table(&["a", "b"], &[], &properties);
    let row = [Value::Int(300), Value::Int(-1), Value::Int(7)];
    let (mut key, mut prefix) = (Vec::new(), Vec::new());
    KeyEncoder::primary_key(&table)
        .unwrap()
        .encode_row(&row, &mut key)
        .unwrap();
    KeyEncoder::prefix(&table)
        .unwrap()
        .encode_row(&row, &mut prefix)
        .unwrap();
    assert!(key.starts_with(&prefix) && key.len() == prefix.len() + 1);
}

#[test]
fn rows_go_to_the_bucket_of_their_key() {
    let mut assigner = BucketAssigner::new(&table(&["b"], &[], &[]))
        .unwrap()
        .unwrap();
    let row = [Value::Int(0), Value::Int(200), Value::Int(0)];
    assert_eq!(assigner.assign_row(&row, 16).unwrap(), BucketId(6));
    assert_eq!(
        assigner.assign(&[Value::Int(200)], 16).unwrap(),
        BucketId(6)
    );
    let mut log_table = table(&[], &[], &[]);
    log_table.schema.primary_key.clear();
    assert!(BucketAssigner::new(&log_table).unwrap().is_none());
}

#[test]
fn rows_stored_by_a_reference_server_encode_to_the_same_bytes() {
    for name in [
        "kv_small",
        "kv_types",
        "kv_partial",
        "kv_buckets",
        "kv_prefix",
    ] {
        let table = golden::table(name);
        let encoder = KeyEncoder::primary_key(&table.descriptor).unwrap();
        let mut assigner = BucketAssigner::new(&table.descriptor).unwrap().unwrap();
        let bucket_count = table.descriptor.bucket_count.unwrap();
        assert!(!table.stored.is_empty());
        for stored in &table.stored {
            let (schema_id, bytes) = split_stored_value(&stored.value).unwrap();
            let schema = &table.schemas[&schema_id];
            let fields = schema.columns.as_slice();
            let row = RowFormat::Compacted.decode(bytes, fields).unwrap();
            let in_log = table.log.iter().rfind(|record| {
                record.bucket == stored.bucket && record.row(schema)[..] == row[..]
            });
            assert!(in_log.is_some(), "{name}: {row:?} was never in the log");
            let mut encoded = Vec::new();
            RowFormat::Compacted
                .encode(&row, fields, &mut encoded)
                .unwrap();
            assert_eq!(encoded, bytes, "{name}: {row:?}");
            let mut key = Vec::new();
            encoder.encode_row(&row, &mut key).unwrap();
            assert_eq!(key, stored.key, "{name}: {row:?}");
            let bucket = assigner.assign_row(&row, bucket_count).unwrap();
            assert_eq!(bucket, BucketId(stored.bucket), "{name}: {row:?}");
        }
    }
}

#[test]
fn rows_of_a_log_table_lie_in_the_bucket_of_their_key() {
    let table = golden::table("log_buckets");
    let mut assigner = BucketAssigner::new(&table.descriptor).unwrap().unwrap();
    let bucket_count = table.descriptor.bucket_count.unwrap();
    let mut rows = RowsToBatch::new(&table.descriptor.schema, table.log.len());
    for record in &table.log {
        let row = record.row(&table.descriptor.schema);
        let bucket = assigner.assign_row(&row, bucket_count).unwrap();
        assert_eq!(bucket, BucketId(record.bucket), "{row:?}");
        rows.append(&row).unwrap();
    }
    let buckets = assigner
        .assign_batch(&rows.finish().unwrap(), bucket_count)
        .unwrap();
    let expected: Vec<_> = table
        .log
        .iter()
        .map(|record| BucketId(record.bucket))
        .collect();
    assert_eq!(buckets, expected);
}

proptest! {
    #[test]
    fn every_key_comes_back((schema, rows) in any_table(4, 3)) {
        let names: Vec<_> = schema.columns.iter().map(|column| column.name.clone()).collect();
        for encoding in [KeyEncoding::Compacted, KeyEncoding::Paimon] {
            let encoder = KeyEncoder::new(encoding, &schema, &names).unwrap();
            for row in &rows {
                let mut key = Vec::new();
                match encoder.encode_row(row, &mut key) {
                    Ok(()) => prop_assert_eq!(&encoder.decode(&key).unwrap(), row),
                    Err(_) => prop_assert!(row.iter().any(Value::is_null)),
                }
            }
        }
    }

    #[test]
    fn arbitrary_keys_never_panic((schema, _) in any_table(1, 0), key: Vec<u8>) {
        let names = ["c0"];
        for encoding in [KeyEncoding::Compacted, KeyEncoding::Paimon, KeyEncoding::Iceberg] {
            if let Ok(encoder) = KeyEncoder::new(encoding, &schema, &names) {
                let _ = encoder.decode(&key);
            }
        }
    }
}
