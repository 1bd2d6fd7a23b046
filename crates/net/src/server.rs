//! A server: listeners, the connections they accept, and the end of both.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstem_protocol::frame::{DEFAULT_MAX_REQUEST_BYTES, encode_server_failure};
use mainstem_types::ErrorCode;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::admission::AdmissionControl;
use crate::connection::{Origin, Shared, serve};
use crate::frame_memory::FrameMemory;
use crate::handshake::{ApiTable, SecurityProtocol};
use crate::outbound::{FileSender, SendMethod};
use crate::sasl::{Credentials, PasswordMap};
use crate::stats::{RequestObserver, ServerStats, count};
use crate::{NetError, Service};

/// Waiting connections per listener.
const BACKLOG: i32 = 1024;
/// After an accept error, which usually means that descriptors are short.
const ACCEPT_BACKOFF_MIN: Duration = Duration::from_millis(10);
const ACCEPT_BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A peer that vanished is noticed after about ten minutes at the latest.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// How often memory kept for reuse is looked through.
const TRIM_PERIOD: Duration = Duration::from_secs(10);
/// Frame memory kept for reuse.
const RETAINED_FRAME_BYTES: usize = 32 * 1024 * 1024;
/// Reads of cold file ranges at the same time: what a disk takes at once.
const COLD_READS: usize = 16;

/// Numbers of connections are unique in the process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// A port to open.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Name, as in `bind.listeners`.
    pub name: String,
    /// Address; port 0 takes a free one.
    pub address: SocketAddr,
    /// How peers prove who they are.
    pub protocol: SecurityProtocol,
    /// Whether it is for traffic between servers.
    pub internal: bool,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Largest frame with its length field (`netty.server.max-request-size`).
    pub max_request_bytes: u64,
    /// Requests taken off a socket that the service has not taken yet, of all
    /// connections (`netty.server.max-queued-requests`).
    pub max_queued_requests: usize,
    /// A connection without any byte for so long is closed
    /// (`netty.connection.max-idle-time`).
    pub max_idle: Duration,
    /// Connections open at the same time; more are told so and closed.
    pub max_connections: usize,
    /// Requests without an answer that one connection may have.
    pub max_in_flight_per_connection: usize,
    /// The same of all connections.
    pub max_in_flight: usize,
    /// Memory for request frames alive; exceeded by one frame at most.
    pub request_memory_bytes: u64,
    /// Memory for responses that peers have not taken yet.
    pub response_memory_bytes: u64,
    /// How file ranges are sent.
    pub send_method: SendMethod,
    /// Whether a port may be opened while connections of an earlier process
    /// linger (SO_REUSEADDR).
    pub reuse_address: bool,
    /// How long requests in flight may take when the server stops.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            max_request_bytes: DEFAULT_MAX_REQUEST_BYTES,
            max_queued_requests: 500,
            max_idle: Duration::from_secs(600),
            max_connections: 10_000,
            max_in_flight_per_connection: 1024,
            max_in_flight: 65_536,
            request_memory_bytes: 256 * 1024 * 1024,
            response_memory_bytes: 256 * 1024 * 1024,
            send_method: SendMethod::default(),
            reuse_address: true,
            drain_timeout: Duration::from_secs(5),
        }
    }
}

/// Ports that are open; nobody answers yet. Clients can already connect, and
/// wait.
pub struct BoundServer {
    listeners: Vec<(Listener, TcpListener)>,
    options: ServerOptions,
    credentials: Arc<dyn Credentials>,
    observer: Option<Arc<dyn RequestObserver>>,
    stats: Arc<ServerStats>,
}

impl BoundServer {
    /// Opens all ports, or none. Must be called on a runtime.
    ///
    /// # Errors
    ///
    /// [`NetError::Bind`] for the first port that cannot be opened.
    pub fn bind(listeners: Vec<Listener>, options: ServerOptions) -> Result<Self, NetError> {
        let listeners = listeners
            .into_iter()
            .map(
                |listener| match open(listener.address, options.reuse_address) {
                    Ok(socket) => Ok((listener, socket)),
                    Err(source) => Err(NetError::Bind {
                        listener: listener.name,
                        address: listener.address,
                        source,
                    }),
                },
            )
            .collect::<Result<_, _>>()?;
        let memory = FrameMemory::new(options.request_memory_bytes, RETAINED_FRAME_BYTES);
        let admission = AdmissionControl::new(
            options.max_queued_requests,
            options.max_in_flight_per_connection,
            options.max_in_flight,
            options.response_memory_bytes,
        );
        Ok(BoundServer {
            listeners,
            options,
            credentials: Arc::new(PasswordMap::default()),
            observer: None,
            stats: Arc::new(ServerStats::new(memory, admission)),
        })
    }

    /// Who may log in at listeners with SASL; without this, nobody.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// Who is told about every request.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn RequestObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Name and real address of every listener, in the order given.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.listeners
            .iter()
            .map(|(listener, socket)| {
                let address = socket.local_addr().unwrap_or(listener.address);
                (listener.name.clone(), address)
            })
            .collect()
    }

    /// Counts for metrics; they go on counting while it serves.
    pub fn stats(&self) -> Arc<ServerStats> {
        Arc::clone(&self.stats)
    }

    /// Serves until `shutdown` is cancelled. Then it accepts nothing more, reads
    /// no more requests, answers those in flight, and returns when all
    /// connections are closed, after [`ServerOptions::drain_timeout`] at the
    /// latest.
    pub async fn serve(self, service: Arc<dyn Service>, shutdown: CancellationToken) {
        let options = &self.options;
        let shared = Arc::new(Shared {
            apis: Arc::new(ApiTable::new(service.apis())),
            service,
            credentials: self.credentials,
            files: FileSender::new(options.send_method, COLD_READS),
            stats: self.stats,
            observer: self.observer,
            max_request_bytes: options.max_request_bytes,
            max_idle: options.max_idle,
            stop: shutdown.clone(),
            kill: CancellationToken::new(),
        });
        let connections = TaskTracker::new();
        let mut accepting = JoinSet::new();
        for (listener, socket) in self.listeners {
            let acceptor = Acceptor {
                listener,
                socket,
                shared: Arc::clone(&shared),
                connections: connections.clone(),
                max_connections: options.max_connections.max(1) as u64,
            };
            accepting.spawn(acceptor.run());
        }
        let mut trim = tokio::time::interval(TRIM_PERIOD);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = trim.tick() => shared.stats.memory.trim(),
            }
        }
        accepting.join_all().await;
        connections.close();
        if tokio::time::timeout(options.drain_timeout, connections.wait())
            .await
            .is_err()
        {
            info!(
                open = connections.len(),
                "closing connections with requests in flight"
            );
            shared.kill.cancel();
            connections.wait().await;
        }
    }
}

/// Opens a port.
fn open(address: SocketAddr, reuse_address: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(reuse_address)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts the connections of one listener.
struct Acceptor {
    listener: Listener,
    socket: TcpListener,
    shared: Arc<Shared>,
    connections: TaskTracker,
    max_connections: u64,
}

impl Acceptor {
    async fn run(self) {
        let mut backoff = ACCEPT_BACKOFF_MIN;
        let stop = self.shared.stop.cancelled();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => return,
                accepted = self.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    backoff = ACCEPT_BACKOFF_MIN;
                    self.start(stream, peer);
                }
                // The peer gave up while it waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(listener = %self.listener.name, "cannot accept connections: {error}");
                    tokio::select! {
                        biased;
                        () = &mut stop => return,
                        () = tokio::time::sleep(backoff) => {}
                    }
                    backoff = (backoff * 2).min(ACCEPT_BACKOFF_MAX);
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr) {
        count(&self.shared.stats.accepted, 1);
        if self.connections.len() as u64 >= self.max_connections {
            count(&self.shared.stats.refused, 1);
            return refuse(&stream);
        }
        // Neither can fail on a connection that is alive; if it is not, reading
        // will tell.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let origin = Origin {
            id: NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed),
            listener: self.listener.name.clone(),
            internal: self.listener.internal,
            protocol: self.listener.protocol,
            peer,
        };
        self.connections
            .spawn(serve(stream, origin, Arc::clone(&self.shared)));
    }
}

/// Tells a peer that there are too many connections; it may come back.
fn refuse(stream: &TcpStream) {
    let code = ErrorCode::NetworkException.code();
    let frame = encode_server_failure(code, "too many connections");
    // The send buffer of a new connection takes it; if not, closing says enough.
    let _ = SockRef::from(stream).send(&frame);
}
