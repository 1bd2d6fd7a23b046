//! The outside world as small traits: clocks, randomness and files, each real
//! and simulated.
//!
//! * [`Clock`]: wall and monotonic time; [`SystemClock`], [`ManualClock`].
//! * [`FileSystem`], [`StorageFile`]: what the durable parts of a server need
//!   from a disk; [`RealFileSystem`], and [`SimFileSystem`], which knows what
//!   was synced and what was not.
//! * [`HandleCache`]: a bounded number of open read handles.
//! * [`SeededRng`]: reproducible randomness for simulation and tests.
//!
//! **Invariants**
//! * Nothing here promises more than POSIX does: written bytes are durable
//!   after [`StorageFile::sync_data`], directory entries after
//!   [`FileSystem::sync_dir`], and after a failed sync nothing is known.
//! * The simulated disk never keeps *less* than what a successful sync covered,
//!   and may keep any part of the rest.
//!
//! This crate deliberately does not know what the files contain.

mod clock;
mod file_system;
mod handle_cache;
mod real;
mod seeded_rng;
mod sim;

pub use clock::{Clock, ManualClock, SystemClock};
pub use file_system::{DirEntry, FileSystem, OpenMode, StorageFile, is_disk_full};
pub use handle_cache::HandleCache;
pub use real::RealFileSystem;
pub use seeded_rng::SeededRng;
pub use sim::{Fault, Operation, SimFileSystem, Survival};
