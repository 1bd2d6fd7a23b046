//! The HTTP side of a server: `/metrics`, `/healthz`, `/readyz`.
//!
//! - [`exposition::Exposition`] writes the Prometheus text format with the
//!   conventions that existing dashboards rely on (cluster.md §8.6).
//! - [`meter`] holds the counters behind those metrics.
//! - [`http::serve`] answers the requests.
//!
//! **Invariants.** Metric names and label sets are those of the reference;
//! everything but histograms is a gauge, a meter is a rate per second.
//!
//! This crate deliberately does not know what is measured: sources register
//! themselves as [`MetricSource`].

pub mod exposition;
pub mod http;
pub mod meter;

pub use exposition::Exposition;
pub use http::{Console, serve};

/// Something that has metrics.
pub trait MetricSource: Send + Sync + 'static {
    /// Writes all current values. Called for every scrape.
    fn collect(&self, out: &mut Exposition);
}
