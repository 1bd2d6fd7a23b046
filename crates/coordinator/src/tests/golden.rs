//! Requests that clients sent to reference clusters, in their bytes, and what
//! was answered: the code, and the fields of a success.
//!
//! `testdata/golden.json` holds them with the tables that they are about. Before
//! a case its table, partition or database is put into the state that the answer
//! presupposes. Left out are cases about an authorizer, a standby coordinator, a
//! lake, and KV snapshots or remote segments that exist.

use std::collections::{BTreeSet, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    AcquireKvSnapshotLeaseRequest, GetKvSnapshotMetadataRequest, ListKvSnapshotsRequest,
    ListRemoteLogManifestsRequest, RegisterProducerOffsetsRequest, ReleaseKvSnapshotLeaseRequest,
};
use prost::Message;
use serde_json::Value;

use super::fixture::*;
use crate::{CoordinatorConfig, ServerNode};

/// Where our answer is another one, by the specifications: sequence number, our
/// code, why.
const OTHER_ANSWERS: &[(i64, i32, &str)] = &[
    (156, 7, "a missing table in Metadata is 7"),
    (249, 7, "a missing table in Metadata is 7"),
    (250, 7, "a missing table in Metadata is 7"),
    (271, 7, "a missing table in Metadata is 7"),
    (272, 7, "a missing table in Metadata is 7"),
    (254, OK, "a partition path without name means the table"),
    (275, OK, "a partition path without name means the table"),
    (160, 7, "an unknown table has no list of files in use"),
    (507, 7, "an unknown table is 7, also with an authorizer"),
    (512, 7, "an unknown table is 7, also with an authorizer"),
    (506, 36, "a partitioned table has files per partition"),
    (513, 36, "a partitioned table has files per partition"),
    (270, 41, "without an authorizer no table is looked up"),
    (161, 7, "offsets of an unknown table are refused"),
    (657, 7, "offsets of an unknown table are refused"),
    (244, 43, "a filter by an unknown column is 43"),
    (267, 36, "a missing partition is 36"),
    (720, 2, "every request is answered"),
    (721, 2, "every request is answered"),
    (722, 2, "every request is answered"),
    (725, 2, "versions are checked"),
];

struct Cluster {
    fixture: Fixture,
    tables: HashMap<String, Value>,
}

impl Cluster {
    fn new(name: &str, tables: &Value) -> Self {
        let config = match name {
            "b" => CoordinatorConfig {
                max_bucket_num: 24,
                max_partition_num: 5,
                ..CoordinatorConfig::default()
            },
            _ => CoordinatorConfig::default(),
        };
        let fixture = Fixture::with(CoordinatorConfig {
            remote_data_dir: Some("/remote".to_owned()),
            server_configs: [("remote.data.dir".to_owned(), "/remote".to_owned())].into(),
            ..config
        });
        for id in 0..if name == "b" { 3 } else { 1 } {
            let node = ServerNode {
                rack: Some(format!("rack-{id}")),
                ..server(id)
            };
            fixture.coordinator.register(node).expect("registered");
        }
        let tables = tables.as_object().expect("tables by path").clone();
        Self {
            fixture,
            tables: tables.into_iter().collect(),
        }
    }

    /// A table with the partitions that it had.
    fn ensure(&self, path: &str) {
        let Some(table) = self.tables.get(path) else {
            return;
        };
        self.ensure_database(path.split('/').next().expect("a database"));
        self.fixture
            .try_create(path, table["json"].to_string(), true)
            .expect("created");
        let keys = table["json"]["partition_key"].as_array().expect("a list");
        for name in table["partitions"].as_object().expect("by id").values() {
            let key = keys[0].as_str().expect("a name");
            let spec = [(key, name.as_str().expect("a name"))];
            // There may be no room, where that is what the case is about.
            let _ = self.fixture.create_partition(path, &spec, true);
        }
    }

    fn ensure_database(&self, name: &str) {
        if self.fixture.coordinator.catalog().database(name).is_none() {
            self.fixture.create_database(name);
        }
    }

    fn drop_database(&self, name: &str) {
        if self.fixture.coordinator.catalog().database(name).is_some() {
            self.fixture
                .drop_database(name, true, true)
                .expect("dropped");
        }
    }

    /// Makes the state that the reference's answer presupposes.
    fn prepare(&self, case: &Value, key: ApiKey, expected: i64) {
        if let Some(database) = case["database"].as_str() {
            match (key, expected) {
                (ApiKey::CreateDatabase, 0) => self.drop_database(database),
                (ApiKey::DropDatabase, 5) => {
                    self.ensure_database(database);
                    let path = format!("{database}/t");
                    self.fixture
                        .try_create(&path, log_table().to_string(), true)
                        .expect("created");
                }
                (_, 4) => self.drop_database(database),
                (_, 16) => {}
                // Looking for a database is no reason for it to exist.
                (ApiKey::DatabaseExists, _) | (_, ..0) => {}
                _ => self.ensure_database(database),
            }
        }
        for path in case["tables"].as_array().into_iter().flatten() {
            let path = path.as_str().expect("a path");
            match (key, expected) {
                (ApiKey::DropTable, 0) | (_, 37) if !self.tables.contains_key(path) => {
                    self.ensure_database(path.split('/').next().expect("a database"));
                    self.fixture
                        .try_create(path, log_table().to_string(), true)
                        .expect("created");
                }
                (_, 7) => {
                    self.fixture.drop_table(path, true).expect("dropped");
                }
                (ApiKey::CreateTable, 0) => {
                    self.ensure_database(path.split('/').next().expect("a database"));
                    self.fixture.drop_table(path, true).expect("dropped");
                }
                // A case that created a table may have left another one there.
                (
                    ApiKey::CreatePartition
                    | ApiKey::DropPartition
                    | ApiKey::AcquireKvSnapshotLease,
                    0,
                ) if self.tables.contains_key(path) => {
                    self.fixture.drop_table(path, true).expect("dropped");
                    self.ensure(path);
                }
                (ApiKey::CreateTable, 4 | 15 | 16 | 17 | 39 | 49 | -1) => {}
                _ => self.ensure(path),
            }
            let Some(spec) = case["spec"].as_array() else {
                continue;
            };
            let spec: Vec<(&str, &str)> = spec
                .iter()
                .map(|pair| {
                    (
                        pair[0].as_str().expect("a key"),
                        pair[1].as_str().expect("a value"),
                    )
                })
                .collect();
            match (key, expected) {
                (ApiKey::CreatePartition, 0) | (ApiKey::DropPartition, 36) => {
                    self.fixture
                        .drop_partition(path, &spec, true)
                        .expect("dropped");
                }
                (ApiKey::CreatePartition, 42) | (ApiKey::DropPartition, 0) => {
                    self.fixture
                        .create_partition(path, &spec, true)
                        .expect("created");
                }
                (ApiKey::CreatePartition, 45) => {
                    for index in 0.. {
                        let filler = format!("filler{index}");
                        let filler = [(spec[0].0, filler.as_str())];
                        if self.fixture.create_partition(path, &filler, false).is_err() {
                            break;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The body, with the ids that tables and partitions have here.
    fn body(&self, case: &Value, key: ApiKey) -> Bytes {
        let body = STANDARD
            .decode(case["request"].as_str().expect("text"))
            .expect("base64");
        let Some(ids) = case["ids"].as_object() else {
            return body.into();
        };
        let catalog = self.fixture.coordinator.catalog();
        let table = |id: &mut Option<i64>| {
            let path = ids.get(&id.expect("sent").to_string())?.as_str()?;
            let entry = catalog.table(&types_path(path))?;
            *id = Some(entry.table_id.0);
            Some(path.to_owned())
        };
        let partition = |path: Option<String>, id: &mut Option<i64>| {
            let known = |id: i64| {
                let path = path.as_deref()?;
                let name = &self.tables.get(path)?["partitions"][id.to_string()];
                catalog.partition(&types_path(path), name.as_str()?)
            };
            *id = id.map(|id| known(id).map_or(id, |entry| entry.partition_id.0));
        };
        match key {
            ApiKey::ListKvSnapshots => {
                let mut request = ListKvSnapshotsRequest::decode(&body[..]).expect("a request");
                let path = table(&mut request.table_id);
                partition(path, &mut request.partition_id);
                request.encode_to_vec().into()
            }
            ApiKey::GetKvSnapshotMetadata => {
                let mut request =
                    GetKvSnapshotMetadataRequest::decode(&body[..]).expect("a request");
                let path = table(&mut request.table_id);
                partition(path, &mut request.partition_id);
                request.encode_to_vec().into()
            }
            ApiKey::AcquireKvSnapshotLease => {
                let mut request =
                    AcquireKvSnapshotLeaseRequest::decode(&body[..]).expect("a request");
                for wanted in &mut request.snapshots_to_lease {
                    let path = table(&mut wanted.table_id);
                    for bucket in &mut wanted.bucket_snapshots {
                        partition(path.clone(), &mut bucket.partition_id);
                    }
                }
                request.encode_to_vec().into()
            }
            ApiKey::ReleaseKvSnapshotLease => {
                let mut request =
                    ReleaseKvSnapshotLeaseRequest::decode(&body[..]).expect("a request");
                for bucket in &mut request.buckets_to_release {
                    let path = table(&mut bucket.table_id);
                    partition(path, &mut bucket.partition_id);
                }
                request.encode_to_vec().into()
            }
            ApiKey::ListRemoteLogManifests => {
                let mut request =
                    ListRemoteLogManifestsRequest::decode(&body[..]).expect("a request");
                let path = table(&mut request.table_id);
                partition(path, &mut request.partition_id);
                request.encode_to_vec().into()
            }
            _ => {
                let mut request =
                    RegisterProducerOffsetsRequest::decode(&body[..]).expect("a request");
                for offsets in &mut request.table_offsets {
                    table(&mut offsets.table_id);
                }
                request.encode_to_vec().into()
            }
        }
    }
}

/// Numbers of the top-level fields of a message that are not empty.
fn fields(mut message: &[u8]) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    while !message.is_empty() {
        let (field, wire_type) = prost::encoding::decode_key(&mut message).expect("a key");
        let before = message.len();
        let context = prost::encoding::DecodeContext::default();
        prost::encoding::skip_field(wire_type, field, &mut message, context).expect("a field");
        let is_empty =
            wire_type == prost::encoding::WireType::LengthDelimited && before - message.len() == 1;
        if !is_empty {
            found.insert(i64::from(field));
        }
    }
    found
}

#[test]
fn recorded_requests_are_answered_as_the_reference_did_or_better() {
    let golden: Value =
        serde_json::from_str(include_str!("../../testdata/golden.json")).expect("JSON");
    let clusters: HashMap<&str, Cluster> = ["a", "b"]
        .map(|name| (name, Cluster::new(name, &golden["tables"][name])))
        .into();
    let cases = golden["cases"].as_array().expect("a list");
    let mut wrong = Vec::new();
    for case in cases {
        let cluster = &clusters[case["cluster"].as_str().expect("a name")];
        let sequence = case["seq"].as_i64().expect("a number");
        let code = i16::try_from(case["key"].as_i64().expect("a number")).expect("a key");
        let key = ApiKey::from_code(code).expect("a key");
        let theirs = case["code"].as_i64().unwrap_or(i64::MIN);
        cluster.prepare(case, key, theirs);
        let body = cluster.body(case, key);
        let version = i16::try_from(case["version"].as_i64().expect("a number")).expect("fits");
        let fixture = &cluster.fixture;
        let answer = fixture
            .coordinator
            .handle(&fixture.session, key as i16, version, body);
        let other = OTHER_ANSWERS
            .iter()
            .find(|(number, ..)| *number == sequence);
        let expected = other.map_or(theirs, |(_, code, _)| i64::from(*code));
        let got = answer
            .as_ref()
            .map_or_else(|error| error.code.code(), |_| OK);
        let missing: Vec<i64> = match &answer {
            Ok(answer) if other.is_none() => {
                let ours = fields(answer);
                let theirs = case["fields"].as_array().expect("a list").iter();
                theirs
                    .filter_map(Value::as_i64)
                    .filter(|field| !ours.contains(field))
                    .collect()
            }
            _ => Vec::new(),
        };
        if i64::from(got) != expected || !missing.is_empty() {
            let (name, note) = (key.name(), case["note"].as_str().unwrap_or_default());
            wrong.push(format!(
                "{sequence} {name} ({note}): {theirs} there, {got} here, without {missing:?}: {:?}",
                answer.err()
            ));
        }
    }
    assert!(cases.len() > 250);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A small generator: the same bytes in every run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn damaged_requests_are_answered_too() {
    let golden: Value =
        serde_json::from_str(include_str!("../../testdata/golden.json")).expect("JSON");
    let fixture = Fixture::new();
    let mut random = 0x9E37_79B9_7F4A_7C15;
    for case in golden["cases"].as_array().expect("a list") {
        let request = case["request"].as_str().expect("text");
        let body = STANDARD.decode(request).expect("base64");
        let key = i16::try_from(case["key"].as_i64().expect("a number")).expect("a key");
        for _ in 0..30 {
            let mut damaged = body.clone();
            for _ in 0..1 + next(&mut random) % 4 {
                let position = next(&mut random) as usize % (damaged.len() + 1);
                match next(&mut random) % 3 {
                    0 => damaged.truncate(position),
                    1 => damaged.insert(position, next(&mut random) as u8),
                    _ if position < damaged.len() => damaged[position] = next(&mut random) as u8,
                    _ => {}
                }
            }
            // The answer may be anything; that there is one is the point.
            let _ = fixture
                .coordinator
                .handle(&fixture.session, key, 0, damaged.into());
        }
    }
    fixture.create("still_works", &log_table());
}
