//! The final comparison of tables with a primary key: changelog, lookups and
//! the plan of the writers agree.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use fluss::client::FlussConnection;
use fluss::record::ChangeType;
use mainstem_conformance::scan::Read;
use mainstem_conformance::value::Value::{self, Int, Long, Null};
use mainstem_conformance::{changelog, keyed};

use super::writer::{filler, half};
use super::{Kind, Plan, TABLES, Table, path};
use crate::ledger::Ledger;

/// What was compared.
#[derive(Default)]
pub struct Compared {
    pub keys: usize,
    pub rows: usize,
    pub changes: usize,
}

/// All tables. All writers have waited for their last write, so each did what
/// it attempted, no more and no less.
pub async fn everything(
    connection: &FlussConnection,
    first_account: usize,
    plan: Plan,
    ledger: &Ledger,
) -> Result<Compared> {
    let admin = connection.get_admin()?;
    let mut compared = Compared::default();
    for table in &TABLES {
        let check = async {
            let handle = connection.get_table(&path(table)).await?;
            let reads = changelog::to_the_end(&admin, &handle).await?;
            // Every −U and −D shows the row before it, no +I finds one.
            let rows = changelog::fold(&reads, &[0])?;
            let by_key = by_key(&reads)?;
            let counts: Vec<i64> = table
                .writers
                .iter()
                .map(|&writer| ledger.attempted(first_account + writer))
                .collect();
            let keys = match table.kind {
                Kind::Upserts => upserts(table, plan, &counts, &by_key, &rows)?,
                Kind::Halves => halves(table, plan, &counts, &by_key, &rows)?,
                Kind::Numbered => numbered(table, plan, &counts, &by_key, &rows)?,
            };
            for id in by_key.keys() {
                ensure!(keys.contains(id), "key {id} was never written");
            }
            let mut asked: Vec<Vec<Value>> = keys.iter().map(|id| vec![Long(*id)]).collect();
            // And one that is not there.
            asked.push(vec![Long(i64::MAX)]);
            let found = keyed::lookup(&handle, &asked).await?;
            for (key, found) in asked.iter().zip(&found) {
                ensure!(
                    rows.get(key) == found.as_ref(),
                    "key {key:?}: the lookup found {found:?}, the changelog leaves {:?}",
                    rows.get(key)
                );
            }
            compared.keys += keys.len();
            compared.rows += rows.len();
            compared.changes += reads.len();
            anyhow::Ok(())
        };
        check
            .await
            .with_context(|| format!("table {}", table.name))?;
    }
    Ok(compared)
}

/// The changes of every key, in order: all changes of a key are in one bucket.
fn by_key(reads: &[Read]) -> Result<HashMap<i64, Vec<&Read>>> {
    let mut keys: HashMap<i64, Vec<&Read>> = HashMap::new();
    for read in reads {
        let id = long(&read.cells[0])?;
        let changes = keys.entry(id).or_default();
        if let Some(first) = changes.first() {
            ensure!(
                first.bucket == read.bucket,
                "key {id} is in buckets {} and {}",
                first.bucket,
                read.bucket
            );
        }
        changes.push(read);
    }
    Ok(keys)
}

fn long(value: &Value) -> Result<i64> {
    match value {
        Long(value) => Ok(*value),
        other => bail!("{other:?} where a BIGINT was due"),
    }
}

/// Each key has exactly the changes that its writer's writes make.
fn upserts(
    table: &Table,
    plan: Plan,
    counts: &[i64],
    by_key: &HashMap<i64, Vec<&Read>>,
    rows: &HashMap<Vec<Value>, Vec<Value>>,
) -> Result<HashSet<i64>> {
    let full = table.property.is_none();
    let mut expected: HashMap<i64, Vec<(ChangeType, i64)>> = HashMap::new();
    let mut stored: HashMap<i64, i64> = HashMap::new();
    let mut keys = HashSet::new();
    for (&writer, &count) in table.writers.iter().zip(counts) {
        for (version, write) in plan.writes(table.kind, writer, count) {
            keys.insert(write.id);
            let changes = expected.entry(write.id).or_default();
            if write.delete {
                if let Some(old) = stored.remove(&write.id) {
                    changes.push((ChangeType::Delete, old));
                }
                continue;
            }
            match stored.insert(write.id, version) {
                // The WAL image calls every upsert an update, and shows no row before.
                _ if !full => changes.push((ChangeType::UpdateAfter, version)),
                None => changes.push((ChangeType::Insert, version)),
                Some(old) => changes.extend([
                    (ChangeType::UpdateBefore, old),
                    (ChangeType::UpdateAfter, version),
                ]),
            }
        }
    }
    for id in &keys {
        let got: Vec<(ChangeType, i64)> = by_key
            .get(id)
            .into_iter()
            .flatten()
            .map(|read| Ok((read.change, long(&read.cells[2])?)))
            .collect::<Result<_>>()?;
        let wanted = &expected[id];
        if let Some(at) = (0..wanted.len().max(got.len())).find(|&at| wanted.get(at) != got.get(at))
        {
            bail!(
                "key {id}, change {at} of {}: {:?} where {:?} was due",
                got.len(),
                got.get(at),
                wanted.get(at)
            );
        }
        let row = stored.get(id).map(|&version| {
            let writer = (*id / 1_000_000) as i32;
            vec![
                Long(*id),
                Int(writer),
                Long(version),
                Value::text(filler(version)),
            ]
        });
        same(*id, row.as_ref(), rows)?;
    }
    Ok(keys)
}

fn same(
    id: i64,
    wanted: Option<&Vec<Value>>,
    rows: &HashMap<Vec<Value>, Vec<Value>>,
) -> Result<()> {
    let left = rows.get(&vec![Long(id)]);
    ensure!(
        left == wanted,
        "key {id}: the changelog leaves {left:?}, the writers {wanted:?}"
    );
    Ok(())
}

/// Each half shows its writer's versions in their order, each of them once.
fn halves(
    table: &Table,
    plan: Plan,
    counts: &[i64],
    by_key: &HashMap<i64, Vec<&Read>>,
    rows: &HashMap<Vec<Value>, Vec<Value>>,
) -> Result<HashSet<i64>> {
    let mut last: HashMap<i64, [Value; 2]> = HashMap::new();
    for (&writer, &count) in table.writers.iter().zip(counts) {
        let column = half(writer);
        let mut versions: HashMap<i64, Vec<i64>> = HashMap::new();
        for (version, write) in plan.writes(table.kind, writer, count) {
            let row = last.entry(write.id).or_insert([Null, Null]);
            row[column - 1] = if write.delete { Null } else { Long(version) };
            let written = versions.entry(write.id).or_default();
            if !write.delete {
                written.push(version);
            }
        }
        for (id, written) in &versions {
            let mut shown: Vec<i64> = Vec::new();
            for read in by_key.get(id).into_iter().flatten() {
                let is_new = matches!(read.change, ChangeType::Insert | ChangeType::UpdateAfter);
                if let (true, Long(version)) = (is_new, &read.cells[column])
                    && shown.last() != Some(version)
                {
                    shown.push(*version);
                }
            }
            ensure!(
                shown == *written,
                "key {id}, column {column}: the changelog shows the versions {shown:?}, written were {written:?}"
            );
        }
    }
    for (id, [left, right]) in &last {
        let empty = *left == Null && *right == Null;
        let row = (!empty).then(|| vec![Long(*id), left.clone(), right.clone()]);
        same(*id, row.as_ref(), rows)?;
    }
    Ok(last.into_keys().collect())
}

/// Each key has one number for all its life, which no other key has.
fn numbered(
    table: &Table,
    plan: Plan,
    counts: &[i64],
    by_key: &HashMap<i64, Vec<&Read>>,
    rows: &HashMap<Vec<Value>, Vec<Value>>,
) -> Result<HashSet<i64>> {
    let mut versions: HashMap<i64, Vec<i64>> = HashMap::new();
    for (&writer, &count) in table.writers.iter().zip(counts) {
        for (version, write) in plan.writes(table.kind, writer, count) {
            versions.entry(write.id).or_default().push(version);
        }
    }
    let mut owners: HashMap<i64, i64> = HashMap::new();
    for (id, written) in &versions {
        let mut shown = Vec::new();
        let mut numbers = HashSet::new();
        for read in by_key.get(id).into_iter().flatten() {
            numbers.insert(long(&read.cells[1])?);
            if read.change != ChangeType::UpdateBefore {
                shown.push(long(&read.cells[2])?);
            }
        }
        ensure!(
            shown == *written,
            "key {id}: the changelog shows the versions {shown:?}, written were {written:?}"
        );
        ensure!(numbers.len() == 1, "key {id} has the numbers {numbers:?}");
        for number in numbers {
            if let Some(other) = owners.insert(number, *id) {
                bail!("the keys {id} and {other} have the same number {number}");
            }
            let row = vec![Long(*id), Long(number), Long(written[written.len() - 1])];
            same(*id, Some(&row), rows)?;
        }
    }
    Ok(versions.into_keys().collect())
}
