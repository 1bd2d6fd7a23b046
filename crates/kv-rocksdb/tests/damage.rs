//! A store whose files are damaged is said to be so. It does not open as an empty or
//! an older one, gives no wrong rows, and does not end the process.

use std::fs;
use std::path::{Path, PathBuf};

use mainstem_kv::{KvEngine, KvError, KvWrites, Result};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};
use tempfile::TempDir;

const ROWS: u32 = 3_000;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn engine() -> RocksEngine {
    RocksEngine::new(RocksConfig::default()).unwrap()
}

/// A closed store of two files, its rows, and its last sequence number.
fn made() -> (TempDir, Rows, u64) {
    let dir = tempfile::tempdir().unwrap();
    let store = engine().open(dir.path()).unwrap();
    for part in 0..2 {
        let mut writes = KvWrites::default();
        for number in (part..ROWS).step_by(2) {
            writes.put(&number.to_be_bytes(), 1, &number.to_le_bytes().repeat(5));
        }
        store.write(&writes, true).unwrap();
        store.flush(true).unwrap();
    }
    let durable = store.durable_sequence();
    drop(store);
    let (rows, last) = read(dir.path()).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    assert!(last >= durable);
    (dir, rows, last)
}

/// All rows and the last sequence number.
fn read(dir: &Path) -> Result<(Rows, u64)> {
    let store = engine().open(dir)?;
    let mut rows = Vec::new();
    let mut snapshot = store.clone().snapshot();
    snapshot.seek(b"");
    while let Some((key, value)) = snapshot.entry() {
        rows.push((key.to_vec(), value.to_vec()));
        snapshot.advance();
    }
    snapshot.check()?;
    Ok((rows, store.last_sequence()))
}

fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains(part))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there is a {part}");
    files
}

#[track_caller]
fn assert_damaged(dir: &Path) {
    match read(dir) {
        Err(KvError::Damaged(_)) => {}
        Err(other) => panic!("another error: {other}"),
        Ok((rows, _)) => panic!("it opens, with {} rows", rows.len()),
    }
}

/// A copy to damage.
fn copied(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for path in files(dir, "") {
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn a_table_that_is_missing_or_cut_is_damage() {
    let (made, ..) = made();
    let damages: [fn(&Path); 4] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, b"").unwrap(),
        |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        },
        |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, vec![0; bytes.len()]).unwrap();
        },
    ];
    for damage in damages {
        for at in 0..2 {
            let copy = copied(made.path());
            damage(&files(copy.path(), ".sst")[at]);
            assert_damaged(copy.path());
        }
    }
}

#[test]
fn a_manifest_that_is_missing_or_garbage_is_damage() {
    let (made, ..) = made();
    for garbage in [None, Some(&b""[..]), Some(&[0xa5; 5_000])] {
        let copy = copied(made.path());
        let manifest = files(copy.path(), "MANIFEST-").pop().unwrap();
        match garbage {
            None => fs::remove_file(manifest).unwrap(),
            Some(bytes) => fs::write(manifest, bytes).unwrap(),
        }
        assert_damaged(copy.path());
    }
}

#[test]
fn a_pointer_to_the_manifest_that_is_missing_or_garbage_is_damage() {
    let (made, ..) = made();
    for garbage in [
        None,
        Some(&b""[..]),
        Some(b"MANIFEST-000001"),
        Some(b"MANIFEST-999999\n"),
        Some(b"\0\xff\n"),
        Some(b"../../etc/passwd\n"),
    ] {
        let copy = copied(made.path());
        let current = copy.path().join("CURRENT");
        match garbage {
            None => fs::remove_file(&current).unwrap(),
            Some(bytes) => fs::write(&current, bytes).unwrap(),
        }
        assert_damaged(copy.path());
        assert_eq!(
            files(copy.path(), ".sst").len(),
            2,
            "nothing is thrown away"
        );
    }
}

/// Bytes that are wrong in the middle of a file are found when they are read, or are
/// of no account. A manifest that looks as if a crash had cut its end is the one
/// exception: then the last sequence number is too low, which the caller can see.
#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let (made, rows, last) = made();
    let (mut found, mut harmless) = (0, 0);
    for part in [".sst", "MANIFEST-"] {
        let name = files(made.path(), part).pop().unwrap();
        let name = name.file_name().unwrap();
        let bytes = fs::read(made.path().join(name)).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            let copy = copied(made.path());
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            fs::write(copy.path().join(name), flipped).unwrap();
            match read(copy.path()) {
                Err(KvError::Damaged(_)) => found += 1,
                Err(other) => panic!("{part} at {at}: {other}"),
                Ok((_, shorter)) if part == "MANIFEST-" && shorter < last => found += 1,
                Ok((read, _)) => {
                    assert!(read == rows, "{part} at {at}: other rows");
                    harmless += 1;
                }
            }
        }
    }
    assert!(found > harmless, "{found} found, {harmless} harmless");
}

#[test]
fn damage_under_an_open_store_is_found_by_reads() {
    let (made, ..) = made();
    let config = RocksConfig {
        block_cache_bytes: 0,
        ..RocksConfig::default()
    };
    let store = RocksEngine::new(config).unwrap().open(made.path()).unwrap();
    for path in files(made.path(), ".sst") {
        let bytes = fs::read(&path).unwrap();
        let mut zeroed = vec![0; bytes.len()];
        // In place: the open file is the one that is damaged.
        zeroed[bytes.len() / 2..].copy_from_slice(&bytes[bytes.len() / 2..]);
        fs::write(&path, zeroed).unwrap();
    }
    let keys: Vec<[u8; 4]> = (0..ROWS).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let read = store.multi_get(&keys, mainstem_kv::Reach::Disk, &mut |at, value| {
        let number = (at as u32).to_le_bytes().repeat(5);
        assert_eq!(value, Some(&[&b"\x01\0"[..], &number].concat()[..]));
    });
    assert!(matches!(read, Err(KvError::Damaged(_))), "{read:?}");
    let mut snapshot = store.snapshot();
    snapshot.seek(b"");
    while snapshot.entry().is_some() {
        snapshot.advance();
    }
    assert!(matches!(snapshot.check(), Err(KvError::Damaged(_))));
}

#[test]
fn what_a_crash_leaves_of_a_new_store_opens_as_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = engine().open(dir.path()).unwrap();
    drop(store);
    // As if only the files that are made before the first CURRENT had been made.
    let manifest = files(dir.path(), "MANIFEST-").pop().unwrap();
    fs::rename(&manifest, dir.path().join("MANIFEST-000001")).unwrap();
    for later in ["CURRENT", ".log", "OPTIONS-"] {
        for path in files(dir.path(), later) {
            fs::remove_file(path).unwrap();
        }
    }
    let (rows, _) = read(dir.path()).unwrap();
    assert!(rows.is_empty());
}

#[test]
fn a_half_removed_store_is_damaged_or_new() {
    let (made, ..) = made();
    let names = files(made.path(), "");
    for kept in 1..names.len() {
        for part in [&names[..kept], &names[kept..]] {
            let copy = copied(made.path());
            for path in part {
                fs::remove_file(copy.path().join(path.file_name().unwrap())).unwrap();
            }
            let tables_left = files_or_none(copy.path(), ".sst");
            match read(copy.path()) {
                Err(KvError::Damaged(_)) => {}
                Err(other) => panic!("{other}"),
                Ok((rows, _)) => assert!(
                    rows.len() == ROWS as usize || rows.is_empty() && tables_left == 0,
                    "{} rows of {tables_left} tables",
                    rows.len()
                ),
            }
        }
    }
}

fn files_or_none(dir: &Path, part: &str) -> usize {
    fs::read_dir(dir)
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().contains(part)
        })
        .count()
}

#[test]
fn a_place_that_is_no_directory_is_an_error_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    assert!(matches!(engine().open(&file), Err(KvError::Storage(_))));
    let below = file.join("db");
    assert!(matches!(engine().open(&below), Err(KvError::Storage(_))));
}

#[test]
fn a_store_of_another_make_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    drop(rocksdb::DB::open_cf(&options, dir.path(), ["default", "another"]).unwrap());
    assert_damaged(dir.path());
}
