//! A tablet server over a simulated disk, called with encoded requests: no
//! sockets, no threads, and time that passes only when told to.

mod bodies;
mod call;
mod rows;
mod server;
mod tables;
mod world;

pub use bodies::{Fetch, FetchedBucket, ListOffsets, Produce, Produced};
pub use call::Call;
pub use rows::{Row, batch, read_rows, rows};
pub use server::{LOG_DIR, Server, disk, log_config};
pub use tables::{TableSpec, catalog, drop_partition, drop_table, put_partition, put_table};
pub use world::{Harm, World};
