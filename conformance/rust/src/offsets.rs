//! Offsets by earliest, latest and timestamp; limit scans; statistics.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fluss::client::{EARLIEST_OFFSET, FlussConnection};
use fluss::metadata::{BucketStatsRequest, DataTypes, Schema, TableBucket, TableDescriptor};
use fluss::row::GenericRow;
use fluss::rpc::message::OffsetSpec;

use crate::value::Value;
use crate::{check, scan, table};

const OFFSET_OUT_OF_RANGE: i32 = 19;
const INVALID_TIMESTAMP: i32 = 38;

pub async fn run(connection: &FlussConnection) -> Result<()> {
    println!("offsets, limit scan, statistics");
    let admin = connection.get_admin()?;
    let path = table::path("offsets");
    let descriptor = TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("id", DataTypes::int())
                .column("name", DataTypes::string())
                .build()?,
        )
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    let offset = async |spec: OffsetSpec| -> fluss::error::Result<i64> {
        Ok(admin.list_offsets(&path, &[0], spec).await?[&0])
    };
    check::equal("earliest, empty", &0, &offset(OffsetSpec::Earliest).await?)?;
    check::equal("latest, empty", &0, &offset(OffsetSpec::Latest).await?)?;

    let table = connection.get_table(&path).await?;
    let writer = table.new_append()?.create_writer()?;
    let append = async |ids: std::ops::Range<i32>| -> Result<()> {
        for id in ids {
            let mut row = GenericRow::new(2);
            row.set_field(0, id);
            row.set_field(1, format!("row {id}"));
            writer.append(&row)?;
        }
        Ok(writer.flush().await?)
    };
    let before_ms = now_ms();
    append(0..10).await?;
    // The two batches must not share a millisecond, nor the question with the
    // second one: a timestamp after the server's clock is refused.
    tokio::time::sleep(Duration::from_millis(20)).await;
    append(10..25).await?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let after_ms = now_ms();

    check::equal("earliest", &0, &offset(OffsetSpec::Earliest).await?)?;
    check::equal("latest", &25, &offset(OffsetSpec::Latest).await?)?;
    let rows = scan::table(&admin, &table, None).await?;
    for row in &rows {
        check::that(
            &format!(
                "timestamp {} of row {} lies between {before_ms} and {after_ms}",
                row.timestamp, row.offset
            ),
            (before_ms..=after_ms).contains(&row.timestamp),
        )?;
    }
    // A busy machine may send what is called a batch here as several.
    let times: Vec<i64> = rows.iter().map(|row| row.timestamp).collect();
    check::that(
        "the second batch is later than the first",
        times[9] < times[10],
    )?;
    for (what, timestamp, expected) in [
        ("long before", times[0] - 1_000_000, 0),
        ("of the first batch", times[0], 0),
        ("just after the first batch", times[9] + 1, 10),
        ("of the second batch", times[10], 10),
        ("just after the second batch", times[24] + 1, 25),
    ] {
        check::equal(
            &format!("offset of the timestamp {what}"),
            &expected,
            &offset(OffsetSpec::Timestamp(timestamp)).await?,
        )?;
    }
    check::fails_with(
        "the offset of a timestamp in an hour",
        INVALID_TIMESTAMP,
        offset(OffsetSpec::Timestamp(after_ms + 3_600_000)).await,
    )?;
    check::passed("earliest, latest, timestamp");

    start_in_the_middle(connection).await?;

    let id = table.get_table_info().get_table_id();
    let read = table
        .new_scan()
        .limit(5)?
        .create_bucket_batch_scanner(TableBucket::new(id, 0))?
        .collect_all_batches()
        .await?;
    let ids: Vec<i32> = read
        .iter()
        .flat_map(|batch| {
            batch
                .batch()
                .column(0)
                .as_any()
                .downcast_ref::<arrow::array::Int32Array>()
                .map(|ids| ids.values().to_vec())
                .unwrap_or_default()
        })
        .collect();
    check::equal(
        "limit scan: the last five rows",
        &vec![20, 21, 22, 23, 24],
        &ids,
    )?;
    let projected = table
        .new_scan()
        .project(&[1])?
        .limit(3)?
        .create_bucket_batch_scanner(TableBucket::new(id, 0))?
        .collect_all_batches()
        .await?;
    let columns: Vec<usize> = projected.iter().map(|b| b.batch().num_columns()).collect();
    check::equal("limit scan of one column", &vec![1], &columns)?;
    check::passed("limit scan");

    let stats = admin
        .get_table_stats(id, vec![BucketStatsRequest::new(None, 0)], vec![])
        .await
        .context("table statistics")?;
    check::equal(
        "row counts",
        &vec![Some(25)],
        &stats.buckets.iter().map(|b| b.row_count).collect(),
    )?;
    check::passed("table statistics");
    Ok(())
}

/// A reader that starts inside a batch gets no row before its start; one that
/// starts at the end gets what is appended then; one beyond the end fails.
async fn start_in_the_middle(connection: &FlussConnection) -> Result<()> {
    let table = connection.get_table(&table::path("offsets")).await?;
    let types = scan::types(&table);
    let scanner = table.new_scan().create_log_scanner()?;
    scanner.subscribe(0, 13).await?;
    let mut offsets = Vec::new();
    let start = std::time::Instant::now();
    while offsets.len() < 12 && start.elapsed().as_secs() < 20 {
        offsets.extend(
            scan::poll(&scanner, &types)
                .await?
                .into_iter()
                .map(|row| row.offset),
        );
    }
    check::equal(
        "offsets from the middle of a batch",
        &(13..25).collect(),
        &offsets,
    )?;

    let beyond = table.new_scan().create_log_scanner()?;
    beyond.subscribe(0, 1_000).await?;
    let start = std::time::Instant::now();
    let failure = loop {
        match beyond.poll(Duration::from_millis(200)).await {
            Err(error) => break error,
            Ok(records) => {
                check::equal("records beyond the end", &0, &records.count())?;
                check::that(
                    "a reader beyond the end fails within 20 s",
                    start.elapsed().as_secs() < 20,
                )?;
            }
        }
    };
    check::that(
        &format!("a reader beyond the end is told so (error {OFFSET_OUT_OF_RANGE}): {failure:?}"),
        failure.to_string().contains("out of range"),
    )?;

    let ready = table.new_scan().create_log_scanner()?;
    ready.subscribe(0, EARLIEST_OFFSET).await?;
    let mut seen = 0;
    while seen < 25 {
        seen += scan::poll(&ready, &types).await?.len();
    }
    let path = table::path("offsets_live");
    let admin = connection.get_admin()?;
    let descriptor = TableDescriptor::builder()
        .schema(Schema::builder().column("id", DataTypes::int()).build()?)
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    let live = connection.get_table(&path).await?;
    let live_types = scan::types(&live);
    let scanner = live.new_scan().create_log_scanner()?;
    scanner.subscribe(0, EARLIEST_OFFSET).await?;
    let writer = live.new_append()?.create_writer()?;
    // The first poll starts the long poll that the rows must wake.
    check::equal(
        "rows of an empty table",
        &0,
        &scan::poll(&scanner, &live_types).await?.len(),
    )?;
    for id in 0..5 {
        let mut row = GenericRow::new(1);
        row.set_field(0, id);
        writer.append(&row)?.await?;
        let start = std::time::Instant::now();
        let mut rows = Vec::new();
        while rows.is_empty() && start.elapsed().as_secs() < 20 {
            rows = scan::poll(&scanner, &live_types).await?;
        }
        check::equal(
            "the row just acknowledged",
            &vec![vec![Value::Int(id)]],
            &rows.into_iter().map(|row| row.cells).collect(),
        )?;
    }
    check::passed("start in the middle, beyond the end, live");
    Ok(())
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}
