//! Idempotent upserts and deletes of a primary-key table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use mainstem_format::value_reader::ColumnReader;
use mainstem_format::{KvBatchBuilder, RowFormat, Value};
use mainstem_types::{KvFormat, Schema};

use crate::cluster::{Buckets, Client, TableInfo};
use crate::error::{ClientError, Result};
use crate::key_route::{KeyReaders, KeyRoute, named_reader};
use crate::lane::{Delivery, Lanes, Operation, sequence_after};
use crate::places::{Place, Places};
use crate::route::usage;
use crate::scan::position_of;

/// `agg_mode` of PutKv (wire.md §4.8).
const MERGE: i32 = 0;
const OVERWRITE: i32 = 1;

/// How to upsert.
#[derive(Clone, Debug)]
pub struct UpsertOptions {
    /// The columns to write, those of the primary key among them; the others
    /// keep what they hold. `None` = all, but a column that the server numbers.
    pub columns: Option<Vec<String>>,
    /// Store rows as they are, past the table's merge engine and its delete
    /// behaviour.
    pub overwrite: bool,
    /// −1 all in-sync replicas, 1 leader.
    pub acks: i32,
    /// Bytes of unacknowledged batches over all buckets; writes wait above it.
    pub max_pending_bytes: usize,
    /// A batch with so many bytes takes no more rows.
    pub max_batch_bytes: usize,
    /// Longest pause that a server under pressure is given (wire.md §4.8).
    pub max_throttle: Duration,
}

impl Default for UpsertOptions {
    fn default() -> Self {
        Self {
            columns: None,
            overwrite: false,
            acks: -1,
            max_pending_bytes: 64 << 20,
            max_batch_bytes: 1 << 20,
            max_throttle: Duration::from_secs(3),
        }
    }
}

/// Writes rows of one primary-key table by key.
///
/// Upserts and deletes of one writer take effect in the order of the calls, for
/// each key.
#[derive(Debug)]
pub struct UpsertWriter {
    table: Arc<TableInfo>,
    rows: RowEncoder,
    route: KeyRoute,
    places: Places,
    lanes: Lanes,
    max_batch_bytes: usize,
    /// Whole rows cannot be deleted.
    keeps_rows: bool,
}

impl UpsertWriter {
    /// A writer with an id of its own.
    ///
    /// # Errors
    /// A log table; columns that the table does not have, or that cannot be
    /// written alone (tables.md §4.5); no server.
    pub async fn new(client: Client, table: TableInfo, options: UpsertOptions) -> Result<Self> {
        if !table.descriptor.has_primary_key() {
            let message = format!(
                "'{}' has no primary key: rows are appended, not put",
                table.path
            );
            return Err(ClientError::Usage(message));
        }
        let numbered = !table.descriptor.schema.auto_increment.is_empty();
        let rows = RowEncoder::new(&table, options.columns.as_deref())?;
        let route = KeyRoute::primary_key(&table.descriptor)?;
        let table = Arc::new(table);
        let delivery = Delivery {
            operation: Operation::Put {
                target_columns: rows.target_columns(),
                agg_mode: if options.overwrite { OVERWRITE } else { MERGE },
            },
            acks: options.acks,
            max_pending_bytes: options.max_pending_bytes,
            max_throttle: options.max_throttle,
        };
        Ok(Self {
            rows,
            route,
            places: Places::new(client.clone(), table.clone()),
            lanes: Lanes::open(client, table.clone(), delivery).await?,
            max_batch_bytes: options.max_batch_bytes,
            keeps_rows: numbered && options.columns.is_none(),
            table,
        })
    }

    /// Rows and deletes acknowledged so far.
    pub fn acknowledged_rows(&self) -> u64 {
        self.lanes.acknowledged_rows()
    }

    /// Queues rows. The batch has the columns that this writer writes, found by
    /// name, in any order. Waits while too much is unacknowledged.
    ///
    /// # Errors
    /// The first failure of any earlier batch; data that does not fit, in which
    /// case nothing of this batch is written.
    pub async fn upsert(&mut self, batch: &RecordBatch) -> Result<()> {
        self.write(batch, true).await
    }

    /// Queues deletes of the keys in a batch, which has at least the columns of
    /// the primary key. With [`UpsertOptions::columns`] only those columns are
    /// set to null, and a row that then has nothing but its key is removed.
    ///
    /// # Errors
    /// As [`UpsertWriter::upsert`]. A table with a column that the server numbers
    /// keeps its rows: the protocol has no delete of them (tables.md §4.9).
    pub async fn delete(&mut self, keys: &RecordBatch) -> Result<()> {
        if self.keeps_rows {
            return Err(ClientError::Usage(format!(
                "rows of '{}' cannot be deleted because the server numbers one of its columns; \
                 named columns can be set to null",
                self.table.path
            )));
        }
        self.write(keys, false).await
    }

    async fn write(&mut self, batch: &RecordBatch, with_rows: bool) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let partitions = {
            let readers = self.route.readers(batch, &self.table.descriptor.schema)?;
            partitions(&self.route, &readers, batch.num_rows())?
        };
        let mut buckets = HashMap::with_capacity(partitions.len());
        for partition in partitions {
            let found = self.places.find_or_create(partition.as_deref()).await?;
            buckets.insert(partition, found);
        }
        for (place, encoded) in self.encode(batch, &buckets, with_rows)? {
            self.lanes
                .send(&place, encoded.records, encoded.rows)
                .await?;
        }
        Ok(())
    }

    /// The batches to send, those of a bucket in order.
    fn encode(
        &self,
        batch: &RecordBatch,
        buckets: &HashMap<Option<String>, Buckets>,
        with_rows: bool,
    ) -> Result<Vec<(Place, Encoded)>> {
        let schema = &self.table.descriptor.schema;
        let readers = self.route.readers(batch, schema)?;
        let columns = match with_rows {
            true => Some(self.rows.readers(batch, schema)?),
            false => None,
        };
        let mut parts: BTreeMap<(Option<String>, i32), Part> = BTreeMap::new();
        let (mut key, mut bucket_key, mut row_bytes) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            let partition = self.route.partition(&readers, row)?;
            let found = buckets.get(&partition);
            let found = found.ok_or_else(|| ClientError::absent("partition"))?;
            key.clear();
            bucket_key.clear();
            self.route.put_key(&readers, row, &mut key)?;
            self.route
                .put_bucket_key(&readers, row, &key, &mut bucket_key)?;
            let bucket = self.route.bucket(&bucket_key, found.count())?;
            let part = parts
                .entry((partition, bucket))
                .or_insert_with_key(|(partition, _)| {
                    let place = Place::new(&self.table, partition.clone(), found, bucket);
                    let sequence = self.lanes.next_sequence(&place.bucket);
                    Part::new(place, sequence)
                });
            let encoded = match &columns {
                Some(columns) => {
                    row_bytes.clear();
                    self.rows.encode(columns, row, schema, &mut row_bytes)?;
                    Some(row_bytes.as_slice())
                }
                None => None,
            };
            let header = (self.rows.schema_id, self.lanes.writer_id());
            part.append(header, &key, encoded, self.max_batch_bytes)?;
        }
        let mut batches = Vec::new();
        for part in parts.into_values() {
            let place = part.place.clone();
            batches.extend(part.finish().into_iter().map(|e| (place.clone(), e)));
        }
        Ok(batches)
    }

    /// Waits until everything written so far is acknowledged.
    ///
    /// # Errors
    /// The first failure.
    pub async fn flush(&self) -> Result<()> {
        self.lanes.flush().await
    }

    /// Flushes and ends the writer; returns the acknowledged rows and deletes.
    ///
    /// # Errors
    /// As [`UpsertWriter::flush`].
    pub async fn close(self) -> Result<u64> {
        self.lanes.close().await
    }
}

fn partitions(
    route: &KeyRoute,
    readers: &KeyReaders<'_>,
    rows: usize,
) -> Result<BTreeSet<Option<String>>> {
    (0..rows).map(|row| route.partition(readers, row)).collect()
}

/// A finished KV batch.
struct Encoded {
    records: Bytes,
    rows: u64,
}

/// What one bucket gets of a record batch.
struct Part {
    place: Place,
    next_sequence: i32,
    done: Vec<Encoded>,
    open: Option<KvBatchBuilder>,
}

impl Part {
    fn new(place: Place, next_sequence: i32) -> Self {
        Self {
            place,
            next_sequence,
            done: Vec::new(),
            open: None,
        }
    }

    fn append(
        &mut self,
        (schema_id, writer_id): (i16, i64),
        key: &[u8],
        row: Option<&[u8]>,
        max_bytes: usize,
    ) -> Result<()> {
        let open = self.open.get_or_insert_with(|| {
            let sequence = self.next_sequence;
            self.next_sequence = sequence_after(sequence);
            KvBatchBuilder::new(schema_id, writer_id, sequence)
        });
        open.append(key, row).map_err(usage)?;
        if open.size_bytes() >= max_bytes {
            self.seal();
        }
        Ok(())
    }

    fn seal(&mut self) {
        if let Some(builder) = self.open.take() {
            self.done.push(Encoded {
                rows: builder.record_count() as u64,
                records: builder.finish(),
            });
        }
    }

    fn finish(mut self) -> Vec<Encoded> {
        self.seal();
        self.done
    }
}

/// Turns rows of Arrow batches into the rows of KV batches: always all columns
/// of the schema, null where a column is not written.
#[derive(Debug)]
struct RowEncoder {
    format: RowFormat,
    schema_id: i16,
    /// Per column of the schema whether it is written.
    written: Vec<bool>,
}

impl RowEncoder {
    fn new(table: &TableInfo, columns: Option<&[String]>) -> Result<Self> {
        let schema = &table.descriptor.schema;
        let schema_id = i16::try_from(table.schema_id)
            .map_err(|_| ClientError::Malformed(format!("schema id {}", table.schema_id)))?;
        Ok(Self {
            format: row_format(table)?,
            schema_id,
            written: written_columns(schema, columns)?,
        })
    }

    /// As PutKv names them: nothing when all columns are written.
    fn target_columns(&self) -> Vec<i32> {
        if self.written.iter().all(|written| *written) {
            return Vec::new();
        }
        let positions = (0..).zip(&self.written);
        positions
            .filter(|(_, written)| **written)
            .map(|(position, _)| position)
            .collect()
    }

    fn readers<'a>(
        &self,
        batch: &'a RecordBatch,
        schema: &Schema,
    ) -> Result<Vec<Option<ColumnReader<'a>>>> {
        for field in batch.schema().fields() {
            let name = field.name();
            match schema.column(name) {
                Some((position, _)) if self.written[position] => {}
                Some(_) => {
                    let message = format!("column '{name}' is not among those that are written");
                    return Err(ClientError::Usage(message));
                }
                None => {
                    let message = format!("the table has no column '{name}'");
                    return Err(ClientError::Usage(message));
                }
            }
        }
        let columns = self.written.iter().zip(&schema.columns).enumerate();
        columns
            .map(|(position, (written, column))| {
                if !written {
                    return Ok(None);
                }
                let (_, reader) = named_reader(batch, schema, position)?;
                let nulls = batch.column_by_name(&column.name).map(|c| c.null_count());
                if !column.data_type.nullable && nulls != Some(0) {
                    return Err(ClientError::Usage(format!(
                        "column '{}' is NOT NULL, but there is null in it",
                        column.name
                    )));
                }
                Ok(Some(reader))
            })
            .collect()
    }

    fn encode(
        &self,
        columns: &[Option<ColumnReader<'_>>],
        row: usize,
        schema: &Schema,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut values = Vec::with_capacity(columns.len());
        for column in columns {
            values.push(match column {
                Some(reader) => reader.value(row).map_err(usage)?,
                None => Value::Null,
            });
        }
        self.format
            .encode(&values, schema.columns.as_slice(), out)
            .map_err(usage)
    }
}

/// The row format of a table's keys and values.
pub(crate) fn row_format(table: &TableInfo) -> Result<RowFormat> {
    let format = table.descriptor.kv_format();
    match format.map_err(|error| ClientError::Malformed(error.to_string()))? {
        KvFormat::Compacted => Ok(RowFormat::Compacted),
        KvFormat::Indexed => Ok(RowFormat::Indexed),
    }
}

/// Checks what the server would refuse with error 35, for texts that name the
/// column to add or leave out (tables.md §4.5, §4.9).
fn written_columns(schema: &Schema, columns: Option<&[String]>) -> Result<Vec<bool>> {
    let numbered = |name: &str| schema.auto_increment.iter().any(|column| column == name);
    let mut written: Vec<bool> = match columns {
        None => schema.columns.iter().map(|c| !numbered(&c.name)).collect(),
        Some(_) => vec![false; schema.columns.len()],
    };
    for name in columns.unwrap_or_default() {
        let position = position_of(schema, name)?;
        if numbered(name) {
            return Err(ClientError::Usage(format!(
                "column '{name}' is numbered by the server and cannot be written"
            )));
        }
        written[position] = true;
    }
    let columns = schema.columns.iter().zip(&written);
    if let Some((key, _)) = columns
        .clone()
        .find(|(column, written)| schema.is_primary_key_column(&column.name) && !**written)
    {
        return Err(ClientError::Usage(format!(
            "column '{}' belongs to the primary key and has to be written",
            key.name
        )));
    }
    if written.iter().any(|written| !written) {
        let not_null = columns.map(|(column, _)| column).find(|column| {
            !column.data_type.nullable && !schema.is_primary_key_column(&column.name)
        });
        if let Some(column) = not_null {
            return Err(ClientError::Usage(format!(
                "only some columns can be written when all but the key may be null; '{}' is NOT NULL",
                column.name
            )));
        }
    }
    Ok(written)
}
