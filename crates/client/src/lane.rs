//! Idempotent delivery of encoded batches, one lane per bucket.
//!
//! A lane is a task with a window of at most [`WINDOW`] unacknowledged batches,
//! sent in order on one connection. After a failure that may pass, the whole
//! window is sent again from its first batch (go-back-N): what the server
//! already has it answers with success, because the batches carry writer id and
//! sequence (wire.md §6.3). A server that is short of breath (an answer with
//! `pressure`, or error 72) gets the next batch of that bucket later.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use mainstem_protocol::records::{produce_log_request, put_kv_request};
use mainstem_protocol::{ApiKey, VersionRange, decode, messages as pb};
use mainstem_types::{ServerId, TableBucket};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backoff::{Attempts, backoff};
use crate::cluster::{Client, TableInfo, path_to_proto};
use crate::error::{ClientError, Result};
use crate::places::{Place, locate};

/// Batches per bucket that may be unacknowledged: the server remembers as many
/// sequences of a writer.
pub const WINDOW: usize = 5;

/// The storage engine rejects writes for now (wire.md §5.1).
const STORAGE_BACKPRESSURE: i32 = 72;
const OUT_OF_ORDER_SEQUENCE: i32 = 31;
const DUPLICATE_SEQUENCE: i32 = 32;

/// Versions of PutKv that this client speaks: 3 adds historical partitions,
/// which it does not write.
const PUT_KV: VersionRange = VersionRange { min: 0, max: 2 };

/// What a batch is sent as.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// ProduceLog.
    Append,
    /// PutKv.
    Put {
        /// Positions of the columns to write; empty = all.
        target_columns: Vec<i32>,
        /// 0 merge, 1 overwrite.
        agg_mode: i32,
    },
}

/// How batches are delivered.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) operation: Operation,
    /// −1 all in-sync replicas, 1 leader.
    pub(crate) acks: i32,
    /// Bytes of unacknowledged batches over all lanes.
    pub(crate) max_pending_bytes: usize,
    /// Longest pause that a server under pressure is given.
    pub(crate) max_throttle: Duration,
}

/// The lanes of one writer.
#[derive(Debug)]
pub(crate) struct Lanes {
    client: Client,
    table: Arc<TableInfo>,
    delivery: Arc<Delivery>,
    writer_id: i64,
    lanes: HashMap<TableBucket, Lane>,
    progress: Arc<Progress>,
    budget: Arc<Semaphore>,
}

#[derive(Debug)]
struct Lane {
    queue: mpsc::Sender<Outgoing>,
    task: JoinHandle<()>,
    next_sequence: i32,
}

#[derive(Debug)]
struct Outgoing {
    records: Bytes,
    rows: u64,
    _permit: OwnedSemaphorePermit,
}

/// What the lanes share with the writer.
#[derive(Debug, Default)]
struct Progress {
    outstanding: AtomicUsize,
    acknowledged_rows: AtomicU64,
    failure: Mutex<Option<ClientError>>,
    changed: Notify,
}

impl Progress {
    fn acknowledged(&self, rows: u64) {
        self.acknowledged_rows.fetch_add(rows, Ordering::Relaxed);
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    fn fail(&self, error: ClientError) {
        self.failure.lock().get_or_insert(error);
        self.changed.notify_waiters();
    }

    fn failure(&self) -> Option<ClientError> {
        let failure = self.failure.lock();
        failure.as_ref().map(|error| match error {
            ClientError::Api { code, message } => ClientError::Api {
                code: *code,
                message: message.clone(),
            },
            other => ClientError::GaveUp {
                seconds: 0,
                last: other.to_string(),
            },
        })
    }
}

impl Lanes {
    /// Lanes of a writer with an id of its own.
    pub(crate) async fn open(
        client: Client,
        table: Arc<TableInfo>,
        delivery: Delivery,
    ) -> Result<Self> {
        let request = pb::InitWriterRequest {
            table_path: vec![path_to_proto(&table.path)],
        };
        let mut attempts = Attempts::new(&client);
        let answer = loop {
            match init_writer(&client, &request).await {
                Ok(answer) => break answer,
                Err(error) => attempts.after(error).await?,
            }
        };
        let writer_id = answer
            .writer_id
            .ok_or_else(|| ClientError::absent("writer_id"))?;
        let permits = delivery.max_pending_bytes.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            client,
            table,
            delivery: Arc::new(delivery),
            writer_id,
            lanes: HashMap::new(),
            progress: Arc::default(),
            budget: Arc::new(Semaphore::new(permits)),
        })
    }

    pub(crate) fn writer_id(&self) -> i64 {
        self.writer_id
    }

    /// Rows acknowledged so far.
    pub(crate) fn acknowledged_rows(&self) -> u64 {
        self.progress.acknowledged_rows.load(Ordering::Relaxed)
    }

    /// The sequence that the next batch of a bucket has to carry.
    pub(crate) fn next_sequence(&self, bucket: &TableBucket) -> i32 {
        self.lanes.get(bucket).map_or(0, |lane| lane.next_sequence)
    }

    /// Queues a batch that carries [`Lanes::next_sequence`]. Waits while too
    /// much is unacknowledged.
    ///
    /// # Errors
    /// The first failure of any earlier batch.
    pub(crate) async fn send(&mut self, place: &Place, records: Bytes, rows: u64) -> Result<()> {
        if let Some(error) = self.progress.failure() {
            return Err(error);
        }
        let permits = records.len().min(self.delivery.max_pending_bytes);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let permit = self.budget.clone().acquire_many_owned(permits).await;
        let permit = permit.map_err(|_| ClientError::Usage("the writer is closed".to_owned()))?;
        if !self.lanes.contains_key(&place.bucket) {
            let lane = self.spawn_lane(place.clone());
            self.lanes.insert(place.bucket, lane);
        }
        let Some(lane) = self.lanes.get_mut(&place.bucket) else {
            return Err(ClientError::Usage("the writer is closed".to_owned()));
        };
        lane.next_sequence = sequence_after(lane.next_sequence);
        self.progress.outstanding.fetch_add(1, Ordering::AcqRel);
        let outgoing = Outgoing {
            records,
            rows,
            _permit: permit,
        };
        if lane.queue.send(outgoing).await.is_err() {
            let ended = || ClientError::Usage("the writer has failed".to_owned());
            return Err(self.progress.failure().unwrap_or_else(ended));
        }
        Ok(())
    }

    /// Waits until everything sent so far is acknowledged.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) async fn flush(&self) -> Result<()> {
        loop {
            let changed = self.progress.changed.notified();
            if let Some(error) = self.progress.failure() {
                return Err(error);
            }
            if self.progress.outstanding.load(Ordering::Acquire) == 0 {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Flushes and ends the lanes; returns the acknowledged rows.
    pub(crate) async fn close(mut self) -> Result<u64> {
        self.flush().await?;
        for (_, lane) in self.lanes.drain() {
            drop(lane.queue);
            // A lane ends when its queue does.
            let _ = lane.task.await;
        }
        Ok(self.acknowledged_rows())
    }

    fn spawn_lane(&self, place: Place) -> Lane {
        // Bounded by the window: the queue only smooths the hand-over.
        let (queue, receiver) = mpsc::channel(WINDOW);
        let worker = LaneWorker {
            client: self.client.clone(),
            table: self.table.clone(),
            leader: Mutex::new(place.leader),
            place,
            delivery: self.delivery.clone(),
            progress: self.progress.clone(),
        };
        Lane {
            queue,
            task: tokio::spawn(worker.run(receiver)),
            next_sequence: 0,
        }
    }
}

/// Sequences of a writer go from 0 to the highest `i32` and begin anew.
pub(crate) fn sequence_after(sequence: i32) -> i32 {
    sequence.checked_add(1).unwrap_or(0)
}

async fn init_writer(
    client: &Client,
    request: &pb::InitWriterRequest,
) -> Result<pb::InitWriterResponse> {
    Ok(client
        .any_tablet()
        .await?
        .call(ApiKey::InitWriter, 0, request)
        .await?)
}

struct LaneWorker {
    client: Client,
    table: Arc<TableInfo>,
    place: Place,
    delivery: Arc<Delivery>,
    progress: Arc<Progress>,
    /// Where the bucket was last found.
    leader: Mutex<Option<ServerId>>,
}

/// A batch is stored; how hard that was for the server, from 0 to 1.
struct Stored {
    pressure: f32,
}

type Answer = BoxFuture<'static, Result<Stored>>;

impl LaneWorker {
    async fn run(self, mut queue: mpsc::Receiver<Outgoing>) {
        let mut window: VecDeque<Outgoing> = VecDeque::new();
        let mut answers: FuturesOrdered<Answer> = FuturesOrdered::new();
        let mut failing_since: Option<Instant> = None;
        let mut attempt = 0u32;
        // Nothing new is sent before this time.
        let mut pause_until: Option<Instant> = None;
        let mut open = true;
        loop {
            let pause_end = pause_until.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                Some(answer) = answers.next(), if !answers.is_empty() => match answer {
                    Ok(stored) => {
                        failing_since = None;
                        attempt = 0;
                        if let Some(done) = window.pop_front() {
                            self.progress.acknowledged(done.rows);
                        }
                        let throttle = self.throttle(stored.pressure);
                        if !throttle.is_zero() {
                            pause_until = Some(Instant::now() + throttle);
                        }
                    }
                    Err(error) => {
                        answers = FuturesOrdered::new();
                        let since = *failing_since.get_or_insert_with(Instant::now);
                        attempt += 1;
                        let rejected = matches!(error, ClientError::Api { code: STORAGE_BACKPRESSURE, .. });
                        if let Some(fatal) = self.fatal(error, since, attempt) {
                            self.progress.fail(fatal);
                            return;
                        }
                        // A rejection counts as full pressure.
                        let throttle = self.throttle(if rejected { 1.0 } else { 0.0 });
                        tokio::time::sleep(backoff(attempt).max(throttle)).await;
                        pause_until = None;
                        self.resend(&window, &mut answers).await;
                    }
                },
                () = tokio::time::sleep_until(pause_end), if pause_until.is_some() => pause_until = None,
                outgoing = queue.recv(), if open && window.len() < WINDOW && pause_until.is_none() => match outgoing {
                    Some(outgoing) => {
                        let answer = self.send(&outgoing.records, false).await;
                        window.push_back(outgoing);
                        answers.push_back(answer);
                    }
                    None => open = false,
                },
                else => return,
            }
        }
    }

    fn throttle(&self, pressure: f32) -> Duration {
        // Bytes from the network: whatever the number is, it is one from 0 to 1.
        let pressure = if pressure.is_finite() {
            pressure.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.delivery.max_throttle.mul_f32(pressure * pressure)
    }

    async fn resend(&self, window: &VecDeque<Outgoing>, answers: &mut FuturesOrdered<Answer>) {
        for (position, outgoing) in window.iter().enumerate() {
            answers.push_back(self.send(&outgoing.records, position == 0).await);
        }
    }

    /// The error to report if retrying makes no sense (any more).
    fn fatal(&self, error: ClientError, since: Instant, attempt: u32) -> Option<ClientError> {
        // A batch whose predecessor failed is out of order until that passes.
        let out_of_order = matches!(
            error,
            ClientError::Api {
                code: OUT_OF_ORDER_SEQUENCE,
                ..
            }
        ) && attempt <= 3;
        if !error.is_retriable() && !out_of_order {
            return Some(error);
        }
        let waited = since.elapsed();
        (waited > self.client.options().delivery_timeout).then(|| ClientError::GaveUp {
            seconds: waited.as_secs(),
            last: error.to_string(),
        })
    }

    /// Starts one request; the answer is awaited by the window.
    async fn send(&self, records: &Bytes, refresh: bool) -> Answer {
        let leader = match self.leader(refresh).await {
            Ok(leader) => leader,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let connection = match self.client.tablet(leader).await {
            Ok(connection) => connection,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let limit = self.client.options().request_timeout;
        let timeout_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // Sent here and now: the order of the batches is that of these calls.
        match &self.delivery.operation {
            Operation::Append => {
                let body = self.append_body(records, timeout_ms);
                let sent = connection.send(ApiKey::ProduceLog.code(), 0, body, limit);
                let sent = sent.await;
                Box::pin(async move { append_answer(sent?.response().await?) })
            }
            Operation::Put { .. } => {
                let version = connection.version(ApiKey::PutKv, PUT_KV);
                let body = self.put_body(records, timeout_ms);
                let sent = match version {
                    Some(version) => connection.send(ApiKey::PutKv.code(), version, body, limit),
                    None => return Box::pin(async { Err(unsupported(ApiKey::PutKv)) }),
                };
                let sent = sent.await;
                Box::pin(async move { put_answer(sent?.response().await?) })
            }
        }
    }

    fn append_body(&self, records: &Bytes, timeout_ms: i32) -> Vec<Bytes> {
        let fields = pb::ProduceLogRequest {
            acks: Some(self.delivery.acks),
            table_id: Some(self.place.bucket.table_id.0),
            timeout_ms: Some(timeout_ms),
            buckets_req: Vec::new(),
        };
        let bucket = pb::PbProduceLogReqForBucket {
            partition_id: self.place.partition_id(),
            bucket_id: Some(self.place.bucket.bucket_id.0),
            routing_bucket_count: Some(self.place.bucket_count),
            ..pb::PbProduceLogReqForBucket::default()
        };
        produce_log_request(fields, vec![(bucket, vec![records.clone()])])
    }

    fn put_body(&self, records: &Bytes, timeout_ms: i32) -> Vec<Bytes> {
        let (target_columns, agg_mode) = match &self.delivery.operation {
            Operation::Append => (Vec::new(), 0),
            Operation::Put {
                target_columns,
                agg_mode,
            } => (target_columns.clone(), *agg_mode),
        };
        let fields = pb::PutKvRequest {
            acks: Some(self.delivery.acks),
            table_id: Some(self.place.bucket.table_id.0),
            timeout_ms: Some(timeout_ms),
            target_columns,
            buckets_req: Vec::new(),
            agg_mode: Some(agg_mode),
        };
        let bucket = pb::PbPutKvReqForBucket {
            partition_id: self.place.partition_id(),
            bucket_id: Some(self.place.bucket.bucket_id.0),
            routing_bucket_count: Some(self.place.bucket_count),
            ..pb::PbPutKvReqForBucket::default()
        };
        put_kv_request(fields, vec![(bucket, vec![records.clone()])])
    }

    async fn leader(&self, refresh: bool) -> Result<ServerId> {
        if refresh {
            *self.leader.lock() = None;
            self.client.refresh().await?;
        }
        if let Some(leader) = *self.leader.lock() {
            return Ok(leader);
        }
        let partition = self.place.partition.as_deref();
        let buckets = locate(&self.client, &self.table, partition).await?;
        let leader = buckets.leader(&self.table, self.place.bucket.bucket_id.0)?;
        *self.leader.lock() = Some(leader);
        Ok(leader)
    }
}

fn append_answer(body: Bytes) -> Result<Stored> {
    let answer: pb::ProduceLogResponse = decode(body).map_err(malformed)?;
    let entry = answer.buckets_resp.into_iter().next();
    let entry = entry.ok_or_else(|| ClientError::absent("buckets_resp"))?;
    outcome(entry.error_code, entry.error_message, None)
}

fn put_answer(body: Bytes) -> Result<Stored> {
    let answer: pb::PutKvResponse = decode(body).map_err(malformed)?;
    let entry = answer.buckets_resp.into_iter().next();
    let entry = entry.ok_or_else(|| ClientError::absent("buckets_resp"))?;
    outcome(entry.error_code, entry.error_message, entry.pressure)
}

fn outcome(code: Option<i32>, message: Option<String>, pressure: Option<f32>) -> Result<Stored> {
    match code {
        // A duplicate: the server already has it.
        None | Some(DUPLICATE_SEQUENCE) => Ok(Stored {
            pressure: pressure.unwrap_or_default(),
        }),
        Some(code) => Err(ClientError::Api {
            code,
            message: message.unwrap_or_default(),
        }),
    }
}

fn malformed(error: mainstem_protocol::DecodeError) -> ClientError {
    ClientError::Malformed(error.to_string())
}

/// An API that the server does not offer in a version that we speak.
pub(crate) fn unsupported(api: ApiKey) -> ClientError {
    ClientError::Api {
        code: 2,
        message: format!("the server does not offer {}", api.name()),
    }
}
