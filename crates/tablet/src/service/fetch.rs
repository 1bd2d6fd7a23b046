//! FetchLog (wire.md §4.9, 6.5): read, or wait until there is something to read.

mod plan;
mod projection_cache;
mod read;

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::{Reply, Response, Segment, Session};
use mainstem_protocol::messages as pb;
use mainstem_protocol::records::{FetchedBucket, FetchedTable, fetch_log_response};
use mainstem_types::{TableBucket, TableId};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::plan::{BucketPlan, FetchPlan};
pub(super) use self::projection_cache::ProjectionCache;
use self::read::{BucketRead, Budget, Cold};
use super::{Refusal, TabletService, request};
use crate::fetch_wait::FetchWait;
use crate::metrics::TableMetrics;
use crate::reader_progress::{ReaderProgress, SHORT_WAIT};

/// A round of reading all buckets of a request.
#[derive(Default)]
struct Round {
    tables: Vec<FetchedTable<Segment>>,
    /// Record bytes found.
    bytes: u64,
    /// The reader gets on without records: batches were skipped by the filter.
    skipped: bool,
    /// There is more to read than the limits allowed.
    more: bool,
    /// An error that waiting does not cure.
    failed: bool,
    /// Buckets read without an error.
    local: usize,
    /// What to count when the round is the answer: bytes, or a refusal.
    counts: Vec<(Arc<TableMetrics>, Option<u64>)>,
}

impl TabletService {
    pub(super) fn fetch_log(self: &Arc<Self>, session: &Arc<Session>, body: Bytes) -> Reply {
        let plan = match request(body).and_then(|request| FetchPlan::new(request, session)) {
            Ok(plan) => Arc::new(plan),
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let reader = self.reader(session);
        let round = match self.round(&plan, &reader, false) {
            Ok(round) => round,
            Err(Cold) => {
                let service = self.clone();
                return Reply::Later(Box::pin(async move {
                    let round = service.cold_round(&plan, &reader).await;
                    service.finish(&plan, &reader, round).await
                }));
            }
        };
        if self.is_complete(&plan, &round) {
            return Reply::Now(self.answer(round));
        }
        let service = self.clone();
        Reply::Later(Box::pin(async move {
            service.finish(&plan, &reader, round).await
        }))
    }

    /// wire.md §6.5 "Long poll": whether an answer is due whatever comes.
    fn is_complete(&self, plan: &FetchPlan, round: &Round) -> bool {
        plan.max_wait.is_zero()
            || round.bytes >= plan.min_bytes
            || (round.more && round.bytes > 0)
            || round.skipped
            || round.failed
            || round.local == 0
    }

    /// Waits until enough is readable or the time is over, and answers.
    async fn finish(
        self: &Arc<Self>,
        plan: &Arc<FetchPlan>,
        reader: &Arc<Mutex<ReaderProgress>>,
        mut round: Round,
    ) -> Response {
        let started = Instant::now();
        let left_out = self.left_out(plan, reader);
        let slots = plan.bucket_count();
        let wait = FetchWait::new(slots + left_out.len());
        let guard = FinishOnDrop(wait.clone());
        while !self.is_complete(plan, &round) {
            let mut deadline = started + plan.max_wait;
            if round.bytes == 0 && !self.subscribe_left_out(&left_out, slots, &wait) {
                deadline = deadline.min(started + SHORT_WAIT);
            }
            if Instant::now() >= deadline {
                break;
            }
            if !self.subscribe(plan, &round, &wait) {
                // Something came between the round and the subscription.
                wait.wake();
            }
            if tokio::time::timeout_at(deadline, wait.woken())
                .await
                .is_err()
            {
                break;
            }
            round = match self.round(plan, reader, false) {
                Ok(round) => round,
                Err(Cold) => self.cold_round(plan, reader).await,
            };
        }
        drop(guard);
        self.answer(round)
    }

    /// Registers the request with all its buckets; false if one of them has got
    /// records beyond what the round saw.
    fn subscribe(&self, plan: &FetchPlan, round: &Round, wait: &Arc<FetchWait>) -> bool {
        let mut quiet = true;
        let mut slot = 0;
        for (table, fetched) in plan.tables.iter().zip(&round.tables) {
            for (bucket, entry) in table.buckets.iter().zip(&fetched.buckets) {
                // With an error it is not records that the request waits for.
                let seen = entry.fields.high_watermark.unwrap_or(i64::MAX);
                if let Some(replica) = self.replicas.get(&bucket.bucket) {
                    quiet &= replica.wait_for_records(seen, wait, slot);
                }
                slot += 1;
            }
        }
        quiet
    }

    /// Registers the request with buckets that it leaves out; false if one of
    /// them has more than the reader was fed.
    fn subscribe_left_out(
        &self,
        left_out: &[(TableBucket, i64)],
        first_slot: usize,
        wait: &Arc<FetchWait>,
    ) -> bool {
        let mut quiet = true;
        for (position, (bucket, next_offset)) in left_out.iter().enumerate() {
            if let Some(replica) = self.replicas.get(bucket) {
                quiet &= replica.wait_for_records(*next_offset, wait, first_slot + position);
            }
        }
        quiet
    }

    /// What the reader was fed lately of these tables and leaves out now (known
    /// failure R11).
    fn left_out(
        &self,
        plan: &FetchPlan,
        reader: &Mutex<ReaderProgress>,
    ) -> Vec<(TableBucket, i64)> {
        let now_ms = self.monotonic_ms();
        let mut reader = reader.lock();
        plan.tables
            .iter()
            .flat_map(|table| {
                let asked: HashSet<&TableBucket> =
                    table.buckets.iter().map(|b| &b.bucket).collect();
                let table_id = TableId(table.table_id);
                reader.left_out(table_id, now_ms, |bucket| asked.contains(bucket))
            })
            .collect()
    }

    /// A round that may wait for the disk, off the request runtime.
    async fn cold_round(
        self: &Arc<Self>,
        plan: &Arc<FetchPlan>,
        reader: &Arc<Mutex<ReaderProgress>>,
    ) -> Round {
        let (service, plan, reader) = (self.clone(), plan.clone(), reader.clone());
        let task = tokio::task::spawn_blocking(move || {
            service.round(&plan, &reader, true).unwrap_or_default()
        });
        // A panic in the round is a bug; the reader gets an empty answer and asks again.
        task.await.unwrap_or_default()
    }

    fn round(
        &self,
        plan: &FetchPlan,
        reader: &Mutex<ReaderProgress>,
        may_block: bool,
    ) -> Result<Round, Cold> {
        let mut round = Round::default();
        let mut budget = Budget::new(plan.max_bytes);
        let now_ms = self.monotonic_ms();
        for table in &plan.tables {
            let mut buckets = Vec::with_capacity(table.buckets.len());
            for bucket in &table.buckets {
                let mut fields = pb::PbFetchLogRespForBucket {
                    partition_id: bucket.partition_id,
                    bucket_id: Some(bucket.bucket.bucket_id.0),
                    ..pb::PbFetchLogRespForBucket::default()
                };
                let records = match self.read_bucket(plan, table, bucket, &mut budget, may_block)? {
                    Ok(read) => {
                        round.local += 1;
                        round.bytes += read.bytes;
                        round.skipped |= read.filtered_end_offset.is_some();
                        round.more |= read.more;
                        round.counts.push((read.metrics.clone(), Some(read.bytes)));
                        self.note_progress(reader, bucket, &read, now_ms);
                        fields.high_watermark = Some(read.high_watermark);
                        fields.log_start_offset = Some(read.log_start_offset);
                        fields.filtered_end_offset = read.filtered_end_offset;
                        Some(read.segments)
                    }
                    Err(refusal) => {
                        round.failed |= !matches!(refusal.code, 12 | 21);
                        if let Some(replica) = self.replicas.get(&bucket.bucket) {
                            round.counts.push((replica.metrics().clone(), None));
                        }
                        fields.error_code = Some(refusal.code);
                        fields.error_message = Some(refusal.message);
                        None
                    }
                };
                buckets.push(FetchedBucket { fields, records });
            }
            round.tables.push(FetchedTable {
                table_id: table.table_id,
                buckets,
            });
        }
        Ok(round)
    }

    fn note_progress(
        &self,
        reader: &Mutex<ReaderProgress>,
        bucket: &BucketPlan,
        read: &BucketRead,
        now_ms: i64,
    ) {
        if read.bytes > 0 {
            reader.lock().fed(bucket.bucket, read.next_offset, now_ms);
        } else if read.next_offset >= read.high_watermark {
            reader.lock().caught_up(&bucket.bucket);
        }
    }

    fn answer(&self, round: Round) -> Response {
        for (table, bytes) in &round.counts {
            match bytes {
                Some(bytes) => self.metrics.fetched(table, *bytes),
                None => self.metrics.fetch_failed(table),
            }
        }
        Response::Success(fetch_log_response(round.tables))
    }

    fn monotonic_ms(&self) -> i64 {
        i64::try_from(self.clock.monotonic().as_millis()).unwrap_or(i64::MAX)
    }
}

/// Tells the replicas that the request is over, also when its connection closed
/// and the future is dropped.
struct FinishOnDrop(Arc<FetchWait>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl From<mainstem_format::projection::ProjectionError> for Refusal {
    fn from(error: mainstem_format::projection::ProjectionError) -> Self {
        use mainstem_format::projection::ProjectionError as E;
        let code = match &error {
            E::Empty
            | E::NotAscending(_)
            | E::Duplicate(_)
            | E::OutOfBound { .. }
            | E::NotArrow(_) => 34,
            E::UnknownSchema(_) => 9,
            E::Read(_) => 10,
        };
        Self::new(code, error.to_string())
    }
}
