//! Plain values shared by every crate: ids, names, data types, schemas, table
//! descriptors, options, configuration, partitions. No I/O, no async, no clock.
//!
//! **Invariants.** Ids of different things are different types. A [`Schema`]
//! that exists has passed the construction rules of tables.md §1.5.
//!
//! This crate deliberately does not know wire messages, batch bytes or files.

pub mod auto_partition;
pub mod config;
pub mod data_type;
pub mod descriptor;
pub mod duration;
pub mod error_code;
pub mod ids;
pub mod jaas;
mod json;
pub mod listeners;
pub mod memory_size;
pub mod names;
pub mod nearest;
pub mod partition;
pub mod schema;
pub mod server_options;
pub mod table;
mod table_error;
pub mod table_options;
pub mod validation;

pub use data_type::{DataType, RowField, TypeKind};
pub use descriptor::{DatabaseDescriptor, TableDescriptor};
pub use error_code::{ErrorCode, Retry};
pub use ids::{
    BucketId, CoordinatorEpoch, LeaderEpoch, PartitionId, SchemaId, ServerId, TableBucket, TableId,
    WriterId,
};
pub use schema::{AggFunction, Column, Schema};
pub use table::{PhysicalTablePath, TablePath};
pub use table_error::{DescriptorError, TableError};
pub use table_options::{
    ArrowCompression, ChangelogImage, DeleteBehavior, KvFormat, LakeFormat, LogFormat, MergeEngine,
    StatisticsColumns,
};
