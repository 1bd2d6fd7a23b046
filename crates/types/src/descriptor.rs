//! Descriptors of tables and databases (tables.md §1.3, §1.5, formats.md §8.2).

mod database;
mod json;
mod options;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use crate::schema::name_set;
use crate::{DescriptorError, Schema};

pub use database::DatabaseDescriptor;

/// What a table is: the document that clients send to create it and get back.
///
/// One that was read, or that [`TableDescriptor::checked`] returned, keeps the
/// construction rules of tables.md §1.5. Whether a *cluster* takes it is another
/// matter: see [`validation`](crate::validation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescriptor {
    /// Current schema.
    pub schema: Schema,
    /// Comment.
    pub comment: Option<String>,
    /// Names of partition columns; empty = not partitioned.
    pub partition_keys: Vec<String>,
    /// Names of bucket columns; empty = the writer chooses.
    pub bucket_keys: Vec<String>,
    /// Buckets of the table, or of each new partition.
    pub bucket_count: Option<i32>,
    /// `table.*` options.
    pub properties: BTreeMap<String, String>,
    /// Everything else, returned verbatim.
    pub custom_properties: BTreeMap<String, String>,
}

impl TableDescriptor {
    /// A table of that schema without partitions, bucket key and options.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            comment: None,
            partition_keys: Vec::new(),
            bucket_keys: Vec::new(),
            bucket_count: None,
            properties: BTreeMap::new(),
            custom_properties: BTreeMap::new(),
        }
    }

    /// Sets the comment.
    #[must_use]
    pub fn with_comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    /// Sets the partition columns.
    #[must_use]
    pub fn partitioned_by<N: Into<String>>(mut self, keys: impl IntoIterator<Item = N>) -> Self {
        self.partition_keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the bucket count and the bucket columns.
    #[must_use]
    pub fn distributed_by<N: Into<String>>(
        mut self,
        bucket_count: i32,
        keys: impl IntoIterator<Item = N>,
    ) -> Self {
        self.bucket_count = Some(bucket_count);
        self.bucket_keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a `table.*` option.
    #[must_use]
    pub fn with_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    /// Sets another property.
    #[must_use]
    pub fn with_custom_property(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.custom_properties.insert(key.into(), value.into());
        self
    }

    /// Whether the table has a primary key.
    pub fn has_primary_key(&self) -> bool {
        self.schema.has_primary_key()
    }

    /// Whether the table has partitions.
    pub fn is_partitioned(&self) -> bool {
        !self.partition_keys.is_empty()
    }

    /// The primary key without partition columns, in the order of the primary
    /// key: what identifies a row within a partition.
    pub fn physical_primary_key(&self) -> Vec<&str> {
        let partition_keys = name_set(&self.partition_keys);
        let keys = self.schema.primary_key.iter().map(String::as_str);
        keys.filter(|key| !partition_keys.contains(key)).collect()
    }

    /// Whether buckets are chosen as they are without an explicit bucket key: by
    /// the physical primary key, or freely by writers of a log table.
    pub fn has_default_bucket_key(&self) -> bool {
        if self.has_primary_key() {
            self.bucket_keys == self.physical_primary_key()
        } else {
            self.bucket_keys.is_empty()
        }
    }

    /// Applies the rules that hold for every table, and gives a primary-key table
    /// without a bucket key its default one.
    ///
    /// # Errors
    /// A rule of tables.md §1.5 does not hold.
    pub fn checked(mut self) -> Result<Self, DescriptorError> {
        self.check_partition_keys()?;
        if self.has_primary_key() && self.bucket_keys.is_empty() {
            let keys = self.physical_primary_key();
            self.bucket_keys = keys.into_iter().map(str::to_owned).collect();
        }
        self.check_bucket_keys()?;
        Ok(self)
    }

    fn check_partition_keys(&self) -> Result<(), DescriptorError> {
        let primary_key = &self.schema.primary_key;
        if self.has_primary_key() {
            if !name_set(&self.partition_keys).is_subset(&name_set(primary_key)) {
                return Err(DescriptorError::new(format!(
                    "Partitioned Primary Key Table requires partition key [{}] is a subset of the primary key [{}].",
                    self.partition_keys.join(", "),
                    primary_key.join(", ")
                )));
            }
            if self.physical_primary_key().is_empty() {
                return Err(DescriptorError::new(format!(
                    "Primary Key constraint [{}] should not be same with partition fields [{}].",
                    primary_key.join(", "),
                    self.partition_keys.join(", ")
                )));
            }
        } else if let Some(key) = self.missing_column(&self.partition_keys) {
            return Err(DescriptorError::new(format!(
                "Partition key '{key}' does not exist in the schema."
            )));
        }
        check_distinct("Partition key", &self.partition_keys)
    }

    fn check_bucket_keys(&self) -> Result<(), DescriptorError> {
        let bucket_keys = &self.bucket_keys;
        if let Some(key) = self.missing_column(bucket_keys) {
            return Err(DescriptorError::new(format!(
                "Bucket key '{key}' does not exist in the schema."
            )));
        }
        if !name_set(bucket_keys).is_disjoint(&name_set(&self.partition_keys)) {
            return Err(DescriptorError::new(format!(
                "Bucket key [{}] shouldn't include any column in partition keys [{}].",
                bucket_keys.join(", "),
                self.partition_keys.join(", ")
            )));
        }
        if self.has_primary_key() {
            let physical = self.physical_primary_key().into_iter().collect();
            if !name_set(bucket_keys).is_subset(&physical) {
                return Err(DescriptorError::new(format!(
                    "Bucket keys must be a subset of primary keys excluding partition keys for primary-key tables. \
                     The primary keys are [{}], the partition keys are [{}], but the bucket keys are [{}].",
                    self.schema.primary_key.join(", "),
                    self.partition_keys.join(", "),
                    bucket_keys.join(", ")
                )));
            }
        }
        check_distinct("Bucket key", bucket_keys)
    }

    fn missing_column<'n>(&self, names: &'n [String]) -> Option<&'n String> {
        let columns = self.schema.positions_by_name();
        names
            .iter()
            .find(|name| !columns.contains_key(name.as_str()))
    }
}

/// The reference takes keys that name a column twice, for no use; we do not.
fn check_distinct(what: &str, names: &[String]) -> Result<(), DescriptorError> {
    let mut seen = HashSet::with_capacity(names.len());
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(DescriptorError::new(format!(
            "{what} [{}] must not contain duplicate columns. Found: [{name}]",
            names.join(", ")
        ))),
    }
}
