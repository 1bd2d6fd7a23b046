//! A tablet server over a simulated disk, called with encoded requests: no
//! sockets, no threads, and time that passes only when told to.

mod bodies;
mod call;
pub mod keyed;
mod keyed_ledger;
mod log_ledger;
mod rows;
mod server;
mod slow_disk;
mod tables;
mod world;

pub use bodies::{Fetch, FetchedBucket, LimitScan, ListOffsets, Produce};
pub use call::Call;
pub use keyed_ledger::KeyedLedger;
pub use log_ledger::LogLedger;
pub use rows::{Row, batch, read_rows, rows};
pub use server::{LOG_DIR, Server, Threaded, disk, log_config, request, runtime, session};
pub use slow_disk::SlowDisk;
pub use tables::{
    TableSpec, catalog, drop_partition, drop_table, lose_leader, put_partition, put_table, schema,
};
pub use world::{Harm, Ledger, World};
