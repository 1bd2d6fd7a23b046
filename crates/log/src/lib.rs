//! One log tablet: the log record batches of one bucket, on disk.
//!
//! * [`LogTablet`]: append, read, find, cut, delete, recover.
//! * [`Syncer`]: group commit; nothing waits for a timer.
//! * [`LogResources`]: what the tablets of a data directory share, bounded for
//!   all of them together.
//!
//! **Invariants**
//! * Offsets are dense and never given to different content: a batch begins
//!   where the one before ends, and what was shown or acknowledged is never cut.
//! * Nothing counts as durable before its bytes, and every directory entry on
//!   the way to them, were synced. A failed sync is never repeated as if it had
//!   worked: the tablet refuses writes until it is opened anew.
//! * After a crash at any operation, with any part of the unsynced changes lost,
//!   opening succeeds, shows a prefix of what was appended that contains all
//!   that was durable, and knows its idempotent writers as of that prefix.
//! * Acknowledged data is never dropped silently: when it is damaged the tablet
//!   is quarantined, readable as far as it goes.
//! * An empty bucket has no file, and takes less than 1 KiB of memory.
//!
//! The crate deliberately does not know the records in a batch, schemas, ISR and
//! high watermark, requests, or when a segment is copied elsewhere.

mod append;
mod batches;
mod bucket_dir;
mod checkpoint;
mod config;
mod cursor;
mod dir_registry;
mod durable_mark;
mod epochs;
mod error;
mod header_reader;
mod index_file;
mod read;
mod recovery;
mod resources;
mod retention;
mod scan;
mod segment;
mod sparse_index;
mod sync;
mod syncer;
mod tablet;
mod truncate;
mod verify;
mod writers;

pub use append::Appended;
pub use batches::CheckedBatches;
pub use checkpoint::CheckpointUsed;
pub use config::{Durability, LogConfig};
pub use cursor::{BatchCursor, BatchInLog};
pub use epochs::{EpochEnd, EpochStart, EpochTable};
pub use error::LogError;
pub use read::{FileRange, LogPart, LogSlice, ReadRequest};
pub use recovery::{Quarantine, RecoveryReport};
pub use resources::LogResources;
pub use retention::{Deleted, RetentionRule};
pub use syncer::Syncer;
pub use tablet::{DurabilityListener, LogTablet};
pub use verify::{DamagedRange, Verified};
pub use writers::{BATCHES_PER_WRITER, WriterStates, WrittenBatch};
