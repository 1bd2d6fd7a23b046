//! A changelog in memory: stamps offsets as a leader does, knows its writers, and
//! can lose what is not durable.

use bytes::Bytes;
use mainstem_format::{LeaderStamp, LogBatch};

use crate::{ChangelogSource, KvError, Result};

/// Batches of a writer that are recognised when they come again.
const BATCHES_OF_WRITER: usize = 5;

/// See the module.
#[derive(Default)]
pub(super) struct Log {
    /// All batches since the beginning, also those before `start`.
    batches: Vec<LogBatch>,
    start: i64,
    committed: i64,
    durable: i64,
    /// Reading fails.
    pub unreadable: bool,
    /// Committed records are known to be missing.
    pub damaged: bool,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is the last one, and ends here.
    New(i64),
    /// It was appended before, and ended here.
    Duplicate(i64),
    /// The writer left out a batch.
    OutOfOrder,
}

impl Log {
    /// Appends a batch whose checksum is right.
    pub fn append(&mut self, bytes: &Bytes) -> Appended {
        let mut bytes = bytes.to_vec();
        let base_offset = self.end_offset();
        let stamp = LeaderStamp {
            base_offset,
            commit_timestamp_ms: 1000 + base_offset,
            leader_epoch: 0,
        };
        stamp.apply(&mut bytes).expect("a batch");
        let batch = LogBatch::parse(&Bytes::from(bytes)).expect("a batch");
        batch.verify_crc().expect("the checksum is right");
        let header = *batch.header();
        if header.writer_id >= 0 {
            let of_writer = |other: &&LogBatch| other.header().writer_id == header.writer_id;
            let recent = self.batches.iter().rev().filter(of_writer);
            let recent: Vec<_> = recent.take(BATCHES_OF_WRITER).collect();
            let same = |other: &&&LogBatch| other.header().batch_sequence == header.batch_sequence;
            if let Some(before) = recent.iter().find(same) {
                return Appended::Duplicate(before.header().next_offset());
            }
            let expected = recent
                .first()
                .map_or(0, |last| last.header().batch_sequence + 1);
            if header.batch_sequence != expected {
                return Appended::OutOfOrder;
            }
        }
        self.batches.push(batch);
        Appended::New(self.end_offset())
    }

    /// Commits up to an offset, with what that makes durable.
    pub fn commit(&mut self, offset: i64) {
        let offset = offset.min(self.end_offset());
        let durable = self.ends().into_iter().find(|end| *end >= offset);
        self.durable = self.durable.max(durable.unwrap_or_default());
        self.committed = self.committed.max(offset);
    }

    /// Makes everything durable.
    pub fn sync(&mut self) {
        self.durable = self.end_offset();
    }

    /// Exclusive end of what survives any crash.
    pub fn durable_offset(&self) -> i64 {
        self.durable
    }

    /// Loses the batches that end behind `offset` and are not durable.
    pub fn lose_behind(&mut self, offset: i64) {
        let end = offset.max(self.durable);
        self.batches
            .retain(|batch| batch.header().next_offset() <= end);
        self.durable = self.end_offset();
    }

    /// Loses the batches that end behind `offset`, whatever was promised of them.
    pub fn cut(&mut self, offset: i64) {
        self.batches
            .retain(|batch| batch.header().next_offset() <= offset);
        self.durable = self.end_offset();
        self.committed = self.committed.min(self.durable);
    }

    /// Forgets the batches that end at `offset` or before it.
    pub fn trim(&mut self, offset: i64) {
        let ends = self.ends();
        let kept = ends.into_iter().filter(|end| *end <= offset).max();
        self.start = self.start.max(kept.unwrap_or_default());
    }

    /// Ends of all batches since the beginning.
    pub fn ends(&self) -> Vec<i64> {
        let ends = self
            .batches
            .iter()
            .map(|batch| batch.header().next_offset());
        ends.collect()
    }

    /// All batches since the beginning.
    pub fn batches(&self) -> &[LogBatch] {
        &self.batches
    }

    /// Everything is gone.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl ChangelogSource for Log {
    fn start_offset(&self) -> i64 {
        self.start
    }

    fn is_whole(&self) -> bool {
        !self.damaged
    }

    fn committed_offset(&self) -> i64 {
        self.committed
    }

    fn end_offset(&self) -> i64 {
        self.batches
            .last()
            .map_or(0, |batch| batch.header().next_offset())
    }

    fn read(&self, from: i64, visit: &mut dyn FnMut(&LogBatch) -> Result<()>) -> Result<()> {
        assert!(from >= self.start, "{from} is before {}", self.start);
        if self.unreadable {
            return Err(KvError::Storage("the log cannot be read".to_owned()));
        }
        let wanted = |batch: &&LogBatch| batch.header().next_offset() > from;
        self.batches.iter().filter(wanted).try_for_each(visit)
    }
}
