//! The log on a simulated disk: what it promises, under every crash and fault.

mod appending;
mod concurrent;
mod crash;
mod cutting;
mod faults;
mod model;
mod quarantine;
mod reading;
mod retention;
mod support;
mod syncing;
mod tails;
mod tiny_segments;
