//! One writer: idempotent, with its own connection, never made anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use fluss::client::{FlussConnection, WriteResultFuture};
use fluss::metadata::TablePath;
use fluss::row::GenericRow;
use mainstem_conformance::table;

use crate::ledger::Ledger;

/// Rows that wait for their acknowledgement: enough for several batches in
/// flight, few enough that a blocked writer stops soon.
const PENDING: usize = 128;

/// Appends until the ledger says stop, then waits for the last rows.
pub async fn run(
    address: String,
    path: TablePath,
    number: usize,
    ledger: Arc<Ledger>,
) -> Result<()> {
    let mut config = table::config(&address);
    config.writer_batch_timeout_ms = 2;
    config.writer_enable_idempotence = true;
    let connection = FlussConnection::new(config)
        .await
        .with_context(|| format!("writer {number}: connect"))?;
    let table = connection.get_table(&path).await?;
    let writer = table.new_append()?.create_writer()?;
    let filler = "x".repeat(60);
    let mut pending: VecDeque<(i64, WriteResultFuture)> = VecDeque::new();
    while !ledger.stop.load(Ordering::SeqCst) {
        while pending.len() >= PENDING {
            settle(&mut pending, number, &ledger).await?;
        }
        let sequence = ledger.next(number);
        let mut row = GenericRow::new(3);
        row.set_field(0, number as i32);
        row.set_field(1, sequence);
        row.set_field(2, filler.as_str());
        loop {
            match writer.append(&row) {
                Ok(result) => {
                    pending.push_back((sequence, result));
                    break;
                }
                Err(error) if forgot_the_table(&error) => {
                    ledger.not_taken.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    // Refreshes what the connection knows; the writer stays.
                    let _ = connection.get_table(&path).await;
                }
                Err(error) => {
                    ledger.write_error(number, sequence, &error);
                    return Ok(());
                }
            }
        }
        if sequence % 8 == 0 {
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }
    while !pending.is_empty() {
        settle(&mut pending, number, &ledger).await?;
    }
    Ok(())
}

/// When no server answers, fluss-rs 1.0.0 asks its bootstrap server for the
/// cluster and forgets the tables it knew; it asks for them again only if rows
/// wait to be sent. Until then it takes no rows and says that the table is not
/// there. Nothing was queued or sent: the table is asked for, and the row is
/// offered again. (A table that is gone shows as a return that takes too long.)
pub fn forgot_the_table(error: &fluss::error::Error) -> bool {
    error.to_string().contains("Table not found")
}

pub async fn settle(
    pending: &mut VecDeque<(i64, WriteResultFuture)>,
    number: usize,
    ledger: &Ledger,
) -> Result<()> {
    if let Some((sequence, result)) = pending.pop_front() {
        match result.await {
            Ok(()) => ledger.acknowledge(number, sequence)?,
            Err(error) => ledger.write_error(number, sequence, &error),
        }
    }
    Ok(())
}
