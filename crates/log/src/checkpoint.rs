//! State of a log at a point below which everything is durable, so that opening
//! it reads nothing before that point.
//!
//! File `checkpoint`, little-endian:
//!
//! | Bytes | Content |
//! |---|---|
//! | 4 | magic `MSCP` |
//! | 2 | version, 1 |
//! | 2 | zero |
//! | 8 | log start offset |
//! | 8 | base offset of the first segment |
//! | 8, 8 | number and bytes of the segments before the recovery segment |
//! | 8, 8, 8 | recovery point: offset, base offset of its segment, byte in it |
//! | 8 | largest commit timestamp |
//! | 4 | number of epochs |
//! | 4 | number of writers |
//! | 12 each | epoch (4), start offset (8) |
//! | each | writer id (8), batches (1), per batch: sequence (4), last offset (8), offset delta (4), timestamp (8) |
//! | 4 | CRC-32C of all before |
//!
//! **Order of writes.** All log bytes below the recovery point and their
//! directory entries are durable before. Then: write `checkpoint.tmp`, sync it,
//! rename `checkpoint` to `checkpoint.prev`, rename `checkpoint.tmp` to
//! `checkpoint`, sync the directory. A crash at any point leaves the old or the
//! new one under one of the two names. The previous one stays as a fall-back: it
//! only makes recovery read more.

use std::io;

use mainstem_types::LeaderEpoch;

use crate::bucket_dir::BucketDir;
use crate::epochs::{EpochStart, EpochTable};
use crate::error::LogError;
use crate::writers::{BATCHES_PER_WRITER, WriterEntry, WriterStates, WrittenBatch};

pub(crate) const CHECKPOINT: &str = "checkpoint";
pub(crate) const PREVIOUS: &str = "checkpoint.prev";
const TEMPORARY: &str = "checkpoint.tmp";

const MAGIC: &[u8; 4] = b"MSCP";
const VERSION: u16 = 1;
/// A checkpoint of a million writers: larger than any that is written.
const MAX_FILE_LEN: u64 = 160 << 20;

/// A place in the log, as offset and as segment and byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveryPoint {
    pub offset: i64,
    pub segment_base: i64,
    pub position: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoint {
    pub log_start_offset: i64,
    /// Base offset of the first segment; older files are to be removed.
    pub first_segment_base: i64,
    /// Segments before the recovery segment: with their total size it shows
    /// that one was lost or cut, without looking into them.
    pub sealed_count: u64,
    pub sealed_bytes: u64,
    pub recovery: RecoveryPoint,
    pub max_timestamp_ms: i64,
    pub epochs: EpochTable,
    pub writers: WriterStates,
}

impl Checkpoint {
    /// The state of an empty log that begins at `offset`.
    pub fn empty_at(offset: i64) -> Self {
        Self {
            log_start_offset: offset,
            first_segment_base: offset,
            recovery: RecoveryPoint {
                offset,
                segment_base: offset,
                position: 0,
            },
            max_timestamp_ms: i64::MIN,
            ..Self::default()
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let writers = self.writers.sorted();
        let mut bytes = Vec::with_capacity(128 + writers.len() * 140);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.log_start_offset.to_le_bytes());
        bytes.extend_from_slice(&self.first_segment_base.to_le_bytes());
        bytes.extend_from_slice(&self.sealed_count.to_le_bytes());
        bytes.extend_from_slice(&self.sealed_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.recovery.offset.to_le_bytes());
        bytes.extend_from_slice(&self.recovery.segment_base.to_le_bytes());
        bytes.extend_from_slice(&self.recovery.position.to_le_bytes());
        bytes.extend_from_slice(&self.max_timestamp_ms.to_le_bytes());
        bytes.extend_from_slice(&(self.epochs.starts().len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(writers.len() as u32).to_le_bytes());
        for start in self.epochs.starts() {
            bytes.extend_from_slice(&start.epoch.0.to_le_bytes());
            bytes.extend_from_slice(&start.start_offset.to_le_bytes());
        }
        for (writer, entry) in &writers {
            bytes.extend_from_slice(&writer.to_le_bytes());
            bytes.push(entry.batches().len() as u8);
            for batch in entry.batches() {
                bytes.extend_from_slice(&batch.sequence.to_le_bytes());
                bytes.extend_from_slice(&batch.last_offset.to_le_bytes());
                bytes.extend_from_slice(&batch.offset_delta.to_le_bytes());
                bytes.extend_from_slice(&batch.timestamp_ms.to_le_bytes());
            }
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The checkpoint in `bytes`; `None` when they are damaged, cut, or of a
    /// version that this program does not know.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(content).to_le_bytes() != *crc {
            return None;
        }
        let mut input = Input(content);
        if input.take::<4>()? != *MAGIC || u16::from_le_bytes(input.take()?) != VERSION {
            return None;
        }
        let _reserved: [u8; 2] = input.take()?;
        let mut checkpoint = Self {
            log_start_offset: input.i64()?,
            first_segment_base: input.i64()?,
            sealed_count: u64::from_le_bytes(input.take()?),
            sealed_bytes: u64::from_le_bytes(input.take()?),
            recovery: RecoveryPoint {
                offset: input.i64()?,
                segment_base: input.i64()?,
                position: u64::from_le_bytes(input.take()?),
            },
            max_timestamp_ms: input.i64()?,
            ..Self::default()
        };
        let epochs = u32::from_le_bytes(input.take()?);
        let writers = u32::from_le_bytes(input.take()?);
        // Both counts are bounded by the bytes: each round takes some or ends.
        let mut starts = Vec::new();
        for _ in 0..epochs {
            let epoch = LeaderEpoch(input.i32()?);
            starts.push(EpochStart {
                epoch,
                start_offset: input.i64()?,
            });
        }
        checkpoint.epochs = EpochTable::from_starts(starts)?;
        for _ in 0..writers {
            let writer = input.i64()?;
            let [count] = input.take()?;
            if usize::from(count) > BATCHES_PER_WRITER {
                return None;
            }
            let mut entry = WriterEntry::default();
            for _ in 0..count {
                entry.push(WrittenBatch {
                    sequence: input.i32()?,
                    last_offset: input.i64()?,
                    offset_delta: input.i32()?,
                    timestamp_ms: input.i64()?,
                });
            }
            checkpoint.writers.insert(writer, entry);
        }
        input.0.is_empty().then_some(checkpoint)
    }

    /// Makes this the checkpoint of `dir`, durably.
    ///
    /// # Errors
    /// On an error the old one, the new one, or the old one under its second
    /// name is in place.
    pub fn store(&self, dir: &BucketDir) -> Result<(), LogError> {
        let file = dir.write_small(TEMPORARY, &self.encode())?;
        let temporary = dir.file(TEMPORARY);
        file.sync_data()
            .map_err(|error| LogError::io("sync", &temporary, error))?;
        let current = dir.file(CHECKPOINT);
        match dir.fs().rename(&current, &dir.file(PREVIOUS)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LogError::io("rename", &current, error));
            }
            _ => {}
        }
        dir.fs()
            .rename(&temporary, &current)
            .map_err(|error| LogError::io("rename", &temporary, error))?;
        dir.sync()
    }

    /// As [`store`](Self::store), leaving no earlier checkpoint to fall back to:
    /// before the log is cut below what an earlier one says.
    pub fn store_alone(&self, dir: &BucketDir) -> Result<(), LogError> {
        self.store(dir)?;
        dir.remove(PREVIOUS)?;
        dir.sync()
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }
}

/// Which checkpoint a log was opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointUsed {
    /// There was none.
    #[default]
    None,
    /// The latest one.
    Latest,
    /// The one before: the latest is missing or damaged.
    Previous,
    /// There is one, and it is damaged, and so is the one before if any.
    Unreadable,
}

/// The newest readable checkpoint of `dir`.
pub(crate) fn load(dir: &BucketDir) -> Result<(Option<Checkpoint>, CheckpointUsed), LogError> {
    let latest = dir.read_small(CHECKPOINT, MAX_FILE_LEN)?;
    if let Some(checkpoint) = latest.as_deref().and_then(Checkpoint::decode) {
        return Ok((Some(checkpoint), CheckpointUsed::Latest));
    }
    let previous = dir.read_small(PREVIOUS, MAX_FILE_LEN)?;
    if let Some(checkpoint) = previous.as_deref().and_then(Checkpoint::decode) {
        return Ok((Some(checkpoint), CheckpointUsed::Previous));
    }
    let used = if latest.is_some() || previous.is_some() {
        CheckpointUsed::Unreadable
    } else {
        CheckpointUsed::None
    };
    Ok((None, used))
}

#[cfg(test)]
mod tests {
    use mainstem_format::header::BatchHeader;
    use mainstem_format::log_batch_builder::BatchSpec;

    use super::*;

    fn checkpoint() -> Checkpoint {
        let mut checkpoint = Checkpoint {
            log_start_offset: 3,
            first_segment_base: 1,
            sealed_count: 7,
            sealed_bytes: 1 << 40,
            recovery: RecoveryPoint {
                offset: 99,
                segment_base: 80,
                position: 4_000,
            },
            max_timestamp_ms: 1_700_000_000_000,
            ..Checkpoint::default()
        };
        checkpoint.epochs.assign(LeaderEpoch(2), 10);
        checkpoint.epochs.assign(LeaderEpoch(5), 20);
        for (writer_id, sequences) in [(4, 0..7), (9, 0..2)] {
            for batch_sequence in sequences {
                let spec = BatchSpec {
                    writer_id,
                    batch_sequence,
                    ..BatchSpec::default()
                };
                let header = BatchHeader::parse(&spec.empty()).unwrap();
                checkpoint.writers.record(&header, 100);
            }
        }
        checkpoint
    }

    #[test]
    fn a_checkpoint_comes_back_as_it_was() {
        let checkpoint = checkpoint();
        let decoded = Checkpoint::decode(&checkpoint.encode()).unwrap();
        assert_eq!(decoded.encode(), checkpoint.encode());
        assert_eq!(decoded.recovery, checkpoint.recovery);
        assert_eq!(decoded.epochs, checkpoint.epochs);
        assert_eq!(decoded.writers.sorted(), checkpoint.writers.sorted());
    }

    #[test]
    fn no_cut_or_changed_byte_goes_unnoticed() {
        let bytes = checkpoint().encode();
        for len in 0..bytes.len() {
            assert!(Checkpoint::decode(&bytes[..len]).is_none(), "{len} bytes");
        }
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            assert!(Checkpoint::decode(&changed).is_none(), "byte {position}");
        }
    }

    #[test]
    fn counts_beyond_the_bytes_are_refused_without_allocating_for_them() {
        let mut bytes = Checkpoint::empty_at(0).encode();
        let writers_at = bytes.len() - 8;
        bytes[writers_at..writers_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let content = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..content]);
        bytes[content..].copy_from_slice(&crc.to_le_bytes());
        assert!(Checkpoint::decode(&bytes).is_none());
    }
}
