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
use crate::writes::{KvWrites, in_key_order};

/// Bytes that a change takes besides its key and its value, about.
pub(crate) const OVERHEAD: usize = HEAD + ENTRY_BYTES;
/// Bytes of an entry of the index, about.
const ENTRY_BYTES: usize = size_of::<Slot>() + size_of::<Slot>() / 4;
/// Bytes of records that a generation has room for at first.
const BYTES_AT_FIRST: usize = 512;
/// Bytes of a record before its key: hash, length of the key, length of the value.
const HEAD: usize = 12;
/// Length of the value of a key that is deleted.
const DELETED: u32 = u32::MAX;

/// The last change of every key of a stretch of the changelog.
#[derive(Debug, Default)]
struct Generation {
    index: HashTable<Slot>,
    /// Records, each with a change. Of the same key the last one counts.
    bytes: Vec<u8>,
    /// The store has the records before this position.
    stored: usize,
}

/// Where the last record of a key is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: u32,
}

/// A record as it lies there.
struct Record<'b> {
    hash: u32,
    key: &'b [u8],
    value: Option<&'b [u8]>,
    /// Position of its value, and of what is behind it.
    value_at: usize,
    end: usize,
}

impl<'b> Record<'b> {
    /// The record at a position where one begins.
    #[inline]
    fn at(bytes: &'b [u8], at: usize) -> Self {
        let (head, rest) = bytes[at..].split_first_chunk::<HEAD>().expect("a record");
        let [h0, h1, h2, h3, k0, k1, k2, k3, v0, v1, v2, v3] = *head;
        let key_length = u32::from_le_bytes([k0, k1, k2, k3]) as usize;
        let value_length = u32::from_le_bytes([v0, v1, v2, v3]);
        let (key, rest) = rest.split_at(key_length);
        let value = (value_length != DELETED).then(|| &rest[..value_length as usize]);
        let value_at = at + HEAD + key_length;
        Self {
            hash: u32::from_le_bytes([h0, h1, h2, h3]),
            key,
            value,
            value_at,
            end: value_at + value.map_or(0, <[u8]>::len),
        }
    }
}

/// A hash for the table, whose halves it uses for different things.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Generation {
    fn record(&self, slot: Slot) -> Record<'_> {
        Record::at(&self.bytes, slot.at as usize)
    }

    fn get(&self, hash: u64, key: &[u8]) -> Known<'_> {
        let hash = hash as u32;
        let is_it = |slot: &Slot| slot.hash == hash && self.record(*slot).key == key;
        match self.index.find(spread(hash), is_it) {
            None => Known::Nothing,
            Some(slot) => match self.record(*slot).value {
                None => Known::Deleted,
                Some(value) => Known::Value(value),
            },
        }
    }

    fn change(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>) {
        self.make_room(HEAD + key.len() + value.map_or(0, <[u8]>::len));
        let hash = hash as u32;
        let Self { index, bytes, .. } = self;
        let at = bytes.len() as u32;
        let is_it =
            |slot: &Slot| slot.hash == hash && Record::at(bytes, slot.at as usize).key == key;
        match index.entry(spread(hash), is_it, |slot| spread(slot.hash)) {
            Entry::Occupied(mut entry) => {
                let before = entry.get().at as usize;
                let record = Record::at(bytes, before);
                if before >= self.stored
                    && let (Some(old), Some(new)) = (record.value, value)
                    && old.len() == new.len()
                {
                    let (start, end) = (record.value_at, record.end);
                    bytes[start..end].copy_from_slice(new);
                    return;
                }
                entry.get_mut().at = at;
            }
            Entry::Vacant(entry) => {
                entry.insert(Slot { hash, at });
            }
        }
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        let value_length = value.map_or(DELETED, |value| value.len() as u32);
        bytes.extend_from_slice(&value_length.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.unwrap_or_default());
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

    /// The changes that the store does not have, in the order of their keys.
    fn unstored(&self) -> Vec<Slot> {
        let key = |slot: &Slot| self.record(*slot).key;
        if self.stored == 0 {
            // All of them, without a search for each.
            return in_key_order(self.index.iter().copied(), key);
        }
        let mut at = self.stored;
        let last = std::iter::from_fn(|| {
            while at < self.bytes.len() {
                let start = at;
                let record = Record::at(&self.bytes, start);
                at = record.end;
                let is_last = |slot: &Slot| slot.at as usize == start;
                let found = self.index.find(spread(record.hash), is_last);
                if found.is_some() {
                    return found.copied();
                }
            }
            None
        });
        in_key_order(last, key)
    }

    fn is_stored(&self) -> bool {
        self.stored == self.bytes.len()
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
        self.stored = 0;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Gathers changes.
    current: Generation,
    /// The changes before those.
    previous: Generation,
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
        !self.current.is_stored() || !self.previous.is_stored()
    }

    /// Bytes of the changes that gather.
    pub fn size_bytes(&self) -> usize {
        self.current.size_bytes()
    }

    /// Memory that is held.
    pub fn held_bytes(&self) -> usize {
        self.current.held_bytes() + self.previous.held_bytes()
    }

    /// Begins a generation, of about `room` bytes. The store must have all of the one
    /// before the present one.
    pub fn turn(&mut self, room: usize) {
        debug_assert!(self.previous.is_stored(), "changes would be lost");
        std::mem::swap(&mut self.current, &mut self.previous);
        // Its memory is used again, unless it is from better times.
        match self.current.held_bytes() > room.saturating_mul(2) {
            true => self.current = Generation::default(),
            false => self.current.clear(),
        }
    }

    /// What the store lacks of a generation.
    pub fn queue(&self, which: Which) -> Queue {
        Queue {
            which,
            slots: self.generation(which).unstored(),
            next: 0,
        }
    }

    fn generation(&self, which: Which) -> &Generation {
        match which {
            Which::Current => &self.current,
            Which::Previous => &self.previous,
        }
    }

    /// The next changes of a queue, of about so many bytes or the rest; and what is
    /// [`next`](Queue::next) when the store has them.
    pub fn piece(&self, queue: &Queue, size_bytes: usize) -> (KvWrites, usize) {
        let generation = self.generation(queue.which);
        let mut piece = KvWrites::with_capacity(size_bytes.min(generation.bytes.len()) + 256);
        let mut next = queue.next;
        while let Some(slot) = queue.slots.get(next)
            && piece.size_bytes() < size_bytes
        {
            let record = generation.record(*slot);
            piece.change(record.key, record.value);
            next += 1;
        }
        (piece, next)
    }

    /// The store has a whole queue, and nothing was added to its generation meanwhile.
    pub fn set_stored(&mut self, which: Which) {
        let generation = match which {
            Which::Current => &mut self.current,
            Which::Previous => &mut self.previous,
        };
        generation.stored = generation.bytes.len();
    }
}

/// One of the two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The one that gathers changes. Whoever adds some loses its queues.
    Current,
    /// The one before.
    Previous,
}

/// Changes of a generation in the order of their keys, and how far the store has them.
#[derive(Debug)]
pub(crate) struct Queue {
    which: Which,
    slots: Vec<Slot>,
    /// Number of the first change that the store does not have.
    pub next: usize,
}

impl Queue {
    /// Of which generation it is.
    pub fn which(&self) -> Which {
        self.which
    }

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
        bring(recent, Which::Previous, store);
    }

    fn bring(recent: &mut Recent, which: Which, store: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        let mut last: Option<Vec<u8>> = None;
        let mut queue = recent.queue(which);
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
        recent.set_stored(which);
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
    fn the_store_gets_only_what_it_lacks_of_a_generation_that_goes_on() {
        let mut recent = Recent::default();
        let mut rows = BTreeMap::new();
        add(&mut recent, b"a", Some(b"1"));
        add(&mut recent, b"b", Some(b"1"));
        bring(&mut recent, Which::Current, &mut rows);
        rows.clear();
        // Not in the place of what the store has.
        add(&mut recent, b"b", Some(b"2"));
        add(&mut recent, b"c", Some(b"3"));
        add(&mut recent, b"c", None);
        add(&mut recent, b"c", Some(b"4"));
        assert!(recent.is_ahead());
        bring(&mut recent, Which::Current, &mut rows);
        assert_eq!(rows.len(), 2);
        assert_eq!(known(&recent, b"a"), Some(Some(b"1".to_vec())));
        assert!(recent.queue(Which::Current).is_done());
        store(&mut recent, &mut rows);
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn many_changes_come_in_pieces() {
        let mut recent = Recent::default();
        for number in 0..10_000_u32 {
            add(&mut recent, &number.to_le_bytes(), Some(&[7; 100]));
        }
        recent.turn(1 << 20);
        let (mut queue, mut count) = (recent.queue(Which::Previous), 0);
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
        recent.set_stored(Which::Previous);
        assert_eq!(recent.held_bytes(), held);
        recent.turn(1_000);
        assert!(recent.held_bytes() < 1_000);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Change(Vec<u8>, Value),
        /// The store gets all, and the generation goes on, or ends.
        Bring,
        Store,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = |lengths| prop::collection::vec(0_u8..4, lengths);
        let change = (bytes(0..10), prop::option::of(bytes(0..3)));
        let step = prop_oneof![
            9 => change.prop_map(|(key, value)| Step::Change(key, value)),
            1 => Just(Step::Bring),
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
                    Step::Bring => {
                        bring(&mut recent, Which::Current, &mut rows);
                        prop_assert_eq!(&rows, &model);
                        prop_assert!(!recent.is_ahead());
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
