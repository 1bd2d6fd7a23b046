//! A connection to a server.
//!
//! One task owns the socket. Calls of any number of tasks are sent in the order
//! in which they are made and answered in any order; nothing is retried. When
//! the connection is lost, every call in flight fails, and every later one.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use mainstem_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, AuthenticateRequest, AuthenticateResponse,
};
use mainstem_protocol::{ApiKey, Required, Shaped, VersionRange, decode};
use prost::Message;
use socket2::{SockRef, TcpKeepalive};
use std::net::SocketAddr;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::NetError;
use crate::sasl::{PLAIN, encode_plain};

mod task;

use task::{Outgoing, Task};

/// Calls that wait for the task of the connection.
const WAITING_CALLS: usize = 256;
const KEEPALIVE: Duration = Duration::from_secs(60);

/// User and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Given to the server by SASL/PLAIN; `None` for a plaintext listener.
    pub login: Option<Login>,
    /// For the connection with ApiVersions and login.
    pub connect_timeout: Duration,
    /// For each call, unless it says otherwise.
    pub request_timeout: Duration,
    /// Largest response accepted, with its length field.
    pub max_response_bytes: u64,
    /// Tells the server who calls.
    pub software_name: String,
    /// Tells the server who calls.
    pub software_version: String,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            login: None,
            connect_timeout: Duration::from_secs(15),
            request_timeout: Duration::from_secs(30),
            max_response_bytes: i32::MAX as u64,
            software_name: "mainstem".to_owned(),
            software_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A connection that has passed ApiVersions and, if asked for, the login. It is
/// closed when the last clone and the last [`PendingResponse`] are dropped.
#[derive(Clone)]
pub struct Connection {
    calls: mpsc::Sender<Outgoing>,
    peer: SocketAddr,
    request_timeout: Duration,
    end: Arc<OnceLock<String>>,
    server: Arc<ServerDescription>,
}

/// What ApiVersions told.
#[derive(Debug, Default)]
struct ServerDescription {
    versions: HashMap<i16, VersionRange>,
    server_type: Option<i32>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to `host:port`, asks for the APIs, and logs in.
    ///
    /// # Errors
    ///
    /// [`NetError::Connect`] and [`NetError::Timeout`] if there is no
    /// connection, [`NetError::Api`] with code 46 if the login is refused.
    pub async fn connect(
        address: impl ToSocketAddrs + Display,
        options: ClientOptions,
    ) -> Result<Connection, NetError> {
        let limit = options.connect_timeout;
        match timeout(limit, Self::open(address, options)).await {
            Ok(result) => result,
            Err(_) => Err(NetError::Timeout {
                millis: limit.as_millis(),
            }),
        }
    }

    async fn open(
        address: impl ToSocketAddrs + Display,
        options: ClientOptions,
    ) -> Result<Connection, NetError> {
        let failed = |source| NetError::Connect {
            address: address.to_string(),
            source,
        };
        let stream = TcpStream::connect(&address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        SockRef::from(&stream)
            .set_tcp_keepalive(&keepalive)
            .map_err(failed)?;
        let peer = stream.peer_addr().map_err(failed)?;
        let (calls, waiting) = mpsc::channel(WAITING_CALLS);
        let end = Arc::new(OnceLock::new());
        let task = Task::new(
            stream,
            waiting,
            options.max_response_bytes,
            Arc::clone(&end),
        );
        tokio::spawn(task.run());
        let mut connection = Connection {
            calls,
            peer,
            request_timeout: options.request_timeout,
            end,
            server: Arc::default(),
        };
        connection.introduce(&options).await?;
        Ok(connection)
    }

    async fn introduce(&mut self, options: &ClientOptions) -> Result<(), NetError> {
        let request = ApiVersionsRequest {
            client_software_name: Some(options.software_name.clone()),
            client_software_version: Some(options.software_version.clone()),
        };
        let answer: ApiVersionsResponse = self
            .exchange(ApiKey::ApiVersions, 0, &request, self.request_timeout)
            .await?;
        let narrow = |value: Option<i32>| value.and_then(|value| i16::try_from(value).ok());
        let versions = answer
            .api_versions
            .iter()
            .filter_map(|api| {
                let (min, max) = (narrow(api.min_version)?, narrow(api.max_version)?);
                Some((narrow(api.api_key)?, VersionRange { min, max }))
            })
            .collect();
        self.server = Arc::new(ServerDescription {
            versions,
            server_type: answer.server_type,
        });
        if let Some(Login { user, password }) = &options.login {
            let request = AuthenticateRequest {
                protocol: Some(PLAIN.to_owned()),
                token: Some(Bytes::from(encode_plain(user, password))),
            };
            // A present but empty challenge of other servers means nothing here:
            // PLAIN is over after one message.
            let _: AuthenticateResponse = self
                .exchange(ApiKey::Authenticate, 0, &request, self.request_timeout)
                .await?;
        }
        Ok(())
    }

    /// Address of the server.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// 1 for a coordinator, 2 for a tablet server, `None` for one that is both.
    pub fn server_type(&self) -> Option<i32> {
        self.server.server_type
    }

    /// The highest version of an API that both sides have.
    pub fn version(&self, api: ApiKey, ours: VersionRange) -> Option<i16> {
        let theirs = self.server.versions.get(&api.code())?;
        let version = theirs.max.min(ours.max);
        (version >= theirs.min.max(ours.min)).then_some(version)
    }

    /// Whether the connection is lost.
    pub fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    /// Waits until the connection is lost.
    pub async fn closed(&self) {
        self.calls.closed().await;
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    ///
    /// [`NetError::UnsupportedVersion`] without sending anything if the server
    /// does not offer it; [`NetError::Api`] if it answers so;
    /// [`NetError::Disconnected`], [`NetError::Timeout`];
    /// [`NetError::Decode`] if the response is not one.
    pub async fn call<Req, Resp>(
        &self,
        api: ApiKey,
        version: i16,
        request: &Req,
    ) -> Result<Resp, NetError>
    where
        Req: Message,
        Resp: Message + Default + Required + Shaped,
    {
        self.call_within(api, version, request, self.request_timeout)
            .await
    }

    /// [`Connection::call`] with a time limit of its own, for requests that the
    /// server may hold back.
    ///
    /// # Errors
    ///
    /// As [`Connection::call`].
    pub async fn call_within<Req, Resp>(
        &self,
        api: ApiKey,
        version: i16,
        request: &Req,
        limit: Duration,
    ) -> Result<Resp, NetError>
    where
        Req: Message,
        Resp: Message + Default + Required + Shaped,
    {
        self.check_version(api, version)?;
        self.exchange(api, version, request, limit).await
    }

    /// Sends an encoded request, in parts that are not copied, and waits for the
    /// encoded response.
    ///
    /// # Errors
    ///
    /// As [`Connection::call`].
    pub async fn call_raw(
        &self,
        api: ApiKey,
        version: i16,
        body: Vec<Bytes>,
        limit: Duration,
    ) -> Result<Bytes, NetError> {
        self.check_version(api, version)?;
        self.send(api.code(), version, body, limit)
            .await?
            .response()
            .await
    }

    /// Sends an encoded request as it is, whether the server offers it or not.
    /// Requests are sent in the order in which this returns. It waits while too
    /// many are under way.
    ///
    /// # Errors
    ///
    /// [`NetError::Disconnected`], [`NetError::Timeout`].
    pub async fn send(
        &self,
        api_key: i16,
        api_version: i16,
        body: Vec<Bytes>,
        limit: Duration,
    ) -> Result<PendingResponse, NetError> {
        let deadline = Instant::now() + limit;
        let (answer, response) = oneshot::channel();
        let outgoing = Outgoing {
            api_key,
            api_version,
            body,
            answer,
        };
        match timeout_at(deadline, self.calls.send(outgoing)).await {
            Ok(Ok(())) => {
                let connection = self.clone();
                Ok(PendingResponse {
                    connection,
                    response,
                    deadline,
                    limit,
                })
            }
            Ok(Err(_)) => Err(self.disconnected()),
            Err(_) => Err(NetError::Timeout {
                millis: limit.as_millis(),
            }),
        }
    }

    async fn exchange<Req, Resp>(
        &self,
        api: ApiKey,
        version: i16,
        request: &Req,
        limit: Duration,
    ) -> Result<Resp, NetError>
    where
        Req: Message,
        Resp: Message + Default + Required + Shaped,
    {
        let body = vec![Bytes::from(request.encode_to_vec())];
        let response = self
            .send(api.code(), version, body, limit)
            .await?
            .response()
            .await?;
        Ok(decode(response)?)
    }

    fn check_version(&self, api: ApiKey, api_version: i16) -> Result<(), NetError> {
        let api_key = api.code();
        match self.server.versions.get(&api_key) {
            Some(range) if range.contains(api_version) => Ok(()),
            _ => Err(NetError::UnsupportedVersion {
                api_key,
                api_version,
            }),
        }
    }

    fn disconnected(&self) -> NetError {
        let reason = self.end.get().map_or("closed", String::as_str);
        NetError::Disconnected(reason.to_owned())
    }
}

/// A request that has been sent. Dropped, its response is ignored.
#[derive(Debug)]
pub struct PendingResponse {
    /// Keeps the connection open.
    connection: Connection,
    response: oneshot::Receiver<Result<Bytes, NetError>>,
    deadline: Instant,
    limit: Duration,
}

impl PendingResponse {
    /// Waits for the encoded response.
    ///
    /// # Errors
    ///
    /// [`NetError::Api`], [`NetError::Disconnected`], [`NetError::Timeout`].
    pub async fn response(self) -> Result<Bytes, NetError> {
        match timeout_at(self.deadline, self.response).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.connection.disconnected()),
            Err(_) => Err(NetError::Timeout {
                millis: self.limit.as_millis(),
            }),
        }
    }
}
