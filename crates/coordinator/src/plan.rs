//! Decisions without side effects: where replicas go, who leads.

pub mod assignment;
pub mod election;
