//! Files and directories with their unsynced changes, and what a power loss
//! makes of these.

use std::collections::BTreeMap;

use super::Survival;
use super::disk::InodeNumber;
use crate::seeded_rng::SeededRng;

/// The unit in which disks write: what is within one sector is kept or lost as
/// a whole, unless the write is torn.
const SECTOR: usize = 512;

/// An unsynced change of a file.
#[derive(Clone, Debug)]
pub(super) enum FileChange {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    pub live: Vec<u8>,
    pub durable: Vec<u8>,
    pub pending: Vec<FileChange>,
}

impl FileNode {
    pub fn change(&mut self, change: FileChange) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// A failed sync: some of it reached the disk, nothing of the rest ever will.
    pub fn fail_sync(&mut self, rng: &mut SeededRng) {
        self.durable = self.survivor(Survival::Seeded(rng.next_u64()));
        self.pending.clear();
    }

    /// The content after a power loss.
    pub fn survivor(&self, survival: Survival) -> Vec<u8> {
        let mut content = self.durable.clone();
        let kept = match survival {
            Survival::Nothing => 0,
            Survival::Everything => self.pending.len(),
            Survival::Seeded(seed) => {
                let mut rng = SeededRng::new(seed);
                match rng.below(6) {
                    0 => 0,
                    1 => self.pending.len(),
                    2 | 3 => return self.torn(content, &mut rng),
                    _ => return self.sectors(content, &mut rng),
                }
            }
        };
        for change in &self.pending[..kept] {
            apply(&mut content, change);
        }
        content
    }

    /// A prefix of the changes, the last of them written up to any byte.
    fn torn(&self, mut content: Vec<u8>, rng: &mut SeededRng) -> Vec<u8> {
        let whole = rng.index(self.pending.len() + 1);
        for change in &self.pending[..whole] {
            apply(&mut content, change);
        }
        if let Some(FileChange::Write { position, bytes }) = self.pending.get(whole) {
            let written = bytes[..rng.index(bytes.len() + 1)].to_vec();
            apply(
                &mut content,
                &FileChange::Write {
                    position: *position,
                    bytes: written,
                },
            );
        }
        content
    }

    /// Single sectors of single writes, in any combination. A sector that was
    /// lost shows what was there before: older bytes, or where the file had
    /// been extended zeros, or what the blocks held before they were ours.
    fn sectors(&self, mut content: Vec<u8>, rng: &mut SeededRng) -> Vec<u8> {
        let keep_percent = [10, 50, 90][rng.index(3)];
        let garbage = rng.chance(25);
        for change in &self.pending {
            match change {
                FileChange::SetLen(_) => {
                    if rng.chance(keep_percent) {
                        apply(&mut content, change);
                    }
                }
                FileChange::Write { position, bytes } => {
                    let end = position + bytes.len();
                    if end > content.len() && rng.chance(80) {
                        let start = content.len();
                        content.resize(end, 0);
                        if garbage {
                            rng.fill(&mut content[start..]);
                        }
                    }
                    let mut from = *position;
                    while from < end {
                        let to = ((from / SECTOR + 1) * SECTOR).min(end);
                        if rng.chance(keep_percent) {
                            let bytes = bytes[from - position..to - position].to_vec();
                            apply(
                                &mut content,
                                &FileChange::Write {
                                    position: from,
                                    bytes,
                                },
                            );
                        }
                        from = to;
                    }
                }
            }
        }
        content
    }
}

fn apply(content: &mut Vec<u8>, change: &FileChange) {
    match change {
        FileChange::Write { position, bytes } => {
            let end = position + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*position..end].copy_from_slice(bytes);
        }
        FileChange::SetLen(len) => content.resize(*len, 0),
    }
}

/// An unsynced change of a directory.
#[derive(Clone, Debug)]
pub(super) enum DirChange {
    Link {
        name: String,
        inode: InodeNumber,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
        inode: InodeNumber,
    },
}

pub(super) type Entries = BTreeMap<String, InodeNumber>;

#[derive(Clone, Debug, Default)]
pub(super) struct DirNode {
    pub live: Entries,
    pub durable: Entries,
    pub pending: Vec<DirChange>,
}

impl DirNode {
    pub fn change(&mut self, change: DirChange) {
        apply_to_entries(&mut self.live, &change);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply_to_entries(&mut self.durable, &change);
        }
    }

    /// The entries after a power loss.
    pub fn survivor(&self, survival: Survival) -> Entries {
        let mut entries = self.durable.clone();
        match survival {
            Survival::Nothing => {}
            Survival::Everything => entries.clone_from(&self.live),
            Survival::Seeded(seed) => {
                let mut rng = SeededRng::new(seed);
                let keep_percent = [0, 100, 50, 80][rng.index(4)];
                let in_order = rng.chance(40);
                for change in &self.pending {
                    if rng.chance(keep_percent) {
                        apply_to_entries(&mut entries, change);
                    } else if in_order {
                        break;
                    }
                }
            }
        }
        entries
    }
}

fn apply_to_entries(entries: &mut Entries, change: &DirChange) {
    match change {
        DirChange::Link { name, inode } => {
            entries.insert(name.clone(), *inode);
        }
        DirChange::Unlink { name } => {
            entries.remove(name);
        }
        DirChange::Rename { from, to, inode } => {
            if entries.get(from) == Some(inode) {
                entries.remove(from);
            }
            entries.insert(to.clone(), *inode);
        }
    }
}
