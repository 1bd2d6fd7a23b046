//! Partitioned primary-key tables: the same key in two partitions is two rows;
//! partitions by text, number, date and more.

use std::collections::HashMap;

use anyhow::{Context, Result};
use fluss::client::{FlussConnection, FlussTable};
use fluss::metadata::{DataType, DataTypes, PartitionSpec, Schema, TableDescriptor};

use super::values::same_rows;
use crate::changelog::{self, deleted, inserted, updated};
use crate::keyed;
use crate::value::Value::{self, Date, Int, Null};
use crate::{check, table};

const BUCKETS: i32 = 2;

pub async fn run(connection: &FlussConnection) -> Result<()> {
    two_keys(connection)
        .await
        .context("partitions by two keys")?;
    for (name, data_type, values) in [
        (
            "int",
            DataTypes::int(),
            [("-7", Int(-7)), ("2147483647", Int(i32::MAX))],
        ),
        (
            "boolean",
            DataTypes::boolean(),
            [("true", Value::Bool(true)), ("false", Value::Bool(false))],
        ),
        (
            "date",
            DataTypes::date(),
            [("2024-02-29", Date(19_782)), ("1969-12-31", Date(-1))],
        ),
        (
            "bytes",
            DataTypes::bytes(),
            [
                ("00ff", Value::Bytes(vec![0, 255])),
                ("7f", Value::Bytes(vec![127])),
            ],
        ),
        (
            "bigint",
            DataTypes::bigint(),
            [
                ("-9223372036854775808", Value::Long(i64::MIN)),
                ("0", Value::Long(0)),
            ],
        ),
    ] {
        by_type(connection, name, data_type, &values)
            .await
            .with_context(|| format!("partitions by {name}"))?;
    }
    check::passed("partitions by INT, BIGINT, BOOLEAN, DATE, BYTES");
    Ok(())
}

async fn create<'a>(
    connection: &'a FlussConnection,
    name: &str,
    schema: Schema,
    keys: &[&str],
    partitions: &[&[&str]],
) -> Result<FlussTable<'a>> {
    let admin = connection.get_admin()?;
    let path = table::path(name);
    let descriptor = TableDescriptor::builder()
        .schema(schema)
        .partitioned_by(keys.to_vec())
        .distributed_by(Some(BUCKETS), vec![])
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    let buckets: Vec<i32> = (0..BUCKETS).collect();
    for values in partitions {
        let spec: HashMap<&str, &str> = keys.iter().copied().zip(values.iter().copied()).collect();
        admin
            .create_partition(&path, &PartitionSpec::new(spec), false)
            .await?;
        table::wait_for_partition(&admin, &path, &values.join("$"), &buckets).await?;
    }
    Ok(connection.get_table(&path).await?)
}

async fn two_keys(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    // The partition columns stand inside the key, and not in front.
    let schema = Schema::builder()
        .column("region", DataTypes::string())
        .column("id", DataTypes::int())
        .column("amount", DataTypes::decimal(12, 2))
        .column("day", DataTypes::string())
        .column("note", DataTypes::string())
        .primary_key(["id", "day", "region"])?
        .build()?;
    let places = [["d1", "eu"], ["d1", "us"], ["d2", "eu"]];
    let partitions: Vec<&[&str]> = places.iter().map(|place| &place[..]).collect();
    let table = create(
        connection,
        "keyed_parts",
        schema,
        &["day", "region"],
        &partitions,
    )
    .await?;
    let row = |place: [&str; 2], id: i32, note: &str| {
        vec![
            Value::text(place[1]),
            Int(id),
            Value::Decimal(i128::from(id) * 100),
            Value::text(place[0]),
            if note.is_empty() {
                Null
            } else {
                Value::text(note)
            },
        ]
    };
    let key =
        |place: [&str; 2], id: i32| vec![Int(id), Value::text(place[0]), Value::text(place[1])];
    let mut rows = Vec::new();
    for id in 0..30 {
        rows.extend(places.map(|place| row(place, id, "first")));
    }
    keyed::upsert(&table, &rows).await?;
    keyed::upsert(&table, &[row(places[0], 3, "")]).await?;
    keyed::delete(&table, &[row(places[1], 3, "")]).await?;
    check::equal(
        "one key in three partitions, one without that row and one that is not there",
        &vec![
            Some(row(places[0], 3, "")),
            None,
            Some(row(places[2], 3, "first")),
            None,
        ],
        &keyed::lookup(
            &table,
            &[
                key(places[0], 3),
                key(places[1], 3),
                key(places[2], 3),
                key(["d9", "eu"], 3),
            ],
        )
        .await?,
    )?;
    let reads = changelog::read(&admin, &table, 30 * 3 + 3, None).await?;
    let folded = changelog::fold(&reads, &keyed::key_columns(&table))?;
    check::equal("rows of the changelog", &(30 * 3 - 1), &folded.len())?;
    for place in places {
        let got: Vec<changelog::Change> = reads
            .iter()
            .filter(|read| {
                read.cells[1] == Int(3)
                    && read.cells[0] == Value::text(place[1])
                    && read.cells[3] == Value::text(place[0])
            })
            .map(|read| changelog::Change {
                kind: read.change,
                row: read.cells.clone(),
            })
            .collect();
        let first = row(place, 3, "first");
        let mut expected = vec![inserted(&first)];
        if place == places[0] {
            expected.extend(updated(&first, &row(place, 3, "")));
        } else if place == places[1] {
            expected.push(deleted(&first));
        }
        check::equal(&format!("changes of key 3 in {place:?}"), &expected, &got)?;
    }
    let info = admin.list_partition_infos(table.table_path()).await?;
    let mut scanned = 0;
    for partition in &info {
        for bucket in 0..BUCKETS {
            let id = Some(partition.get_partition_id());
            scanned += keyed::limit_scan(&table, id, bucket, 1000, None)
                .await?
                .len();
        }
    }
    check::equal("rows of all limit scans", &(30 * 3 - 1), &scanned)?;

    // A dropped partition takes its rows with it, and comes back empty.
    let spec = || PartitionSpec::new(HashMap::from([("day", "d2"), ("region", "eu")]));
    admin
        .drop_partition(table.table_path(), &spec(), false)
        .await?;
    admin
        .create_partition(table.table_path(), &spec(), false)
        .await?;
    let buckets: Vec<i32> = (0..BUCKETS).collect();
    table::wait_for_partition(&admin, table.table_path(), "d2$eu", &buckets).await?;
    let again = connection.get_table(table.table_path()).await?;
    let second = row(places[2], 4, "second life");
    keyed::upsert(&again, std::slice::from_ref(&second)).await?;
    check::equal(
        "lookups in a partition created again",
        &vec![None, Some(second)],
        &keyed::lookup(&again, &[key(places[2], 3), key(places[2], 4)]).await?,
    )?;
    check::passed("two partition keys: lookups, changelog, limit scans, drop and create again");
    Ok(())
}

async fn by_type(
    connection: &FlussConnection,
    name: &str,
    data_type: DataType,
    values: &[(&str, Value)],
) -> Result<()> {
    let schema = Schema::builder()
        .column("p", data_type)
        .column("a", DataTypes::string())
        .column("b", DataTypes::int())
        .column("v", DataTypes::double())
        .primary_key(["p", "a", "b"])?
        .build()?;
    let specs: Vec<[&str; 1]> = values.iter().map(|(text, _)| [*text]).collect();
    let partitions: Vec<&[&str]> = specs.iter().map(|spec| &spec[..]).collect();
    let name = format!("keyed_by_{name}");
    let table = create(connection, &name, schema, &["p"], &partitions).await?;
    let rows: Vec<Vec<Value>> = values
        .iter()
        .flat_map(|(_, value)| {
            (0..4).map(|n| {
                vec![
                    value.clone(),
                    Value::text("k"),
                    Int(n),
                    Value::double(f64::from(n)),
                ]
            })
        })
        .collect();
    keyed::upsert(&table, &rows).await?;
    let keys: Vec<Vec<Value>> = rows.iter().map(|row| row[..3].to_vec()).collect();
    let found: Vec<Vec<Value>> = keyed::lookup(&table, &keys)
        .await?
        .into_iter()
        .flatten()
        .collect();
    same_rows("lookups", &rows, &found)
}
