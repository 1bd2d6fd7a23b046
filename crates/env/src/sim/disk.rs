//! The state of a simulated disk: inodes, names, faults, trace.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Survival;
use super::fault::{Fault, Operation};
use super::inode::{DirChange, DirNode, FileChange, FileNode};
use crate::file_system::DirEntry;
use crate::seeded_rng::SeededRng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InodeNumber(u64);

const ROOT: InodeNumber = InodeNumber(0);

#[derive(Clone, Debug)]
enum Inode {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    inodes: BTreeMap<InodeNumber, Inode>,
    powered: bool,
    rng: SeededRng,
    pub operations: u64,
    pub faults: BTreeMap<u64, Fault>,
    pub trace: Vec<Operation>,
    pub capacity: Option<u64>,
    pub open_handles: usize,
}

impl Disk {
    pub fn new(seed: u64) -> Self {
        let root = Inode::Dir(DirNode::default());
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            powered: true,
            rng: SeededRng::new(seed),
            operations: 0,
            faults: BTreeMap::new(),
            trace: Vec::new(),
            capacity: None,
            open_handles: 0,
        }
    }

    pub fn after_power_loss(&self, survival: Survival) -> Self {
        let mut disk = self.after_process_kill();
        for (number, inode) in &mut disk.inodes {
            // Each inode draws its own outcome from the one seed.
            let survival = match survival {
                Survival::Seeded(seed) => Survival::Seeded(
                    SeededRng::new(seed ^ number.0.wrapping_mul(0x9e37_79b9)).next_u64(),
                ),
                other => other,
            };
            match inode {
                Inode::File(file) => {
                    let content = file.survivor(survival);
                    *file = FileNode {
                        live: content.clone(),
                        durable: content,
                        pending: Vec::new(),
                    };
                }
                Inode::Dir(dir) => {
                    let entries = dir.survivor(survival);
                    *dir = DirNode {
                        live: entries.clone(),
                        durable: entries,
                        pending: Vec::new(),
                    };
                }
            }
        }
        disk
    }

    pub fn after_process_kill(&self) -> Self {
        let mut disk = self.clone();
        disk.powered = true;
        disk.operations = 0;
        disk.faults.clear();
        disk.trace.clear();
        disk.open_handles = 0;
        disk
    }

    pub fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        if self.dir(parent)?.live.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.begin_entry_change()?;
        let inode = self.add_inode(Inode::Dir(DirNode::default()));
        self.dir_mut(parent)?
            .change(DirChange::Link { name, inode });
        self.trace.push(Operation::CreateDir(path.to_owned()));
        Ok(())
    }

    pub fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut so_far = PathBuf::from("/");
        for name in names(path)? {
            so_far.push(name);
            match self.create_dir(&so_far) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        self.dir(self.lookup(path)?).map(drop)
    }

    pub fn create_new(&mut self, path: &Path) -> io::Result<InodeNumber> {
        let (parent, name) = self.parent(path)?;
        if self.dir(parent)?.live.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.begin_entry_change()?;
        if self.room() == 0 {
            return Err(Fault::DiskFull.error());
        }
        let inode = self.add_inode(Inode::File(FileNode::default()));
        self.dir_mut(parent)?
            .change(DirChange::Link { name, inode });
        self.trace.push(Operation::Create(path.to_owned()));
        Ok(inode)
    }

    pub fn open(&self, path: &Path) -> io::Result<InodeNumber> {
        self.check_power()?;
        let inode = self.lookup(path)?;
        self.file(inode).map(|_| inode)
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        if parent != to_parent {
            // Its atomicity across two unsynced directories is not modelled.
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let inode = self.lookup(from)?;
        self.begin_entry_change()?;
        let change = DirChange::Rename {
            from: from_name,
            to: to_name,
            inode,
        };
        self.dir_mut(parent)?.change(change);
        self.trace.push(Operation::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        });
        Ok(())
    }

    pub fn remove(&mut self, path: &Path, is_dir: bool) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        match self.inode(self.lookup(path)?)? {
            Inode::File(_) if is_dir => return Err(io::ErrorKind::NotADirectory.into()),
            Inode::Dir(_) if !is_dir => return Err(io::ErrorKind::IsADirectory.into()),
            Inode::Dir(dir) if !dir.live.is_empty() => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            Inode::File(_) | Inode::Dir(_) => {}
        }
        self.begin_entry_change()?;
        self.dir_mut(parent)?.change(DirChange::Unlink { name });
        self.trace.push(Operation::Remove(path.to_owned()));
        Ok(())
    }

    pub fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.check_power()?;
        let dir = self.dir(self.lookup(path)?)?;
        dir.live
            .iter()
            .map(|(name, inode)| {
                let (len, is_dir) = match self.inode(*inode)? {
                    Inode::File(file) => (file.live.len() as u64, false),
                    Inode::Dir(_) => (0, true),
                };
                Ok(DirEntry {
                    name: name.clone(),
                    len,
                    is_dir,
                })
            })
            .collect()
    }

    pub fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.lookup(path)?;
        match self.begin()? {
            None => {
                self.dir_mut(inode)?.sync();
                self.trace.push(Operation::SyncDir(path.to_owned()));
                Ok(())
            }
            // Metadata stays dirty: file systems with a journal do not forget
            // changed entries, they stop working altogether.
            Some(fault) => Err(fault.error()),
        }
    }

    pub fn read(&self, inode: InodeNumber, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.check_power()?;
        let content = &self.file(inode)?.live;
        let start = usize::try_from(position)
            .unwrap_or(usize::MAX)
            .min(content.len());
        let count = buffer.len().min(content.len() - start);
        buffer[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }

    pub fn write(
        &mut self,
        path: &Path,
        inode: InodeNumber,
        position: u64,
        mut bytes: Vec<u8>,
    ) -> io::Result<()> {
        let mut fault = self.begin()?;
        let position = usize::try_from(position).map_err(io::Error::other)?;
        if fault.is_some() {
            // The operation fails, after any part of it.
            let written = self.rng.index(bytes.len() + 1);
            bytes.truncate(written);
        }
        let growth = (position + bytes.len()).saturating_sub(self.file(inode)?.live.len());
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        if growth > room {
            bytes.truncate(bytes.len().saturating_sub(growth - room));
            fault = fault.or(Some(Fault::DiskFull));
        }
        let len = bytes.len() as u64;
        if !bytes.is_empty() {
            self.file_mut(inode)?
                .change(FileChange::Write { position, bytes });
        }
        match fault {
            Some(fault) => Err(fault.error()),
            None => {
                let position = position as u64;
                self.trace.push(Operation::Write {
                    path: path.to_owned(),
                    position,
                    len,
                });
                Ok(())
            }
        }
    }

    pub fn set_len(&mut self, path: &Path, inode: InodeNumber, len: u64) -> io::Result<()> {
        if let Some(fault) = self.begin()? {
            return Err(fault.error());
        }
        let new_len = usize::try_from(len).map_err(io::Error::other)?;
        self.file_mut(inode)?.change(FileChange::SetLen(new_len));
        self.trace.push(Operation::SetLen {
            path: path.to_owned(),
            len,
        });
        Ok(())
    }

    pub fn sync_data(&mut self, path: &Path, inode: InodeNumber) -> io::Result<()> {
        match self.begin()? {
            None => {
                self.file_mut(inode)?.sync();
                self.trace.push(Operation::SyncData(path.to_owned()));
                Ok(())
            }
            Some(Fault::PowerLoss) => Err(Fault::PowerLoss.error()),
            Some(fault) => {
                let mut rng = self.rng.clone();
                self.file_mut(inode)?.fail_sync(&mut rng);
                self.rng = rng;
                Err(fault.error())
            }
        }
    }

    pub fn size(&self, inode: InodeNumber) -> io::Result<u64> {
        self.check_power()?;
        Ok(self.file(inode)?.live.len() as u64)
    }

    pub fn corrupt(&mut self, path: &Path, position: u64, mask: u8) -> io::Result<()> {
        let inode = self.lookup(path)?;
        let file = self.file_mut(inode)?;
        let index = usize::try_from(position).map_err(io::Error::other)?;
        let live = file
            .live
            .get_mut(index)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        *live ^= mask;
        let byte = *live;
        if let Some(durable) = file.durable.get_mut(index) {
            *durable ^= mask;
        }
        if !file.pending.is_empty() {
            // What is still to be written carries the damage too.
            file.pending.push(FileChange::Write {
                position: index,
                bytes: vec![byte],
            });
        }
        Ok(())
    }

    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.file(self.lookup(path)?)?.live.clone())
    }

    pub fn durable_content(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.file(self.lookup(path)?)?.durable.clone())
    }

    pub fn used_bytes(&self) -> u64 {
        let mut used = 0;
        let mut directories = vec![ROOT];
        while let Some(number) = directories.pop() {
            let Ok(dir) = self.dir(number) else { continue };
            for child in dir.live.values() {
                match &self.inodes[child] {
                    Inode::File(file) => used += file.live.len() as u64,
                    Inode::Dir(_) => directories.push(*child),
                }
            }
        }
        used
    }

    fn room(&self) -> u64 {
        match self.capacity {
            Some(capacity) => capacity.saturating_sub(self.used_bytes()),
            None => u64::MAX,
        }
    }

    fn check_power(&self) -> io::Result<()> {
        if self.powered {
            Ok(())
        } else {
            Err(Fault::PowerLoss.error())
        }
    }

    /// Counts a changing operation, and says whether it is to fail.
    fn begin(&mut self) -> io::Result<Option<Fault>> {
        self.check_power()?;
        self.operations += 1;
        let fault = self.faults.remove(&self.operations);
        if fault == Some(Fault::PowerLoss) {
            self.powered = false;
        }
        Ok(fault)
    }

    /// As [`begin`](Self::begin), for changes of one entry: they happen or not.
    fn begin_entry_change(&mut self) -> io::Result<()> {
        match self.begin()? {
            Some(fault) => Err(fault.error()),
            None => Ok(()),
        }
    }

    fn add_inode(&mut self, inode: Inode) -> InodeNumber {
        let number = InodeNumber(self.inodes.len() as u64);
        self.inodes.insert(number, inode);
        number
    }

    fn lookup(&self, path: &Path) -> io::Result<InodeNumber> {
        let mut inode = ROOT;
        for name in names(path)? {
            inode = *self
                .dir(inode)?
                .live
                .get(name)
                .ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(inode)
    }

    fn parent(&self, path: &Path) -> io::Result<(InodeNumber, String)> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = names(path)?.pop().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.lookup(parent)?, name.to_owned()))
    }

    fn inode(&self, number: InodeNumber) -> io::Result<&Inode> {
        self.inodes
            .get(&number)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, number: InodeNumber) -> io::Result<&FileNode> {
        match self.inode(number)? {
            Inode::File(file) => Ok(file),
            Inode::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn file_mut(&mut self, number: InodeNumber) -> io::Result<&mut FileNode> {
        match self.inodes.get_mut(&number) {
            Some(Inode::File(file)) => Ok(file),
            Some(Inode::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn dir(&self, number: InodeNumber) -> io::Result<&DirNode> {
        match self.inode(number)? {
            Inode::Dir(dir) => Ok(dir),
            Inode::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn dir_mut(&mut self, number: InodeNumber) -> io::Result<&mut DirNode> {
        match self.inodes.get_mut(&number) {
            Some(Inode::Dir(dir)) => Ok(dir),
            Some(Inode::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// The names along a path; only absolute, plain paths are simulated.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?);
            }
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
