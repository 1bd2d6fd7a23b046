//! Plain values shared by every crate: ids, names, data types, schemas, table
//! descriptors, options, configuration, partitions. No I/O, no async, no clock.
//!
//! **Invariants.** Ids of different things are different types. A [`Schema`]
//! that exists has passed the construction rules of tables.md §1.5.
//!
//! This crate deliberately does not know wire messages, batch bytes or files.

pub mod data_type;
pub mod ids;
pub mod schema;
pub mod table;

pub use data_type::{DataType, RowField, TypeKind};
pub use ids::{
    BucketId, CoordinatorEpoch, LeaderEpoch, PartitionId, SchemaId, ServerId, TableBucket, TableId,
    WriterId,
};
pub use schema::{AggFunction, Column, Schema};
pub use table::{LogFormat, PhysicalTablePath, TableDescriptor, TablePath};
