//! Changes of the configuration at run time (cluster.md §3.10, wire.md §6.12).
//!
//! Dynamic entries lie over the settings that the server started with. An entry
//! without a value forces its key unset, also over the file. All changes of one
//! request are made or none.

use std::collections::{BTreeMap, HashSet};

use crate::config::entries::{HIDDEN, mask};
use crate::config::{ConfigError, Entries, Marker, Notice, ServerConfig};
use crate::jaas;
use crate::server_options::{self, LAKE_PREFIX, OptionKind};

/// Dynamic entries by key, as the metadata store keeps them. `None` = unset.
pub type DynamicEntries = BTreeMap<String, Option<String>>;

/// Bounds of one request and of what is kept. All entries together live in memory
/// and in one record of the metadata store.
const MAX_CHANGES: usize = 1_000;
const MAX_TOTAL_BYTES: usize = 1 << 20;

/// One change, as AlterClusterConfigs carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// Key.
    pub key: String,
    /// Value; ignored by DELETE.
    pub value: Option<String>,
    /// 0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT.
    pub operation: i32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Set,
    Delete,
    Append,
    Subtract,
}

impl Operation {
    fn from_wire(operation: i32) -> Result<Self, ConfigError> {
        match operation {
            0 => Ok(Self::Set),
            1 => Ok(Self::Delete),
            2 => Ok(Self::Append),
            3 => Ok(Self::Subtract),
            _ => Err(ConfigError::UnknownOperation { operation }),
        }
    }
}

/// Where a described value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// File or command line.
    Initial,
    /// AlterClusterConfigs.
    Dynamic,
}

impl ConfigSource {
    /// Its name in DescribeClusterConfigs.
    pub const fn wire_name(self) -> &'static str {
        match self {
            Self::Initial => "INITIAL_SERVER_CONFIG",
            Self::Dynamic => "DYNAMIC_SERVER_CONFIG",
        }
    }
}

/// One entry of DescribeClusterConfigs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConfig {
    /// Key.
    pub key: String,
    /// Value with secrets masked; `None` = forced unset.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
}

/// The rules of changes over one set of initial settings.
#[derive(Clone, Copy, Debug)]
pub struct DynamicConfig<'a> {
    /// What the server started with.
    pub initial: &'a Entries,
    /// Lake formats, in lower case, that this build can activate.
    pub lake_formats: &'a [&'a str],
}

impl DynamicConfig<'_> {
    /// Applies the changes of one request, in their order, to the current dynamic
    /// entries, and checks that a server could run with the result.
    ///
    /// # Errors
    /// The first change that is refused; [`ConfigError::code`] has its code (64,
    /// or −1 for an unknown operation). Nothing is changed then.
    pub fn apply(
        &self,
        current: &DynamicEntries,
        changes: &[ConfigChange],
    ) -> Result<DynamicEntries, ConfigError> {
        let operations = changes
            .iter()
            .map(|change| Operation::from_wire(change.operation))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(change) = changes.get(MAX_CHANGES) {
            let problem = format!("a request has at most {MAX_CHANGES} changes");
            return Err(ConfigError::change(shortened(&change.key), problem));
        }
        let mut next = current.clone();
        for (change, operation) in changes.iter().zip(&operations) {
            self.apply_one(&mut next, change, *operation)?;
        }
        if next != *current {
            self.check_result(current, &next, changes)?;
        }
        Ok(next)
    }

    fn apply_one(
        &self,
        next: &mut DynamicEntries,
        change: &ConfigChange,
        operation: Operation,
    ) -> Result<(), ConfigError> {
        let key = change.key.as_str();
        if !server_options::is_dynamic(key) {
            return Err(ConfigError::NotAlterable {
                key: key.chars().take(200).collect(),
            });
        }
        let kind = server_options::find(key).map_or(OptionKind::Text, |option| option.kind);
        if operation == Operation::Delete {
            next.remove(key);
            return Ok(());
        }
        let extends = operation != Operation::Set;
        if extends && !kind.is_list() && kind != OptionKind::Map {
            return Err(ConfigError::change(
                key,
                "APPEND and SUBTRACT are only for options that are lists or maps, this one is not",
            ));
        }
        if extends && change.value.is_none() {
            return Err(ConfigError::change(key, "APPEND and SUBTRACT need a value"));
        }
        let before = self.effective_value(next, key).unwrap_or_default();
        let kept: usize = next
            .iter()
            .map(|(key, value)| key.len() + text_bytes(value))
            .sum();
        if kept + before.len() + key.len() + text_bytes(&change.value) > MAX_TOTAL_BYTES {
            let problem = "the dynamic configuration would be longer than 1 MiB";
            return Err(ConfigError::change(shortened(key), problem));
        }
        let Some(value) = change.value.as_deref() else {
            next.insert(key.to_owned(), None);
            return Ok(());
        };
        if Marker::is_in(value) {
            return Err(ConfigError::change(
                key,
                "markers of configuration providers are not allowed in dynamic changes",
            ));
        }
        let after = match operation {
            Operation::Append if kind == OptionKind::Map => append_to_map(key, before, value)?,
            Operation::Append => append_to_list(before, value),
            Operation::Subtract if kind == OptionKind::Map => {
                subtract_from_map(key, before, value)?
            }
            Operation::Subtract => subtract_from_list(before, value),
            Operation::Set | Operation::Delete => value.to_owned(),
        };
        check_value(key, kind, &after)?;
        next.insert(key.to_owned(), Some(after));
        Ok(())
    }

    /// Checks that hold between keys.
    fn check_result(
        &self,
        current: &DynamicEntries,
        next: &DynamicEntries,
        changes: &[ConfigChange],
    ) -> Result<(), ConfigError> {
        let config = ServerConfig::from_entries(self.effective(next))?;
        let touched = |key: &str| changes.iter().any(|change| change.key == key);
        if let Some(format) = config.lake.format.as_deref() {
            if touched("datalake.format") && !self.lake_formats.contains(&format) {
                return Err(ConfigError::change(
                    "datalake.format",
                    format!("this server cannot write lakes of format {format}"),
                ));
            }
            let prefix = format!("{LAKE_PREFIX}{format}.");
            let stray = changes
                .iter()
                .map(|change| change.key.as_str())
                .find(|key| {
                    key.starts_with(LAKE_PREFIX)
                        && server_options::find(key).is_none()
                        && !key.starts_with(&prefix)
                        && next.get(*key).is_some_and(Option::is_some)
                });
            if let Some(key) = stray {
                let problem = format!("datalake.format is {format}, so only {prefix}* can be set");
                return Err(ConfigError::change(key, problem));
            }
        }
        let key = "remote.data.dirs";
        let kept = list(self.effective_value(next, key));
        match list(self.effective_value(current, key))
            .into_iter()
            .find(|dir| !kept.contains(dir))
        {
            None => Ok(()),
            Some(dir) => Err(ConfigError::change(
                key,
                format!("'{dir}' cannot be taken away: tables may have data there"),
            )),
        }
    }

    /// The settings in force with these dynamic entries.
    pub fn effective(&self, dynamic: &DynamicEntries) -> Entries {
        let mut entries = self.initial.clone();
        for (key, value) in dynamic {
            match value {
                Some(value) => {
                    entries.set(key, value);
                }
                None => entries.remove(key),
            }
        }
        entries
    }

    /// All settings for DescribeClusterConfigs, sorted by key: a dynamic entry
    /// takes the place of the initial one.
    pub fn describe(&self, dynamic: &DynamicEntries) -> Vec<DescribedConfig> {
        let mut described: BTreeMap<&str, DescribedConfig> = BTreeMap::new();
        for (key, _) in self.initial.iter() {
            let value = self.initial.shown(key);
            let source = ConfigSource::Initial;
            described.insert(
                key,
                DescribedConfig {
                    key: key.to_owned(),
                    value,
                    source,
                },
            );
        }
        for (key, value) in dynamic {
            let value = value.as_deref().map(|value| mask(key, value));
            let source = ConfigSource::Dynamic;
            described.insert(
                key,
                DescribedConfig {
                    key: key.to_owned(),
                    value,
                    source,
                },
            );
        }
        described.into_values().collect()
    }

    /// What of stored entries can be used over these initial settings. The file
    /// may have changed since they were stored, or an older version wrote them;
    /// an entry that does not fit must not keep the server from starting.
    pub fn load(&self, stored: &DynamicEntries) -> (DynamicEntries, Vec<Notice>) {
        let mut usable = stored.clone();
        usable.retain(|key, value| {
            let kind = server_options::find(key).map_or(OptionKind::Text, |option| option.kind);
            server_options::is_dynamic(key)
                && value
                    .as_deref()
                    .is_none_or(|value| check_value(key, kind, value).is_ok())
        });
        if ServerConfig::from_entries(self.effective(&usable)).is_err() {
            usable = self.largest_fitting(usable);
        }
        let notices = stored
            .keys()
            .filter(|key| !usable.contains_key(*key))
            .map(|key| {
                Notice::warning(format!(
                    "{key}: its dynamic value does not fit and is ignored"
                ))
            })
            .collect();
        (usable, notices)
    }

    /// Adds entries one by one as long as one fits; several rounds, because two
    /// may fit only in one order (a limit before what must stay below it).
    fn largest_fitting(&self, mut left: DynamicEntries) -> DynamicEntries {
        let mut fitting = DynamicEntries::new();
        loop {
            let before = fitting.len();
            left.retain(|key, value| {
                fitting.insert(key.clone(), value.clone());
                let fits = ServerConfig::from_entries(self.effective(&fitting)).is_ok();
                if !fits {
                    fitting.remove(key);
                }
                !fits
            });
            if fitting.len() == before || left.is_empty() {
                return fitting;
            }
        }
    }

    fn effective_value<'b>(&'b self, dynamic: &'b DynamicEntries, key: &str) -> Option<&'b str> {
        match dynamic.get(key) {
            Some(value) => value.as_deref(),
            None => self.initial.get(key),
        }
    }
}

fn check_value(key: &str, kind: OptionKind, value: &str) -> Result<(), ConfigError> {
    if kind == OptionKind::Map {
        return server_options::parse_list(value)
            .iter()
            .try_for_each(|entry| entry_name(key, entry).map(drop));
    }
    kind.check(value).map_err(|problem| {
        let shown = shortened(if server_options::is_secret(key) {
            HIDDEN
        } else {
            value
        });
        let problem = format!("Could not parse value '{shown}' for key '{key}': {problem}");
        ConfigError::change(key, problem)
    })
}

fn list(value: Option<&str>) -> Vec<String> {
    server_options::parse_list(value.unwrap_or_default())
}

/// Adds the items that are not there yet.
fn append_to_list(before: &str, added: &str) -> String {
    let mut items = server_options::parse_list(before);
    let mut known: HashSet<String> = items.iter().cloned().collect();
    for item in server_options::parse_list(added) {
        if known.insert(item.clone()) {
            items.push(item);
        }
    }
    items.join(",")
}

fn subtract_from_list(before: &str, removed: &str) -> String {
    let removed: HashSet<String> = server_options::parse_list(removed).into_iter().collect();
    let mut items = server_options::parse_list(before);
    items.retain(|item| !removed.contains(item));
    items.join(",")
}

/// The name of a map entry, which must be complete. The one map that changes at
/// run time holds users (a test of the option table says so).
fn entry_name<'a>(key: &str, entry: &'a str) -> Result<&'a str, ConfigError> {
    jaas::parse_credential(entry)
        .map(|(name, _)| name)
        .map_err(|problem| ConfigError::change(key, format!("Invalid map entry: {problem}")))
}

fn append_to_map(key: &str, before: &str, added: &str) -> Result<String, ConfigError> {
    let mut entries = server_options::parse_list(before);
    let mut known: HashSet<String> = entries
        .iter()
        .map(|entry| name_of(entry).to_owned())
        .collect();
    for entry in server_options::parse_list(added) {
        let name = entry_name(key, &entry)?;
        if !known.insert(name.to_owned()) {
            return Err(ConfigError::change(
                key,
                format!("'{name}' is there already"),
            ));
        }
        entries.push(entry);
    }
    Ok(entries.join(","))
}

fn subtract_from_map(key: &str, before: &str, removed: &str) -> Result<String, ConfigError> {
    let removed = server_options::parse_list(removed);
    let names = removed
        .iter()
        .map(|entry| entry_name(key, entry))
        .collect::<Result<HashSet<_>, _>>()?;
    let mut entries = server_options::parse_list(before);
    entries.retain(|entry| !names.contains(name_of(entry)));
    Ok(entries.join(","))
}

fn name_of(entry: &str) -> &str {
    entry.split_once(':').map_or(entry, |(name, _)| name)
}

fn text_bytes(value: &Option<String>) -> usize {
    value.as_ref().map_or(0, String::len)
}

/// A text from a client as it may appear in a message.
fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
