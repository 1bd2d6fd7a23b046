use super::*;
use crate::config::{Severity, parse_server_yaml};
use crate::listeners::Protocol;

fn config(pairs: &[(&str, &str)]) -> Result<ServerConfig, ConfigError> {
    ServerConfig::from_entries(pairs.iter().copied().collect())
}

#[track_caller]
fn check_refused(pairs: &[(&str, &str)], text: &str) {
    let error = config(pairs).expect_err("must be refused").to_string();
    assert!(error.contains(text), "{error}");
    assert!(!error.contains('\n'), "one line: {error}");
}

fn warnings(config: &ServerConfig) -> Vec<&str> {
    config
        .notices
        .iter()
        .filter(|notice| notice.severity == Severity::Warning)
        .map(|notice| notice.text.as_str())
        .collect()
}

#[test]
fn without_settings_a_server_listens_on_loopback_and_syncs() {
    let config = config(&[]).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("./mainstem-data"));
    assert_eq!(config.remote_data_dir, "./mainstem-data/remote");
    assert_eq!(config.durability, Durability::Fsync);
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(
        config.listeners[0].bind_address().to_string(),
        "127.0.0.1:9123"
    );
    assert_eq!(config.internal_listener().unwrap().name, "FLUSS");
    assert_eq!(
        config.http.address.as_ref().unwrap().to_string(),
        "127.0.0.1:9124"
    );
    assert!(config.http.is_default);
    assert_eq!(config.flight.address.as_ref().unwrap().port, 9125);
    assert_eq!(config.postgres.address.as_ref().unwrap().port, 9126);
    assert_eq!(config.tables.max_buckets, 4096);
    assert_eq!(config.tables.max_partitions, 1000);
    assert_eq!(config.log.segment_bytes, 1 << 30);
    assert_eq!(config.log.index_interval_bytes, 4096);
    assert_eq!(config.writers.expiration, Duration::from_secs(7 * 86_400));
    assert_eq!(config.net.max_request_bytes, 100 << 20);
    assert_eq!(config.net.max_idle, Some(Duration::from_secs(600)));
    assert_eq!(config.disk.write_limit_ratio, 0.85);
    assert!(!config.lake.enabled);
    assert_eq!(config.notices, []);
}

#[test]
fn the_file_of_the_official_test_cluster_starts() {
    let file = parse_server_yaml(
        "bind.listeners: CLIENT://127.0.0.1:9123, PLAIN_CLIENT://127.0.0.1:9223\n\
         data.dir: /tmp/x/data\n\
         log.segment.file-size: 120b\n\
         remote.data.dir: /tmp/x/remote\n\
         security.protocol.map: CLIENT:sasl\n\
         security.sasl.enabled.mechanisms: plain\n\
         security.sasl.plain.jaas.config: org.apache.fluss.security.auth.sasl.plain.PlainLoginModule \
         required user_admin=\"admin-secret\" user_alice=\"alice-secret\";\n",
    );
    assert_eq!(file.warnings, Vec::<String>::new());
    let config = ServerConfig::from_entries(file.entries).unwrap();
    assert_eq!(config.listeners[0].protocol, Protocol::Sasl);
    assert_eq!(config.listeners[1].protocol, Protocol::Plaintext);
    assert!(config.users["CLIENT"].verify("alice", b"alice-secret"));
    assert_eq!(config.users.len(), 1);
    assert_eq!(config.log.segment_bytes, 120);
    assert_eq!(config.internal_listener(), None);
    assert!(!format!("{config:?}").contains("admin-secret"));
}

#[test]
fn a_file_of_a_whole_cluster_is_accepted_with_notes() {
    let config = config(&[
        ("zookeeper.address", "localhost:2181"),
        ("tablet-server.id", "0"),
        ("coordinator.offline-leader.retry-delay", "2min"),
        ("default.bucket.number", "3"),
    ])
    .unwrap();
    assert_eq!(config.tables.default_bucket_count, 3);
    assert_eq!(warnings(&config), Vec::<&str>::new());
    let about_cluster = config
        .notices
        .iter()
        .filter(|notice| notice.text.contains("only to a cluster"));
    assert_eq!(about_cluster.count(), 3);
}

#[test]
fn ports_besides_the_protocol_can_be_off_or_free() {
    let config = config(&[
        ("mainstem.http.listen", ""),
        ("mainstem.flight.listen", "off"),
        ("mainstem.postgres.listen", "[::1]:0"),
    ])
    .unwrap();
    assert_eq!(
        config.http,
        SidePort {
            address: None,
            is_default: false
        }
    );
    assert_eq!(config.flight.address, None);
    assert_eq!(config.postgres.address.unwrap().to_string(), "[::1]:0");
    check_refused(
        &[("mainstem.http.listen", "9124")],
        "mainstem.http.listen: '9124' has no port",
    );
}

#[test]
fn unparsable_values_name_the_key_and_the_way_out() {
    check_refused(
        &[("log.retention.check-interval", "30")],
        "log.retention.check-interval: '30' has no unit, write for example '30 s'; \
         correct it, or leave it out for the default 5min",
    );
    check_refused(
        &[("max.bucket.num", "many")],
        "max.bucket.num: 'many' is not an integer",
    );
    check_refused(
        &[("mainstem.durability", "maybe")],
        "'maybe' is not one of fsync, os",
    );
    check_refused(
        &[("kv.rocksdb.compaction.style", "LAZY")],
        "kv.rocksdb.compaction.style",
    );
    check_refused(
        &[("zookeeper.client.session-timeout", "soon")],
        "zookeeper.client",
    );
}

#[test]
fn values_out_of_range_are_refused() {
    for (key, value) in [
        ("default.bucket.number", "0"),
        ("default.bucket.number", "5000"),
        ("default.replication.factor", "0"),
        ("kv.snapshot.num-retained", "0"),
        ("server.io-pool.size", "0"),
        ("coordinator.io-pool.size", "0"),
        ("server.background.threads", "-1"),
        ("log.retention.check-interval", "0ms"),
        ("log.segment.file-size", "2gb"),
        ("log.segment.file-size", "0"),
        ("tablet-server.id", "-1"),
        ("server.data-disk.write-limit-ratio", "2"),
        ("server.data-disk.write-limit-ratio", "0.7"),
        ("server.data-disk.write-recover-ratio", "0"),
        (
            "server.historical-partition.lookup-cache.max-disk-ratio",
            "0",
        ),
        (
            "server.historical-partition.lookuper-cache.expire-after-access",
            "0s",
        ),
        ("netty.server.max-request-size", "4gb"),
        ("netty.server.max-request-size", "10"),
        ("mainstem.net.request-memory", "1mb"),
        ("mainstem.net.max-connections", "0"),
        ("data.dir", "s3://bucket/data"),
        ("remote.data.dir", ""),
        ("remote.data.dirs.weights", "1,2"),
        ("bind.listeners", "FLUSS://127.0.0.1"),
        ("advertised.listeners", "OTHER://127.0.0.1:1"),
        ("security.protocol.map", "FLUSS:TLS"),
    ] {
        let error = config(&[(key, value)]).expect_err(key);
        assert!(
            matches!(error, ConfigError::Invalid { .. }),
            "{key}={value}: {error}"
        );
    }
}

#[test]
fn weights_fit_the_directories() {
    let dirs = ("remote.data.dirs", "/a,/b");
    let weighted = ("remote.data.dirs.strategy", "weighted_round_robin");
    assert!(config(&[dirs, weighted, ("remote.data.dirs.weights", "1,0")]).is_ok());
    check_refused(&[dirs, weighted], "0 weights for 2");
    check_refused(
        &[dirs, weighted, ("remote.data.dirs.weights", "0,0")],
        "all weights are 0",
    );
    check_refused(&[dirs, ("remote.data.dirs.weights", "1,-1")], "negative");
    assert_eq!(config(&[dirs]).unwrap().remote_data_dir, "/a");
}

#[test]
fn an_authorizer_refuses_to_start() {
    check_refused(
        &[
            ("authorizer.enabled", "true"),
            ("super.users", "User:admin"),
        ],
        "authorizer.enabled: access control lists are not built",
    );
    assert!(config(&[("authorizer.enabled", "false")]).is_ok());
}

#[test]
fn a_sasl_listener_needs_a_mechanism_and_users() {
    let map = ("security.protocol.map", "FLUSS:SASL");
    let plain = ("security.sasl.enabled.mechanisms", "PLAIN");
    let jaas = "security.sasl.plain.jaas.config";
    check_refused(
        &[map],
        "security.sasl.enabled.mechanisms: listener FLUSS uses SASL",
    );
    check_refused(
        &[map, ("security.sasl.enabled.mechanisms", "GSSAPI")],
        "'GSSAPI' is not",
    );
    check_refused(&[map, plain], "there are no users");
    check_refused(
        &[
            map,
            plain,
            (jaas, "PlainLoginModule required user_a=\"hush;"),
        ],
        "security.sasl.plain.jaas.config: a quoted value does not end",
    );
    check_refused(
        &[map, plain, ("security.sasl.plain.credentials", "a b:hush")],
        "security.sasl.plain.credentials: user name 'a b'",
    );
    let nobody = config(&[map, plain, (jaas, "PlainLoginModule required;")]).unwrap();
    assert!(warnings(&nobody)[0].contains("nobody can log in at listener FLUSS"));
}

#[test]
fn a_listener_has_its_own_users_before_the_general_ones() {
    let config = config(&[
        ("bind.listeners", "ONE://h:1,Two://h:2"),
        ("security.protocol.map", "ONE:SASL,Two:SASL"),
        ("security.sasl.enabled.mechanisms", "SCRAM,plain"),
        (
            "security.sasl.plain.jaas.config",
            "PlainLoginModule required user_a=\"1\";",
        ),
        (
            "security.sasl.listener.name.two.plain.jaas.config",
            "PlainLoginModule required user_b=\"2\";",
        ),
        ("security.sasl.plain.credentials", "c:3"),
    ])
    .unwrap();
    assert_eq!(config.users["ONE"].names().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(config.users["Two"].names().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(warnings(&config), Vec::<&str>::new());
}

#[test]
fn odd_settings_are_warned_about() {
    let config = config(&[
        ("bind.listeners", "CLIENT://0.0.0.0:9123"),
        ("security.protocol.map", "CLEINT:SASL"),
        (
            "security.sasl.listener.name.cleint.plain.jaas.config",
            "PlainLoginModule required;",
        ),
        ("data.dirs", "/a,/b"),
        ("log.segment.filesize", "1gb"),
        ("datalake.format", "Iceberg"),
        ("datalake.paimon.warehouse", "/w"),
        ("datalake.iceberg.type", "rest"),
    ])
    .unwrap();
    assert_eq!(config.data_dir, PathBuf::from("/a"));
    let warnings = warnings(&config);
    for fragment in [
        "there is no listener CLEINT, did you mean CLIENT?",
        "security.sasl.listener.name.cleint.plain.jaas.config has no effect",
        "tells clients to connect to 0.0.0.0",
        "data.dirs: Mainstem keeps all data in one directory, /a",
        "log.segment.filesize is not a known option, did you mean log.segment.file-size?",
        "datalake.paimon.warehouse has no effect: datalake.format is iceberg",
    ] {
        assert!(
            warnings.iter().any(|text| text.contains(fragment)),
            "{fragment}: {warnings:?}"
        );
    }
    assert!(config.lake.enabled);
    assert_eq!(config.lake.format.as_deref(), Some("iceberg"));
    assert_eq!(config.lake.options["type"], "rest");
    assert_eq!(config.lake.options.len(), 1);
}

#[test]
fn a_lake_needs_a_format_to_be_enabled() {
    check_refused(
        &[("datalake.enabled", "true")],
        "datalake.enabled: it is true without a format",
    );
    let bound = config(&[("datalake.enabled", "false"), ("datalake.format", "paimon")]).unwrap();
    assert!(!bound.lake.enabled);
    assert_eq!(bound.lake.format.as_deref(), Some("paimon"));
}

#[test]
fn request_memory_grows_with_the_largest_request() {
    let config = config(&[("netty.server.max-request-size", "512mb")]).unwrap();
    assert_eq!(config.net.request_memory_bytes, 512 << 20);
    assert_eq!(
        self::config(&[("netty.connection.max-idle-time", "0s")])
            .unwrap()
            .net
            .max_idle,
        None
    );
}
