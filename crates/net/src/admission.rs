//! What all connections together may have under way.
//!
//! | Bound on | At the bound |
//! |---|---|
//! | requests taken off a socket whose call has not returned (`netty.server.max-queued-requests`; 0 counts as 1) | they wait their turn, first come first served |
//! | requests without an answer, of a connection | it is not read |
//! | the same, in total | connections with more than [`FAIR_SHARE`] are not read |
//! | response bytes in memory, of a connection | it is not read |
//! | the same, in total | connections with any are not read; above twice the bound none is |
//!
//! Reading goes on by itself as soon as there is room. Long polls are requests
//! without an answer, not queued requests: they do not keep others out.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Requests without an answer that a connection may have whatever the total.
const FAIR_SHARE: usize = 16;

/// Response bytes that a connection may have in memory before it is not read.
/// One answer may be larger. The total bound is at least twice this.
const CONNECTION_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// Whether a connection may take another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may.
    Open,
    /// When some of its own are done.
    WaitForOwn,
    /// When others are done: ask again soon.
    WaitForOthers,
}

/// Counts of all connections.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    /// A permit per call that may be under way.
    pub(crate) calls: Arc<Semaphore>,
    max_in_flight_per_connection: usize,
    max_in_flight: usize,
    max_response_bytes: i64,
    in_flight: AtomicUsize,
    response_bytes: AtomicI64,
}

impl AdmissionControl {
    pub(crate) fn new(
        max_queued_requests: usize,
        max_in_flight_per_connection: usize,
        max_in_flight: usize,
        max_response_bytes: u64,
    ) -> Arc<Self> {
        let calls = max_queued_requests.clamp(1, Semaphore::MAX_PERMITS);
        // Below that, connections would wait for each other answer by answer.
        let max_response_bytes = max_response_bytes.max(2 * CONNECTION_RESPONSE_BYTES as u64);
        Arc::new(AdmissionControl {
            calls: Arc::new(Semaphore::new(calls)),
            max_in_flight_per_connection: max_in_flight_per_connection.max(1),
            max_in_flight,
            max_response_bytes: i64::try_from(max_response_bytes / 2).unwrap_or(i64::MAX),
            in_flight: AtomicUsize::new(0),
            response_bytes: AtomicI64::new(0),
        })
    }

    /// A share without anything, of a new connection.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share {
            control: Arc::clone(self),
            in_flight: 0,
            response_bytes: 0,
        }
    }

    /// Requests without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Response bytes in memory.
    pub(crate) fn response_bytes(&self) -> u64 {
        self.response_bytes
            .load(Ordering::Relaxed)
            .max(0)
            .unsigned_abs()
    }

    /// Whether responses that nobody takes keep memory from others.
    pub(crate) fn is_short_of_response_memory(&self) -> bool {
        self.response_bytes.load(Ordering::Relaxed) > self.max_response_bytes
    }
}

/// What one connection has of the totals; gives it back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    control: Arc<AdmissionControl>,
    in_flight: usize,
    response_bytes: usize,
}

impl Share {
    /// Brings the totals up to date.
    pub(crate) fn set(&mut self, in_flight: usize, response_bytes: usize) {
        if in_flight != self.in_flight {
            // Wrapping: the difference may be negative.
            let difference = in_flight.wrapping_sub(self.in_flight);
            self.control
                .in_flight
                .fetch_add(difference, Ordering::Relaxed);
            self.in_flight = in_flight;
        }
        if response_bytes != self.response_bytes {
            let difference = response_bytes as i64 - self.response_bytes as i64;
            self.control
                .response_bytes
                .fetch_add(difference, Ordering::Relaxed);
            self.response_bytes = response_bytes;
        }
    }

    /// Whether this connection may take another request.
    pub(crate) fn admission(&self) -> Admission {
        let control = &self.control;
        if self.in_flight >= control.max_in_flight_per_connection
            || self.response_bytes >= CONNECTION_RESPONSE_BYTES
        {
            return Admission::WaitForOwn;
        }
        if self.in_flight >= FAIR_SHARE && control.in_flight() >= control.max_in_flight {
            return Admission::WaitForOthers;
        }
        let responses = control.response_bytes.load(Ordering::Relaxed);
        let limit = control.max_response_bytes;
        if responses > limit.saturating_mul(2) || (responses > limit && self.response_bytes > 0) {
            return Admission::WaitForOthers;
        }
        Admission::Open
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_for_its_own_at_its_own_bounds() {
        let control = AdmissionControl::new(1, 2, 1000, 1 << 40);
        let mut share = control.share();
        assert_eq!(share.admission(), Admission::Open);
        share.set(2, 0);
        assert_eq!(share.admission(), Admission::WaitForOwn);
        share.set(1, CONNECTION_RESPONSE_BYTES);
        assert_eq!(share.admission(), Admission::WaitForOwn);
        share.set(1, CONNECTION_RESPONSE_BYTES - 1);
        assert_eq!(share.admission(), Admission::Open);
    }

    #[test]
    fn at_the_total_only_connections_above_the_fair_share_wait() {
        let control = AdmissionControl::new(1, 1000, 100, 1 << 40);
        let (mut greedy, mut modest) = (control.share(), control.share());
        greedy.set(100, 0);
        modest.set(FAIR_SHARE - 1, 0);
        assert_eq!(greedy.admission(), Admission::WaitForOthers);
        assert_eq!(modest.admission(), Admission::Open);
        greedy.set(20, 0);
        assert_eq!(greedy.admission(), Admission::Open);
        drop(greedy);
        assert_eq!(control.in_flight(), FAIR_SHARE - 1);
    }

    #[test]
    fn short_of_response_memory_those_who_hold_some_wait_first() {
        let control = AdmissionControl::new(1, 1000, 1000, 16_000_000);
        let (mut slow, fresh, mut other) = (control.share(), control.share(), control.share());
        other.set(1, 6_000_000);
        slow.set(1, 2_000_001);
        assert!(control.is_short_of_response_memory());
        assert_eq!(slow.admission(), Admission::WaitForOthers);
        assert_eq!(fresh.admission(), Admission::Open);
        other.set(1, 14_000_000);
        assert_eq!(fresh.admission(), Admission::WaitForOthers);
        drop((slow, other));
        assert_eq!(control.response_bytes(), 0);
        assert_eq!(fresh.admission(), Admission::Open);
    }

    #[test]
    fn limits_of_zero_still_let_requests_through() {
        let control = AdmissionControl::new(0, 0, 0, 0);
        assert_eq!(control.calls.available_permits(), 1);
        assert_eq!(control.share().admission(), Admission::Open);
    }
}
