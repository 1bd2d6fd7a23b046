//! One long-polling FetchLog request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Woken by any of the buckets that the request reads.
#[derive(Debug, Default)]
pub struct FetchWait {
    wake: Notify,
    over: AtomicBool,
}

impl FetchWait {
    /// A wait that nobody has woken.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Something changed in one of the buckets. A wake-up before
    /// [`FetchWait::woken`] is awaited is not lost.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns at the next wake-up.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The request was answered: replicas forget it when they next look.
    pub fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the request was answered.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Those who wait for records of one bucket. Answered requests are dropped when
/// the list has doubled, so that it stays within twice the live ones.
#[derive(Debug, Default)]
pub struct FetchWaiters {
    waiting: Vec<Arc<FetchWait>>,
    sweep_at: usize,
}

impl FetchWaiters {
    /// Adds a request.
    pub fn add(&mut self, wait: Arc<FetchWait>) {
        if self.waiting.len() >= self.sweep_at.max(4) {
            self.waiting.retain(|wait| !wait.is_over());
            self.sweep_at = self.waiting.len() * 2;
        }
        self.waiting.push(wait);
    }

    /// Wakes and forgets all; a request that still lacks bytes adds itself again.
    pub fn wake_all(&mut self) {
        for wait in self.waiting.drain(..) {
            if !wait.is_over() {
                wait.wake();
            }
        }
    }

    /// Entries held, answered ones included.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_requests_do_not_pile_up_in_an_idle_bucket() {
        let mut waiters = FetchWaiters::default();
        for _ in 0..10_000 {
            let wait = FetchWait::new();
            waiters.add(wait.clone());
            wait.finish();
        }
        assert!(waiters.len() <= 8, "{} entries are held", waiters.len());
    }

    #[tokio::test]
    async fn a_wake_up_before_the_await_is_not_lost() {
        let mut waiters = FetchWaiters::default();
        let wait = FetchWait::new();
        waiters.add(wait.clone());
        waiters.wake_all();
        wait.woken().await;
        assert!(waiters.is_empty());
    }
}
