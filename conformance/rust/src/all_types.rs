//! Every data type, in every compression and with statistics: appended row by
//! row and as Arrow batches, read whole and projected, every value compared.

use anyhow::{Context, Result};
use fluss::client::{EARLIEST_OFFSET, FlussAdmin, FlussConnection, FlussTable};
use fluss::metadata::TableDescriptor;
use fluss::row::GenericRow;
use fluss::rpc::message::OffsetSpec;

use crate::columns::{self, Column};
use crate::value::Value;
use crate::{check, scan, table};

const VARIANTS: [(&str, &[(&str, &str)]); 5] = [
    ("every_type_default", &[]),
    (
        "every_type_none",
        &[("table.log.arrow.compression.type", "NONE")],
    ),
    (
        "every_type_lz4",
        &[("table.log.arrow.compression.type", "LZ4_FRAME")],
    ),
    (
        "every_type_zstd",
        &[("table.log.arrow.compression.type", "ZSTD")],
    ),
    (
        "every_type_statistics",
        &[("table.statistics.columns", "*")],
    ),
];

pub async fn run(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let columns = columns::every_type();
    let rows = columns::rows(&columns);
    println!(
        "every type: {} columns, {} rows, {} tables",
        columns.len() + 1,
        rows.len(),
        VARIANTS.len()
    );
    for (name, properties) in VARIANTS {
        create(&admin, name, &columns, properties).await?;
        let table = connection.get_table(&table::path(name)).await?;
        check::equal(
            "schema that the server returns",
            &schema_text(&columns),
            &scan::types(&table)
                .iter()
                .map(ToString::to_string)
                .collect(),
        )?;
        append_rows(&table, &rows).await?;
        whole(&admin, &table, &columns, &rows)
            .await
            .with_context(|| format!("{name}: all columns"))?;
        projected(&admin, &table, &columns, &rows)
            .await
            .with_context(|| format!("{name}: projection"))?;
        check::passed(&format!("{name}: rows, all columns, projections"));
    }
    arrow_copy(connection, &admin, &columns, &rows).await
}

fn schema_text(columns: &[Column]) -> Vec<String> {
    std::iter::once("BIGINT NOT NULL".to_string())
        .chain(columns.iter().map(|c| c.data_type.to_string()))
        .collect()
}

async fn create(
    admin: &FlussAdmin,
    name: &str,
    columns: &[Column],
    properties: &[(&str, &str)],
) -> Result<()> {
    let descriptor = properties
        .iter()
        .fold(
            TableDescriptor::builder().schema(columns::schema(columns)?),
            |builder, (key, value)| builder.property(*key, *value),
        )
        .build()?;
    table::create(admin, &table::path(name), &descriptor).await
}

async fn append_rows(table: &FlussTable<'_>, rows: &[Vec<Value>]) -> Result<()> {
    let types = scan::types(table);
    let writer = table.new_append()?.create_writer()?;
    // Each half in its own batch, so that reads cross a batch border.
    for half in rows.chunks(rows.len().div_ceil(2)) {
        for row in half {
            let values = row
                .iter()
                .zip(&types)
                .map(|(value, data_type)| value.to_datum(data_type))
                .collect::<Result<Vec<_>>>()?;
            writer.append(&GenericRow { values })?;
        }
        writer.flush().await?;
    }
    Ok(())
}

async fn whole(
    admin: &FlussAdmin,
    table: &FlussTable<'_>,
    columns: &[Column],
    rows: &[Vec<Value>],
) -> Result<()> {
    let all: Vec<usize> = (0..=columns.len()).collect();
    let read = scan::table(admin, table, None).await?;
    compare(&read, &all, columns, rows)
}

/// Each column alone, all in reverse, every other one, and the first between
/// two later ones.
async fn projected(
    admin: &FlussAdmin,
    table: &FlussTable<'_>,
    columns: &[Column],
    rows: &[Vec<Value>],
) -> Result<()> {
    let last = columns.len();
    let mut projections: Vec<Vec<usize>> = (0..=last).map(|column| vec![column]).collect();
    projections.push((0..=last).rev().collect());
    projections.push((0..=last).step_by(2).collect());
    projections.push(vec![last, 0, last / 2]);
    for projection in projections {
        let read = scan::table(admin, table, Some(&projection)).await?;
        compare(&read, &projection, columns, rows)
            .with_context(|| format!("columns {projection:?}"))?;
    }
    Ok(())
}

fn compare(
    read: &[scan::Read],
    projection: &[usize],
    columns: &[Column],
    rows: &[Vec<Value>],
) -> Result<()> {
    check::equal("rows", &rows.len(), &read.len())?;
    for (row, read) in rows.iter().zip(read) {
        for (cell, &column) in read.cells.iter().zip(projection) {
            let name = match column {
                0 => "id",
                other => &columns[other - 1].name,
            };
            check::equal(
                &format!("column {name} of row {}", read.offset),
                &row[column],
                cell,
            )?;
        }
    }
    Ok(())
}

/// Reads one table as Arrow batches, appends these to another one, reads that.
async fn arrow_copy(
    connection: &FlussConnection,
    admin: &FlussAdmin,
    columns: &[Column],
    rows: &[Vec<Value>],
) -> Result<()> {
    const COPY: &str = "every_type_arrow";
    create(
        admin,
        COPY,
        columns,
        &[("table.log.arrow.compression.type", "LZ4_FRAME")],
    )
    .await?;
    let source_path = table::path("every_type_default");
    let source = connection.get_table(&source_path).await?;
    let end = admin
        .list_offsets(&source_path, &[0], OffsetSpec::Latest)
        .await?[&0];
    let copy = connection.get_table(&table::path(COPY)).await?;
    let writer = copy.new_append()?.create_writer()?;
    let scanner = source.new_scan().create_record_batch_log_scanner()?;
    scanner.subscribe(0, EARLIEST_OFFSET).await?;
    let mut copied = 0;
    let start = std::time::Instant::now();
    while copied < end {
        check::that(
            "the Arrow batches arrive within 20 s",
            start.elapsed().as_secs() < 20,
        )?;
        for batch in scanner.poll(std::time::Duration::from_millis(200)).await? {
            check::equal("base offset of a batch", &copied, &batch.base_offset())?;
            copied += batch.num_records() as i64;
            writer.append_arrow_batch(batch.into_batch())?;
        }
    }
    writer.flush().await?;
    whole(admin, &copy, columns, rows)
        .await
        .context("copied as Arrow batches")?;
    projected_arrow(&copy, columns, end).await?;
    check::passed("Arrow batches: read, appended again, projected");
    Ok(())
}

/// Projected Arrow batches have the projected schema, in the asked order.
async fn projected_arrow(copy: &FlussTable<'_>, columns: &[Column], end: i64) -> Result<()> {
    let last = columns.len();
    let wanted = [last, 3, 0];
    let scanner = copy
        .new_scan()
        .project(&wanted)?
        .create_record_batch_log_scanner()?;
    scanner.subscribe(0, EARLIEST_OFFSET).await?;
    let names: Vec<&str> = wanted
        .iter()
        .map(|&c| if c == 0 { "id" } else { &columns[c - 1].name })
        .collect();
    let mut read = 0;
    let start = std::time::Instant::now();
    while read < end {
        check::that(
            "the projected Arrow batches arrive within 20 s",
            start.elapsed().as_secs() < 20,
        )?;
        for batch in scanner.poll(std::time::Duration::from_millis(200)).await? {
            let batch = batch.into_batch();
            let schema = batch.schema();
            let got: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            check::equal("columns of a projected batch", &names, &got)?;
            read += batch.num_rows() as i64;
        }
    }
    check::equal("rows of the projected batches", &end, &read)
}

/// The log formats that this client does not write.
pub fn not_tried() {
    check::cannot(
        "fluss-rs 1.0.0 writes and reads ARROW logs only: INDEXED and COMPACTED are tried by the Java client",
    );
    check::cannot(
        "fluss-rs 1.0.0 writes ZSTD at level 3 only: another level is tried by the Java client",
    );
}
