//! Who may log in at which listener.

use std::collections::BTreeMap;

use crate::config::reader::Reader;
use crate::config::{ConfigError, Notice};
use crate::jaas::Users;
use crate::listeners::{Listener, Protocol};
use crate::server_options;

const MECHANISMS: &str = "security.sasl.enabled.mechanisms";
const CREDENTIALS: &str = "security.sasl.plain.credentials";
const JAAS: &str = "security.sasl.plain.jaas.config";
const LISTENER_PREFIX: &str = "security.sasl.listener.name.";

/// The users of each SASL listener, by its name (wire.md §3.1): the JAAS text of
/// the listener, else the general one, with the credentials map laid over it.
pub(super) fn users_by_listener(
    reader: &Reader<'_>,
    listeners: &[Listener],
    notices: &mut Vec<Notice>,
) -> Result<BTreeMap<String, Users>, ConfigError> {
    let credentials = match reader.text(CREDENTIALS) {
        None => None,
        Some(text) => Some(Users::from_credentials(text).map_err(|problem| {
            ConfigError::invalid(CREDENTIALS, problem, "write user:password,user:password")
        })?),
    };
    let mut users = BTreeMap::new();
    for listener in listeners
        .iter()
        .filter(|listener| listener.protocol == Protocol::Sasl)
    {
        check_mechanisms(reader, &listener.name)?;
        let found = users_of(reader, &listener.name, credentials.as_ref())?;
        if found.is_empty() {
            notices.push(Notice::warning(format!(
                "nobody can log in at listener {}: it uses SASL and has no users",
                listener.name
            )));
        }
        users.insert(listener.name.clone(), found);
    }
    notices.extend(unused_keys(reader, &users));
    Ok(users)
}

/// Users of listeners that do not exist or do not ask who connects.
fn unused_keys(reader: &Reader<'_>, users: &BTreeMap<String, Users>) -> Vec<Notice> {
    let used: Vec<String> = users.keys().map(|listener| own_key(listener)).collect();
    reader
        .entries
        .iter()
        .filter(|(key, _)| key.starts_with(LISTENER_PREFIX) && !used.iter().any(|own| own == key))
        .map(|(key, _)| Notice::warning(format!("{key} has no effect: no SASL listener has it")))
        .collect()
}

fn own_key(listener: &str) -> String {
    format!(
        "{LISTENER_PREFIX}{}.plain.jaas.config",
        listener.to_ascii_lowercase()
    )
}

fn check_mechanisms(reader: &Reader<'_>, listener: &str) -> Result<(), ConfigError> {
    let enabled = server_options::parse_list(reader.text(MECHANISMS).unwrap_or_default());
    if enabled
        .iter()
        .any(|mechanism| mechanism.eq_ignore_ascii_case("PLAIN"))
    {
        return Ok(());
    }
    let problem = match enabled.first() {
        None => format!("listener {listener} uses SASL, but no mechanism is enabled"),
        Some(other) => {
            format!("listener {listener} uses SASL, but '{other}' is not a supported mechanism")
        }
    };
    Err(ConfigError::invalid(MECHANISMS, problem, "set it to PLAIN"))
}

fn users_of(
    reader: &Reader<'_>,
    listener: &str,
    credentials: Option<&Users>,
) -> Result<Users, ConfigError> {
    let own_key = own_key(listener);
    let jaas = match reader.entries.get(&own_key) {
        Some(text) => Some((own_key.as_str(), text)),
        None => reader.text(JAAS).map(|text| (JAAS, text)),
    };
    match (jaas, credentials) {
        (None, None) => Err(ConfigError::invalid(
            JAAS,
            format!("listener {listener} uses SASL, but there are no users"),
            "set it to: PlainLoginModule required user_NAME=\"PASSWORD\";",
        )),
        (None, Some(credentials)) => Ok(credentials.clone()),
        (Some((key, text)), credentials) => {
            let users = Users::from_jaas(text).map_err(|problem| {
                ConfigError::invalid(
                    key,
                    problem,
                    "write: PlainLoginModule required user_NAME=\"PASSWORD\"; (without '#')",
                )
            })?;
            Ok(match credentials {
                Some(over) => users.overlaid_with(over),
                None => users,
            })
        }
    }
}
