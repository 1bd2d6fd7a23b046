//! The rows of a replica of a primary-key table: puts, and the way to read them.
//!
//! The lock of the rows comes first, then that of the replica's state. A put holds
//! it from reading the old rows to handing over the changes, so that changes and
//! changelog have one order. Who moves the high watermark applies to the rows first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstem_format::header::BatchHeader;
use mainstem_format::log_batch::Batches;
use mainstem_format::{KvBatch, LogBatch};
use mainstem_kv::{
    ChangelogSource, KvError, KvSnapshot, KvTable, KvTablet, KvWriter, OpenRows, PutMode,
    SequenceSource,
};
use mainstem_log::{CheckedBatches, LogError, LogTablet, ReadRequest};
use mainstem_meta::MetaError;
use mainstem_types::{TableBucket, TableId, WriterId};
use tracing::{error, info, warn};

use super::core::Event;
use super::{AppendOutcome, Replica};
use crate::produce_wait::Committed;
use crate::service::Refusal;

/// Bytes of the changelog that a replay reads at once
/// (`kv.recover.log-record-batch.max-size`).
const REPLAY_READ_BYTES: u64 = 16 << 20;

/// Requests that may wait for rows that are being opened.
const WAITING_MAX: usize = 16;
/// Requests that may wait to bring the last changes of a bucket where they can be read
/// in order. Each keeps a thread, and whoever changes the rows may need long.
const VIEWS_WAITING_MAX: usize = 32;
/// How long a request waits for rows that others have.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// After the rows could not be opened, requests are refused for so long.
const REOPEN_PAUSE_MS: i64 = 1_000;

/// One of those that wait.
struct Waiting<'c> {
    count: &'c AtomicUsize,
    /// Those who waited already.
    before: usize,
}

impl<'c> Waiting<'c> {
    fn begin(count: &'c AtomicUsize) -> Self {
        let before = count.fetch_add(1, Ordering::Relaxed);
        Self { count, before }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Replica {
    /// The rows and how they change.
    ///
    /// # Errors
    /// 20 if the table has no primary key, 12 if this replica does not lead.
    pub fn rows(&self) -> Result<(&KvTablet, Arc<KvTable>), Refusal> {
        let table = self.table();
        let Some(rows) = &self.rows else {
            let message = format!("{} is not a primary key table", table.entry.path);
            return Err(Refusal::new(20, message));
        };
        self.check_leader()?;
        let Some(kv) = table.kv.clone() else {
            let message = "the rows of this table cannot be served by this release";
            return Err(Refusal::new(11, message));
        };
        Ok((rows, kv))
    }

    /// The open rows; `None` if they have to be opened first, which may take a while:
    /// [`opened_rows`](Self::opened_rows).
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn open_rows(&self) -> Result<Option<Arc<OpenRows>>, Refusal> {
        let (rows, _) = self.rows()?;
        Ok(rows.rows(self.context.clock.now_ms()))
    }

    /// The rows, opened if they are not. May wait for the disk and for a replay of the
    /// changelog.
    ///
    /// # Errors
    /// As [`rows`](Self::rows); 11 if they cannot be opened now.
    pub fn opened_rows(&self) -> Result<Arc<OpenRows>, Refusal> {
        if let Some(open) = self.open_rows()? {
            return Ok(open);
        }
        // Until the rows are taken nobody may close them again.
        let (writer, _) = self.lock_rows()?;
        Ok(writer.rows()?)
    }

    /// A view of the rows, in the order of their keys. May wait for whoever changes
    /// the rows now.
    ///
    /// # Errors
    /// As [`opened_rows`](Self::opened_rows).
    pub fn row_snapshot(&self) -> Result<Box<dyn KvSnapshot>, Refusal> {
        if let Some(snapshot) = self.opened_rows()?.snapshot() {
            return Ok(snapshot);
        }
        let waiting = Waiting::begin(&self.waiting_for_views);
        if waiting.before >= VIEWS_WAITING_MAX {
            return Err(Refusal::new(11, "others wait for these rows: try again"));
        }
        let (snapshot, _) = self.lock_rows()?.0.snapshot()?;
        Ok(snapshot)
    }

    /// The locked rows, opened.
    ///
    /// # Errors
    /// As [`opened_rows`](Self::opened_rows).
    pub fn lock_rows(&self) -> Result<(KvWriter<'_>, Arc<KvTable>), Refusal> {
        let (rows, kv) = self.rows()?;
        let mut writer = match rows.try_lock() {
            Some(writer) => writer,
            None => self.wait_for_rows(rows)?,
        };
        self.open_locked(&mut writer, &kv)?;
        Ok((writer, kv))
    }

    /// Waits while somebody else changes or opens the rows. Opening may take minutes,
    /// and every request that waits keeps a thread: few may, and not for long.
    fn wait_for_rows<'r>(&self, rows: &'r KvTablet) -> Result<KvWriter<'r>, Refusal> {
        let busy = || Refusal::new(11, "the rows are being opened, or others wait: try again");
        let waiting = Waiting::begin(&self.waiting_for_rows);
        if waiting.before >= WAITING_MAX && !rows.is_open() {
            return Err(busy());
        }
        rows.lock_within(WAIT_MAX).ok_or_else(busy)
    }

    /// What to answer when a read of the rows fails; damage is remembered.
    pub fn read_failed(&self, error: KvError) -> Refusal {
        if let Some(rows) = &self.rows {
            rows.report(&error);
        }
        error.into()
    }

    /// Whether the table has a primary key.
    pub fn has_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Whether the rows are open. They may have failed nevertheless.
    pub fn rows_are_open(&self) -> bool {
        self.rows.as_ref().is_some_and(KvTablet::is_open)
    }

    /// Whether a small put can begin without opening anything, without a wait for
    /// somebody else, and without much work for those before it.
    pub fn rows_are_ready(&self) -> bool {
        let writer = self.rows.as_ref().and_then(KvTablet::try_lock);
        writer.is_some_and(|writer| writer.is_open() && writer.has_room())
    }

    fn open_locked(&self, writer: &mut KvWriter<'_>, table: &KvTable) -> Result<(), Refusal> {
        if writer.is_open() {
            // Takes note that they are used.
            self.open_rows()?;
            return Ok(());
        }
        if let Some(error) = writer.failure() {
            error!(bucket = %self.bucket, %error, "the rows have failed; opening them anew");
        }
        // Again, now that the rows are locked: they may have been removed meanwhile.
        self.check_leader()?;
        let now_ms = self.context.clock.now_ms();
        if let Some((until_ms, refusal)) = &*self.unopenable.lock()
            && now_ms < *until_ms
        {
            return Err(refusal.clone());
        }
        // Until all is known of the rows nobody may read a record more: they can be
        // looked up as soon as they are open.
        let changelog = ChangelogOf {
            log: self.log(),
            committed: self.hold_high_watermark(),
        };
        let opened = writer.open(table, &changelog, now_ms);
        let report = match opened {
            Ok(Some(report)) => report,
            Ok(None) => return self.rows_applied(writer),
            Err(error) => {
                error!(bucket = %self.bucket, %error, "cannot open the rows");
                if !self.rows_are_open() {
                    self.release_high_watermark();
                }
                // Opening may have read the whole changelog: not for every request.
                let refusal = Refusal::from(error);
                *self.unopenable.lock() = Some((now_ms + REOPEN_PAUSE_MS, refusal.clone()));
                return Err(refusal);
            }
        };
        if let Some(reason) = &report.rebuilt {
            warn!(bucket = %self.bucket, reason, "built the rows anew from the changelog");
        } else if report.applied > report.replayed_from {
            let (from, to) = (report.replayed_from, report.applied);
            info!(bucket = %self.bucket, from, to, "replayed the changelog");
        }
        self.rows_applied(writer)
    }

    /// Lets the high watermark stay where it is, and returns it.
    fn hold_high_watermark(&self) -> i64 {
        let mut state = self.state.lock();
        let offset = state.core.high_watermark();
        self.apply(&mut state, Event::RowsApplied { offset });
        offset
    }

    /// Lets the high watermark move without the rows, which are closed.
    fn release_high_watermark(&self) {
        let mut state = self.state.lock();
        self.apply(&mut state, Event::RowsClosed);
    }

    /// Tells the rules what the rows hold, and goes on while more is committed.
    fn rows_applied(&self, writer: &mut KvWriter<'_>) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        loop {
            // Also of what was applied before something failed: it can be looked up.
            let offset = writer.applied_offset();
            let wanted = {
                let mut state = self.state.lock();
                self.apply(&mut state, Event::RowsApplied { offset });
                state.apply_until
            };
            if wanted <= offset || outcome.is_err() {
                return outcome;
            }
            outcome = writer
                .apply_until(wanted)
                .map(|_| ())
                .map_err(Refusal::from);
        }
    }

    /// Applies to the rows what has been committed since.
    pub(super) fn apply_rows(self: &Arc<Self>) {
        let Some(rows) = &self.rows else {
            return;
        };
        let wanted = self.state.lock().apply_until;
        if wanted <= self.high_watermark() {
            return;
        }
        // This is a thread that syncs, for all buckets: whoever has the rows may need
        // long, and another thread waits for them.
        match rows.try_lock() {
            Some(mut writer) => self.apply_committed(&mut writer),
            None => self.context.row_appliers.apply(self),
        }
    }

    /// As [`apply_rows`](Self::apply_rows), on a thread that may wait.
    pub(crate) fn apply_rows_waiting(&self) {
        if let Some(rows) = &self.rows {
            self.apply_committed(&mut rows.lock());
        }
    }

    fn apply_committed(&self, writer: &mut KvWriter<'_>) {
        if writer.is_open()
            && let Err(refusal) = self.rows_applied(writer)
        {
            self.rows_failed(&refusal);
        }
    }

    /// What is appended but not applied comes back when the rows are opened anew;
    /// its writers are told to send it again, which is then recognised.
    fn rows_failed(&self, refusal: &Refusal) {
        error!(bucket = %self.bucket, error = refusal.message, "the rows have failed");
        self.state.lock().fail_writers(Committed::StorageFailed);
    }

    /// After the log was opened anew: its end is not what the rows believe.
    pub(super) fn replay_rows(&self, writer: &mut KvWriter<'_>) {
        if !writer.is_open() {
            return;
        }
        let Some(table) = self.table().kv.clone() else {
            return;
        };
        let changelog = ChangelogOf {
            log: self.log(),
            committed: self.high_watermark(),
        };
        let replayed = writer
            .replay_pending(&table, &changelog)
            .map_err(Refusal::from)
            .and_then(|()| self.rows_applied(writer));
        if let Err(refusal) = replayed {
            self.rows_failed(&refusal);
        }
    }

    /// Puts the records of one entry.
    ///
    /// # Errors
    /// The code for the bucket. Nothing was applied, unless the store failed after the
    /// changelog was written (11): the writer sends the batch again, which is then
    /// recognised.
    pub fn put(
        self: &Arc<Self>,
        records: Bytes,
        mode: PutMode<'_>,
        acks: i32,
    ) -> Result<AppendOutcome, Refusal> {
        self.check_disk()?;
        self.rows()?;
        let batch = KvBatch::parse(records).map_err(|error| Refusal::new(14, error.to_string()))?;
        let (mut writer, table) = self.lock_rows()?;
        if let Some(outcome) = self.written_before(&batch) {
            return Ok(outcome);
        }
        let numbers = NumbersOf {
            source: &*self.context.numbers,
            table_id: self.bucket.table_id,
        };
        let prepared = writer.prepare(&table, &batch, mode, &numbers)?;
        let header = BatchHeader::parse(&prepared.changelog)
            .map_err(|error| Refusal::new(-1, error.to_string()))?;
        let batches = CheckedBatches::from_verified(prepared.changelog, vec![header])
            .map_err(|error| Refusal::new(-1, error.to_string()))?;
        let (mut outcome, sync_wanted) = self.append_checked(&batches, acks)?;
        if sync_wanted {
            self.context.syncer.request(&self.log());
        }
        if !outcome.duplicate {
            let committed = self.state.lock().apply_until;
            let taken = writer.commit(outcome.end_offset, prepared.changes, committed);
            let applied = self.rows_applied(&mut writer);
            if let Err(refusal) = taken.map_err(Refusal::from).and(applied) {
                self.rows_failed(&refusal);
                return Err(refusal);
            }
            outcome.committed = self.high_watermark() >= outcome.end_offset;
        }
        Ok(outcome)
    }

    /// How a batch ended that its writer sends again: it is recognised before it is
    /// worked out anew, which might end otherwise now.
    fn written_before(&self, batch: &KvBatch) -> Option<AppendOutcome> {
        let writer = Some(batch.writer_id())
            .filter(|id| *id >= 0)
            .map(WriterId)?;
        let state = self.state.lock();
        let written = self
            .log()
            .writer_batches(writer)
            .into_iter()
            .find(|written| written.sequence == batch.batch_sequence())?;
        let end_offset = written.last_offset + 1;
        Some(AppendOutcome {
            base_offset: written.last_offset - i64::from(written.offset_delta),
            end_offset,
            records: 0,
            duplicate: true,
            committed: state.core.high_watermark() >= end_offset,
            log_number: state.log_number,
        })
    }

    /// How close the rows are to making writers wait.
    pub fn pressure(&self) -> f32 {
        self.rows.as_ref().map_or(0.0, KvTablet::pressure)
    }

    /// Number of rows; opens them if need be.
    ///
    /// # Errors
    /// 15 if the number is not kept; as [`opened_rows`](Self::opened_rows).
    pub fn row_count(&self) -> Result<i64, Refusal> {
        let (_, table) = self.rows()?;
        if !table.counts_rows() {
            return Err(Refusal::new(15, "Row count is disabled for this table."));
        }
        let (writer, _) = self.lock_rows()?;
        Ok(writer.row_count())
    }

    /// Notes how far the rows are durable; opens them anew if they failed, and
    /// closes them if nobody has used them for a while.
    pub fn maintain_rows(
        &self,
        flush_interval_ms: i64,
        idle_ms: i64,
        close_scans: &dyn Fn(&TableBucket),
    ) {
        let Some(rows) = self.rows.as_ref().filter(|rows| rows.is_open()) else {
            return;
        };
        let now_ms = self.context.clock.now_ms();
        let Some(mut writer) = rows.try_lock() else {
            return;
        };
        if writer.failure().is_some() {
            // They keep the store from being closed.
            close_scans(&self.bucket);
            *self.unopenable.lock() = None;
            if let Some(table) = self.table().kv.clone() {
                // It is reported, and tried again the next time.
                let _ = self.open_locked(&mut writer, &table);
            }
            return;
        }
        let done = writer
            .checkpoint(now_ms, flush_interval_ms)
            .and_then(|()| writer.close_idle(now_ms, idle_ms));
        match done {
            Ok(true) => self.release_high_watermark(),
            Ok(false) => {}
            Err(error) => warn!(bucket = %self.bucket, %error, "the rows are not durable yet"),
        }
    }

    /// Makes the rows durable and closes them, for an orderly stop.
    pub fn close_rows(&self) {
        let Some(rows) = &self.rows else {
            return;
        };
        if let Err(error) = rows.lock().close(self.context.clock.now_ms()) {
            warn!(bucket = %self.bucket, %error, "the rows cannot be closed; the next start replays");
        }
    }

    /// Removes the files of the rows of a dropped bucket.
    ///
    /// # Errors
    /// They are still read, or the disk fails; the next start removes them.
    pub fn remove_rows(&self) -> Result<(), KvError> {
        match &self.rows {
            Some(rows) => rows.lock().remove(),
            None => Ok(()),
        }
    }
}

impl From<KvError> for Refusal {
    fn from(error: KvError) -> Self {
        let code = match &error {
            KvError::Corrupt(_) => 14,
            KvError::UnknownSchema { .. } => 9,
            KvError::InvalidTarget(_) => 35,
            KvError::DeletionDisabled => 57,
            KvError::SequenceOverflow(_) => -1,
            KvError::Stalled(_) => 72,
            KvError::Storage(_)
            | KvError::DiskFull(_)
            | KvError::Damaged(_)
            | KvError::NoSequence(_) => 11,
        };
        Self::new(code, error.to_string())
    }
}

/// The numbers of one table.
struct NumbersOf<'a> {
    source: &'a dyn mainstem_meta::SequenceSource,
    table_id: TableId,
}

impl SequenceSource for NumbersOf<'_> {
    fn take(
        &self,
        column_id: i32,
        count: i64,
    ) -> mainstem_kv::Result<std::ops::RangeInclusive<i64>> {
        self.source
            .take(self.table_id, column_id, count)
            .map_err(|error| match error {
                MetaError::Exhausted { key } => KvError::SequenceOverflow(key),
                _ => KvError::NoSequence(error.to_string()),
            })
    }
}

/// The log of a replica as the changelog of its rows.
struct ChangelogOf {
    log: Arc<LogTablet>,
    /// Exclusive end of what is committed.
    committed: i64,
}

impl ChangelogSource for ChangelogOf {
    fn start_offset(&self) -> i64 {
        self.log.log_start_offset()
    }

    fn committed_offset(&self) -> i64 {
        self.committed
    }

    fn is_whole(&self) -> bool {
        !matches!(self.log.check_writable(), Err(LogError::Quarantined { .. }))
    }

    fn end_offset(&self) -> i64 {
        self.log.end_offset()
    }

    fn read(
        &self,
        from: i64,
        visit: &mut dyn FnMut(&LogBatch) -> mainstem_kv::Result<()>,
    ) -> mainstem_kv::Result<()> {
        let failed = |error: &dyn std::fmt::Display| KvError::Storage(error.to_string());
        let damaged = |error: &dyn std::fmt::Display| KvError::Damaged(error.to_string());
        let (mut next, end) = (from, self.log.end_offset());
        while next < end {
            let request = ReadRequest {
                start_offset: next,
                end_offset_limit: end,
                max_bytes: REPLAY_READ_BYTES,
                min_one_batch: true,
            };
            let slice = self.log.read(&request).map_err(|error| failed(&error))?;
            let bytes = slice.to_bytes().map_err(|error| failed(&error))?;
            let before = next;
            for batch in Batches::new(&bytes) {
                let batch = batch.map_err(|error| damaged(&error))?;
                batch.verify_crc().map_err(|error| damaged(&error))?;
                next = batch.header().next_offset();
                visit(&batch)?;
            }
            if next == before {
                return Err(KvError::Damaged(format!("no record at {next} of {end}")));
            }
        }
        Ok(())
    }
}
