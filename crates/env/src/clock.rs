//! Time, injectable.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall time in milliseconds since 1970-01-01 UTC. May jump either way.
    fn now_ms(&self) -> i64;

    /// Time since an arbitrary fixed point of this process. Never goes back.
    fn monotonic(&self) -> Duration;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // A clock set before 1970 is as wrong as one at 1970.
            Err(_) => 0,
        }
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    elapsed_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `now_ms` until it is moved.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        Self {
            wall_ms: AtomicI64::new(now_ms),
            elapsed_ms: AtomicI64::new(0),
        }
    }

    /// Lets `milliseconds` (not negative) pass on both clocks.
    pub fn advance_ms(&self, milliseconds: i64) {
        self.wall_ms.fetch_add(milliseconds, Ordering::SeqCst);
        self.elapsed_ms
            .fetch_add(milliseconds.max(0), Ordering::SeqCst);
    }

    /// Sets the wall clock, as an administrator would; monotonic time stays.
    pub fn jump_to_ms(&self, now_ms: i64) {
        self.wall_ms.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        let elapsed = self.elapsed_ms.load(Ordering::SeqCst);
        Duration::from_millis(u64::try_from(elapsed).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_jumps_on_the_wall_but_never_back_in_monotonic_time() {
        let clock = ManualClock::new(1_000);
        clock.advance_ms(500);
        clock.jump_to_ms(10);
        assert_eq!(clock.now_ms(), 10);
        assert_eq!(clock.monotonic(), Duration::from_millis(500));
    }

    #[test]
    fn the_system_clock_is_past_2020() {
        assert!(SystemClock::new().now_ms() > 1_577_836_800_000);
    }
}
