//! The cases of behaviour.md §3, 5, 6, 7, 13, 14, crashes, and races.

mod admin;
mod alter;
mod auto_partitions;
mod crashes;
mod databases;
mod fixture;
mod golden;
mod metadata;
mod partitions;
mod scale;
mod sequences;
mod servers;
mod snapshots;
mod tables;
