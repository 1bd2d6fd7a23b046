//! What a server does with the requests of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::Response;

/// A request whose frame and header are sound (wire.md §1.2).
#[derive(Clone, Debug)]
pub struct Request {
    /// API key.
    pub api_key: i16,
    /// API version.
    pub api_version: i16,
    /// The encoded request message: a slice of the frame.
    pub body: Bytes,
}

/// What is known about a connection. Fixed once it is authenticated.
#[derive(Clone, Debug)]
pub struct Session {
    /// Number of the connection, unique in the process.
    pub id: u64,
    /// Name of the listener that accepted it.
    pub listener: String,
    /// Whether that is the listener for traffic between servers.
    pub internal: bool,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Name of the principal; `ANONYMOUS` without SASL.
    pub principal: String,
}

/// The answer to a request, at once or later.
pub enum Reply {
    /// Ready.
    Now(Response),
    /// Ready when the future is; later requests of the connection go on.
    Later(BoxFuture<'static, Response>),
}

/// Handles requests. ApiVersions and Authenticate never reach it.
pub trait Service: Send + Sync + 'static {
    /// The APIs served, as (key, lowest version, highest version), for the
    /// answer to ApiVersions and the check of each request.
    fn apis(&self) -> &[(i16, i16, i16)];

    /// Starts a request. Called once per request, in arrival order on each
    /// connection, on the runtime: it must not block. What must keep the order
    /// (an append) happens before it returns; waiting goes into the reply.
    fn call(&self, session: &Arc<Session>, request: Request) -> Reply;

    /// The connection is gone; futures of its replies have been dropped.
    fn closed(&self, session: &Arc<Session>) {
        let _ = session;
    }
}
