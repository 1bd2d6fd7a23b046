use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::tests::any_schema;
use crate::{ArrowCompression, DataType, KvFormat, LogFormat, StatisticsColumns};

/// Descriptors that a reference cluster returned.
const RECORDED: &str = include_str!("../../testdata/descriptors.jsonl");

fn of(text: &str) -> DataType {
    text.parse().expect(text)
}

fn any_text_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[a-z.]{0,8}", "\\PC{0,8}", 0..4)
}

fn any_descriptor() -> impl Strategy<Value = TableDescriptor> {
    let bucket_count = proptest::option::of(any::<i32>());
    let comment = proptest::option::of("\\PC{0,8}");
    (
        any_schema(),
        bucket_count,
        comment,
        any_text_map(),
        any_text_map(),
        any::<bool>(),
    )
        .prop_map(
            |(schema, bucket_count, comment, properties, custom_properties, partitioned)| {
                let names: Vec<String> = schema
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
                    .collect();
                let partition_keys = match schema.primary_key.len() {
                    _ if !partitioned => Vec::new(),
                    0 => names.into_iter().take(1).collect(),
                    1 => Vec::new(),
                    _ => vec![schema.primary_key[0].clone()],
                };
                TableDescriptor {
                    comment,
                    partition_keys,
                    bucket_count,
                    properties,
                    custom_properties,
                    ..TableDescriptor::new(schema)
                }
                .checked()
                .expect("generated descriptors keep the rules")
            },
        )
}

proptest! {
    #[test]
    fn any_descriptor_is_read_back_from_json(descriptor in any_descriptor()) {
        let bytes = descriptor.to_json_bytes();
        prop_assert_eq!(TableDescriptor::from_json_bytes(&bytes), Ok(descriptor));
    }

    #[test]
    fn a_damaged_document_never_panics(descriptor in any_descriptor(), at in any::<usize>(), byte: u8) {
        let mut bytes = descriptor.to_json_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(read) = TableDescriptor::from_json_bytes(&bytes) {
            prop_assert_eq!(TableDescriptor::from_json_bytes(&read.to_json_bytes()), Ok(read));
        }
    }
}

/// A document with two columns `a` and `b`; `change` edits it.
fn document(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "version": 1,
        "schema": {
            "version": 1,
            "columns": [
                {"name": "a", "data_type": {"type": "INTEGER"}, "id": 0},
                {"name": "b", "data_type": {"type": "STRING"}, "id": 1},
            ],
            "highest_field_id": 1,
        },
        "partition_key": [],
        "bucket_key": [],
        "bucket_count": 1,
        "properties": {},
        "custom_properties": {},
    });
    change(&mut document);
    document
}

fn without(key: &str) -> Value {
    document(|document| {
        document
            .as_object_mut()
            .expect("an object")
            .shift_remove(key)
            .expect("was there");
    })
}

#[test]
fn the_sample_of_the_specification_is_written_as_it_was_read() {
    let json = r#"{"version":1,"schema":{"version":1,"columns":[{"name":"id","data_type":{"type":"INTEGER","nullable":false},"id":0},{"name":"v","data_type":{"type":"STRING"},"comment":"c","id":1}],"primary_key":["id"],"highest_field_id":1},"partition_key":[],"bucket_key":["id"],"bucket_count":3,"properties":{},"custom_properties":{}}"#;
    let descriptor = TableDescriptor::from_json_bytes(json.as_bytes()).expect("valid");
    assert_eq!(
        String::from_utf8(descriptor.to_json_bytes()).as_deref(),
        Ok(json)
    );
}

#[test]
fn recorded_descriptors_are_written_as_they_were_read() {
    let mut count = 0;
    for line in RECORDED.lines() {
        let mut recorded: Value = serde_json::from_str(line).expect(line);
        let descriptor = TableDescriptor::from_json(&recorded).expect(line);
        // The order of properties is free; the rest is written in the same order.
        recorded["properties"]
            .as_object_mut()
            .expect("an object")
            .sort_keys();
        assert_eq!(descriptor.to_json().to_string(), recorded.to_string());
        count += 1;
    }
    assert!(count > 60, "{count} documents");
}

#[test]
fn documents_without_a_required_member_are_refused() {
    for key in [
        "schema",
        "partition_key",
        "properties",
        "custom_properties",
        "bucket_key",
    ] {
        let error = TableDescriptor::from_json(&without(key))
            .expect_err(key)
            .to_string();
        assert!(error.contains(key), "{key}: {error}");
    }
    for bytes in [
        &b""[..],
        b"{}",
        b"[]",
        b"{nonsense",
        b"null",
        b"\"\xff\"",
        b"5",
    ] {
        assert!(TableDescriptor::from_json_bytes(bytes).is_err());
    }
}

#[test]
fn documents_without_an_optional_member_are_taken() {
    let no_distribution = document(|document| {
        let members = document.as_object_mut().expect("an object");
        members.shift_remove("bucket_count");
        members.shift_remove("bucket_key");
    });
    let read = TableDescriptor::from_json(&no_distribution).expect("no distribution");
    assert_eq!(read.bucket_count, None);
    let text = read.to_json().to_string();
    assert!(!text.contains("bucket"), "{text}");

    for document in [
        without("version"),
        without("bucket_count"),
        document(|document| document["version"] = 2.into()),
        document(|document| document["schema"]["version"] = 2.into()),
        document(|document| document["comment"] = Value::Null),
        document(|document| document["bucket_key"] = Value::Null),
        document(|document| document["unknown"] = json!({"a": [1]})),
    ] {
        let read = TableDescriptor::from_json(&document);
        assert!(read.is_ok(), "{document}: {read:?}");
    }
}

#[test]
fn scalars_of_another_type_are_taken_as_text_or_number() {
    let read = TableDescriptor::from_json(&document(|document| {
        document["bucket_count"] = "3".into();
        document["custom_properties"] = json!({"a": null, "b": 5, "c": true});
    }))
    .expect("lenient");
    assert_eq!(read.bucket_count, Some(3));
    let custom: Vec<&str> = read
        .custom_properties
        .values()
        .map(String::as_str)
        .collect();
    assert_eq!(custom, ["null", "5", "true"]);
}

#[test]
fn values_that_are_no_scalars_or_numbers_are_refused() {
    for change in [
        ("bucket_count", Value::Null),
        ("bucket_count", json!("x")),
        ("bucket_count", json!(2_147_483_648_u32)),
        ("properties", json!({"a": {}})),
        ("properties", json!([])),
        ("partition_key", json!("a")),
        ("bucket_key", json!([["a"]])),
    ] {
        let (key, value) = change;
        let document = document(|document| document[key] = value);
        assert!(TableDescriptor::from_json(&document).is_err(), "{document}");
    }
}

#[test]
fn each_broken_rule_of_keys_has_its_reason() {
    let log = || Schema::builder().columns([("a", of("INT")), ("b", of("INT")), ("c", of("INT"))]);
    let pk = |keys: &[&str]| {
        log()
            .primary_key(keys.iter().copied())
            .build()
            .expect("valid")
    };
    let log = log().build().expect("valid");
    for (descriptor, fragment) in [
        (
            TableDescriptor::new(log.clone()).partitioned_by(["x"]),
            "Partition key 'x' does not exist in the schema.",
        ),
        (
            TableDescriptor::new(pk(&["a", "b"])).partitioned_by(["c"]),
            "Partitioned Primary Key Table requires partition key [c] is a subset of the primary key [a, b].",
        ),
        (
            TableDescriptor::new(pk(&["a", "b"])).partitioned_by(["b", "a"]),
            "Primary Key constraint [a, b] should not be same with partition fields [b, a].",
        ),
        (
            TableDescriptor::new(log.clone()).distributed_by(1, ["x"]),
            "Bucket key 'x' does not exist in the schema.",
        ),
        (
            TableDescriptor::new(log.clone())
                .partitioned_by(["a"])
                .distributed_by(1, ["b", "a"]),
            "Bucket key [b, a] shouldn't include any column in partition keys [a].",
        ),
        (
            TableDescriptor::new(pk(&["a", "b"])).distributed_by(1, ["c"]),
            "Bucket keys must be a subset of primary keys excluding partition keys",
        ),
        (
            TableDescriptor::new(log.clone()).partitioned_by(["a", "a"]),
            "must not contain duplicate columns",
        ),
        (
            TableDescriptor::new(log).distributed_by(1, ["a", "a"]),
            "must not contain duplicate columns",
        ),
    ] {
        let error = descriptor.checked().expect_err(fragment).to_string();
        assert!(error.contains(fragment), "{error}");
    }
}

#[test]
fn a_primary_key_table_gets_its_physical_key_as_bucket_key() {
    let columns = [("a", of("INT")), ("p", of("STRING")), ("b", of("INT"))];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["b", "p", "a"])
        .build()
        .expect("valid");
    let descriptor = TableDescriptor::new(schema.clone())
        .partitioned_by(["p"])
        .checked()
        .expect("valid");
    assert_eq!(descriptor.physical_primary_key(), ["b", "a"]);
    assert_eq!(descriptor.bucket_keys, ["b", "a"]);
    assert!(descriptor.has_default_bucket_key());
    let text = descriptor.to_json().to_string();
    assert!(
        text.contains(r#""bucket_key":["b","a"],"properties""#),
        "{text}"
    );

    let other = TableDescriptor::new(schema)
        .partitioned_by(["p"])
        .distributed_by(2, ["a"])
        .checked()
        .expect("valid");
    assert!(!other.has_default_bucket_key());
}

#[test]
fn a_log_table_without_bucket_key_has_the_default_one() {
    let schema = Schema::of([("a", of("INT"))]).expect("valid");
    let free = TableDescriptor::new(schema.clone())
        .checked()
        .expect("valid");
    assert!(free.bucket_keys.is_empty() && free.has_default_bucket_key());
    let keyed = TableDescriptor::new(schema)
        .distributed_by(1, ["a"])
        .checked()
        .expect("valid");
    assert!(!keyed.has_default_bucket_key());
}

#[test]
fn options_are_read_with_their_defaults() {
    let days = |days: u64| std::time::Duration::from_secs(days * 86_400);
    let plain = TableDescriptor::new(Schema::of([("a", of("INT"))]).expect("valid"));
    assert_eq!(plain.log_format(), Ok(LogFormat::Arrow));
    assert_eq!(plain.kv_format(), Ok(KvFormat::Compacted));
    assert_eq!(
        plain.arrow_compression(),
        Ok(ArrowCompression::Zstd { level: 3 })
    );
    assert_eq!(plain.log_ttl(), Ok(days(7)));
    assert_eq!(plain.log_local_ttl(), Ok(days(7)));
    assert_eq!(plain.tiered_local_segments(), Ok(2));
    assert_eq!(plain.replication_factor(), Ok(None));
    assert_eq!(plain.kv_format_version(), Ok(1));
    assert_eq!(plain.standby_replica_enabled(), Ok(false));
    assert_eq!(plain.auto_increment_cache_size(), Ok(100_000));
    assert_eq!(plain.statistics_columns(), Ok(None));
    assert_eq!(plain.merge_engine(), Ok(None));
    assert_eq!(
        plain.datalake_freshness(),
        Ok(std::time::Duration::from_secs(180))
    );

    let set = plain
        .with_property("table.log.ttl", "3d")
        .with_property("table.log.arrow.compression.type", "lz4_frame")
        .with_property("table.log.format", "compacted")
        .with_property("table.replication.factor", "3");
    assert_eq!(set.log_local_ttl(), Ok(days(3)));
    assert_eq!(set.arrow_compression(), Ok(ArrowCompression::Lz4Frame));
    assert_eq!(set.log_format(), Ok(LogFormat::Compacted));
    assert_eq!(set.replication_factor(), Ok(Some(3)));
    let unknown = set.with_property("table.log.format", "of-the-future");
    assert!(unknown.log_format().is_err());
}

#[test]
fn statistics_columns_resolve_to_positions_of_supported_types() {
    let schema = Schema::of([
        ("a", of("INT")),
        ("b", of("BYTES")),
        ("c", of("CHAR(2)")),
        ("d", of("ARRAY<INT>")),
    ])
    .expect("valid");
    assert_eq!(StatisticsColumns::All.positions(&schema), [0, 2]);
    let named = |names: &[&str]| {
        StatisticsColumns::Named(names.iter().map(|name| (*name).to_owned()).collect())
    };
    assert_eq!(named(&["c", "a", "c", "b", "x"]).positions(&schema), [2, 0]);
}

#[test]
fn a_document_with_very_many_names_is_read_in_time_linear_in_its_size() {
    // 60,000 names each: looked up one by one in a list this would take minutes.
    let names: Vec<String> = (0..60_000).map(|index| format!("c{index}")).collect();
    let schema = Schema::builder()
        .columns(names.iter().map(|name| (name, of("INT"))))
        .primary_key(&names[1..])
        .build()
        .expect("valid");
    let descriptor = TableDescriptor::new(schema)
        .partitioned_by(&names[1..30_000])
        .distributed_by(1, &names[30_000..])
        .checked()
        .expect("valid");
    let read = TableDescriptor::from_json_bytes(&descriptor.to_json_bytes());
    assert_eq!(read, Ok(descriptor));
}
