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

pub mod error;

pub use error::{FormatError, Result};
