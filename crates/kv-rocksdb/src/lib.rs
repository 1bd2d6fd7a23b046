//! The store under primary-key tables on RocksDB: [`RocksEngine`] opens stores that
//! share one block cache, one budget of write buffers and one set of threads, as
//! [`RocksConfig`] says.
//!
//! **Invariants**
//! - Every file that a store writes can be read by RocksDB 6.20 (formats.md §7.5):
//!   clients open copies of them. No setting changes that.
//! - There is no write-ahead log. What is not flushed is lost with the process, from
//!   the end of the writes; closing does not flush.
//! - A directory that held a store never opens as an empty one.
//!
//! This crate deliberately does not know tables, rows, offsets or changelogs: keys and
//! values are bytes.

mod buffers;
mod config;
mod directory;
mod engine;
mod error;
mod options;
mod snapshot;
mod store;

pub use config::{CompactionStyle, Compression, LogLevel, RocksConfig, RocksConfigError};
pub use engine::RocksEngine;
