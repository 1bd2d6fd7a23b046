//! From a bucket key to a bucket number (formats.md §4.9).
//!
//! Writers choose the bucket and servers trust them, so every client must
//! choose alike.

use arrow_array::RecordBatch;
use mainstem_types::{BucketId, LakeFormat, TableDescriptor};

use crate::hash::{f_hash, murmur_int, murmur3_32};
use crate::key::{KeyEncoder, lake_format};
use crate::value::Value;
use crate::value_reader::ColumnReader;
use crate::{FormatError, Result};

/// How key bytes become a bucket number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketFunction {
    /// Tables without a lake, and Lance.
    Fluss,
    /// Paimon's.
    Paimon,
    /// Iceberg's bucket transform.
    Iceberg,
    /// Hudi's; the key bytes are already a hash.
    Hudi,
}

impl BucketFunction {
    /// The function of tables with this lake format.
    pub fn of_lake(lake: Option<LakeFormat>) -> Self {
        match lake {
            None | Some(LakeFormat::Lance) => Self::Fluss,
            Some(LakeFormat::Paimon) => Self::Paimon,
            Some(LakeFormat::Iceberg) => Self::Iceberg,
            Some(LakeFormat::Hudi) => Self::Hudi,
        }
    }

    /// The bucket, in `0..bucket_count`.
    ///
    /// Errors: a bucket count below 1; a Hudi key that is not four bytes.
    pub fn bucket(self, key: &[u8], bucket_count: i32) -> Result<BucketId> {
        if bucket_count < 1 {
            return Err(FormatError::invalid(format!("bucket count {bucket_count}")));
        }
        let bucket = match self {
            Self::Fluss => murmur_int(f_hash(key)) % bucket_count,
            Self::Paimon => (f_hash(key) % bucket_count).abs(),
            Self::Iceberg => (murmur3_32(key) & i32::MAX) % bucket_count,
            Self::Hudi => {
                let hash: [u8; 4] = key.try_into().map_err(|_| {
                    FormatError::invalid(format!("Hudi bucket key of {} bytes", key.len()))
                })?;
                (i32::from_be_bytes(hash) & i32::MAX) % bucket_count
            }
        };
        Ok(BucketId(bucket))
    }
}

/// Finds the buckets of a table's rows.
#[derive(Clone, Debug)]
pub struct BucketAssigner {
    encoder: KeyEncoder,
    function: BucketFunction,
    key: Vec<u8>,
}

impl BucketAssigner {
    /// The assigner of a table; `None` when it has no bucket key, so that its
    /// writers may choose any bucket.
    pub fn new(table: &TableDescriptor) -> Result<Option<Self>> {
        let function = BucketFunction::of_lake(lake_format(table)?);
        let encoder = KeyEncoder::bucket_key(table)?;
        Ok(encoder.map(|encoder| Self {
            encoder,
            function,
            key: Vec::new(),
        }))
    }

    /// Positions of the bucket columns in the schema, in key order.
    pub fn columns(&self) -> &[usize] {
        self.encoder.columns()
    }

    /// The bucket of a row of the whole schema.
    pub fn assign_row(&mut self, row: &[Value<'_>], bucket_count: i32) -> Result<BucketId> {
        self.key.clear();
        self.encoder.encode_row(row, &mut self.key)?;
        self.function.bucket(&self.key, bucket_count)
    }

    /// The bucket of the values of the bucket columns alone, in key order.
    pub fn assign(&mut self, key: &[Value<'_>], bucket_count: i32) -> Result<BucketId> {
        self.key.clear();
        self.encoder.encode(key, &mut self.key)?;
        self.function.bucket(&self.key, bucket_count)
    }
}

impl BucketAssigner {
    /// The bucket of every row of a batch of the whole schema.
    ///
    /// Errors: a bucket column that is missing or of another type, or a value
    /// that cannot be part of a key, such as null.
    pub fn assign_batch(
        &mut self,
        batch: &RecordBatch,
        bucket_count: i32,
    ) -> Result<Vec<BucketId>> {
        let columns = self.encoder.columns().iter().zip(self.encoder.types());
        let readers = columns.map(|(&column, data_type)| match batch.columns().get(column) {
            Some(array) => ColumnReader::new(array.as_ref(), data_type),
            None => Err(FormatError::invalid(format!(
                "batch without bucket column {column}"
            ))),
        });
        let readers = readers.collect::<Result<Vec<_>>>()?;
        let mut key = Vec::with_capacity(readers.len());
        let mut buckets = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            key.clear();
            for reader in &readers {
                key.push(reader.value(row)?);
            }
            buckets.push(self.assign(&key, bucket_count)?);
        }
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &[u8], bucket_count: i32, fluss: i32, paimon: i32, iceberg: i32) {
        let bucket = |function: BucketFunction| function.bucket(key, bucket_count).unwrap().0;
        let actual = (
            bucket(BucketFunction::Fluss),
            bucket(BucketFunction::Paimon),
            bucket(BucketFunction::Iceberg),
        );
        assert_eq!(
            actual,
            (fluss, paimon, iceberg),
            "key {key:02x?} of {bucket_count}"
        );
    }

    #[test]
    fn every_function_gives_the_reference_buckets() {
        check(&[0x00, 0x0a], 7, 1, 1, 3);
        check(&[0x00, 0x0a, 0x0a, 0x0a], 12, 0, 11, 4);
        check(b"2bb87d68-baf9-4e64-90f9-f80910419fa6", 16, 6, 12, 12);
        check(b"The quick brown fox jumps over the lazy dog", 8, 6, 0, 3);
        let rows: [(&[u8], _, _, _); 5] = [
            (&[0x01], [0, 4, 12], [1, 3, 10], [0, 6, 11]),
            (&[0x64], [2, 2, 8], [2, 6, 10], [1, 4, 3]),
            (&[0xc8, 0x01], [2, 2, 6], [2, 5, 12], [0, 2, 11]),
            (&[0x61, 0x31], [0, 1, 3], [0, 1, 15], [2, 3, 10]),
            (&[0x01, 0x03, 0x02], [0, 5, 5], [1, 4, 3], [0, 5, 2]),
        ];
        for (key, fluss, paimon, iceberg) in rows {
            for (index, bucket_count) in [3, 7, 16].into_iter().enumerate() {
                check(
                    key,
                    bucket_count,
                    fluss[index],
                    paimon[index],
                    iceberg[index],
                );
            }
        }
    }

    #[test]
    fn tail_bytes_choose_the_bucket_that_java_chooses() {
        let fluss = |key: &[u8]| BucketFunction::Fluss.bucket(key, 16).unwrap().0;
        assert_eq!(fluss(&[0xc8, 0x01]), 6);
        assert_eq!(fluss(&[0xc3, 0xa9]), 6);
        assert_eq!(fluss(&[0xff, 0x01]), 5);
        assert_eq!(fluss(&[0x80]), 14);
    }

    #[test]
    fn impossible_counts_and_keys_are_errors() {
        assert!(BucketFunction::Fluss.bucket(b"k", 0).is_err());
        assert!(BucketFunction::Hudi.bucket(b"key", 4).is_err());
        let hash = (-1_i32).to_be_bytes();
        assert_eq!(BucketFunction::Hudi.bucket(&hash, 4).unwrap(), BucketId(3));
    }
}
