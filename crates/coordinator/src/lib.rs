//! The coordinator: databases, tables, partitions, and the administration of a
//! cluster.
//!
//! [`Coordinator`] answers the requests. It keeps everything in a
//! [`MetaStore`](mainstem_meta::MetaStore), shows it in a
//! [`Catalog`](mainstem_meta::Catalog), and tells the catalog's listeners, so
//! that a tablet server leads new buckets before a client hears of them.
//!
//! **Invariants.**
//! - One operation is one transaction: after a crash at any point it has
//!   happened or not, and nothing of it is left over.
//! - Every transaction requires the coordinator's epoch: a coordinator that was
//!   replaced changes nothing.
//! - Store first, then catalog, then listeners, then the answer.
//! - Reads are answered from the catalog and never wait for the store.
//!
//! It is also the [`SequenceSource`](mainstem_meta::SequenceSource) of the tablet
//! servers.
//!
//! This crate deliberately does not know table data, files of tables, or
//! connections.

mod auto_partition;
mod cluster_config;
mod config;
mod coordinator;
mod database_api;
mod dispatch;
mod error;
mod health;
mod metadata_api;
mod new_partitions;
mod partition_api;
pub mod plan;
mod producer_api;
mod sequences;
mod servers;
mod snapshot_api;
mod snapshot_lease_api;
mod table_alter;
mod table_api;
mod term;
mod wire;
mod writer_ids;

#[cfg(test)]
mod tests;

pub use cluster_config::ClusterConfigListener;
pub use config::CoordinatorConfig;
pub use coordinator::Coordinator;
pub use dispatch::{APIS, is_read_only};
pub use error::ApiError;
pub use servers::ServerNode;
