//! Settings that change while the server runs (cluster.md §3.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_coordinator::ClusterConfigListener;
use mainstem_net::Credentials;
use mainstem_tablet::registry::Replicas;
use mainstem_types::config::{Entries, ServerConfig};
use mainstem_types::jaas::Users;
use parking_lot::RwLock;
use tracing::info;

/// The users of each SASL listener.
#[derive(Default)]
pub struct ListenerUsers {
    by_listener: RwLock<BTreeMap<String, Users>>,
}

impl ListenerUsers {
    /// Users by the name of the listener.
    pub fn new(by_listener: BTreeMap<String, Users>) -> Self {
        Self {
            by_listener: RwLock::new(by_listener),
        }
    }
}

impl Credentials for ListenerUsers {
    fn verify(&self, listener: &str, user: &str, password: &[u8]) -> bool {
        let users = self.by_listener.read();
        users
            .get(listener)
            .is_some_and(|users| users.verify(user, password))
    }
}

/// Applies changed settings to the parts that use them. Connections that are
/// authenticated stay so.
pub struct LiveSettings {
    users: Arc<ListenerUsers>,
    replicas: Arc<Replicas>,
}

impl LiveSettings {
    /// Settings of these parts.
    pub fn new(users: Arc<ListenerUsers>, replicas: Arc<Replicas>) -> Self {
        Self { users, replicas }
    }
}

fn typed(configs: &BTreeMap<String, String>) -> Result<ServerConfig, String> {
    let mut entries = Entries::default();
    for (key, value) in configs {
        entries.set(key, value.as_str());
    }
    ServerConfig::from_entries(entries).map_err(|error| error.to_string())
}

impl ClusterConfigListener for LiveSettings {
    fn check(&self, configs: &BTreeMap<String, String>) -> Result<(), String> {
        typed(configs).map(drop)
    }

    fn apply(&self, configs: &BTreeMap<String, String>) {
        // Checked before it was stored.
        let Ok(config) = typed(configs) else { return };
        *self.users.by_listener.write() = config.users;
        let disk = self.replicas.disk();
        disk.set_ratios(
            config.disk.write_limit_ratio,
            config.disk.write_recover_ratio,
        );
        let minimum = usize::try_from(config.log.min_in_sync_replicas).unwrap_or(0);
        self.replicas.set_min_in_sync_replicas(minimum);
        let interval_ms = i64::try_from(config.kv.snapshot_interval.as_millis());
        self.replicas
            .set_rows_flush_interval_ms(interval_ms.unwrap_or(i64::MAX));
        info!("applied changed settings");
    }
}
