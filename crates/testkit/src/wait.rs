//! Waiting for conditions.

use std::time::{Duration, Instant};

/// How long a test waits for what must come at once. Generous, since a loaded
/// machine is no failure of the server; nothing waits so long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(2);

/// Asks until there is a value.
///
/// # Panics
/// After [`PATIENCE`], with what was waited for.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ask() {
            return value;
        }
        assert!(
            Instant::now() < deadline,
            "waited {PATIENCE:?} in vain for {what}"
        );
        std::thread::park_timeout(PAUSE);
    }
}
