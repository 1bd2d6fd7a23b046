//! Files are of the form that RocksDB 6.20 reads, which clients have (formats.md
//! §7.5), whichever way they came about.
//!
//! What is checked is what stands in the files: their footers and their properties,
//! read here byte by byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mainstem_kv::{KvEngine, KvStore, KvWrites};
use mainstem_kv_rocksdb::{Compression, RocksConfig, RocksEngine};

/// Bytes at the end of a table file: checksum type, two handles, version, magic.
const FOOTER: usize = 53;
/// Magic of a block-based table.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const TABLE_FORMAT: u32 = 5;
const CRC32C: u8 = 1;
/// Bytes after a block: compression type and checksum.
const TRAILER: usize = 5;

/// A small store whose rows reach every level.
fn config() -> RocksConfig {
    RocksConfig {
        write_buffer_bytes: 64 << 10,
        target_file_bytes: 64 << 10,
        level_base_bytes: 128 << 10,
        ..RocksConfig::default()
    }
}

fn fill(store: &dyn KvStore, rounds: u32) {
    let mut writes = KvWrites::default();
    for round in 0..rounds {
        writes.clear();
        for number in 0..200_u32 {
            let key = (number * 7 + round).to_be_bytes();
            match number % 9 {
                0 => drop(writes.delete(&key)),
                _ => drop(writes.put(&key, 1, &[round as u8; 100])),
            }
        }
        store.write(&writes, true).unwrap();
    }
    store.flush(true).unwrap();
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect()
}

/// A number of seven bits a byte, low ones first.
fn varint(bytes: &mut &[u8]) -> usize {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    number
}

/// Entries of a block that is not compressed, whose keys share prefixes.
fn entries(block: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let (body, restarts) = block.split_at(block.len() - 4);
    let restarts = u32::from_le_bytes(restarts.try_into().unwrap()) as usize;
    let mut rest = &body[..body.len() - 4 * restarts];
    let mut key = Vec::new();
    let mut entries = BTreeMap::new();
    while !rest.is_empty() {
        let shared = varint(&mut rest);
        let own = varint(&mut rest);
        let length = varint(&mut rest);
        key.truncate(shared);
        key.extend_from_slice(&rest[..own]);
        let value = rest[own..own + length].to_vec();
        entries.insert(String::from_utf8_lossy(&key).into_owned(), value);
        rest = &rest[own + length..];
    }
    entries
}

/// The block at a handle, which is taken off; its checksum must be right.
fn block<'a>(file: &'a [u8], handle: &mut &[u8]) -> (u8, &'a [u8]) {
    let (offset, length) = (varint(handle), varint(handle));
    let (body, trailer) = file[offset..offset + length + TRAILER].split_at(length);
    let stored = u32::from_le_bytes(trailer[1..].try_into().unwrap());
    let computed = crc32c::crc32c_append(crc32c::crc32c(body), &trailer[..1]);
    let masked = computed.rotate_right(15).wrapping_add(0xa282_ead8);
    assert_eq!(stored, masked, "checksums are those of CRC-32C");
    (trailer[0], body)
}

fn plain_entries(file: &[u8], mut handle: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let (compression, body) = block(file, &mut handle);
    assert_eq!(compression, 0, "blocks about blocks are not compressed");
    entries(body)
}

/// Checks the form of a table file and returns its properties.
fn properties(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = fs::read(path).unwrap();
    let footer = &file[file.len() - FOOTER..];
    let magic = u64::from_le_bytes(footer[45..].try_into().unwrap());
    let version = u32::from_le_bytes(footer[41..45].try_into().unwrap());
    assert_eq!((magic, version), (MAGIC, TABLE_FORMAT));
    assert_eq!(footer[0], CRC32C);
    let mut handles = &footer[1..];
    let (_, metaindex) = block(&file, &mut handles);
    block(&file, &mut handles);
    let metaindex = entries(metaindex);
    for name in metaindex.keys() {
        let known = [
            "rocksdb.properties",
            "fullfilter.rocksdb.BuiltinBloomFilter",
        ];
        assert!(known.contains(&name.as_str()), "{name} is known to 6.20");
    }
    let properties = plain_entries(&file, &metaindex["rocksdb.properties"]);
    let text = |name: &str| {
        properties
            .get(name)
            .map(|value| String::from_utf8_lossy(value))
    };
    assert_eq!(
        text("rocksdb.comparator").as_deref(),
        Some("leveldb.BytewiseComparator")
    );
    assert_eq!(
        text("rocksdb.column.family.name").as_deref(),
        Some("default")
    );
    assert_eq!(text("rocksdb.merge.operator").as_deref(), Some("nullptr"));
    assert_eq!(
        text("rocksdb.prefix.extractor.name").as_deref(),
        Some("nullptr")
    );
    for (name, wanted) in [
        ("rocksdb.num.range-deletions", 0),
        ("rocksdb.merge.operands", 0),
        ("rocksdb.index.partitions", 0),
        ("rocksdb.column.family.id", 0),
        ("rocksdb.separate.key.value.in.data.block", 0),
    ] {
        let found = properties
            .get(name)
            .map_or(0, |value| varint(&mut &value[..]));
        assert_eq!(found, wanted, "{name}");
    }
    // One kind of index: binary search.
    let index = properties.get("rocksdb.block.based.table.index.type");
    assert_eq!(index.map(Vec::as_slice), Some(&[0; 4][..]));
    properties
}

/// Compressions that the table files of a store name.
fn compressions(dir: &Path) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for path in tables(dir) {
        let name = properties(&path).remove("rocksdb.compression").unwrap();
        *found.entry(String::from_utf8(name).unwrap()).or_default() += 1;
    }
    found
}

#[test]
fn flushed_and_compacted_files_are_of_the_old_form() {
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::new(config()).unwrap();
    let store = engine.open(dir.path()).unwrap();
    fill(&*store, 1);
    assert_eq!(
        compressions(dir.path()),
        BTreeMap::from([("LZ4".into(), 1)])
    );
    // Enough for flushes by itself and for compactions into the last level.
    fill(&*store, 200);
    let found = compressions(dir.path());
    assert!(found.contains_key("ZSTD"), "{found:?}");
    assert!(
        found.keys().all(|name| name == "LZ4" || name == "ZSTD"),
        "{found:?}"
    );
    drop(store);
    drop(engine.open(dir.path()).unwrap());
    assert!(!compressions(dir.path()).is_empty());
}

#[test]
fn any_compression_that_can_be_set_is_known_to_old_readers() {
    for (compression, wanted) in [
        (Compression::No, "NoCompression"),
        (Compression::Snappy, "Snappy"),
        (Compression::Lz4, "LZ4"),
        (Compression::Zstd, "ZSTD"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let config = RocksConfig {
            compression: [compression; 7],
            bloom_bits_per_key: None,
            ..config()
        };
        let store = RocksEngine::new(config).unwrap().open(dir.path()).unwrap();
        fill(&*store, 20);
        let found = compressions(dir.path());
        assert!(found.keys().eq([wanted]), "{found:?}");
    }
}

#[test]
fn no_option_is_one_that_old_readers_stumble_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = RocksEngine::new(RocksConfig::default())
        .unwrap()
        .open(dir.path())
        .unwrap();
    let newest = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
        .max()
        .unwrap();
    let text = fs::read_to_string(newest).unwrap();
    assert_eq!(text.matches("[CFOptions ").count(), 1);
    for wanted in [
        "[CFOptions \"default\"]",
        "num_levels=7",
        "comparator=leveldb.BytewiseComparator",
        "merge_operator=nullptr",
        "enable_blob_files=false",
        "compaction_filter=nullptr",
        "persist_user_defined_timestamps=true",
        "inplace_update_support=false",
        "wal_compression=kNoCompression",
        "track_and_verify_wals_in_manifest=false",
        "format_version=5",
        "checksum=kCRC32c",
        "index_type=kBinarySearch",
        "data_block_index_type=kDataBlockBinarySearch",
        "paranoid_checks=true",
        "prepopulate_block_cache=kFlushOnly",
        "cache_index_and_filter_blocks=true",
    ] {
        assert!(
            text.lines().any(|line| line.trim() == wanted),
            "{wanted} is in\n{text}"
        );
    }
    drop(store);
}

#[test]
fn no_log_files_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::new(config()).unwrap();
    for _ in 0..3 {
        let store = engine.open(dir.path()).unwrap();
        fill(&*store, 20);
    }
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with("LOG"), "{name}");
        let is_wal = Path::new(&name).extension().is_some_and(|end| end == "log");
        assert!(!is_wal || entry.metadata().unwrap().len() == 0, "{name}");
    }
}
