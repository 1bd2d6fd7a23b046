//! What a person should know about settings that are not wrong: unknown keys,
//! old spellings, options without effect.

use crate::config::Entries;
use crate::server_options::{self, Effect};

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Probably not what was meant.
    Warning,
    /// For information.
    Note,
}

/// One line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How loud.
    pub severity: Severity,
    /// The line; it never contains a secret.
    pub text: String,
}

impl Notice {
    pub(crate) fn warning(text: String) -> Self {
        Self {
            severity: Severity::Warning,
            text,
        }
    }

    pub(crate) fn note(text: String) -> Self {
        Self {
            severity: Severity::Note,
            text,
        }
    }
}

/// Notices about the keys of the entries, in the order of the keys.
pub(super) fn about_keys(entries: &Entries) -> Vec<Notice> {
    let mut notices: Vec<Notice> = entries
        .renamed()
        .map(|(name, old)| Notice::note(format!("{old} is now called {name}")))
        .collect();
    for (key, value) in entries.iter() {
        if let Some(option) = server_options::find(key) {
            notices.extend(about_effect(option.effect, key, value, option.default));
        } else if server_options::family(key).is_none() {
            notices.push(Notice::warning(match server_options::nearest_key(key) {
                Some(known) => format!("{key} is not a known option, did you mean {known}?"),
                None => format!("{key} is not a known option and has no effect"),
            }));
        }
    }
    notices
}

fn about_effect(effect: Effect, key: &str, value: &str, default: Option<&str>) -> Option<Notice> {
    // Saying what happens anyway needs no remark.
    if default == Some(value) {
        return None;
    }
    match effect {
        Effect::Active => None,
        Effect::NotYet => Some(Notice::warning(format!(
            "{key} has no effect yet: that part is not built"
        ))),
        Effect::ClusterOnly => Some(Notice::note(format!(
            "{key} matters only to a cluster of several processes"
        ))),
        Effect::None => Some(Notice::note(format!("{key} has no effect in Mainstem"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_key_has_its_notice() {
        let entries = Entries::from_iter([
            ("data.dir", "/data"),
            ("data.dri", "/data"),
            ("completely.different", "1"),
            ("zookeeper.address", "localhost:2181"),
            ("netty.server.num-network-threads", "5"),
            ("kv.snapshot.num-retained", "5"),
            ("kv.scanner.ttl", "10min"),
            ("log.fetch.max-bytes", "16mb"),
            ("s3.endpoint", "http://minio:9000"),
            ("datalake.paimon.warehouse", "/w"),
        ]);
        let lines: Vec<String> = about_keys(&entries)
            .into_iter()
            .map(|notice| format!("{:?} {}", notice.severity, notice.text))
            .collect();
        assert_eq!(
            lines,
            [
                "Note log.fetch.max-bytes is now called log.replica.fetch.max-bytes",
                "Warning completely.different is not a known option and has no effect",
                "Warning data.dri is not a known option, did you mean data.dir?",
                "Warning kv.snapshot.num-retained has no effect yet: that part is not built",
                "Note netty.server.num-network-threads has no effect in Mainstem",
                "Note zookeeper.address matters only to a cluster of several processes",
            ]
        );
    }
}
