//! Framed TCP server and client of the Fluss protocol.

pub mod response;
pub mod service;

pub use response::{Response, Segment};
pub use service::{Reply, Request, Service, Session};
