//! `mainstem start`: every role in one process.

use std::future::Future;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mainstem_types::config::{
    Entries, LogLineFormat, LoggingConfig, Marker, ServerConfig, Severity, parse_server_yaml,
};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::server::Server;

/// Options of `mainstem start`.
#[derive(clap::Args, Clone, Debug)]
pub struct StartArguments {
    /// File with settings, one `key: value` per line (server.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory for all local data; stands for `-D data.dir=DIR`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// A setting, over those of the file.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    define: Vec<String>,
}

/// Runs until SIGTERM or SIGINT.
pub fn run(arguments: &StartArguments) -> Result<()> {
    let (config, warnings) = load(arguments)?;
    start_logging(&config.logging)?;
    for warning in warnings {
        warn!("{warning}");
    }
    for notice in &config.notices {
        match notice.severity {
            Severity::Warning => warn!("{}", notice.text),
            Severity::Note => info!("{}", notice.text),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("mainstem")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(async move {
        let signal = shutdown_signal()?;
        let server = Server::start(config).await?;
        greet(&server.greeting());
        server.run_until(signal).await
    })
}

fn greet(lines: &[String]) {
    let mut out = std::io::stdout().lock();
    for line in lines {
        // Whoever started the server may have closed its end; it serves all the same.
        let _ = writeln!(out, "{line}");
    }
}

fn load(arguments: &StartArguments) -> Result<(ServerConfig, Vec<String>)> {
    let (mut entries, warnings) = match &arguments.config {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the configuration {}", path.display()))?;
            let parsed = parse_server_yaml(&text);
            (parsed.entries, parsed.warnings)
        }
        None => (Entries::default(), Vec::new()),
    };
    for text in &arguments.define {
        entries.set_override(text)?;
    }
    if let Some(dir) = &arguments.data_dir {
        let Some(dir) = dir.to_str() else {
            bail!("--data-dir is not UTF-8")
        };
        entries.set("data.dir", dir);
    }
    entries.resolve_markers(look_up)?;
    Ok((ServerConfig::from_entries(entries)?, warnings))
}

/// Values kept outside of the file (cluster.md §9.1 "Indirection").
fn look_up(marker: &Marker) -> Result<String, String> {
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    match (marker.provider.as_str(), &marker.path) {
        ("env", _) => std::env::var(&marker.key).map_err(|_| format!("${} is not set", marker.key)),
        ("directory", Some(path)) => {
            read(PathBuf::from(path).join(&marker.key)).map(|text| text.trim_end().to_owned())
        }
        ("file", Some(path)) => {
            let parsed = parse_server_yaml(&read(PathBuf::from(path))?);
            let value = parsed.entries.get(&marker.key).map(str::to_owned);
            value.ok_or_else(|| format!("{path} has no key {}", marker.key))
        }
        (provider, _) => Err(format!("there is no provider '{provider}'")),
    }
}

fn start_logging(config: &LoggingConfig) -> Result<()> {
    let filter = EnvFilter::try_new(&config.filter)
        .with_context(|| format!("mainstem.log.level '{}' is not a filter", config.filter))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would be told on standard error, which is what cannot be written.
        .log_internal_errors(false);
    match config.format {
        LogLineFormat::Json => builder.json().init(),
        LogLineFormat::Text => {
            use std::io::IsTerminal;
            builder
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false)
                .init();
        }
    }
    Ok(())
}

/// Ready at SIGTERM or SIGINT. The handlers are in place when this returns: a
/// signal that comes during the start stops the server in an orderly way as well.
fn shutdown_signal() -> Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}
