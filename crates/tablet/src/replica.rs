//! One replica of a bucket: its log, the rules of [`core`], and those who wait.

pub mod core;
mod rows;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstem_env::{Clock, StorageFile};
use mainstem_format::{FormatError, check_append};
use mainstem_kv::KvTablet;
use mainstem_log::{
    CheckedBatches, DurabilityListener, LogError, LogPart, LogSlice, LogTablet, ReadRequest,
    RetentionRule, Syncer,
};
use mainstem_meta::SequenceSource;
use mainstem_net::Segment;
use mainstem_types::{LeaderEpoch, ServerId, TableBucket};
use parking_lot::{Mutex, RwLock};
use tracing::{error, info};

use self::core::{Action, Event, Fenced, Leadership, ReplicaCore};
use crate::disk_guard::DiskGuard;
use crate::fetch_wait::{FetchWait, FetchWaiters};
use crate::metrics::TableMetrics;
use crate::produce_wait::{Committed, ProduceWait};
use crate::row_appliers::RowAppliers;
use crate::service::Refusal;
use crate::table_view::TableView;

/// What all replicas of a server share.
pub struct ReplicaContext {
    /// This server.
    pub server_id: ServerId,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Makes appended bytes durable.
    pub syncer: Arc<Syncer>,
    /// Says whether there is room for writes.
    pub disk: Arc<DiskGuard>,
    /// `log.replica.min-in-sync-replicas-number`.
    pub min_in_sync_replicas: AtomicUsize,
    /// `log.replica.max-lag-time`.
    pub max_lag_ms: i64,
    /// Where auto-increment numbers come from.
    pub numbers: Arc<dyn SequenceSource>,
    /// Threads that wait for rows in place of those that sync.
    pub row_appliers: RowAppliers,
}

/// What retention keeps besides what the tables ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Bytes that a log may have; `None` = any (`mainstem.log.retention.bytes`).
    pub retain_bytes: Option<u64>,
    /// Whether the newest segment expires too, when all of it is committed
    /// (`log.retention.roll-active-segment.enabled`).
    pub roll_active_segment: bool,
}

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendOutcome {
    /// Offset of the first record; of the original one for a repeated batch.
    pub base_offset: i64,
    /// Exclusive end of the append.
    pub end_offset: i64,
    /// Records appended; 0 for a repeated batch.
    pub records: u64,
    /// Whether the batch was there already.
    pub duplicate: bool,
    /// Whether the high watermark has passed it already.
    pub committed: bool,
    /// Which of the replica's logs it went into: see [`Replica::replace_log`].
    log_number: u64,
}

impl AppendOutcome {
    /// As if nothing had to be written.
    pub fn nothing() -> Self {
        Self {
            base_offset: 0,
            end_offset: 0,
            records: 0,
            duplicate: true,
            committed: true,
            log_number: 0,
        }
    }
}

/// See the module.
pub struct Replica {
    bucket: TableBucket,
    bucket_count: i32,
    context: Arc<ReplicaContext>,
    metrics: Arc<TableMetrics>,
    table: RwLock<Arc<TableView>>,
    log: RwLock<Arc<LogTablet>>,
    /// The rows of a primary-key table. Its lock comes before that of `state`.
    rows: Option<KvTablet>,
    /// Requests that wait for the rows.
    waiting_for_rows: AtomicUsize,
    /// Those of them that want to read in the order of keys.
    waiting_for_views: AtomicUsize,
    /// Why the rows could not be opened, and until when nobody tries again.
    unopenable: Mutex<Option<(i64, Refusal)>>,
    /// Whether the rows are to be brought up to what is committed by another thread.
    pub(crate) apply_queued: AtomicBool,
    /// Order of appends, and the rules. Held during the write to the page cache,
    /// never during a sync or a wait.
    state: Mutex<State>,
    /// Copies of what `state` says, for readers that must not wait for an append.
    high_watermark: AtomicI64,
    leads: AtomicBool,
}

#[derive(Debug)]
struct State {
    core: ReplicaCore,
    /// Grows when the log is opened anew, which may take appends away.
    log_number: u64,
    /// The bucket is dropped.
    stopped: bool,
    /// Changes below this offset are to be applied to the rows.
    apply_until: i64,
    writers: VecDeque<WaitingWriter>,
    readers: FetchWaiters,
}

impl State {
    fn leads(&self) -> bool {
        self.core.is_leader() && !self.stopped
    }

    fn fail_writers(&mut self, outcome: Committed) {
        for writer in self.writers.drain(..) {
            writer.wait.settle(writer.entry, outcome);
        }
    }
}

#[derive(Debug)]
struct WaitingWriter {
    end_offset: i64,
    wait: Arc<ProduceWait>,
    entry: usize,
}

impl Replica {
    /// A replica over an opened log, without leadership yet.
    pub fn new(
        bucket: TableBucket,
        bucket_count: i32,
        context: Arc<ReplicaContext>,
        metrics: Arc<TableMetrics>,
        table: Arc<TableView>,
        log: Arc<LogTablet>,
        rows: Option<KvTablet>,
    ) -> Arc<Self> {
        let core = ReplicaCore::new(
            context.server_id,
            context.max_lag_ms,
            log.end_offset(),
            log.durable_end_offset(),
        );
        let state = State {
            core,
            log_number: 0,
            stopped: false,
            apply_until: 0,
            writers: VecDeque::new(),
            readers: FetchWaiters::default(),
        };
        let replica = Arc::new(Self {
            bucket,
            bucket_count,
            context,
            metrics,
            table: RwLock::new(table),
            log: RwLock::new(log),
            rows,
            waiting_for_rows: AtomicUsize::new(0),
            waiting_for_views: AtomicUsize::new(0),
            unopenable: Mutex::default(),
            apply_queued: AtomicBool::new(false),
            state: Mutex::new(state),
            high_watermark: AtomicI64::new(0),
            leads: AtomicBool::new(false),
        });
        replica.adopt(&replica.log(), 0);
        replica
    }

    /// Listens to a log, and has the tail that a crash left made durable.
    fn adopt(self: &Arc<Self>, log: &Arc<LogTablet>, log_number: u64) {
        let listener = DurabilityOf {
            replica: Arc::downgrade(self),
            log_number,
        };
        if log.set_listener(Arc::new(listener)).is_err() {
            error!(bucket = %self.bucket, "the log has a listener already");
        }
        if log.needs_sync(self.context.clock.now_ms()) {
            self.context.syncer.request(log);
        }
    }

    /// The bucket.
    pub fn bucket(&self) -> TableBucket {
        self.bucket
    }

    /// The table as last heard of.
    pub fn table(&self) -> Arc<TableView> {
        self.table.read().clone()
    }

    /// The table changed.
    pub fn set_table(&self, table: Arc<TableView>) {
        *self.table.write() = table;
    }

    /// Counters of the table.
    pub fn metrics(&self) -> &Arc<TableMetrics> {
        &self.metrics
    }

    /// The log.
    pub fn log(&self) -> Arc<LogTablet> {
        self.log.read().clone()
    }

    /// Exclusive end of what clients may read.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark.load(Ordering::Acquire)
    }

    /// First offset kept.
    pub fn log_start_offset(&self) -> i64 {
        self.log().log_start_offset()
    }

    /// Offset of the next record.
    pub fn log_end_offset(&self) -> i64 {
        self.log().end_offset()
    }

    /// Log end when this replica became leader.
    pub fn epoch_start_offset(&self) -> i64 {
        self.state.lock().core.epoch_start_offset()
    }

    /// Whether this replica leads.
    pub fn is_leader(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Writers and readers that wait now.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.writers.len(), state.readers.len())
    }

    /// Refuses if this replica does not lead (12).
    pub fn check_leader(&self) -> Result<(), Refusal> {
        if self.is_leader() {
            Ok(())
        } else {
            Err(self.not_leader())
        }
    }

    /// Refuses a follower that is not one of this bucket's replicas (12).
    pub fn check_follower(&self, follower: Option<i32>) -> Result<(), Refusal> {
        let state = self.state.lock();
        let known = follower.is_some_and(|id| {
            ServerId(id) != self.context.server_id && state.core.is_assigned(ServerId(id))
        });
        if known {
            return Ok(());
        }
        let id = follower.unwrap_or(-1);
        Err(Refusal::new(
            12,
            format!("server {id} is not a follower of {}", self.bucket),
        ))
    }

    /// The routing check of wire.md §6.4: only a client that names a bucket
    /// count can name a wrong one, unless the table's count ever changed.
    pub fn check_routing(&self, bucket_count: Option<i32>) -> Result<(), Refusal> {
        let wrong = match bucket_count.filter(|count| *count > 0) {
            Some(count) => count != self.bucket_count,
            None => self.table.read().entry.bucket_count_epoch > 0,
        };
        if !wrong {
            return Ok(());
        }
        Err(Refusal::new(
            74,
            format!(
                "the request counts on {} buckets, {} has {}",
                bucket_count.unwrap_or(0),
                self.bucket,
                self.bucket_count
            ),
        ))
    }

    /// The coordinator's decision.
    ///
    /// # Errors
    /// The decision is older than the known one.
    pub fn lead(&self, leadership: Leadership) -> Result<(), Fenced> {
        let mut state = self.state.lock();
        let log_end_offset = self.log().end_offset();
        let event = Event::Leadership {
            state: leadership,
            log_end_offset,
            now_ms: self.now_ms(),
        };
        let actions = state.core.step(event)?;
        // Before those who waited look again.
        self.leads.store(state.leads(), Ordering::Release);
        self.carry_out(&mut state, actions);
        Ok(())
    }

    /// Appends the records of one produce entry.
    ///
    /// # Errors
    /// The code for the bucket; nothing was stored.
    pub fn append(self: &Arc<Self>, records: Bytes, acks: i32) -> Result<AppendOutcome, Refusal> {
        let table = self.table();
        if table.has_primary_key() {
            let message = "a primary-key table takes rows by PutKv, not by ProduceLog";
            return Err(Refusal::new(15, message));
        }
        self.check_disk()?;
        let batches = check(&table, &records)?;
        let (outcome, sync_wanted) = self.append_checked(&batches, acks)?;
        if sync_wanted {
            self.context.syncer.request(&self.log());
        }
        Ok(outcome)
    }

    fn check_disk(&self) -> Result<(), Refusal> {
        if self.context.disk.is_locked() {
            let message = "the disk is nearly full: writes wait for space";
            return Err(Refusal::new(self.storage_code(), message));
        }
        Ok(())
    }

    /// The code of a write that the storage refuses, which every client repeats: 10 of
    /// a log, 11 of rows (wire.md §5.1).
    pub fn storage_code(&self) -> i32 {
        if self.rows.is_some() { 11 } else { 10 }
    }

    fn append_checked(
        &self,
        batches: &CheckedBatches,
        acks: i32,
    ) -> Result<(AppendOutcome, bool), Refusal> {
        let mut state = self.state.lock();
        if !state.leads() {
            return Err(self.not_leader());
        }
        let needed = self.context.min_in_sync_replicas.load(Ordering::Relaxed);
        if acks == -1 && state.core.isr().len() < needed {
            let message = format!(
                "{} has {} replicas in sync, {} are needed",
                self.bucket,
                state.core.isr().len(),
                needed
            );
            return Err(Refusal::new(29, message));
        }
        let epoch = state.core.leader_epoch().unwrap_or(LeaderEpoch(0));
        let log = self.log();
        let appended = log
            .append_as_leader(batches, self.context.clock.now_ms(), epoch)
            .map_err(|error| {
                let refusal = self.refusal(&error);
                match refusal.code {
                    10 => Refusal::new(self.storage_code(), refusal.message),
                    _ => refusal,
                }
            })?;
        let mut outcome = AppendOutcome {
            base_offset: appended.base_offset,
            end_offset: appended.end_offset,
            records: 0,
            duplicate: appended.duplicate,
            committed: false,
            log_number: state.log_number,
        };
        if !appended.duplicate {
            let counts = batches.headers().iter().map(|header| header.record_count);
            outcome.records = counts.map(|count| u64::try_from(count).unwrap_or(0)).sum();
            self.apply(
                &mut state,
                Event::Appended {
                    log_end_offset: appended.end_offset,
                },
            );
            // In mode `os` that is the end; else it moves with the sync.
            let durable_end_offset = log.durable_end_offset();
            self.apply(&mut state, Event::Durable { durable_end_offset });
        }
        outcome.committed = state.core.high_watermark() >= outcome.end_offset;
        Ok((outcome, appended.sync_wanted))
    }

    /// Takes note of how far the log is durable. What is told of an earlier log
    /// than the present one changes nothing.
    fn durable(self: &Arc<Self>, log_number: u64, durable_end_offset: i64) {
        {
            let mut state = self.state.lock();
            if log_number == state.log_number {
                self.apply(&mut state, Event::Durable { durable_end_offset });
            }
        }
        self.apply_rows();
    }

    /// The log takes no writes any more: whoever waits for it is told.
    fn storage_failed(&self, log_number: u64, error: &LogError) {
        let mut state = self.state.lock();
        if log_number == state.log_number {
            error!(bucket = %self.bucket, %error, "the log cannot be made durable");
            state.fail_writers(Committed::StorageFailed);
        }
    }

    /// Settles the entry when the high watermark passes the append.
    pub fn notify_committed(
        &self,
        appended: &AppendOutcome,
        wait: &Arc<ProduceWait>,
        entry: usize,
    ) {
        let mut state = self.state.lock();
        if appended.log_number != state.log_number {
            // The offsets may belong to another batch now. If the append is
            // there, its repeat will be recognised.
            wait.settle(entry, Committed::StorageFailed);
        } else if state.core.high_watermark() >= appended.end_offset {
            wait.settle(entry, Committed::Yes);
        } else if !state.leads() {
            wait.settle(entry, Committed::LostLeadership);
        } else if self.log().check_writable().is_err() {
            wait.settle(entry, Committed::StorageFailed);
        } else {
            state.writers.push_back(WaitingWriter {
                end_offset: appended.end_offset,
                wait: wait.clone(),
                entry,
            });
        }
    }

    /// Wakes the fetch when the high watermark passes `seen`, or when this
    /// replica can give it nothing any more; false if that has happened. The
    /// fetch waits in several buckets, in each under another `slot`.
    pub fn wait_for_records(&self, seen: i64, wait: &Arc<FetchWait>, slot: usize) -> bool {
        let mut state = self.state.lock();
        if state.stopped || state.core.high_watermark() > seen {
            return false;
        }
        state.readers.add(wait, slot);
        true
    }

    /// The first offset to read for what a client asked.
    ///
    /// # Errors
    /// 19 outside of the log.
    pub fn resolve_fetch_offset(&self, asked: i64, earliest: i64) -> Result<i64, Refusal> {
        let log = self.log();
        let (start, end) = (log.log_start_offset(), log.end_offset());
        if asked == earliest {
            return Ok(start);
        }
        if asked < start || asked > end {
            let message = format!(
                "offset {asked} is outside of {}, which has {start} to {end}",
                self.bucket
            );
            return Err(Refusal::new(19, message));
        }
        Ok(asked)
    }

    /// Whole batches from the one that holds `start` on, up to `end` and within
    /// `max_bytes`; with `first_free` at least one.
    ///
    /// # Errors
    /// 19 if the log was cut meanwhile, 10 if it cannot be read.
    pub fn slice(
        &self,
        start: i64,
        max_bytes: u64,
        end: i64,
        first_free: bool,
    ) -> Result<LogSlice, Refusal> {
        let request = read_request(start, max_bytes, end, first_free);
        self.log()
            .read(&request)
            .map_err(|error| self.refusal(&error))
    }

    /// As [`slice`](Self::slice), but never waits for the disk: `None` if it
    /// would have to.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn try_slice(
        &self,
        start: i64,
        max_bytes: u64,
        end: i64,
        first_free: bool,
    ) -> Result<Option<LogSlice>, Refusal> {
        let request = read_request(start, max_bytes, end, first_free);
        self.log()
            .try_read(&request)
            .map_err(|error| self.refusal(&error))
    }

    /// First committed offset with this timestamp or a later one; the high
    /// watermark if there is none (wire.md §6.8).
    ///
    /// # Errors
    /// 10 if the log cannot be read.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64) -> Result<i64, Refusal> {
        let end = self.high_watermark();
        let found = self
            .log()
            .offset_for_timestamp(timestamp_ms)
            .map_err(|error| self.refusal(&error))?;
        Ok(found.unwrap_or(end).min(end))
    }

    /// Drops segments whose records are older than the table keeps them, and
    /// writers that have long been silent.
    pub fn expire(self: &Arc<Self>, policy: &RetentionPolicy, now_ms: i64) {
        let (log, log_number) = {
            let state = self.state.lock();
            (self.log(), state.log_number)
        };
        log.remove_expired_writers(now_ms);
        // The changelog is what rows are built from, and what readers begin with, as
        // long as there are no snapshots of the rows (tables.md §10.2 #19).
        if self.rows.is_some() {
            return;
        }
        let ttl_ms = self.table().log_ttl_ms;
        let rule = RetentionRule {
            ttl_ms,
            retain_bytes: policy.retain_bytes,
        };
        if policy.roll_active_segment
            && self.high_watermark() == log.end_offset()
            && let (Some(ttl_ms), Some(newest_ms)) = (ttl_ms, log.max_timestamp_ms())
            && now_ms.saturating_sub(newest_ms) > ttl_ms
            && let Err(error) = log.roll(now_ms)
        {
            error!(bucket = %self.bucket, %error, "cannot seal the expired active segment");
        }
        let deleted = log
            .deletable_before(&rule, self.high_watermark(), now_ms)
            .and_then(|offset| log.delete_segments_before(offset, now_ms));
        match deleted {
            Ok(deleted) if deleted.segments > 0 => {
                info!(bucket = %self.bucket, ?deleted, "deleted expired segments");
            }
            Ok(_) => {}
            Err(error) => error!(bucket = %self.bucket, %error, "cannot delete expired segments"),
        }
        // Before segments go, the log is synced, and its listener is not told.
        match log.check_writable() {
            Err(error @ LogError::Failed(_)) => self.storage_failed(log_number, &error),
            _ => self.durable(log_number, log.durable_end_offset()),
        }
    }

    /// The bucket is dropped: whoever waits is told to ask for metadata again.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        self.leads.store(false, Ordering::Release);
        state.fail_writers(Committed::LostLeadership);
        state.readers.wake_all();
    }

    /// After the log was opened anew: what it has is the truth. Appends that
    /// wait for the old one may be in it or not; their writers send them again.
    pub fn replace_log(self: &Arc<Self>, log: Arc<LogTablet>) {
        let rows = self.rows.as_ref().map(KvTablet::lock);
        let log_number = {
            let mut state = self.state.lock();
            state.log_number += 1;
            state.fail_writers(Committed::StorageFailed);
            let durable_end_offset = log.durable_end_offset();
            state
                .core
                .log_reopened(log.end_offset(), durable_end_offset);
            *self.log.write() = log.clone();
            self.apply(&mut state, Event::Durable { durable_end_offset });
            state.log_number
        };
        if let Some(mut rows) = rows {
            // What is pending may not be in the log, and the log may have what is
            // not pending.
            self.replay_rows(&mut rows);
        }
        self.adopt(&log, log_number);
    }

    fn apply(&self, state: &mut State, event: Event) {
        // Only decisions of the coordinator can be fenced.
        if let Ok(actions) = state.core.step(event) {
            self.carry_out(state, actions);
        }
    }

    fn carry_out(&self, state: &mut State, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::HighWatermark(offset) => {
                    self.high_watermark.store(offset, Ordering::Release);
                    // Appends are ordered, so their ends are; a repeated batch may
                    // stand behind a later end, and is settled with it.
                    while state
                        .writers
                        .front()
                        .is_some_and(|w| w.end_offset <= offset)
                    {
                        if let Some(writer) = state.writers.pop_front() {
                            writer.wait.settle(writer.entry, Committed::Yes);
                        }
                    }
                    state.readers.wake_all();
                }
                // By whoever holds the rows, after this lock is released.
                Action::ApplyRows(offset) => state.apply_until = offset,
                Action::LostLeadership => {
                    state.fail_writers(Committed::LostLeadership);
                    state.readers.wake_all();
                }
                // The log notes an epoch with its first batch.
                Action::StartEpoch(..) => {}
                // Replication between servers drives these; one server never
                // sees them, because it is the whole assignment.
                Action::ProposeIsr { .. } | Action::Follow(_) => {}
            }
        }
    }

    fn not_leader(&self) -> Refusal {
        Refusal::new(12, format!("this server does not lead {}", self.bucket))
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.context.clock.monotonic().as_millis()).unwrap_or(i64::MAX)
    }

    fn refusal(&self, error: &LogError) -> Refusal {
        let code = match error {
            LogError::OffsetOutOfRange { .. } => 19,
            LogError::OutOfOrderSequence { .. } => 31,
            LogError::InvalidAppend(_) => 15,
            LogError::StaleLeaderEpoch { .. } => 12,
            _ => 10,
        };
        if code == 10 {
            error!(bucket = %self.bucket, %error, "the log refuses");
        }
        Refusal::new(code, error.to_string())
    }
}

fn read_request(start: i64, max_bytes: u64, end: i64, first_free: bool) -> ReadRequest {
    ReadRequest {
        start_offset: start,
        end_offset_limit: end,
        max_bytes,
        min_one_batch: first_free,
    }
}

/// Outside of the lock: the checksum is the most expensive part of an append.
fn check(table: &TableView, records: &Bytes) -> Result<CheckedBatches, Refusal> {
    let batches = check_append(records, table.log_format, &|id| table.layout(id).cloned())
        .map_err(|error| {
            let code = if matches!(error, FormatError::Corrupt { .. }) {
                14
            } else {
                15
            };
            Refusal::new(code, error.to_string())
        })?;
    let headers: Vec<_> = batches.iter().map(|batch| *batch.header()).collect();
    let length: usize = headers.iter().map(|header| header.total_len).sum();
    // A cut batch behind the whole ones is left out.
    CheckedBatches::from_verified(records.slice(..length), headers)
        .map_err(|error| Refusal::new(14, error.to_string()))
}

/// Tells the replica how far its log is durable.
struct DurabilityOf {
    replica: Weak<Replica>,
    log_number: u64,
}

impl DurabilityListener for DurabilityOf {
    fn durable_end_moved(&self, durable_end: i64) {
        if let Some(replica) = self.replica.upgrade() {
            replica.durable(self.log_number, durable_end);
        }
    }

    fn storage_failed(&self, error: &LogError) {
        if let Some(replica) = self.replica.upgrade() {
            replica.storage_failed(self.log_number, error);
        }
    }
}

/// Parts of a log as parts of a response.
///
/// # Errors
/// A simulated file that cannot be read.
pub fn segments(slice: LogSlice) -> io::Result<Vec<Segment>> {
    slice
        .parts
        .into_iter()
        .map(|part| match part {
            LogPart::Bytes(bytes) => Ok(Segment::Bytes(bytes)),
            LogPart::File(range) => file_segment(&range.file, range.position, range.len),
        })
        .collect()
}

/// A range of a log file as a part of a response; of a simulated file, its bytes.
///
/// # Errors
/// A simulated file that cannot be read.
pub fn file_segment(
    file: &Arc<dyn StorageFile>,
    position: u64,
    length: u64,
) -> io::Result<Segment> {
    if let Some(file) = file.os_file() {
        return Ok(Segment::File {
            file: file.clone(),
            position,
            length,
        });
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, position)?;
    Ok(Segment::Bytes(bytes.into()))
}
