//! CreateTable requests recorded at reference clusters, with their answers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::TablePath;
use crate::names::check_table_path;

const RECORDED: &str = include_str!("../../../testdata/create_table.jsonl");

/// The two clusters of the recording.
fn cluster_named(name: &str) -> Cluster {
    match name {
        "a" => Cluster::default(),
        "b" => Cluster {
            live_servers: 3,
            max_bucket_num: 24,
            ..Cluster::default()
        },
        other => panic!("no cluster {other}"),
    }
}

fn answer(recorded: &Value) -> Result<TableDescriptor, TableError> {
    let text = |key: &str| recorded[key].as_str().expect(key);
    let (database, table) = text("table").split_once('.').expect("a path");
    check_table_path(&TablePath::new(database, table))?;
    let descriptor = TableDescriptor::from_json_bytes(text("json").as_bytes())?;
    new_table(descriptor, &cluster_named(text("cluster")))
}

#[test]
fn recorded_requests_are_answered_as_the_reference_did() {
    let (mut created, mut refused) = (0, 0);
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).expect(line);
        match answer(&recorded) {
            Ok(descriptor) => {
                assert_eq!(recorded["code"], 0, "{line}");
                created += 1;
                if let Some(stored) = recorded.get("stored") {
                    let stored: BTreeMap<String, String> =
                        serde_json::from_value(stored.clone()).expect("properties");
                    assert_eq!(descriptor.properties, stored, "{line}");
                }
            }
            Err(error) => {
                assert_eq!(recorded["code"], error.code.code(), "{line}: {error}");
                refused += 1;
                let message = recorded["message"].as_str().expect("a message");
                // What a JSON library says of unreadable bytes is its own affair.
                if !message.contains("JsonNode") && !message.contains("JsonParseException") {
                    assert!(error.message.starts_with(message), "{message}: {error}");
                }
            }
        }
    }
    assert!(
        created > 25 && refused > 10,
        "{created} created, {refused} refused"
    );
}
