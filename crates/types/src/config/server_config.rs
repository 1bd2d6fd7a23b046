//! The typed values that a server starts with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::reader::Reader;
use crate::config::{ConfigError, Entries, Notice, notices, sasl};
use crate::jaas::Users;
use crate::listeners::{self, HostPort, Listener};
use crate::server_options;

/// When an append counts as stored (design.md §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the sync of its bytes: it survives a power cut.
    Fsync,
    /// When the operating system has it: it survives the end of the process.
    Os,
}

/// A port besides the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidePort {
    /// Where; `None` = off. Port 0 takes a free one.
    pub address: Option<HostPort>,
    /// Whether nobody set it. Then a busy port is a warning, not the end.
    pub is_default: bool,
}

/// What tables may be, and what they are when they do not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Buckets of a table that does not say.
    pub default_bucket_count: i32,
    /// Replicas of a table that does not say.
    pub default_replication_factor: i32,
    /// Partitions of one table.
    pub max_partitions: i32,
    /// Buckets of one table or partition.
    pub max_buckets: i32,
    /// Whether tables without primary key may be created.
    pub allow_log_tables: bool,
    /// Whether tables with primary key may be created.
    pub allow_primary_key_tables: bool,
}

/// Log tablets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Size at which a segment is closed; 1 to 2^31−1.
    pub segment_bytes: u32,
    /// Largest index of one segment.
    pub index_bytes: u32,
    /// Log bytes between two index entries.
    pub index_interval_bytes: u32,
    /// Time between two records of the recovery point.
    pub recovery_point_interval: Duration,
    /// Time between two searches for expired segments.
    pub retention_check_interval: Duration,
    /// Whether the newest segment expires too.
    pub retention_rolls_active_segment: bool,
    /// Size to which the log of a bucket is cut; `None` = any.
    pub retention_bytes: Option<u64>,
    /// Replicas that must be in sync for acks = all.
    pub min_in_sync_replicas: i32,
}

/// Rows of primary-key tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// Time after which the rows of a bucket are made durable: a crash replays no
    /// more of the changelog than that.
    pub snapshot_interval: Duration,
    /// Memory for the rows that changed last, over all buckets.
    pub recent_rows_bytes: u64,
    /// Files of level 0 from which on writers are told of pressure.
    pub pressure_from_level0_files: i32,
    /// When an idle scan ends.
    pub scan_ttl: Duration,
    /// Time between two searches for such scans.
    pub scan_check_interval: Duration,
    /// Scans of one bucket at once.
    pub scans_per_bucket: i32,
    /// Scans at once.
    pub scans_per_server: i32,
    /// Bytes of an answer of a scan.
    pub scan_batch_bytes: u64,
}

/// State of idempotent writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterStateConfig {
    /// How long an idle writer is remembered.
    pub expiration: Duration,
    /// Time between two checks.
    pub check_interval: Duration,
}

/// Bounds of the protocol port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConfig {
    /// Largest request frame.
    pub max_request_bytes: u32,
    /// Requests that wait for work, over all connections.
    pub max_queued_requests: usize,
    /// Bytes of requests in work, over all connections; ≥ `max_request_bytes`.
    pub request_memory_bytes: u64,
    /// Connections at once.
    pub max_connections: usize,
    /// When an idle connection is closed; `None` = never.
    pub max_idle: Option<Duration>,
}

/// When writes are refused because the disk fills. Ratios: 0 < recover < limit ≤ 1.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskConfig {
    /// Used part at which writes are refused; 1 = never.
    pub write_limit_ratio: f64,
    /// Used part at which they are allowed again.
    pub write_recover_ratio: f64,
    /// Time between two looks.
    pub check_interval: Duration,
}

/// The lake of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LakeConfig {
    /// Whether tables may be tiered.
    pub enabled: bool,
    /// Format in lower case; new tables record it even when `enabled` is false.
    pub format: Option<String>,
    /// Catalog options of that format, without the prefix `datalake.<format>.`.
    pub options: BTreeMap<String, String>,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLineFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// The server's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingConfig {
    /// A level or a filter.
    pub filter: String,
    /// Form of lines.
    pub format: LogLineFormat,
}

/// Everything that a one-node server needs to know before it opens anything.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Directory of all local data.
    pub data_dir: PathBuf,
    /// Root of remote data: a path or a URI.
    pub remote_data_dir: String,
    /// What an acknowledgement means.
    pub durability: Durability,
    /// The protocol's listeners, at least one.
    pub listeners: Vec<Listener>,
    /// Users of each SASL listener, by its name.
    pub users: BTreeMap<String, Users>,
    /// HTTP.
    pub http: SidePort,
    /// Arrow Flight SQL.
    pub flight: SidePort,
    /// PostgreSQL protocol.
    pub postgres: SidePort,
    /// Rack that metadata reports.
    pub rack: Option<String>,
    /// Limits and defaults of tables.
    pub tables: TableLimits,
    /// Log tablets.
    pub log: LogConfig,
    /// Rows of primary-key tables.
    pub kv: KvConfig,
    /// Idempotent writers.
    pub writers: WriterStateConfig,
    /// The protocol port.
    pub net: NetConfig,
    /// The disk guard.
    pub disk: DiskConfig,
    /// The lake.
    pub lake: LakeConfig,
    /// Time between two rounds of auto partitioning.
    pub auto_partition_check_interval: Duration,
    /// How long registered producer offsets live.
    pub producer_offsets_ttl: Duration,
    /// Time between two clean-ups of them.
    pub producer_offsets_cleanup_interval: Duration,
    /// The server's own log.
    pub logging: LoggingConfig,
    /// What to tell a person about these settings.
    pub notices: Vec<Notice>,
    /// The settings as given, for DescribeClusterConfigs.
    pub entries: Entries,
}

impl ServerConfig {
    /// Checks all settings and turns them into typed values.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] for the first setting that cannot be.
    pub fn from_entries(entries: Entries) -> Result<Self, ConfigError> {
        let reader = Reader { entries: &entries };
        reader.check_forms()?;
        refuse_authorizer(&reader)?;
        check_unused_ranges(&reader)?;
        let mut notices = notices::about_keys(&entries);
        let listeners = read_listeners(&reader, &mut notices)?;
        let users = sasl::users_by_listener(&reader, &listeners, &mut notices)?;
        let data_dir = read_data_dir(&reader, &mut notices)?;
        let config = Self {
            remote_data_dir: read_remote_data_dir(&reader, &data_dir)?,
            data_dir,
            durability: match reader
                .required("mainstem.durability")
                .to_ascii_lowercase()
                .as_str()
            {
                "os" => Durability::Os,
                _ => Durability::Fsync,
            },
            listeners,
            users,
            http: read_side_port(&reader, "mainstem.http.listen")?,
            flight: read_side_port(&reader, "mainstem.flight.listen")?,
            postgres: read_side_port(&reader, "mainstem.postgres.listen")?,
            rack: reader.text("tablet-server.rack").map(str::to_owned),
            tables: read_tables(&reader)?,
            log: read_log(&reader)?,
            kv: read_kv(&reader)?,
            writers: WriterStateConfig {
                expiration: reader.period("server.writer-id.expiration-time")?,
                check_interval: reader.period("server.writer-id.expiration-check-interval")?,
            },
            net: read_net(&reader)?,
            disk: read_disk(&reader)?,
            lake: read_lake(&reader, &mut notices)?,
            auto_partition_check_interval: reader.period("auto-partition.check.interval")?,
            producer_offsets_ttl: reader.period("coordinator.producer-offsets.ttl")?,
            producer_offsets_cleanup_interval: reader
                .period("coordinator.producer-offsets.cleanup-interval")?,
            logging: LoggingConfig {
                filter: reader.required("mainstem.log.level").to_owned(),
                format: match reader
                    .required("mainstem.log.format")
                    .to_ascii_lowercase()
                    .as_str()
                {
                    "json" => LogLineFormat::Json,
                    _ => LogLineFormat::Text,
                },
            },
            notices,
            entries: Entries::default(),
        };
        Ok(Self { entries, ..config })
    }

    /// The listener where servers talk to each other, if there is one.
    pub fn internal_listener(&self) -> Option<&Listener> {
        self.listeners.iter().find(|listener| listener.internal)
    }
}

fn read_kv(reader: &Reader<'_>) -> Result<KvConfig, ConfigError> {
    Ok(KvConfig {
        snapshot_interval: reader.period("kv.snapshot.interval")?,
        recent_rows_bytes: reader.memory("mainstem.kv.recent-rows.size", 0, 1 << 40)?,
        pressure_from_level0_files: reader.int("kv.backpressure.l0-slowdown-trigger", 0)?,
        scan_ttl: reader.period("kv.scanner.ttl")?,
        scan_check_interval: reader.period("kv.scanner.expiration-interval")?,
        scans_per_bucket: reader.int("kv.scanner.max-per-bucket", 1)?,
        scans_per_server: reader.int("kv.scanner.max-per-server", 1)?,
        scan_batch_bytes: reader.memory("kv.scanner.max-batch-size", 1, 1 << 30)?,
    })
}

fn refuse_authorizer(reader: &Reader<'_>) -> Result<(), ConfigError> {
    if reader.bool("authorizer.enabled")? {
        return Err(ConfigError::invalid(
            "authorizer.enabled",
            "access control lists are not built yet, everybody could read and write everything",
            "set it to false to start without them",
        ));
    }
    Ok(())
}

/// Ranges of options that this server does not use itself: the reference refuses
/// to start with them, so a slip is found here as well.
fn check_unused_ranges(reader: &Reader<'_>) -> Result<(), ConfigError> {
    for key in [
        "kv.snapshot.num-retained",
        "server.io-pool.size",
        "server.background.threads",
    ] {
        reader.int(key, 1)?;
    }
    if reader.text("tablet-server.id").is_some() {
        reader.int("tablet-server.id", 0)?;
    }
    reader.period("server.historical-partition.lookuper-cache.expire-after-access")?;
    let ratio_key = "server.historical-partition.lookup-cache.max-disk-ratio";
    let ratio = reader.double(ratio_key)?;
    if ratio <= 0.0 || ratio > 1.0 {
        let problem = format!("{ratio} is not a part of the disk");
        return Err(ConfigError::invalid(
            ratio_key,
            problem,
            "set it above 0 and at most 1",
        ));
    }
    check_weights(reader)
}

fn check_weights(reader: &Reader<'_>) -> Result<(), ConfigError> {
    let key = "remote.data.dirs.weights";
    let dirs = server_options::parse_list(reader.text("remote.data.dirs").unwrap_or_default());
    let weights = server_options::parse_list(reader.text(key).unwrap_or_default())
        .iter()
        .map(|weight| server_options::parse_number::<i32>(weight, "an integer"))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|problem| ConfigError::invalid(key, problem, "correct it"))?;
    let weighted = reader
        .required("remote.data.dirs.strategy")
        .eq_ignore_ascii_case("WEIGHTED_ROUND_ROBIN");
    let problem = if (weighted || !weights.is_empty()) && weights.len() != dirs.len() {
        format!(
            "there are {} weights for {} directories",
            weights.len(),
            dirs.len()
        )
    } else if weights.iter().any(|weight| *weight < 0) {
        "a weight is negative".to_owned()
    } else if weighted && weights.iter().all(|weight| *weight == 0) {
        "all weights are 0".to_owned()
    } else {
        return Ok(());
    };
    Err(ConfigError::invalid(
        key,
        problem,
        "give one weight ≥ 0 for each of remote.data.dirs",
    ))
}

fn read_listeners(
    reader: &Reader<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Listener>, ConfigError> {
    let protocols =
        server_options::parse_map(reader.required("security.protocol.map")).map_err(|problem| {
            ConfigError::invalid("security.protocol.map", problem, "write NAME:PROTOCOL,…")
        })?;
    let listeners = listeners::resolve(
        reader.required("bind.listeners"),
        reader.text("advertised.listeners"),
        &protocols,
        reader.required("internal.listener.name"),
    )
    .map_err(|error| {
        let advice = match error.key {
            "security.protocol.map" => "write NAME:PLAINTEXT or NAME:SASL",
            _ => "write NAME://host:port,NAME://host:port",
        };
        ConfigError::invalid(error.key, error.problem, advice)
    })?;
    let names = || listeners.iter().map(|listener| listener.name.as_str());
    for name in protocols
        .keys()
        .filter(|name| !names().any(|known| known == *name))
    {
        let guess = match crate::nearest::nearest(name, names()) {
            Some(near) => format!(", did you mean {near}?"),
            None => String::new(),
        };
        notices.push(Notice::warning(format!(
            "security.protocol.map: there is no listener {name}{guess}"
        )));
    }
    for listener in &listeners {
        if listener.advertised.is_none() && listener.bind_address().is_unspecified() {
            notices.push(Notice::warning(format!(
                "listener {} tells clients to connect to {}; set advertised.listeners",
                listener.name, listener.host
            )));
        }
    }
    Ok(listeners)
}

fn read_side_port(reader: &Reader<'_>, key: &str) -> Result<SidePort, ConfigError> {
    let text = reader.required(key).trim();
    let address = if text.is_empty() || text.eq_ignore_ascii_case("off") {
        None
    } else {
        let address = HostPort::parse(text).map_err(|problem| {
            ConfigError::invalid(
                key,
                problem,
                "write host:port, or leave the value empty for off",
            )
        })?;
        Some(address)
    };
    Ok(SidePort {
        address,
        is_default: reader.entries.get(key).is_none(),
    })
}

fn read_data_dir(reader: &Reader<'_>, notices: &mut Vec<Notice>) -> Result<PathBuf, ConfigError> {
    let several = server_options::parse_list(reader.text("data.dirs").unwrap_or_default());
    if several.len() > 1 {
        notices.push(Notice::warning(format!(
            "data.dirs: Mainstem keeps all data in one directory, {}; the others are not used",
            several[0]
        )));
    }
    let (key, dir) = match several.first() {
        Some(first) => ("data.dirs", first.as_str()),
        None => ("data.dir", reader.required("data.dir")),
    };
    let dir = dir.strip_prefix("file://").unwrap_or(dir);
    if dir.is_empty() || dir.contains("://") {
        let problem = format!("'{dir}' is not a local directory");
        return Err(ConfigError::invalid(key, problem, "set it to a path"));
    }
    Ok(PathBuf::from(dir))
}

fn read_remote_data_dir(reader: &Reader<'_>, data_dir: &Path) -> Result<String, ConfigError> {
    if let Some(dir) = reader.text("remote.data.dir") {
        if dir.trim().is_empty() {
            return Err(ConfigError::invalid(
                "remote.data.dir",
                "it is empty",
                "set it to a path or URI, or leave it out",
            ));
        }
        return Ok(dir.to_owned());
    }
    let several = server_options::parse_list(reader.text("remote.data.dirs").unwrap_or_default());
    Ok(match several.into_iter().next() {
        Some(first) => first,
        None => data_dir.join("remote").display().to_string(),
    })
}

fn read_tables(reader: &Reader<'_>) -> Result<TableLimits, ConfigError> {
    let limits = TableLimits {
        default_bucket_count: reader.int("default.bucket.number", 1)?,
        default_replication_factor: reader.int("default.replication.factor", 1)?,
        max_partitions: reader.int("max.partition.num", 0)?,
        max_buckets: reader.int("max.bucket.num", 1)?,
        allow_log_tables: reader.bool("allow.create.log.tables")?,
        allow_primary_key_tables: reader.bool("allow.create.kv.tables")?,
    };
    if limits.default_bucket_count > limits.max_buckets {
        return Err(ConfigError::invalid(
            "default.bucket.number",
            format!(
                "{} is more than the {} of max.bucket.num",
                limits.default_bucket_count, limits.max_buckets
            ),
            "lower it or raise max.bucket.num",
        ));
    }
    Ok(limits)
}

fn read_log(reader: &Reader<'_>) -> Result<LogConfig, ConfigError> {
    const MOST: u64 = i32::MAX as u64;
    // The casts are exact: the bounds are those of the types.
    let size = |key, least| reader.memory(key, least, MOST).map(|bytes| bytes as u32);
    Ok(LogConfig {
        segment_bytes: size("log.segment.file-size", 1)?,
        index_bytes: size("log.index.file-size", 1)?,
        index_interval_bytes: size("log.index.interval-size", 0)?,
        recovery_point_interval: reader.period("log.flush.offset.checkpoint-interval")?,
        retention_check_interval: reader.period("log.retention.check-interval")?,
        retention_bytes: Some(reader.memory("mainstem.log.retention.bytes", 0, i64::MAX as u64)?)
            .filter(|bytes| *bytes > 0),
        retention_rolls_active_segment: reader.bool("log.retention.roll-active-segment.enabled")?,
        min_in_sync_replicas: reader.int("log.replica.min-in-sync-replicas-number", 0)?,
    })
}

fn read_net(reader: &Reader<'_>) -> Result<NetConfig, ConfigError> {
    // A request smaller than 1 KiB cannot even create a table.
    let max_request = reader.memory("netty.server.max-request-size", 1 << 10, i32::MAX as u64)?;
    let key = "mainstem.net.request-memory";
    let mut memory = reader.memory(key, 0, i64::MAX as u64)?;
    if memory < max_request {
        if reader.entries.get(key).is_some() {
            return Err(ConfigError::invalid(
                key,
                format!("{memory} bytes do not hold one request of {max_request} bytes"),
                "raise it, or lower netty.server.max-request-size",
            ));
        }
        memory = max_request;
    }
    let idle = reader.duration("netty.connection.max-idle-time")?;
    Ok(NetConfig {
        max_request_bytes: max_request as u32,
        max_queued_requests: reader.int("netty.server.max-queued-requests", 1)? as usize,
        request_memory_bytes: memory,
        max_connections: reader.int("mainstem.net.max-connections", 1)? as usize,
        max_idle: (!idle.is_zero()).then_some(idle),
    })
}

fn read_disk(reader: &Reader<'_>) -> Result<DiskConfig, ConfigError> {
    let limit_key = "server.data-disk.write-limit-ratio";
    let recover_key = "server.data-disk.write-recover-ratio";
    let limit = reader.double(limit_key)?;
    let recover = reader.double(recover_key)?;
    if limit <= 0.0 || limit > 1.0 {
        let problem = format!("{limit} is not a part of the disk");
        return Err(ConfigError::invalid(
            limit_key,
            problem,
            "set it above 0 and at most 1",
        ));
    }
    if recover <= 0.0 || recover >= limit {
        let problem = format!("{recover} is not between 0 and the {limit} of {limit_key}");
        return Err(ConfigError::invalid(
            recover_key,
            problem,
            "set it between the two",
        ));
    }
    Ok(DiskConfig {
        write_limit_ratio: limit,
        write_recover_ratio: recover,
        check_interval: reader.period("server.data-disk.check-interval")?,
    })
}

fn read_lake(reader: &Reader<'_>, notices: &mut Vec<Notice>) -> Result<LakeConfig, ConfigError> {
    let format = reader.text("datalake.format").map(str::to_ascii_lowercase);
    let enabled = match reader.text("datalake.enabled") {
        None => format.is_some(),
        Some(_) => reader.bool("datalake.enabled")?,
    };
    if enabled && format.is_none() {
        return Err(ConfigError::invalid(
            "datalake.enabled",
            "it is true without a format",
            "set datalake.format",
        ));
    }
    let mut options = BTreeMap::new();
    if let Some(format) = &format {
        let prefix = format!("{}{format}.", server_options::LAKE_PREFIX);
        for (key, value) in reader.entries.iter() {
            if let Some(option) = key.strip_prefix(&prefix) {
                options.insert(option.to_owned(), value.to_owned());
            } else if key.starts_with(server_options::LAKE_PREFIX)
                && server_options::find(key).is_none()
            {
                notices.push(Notice::warning(format!(
                    "{key} has no effect: datalake.format is {format}"
                )));
            }
        }
    }
    Ok(LakeConfig {
        enabled,
        format,
        options,
    })
}

#[cfg(test)]
mod tests;
