//! Framed TCP server and client of the Fluss protocol (wire.md §1–3).
//!
//! Main types: [`BoundServer`], which serves a [`Service`] on named listeners,
//! and the client's [`Connection`].
//!
//! **Invariants.**
//! - Requests of a connection are started in the order of arrival, one after
//!   the other; responses leave as they become ready.
//! - Every request that is read gets exactly one response, or the connection
//!   ends. A panic in a service is an error response.
//! - Memory is bounded by [`ServerOptions`], whatever peers send or fail to
//!   take. A length that a peer claims allocates nothing.
//! - A paused connection is read again as soon as there is room.
//! - When a peer is gone its futures are dropped, then [`Service::closed`] is
//!   called, once.
//!
//! This crate deliberately does not know what requests mean, except ApiVersions
//! and Authenticate.

mod admission;
pub mod client;
mod connection;
mod error;
mod file_read;
mod frame_memory;
mod frame_reader;
mod handshake;
mod in_flight;
mod outbound;
pub mod response;
mod sasl;
mod server;
pub mod service;
mod stats;

pub use client::{ClientOptions, Connection, Login};
pub use error::NetError;
pub use handshake::SecurityProtocol;
pub use outbound::SendMethod;
pub use response::{Response, Segment};
pub use sasl::{Credentials, PLAIN, PasswordMap};
pub use server::{BoundServer, Listener, ServerOptions};
pub use service::{Reply, Request, Service, Session};
pub use stats::{RequestObserver, RequestOutcome, ServerStats};
