//! The current rows of a primary-key table: all of them, or any few.
//!
//! A full scan opens a session per bucket at the server (wire.md §6.7), which
//! shows the bucket as it was then. One task per scan drives the sessions and
//! hands batches over through a bounded channel; when the reader stops early it
//! closes what is open, so that no session is left to expire.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use mainstem_format::ValueBatch;
use mainstem_net::Connection;
use mainstem_protocol::{ApiKey, messages as pb};
use mainstem_types::TableBucket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::backoff::Attempts;
use crate::cluster::{Client, TableInfo};
use crate::error::{ClientError, Result};
use crate::places::{Place, Places, locate};
use crate::scan::positions_of;
use crate::stored_rows::{StoredRows, malformed};

/// Too many sessions at the server (wire.md §5.1).
const TOO_MANY_SCANNERS: i32 = 69;
const UNKNOWN_TABLE_OR_BUCKET: i32 = 21;
const OPEN_ATTEMPTS: u32 = 4;
const OPEN_PAUSE: Duration = Duration::from_millis(100);

/// How to read all rows.
#[derive(Clone, Debug)]
pub struct KvScanOptions {
    /// Columns wanted, in this order; `None` = all. All of them travel.
    pub columns: Option<Vec<String>>,
    /// Bytes of rows asked for per request.
    pub batch_bytes: i32,
    /// Buckets read at the same time.
    pub parallel_buckets: usize,
}

impl Default for KvScanOptions {
    fn default() -> Self {
        Self {
            columns: None,
            batch_bytes: 4 << 20,
            parallel_buckets: 4,
        }
    }
}

/// Some rows of a bucket.
#[derive(Clone, Debug)]
pub struct ScannedRows {
    /// Where they are from.
    pub bucket: TableBucket,
    /// The rows, in the order of their key bytes.
    pub batch: RecordBatch,
}

/// A running scan of all rows.
#[derive(Debug)]
pub struct KvScan {
    events: mpsc::Receiver<Result<Event>>,
    task: JoinHandle<()>,
    log_offsets: HashMap<TableBucket, i64>,
}

#[derive(Debug)]
enum Event {
    /// A session is open; its state is that of this changelog offset.
    Opened(TableBucket, i64),
    Rows(ScannedRows),
}

impl KvScan {
    /// Starts to read every bucket the table has now.
    ///
    /// # Errors
    /// A log table; unknown columns; no server.
    pub async fn new(client: Client, table: TableInfo, options: &KvScanOptions) -> Result<Self> {
        let scan = prepare(client, table, options.columns.as_deref())?;
        let places = Places::new(scan.client.clone(), scan.table.clone())
            .all()
            .await?;
        let parallel = options.parallel_buckets.max(1);
        let (sender, events) = mpsc::channel(parallel);
        let batch_bytes = options.batch_bytes.max(1);
        let task = tokio::spawn(async move {
            let buckets = places.into_iter().map(|place| {
                let reader = BucketReader {
                    scan: scan.clone(),
                    place,
                    batch_bytes,
                };
                reader.run(sender.clone())
            });
            stream::iter(buckets)
                .buffer_unordered(parallel)
                .collect::<()>()
                .await;
        });
        Ok(Self {
            events,
            task,
            log_offsets: HashMap::new(),
        })
    }

    /// The next rows, of any bucket; `None` at the end.
    ///
    /// # Errors
    /// A bucket whose session broke after some of its rows were read: the scan
    /// has to be started anew.
    pub async fn next(&mut self) -> Result<Option<ScannedRows>> {
        while let Some(event) = self.events.recv().await {
            match event? {
                Event::Opened(bucket, offset) => {
                    self.log_offsets.insert(bucket, offset);
                }
                Event::Rows(rows) => return Ok(Some(rows)),
            }
        }
        Ok(None)
    }

    /// Where the changelog of each bucket goes on from the rows of this scan.
    /// Complete at the end of the scan.
    pub fn log_offsets(&self) -> &HashMap<TableBucket, i64> {
        &self.log_offsets
    }

    /// Ends the scan, early or not, and closes its sessions.
    pub async fn close(self) {
        drop(self.events);
        // A panic in the task has been reported where it happened.
        let _ = self.task.await;
    }
}

/// Any `limit` rows of the table, or all if it has fewer. `columns` as in
/// [`KvScanOptions`].
///
/// # Errors
/// A log table; unknown columns; what retries did not cure.
pub async fn limit_scan(
    client: Client,
    table: TableInfo,
    limit: i32,
    columns: Option<&[String]>,
) -> Result<RecordBatch> {
    let mut scan = prepare(client, table, columns)?;
    let places = Places::new(scan.client.clone(), scan.table.clone())
        .all()
        .await?;
    let wanted = usize::try_from(limit).unwrap_or(0);
    let (mut batches, mut count) = (Vec::new(), 0usize);
    for place in places {
        if count >= wanted {
            break;
        }
        let missing = i32::try_from(wanted - count).unwrap_or(i32::MAX);
        let Some(records) = scan.limited(&place, missing).await? else {
            continue;
        };
        let batch = scan.batch(records).await?;
        let batch = batch.slice(0, batch.num_rows().min(wanted - count));
        count += batch.num_rows();
        batches.push(batch);
    }
    if batches.is_empty() {
        batches.push(scan.batch(Bytes::new()).await?);
    }
    let schema = batches[0].schema();
    arrow_select::concat::concat_batches(&schema, &batches)
        .map_err(|error| ClientError::Usage(error.to_string()))
}

/// What readers of rows share.
#[derive(Clone, Debug)]
struct RowScan {
    client: Client,
    table: Arc<TableInfo>,
    rows: StoredRows,
    output: Option<Vec<usize>>,
}

fn prepare(client: Client, table: TableInfo, columns: Option<&[String]>) -> Result<RowScan> {
    if !table.descriptor.has_primary_key() {
        return Err(ClientError::Usage(format!(
            "'{}' has no primary key: its rows are in its log",
            table.path
        )));
    }
    let output = positions_of(&table.descriptor.schema, columns)?;
    let table = Arc::new(table);
    Ok(RowScan {
        rows: StoredRows::new(client.clone(), table.clone())?,
        client,
        table,
        output,
    })
}

impl RowScan {
    /// The rows of an encoded value batch.
    async fn batch(&mut self, records: Bytes) -> Result<RecordBatch> {
        let values = ValueBatch::parse(records).map_err(malformed)?;
        let values: Vec<(i16, &[u8])> = values.records().collect();
        let batch = self.rows.decode(&values).await?;
        match &self.output {
            None => Ok(batch),
            Some(output) => batch
                .project(output)
                .map_err(|error| ClientError::Usage(error.to_string())),
        }
    }

    /// A connection to the bucket's leader, which is asked for again after a
    /// failure.
    async fn connection(&self, place: &Place, failed: bool) -> Result<Connection> {
        let leader = match place.leader.filter(|_| !failed) {
            Some(leader) => leader,
            None => {
                let partition = place.partition.as_deref();
                let buckets = locate(&self.client, &self.table, partition).await?;
                buckets.leader(&self.table, place.bucket.bucket_id.0)?
            }
        };
        self.client.tablet(leader).await
    }

    /// The encoded rows of a LimitScan; `None` if the partition is gone.
    async fn limited(&self, place: &Place, limit: i32) -> Result<Option<Bytes>> {
        let request = pb::LimitScanRequest {
            table_id: Some(self.table.table_id.0),
            partition_id: place.partition_id(),
            bucket_id: Some(place.bucket.bucket_id.0),
            limit: Some(limit),
            routing_bucket_count: Some(place.bucket_count),
        };
        let mut attempts = Attempts::new(&self.client);
        let mut failed = false;
        loop {
            match self.try_limited(place, &request, failed).await {
                Ok(records) => return Ok(Some(records)),
                Err(error) if is_gone(&error, place) => return Ok(None),
                Err(error) => attempts.after(error).await?,
            }
            failed = true;
        }
    }

    async fn try_limited(
        &self,
        place: &Place,
        request: &pb::LimitScanRequest,
        failed: bool,
    ) -> Result<Bytes> {
        let connection = self.connection(place, failed).await?;
        let answer: pb::LimitScanResponse = connection.call(ApiKey::LimitScan, 0, request).await?;
        check(answer.error_code, answer.error_message)?;
        Ok(answer.records.unwrap_or_default())
    }
}

/// A partition that was dropped since its buckets were found has no rows.
fn is_gone(error: &ClientError, place: &Place) -> bool {
    let codes = [UNKNOWN_TABLE_OR_BUCKET, 36];
    place.partition.is_some()
        && matches!(error, ClientError::Api { code, .. } if codes.contains(code))
}

fn check(code: Option<i32>, message: Option<String>) -> Result<()> {
    match code {
        None | Some(0) => Ok(()),
        Some(code) => Err(ClientError::Api {
            code,
            message: message.unwrap_or_default(),
        }),
    }
}

/// Reads one bucket to its end.
struct BucketReader {
    scan: RowScan,
    place: Place,
    batch_bytes: i32,
}

/// The reader of the scan has gone.
struct Gone;

impl BucketReader {
    async fn run(mut self, events: mpsc::Sender<Result<Event>>) {
        // Not even opened if nobody waits for it any more.
        if events.is_closed() {
            return;
        }
        let read = self.read(&events).await;
        if let Err(error) = read {
            // Nobody may be there to read it.
            let _ = events.send(Err(error)).await;
        }
    }

    async fn read(&mut self, events: &mpsc::Sender<Result<Event>>) -> Result<()> {
        let Some((connection, mut answer)) = self.open().await? else {
            return Ok(());
        };
        let bucket = self.place.bucket;
        let offset = answer
            .log_offset
            .ok_or_else(|| ClientError::absent("log_offset"))?;
        let mut sequence = 0;
        let mut told = events.send(Ok(Event::Opened(bucket, offset))).await.is_ok();
        loop {
            let more = answer.has_more_results.unwrap_or_default();
            let scanner = answer.scanner_id.take().filter(|_| more);
            if told {
                let handed_over = self.hand_over(answer.records.take(), events).await;
                told = match handed_over {
                    Ok(Ok(())) => true,
                    Ok(Err(Gone)) => false,
                    Err(error) => {
                        close(&connection, scanner).await;
                        return Err(error);
                    }
                };
            }
            let Some(scanner) = scanner else {
                return Ok(());
            };
            if !told {
                close(&connection, Some(scanner)).await;
                return Ok(());
            }
            sequence += 1;
            let request = pb::ScanKvRequest {
                scanner_id: Some(scanner),
                bucket_scan_req: None,
                call_seq_id: Some(sequence),
                batch_size_bytes: Some(self.batch_bytes),
                close_scanner: None,
            };
            answer = connection.call(ApiKey::ScanKv, 0, &request).await?;
            check(answer.error_code, answer.error_message.take())?;
        }
    }

    async fn hand_over(
        &mut self,
        records: Option<Bytes>,
        events: &mpsc::Sender<Result<Event>>,
    ) -> Result<std::result::Result<(), Gone>> {
        let batch = self.scan.batch(records.unwrap_or_default()).await?;
        if batch.num_rows() == 0 {
            return Ok(Ok(()));
        }
        let rows = ScannedRows {
            bucket: self.place.bucket,
            batch,
        };
        Ok(events.send(Ok(Event::Rows(rows))).await.map_err(|_| Gone))
    }

    /// Opens the session; `None` if the partition is gone.
    async fn open(&self) -> Result<Option<(Connection, pb::ScanKvResponse)>> {
        let request = pb::ScanKvRequest {
            scanner_id: None,
            bucket_scan_req: Some(pb::PbScanReqForBucket {
                table_id: Some(self.scan.table.table_id.0),
                partition_id: self.place.partition_id(),
                bucket_id: Some(self.place.bucket.bucket_id.0),
                limit: None,
                routing_bucket_count: Some(self.place.bucket_count),
            }),
            call_seq_id: Some(0),
            batch_size_bytes: Some(self.batch_bytes),
            close_scanner: None,
        };
        let mut attempts = Attempts::new(&self.scan.client);
        let mut refused = 0;
        loop {
            let failure = match self.try_open(&request, refused > 0).await {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) if is_gone(&error, &self.place) => return Ok(None),
                Err(error) => error,
            };
            let too_many =
                matches!(&failure, ClientError::Api { code, .. } if *code == TOO_MANY_SCANNERS);
            refused += 1;
            if too_many && refused < OPEN_ATTEMPTS {
                tokio::time::sleep(OPEN_PAUSE * 2u32.pow(refused - 1)).await;
            } else {
                attempts.after(failure).await?;
            }
        }
    }

    async fn try_open(
        &self,
        request: &pb::ScanKvRequest,
        failed: bool,
    ) -> Result<(Connection, pb::ScanKvResponse)> {
        let connection = self.scan.connection(&self.place, failed).await?;
        let mut answer: pb::ScanKvResponse = connection.call(ApiKey::ScanKv, 0, request).await?;
        check(answer.error_code, answer.error_message.take())?;
        Ok((connection, answer))
    }
}

async fn close(connection: &Connection, scanner: Option<Bytes>) {
    let Some(scanner) = scanner else { return };
    let request = pb::ScanKvRequest {
        scanner_id: Some(scanner),
        close_scanner: Some(true),
        ..pb::ScanKvRequest::default()
    };
    let closed: std::result::Result<pb::ScanKvResponse, _> =
        connection.call(ApiKey::ScanKv, 0, &request).await;
    if let Err(error) = closed {
        // The server ends the session by itself when its time is over.
        tracing::debug!(%error, "a scan session was not closed");
    }
}
