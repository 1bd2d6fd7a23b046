//! Counters, and how they are written for Prometheus.
//!
//! - [`Meter`] and [`Histogram`] count events and observations without a lock on
//!   the common path.
//! - [`Exposition`] writes the text format with the conventions that existing
//!   dashboards rely on (cluster.md §8.6).
//!
//! **Invariants.** Metric names and label sets are those of the reference;
//! everything but histograms is a gauge, a meter is a rate per second. No
//! look-up by name on the path of a request: whoever counts holds the counter.
//!
//! This crate deliberately does not know what is measured: sources implement
//! [`MetricSource`].

mod exposition;
mod meter;

pub use exposition::Exposition;
pub use meter::{Histogram, Meter, TICK_SECONDS};

/// Something that has metrics.
pub trait MetricSource: Send + Sync + 'static {
    /// Writes all current values. Called for every scrape.
    fn collect(&self, out: &mut Exposition);
}
