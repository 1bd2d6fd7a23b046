//! Whether the disk has room for writes (`server.data-disk.*`, cluster.md §8.1).

use std::sync::atomic::{AtomicBool, Ordering};

/// Refuses writes above a ratio of used space until it falls below another.
#[derive(Debug)]
pub struct DiskGuard {
    write_limit_ratio: f64,
    write_recover_ratio: f64,
    locked: AtomicBool,
}

impl DiskGuard {
    /// A guard that is open. A limit of 1.0 or more switches it off.
    pub fn new(write_limit_ratio: f64, write_recover_ratio: f64) -> Self {
        Self {
            write_limit_ratio,
            write_recover_ratio,
            locked: AtomicBool::new(false),
        }
    }

    /// Takes note of the used ratio; true if the state changed.
    pub fn observe(&self, used_ratio: f64) -> bool {
        if self.write_limit_ratio >= 1.0 {
            return false;
        }
        let was_locked = self.is_locked();
        let locked = if was_locked {
            used_ratio > self.write_recover_ratio
        } else {
            used_ratio >= self.write_limit_ratio
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
