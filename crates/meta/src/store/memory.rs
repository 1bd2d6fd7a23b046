//! A store in memory, for tests and for servers that keep nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use parking_lot::RwLock;

use super::engine::{Backing, Engine, ReadTree, WriteTree, impl_store_by_engine};
use super::{Entry, Listing, MetaStore, Revision, SessionId, Transaction, Watch};
use crate::MetaError;

#[derive(Debug, Default)]
struct Contents {
    revision: Revision,
    entries: BTreeMap<String, Entry>,
}

impl ReadTree for Contents {
    fn revision(&self) -> Result<Revision, MetaError> {
        Ok(self.revision)
    }

    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
        Ok(self.entries.get(key).cloned())
    }

    fn visit(
        &self,
        start: &str,
        visitor: &mut dyn FnMut(&str, &[u8], Revision) -> bool,
    ) -> Result<(), MetaError> {
        let range = (Bound::Included(start), Bound::Unbounded);
        for (key, entry) in self.entries.range::<str, _>(range) {
            if !visitor(key, &entry.value, entry.version) {
                break;
            }
        }
        Ok(())
    }
}

/// A write that can be taken back.
struct Write<'a> {
    contents: &'a mut Contents,
    revision_before: Revision,
    undo: Vec<(String, Option<Entry>)>,
}

impl Write<'_> {
    fn roll_back(self) {
        for (key, before) in self.undo.into_iter().rev() {
            match before {
                Some(entry) => self.contents.entries.insert(key, entry),
                None => self.contents.entries.remove(&key),
            };
        }
        self.contents.revision = self.revision_before;
    }
}

impl ReadTree for Write<'_> {
    fn revision(&self) -> Result<Revision, MetaError> {
        self.contents.revision()
    }

    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
        self.contents.get(key)
    }

    fn visit(
        &self,
        start: &str,
        visitor: &mut dyn FnMut(&str, &[u8], Revision) -> bool,
    ) -> Result<(), MetaError> {
        self.contents.visit(start, visitor)
    }
}

impl WriteTree for Write<'_> {
    fn set_revision(&mut self, revision: Revision) -> Result<(), MetaError> {
        self.contents.revision = revision;
        Ok(())
    }

    fn insert(&mut self, key: &str, value: &Bytes, version: Revision) -> Result<(), MetaError> {
        let entry = Entry {
            value: value.clone(),
            version,
        };
        let before = self.contents.entries.insert(key.to_owned(), entry);
        self.undo.push((key.to_owned(), before));
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), MetaError> {
        let before = self.contents.entries.remove(key);
        self.undo.push((key.to_owned(), before));
        Ok(())
    }

    fn mark_ephemeral(&mut self, _key: &str, _ephemeral: bool) -> Result<(), MetaError> {
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Memory(RwLock<Contents>);

impl Backing for Memory {
    fn read(
        &self,
        read: &mut dyn FnMut(&dyn ReadTree) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        read(&*self.0.read())
    }

    fn write(
        &self,
        write: &mut dyn FnMut(&mut dyn WriteTree) -> Result<bool, MetaError>,
    ) -> Result<(), MetaError> {
        let mut contents = self.0.write();
        let revision_before = contents.revision;
        let mut tree = Write {
            contents: &mut contents,
            revision_before,
            undo: Vec::new(),
        };
        let outcome = write(&mut tree);
        if !matches!(outcome, Ok(true)) {
            tree.roll_back();
        }
        outcome.map(|_| ())
    }
}

/// A [`MetaStore`] in memory: as the embedded one, but gone with the process.
#[derive(Debug)]
pub struct MemoryStore(Engine<Memory>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self(Engine::new(Memory::default()).expect("reading an empty map cannot fail"))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl_store_by_engine!(MemoryStore);
