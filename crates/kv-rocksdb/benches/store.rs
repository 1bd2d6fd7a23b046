//! What the store alone costs: CPU seconds of the whole process, background threads
//! included, per million rows.
//!
//! `cargo bench -p mainstem-kv-rocksdb`; an argument picks the lines that contain it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use mainstem_env::SeededRng;
use mainstem_kv::{KvEngine, KvStore, KvWrites, Reach};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};

/// Rows of one batch: what a client sends at once.
const BATCH: usize = 1_000;
/// Keys of one lookup request.
const LOOKUP: usize = 128;
/// Bytes of a row.
const ROW: usize = 38;

fn main() {
    let wanted = std::env::args().skip(1).find(|text| !text.starts_with('-'));
    let benches: [(&str, fn(&Path)); 5] = [
        ("idle stores", idle_stores),
        ("upsert", upserts),
        ("lookup in buffers", lookups_in_buffers),
        ("lookup in files", lookups_in_files),
        ("large", large),
    ];
    for (name, bench) in benches {
        if wanted.as_deref().is_none_or(|text| name.contains(text)) {
            let dir = tempfile::tempdir().expect("a directory for the bench");
            bench(dir.path());
        }
    }
}

fn open(dir: &Path) -> Arc<dyn KvStore> {
    let engine = RocksEngine::new(RocksConfig::default()).expect("an engine");
    engine.open(dir).expect("a store")
}

/// Gets each key and puts it, as a tablet does: the writes in the order of keys.
fn upsert(store: &dyn KvStore, keys: impl Iterator<Item = u64>) {
    let mut writes = KvWrites::default();
    let mut batch: Vec<[u8; 8]> = Vec::with_capacity(BATCH);
    let mut keys = keys.peekable();
    while keys.peek().is_some() {
        batch.clear();
        batch.extend(keys.by_ref().take(BATCH).map(u64::to_be_bytes));
        let slices: Vec<&[u8]> = batch.iter().map(<[u8; 8]>::as_slice).collect();
        let mut bytes = 0;
        store
            .multi_get(&slices, Reach::Memory, &mut |_, value| {
                bytes += value.map_or(0, <[u8]>::len);
            })
            .expect("a read");
        std::hint::black_box(bytes);
        writes.clear();
        batch.sort_unstable();
        batch.dedup();
        for key in &batch {
            writes.put(key, 1, &row(*key));
        }
        store.write(&writes, true).expect("a write");
    }
}

/// A row of some columns: half of it compresses.
fn row(key: [u8; 8]) -> [u8; ROW] {
    let mut row = [0x5a; ROW];
    SeededRng::new(u64::from_be_bytes(key)).fill(&mut row[..ROW / 2]);
    row
}

fn upserts(dir: &Path) {
    let store = open(dir);
    measured("upsert: 1 M new, ascending", 1_000_000, || {
        upsert(&*store, 0..1_000_000);
    });
    drop(store);
    let store = open(&dir.join("2"));
    measured("upsert: 500 k new, ascending", 500_000, || {
        upsert(&*store, 0..500_000);
    });
    let mut rng = SeededRng::new(1);
    measured("upsert: 500 k random of these", 500_000, || {
        upsert(&*store, (0..500_000).map(|_| rng.below(500_000)));
    });
    drop(store);
    let store = open(&dir.join("3"));
    let mut rng = SeededRng::new(2);
    measured("upsert: 1 M new, random", 1_000_000, || {
        upsert(&*store, (0..1_000_000).map(|_| rng.next_u64()));
    });
    measured("  and their flush", 1_000_000, || {
        store.flush(true).expect("a flush");
    });
}

fn look_up(store: &dyn KvStore, rng: &mut SeededRng, rows: u64, lookups: usize, sorted: bool) {
    let mut found = 0;
    for _ in 0..lookups / LOOKUP {
        let mut keys: Vec<[u8; 8]> = (0..LOOKUP).map(|_| rng.below(rows).to_be_bytes()).collect();
        if sorted {
            keys.sort_unstable();
        }
        let slices: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let whole = store.multi_get(&slices, Reach::Disk, &mut |_, value| {
            found += usize::from(value.is_some());
        });
        assert!(whole.expect("a read"));
    }
    assert_eq!(found, lookups / LOOKUP * LOOKUP);
}

fn lookups(store: &dyn KvStore, name: &str, rows: u64) {
    let mut rng = SeededRng::new(3);
    for (sorted, order) in [(false, "random order"), (true, "sorted")] {
        let name = format!("lookup in {name}: of {rows}, {order}");
        measured(&name, 1_000_000, || {
            look_up(store, &mut rng, rows, 1_000_000, sorted);
        });
    }
}

fn lookups_in_buffers(dir: &Path) {
    let store = open(dir);
    upsert(&*store, 0..500_000);
    lookups(&*store, "buffers", 500_000);
}

fn lookups_in_files(dir: &Path) {
    let store = open(dir);
    upsert(&*store, 0..500_000);
    store.flush(true).expect("a flush");
    drop(store);
    let store = open(dir);
    look_up(&*store, &mut SeededRng::new(4), 500_000, 1_000_000, true);
    lookups(&*store, "files", 500_000);
}

/// More than fits the buffers: flushes and compactions.
fn large(dir: &Path) {
    const ROWS: u64 = 10_000_000;
    let store = open(dir);
    measured("large: 10 M new, ascending", ROWS, || {
        upsert(&*store, 0..ROWS);
    });
    let mut rng = SeededRng::new(5);
    measured("large: 2 M random of these", 2_000_000, || {
        upsert(&*store, (0..2_000_000).map(|_| rng.below(ROWS)));
    });
    store.flush(true).expect("a flush");
    let row_bytes = ROWS * (8 + 2 + ROW as u64);
    let ratio = store.statistics().file_bytes as f64 / row_bytes as f64;
    println!("{:<44} {ratio:8.2} bytes per byte", "large: on disk");
    lookups(&*store, "large", ROWS);
}

/// Comes first: memory that others have freed would hide what stores take.
fn idle_stores(dir: &Path) {
    const STORES: u64 = 100;
    let engine = RocksEngine::new(RocksConfig::default()).expect("an engine");
    let path = |number| dir.join(format!("empty-{number}"));
    drop(engine.open(&path(STORES)).expect("a store"));
    let (before, files) = (resident(), descriptors());
    let start = Instant::now();
    let stores: Vec<_> = (0..STORES)
        .map(|number| engine.open(&path(number)).expect("a store"))
        .collect();
    let millis = start.elapsed().as_secs_f64() * 1e3 / STORES as f64;
    println!("{:<44} {millis:8.2} ms each", "idle stores: making");
    let kilobytes = (resident() - before) as f64 / 1e3 / STORES as f64;
    println!("{:<44} {kilobytes:8.1} kB each", "idle stores: memory");
    let files = (descriptors() - files) as f64 / STORES as f64;
    println!("{:<44} {files:8.1} each", "idle stores: descriptors");
    drop(stores);

    let filled = dir.join("filled");
    let store = engine.open(&filled).expect("a store");
    upsert(&*store, 0..500_000);
    store.flush(true).expect("a flush");
    drop(store);
    for (name, dir) in [("empty", path(0)), ("500 k rows", filled)] {
        let mut millis: Vec<f64> = (0..15)
            .map(|_| {
                let start = Instant::now();
                let store = engine.open(&dir).expect("a store");
                let key = 77_u64.to_be_bytes();
                store
                    .multi_get(&[&key], Reach::Disk, &mut |_, _| {})
                    .expect("a read");
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        millis.sort_by(f64::total_cmp);
        let name = format!("idle stores: opening and a get, {name}");
        println!("{name:<44} {:8.2} ms (best {:.2})", millis[7], millis[0]);
    }
}

fn measured(name: &str, rows: u64, run: impl FnOnce()) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    run();
    let per_million = 1e6 / rows as f64;
    let cpu = (cpu_seconds() - cpu) * per_million;
    let wall = start.elapsed().as_secs_f64() * per_million;
    println!("{name:<44} {cpu:8.2} CPU s per million ({wall:.2} s)");
}

/// CPU time of this process in seconds, user and system.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux");
    // utime and stime are fields 14 and 15; the name in field 2 may hold spaces.
    let ticks: u64 = text
        .rsplit(')')
        .next()
        .into_iter()
        .flat_map(str::split_whitespace)
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    // Linux counts them in hundredths.
    ticks as f64 / 100.0
}

fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("a number");
    pages * 4_096
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux").count()
}
