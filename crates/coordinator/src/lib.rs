//! Placeholder of coordinator.
