//! Group commit: a bounded pool of threads that sync tablets.
//!
//! A tablet is synced by one thread at a time. A request while its sync runs
//! means one more sync afterwards, which covers everything appended until it
//! starts: the more comes in, the more one sync covers. Syncs of different
//! tablets run beside each other, so that the file system's journal can commit
//! them together.
//!
//! An append that comes alone is synced at once. But when the last sync has
//! covered several, their writers have just been answered, and the first of
//! their next appends would start a sync for itself while all others wait for
//! the one after: half of the disk's rate. So the thread then waits until as
//! many appends are there as last time, for at most a quarter of what a sync
//! takes and never when other tablets need the thread. (16 appends in flight
//! reach twice the rate by it.)

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mainstem_env::Clock;
use parking_lot::{Condvar, Mutex};

use crate::tablet::LogTablet;

/// States of [`SyncSchedule::state`].
const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUNNING_AGAIN: u8 = 3;

/// Longest wait for a group: no disk is worth waiting for longer.
const MAX_GATHER: Duration = Duration::from_millis(2);
/// Part of the time of a sync that may be spent on waiting for a group.
const GATHER_DIVISOR: u32 = 4;

/// What the syncer keeps in each tablet.
#[derive(Debug, Default)]
pub(crate) struct SyncSchedule {
    state: AtomicU8,
    /// How long the last sync took.
    last_sync_us: AtomicU32,
}

/// Syncs tablets on its own threads.
pub struct Syncer {
    pool: Arc<Pool>,
    max_threads: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Pool {
    clock: Arc<dyn Clock>,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// For threads that wait for a group to be complete.
    gathering: Mutex<()>,
    gathered: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Bounded by the number of tablets: each is in it at most once.
    tablets: VecDeque<Arc<LogTablet>>,
    idle_threads: usize,
    stopping: bool,
}

impl Syncer {
    /// A pool of up to `max_threads` threads (at least one), started as needed.
    #[must_use]
    pub fn new(max_threads: usize, clock: Arc<dyn Clock>) -> Self {
        let pool = Pool {
            clock,
            queue: Mutex::default(),
            wake: Condvar::new(),
            gathering: Mutex::default(),
            gathered: Condvar::new(),
        };
        Self {
            pool: Arc::new(pool),
            max_threads: max_threads.max(1),
            threads: Mutex::default(),
        }
    }

    /// A syncer without threads, for simulations: what is asked for waits until
    /// [`run_next`](Self::run_next) is called.
    #[must_use]
    pub fn simulated(clock: Arc<dyn Clock>) -> Self {
        let mut syncer = Self::new(1, clock);
        syncer.max_threads = 0;
        syncer
    }

    /// Runs the sync that was asked for first, on the caller's thread. False if
    /// there is none.
    pub fn run_next(&self) -> bool {
        let next = self.pool.queue.lock().tablets.pop_front();
        let Some(tablet) = next else { return false };
        self.pool.sync(tablet);
        true
    }

    /// Asks for a sync that covers everything appended to `tablet` so far. Never
    /// blocks; the tablet's listener is told of the result.
    pub fn request(&self, tablet: &Arc<LogTablet>) {
        if !tablet.schedule.want_sync() {
            if tablet.group_is_complete() {
                self.pool.tell_gathered();
            }
            return;
        }
        let spawn = {
            let mut queue = self.pool.queue.lock();
            if queue.stopping {
                return;
            }
            queue.tablets.push_back(Arc::clone(tablet));
            queue.tablets.len() > queue.idle_threads
        };
        self.pool.wake.notify_one();
        if spawn {
            self.spawn_if_allowed();
        }
    }

    /// Number of threads started so far.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        self.threads.lock().len()
    }

    fn spawn_if_allowed(&self) {
        let mut threads = self.threads.lock();
        if threads.len() >= self.max_threads {
            return;
        }
        let pool = Arc::clone(&self.pool);
        let name = format!("log-sync-{}", threads.len());
        match std::thread::Builder::new()
            .name(name)
            .spawn(move || pool.work())
        {
            Ok(thread) => threads.push(thread),
            // With a thread already there the work is done, only later.
            Err(error) if !threads.is_empty() => {
                tracing::warn!(%error, "cannot start another sync thread");
            }
            Err(error) => {
                drop(threads);
                tracing::error!(%error, "cannot start a sync thread, syncing in place");
                self.pool.work_until_empty();
            }
        }
    }
}

impl Drop for Syncer {
    /// Ends the threads after what is queued.
    fn drop(&mut self) {
        self.pool.queue.lock().stopping = true;
        self.pool.wake.notify_all();
        let here = std::thread::current().id();
        for thread in self.threads.get_mut().drain(..) {
            // A listener may hold the last reference for a moment: then this is
            // one of the threads, which cannot wait for itself.
            if thread.thread().id() != here {
                // A panic has been printed by its thread.
                let _ = thread.join();
            }
        }
    }
}

impl Pool {
    fn work(&self) {
        while let Some(tablet) = self.next() {
            self.gather(&tablet);
            self.sync(tablet);
        }
    }

    fn work_until_empty(&self) {
        loop {
            let next = self.queue.lock().tablets.pop_front();
            let Some(tablet) = next else { return };
            self.sync(tablet);
        }
    }

    fn next(&self) -> Option<Arc<LogTablet>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(tablet) = queue.tablets.pop_front() {
                return Some(tablet);
            }
            if queue.stopping {
                return None;
            }
            queue.idle_threads += 1;
            self.wake.wait(&mut queue);
            queue.idle_threads -= 1;
        }
    }

    /// Waits for as many appends as the last sync has covered.
    fn gather(&self, tablet: &LogTablet) {
        let last_sync = tablet.schedule.last_sync_us.load(Ordering::Relaxed);
        let limit = Duration::from_micros(u64::from(last_sync / GATHER_DIVISOR)).min(MAX_GATHER);
        if limit.is_zero() || tablet.last_group.load(Ordering::Relaxed) <= 1 {
            return;
        }
        if !self.queue.lock().tablets.is_empty() {
            return;
        }
        let mut gathering = self.gathering.lock();
        self.gathered
            .wait_while_for(&mut gathering, |()| !tablet.group_is_complete(), limit);
    }

    fn tell_gathered(&self) {
        // The lock is taken so that a thread that has just looked is waiting.
        drop(self.gathering.lock());
        self.gathered.notify_all();
    }

    fn sync(&self, tablet: Arc<LogTablet>) {
        let schedule = &tablet.schedule;
        schedule.state.store(RUNNING, Ordering::SeqCst);
        let started = self.clock.monotonic();
        // The listener has been told of an error, and the tablet refuses writes.
        if let Err(error) = tablet.sync(self.clock.now_ms()) {
            tracing::debug!(log = ?tablet.path(), %error, "sync ended with an error");
        }
        let took = self.clock.monotonic().saturating_sub(started).as_micros();
        schedule
            .last_sync_us
            .store(u32::try_from(took).unwrap_or(u32::MAX), Ordering::Relaxed);
        let (running, idle) = (RUNNING, IDLE);
        let finished =
            schedule
                .state
                .compare_exchange(running, idle, Ordering::SeqCst, Ordering::SeqCst);
        if finished.is_err() {
            // Asked again meanwhile. To the end of the queue, so that one busy
            // tablet does not keep the others waiting.
            schedule.state.store(QUEUED, Ordering::SeqCst);
            self.queue.lock().tablets.push_back(tablet);
            self.wake.notify_one();
        }
    }
}

impl SyncSchedule {
    /// Notes the wish for a sync. True if the tablet has to be queued for it.
    fn want_sync(&self) -> bool {
        let wanted = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(RUNNING_AGAIN),
            _ => None,
        };
        self.state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, wanted)
            == Ok(IDLE)
    }
}

impl LogTablet {
    fn group_is_complete(&self) -> bool {
        let last_group = self.last_group.load(Ordering::Relaxed);
        self.appends_since_sync.load(Ordering::Relaxed) >= last_group
    }
}

impl fmt::Debug for Syncer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Syncer")
            .field("max_threads", &self.max_threads)
            .finish()
    }
}
