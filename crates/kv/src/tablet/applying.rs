//! From committed changes to rows that readers see, and on to the store.

use super::KvWriter;
use super::marks::Mark;
use crate::pending::Changes;
use crate::recent;
use crate::{KvError, OpenRows, Result};

/// Bytes of changes that the store gets at once, if somebody waits for all to be there.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of changes that it gets with every put, at least, while some wait.
const LEAST_PIECE_BYTES: usize = 4 << 10;

impl KvWriter<'_> {
    /// Takes over the changes of a batch that was appended and ends at `end_offset`.
    /// They are applied at once if that is committed already.
    ///
    /// # Errors
    /// The store failed; the changes are in the changelog and come back when it is
    /// opened anew.
    pub fn commit(&mut self, end_offset: i64, changes: Changes, committed: i64) -> Result<()> {
        let rows = self.rows()?;
        if end_offset <= committed && self.writer.pending.is_empty() {
            return self.apply(&rows, end_offset, &changes);
        }
        self.writer.pending.push(end_offset, changes);
        self.apply_until(committed).map(|_| ())
    }

    /// Applies what is committed. Returns the offset below which everything is
    /// applied.
    ///
    /// # Errors
    /// The store failed.
    pub fn apply_until(&mut self, committed: i64) -> Result<i64> {
        let rows = self.rows()?;
        let mut pending = std::mem::take(&mut self.writer.pending);
        let mut outcome = Ok(());
        while let Some((end_offset, changes)) = pending.oldest_until(committed) {
            outcome = self.apply(&rows, end_offset, changes);
            if outcome.is_err() {
                break;
            }
            pending.pop();
        }
        if pending.is_empty() && outcome.is_ok() {
            self.writer.applied = self.writer.applied.max(committed);
        }
        self.writer.pending = pending;
        outcome.map(|()| self.writer.applied)
    }

    /// Lets readers see changes, which are the next ones of the changelog. If it fails
    /// they see none of them.
    pub(super) fn apply(
        &mut self,
        rows: &OpenRows,
        end_offset: i64,
        changes: &Changes,
    ) -> Result<()> {
        let size = changes.size_bytes() + changes.key_count() * recent::OVERHEAD;
        let room = rows.room();
        let stored = match size <= room {
            true => self.make_room(rows, size, room).map(|()| rows.add(changes)),
            false => self.bring_to_store(rows).and_then(|()| {
                rows.forget();
                rows.store().write(&changes.to_writes(), true).map(drop)
            }),
        };
        stored.inspect_err(|error| self.failed(error))?;
        self.writer.row_count += changes.row_delta();
        self.writer.applied = end_offset;
        if rows.is_stored() {
            // It is written, or changes nothing.
            let mark = self.mark(rows.store().last_sequence());
            self.writer.marks.push(mark);
        } else {
            // Faster than the next generation fills. What fails now is tried again with
            // the next changes; when there is no room for them they are refused.
            let _ = self.store_some(rows, 2 * size + LEAST_PIECE_BYTES);
        }
        Ok(())
    }

    /// Makes room for so many bytes to gather.
    pub(super) fn make_room(&mut self, rows: &OpenRows, size: usize, room: usize) -> Result<()> {
        if rows.recent().size_bytes() + size <= room {
            return Ok(());
        }
        while self.writer.turned.is_some() {
            self.store_some(rows, PIECE_BYTES)?;
        }
        self.turn(rows);
        Ok(())
    }

    /// Sends the changes that have gathered on their way to the store.
    fn turn(&mut self, rows: &OpenRows) {
        let queue = rows.turn();
        // The number is that of its last write.
        self.writer.turned = (!queue.is_done()).then(|| (queue, self.mark(0)));
    }

    /// Goes on with that, by about so many bytes.
    fn store_some(&mut self, rows: &OpenRows, size_bytes: usize) -> Result<()> {
        let Some((queue, mark)) = &mut self.writer.turned else {
            return Ok(());
        };
        let stored = rows.store_piece(queue, size_bytes);
        match stored {
            Ok(sequence) if queue.is_done() => {
                let mark = Mark { sequence, ..*mark };
                self.writer.turned = None;
                self.writer.marks.push(mark);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                self.failed_if_damaged(&error);
                Err(error)
            }
        }
    }

    /// Brings all changes that are applied to the store. They stay where they are as
    /// well, for the next puts.
    ///
    /// # Errors
    /// The disk fails. Unless the store is damaged, readers find everything all the
    /// same, and it can be tried again.
    pub(super) fn bring_to_store(&mut self, rows: &OpenRows) -> Result<()> {
        while self.writer.turned.is_some() {
            self.store_some(rows, PIECE_BYTES)?;
        }
        let mut gathered = rows.gathered();
        while !gathered.is_done() {
            let stored = rows.store_piece(&mut gathered, PIECE_BYTES);
            stored.inspect_err(|error| self.failed_if_damaged(error))?;
        }
        let writer = &self.writer;
        let marked = writer.marks.newest_offset().unwrap_or(writer.noted.offset);
        if marked < writer.applied {
            let mark = self.mark(rows.store().last_sequence());
            self.writer.marks.push(mark);
        }
        Ok(())
    }

    pub(super) fn failed_if_damaged(&mut self, error: &KvError) {
        if matches!(error, KvError::Damaged(_)) {
            self.failed(error);
        }
    }

    /// What is applied, for a store that has it all with this number.
    fn mark(&self, sequence: u64) -> Mark {
        Mark {
            sequence,
            offset: self.writer.applied,
            row_count: self.writer.row_count,
        }
    }
}
