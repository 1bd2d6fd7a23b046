//! Idempotent appends to a log table.
//!
//! Each bucket has a lane: a task with a window of at most
//! [`WINDOW`] unacknowledged batches, sent in order on one connection. After a
//! failure that may pass, the whole window is sent again from its first batch
//! (go-back-N): what the server already has it answers with success, because the
//! batches carry writer id and sequence (wire.md §6.3).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use mainstem_format::arrow_batch::encode_append;
use mainstem_format::row_batch::encode_rows;
use mainstem_format::{Compression, EncodeOptions, RowFormat};
use mainstem_protocol::records::produce_log_request;
use mainstem_protocol::{ApiKey, decode, messages as pb};
use mainstem_types::{BucketId, LogFormat, PartitionId, ServerId, TableBucket};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::cluster::{Buckets, Client, TableInfo, path_to_proto};
use crate::error::{ClientError, Result};
use crate::route::Router;

/// Batches per bucket that may be unacknowledged: the server remembers as many
/// sequences of a writer.
pub const WINDOW: usize = 5;

/// How to write.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Compression of Arrow bodies.
    pub compression: Compression,
    /// Bytes of unacknowledged batches over all buckets; writes wait above it.
    pub max_pending_bytes: usize,
    /// −1 all in-sync replicas, 1 leader.
    pub acks: i32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            compression: Compression::Zstd(3),
            max_pending_bytes: 64 << 20,
            acks: -1,
        }
    }
}

/// Writes record batches to one log table.
#[derive(Debug)]
pub struct LogWriter {
    client: Client,
    table: Arc<TableInfo>,
    options: WriterOptions,
    router: Router,
    writer_id: i64,
    partitions: HashMap<Option<String>, Buckets>,
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

impl LogWriter {
    /// A writer with an id of its own.
    ///
    /// # Errors
    /// A primary-key table, a bucket key that cannot be encoded, or no server.
    pub async fn new(client: Client, table: TableInfo, options: WriterOptions) -> Result<Self> {
        if table.descriptor.schema.has_primary_key() {
            let message = format!(
                "'{}' has a primary key: rows are put, not appended",
                table.path
            );
            return Err(ClientError::Usage(message));
        }
        let router = Router::new(&table.descriptor)?;
        let request = pb::InitWriterRequest {
            table_path: vec![path_to_proto(&table.path)],
        };
        let mut patience = client.patience();
        let answer = loop {
            match init_writer(&client, &request).await {
                Ok(answer) => break answer,
                Err(error) => patience.after(error).await?,
            }
        };
        let writer_id = answer
            .writer_id
            .ok_or_else(|| ClientError::absent("writer_id"))?;
        let budget = Arc::new(Semaphore::new(
            options.max_pending_bytes.min(Semaphore::MAX_PERMITS),
        ));
        Ok(Self {
            client,
            table: Arc::new(table),
            options,
            router,
            writer_id,
            partitions: HashMap::new(),
            lanes: HashMap::new(),
            progress: Arc::default(),
            budget,
        })
    }

    /// Rows acknowledged so far.
    pub fn acknowledged_rows(&self) -> u64 {
        self.progress.acknowledged_rows.load(Ordering::Relaxed)
    }

    /// Queues the rows of a batch whose columns are those of the table, in
    /// order. Waits while too much is unacknowledged.
    ///
    /// # Errors
    /// The first failure of any earlier batch; data that does not fit.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let parts = {
            let partitions = &self.partitions;
            let default = self.table.descriptor.bucket_count.unwrap_or(1);
            let count = |partition: Option<&str>| {
                let known = partitions.get(&partition.map(str::to_owned));
                known.map_or(default, |b| {
                    i32::try_from(b.leaders.len()).unwrap_or(default)
                })
            };
            self.router.split(batch, count)?
        };
        for part in parts {
            let buckets = self.buckets(part.partition.clone()).await?;
            let count = i32::try_from(buckets.leaders.len()).unwrap_or(1);
            let bucket = part
                .bucket
                .unwrap_or_else(|| self.router.next_bucket(count));
            self.enqueue(part.partition, buckets.partition_id, bucket, &part.batch)
                .await?;
        }
        Ok(())
    }

    /// Waits until everything written so far is acknowledged.
    ///
    /// # Errors
    /// The first failure.
    pub async fn flush(&self) -> Result<()> {
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
    ///
    /// # Errors
    /// As [`LogWriter::flush`].
    pub async fn close(mut self) -> Result<u64> {
        self.flush().await?;
        for (_, lane) in self.lanes.drain() {
            drop(lane.queue);
            // A lane ends when its queue does.
            let _ = lane.task.await;
        }
        Ok(self.acknowledged_rows())
    }

    async fn enqueue(
        &mut self,
        partition: Option<String>,
        partition_id: Option<PartitionId>,
        bucket: i32,
        batch: &RecordBatch,
    ) -> Result<()> {
        if let Some(error) = self.progress.failure() {
            return Err(error);
        }
        let table_bucket = TableBucket {
            table_id: self.table.table_id,
            partition_id,
            bucket_id: BucketId(bucket),
        };
        let sequence = self
            .lanes
            .get(&table_bucket)
            .map_or(0, |lane| lane.next_sequence);
        let records = self.encode(batch, sequence)?;
        let permits = records.len().min(self.options.max_pending_bytes);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let permit = self.budget.clone().acquire_many_owned(permits).await;
        let permit = permit.map_err(|_| ClientError::Usage("the writer is closed".to_owned()))?;
        if !self.lanes.contains_key(&table_bucket) {
            let lane = self.spawn_lane(partition, table_bucket);
            self.lanes.insert(table_bucket, lane);
        }
        let Some(lane) = self.lanes.get_mut(&table_bucket) else {
            return Err(ClientError::Usage("the writer is closed".to_owned()));
        };
        lane.next_sequence = if sequence == i32::MAX {
            0
        } else {
            sequence + 1
        };
        self.progress.outstanding.fetch_add(1, Ordering::AcqRel);
        let outgoing = Outgoing {
            records,
            rows: batch.num_rows() as u64,
            _permit: permit,
        };
        if lane.queue.send(outgoing).await.is_err() {
            let ended = || ClientError::Usage("the writer has failed".to_owned());
            return Err(self.progress.failure().unwrap_or_else(ended));
        }
        Ok(())
    }

    fn encode(&self, batch: &RecordBatch, batch_sequence: i32) -> Result<Bytes> {
        let descriptor = &self.table.descriptor;
        let statistics = descriptor
            .statistics_columns()
            .map_err(|error| ClientError::Malformed(error.to_string()))?
            .map(|columns| columns.positions(&descriptor.schema));
        let options = EncodeOptions {
            schema_id: i16::try_from(self.table.schema_id).unwrap_or(1),
            compression: self.options.compression,
            writer_id: self.writer_id,
            batch_sequence,
            statistics_columns: statistics.as_deref(),
        };
        let encoded = match RowFormat::of_log(log_format(&self.table)?) {
            None => encode_append(batch, options, &descriptor.schema),
            Some(format) => encode_rows(batch, format, None, options, &descriptor.schema),
        };
        encoded.map_err(|error| ClientError::Usage(error.to_string()))
    }

    async fn buckets(&mut self, partition: Option<String>) -> Result<Buckets> {
        let client = self.client.clone();
        let mut patience = client.patience();
        loop {
            match self.try_buckets(partition.clone()).await {
                Err(error) => patience.after(error).await?,
                found => return found,
            }
        }
    }

    /// Buckets of a partition, which is created when it is missing.
    async fn try_buckets(&mut self, partition: Option<String>) -> Result<Buckets> {
        if let Some(known) = self.partitions.get(&partition) {
            return Ok(known.clone());
        }
        let found = locate(&self.client, &self.table, partition.as_deref()).await;
        let buckets = match (found, &partition) {
            (Err(ClientError::Api { code: 36, .. }), Some(name)) => {
                let spec = self.router.partition_spec(name);
                self.client
                    .create_partition(&self.table.path, &spec)
                    .await?;
                locate(&self.client, &self.table, Some(name)).await?
            }
            (found, _) => found?,
        };
        self.partitions.insert(partition, buckets.clone());
        Ok(buckets)
    }

    fn spawn_lane(&self, partition: Option<String>, bucket: TableBucket) -> Lane {
        // Bounded by the window: the queue only smooths the hand-over.
        let (queue, receiver) = mpsc::channel(WINDOW);
        let worker = LaneWorker {
            client: self.client.clone(),
            table: self.table.clone(),
            partition,
            bucket,
            acks: self.options.acks,
            progress: self.progress.clone(),
            leader: Mutex::new(None),
        };
        Lane {
            queue,
            task: tokio::spawn(worker.run(receiver)),
            next_sequence: 0,
        }
    }
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

/// How the table's batches carry rows.
pub(crate) fn log_format(table: &TableInfo) -> Result<LogFormat> {
    table
        .descriptor
        .log_format()
        .map_err(|error| ClientError::Malformed(error.to_string()))
}

async fn locate(client: &Client, table: &TableInfo, partition: Option<&str>) -> Result<Buckets> {
    match partition {
        Some(name) => client.partition_buckets(&table.path, name).await,
        None => client.table_buckets(&table.path).await,
    }
}

struct LaneWorker {
    client: Client,
    table: Arc<TableInfo>,
    partition: Option<String>,
    bucket: TableBucket,
    acks: i32,
    progress: Arc<Progress>,
    /// Where the bucket was last found.
    leader: Mutex<Option<ServerId>>,
}

type Answer = BoxFuture<'static, Result<()>>;

impl LaneWorker {
    async fn run(self, mut queue: mpsc::Receiver<Outgoing>) {
        let mut window: VecDeque<Outgoing> = VecDeque::new();
        let mut answers: FuturesOrdered<Answer> = FuturesOrdered::new();
        let mut failing_since: Option<Instant> = None;
        let mut attempt = 0u32;
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                Some(answer) = answers.next(), if !answers.is_empty() => match answer {
                    Ok(()) => {
                        failing_since = None;
                        attempt = 0;
                        if let Some(done) = window.pop_front() {
                            self.progress.acknowledged(done.rows);
                        }
                    }
                    Err(error) => {
                        answers = FuturesOrdered::new();
                        let since = *failing_since.get_or_insert_with(Instant::now);
                        attempt += 1;
                        if let Some(fatal) = self.fatal(error, since, attempt) {
                            self.progress.fail(fatal);
                            return;
                        }
                        tokio::time::sleep(backoff(attempt)).await;
                        self.resend(&window, &mut answers).await;
                    }
                },
                outgoing = queue.recv(), if open && window.len() < WINDOW => match outgoing {
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

    async fn resend(&self, window: &VecDeque<Outgoing>, answers: &mut FuturesOrdered<Answer>) {
        for (position, outgoing) in window.iter().enumerate() {
            answers.push_back(self.send(&outgoing.records, position == 0).await);
        }
    }

    /// The error to report if retrying makes no sense (any more).
    fn fatal(&self, error: ClientError, since: Instant, attempt: u32) -> Option<ClientError> {
        // 31 of a batch whose predecessor failed passes with the predecessor.
        let out_of_order = matches!(error, ClientError::Api { code: 31, .. }) && attempt <= 3;
        if !error.is_retriable() && !out_of_order {
            return Some(error);
        }
        let waited = since.elapsed();
        (waited > self.client.options().delivery_timeout).then(|| ClientError::GaveUp {
            seconds: waited.as_secs(),
            last: error.to_string(),
        })
    }

    /// Starts one ProduceLog; the answer is awaited by the window.
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
        let fields = pb::ProduceLogRequest {
            acks: Some(self.acks),
            table_id: Some(self.bucket.table_id.0),
            timeout_ms: Some(i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)),
            buckets_req: Vec::new(),
        };
        let bucket = pb::PbProduceLogReqForBucket {
            partition_id: self.bucket.partition_id.map(|id| id.0),
            bucket_id: Some(self.bucket.bucket_id.0),
            ..pb::PbProduceLogReqForBucket::default()
        };
        let body = produce_log_request(fields, vec![(bucket, vec![records.clone()])]);
        // Sent here and now: the order of the batches is that of these calls.
        let sent = connection
            .send(ApiKey::ProduceLog.code(), 0, body, limit)
            .await;
        Box::pin(async move {
            let body = sent?.response().await?;
            let answer: pb::ProduceLogResponse =
                decode(body).map_err(|error| ClientError::Malformed(error.to_string()))?;
            let entry = answer.buckets_resp.into_iter().next();
            let entry = entry.ok_or_else(|| ClientError::absent("buckets_resp"))?;
            match entry.error_code {
                // 32: the server already has it.
                None | Some(32) => Ok(()),
                Some(code) => Err(ClientError::Api {
                    code,
                    message: entry.error_message.unwrap_or_default(),
                }),
            }
        })
    }

    async fn leader(&self, refresh: bool) -> Result<ServerId> {
        if refresh {
            *self.leader.lock() = None;
            self.client.refresh().await?;
        }
        if let Some(leader) = *self.leader.lock() {
            return Ok(leader);
        }
        let buckets = locate(&self.client, &self.table, self.partition.as_deref()).await?;
        let bucket = usize::try_from(self.bucket.bucket_id.0).unwrap_or(usize::MAX);
        let leader = buckets.leaders.get(bucket).copied().flatten();
        *self.leader.lock() = leader;
        leader.ok_or_else(|| ClientError::Api {
            code: 44,
            message: format!(
                "bucket {} of '{}' has no leader now",
                self.bucket, self.table.path
            ),
        })
    }
}

fn backoff(attempt: u32) -> Duration {
    let base = Duration::from_millis(20) * 2u32.saturating_pow(attempt.min(6) - 1);
    base.mul_f64(rand::random_range(0.8..1.2))
}
