//! Placeholder of testkit.
