//! Temporary.
mod error;
pub mod store;
pub use error::MetaError;
pub use store::{
    Durability, EmbeddedStore, Entry, Listing, MemoryStore, MetaStore, Revision, SessionId,
    Transaction, Watch, WatchEvent,
};
