//! Placeholder of tablet.
