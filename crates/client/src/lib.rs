//! Placeholder of client.
