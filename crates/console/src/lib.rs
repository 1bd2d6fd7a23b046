//! Placeholder of console.
