//! Metadata of a cluster: the store that keeps it, the records in the store and
//! the view of them that requests are answered from.
//!
//! - [`MetaStore`] is what any metadata store must offer (cluster.md §2.4);
//!   [`EmbeddedStore`] keeps it in one file, [`MemoryStore`] in memory.
//! - [`records`] and [`keys`] say what is stored under which key.
//! - [`SequenceSource`] is where tablet servers get auto-increment numbers from.
//! - [`Catalog`] holds everything that readers ask for, in memory.
//!
//! **Invariants.** A transaction is applied whole or not at all, also across a
//! crash. Versions only grow, so a version that was read identifies one value
//! of one key for ever. The catalog changes only after the store has committed.
//!
//! This crate deliberately does not know the wire protocol, who may lead a
//! bucket, or why a record changes; that is the coordinator's business.

pub mod catalog;
mod error;
pub mod keys;
pub mod load;
pub mod records;
mod sequence;
pub mod store;

pub use catalog::{
    BucketState, Catalog, CatalogChange, CatalogListener, DatabaseEntry, PartitionEntry, TableEntry,
};
pub use error::MetaError;
pub use sequence::SequenceSource;
pub use store::{
    EmbeddedStore, Entry, Listing, MemoryStore, MetaStore, Revision, SessionId, Transaction, Watch,
    WatchEvent,
};
