//! One ProduceLog request that waits until its appends are committed.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How an append ended for its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The high watermark passed it.
    Yes,
    /// This replica stopped leading (12).
    LostLeadership,
    /// The bytes could not be made durable (10).
    StorageFailed,
}

/// Collects the outcomes of a request's appends; each replica holds a clone with
/// the position of its entry.
#[derive(Debug)]
pub struct ProduceWait {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    outcomes: Vec<Option<Committed>>,
    open: usize,
    finished: Option<oneshot::Sender<()>>,
}

impl ProduceWait {
    /// Waits for as many outcomes as entries are marked `true`; the others are
    /// settled already. The receiver fires when none is open.
    pub fn new(waits: &[bool]) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let outcomes: Vec<Option<Committed>> = waits
            .iter()
            .map(|wait| (!wait).then_some(Committed::Yes))
            .collect();
        let open = waits.iter().filter(|wait| **wait).count();
        let mut finished = Some(sender);
        if open == 0
            && let Some(sender) = finished.take()
        {
            // The receiver is in this very call's result.
            let _ = sender.send(());
        }
        (
            Arc::new(Self {
                state: Mutex::new(State {
                    outcomes,
                    open,
                    finished,
                }),
            }),
            receiver,
        )
    }

    /// Settles one entry; later outcomes of the same entry are ignored.
    pub fn settle(&self, entry: usize, outcome: Committed) {
        let mut state = self.state.lock();
        if state.outcomes[entry].replace(outcome).is_none() {
            state.open -= 1;
            if state.open == 0
                && let Some(sender) = state.finished.take()
            {
                // The request may be gone (time-out, closed connection).
                let _ = sender.send(());
            }
        }
    }

    /// The outcomes so far; `None` = still open.
    pub fn outcomes(&self) -> Vec<Option<Committed>> {
        self.state.lock().outcomes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_finished_when_its_last_open_entry_is_settled() {
        let (wait, mut receiver) = ProduceWait::new(&[true, false, true]);
        wait.settle(0, Committed::Yes);
        wait.settle(0, Committed::LostLeadership);
        assert!(receiver.try_recv().is_err());
        wait.settle(2, Committed::StorageFailed);
        assert!(receiver.try_recv().is_ok());
        let outcomes = wait.outcomes();
        assert_eq!(outcomes[1], Some(Committed::Yes));
        assert_eq!(outcomes[2], Some(Committed::StorageFailed));
    }

    #[test]
    fn a_request_without_open_entries_is_finished_at_once() {
        let (_, mut receiver) = ProduceWait::new(&[false]);
        assert!(receiver.try_recv().is_ok());
    }
}
