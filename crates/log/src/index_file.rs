//! The index of a segment on disk, little-endian:
//!
//! | Bytes | Content |
//! |---|---|
//! | 4 | magic `MSIX` |
//! | 2 | version, 1 |
//! | 2 | zero |
//! | 8 | base offset of the segment |
//! | 8 | where the covered batches end, in bytes |
//! | 8 | where they end, as an offset |
//! | 8 | their largest commit timestamp |
//! | 4 | interval in bytes |
//! | 4 | number of entries |
//! | 16 each | relative offset (4), position (4), largest earlier timestamp (8) |
//! | 4 | CRC-32C of all before |
//!
//! It is a hint, written without a sync: a missing, torn or stale one costs a
//! walk over the headers of the segment, never a wrong answer, since every
//! lookup finds a batch header with the promised offset or drops the index.

use crate::sparse_index::{Boundary, IndexEntry, MAX_ENTRIES, SparseIndex};

const MAGIC: &[u8; 4] = b"MSIX";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 48;
const ENTRY_LEN: usize = 16;
const CRC_LEN: usize = 4;

/// Largest index file.
pub(crate) const MAX_INDEX_FILE_LEN: u64 = (HEADER_LEN + MAX_ENTRIES * ENTRY_LEN + CRC_LEN) as u64;

pub(crate) fn encode(index: &SparseIndex) -> Vec<u8> {
    let entries = index.entries();
    let mut bytes = Vec::with_capacity(HEADER_LEN + entries.len() * ENTRY_LEN + CRC_LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&index.base_offset().to_le_bytes());
    bytes.extend_from_slice(&index.end().position.to_le_bytes());
    bytes.extend_from_slice(&index.end().offset.to_le_bytes());
    bytes.extend_from_slice(&index.max_timestamp_ms().to_le_bytes());
    bytes.extend_from_slice(&index.interval_bytes().to_le_bytes());
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        bytes.extend_from_slice(&entry.relative_offset.to_le_bytes());
        bytes.extend_from_slice(&entry.position.to_le_bytes());
        bytes.extend_from_slice(&entry.earlier_max_timestamp_ms.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// The index in `bytes`; `None` when they are not one of this segment.
pub(crate) fn decode(bytes: &[u8], base_offset: i64) -> Option<SparseIndex> {
    let (content, crc) = bytes.split_at_checked(bytes.len().checked_sub(CRC_LEN)?)?;
    if crc32c::crc32c(content).to_le_bytes() != crc {
        return None;
    }
    let (header, entries) = content.split_at_checked(HEADER_LEN)?;
    let stored = |at: usize| i64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let count = u32::from_le_bytes(header[44..48].try_into().expect("4 bytes")) as usize;
    let current = &header[..4] == MAGIC && header[4..6] == VERSION.to_le_bytes();
    if !current || stored(8) != base_offset || entries.len() != count.checked_mul(ENTRY_LEN)? {
        return None;
    }
    let entries = entries
        .chunks_exact(ENTRY_LEN)
        .map(|entry| IndexEntry {
            relative_offset: u32::from_le_bytes(entry[0..4].try_into().expect("4 bytes")),
            position: u32::from_le_bytes(entry[4..8].try_into().expect("4 bytes")),
            earlier_max_timestamp_ms: i64::from_le_bytes(entry[8..16].try_into().expect("8 bytes")),
        })
        .collect();
    let end = Boundary {
        position: stored(16) as u64,
        offset: stored(24),
    };
    let interval_bytes = u32::from_le_bytes(header[40..44].try_into().expect("4 bytes"));
    SparseIndex::from_parts(base_offset, interval_bytes, entries, end, stored(32))
}

#[cfg(test)]
mod tests {
    use mainstem_format::header::BatchHeader;
    use mainstem_format::log_batch_builder::BatchSpec;

    use super::*;

    fn index() -> SparseIndex {
        let mut index = SparseIndex::new(7, 100);
        for number in 0..50 {
            let spec = BatchSpec {
                base_offset: 7 + number,
                ..BatchSpec::default()
            };
            index.push(&BatchHeader::parse(&spec.empty()).unwrap());
        }
        index
    }

    #[test]
    fn an_index_comes_back_as_it_was() {
        let index = index();
        let decoded = decode(&encode(&index), 7).unwrap();
        assert_eq!(decoded.entries(), index.entries());
        assert_eq!(decoded.end(), index.end());
        assert_eq!(decoded.max_timestamp_ms(), index.max_timestamp_ms());
        assert_eq!(decoded.interval_bytes(), index.interval_bytes());
    }

    #[test]
    fn no_cut_or_changed_byte_goes_unnoticed() {
        let bytes = encode(&index());
        assert!(decode(&bytes, 8).is_none(), "of another segment");
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], 7).is_none(), "{len} bytes");
        }
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 0x10;
            assert!(decode(&changed, 7).is_none(), "byte {position}");
        }
    }
}
