//! Values as the KV store keeps them, and batches of them as limit scans and
//! KV scans return them (formats.md §5).
//!
//! ```text
//! stored value: i16 schema id · row in the table's KV format
//! value batch:  i32 length · u8 magic 0 · i32 record count
//!               · records: i32 length · stored value
//! ```

use bytes::Bytes;

use crate::byte_reader::ByteReader;
use crate::row::length_u32;
use crate::{FormatError, Result};

const MAGIC: u8 = 0;
const LENGTH_BYTES: usize = 4;
const RECORD_COUNT_START: usize = 5;
const HEADER_BYTES: usize = 9;

/// Appends a stored value.
pub fn put_stored_value(schema_id: i16, row: &[u8], out: &mut Vec<u8>) {
    out.extend(schema_id.to_le_bytes());
    out.extend_from_slice(row);
}

/// Schema id and row of a stored value.
pub fn split_stored_value(value: &[u8]) -> Result<(i16, &[u8])> {
    let mut reader = ByteReader::new(value);
    let schema_id = reader.i16()?;
    Ok((schema_id, reader.take(reader.remaining())?))
}

/// A value batch whose records have been checked.
#[derive(Clone, Debug)]
pub struct ValueBatch {
    bytes: Bytes,
    record_count: usize,
}

impl ValueBatch {
    /// Checks a batch that fills `bytes` exactly. No bytes at all are a batch
    /// without records. There is no checksum.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self {
                bytes,
                record_count: 0,
            });
        }
        let mut reader = ByteReader::new(&bytes);
        let length = reader.i32()?;
        if usize::try_from(length).ok() != Some(bytes.len() - LENGTH_BYTES) {
            return Err(FormatError::corrupt(format!(
                "value batch of length {length} in {} bytes",
                bytes.len()
            )));
        }
        let magic = reader.u8()?;
        if magic != MAGIC {
            return Err(FormatError::corrupt(format!(
                "unknown value batch magic {magic}"
            )));
        }
        let record_count = reader.i32()?;
        let record_count = usize::try_from(record_count)
            .map_err(|_| FormatError::invalid(format!("value batch of {record_count} records")))?;
        for _ in 0..record_count {
            split_stored_value(reader.prefixed_i32()?)?;
        }
        if reader.remaining() != 0 {
            return Err(FormatError::invalid(format!(
                "{} bytes behind the records of a value batch",
                reader.remaining()
            )));
        }
        Ok(Self {
            bytes,
            record_count,
        })
    }

    /// Number of records.
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Schema id and row of every record, in order.
    pub fn records(&self) -> impl Iterator<Item = (i16, &[u8])> {
        let records = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let mut reader = ByteReader::new(records);
        (0..self.record_count).map(move |_| {
            let value = reader.prefixed_i32().and_then(split_stored_value);
            value.expect("records were checked by `parse`")
        })
    }
}

/// Writes a value batch, value by value.
#[derive(Clone, Debug)]
pub struct ValueBatchBuilder {
    bytes: Vec<u8>,
    record_count: i32,
}

impl Default for ValueBatchBuilder {
    fn default() -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[LENGTH_BYTES] = MAGIC;
        Self {
            bytes,
            record_count: 0,
        }
    }
}

impl ValueBatchBuilder {
    /// Adds a stored value. Error: a batch of 2 GiB.
    pub fn append(&mut self, stored_value: &[u8]) -> Result<()> {
        length_u32(self.bytes.len() + LENGTH_BYTES + stored_value.len())?;
        self.bytes.extend((stored_value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(stored_value);
        self.record_count += 1;
        Ok(())
    }

    /// Size of the batch in bytes as it stands.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of values so far.
    pub fn record_count(&self) -> usize {
        self.record_count as usize
    }

    /// The finished batch.
    pub fn finish(mut self) -> Bytes {
        let length = (self.bytes.len() - LENGTH_BYTES) as u32;
        self.bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        let count = self.record_count.to_le_bytes();
        self.bytes[RECORD_COUNT_START..HEADER_BYTES].copy_from_slice(&count);
        Bytes::from(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

    #[test]
    fn one_row_gives_the_reference_bytes() {
        let mut value = Vec::new();
        put_stored_value(1, &hex("0001026131"), &mut value);
        assert_eq!(value, hex("0100 0001026131"));
        let mut batch = ValueBatchBuilder::default();
        batch.append(&value).unwrap();
        let bytes = batch.finish();
        assert_eq!(bytes, hex("10000000 00 01000000 07000000 0100 0001026131"));
        let batch = ValueBatch::parse(bytes).unwrap();
        assert_eq!(
            batch.records().collect::<Vec<_>>(),
            [(1, &hex("0001026131")[..])]
        );
    }

    #[test]
    fn no_rows_are_an_empty_batch_or_no_bytes() {
        let bytes = ValueBatchBuilder::default().finish();
        assert_eq!(bytes, hex("05000000 00 00000000"));
        for bytes in [bytes, Bytes::new()] {
            let batch = ValueBatch::parse(bytes).unwrap();
            assert_eq!((batch.record_count(), batch.records().count()), (0, 0));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, count in 0_i32..5) {
            let _ = ValueBatch::parse(Bytes::from(bytes.clone()));
            let builder = ValueBatchBuilder { record_count: count, ..Default::default() };
            let mut batch = builder;
            batch.bytes.extend(bytes);
            if let Ok(batch) = ValueBatch::parse(batch.finish()) {
                prop_assert_eq!(batch.records().count(), batch.record_count());
            }
        }
    }
}
