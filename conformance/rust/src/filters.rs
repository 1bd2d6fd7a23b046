//! Filters pushed down to batch statistics: batches that cannot match stay on
//! the server, and the reader still gets past them.

use std::time::{Duration, Instant};

use anyhow::Result;
use fluss::client::{EARLIEST_OFFSET, FlussConnection};
use fluss::metadata::{DataTypes, Schema, TableDescriptor};
use fluss::predicate::{Predicate, col};
use fluss::row::GenericRow;

use crate::value::Value;
use crate::{check, scan, table};

/// Batches of ten rows: ids 0–9, 100–109, 200–209; the names of the second are
/// null.
const FIRST_IDS: [i32; 3] = [0, 100, 200];
const BATCH: i32 = 10;

pub async fn run(connection: &FlussConnection) -> Result<()> {
    println!("filters");
    let admin = connection.get_admin()?;
    let path = table::path("filtered");
    let descriptor = TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("id", DataTypes::int())
                .column("name", DataTypes::string())
                .column("price", DataTypes::decimal(10, 2))
                .build()?,
        )
        .property("table.statistics.columns", "*")
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    let table = connection.get_table(&path).await?;
    let writer = table.new_append()?.create_writer()?;
    let types = scan::types(&table);
    let append = async |first: i32| -> Result<()> {
        for id in first..first + BATCH {
            let name = match first {
                100 => Value::Null,
                _ => Value::text(format!("name {id:03}")),
            };
            let row = [Value::Int(id), name, Value::Decimal(i128::from(id) * 100)];
            let values = row
                .iter()
                .zip(&types)
                .map(|(value, data_type)| value.to_datum(data_type))
                .collect::<Result<Vec<_>>>()?;
            writer.append(&GenericRow { values })?;
        }
        Ok(writer.flush().await?)
    };
    for first in FIRST_IDS {
        append(first).await?;
    }
    let cases: [(&str, Predicate, &[i32]); 7] = [
        ("id >= 200", col("id").ge(200), &[200]),
        ("id < 105", col("id").lt(105), &[0, 100]),
        ("id = 150", col("id").eq(150), &[]),
        ("name is null", col("name").is_null(), &[100]),
        ("name is not null", col("name").is_not_null(), &[0, 200]),
        ("id in (3, 203)", col("id").is_in([3, 203]), &[0, 200]),
        (
            "id < 5 or name starts with 'name 20'",
            col("id").lt(5).or(col("name").starts_with("name 20")),
            &[0, 200],
        ),
    ];
    for (what, predicate, batches) in cases {
        let scanner = table.new_scan().filter(predicate)?.create_log_scanner()?;
        scanner.subscribe(0, EARLIEST_OFFSET).await?;
        let expected: Vec<i32> = batches
            .iter()
            .flat_map(|&first| first..first + BATCH)
            .collect();
        let mut ids = Vec::new();
        let start = Instant::now();
        while ids.len() < expected.len() && start.elapsed().as_secs() < 20 {
            ids.extend(poll_ids(&scanner).await?);
        }
        // Nothing else may follow.
        ids.extend(poll_ids(&scanner).await?);
        check::equal(what, &expected, &ids)?;
    }
    check::passed("batches without a match stay on the server");

    let scanner = table
        .new_scan()
        .filter(col("id").ge(300))?
        .project(&[0])?
        .create_log_scanner()?;
    scanner.subscribe(0, EARLIEST_OFFSET).await?;
    check::equal(
        "rows that match nothing",
        &0,
        &poll_ids(&scanner).await?.len(),
    )?;
    append(300).await?;
    let mut ids = Vec::new();
    let start = Instant::now();
    while ids.len() < BATCH as usize && start.elapsed().as_secs() < 20 {
        ids.extend(poll_ids(&scanner).await?);
    }
    check::equal(
        "rows that arrive behind a range without a match",
        &(300..300 + BATCH).collect(),
        &ids,
    )?;
    check::passed("the reader gets past what does not match");
    Ok(())
}

async fn poll_ids(scanner: &fluss::client::LogScanner) -> Result<Vec<i32>> {
    use fluss::row::DataGetters;
    let mut ids = Vec::new();
    for record in scanner.poll(Duration::from_millis(200)).await? {
        ids.push(record.row().get_int(0)?);
    }
    Ok(ids)
}
