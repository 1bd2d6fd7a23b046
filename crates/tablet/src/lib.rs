//! The tablet server: replicas of buckets, and the requests on their data.
//!
//! - [`replica::core`] holds the rules of one replica as a pure state machine;
//!   [`replica::Replica`] joins it with the log tablet and with those who wait.
//! - [`registry::Replicas`] knows every replica of this server and follows the
//!   catalog.
//! - [`service`] answers the data requests: ProduceLog, FetchLog, ListOffsets,
//!   LimitScan, GetTableStats.
//!
//! **Invariants.** A bucket has one writer: appends are ordered under the lock
//! of its replica, waiting happens outside it. No client sees a record, and no
//! acknowledgement is sent, before the high watermark passes it; the high
//! watermark never passes what is durable. Every request entry gets exactly one
//! answer entry.
//!
//! This crate never decides who leads and never changes metadata.

pub mod disk_guard;
pub mod fetch_wait;
mod log_dirs;
pub mod metrics;
mod predicate;
pub mod produce_wait;
pub mod reader_progress;
pub mod registry;
pub mod replica;
mod row_appliers;
pub mod service;
pub mod table_view;
