//! Idempotent appends to a log table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use bytes::Bytes;
use mainstem_format::arrow_batch::encode_append;
use mainstem_format::row_batch::encode_rows;
use mainstem_format::{Compression, EncodeOptions, RowFormat};
use mainstem_types::LogFormat;

use crate::cluster::{Client, TableInfo};
use crate::error::{ClientError, Result};
use crate::lane::{Delivery, Lanes, Operation};
use crate::places::{Place, Places};
use crate::route::Router;

pub use crate::lane::WINDOW;

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
    table: Arc<TableInfo>,
    compression: Compression,
    router: Router,
    places: Places,
    lanes: Lanes,
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
        let table = Arc::new(table);
        let delivery = Delivery {
            operation: Operation::Append,
            acks: options.acks,
            max_pending_bytes: options.max_pending_bytes,
            // Appends meet no storage engine.
            max_throttle: Duration::ZERO,
        };
        Ok(Self {
            router,
            places: Places::new(client.clone(), table.clone()),
            lanes: Lanes::open(client, table.clone(), delivery).await?,
            compression: options.compression,
            table,
        })
    }

    /// Rows acknowledged so far.
    pub fn acknowledged_rows(&self) -> u64 {
        self.lanes.acknowledged_rows()
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
        // Known before the rows are split: the bucket count of a partition
        // decides the bucket.
        let partitions: BTreeSet<Option<String>> =
            self.router.partitions(batch)?.into_iter().collect();
        for partition in &partitions {
            self.places.find_or_create(partition.as_deref()).await?;
        }
        let places = &self.places;
        let parts = self
            .router
            .split(batch, |partition| places.bucket_count(partition))?;
        for part in parts {
            let buckets = self
                .places
                .find_or_create(part.partition.as_deref())
                .await?;
            let bucket = part
                .bucket
                .unwrap_or_else(|| self.router.next_bucket(buckets.count()));
            let place = Place::new(&self.table, part.partition, &buckets, bucket);
            let sequence = self.lanes.next_sequence(&place.bucket);
            let records = self.encode(&part.batch, sequence)?;
            let rows = part.batch.num_rows() as u64;
            self.lanes.send(&place, records, rows).await?;
        }
        Ok(())
    }

    /// Waits until everything written so far is acknowledged.
    ///
    /// # Errors
    /// The first failure.
    pub async fn flush(&self) -> Result<()> {
        self.lanes.flush().await
    }

    /// Flushes and ends the lanes; returns the acknowledged rows.
    ///
    /// # Errors
    /// As [`LogWriter::flush`].
    pub async fn close(self) -> Result<u64> {
        self.lanes.close().await
    }

    fn encode(&self, batch: &RecordBatch, batch_sequence: i32) -> Result<Bytes> {
        let descriptor = &self.table.descriptor;
        let statistics = descriptor
            .statistics_columns()
            .map_err(|error| ClientError::Malformed(error.to_string()))?
            .map(|columns| columns.positions(&descriptor.schema));
        let options = EncodeOptions {
            schema_id: i16::try_from(self.table.schema_id).unwrap_or(1),
            compression: self.compression,
            writer_id: self.lanes.writer_id(),
            batch_sequence,
            statistics_columns: statistics.as_deref(),
        };
        let encoded = match RowFormat::of_log(log_format(&self.table)?) {
            None => encode_append(batch, options, &descriptor.schema),
            Some(format) => encode_rows(batch, format, None, options, &descriptor.schema),
        };
        encoded.map_err(|error| ClientError::Usage(error.to_string()))
    }
}

/// How the table's batches carry rows.
pub(crate) fn log_format(table: &TableInfo) -> Result<LogFormat> {
    table
        .descriptor
        .log_format()
        .map_err(|error| ClientError::Malformed(error.to_string()))
}
