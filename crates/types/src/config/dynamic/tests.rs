//! The rows of behaviour.md §14, and the rules of cluster.md §3.10.

use super::*;
use crate::ErrorCode;

const SET: i32 = 0;
const DELETE: i32 = 1;
const APPEND: i32 = 2;
const SUBTRACT: i32 = 3;
const CREDENTIALS: &str = "security.sasl.plain.credentials";
const LIMIT: &str = "server.data-disk.write-limit-ratio";
const RECOVER: &str = "server.data-disk.write-recover-ratio";

fn change(operation: i32, key: &str, value: impl Into<Option<&'static str>>) -> ConfigChange {
    ConfigChange {
        key: key.to_owned(),
        value: value.into().map(str::to_owned),
        operation,
    }
}

/// Applies requests one after another to one server.
struct Server {
    initial: Entries,
    dynamic: DynamicEntries,
}

impl Server {
    fn new(pairs: &[(&str, &str)]) -> Self {
        Self {
            initial: pairs.iter().copied().collect(),
            dynamic: DynamicEntries::new(),
        }
    }

    fn rules(&self) -> DynamicConfig<'_> {
        DynamicConfig {
            initial: &self.initial,
            lake_formats: &["iceberg"],
        }
    }

    #[track_caller]
    fn accepts(&mut self, changes: &[ConfigChange]) -> &mut Self {
        self.dynamic = self
            .rules()
            .apply(&self.dynamic, changes)
            .expect("must be accepted");
        self
    }

    #[track_caller]
    fn refuses(&self, changes: &[ConfigChange], code: ErrorCode, fragment: &str) -> &Self {
        let error = self
            .rules()
            .apply(&self.dynamic, changes)
            .expect_err("must be refused");
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(fragment), "{error}");
        self
    }

    fn value(&self, key: &str) -> Option<Option<&str>> {
        self.dynamic.get(key).map(Option::as_deref)
    }

    fn described(&self, key: &str) -> Option<(Option<String>, &'static str)> {
        let found = self
            .rules()
            .describe(&self.dynamic)
            .into_iter()
            .find(|c| c.key == key)?;
        Some((found.value, found.source.wire_name()))
    }
}

#[test]
fn ordinary_changes_are_accepted() {
    let mut server = Server::new(&[]);
    server
        .accepts(&[change(SET, "kv.snapshot.interval", "2s")])
        .accepts(&[change(DELETE, "kv.snapshot.interval", None)])
        .accepts(&[change(SET, "log.replica.min-in-sync-replicas-number", "0")])
        .accepts(&[change(SET, "datalake.paimon.x", "1")])
        .accepts(&[change(
            SET,
            "kv.rocksdb.shared-rate-limiter.bytes-per-sec",
            "100mb",
        )])
        .accepts(&[change(SET, LIMIT, "0.02"), change(SET, RECOVER, "0.01")]);
    assert_eq!(server.value("kv.snapshot.interval"), None);
    assert_eq!(server.value(LIMIT), Some(Some("0.02")));
    let config = ServerConfig::from_entries(server.rules().effective(&server.dynamic)).unwrap();
    assert_eq!(config.disk.write_limit_ratio, 0.02);
    assert_eq!(config.log.min_in_sync_replicas, 0);
}

#[test]
fn unparsable_values_and_unknown_keys_answer_64() {
    let server = Server::new(&[]);
    let code = ErrorCode::ConfigException;
    server
        .refuses(
            &[change(SET, "kv.snapshot.interval", "soon")],
            code,
            "Could not parse value 'soon' for key 'kv.snapshot.interval'",
        )
        .refuses(
            &[change(SET, "max.bucket.num", "5")],
            code,
            "not allowed to be changed dynamically",
        )
        .refuses(
            &[change(DELETE, "max.bucket.num", None)],
            code,
            "not allowed",
        )
        .refuses(&[change(SET, "no.such.key", "1")], code, "no.such.key")
        .refuses(
            &[change(
                SET,
                "server.historical-partition.thread-pool.max-size",
                "5",
            )],
            code,
            "not allowed",
        )
        .refuses(
            &[change(
                SET,
                "netty.server.max-queued-historical-requests",
                "5",
            )],
            code,
            "not allowed",
        )
        .refuses(&[change(SET, LIMIT, "2")], code, LIMIT)
        .refuses(
            &[change(SET, CREDENTIALS, "a b:pw")],
            code,
            "user name 'a b'",
        )
        .refuses(
            &[change(SET, "datalake.enabled", "perhaps")],
            code,
            "'perhaps'",
        );
}

#[test]
fn append_to_a_plain_option_answers_64_and_an_unknown_operation_minus_1() {
    let server = Server::new(&[]);
    server
        .refuses(
            &[change(APPEND, "kv.snapshot.interval", "1s")],
            ErrorCode::ConfigException,
            "lists or maps",
        )
        .refuses(
            &[change(SUBTRACT, "datalake.foo", "1")],
            ErrorCode::ConfigException,
            "lists or maps",
        )
        .refuses(
            &[change(9, "kv.snapshot.interval", "1s")],
            ErrorCode::UnknownServerError,
            "9 is not an operation",
        )
        // Operations are read before anything else of the request.
        .refuses(
            &[
                change(SET, "no.such.key", "1"),
                change(-1, "kv.snapshot.interval", None),
            ],
            ErrorCode::UnknownServerError,
            "-1 is not an operation",
        );
}

#[test]
fn set_without_a_value_forces_the_key_unset_over_the_file() {
    let mut server = Server::new(&[
        ("kv.snapshot.interval", "3s"),
        ("datalake.format", "iceberg"),
    ]);
    assert_eq!(
        server.described("kv.snapshot.interval"),
        Some((Some("3s".into()), "INITIAL_SERVER_CONFIG"))
    );
    server.accepts(&[
        change(SET, "kv.snapshot.interval", None),
        change(SET, "datalake.format", None),
    ]);
    assert_eq!(
        server.described("kv.snapshot.interval"),
        Some((None, "DYNAMIC_SERVER_CONFIG"))
    );
    let effective = server.rules().effective(&server.dynamic);
    assert_eq!(effective.get("kv.snapshot.interval"), None);
    assert_eq!(
        ServerConfig::from_entries(effective).unwrap().lake.format,
        None
    );
    server.accepts(&[change(DELETE, "kv.snapshot.interval", None)]);
    assert_eq!(
        server.described("kv.snapshot.interval"),
        Some((Some("3s".into()), "INITIAL_SERVER_CONFIG"))
    );
}

#[test]
fn credentials_are_appended_and_subtracted_by_user() {
    let mut server = Server::new(&[]);
    server.accepts(&[change(APPEND, CREDENTIALS, "carol:pw1")]);
    assert_eq!(
        server.described(CREDENTIALS).unwrap().0.unwrap(),
        "carol:******"
    );
    server.accepts(&[change(SET, CREDENTIALS, "carol:pw1,dave:pw2")]);
    server.refuses(
        &[change(APPEND, CREDENTIALS, "carol:pw3")],
        ErrorCode::ConfigException,
        "'carol' is there already",
    );
    server.refuses(
        &[change(SUBTRACT, CREDENTIALS, "carol")],
        ErrorCode::ConfigException,
        "Invalid map entry",
    );
    server.refuses(
        &[change(APPEND, CREDENTIALS, None)],
        ErrorCode::ConfigException,
        "need a value",
    );
    // The password of the entry to subtract does not matter.
    server.accepts(&[change(SUBTRACT, CREDENTIALS, "dave:wrong")]);
    assert_eq!(server.value(CREDENTIALS), Some(Some("carol:pw1")));
    server.accepts(&[change(DELETE, CREDENTIALS, None)]);
    assert_eq!(server.value(CREDENTIALS), None);
}

#[test]
fn append_starts_from_the_file() {
    let mut server = Server::new(&[("remote.data.dirs", "/a")]);
    server.accepts(&[change(APPEND, "remote.data.dirs", "/b, /a")]);
    assert_eq!(server.value("remote.data.dirs"), Some(Some("/a,/b")));
}

#[test]
fn remote_directories_only_grow() {
    let mut server = Server::new(&[("remote.data.dirs", "/a")]);
    let code = ErrorCode::ConfigException;
    server.accepts(&[change(SET, "remote.data.dirs", "/b,/a")]);
    server
        .refuses(
            &[change(SUBTRACT, "remote.data.dirs", "/a")],
            code,
            "'/a' cannot be taken away",
        )
        .refuses(
            &[change(DELETE, "remote.data.dirs", None)],
            code,
            "'/b' cannot be taken away",
        )
        .refuses(
            &[change(SET, "remote.data.dirs", None)],
            code,
            "cannot be taken away",
        )
        .refuses(
            &[change(SET, "remote.data.dirs.weights", "1")],
            code,
            "1 weights for 2",
        );
    server.accepts(&[
        change(SET, "remote.data.dirs.weights", "1,2"),
        change(SET, "remote.data.dirs.strategy", "WEIGHTED_ROUND_ROBIN"),
    ]);
}

#[test]
fn one_bad_change_refuses_all() {
    let server = Server::new(&[]);
    server.refuses(
        &[
            change(SET, "log.retention.roll-active-segment.enabled", "true"),
            change(SET, "no.such.key", "1"),
        ],
        ErrorCode::ConfigException,
        "The config key no.such.key is not allowed to be changed dynamically.",
    );
    assert!(server.dynamic.is_empty());
}

#[test]
fn a_lake_format_without_its_plugin_answers_64() {
    let mut server = Server::new(&[]);
    let code = ErrorCode::ConfigException;
    server
        .refuses(
            &[change(SET, "datalake.format", "paimon")],
            code,
            "format paimon",
        )
        .refuses(
            &[change(SET, "datalake.format", "floppy")],
            code,
            "'floppy'",
        )
        .refuses(
            &[change(SET, "datalake.enabled", "true")],
            code,
            "without a format",
        );
    server.accepts(&[change(SET, "datalake.format", "ICEBERG")]);
    server.refuses(
        &[change(SET, "datalake.paimon.x", "1")],
        code,
        "only datalake.iceberg.* can",
    );
    server.accepts(&[change(SET, "datalake.iceberg.type", "rest")]);
    server.accepts(&[change(SET, "datalake.enabled", "true")]);
    // Both in one request: what counts is the result.
    server.refuses(
        &[change(DELETE, "datalake.format", None)],
        code,
        "without a format",
    );
}

#[test]
fn nothing_to_do_is_accepted() {
    let mut server = Server::new(&[]);
    server
        .accepts(&[])
        .accepts(&[change(DELETE, "datalake.foo", None)]);
    assert!(server.dynamic.is_empty());
}

#[test]
fn markers_of_providers_are_refused() {
    Server::new(&[]).refuses(
        &[change(SET, "datalake.iceberg.uri", "${env:URI}")],
        ErrorCode::ConfigException,
        "markers",
    );
}

#[test]
fn sizes_are_bounded() {
    let mut server = Server::new(&[]);
    let code = ErrorCode::ConfigException;
    let mut half = change(SET, "datalake.iceberg.x", None);
    half.value = Some("x".repeat(MAX_TOTAL_BYTES / 2));
    server.accepts(std::slice::from_ref(&half));
    half.key = "datalake.iceberg.y".to_owned();
    server.refuses(&[half], code, "longer than 1 MiB");
    let long_key = change(
        SET,
        &format!("datalake.{}", "x".repeat(MAX_TOTAL_BYTES)),
        None,
    );
    let error = server
        .rules()
        .apply(&server.dynamic, &[long_key])
        .unwrap_err()
        .to_string();
    assert!(error.len() < 300, "{} bytes", error.len());
    let many: Vec<_> = (0..=MAX_CHANGES)
        .map(|i| change(SET, &format!("datalake.x{i}"), "1"))
        .collect();
    server.refuses(&many, code, "at most 1000 changes");
}

#[test]
fn describe_masks_secrets_of_both_sources() {
    let mut server = Server::new(&[
        (
            "security.sasl.plain.jaas.config",
            "PlainLoginModule required user_a=\"hush\";",
        ),
        ("max.bucket.num", "24"),
        ("log.fetch.max-bytes", "1mb"),
    ]);
    server.accepts(&[
        change(SET, "datalake.iceberg.s3.secret-key", "hush"),
        change(SET, CREDENTIALS, "carol:hush"),
    ]);
    let described: Vec<String> = server
        .rules()
        .describe(&server.dynamic)
        .into_iter()
        .map(|c| format!("{}={} {}", c.key, c.value.unwrap(), c.source.wire_name()))
        .collect();
    assert_eq!(
        described,
        [
            "datalake.iceberg.s3.secret-key=****** DYNAMIC_SERVER_CONFIG",
            "log.replica.fetch.max-bytes=1mb INITIAL_SERVER_CONFIG",
            "max.bucket.num=24 INITIAL_SERVER_CONFIG",
            "security.sasl.plain.credentials=carol:****** DYNAMIC_SERVER_CONFIG",
            "security.sasl.plain.jaas.config=****** INITIAL_SERVER_CONFIG",
        ]
    );
}

#[test]
fn stored_entries_that_no_longer_fit_do_not_stop_the_server() {
    // The file's limit has come down to below the stored recover ratio.
    let server = Server::new(&[(LIMIT, "0.5"), (RECOVER, "0.4")]);
    let stored = DynamicEntries::from([
        (RECOVER.to_owned(), Some("0.6".to_owned())),
        ("kv.snapshot.interval".to_owned(), Some("later".to_owned())),
        ("max.bucket.num".to_owned(), Some("5".to_owned())),
        (
            "log.replica.min-in-sync-replicas-number".to_owned(),
            Some("1".to_owned()),
        ),
        ("datalake.format".to_owned(), None),
    ]);
    let (usable, notices) = server.rules().load(&stored);
    assert_eq!(
        usable.keys().collect::<Vec<_>>(),
        ["datalake.format", "log.replica.min-in-sync-replicas-number"]
    );
    assert_eq!(notices.len(), 3);
}

#[test]
fn stored_entries_that_fit_only_together_are_all_used() {
    let server = Server::new(&[]);
    let stored = DynamicEntries::from([
        ("datalake.enabled".to_owned(), Some("true".to_owned())),
        ("datalake.format".to_owned(), Some("iceberg".to_owned())),
        (LIMIT.to_owned(), Some("0.02".to_owned())),
        (RECOVER.to_owned(), Some("0.01".to_owned())),
    ]);
    assert_eq!(server.rules().load(&stored), (stored.clone(), Vec::new()));
    // With one more that never fits, the order of adding matters and is found.
    let mut with_bad = stored.clone();
    with_bad.insert("remote.data.dirs.weights".to_owned(), Some("1".to_owned()));
    let (usable, notices) = server.rules().load(&with_bad);
    assert_eq!(usable, stored);
    assert_eq!(notices.len(), 1);
}
