//! Counters that are read as rates, and latency samples.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A meter's rate covers this many ticks of [`TICK_SECONDS`]: one minute.
const WINDOW_TICKS: usize = 12;
/// Seconds between two ticks.
pub const TICK_SECONDS: u64 = 5;
/// Observations that a [`Histogram`] keeps; older ones are overwritten.
const KEPT: usize = 1_024;

/// An event counter whose rate per second over the last minute is reported.
#[derive(Debug, Default)]
pub struct Meter {
    count: AtomicU64,
    past: Mutex<[u64; WINDOW_TICKS]>,
    ticks: AtomicU64,
}

impl Meter {
    /// Counts events.
    pub fn mark(&self, events: u64) {
        self.count.fetch_add(events, Ordering::Relaxed);
    }

    /// All events so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Moves the window; called every [`TICK_SECONDS`].
    pub fn tick(&self) {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed) as usize;
        self.past.lock()[tick % WINDOW_TICKS] = self.count();
    }

    /// Events per second over the window, or over the life if that is shorter.
    pub fn rate(&self) -> f64 {
        let ticks = self.ticks.load(Ordering::Relaxed) as usize;
        if ticks == 0 {
            return 0.0;
        }
        let past = self.past.lock();
        let newest = past[(ticks - 1) % WINDOW_TICKS];
        let (oldest, covered) = if ticks < WINDOW_TICKS {
            (0, ticks)
        } else {
            (past[ticks % WINDOW_TICKS], WINDOW_TICKS - 1)
        };
        (newest - oldest) as f64 / (covered as u64 * TICK_SECONDS) as f64
    }
}

/// Recent observations of a duration or size.
#[derive(Debug, Default)]
pub struct Histogram {
    count: AtomicU64,
    kept: Mutex<Vec<f64>>,
}

impl Histogram {
    /// Adds an observation.
    pub fn observe(&self, value: f64) {
        let position = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        let mut kept = self.kept.lock();
        if kept.len() < KEPT {
            kept.push(value);
        } else {
            kept[position % KEPT] = value;
        }
    }

    /// Observations so far, and the kept ones in ascending order.
    pub fn snapshot(&self) -> (u64, Vec<f64>) {
        let mut kept = self.kept.lock().clone();
        kept.sort_unstable_by(f64::total_cmp);
        (self.count.load(Ordering::Relaxed), kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_meter_reads_its_rate() {
        let meter = Meter::default();
        for _ in 0..40 {
            meter.mark(50);
            meter.tick();
        }
        assert_eq!(meter.rate(), 10.0);
        for _ in 0..40 {
            meter.tick();
        }
        assert_eq!(meter.rate(), 0.0);
        assert_eq!(meter.count(), 2_000);
    }

    #[test]
    fn a_young_meter_reads_over_its_life() {
        let meter = Meter::default();
        meter.mark(100);
        meter.tick();
        assert_eq!(meter.rate(), 20.0);
    }

    #[test]
    fn a_histogram_stays_bounded() {
        let histogram = Histogram::default();
        for value in 0..10_000 {
            histogram.observe(f64::from(value));
        }
        let (count, kept) = histogram.snapshot();
        assert_eq!(count, 10_000);
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept.last(), Some(&9_999.0));
    }
}
