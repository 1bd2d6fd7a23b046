//! Bounded reads: from the earliest offset of some buckets to their end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fluss::client::{EARLIEST_OFFSET, FlussAdmin, FlussTable, LogScanner, TableScan};
use fluss::metadata::DataType;
use fluss::record::ChangeType;
use fluss::row::InternalRow;
use fluss::rpc::message::OffsetSpec;

use crate::check;
use crate::value::Value;

/// No read here is larger than some megabytes.
const READ_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(200);

/// A row as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    pub partition: Option<i64>,
    pub bucket: i32,
    pub offset: i64,
    pub timestamp: i64,
    pub change: ChangeType,
    pub cells: Vec<Value>,
}

/// The types of the table's columns, in order.
pub fn types(table: &FlussTable<'_>) -> Vec<DataType> {
    table
        .get_table_info()
        .get_row_type()
        .field_types()
        .cloned()
        .collect()
}

/// Reads a table without partitions, all columns or `projection`.
pub async fn table(
    admin: &FlussAdmin,
    table: &FlussTable<'_>,
    projection: Option<&[usize]>,
) -> Result<Vec<Read>> {
    let types = types(table);
    match projection {
        None => table_with(admin, table, &types, Ok).await,
        Some(columns) => {
            let types: Vec<DataType> = columns.iter().map(|&c| types[c].clone()).collect();
            table_with(admin, table, &types, |scan| scan.project(columns)).await
        }
    }
}

/// Reads a table without partitions with a scan made by `configure`, whose
/// rows have the columns `types`.
pub async fn table_with<'a>(
    admin: &FlussAdmin,
    table: &'a FlussTable<'_>,
    types: &[DataType],
    configure: impl FnOnce(TableScan<'a>) -> fluss::error::Result<TableScan<'a>>,
) -> Result<Vec<Read>> {
    let info = table.get_table_info();
    let buckets: Vec<i32> = (0..info.get_num_buckets()).collect();
    let ends = admin
        .list_offsets(info.get_table_path(), &buckets, OffsetSpec::Latest)
        .await
        .context("list the latest offsets")?;
    let scanner = configure(table.new_scan())?.create_log_scanner()?;
    for &bucket in &buckets {
        scanner.subscribe(bucket, EARLIEST_OFFSET).await?;
    }
    let ends = ends
        .into_iter()
        .map(|(bucket, end)| ((None, bucket), end))
        .collect();
    until(&scanner, ends, types).await
}

/// Polls until every bucket of `ends` has been read to its end.
pub async fn until(
    scanner: &LogScanner,
    ends: HashMap<(Option<i64>, i32), i64>,
    types: &[DataType],
) -> Result<Vec<Read>> {
    let expected: i64 = ends.values().sum();
    let start = Instant::now();
    let mut reads: Vec<Read> = Vec::new();
    while (reads.len() as i64) < expected {
        if start.elapsed() > READ_WITHIN {
            bail!(
                "{} of {expected} rows after {READ_WITHIN:?}; ends: {ends:?}",
                reads.len()
            );
        }
        reads.extend(poll(scanner, types).await?);
    }
    reads.sort_by_key(|read| (read.partition, read.bucket, read.offset));
    let mut next: HashMap<(Option<i64>, i32), i64> = HashMap::new();
    for read in &reads {
        let place = (read.partition, read.bucket);
        let offset = next.entry(place).or_insert(0);
        check::equal(&format!("offset in bucket {place:?}"), offset, &read.offset)?;
        *offset += 1;
    }
    for (place, end) in &ends {
        let read = next.get(place).copied().unwrap_or(0);
        check::equal(&format!("rows read from bucket {place:?}"), end, &read)?;
    }
    Ok(reads)
}

/// One poll. Every record of a log table is an append.
pub async fn poll(scanner: &LogScanner, types: &[DataType]) -> Result<Vec<Read>> {
    let reads = poll_changes(scanner, types).await?;
    for read in &reads {
        check::equal(
            "change type of a log table's record",
            &ChangeType::AppendOnly,
            &read.change,
        )?;
    }
    Ok(reads)
}

/// One poll, of records of any change type.
pub async fn poll_changes(scanner: &LogScanner, types: &[DataType]) -> Result<Vec<Read>> {
    let records = scanner.poll(POLL).await.context("poll")?;
    let mut reads = Vec::with_capacity(records.count());
    for (bucket, records) in records.into_records_by_buckets() {
        for record in records {
            reads.push(Read {
                partition: bucket.partition_id(),
                bucket: bucket.bucket_id(),
                offset: record.offset(),
                timestamp: record.timestamp(),
                change: *record.change_type(),
                cells: row_cells(record.row(), types)?,
            });
        }
    }
    Ok(reads)
}

/// All cells of a row, whose columns have these types.
pub fn row_cells(row: &dyn InternalRow, types: &[DataType]) -> Result<Vec<Value>> {
    check::equal("fields of a row", &types.len(), &row.get_field_count())?;
    types
        .iter()
        .enumerate()
        .map(|(position, data_type)| {
            Value::read(row, position, data_type)
                .with_context(|| format!("column {position} ({data_type})"))
        })
        .collect()
}
