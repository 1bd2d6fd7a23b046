//! A simulated disk with one log, and a ledger of what it must contain.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{FileSystem, SeededRng, SimFileSystem};
use mainstem_format::{BatchHeader, BatchSpec, LeaderStamp};
use mainstem_log::{
    Appended, CheckedBatches, LogConfig, LogError, LogResources, LogTablet, ReadRequest,
    RecoveryReport,
};
use mainstem_types::LeaderEpoch;

pub const EPOCH: LeaderEpoch = LeaderEpoch(3);
pub const DIR: &str = "/data/db/t-1/log-0";

/// A batch of `records` records, `payload` random bytes, sequence and writer.
pub fn batch(writer_id: i64, batch_sequence: i32, records: i32, payload: usize) -> Bytes {
    let mut body = vec![0; payload];
    SeededRng::new(writer_id as u64 ^ (batch_sequence as u64) << 32 ^ payload as u64)
        .fill(&mut body);
    let spec = BatchSpec {
        writer_id,
        batch_sequence,
        ..BatchSpec::default()
    };
    Bytes::from(spec.build(records, &[], &[], &body).unwrap())
}

/// A batch without an idempotent writer.
pub fn plain(records: i32, payload: usize) -> Bytes {
    batch(-1, -1, records, payload)
}

pub fn checked(batches: &[Bytes]) -> CheckedBatches {
    CheckedBatches::verify(&Bytes::from(batches.concat())).unwrap()
}

/// A disk with a durable data directory.
pub fn disk(seed: u64) -> SimFileSystem {
    let fs = SimFileSystem::new(seed);
    fs.create_dir_all(Path::new("/data")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs
}

pub fn segment_path(base_offset: i64) -> PathBuf {
    Path::new(DIR).join(format!("{base_offset:020}.log"))
}

pub fn open(
    fs: &SimFileSystem,
    config: &LogConfig,
) -> Result<(Arc<LogTablet>, RecoveryReport), LogError> {
    let resources = LogResources::new(Arc::new(fs.clone()), "/data".into(), 16);
    LogTablet::open(resources, DIR.into(), Arc::new(config.clone()), 0)
        .map(|(tablet, report)| (Arc::new(tablet), report))
}

pub fn append(tablet: &LogTablet, batches: &[Bytes], now_ms: i64) -> Result<Appended, LogError> {
    tablet.append_as_leader(&checked(batches), now_ms, EPOCH)
}

/// Everything from `start` to `limit`, however many reads it takes.
pub fn read_all(tablet: &LogTablet, start: i64, limit: i64, max_bytes: u64) -> Bytes {
    let mut all = Vec::new();
    let mut start_offset = start;
    loop {
        let slice = tablet
            .read(&ReadRequest {
                start_offset,
                end_offset_limit: limit,
                max_bytes,
                min_one_batch: true,
            })
            .unwrap();
        if slice.is_empty() {
            return all.into();
        }
        assert!(slice.end_offset > start_offset);
        let bytes = slice.to_bytes().unwrap();
        assert_eq!(bytes.len() as u64, slice.len);
        all.extend_from_slice(&bytes);
        start_offset = slice.end_offset;
    }
}

/// A batch as the log must have stored it.
#[derive(Clone, Debug)]
pub struct Stored {
    pub header: BatchHeader,
    pub bytes: Vec<u8>,
}

/// What the log must contain, by a simple reference.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub start: i64,
    pub stored: Vec<Stored>,
    pub max_timestamp_ms: i64,
}

impl Ledger {
    pub fn end(&self) -> i64 {
        self.stored
            .last()
            .map_or(self.start, |last| last.header.next_offset())
    }

    /// Adds batches as a leader would.
    pub fn add(&mut self, batches: &[Bytes], now_ms: i64) {
        let commit_timestamp_ms = now_ms.max(self.max_timestamp_ms);
        self.max_timestamp_ms = commit_timestamp_ms;
        for bytes in batches {
            let mut bytes = bytes.to_vec();
            let base_offset = self.end();
            LeaderStamp {
                base_offset,
                commit_timestamp_ms,
                leader_epoch: EPOCH.0,
            }
            .apply(&mut bytes)
            .unwrap();
            let header = BatchHeader::parse(&bytes).unwrap();
            self.stored.push(Stored { header, bytes });
        }
    }

    /// The bytes of the batches that overlap `start..end` and end by `end`.
    pub fn bytes(&self, start: i64, end: i64) -> Vec<u8> {
        self.stored
            .iter()
            .filter(|one| one.header.next_offset() > start && one.header.next_offset() <= end)
            .flat_map(|one| one.bytes.iter().copied())
            .collect()
    }

    /// Forgets what ends beyond `end`.
    pub fn cut(&mut self, end: i64) {
        self.stored.retain(|one| one.header.next_offset() <= end);
        self.max_timestamp_ms = self
            .stored
            .last()
            .map_or(0, |last| last.header.commit_timestamp_ms);
    }

    /// Forgets what begins before `start`.
    pub fn delete_before(&mut self, start: i64) {
        self.stored.retain(|one| one.header.base_offset >= start);
        self.start = start;
    }

    /// The last batches of a writer, newest first, at most five.
    pub fn latest_of(&self, writer_id: i64) -> Vec<BatchHeader> {
        let of_writer = self
            .stored
            .iter()
            .rev()
            .filter(|one| one.header.writer_id == writer_id);
        of_writer.take(5).map(|one| one.header).collect()
    }

    pub fn is_boundary(&self, offset: i64) -> bool {
        offset == self.start
            || self
                .stored
                .iter()
                .any(|one| one.header.next_offset() == offset)
    }
}
