//! Threads that bring rows up to what is committed, where that may take a while:
//! those that sync logs are few, and all buckets need them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use tracing::error;

use crate::replica::Replica;

/// Enough that one bucket whose store stalls does not hold up the others.
const THREADS: usize = 4;

/// Replicas that wait for a thread.
const QUEUE_MAX: usize = 16_384;

/// See the module. The queue holds a replica once.
pub struct RowAppliers {
    queue: Option<SyncSender<Arc<Replica>>>,
}

impl RowAppliers {
    /// Starts the threads; they end with the last sender.
    pub fn new() -> Self {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..THREADS {
            let waiting = waiting.clone();
            let started = std::thread::Builder::new()
                .name(format!("apply-rows-{number}"))
                .spawn(move || run(&waiting));
            if let Err(error) = started {
                error!(%error, "no thread to apply rows with");
            }
        }
        Self { queue: Some(queue) }
    }

    /// Does everything on the thread of the caller, in a simulation.
    pub fn on_the_caller() -> Self {
        Self { queue: None }
    }

    /// Has the replica's rows brought up to what is committed, soon.
    pub fn apply(&self, replica: &Arc<Replica>) {
        let Some(queue) = &self.queue else {
            replica.apply_rows_waiting();
            return;
        };
        if replica.apply_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        if queue.try_send(replica.clone()).is_err() {
            // No thread could be started, or they are far behind.
            replica.apply_queued.store(false, Ordering::Release);
            replica.apply_rows_waiting();
        }
    }
}

fn run(waiting: &Mutex<Receiver<Arc<Replica>>>) {
    loop {
        let Ok(replica) = waiting.lock().recv() else {
            return;
        };
        // Before it looks at what is committed: what is committed later is told anew.
        replica.apply_queued.store(false, Ordering::Release);
        replica.apply_rows_waiting();
    }
}
