//! Rows that changed last, in memory, ahead of the store and beside it.
//!
//! A store keeps its keys in order, and finding the place of a key costs it many
//! times what a hash table needs. So changes gather here, in a *generation*; a full
//! one goes to the store in the order of its keys, which finds each place beside the
//! last one, and only the last change of a key goes there at all. It goes piece by
//! piece, with the changes that fill the next generation, so that nobody waits for
//! long; and stays until that one is full, for what changed lately is read often, by
//! puts first of all, and is not searched in the store then.
//!
//! Nothing here is durable, as nothing in the write buffers of a store is: the
//! changelog has it.

mod budget;

pub use budget::RecentBudget;
pub(crate) use budget::Share;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::pending::Known;
use crate::writes::{KvWrites, leading_bytes};

/// Bytes of an entry of the index, about.
const ENTRY_BYTES: usize = size_of::<Slot>() + size_of::<Slot>() / 4;
/// Bytes of keys and values that a generation has room for at first.
const BYTES_AT_FIRST: usize = 512;

/// The last change of every key of a stretch of the changelog.
#[derive(Debug, Default)]
struct Generation {
    index: HashTable<Slot>,
    /// Keys with their values behind them.
    bytes: Vec<u8>,
}

/// Where a key and its value are.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: u32,
    key_length: u32,
    /// [`DELETED`] if there is none.
    value_length: u32,
}

const DELETED: u32 = u32::MAX;

impl Slot {
    fn key(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at as usize..][..self.key_length as usize]
    }

    fn value(self, bytes: &[u8]) -> Option<&[u8]> {
        let start = self.at as usize + self.key_length as usize;
        (self.value_length != DELETED).then(|| &bytes[start..][..self.value_length as usize])
    }
}

/// A hash for the table, whose halves it uses for different things.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Generation {
    fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        let hash = hash as u32;
        let is_it = |slot: &Slot| slot.hash == hash && slot.key(&self.bytes) == key;
        self.index.find(spread(hash), is_it).copied()
    }

    fn get(&self, hash: u64, key: &[u8]) -> Known<'_> {
        match self.find(hash, key).map(|slot| slot.value(&self.bytes)) {
            None => Known::Nothing,
            Some(None) => Known::Deleted,
            Some(Some(value)) => Known::Value(value),
        }
    }

    fn change(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>) {
        self.make_room(key.len() + value.map_or(0, <[u8]>::len));
        let hash = hash as u32;
        let Self { index, bytes } = self;
        let is_it = |slot: &Slot| slot.hash == hash && slot.key(bytes) == key;
        let entry = index.entry(spread(hash), is_it, |slot| spread(slot.hash));
        let length = value.map_or(DELETED, |value| value.len() as u32);
        match entry {
            Entry::Occupied(mut entry) => {
                let slot = entry.get_mut();
                let start = slot.at as usize + slot.key_length as usize;
                match value {
                    Some(value) if slot.value_length == length => {
                        bytes[start..start + value.len()].copy_from_slice(value);
                    }
                    Some(value) => {
                        slot.at = bytes.len() as u32;
                        bytes.extend_from_slice(key);
                        bytes.extend_from_slice(value);
                    }
                    None => {}
                }
                slot.value_length = length;
            }
            Entry::Vacant(entry) => {
                entry.insert(Slot {
                    hash,
                    at: bytes.len() as u32,
                    key_length: key.len() as u32,
                    value_length: length,
                });
                bytes.extend_from_slice(key);
                bytes.extend_from_slice(value.unwrap_or_default());
            }
        }
    }

    /// Grows by a fourth instead of to the double, as far as that goes: the memory of
    /// many tablets is little.
    fn make_room(&mut self, more: usize) {
        let capacity = self.bytes.capacity();
        if self.bytes.len() + more > capacity {
            self.bytes
                .reserve_exact(more.max(capacity / 4).max(BYTES_AT_FIRST));
        }
    }

    fn size_bytes(&self) -> usize {
        self.bytes.len() + self.index.len() * ENTRY_BYTES
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.index.capacity() * ENTRY_BYTES
    }

    fn clear(&mut self) {
        self.index.clear();
        self.bytes.clear();
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Gathers changes that the store does not have.
    current: Generation,
    /// The changes before those.
    previous: Generation,
    /// The store has `previous`.
    stored: bool,
}

impl Recent {
    /// What is known of a key here; its hash is that of [`Pending`](crate::pending::Pending).
    pub fn get(&self, hash: u64, key: &[u8]) -> Known<'_> {
        match self.current.get(hash, key) {
            Known::Nothing => self.previous.get(hash, key),
            known => known,
        }
    }

    /// Takes changes over: hash, key, and the stored value unless it is a delete.
    pub fn add<'c>(&mut self, changes: impl Iterator<Item = (u64, &'c [u8], Option<&'c [u8]>)>) {
        for (hash, key, value) in changes {
            self.current.change(hash, key, value);
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.current.index.is_empty() && self.previous.index.is_empty()
    }

    /// Whether there are changes that the store does not have.
    pub fn is_ahead(&self) -> bool {
        !self.current.index.is_empty() || self.is_turned()
    }

    /// Whether a generation is on its way to the store.
    fn is_turned(&self) -> bool {
        !self.stored && !self.previous.index.is_empty()
    }

    /// Bytes of the changes that gather.
    pub fn size_bytes(&self) -> usize {
        self.current.size_bytes()
    }

    /// Memory that is held.
    pub fn held_bytes(&self) -> usize {
        self.current.held_bytes() + self.previous.held_bytes()
    }

    /// Begins a generation, of about `room` bytes. The one before is the one for the
    /// store now, which must have all those before it.
    pub fn turn(&mut self, room: usize) {
        debug_assert!(!self.is_turned(), "the store does not have the last one");
        std::mem::swap(&mut self.current, &mut self.previous);
        // Its memory is used again, unless it is from better times.
        match self.current.held_bytes() > room.saturating_mul(2) {
            true => self.current = Generation::default(),
            false => self.current.clear(),
        }
        self.stored = false;
    }

    /// The way to the store of the generation before the present one.
    pub fn queue(&self) -> Queue {
        let Generation { index, bytes } = &self.previous;
        let mut order: Vec<(u64, Slot)> = index
            .iter()
            .map(|slot| (leading_bytes(slot.key(bytes)), *slot))
            .collect();
        order.sort_unstable_by(|(one_leads, one), (other_leads, other)| {
            one_leads
                .cmp(other_leads)
                .then_with(|| one.key(bytes).cmp(other.key(bytes)))
        });
        Queue {
            slots: order.into_iter().map(|(_, slot)| slot).collect(),
            next: 0,
        }
    }

    /// The next changes of that queue, of about so many bytes or the rest; and what is
    /// [`next`](Queue::next) when the store has them.
    pub fn piece(&self, queue: &Queue, size_bytes: usize) -> (KvWrites, usize) {
        let bytes = &self.previous.bytes;
        let mut piece = KvWrites::with_capacity(size_bytes.min(bytes.len()) + 256);
        let mut next = queue.next;
        while let Some(slot) = queue.slots.get(next)
            && piece.size_bytes() < size_bytes
        {
            piece.change(slot.key(bytes), slot.value(bytes));
            next += 1;
        }
        (piece, next)
    }

    /// The store has the whole queue.
    pub fn set_stored(&mut self) {
        self.stored = true;
    }
}

/// The changes of a generation in the order of their keys, and how far the store has
/// them.
#[derive(Debug)]
pub(crate) struct Queue {
    slots: Vec<Slot>,
    /// Number of the first change that the store does not have.
    pub next: usize,
}

impl Queue {
    /// Whether the store has all of it.
    pub fn is_done(&self) -> bool {
        self.next == self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Value = Option<Vec<u8>>;

    /// Few values, so that hashes collide.
    fn hash(key: &[u8]) -> u64 {
        key.iter().map(|byte| u64::from(*byte)).sum::<u64>() % 3
    }

    fn add(recent: &mut Recent, key: &[u8], value: Option<&[u8]>) {
        recent.add([(hash(key), key, value)].into_iter());
    }

    /// Brings the changes to a store.
    fn store(recent: &mut Recent, store: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        recent.turn(1 << 20);
        let mut last: Option<Vec<u8>> = None;
        let mut queue = recent.queue();
        while !queue.is_done() {
            let (piece, next) = recent.piece(&queue, 40);
            queue.next = next;
            assert!(!piece.is_empty());
            for (key, value) in piece.iter() {
                assert!(last.as_deref() < Some(key), "not in order, or twice");
                last = Some(key.to_vec());
                match value {
                    Some(value) => drop(store.insert(key.to_vec(), value.to_vec())),
                    None => drop(store.remove(key)),
                }
            }
        }
        recent.set_stored();
    }

    fn known(recent: &Recent, key: &[u8]) -> Option<Value> {
        match recent.get(hash(key), key) {
            Known::Nothing => None,
            Known::Deleted => Some(None),
            Known::Value(value) => Some(Some(value.to_vec())),
        }
    }

    #[test]
    fn a_generation_stays_until_the_next_one_is_full() {
        let mut recent = Recent::default();
        let mut rows = BTreeMap::new();
        add(&mut recent, b"a", Some(b"1"));
        assert!(recent.is_ahead());
        store(&mut recent, &mut rows);
        assert!(!recent.is_ahead() && !recent.is_empty());
        assert_eq!(known(&recent, b"a"), Some(Some(b"1".to_vec())));
        add(&mut recent, b"b", None);
        store(&mut recent, &mut rows);
        assert_eq!(known(&recent, b"a"), None);
        assert_eq!(known(&recent, b"b"), Some(None));
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn many_changes_come_in_pieces() {
        let mut recent = Recent::default();
        for number in 0..10_000_u32 {
            add(&mut recent, &number.to_le_bytes(), Some(&[7; 100]));
        }
        recent.turn(1 << 20);
        let (mut queue, mut count) = (recent.queue(), 0);
        while !queue.is_done() {
            let (piece, next) = recent.piece(&queue, 1_000);
            assert!(piece.size_bytes() < 1_200);
            assert_eq!(recent.piece(&queue, 1_000), (piece.clone(), next));
            count += piece.len();
            queue.next = next;
        }
        assert_eq!(count, 10_000);
    }

    #[test]
    fn memory_from_better_times_is_given_back() {
        let mut recent = Recent::default();
        for number in 0..1_000_u32 {
            add(&mut recent, &number.to_le_bytes(), Some(&[7; 100]));
        }
        let held = recent.held_bytes();
        recent.turn(1_000);
        recent.set_stored();
        assert_eq!(recent.held_bytes(), held);
        recent.turn(1_000);
        assert!(recent.held_bytes() < 1_000);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Change(Vec<u8>, Value),
        Store,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = |lengths| prop::collection::vec(0_u8..4, lengths);
        let change = (bytes(0..10), prop::option::of(bytes(0..3)));
        let step = prop_oneof![
            9 => change.prop_map(|(key, value)| Step::Change(key, value)),
            1 => Just(Step::Store),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn with_the_store_behind_it_nothing_is_lost(steps in steps()) {
            let (mut recent, mut rows) = (Recent::default(), BTreeMap::new());
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Change(key, value) => {
                        add(&mut recent, &key, value.as_deref());
                        match value {
                            Some(value) => drop(model.insert(key, value)),
                            None => drop(model.remove(&key)),
                        }
                    }
                    Step::Store => {
                        store(&mut recent, &mut rows);
                        prop_assert_eq!(&rows, &model);
                    }
                }
                for key in model.keys().chain(rows.keys()) {
                    let found = known(&recent, key).unwrap_or_else(|| rows.get(key).cloned());
                    prop_assert_eq!(found.as_ref(), model.get(key));
                }
            }
        }
    }
}
