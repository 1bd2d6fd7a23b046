//! Placeholder of env.
