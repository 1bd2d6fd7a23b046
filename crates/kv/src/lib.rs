//! Primary-key tables: what a put does to the rows of a bucket (cluster.md §5,
//! tables.md §4).
//!
//! - [`tablet`]: the rows of one bucket; opens, changes, looks up, closes.
//! - [`open_rows`]: what readers see: the store and, ahead of it, the rows that changed
//!   last ([`recent`]).
//! - [`put`]: what one KV batch does, as a function of batch, rows and rules.
//! - `memory` (feature `testing`): an engine in memory that plays crashes; what every
//!   engine must do is `engine::contract`.
//! - [`merge`]: old row and new row make the row that is kept.
//! - [`changelog`]: changes as log batches, and [`replay`] back.
//! - [`engine`]: the store under a tablet, as traits; engines are elsewhere.
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

pub mod auto_increment;
pub mod changelog;
pub mod engine;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod merge;
pub mod open_rows;
pub mod pending;
pub mod put;
pub mod recent;
pub mod replay;
pub mod state_file;
pub mod table;
pub mod tablet;
pub mod writes;

pub use auto_increment::{NumberRange, SequenceSource};
pub use changelog::ChangeType;
pub use engine::{KvEngine, KvSnapshot, KvStore, Reach, StoreStatistics};
pub use error::{KvError, Result};
pub use merge::{MergeRules, Merged, RowMerger};
pub use open_rows::OpenRows;
pub use pending::{Changes, Known};
pub use put::{Prepared, PutMode};
pub use recent::RecentBudget;
pub use replay::ChangelogSource;
pub use table::{AutoIncrementColumn, KvTable};
pub use tablet::{KvResources, KvTablet, KvWriter, OpeningReport};
pub use writes::{KvWrites, ValueAt};
