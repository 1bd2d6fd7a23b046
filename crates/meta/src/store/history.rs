//! Recent changes, kept so that watches can follow them.
//!
//! A watch is only a cursor into this history. It costs nothing while nobody
//! polls it and cannot hold the store back: one that falls too far behind is
//! told so and lists again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::Revision;
use crate::MetaError;

/// Bounds of the history. One drop of a table with 4,096 buckets must fit.
const MAX_EVENTS: usize = 16_384;
const MAX_BYTES: usize = 4 << 20;

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// The transaction that made it.
    pub revision: Revision,
    /// The key.
    pub key: String,
    /// Its value before; `None` = it was absent.
    pub old: Option<Bytes>,
    /// Its value now; `None` = it is gone.
    pub new: Option<Bytes>,
}

impl WatchEvent {
    fn bytes(&self) -> usize {
        let length = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
        self.key.len() + length(&self.old) + length(&self.new) + 96
    }
}

#[derive(Debug, Default)]
struct Events {
    events: VecDeque<WatchEvent>,
    bytes: usize,
    /// Every change after this revision is in `events`.
    complete_after: Revision,
    /// The newest revision.
    current: Revision,
}

/// The history of one store.
#[derive(Debug, Default)]
pub(super) struct History {
    events: Mutex<Events>,
    changed: Condvar,
}

impl History {
    /// An empty history of a store that is at `current`.
    pub(super) fn new(current: Revision) -> Self {
        let events = Events {
            current,
            complete_after: current,
            ..Events::default()
        };
        Self {
            events: Mutex::new(events),
            changed: Condvar::new(),
        }
    }

    /// Adds a committed transaction. Called in commit order.
    pub(super) fn publish(&self, revision: Revision, changes: Vec<WatchEvent>) {
        let mut events = self.events.lock();
        if revision.0 != events.current.0 + 1 {
            // The store was reopened after a failure and the outcome of the
            // transaction in between is not in the history.
            events.events.clear();
            events.bytes = 0;
            events.complete_after = Revision(revision.0 - 1);
        }
        events.current = revision;
        for change in changes {
            events.bytes += change.bytes();
            events.events.push_back(change);
        }
        while events.events.len() > MAX_EVENTS || events.bytes > MAX_BYTES {
            // A transaction is dropped whole: half of one is of no use.
            let Some(oldest) = events.events.front().map(|event| event.revision) else {
                break;
            };
            while events
                .events
                .front()
                .is_some_and(|event| event.revision == oldest)
            {
                let bytes = events.events.pop_front().map_or(0, |event| event.bytes());
                events.bytes -= bytes;
            }
            events.complete_after = oldest;
        }
        drop(events);
        self.changed.notify_all();
    }

    pub(super) fn watch(
        self: &Arc<Self>,
        prefix: &str,
        after: Revision,
    ) -> Result<Watch, MetaError> {
        let oldest = self.events.lock().complete_after;
        if after < oldest {
            return Err(MetaError::Compacted { oldest });
        }
        Ok(Watch {
            history: Arc::clone(self),
            prefix: prefix.to_owned(),
            after,
        })
    }
}

/// Follows the changes below a prefix, in order and without loss.
#[derive(Debug)]
pub struct Watch {
    history: Arc<History>,
    prefix: String,
    after: Revision,
}

impl Watch {
    /// The changes since the last call, whole transactions, oldest first. Waits
    /// up to `wait` for one; an empty answer means that none came.
    ///
    /// Fails with [`MetaError::Compacted`] if the watch was left alone for so
    /// long that changes are no longer kept.
    pub fn poll(&mut self, wait: Duration) -> Result<Vec<WatchEvent>, MetaError> {
        let deadline = Instant::now().checked_add(wait);
        let mut events = self.history.events.lock();
        loop {
            if self.after < events.complete_after {
                return Err(MetaError::Compacted {
                    oldest: events.complete_after,
                });
            }
            let start = events
                .events
                .partition_point(|event| event.revision <= self.after);
            let found: Vec<WatchEvent> = events
                .events
                .range(start..)
                .filter(|event| event.key.starts_with(&self.prefix))
                .cloned()
                .collect();
            self.after = self.after.max(events.current);
            if !found.is_empty() {
                return Ok(found);
            }
            let timed_out = match deadline {
                Some(deadline) => self
                    .history
                    .changed
                    .wait_until(&mut events, deadline)
                    .timed_out(),
                None => {
                    self.history.changed.wait(&mut events);
                    false
                }
            };
            if timed_out && self.after >= events.current {
                return Ok(Vec::new());
            }
        }
    }

    /// The revision up to which changes have been returned.
    pub fn revision(&self) -> Revision {
        self.after
    }
}
