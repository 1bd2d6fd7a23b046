//! Primary-key tables: what a put does to the rows of a bucket (cluster.md §5,
//! tables.md §4).
//!
//! - [`engine`]: the store under a tablet, as traits; the engines are elsewhere.
//! - [`merge`]: old row and new row make the row that is kept.
//!
//! **Invariants**
//! - A put changes nothing, or exactly what its changelog says. The order of the
//!   changelog is the order of the changes.
//! - The store never holds a change whose changelog record may still be lost, and
//!   every change below the offset that it is said to hold.
//! - Bytes from clients are untrusted: nothing panics, nothing is allocated by a
//!   length that they only claim.
//!
//! This crate deliberately does not know logs and their files, replicas, requests,
//! or which engine is used.

pub mod engine;
pub mod error;
pub mod merge;
pub mod writes;

pub use engine::{KvEngine, KvSnapshot, KvStore, Reach, StoreStatistics};
pub use error::{KvError, Result};
pub use merge::{Merged, RowMerger};
pub use writes::{KvWrites, ValueAt};
