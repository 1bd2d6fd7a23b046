//! Changes whose changelog records are appended but not committed yet. Later puts
//! see them; readers do when they are committed ([`recent`](crate::recent)).

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::writes::in_key_order;
use crate::{KvWrites, ValueAt};

/// The changes of one put, or of a part of the changelog that is replayed, with an
/// index of the last change of every key.
#[derive(Debug, Default)]
pub struct Changes {
    writes: KvWrites,
    index: HashTable<Last>,
    row_delta: i64,
}

#[derive(Debug)]
struct Last {
    hash: u64,
    at: ValueAt,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// Nothing: look elsewhere.
    Nothing,
    /// It is deleted.
    Deleted,
    /// It has this stored value.
    Value(&'a [u8]),
}

impl<'a> Known<'a> {
    /// As in a store that was asked: the value, if there is one.
    pub fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(value) => Some(value),
            Self::Nothing | Self::Deleted => None,
        }
    }
}

impl Changes {
    /// No changes, with room for so many, of so many bytes.
    pub fn with_capacity(count: usize, size_bytes: usize) -> Self {
        Self {
            writes: KvWrites::with_capacity(size_bytes),
            index: HashTable::with_capacity(count),
            row_delta: 0,
        }
    }

    /// Stores a row.
    pub fn put(&mut self, hash: u64, key: &[u8], schema_id: i16, row: &[u8]) {
        let at = self.writes.put(key, schema_id, row);
        self.note(hash, at);
    }

    /// Deletes a key.
    pub fn delete(&mut self, hash: u64, key: &[u8]) {
        let at = self.writes.delete(key);
        self.note(hash, at);
    }

    fn note(&mut self, hash: u64, at: ValueAt) {
        let writes = &self.writes;
        let key = writes.slice(&at.key);
        let entry = self.index.entry(
            hash,
            |last| writes.slice(&last.at.key) == key,
            |last| last.hash,
        );
        match entry {
            Entry::Occupied(mut entry) => entry.get_mut().at = at,
            Entry::Vacant(entry) => {
                entry.insert(Last { hash, at });
            }
        }
    }

    /// What the changes say of a key.
    pub fn get(&self, hash: u64, key: &[u8]) -> Known<'_> {
        let found = self
            .index
            .find(hash, |last| self.writes.slice(&last.at.key) == key);
        match found.map(|last| &last.at.value) {
            None => Known::Nothing,
            Some(None) => Known::Deleted,
            Some(Some(value)) => Known::Value(self.writes.slice(value)),
        }
    }

    /// Counts a row that is new (1) or gone (−1).
    pub fn count_row(&mut self, delta: i64) {
        self.row_delta += delta;
    }

    /// Rows that are new, less those that are gone.
    pub fn row_delta(&self) -> i64 {
        self.row_delta
    }

    /// Bytes held, about.
    pub fn size_bytes(&self) -> usize {
        self.writes.size_bytes()
    }

    /// Keys that change.
    pub(crate) fn key_count(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The last change of every key, with the hash of the key; in no order.
    pub(crate) fn last_changes(&self) -> impl Iterator<Item = (u64, &[u8], Option<&[u8]>)> {
        self.index.iter().map(|last| {
            let value = last.at.value.as_ref();
            let value = value.map(|value| self.writes.slice(value));
            (last.hash, self.writes.slice(&last.at.key), value)
        })
    }

    /// The last change of every key, in the order of the keys, which is the order in
    /// which a store finds their places fastest.
    pub fn to_writes(&self) -> KvWrites {
        let last = self.index.iter().map(|last| &last.at);
        let order = in_key_order(last, |at| self.writes.slice(&at.key));
        let mut writes = KvWrites::with_capacity(self.writes.size_bytes());
        for at in order {
            writes.copy(&self.writes, at);
        }
        writes
    }
}

/// Changes in the order of the changelog, each with the end offset of its batch.
#[derive(Debug, Default)]
pub struct Pending {
    hasher: DefaultHashBuilder,
    batches: VecDeque<(i64, Changes)>,
    /// Number of the first batch in `batches`; grows.
    first: u64,
    /// For every key that is changed: its hash, and the number of the batch that
    /// changes it last.
    index: HashTable<(u64, u64)>,
    size_bytes: usize,
}

fn holds(
    batches: &VecDeque<(i64, Changes)>,
    first: u64,
    batch: u64,
    hash: u64,
    key: &[u8],
) -> bool {
    batches[(batch - first) as usize].1.get(hash, key) != Known::Nothing
}

impl Pending {
    /// Makes hashes as [`hash`](Self::hash) does.
    pub(crate) fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    /// Hash of a key, as [`Changes`] want it.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Adds the changes of a batch that ends at this offset.
    pub fn push(&mut self, end_offset: i64, changes: Changes) {
        self.size_bytes += changes.writes.size_bytes();
        let number = self.first + self.batches.len() as u64;
        for last in &changes.index {
            let key = changes.writes.slice(&last.at.key);
            let (batches, first) = (&self.batches, self.first);
            let entry = self.index.entry(
                last.hash,
                |(hash, batch)| *hash == last.hash && holds(batches, first, *batch, *hash, key),
                |(hash, _)| *hash,
            );
            match entry {
                Entry::Occupied(mut entry) => entry.get_mut().1 = number,
                Entry::Vacant(entry) => {
                    entry.insert((last.hash, number));
                }
            }
        }
        self.batches.push_back((end_offset, changes));
    }

    /// What is pending for a key.
    pub fn get(&self, hash: u64, key: &[u8]) -> Known<'_> {
        let found = self.index.find(hash, |(other, batch)| {
            *other == hash && holds(&self.batches, self.first, *batch, hash, key)
        });
        let Some((_, batch)) = found else {
            return Known::Nothing;
        };
        self.batches[(batch - self.first) as usize].1.get(hash, key)
    }

    /// The oldest changes, if their batch ends at `offset` or before.
    pub fn oldest_until(&self, offset: i64) -> Option<(i64, &Changes)> {
        let (end_offset, changes) = self.batches.front()?;
        (*end_offset <= offset).then_some((*end_offset, changes))
    }

    /// Forgets the oldest changes: they are applied.
    pub fn pop(&mut self) {
        let Some((_, changes)) = self.batches.pop_front() else {
            return;
        };
        self.size_bytes -= changes.writes.size_bytes();
        for last in &changes.index {
            // Keys of this batch with the same hash all go, whichever is found first.
            let mut is_it = |(hash, batch): &(u64, u64)| *hash == last.hash && *batch == self.first;
            if let Ok(entry) = self.index.find_entry(last.hash, &mut is_it) {
                entry.remove();
            }
        }
        self.first += 1;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.first += self.batches.len() as u64;
        self.batches.clear();
        self.index.clear();
        self.size_bytes = 0;
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Bytes held, about.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(pending: &Pending, keys: &[(&str, Option<&str>)]) -> Changes {
        let mut changes = Changes::default();
        for (key, row) in keys {
            let hash = pending.hash(key.as_bytes());
            match row {
                Some(row) => changes.put(hash, key.as_bytes(), 1, row.as_bytes()),
                None => changes.delete(hash, key.as_bytes()),
            }
        }
        changes
    }

    fn row<'a>(pending: &'a Pending, key: &str) -> Known<'a> {
        match pending.get(pending.hash(key.as_bytes()), key.as_bytes()) {
            Known::Value(value) => Known::Value(&value[2..]),
            other => other,
        }
    }

    #[test]
    fn the_last_change_of_a_key_counts() {
        let mut pending = Pending::default();
        pending.push(
            3,
            changes(
                &pending,
                &[("a", Some("1")), ("b", Some("1")), ("a", Some("2"))],
            ),
        );
        assert_eq!(row(&pending, "a"), Known::Value(b"2"));
        pending.push(5, changes(&pending, &[("a", None), ("c", Some("3"))]));
        assert_eq!(row(&pending, "a"), Known::Deleted);
        assert_eq!(row(&pending, "b"), Known::Value(b"1"));
        assert_eq!(row(&pending, "d"), Known::Nothing);
    }

    #[test]
    fn batches_leave_in_order_and_only_as_far_as_committed() {
        let mut pending = Pending::default();
        pending.push(3, changes(&pending, &[("a", Some("1")), ("b", Some("1"))]));
        pending.push(5, changes(&pending, &[("a", Some("2"))]));
        assert!(pending.oldest_until(2).is_none());
        assert_eq!(pending.oldest_until(4).map(|(end, _)| end), Some(3));
        pending.pop();
        assert!(pending.oldest_until(4).is_none());
        assert_eq!(row(&pending, "a"), Known::Value(b"2"));
        assert_eq!(row(&pending, "b"), Known::Nothing);
        pending.pop();
        assert_eq!(row(&pending, "a"), Known::Nothing);
        assert!(pending.is_empty());
        assert_eq!(pending.size_bytes(), 0);
    }

    #[test]
    fn a_store_gets_the_last_change_of_every_key_in_order() {
        let pending = Pending::default();
        let long = "a".repeat(9) + "0";
        let keys = [
            ("b", Some("1")),
            (&long, Some("2")),
            ("", Some("3")),
            ("b", None),
            ("aaaaaaaaa", Some("4")),
            ("a\0", Some("5")),
            ("a", Some("6")),
        ];
        let writes = changes(&pending, &keys).to_writes();
        let found: Vec<_> = writes
            .iter()
            .map(|(key, value)| (key.to_vec(), value.map(|value| value[2..].to_vec())))
            .collect();
        let wanted = [
            ("", Some("3")),
            ("a", Some("6")),
            ("a\0", Some("5")),
            ("aaaaaaaaa", Some("4")),
            (&long, Some("2")),
            ("b", None),
        ];
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(key, row)| (key.as_bytes().to_vec(), row.map(|r| r.as_bytes().to_vec())))
            .collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn clearing_leaves_nothing_and_later_batches_are_found() {
        let mut pending = Pending::default();
        pending.push(1, changes(&pending, &[("a", Some("1"))]));
        pending.clear();
        assert_eq!(row(&pending, "a"), Known::Nothing);
        pending.push(2, changes(&pending, &[("a", Some("9"))]));
        assert_eq!(row(&pending, "a"), Known::Value(b"9"));
    }
}
