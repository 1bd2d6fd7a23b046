//! A lower bound of what was ever durable in a bucket.
//!
//! When recovery meets bytes that are no batch, this tells a torn tail, which
//! nobody was promised, from damage to acknowledged data. A checkpoint cannot:
//! it is written every few seconds only.
//!
//! File `durable.mark`, overwritten in place after every sync of the log and
//! **before** the bytes are acknowledged, itself not synced: after `kill -9` it
//! is exact, after a power cut it is older or unreadable, and it is never ahead
//! of what was durable. Before the log is cut it is lowered and synced.
//!
//! | Bytes | Content |
//! |---|---|
//! | 4 | magic `MSDM` |
//! | 4 | version, 1 |
//! | 8 | offset below which everything was durable once |
//! | 4 | CRC-32C of all before |

use std::io::IoSlice;
use std::sync::Arc;

use mainstem_env::{OpenMode, StorageFile};

use crate::bucket_dir::BucketDir;
use crate::error::LogError;

pub(crate) const DURABLE_MARK: &str = "durable.mark";

const MAGIC: &[u8; 4] = b"MSDM";
const VERSION: u32 = 1;
const LEN: usize = 20;

fn encode(durable_end: i64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[0..4].copy_from_slice(MAGIC);
    bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
    bytes[8..16].copy_from_slice(&durable_end.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<i64> {
    let bytes: &[u8; LEN] = bytes.try_into().ok()?;
    let durable_end = i64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
    (*bytes == encode(durable_end)).then_some(durable_end)
}

/// The mark of `dir`; `None` when there is none, or it is unreadable.
pub(crate) fn load(dir: &BucketDir) -> Result<Option<i64>, LogError> {
    Ok(dir
        .read_small(DURABLE_MARK, LEN as u64)?
        .and_then(|bytes| decode(&bytes)))
}

/// The mark of a bucket that is being written, opened at its first use.
#[derive(Debug, Default)]
pub(crate) struct DurableMark {
    file: Option<Arc<dyn StorageFile>>,
}

impl DurableMark {
    /// Notes that everything below `durable_end` is durable. A mark that cannot
    /// be written stays lower, which is as true.
    pub fn raise(&mut self, dir: &BucketDir, durable_end: i64) {
        let written = self.file(dir).and_then(|file| {
            file.write_all_at(&mut [IoSlice::new(&encode(durable_end))], 0)
                .map_err(|error| LogError::io("write", &dir.file(DURABLE_MARK), error))
        });
        if let Err(error) = written {
            self.file = None;
            tracing::debug!(%error, "durable mark was not written");
        }
    }

    /// Lowers the mark, durably, before the log is cut at `durable_end`.
    pub fn lower(&mut self, dir: &BucketDir, durable_end: i64) -> Result<(), LogError> {
        let path = dir.file(DURABLE_MARK);
        let file = self.file(dir)?;
        file.write_all_at(&mut [IoSlice::new(&encode(durable_end))], 0)
            .map_err(|error| LogError::io("write", &path, error))?;
        file.sync_data()
            .map_err(|error| LogError::io("sync", &path, error))
    }

    /// Closes the file of a bucket that is idle.
    pub fn close(&mut self) {
        self.file = None;
    }

    fn file(&mut self, dir: &BucketDir) -> Result<&dyn StorageFile, LogError> {
        if self.file.is_none() {
            let path = dir.file(DURABLE_MARK);
            let opened = match dir.fs().open(&path, OpenMode::ReadWrite) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    dir.fs().create_new(&path)
                }
                result => result,
            };
            self.file = Some(opened.map_err(|error| LogError::io("open", &path, error))?);
        }
        Ok(&**self.file.as_ref().expect("opened above"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_or_not_at_all() {
        let bytes = encode(123_456_789);
        assert_eq!(decode(&bytes), Some(123_456_789));
        for position in 0..LEN {
            let mut changed = bytes;
            changed[position] ^= 4;
            assert_eq!(decode(&changed), None, "byte {position}");
            assert_eq!(decode(&bytes[..position]), None);
        }
    }
}
