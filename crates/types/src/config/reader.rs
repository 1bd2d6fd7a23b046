//! Typed access to entries, with the defaults of the option table.

use std::time::Duration;

use crate::config::{ConfigError, Entries};
use crate::server_options::{self, ServerOption};
use crate::{duration, memory_size};

/// Reads values by key. Asking for a key that is not in the table is a bug.
pub(super) struct Reader<'a> {
    pub(super) entries: &'a Entries,
}

impl<'a> Reader<'a> {
    /// Checks the form of every value whose option is known, whether or not this
    /// server uses it: a slip of the hand should not wait for the day it matters.
    pub(super) fn check_forms(&self) -> Result<(), ConfigError> {
        for (key, value) in self.entries.iter() {
            if let Some(option) = server_options::find(key) {
                option
                    .kind
                    .check(value)
                    .map_err(|problem| malformed(option, problem))?;
            }
        }
        Ok(())
    }

    /// The value as set or by default.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.entries.get(key).or(option(key).default)
    }

    /// The value of a key that always has one.
    pub(super) fn required(&self, key: &str) -> &'a str {
        self.text(key)
            .unwrap_or_else(|| panic!("option {key} has no default"))
    }

    pub(super) fn int(&self, key: &str, least: i32) -> Result<i32, ConfigError> {
        let number = self.parse(key, |value| {
            server_options::parse_number::<i32>(value, "an integer")
        })?;
        if number < least {
            Err(too_small(key, number, least))
        } else {
            Ok(number)
        }
    }

    pub(super) fn double(&self, key: &str) -> Result<f64, ConfigError> {
        self.parse(key, server_options::parse_double)
    }

    pub(super) fn bool(&self, key: &str) -> Result<bool, ConfigError> {
        self.parse(key, server_options::parse_bool)
    }

    pub(super) fn memory(&self, key: &str, least: u64, most: u64) -> Result<u64, ConfigError> {
        let bytes = self.parse(key, memory_size::parse)?;
        if bytes < least {
            Err(too_small(
                key,
                memory_size::format(bytes),
                memory_size::format(least),
            ))
        } else if bytes > most {
            let problem = format!("{bytes} bytes are too many");
            Err(ConfigError::invalid(
                key,
                problem,
                format!("set it to at most {most} bytes"),
            ))
        } else {
            Ok(bytes)
        }
    }

    pub(super) fn duration(&self, key: &str) -> Result<Duration, ConfigError> {
        self.parse(key, duration::parse)
    }

    /// A duration of at least 1 ms: the period of something that repeats.
    pub(super) fn period(&self, key: &str) -> Result<Duration, ConfigError> {
        let period = self.duration(key)?;
        if period < Duration::from_millis(1) {
            return Err(too_small(key, duration::format(period), "1ms"));
        }
        Ok(period)
    }

    fn parse<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        parse(self.required(key)).map_err(|problem| malformed(option(key), problem))
    }
}

fn option(key: &str) -> &'static ServerOption {
    server_options::find(key).unwrap_or_else(|| panic!("option {key} is not in the table"))
}

fn malformed(option: &ServerOption, problem: String) -> ConfigError {
    let advice = match option.default {
        Some(default) if !default.is_empty() => {
            format!("correct it, or leave it out for the default {default}")
        }
        _ => "correct it or leave it out".to_owned(),
    };
    ConfigError::invalid(option.key, problem, advice)
}

fn too_small(
    key: &str,
    value: impl std::fmt::Display,
    least: impl std::fmt::Display,
) -> ConfigError {
    ConfigError::invalid(
        key,
        format!("{value} is too small"),
        format!("set it to {least} or more"),
    )
}
