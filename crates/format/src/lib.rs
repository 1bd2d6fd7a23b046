//! The bytes that cross the wire opaquely or lie in files that clients read:
//! log, KV and value batches, rows, keys, bucket hashes, statistics and
//! projection (formats.md §0–5).
//!
//! **Invariants.** Bytes are untrusted: every decoder returns a `Result`, never
//! panics, and never allocates by a length that the bytes only claim. Nothing
//! here does I/O, reads a clock, or keeps state between calls.
//!
//! This crate deliberately does not know segments, offsets of a bucket, RPC
//! messages, or who wrote a batch.

pub mod aligned_row;
pub mod arrow_batch;
pub mod arrow_message;
mod arrow_message_template;
#[cfg(test)]
mod arrow_testing;
pub mod arrow_type;
pub mod binary_array;
mod binary_slot;
pub mod bucketing;
mod byte_reader;
pub mod cast_plan;
pub mod compacted_row;
pub mod compression;
pub mod error;
pub mod filter;
#[cfg(test)]
mod golden;
pub mod hash;
pub mod header;
pub mod indexed_row;
pub mod key;
pub mod kv_batch;
mod little_endian;
pub mod log_batch;
pub mod log_batch_builder;
pub mod predicate;
pub mod projection;
pub mod read_at;
pub mod row;
pub mod row_batch;
pub mod schema_layout;
pub mod statistics;
#[cfg(test)]
mod testing;
pub mod validate;
pub mod value;
pub mod value_batch;
pub mod value_builder;
pub mod value_reader;
pub mod varint;

pub use arrow_batch::{ArrowBatchDecoder, ArrowBatchEncoder, Columns, DecodedBatch, EncodeOptions};
pub use arrow_message::BodyCodec;
pub use bucketing::{BucketAssigner, BucketFunction};
pub use cast_plan::{CastPlan, cast_to_schema};
pub use compression::Compression;
pub use error::{FormatError, Result};
pub use filter::Filter;
pub use header::{BatchHeader, BatchPrefix, LeaderStamp, Magic};
pub use key::{KeyEncoder, KeyEncoding};
pub use kv_batch::{KvBatch, KvBatchBuilder, KvRecord};
pub use log_batch::{Batches, LogBatch};
pub use log_batch_builder::BatchSpec;
pub use predicate::{LeafFunction, Predicate};
pub use projection::{Part, ProjectedBatch, Projection, ProjectionError, SourceRange};
pub use read_at::{ReadAt, ReadError, ReadWindow};
pub use row::{Fields, RowFormat};
pub use row_batch::RowBatchBuilder;
pub use schema_layout::SchemaLayout;
pub use statistics::Statistics;
pub use validate::{check_append, check_integrity};
pub use value::{Timestamp, Value};
pub use value_batch::{ValueBatch, ValueBatchBuilder};
pub use value_builder::{ColumnBuilder, RowsToBatch};
pub use value_reader::{ColumnReader, column_readers};
