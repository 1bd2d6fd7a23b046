//! Whether the disk has room for writes (`server.data-disk.*`, cluster.md §8.1).

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Refuses writes above a ratio of used space until it falls below another.
#[derive(Debug)]
pub struct DiskGuard {
    ratios: Mutex<Ratios>,
    locked: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Ratios {
    write_limit: f64,
    write_recover: f64,
}

impl DiskGuard {
    /// A guard that is open. A limit of 1.0 or more switches it off.
    pub fn new(write_limit: f64, write_recover: f64) -> Self {
        let ratios = Mutex::new(Ratios {
            write_limit,
            write_recover,
        });
        Self {
            ratios,
            locked: AtomicBool::new(false),
        }
    }

    /// Changes the ratios; the next observation acts by them.
    pub fn set_ratios(&self, write_limit: f64, write_recover: f64) {
        *self.ratios.lock() = Ratios {
            write_limit,
            write_recover,
        };
    }

    /// Takes note of the used ratio; true if the state changed.
    pub fn observe(&self, used_ratio: f64) -> bool {
        let ratios = *self.ratios.lock();
        let was_locked = self.is_locked();
        let locked = if ratios.write_limit >= 1.0 {
            false
        } else if was_locked {
            used_ratio > ratios.write_recover
        } else {
            used_ratio >= ratios.write_limit
        };
        self.locked.store(locked, Ordering::Relaxed);
        locked != was_locked
    }

    /// Whether writes are refused now.
    pub fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_stop_at_the_limit_and_resume_below_the_recover_ratio() {
        let guard = DiskGuard::new(0.85, 0.80);
        assert!(!guard.observe(0.84));
        assert!(guard.observe(0.85));
        assert!(guard.is_locked());
        assert!(!guard.observe(0.81));
        assert!(guard.is_locked());
        assert!(guard.observe(0.80));
        assert!(!guard.is_locked());
    }

    #[test]
    fn a_limit_of_one_switches_it_off() {
        let guard = DiskGuard::new(1.0, 0.9);
        assert!(!guard.observe(1.0));
        assert!(!guard.is_locked());
    }
}
