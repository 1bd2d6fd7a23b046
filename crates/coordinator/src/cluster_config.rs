//! Cluster configuration that changes at run time (cluster.md §3.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_meta::records::{ConfigRecord, Record};
use mainstem_meta::{Transaction, keys};
use mainstem_protocol::messages::{
    AlterClusterConfigsRequest, AlterClusterConfigsResponse, DescribeClusterConfigsRequest,
    DescribeClusterConfigsResponse, PbAlterConfig, PbDescribeConfig,
};
use mainstem_types::ErrorCode;
use mainstem_types::server_options::{self, OptionKind, parse_list};

use crate::wire::refused;
use crate::{ApiError, Coordinator};

const SET: i32 = 0;
const DELETE: i32 = 1;
const APPEND: i32 = 2;
const SUBTRACT: i32 = 3;

/// Shown instead of a secret.
const HIDDEN: &str = "******";
/// Users and their passwords.
const CREDENTIALS: &str = "security.sasl.plain.credentials";
const WRITE_LIMIT_RATIO: &str = "server.data-disk.write-limit-ratio";
const WRITE_RECOVER_RATIO: &str = "server.data-disk.write-recover-ratio";
const DATALAKE_FORMAT: &str = "datalake.format";

/// A part of the server that uses settings which change at run time.
pub trait ClusterConfigListener: Send + Sync {
    /// Whether the part can work with a configuration: every key of the server's
    /// file and every changed one, those forced unset left out. Called before
    /// the change is stored.
    ///
    /// # Errors
    /// A sentence for the user; the change is refused.
    fn check(&self, configs: &BTreeMap<String, String>) -> Result<(), String>;

    /// The configuration is this from now on. Called after it is stored, in
    /// order.
    fn apply(&self, configs: &BTreeMap<String, String>);
}

impl Coordinator {
    /// Tells a listener the configuration now, and after every change.
    pub fn subscribe_config(&self, listener: Arc<dyn ClusterConfigListener>) {
        let mut listeners = self.config_listeners.lock();
        listener.apply(&self.effective_configs(&self.dynamic_config.read()));
        listeners.push(listener);
    }

    /// The value of a key: changed at run time, else from the server's file.
    pub fn effective_config(&self, key: &str) -> Option<String> {
        match self.dynamic_config.read().configs.get(key) {
            Some(changed) => changed.clone(),
            None => self.config.server_configs.get(key).cloned(),
        }
    }

    fn effective_configs(&self, dynamic: &ConfigRecord) -> BTreeMap<String, String> {
        let mut configs = self.config.server_configs.clone();
        for (key, value) in &dynamic.configs {
            match value {
                Some(value) => configs.insert(key.clone(), value.clone()),
                None => configs.remove(key),
            };
        }
        configs
    }

    pub(crate) fn describe_cluster_configs(
        &self,
        _request: DescribeClusterConfigsRequest,
    ) -> Result<DescribeClusterConfigsResponse, ApiError> {
        let dynamic = self.dynamic_config.read();
        let entry = |key: &str, value: Option<&String>, source: &str| PbDescribeConfig {
            config_key: Some(key.to_owned()),
            config_value: value.map(|value| {
                if self.config.hidden_configs.contains(key) {
                    HIDDEN.to_owned()
                } else {
                    shown(key, value)
                }
            }),
            config_source: Some(source.to_owned()),
        };
        let initial = self
            .config
            .server_configs
            .iter()
            .filter(|(key, _)| !dynamic.configs.contains_key(*key))
            .map(|(key, value)| entry(key, Some(value), "INITIAL_SERVER_CONFIG"));
        let changed = dynamic
            .configs
            .iter()
            .map(|(key, value)| entry(key, value.as_ref(), "DYNAMIC_SERVER_CONFIG"));
        Ok(DescribeClusterConfigsResponse {
            configs: initial.chain(changed).collect(),
        })
    }

    pub(crate) fn alter_cluster_configs(
        &self,
        request: AlterClusterConfigsRequest,
    ) -> Result<AlterClusterConfigsResponse, ApiError> {
        if request.alter_configs.is_empty() {
            return Ok(AlterClusterConfigsResponse {});
        }
        let mut change = self.change()?;
        let mut altered = self.dynamic_config.read().clone();
        for entry in request.alter_configs {
            self.alter_config(&mut altered, entry)?;
        }
        let configs = self.effective_configs(&altered);
        check_together(&configs)?;
        let listeners = self.config_listeners.lock();
        for listener in listeners.iter() {
            listener.check(&configs).map_err(invalid)?;
        }
        if altered != *self.dynamic_config.read() {
            change.commit(Transaction::new().put(keys::CLUSTER_CONFIG, altered.encode()))?;
            *self.dynamic_config.write() = altered;
            for listener in listeners.iter() {
                listener.apply(&configs);
            }
        }
        Ok(AlterClusterConfigsResponse {})
    }

    fn alter_config(
        &self,
        altered: &mut ConfigRecord,
        entry: PbAlterConfig,
    ) -> Result<(), ApiError> {
        let key = entry.config_key.unwrap_or_default();
        let operation = entry.op_type.unwrap_or_default();
        if !(SET..=SUBTRACT).contains(&operation) {
            return Err(refused(format!(
                "Operation {operation} on '{key}' is not supported."
            )));
        }
        if !server_options::is_dynamic(&key) {
            return Err(invalid(format!(
                "The config key {key} is not allowed to be changed dynamically."
            )));
        }
        let kind = server_options::find(&key).map(|option| option.kind);
        let value = match (operation, entry.config_value) {
            (DELETE, _) => {
                altered.configs.remove(&key);
                return Ok(());
            }
            (SET, value) => value,
            (_, None) => return Err(invalid(format!("The value for '{key}' is missing."))),
            (APPEND, Some(value)) => Some(append(&key, kind, self.current(altered, &key), &value)?),
            (_, Some(value)) => subtract(&key, kind, self.current(altered, &key), &value)?,
        };
        if let Some(value) = &value {
            check_value(&key, kind, value)?;
        }
        altered.configs.insert(key, value);
        Ok(())
    }

    fn current(&self, altered: &ConfigRecord, key: &str) -> Option<String> {
        match altered.configs.get(key) {
            Some(changed) => changed.clone(),
            None => self.config.server_configs.get(key).cloned(),
        }
    }
}

/// Checks a new value by itself.
fn check_value(key: &str, kind: Option<OptionKind>, value: &str) -> Result<(), ApiError> {
    if value.contains("${") {
        return Err(invalid(format!(
            "The value for '{key}' refers to a config provider, which only the server's file may."
        )));
    }
    if let Some(kind) = kind {
        kind.check(value).map_err(|reason| {
            let reason = if server_options::is_secret(key) {
                "not of its form".into()
            } else {
                reason
            };
            invalid(format!("Invalid value for config '{key}': {reason}"))
        })?;
    }
    if key == DATALAKE_FORMAT {
        return Err(invalid(format!(
            "Lake format '{value}' is not available on this server."
        )));
    }
    if key == CREDENTIALS {
        for user in parse_list(value) {
            check_user(key, &user)?;
        }
    }
    Ok(())
}

/// Checks values against each other.
fn check_together(configs: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let ratio = |key: &str| {
        let text = configs.get(key).map(String::as_str);
        let text = text.or_else(|| server_options::find(key).and_then(|option| option.default))?;
        text.trim().parse::<f64>().ok()
    };
    if let (Some(limit), Some(recover)) = (ratio(WRITE_LIMIT_RATIO), ratio(WRITE_RECOVER_RATIO))
        && !(0.0 < recover && recover < limit && limit <= 1.0)
    {
        return Err(invalid(format!(
            "0 < {WRITE_RECOVER_RATIO} < {WRITE_LIMIT_RATIO} <= 1 does not hold: {recover}, {limit}."
        )));
    }
    Ok(())
}

fn check_user(key: &str, entry: &str) -> Result<(), ApiError> {
    match entry.split_once(':') {
        Some((user, _)) if !user.is_empty() && !user.contains(char::is_whitespace) => Ok(()),
        // The entry may hold a password: it is not repeated.
        _ => Err(invalid(format!(
            "Invalid map entry for config '{key}', expected is user:password."
        ))),
    }
}

/// How the entries of a key that APPEND and SUBTRACT work on are told apart.
fn entries_of(key: &str, kind: Option<OptionKind>) -> Result<OptionKind, ApiError> {
    match kind {
        Some(kind) if kind.is_list() || kind == OptionKind::Map => Ok(kind),
        _ => Err(invalid(format!(
            "APPEND/SUBTRACT operations are only supported for list-typed or map-typed config keys, \
             but '{key}' is not a list or map type."
        ))),
    }
}

fn append(
    key: &str,
    kind: Option<OptionKind>,
    current: Option<String>,
    value: &str,
) -> Result<String, ApiError> {
    let kind = entries_of(key, kind)?;
    let mut entries = parse_list(current.as_deref().unwrap_or_default());
    for entry in parse_list(value) {
        if kind == OptionKind::Map {
            let name = map_key(key, &entry)?;
            if entries
                .iter()
                .any(|present| present.split(':').next() == Some(name))
            {
                return Err(invalid(format!(
                    "The key '{name}' is already in config '{key}'."
                )));
            }
        }
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    Ok(entries.join(","))
}

/// `None` if nothing is left.
fn subtract(
    key: &str,
    kind: Option<OptionKind>,
    current: Option<String>,
    value: &str,
) -> Result<Option<String>, ApiError> {
    let kind = entries_of(key, kind)?;
    let mut entries = parse_list(current.as_deref().unwrap_or_default());
    for entry in parse_list(value) {
        if kind == OptionKind::Map {
            let name = map_key(key, &entry)?;
            entries.retain(|present| present.split(':').next() != Some(name));
        } else {
            entries.retain(|present| *present != entry);
        }
    }
    Ok(Some(entries.join(",")).filter(|left| !left.is_empty()))
}

/// The part of a map entry before the colon; the rest may be a secret.
fn map_key<'a>(key: &str, entry: &'a str) -> Result<&'a str, ApiError> {
    match entry.split_once(':') {
        Some((name, _)) => Ok(name),
        // The entry may be a secret: it is not repeated.
        None => Err(invalid(format!(
            "Invalid map entry for config '{key}', expected is name:value."
        ))),
    }
}

/// A value as Describe shows it.
fn shown(key: &str, value: &str) -> String {
    if key == CREDENTIALS {
        let users = parse_list(value);
        let users = users
            .iter()
            .map(|user| user.split(':').next().unwrap_or_default());
        return users
            .map(|user| format!("{user}:{HIDDEN}"))
            .collect::<Vec<_>>()
            .join(",");
    }
    if server_options::is_secret(key) {
        HIDDEN.to_owned()
    } else {
        value.to_owned()
    }
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::ConfigException, message)
}
