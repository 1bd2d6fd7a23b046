//! Placeholder of meta.
