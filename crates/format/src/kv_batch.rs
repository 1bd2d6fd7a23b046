//! The KV record batch of a put request (formats.md §3).
//!
//! ```text
//! i32 length · u8 magic 0 · u32 CRC-32C of the rest · i16 schema id
//! · u8 attributes 0 · i64 writer id · i32 batch sequence · i32 record count
//! · records: i32 length · uvar32 key length · key · row (none = delete)
//! ```

use bytes::Bytes;

use crate::byte_reader::ByteReader;
use crate::row::length_u32;
use crate::{FormatError, Result, varint};

const MAGIC: u8 = 0;
const LENGTH_BYTES: usize = 4;
const CRC_START: usize = 5;
const SCHEMA_ID_START: usize = 9;
const RECORD_COUNT_START: usize = 24;
const HEADER_BYTES: usize = 28;

/// A put batch whose checksum and records have been checked.
#[derive(Clone, Debug)]
pub struct KvBatch {
    bytes: Bytes,
    schema_id: i16,
    writer_id: i64,
    batch_sequence: i32,
    record_count: usize,
}

/// One record of a put batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRecord<'a> {
    /// The primary key, as the client encoded it.
    pub key: &'a [u8],
    /// The row in the table's KV format; `None` deletes the key.
    pub row: Option<&'a [u8]>,
}

impl KvBatch {
    /// Checks a batch that fills `bytes` exactly.
    ///
    /// Errors: [`FormatError::Corrupt`] for a wrong length, magic or checksum;
    /// [`FormatError::Invalid`] for records that do not fill the batch.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        if bytes.len() < HEADER_BYTES {
            return Err(FormatError::corrupt(format!(
                "KV batch of {} bytes",
                bytes.len()
            )));
        }
        let mut reader = ByteReader::new(&bytes);
        let length = reader.i32()?;
        if usize::try_from(length).ok() != Some(bytes.len() - LENGTH_BYTES) {
            return Err(FormatError::corrupt(format!(
                "KV batch of length {length} in {} bytes",
                bytes.len()
            )));
        }
        let magic = reader.u8()?;
        if magic != MAGIC {
            return Err(FormatError::corrupt(format!(
                "unknown KV batch magic {magic}"
            )));
        }
        let crc = reader.i32()? as u32;
        let actual = crc32c::crc32c(&bytes[SCHEMA_ID_START..]);
        if crc != actual {
            return Err(FormatError::corrupt(format!(
                "KV batch checksum is {crc:08x}, its bytes give {actual:08x}"
            )));
        }
        let schema_id = reader.i16()?;
        let _attributes = reader.u8()?;
        let writer_id = reader.i64()?;
        let batch_sequence = reader.i32()?;
        let record_count = reader.i32()?;
        let record_count = usize::try_from(record_count)
            .map_err(|_| FormatError::invalid(format!("KV batch of {record_count} records")))?;
        for _ in 0..record_count {
            read_record(&mut reader)?;
        }
        if reader.remaining() != 0 {
            return Err(FormatError::invalid(format!(
                "{} bytes behind the records of a KV batch",
                reader.remaining()
            )));
        }
        Ok(Self {
            schema_id,
            writer_id,
            batch_sequence,
            record_count,
            bytes,
        })
    }

    /// The schema of all rows.
    pub fn schema_id(&self) -> i16 {
        self.schema_id
    }

    /// The idempotent writer; −1 = none.
    pub fn writer_id(&self) -> i64 {
        self.writer_id
    }

    /// The writer's sequence number; −1 = none.
    pub fn batch_sequence(&self) -> i32 {
        self.batch_sequence
    }

    /// Number of records.
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The records in order.
    pub fn records(&self) -> impl Iterator<Item = KvRecord<'_>> {
        let mut reader = ByteReader::new(&self.bytes[HEADER_BYTES..]);
        (0..self.record_count)
            .map(move |_| read_record(&mut reader).expect("records were checked by `parse`"))
    }
}

fn read_record<'a>(reader: &mut ByteReader<'a>) -> Result<KvRecord<'a>> {
    let mut record = ByteReader::new(reader.prefixed_i32()?);
    let key = record.prefixed_uvar32()?;
    let row = record.take(record.remaining())?;
    Ok(KvRecord {
        key,
        row: (!row.is_empty()).then_some(row),
    })
}

/// Writes a put batch, record by record.
#[derive(Clone, Debug)]
pub struct KvBatchBuilder {
    bytes: Vec<u8>,
    record_count: i32,
}

impl KvBatchBuilder {
    /// An empty batch. Writer id and sequence are −1 without idempotence.
    pub fn new(schema_id: i16, writer_id: i64, batch_sequence: i32) -> Self {
        let mut bytes = vec![0; SCHEMA_ID_START];
        bytes[LENGTH_BYTES] = MAGIC;
        bytes.extend(schema_id.to_le_bytes());
        bytes.push(0);
        bytes.extend(writer_id.to_le_bytes());
        bytes.extend(batch_sequence.to_le_bytes());
        bytes.extend([0; 4]);
        Self {
            bytes,
            record_count: 0,
        }
    }

    /// Adds a record; no row deletes the key.
    ///
    /// Errors: an empty row, which would read as a delete; a batch of 2 GiB.
    pub fn append(&mut self, key: &[u8], row: Option<&[u8]>) -> Result<()> {
        if row.is_some_and(<[u8]>::is_empty) {
            return Err(FormatError::invalid("an empty row"));
        }
        let row = row.unwrap_or_default();
        let start = self.bytes.len();
        // The widest key length, so that nothing is written when it is refused.
        length_u32(start + LENGTH_BYTES + 5 + key.len() + row.len())?;
        self.bytes.extend([0; LENGTH_BYTES]);
        varint::put_u32(&mut self.bytes, key.len() as u32);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(row);
        let length = (self.bytes.len() - start - LENGTH_BYTES) as u32;
        self.bytes[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.record_count += 1;
        Ok(())
    }

    /// Size of the batch in bytes as it stands.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of records so far.
    pub fn record_count(&self) -> usize {
        self.record_count as usize
    }

    /// The finished batch.
    pub fn finish(mut self) -> Bytes {
        let length = (self.bytes.len() - LENGTH_BYTES) as u32;
        self.bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        let count = self.record_count.to_le_bytes();
        self.bytes[RECORD_COUNT_START..HEADER_BYTES].copy_from_slice(&count);
        let crc = crc32c::crc32c(&self.bytes[SCHEMA_ID_START..]);
        self.bytes[CRC_START..SCHEMA_ID_START].copy_from_slice(&crc.to_le_bytes());
        Bytes::from(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

    #[test]
    fn a_put_gives_the_reference_bytes() {
        let mut batch = KvBatchBuilder::new(1, 7, 3);
        batch.append(&[1], Some(&hex("0001026131"))).unwrap();
        let expected = "23000000 00 4fbc0365 0100 00 0700000000000000 03000000 01000000
            07000000 01 01 0001026131";
        assert_eq!(batch.finish(), hex(expected));
    }

    #[test]
    fn a_delete_gives_the_reference_bytes() {
        let mut batch = KvBatchBuilder::new(1, -1, -1);
        batch.append(&[1], None).unwrap();
        let expected = "1e000000 00 00c757b0 0100 00 ffffffffffffffff ffffffff 01000000
            02000000 01 01";
        let bytes = batch.finish();
        assert_eq!(bytes, hex(expected));
        let batch = KvBatch::parse(bytes).unwrap();
        assert_eq!(
            batch.records().collect::<Vec<_>>(),
            [KvRecord {
                key: &[1],
                row: None
            }]
        );
        assert_eq!(
            (batch.schema_id(), batch.writer_id(), batch.batch_sequence()),
            (1, -1, -1)
        );
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let mut batch = KvBatchBuilder::new(1, 7, 3);
        batch.append(b"key", Some(b"row")).unwrap();
        let bytes = batch.finish();
        for index in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[index] ^= 0x10;
            let error = KvBatch::parse(Bytes::from(damaged)).unwrap_err();
            assert!(
                matches!(error, FormatError::Corrupt(_)),
                "byte {index}: {error}"
            );
        }
        for end in 0..bytes.len() {
            assert!(KvBatch::parse(bytes.slice(..end)).is_err());
        }
    }

    #[test]
    fn records_that_do_not_fill_the_batch_are_refused() {
        let mut batch = KvBatchBuilder::new(1, 7, 3);
        batch.append(b"key", Some(b"row")).unwrap();
        batch.record_count = 2;
        assert!(matches!(
            KvBatch::parse(batch.clone().finish()),
            Err(FormatError::Invalid(_))
        ));
        batch.record_count = 0;
        assert!(matches!(
            KvBatch::parse(batch.clone().finish()),
            Err(FormatError::Invalid(_))
        ));
        batch.record_count = -1;
        assert!(matches!(
            KvBatch::parse(batch.finish()),
            Err(FormatError::Invalid(_))
        ));
    }

    proptest! {
        #[test]
        fn records_come_back(
            records in prop::collection::vec(
                (any::<Vec<u8>>(), prop::option::of(prop::collection::vec(any::<u8>(), 1..40))),
                0..20,
            ),
        ) {
            let mut batch = KvBatchBuilder::new(3, 5, 9);
            for (key, row) in &records {
                batch.append(key, row.as_deref()).unwrap();
            }
            let size_bytes = batch.size_bytes();
            let bytes = batch.finish();
            prop_assert_eq!(bytes.len(), size_bytes);
            let batch = KvBatch::parse(bytes).unwrap();
            let actual = batch
                .records()
                .map(|record| (record.key.to_vec(), record.row.map(<[u8]>::to_vec)))
                .collect::<Vec<_>>();
            prop_assert_eq!(actual, records);
        }

        #[test]
        fn arbitrary_records_never_panic(tail: Vec<u8>, record_count in -1_i32..5) {
            let mut batch = KvBatchBuilder::new(1, 7, 3);
            batch.bytes.extend(tail);
            batch.record_count = record_count;
            if let Ok(batch) = KvBatch::parse(batch.finish()) {
                prop_assert_eq!(batch.records().count(), batch.record_count());
            }
        }
    }
}
