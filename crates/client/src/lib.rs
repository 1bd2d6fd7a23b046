//! Our own client of the Fluss protocol, with Arrow record batches in and out.
//! Replication, tiering, SQL and the command line use it; it works against any
//! server of the protocol.
//!
//! - [`Client`]: connections, metadata, administration.
//! - [`writer::LogWriter`]: idempotent appends to a log table.
//! - [`upsert::UpsertWriter`]: idempotent upserts and deletes by primary key.
//! - [`lookup::Lookup`], [`lookup::PrefixLookup`]: rows by key.
//! - [`kv_scan::KvScan`]: all current rows of a primary-key table.
//! - [`scan::LogScan`]: bounded or endless reads of a log or changelog, with
//!   projection and filter.
//!
//! **Invariants.** A batch whose write returned success is stored exactly once,
//! through retries and reconnects. Batches of one bucket are stored in the order
//! of the writes. Every wait has a deadline and every queue a bound.
//!
//! This crate deliberately does not know files, SQL, or a server's insides.

pub mod admin;
mod backoff;
pub mod change_type;
pub mod cluster;
pub mod error;
pub mod filter;
mod key_calls;
mod key_route;
pub mod kv_scan;
mod lane;
pub mod lookup;
mod places;
pub mod route;
pub mod scan;
mod stored_rows;
pub mod upsert;
pub mod writer;

pub use change_type::{ChangeType, ChangeTypes};
pub use cluster::{Client, ClientOptions, TableInfo};
pub use error::{ClientError, Result};
pub use filter::{Comparison, Filter};
