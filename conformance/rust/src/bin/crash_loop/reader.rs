//! Reading back: a reader that follows one table through all restarts, and the
//! final read of everything.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fluss::client::{EARLIEST_OFFSET, FlussConnection, LogScanner};
use fluss::metadata::TablePath;
use fluss::record::ScanRecord;
use fluss::row::DataGetters;
use fluss::rpc::message::OffsetSpec;
use mainstem_conformance::table;

use crate::BUCKETS;
use crate::ledger::Ledger;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    pub writer: i32,
    pub sequence: i64,
}

/// Rows by table and bucket, in offset order from 0.
pub type Stored = BTreeMap<(String, i32), Vec<Row>>;

fn row(record: &ScanRecord) -> Result<Row> {
    Ok(Row {
        writer: record.row().get_int(0)?,
        sequence: record.row().get_long(1)?,
    })
}

/// Appends what one poll brings; offsets must follow each other.
async fn poll(scanner: &LogScanner, table: &str, into: &mut Stored) -> Result<usize> {
    let records = scanner.poll(Duration::from_millis(100)).await?;
    let count = records.count();
    for (bucket, records) in records.into_records_by_buckets() {
        let rows = into
            .entry((table.to_string(), bucket.bucket_id()))
            .or_default();
        for record in records {
            ensure!(
                record.offset() == rows.len() as i64,
                "{table}, bucket {}: offset {} where {} was due",
                bucket.bucket_id(),
                record.offset(),
                rows.len()
            );
            rows.push(row(&record)?);
        }
    }
    Ok(count)
}

/// Follows `path` until the writers stop. The client's reader hides restarts;
/// should it ever fail, that fails the loop.
pub async fn follow(address: String, path: TablePath, ledger: Arc<Ledger>) -> Result<Stored> {
    let connection = table::connect(&address).await?;
    let table = connection.get_table(&path).await?;
    let scanner = table.new_scan().create_log_scanner()?;
    let mut seen = Stored::new();
    for bucket in 0..BUCKETS {
        scanner.subscribe(bucket, EARLIEST_OFFSET).await?;
    }
    while !ledger.stop.load(Ordering::SeqCst) {
        poll(&scanner, path.table(), &mut seen)
            .await
            .context("the reader that lives through the restarts")?;
    }
    Ok(seen)
}

/// All rows of all tables.
pub async fn read_everything(connection: &FlussConnection, paths: &[TablePath]) -> Result<Stored> {
    let admin = connection.get_admin()?;
    let buckets: Vec<i32> = (0..BUCKETS).collect();
    let mut stored = Stored::new();
    for path in paths {
        let ends: HashMap<i32, i64> = admin
            .list_offsets(path, &buckets, OffsetSpec::Latest)
            .await
            .context("list the latest offsets")?;
        let expected = ends.values().sum::<i64>() as usize;
        let table = connection.get_table(path).await?;
        let scanner = table.new_scan().create_log_scanner()?;
        for &bucket in &buckets {
            scanner.subscribe(bucket, EARLIEST_OFFSET).await?;
        }
        let start = Instant::now();
        let mut read = 0;
        while read < expected {
            ensure!(
                start.elapsed() < Duration::from_secs(60),
                "{path}: {read} of {expected} rows after 60 s"
            );
            read += poll(&scanner, path.table(), &mut stored).await?;
        }
    }
    Ok(stored)
}

/// Every row that was shown is still at its offset. Returns how many.
pub fn compare(seen: &Stored, stored: &Stored) -> Result<usize> {
    let mut count = 0;
    for (place, rows) in seen {
        let kept = stored.get(place).map_or(&[][..], Vec::as_slice);
        for (offset, row) in rows.iter().enumerate() {
            ensure!(
                kept.get(offset) == Some(row),
                "{place:?}, offset {offset}: a reader saw {row:?}, now there is {:?}",
                kept.get(offset)
            );
            count += 1;
        }
    }
    ensure!(count > 0, "the reader saw nothing");
    Ok(count)
}
