//! The tablet server over a simulated disk: what it may promise, and keeps.

mod acknowledging;
mod common;
mod crashing;
mod dropping;
mod failing;
mod fetching;
mod keyed_acknowledging;
mod keyed_dropping;
mod keyed_racing;
mod keyed_waiting;
mod racing;
mod refusing;
mod retaining;
