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
mod list_offsets;
mod long_poll;
mod metadata;
mod mixed;
mod partitions;
mod produce;
mod retention;
mod sasl;
mod soak;
mod start;
mod support;
mod writers;
