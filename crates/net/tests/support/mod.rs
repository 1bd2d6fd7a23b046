//! A small service on a real server, and a client that sends any bytes.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use mainstem_net::{
    BoundServer, Listener, PasswordMap, Reply, Request, RequestObserver, RequestOutcome, Response,
    SecurityProtocol, Segment, ServerOptions, ServerStats, Service, Session,
};
use mainstem_protocol::messages::{
    ApiVersionsRequest, AuthenticateRequest, DatabaseExistsRequest, DatabaseExistsResponse,
    ListDatabasesRequest, ListDatabasesResponse,
};
use mainstem_protocol::{ApiError, ResponseFrame, decode};
use parking_lot::Mutex;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const API_VERSIONS: i16 = 1000;
/// Answered at once with a message.
pub const LIST_DATABASES: i16 = 1003;
/// Answered at once; its body must have a field.
pub const DATABASE_EXISTS: i16 = 1004;
/// Notes the body in [`TestService::log`] and answers with it at once.
pub const PRODUCE: i16 = 1014;
/// Answered with its body when [`TestService::open_gate`] has been called.
pub const LONG_POLL: i16 = 1015;
/// Answered with [`TestService::set_parts`].
pub const SCAN: i16 = 1033;
/// Panics.
pub const PANIC: i16 = 1059;
/// Panics later.
pub const PANIC_LATER: i16 = 1061;
pub const AUTHENTICATE: i16 = 1038;

/// Fails a test that hangs; nothing here takes a second.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("it hangs")
}

/// Waits until a condition holds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .is_err()
    {
        panic!("never: {what}");
    }
}

pub struct TestService {
    /// Bodies of produce requests, by connection, in the order of calls.
    pub log: Mutex<HashMap<u64, Vec<Bytes>>>,
    pub closed: AtomicUsize,
    pub principals: Mutex<Vec<String>>,
    parts: Mutex<Vec<Segment>>,
    gate: watch::Sender<bool>,
    /// Counts the futures of long polls that are alive.
    pub waiting: Arc<()>,
}

impl Default for TestService {
    fn default() -> Self {
        TestService {
            log: Mutex::default(),
            closed: AtomicUsize::new(0),
            principals: Mutex::default(),
            parts: Mutex::default(),
            gate: watch::channel(false).0,
            waiting: Arc::new(()),
        }
    }
}

impl TestService {
    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub fn set_parts(&self, parts: Vec<Segment>) {
        *self.parts.lock() = parts;
    }

    pub fn waiting_polls(&self) -> usize {
        Arc::strong_count(&self.waiting) - 1
    }
}

fn refuse(error: mainstem_protocol::DecodeError) -> Response {
    ApiError::from(error).into()
}

impl Service for TestService {
    fn apis(&self) -> &[(i16, i16, i16)] {
        &[
            (LIST_DATABASES, 0, 0),
            (DATABASE_EXISTS, 0, 0),
            (PRODUCE, 0, 1),
            (LONG_POLL, 0, 0),
            (SCAN, 0, 0),
            (PANIC, 0, 0),
            (PANIC_LATER, 0, 0),
        ]
    }

    fn call(&self, session: &Arc<Session>, request: Request) -> Reply {
        match request.api_key {
            LIST_DATABASES => Reply::Now(match decode::<ListDatabasesRequest>(request.body) {
                Ok(_) => {
                    self.principals.lock().push(session.principal.clone());
                    Response::message(&ListDatabasesResponse {
                        database_name: vec!["db".into()],
                        ..Default::default()
                    })
                }
                Err(error) => refuse(error),
            }),
            DATABASE_EXISTS => Reply::Now(match decode::<DatabaseExistsRequest>(request.body) {
                Ok(_) => Response::message(&DatabaseExistsResponse { exists: Some(true) }),
                Err(error) => refuse(error),
            }),
            PRODUCE => {
                let note = request.body.slice(..request.body.len().min(16));
                let note = Bytes::copy_from_slice(&note);
                self.log
                    .lock()
                    .entry(session.id)
                    .or_default()
                    .push(note.clone());
                Reply::Now(Response::Success(vec![Segment::Bytes(note)]))
            }
            LONG_POLL => {
                let mut gate = self.gate.subscribe();
                let alive = Arc::clone(&self.waiting);
                Reply::Later(Box::pin(async move {
                    let _alive = alive;
                    gate.wait_for(|open| *open)
                        .await
                        .expect("the service lives");
                    Response::Success(vec![Segment::Bytes(request.body)])
                }))
            }
            SCAN => Reply::Now(Response::Success(self.parts.lock().clone())),
            PANIC => panic!("this panic is part of a test"),
            PANIC_LATER => Reply::Later(Box::pin(async {
                tokio::task::yield_now().await;
                panic!("this panic is part of a test")
            })),
            other => panic!("key {other} is not offered"),
        }
    }

    fn closed(&self, _session: &Arc<Session>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

struct NoObserver;

impl RequestObserver for NoObserver {
    fn on_request(&self, _outcome: &RequestOutcome) {}
}

pub struct TestServer {
    pub service: Arc<TestService>,
    pub stats: Arc<ServerStats>,
    pub plain: SocketAddr,
    pub sasl: SocketAddr,
    pub shutdown: CancellationToken,
    pub task: JoinHandle<()>,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with_options(ServerOptions::default())
    }

    pub fn with_options(options: ServerOptions) -> Self {
        Self::with_observer(options, Arc::new(NoObserver))
    }

    pub fn with_observer(options: ServerOptions, observer: Arc<dyn RequestObserver>) -> Self {
        let listener = |name: &str, protocol| Listener {
            name: name.to_owned(),
            address: "127.0.0.1:0".parse().unwrap(),
            protocol,
            internal: false,
        };
        let listeners = vec![
            listener("PLAIN_LISTENER", SecurityProtocol::Plaintext),
            listener("SASL_LISTENER", SecurityProtocol::Sasl),
        ];
        let users = HashMap::from([
            ("admin".to_owned(), "pw".to_owned()),
            ("alice".to_owned(), "secret".to_owned()),
        ]);
        let server = BoundServer::bind(listeners, options)
            .unwrap()
            .with_credentials(Arc::new(PasswordMap::new(users)))
            .with_observer(observer);
        let addresses = server.addresses();
        assert_eq!(addresses[0].0, "PLAIN_LISTENER");
        let service = Arc::new(TestService::default());
        let shutdown = CancellationToken::new();
        let stats = server.stats();
        let task = tokio::spawn(server.serve(service.clone(), shutdown.clone()));
        TestServer {
            service,
            stats,
            plain: addresses[0].1,
            sasl: addresses[1].1,
            shutdown,
            task,
        }
    }

    pub async fn connect(&self) -> RawClient {
        RawClient::connect(self.plain).await
    }
}

/// A request frame.
pub fn frame(api_key: i16, api_version: i16, request_id: i32, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    out.put_u32(8 + body.len() as u32);
    out.put_i16(api_key);
    out.put_i16(api_version);
    out.put_i32(request_id);
    out.put_slice(body);
    out.to_vec()
}

pub fn api_versions(request_id: i32) -> Vec<u8> {
    let message = ApiVersionsRequest {
        client_software_name: Some("test".into()),
        client_software_version: Some("1".into()),
    };
    frame(API_VERSIONS, 0, request_id, &message.encode_to_vec())
}

pub fn login(request_id: i32, mechanism: &str, token: &[u8]) -> Vec<u8> {
    let message = AuthenticateRequest {
        protocol: Some(mechanism.into()),
        token: Some(Bytes::copy_from_slice(token)),
    };
    frame(AUTHENTICATE, 0, request_id, &message.encode_to_vec())
}

/// What came back.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Success(i32, Bytes),
    Error(i32, i32),
    Failure(i32),
    Closed,
}

pub struct RawClient {
    pub stream: TcpStream,
}

impl RawClient {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        RawClient { stream }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    pub async fn receive(&mut self) -> Answer {
        within(self.read()).await
    }

    async fn read(&mut self) -> Answer {
        let Ok(length) = self.stream.read_u32().await else {
            return Answer::Closed;
        };
        let mut frame = vec![0; length as usize];
        if self.stream.read_exact(&mut frame).await.is_err() {
            return Answer::Closed;
        }
        match ResponseFrame::parse(Bytes::from(frame)).unwrap() {
            ResponseFrame::Success { request_id, body } => Answer::Success(request_id, body),
            ResponseFrame::Error { request_id, error } => {
                let error = error.unwrap();
                assert!(error.error_message.is_some_and(|text| text.len() < 300));
                Answer::Error(request_id, error.error_code.unwrap())
            }
            ResponseFrame::ServerFailure { error } => {
                let error = error.unwrap();
                assert!(error.error_message.unwrap().len() >= 4);
                Answer::Failure(error.error_code.unwrap())
            }
        }
    }

    /// The code of the answer to a request; 0 for success.
    pub async fn code(&mut self, request: &[u8]) -> i32 {
        self.send(request).await;
        match self.receive().await {
            Answer::Success(..) => 0,
            Answer::Error(_, code) => code,
            other => panic!("{other:?}"),
        }
    }

    /// Fails if the connection does not answer any more.
    pub async fn assert_usable(&mut self) {
        assert_eq!(self.code(&api_versions(4711)).await, 0);
    }
}
