//! Merge engines: first row, versioned with each type of version, and
//! aggregation with the functions that this client can name: the default.

use anyhow::{Context, Result};
use fluss::client::{FlussConnection, FlussTable};
use fluss::metadata::{DataType, DataTypes, Schema};

use crate::changelog::{self, Change, deleted, inserted, updated};
use crate::keyed::{self, Op};
use crate::value::Value::{self, Int, Long, Null, Timestamp};
use crate::{check, table};

const ENGINE: &str = "table.merge-engine";
const VERSION: &str = "table.merge-engine.versioned.ver-column";
const DELETES: &str = "table.delete.behavior";
const IMAGE: &str = "table.changelog.image";
const INVALID_CONFIG: i32 = 39;

pub async fn run(connection: &FlussConnection) -> Result<()> {
    for image in ["FULL", "WAL"] {
        first_row(connection, image)
            .await
            .with_context(|| format!("first_row, {image}"))?;
    }
    versioned_types(connection).await.context("versioned")?;
    for image in ["FULL", "WAL"] {
        versioned(connection, image)
            .await
            .with_context(|| format!("versioned, {image}"))?;
    }
    aggregation(connection).await.context("aggregation")?;
    refused(connection).await
}

/// The server tells clients that deletes are ignored.
fn ignores_deletes(table: &FlussTable<'_>) -> Result<()> {
    check::equal(
        "delete behaviour that the server wrote down",
        &Some("IGNORE"),
        &table
            .get_table_info()
            .get_properties()
            .get(DELETES)
            .map(String::as_str),
    )
}

async fn first_row(connection: &FlussConnection, image: &str) -> Result<()> {
    let admin = connection.get_admin()?;
    let schema = Schema::builder()
        .column("a", DataTypes::int())
        .column("b", DataTypes::string())
        .primary_key(["a"])?
        .build()?;
    let table = keyed::create(
        connection,
        &format!("first_row_{image}"),
        schema,
        None,
        &[(ENGINE, "first_row"), (IMAGE, image)],
    )
    .await?;
    ignores_deletes(&table)?;
    let row = |a: i32, b: &str| vec![Int(a), Value::text(b)];
    keyed::upsert(&table, &[row(1, "v11"), row(2, "v21"), row(2, "v23")]).await?;
    for _ in 0..3 {
        keyed::upsert(&table, &[row(1, "later"), row(2, "later")]).await?;
    }
    keyed::apply(
        &table,
        None,
        &[
            Op::Upsert(row(2, "v22")),
            Op::Delete(row(1, "")),
            Op::Upsert(row(3, "v31")),
        ],
    )
    .await?;
    let expected = [
        inserted(&row(1, "v11")),
        inserted(&row(2, "v21")),
        inserted(&row(3, "v31")),
    ];
    changelog::expect(&admin, &table, &expected, &[&[1]]).await?;
    check::equal(
        "lookups",
        &vec![
            Some(row(1, "v11")),
            Some(row(2, "v21")),
            Some(row(3, "v31")),
        ],
        &keyed::lookup(&table, &[1, 2, 3].map(|id| vec![Int(id)])).await?,
    )?;
    check::passed(&format!("first_row, image {image}"));
    Ok(())
}

async fn versioned_table<'a>(
    connection: &'a FlussConnection,
    name: &str,
    version: DataType,
    image: &str,
) -> Result<FlussTable<'a>> {
    let schema = Schema::builder()
        .column("id", DataTypes::int())
        .column("version", version)
        .column("value", DataTypes::string())
        .primary_key(["id"])?
        .build()?;
    let properties = [(ENGINE, "versioned"), (VERSION, "version"), (IMAGE, image)];
    let table = keyed::create(connection, name, schema, None, &properties).await?;
    ignores_deletes(&table)?;
    Ok(table)
}

/// Of two writes the one with the higher version stays, of equal ones the later.
async fn versioned_types(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let second = 1_736_510_400_000;
    let cases: Vec<(&str, DataType, Vec<Value>)> = vec![
        (
            "int",
            DataTypes::int(),
            vec![Int(i32::MIN + 1), Int(-1), Int(0), Int(i32::MAX)],
        ),
        (
            "bigint",
            DataTypes::bigint(),
            vec![Long(i64::MIN + 1), Long(-1), Long(i64::MAX)],
        ),
        (
            "timestamp_3",
            DataTypes::timestamp_with_precision(3),
            vec![
                Timestamp(-1, 0),
                Timestamp(second, 0),
                Timestamp(second + 1, 0),
            ],
        ),
        (
            "timestamp_9",
            DataTypes::timestamp_with_precision(9),
            vec![
                Timestamp(-1, 5),
                Timestamp(second, 456_788),
                Timestamp(second, 456_789),
            ],
        ),
        (
            "timestamp_ltz_6",
            DataTypes::timestamp_ltz_with_precision(6),
            vec![
                Timestamp(second, 1_000),
                Timestamp(second, 2_000),
                Timestamp(second + 1, 0),
            ],
        ),
        (
            "timestamp_ltz_9",
            DataTypes::timestamp_ltz_with_precision(9),
            vec![
                Timestamp(second, 0),
                Timestamp(second, 1),
                Timestamp(second + 1, 0),
            ],
        ),
    ];
    for (name, data_type, versions) in cases {
        let table =
            versioned_table(connection, &format!("versioned_{name}"), data_type, "FULL").await?;
        let row = |version: &Value, value: &str| vec![Int(1), version.clone(), Value::text(value)];
        let mut stored: Option<(usize, Vec<Value>)> = None;
        let mut expected: Vec<Change> = Vec::new();
        // Null is the lowest version of all, and takes part like any other.
        let ranks: Vec<Value> = std::iter::once(Null).chain(versions).collect();
        let mut order: Vec<usize> = vec![0, 0];
        for high in 1..ranks.len() {
            order.extend([high, high - 1, high, 0]);
        }
        for (step, rank) in order.into_iter().enumerate() {
            let new = row(&ranks[rank], &format!("step {step}"));
            keyed::upsert(&table, std::slice::from_ref(&new)).await?;
            match &stored {
                None => expected.push(inserted(&new)),
                Some((old, _)) if *old > rank => continue,
                Some((_, before)) => expected.extend(updated(before, &new)),
            }
            stored = Some((rank, new));
        }
        changelog::expect(&admin, &table, &expected, &[])
            .await
            .with_context(|| format!("version {name}"))?;
        check::equal(
            "row that stayed",
            &vec![stored.map(|(_, row)| row)],
            &keyed::lookup(&table, &[vec![Int(1)]]).await?,
        )?;
    }
    check::passed("versioned: INT, BIGINT, TIMESTAMP and TIMESTAMP_LTZ, equal and null versions");
    Ok(())
}

async fn versioned(connection: &FlussConnection, image: &str) -> Result<()> {
    let admin = connection.get_admin()?;
    let name = format!("versioned_{image}");
    let table = versioned_table(connection, &name, DataTypes::bigint(), image).await?;
    let row = |id: i32, version: i64| vec![Int(id), Long(version), Value::text("x")];
    keyed::upsert(&table, &[row(0, 1000), row(1, 1000), row(2, 1000)]).await?;
    let losing: Vec<Vec<Value>> = (0..20).map(|_| row(0, 999)).collect();
    keyed::upsert(&table, &losing).await?;
    keyed::apply(
        &table,
        None,
        &[Op::Upsert(row(1, 1001)), Op::Delete(row(1, 0))],
    )
    .await?;
    let mut expected: Vec<Change> = (0..3).map(|id| inserted(&row(id, 1000))).collect();
    let update = updated(&row(1, 1000), &row(1, 1001));
    // The WAL image has no -U.
    expected.extend(update.into_iter().skip(usize::from(image == "WAL")));
    changelog::expect(&admin, &table, &expected, &[]).await?;
    check::passed(&format!(
        "versioned: losing writes and deletes, image {image}"
    ));
    Ok(())
}

/// Columns without a function keep their last value that is not null.
async fn aggregation(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let schema = || -> Result<Schema> {
        Ok(Schema::builder()
            .column("id", DataTypes::int())
            .column("email", DataTypes::string())
            .column("phone", DataTypes::string())
            .primary_key(["id"])?
            .build()?)
    };
    let text = |value: &str| match value {
        "" => Null,
        value => Value::text(value),
    };
    let row = |email: &str, phone: &str| vec![Int(1), text(email), text(phone)];
    let name = "aggregation_default";
    let table = keyed::create(
        connection,
        name,
        schema()?,
        None,
        &[(ENGINE, "aggregation")],
    )
    .await?;
    ignores_deletes(&table)?;
    for write in [
        Op::Upsert(row("user@", "123")),
        Op::Upsert(row("", "789")),
        Op::Upsert(row("new@", "")),
        Op::Delete(row("", "")),
    ] {
        keyed::apply(&table, None, &[write]).await?;
    }
    keyed::apply(&table, Some(&[0, 2]), &[Op::Upsert(row("ignored", "000"))]).await?;
    let mut expected = vec![inserted(&row("user@", "123"))];
    expected.extend(updated(&row("user@", "123"), &row("user@", "789")));
    expected.extend(updated(&row("user@", "789"), &row("new@", "789")));
    expected.extend(updated(&row("new@", "789"), &row("new@", "000")));
    changelog::expect(&admin, &table, &expected, &[&[2]]).await?;

    let name = "aggregation_deletes";
    let properties = [(ENGINE, "aggregation"), (DELETES, "ALLOW")];
    let table = keyed::create(connection, name, schema()?, None, &properties).await?;
    keyed::upsert(&table, &[row("a", "b")]).await?;
    keyed::apply(&table, Some(&[0, 1]), &[Op::Delete(row("", ""))]).await?;
    keyed::apply(&table, Some(&[0, 2]), &[Op::Delete(row("", ""))]).await?;
    keyed::upsert(&table, &[row("c", "")]).await?;
    keyed::delete(&table, &[row("", "")]).await?;
    let mut expected = vec![inserted(&row("a", "b"))];
    expected.extend(updated(&row("a", "b"), &row("", "b")));
    expected.extend([
        deleted(&row("", "b")),
        inserted(&row("c", "")),
        deleted(&row("c", "")),
    ]);
    changelog::expect(&admin, &table, &expected, &[]).await?;
    check::passed("aggregation: the default function, partial writes, deletes ignored and allowed");
    Ok(())
}

/// What cannot be is refused at creation.
async fn refused(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    for (what, properties) in [
        (
            "first_row that allows deletes",
            vec![(ENGINE, "first_row"), (DELETES, "ALLOW")],
        ),
        (
            "versioned without a version column",
            vec![(ENGINE, "versioned")],
        ),
        (
            "versioned by a column that is not there",
            vec![(ENGINE, "versioned"), (VERSION, "nothing")],
        ),
        (
            "versioned by a text",
            vec![(ENGINE, "versioned"), (VERSION, "text")],
        ),
        (
            "aggregation with the WAL image",
            vec![(ENGINE, "aggregation"), (IMAGE, "WAL")],
        ),
    ] {
        let schema = Schema::builder()
            .column("id", DataTypes::int())
            .column("text", DataTypes::string())
            .primary_key(["id"])?
            .build()?;
        let descriptor = properties
            .into_iter()
            .fold(
                fluss::metadata::TableDescriptor::builder().schema(schema),
                |builder, (key, value)| builder.property(key, value),
            )
            .build()?;
        let path = table::path("refused");
        check::fails_with(
            what,
            INVALID_CONFIG,
            admin.create_table(&path, &descriptor, false).await,
        )?;
    }
    check::passed("combinations that cannot be are refused");
    Ok(())
}
