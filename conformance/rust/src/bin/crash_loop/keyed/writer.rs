//! One writer of a table with a primary key: idempotent, with its own
//! connection, never made anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use fluss::client::{FlussConnection, UpsertWriter, WriteResultFuture};
use fluss::row::GenericRow;
use mainstem_conformance::table;

use super::{Kind, Plan, Write, path, table_of};
use crate::ledger::Ledger;
use crate::writer::{forgot_the_table, settle};

/// Writes that wait for their acknowledgement.
const PENDING: usize = 64;

/// Writes until the ledger says stop, then waits for the last rows. In the
/// ledger the writer has the number `account`.
pub async fn run(
    address: String,
    number: usize,
    account: usize,
    plan: Plan,
    ledger: Arc<Ledger>,
) -> Result<()> {
    let kind = table_of(number).kind;
    let path = path(table_of(number));
    let mut config = table::config(&address);
    config.writer_batch_timeout_ms = 2;
    config.writer_enable_idempotence = true;
    let connection = FlussConnection::new(config)
        .await
        .with_context(|| format!("writer {account}: connect"))?;
    let table = connection.get_table(&path).await?;
    let upsert = table.new_upsert()?;
    let targets: Option<Vec<usize>> = match kind {
        Kind::Upserts => None,
        Kind::Halves => Some(vec![0, half(number)]),
        Kind::Numbered => Some(vec![0, 2]),
    };
    let writer = upsert.partial_update(targets)?.create_writer()?;
    let mut pending: VecDeque<(i64, WriteResultFuture)> = VecDeque::new();
    while !ledger.stop.load(Ordering::SeqCst) {
        while pending.len() >= PENDING {
            settle(&mut pending, account, &ledger).await?;
        }
        let sequence = ledger.next(account);
        let write = plan.write(kind, number, sequence);
        loop {
            match send(&writer, kind, number, sequence, write) {
                Ok(result) => {
                    pending.push_back((sequence, result));
                    break;
                }
                Err(error) if forgot_the_table(&error) => {
                    ledger.not_taken.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    let _ = connection.get_table(&path).await;
                }
                Err(error) => {
                    ledger.write_error(account, sequence, &error);
                    return Ok(());
                }
            }
        }
        if sequence % 8 == 0 {
            tokio::time::sleep(Duration::from_millis(8)).await;
        }
    }
    while !pending.is_empty() {
        settle(&mut pending, account, &ledger).await?;
    }
    Ok(())
}

/// The column of a writer of halves.
pub fn half(number: usize) -> usize {
    1 + number % 2
}

fn send(
    writer: &UpsertWriter,
    kind: Kind,
    number: usize,
    sequence: i64,
    write: Write,
) -> fluss::error::Result<WriteResultFuture> {
    let mut row = GenericRow::new(if kind == Kind::Upserts { 4 } else { 3 });
    row.set_field(0, write.id);
    if write.delete {
        return writer.delete(&row);
    }
    match kind {
        Kind::Upserts => {
            row.set_field(1, number as i32);
            row.set_field(2, sequence);
            row.set_field(3, filler(sequence));
        }
        Kind::Halves => row.set_field(half(number), sequence),
        Kind::Numbered => row.set_field(2, sequence),
    }
    writer.upsert(&row)
}

/// Of a length that changes, so that rows differ in size.
pub fn filler(sequence: i64) -> String {
    "x".repeat((sequence % 97) as usize)
}
