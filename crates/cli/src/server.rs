//! A server with every role in one process, put together.

mod background;
mod data_dir;
mod live_settings;
mod metrics;
mod router;

use std::future::Future;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mainstem_console::Console;
use mainstem_coordinator::{Coordinator, CoordinatorConfig, ServerNode};
use mainstem_env::{Clock, RealFileSystem, SystemClock};
use mainstem_kv::{KvEngine, KvError, KvResources, RecentBudget};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};
use mainstem_log::{LogConfig, LogResources};
use mainstem_meta::{Catalog, EmbeddedStore, MetaStore};
use mainstem_metrics::TICK_SECONDS;
use mainstem_net::{BoundServer, ServerOptions};
use mainstem_tablet::disk_guard::DiskGuard;
use mainstem_tablet::metrics::TabletMetrics;
use mainstem_tablet::registry::{Replicas, ReplicasConfig, RowsConfig};
use mainstem_tablet::service::{ScanLimits, TabletService};
use mainstem_types::ServerId;
use mainstem_types::config::{Durability, ServerConfig};
use mainstem_types::listeners::{Endpoint, HostPort, Protocol};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::background::Background;
use self::data_dir::DataDir;
use self::live_settings::{ListenerUsers, LiveSettings};
use self::metrics::{RequestsByKind, ServerMetrics};
use self::router::Router;

/// Id of the tablet server of a single process.
const SERVER_ID: ServerId = ServerId(0);
/// Rows that nobody has used for so long are closed.
const ROWS_IDLE_MS: i64 = 60_000;
/// Open files that a server with thousands of buckets needs.
const WANTED_OPEN_FILES: u64 = 65_536;

/// A running server.
pub struct Server {
    config: ServerConfig,
    started: Instant,
    replicas: Arc<Replicas>,
    console: Arc<Console>,
    addresses: Vec<(String, SocketAddr)>,
    http: Option<SocketAddr>,
    buckets: usize,
    shutdown: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    background: Background,
    _data_dir: Arc<DataDir>,
}

impl Server {
    /// Takes the ports, opens everything, and serves.
    ///
    /// # Errors
    /// One sentence that says what is wrong and what to do.
    pub async fn start(config: ServerConfig) -> Result<Self> {
        let started = Instant::now();
        raise_open_files();
        let requests = Arc::new(RequestsByKind::default());
        let users = Arc::new(ListenerUsers::new(config.users.clone()));
        let bound = bind(&config)?
            .with_credentials(users.clone())
            .with_observer(requests.clone());
        let http = bind_http(&config).await?;
        let addresses = bound.addresses();
        let data_dir = Arc::new(DataDir::open(&config.data_dir)?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (coordinator, replicas) = {
            let (config, clock, data_dir) = (config.clone(), clock.clone(), data_dir.clone());
            tokio::task::spawn_blocking(move || open(&config, &clock, &data_dir))
                .await
                .context("the start ended early")??
        };
        let metrics = TabletMetrics::new(replicas.clone());
        replicas.set_metrics(metrics.clone());
        let buckets = replicas.open_all(coordinator.next_ids()).with_context(|| {
            let metadata = data_dir.metadata();
            format!("cannot open the tables of {}", metadata.display())
        })?;
        coordinator.subscribe_config(Arc::new(LiveSettings::new(users, replicas.clone())));
        register(&coordinator, &config, &addresses)?;

        let tablet = TabletService::new(
            replicas.clone(),
            clock.clone(),
            metrics.clone(),
            scan_limits(&config),
        );
        let scans = tablet.clone();
        let router = Arc::new(Router::new(coordinator.clone(), tablet));
        let shutdown = CancellationToken::new();
        let console = Arc::new(Console::default());
        let catalog = coordinator.catalog().clone();
        console.add_source(Arc::new(ServerMetrics::new(catalog, bound.stats())));
        console.add_source(requests.clone());
        console.add_source(metrics.clone());
        let mut tasks = Vec::new();
        let http = serve_http(http, &console, &shutdown, &mut tasks)?;
        let background = Background::start(
            &config,
            coordinator,
            replicas.clone(),
            vec![
                (
                    Duration::from_secs(TICK_SECONDS),
                    Box::new(move || {
                        metrics.tick();
                        requests.tick();
                    }),
                ),
                (
                    config.kv.scan_check_interval,
                    Box::new(move || scans.close_expired_scans()),
                ),
            ],
            clock,
            data_dir.clone(),
            shutdown.clone(),
        );
        tasks.push(tokio::spawn(bound.serve(router, shutdown.clone())));
        console.set_ready(true);
        info!(buckets, millis = started.elapsed().as_millis(), "ready");
        Ok(Self {
            config,
            started,
            replicas,
            console,
            addresses,
            http,
            buckets,
            shutdown,
            tasks,
            background,
            _data_dir: data_dir,
        })
    }

    /// What a person wants to know after the start.
    pub fn greeting(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "mainstem {} is ready after {} ms, {} buckets, data in {}",
            env!("CARGO_PKG_VERSION"),
            self.started.elapsed().as_millis(),
            self.buckets,
            self.config.data_dir.display()
        )];
        for (listener, address) in &self.addresses {
            lines.push(format!("  clients   {address}  (listener {listener})"));
        }
        if let Some(address) = self.http {
            lines.push(format!("  metrics   http://{address}/metrics"));
        }
        if self.config.durability == Durability::Os {
            lines.push(
                "  durability is 'os': an acknowledged row survives kill -9, not a power cut"
                    .to_owned(),
            );
        }
        lines
    }

    /// Serves until the future is ready, then stops in an orderly way.
    pub async fn run_until(mut self, signal: impl Future<Output = &'static str>) -> Result<()> {
        let cause = signal.await;
        let stopping = Instant::now();
        info!(cause, "stopping");
        self.console.set_ready(false);
        self.shutdown.cancel();
        for task in self.tasks.drain(..) {
            // A task that panicked has said so.
            let _ = task.await;
        }
        self.background.stop().await;
        let replicas = self.replicas.clone();
        tokio::task::spawn_blocking(move || replicas.close_all()).await?;
        info!(millis = stopping.elapsed().as_millis(), "stopped");
        Ok(())
    }
}

fn bind(config: &ServerConfig) -> Result<BoundServer> {
    let mut listeners = Vec::new();
    for listener in &config.listeners {
        listeners.push(mainstem_net::Listener {
            name: listener.name.clone(),
            address: resolve(&listener.bind_address())
                .with_context(|| format!("bind.listeners: listener {}", listener.name))?,
            protocol: match listener.protocol {
                Protocol::Plaintext => mainstem_net::SecurityProtocol::Plaintext,
                Protocol::Sasl => mainstem_net::SecurityProtocol::Sasl,
            },
            internal: listener.internal,
        });
    }
    let options = ServerOptions {
        max_request_bytes: config.net.max_request_bytes.into(),
        max_queued_requests: config.net.max_queued_requests,
        max_connections: config.net.max_connections,
        request_memory_bytes: config.net.request_memory_bytes,
        max_idle: config.net.max_idle.unwrap_or(std::time::Duration::MAX),
        ..ServerOptions::default()
    };
    let bound = BoundServer::bind(listeners, options)
        .context("another program may hold the port; choose another with -D bind.listeners=…")?;
    Ok(bound)
}

fn resolve(address: &HostPort) -> Result<SocketAddr> {
    use std::net::ToSocketAddrs;
    let mut found = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve {}", address.host))?;
    found
        .next()
        .with_context(|| format!("{} has no address", address.host))
}

/// The durable parts. Blocks.
fn open(
    config: &ServerConfig,
    clock: &Arc<dyn Clock>,
    data_dir: &DataDir,
) -> Result<(Arc<Coordinator>, Arc<Replicas>)> {
    let durable = config.durability == Durability::Fsync;
    let engine = rocks_engine(config, data_dir)?;
    let path = data_dir.metadata();
    // Whatever is promised of rows: without their tables they cannot be told from what
    // dropped ones left.
    let store = EmbeddedStore::open(&path)
        .with_context(|| format!("cannot open the metadata store {}", path.display()))?;
    let store: Arc<dyn MetaStore> = Arc::new(store);
    let catalog = Arc::new(Catalog::new());
    let tables = &config.tables;
    let coordinator_config = CoordinatorConfig {
        default_bucket_number: tables.default_bucket_count,
        default_replication_factor: tables.default_replication_factor,
        max_bucket_num: tables.max_buckets,
        max_partition_num: tables.max_partitions,
        allow_create_log_tables: tables.allow_log_tables,
        allow_create_kv_tables: tables.allow_primary_key_tables,
        remote_data_dir: Some(config.remote_data_dir.clone()),
        producer_offsets_ttl_ms: millis(config.producer_offsets_ttl),
        server_configs: config
            .entries
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        hidden_configs: config.entries.hidden().map(str::to_owned).collect(),
    };
    let coordinator = Coordinator::new(store, catalog.clone(), coordinator_config, clock.clone())
        .context("cannot read the metadata store")?;

    let coordinator = Arc::new(coordinator);
    let files = Arc::new(RealFileSystem);
    let log = LogConfig {
        durability: if durable {
            mainstem_log::Durability::Fsync
        } else {
            mainstem_log::Durability::Os
        },
        segment_bytes: config.log.segment_bytes.into(),
        index_interval_bytes: config.log.index_interval_bytes,
        writer_expiration_ms: millis(config.writers.expiration),
        checkpoint_max_interval_ms: millis(config.log.recovery_point_interval),
        ..LogConfig::default()
    };
    let replicas = Replicas::new(ReplicasConfig {
        server_id: SERVER_ID,
        resources: LogResources::new(files.clone(), data_dir.log(), 4_096),
        log_dir: data_dir.log(),
        log,
        catalog: catalog.clone(),
        clock: clock.clone(),
        disk: Arc::new(DiskGuard::new(
            config.disk.write_limit_ratio,
            config.disk.write_recover_ratio,
        )),
        min_in_sync_replicas: usize::try_from(config.log.min_in_sync_replicas).unwrap_or(0),
        rows: RowsConfig {
            resources: Arc::new(KvResources {
                engine: Arc::new(engine),
                files,
                recent: Arc::new(RecentBudget::new(
                    usize::try_from(config.kv.recent_rows_bytes).unwrap_or(usize::MAX),
                )),
                pressure_from_level0_files: u64::try_from(config.kv.pressure_from_level0_files)
                    .unwrap_or(0),
                volatile_boot: (!durable).then(present_boot),
            }),
            dir: data_dir.kv(),
            numbers: coordinator.clone(),
            flush_interval_ms: millis(config.kv.snapshot_interval),
            idle_ms: ROWS_IDLE_MS,
        },
    });
    catalog.subscribe(replicas.clone());
    Ok((coordinator, replicas))
}

/// A number of the machine's present boot, not 0. Where the system does not tell, every
/// start counts as one: rows are then built anew after each that was not orderly.
fn present_boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_else(|_| format!("{:?}", std::time::SystemTime::now()));
    let mut hasher = std::hash::DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish() | 1
}

fn rocks_engine(config: &ServerConfig, data_dir: &DataDir) -> Result<RocksEngine> {
    let option = |key: &str| config.entries.get(key).map(str::to_owned);
    let rocks = RocksConfig::from_options(option)?;
    let engine =
        RocksEngine::new(rocks).context("cannot start the engine of primary-key tables")?;
    // Some values RocksDB refuses only when it opens a store with them. That must not
    // look as if all stores were damaged.
    let is_set = |(key, _): (&str, &str)| key.starts_with("kv.rocksdb.");
    if config.entries.iter().any(is_set) {
        let probe = data_dir.kv().join("probe");
        let destroyed = engine.destroy(&probe);
        let opened = destroyed.and_then(|()| engine.open(&probe).map(drop));
        if let Err(error) = engine.destroy(&probe) {
            warn!(%error, "cannot remove a store that was opened to try its options");
        }
        match opened {
            Ok(()) => {}
            Err(KvError::Damaged(reason)) => {
                bail!("RocksDB does not start with these values of kv.rocksdb.*: {reason}");
            }
            // The disk, on which there may be much to read all the same.
            Err(error) => warn!(%error, "the values of kv.rocksdb.* could not be tried out"),
        }
    }
    Ok(engine)
}

fn scan_limits(config: &ServerConfig) -> ScanLimits {
    let count = |number: i32| usize::try_from(number).unwrap_or(1);
    ScanLimits {
        ttl_ms: millis(config.kv.scan_ttl),
        max_per_bucket: count(config.kv.scans_per_bucket),
        max_per_server: count(config.kv.scans_per_server),
        max_batch_bytes: usize::try_from(config.kv.scan_batch_bytes).unwrap_or(usize::MAX),
    }
}

fn register(
    coordinator: &Coordinator,
    config: &ServerConfig,
    addresses: &[(String, SocketAddr)],
) -> Result<()> {
    let endpoints: Vec<Endpoint> = config
        .listeners
        .iter()
        .zip(addresses)
        .map(|(listener, (_, address))| Endpoint {
            name: listener.name.clone(),
            address: listener.advertised_address(address.port()),
        })
        .collect();
    coordinator.set_coordinator_endpoints(endpoints.clone());
    let node = ServerNode {
        id: SERVER_ID,
        rack: config.rack.clone(),
        endpoints,
    };
    if let Err(error) = coordinator.register(node) {
        bail!("cannot register the tablet server: {}", error.message);
    }
    Ok(())
}

async fn bind_http(config: &ServerConfig) -> Result<Option<TcpListener>> {
    let Some(address) = &config.http.address else {
        return Ok(None);
    };
    match TcpListener::bind((address.host.as_str(), address.port)).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if config.http.is_default => {
            warn!("no HTTP: {address} cannot be opened ({error}); set mainstem.http.listen");
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot open mainstem.http.listen {address}; choose another port")
        }),
    }
}

fn serve_http(
    listener: Option<TcpListener>,
    console: &Arc<Console>,
    shutdown: &CancellationToken,
    tasks: &mut Vec<JoinHandle<()>>,
) -> Result<Option<SocketAddr>> {
    let Some(listener) = listener else {
        return Ok(None);
    };
    let address = listener.local_addr()?;
    let serving = mainstem_console::serve(listener, console.clone(), shutdown.clone());
    tasks.push(tokio::spawn(async move {
        if let Err(error) = serving.await {
            warn!("HTTP has ended: {error}");
        }
    }));
    Ok(Some(address))
}

/// Thousands of buckets need more than the usual soft limit of 1,024.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(WANTED_OPEN_FILES, |hard| hard.min(WANTED_OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        // With the lower limit the server works, with fewer buckets at once.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            },
        );
    }
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
