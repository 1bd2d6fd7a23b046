//! Lookups while the server is killed again and again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fluss::client::FlussTable;
use fluss::row::{DataGetters, GenericRow};
use mainstem_conformance::table;

use super::{Kind, Plan, TABLES, path, table_of};
use crate::ledger::Ledger;

/// Looks up keys that were written just now, until the writers stop: each must
/// hold what was acknowledged before the question, or something attempted
/// before the answer. Returns the number of lookups.
pub async fn follow(
    address: String,
    first_account: usize,
    plan: Plan,
    ledger: Arc<Ledger>,
) -> Result<u64> {
    let connection = table::connect(&address).await?;
    let mut tables = Vec::new();
    for number in 0..3 {
        tables.push(connection.get_table(&path(table_of(number))).await?);
    }
    let mut lookups = 0;
    let mut turn = 0;
    while !ledger.stop.load(Ordering::SeqCst) {
        // The writers of whole rows: each key is one writer's.
        let number = turn % 3;
        turn += 1;
        let account = first_account + number;
        let acknowledged = ledger.acknowledged(account);
        if acknowledged == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        let id = plan.write(Kind::Upserts, number, acknowledged - 1).id;
        // A question may be lost with the server; then it is asked again.
        let asked = tokio::time::timeout(Duration::from_secs(2), version(&tables[number], id));
        let Ok(Ok(found)) = asked.await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let attempted = ledger.attempted(account);
        let mut state = None;
        let mut possible = Vec::new();
        for (sequence, write) in plan.writes(Kind::Upserts, number, attempted) {
            if sequence == acknowledged {
                possible.push(state);
            }
            if write.id == id {
                state = (!write.delete).then_some(sequence);
                if sequence >= acknowledged {
                    possible.push(state);
                }
            }
        }
        if attempted <= acknowledged {
            possible.push(state);
        }
        ensure!(
            possible.contains(&found),
            "{}, key {id}: version {found:?} was looked up where one of {possible:?} was due, \
             with {acknowledged} writes acknowledged before and {attempted} attempted after",
            table_of(number).name
        );
        lookups += 1;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    Ok(lookups)
}

async fn version(table: &FlussTable<'_>, id: i64) -> Result<Option<i64>> {
    let mut lookuper = table.new_lookup()?.create_lookuper()?;
    let mut key = GenericRow::new(1);
    key.set_field(0, id);
    let found = lookuper.lookup(&key).await?;
    Ok(match found.get_single_row()? {
        Some(row) => Some(row.get_long(2)?),
        None => None,
    })
}

/// Waits until a client that starts now gets an answer to a lookup.
pub async fn first_lookup(address: &str, since: Instant, within: Duration) -> Result<Duration> {
    loop {
        let attempt = async {
            let connection = table::connect(address).await?;
            let table = connection.get_table(&path(&TABLES[0])).await?;
            let mut lookuper = table.new_lookup()?.create_lookuper()?;
            let mut key = GenericRow::new(1);
            key.set_field(0, 0_i64);
            lookuper.lookup(&key).await?.get_single_row()?;
            anyhow::Ok(())
        };
        let outcome = tokio::time::timeout(Duration::from_secs(1), attempt)
            .await
            .context("no answer within a second")
            .and_then(|outcome| outcome);
        match outcome {
            Ok(()) => return Ok(since.elapsed()),
            Err(error) => ensure!(
                since.elapsed() < within,
                "no lookup answered {within:?} after the start: {error:#}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
