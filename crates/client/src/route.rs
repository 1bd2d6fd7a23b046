//! Which partition and bucket a row belongs to.

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch, UInt32Array};
use mainstem_format::bucketing::BucketAssigner;
use mainstem_format::value_from_arrow;
use mainstem_types::TableDescriptor;
use mainstem_types::partition;

use crate::error::{ClientError, Result};

/// Splits batches by partition value and bucket key.
#[derive(Debug)]
pub struct Router {
    partition_columns: Vec<usize>,
    partition_keys: Vec<String>,
    bucket_columns: Vec<usize>,
    assigner: Option<BucketAssigner>,
    kinds: Vec<mainstem_types::DataType>,
    /// Next bucket of tables without bucket key.
    next: u32,
}

/// The part of a batch for one bucket.
#[derive(Clone, Debug)]
pub struct Routed {
    /// Partition values joined with `$`; `None` without partitions.
    pub partition: Option<String>,
    /// The rows.
    pub batch: RecordBatch,
    /// Bucket, when the bucket key decides; else the writer chooses.
    pub bucket: Option<i32>,
}

impl Router {
    /// Rules of the table.
    ///
    /// # Errors
    /// A bucket key whose type cannot be encoded.
    pub fn new(descriptor: &TableDescriptor) -> Result<Self> {
        let position = |name: &String| {
            let found = descriptor.schema.column(name).map(|(position, _)| position);
            found.ok_or_else(|| ClientError::Malformed(format!("no column '{name}'")))
        };
        let partition_columns: Result<Vec<usize>> =
            descriptor.partition_keys.iter().map(position).collect();
        let bucket_columns: Result<Vec<usize>> =
            descriptor.bucket_keys.iter().map(position).collect();
        let bucket_columns = bucket_columns?;
        let assigner = if bucket_columns.is_empty() {
            None
        } else {
            let assigner = BucketAssigner::for_table(descriptor);
            Some(assigner.map_err(|error| ClientError::Usage(error.to_string()))?)
        };
        Ok(Self {
            partition_columns: partition_columns?,
            partition_keys: descriptor.partition_keys.clone(),
            bucket_columns,
            assigner,
            kinds: descriptor.schema.columns.iter().map(|c| c.data_type.clone()).collect(),
            next: 0,
        })
    }

    /// Bucket for a batch of a table without bucket key: one after the other.
    pub fn next_bucket(&mut self, bucket_count: i32) -> i32 {
        let bucket = self.next % u32::try_from(bucket_count.max(1)).unwrap_or(1);
        self.next = self.next.wrapping_add(1);
        i32::try_from(bucket).unwrap_or(0)
    }

    /// Splits the rows of a batch. `bucket_count` tells it for a partition.
    ///
    /// # Errors
    /// Null in a partition or bucket key; a value that cannot name a partition.
    pub fn split(
        &self,
        batch: &RecordBatch,
        bucket_count: impl Fn(Option<&str>) -> i32,
    ) -> Result<Vec<Routed>> {
        if self.partition_columns.is_empty() && self.assigner.is_none() {
            return Ok(vec![Routed { partition: None, batch: batch.clone(), bucket: None }]);
        }
        let mut groups: BTreeMap<(Option<String>, Option<i32>), Vec<u32>> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            let partition = self.partition_of(batch, row)?;
            let bucket = match &self.assigner {
                Some(assigner) => {
                    let key = self.values(batch, &self.bucket_columns, row, "bucket key")?;
                    let count = bucket_count(partition.as_deref());
                    let bucket = assigner.bucket(&key, count);
                    Some(bucket.map_err(|error| ClientError::Usage(error.to_string()))?)
                }
                None => None,
            };
            let row = u32::try_from(row)
                .map_err(|_| ClientError::Usage("a batch has at most 2^32 rows".to_owned()))?;
            groups.entry((partition, bucket)).or_default().push(row);
        }
        groups
            .into_iter()
            .map(|((partition, bucket), rows)| {
                let rows = UInt32Array::from(rows);
                let batch = arrow_select::take::take_record_batch(batch, &rows)
                    .map_err(|error| ClientError::Usage(error.to_string()))?;
                Ok(Routed { partition, batch, bucket })
            })
            .collect()
    }

    /// Pairs of key and value that name a partition.
    pub fn partition_spec(&self, name: &str) -> Vec<(String, String)> {
        self.partition_keys.iter().cloned().zip(name.split('$').map(str::to_owned)).collect()
    }

    fn partition_of(&self, batch: &RecordBatch, row: usize) -> Result<Option<String>> {
        if self.partition_columns.is_empty() {
            return Ok(None);
        }
        let values = self.values(batch, &self.partition_columns, row, "partition key")?;
        let mut names = Vec::with_capacity(values.len());
        for (value, column) in values.iter().zip(&self.partition_columns) {
            let text = partition::value_text(value, &self.kinds[*column].kind);
            names.push(text.map_err(|error| ClientError::Usage(error.to_string()))?);
        }
        Ok(Some(names.join("$")))
    }

    fn values(
        &self,
        batch: &RecordBatch,
        columns: &[usize],
        row: usize,
        what: &str,
    ) -> Result<Vec<mainstem_format::Value>> {
        columns
            .iter()
            .map(|column| {
                let array = batch.column(*column);
                if array.is_null(row) {
                    let name = batch.schema().field(*column).name().clone();
                    return Err(ClientError::Usage(format!("{what} '{name}' is null in row {row}")));
                }
                value_from_arrow(array, row, &self.kinds[*column])
                    .map_err(|error| ClientError::Usage(error.to_string()))
            })
            .collect()
    }
}
