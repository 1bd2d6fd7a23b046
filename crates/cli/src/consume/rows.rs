//! `--rows`: the current rows of a primary-key table.

use std::collections::HashMap;

use anyhow::{Result, bail};
use arrow_array::RecordBatch;
use arrow_select::filter::filter_record_batch;
use mainstem_client::kv_scan::{KvScan, KvScanOptions, limit_scan};
use mainstem_client::{Client, Filter, TableInfo};
use mainstem_types::TableBucket;

/// Above this a scan of all rows that ends early is no slower, and needs less
/// memory: a limit scan answers with all its rows at once.
const MAX_LIMIT_SCAN: u64 = 10_000;

/// Which rows, and what of them.
pub struct RowQuery<'a> {
    /// Columns wanted; `None` = all.
    pub columns: Option<&'a [String]>,
    /// Rows wanted.
    pub filter: Option<&'a Filter>,
    /// Rows after which nothing more is needed.
    pub limit: Option<u64>,
}

/// Hands the rows to `take` until it returns false. Returns where the changelog
/// of each bucket goes on from these rows; `None` if not all were read.
pub async fn read(
    client: Client,
    table: TableInfo,
    query: &RowQuery<'_>,
    mut take: impl FnMut(RecordBatch) -> Result<bool>,
) -> Result<Option<HashMap<TableBucket, i64>>> {
    if !table.descriptor.has_primary_key() {
        bail!(
            "'{}' has no primary key: all its rows are in its log, leave --rows out",
            table.path
        );
    }
    if let (None, Some(limit @ 0..=MAX_LIMIT_SCAN)) = (query.filter, query.limit) {
        let limit = i32::try_from(limit)?;
        let rows = limit_scan(client, table, limit, query.columns).await?;
        take(rows)?;
        return Ok(None);
    }
    // A condition may need columns that are not printed.
    let options = KvScanOptions {
        columns: match query.filter {
            Some(_) => None,
            None => query.columns.map(<[String]>::to_vec),
        },
        ..KvScanOptions::default()
    };
    let positions = wanted_positions(&table, query.columns)?;
    let mut scan = KvScan::new(client, table, &options).await?;
    let read = loop {
        let rows = match scan.next().await {
            Ok(Some(rows)) => rows.batch,
            Ok(None) => break Ok(Some(scan.log_offsets().clone())),
            Err(error) => break Err(error.into()),
        };
        let more = filtered(rows, query.filter, positions.as_deref()).and_then(&mut take);
        match more {
            Ok(true) => {}
            Ok(false) => break Ok(None),
            Err(error) => break Err(error),
        }
    };
    scan.close().await;
    read
}

fn filtered(
    rows: RecordBatch,
    filter: Option<&Filter>,
    positions: Option<&[usize]>,
) -> Result<RecordBatch> {
    let Some(filter) = filter else {
        return Ok(rows);
    };
    let rows = filter_record_batch(&rows, &filter.evaluate(&rows)?)?;
    Ok(match positions {
        Some(positions) => rows.project(positions)?,
        None => rows,
    })
}

fn wanted_positions(table: &TableInfo, columns: Option<&[String]>) -> Result<Option<Vec<usize>>> {
    let Some(names) = columns else {
        return Ok(None);
    };
    let schema = &table.descriptor.schema;
    let mut positions = Vec::with_capacity(names.len());
    for name in names {
        match schema.column(name) {
            Some((position, _)) => positions.push(position),
            None => bail!("there is no column '{name}'"),
        }
    }
    Ok(Some(positions))
}
