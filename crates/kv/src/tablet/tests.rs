//! A tablet as its replica uses it: batches are worked out, appended to a changelog
//! in memory, committed, and the machine stops now and then.

mod arbitrary_rows;
mod auto_increment;
mod bucket;
mod changelog_full;
mod changelog_wal;
mod crash_points;
mod engines;
mod faulty_engine;
mod limits;
mod log;
mod model;
mod partial;
mod random_runs;
mod recent_rows;
mod recovery;
mod schema_change;
mod text;
