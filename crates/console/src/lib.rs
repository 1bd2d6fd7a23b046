//! The HTTP side of a server: `/metrics`, `/healthz`, `/readyz`.
//!
//! **Invariants.** A scrape never blocks a request on data; `/readyz` says no
//! before the server takes requests and from the moment it stops.
//!
//! This crate deliberately does not know what is measured: see
//! [`mainstem_metrics::MetricSource`].

mod http;

pub use http::{Console, serve};
