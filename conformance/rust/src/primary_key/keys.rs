//! Every legal type as a key, alone, all together, and under the key encodings
//! of the lake formats.

use anyhow::{Context, Result};
use fluss::client::FlussConnection;
use fluss::metadata::{DataType, DataTypes, Schema};

use super::values::found;
use crate::changelog::{self, Change};
use crate::columns::{self, Column};
use crate::value::Value;
use crate::{check, keyed};

const INVALID_TABLE: i32 = 15;
const FORMAT: &str = "table.datalake.format";

pub async fn run(connection: &FlussConnection) -> Result<()> {
    let scalars = columns::scalars();
    for column in &scalars {
        alone(connection, "key", column, &[]).await?;
    }
    check::passed(&format!(
        "{} key types: insert, lookup, update, delete, changelog",
        scalars.len()
    ));
    nested_types_are_refused(connection).await?;
    together(connection, &scalars).await?;
    // Lance has the default encoding.
    for format in ["paimon", "iceberg"] {
        let mut tried = 0;
        for column in &scalars {
            // One precision of each class is enough.
            let name = column.name.as_str();
            if name.ends_with("_1")
                || ["decimal_1_0", "decimal_18_18", "decimal_38_38"].contains(&name)
            {
                continue;
            }
            if format == "iceberg" && !iceberg_takes(&column.data_type) {
                continue;
            }
            let column = if format == "iceberg" {
                as_iceberg_has_it(column)
            } else {
                column.clone()
            };
            alone(connection, format, &column, &[(FORMAT, format)]).await?;
            tried += 1;
        }
        check::passed(&format!("{tried} key types under the encoding of {format}"));
    }
    check::cannot(
        "under Iceberg's encoding fluss-rs 1.0.0 takes no BOOLEAN, TINYINT, SMALLINT, TIMESTAMP_LTZ and no empty text as a key, and cuts timestamps to microseconds",
    );
    Ok(())
}

fn iceberg_takes(data_type: &DataType) -> bool {
    !matches!(
        data_type,
        DataType::Boolean(_)
            | DataType::TinyInt(_)
            | DataType::SmallInt(_)
            | DataType::TimestampLTz(_)
    )
}

/// Iceberg's encoding of an empty text is no byte, and fluss-rs refuses a
/// bucket key without a byte. Its timestamps have microseconds.
fn as_iceberg_has_it(column: &Column) -> Column {
    let mut column = column.clone();
    column.samples.retain(|sample| match sample {
        Value::Text(text) => !text.is_empty(),
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::Timestamp(_, nanoseconds) => nanoseconds % 1_000 == 0,
        _ => true,
    });
    column
}

/// A table whose key is one column, with each of its samples as a key.
async fn alone(
    connection: &FlussConnection,
    prefix: &str,
    column: &Column,
    properties: &[(&str, &str)],
) -> Result<()> {
    let name = format!("{prefix}_{}", column.name);
    one_key(connection, &name, column, properties)
        .await
        .with_context(|| format!("{name}: {} as key {properties:?}", column.data_type))
}

async fn one_key(
    connection: &FlussConnection,
    name: &str,
    column: &Column,
    properties: &[(&str, &str)],
) -> Result<()> {
    let admin = connection.get_admin()?;
    // The key stands behind the value: its position must not matter.
    let schema = Schema::builder()
        .column("v", DataTypes::int())
        .column("k", column.data_type.as_non_nullable())
        .primary_key(["k"])?
        .build()?;
    let table = keyed::create(connection, name, schema, Some((3, &[])), properties).await?;
    let keys: Vec<Vec<Value>> = column
        .samples
        .iter()
        .filter(|sample| **sample != Value::Null)
        .map(|sample| vec![sample.clone()])
        .collect();
    let row = |n: usize, round: i32| vec![Value::Int(round * 100 + n as i32), keys[n][0].clone()];
    let first: Vec<_> = (0..keys.len()).map(|n| row(n, 0)).collect();
    let second: Vec<_> = (0..keys.len()).map(|n| row(n, 1)).collect();
    let nothing = vec![None; keys.len()];
    check::equal(
        "lookups in an empty table",
        &nothing,
        &keyed::lookup(&table, &keys).await?,
    )?;
    keyed::upsert(&table, &first).await?;
    found(&keys, &first, &keyed::lookup(&table, &keys).await?)?;
    keyed::upsert(&table, &second).await?;
    found(&keys, &second, &keyed::lookup(&table, &keys).await?)?;
    keyed::delete(&table, &second[..1]).await?;
    let mut left: Vec<Option<Vec<Value>>> = second.iter().cloned().map(Some).collect();
    left[0] = None;
    check::equal(
        "lookups after one deletion",
        &left,
        &keyed::lookup(&table, &keys).await?,
    )?;
    let reads = changelog::read(&admin, &table, 3 * keys.len() + 1, None).await?;
    for n in 0..keys.len() {
        let got: Vec<Change> = reads
            .iter()
            .filter(|read| read.cells[1] == keys[n][0])
            .map(|read| Change {
                kind: read.change,
                row: read.cells.clone(),
            })
            .collect();
        let mut expected = vec![changelog::inserted(&first[n])];
        expected.extend(changelog::updated(&first[n], &second[n]));
        if n == 0 {
            expected.push(changelog::deleted(&second[n]));
        }
        check::equal(&format!("changes of key {n}"), &expected, &got)?;
    }
    let mut scanned = 0;
    for bucket in 0..3 {
        scanned += keyed::limit_scan(&table, None, bucket, 1000, None)
            .await?
            .len();
    }
    check::equal("rows of all limit scans", &(keys.len() - 1), &scanned)
}

async fn nested_types_are_refused(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    for (name, data_type) in [
        ("array", DataTypes::array(DataTypes::int())),
        ("map", DataTypes::map(DataTypes::int(), DataTypes::int())),
        ("row", DataTypes::row(vec![])),
    ] {
        let descriptor = fluss::metadata::TableDescriptor::builder()
            .schema(
                Schema::builder()
                    .column("k", data_type)
                    .primary_key(["k"])?
                    .build()?,
            )
            .build()?;
        let path = crate::table::path(&format!("key_{name}"));
        check::fails_with(
            &format!("a key of type {name}"),
            INVALID_TABLE,
            admin.create_table(&path, &descriptor, false).await,
        )?;
    }
    check::passed("nested types are refused as keys");
    Ok(())
}

/// One key of all types, in an order that is not the schema's.
async fn together(connection: &FlussConnection, scalars: &[Column]) -> Result<()> {
    let admin = connection.get_admin()?;
    let mut builder = Schema::builder().column("v", DataTypes::string());
    for column in scalars {
        builder = builder.column(&column.name, column.data_type.as_non_nullable());
    }
    let order: Vec<String> = scalars.iter().rev().map(|c| c.name.clone()).collect();
    let schema = builder.primary_key(order)?.build()?;
    let table = keyed::create(connection, "key_of_all_types", schema, Some((2, &[])), &[]).await?;
    let samples: Vec<Vec<&Value>> = scalars
        .iter()
        .map(|c| c.samples.iter().filter(|s| **s != Value::Null).collect())
        .collect();
    let rows: Vec<Vec<Value>> = (0..12)
        .map(|n| {
            std::iter::once(Value::text(format!("row {n}")))
                .chain(samples.iter().map(|s| s[n % s.len()].clone()))
                .collect()
        })
        .collect();
    let keys: Vec<Vec<Value>> = rows
        .iter()
        .map(|row| row[1..].iter().rev().cloned().collect())
        .collect();
    keyed::upsert(&table, &rows).await?;
    found(&keys, &rows, &keyed::lookup(&table, &keys).await?)?;
    // The same key but for its last column is another key.
    let mut missing = keys[0].clone();
    let last = missing.len() - 1;
    missing[last] = Value::Bool(missing[last] == Value::Bool(false));
    check::equal(
        "a key that differs in its last column",
        &vec![None],
        &keyed::lookup(&table, &[missing]).await?,
    )?;
    let reads = changelog::read(&admin, &table, rows.len(), None).await?;
    let folded = changelog::fold(&reads, &keyed::key_columns(&table))?;
    for (key, row) in keys.iter().zip(&rows) {
        check::equal("row of the changelog", &Some(row), &folded.get(key))?;
    }
    keyed::delete(&table, &rows).await?;
    check::equal("count of rows", &0, &keyed::count(&admin, &table).await?)?;
    check::passed("one key of all types");
    Ok(())
}
