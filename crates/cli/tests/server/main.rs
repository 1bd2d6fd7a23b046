//! The binary as its users have it: a process, a port, and the bytes on them.
//!
//! One file per subject. Cases come from the specification of the protocol, row
//! by row; where it tells another answer for this server than for the reference,
//! that one is expected.

mod admin;
mod cluster;
mod crash;
mod disk;
mod evolution;
mod fetch;
mod formats;
mod frames;
mod golden;
mod http;
mod kv_snapshots;
mod list_offsets;
mod long_poll;
mod lookups;
mod metadata;
mod mixed;
mod partitions;
mod prefix_lookups;
mod produce;
mod put_columns;
mod put_kv;
mod retention;
mod row_crashes;
mod row_evolution;
mod row_scans;
mod row_soak;
mod sasl;
mod soak;
mod start;
mod support;
mod writers;
