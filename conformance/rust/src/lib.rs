//! The official Rust client against a Mainstem server: what the programs of
//! this crate share.
//!
//! - [`value`]: a value of any data type, written and read through the client.
//! - [`columns`]: one column per data type, with the samples it is tried with.
//! - [`keyed`] and [`changelog`]: writes and reads by key, and what they leave.
//! - [`scan`]: bounded reads of a table, with the checks every read must pass.
//! - [`check`]: comparisons that say what differs.

pub mod all_types;
pub mod buckets;
pub mod changelog;
pub mod check;
pub mod columns;
pub mod databases;
pub mod evolution;
pub mod filters;
pub mod keyed;
pub mod offsets;
pub mod partitions;
pub mod primary_key;
pub mod scan;
pub mod table;
pub mod value;
