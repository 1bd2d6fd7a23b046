//! Reading a log in the order of its offsets: that of a log table, or the
//! changelog of a primary-key table. Bounded or endless, projected, filtered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use bytes::Bytes;
use mainstem_format::arrow_batch::decode;
use mainstem_format::row_batch::decode_rows;
use mainstem_format::{Batches, DecodedBatch, FormatError, LogBatch, RowFormat, cast_to_schema};
use mainstem_protocol::{ApiKey, messages as pb};
use mainstem_types::{LogFormat, PartitionId, Schema, ServerId, TableBucket};

use crate::admin::OffsetSpec;
use crate::change_type::ChangeTypes;
use crate::cluster::{Client, TableInfo, table_bucket};
use crate::error::{ClientError, Result};
use crate::filter::Filter;
use crate::writer::log_format;

/// What to read.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Columns wanted, in this order; `None` = all.
    pub columns: Option<Vec<String>>,
    /// Rows wanted.
    pub filter: Option<Filter>,
    /// Where each bucket starts.
    pub start: OffsetSpec,
    /// Stop at the end that the buckets have at the start of the scan; else go
    /// on for ever.
    pub bounded: bool,
    /// Bytes asked for per request, and per bucket of it.
    pub max_bytes: i32,
    /// See `max_bytes`.
    pub max_bytes_per_bucket: i32,
    /// How long the server holds an empty answer.
    pub max_wait: Duration,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            columns: None,
            filter: None,
            start: OffsetSpec::Earliest,
            bounded: true,
            max_bytes: 16 << 20,
            max_bytes_per_bucket: 4 << 20,
            max_wait: Duration::from_millis(500),
        }
    }
}

/// Rows of one stored batch.
#[derive(Clone, Debug)]
pub struct ScannedBatch {
    /// Where they are from.
    pub bucket: TableBucket,
    /// Offset of the stored batch's first record.
    pub base_offset: i64,
    /// When the batch was committed, epoch ms.
    pub commit_timestamp_ms: i64,
    /// The rows that are wanted, with the wanted columns.
    pub batch: RecordBatch,
    /// What each of these rows stands for.
    pub change_types: ChangeTypes,
}

#[derive(Clone, Debug)]
struct Position {
    partition_id: Option<PartitionId>,
    bucket: i32,
    leader: ServerId,
    next_offset: i64,
    end_offset: i64,
}

/// A running scan.
#[derive(Debug)]
pub struct LogScan {
    client: Client,
    table: TableInfo,
    log_format: LogFormat,
    options: ScanOptions,
    positions: Vec<Position>,
    known_partitions: HashSet<PartitionId>,
    /// Columns that travel, as sorted positions; `None` = all.
    read: Option<Vec<usize>>,
    /// The wanted columns as positions among those that travel.
    output: Option<Vec<usize>>,
    schemas: HashMap<i32, Arc<Schema>>,
    ready: VecDeque<ScannedBatch>,
    failing_since: Option<Instant>,
    partitions_checked: Instant,
}

impl LogScan {
    /// Finds the buckets and their start (and end) offsets.
    ///
    /// # Errors
    /// Unknown columns; no server.
    pub async fn new(client: Client, table: TableInfo, options: ScanOptions) -> Result<Self> {
        let schema = &table.descriptor.schema;
        let (read, output) = plan_columns(schema, &options)?;
        let schemas = HashMap::from([(table.schema_id, Arc::new(schema.clone()))]);
        let mut scan = Self {
            client,
            log_format: log_format(&table)?,
            table,
            options,
            positions: Vec::new(),
            known_partitions: HashSet::new(),
            read,
            output,
            schemas,
            ready: VecDeque::new(),
            failing_since: None,
            partitions_checked: Instant::now(),
        };
        scan.find_buckets(scan.options.start).await?;
        Ok(scan)
    }

    /// Starts these buckets at these offsets instead, e.g. where a scan of the
    /// rows left off ([`KvScan::log_offsets`](crate::kv_scan::KvScan)).
    pub fn start_at(&mut self, offsets: &HashMap<TableBucket, i64>) {
        for position in &mut self.positions {
            let bucket = table_bucket(self.table.table_id, position.partition_id, position.bucket);
            if let Some(offset) = offsets.get(&bucket) {
                position.next_offset = *offset;
            }
        }
    }

    /// Rows between the start and the present end of all buckets.
    pub fn remaining_offsets(&self) -> i64 {
        self.positions
            .iter()
            .map(|p| (p.end_offset - p.next_offset).max(0))
            .sum()
    }

    /// The next rows; `None` at the end of a bounded scan.
    ///
    /// # Errors
    /// What retries did not cure, or stored data that cannot be decoded.
    pub async fn next(&mut self) -> Result<Option<ScannedBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.options.bounded && self.positions.iter().all(|p| p.next_offset >= p.end_offset)
            {
                return Ok(None);
            }
            let fetched = self.fetch().await;
            match fetched {
                Ok(()) => self.failing_since = None,
                Err(error) => self.recover(error).await?,
            }
            if !self.options.bounded && self.partitions_checked.elapsed() > Duration::from_secs(1) {
                self.find_buckets(OffsetSpec::Earliest).await?;
            }
        }
    }

    async fn recover(&mut self, error: ClientError) -> Result<()> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if !error.is_retriable() {
            return Err(error);
        }
        let waited = since.elapsed();
        if waited > self.client.options().delivery_timeout {
            let last = error.to_string();
            return Err(ClientError::GaveUp {
                seconds: waited.as_secs(),
                last,
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        // If the servers cannot be asked now, the next fetch fails and comes back.
        if self.client.refresh().await.is_ok() {
            self.find_leaders()
                .await
                .or_else(|e| if e.is_retriable() { Ok(()) } else { Err(e) })?;
        }
        Ok(())
    }

    /// Adds the buckets that are not known yet.
    async fn find_buckets(&mut self, start: OffsetSpec) -> Result<()> {
        self.partitions_checked = Instant::now();
        if self.table.descriptor.partition_keys.is_empty() {
            if self.positions.is_empty() {
                let buckets = self.client.table_buckets(&self.table.path).await?;
                self.add_buckets(None, &buckets.leaders, start).await?;
            }
            return Ok(());
        }
        for partition in self.client.partitions(&self.table).await? {
            if self.known_partitions.contains(&partition.partition_id) {
                continue;
            }
            let buckets = self
                .client
                .partition_buckets(&self.table.path, &partition.name)
                .await?;
            self.add_buckets(Some(partition.partition_id), &buckets.leaders, start)
                .await?;
            self.known_partitions.insert(partition.partition_id);
        }
        Ok(())
    }

    async fn add_buckets(
        &mut self,
        partition_id: Option<PartitionId>,
        leaders: &[Option<ServerId>],
        start: OffsetSpec,
    ) -> Result<()> {
        let mut by_leader: HashMap<ServerId, Vec<i32>> = HashMap::new();
        for (bucket, leader) in leaders.iter().enumerate() {
            let leader = leader.ok_or_else(|| ClientError::Api {
                code: 44,
                message: format!("bucket {bucket} of '{}' has no leader now", self.table.path),
            })?;
            by_leader
                .entry(leader)
                .or_default()
                .push(i32::try_from(bucket).unwrap_or(i32::MAX));
        }
        for (leader, buckets) in by_leader {
            let list = |spec| {
                self.client
                    .list_offsets(&self.table, partition_id, leader, &buckets, spec)
            };
            let starts = list(start).await?;
            let ends = list(OffsetSpec::Latest).await?;
            for ((bucket, next_offset), end_offset) in buckets.iter().zip(starts).zip(ends) {
                let bucket = *bucket;
                self.positions.push(Position {
                    partition_id,
                    bucket,
                    leader,
                    next_offset,
                    end_offset,
                });
            }
        }
        Ok(())
    }

    async fn find_leaders(&mut self) -> Result<()> {
        if self.table.descriptor.partition_keys.is_empty() {
            let buckets = self.client.table_buckets(&self.table.path).await?;
            for position in &mut self.positions {
                let index = usize::try_from(position.bucket).unwrap_or(usize::MAX);
                if let Some(Some(leader)) = buckets.leaders.get(index) {
                    position.leader = *leader;
                }
            }
        }
        Ok(())
    }

    /// One round: a request to every leader that has something to give.
    async fn fetch(&mut self) -> Result<()> {
        let mut by_leader: HashMap<ServerId, Vec<usize>> = HashMap::new();
        for (index, position) in self.positions.iter().enumerate() {
            if !self.options.bounded || position.next_offset < position.end_offset {
                by_leader.entry(position.leader).or_default().push(index);
            }
        }
        let mut calls = Vec::new();
        for (leader, indexes) in by_leader {
            let connection = self.client.tablet(leader).await?;
            let request = self.request(&indexes);
            calls.push(async move {
                connection
                    .call::<_, pb::FetchLogResponse>(ApiKey::FetchLog, 0, &request)
                    .await
            });
        }
        if calls.is_empty() {
            tokio::time::sleep(self.options.max_wait).await;
        }
        for answer in futures::future::join_all(calls).await {
            for table in answer?.tables_resp {
                for entry in table.buckets_resp {
                    self.accept(entry).await?;
                }
            }
        }
        Ok(())
    }

    fn request(&self, indexes: &[usize]) -> pb::FetchLogRequest {
        let buckets_req = indexes
            .iter()
            .map(|index| {
                let position = &self.positions[*index];
                pb::PbFetchLogReqForBucket {
                    partition_id: position.partition_id.map(|id| id.0),
                    bucket_id: Some(position.bucket),
                    fetch_offset: Some(position.next_offset),
                    max_fetch_bytes: Some(self.options.max_bytes_per_bucket),
                    routing_bucket_count: None,
                }
            })
            .collect();
        let arrow = self.log_format == LogFormat::Arrow;
        let projected = self.read.as_ref().filter(|_| arrow);
        let filter = self.options.filter.as_ref().filter(|_| arrow);
        let predicate = filter.and_then(|f| f.to_proto(&self.table.descriptor.schema));
        let schema_id = predicate.as_ref().map(|_| self.table.schema_id);
        pb::FetchLogRequest {
            follower_server_id: Some(-1),
            max_bytes: Some(self.options.max_bytes),
            tables_req: vec![pb::PbFetchLogReqForTable {
                table_id: Some(self.table.table_id.0),
                projection_pushdown_enabled: Some(projected.is_some()),
                projected_fields: projected
                    .into_iter()
                    .flatten()
                    .map(|position| i32::try_from(*position).unwrap_or(i32::MAX))
                    .collect(),
                buckets_req,
                filter_predicate: predicate,
                filter_schema_id: schema_id,
            }],
            max_wait_ms: Some(i32::try_from(self.options.max_wait.as_millis()).unwrap_or(500)),
            min_bytes: Some(1),
            read_preference: None,
        }
    }

    async fn accept(&mut self, entry: pb::PbFetchLogRespForBucket) -> Result<()> {
        let partition_id = entry.partition_id.map(PartitionId);
        let found = self.positions.iter().position(|position| {
            position.partition_id == partition_id && Some(position.bucket) == entry.bucket_id
        });
        let index = found.ok_or_else(|| ClientError::Malformed("unasked bucket".to_owned()))?;
        if let Some(code) = entry.error_code {
            // A dropped partition ends only its own buckets (known failure B011).
            if code == 21 && partition_id.is_some() {
                self.positions.remove(index);
                return Ok(());
            }
            let message = entry.error_message.unwrap_or_default();
            return Err(ClientError::Api { code, message });
        }
        if entry.remote_log_fetch_info.is_some() {
            return Err(ClientError::Usage(
                "the start of the log is in remote storage, which this client cannot read".into(),
            ));
        }
        let records = entry.records.unwrap_or_default();
        for item in Batches::new(&records) {
            let batch = item.map_err(malformed)?;
            self.accept_batch(index, &batch).await?;
        }
        if let Some(filtered_end) = entry.filtered_end_offset {
            let position = &mut self.positions[index];
            position.next_offset = position.next_offset.max(filtered_end);
        }
        Ok(())
    }

    async fn accept_batch(&mut self, index: usize, stored: &LogBatch) -> Result<()> {
        let (header, bytes) = (*stored.header(), stored.bytes());
        let arrow = self.log_format == LogFormat::Arrow;
        let pushed = self.read.as_deref().filter(|_| arrow);
        let current = self.schemas[&self.table.schema_id].clone();
        let decoded = if header.record_count == 0 {
            None
        } else if let Some(fields) = pushed {
            // Projected batches have the shape of the current schema, whatever
            // schema they were written with (tables.md §2.5).
            let decoded = decode(bytes, &current, Some(fields)).map_err(malformed)?;
            Some((decoded.batch, decoded.change_types))
        } else {
            let written = self.schema(header.schema_id.into()).await?;
            let decoded = self.decode_whole(bytes, &written)?;
            let whole = cast_to_schema(&decoded.batch, &current).map_err(malformed)?;
            let batch = match &self.read {
                Some(fields) => whole.project(fields).map_err(usage)?,
                None => whole,
            };
            Some((batch, decoded.change_types))
        };
        let position = &mut self.positions[index];
        let (next_offset, end_offset) = (position.next_offset, position.end_offset);
        position.next_offset = position.next_offset.max(header.next_offset());
        let Some((batch, codes)) = decoded else {
            return Ok(());
        };
        let change_types = ChangeTypes::from_codes(codes)?;
        let bucket = table_bucket(self.table.table_id, position.partition_id, position.bucket);
        let skip = usize::try_from(next_offset - header.base_offset).unwrap_or(0);
        let skip = skip.min(batch.num_rows());
        let mut length = batch.num_rows() - skip;
        if self.options.bounded {
            let wanted = end_offset - header.base_offset - i64::try_from(skip).unwrap_or(0);
            length = length.min(usize::try_from(wanted).unwrap_or(0));
        }
        let mut batch = batch.slice(skip, length);
        let mut change_types = change_types.slice(skip, length);
        if let Some(filter) = &self.options.filter {
            let kept = filter.evaluate(&batch)?;
            batch = arrow_select::filter::filter_record_batch(&batch, &kept).map_err(usage)?;
            change_types = change_types.filter(&kept)?;
        }
        if let Some(output) = &self.output {
            batch = batch.project(output).map_err(usage)?;
        }
        if batch.num_rows() > 0 {
            self.ready.push_back(ScannedBatch {
                bucket,
                base_offset: header.base_offset,
                commit_timestamp_ms: header.commit_timestamp_ms,
                batch,
                change_types,
            });
        }
        Ok(())
    }

    /// Decodes a batch that holds all columns of the schema it was written with.
    fn decode_whole(&self, stored: &Bytes, written: &Schema) -> Result<DecodedBatch> {
        let decoded = match RowFormat::of_log(self.log_format) {
            None => decode(stored, written, None),
            Some(format) => decode_rows(stored, format, written),
        };
        decoded.map_err(malformed)
    }

    async fn schema(&mut self, schema_id: i32) -> Result<Arc<Schema>> {
        if let Some(schema) = self.schemas.get(&schema_id) {
            return Ok(schema.clone());
        }
        let schema = Arc::new(self.client.schema(&self.table.path, schema_id).await?);
        self.schemas.insert(schema_id, schema.clone());
        Ok(schema)
    }
}

type Plan = (Option<Vec<usize>>, Option<Vec<usize>>);

/// Which columns travel, and where the wanted ones are among them.
fn plan_columns(schema: &Schema, options: &ScanOptions) -> Result<Plan> {
    let Some(wanted) = positions_of(schema, options.columns.as_deref())? else {
        return Ok((None, None));
    };
    let mut read = wanted.clone();
    for name in options.filter.iter().flat_map(Filter::columns) {
        read.push(position_of(schema, name)?);
    }
    read.sort_unstable();
    read.dedup();
    let output = wanted
        .iter()
        .filter_map(|column| read.iter().position(|travelling| travelling == column))
        .collect();
    Ok((Some(read), Some(output)))
}

/// Positions of the wanted columns; `None` = all.
///
/// # Errors
/// A column that there is not.
pub(crate) fn positions_of(
    schema: &Schema,
    columns: Option<&[String]>,
) -> Result<Option<Vec<usize>>> {
    columns
        .map(|names| names.iter().map(|name| position_of(schema, name)).collect())
        .transpose()
}

pub(crate) fn position_of(schema: &Schema, name: &str) -> Result<usize> {
    let found = schema.column(name).map(|(position, _)| position);
    found.ok_or_else(|| {
        let known: Vec<&str> = schema.columns.iter().map(|c| c.name.as_str()).collect();
        ClientError::Usage(format!(
            "there is no column '{name}'; there are {}",
            known.join(", ")
        ))
    })
}

fn malformed(error: FormatError) -> ClientError {
    ClientError::Malformed(error.to_string())
}

fn usage(error: arrow_schema::ArrowError) -> ClientError {
    ClientError::Usage(error.to_string())
}
