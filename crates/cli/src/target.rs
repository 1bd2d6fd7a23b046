//! Options that every command against a server has.

use anyhow::{Context, Result, bail};
use mainstem_client::{Client, ClientOptions};
use mainstem_types::TablePath;

/// Where the server is, and who asks.
#[derive(clap::Args, Clone, Debug)]
pub struct Target {
    /// Address of a server.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9123",
        env = "MAINSTEM_SERVER"
    )]
    pub server: String,
    /// User for a listener with SASL/PLAIN.
    #[arg(long, env = "MAINSTEM_USER")]
    pub user: Option<String>,
    /// Password of the user.
    #[arg(
        long,
        env = "MAINSTEM_PASSWORD",
        hide_env_values = true,
        requires = "user"
    )]
    pub password: Option<String>,
}

impl Target {
    /// Connects.
    pub async fn connect(&self) -> Result<Client> {
        let sasl = match (&self.user, &self.password) {
            (Some(user), Some(password)) => Some((user.clone(), password.clone())),
            (Some(user), None) => bail!("--user {user} needs --password or MAINSTEM_PASSWORD"),
            (None, _) => None,
        };
        let servers: Vec<String> = self
            .server
            .split(',')
            .map(|s| s.trim().to_owned())
            .collect();
        let options = ClientOptions {
            sasl,
            ..ClientOptions::default()
        };
        Client::connect(&servers, options).await.with_context(|| {
            format!(
                "cannot reach a server at {}; start one with `mainstem start`",
                self.server
            )
        })
    }
}

/// `db.table`, or `table` in the default database.
pub fn parse_table(text: &str) -> Result<TablePath, String> {
    match text.split('.').collect::<Vec<_>>().as_slice() {
        [table] if !table.is_empty() => Ok(TablePath::new("fluss", *table)),
        [database, table] if !database.is_empty() && !table.is_empty() => {
            Ok(TablePath::new(*database, *table))
        }
        _ => Err(format!("'{text}' is not DATABASE.TABLE")),
    }
}
