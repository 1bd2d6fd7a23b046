//! Tests against a real server: the process, connections that speak the
//! protocol byte for byte, batches that are right or damaged as wanted, and the
//! recorded exchanges of a reference cluster.
//!
//! Everything blocks and waits for conditions, never for a time; a condition
//! that does not come true fails its test with what was seen instead.
//!
//! **Invariants**
//! * A [`Server`] is gone, with its data, when the test is over, however it ends.
//! * A test whose server has panicked fails, whatever else it asserts.
//! * Every success answer is checked to be a whole message with all required
//!   fields and nothing behind it.
//!
//! This crate deliberately does not know how the server works inside: what it
//! asserts comes from the specification of the protocol.

mod batch;
mod client;
pub mod golden;
mod put_batch;
mod rows;
mod rows_client;
mod server;
mod shape;
mod table;
mod wait;
mod wire;

pub use batch::{BatchBytes, BatchSource};
pub use client::{Client, Refused};
pub use put_batch::{PutBytes, PutSource};
pub use rows::{Changes, Rows, decode_batches, decode_changes, decode_projected, offsets};
pub use rows_client::{Values, lookup_outcome, put_outcome, scanned, stored_values};
pub use server::{Server, ServerOptions, failed_start};
pub use shape::describe;
pub use table::{Table, ab, keyed_ab, keyed_table, log_table, path, spec};
pub use wait::{PATIENCE, until};
pub use wire::{Answer, Wire};
