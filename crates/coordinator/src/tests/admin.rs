//! behaviour.md §13 and §14.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::*;
use parking_lot::Mutex;

use super::fixture::*;
use crate::{APIS, ClusterConfigListener, CoordinatorConfig, is_read_only};

fn alter_configs(fixture: &Fixture, changes: &[(&str, Option<&str>, i32)]) -> i32 {
    let alter_configs = changes
        .iter()
        .map(|(key, value, op)| config(key, *value, *op))
        .collect();
    let request = AlterClusterConfigsRequest { alter_configs };
    code(fixture.call::<AlterClusterConfigsResponse>(ApiKey::AlterClusterConfigs, &request))
}

fn describe(fixture: &Fixture) -> BTreeMap<String, (Option<String>, String)> {
    let answer: DescribeClusterConfigsResponse = fixture
        .call(
            ApiKey::DescribeClusterConfigs,
            &DescribeClusterConfigsRequest {},
        )
        .expect("described");
    let count = answer.configs.len();
    let described: BTreeMap<_, _> = answer
        .configs
        .into_iter()
        .map(|entry| {
            let source = entry.config_source.expect("sent");
            (
                entry.config_key.expect("sent"),
                (entry.config_value, source),
            )
        })
        .collect();
    assert_eq!(described.len(), count, "every key once");
    described
}

fn with_configs(configs: &[(&str, &str)]) -> Fixture {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let server_configs = configs.iter().map(own).collect();
    Fixture::with(CoordinatorConfig {
        server_configs,
        ..CoordinatorConfig::default()
    })
}

const INTERVAL: &str = "kv.snapshot.interval";
const CREDENTIALS: &str = "security.sasl.plain.credentials";
const LIMIT: &str = "server.data-disk.write-limit-ratio";

#[test]
fn settings_change_at_run_time_where_that_is_allowed() {
    let fixture = Fixture::new();
    for (change, expected) in [
        ((INTERVAL, Some("5s"), 0), OK),
        ((INTERVAL, None, 1), OK),
        ((INTERVAL, None, 1), OK),
        ((INTERVAL, None, 0), OK),
        (
            ("log.replica.min-in-sync-replicas-number", Some("0"), 0),
            OK,
        ),
        (("datalake.paimon.x", Some("y"), 0), OK),
        ((INTERVAL, Some("soon"), 0), 64),
        (("max.bucket.num", Some("3"), 0), 64),
        (("no.such.key", Some("1"), 0), 64),
        ((LIMIT, Some("2"), 0), 64),
        ((INTERVAL, Some("1s"), 2), 64),
        ((INTERVAL, Some("1s"), 9), -1),
        (("datalake.format", Some("paimon"), 0), 64),
        ((CREDENTIALS, Some("carol:pw"), 2), OK),
        ((CREDENTIALS, Some("carol:other"), 2), 64),
        ((CREDENTIALS, None, 2), 64),
        ((CREDENTIALS, Some("a b:pw"), 2), 64),
        ((CREDENTIALS, Some("carol"), 3), 64),
        ((CREDENTIALS, Some("carol:pw"), 3), OK),
    ] {
        assert_eq!(alter_configs(&fixture, &[change]), expected, "{change:?}");
    }
    assert_eq!(alter_configs(&fixture, &[]), OK);
}

#[test]
fn one_bad_entry_leaves_everything_as_it_was() {
    let fixture = Fixture::new();
    let changes = [(INTERVAL, Some("5s"), 0), ("no.such.key", Some("1"), 0)];
    assert_eq!(alter_configs(&fixture, &changes), 64);
    assert_eq!(describe(&fixture), BTreeMap::new());
    assert!(fixture.store.get("config/cluster").expect("read").is_none());
}

#[test]
fn described_settings_say_where_they_come_from_and_hide_secrets() {
    let jaas = "security.sasl.plain.jaas.config";
    let fixture = with_configs(&[(INTERVAL, "3s"), ("max.bucket.num", "24"), (jaas, "secret")]);
    let own = |text: &str| text.to_owned();
    let initial = |value: &str| (Some(own(value)), own("INITIAL_SERVER_CONFIG"));
    let dynamic = |value: Option<&str>| (value.map(own), own("DYNAMIC_SERVER_CONFIG"));
    let mut expected = BTreeMap::from([
        (own(INTERVAL), initial("3s")),
        (own("max.bucket.num"), initial("24")),
        (own(jaas), initial("******")),
    ]);
    assert_eq!(describe(&fixture), expected);
    alter_configs(
        &fixture,
        &[(CREDENTIALS, Some("carol:pw1"), 0), (INTERVAL, None, 0)],
    );
    alter_configs(&fixture, &[(CREDENTIALS, Some("dave:pw2"), 2)]);
    expected.insert(own(INTERVAL), dynamic(None));
    expected.insert(own(CREDENTIALS), dynamic(Some("carol:******,dave:******")));
    assert_eq!(describe(&fixture), expected);
    // A restart remembers.
    let config = fixture.coordinator.config.clone();
    let again = Fixture::on(fixture.store.clone(), config);
    assert_eq!(describe(&again), expected);
    assert_eq!(again.coordinator.effective_config(INTERVAL), None);
    assert_eq!(
        again.coordinator.effective_config(CREDENTIALS).as_deref(),
        Some("carol:pw1,dave:pw2")
    );
}

#[test]
fn secrets_are_not_repeated_in_errors() {
    let fixture = Fixture::new();
    for (value, operation) in [
        ("hunter2", 0),
        ("hunter2", 2),
        ("hunter2", 3),
        ("u x:hunter2", 0),
    ] {
        let request = AlterClusterConfigsRequest {
            alter_configs: vec![config(CREDENTIALS, Some(value), operation)],
        };
        let error = fixture
            .call::<AlterClusterConfigsResponse>(ApiKey::AlterClusterConfigs, &request)
            .expect_err("refused");
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}

/// A part that cannot work with an interval of 13 seconds.
#[derive(Default)]
struct Superstitious(Mutex<Vec<Option<String>>>);

impl ClusterConfigListener for Superstitious {
    fn check(&self, configs: &BTreeMap<String, String>) -> Result<(), String> {
        match configs.get(INTERVAL).map(String::as_str) {
            Some("13s") => Err("13 is an unlucky number".to_owned()),
            _ => Ok(()),
        }
    }

    fn apply(&self, configs: &BTreeMap<String, String>) {
        self.0.lock().push(configs.get(INTERVAL).cloned());
    }
}

#[test]
fn the_parts_of_the_server_have_a_say_and_are_told() {
    let fixture = with_configs(&[(INTERVAL, "3s")]);
    let part = Arc::new(Superstitious::default());
    fixture.coordinator.subscribe_config(part.clone());
    assert_eq!(alter_configs(&fixture, &[(INTERVAL, Some("13s"), 0)]), 64);
    assert_eq!(alter_configs(&fixture, &[(INTERVAL, Some("5s"), 0)]), OK);
    assert_eq!(alter_configs(&fixture, &[(INTERVAL, Some("5s"), 0)]), OK);
    assert_eq!(alter_configs(&fixture, &[(INTERVAL, None, 0)]), OK);
    assert_eq!(alter_configs(&fixture, &[(INTERVAL, None, 1)]), OK);
    let own = |text: &str| Some(text.to_owned());
    assert_eq!(*part.0.lock(), [own("3s"), own("5s"), None, own("3s")]);
}

#[test]
fn there_are_no_acls_without_an_authorizer() {
    let fixture = Fixture::new();
    for key in [ApiKey::CreateAcls, ApiKey::DropAcls] {
        let answer = fixture.call::<CreateAclsResponse>(key, &CreateAclsRequest::default());
        assert_eq!(code(answer), 47);
    }
    let filter = PbAclFilter {
        resource_type: Some(1),
        operation_type: Some(1),
        permission_type: Some(1),
        ..PbAclFilter::default()
    };
    let request = ListAclsRequest {
        acl_filter: Some(filter),
    };
    assert_eq!(
        code(fixture.call::<ListAclsResponse>(ApiKey::ListAcls, &request)),
        47
    );
}

fn register(
    fixture: &Fixture,
    id: &str,
    table: i64,
    offset: Option<i64>,
    ttl_ms: Option<i64>,
) -> Result<Option<i32>, i32> {
    let offset = PbBucketOffset {
        partition_id: None,
        bucket_id: Some(1),
        log_end_offset: offset,
    };
    let request = RegisterProducerOffsetsRequest {
        producer_id: Some(id.to_owned()),
        table_offsets: vec![PbProducerTableOffsets {
            table_id: Some(table),
            bucket_offsets: vec![offset],
        }],
        ttl_ms,
    };
    let answer =
        fixture.call::<RegisterProducerOffsetsResponse>(ApiKey::RegisterProducerOffsets, &request);
    answer
        .map(|answer| answer.result)
        .map_err(|error| error.code.code())
}

fn offsets_of(fixture: &Fixture, id: &str) -> GetProducerOffsetsResponse {
    let request = GetProducerOffsetsRequest {
        producer_id: Some(id.to_owned()),
    };
    fixture
        .call(ApiKey::GetProducerOffsets, &request)
        .expect("answered")
}

#[test]
fn offsets_of_a_producer_are_kept_until_their_time_is_over() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    assert_eq!(
        offsets_of(&fixture, "p"),
        GetProducerOffsetsResponse::default()
    );
    assert_eq!(register(&fixture, "p", 0, Some(7), Some(1000)), Ok(Some(0)));
    assert_eq!(register(&fixture, "p", 0, Some(9), Some(1000)), Ok(Some(1)));
    let answer = offsets_of(&fixture, "p");
    assert_eq!(answer.producer_id.as_deref(), Some("p"));
    assert_eq!(answer.expiration_time, Some(NOW_MS + 1000));
    assert_eq!(
        answer.table_offsets[0].bucket_offsets[0].log_end_offset,
        Some(7)
    );

    fixture.clock.advance_ms(1000);
    assert_eq!(
        offsets_of(&fixture, "p"),
        GetProducerOffsetsResponse::default()
    );
    assert_eq!(register(&fixture, "p", 0, Some(9), None), Ok(Some(0)));
    assert_eq!(
        offsets_of(&fixture, "p").expiration_time,
        Some(NOW_MS + 1000 + 86_400_000)
    );

    for _ in 0..2 {
        let request = DeleteProducerOffsetsRequest {
            producer_id: Some("p".to_owned()),
        };
        let answer =
            fixture.call::<DeleteProducerOffsetsResponse>(ApiKey::DeleteProducerOffsets, &request);
        assert_eq!(code(answer), OK);
        assert_eq!(
            offsets_of(&fixture, "p"),
            GetProducerOffsetsResponse::default()
        );
    }
}

#[test]
fn expired_offsets_are_cleaned_and_others_stay() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    for (id, ttl_ms) in [("a", 10), ("b", 20), ("c", 30)] {
        assert_eq!(
            register(&fixture, id, 0, Some(1), Some(ttl_ms)),
            Ok(Some(0))
        );
    }
    fixture.clock.advance_ms(20);
    assert_eq!(
        fixture
            .coordinator
            .clean_producer_offsets()
            .expect("cleaned"),
        2
    );
    assert_eq!(
        fixture
            .coordinator
            .clean_producer_offsets()
            .expect("cleaned"),
        0
    );
    assert_eq!(fixture.store.children("producers").expect("listed"), ["c"]);
}

#[test]
fn bad_producers_and_offsets_are_refused() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    for id in ["", "a b", "a/b", ".."] {
        assert_eq!(register(&fixture, id, 0, Some(1), None), Err(63), "{id}");
    }
    assert_eq!(register(&fixture, "p", 9, Some(1), None), Err(7));
    assert_eq!(register(&fixture, "p", 0, None, None), Err(-1));
    assert_eq!(
        offsets_of(&fixture, "p"),
        GetProducerOffsetsResponse::default()
    );
}

#[test]
fn writer_ids_ascend_from_zero_and_never_repeat() {
    let fixture = Fixture::new();
    let next = |fixture: &Fixture, table_path| {
        let request = InitWriterRequest { table_path };
        let answer: InitWriterResponse = fixture.call(ApiKey::InitWriter, &request).expect("an id");
        answer.writer_id.expect("sent")
    };
    assert_eq!(next(&fixture, Vec::new()), 0);
    assert_eq!(next(&fixture, vec![pb_path("missing")]), 1);
    let again = Fixture::on(fixture.store.clone(), CoordinatorConfig::default());
    assert!(next(&again, Vec::new()) > 1);
}

#[test]
fn local_files_need_no_token() {
    let fixture = Fixture::new();
    let answer: GetFileSystemSecurityTokenResponse = fixture
        .call(
            ApiKey::GetFilesystemSecurityToken,
            &GetFileSystemSecurityTokenRequest {},
        )
        .expect("answered");
    assert_eq!(answer.schema.as_deref(), Some("file"));
    assert_eq!(answer.token, Some(Bytes::new()));
}

#[test]
fn tables_without_snapshots_say_so_per_bucket() {
    let fixture = Fixture::new();
    fixture.create("log", &log_table());
    fixture.create("log_p", &partitioned_table());
    fixture.create("key", &key_table());
    let mut by_key = partitioned_table();
    by_key["schema"]["primary_key"] = serde_json::json!(["a", "b"]);
    by_key["bucket_key"] = serde_json::json!(["a"]);
    fixture.create("key_p", &by_key);
    fixture
        .create_partition("key_p", &[("b", "x")], false)
        .expect("created");
    let latest = |path: &str, partition: Option<&str>| {
        let request = GetLatestKvSnapshotsRequest {
            table_path: Some(pb_path(path)),
            partition_name: partition.map(str::to_owned),
        };
        let answer =
            fixture.call::<GetLatestKvSnapshotsResponse>(ApiKey::GetLatestKvSnapshots, &request);
        answer.map_err(|error| error.code.code())
    };
    for (path, partition, expected) in [
        ("missing", None, 7),
        ("log", None, 20),
        ("log_p", Some("x"), 20),
        ("key", Some("x"), 37),
        ("key_p", None, 36),
        ("key_p", Some("y"), 36),
    ] {
        assert_eq!(
            latest(path, partition),
            Err(expected),
            "{path} {partition:?}"
        );
    }
    for (path, partition, id) in [("key", None, None), ("key_p", Some("x"), Some(0))] {
        let answer = latest(path, partition).expect("answered");
        assert_eq!(answer.partition_id, id);
        let buckets: Vec<_> = answer
            .latest_snapshots
            .iter()
            .map(|bucket| (bucket.bucket_id, bucket.snapshot_id, bucket.log_offset))
            .collect();
        assert_eq!(buckets, [(Some(0), None, None), (Some(1), None, None)]);
    }
}

#[test]
fn files_in_use_are_only_listed_for_what_exists() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    fixture.create("p", &partitioned_table());
    fixture.create("q", &partitioned_table());
    for path in ["p", "q"] {
        fixture
            .create_partition(path, &[("b", "x")], false)
            .expect("created");
    }
    for (table, partition, expected) in [
        (0, None, OK),
        (0, Some(0), 36),
        (9, None, 7),
        (1, Some(0), OK),
        (1, None, 36),
        (1, Some(1), 36),
        (1, Some(9), 36),
    ] {
        let request = ListKvSnapshotsRequest {
            table_id: Some(table),
            partition_id: partition,
        };
        let answer = fixture.call::<ListKvSnapshotsResponse>(ApiKey::ListKvSnapshots, &request);
        assert_eq!(code(answer), expected, "{table} {partition:?}");
        let request = ListRemoteLogManifestsRequest {
            table_id: Some(table),
            partition_id: partition,
        };
        let answer = fixture
            .call::<ListRemoteLogManifestsResponse>(ApiKey::ListRemoteLogManifests, &request);
        assert_eq!(code(answer), expected, "{table} {partition:?}");
    }
}

#[test]
fn there_is_no_lake_snapshot() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    for (path, snapshot_id, readable, expected) in [
        ("t", None, None, 53),
        ("t", Some(1), None, 53),
        ("t", None, Some(true), 53),
        ("t", Some(1), Some(true), -1),
        ("missing", None, None, 7),
    ] {
        let request = GetLakeSnapshotRequest {
            table_path: Some(pb_path(path)),
            snapshot_id,
            readable,
        };
        let answer = fixture.call::<GetLakeSnapshotResponse>(ApiKey::GetLakeSnapshot, &request);
        assert_eq!(code(answer), expected, "{path}");
    }
}

#[test]
fn every_api_of_the_list_is_answered_and_no_other() {
    let fixture = Fixture::new();
    for &(key, lowest, highest) in APIS {
        for version in lowest..=highest {
            let answer = fixture
                .coordinator
                .handle(&fixture.session, key, version, Bytes::new());
            // A message without required fields is fine, or refused as such.
            if let Err(error) = answer {
                assert!(
                    !error.message.contains("is not supported"),
                    "{key}: {error}"
                );
            }
        }
        for version in [lowest - 1, highest + 1] {
            let answer = fixture
                .coordinator
                .handle(&fixture.session, key, version, Bytes::new());
            assert_eq!(code(answer), 2, "{key} v{version}");
        }
    }
    assert!(APIS.is_sorted());
    for key in [0, 999, 1000, 1014, 1020, 1049, 1067, -1] {
        let answer = fixture
            .coordinator
            .handle(&fixture.session, key, 0, Bytes::new());
        assert_eq!(code(answer), 2, "{key}");
    }
}

#[test]
fn a_body_that_is_no_message_and_a_missing_field_are_refused_for_good() {
    let fixture = Fixture::new();
    let handle = |key: ApiKey, body: &'static [u8]| {
        fixture
            .coordinator
            .handle(&fixture.session, key as i16, 0, Bytes::from_static(body))
    };
    assert_eq!(code(handle(ApiKey::CreateTable, b"\xff\xff\xff")), 2);
    let error = handle(ApiKey::DropDatabase, b"").expect_err("fields are missing");
    assert_eq!(error.code.code(), 2);
    assert!(
        error.message.contains("DropDatabaseRequest.database_name"),
        "{error}"
    );
    // A name that is no text is no name.
    assert_eq!(
        code(handle(ApiKey::CreateDatabase, b"\x0a\x02\xff\xfe\x10\x00")),
        16
    );
}

#[test]
fn reads_do_not_touch_the_store() {
    let fixture = Fixture::new();
    fixture.create("t", &log_table());
    let store = Arc::new(super::crashes::Counting::new(fixture.store.clone()));
    let counted = Fixture::on(store.clone(), CoordinatorConfig::default());
    let before = store.calls();
    for &(key, lowest, _) in APIS.iter().filter(|(key, ..)| is_read_only(*key)) {
        let _ = counted
            .coordinator
            .handle(&counted.session, key, lowest, Bytes::new());
    }
    counted.info("t");
    let request = MetadataRequest {
        table_path: vec![pb_path("t")],
        ..Default::default()
    };
    let _: MetadataResponse = counted
        .call(ApiKey::GetMetadata, &request)
        .expect("answered");
    assert_eq!(store.calls(), before);
}
