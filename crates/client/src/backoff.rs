//! How long to wait between attempts, and when to stop.

use std::time::{Duration, Instant};

use crate::cluster::Client;
use crate::error::{ClientError, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// 20 ms × 2⁵: a server that restarts is back after about that time.
const MAX_DOUBLINGS: u32 = 5;

/// The pause after a failed attempt; the first one is 1. Jittered, so that
/// clients that failed together do not come back together.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(MAX_DOUBLINGS);
    (FIRST_PAUSE * 2u32.pow(doublings)).mul_f64(rand::random_range(0.8..1.2))
}

/// Attempts of one call, within the delivery time-out.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    client: &'a Client,
    started: Instant,
    failed: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self {
            client,
            started: Instant::now(),
            failed: 0,
        }
    }

    /// Returns when the call may be repeated.
    ///
    /// # Errors
    /// The failure itself if repeating is of no use; [`ClientError::GaveUp`]
    /// when time is over.
    pub(crate) async fn after(&mut self, failure: ClientError) -> Result<()> {
        if !failure.is_retriable() {
            return Err(failure);
        }
        let waited = self.started.elapsed();
        if waited > self.client.options().delivery_timeout {
            return Err(ClientError::GaveUp {
                seconds: waited.as_secs(),
                last: failure.to_string(),
            });
        }
        self.failed += 1;
        tokio::time::sleep(backoff(self.failed)).await;
        if failure.is_stale_metadata() {
            // If that fails the next attempt does, and comes back here.
            let _ = self.client.refresh().await;
        }
        Ok(())
    }
}
