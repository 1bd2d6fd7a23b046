//! Placeholder.
pub mod generated;
