//! What a tablet notes beside its store: from where on the changelog has to be
//! replayed, how many rows there are, and the range of auto-increment numbers.
//!
//! File `state`, replaced as a whole. If it is lost or damaged the store is built
//! anew from the changelog, and the rest of the range is not used.
//!
//! | Bytes | Content |
//! |---|---|
//! | 4 | magic `MSKV` |
//! | 4 | version, 1 |
//! | 8 | offset: the store holds all changes below it, durably |
//! | 8 | rows of the table at that offset |
//! | 8 | sequence number of the store at that offset |
//! | 4 | column id of the range, −1 = none |
//! | 8 | next number of the range |
//! | 8 | last number of the range |
//! | 8 | boot of the machine in which the store is open, 0 = none |
//! | 4 | CRC-32C of all before |

use std::io::{self, IoSlice};
use std::path::Path;

use mainstem_env::{FileSystem, OpenMode};

use crate::NumberRange;

const FILE: &str = "state";
const TEMPORARY: &str = "state.new";
const MAGIC: &[u8; 4] = b"MSKV";
const VERSION: u32 = 1;
const LEN: usize = 64;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TabletState {
    /// The store holds all changes below this offset of the changelog, durably.
    pub offset: i64,
    /// Rows at that offset.
    pub row_count: i64,
    /// Sequence number that the store had there. One that has a smaller number when
    /// it is opened is another store, or an older copy of this one.
    pub sequence: u64,
    /// Numbers of the auto-increment column; those below `next` were in use when
    /// the changelog had grown to `offset`.
    pub numbers: Option<NumberRange>,
    /// With a changelog that a power cut may cut: the boot of the machine in which
    /// the store was opened last, 0 once it is closed. The files of the store may hold
    /// changes that such a cut took out of the changelog.
    pub boot: u64,
}

impl TabletState {
    fn encode(&self) -> [u8; LEN] {
        let range = self.numbers.unwrap_or(NumberRange {
            column_id: -1,
            next: 0,
            end: 0,
        });
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.row_count.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&range.column_id.to_le_bytes());
        bytes.extend_from_slice(&range.next.to_le_bytes());
        bytes.extend_from_slice(&range.end.to_le_bytes());
        bytes.extend_from_slice(&self.boot.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.try_into().expect("the fields are so long")
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let i64_at = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let column_id = i32::from_le_bytes(bytes[32..36].try_into().expect("4 bytes"));
        let state = Self {
            offset: i64_at(8),
            row_count: i64_at(16),
            sequence: i64_at(24) as u64,
            numbers: (column_id >= 0).then(|| NumberRange {
                column_id,
                next: i64_at(36),
                end: i64_at(44),
            }),
            boot: i64_at(52) as u64,
        };
        (state.encode() == *bytes && state.offset >= 0).then_some(state)
    }

    /// The state in a directory; `None` if there is none that can be read.
    ///
    /// # Errors
    /// The disk fails.
    pub fn load(files: &dyn FileSystem, dir: &Path) -> io::Result<Option<Self>> {
        let file = match files.open(&dir.join(FILE), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.size()? != LEN as u64 {
            return Ok(None);
        }
        let mut bytes = [0; LEN];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self::decode(&bytes))
    }

    /// Makes this the state in a directory, durably.
    ///
    /// # Errors
    /// The disk fails; the state before is still there.
    pub fn store(&self, files: &dyn FileSystem, dir: &Path) -> io::Result<()> {
        let temporary = dir.join(TEMPORARY);
        missing_is_fine(files.remove_file(&temporary))?;
        let file = files.create_new(&temporary)?;
        file.write_all_at(&mut [IoSlice::new(&self.encode())], 0)?;
        file.sync_data()?;
        files.rename(&temporary, &dir.join(FILE))?;
        files.sync_dir(dir)
    }

    /// Removes the state from a directory, durably: what lies there is no store any
    /// more.
    ///
    /// # Errors
    /// The disk fails; the state may be there again after a crash.
    pub fn remove(files: &dyn FileSystem, dir: &Path) -> io::Result<()> {
        for name in [FILE, TEMPORARY] {
            missing_is_fine(files.remove_file(&dir.join(name)))?;
        }
        // Also if nothing was there: an earlier removal may not be durable.
        missing_is_fine(files.sync_dir(dir))
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> TabletState {
        TabletState {
            offset: 1 << 40,
            row_count: 77,
            sequence: 1 << 50,
            numbers: Some(NumberRange {
                column_id: 3,
                next: 101,
                end: 200,
            }),
            boot: u64::MAX - 5,
        }
    }

    #[test]
    fn a_state_is_read_back_or_not_at_all() {
        for state in [state(), TabletState::default()] {
            let bytes = state.encode();
            assert_eq!(TabletState::decode(&bytes), Some(state));
            for position in 0..LEN {
                let mut changed = bytes;
                changed[position] ^= 4;
                assert_eq!(TabletState::decode(&changed), None, "byte {position}");
                assert_eq!(TabletState::decode(&bytes[..position]), None);
            }
        }
    }

    #[test]
    fn storing_replaces_and_removing_leaves_none() {
        let files = mainstem_env::SimFileSystem::new(1);
        let dir = Path::new("/kv");
        files.create_dir_all(dir).unwrap();
        assert_eq!(TabletState::load(&files, dir).unwrap(), None);
        TabletState::default().store(&files, dir).unwrap();
        state().store(&files, dir).unwrap();
        assert_eq!(TabletState::load(&files, dir).unwrap(), Some(state()));
        TabletState::remove(&files, dir).unwrap();
        TabletState::remove(&files, dir).unwrap();
        assert_eq!(TabletState::load(&files, dir).unwrap(), None);
    }
}
