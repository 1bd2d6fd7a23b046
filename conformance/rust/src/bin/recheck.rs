//! `recheck HOST:PORT DATABASE FILE`: every table with a primary key in the
//! database is the fold of its changelog, finds each of its rows by key, and no
//! more than them in limit scans.
//!
//! Notes what it found in FILE; if FILE is there already, it must say the same.
//! So a run before a restart of the server and one after it compare the two.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use fluss::client::{FlussAdmin, FlussTable};
use fluss::metadata::TablePath;
use mainstem_conformance::value::Value;
use mainstem_conformance::{changelog, check, keyed, table};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, database, file] = arguments.as_slice() else {
        eprintln!("usage: recheck HOST:PORT DATABASE FILE");
        return ExitCode::from(2);
    };
    match run(server, database, Path::new(file)).await {
        Ok(summary) => {
            println!("recheck: {summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("recheck: WRONG: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(server: &str, database: &str, file: &Path) -> Result<String> {
    let connection = table::connect(server).await?;
    let admin = connection.get_admin()?;
    let mut names = admin.list_tables(database).await?;
    names.sort();
    let mut report = String::new();
    let (mut tables, mut rows) = (0, 0);
    for name in names {
        let table = connection
            .get_table(&TablePath::new(database, name.as_str()))
            .await?;
        if !table.has_primary_key() {
            continue;
        }
        let (count, line) = one(&admin, &table)
            .await
            .with_context(|| format!("table {name}"))?;
        writeln!(report, "{name} {line}")?;
        tables += 1;
        rows += count;
    }
    check::that("there are tables with a primary key", tables > 0)?;
    let verdict = if file.exists() {
        let before =
            std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        for (before, now) in before.lines().zip(report.lines()) {
            check::equal("what was noted before", before, now)?;
        }
        check::equal(
            "tables noted before",
            &before.lines().count(),
            &report.lines().count(),
        )?;
        "the same as before"
    } else {
        std::fs::write(file, &report).with_context(|| format!("write {}", file.display()))?;
        "noted"
    };
    Ok(format!("{tables} tables, {rows} rows, {verdict}"))
}

async fn one(admin: &FlussAdmin, table: &FlussTable<'_>) -> Result<(usize, String)> {
    let reads = changelog::to_the_end(admin, table).await?;
    let rows = changelog::fold(&reads, &keyed::key_columns(table))?;
    let mut keys: Vec<Vec<Value>> = rows.keys().cloned().collect();
    // Deleted keys must find nothing.
    for read in &reads {
        let key: Vec<Value> = keyed::key_columns(table)
            .iter()
            .map(|&column| read.cells[column].clone())
            .collect();
        if !rows.contains_key(&key) {
            keys.push(key);
        }
    }
    let found = keyed::lookup(table, &keys).await?;
    for (key, found) in keys.iter().zip(&found) {
        check::equal(
            &format!("row of the key {:.200}", format!("{key:?}")),
            &rows.get(key),
            &found.as_ref(),
        )?;
    }
    let info = table.get_table_info();
    let partitions: Vec<Option<i64>> = if info.is_partitioned() {
        let infos = admin.list_partition_infos(info.get_table_path()).await?;
        infos
            .iter()
            .map(|partition| Some(partition.get_partition_id()))
            .collect()
    } else {
        vec![None]
    };
    let mut scanned = 0;
    for partition in partitions {
        for bucket in 0..info.get_num_buckets() {
            scanned += keyed::limit_scan(table, partition, bucket, i32::MAX, None)
                .await?
                .len();
        }
    }
    check::equal("rows of all limit scans", &rows.len(), &scanned)?;
    let digest = rows.values().fold(0, |sum: u64, row| {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        sum.wrapping_add(hasher.finish())
    });
    let line = format!("{} rows {digest:016x}, {} changes", rows.len(), reads.len());
    Ok((rows.len(), line))
}
