//! Which partition and bucket a row belongs to.

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch, UInt32Array};
use mainstem_format::value_reader::ColumnReader;
use mainstem_format::{BucketAssigner, FormatError, Value};
use mainstem_types::partition::PartitionValue;
use mainstem_types::{DataType, TableDescriptor};

use crate::error::{ClientError, Result};

/// Splits batches by partition value and bucket key.
#[derive(Debug)]
pub struct Router {
    partition_columns: Vec<usize>,
    assigner: Option<BucketAssigner>,
    types: Vec<DataType>,
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
        let schema = &descriptor.schema;
        let partition_columns = schema
            .positions(&descriptor.partition_keys)
            .ok_or_else(|| ClientError::Malformed("a partition key is no column".to_owned()))?;
        Ok(Self {
            partition_columns,
            assigner: BucketAssigner::new(descriptor).map_err(usage)?,
            types: schema
                .columns
                .iter()
                .map(|column| column.data_type.clone())
                .collect(),
            next: 0,
        })
    }

    /// Bucket for a batch of a table without bucket key: one after the other.
    pub fn next_bucket(&mut self, bucket_count: i32) -> i32 {
        let bucket = self.next % u32::try_from(bucket_count.max(1)).unwrap_or(1);
        self.next = self.next.wrapping_add(1);
        i32::try_from(bucket).unwrap_or(0)
    }

    /// The partition of each row; one `None` for all rows without partitions.
    ///
    /// # Errors
    /// Null in a partition key; a value that cannot name a partition.
    pub fn partitions(&self, batch: &RecordBatch) -> Result<Vec<Option<String>>> {
        if self.partition_columns.is_empty() {
            return Ok(vec![None]);
        }
        let readers = self.readers(batch, &self.partition_columns)?;
        (0..batch.num_rows())
            .map(|row| partition_name(&readers, row))
            .collect()
    }

    /// Splits the rows of a batch. `bucket_count` tells it for a partition.
    ///
    /// # Errors
    /// Null in a partition or bucket key; a value that cannot name a partition.
    pub fn split(
        &mut self,
        batch: &RecordBatch,
        bucket_count: impl Fn(Option<&str>) -> i32,
    ) -> Result<Vec<Routed>> {
        if self.partition_columns.is_empty() && self.assigner.is_none() {
            return Ok(vec![Routed {
                partition: None,
                batch: batch.clone(),
                bucket: None,
            }]);
        }
        let partition_readers = self.readers(batch, &self.partition_columns)?;
        let key_columns = self
            .assigner
            .as_ref()
            .map(|a| a.columns().to_vec())
            .unwrap_or_default();
        let key_readers = self.readers(batch, &key_columns)?;
        let mut groups: BTreeMap<(Option<String>, Option<i32>), Vec<u32>> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            let partition = partition_name(&partition_readers, row)?;
            let bucket = match &mut self.assigner {
                Some(assigner) => {
                    let key = values(&key_readers, row, "bucket key")?;
                    let count = bucket_count(partition.as_deref());
                    Some(assigner.assign(&key, count).map_err(usage)?.0)
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
                Ok(Routed {
                    partition,
                    batch,
                    bucket,
                })
            })
            .collect()
    }

    fn readers<'a>(
        &self,
        batch: &'a RecordBatch,
        columns: &[usize],
    ) -> Result<Vec<(String, ColumnReader<'a>)>> {
        columns
            .iter()
            .map(|column| {
                let array: &dyn Array = batch.column(*column);
                let reader = ColumnReader::new(array, &self.types[*column]).map_err(usage)?;
                Ok((batch.schema().field(*column).name().clone(), reader))
            })
            .collect()
    }
}

pub(crate) fn values<'a>(
    readers: &[(String, ColumnReader<'a>)],
    row: usize,
    what: &str,
) -> Result<Vec<Value<'a>>> {
    readers
        .iter()
        .map(|(name, reader)| match reader.value(row).map_err(usage)? {
            Value::Null => Err(ClientError::Usage(format!(
                "{what} '{name}' is null in row {row}"
            ))),
            value => Ok(value),
        })
        .collect()
}

pub(crate) fn partition_name(
    readers: &[(String, ColumnReader<'_>)],
    row: usize,
) -> Result<Option<String>> {
    if readers.is_empty() {
        return Ok(None);
    }
    let values = values(readers, row, "partition key")?;
    let texts: Result<Vec<String>> = values
        .into_iter()
        .map(|value| Ok(partition_value(value)?.to_string()))
        .collect();
    Ok(Some(texts?.join("$")))
}

fn partition_value(value: Value<'_>) -> Result<PartitionValue> {
    Ok(match value {
        Value::Boolean(value) => PartitionValue::Bool(value),
        Value::TinyInt(value) => PartitionValue::Integer(value.into()),
        Value::SmallInt(value) => PartitionValue::Integer(value.into()),
        Value::Int(value) => PartitionValue::Integer(value.into()),
        Value::BigInt(value) => PartitionValue::Integer(value),
        Value::Float(value) => PartitionValue::Float(value),
        Value::Double(value) => PartitionValue::Double(value),
        Value::String(text) => PartitionValue::Text(text.into_owned()),
        Value::Bytes(bytes) => PartitionValue::Bytes(bytes.into_owned()),
        Value::Date(days) => PartitionValue::Date(days),
        Value::Time(millis) => PartitionValue::Time(millis),
        Value::Timestamp(timestamp) => PartitionValue::Timestamp {
            millis: timestamp.millis,
            nanos_of_milli: u32::try_from(timestamp.nanos_of_milli).unwrap_or(0),
        },
        Value::Null | Value::Decimal(_) | Value::Array(_) | Value::Map(_) | Value::Row(_) => {
            return Err(ClientError::Usage(
                "the type of a partition key names nothing".to_owned(),
            ));
        }
    })
}

pub(crate) fn usage(error: FormatError) -> ClientError {
    ClientError::Usage(error.to_string())
}
