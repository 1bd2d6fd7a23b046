//! What idempotent writers have written: the basis for recognising a batch that
//! is sent again (cluster.md §4.2, wire.md §6.3).
//!
//! The state follows from the log alone. Expiry too is decided by commit
//! timestamps, never by the clock of one replica, and building the state from
//! the log never judges a sequence: what is in the log was accepted.

use std::collections::HashMap;

use mainstem_format::header::BatchHeader;
use mainstem_types::WriterId;

use crate::error::LogError;

/// Batches remembered per writer: as many as a client may have in flight.
pub const BATCHES_PER_WRITER: usize = 5;

/// A batch of a writer that is in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenBatch {
    /// Its sequence.
    pub sequence: i32,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Offset of its last record minus that of its first.
    pub offset_delta: i32,
    /// Its commit timestamp.
    pub timestamp_ms: i64,
}

impl WrittenBatch {
    pub(crate) fn of(header: &BatchHeader) -> Self {
        Self {
            sequence: header.batch_sequence,
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp_ms: header.commit_timestamp_ms,
        }
    }

    /// Offset of its first record.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.last_offset - i64::from(self.offset_delta)
    }
}

/// The latest batches of one writer, oldest first; never empty once stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriterEntry {
    batches: [WrittenBatch; BATCHES_PER_WRITER],
    len: u8,
}

impl WriterEntry {
    pub fn batches(&self) -> &[WrittenBatch] {
        &self.batches[..usize::from(self.len)]
    }

    pub fn push(&mut self, batch: WrittenBatch) {
        if usize::from(self.len) == BATCHES_PER_WRITER {
            self.batches.rotate_left(1);
        } else {
            self.len += 1;
        }
        self.batches[usize::from(self.len) - 1] = batch;
    }

    fn push_oldest(&mut self, batch: WrittenBatch) {
        if usize::from(self.len) < BATCHES_PER_WRITER {
            self.batches.rotate_right(1);
            self.batches[0] = batch;
            self.len += 1;
        }
    }

    fn is_full(&self) -> bool {
        usize::from(self.len) == BATCHES_PER_WRITER
    }

    fn last(&self) -> Option<&WrittenBatch> {
        self.batches().last()
    }
}

/// What to do with an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceCheck {
    /// Append it.
    New,
    /// This batch of it is in the log already: append nothing.
    Duplicate(WrittenBatch),
}

/// The writers of one bucket.
#[derive(Clone, Debug, Default)]
pub struct WriterStates {
    writers: HashMap<i64, WriterEntry>,
}

impl WriterStates {
    /// Number of writers remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writers.len()
    }

    /// Whether no writer is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }

    /// The remembered batches of a writer, oldest first.
    #[must_use]
    pub fn batches(&self, writer: WriterId) -> &[WrittenBatch] {
        self.writers
            .get(&writer.0)
            .map_or(&[], WriterEntry::batches)
    }

    /// Decides about the batches of one append, in order: the first one that is
    /// a repeat, or out of order, decides for all.
    pub(crate) fn check(
        &self,
        headers: &[BatchHeader],
        now_ms: i64,
        expiration_ms: i64,
    ) -> Result<SequenceCheck, LogError> {
        for (position, header) in headers.iter().enumerate() {
            if header.writer_id == WriterId::NONE.0 {
                continue;
            }
            let entry = self.writers.get(&header.writer_id);
            let repeated = entry.and_then(|entry| {
                entry
                    .batches()
                    .iter()
                    .find(|batch| batch.sequence == header.batch_sequence)
            });
            if let Some(batch) = repeated {
                return Ok(SequenceCheck::Duplicate(*batch));
            }
            let before = headers[..position]
                .iter()
                .rev()
                .find(|earlier| earlier.writer_id == header.writer_id)
                .map(|earlier| earlier.batch_sequence);
            let stored = entry.and_then(WriterEntry::last);
            let expired = before.is_none()
                && stored.is_some_and(|last| now_ms - last.timestamp_ms > expiration_ms);
            let expected = match before.or(stored.map(|last| last.sequence)) {
                None | Some(i32::MAX) => 0,
                // A stored −1 can only be of a damaged or foreign log.
                Some(last) => last.saturating_add(1),
            };
            if header.batch_sequence != expected && !(expired && header.batch_sequence >= 0) {
                return Err(LogError::OutOfOrderSequence {
                    writer_id: WriterId(header.writer_id),
                    sequence: header.batch_sequence,
                    expected,
                });
            }
        }
        Ok(SequenceCheck::New)
    }

    /// Notes a batch that is in the log now. Never judges its sequence.
    pub(crate) fn record(&mut self, header: &BatchHeader, max_writers: usize) {
        if header.writer_id == WriterId::NONE.0 {
            return;
        }
        if self.writers.len() >= max_writers && !self.writers.contains_key(&header.writer_id) {
            self.forget_longest_silent(max_writers / 10 + 1);
        }
        self.writers
            .entry(header.writer_id)
            .or_default()
            .push(WrittenBatch::of(header));
    }

    fn forget_longest_silent(&mut self, count: usize) {
        let mut last_offsets: Vec<i64> = self.last_offsets().collect();
        let count = count.min(last_offsets.len());
        if count == 0 {
            return;
        }
        let (_, newest_forgotten, _) = last_offsets.select_nth_unstable(count - 1);
        let newest_forgotten = *newest_forgotten;
        self.writers.retain(|_, entry| {
            entry
                .last()
                .is_some_and(|last| last.last_offset > newest_forgotten)
        });
    }

    fn last_offsets(&self) -> impl Iterator<Item = i64> + '_ {
        self.writers
            .values()
            .filter_map(|entry| entry.last().map(|last| last.last_offset))
    }

    /// Forgets writers that have been silent for twice the expiration time.
    /// Returns how many.
    pub(crate) fn remove_expired(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.writers.len();
        let oldest = now_ms.saturating_sub(expiration_ms.saturating_mul(2));
        self.writers
            .retain(|_, entry| entry.last().is_some_and(|last| last.timestamp_ms >= oldest));
        before - self.writers.len()
    }

    /// Forgets the batches at `end_offset` and beyond. Returns the writers that
    /// remember fewer batches than before, whose older ones may be in the log:
    /// see [`TruncatedWriters`].
    pub(crate) fn truncate_to(&mut self, end_offset: i64) -> TruncatedWriters {
        let mut shortened = HashMap::new();
        self.writers.retain(|writer, entry| {
            let mut kept = WriterEntry::default();
            for batch in entry
                .batches()
                .iter()
                .filter(|batch| batch.last_offset < end_offset)
            {
                kept.push(*batch);
            }
            if kept.len == entry.len {
                return true;
            }
            if entry
                .batches()
                .first()
                .is_some_and(|first| first.sequence == 0)
            {
                // The whole history was remembered: there is nothing to look for.
                *entry = kept;
                return entry.len > 0;
            }
            shortened.insert(*writer, kept);
            false
        });
        TruncatedWriters { shortened }
    }

    /// Takes the writers back after their older batches were looked for.
    pub(crate) fn restore(&mut self, truncated: TruncatedWriters) {
        for (writer, entry) in truncated.shortened {
            if entry.len > 0 {
                self.writers.insert(writer, entry);
            }
        }
    }

    /// All writers with their entries, ascending by id.
    pub(crate) fn sorted(&self) -> Vec<(i64, WriterEntry)> {
        let mut writers: Vec<_> = self
            .writers
            .iter()
            .map(|(writer, entry)| (*writer, *entry))
            .collect();
        writers.sort_unstable_by_key(|(writer, _)| *writer);
        writers
    }

    pub(crate) fn insert(&mut self, writer: i64, entry: WriterEntry) {
        if entry.len > 0 {
            self.writers.insert(writer, entry);
        }
    }
}

/// Writers that a truncation left with fewer batches than are remembered: those
/// before are looked for backwards in the log, so that a writer that lives on
/// is known as well as before.
#[derive(Debug)]
pub(crate) struct TruncatedWriters {
    shortened: HashMap<i64, WriterEntry>,
}

impl TruncatedWriters {
    /// Whether nothing is missing any more.
    pub fn is_complete(&self) -> bool {
        self.shortened.values().all(|entry| {
            // The first batch of a writer has nothing before it.
            entry.is_full()
                || entry
                    .batches()
                    .first()
                    .is_some_and(|first| first.sequence == 0)
        })
    }

    /// Whether older batches of this writer are looked for.
    pub fn contains(&self, writer: i64) -> bool {
        self.shortened.contains_key(&writer)
    }

    /// Notes the batches of an earlier stretch of the log, given in order. Later
    /// stretches must have been noted before.
    pub fn prepend(&mut self, headers: &[BatchHeader]) {
        for header in headers.iter().rev() {
            if let Some(entry) = self.shortened.get_mut(&header.writer_id) {
                let known = entry
                    .batches()
                    .first()
                    .map_or(i64::MAX, |first| first.last_offset);
                if header.last_offset() < known {
                    entry.push_oldest(WrittenBatch::of(header));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstem_format::log_batch_builder::BatchSpec;

    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn batch(writer_id: i64, batch_sequence: i32) -> BatchHeader {
        let spec = BatchSpec {
            writer_id,
            batch_sequence,
            ..BatchSpec::default()
        };
        BatchHeader::parse(&spec.build(2, &[], &[], b"rows").unwrap()).unwrap()
    }

    fn stored(writer_id: i64, sequence: i32, base_offset: i64) -> BatchHeader {
        BatchHeader {
            base_offset,
            ..batch(writer_id, sequence)
        }
    }

    /// A writer 7 that has sent `sequences`, with two records in each batch.
    fn states(sequences: &[i32]) -> WriterStates {
        let mut states = WriterStates::default();
        for (position, sequence) in sequences.iter().enumerate() {
            states.record(&stored(7, *sequence, 2 * position as i64), 100);
        }
        states
    }

    fn check(states: &WriterStates, headers: &[BatchHeader]) -> Result<Option<i64>, i32> {
        match states.check(headers, 0, DAY_MS) {
            Ok(SequenceCheck::New) => Ok(None),
            Ok(SequenceCheck::Duplicate(batch)) => Ok(Some(batch.base_offset())),
            Err(LogError::OutOfOrderSequence { expected, .. }) => Err(expected),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_cases_of_a_single_batch() {
        let states = states(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(check(&states, &[batch(7, 7)]), Ok(None));
        assert_eq!(check(&states, &[batch(7, 6)]), Ok(Some(12)));
        assert_eq!(
            check(&states, &[batch(7, 2)]),
            Ok(Some(4)),
            "the fifth last"
        );
        assert_eq!(check(&states, &[batch(7, 1)]), Err(7), "the sixth last");
        assert_eq!(check(&states, &[batch(7, 8)]), Err(7));
        assert_eq!(check(&states, &[batch(8, 0)]), Ok(None));
        assert_eq!(check(&states, &[batch(8, 4)]), Err(0));
        assert_eq!(check(&states, &[batch(-2, 5)]), Err(0));
        assert_eq!(check(&states, &[batch(77, -1)]), Err(0));
        assert_eq!(check(&states, &[batch(-1, 5)]), Ok(None));
    }

    #[test]
    fn several_batches_are_decided_together() {
        let states = states(&[5, 6, 7, 8]);
        assert_eq!(check(&states, &[batch(7, 9), batch(7, 10)]), Ok(None));
        assert_eq!(check(&states, &[batch(7, 8), batch(7, 9)]), Ok(Some(6)));
        assert_eq!(check(&states, &[batch(7, 9), batch(7, 11)]), Err(10));
        assert_eq!(check(&states, &[batch(7, 9), batch(7, 9)]), Err(10));
        assert_eq!(
            check(&states, &[batch(9, 0), batch(7, 9), batch(9, 1)]),
            Ok(None)
        );
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let states = states(&[i32::MAX - 1, i32::MAX]);
        assert_eq!(check(&states, &[batch(7, 0)]), Ok(None));
        assert_eq!(check(&states, &[batch(7, i32::MIN)]), Err(0));
        let states = self::states(&[i32::MAX, 0]);
        assert_eq!(check(&states, &[batch(7, i32::MAX)]), Ok(Some(0)));
    }

    #[test]
    fn an_expired_writer_may_go_on_with_any_sequence() {
        let mut states = states(&[0, 1]);
        assert!(states.check(&[batch(7, 9)], DAY_MS, DAY_MS).is_err());
        assert!(states.check(&[batch(7, 9)], DAY_MS + 1, DAY_MS).is_ok());
        assert!(states.check(&[batch(7, -1)], DAY_MS + 1, DAY_MS).is_err());
        assert!(
            states
                .check(&[batch(7, 9), batch(7, 12)], DAY_MS + 1, DAY_MS)
                .is_err()
        );
        assert_eq!(states.remove_expired(2 * DAY_MS, DAY_MS), 0);
        assert_eq!(states.remove_expired(2 * DAY_MS + 1, DAY_MS), 1);
        assert!(states.is_empty());
    }

    #[test]
    fn the_number_of_writers_is_bounded_and_the_longest_silent_go_first() {
        let mut states = WriterStates::default();
        for writer in 0..1_000 {
            states.record(&stored(writer, 0, 2 * writer), 50);
            states.record(&stored(0, 1, 2 * writer + 1), 50);
            assert!(states.len() <= 50);
        }
        assert_eq!(states.batches(WriterId(999)).len(), 1);
        assert_eq!(states.batches(WriterId(0)).len(), 5);
    }

    #[test]
    fn older_batches_are_found_again_after_a_truncation() {
        let all: Vec<BatchHeader> = (0..9).map(|n| stored(7, n, 2 * i64::from(n))).collect();
        let mut states = states(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
        states.record(&stored(8, 0, 100), 100);
        states.record(&stored(9, 3, 102), 100);
        let mut truncated = states.truncate_to(14);
        assert!(!truncated.is_complete());
        truncated.prepend(&all[4..7]);
        truncated.prepend(&all[0..4]);
        assert!(
            !truncated.is_complete(),
            "of writer 9 nothing was found yet"
        );
        states.restore(truncated);
        let sequences: Vec<i32> = states
            .batches(WriterId(7))
            .iter()
            .map(|batch| batch.sequence)
            .collect();
        assert_eq!(sequences, [2, 3, 4, 5, 6]);
        assert!(states.batches(WriterId(8)).is_empty());
    }
}
