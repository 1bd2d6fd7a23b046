//! Configuration of a server: the flat file, overrides, the typed values that a
//! server starts with, and changes at run time (cluster.md §9, §3.10).
//!
//! The way of a setting: [`parse_server_yaml`] reads the file into [`Entries`],
//! `-D` options are put over it with [`Entries::set_override`], markers of
//! configuration providers are replaced by [`Entries::resolve_markers`], and
//! [`ServerConfig::from_entries`] checks everything before anything is opened.
//! Later [`DynamicConfig`] merges changes and yields new entries, from which the
//! same function makes the new typed values.

mod dynamic;
mod entries;
mod error;
mod marker;
mod notices;
mod reader;
mod sasl;
mod server_config;
mod server_yaml;

pub use dynamic::{ConfigChange, ConfigSource, DescribedConfig, DynamicConfig, DynamicEntries};
pub use entries::Entries;
pub use error::ConfigError;
pub use marker::Marker;
pub use notices::{Notice, Severity};
pub use server_config::{
    DiskConfig, Durability, LakeConfig, LogConfig, LogLineFormat, LoggingConfig, NetConfig,
    ServerConfig, SidePort, TableLimits, WriterStateConfig,
};
pub use server_yaml::{ParsedFile, parse_server_yaml};
