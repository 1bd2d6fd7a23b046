//! The memory of the recent rows of all tablets, kept within its bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a generation from which on a larger one gains nothing: the places of
/// neighbouring keys are near each other in the buffer of a store by then.
const GENERATION_BYTES_MAX: usize = 6 << 20;
/// Of memory that is held for a generation, about this part is in use when it is full:
/// tables and lists grow by more than what they need at once.
const PART_USED: (usize, usize) = (2, 3);
/// Generations of a tablet.
const GENERATIONS: usize = 2;

/// What the tablets of a server may hold in all. They share it evenly.
#[derive(Debug)]
pub struct RecentBudget {
    bytes: usize,
    /// Bytes that are held, and by how many tablets.
    held: AtomicUsize,
    holders: AtomicUsize,
}

impl RecentBudget {
    /// So many bytes; with 0 every change goes to the store at once.
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            held: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
        }
    }

    /// Bytes that all tablets hold.
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// What one tablet holds.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<RecentBudget>,
    held: AtomicUsize,
}

impl Share {
    /// Nothing.
    pub fn new(budget: Arc<RecentBudget>) -> Self {
        Self {
            budget,
            held: AtomicUsize::new(0),
        }
    }

    /// Bytes that a generation of this tablet may come to. 0 if too much is held by
    /// all: tablets that were there before hold more than they may now, until their
    /// next write, or until they are found to be idle.
    pub fn generation_bytes(&self) -> usize {
        let budget = &*self.budget;
        if budget.held_bytes() > budget.bytes {
            return 0;
        }
        let others = match self.held.load(Ordering::Relaxed) {
            0 => budget.holders.load(Ordering::Relaxed),
            _ => budget.holders.load(Ordering::Relaxed).saturating_sub(1),
        };
        let (used, of) = PART_USED;
        (budget.bytes / GENERATIONS / (others + 1) / of * used).min(GENERATION_BYTES_MAX)
    }

    /// Whether the tablet holds no more than its part.
    pub fn is_fair(&self) -> bool {
        let holders = self.budget.holders.load(Ordering::Relaxed).max(1);
        self.held.load(Ordering::Relaxed) <= self.budget.bytes / holders
    }

    /// Takes note of what the tablet holds now. By whoever changes its rows, of whom
    /// there is one.
    pub fn hold(&self, bytes: usize) {
        let before = self.held.swap(bytes, Ordering::Relaxed);
        let budget = &*self.budget;
        budget.held.fetch_add(bytes, Ordering::Relaxed);
        budget.held.fetch_sub(before, Ordering::Relaxed);
        match (before, bytes) {
            (0, 1..) => drop(budget.holders.fetch_add(1, Ordering::Relaxed)),
            (1.., 0) => drop(budget.holders.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablets_share_evenly_and_none_gets_anything_while_too_much_is_held() {
        let budget = Arc::new(RecentBudget::new(1_200));
        let shares: Vec<Share> = (0..5).map(|_| Share::new(budget.clone())).collect();
        assert_eq!(shares[0].generation_bytes(), 400);
        shares[0].hold(900);
        assert_eq!(shares[0].generation_bytes(), 400);
        assert_eq!(shares[1].generation_bytes(), 200);
        shares[1].hold(400);
        assert_eq!(shares[1].generation_bytes(), 0);
        assert!(!shares[0].is_fair() && shares[1].is_fair());
        shares[0].hold(400);
        assert_eq!(shares[0].generation_bytes(), 200);
        assert_eq!(budget.held_bytes(), 800);
        drop(shares);
        assert_eq!(budget.held_bytes(), 0);
        assert_eq!(budget.holders.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_generation_does_not_grow_beyond_use() {
        let share = Share::new(Arc::new(RecentBudget::new(1 << 40)));
        assert_eq!(share.generation_bytes(), GENERATION_BYTES_MAX);
    }
}
