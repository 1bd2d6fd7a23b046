//! The binary as its users have it: a process, a port, and the bytes on them.
//!
//! One file per subject. Cases come from the specification of the protocol, row
//! by row; where it tells another answer for this server than for the reference,
//! that one is expected.

mod fetch;
mod frames;
mod list_offsets;
mod long_poll;
mod produce;
mod support;
mod writers;
