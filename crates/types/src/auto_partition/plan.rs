//! Which partitions to create, to drop and to refuse.

use std::collections::BTreeSet;

use super::{AutoPartitionStrategy, AutoPartitionUnit};
use crate::partition::{HISTORICAL_PARTITION, values_of_name};
use crate::{ErrorCode, TableError};

/// The longest random delay of a DAY table's next partition. Less than a day by
/// 61 minutes, so that the partition of a day exists before that day ends.
pub const MAX_JITTER_MINUTES: u32 = 1_379;

/// What one round does to one table. Drops come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Names of partitions to drop, in the order given.
    pub drop: Vec<String>,
    /// Names of partitions to create, oldest first.
    pub create: Vec<String>,
    /// Whether more would be created if the table could have more partitions.
    pub limited: bool,
}

impl AutoPartitionStrategy {
    /// What to do at a moment.
    ///
    /// `existing` are the names of all partitions, the hidden one included.
    /// `jitter_minutes` (0 to [`MAX_JITTER_MINUTES`], constant per table) delays
    /// the creation of days, unless the round is `forced` by a change of the
    /// table. At most `max_partitions` exist afterwards, unless more do already.
    pub fn plan<S: AsRef<str>>(
        &self,
        existing: &[S],
        now_ms: i64,
        jitter_minutes: u32,
        forced: bool,
        max_partitions: usize,
    ) -> Plan {
        let mut plan = Plan::default();
        if !self.enabled {
            return plan;
        }
        let earliest = self.earliest(now_ms);
        let mut kept = BTreeSet::new();
        for name in existing.iter().map(AsRef::as_ref) {
            if earliest
                .as_ref()
                .is_some_and(|earliest| self.is_older(name, earliest))
            {
                plan.drop.push(name.to_owned());
            } else {
                kept.insert(name);
            }
        }
        // With further keys nobody knows which values of them to create.
        if self.key_count == 1 {
            let delay_ms = if self.unit == AutoPartitionUnit::Day && !forced {
                i64::from(jitter_minutes.min(MAX_JITTER_MINUTES)) * 60_000
            } else {
                0
            };
            let from_ms = now_ms.saturating_sub(delay_ms);
            self.plan_creation(
                &mut plan,
                &kept,
                from_ms,
                earliest.as_deref(),
                max_partitions,
            );
        }
        plan
    }

    fn plan_creation(
        &self,
        plan: &mut Plan,
        kept: &BTreeSet<&str>,
        from_ms: i64,
        earliest: Option<&str>,
        max_partitions: usize,
    ) {
        for step in 0..i64::from(self.precreate) {
            let Some(value) = self.value_at(from_ms, step) else {
                return;
            };
            // The hour that summer time repeats has one name. And what the delay
            // reaches back to must not be what the next round drops.
            if kept.contains(value.as_str())
                || plan.create.last() == Some(&value)
                || earliest.is_some_and(|earliest| value.as_str() < earliest)
            {
                continue;
            }
            if kept.len() + plan.create.len() >= max_partitions {
                plan.limited = true;
                return;
            }
            plan.create.push(value);
        }
    }

    /// Whether a client may create a partition with this value of the time key
    /// (tables.md §5.3).
    ///
    /// # Errors
    /// [`ErrorCode::PartitionSpecInvalid`] if the value does not have the form of
    /// the table, or is older than what is kept.
    pub fn check_create(&self, value: &str, now_ms: i64) -> Result<(), TableError> {
        if !self.enabled && !self.has_explicit_format {
            return Ok(());
        }
        if self.format.parse_value(value).is_none() {
            return Err(TableError::new(
                ErrorCode::PartitionSpecInvalid,
                format!(
                    "Partition value '{value}' does not match the expected format '{}' for \
                     auto-partition time unit '{}'.",
                    self.format.pattern(),
                    self.unit
                ),
            ));
        }
        match self.earliest(now_ms) {
            Some(earliest) if self.enabled && value < earliest.as_str() => Err(TableError::new(
                ErrorCode::PartitionSpecInvalid,
                format!(
                    "Partition value '{value}' is out-of-date. The earliest retained partition is \
                     '{earliest}'."
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether a value tells a time before the current unit. What does not have
    /// the form of the table tells none.
    pub fn is_past(&self, value: &str, now_ms: i64) -> bool {
        self.format.parse_value(value).is_some()
            && self
                .value_at(now_ms, 0)
                .is_some_and(|current| value < current.as_str())
    }

    /// The oldest value that is kept; `None` = there is no limit.
    fn earliest(&self, now_ms: i64) -> Option<String> {
        if self.retention < 0 {
            return None;
        }
        self.value_at(now_ms, -i64::from(self.retention))
    }

    fn is_older(&self, name: &str, earliest: &str) -> bool {
        let value = values_of_name(name).nth(self.key_index);
        value.is_some_and(|value| value != HISTORICAL_PARTITION && value < earliest)
    }
}
