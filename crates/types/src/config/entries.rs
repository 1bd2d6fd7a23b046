//! The raw settings: keys and values as given, by their present names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::config::{ConfigError, Marker};
use crate::server_options;

/// What stands in place of a value that must not be shown.
pub(crate) const HIDDEN: &str = "******";

/// Settings by key. A key in an old spelling is kept under its present name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Entries {
    values: BTreeMap<String, String>,
    /// Keys whose values came from a provider and are not shown.
    hidden: BTreeSet<String>,
    /// Present name → old spelling that was used.
    renamed: BTreeMap<String, String>,
}

impl Entries {
    /// Sets a value; an earlier one of the same key is replaced. Returns whether
    /// there was one.
    pub fn set(&mut self, key: &str, value: impl Into<String>) -> bool {
        let name = match server_options::find(key) {
            Some(option) if option.key != key => {
                self.renamed.insert(option.key.to_owned(), key.to_owned());
                option.key
            }
            _ => key,
        };
        self.hidden.remove(name);
        self.values.insert(name.to_owned(), value.into()).is_some()
    }

    /// Applies one `-D key=value` of the command line.
    ///
    /// # Errors
    /// [`ConfigError::Override`] if there is no `=` or no key.
    pub fn set_override(&mut self, text: &str) -> Result<(), ConfigError> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                self.set(key.trim(), value.trim());
                Ok(())
            }
            _ => Err(ConfigError::Override {
                text: text.chars().take(100).collect(),
            }),
        }
    }

    /// Removes a setting.
    pub fn remove(&mut self, key: &str) {
        self.values.remove(key);
        self.hidden.remove(key);
    }

    /// The value of a key, as given.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// All settings, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a key as it may be shown: secrets are masked, of user lists
    /// the passwords (cluster.md §9.1 "Hidden values").
    pub fn shown(&self, key: &str) -> Option<String> {
        self.get(key).map(|value| {
            if self.hidden.contains(key) {
                HIDDEN.to_owned()
            } else {
                mask(key, value)
            }
        })
    }

    /// Keys whose values came from a provider and are never shown.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        self.hidden.iter().map(String::as_str)
    }

    /// Old spellings in use: present name and what was written.
    pub(crate) fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.renamed
            .iter()
            .map(|(name, old)| (name.as_str(), old.as_str()))
    }

    /// Replaces every marker `${provider:[path:]key}` of the providers that
    /// `config.providers` enables by what `lookup` returns, and hides the value
    /// from then on. Markers of other providers stay as they are.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with the key of the first value that `lookup`
    /// refuses.
    pub fn resolve_markers(
        &mut self,
        mut lookup: impl FnMut(&Marker) -> Result<String, String>,
    ) -> Result<(), ConfigError> {
        let enabled = server_options::parse_list(self.get("config.providers").unwrap_or_default());
        if enabled.is_empty() {
            return Ok(());
        }
        for (key, value) in &mut self.values {
            let replaced =
                Marker::replace_all(value, &enabled, &mut lookup).map_err(|problem| {
                    ConfigError::invalid(key, problem, "make the provider's value available")
                })?;
            if let Some(replaced) = replaced {
                *value = replaced;
                self.hidden.insert(key.clone());
            }
        }
        Ok(())
    }
}

impl<K: AsRef<str>, V: Into<String>> FromIterator<(K, V)> for Entries {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut entries = Self::default();
        for (key, value) in pairs {
            entries.set(key.as_ref(), value);
        }
        entries
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_map()
            .entries(
                self.values
                    .keys()
                    .map(|key| (key, self.shown(key).unwrap_or_default())),
            )
            .finish()
    }
}

/// A value as it may be shown.
pub(crate) fn mask(key: &str, value: &str) -> String {
    if key == "security.sasl.plain.credentials" {
        let users: Vec<String> = server_options::parse_list(value)
            .iter()
            .map(|entry| match entry.split_once(':') {
                Some((user, _)) => format!("{user}:{HIDDEN}"),
                None => HIDDEN.to_owned(),
            })
            .collect();
        users.join(",")
    } else if server_options::is_secret(key) {
        HIDDEN.to_owned()
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_replace_values_of_the_file() {
        let mut entries = Entries::from_iter([("data.dir", "/a"), ("max.bucket.num", "5")]);
        entries.set_override("data.dir=/b=c").unwrap();
        entries.set_override(" mainstem.http.listen = ").unwrap();
        assert_eq!(entries.get("data.dir"), Some("/b=c"));
        assert_eq!(entries.get("max.bucket.num"), Some("5"));
        assert_eq!(entries.get("mainstem.http.listen"), Some(""));
        for text in ["data.dir", "=x", "", " = "] {
            let error = entries.set_override(text).unwrap_err();
            assert!(error.to_string().contains("key=value"), "{error}");
        }
    }

    #[test]
    fn an_old_spelling_is_kept_under_the_present_name() {
        let entries = Entries::from_iter([("log.fetch.max-bytes", "1mb")]);
        assert_eq!(entries.get("log.replica.fetch.max-bytes"), Some("1mb"));
        assert_eq!(
            entries.renamed().collect::<Vec<_>>(),
            [("log.replica.fetch.max-bytes", "log.fetch.max-bytes")]
        );
    }

    #[test]
    fn secrets_do_not_show() {
        let entries = Entries::from_iter([
            ("security.sasl.plain.credentials", "carol:hush,dave:hush2"),
            (
                "security.sasl.plain.jaas.config",
                "PlainLoginModule required user_a=\"hush\";",
            ),
            ("data.dir", "/data"),
        ]);
        assert_eq!(
            entries.shown("security.sasl.plain.credentials").unwrap(),
            "carol:******,dave:******"
        );
        assert_eq!(
            entries.shown("security.sasl.plain.jaas.config").unwrap(),
            "******"
        );
        assert_eq!(entries.shown("data.dir").unwrap(), "/data");
        assert!(!format!("{entries:?}").contains("hush"));
    }

    #[test]
    fn markers_of_enabled_providers_are_replaced_and_hidden() {
        let mut entries = Entries::from_iter([
            ("config.providers", "env, file"),
            ("data.dir", "${env:HOME}/data"),
            (
                "tablet-server.rack",
                "${file:/etc/rack.properties:name}-${env:ROW}",
            ),
            ("max.bucket.num", "5"),
            ("super.users", "${vault:x}"),
        ]);
        entries
            .resolve_markers(|marker| {
                Ok(
                    match (
                        marker.provider.as_str(),
                        marker.path.as_deref(),
                        marker.key.as_str(),
                    ) {
                        ("env", None, "HOME") => "/home/me".to_owned(),
                        ("env", None, "ROW") => "7".to_owned(),
                        ("file", Some("/etc/rack.properties"), "name") => "r${env:ROW}".to_owned(),
                        other => panic!("unexpected marker {other:?}"),
                    },
                )
            })
            .unwrap();
        assert_eq!(entries.get("data.dir"), Some("/home/me/data"));
        // What a provider returns is not looked at again.
        assert_eq!(entries.get("tablet-server.rack"), Some("r${env:ROW}-7"));
        assert_eq!(entries.get("super.users"), Some("${vault:x}"));
        assert_eq!(entries.shown("data.dir").unwrap(), "******");
        assert_eq!(entries.shown("max.bucket.num").unwrap(), "5");
    }

    #[test]
    fn a_marker_without_value_names_the_key() {
        let mut entries =
            Entries::from_iter([("config.providers", "env"), ("data.dir", "${env:NOPE}")]);
        let error = entries
            .resolve_markers(|_| Err("NOPE is not set".to_owned()))
            .unwrap_err();
        assert!(
            error.to_string().starts_with("data.dir: NOPE is not set"),
            "{error}"
        );
    }

    #[test]
    fn without_enabled_providers_markers_are_plain_text() {
        let mut entries = Entries::from_iter([("data.dir", "${env:HOME}")]);
        entries
            .resolve_markers(|_| panic!("no provider is enabled"))
            .unwrap();
        assert_eq!(entries.get("data.dir"), Some("${env:HOME}"));
    }
}
