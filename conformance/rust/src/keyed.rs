//! Writes and reads by key: upserts, deletes, partial updates, lookups,
//! prefix lookups, limit scans. Each write waits for its acknowledgement.

use std::sync::Arc;

use anyhow::{Context, Result};
use fluss::client::{FlussAdmin, FlussConnection, FlussTable, UpsertWriter};
use fluss::metadata::{DataType, RowType, Schema, TableBucket, TableDescriptor};
use fluss::row::{ColumnarRow, GenericRow};

use crate::value::Value;
use crate::{scan, table};

/// One write: a row of all columns, of which a delete needs the key only.
#[derive(Debug, Clone)]
pub enum Op {
    Upsert(Vec<Value>),
    Delete(Vec<Value>),
}

/// Creates a table of one bucket, unless `buckets` says otherwise.
pub async fn create<'a>(
    connection: &'a FlussConnection,
    name: &str,
    schema: Schema,
    buckets: Option<(i32, &[&str])>,
    properties: &[(&str, &str)],
) -> Result<FlussTable<'a>> {
    let admin = connection.get_admin()?;
    let (count, keys) = buckets.unwrap_or((1, &[]));
    let keys = keys.iter().map(ToString::to_string).collect();
    let descriptor = properties
        .iter()
        .fold(
            TableDescriptor::builder()
                .schema(schema)
                .distributed_by(Some(count), keys),
            |builder, (key, value)| builder.property(*key, *value),
        )
        .build()?;
    let path = table::path(name);
    table::create(&admin, &path, &descriptor).await?;
    Ok(connection.get_table(&path).await?)
}

pub fn generic(cells: &[Value], types: &[DataType]) -> Result<GenericRow<'static>> {
    let values = cells
        .iter()
        .zip(types)
        .map(|(value, data_type)| value.to_datum(data_type))
        .collect::<Result<Vec<_>>>()?;
    Ok(GenericRow { values })
}

/// Sends the writes in order, as few batches as the client makes of them, and
/// waits for all.
pub async fn apply(table: &FlussTable<'_>, targets: Option<&[usize]>, writes: &[Op]) -> Result<()> {
    let upsert = table.new_upsert()?;
    let writer = match targets {
        None => upsert.create_writer()?,
        Some(columns) => upsert
            .partial_update(Some(columns.to_vec()))?
            .create_writer()?,
    };
    send(&writer, &scan::types(table), writes).await
}

/// The same through a writer that is there.
pub async fn send(writer: &UpsertWriter, types: &[DataType], writes: &[Op]) -> Result<()> {
    let mut results = Vec::with_capacity(writes.len());
    for write in writes {
        results.push(match write {
            Op::Upsert(row) => writer.upsert(&generic(row, types)?)?,
            Op::Delete(row) => writer.delete(&generic(row, types)?)?,
        });
    }
    writer.flush().await?;
    for (result, write) in results.into_iter().zip(writes) {
        result
            .await
            .with_context(|| format!("{:.200}", format!("{write:?}")))?;
    }
    Ok(())
}

pub async fn upsert(table: &FlussTable<'_>, rows: &[Vec<Value>]) -> Result<()> {
    let writes: Vec<Op> = rows.iter().cloned().map(Op::Upsert).collect();
    apply(table, None, &writes).await
}

/// Deletes the rows with the keys of these rows.
pub async fn delete(table: &FlussTable<'_>, rows: &[Vec<Value>]) -> Result<()> {
    let writes: Vec<Op> = rows.iter().cloned().map(Op::Delete).collect();
    apply(table, None, &writes).await
}

/// Positions of the primary key, in the order of its declaration.
pub fn key_columns(table: &FlussTable<'_>) -> Vec<usize> {
    table.get_table_info().get_schema().primary_key_indexes()
}

/// Tasks that look up at the same time.
const LOOKUP_TASKS: usize = 32;

/// The row of each key, if there is one. Many keys are asked for at once.
pub async fn lookup(
    table: &FlussTable<'_>,
    keys: &[Vec<Value>],
) -> Result<Vec<Option<Vec<Value>>>> {
    let types = scan::types(table);
    let key_types: Vec<DataType> = key_columns(table)
        .iter()
        .map(|&c| types[c].clone())
        .collect();
    let mut tasks = Vec::new();
    for part in keys.chunks(keys.len().div_ceil(LOOKUP_TASKS).max(1)) {
        let mut lookuper = table.new_lookup()?.create_lookuper()?;
        let (part, types, key_types) = (part.to_vec(), types.clone(), key_types.clone());
        tasks.push(tokio::spawn(async move {
            let mut rows = Vec::with_capacity(part.len());
            for key in part {
                let found = lookuper
                    .lookup(&generic(&key, &key_types)?)
                    .await
                    .with_context(|| format!("look up {:.200}", format!("{key:?}")))?;
                rows.push(match found.get_single_row()? {
                    None => None,
                    Some(row) => Some(scan::row_cells(&row, &types)?),
                });
            }
            anyhow::Ok(rows)
        }));
    }
    let mut rows = Vec::with_capacity(keys.len());
    for task in tasks {
        rows.extend(task.await??);
    }
    Ok(rows)
}

/// All rows with this prefix, in the order in which they come.
pub async fn prefix_lookup(
    table: &FlussTable<'_>,
    columns: &[&str],
    prefix: &[Value],
) -> Result<Vec<Vec<Value>>> {
    let types = scan::types(table);
    let row_type = table.get_table_info().get_row_type();
    let prefix_types: Vec<DataType> = columns
        .iter()
        .map(|name| {
            let position = row_type.get_field_index(name);
            position
                .map(|position| types[position].clone())
                .with_context(|| format!("no column {name}"))
        })
        .collect::<Result<_>>()?;
    let mut lookuper = table
        .new_lookup()?
        .lookup_by(columns.iter().map(ToString::to_string).collect())
        .create_lookuper()?;
    let found = lookuper.lookup(&generic(prefix, &prefix_types)?).await?;
    found
        .get_rows()?
        .iter()
        .map(|row| scan::row_cells(row, &types))
        .collect()
}

/// The first `limit` rows of a bucket, in key order.
pub async fn limit_scan(
    table: &FlussTable<'_>,
    partition: Option<i64>,
    bucket: i32,
    limit: i32,
    projection: Option<&[usize]>,
) -> Result<Vec<Vec<Value>>> {
    let info = table.get_table_info();
    let fields = info.get_row_type().fields();
    let place = TableBucket::new_with_partition(info.get_table_id(), partition, bucket);
    let mut scan = table.new_scan().limit(limit)?;
    let mut shown = fields.to_vec();
    if let Some(columns) = projection {
        scan = scan.project(columns)?;
        shown = columns.iter().map(|&c| fields[c].clone()).collect();
    }
    let types: Vec<DataType> = shown.iter().map(|f| f.data_type().clone()).collect();
    let row_type = Arc::new(RowType::new(shown));
    let mut rows = Vec::new();
    for batch in scan
        .create_bucket_batch_scanner(place)?
        .collect_all_batches()
        .await?
    {
        let batch = Arc::new(batch.into_batch());
        for row in 0..batch.num_rows() {
            let row = ColumnarRow::new(
                Arc::clone(&batch),
                Arc::clone(&row_type),
                row,
                Some(Arc::clone(&row_type)),
            )?;
            rows.push(scan::row_cells(&row, &types)?);
        }
    }
    Ok(rows)
}

/// Live rows that the server counts, of all buckets of a table without partitions.
pub async fn count(admin: &FlussAdmin, table: &FlussTable<'_>) -> Result<i64> {
    use fluss::metadata::BucketStatsRequest;
    let info = table.get_table_info();
    let buckets = (0..info.get_num_buckets())
        .map(|bucket| BucketStatsRequest::new(None, bucket))
        .collect();
    let stats = admin
        .get_table_stats(info.get_table_id(), buckets, vec![])
        .await
        .context("table statistics")?;
    stats.buckets.iter().try_fold(0, |sum, bucket| {
        Ok(sum
            + bucket
                .row_count
                .context("a bucket without a count of rows")?)
    })
}
