//! Our own client of the Fluss protocol, with Arrow record batches in and out.
//! Replication, tiering, SQL and the command line use it; it works against any
//! server of the protocol.
//!
//! - [`Client`]: connections, metadata, administration.
//! - [`writer::LogWriter`]: idempotent appends to a log table.
//! - [`scan::LogScan`]: bounded or endless reads with projection and filter.
//!
//! **Invariants.** A batch whose write returned success is stored exactly once,
//! through retries and reconnects. Batches of one bucket are stored in the order
//! of the writes. Every wait has a deadline and every queue a bound.
//!
//! This crate deliberately does not know files, SQL, or a server's insides.

pub mod admin;
pub mod cluster;
pub mod error;
pub mod filter;
pub mod route;
pub mod scan;
pub mod writer;

pub use cluster::{Client, ClientOptions, TableInfo};
pub use error::{ClientError, Result};
pub use filter::{Comparison, Filter};
