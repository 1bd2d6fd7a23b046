//! One long-polling FetchLog request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Woken by any of the buckets that the request waits in.
#[derive(Debug)]
pub struct FetchWait {
    wake: Notify,
    over: AtomicBool,
    /// By slot: whether the request stands in the list of that bucket.
    listed: Box<[AtomicBool]>,
}

impl FetchWait {
    /// A wait in so many buckets, that nobody has woken.
    pub fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self {
            wake: Notify::new(),
            over: AtomicBool::new(false),
            listed: (0..slots).map(|_| AtomicBool::new(false)).collect(),
        })
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

/// Those who wait for records of one bucket, each once. Answered requests are
/// dropped when the list has doubled, so that it stays within twice the live
/// ones. The owner's lock orders all calls for one bucket.
#[derive(Debug, Default)]
pub struct FetchWaiters {
    waiting: Vec<(Arc<FetchWait>, usize)>,
    sweep_at: usize,
}

impl FetchWaiters {
    /// Adds a request, whose slot for this bucket is `slot`, unless it is there.
    pub fn add(&mut self, wait: &Arc<FetchWait>, slot: usize) {
        // A slot that the request does not have is never listed.
        let listed = wait.listed.get(slot);
        if listed.is_some_and(|listed| listed.swap(true, Ordering::Relaxed)) {
            return;
        }
        if self.waiting.len() >= self.sweep_at.max(4) {
            self.waiting.retain(|(wait, _)| !wait.is_over());
            self.sweep_at = self.waiting.len() * 2;
        }
        self.waiting.push((wait.clone(), slot));
    }

    /// Wakes and forgets all; a request that still lacks bytes adds itself again.
    pub fn wake_all(&mut self) {
        for (wait, slot) in self.waiting.drain(..) {
            if let Some(listed) = wait.listed.get(slot) {
                listed.store(false, Ordering::Relaxed);
            }
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
            let wait = FetchWait::new(1);
            waiters.add(&wait, 0);
            wait.finish();
        }
        assert!(waiters.len() <= 8, "{} entries are held", waiters.len());
    }

    #[test]
    fn a_request_stands_in_the_list_of_a_bucket_once() {
        let (mut busy, mut quiet) = (FetchWaiters::default(), FetchWaiters::default());
        let wait = FetchWait::new(2);
        for _ in 0..100 {
            busy.add(&wait, 0);
            quiet.add(&wait, 1);
            assert_eq!((busy.len(), quiet.len()), (1, 1));
            busy.wake_all();
        }
    }

    #[tokio::test]
    async fn a_wake_up_before_the_await_is_not_lost() {
        let mut waiters = FetchWaiters::default();
        let wait = FetchWait::new(1);
        waiters.add(&wait, 0);
        waiters.wake_all();
        wait.woken().await;
        assert!(waiters.is_empty());
    }
}
