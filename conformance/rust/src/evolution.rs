//! ADD COLUMN: old and new writers, old and new readers, and the new column
//! projected over batches that do not have it.

use anyhow::{Context, Result};
use fluss::client::{EARLIEST_OFFSET, FlussConnection, FlussTable};
use fluss::metadata::{
    AddColumn, AlterTableChanges, ColumnPositionType, DataType, DataTypes, JsonSerde, Schema,
    TableDescriptor, TablePath,
};
use fluss::row::GenericRow;
use std::time::{Duration, Instant};

use crate::value::Value;
use crate::{check, scan, table};

const INVALID_ALTER: i32 = 56;

pub async fn run(connection: &FlussConnection, server: &str) -> Result<()> {
    println!("add column");
    let admin = connection.get_admin()?;
    let path = table::path("evolving");
    let descriptor = TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("id", DataTypes::int().as_non_nullable())
                .column("name", DataTypes::string())
                .build()?,
        )
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    // The old reader and writer are another client: fluss-rs makes its batches
    // from the newest schema that its connection has heard of.
    let other = table::connect(server).await?;
    let old = other.get_table(&path).await?;
    let old_types = scan::types(&old);
    let old_scanner = old.new_scan().create_log_scanner()?;
    old_scanner.subscribe(0, EARLIEST_OFFSET).await?;
    let old_row = |id: i32| vec![Value::Int(id), Value::text(format!("old {id}"))];
    append(&old, &[old_row(0), old_row(1)]).await?;

    add_columns(
        connection,
        &path,
        &[("score", DataTypes::double()), ("tags", tags_type())],
    )
    .await?;
    check::fails_with(
        "add a column that is there",
        INVALID_ALTER,
        admin
            .alter_table(
                &path,
                false,
                AlterTableChanges {
                    add_columns: vec![add_column("name", &DataTypes::int())?],
                    ..AlterTableChanges::default()
                },
            )
            .await,
    )?;
    let new = connection.get_table(&path).await?;
    check::equal("schema id", &2, &new.get_table_info().get_schema_id())?;
    let new_row = |id: i32| {
        vec![
            Value::Int(id),
            Value::text(format!("new {id}")),
            Value::double(f64::from(id) / 2.0),
            Value::Array(vec![Value::Int(id), Value::Null]),
        ]
    };
    append(&new, &[new_row(2), new_row(3)]).await?;
    // The writer that knows the old schema only goes on.
    append(&old, &[old_row(4)])
        .await
        .context("the writer from before the change")?;
    append(&new, &[new_row(5)]).await?;

    let wide: Vec<Vec<Value>> = (0..6)
        .map(|id| match id {
            0 | 1 | 4 => {
                let mut row = old_row(id);
                row.extend([Value::Null, Value::Null]);
                row
            }
            _ => new_row(id),
        })
        .collect();
    let read = scan::table(&admin, &new, None).await?;
    rows_equal("new reader, all columns", &wide, &read)?;
    check::passed("new reader: old batches have nulls");

    for projection in [vec![2], vec![3], vec![3, 0], vec![2, 3], vec![3, 2, 1, 0]] {
        let read = scan::table(&admin, &new, Some(&projection))
            .await
            .with_context(|| format!("new reader, columns {projection:?}"))?;
        let expected: Vec<Vec<Value>> = wide
            .iter()
            .map(|row| projection.iter().map(|&c| row[c].clone()).collect())
            .collect();
        rows_equal(
            &format!("new reader, columns {projection:?}"),
            &expected,
            &read,
        )?;
    }
    check::passed("new reader: projection of added columns over old batches");

    let mut narrow = Vec::new();
    let start = Instant::now();
    while narrow.len() < wide.len() {
        check::that(
            "the reader from before the change gets all rows within 20 s",
            start.elapsed().as_secs() < 20,
        )?;
        narrow.extend(scan::poll(&old_scanner, &old_types).await?);
    }
    let expected: Vec<Vec<Value>> = wide.iter().map(|row| row[..2].to_vec()).collect();
    rows_equal("old reader", &expected, &narrow)?;
    check::passed("old reader and old writer go on");
    drop(old_scanner);
    other.close(Duration::from_secs(5)).await?;

    every_type(connection).await
}

/// A column of every type is added to one table, one after the other.
async fn every_type(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let path = table::path("growing");
    let descriptor = TableDescriptor::builder()
        .schema(Schema::builder().column("id", DataTypes::int()).build()?)
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    let first = connection.get_table(&path).await?;
    append(&first, &[vec![Value::Int(0)]]).await?;
    let columns = crate::columns::every_type();
    let added: Vec<(&str, DataType)> = columns
        .iter()
        .filter(|c| c.data_type.is_nullable())
        .map(|c| (c.name.as_str(), c.data_type.clone()))
        .collect();
    add_columns(connection, &path, &added).await?;
    let table = connection.get_table(&path).await?;
    let mut row = vec![Value::Int(1)];
    row.extend(
        columns
            .iter()
            .filter(|c| c.data_type.is_nullable())
            .map(|c| c.samples[0].clone()),
    );
    append(&table, std::slice::from_ref(&row)).await?;
    let mut old = vec![Value::Int(0)];
    old.resize(row.len(), Value::Null);
    let read = scan::table(&admin, &table, None).await?;
    rows_equal(
        "columns of every type added",
        &[old.clone(), row.clone()],
        &read,
    )?;
    for column in 1..row.len() {
        let read = scan::table(&admin, &table, Some(&[column, 0]))
            .await
            .with_context(|| format!("added column {}", added[column - 1].0))?;
        let expected: Vec<Vec<Value>> = [&old, &row]
            .iter()
            .map(|row| vec![row[column].clone(), row[0].clone()])
            .collect();
        rows_equal(
            &format!("added column {}", added[column - 1].0),
            &expected,
            &read,
        )?;
    }
    check::passed("columns of every type added, each projected over an old batch");
    Ok(())
}

fn tags_type() -> DataType {
    DataTypes::array(DataTypes::int())
}

fn add_column(name: &str, data_type: &DataType) -> Result<AddColumn> {
    Ok(AddColumn {
        column_name: name.to_string(),
        data_type_json: serde_json::to_vec(&data_type.serialize_json()?)?,
        comment: None,
        position: ColumnPositionType::Last,
    })
}

pub async fn add_columns(
    connection: &FlussConnection,
    path: &TablePath,
    columns: &[(&str, DataType)],
) -> Result<()> {
    let add_columns = columns
        .iter()
        .map(|(name, data_type)| add_column(name, data_type))
        .collect::<Result<Vec<_>>>()?;
    connection
        .get_admin()?
        .alter_table(
            path,
            false,
            AlterTableChanges {
                add_columns,
                ..AlterTableChanges::default()
            },
        )
        .await
        .context("add columns")
}

async fn append(table: &FlussTable<'_>, rows: &[Vec<Value>]) -> Result<()> {
    let types = scan::types(table);
    let writer = table.new_append()?.create_writer()?;
    for row in rows {
        let values = row
            .iter()
            .zip(&types)
            .map(|(value, data_type)| value.to_datum(data_type))
            .collect::<Result<Vec<_>>>()?;
        writer.append(&GenericRow { values })?;
    }
    Ok(writer.flush().await?)
}

fn rows_equal(what: &str, expected: &[Vec<Value>], read: &[scan::Read]) -> Result<()> {
    check::equal(&format!("{what}: rows"), &expected.len(), &read.len())?;
    for (expected, read) in expected.iter().zip(read) {
        check::equal(
            &format!("{what}: row {}", read.offset),
            expected,
            &read.cells,
        )?;
    }
    Ok(())
}
