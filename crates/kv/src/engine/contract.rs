//! What every engine must do, as checks that panic when it does not.
//! [`kv_engine_contract`](crate::kv_engine_contract) makes a test of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstem_env::SeededRng;

use super::{KvEngine, KvSnapshot, KvStore, Reach};
use crate::KvWrites;

/// What is checked.
pub struct Subject {
    /// Makes an engine. Several see the same stores, if not at the same time.
    pub engine: Box<dyn Fn() -> Box<dyn KvEngine>>,
    /// Directory of a store that is not there yet.
    pub dir: PathBuf,
}

impl Subject {
    /// Opens the store with a new engine, whose caches are empty.
    fn open(&self) -> Arc<dyn KvStore> {
        (self.engine)().open(&self.dir).expect("the store opens")
    }
}

/// Makes a test of each check. Its argument is a function that calls the given
/// check with a fresh [`Subject`](crate::engine::contract::Subject).
#[macro_export]
macro_rules! kv_engine_contract {
    ($with:path) => {
        $crate::kv_engine_contract!(
            $with:
            what_was_written_is_read,
            the_last_change_of_a_key_wins,
            keys_are_found_in_any_order_and_more_than_once,
            no_keys_need_no_answer,
            sequence_numbers_grow_by_one_with_every_change,
            empty_and_long_keys_and_rows_are_kept,
            a_snapshot_does_not_see_later_writes,
            a_snapshot_goes_through_keys_in_byte_order,
            a_snapshot_keeps_its_store_open,
            a_read_sees_whole_writes,
            what_was_flushed_survives_closing,
            closing_keeps_a_prefix_not_shorter_than_the_durable_one,
            a_read_of_memory_is_right_or_given_up,
            a_store_is_open_once,
            a_destroyed_store_is_empty_afterwards,
            sizes_follow_the_content,
            random_operations_match_a_model,
        );
    };
    ($with:path: $($check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                $with($crate::engine::contract::$check);
            }
        )*
    };
}

/// The value of one key, read from wherever it is.
pub fn get(store: &dyn KvStore, key: &[u8]) -> Option<Vec<u8>> {
    multi_get(store, &[key]).pop().expect("one answer")
}

/// The values of keys, read from wherever they are; each must be visited once.
pub fn multi_get(store: &dyn KvStore, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let (values, whole) = reach(store, keys, Reach::Disk);
    assert!(whole, "a read that may wait is not given up");
    values
        .into_iter()
        .map(|value| value.expect("every key is visited"))
        .collect()
}

type Visited = Option<Option<Vec<u8>>>;

fn reach(store: &dyn KvStore, keys: &[&[u8]], reach: Reach) -> (Vec<Visited>, bool) {
    let mut values = vec![None; keys.len()];
    let whole = store
        .multi_get(keys, reach, &mut |at, value| {
            let before = values[at].replace(value.map(<[u8]>::to_vec));
            assert_eq!(before, None, "key {at} is visited once");
        })
        .expect("the read works");
    (values, whole)
}

/// All entries of a snapshot from a key on.
fn entries_from(snapshot: &mut dyn KvSnapshot, key: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    snapshot.seek(key);
    while let Some((key, value)) = snapshot.entry() {
        entries.push((key.to_vec(), value.to_vec()));
        snapshot.advance();
    }
    snapshot.check().expect("the end is the end");
    entries
}

fn entries(store: &Arc<dyn KvStore>) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries_from(&mut *store.clone().snapshot(), b"")
}

/// What a put of a row with schema id 1 stores.
fn stored(row: &[u8]) -> Vec<u8> {
    [b"\x01\0", row].concat()
}

fn put(store: &dyn KvStore, rows: &[(&[u8], &[u8])]) -> u64 {
    let mut writes = KvWrites::default();
    for (key, row) in rows {
        writes.put(key, 1, row);
    }
    store.write(&writes, true).expect("the write works")
}

fn delete(store: &dyn KvStore, key: &[u8]) -> u64 {
    let mut writes = KvWrites::default();
    writes.delete(key);
    store.write(&writes, true).expect("the write works")
}

/// Puts and deletes are read, from memory and from files.
pub fn what_was_written_is_read(subject: &Subject) {
    let store = subject.open();
    put(&*store, &[(b"a", b"1"), (b"b", b"2")]);
    delete(&*store, b"a");
    delete(&*store, b"never there");
    for _ in 0..2 {
        assert_eq!(get(&*store, b"a"), None);
        assert_eq!(get(&*store, b"b"), Some(stored(b"2")));
        assert_eq!(get(&*store, b"c"), None);
        store.flush(true).unwrap();
    }
    put(&*store, &[(b"a", b"3")]);
    delete(&*store, b"b");
    assert_eq!(get(&*store, b"a"), Some(stored(b"3")));
    assert_eq!(get(&*store, b"b"), None);
}

/// Changes of one write, and writes, are applied in order.
pub fn the_last_change_of_a_key_wins(subject: &Subject) {
    let store = subject.open();
    let mut writes = KvWrites::default();
    writes.put(b"put last", 1, b"1");
    writes.delete(b"put last");
    writes.put(b"put last", 1, b"2");
    writes.put(b"deleted last", 1, b"1");
    writes.delete(b"deleted last");
    store.write(&writes, true).unwrap();
    assert_eq!(get(&*store, b"put last"), Some(stored(b"2")));
    assert_eq!(get(&*store, b"deleted last"), None);
    put(&*store, &[(b"put last", b"3")]);
    assert_eq!(get(&*store, b"put last"), Some(stored(b"3")));
}

/// Positions are those of the keys as given.
pub fn keys_are_found_in_any_order_and_more_than_once(subject: &Subject) {
    let store = subject.open();
    put(&*store, &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]);
    let wanted = [
        Some(stored(b"3")),
        None,
        Some(stored(b"1")),
        Some(stored(b"3")),
        Some(stored(b"2")),
    ];
    for _ in 0..2 {
        assert_eq!(multi_get(&*store, &[b"c", b"x", b"a", b"c", b"b"]), wanted);
        store.flush(true).unwrap();
    }
    let many: Vec<Vec<u8>> = (0..1_000_u32)
        .map(|number| number.to_be_bytes().to_vec())
        .collect();
    let mut writes = KvWrites::default();
    for key in many.iter().step_by(2) {
        writes.put(key, 1, key);
    }
    store.write(&writes, true).unwrap();
    for reversed in [false, true] {
        let mut keys: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        if reversed {
            keys.reverse();
        }
        for (key, value) in keys.iter().zip(multi_get(&*store, &keys)) {
            assert_eq!(value, (key[3] % 2 == 0).then(|| stored(key)));
        }
    }
}

/// An empty read and an empty write are allowed.
pub fn no_keys_need_no_answer(subject: &Subject) {
    let store = subject.open();
    assert!(multi_get(&*store, &[]).is_empty());
    let last = put(&*store, &[(b"a", b"1")]);
    assert_eq!(store.write(&KvWrites::default(), false).unwrap(), last);
    assert_eq!(store.last_sequence(), last);
}

/// So many changes, so much more; a flush is not a change.
pub fn sequence_numbers_grow_by_one_with_every_change(subject: &Subject) {
    let store = subject.open();
    let start = store.last_sequence();
    assert_eq!(store.durable_sequence(), start);
    assert_eq!(put(&*store, &[(b"a", b"1"), (b"a", b"2")]), start + 2);
    assert_eq!(delete(&*store, b"not there"), start + 3);
    assert_eq!(store.last_sequence(), start + 3);
    assert!(store.durable_sequence() <= start + 3);
    store.flush(true).unwrap();
    assert_eq!(store.last_sequence(), start + 3);
    assert_eq!(store.durable_sequence(), start + 3);
}

/// Nothing is special about lengths.
pub fn empty_and_long_keys_and_rows_are_kept(subject: &Subject) {
    let store = subject.open();
    let long_key = vec![0xff; 10_000];
    let long_row: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    put(
        &*store,
        &[(b"", b"empty key"), (b"empty row", b""), (&long_key, b"k")],
    );
    put(&*store, &[(b"long row", &long_row), (b"\0", b"\0")]);
    let wanted = vec![
        (b"".to_vec(), stored(b"empty key")),
        (b"\0".to_vec(), stored(b"\0")),
        (b"empty row".to_vec(), stored(b"")),
        (b"long row".to_vec(), stored(&long_row)),
        (long_key.clone(), stored(b"k")),
    ];
    assert!(entries(&store) == wanted);
    store.flush(true).unwrap();
    drop(store);
    let store = subject.open();
    assert!(entries(&store) == wanted);
    assert_eq!(get(&*store, b""), Some(stored(b"empty key")));
    assert_eq!(get(&*store, b"empty row"), Some(stored(b"")));
    assert!(get(&*store, b"long row") == Some(stored(&long_row)));
    delete(&*store, b"");
    assert_eq!(get(&*store, b""), None);
}

/// The view of a snapshot is that of the moment at which it was taken.
pub fn a_snapshot_does_not_see_later_writes(subject: &Subject) {
    let store = subject.open();
    put(&*store, &[(b"a", b"1"), (b"b", b"1")]);
    let mut before = store.clone().snapshot();
    put(&*store, &[(b"b", b"2"), (b"c", b"2")]);
    delete(&*store, b"a");
    let old = vec![(b"a".to_vec(), stored(b"1")), (b"b".to_vec(), stored(b"1"))];
    for _ in 0..2 {
        assert_eq!(entries_from(&mut *before, b""), old);
        store.flush(true).unwrap();
        put(&*store, &[(b"a", b"3")]);
    }
    assert_eq!(entries(&store).len(), 3);
}

/// Bytes are unsigned, a prefix comes before what it begins.
pub fn a_snapshot_goes_through_keys_in_byte_order(subject: &Subject) {
    let store = subject.open();
    let keys: [&[u8]; 6] = [b"", b"\0", b"\x7f", b"\x7f\0", b"\x80", b"\xff\xff"];
    for (at, key) in keys.iter().enumerate().rev() {
        put(&*store, &[(key, &[at as u8])]);
        if at == 3 {
            store.flush(true).unwrap();
        }
    }
    let mut snapshot = store.clone().snapshot();
    assert_eq!(snapshot.entry(), None, "there is no position before a seek");
    let found = entries_from(&mut *snapshot, b"");
    assert!(found.iter().map(|(key, _)| key.as_slice()).eq(keys));
    assert_eq!(entries_from(&mut *snapshot, b"\x7f").len(), 4);
    assert_eq!(entries_from(&mut *snapshot, b"\x7f\0\0").len(), 2);
    assert!(entries_from(&mut *snapshot, b"\xff\xff\0").is_empty());
    // A later seek may go back.
    snapshot.seek(b"\0");
    assert_eq!(snapshot.entry(), Some((b"\0".as_slice(), &*stored(&[1]))));
}

/// Also after the caller's last reference to the store.
pub fn a_snapshot_keeps_its_store_open(subject: &Subject) {
    let store = subject.open();
    put(&*store, &[(b"a", b"1")]);
    let mut snapshot = store.snapshot();
    assert_eq!(entries_from(&mut *snapshot, b"").len(), 1);
    drop(snapshot);
    drop(subject.open());
}

/// One read is of one moment, and no moment is inside a write.
pub fn a_read_sees_whole_writes(subject: &Subject) {
    let store = subject.open();
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let write = |round: u32| {
        let row = round.to_be_bytes();
        put(&*store, &keys.map(|key| (key, row.as_slice())));
    };
    write(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut newest = None;
            while !done.load(Ordering::Acquire) {
                let values = multi_get(&*store, &keys);
                assert!(values.iter().all(|value| *value == values[0]));
                assert!(newest <= values[0], "time does not go back");
                newest.clone_from(&values[0]);
                let scanned = entries(&store);
                assert!(scanned.iter().all(|(_, value)| *value == scanned[0].1));
            }
        });
        for round in 1..2_000 {
            write(round);
            if round % 500 == 0 {
                store.flush(true).unwrap();
            }
        }
        done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// A flush makes all writes before it durable.
pub fn what_was_flushed_survives_closing(subject: &Subject) {
    let store = subject.open();
    put(&*store, &[(b"a", b"1"), (b"b", b"1")]);
    store.flush(true).unwrap();
    delete(&*store, b"a");
    let last = put(&*store, &[(b"b", b"2")]);
    store.flush(true).unwrap();
    assert_eq!(store.durable_sequence(), last);
    store.flush(true).unwrap();
    drop(store);
    let store = subject.open();
    assert_eq!(entries(&store), [(b"b".to_vec(), stored(b"2"))]);
    assert_eq!(
        store.durable_sequence(),
        store.last_sequence(),
        "nothing of what is there can be lost"
    );
    put(&*store, &[(b"c", b"3")]);
    store.flush(true).unwrap();
    drop(store);
    assert_eq!(entries(&subject.open()).len(), 2);
}

/// What is lost by closing without a flush is an end of the writes, and nothing
/// of what was said to be durable.
pub fn closing_keeps_a_prefix_not_shorter_than_the_durable_one(subject: &Subject) {
    for flushed_after in [None, Some(0), Some(4), Some(9)] {
        let store = subject.open();
        let start = store.last_sequence();
        let mut ends = Vec::new();
        for number in 0..10_u8 {
            ends.push(put(&*store, &[(&[number], b"row"), (b"last", &[number])]));
            if flushed_after == Some(number) {
                store.flush(true).unwrap();
            }
        }
        let durable = store.durable_sequence();
        assert!(durable <= *ends.last().unwrap());
        if let Some(flushed) = flushed_after {
            assert!(durable >= ends[usize::from(flushed)]);
        }
        drop(store);

        let store = subject.open();
        let kept = get(&*store, b"last").map_or(0, |row| usize::from(row[2]) + 1);
        for number in 0..10_u8 {
            let there = get(&*store, &[number]).is_some();
            assert_eq!(there, usize::from(number) < kept, "{kept} writes are kept");
        }
        let end = kept.checked_sub(1).map_or(start, |last| ends[last]);
        assert!(end >= durable, "{end} is not shorter than {durable}");
        assert!(store.last_sequence() >= durable, "the numbers go on");
        drop(store);
        (subject.engine)().destroy(&subject.dir).unwrap();
    }
}

/// A read that may not wait never lies, and one that may wait then does.
pub fn a_read_of_memory_is_right_or_given_up(subject: &Subject) {
    let store = subject.open();
    let keys: Vec<[u8; 4]> = (0..2_000_u32).map(u32::to_be_bytes).collect();
    let mut writes = KvWrites::default();
    for key in keys.iter().step_by(2) {
        writes.put(key, 1, key);
    }
    store.write(&writes, true).unwrap();
    store.flush(true).unwrap();
    drop(store);
    let store = subject.open();
    let all: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    for _ in 0..2 {
        let (values, whole) = reach(&*store, &all, Reach::Memory);
        for (key, value) in keys.iter().zip(&values) {
            let wanted = (key[3] % 2 == 0).then(|| stored(key));
            match value {
                Some(value) => assert_eq!(*value, wanted),
                None => assert!(!whole, "a key without an answer makes the read incomplete"),
            }
        }
        multi_get(&*store, &all);
    }
    let (_, whole) = reach(&*store, &all, Reach::Memory);
    assert!(whole, "what was just read is in memory");
}

/// Two openers would destroy each other's files.
pub fn a_store_is_open_once(subject: &Subject) {
    let engine = (subject.engine)();
    let store = engine.open(&subject.dir).unwrap();
    assert!(engine.open(&subject.dir).is_err());
    put(&*store, &[(b"a", b"1")]);
    drop(store);
    engine.open(&subject.dir).unwrap();
}

/// Nothing of it comes back, and it need not be there.
pub fn a_destroyed_store_is_empty_afterwards(subject: &Subject) {
    let engine = (subject.engine)();
    engine.destroy(&subject.dir).unwrap();
    let store = engine.open(&subject.dir).unwrap();
    put(&*store, &[(b"a", b"1")]);
    store.flush(true).unwrap();
    drop(store);
    engine.destroy(&subject.dir).unwrap();
    assert!(!subject.dir.exists());
    let store = engine.open(&subject.dir).unwrap();
    assert!(entries(&store).is_empty());
}

/// Sizes need not be exact, but say which side grows.
pub fn sizes_follow_the_content(subject: &Subject) {
    let store = subject.open();
    assert_eq!(store.statistics().file_bytes, 0);
    let empty = store.statistics().write_buffer_bytes;
    let row = [7; 100_000];
    put(&*store, &[(b"a", &row)]);
    let buffered = store.statistics();
    assert!(buffered.write_buffer_bytes >= empty + 100_000);
    assert!(buffered.level0_slowdown_trigger > buffered.level0_files);
    store.flush(true).unwrap();
    let flushed = store.statistics();
    assert!(flushed.write_buffer_bytes < buffered.write_buffer_bytes);
    assert!(flushed.file_bytes > 0);
}

/// Puts, deletes, reads, snapshots, flushes and closings in any order.
pub fn random_operations_match_a_model(subject: &Subject) {
    for seed in 0..8 {
        Random::new(subject, seed).run(400);
        (subject.engine)().destroy(&subject.dir).unwrap();
    }
}

/// One sequence of random operations.
struct Random<'a> {
    subject: &'a Subject,
    seed: u64,
    rng: SeededRng,
    /// `None` only while it is opened again.
    store: Option<Arc<dyn KvStore>>,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    snapshots: Vec<(Box<dyn KvSnapshot>, BTreeMap<Vec<u8>, Vec<u8>>)>,
}

impl<'a> Random<'a> {
    fn new(subject: &'a Subject, seed: u64) -> Self {
        Self {
            subject,
            seed,
            rng: SeededRng::new(seed),
            store: Some(subject.open()),
            model: BTreeMap::new(),
            snapshots: Vec::new(),
        }
    }

    fn store(&self) -> &Arc<dyn KvStore> {
        self.store.as_ref().expect("it is open")
    }

    fn run(mut self, operations: usize) {
        for _ in 0..operations {
            match self.rng.below(20) {
                0..8 => self.write(),
                8..14 => self.read(),
                14..16 => self.scan(),
                16 => self.take_snapshot(),
                17 => self.check_snapshot(),
                18 => self.store().flush(true).unwrap(),
                _ => self.reopen(),
            }
        }
    }

    /// Short keys of few letters, so that they often meet.
    fn key(&mut self) -> Vec<u8> {
        let length = self.rng.below(4);
        (0..length).map(|_| self.rng.below(5) as u8 * 60).collect()
    }

    fn write(&mut self) {
        let mut writes = KvWrites::default();
        for _ in 0..self.rng.below(12) {
            let key = self.key();
            if self.rng.chance(30) {
                writes.delete(&key);
                self.model.remove(&key);
            } else {
                let mut row = vec![0; self.rng.index(300)];
                self.rng.fill(&mut row);
                writes.put(&key, 1, &row);
                self.model.insert(key, stored(&row));
            }
        }
        let before = self.store().last_sequence();
        let last = self.store().write(&writes, true).unwrap();
        assert_eq!(last, before + writes.len() as u64, "seed {}", self.seed);
        assert!(
            self.store().durable_sequence() <= last,
            "seed {}",
            self.seed
        );
    }

    fn read(&mut self) {
        let keys: Vec<Vec<u8>> = (0..self.rng.below(40)).map(|_| self.key()).collect();
        let mut refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        if self.rng.chance(50) {
            refs.sort_unstable();
        }
        for (key, value) in refs.iter().zip(multi_get(&**self.store(), &refs)) {
            assert_eq!(value.as_ref(), self.model.get(*key), "seed {}", self.seed);
        }
    }

    fn scan(&mut self) {
        let from = self.key();
        let found = entries_from(&mut *self.store().clone().snapshot(), &from);
        let wanted = self.model.range(from..);
        assert!(
            found.iter().map(|(key, value)| (key, value)).eq(wanted),
            "seed {}",
            self.seed
        );
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() < 4 {
            let snapshot = self.store().clone().snapshot();
            self.snapshots.push((snapshot, self.model.clone()));
        }
    }

    fn check_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let at = self.rng.index(self.snapshots.len());
        let (mut snapshot, wanted) = self.snapshots.swap_remove(at);
        let found: BTreeMap<_, _> = entries_from(&mut *snapshot, b"").into_iter().collect();
        assert!(found == wanted, "seed {}", self.seed);
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.store().flush(true).unwrap();
        // The old one is closed before the new one is opened.
        self.store = None;
        self.store = Some(self.subject.open());
    }
}
