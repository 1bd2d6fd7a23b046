//! Placeholder of format.
