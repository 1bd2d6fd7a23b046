//! Placeholder of log.
