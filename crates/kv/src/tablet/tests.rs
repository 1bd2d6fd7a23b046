//! A tablet as its replica uses it: batches are worked out, appended to a changelog
//! in memory, committed, and the machine stops now and then.

mod auto_increment;
mod bucket;
mod changelog_full;
mod changelog_wal;
mod engines;
mod log;
mod partial;
mod schema_change;
mod text;
