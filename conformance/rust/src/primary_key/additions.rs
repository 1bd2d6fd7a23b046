//! Columns that the server fills by itself, and columns added later.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use fluss::client::FlussConnection;
use fluss::metadata::{DataTypes, Schema};

use super::values::same_rows;
use crate::changelog::{self, Change, deleted, inserted, updated};
use crate::evolution::add_columns;
use crate::keyed::{self, Op};
use crate::value::Value::{self, Int, Long, Null};
use crate::{check, table};

const CACHE: &str = "table.auto-increment.cache-size";

pub async fn run(connection: &FlussConnection, server: &str) -> Result<()> {
    auto_increment(connection).await.context("auto-increment")?;
    auto_increment_in_buckets(connection)
        .await
        .context("auto-increment in several buckets")?;
    add_column(connection, server).await.context("ADD COLUMN")?;
    add_every_type(connection)
        .await
        .context("ADD COLUMN of every type")
}

async fn auto_increment(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    for (name, data_type, number) in [
        ("numbered_int", DataTypes::int(), Int as fn(i32) -> Value),
        ("numbered_bigint", DataTypes::bigint(), |n| Long(n.into())),
    ] {
        let schema = Schema::builder()
            .column("key", DataTypes::string())
            .column("uid", data_type)
            .column("note", DataTypes::string())
            .primary_key(["key"])?
            .enable_auto_increment("uid")?
            .build()?;
        let table = keyed::create(connection, name, schema, None, &[(CACHE, "5")]).await?;
        let put = async |keys: &str, note: &str| {
            let writes: Vec<Op> = keys
                .chars()
                .map(|key| Op::Upsert(vec![Value::text(key), Null, Value::text(note)]))
                .collect();
            keyed::apply(&table, Some(&[0, 2]), &writes).await
        };
        let row =
            |key: &str, id: i32, note: &str| vec![Value::text(key), number(id), Value::text(note)];
        put("abcde", "one").await?;
        put("de", "two").await?;
        put("fghijkl", "three").await?;
        keyed::apply(
            &table,
            Some(&[0, 2]),
            &[Op::Delete(vec![Value::text("a"), Null, Null])],
        )
        .await?;
        let mut expected: Vec<Change> = Vec::new();
        for (id, key) in ["a", "b", "c", "d", "e"].iter().enumerate() {
            expected.push(inserted(&row(key, id as i32 + 1, "one")));
        }
        expected.extend(updated(&row("d", 4, "one"), &row("d", 4, "two")));
        expected.extend(updated(&row("e", 5, "one"), &row("e", 5, "two")));
        for (id, key) in ["f", "g", "h", "i", "j", "k", "l"].iter().enumerate() {
            expected.push(inserted(&row(key, id as i32 + 6, "three")));
        }
        // The number is none of the columns deleted, so the row stays.
        expected.extend(updated(
            &row("a", 1, "one"),
            &[Value::text("a"), number(1), Null],
        ));
        changelog::expect(&admin, &table, &expected, &[&[1]]).await?;
    }
    check::passed("auto-increment: INT and BIGINT, numbers kept by updates, ranges of 5");
    Ok(())
}

async fn auto_increment_in_buckets(connection: &FlussConnection) -> Result<()> {
    let schema = Schema::builder()
        .column("key", DataTypes::int())
        .column("uid", DataTypes::bigint())
        .primary_key(["key"])?
        .enable_auto_increment("uid")?
        .build()?;
    let name = "numbered_buckets";
    let table = keyed::create(connection, name, schema, Some((4, &[])), &[(CACHE, "10")]).await?;
    let writes: Vec<Op> = (0..400).map(|id| Op::Upsert(vec![Int(id), Null])).collect();
    keyed::apply(&table, Some(&[0]), &writes).await?;
    let keys: Vec<Vec<Value>> = (0..400).map(|id| vec![Int(id)]).collect();
    let first = keyed::lookup(&table, &keys).await?;
    let mut numbers = HashSet::new();
    for row in first.iter().flatten() {
        check::that(
            &format!("{row:?}: a number that no other row has"),
            matches!(row[1], Long(n) if n > 0) && numbers.insert(row[1].clone()),
        )?;
    }
    check::equal("numbered rows", &400, &numbers.len())?;
    keyed::apply(&table, Some(&[0]), &writes).await?;
    check::equal(
        "numbers after a second write of all keys",
        &first,
        &keyed::lookup(&table, &keys).await?,
    )?;
    check::passed("auto-increment: 400 numbers in 4 buckets, none twice");
    Ok(())
}

/// Old rows read with nulls; an old partial writer leaves new columns alone,
/// an old full writer empties them.
async fn add_column(connection: &FlussConnection, server: &str) -> Result<()> {
    let admin = connection.get_admin()?;
    let path = table::path("keyed_evolving");
    let schema = Schema::builder()
        .column("a", DataTypes::int())
        .column("b", DataTypes::string())
        .column("c", DataTypes::string())
        .primary_key(["a"])?
        .build()?;
    keyed::create(connection, "keyed_evolving", schema, None, &[]).await?;
    // Another client: fluss-rs writes with the newest schema that its
    // connection has heard of.
    let other = table::connect(server).await?;
    let old = other.get_table(&path).await?;
    let narrow = |a: i32, b: &str, c: &str| vec![Int(a), Value::text(b), Value::text(c)];
    let wide = |a: i32, b: &str, c: Value, d: Value| vec![Int(a), Value::text(b), c, d];
    let c = || Value::text("c");
    let d = Value::double(0.5);
    let rows: Vec<Vec<Value>> = (1..=5).map(|a| narrow(a, "b", "c")).collect();
    keyed::upsert(&old, &rows).await?;
    add_columns(connection, &path, &[("d", DataTypes::double())]).await?;
    let table = connection.get_table(&path).await?;
    check::equal("schema id", &2, &table.get_table_info().get_schema_id())?;
    let keys: Vec<Vec<Value>> = (1..=5).map(|a| vec![Int(a)]).collect();
    let mut now: Vec<Vec<Value>> = (1..=5).map(|a| wide(a, "b", c(), Null)).collect();
    let check_all = async |what: &str, now: &[Vec<Value>]| -> Result<()> {
        let found = keyed::lookup(&table, &keys).await?;
        let found: Vec<Vec<Value>> = found.into_iter().flatten().collect();
        same_rows(&format!("{what}: lookups"), now, &found)?;
        let scanned = keyed::limit_scan(&table, None, 0, 100, None).await?;
        same_rows(&format!("{what}: limit scan"), now, &scanned)
    };
    check_all("old rows", &now).await?;
    let mut expected: Vec<Change> = now.iter().map(|row| inserted(row)).collect();
    let set = |now: &mut Vec<Vec<Value>>, expected: &mut Vec<Change>, row: Vec<Value>| {
        let Value::Int(a) = row[0] else { return };
        let place = &mut now[a as usize - 1];
        expected.extend(updated(place, &row));
        *place = row;
    };

    // A new writer: full, then partial over an old row.
    keyed::upsert(&table, &[wide(1, "new", c(), d.clone())]).await?;
    set(&mut now, &mut expected, wide(1, "new", c(), d.clone()));
    let partial = [Op::Upsert(wide(2, "", Null, d.clone()))];
    keyed::apply(&table, Some(&[0, 3]), &partial).await?;
    set(&mut now, &mut expected, wide(2, "b", c(), d.clone()));
    check_all("after a new writer", &now).await?;

    // Old writers: partial update, partial delete, full.
    let partial = [Op::Upsert(narrow(2, "old", ""))];
    keyed::apply(&old, Some(&[0, 1]), &partial).await?;
    set(&mut now, &mut expected, wide(2, "old", c(), d.clone()));
    keyed::apply(&old, Some(&[0, 2]), &[Op::Delete(narrow(3, "", ""))]).await?;
    set(&mut now, &mut expected, wide(3, "b", Null, Null));
    keyed::upsert(&old, &[narrow(1, "old", "c")]).await?;
    set(&mut now, &mut expected, wide(1, "old", c(), Null));
    check_all("after the old writer", &now).await?;

    let seen = keyed::lookup(&old, &keys).await?;
    let cut: Vec<Option<Vec<Value>>> = now.iter().map(|row| Some(row[..3].to_vec())).collect();
    check::equal("lookups of the old client", &cut, &seen)?;

    keyed::delete(&table, &[now[3].clone()]).await?;
    expected.push(deleted(&now[3]));
    changelog::expect(&admin, &table, &expected, &[&[3], &[3, 0]]).await?;
    let narrow: Vec<Change> = expected
        .iter()
        .map(|change| Change {
            kind: change.kind,
            row: change.row[..3].to_vec(),
        })
        .collect();
    changelog::expect(&admin, &old, &narrow, &[])
        .await
        .context("changelog, read by the old client")?;
    other.close(Duration::from_secs(5)).await?;
    check::passed("ADD COLUMN: old rows, old and new writers, old and new readers");
    Ok(())
}

async fn add_every_type(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let schema = Schema::builder()
        .column("id", DataTypes::int())
        .primary_key(["id"])?
        .build()?;
    let first = keyed::create(connection, "keyed_growing", schema, None, &[]).await?;
    keyed::upsert(&first, &[vec![Int(0)], vec![Int(1)]]).await?;
    let columns: Vec<_> = crate::columns::every_type()
        .into_iter()
        .filter(|column| column.data_type.is_nullable())
        .collect();
    let added: Vec<_> = columns
        .iter()
        .map(|column| (column.name.as_str(), column.data_type.clone()))
        .collect();
    let path = table::path("keyed_growing");
    add_columns(connection, &path, &added).await?;
    let table = connection.get_table(&path).await?;
    let old = |id: i32| {
        let mut row = vec![Int(id)];
        row.resize(columns.len() + 1, Null);
        row
    };
    let mut full = vec![Int(0)];
    full.extend(columns.iter().map(|column| column.samples[0].clone()));
    keyed::upsert(&table, std::slice::from_ref(&full)).await?;
    // One column of row 1.
    let mut one = old(1);
    let middle = columns.len() / 2;
    one[middle] = columns[middle - 1].samples[0].clone();
    keyed::apply(&table, Some(&[0, middle]), &[Op::Upsert(one.clone())]).await?;
    let mut expected = vec![inserted(&old(0)), inserted(&old(1))];
    expected.extend(updated(&old(0), &full));
    expected.extend(updated(&old(1), &one));
    changelog::expect(&admin, &table, &expected, &[&[middle, 0]]).await?;
    check::equal(
        "lookups",
        &vec![Some(full), Some(one)],
        &keyed::lookup(&table, &[vec![Int(0)], vec![Int(1)]]).await?,
    )?;
    check::passed("ADD COLUMN of every type: old rows updated whole and in part");
    Ok(())
}
