//! Header of a log record batch (formats.md §1.1).
//!
//! | Field | Type | V0 | V1 | V2 |
//! |---|---|---|---|---|
//! | base offset | i64 | 0 | 0 | 0 |
//! | length after this field | i32 | 8 | 8 | 8 |
//! | magic | u8 | 12 | 12 | 12 |
//! | commit timestamp, ms | i64 | 13 | 13 | 13 |
//! | leader epoch | i32 | – | – | 21 |
//! | CRC-32C of all that follows | u32 | 21 | 21 | 25 |
//! | schema id | i16 | 25 | 25 | 29 |
//! | attributes | u8 | 27 | 27 | 31 |
//! | last offset delta | i32 | 28 | 28 | 32 |
//! | writer id | i64 | 32 | 32 | 36 |
//! | batch sequence | i32 | 40 | 40 | 44 |
//! | record count | i32 | 44 | 44 | 48 |
//! | statistics length | i32 | – | 48 | 52 |
//!
//! What a leader stamps (base offset, commit timestamp, leader epoch) lies in
//! front of the checksum's range, so that stamping leaves the checksum valid.

use crate::little_endian::{i16_at, i32_at, i64_at, u32_at};
use crate::{FormatError, Result};

/// Bytes that are enough to learn a batch's size: base offset and length.
pub const SIZE_PREFIX_LEN: usize = 12;
/// Bytes of the fields that all versions share in front of the checksum.
pub const COMMON_PREFIX_LEN: usize = 21;
/// Bytes of the smallest header, hence of the smallest batch.
pub const MIN_HEADER_LEN: usize = 48;
/// Bytes of the largest header.
pub const MAX_HEADER_LEN: usize = 56;
/// Largest batch: its length field is an `i32`.
pub const MAX_BATCH_LEN: usize = i32::MAX as usize + SIZE_PREFIX_LEN;

/// Bit of the attributes that says: every record is an append, and there is no
/// vector of change types.
const APPEND_ONLY: u8 = 1;

/// Version of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Magic {
    /// Without statistics; what nearly everybody writes.
    #[default]
    V0 = 0,
    /// With statistics.
    V1 = 1,
    /// With statistics and leader epoch; nobody writes it yet.
    V2 = 2,
}

impl Magic {
    /// The version of a magic byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::V0),
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Bytes of the header, without statistics.
    pub const fn header_len(self) -> usize {
        match self {
            Self::V0 => 48,
            Self::V1 => 52,
            Self::V2 => 56,
        }
    }

    /// Where the CRC lies.
    const fn crc_position(self) -> usize {
        match self {
            Self::V0 | Self::V1 => 21,
            Self::V2 => 25,
        }
    }

    /// Where the bytes begin that the CRC covers, up to the batch's end.
    pub const fn crc_start(self) -> usize {
        self.crc_position() + 4
    }
}

/// The first fields of a batch, which need only [`COMMON_PREFIX_LEN`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPrefix {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Bytes of the whole batch.
    pub total_len: usize,
    /// Version.
    pub magic: Magic,
    /// When the leader appended it, epoch milliseconds.
    pub commit_timestamp_ms: i64,
}

impl BatchPrefix {
    /// Reads the prefix from the first bytes of a batch.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] if there are fewer than [`COMMON_PREFIX_LEN`]
    /// bytes, the magic is unknown, or the length cannot be one of a batch.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < COMMON_PREFIX_LEN {
            return Err(cut(COMMON_PREFIX_LEN, bytes.len()));
        }
        let magic = Magic::from_byte(bytes[12])
            .ok_or_else(|| FormatError::corrupt(format!("batch magic {}", bytes[12])))?;
        let total_len = total_len(bytes)?;
        if total_len < magic.header_len() {
            return Err(length(i32_at(bytes, 8)));
        }
        Ok(Self {
            base_offset: i64_at(bytes, 0),
            total_len,
            magic,
            commit_timestamp_ms: i64_at(bytes, 13),
        })
    }
}

/// Bytes of the batch that begins with `bytes`, of which it needs
/// [`SIZE_PREFIX_LEN`].
///
/// # Errors
/// [`FormatError::Corrupt`] if they are fewer, or the length cannot be one of a
/// batch.
pub fn total_len(bytes: &[u8]) -> Result<usize> {
    if bytes.len() < SIZE_PREFIX_LEN {
        return Err(cut(SIZE_PREFIX_LEN, bytes.len()));
    }
    let after = i32_at(bytes, 8);
    match usize::try_from(after) {
        Ok(after) if after + SIZE_PREFIX_LEN >= MIN_HEADER_LEN => Ok(after + SIZE_PREFIX_LEN),
        _ => Err(length(after)),
    }
}

/// The decoded header of a batch.
///
/// Fields are public so that a changed header is written as
/// `BatchHeader { total_len, ..header }`; one that was parsed satisfies what
/// [`BatchHeader::parse`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Bytes of the whole batch, header included.
    pub total_len: usize,
    /// Version.
    pub magic: Magic,
    /// When the leader appended it, epoch milliseconds.
    pub commit_timestamp_ms: i64,
    /// Epoch of the leader that appended it; `None` before V2. −1 = none.
    pub leader_epoch: Option<i32>,
    /// CRC-32C of the bytes from the schema id to the end of the batch.
    pub crc: u32,
    /// Schema that the rows are encoded with.
    pub schema_id: i16,
    /// Attribute bits as stored; see [`BatchHeader::is_append_only`].
    pub attributes: u8,
    /// Offset of the last record minus that of the first; 0 without records.
    pub last_offset_delta: i32,
    /// Idempotent writer, or −1.
    pub writer_id: i64,
    /// Number of the batch within its writer, or −1.
    pub batch_sequence: i32,
    /// Records in the batch.
    pub record_count: i32,
    /// Bytes of the statistics block behind the header.
    pub statistics_len: usize,
}

impl BatchHeader {
    /// Reads the header from the first bytes of a batch; the rest of the batch
    /// need not be there ([`MAX_HEADER_LEN`] bytes are always enough).
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] if the header is cut, the magic is unknown, the
    /// length is too small for header and statistics, or a count is negative.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let prefix = BatchPrefix::parse(bytes)?;
        let BatchPrefix {
            base_offset,
            total_len,
            magic,
            commit_timestamp_ms,
        } = prefix;
        if bytes.len() < magic.header_len() {
            return Err(cut(magic.header_len(), bytes.len()));
        }
        let crc_at = magic.crc_position();
        let fields = &bytes[magic.crc_start()..];
        let statistics_len = if magic == Magic::V0 {
            0
        } else {
            i32_at(fields, 23)
        };
        let statistics_len = usize::try_from(statistics_len)
            .ok()
            .filter(|statistics| magic.header_len() + statistics <= total_len)
            .ok_or_else(|| {
                FormatError::corrupt(format!(
                    "statistics of {statistics_len} bytes in a batch of {total_len}"
                ))
            })?;
        let header = Self {
            base_offset,
            total_len,
            magic,
            commit_timestamp_ms,
            leader_epoch: (magic == Magic::V2).then(|| i32_at(bytes, 21)),
            crc: u32_at(bytes, crc_at),
            schema_id: i16_at(fields, 0),
            attributes: fields[2],
            last_offset_delta: i32_at(fields, 3),
            writer_id: i64_at(fields, 7),
            batch_sequence: i32_at(fields, 15),
            record_count: i32_at(fields, 19),
            statistics_len,
        };
        if header.last_offset_delta < 0 {
            return Err(FormatError::corrupt(format!(
                "last offset delta {}",
                header.last_offset_delta
            )));
        }
        if header.record_count < 0 {
            return Err(FormatError::corrupt(format!(
                "record count {}",
                header.record_count
            )));
        }
        Ok(header)
    }

    /// Bytes of the header itself, without statistics.
    pub const fn header_len(&self) -> usize {
        self.magic.header_len()
    }

    /// Where the records area begins within the batch: behind the statistics.
    pub const fn records_start(&self) -> usize {
        self.header_len() + self.statistics_len
    }

    /// Whether every record is an append, and no change types are stored.
    pub const fn is_append_only(&self) -> bool {
        self.attributes & APPEND_ONLY != 0
    }

    /// Whether the batch is nothing but a header.
    pub const fn is_header_only(&self) -> bool {
        self.total_len == self.header_len()
    }

    /// Bytes of the change-type vector of an ARROW batch.
    pub const fn change_types_len(&self) -> usize {
        if self.is_append_only() {
            0
        } else {
            self.record_count as usize
        }
    }

    /// Where the Arrow message of an ARROW batch begins within the batch.
    pub const fn arrow_start(&self) -> usize {
        self.records_start() + self.change_types_len()
    }

    /// Offset of the last record. An empty batch occupies its base offset.
    pub const fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(self.last_offset_delta as i64)
    }

    /// Offset of the first record of the next batch.
    pub const fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// Compares the checksum with that of `batch`, the bytes of the whole batch.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] if they differ or the batch is cut.
    pub fn verify_crc(&self, batch: &[u8]) -> Result<()> {
        let Some(batch) = batch.get(..self.total_len) else {
            return Err(cut(self.total_len, batch.len()));
        };
        let actual = crc32c::crc32c(&batch[self.magic.crc_start()..]);
        if actual != self.crc {
            return Err(FormatError::corrupt(format!(
                "batch checksum is {actual:08x}, its header says {:08x}",
                self.crc
            )));
        }
        Ok(())
    }

    /// Writes the header, without statistics, to the first
    /// [`BatchHeader::header_len`] bytes of `out`. The checksum is written as it
    /// stands.
    pub(crate) fn write_to(&self, out: &mut [u8]) {
        let after = (self.total_len - SIZE_PREFIX_LEN) as i32;
        out[0..8].copy_from_slice(&self.base_offset.to_le_bytes());
        out[8..12].copy_from_slice(&after.to_le_bytes());
        out[12] = self.magic as u8;
        out[13..21].copy_from_slice(&self.commit_timestamp_ms.to_le_bytes());
        if self.magic == Magic::V2 {
            out[21..25].copy_from_slice(&self.leader_epoch.unwrap_or(-1).to_le_bytes());
        }
        let crc_at = self.magic.crc_position();
        out[crc_at..crc_at + 4].copy_from_slice(&self.crc.to_le_bytes());
        let fields = &mut out[self.magic.crc_start()..];
        fields[0..2].copy_from_slice(&self.schema_id.to_le_bytes());
        fields[2] = self.attributes;
        fields[3..7].copy_from_slice(&self.last_offset_delta.to_le_bytes());
        fields[7..15].copy_from_slice(&self.writer_id.to_le_bytes());
        fields[15..19].copy_from_slice(&self.batch_sequence.to_le_bytes());
        fields[19..23].copy_from_slice(&self.record_count.to_le_bytes());
        if self.magic != Magic::V0 {
            fields[23..27].copy_from_slice(&(self.statistics_len as i32).to_le_bytes());
        }
    }
}

/// What a leader writes into a batch when it appends it; none of it is covered
/// by the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderStamp {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Time of the append, epoch milliseconds.
    pub commit_timestamp_ms: i64,
    /// Epoch of the leader, which only V2 stores.
    pub leader_epoch: i32,
}

impl LeaderStamp {
    /// Stamps the bytes of a batch in place, of which the header suffices.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] if they do not begin with a batch.
    pub fn apply(&self, batch: &mut [u8]) -> Result<()> {
        let magic = BatchPrefix::parse(batch)?.magic;
        if batch.len() < magic.header_len() {
            return Err(cut(magic.header_len(), batch.len()));
        }
        batch[0..8].copy_from_slice(&self.base_offset.to_le_bytes());
        batch[13..21].copy_from_slice(&self.commit_timestamp_ms.to_le_bytes());
        if magic == Magic::V2 {
            batch[21..25].copy_from_slice(&self.leader_epoch.to_le_bytes());
        }
        Ok(())
    }

    /// The first bytes of a batch as stamped, for those who write the rest of
    /// it from shared memory: `prefix`, then `batch[prefix.len()..]`.
    pub fn prefix(&self, header: &BatchHeader) -> StampedPrefix {
        let mut bytes = [0; MAX_HEADER_LEN];
        let stamped = BatchHeader {
            base_offset: self.base_offset,
            commit_timestamp_ms: self.commit_timestamp_ms,
            leader_epoch: Some(self.leader_epoch),
            ..*header
        };
        stamped.write_to(&mut bytes);
        StampedPrefix {
            bytes,
            len: header.magic.crc_position(),
        }
    }
}

/// See [`LeaderStamp::prefix`].
#[derive(Clone, Copy, Debug)]
pub struct StampedPrefix {
    bytes: [u8; MAX_HEADER_LEN],
    len: usize,
}

impl std::ops::Deref for StampedPrefix {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn cut(needed: usize, available: usize) -> FormatError {
    FormatError::corrupt(format!(
        "batch cut: {needed} bytes needed, {available} there"
    ))
}

fn length(after: i32) -> FormatError {
    FormatError::corrupt(format!("batch length field {after}"))
}

#[cfg(test)]
mod tests;
