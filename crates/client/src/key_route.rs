//! Key bytes, partition and bucket of rows of a primary-key table, read from
//! batches that hold at least the key columns, in any order.

use arrow_array::RecordBatch;
use mainstem_format::value_reader::ColumnReader;
use mainstem_format::{BucketFunction, KeyEncoder, Value};
use mainstem_types::{Schema, TableDescriptor};

use crate::error::{ClientError, Result};
use crate::route::{partition_name, usage, values};

/// The key rules of one table.
#[derive(Clone, Debug)]
pub(crate) struct KeyRoute {
    /// The primary key, or the prefix of it that is looked up.
    key: KeyEncoder,
    bucket: KeyEncoder,
    function: BucketFunction,
    partition_columns: Vec<usize>,
}

/// The key columns of a batch.
pub(crate) struct KeyReaders<'a> {
    key: Vec<NamedReader<'a>>,
    /// `None` when the key bytes are the bucket key as well.
    bucket: Option<Vec<NamedReader<'a>>>,
    partition: Vec<NamedReader<'a>>,
}

type NamedReader<'a> = (String, ColumnReader<'a>);

impl KeyRoute {
    /// Whole primary keys.
    ///
    /// # Errors
    /// A table without a primary key, or of a key that cannot be encoded.
    pub(crate) fn primary_key(descriptor: &TableDescriptor) -> Result<Self> {
        Self::new(descriptor, KeyEncoder::primary_key(descriptor))
    }

    /// Prefixes of primary keys: the bucket key columns (tables.md §6).
    ///
    /// # Errors
    /// As [`KeyRoute::primary_key`], and a bucket key that is no proper prefix
    /// of the primary key.
    pub(crate) fn prefix(descriptor: &TableDescriptor) -> Result<Self> {
        let primary = descriptor.physical_primary_key();
        let bucket = &descriptor.bucket_keys;
        let is_prefix = bucket.len() < primary.len()
            && !bucket.is_empty()
            && bucket.iter().zip(&primary).all(|(b, p)| b == p);
        if descriptor.has_primary_key() && !is_prefix {
            return Err(ClientError::Usage(format!(
                "rows are found by a prefix of their key only if the bucket key is one: \
                 the bucket key is [{}], the primary key [{}]",
                bucket.join(", "),
                primary.join(", ")
            )));
        }
        Self::new(descriptor, KeyEncoder::prefix(descriptor))
    }

    fn new(descriptor: &TableDescriptor, key: mainstem_format::Result<KeyEncoder>) -> Result<Self> {
        if !descriptor.has_primary_key() {
            return Err(ClientError::Usage(
                "the table has no primary key: rows are appended and read in order".to_owned(),
            ));
        }
        let bucket = KeyEncoder::bucket_key(descriptor).map_err(usage)?;
        let bucket = bucket
            .ok_or_else(|| ClientError::Malformed("primary-key table without a key".to_owned()))?;
        let lake = descriptor
            .lake_format()
            .map_err(|error| ClientError::Malformed(error.to_string()))?;
        let partition_columns = descriptor.schema.positions(&descriptor.partition_keys);
        Ok(Self {
            key: key.map_err(usage)?,
            bucket,
            function: BucketFunction::of_lake(lake),
            partition_columns: partition_columns
                .ok_or_else(|| ClientError::Malformed("a partition key is no column".to_owned()))?,
        })
    }

    /// Readers of a batch's key columns, which are found by name.
    ///
    /// # Errors
    /// A column that is missing or of another type.
    pub(crate) fn readers<'a>(
        &self,
        batch: &'a RecordBatch,
        schema: &Schema,
    ) -> Result<KeyReaders<'a>> {
        let read = |columns: &[usize]| -> Result<Vec<NamedReader<'a>>> {
            let columns = columns.iter();
            columns
                .map(|&column| named_reader(batch, schema, column))
                .collect()
        };
        let same = self.key == self.bucket;
        Ok(KeyReaders {
            key: read(self.key.columns())?,
            bucket: match same {
                true => None,
                false => Some(read(self.bucket.columns())?),
            },
            partition: read(&self.partition_columns)?,
        })
    }

    /// Name of a row's partition; `None` without partitions.
    ///
    /// # Errors
    /// Null, or a value that cannot name a partition.
    pub(crate) fn partition(&self, readers: &KeyReaders<'_>, row: usize) -> Result<Option<String>> {
        partition_name(&readers.partition, row)
    }

    /// Appends a row's key.
    ///
    /// # Errors
    /// Null in the key.
    pub(crate) fn put_key(
        &self,
        readers: &KeyReaders<'_>,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let values = values(&readers.key, row, "key column")?;
        self.key.encode(&values, out).map_err(usage)
    }

    /// Appends the bytes that a row's bucket is hashed from. `key` is what
    /// [`KeyRoute::put_key`] gave.
    ///
    /// # Errors
    /// Null in the bucket key.
    pub(crate) fn put_bucket_key(
        &self,
        readers: &KeyReaders<'_>,
        row: usize,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(bucket) = &readers.bucket else {
            out.extend_from_slice(key);
            return Ok(());
        };
        let values: Vec<Value<'_>> = values(bucket, row, "key column")?;
        self.bucket.encode(&values, out).map_err(usage)
    }

    /// The bucket of a bucket key.
    ///
    /// # Errors
    /// A bucket count below 1.
    pub(crate) fn bucket(&self, bucket_key: &[u8], bucket_count: i32) -> Result<i32> {
        let bucket = self.function.bucket(bucket_key, bucket_count);
        Ok(bucket.map_err(usage)?.0)
    }
}

/// A reader of the batch's column that has the name of a table column.
///
/// # Errors
/// A column that is missing or of another type.
pub(crate) fn named_reader<'a>(
    batch: &'a RecordBatch,
    schema: &Schema,
    column: usize,
) -> Result<NamedReader<'a>> {
    let column = &schema.columns[column];
    let Some(array) = batch.column_by_name(&column.name) else {
        return Err(ClientError::Usage(format!(
            "column '{}' is missing",
            column.name
        )));
    };
    let reader = ColumnReader::new(array.as_ref(), &column.data_type);
    let reader =
        reader.map_err(|error| ClientError::Usage(format!("column '{}': {error}", column.name)))?;
    Ok((column.name.clone(), reader))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use mainstem_types::{DataType, TypeKind};

    use super::*;

    fn descriptor(bucket_key: &[&str]) -> TableDescriptor {
        let schema = Schema::builder()
            .column("v", DataType::nullable(TypeKind::String))
            .column("a", DataType::nullable(TypeKind::Int))
            .column("b", DataType::nullable(TypeKind::String))
            .column("day", DataType::nullable(TypeKind::String))
            .primary_key(["day", "a", "b"])
            .build()
            .expect("a schema");
        TableDescriptor::new(schema)
            .partitioned_by(["day"])
            .distributed_by(3, bucket_key.iter().copied())
            .with_property("table.kv.format-version", "2")
            .checked()
            .expect("a table")
    }

    fn keys() -> RecordBatch {
        let b: ArrayRef = Arc::new(StringArray::from(vec!["x", "yz"]));
        let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 200]));
        let day: ArrayRef = Arc::new(StringArray::from(vec!["mon", "tue"]));
        RecordBatch::try_from_iter([("b", b), ("a", a), ("day", day)]).expect("a batch")
    }

    #[test]
    fn a_key_is_the_columns_of_the_primary_key_without_those_of_the_partition() {
        let table = descriptor(&[]);
        let route = KeyRoute::primary_key(&table).expect("a route");
        let batch = keys();
        let readers = route.readers(&batch, &table.schema).expect("readers");
        let mut key = Vec::new();
        route.put_key(&readers, 1, &mut key).expect("a key");
        assert_eq!(key, [0xc8, 0x01, 2, b'y', b'z']);
        let partition = route.partition(&readers, 1).expect("a partition");
        assert_eq!(partition.as_deref(), Some("tue"));
        let mut bucket_key = Vec::new();
        route
            .put_bucket_key(&readers, 1, &key, &mut bucket_key)
            .expect("a bucket key");
        assert_eq!(bucket_key, key);
    }

    #[test]
    fn a_prefix_is_the_bucket_key_and_chooses_the_bucket_of_the_whole_keys() {
        let table = descriptor(&["a"]);
        let batch = keys();
        let (mut prefix, mut whole, mut bucket_key) = (Vec::new(), Vec::new(), Vec::new());
        let route = KeyRoute::prefix(&table).expect("a route");
        let readers = route.readers(&batch, &table.schema).expect("readers");
        route.put_key(&readers, 1, &mut prefix).expect("a prefix");
        let route = KeyRoute::primary_key(&table).expect("a route");
        let readers = route.readers(&batch, &table.schema).expect("readers");
        route.put_key(&readers, 1, &mut whole).expect("a key");
        route
            .put_bucket_key(&readers, 1, &whole, &mut bucket_key)
            .expect("a bucket key");
        assert_eq!(prefix, [0xc8, 0x01]);
        assert!(whole.starts_with(&prefix));
        assert_eq!(bucket_key, prefix);
        // The bucket that Java chooses (formats.md §9.7).
        assert_eq!(route.bucket(&bucket_key, 16).expect("a bucket"), 6);
    }

    #[test]
    fn prefixes_need_a_bucket_key_that_is_a_proper_prefix() {
        for bucket_key in [&[][..], &["b"], &["a", "b"]] {
            let error = KeyRoute::prefix(&descriptor(bucket_key)).expect_err("refused");
            assert!(error.to_string().contains("bucket key"), "{error}");
        }
    }

    #[test]
    fn what_is_no_key_is_named() {
        let table = descriptor(&[]);
        let route = KeyRoute::primary_key(&table).expect("a route");
        let (batch, a): (_, ArrayRef) = (keys(), Arc::new(Int32Array::from(vec![None, Some(2)])));
        let missing = batch.project(&[0, 2]).expect("a batch");
        let error = route
            .readers(&missing, &table.schema)
            .err()
            .expect("refused");
        assert_eq!(error.to_string(), "column 'a' is missing");
        let (b, day) = (batch.column(0).clone(), batch.column(2).clone());
        let null = RecordBatch::try_from_iter([("a", a), ("b", b), ("day", day)]).expect("a batch");
        let readers = route.readers(&null, &table.schema).expect("readers");
        let error = route
            .put_key(&readers, 0, &mut Vec::new())
            .expect_err("refused");
        assert_eq!(error.to_string(), "key column 'a' is null in row 0");
    }
}
