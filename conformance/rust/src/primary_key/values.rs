//! Every data type as a value: inserted, updated, deleted; looked up, scanned
//! with a limit, read from the changelog whole and projected.

use anyhow::{Context, Result};
use fluss::client::FlussConnection;

use crate::changelog::{self, Change};
use crate::value::Value;
use crate::{check, columns, keyed, scan};

const VARIANTS: [(&str, &[(&str, &str)]); 4] = [
    ("values_default", &[]),
    (
        "values_none",
        &[("table.log.arrow.compression.type", "NONE")],
    ),
    (
        "values_lz4",
        &[("table.log.arrow.compression.type", "LZ4_FRAME")],
    ),
    (
        "values_zstd",
        &[("table.log.arrow.compression.type", "ZSTD")],
    ),
];

pub async fn run(connection: &FlussConnection) -> Result<()> {
    for (name, properties) in VARIANTS {
        one(connection, name, properties)
            .await
            .with_context(|| name.to_string())?;
        check::passed(&format!(
            "{name}: every type inserted, updated, deleted; lookups, limit scan, changelog"
        ));
    }
    Ok(())
}

async fn one(connection: &FlussConnection, name: &str, properties: &[(&str, &str)]) -> Result<()> {
    let admin = connection.get_admin()?;
    let columns = columns::every_type();
    let rows = columns::rows(&columns);
    let schema = columns::keyed_schema(&columns)?;
    let table = keyed::create(connection, name, schema, None, properties).await?;

    keyed::upsert(&table, &rows).await?;
    let keys: Vec<Vec<Value>> = rows.iter().map(|row| vec![row[0].clone()]).collect();
    found(&keys, &rows, &keyed::lookup(&table, &keys).await?)?;
    check::equal(
        "count of rows",
        &(rows.len() as i64),
        &keyed::count(&admin, &table).await?,
    )?;

    // Every row takes the values of its neighbour, so each type goes from each
    // sample to the next, and to null and back.
    let changed: Vec<Vec<Value>> = (0..rows.len())
        .map(|n| {
            let mut row = rows[(n + 1) % rows.len()].clone();
            row[0] = rows[n][0].clone();
            row
        })
        .collect();
    keyed::upsert(&table, &changed).await?;
    found(&keys, &changed, &keyed::lookup(&table, &keys).await?)?;

    // Key order is number order: ids are small and positive.
    let all = keyed::limit_scan(&table, None, 0, i32::MAX, None).await?;
    same_rows("limit scan of all rows", &changed, &all)?;
    let some = keyed::limit_scan(&table, None, 0, 5, None).await?;
    same_rows("limit scan of five rows", &changed[..5], &some)?;
    let last = columns.len();
    let narrow = keyed::limit_scan(&table, None, 0, 3, Some(&[last, 0])).await?;
    let expected: Vec<Vec<Value>> = changed[..3]
        .iter()
        .map(|row| vec![row[last].clone(), row[0].clone()])
        .collect();
    same_rows("limit scan of two columns", &expected, &narrow)?;

    keyed::delete(&table, &changed).await?;
    let none = vec![None; keys.len()];
    check::equal(
        "rows looked up after their deletion",
        &none,
        &keyed::lookup(&table, &keys).await?,
    )?;
    check::equal("count of rows", &0, &keyed::count(&admin, &table).await?)?;
    check::equal(
        "limit scan of a table whose rows are deleted",
        &0,
        &keyed::limit_scan(&table, None, 0, 5, None).await?.len(),
    )?;

    let mut expected: Vec<Change> = rows.iter().map(|row| changelog::inserted(row)).collect();
    for (before, after) in rows.iter().zip(&changed) {
        expected.extend(changelog::updated(before, after));
    }
    expected.extend(changed.iter().map(|row| changelog::deleted(row)));
    let reversed: Vec<usize> = (0..=last).rev().collect();
    let some: Vec<usize> = (0..=last).step_by(3).collect();
    check::equal("columns", &(last + 1), &scan::types(&table).len())?;
    changelog::expect(
        &admin,
        &table,
        &expected,
        &[&reversed, &some, &[last], &[0]],
    )
    .await
    .context("changelog")
}

/// Each key finds its row.
pub fn found(
    keys: &[Vec<Value>],
    expected: &[Vec<Value>],
    found: &[Option<Vec<Value>>],
) -> Result<()> {
    check::equal("lookups answered", &keys.len(), &found.len())?;
    for ((key, expected), found) in keys.iter().zip(expected).zip(found) {
        let found = found
            .as_ref()
            .with_context(|| format!("no row for the key {:.200}", format!("{key:?}")))?;
        same_row("row looked up", expected, found)?;
    }
    Ok(())
}

pub fn same_rows(what: &str, expected: &[Vec<Value>], read: &[Vec<Value>]) -> Result<()> {
    check::equal(&format!("{what}: rows"), &expected.len(), &read.len())?;
    for (expected, read) in expected.iter().zip(read) {
        same_row(what, expected, read)?;
    }
    Ok(())
}

fn same_row(what: &str, expected: &[Value], read: &[Value]) -> Result<()> {
    check::equal(&format!("{what}: columns"), &expected.len(), &read.len())?;
    for (column, (wanted, got)) in expected.iter().zip(read).enumerate() {
        let title = format!(
            "{what}: column {column} of {:.80}",
            format!("{:?}", expected[0])
        );
        check::equal(&title, wanted, got)?;
    }
    Ok(())
}
