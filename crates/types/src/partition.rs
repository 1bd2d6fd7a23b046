//! Partitions of a table: their keys, values and names (tables.md §5.1, §5.2).
//!
//! A partition name is its values, joined with `$` in the order of the partition
//! keys; its qualified form `k1=v1/k2=v2` is for messages. Values are texts, and
//! clients choose them: nothing here normalises one.

mod value;

use std::collections::HashMap;
use std::fmt;

use crate::names::{Reserved, invalid_name_reason, reserved_name_reason};
use crate::{ErrorCode, TableError, TablePath};

pub use value::PartitionValue;

/// The hidden partition for expired data.
pub const HISTORICAL_PARTITION: &str = "__historical__";

/// Joins values in names; illegal inside a value.
pub const NAME_SEPARATOR: char = '$';

/// The values of a partition name, in the order of the partition keys.
pub fn values_of_name(name: &str) -> impl Iterator<Item = &str> {
    name.split(NAME_SEPARATOR)
}

/// Keys and values as a client sent them: of one partition, or of several that
/// have these values in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionSpec {
    entries: Vec<(String, String)>,
}

impl PartitionSpec {
    /// Takes entries in their order. A repeated key counts once; its last value
    /// wins.
    pub fn new<K: Into<String>, V: Into<String>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let mut spec = Self::default();
        // A client may send as many entries as fit a frame, so no search per entry.
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (key, value) in entries {
            let (key, value) = (key.into(), value.into());
            match positions.get(&key) {
                Some(&position) => spec.entries[position].1 = value,
                None => {
                    positions.insert(key.clone(), spec.entries.len());
                    spec.entries.push((key, value));
                }
            }
        }
        spec
    }

    /// Keys and values, each key once.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value)
    }

    /// The partition that this names in a table with these partition keys. Values
    /// are checked by [`Partition::check_values`].
    ///
    /// # Errors
    /// [`ErrorCode::PartitionSpecInvalid`] if the keys are not exactly those.
    pub fn resolve(
        &self,
        partition_keys: &[String],
        table: &TablePath,
    ) -> Result<Partition, TableError> {
        if self.entries.len() != partition_keys.len() {
            return Err(invalid(format!(
                "PartitionSpec size is not equal to partition keys size for partitioned table {table}."
            )));
        }
        let values = partition_keys
            .iter()
            .map(|key| {
                self.get(key).map(str::to_owned).ok_or_else(|| {
                    invalid(format!(
                        "PartitionSpec {self} does not contain partition key '{key}' for \
                         partitioned table {table}."
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Partition {
            keys: partition_keys.to_vec(),
            values,
        })
    }

    /// Checks that this can filter the partitions of a table with these keys.
    /// Values are not checked: an impossible one matches nothing.
    ///
    /// # Errors
    /// [`ErrorCode::PartitionSpecInvalid`] if a key is not a partition key.
    pub fn check_filter(
        &self,
        partition_keys: &[String],
        table: &TablePath,
    ) -> Result<(), TableError> {
        match self
            .entries()
            .find(|(key, _)| !partition_keys.iter().any(|known| known == key))
        {
            None => Ok(()),
            Some((key, _)) => {
                let key = shortened(key);
                Err(invalid(format!(
                    "table {table} don't contains this partitionKey: {key}"
                )))
            }
        }
    }

    /// Whether a partition, by its name, has all of these values.
    pub fn matches(&self, partition_keys: &[String], name: &str) -> bool {
        self.entries().all(|(key, wanted)| {
            let position = partition_keys.iter().position(|known| known == key);
            position.is_some_and(|index| values_of_name(name).nth(index) == Some(wanted))
        })
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("{")?;
        // Messages stay short whatever a client sends.
        for (index, (key, value)) in self.entries().take(10).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{}={}", shortened(key), shortened(value))?;
        }
        formatter.write_str("}")
    }
}

/// One partition of a table: a value for each of its partition keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    keys: Vec<String>,
    values: Vec<String>,
}

impl Partition {
    /// The partition of a name; `None` if it has not one value per key.
    pub fn from_name(partition_keys: &[String], name: &str) -> Option<Self> {
        // Counted before anything is copied.
        if values_of_name(name).count() != partition_keys.len() {
            return None;
        }
        let values = values_of_name(name).map(str::to_owned).collect();
        Some(Self {
            keys: partition_keys.to_vec(),
            values,
        })
    }

    /// Values in the order of the keys.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Checks the characters and length of each value; with `creating`, also that
    /// none is reserved. Values need not fit the type of their column.
    ///
    /// # Errors
    /// [`ErrorCode::PartitionSpecInvalid`].
    pub fn check_values(&self, creating: bool) -> Result<(), TableError> {
        for value in &self.values {
            let reason = invalid_name_reason(value).or_else(|| {
                if creating {
                    reserved_name_reason(value, Reserved::Partitions)
                } else {
                    None
                }
            });
            if let Some(reason) = reason {
                let value = shortened(value);
                return Err(invalid(format!(
                    "The partition value {value} is invalid: {reason}"
                )));
            }
        }
        Ok(())
    }

    /// The values joined with `$`.
    pub fn name(&self) -> String {
        self.values.join("$")
    }

    /// `k1=v1/k2=v2`, for messages.
    pub fn qualified(&self) -> String {
        let parts: Vec<String> = self
            .keys
            .iter()
            .zip(&self.values)
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        parts.join("/")
    }

    /// The error for creating this when it exists.
    pub fn already_exists(&self, table: &TablePath) -> TableError {
        TableError::new(
            ErrorCode::PartitionAlreadyExists,
            format!(
                "Partition '{}' already exists for table {table}",
                self.qualified()
            ),
        )
    }

    /// The error for dropping this when it does not exist.
    pub fn does_not_exist(&self, table: &TablePath) -> TableError {
        TableError::new(
            ErrorCode::PartitionNotExists,
            format!(
                "Partition '{}' does not exist for table {table}",
                self.qualified()
            ),
        )
    }
}

/// Checks that a table with `existing` partitions, the hidden one included, may
/// have one more.
///
/// # Errors
/// [`ErrorCode::PartitionMaxNum`].
pub fn check_partition_count(
    existing: usize,
    max_partitions: usize,
    table: &TablePath,
) -> Result<(), TableError> {
    if existing < max_partitions {
        return Ok(());
    }
    Err(TableError::new(
        ErrorCode::PartitionMaxNum,
        format!(
            "Exceed the maximum number of partitions for table {table}, only allow {max_partitions} \
             partitions."
        ),
    ))
}

fn invalid(message: String) -> TableError {
    TableError::new(ErrorCode::PartitionSpecInvalid, message)
}

/// A text from a client as it may appear in a message.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(201) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
