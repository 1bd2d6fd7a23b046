//! Placeholder of net.
