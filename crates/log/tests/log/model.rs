//! Random schedules against a simple reference.

use std::sync::Arc;

use mainstem_env::{FileSystem, SeededRng, SimFileSystem};
use mainstem_log::{CheckedBatches, LogConfig, LogError, LogTablet, ReadRequest, RetentionRule};

use crate::support::*;

struct Model {
    seed: u64,
    rng: SeededRng,
    fs: SimFileSystem,
    config: LogConfig,
    tablet: Arc<LogTablet>,
    ledger: Ledger,
    now_ms: i64,
    /// Next sequence of each writer.
    sequences: [i32; 3],
}

#[test]
fn the_log_behaves_as_a_simple_list_of_batches() {
    for seed in 0..150 {
        let mut model = Model::new(seed);
        for _ in 0..120 {
            model.step();
        }
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let config = LogConfig {
            segment_bytes: [120, 2_000, 20_000, 1 << 30][rng.index(4)],
            index_interval_bytes: [1, 300, 4_096][rng.index(3)],
            checkpoint_bytes: [500, 5_000, 1 << 20][rng.index(3)],
            checkpoint_min_interval_ms: [0, 50][rng.index(2)],
            ..LogConfig::default()
        };
        let fs = disk(seed);
        let (tablet, _) = open(&fs, &config).unwrap();
        let ledger = Ledger::default();
        Self {
            seed,
            rng,
            fs,
            config,
            tablet,
            ledger,
            now_ms: 1_000,
            sequences: [0; 3],
        }
    }

    fn step(&mut self) {
        self.now_ms += self.rng.below(40) as i64 - 5;
        match self.rng.below(100) {
            0..45 => self.append(),
            45..50 => self.append_as_follower(),
            50..75 => self.read(),
            75..80 => self.find_time(),
            80..84 => {
                self.tablet.sync(self.now_ms).unwrap();
                assert_eq!(self.tablet.durable_end_offset(), self.ledger.end());
            }
            84..86 => {
                self.tablet.roll(self.now_ms).unwrap();
            }
            86..89 => self.truncate(),
            89..93 => self.delete(),
            93 => self.restart(),
            _ => self.reopen(),
        }
        assert_eq!(
            self.tablet.end_offset(),
            self.ledger.end(),
            "seed {}",
            self.seed
        );
        assert_eq!(
            self.tablet.log_start_offset(),
            self.ledger.start,
            "seed {}",
            self.seed
        );
    }

    fn append(&mut self) {
        let writer = self.rng.index(4);
        let mut batches = Vec::new();
        for _ in 0..1 + self.rng.index(3) {
            let payload = [0, 60, 300, 9_000][self.rng.index(4)];
            let records = self.rng.below(6) as i32;
            if writer < 3 {
                batches.push(batch(
                    writer as i64,
                    self.sequences[writer],
                    records,
                    payload,
                ));
                self.sequences[writer] += 1;
            } else {
                batches.push(plain(records, payload));
            }
        }
        let appended = append(&self.tablet, &batches, self.now_ms).unwrap();
        assert!(!appended.duplicate, "seed {}", self.seed);
        self.ledger.add(&batches, self.now_ms);
        assert_eq!(appended.end_offset, self.ledger.end());
        assert_eq!(appended.timestamp_ms, self.ledger.max_timestamp_ms);
        if writer < 3 && self.rng.chance(30) {
            self.repeat(writer);
        }
    }

    fn repeat(&mut self, writer: usize) {
        for known in self.ledger.latest_of(writer as i64) {
            let again = batch(writer as i64, known.batch_sequence, 9, 1);
            let again = append(&self.tablet, &[again], self.now_ms).unwrap();
            assert!(again.duplicate, "seed {}", self.seed);
            assert_eq!(again.base_offset, known.base_offset);
            assert_eq!(again.end_offset, known.next_offset());
        }
        let gap = batch(writer as i64, self.sequences[writer] + 1, 1, 1);
        let error = append(&self.tablet, &[gap], self.now_ms).unwrap_err();
        assert!(matches!(error, LogError::OutOfOrderSequence { .. }));
    }

    fn append_as_follower(&mut self) {
        // What a leader would have stored next.
        let mut leader = self.ledger.clone();
        leader.add(&[plain(3, 80), plain(1, 0)], self.now_ms);
        let bytes: Vec<u8> = leader.stored[self.ledger.stored.len()..]
            .iter()
            .flat_map(|one| one.bytes.clone())
            .collect();
        let batches = CheckedBatches::verify(&bytes.into()).unwrap();
        self.tablet
            .append_as_follower(&batches, self.now_ms, EPOCH)
            .unwrap();
        self.ledger = leader;
    }

    fn read(&mut self) {
        let (start, end) = (self.ledger.start, self.ledger.end());
        let span = (end - start + 1) as u64;
        let offset = start + self.rng.below(span) as i64;
        let limit = start + self.rng.below(span + 3) as i64;
        let max_bytes = [0, 100, 1_000, 20_000, 1 << 30][self.rng.index(5)];
        if self.rng.chance(50) {
            let all = read_all(&self.tablet, offset, limit, max_bytes);
            assert_eq!(all, self.ledger.bytes(offset, limit), "seed {}", self.seed);
            return;
        }
        let min_one_batch = self.rng.chance(50);
        let request = ReadRequest {
            start_offset: offset,
            end_offset_limit: limit,
            max_bytes,
            min_one_batch,
        };
        let slice = self.tablet.read(&request).unwrap();
        assert!(
            slice.len <= max_bytes || min_one_batch,
            "seed {}",
            self.seed
        );
        let expected = self.ledger.bytes(offset, slice.end_offset);
        assert_eq!(slice.to_bytes().unwrap(), expected, "seed {}", self.seed);
        let mut cursor = self.tablet.batches(offset, limit).unwrap();
        let mut total = 0;
        while let Some(found) = cursor.next_batch().unwrap() {
            total += found.header.total_len;
        }
        assert_eq!(
            total,
            self.ledger.bytes(offset, limit).len(),
            "seed {}",
            self.seed
        );
    }

    fn find_time(&mut self) {
        let time = self.now_ms - self.rng.below(2_000) as i64;
        let expected = self
            .ledger
            .stored
            .iter()
            .find(|one| one.header.commit_timestamp_ms >= time)
            .map(|one| one.header.base_offset);
        let found = self.tablet.offset_for_timestamp(time).unwrap();
        assert_eq!(found, expected, "seed {} time {time}", self.seed);
    }

    fn truncate(&mut self) {
        let (start, end) = (self.ledger.start, self.ledger.end());
        let tail = ((end - start) as u64 / 3).max(1);
        let offset = (end - self.rng.below(tail) as i64).max(start);
        let new_end = self.tablet.truncate_to(offset, self.now_ms).unwrap();
        assert!(
            new_end <= offset && self.ledger.is_boundary(new_end),
            "seed {}",
            self.seed
        );
        self.ledger.cut(new_end);
        for (writer, sequence) in self.sequences.iter_mut().enumerate() {
            // What the log still has of the writer decides.
            let latest = self.tablet.writer_batches((writer as i64).into());
            let expected = self.ledger.latest_of(writer as i64);
            let newest = latest.last().map(|last| last.sequence);
            if let Some(expected) = expected.first() {
                assert_eq!(newest, Some(expected.batch_sequence), "seed {}", self.seed);
            }
            *sequence = newest.map_or(0, |newest| newest + 1);
        }
    }

    fn delete(&mut self) {
        let rule = RetentionRule {
            ttl_ms: Some(self.rng.below(1_500) as i64 + 1),
            retain_bytes: Some(self.rng.below(50_000)),
        };
        let limit = self.ledger.end() - self.rng.below(20) as i64;
        let before = self
            .tablet
            .deletable_before(&rule, limit, self.now_ms)
            .unwrap();
        assert!(self.ledger.is_boundary(before), "seed {}", self.seed);
        self.tablet
            .delete_segments_before(before, self.now_ms)
            .unwrap();
        self.ledger.delete_before(before);
    }

    fn restart(&mut self) {
        let start = self.ledger.end() + self.rng.below(100) as i64;
        self.tablet
            .truncate_fully_and_start_at(start, self.now_ms)
            .unwrap();
        self.ledger = Ledger {
            start,
            ..Ledger::default()
        };
        self.sequences = [0; 3];
    }

    fn reopen(&mut self) {
        match self.rng.below(3) {
            0 => self.tablet.close(self.now_ms).unwrap(),
            1 => self.fs = self.fs.process_kill(),
            _ => {
                self.tablet.sync(self.now_ms).unwrap();
                self.fs = self.fs.power_loss(mainstem_env::Survival::Nothing);
                // The lost time is that of the disk, not ours.
                self.fs.sync_dir("/".as_ref()).unwrap();
            }
        }
        let (tablet, report) = open(&self.fs, &self.config).unwrap();
        assert!(report.is_clean(), "seed {}: {report:?}", self.seed);
        self.tablet = tablet;
    }
}
