//! The one table of server options: every key that `server.yaml` may hold, its
//! kind, default and meaning (cluster.md §9). Parsing, "did you mean", the typed
//! configuration and the reference page all read it.

mod kind;
mod reference;
mod table;

pub use kind::{OptionKind, parse_bool, parse_list, parse_map};
pub(crate) use kind::{parse_double, parse_number};
pub use reference::reference_markdown;
pub use table::GROUPS;

/// Keys that begin so change at run time, whatever follows.
pub const LAKE_PREFIX: &str = "datalake.";

/// What an option does in this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has the effect that its help says.
    Active,
    /// Checked and kept, but the part of the server that it is for is not built.
    NotYet,
    /// Only a cluster of several processes needs it; `start` takes it with a note.
    ClusterOnly,
    /// It is about the JVM, threads or clients of the reference; never has an
    /// effect here.
    None,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct ServerOption {
    /// Key, exact.
    pub key: &'static str,
    /// What its values look like.
    pub kind: OptionKind,
    /// Value when it is not set, in the text form of its kind.
    pub default: Option<&'static str>,
    /// Whether AlterClusterConfigs may change it (cluster.md §3.10).
    pub dynamic: bool,
    /// What it does here.
    pub effect: Effect,
    /// Older or misspelled keys that mean the same.
    pub old_keys: &'static [&'static str],
    /// One line about it.
    pub help: &'static str,
}

/// Options under one heading of the reference page.
#[derive(Clone, Copy, Debug)]
pub struct OptionGroup {
    /// Heading.
    pub title: &'static str,
    /// Options in the order of the page.
    pub options: &'static [ServerOption],
}

/// Keys of free form: everything that begins with `prefix`.
#[derive(Clone, Copy, Debug)]
pub struct OptionFamily {
    /// Beginning of the keys.
    pub prefix: &'static str,
    /// Whether AlterClusterConfigs may change them.
    pub dynamic: bool,
    /// One line about them.
    pub help: &'static str,
}

/// Families of keys whose ends are names of formats, listeners or plug-ins.
pub const FAMILIES: &[OptionFamily] = &[
    OptionFamily {
        prefix: LAKE_PREFIX,
        dynamic: true,
        help: "`datalake.<format>.*`: options of the lake catalog, passed on without the prefix.",
    },
    OptionFamily {
        prefix: "security.sasl.listener.name.",
        dynamic: false,
        help: "`security.sasl.listener.name.<listener>.plain.jaas.config`: users of one listener \
               (its name in lower case).",
    },
    OptionFamily {
        prefix: "fs.",
        dynamic: false,
        help: "Options of the file system of `remote.data.dir`.",
    },
    OptionFamily {
        prefix: "s3.",
        dynamic: false,
        help: "Options of S3 for `remote.data.dir`.",
    },
    OptionFamily {
        prefix: "s3a.",
        dynamic: false,
        help: "Options of S3 for `remote.data.dir`.",
    },
    OptionFamily {
        prefix: "config.providers.",
        dynamic: false,
        help: "Options of a configuration provider.",
    },
    OptionFamily {
        prefix: "client.",
        dynamic: false,
        help: "Options of clients; the server ignores them.",
    },
];

/// Every option, in the order of the reference page.
pub fn all() -> impl Iterator<Item = &'static ServerOption> {
    GROUPS.iter().flat_map(|group| group.options)
}

/// The option of a key, also of an old one.
pub fn find(key: &str) -> Option<&'static ServerOption> {
    all().find(|option| option.key == key || option.old_keys.contains(&key))
}

/// The family of a key that is not an option by itself.
pub fn family(key: &str) -> Option<&'static OptionFamily> {
    FAMILIES
        .iter()
        .find(|family| key.len() > family.prefix.len() && key.starts_with(family.prefix))
}

/// Whether AlterClusterConfigs may change the key (cluster.md §3.10).
pub fn is_dynamic(key: &str) -> bool {
    match all().find(|option| option.key == key) {
        Some(option) => option.dynamic,
        None => family(key).is_some_and(|family| family.dynamic),
    }
}

/// The known key that is nearest to an unknown one.
pub fn nearest_key(key: &str) -> Option<&'static str> {
    crate::nearest::nearest(key, all().map(|option| option.key))
}

/// Whether the value of a key must not be shown: not in logs, not in messages,
/// not by DescribeClusterConfigs (cluster.md §9.1 "Hidden values").
pub fn is_secret(key: &str) -> bool {
    const PARTS: [&str; 15] = [
        "password",
        "secret",
        "fs.azure.account.key",
        "apikey",
        "api-key",
        "api.key",
        "auth-params",
        "service-key",
        "token",
        "basic-auth",
        "jaas.config",
        "credential",
        "access-key",
        "access.key",
        "private-key",
    ];
    let key = key.to_ascii_lowercase();
    PARTS.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_is_there_once() {
        let mut seen = BTreeSet::new();
        for option in all() {
            for key in std::iter::once(&option.key).chain(option.old_keys) {
                assert!(seen.insert(*key), "{key} is there twice");
                assert_eq!(find(key).map(|found| found.key), Some(option.key));
            }
        }
    }

    #[test]
    fn every_default_has_the_form_of_its_kind() {
        for option in all() {
            if let Some(default) = option.default {
                assert_eq!(option.kind.check(default), Ok(()), "{}", option.key);
            }
        }
    }

    #[test]
    fn every_help_is_one_sentence() {
        for option in all() {
            assert!(
                option.help.ends_with('.') && !option.help.contains('\n'),
                "{}",
                option.key
            );
        }
    }

    #[test]
    fn exactly_the_keys_of_the_specification_change_at_run_time() {
        let dynamic: BTreeSet<&str> = all()
            .filter(|option| option.dynamic)
            .map(|option| option.key)
            .collect();
        let expected = BTreeSet::from([
            "datalake.enabled",
            "datalake.format",
            "kv.leader-replica.memory-reserved",
            "kv.rocksdb.shared-rate-limiter.bytes-per-sec",
            "kv.snapshot.interval",
            "log.replica.min-in-sync-replicas-number",
            "log.retention.roll-active-segment.enabled",
            "remote.data.dirs",
            "remote.data.dirs.strategy",
            "remote.data.dirs.weights",
            "security.sasl.plain.credentials",
            "server.data-disk.write-limit-ratio",
            "server.data-disk.write-recover-ratio",
            "server.historical-partition.lookup-cache.max-disk-ratio",
            "server.historical-partition.lookuper-cache.expire-after-access",
        ]);
        assert_eq!(dynamic, expected);
        assert!(is_dynamic("datalake.paimon.warehouse"));
        for key in [
            "max.bucket.num",
            "no.such.key",
            "fs.oss.endpoint",
            "datalake.",
        ] {
            assert!(!is_dynamic(key), "{key}");
        }
    }

    #[test]
    fn the_only_dynamic_map_holds_users() {
        let maps: Vec<&str> = all()
            .filter(|option| option.dynamic && option.kind == OptionKind::Map)
            .map(|option| option.key)
            .collect();
        assert_eq!(maps, ["security.sasl.plain.credentials"]);
    }

    #[test]
    fn secrets_are_recognised_by_their_names() {
        for key in [
            "security.sasl.plain.jaas.config",
            "security.sasl.listener.name.client.plain.jaas.config",
            "security.sasl.plain.credentials",
            "metrics.reporter.influxdb.token",
            "fs.azure.account.key.x.dfs.core.windows.net",
            "S3.Secret-Key",
            "datalake.iceberg.credential",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in [
            "data.dir",
            "bind.listeners",
            "kv.snapshot.interval",
            "super.users",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }

    #[test]
    fn old_spellings_find_their_option() {
        for (old, key) in [
            ("log.fetch.max-bytes", "log.replica.fetch.max-bytes"),
            (
                "recovery.zookeeper.client.retry-wait",
                "zookeeper.client.retry-wait",
            ),
            (
                "kv.snapshot.lease-expiration-check-interval",
                "kv.snapshot.lease.expiration-check-interval",
            ),
            ("coordinator.io-pool.size", "server.io-pool.size"),
        ] {
            assert_eq!(find(old).map(|option| option.key), Some(key));
        }
    }
}
