//! Partitions that come and go with time (tables.md §5.3, §5.4).
//!
//! A strategy is read from a table's options. It says which partitions to create
//! and to drop at a moment ([`AutoPartitionStrategy::plan`]) and whether a client
//! may create one ([`AutoPartitionStrategy::check_create`]). Nothing here reads a
//! clock: the moment is an argument.

mod plan;
mod time_format;
mod time_zone;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::{Datelike, Months, NaiveDateTime, TimeDelta};

use crate::TableError;
use crate::table_options::{
    AUTO_PARTITION_ENABLED, AUTO_PARTITION_KEY, AUTO_PARTITION_NUM_PRECREATE,
    AUTO_PARTITION_NUM_RETENTION, AUTO_PARTITION_TIME_FORMAT, AUTO_PARTITION_TIME_UNIT,
    AUTO_PARTITION_TIME_ZONE,
};

pub use plan::{MAX_JITTER_MINUTES, Plan};
pub use time_format::{TimeFormat, TimeValue};
pub use time_zone::TimeZone;

/// The time that one partition covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AutoPartitionUnit {
    Hour,
    Day,
    Month,
    Quarter,
    Year,
}

impl AutoPartitionUnit {
    /// Name in options and messages, upper case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
            Self::Quarter => "QUARTER",
            Self::Year => "YEAR",
        }
    }

    /// `steps` units after (or, negative, before) a moment, in the zone. `None`
    /// outside the years 1 to 9999, which have no fixed-width text.
    ///
    /// Hours are steps of the clock of the world, the others of the calendar: a
    /// day with 23 hours is one step long.
    pub(crate) fn step(self, now_ms: i64, steps: i64, zone: &TimeZone) -> Option<NaiveDateTime> {
        let months = |count: i64| {
            let local = zone.local(now_ms)?;
            let months = Months::new(u32::try_from(count.checked_mul(steps)?.unsigned_abs()).ok()?);
            if steps < 0 {
                local.checked_sub_months(months)
            } else {
                local.checked_add_months(months)
            }
        };
        let moved = match self {
            Self::Hour => zone.local(now_ms.checked_add(steps.checked_mul(3_600_000)?)?),
            Self::Day => zone
                .local(now_ms)?
                .checked_add_signed(TimeDelta::try_days(steps)?),
            Self::Month => months(1),
            Self::Quarter => months(3),
            Self::Year => months(12),
        };
        moved.filter(|moved| (1..=9999).contains(&moved.year()))
    }
}

impl FromStr for AutoPartitionUnit {
    type Err = String;

    /// Reads a unit in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        [
            Self::Hour,
            Self::Day,
            Self::Month,
            Self::Quarter,
            Self::Year,
        ]
        .into_iter()
        .find(|unit| unit.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("'{text}' is not one of HOUR, DAY, MONTH, QUARTER, YEAR"))
    }
}

impl fmt::Display for AutoPartitionUnit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How the partitions of a table follow time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoPartitionStrategy {
    /// Whether partitions are created and dropped, and too old ones refused.
    pub enabled: bool,
    /// Position of the time key among the partition keys.
    pub key_index: usize,
    /// How many partition keys there are.
    pub key_count: usize,
    /// Time that one partition covers.
    pub unit: AutoPartitionUnit,
    /// Form of the time key's values.
    pub format: TimeFormat,
    /// Whether the form was given, so that it holds even when not `enabled`.
    pub has_explicit_format: bool,
    /// Zone in which time is told.
    pub zone: TimeZone,
    /// Partitions kept ahead, the current one included.
    pub precreate: i32,
    /// Past partitions kept besides the current one; negative = all.
    pub retention: i32,
}

impl AutoPartitionStrategy {
    /// Reads the `table.auto-partition.*` options of a partitioned table.
    ///
    /// # Errors
    /// The code that createTable has for the option (tables.md §1.7).
    pub fn from_properties(
        partition_keys: &[String],
        properties: &BTreeMap<String, String>,
    ) -> Result<Self, TableError> {
        let option =
            |result: Result<Option<i32>, TableError>| result.map(Option::unwrap_or_default);
        let unit = AUTO_PARTITION_TIME_UNIT
            .read(properties)?
            .unwrap_or(AutoPartitionUnit::Day);
        let pattern = properties.get(AUTO_PARTITION_TIME_FORMAT.key);
        let format = match pattern {
            None => TimeFormat::of_unit(unit),
            Some(pattern) => TimeFormat::parse(unit, pattern).map_err(|reason| {
                TableError::invalid_table(format!(
                    "Invalid table property '{}': {reason}",
                    AUTO_PARTITION_TIME_FORMAT.key
                ))
            })?,
        };
        let key_index = match properties.get(AUTO_PARTITION_KEY.key) {
            None => 0,
            Some(key) => partition_keys
                .iter()
                .position(|known| known == key)
                .ok_or_else(|| {
                    TableError::invalid_table(format!(
                        "The auto partition key '{key}' is not a partition key."
                    ))
                })?,
        };
        Ok(Self {
            enabled: AUTO_PARTITION_ENABLED.read(properties)?.unwrap_or(false),
            key_index,
            key_count: partition_keys.len(),
            unit,
            format,
            has_explicit_format: pattern.is_some(),
            zone: match properties.get(AUTO_PARTITION_TIME_ZONE.key) {
                None => TimeZone::Local,
                Some(id) => TimeZone::parse(id),
            },
            precreate: option(AUTO_PARTITION_NUM_PRECREATE.read(properties))?,
            retention: option(AUTO_PARTITION_NUM_RETENTION.read(properties))?,
        })
    }

    /// The value of the time key `steps` units from now, if it has a text.
    fn value_at(&self, now_ms: i64, steps: i64) -> Option<String> {
        self.unit
            .step(now_ms, steps, &self.zone)
            .map(|local| self.format.format(&local))
    }
}

#[cfg(test)]
mod tests;
