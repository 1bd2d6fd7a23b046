//! What each write leaves in the changelog: images, deletes, delete
//! behaviours, partial updates and partial deletes.

use anyhow::{Context, Result};
use fluss::client::FlussConnection;
use fluss::metadata::{DataTypes, Schema};

use crate::changelog::{self, Change, after, deleted, inserted, updated};
use crate::keyed::{self, Op};
use crate::value::Value::{self, Int, Null};
use crate::{check, table};

const IMAGE: &str = "table.changelog.image";
const DELETES: &str = "table.delete.behavior";
const DELETION_DISABLED: i32 = 57;
const INVALID_TABLE: i32 = 15;

pub async fn run(connection: &FlussConnection, server: &str) -> Result<()> {
    full_image(connection).await.context("image FULL")?;
    wal_image(connection).await.context("image WAL")?;
    many_rounds(connection).await.context("many rounds")?;
    partial(connection).await.context("partial updates")?;
    partial_wal(connection).await.context("partial, WAL")?;
    delete_behaviours(connection, server)
        .await
        .context("deletes")
}

fn two(a: i32, b: &str) -> Vec<Value> {
    vec![Int(a), Value::text(b)]
}

fn three(a: i32, b: Option<&str>, c: Option<&str>) -> Vec<Value> {
    let text = |value: Option<&str>| value.map_or(Null, Value::text);
    vec![Int(a), text(b), text(c)]
}

fn two_columns() -> Result<Schema> {
    Ok(Schema::builder()
        .column("a", DataTypes::int())
        .column("b", DataTypes::string())
        .primary_key(["a"])?
        .build()?)
}

fn three_columns() -> Result<Schema> {
    Ok(Schema::builder()
        .column("a", DataTypes::int())
        .column("b", DataTypes::string())
        .column("c", DataTypes::string())
        .primary_key(["a"])?
        .build()?)
}

async fn full_image(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let table = keyed::create(connection, "changes_full", two_columns()?, None, &[]).await?;
    // Within one batch later rows see earlier ones.
    keyed::apply(
        &table,
        None,
        &[
            Op::Upsert(two(1, "v11")),
            Op::Upsert(two(2, "v21")),
            Op::Upsert(two(2, "v23")),
        ],
    )
    .await?;
    keyed::apply(
        &table,
        None,
        &[
            Op::Upsert(two(2, "v22")),
            Op::Upsert(two(1, "v21")),
            Op::Delete(two(1, "")),
        ],
    )
    .await?;
    // No change, no record; an equal row is a change.
    keyed::delete(&table, &[two(1, ""), two(42, "")]).await?;
    keyed::upsert(&table, &[two(2, "v22")]).await?;
    keyed::upsert(&table, &[two(1, "back")]).await?;
    let mut expected = vec![inserted(&two(1, "v11")), inserted(&two(2, "v21"))];
    expected.extend(updated(&two(2, "v21"), &two(2, "v23")));
    expected.extend(updated(&two(2, "v23"), &two(2, "v22")));
    expected.extend(updated(&two(1, "v11"), &two(1, "v21")));
    expected.push(deleted(&two(1, "v21")));
    expected.extend(updated(&two(2, "v22"), &two(2, "v22")));
    expected.push(inserted(&two(1, "back")));
    changelog::expect(&admin, &table, &expected, &[&[1], &[1, 0]]).await?;
    check::equal("count of rows", &2, &keyed::count(&admin, &table).await?)?;
    check::passed("image FULL: +I, -U +U, -D, deletes of nothing, equal rows");
    Ok(())
}

async fn wal_image(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let table = keyed::create(
        connection,
        "changes_wal",
        two_columns()?,
        None,
        &[(IMAGE, "WAL")],
    )
    .await?;
    keyed::upsert(&table, &[two(1, "v11"), two(2, "v21")]).await?;
    keyed::upsert(&table, &[two(1, "v12"), two(2, "v22")]).await?;
    keyed::delete(&table, &[two(1, "")]).await?;
    keyed::delete(&table, &[two(1, ""), two(3, "")]).await?;
    let expected = [
        after(&two(1, "v11")),
        after(&two(2, "v21")),
        after(&two(1, "v12")),
        after(&two(2, "v22")),
        deleted(&two(1, "v12")),
    ];
    changelog::expect(&admin, &table, &expected, &[&[1]]).await?;
    check::equal(
        "lookups",
        &vec![None, Some(two(2, "v22"))],
        &keyed::lookup(&table, &[vec![Int(1)], vec![Int(2)]]).await?,
    )?;
    let info = table.get_table_info();
    let stats = admin
        .get_table_stats(
            info.get_table_id(),
            vec![fluss::metadata::BucketStatsRequest::new(None, 0)],
            vec![],
        )
        .await?;
    check::equal(
        "error of a count of rows",
        &vec![Some(INVALID_TABLE)],
        &stats
            .buckets
            .iter()
            .map(|bucket| bucket.error.as_ref().map(|error| error.code))
            .collect(),
    )?;
    check::passed("image WAL: +U and -D only, no count of rows");
    Ok(())
}

/// Rounds of ten inserts, five updates and a delete, in several buckets.
async fn many_rounds(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let table = keyed::create(
        connection,
        "changes_many",
        two_columns()?,
        Some((3, &[])),
        &[],
    )
    .await?;
    let mut rows = std::collections::HashMap::new();
    for round in 0..20 {
        let first = round * 10;
        let mut writes = Vec::new();
        for id in first..first + 10 {
            writes.push(Op::Upsert(two(id, "new")));
            rows.insert(vec![Int(id)], two(id, "new"));
        }
        for id in first..first + 5 {
            writes.push(Op::Upsert(two(id, "changed")));
            rows.insert(vec![Int(id)], two(id, "changed"));
        }
        writes.push(Op::Delete(two(first + 9, "")));
        rows.remove(&vec![Int(first + 9)]);
        keyed::apply(&table, None, &writes).await?;
    }
    let reads = changelog::read(&admin, &table, 20 * 21, None).await?;
    check::equal(
        "table made of the changelog",
        &rows,
        &changelog::fold(&reads, &[0])?,
    )?;
    let keys: Vec<Vec<Value>> = rows.keys().cloned().collect();
    let expected: Vec<_> = keys.iter().map(|key| rows.get(key).cloned()).collect();
    check::equal("lookups", &expected, &keyed::lookup(&table, &keys).await?)?;
    check::equal(
        "count of rows",
        &(rows.len() as i64),
        &keyed::count(&admin, &table).await?,
    )?;
    check::passed("20 rounds of inserts, updates and deletes in 3 buckets");
    Ok(())
}

async fn partial(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let table = keyed::create(connection, "partial_full", three_columns()?, None, &[]).await?;
    let row = three;
    let put = async |targets: &[usize], rows: &[Vec<Value>]| {
        let writes: Vec<Op> = rows.iter().cloned().map(Op::Upsert).collect();
        keyed::apply(&table, Some(targets), &writes).await
    };
    put(
        &[0],
        &[row(1, None, None), row(2, None, None), row(2, None, None)],
    )
    .await?;
    put(
        &[0, 1],
        &[
            row(1, Some("v11"), None),
            row(2, Some("v21"), None),
            row(2, Some("v23"), None),
        ],
    )
    .await?;
    // What stands in other columns is not looked at, whatever the order.
    put(
        &[2, 0],
        &[
            row(1, Some("ignored"), Some("c3")),
            row(3, None, Some("v211")),
        ],
    )
    .await?;
    let mut expected: Vec<Change> =
        vec![inserted(&row(1, None, None)), inserted(&row(2, None, None))];
    expected.extend(updated(&row(1, None, None), &row(1, Some("v11"), None)));
    expected.extend(updated(&row(2, None, None), &row(2, Some("v21"), None)));
    expected.extend(updated(
        &row(2, Some("v21"), None),
        &row(2, Some("v23"), None),
    ));
    expected.extend(updated(
        &row(1, Some("v11"), None),
        &row(1, Some("v11"), Some("c3")),
    ));
    expected.push(inserted(&row(3, None, Some("v211"))));
    changelog::expect(&admin, &table, &expected, &[&[2]]).await?;

    // A partial delete empties its columns, and takes the row with the last.
    let remove = async |targets: &[usize], rows: &[Vec<Value>]| {
        let writes: Vec<Op> = rows.iter().cloned().map(Op::Delete).collect();
        keyed::apply(&table, Some(targets), &writes).await
    };
    remove(&[0, 1], &[row(1, None, None)]).await?;
    check::equal(
        "row after a partial delete",
        &vec![Some(row(1, None, Some("c3")))],
        &keyed::lookup(&table, &[vec![Int(1)]]).await?,
    )?;
    remove(&[0, 2], &[row(1, None, None), row(9, None, None)]).await?;
    expected.extend(updated(
        &row(1, Some("v11"), Some("c3")),
        &row(1, None, Some("c3")),
    ));
    expected.push(deleted(&row(1, None, Some("c3"))));
    // All columns are no partial update.
    put(&[2, 1, 0], &[row(2, None, Some("all"))]).await?;
    expected.extend(updated(
        &row(2, Some("v23"), None),
        &row(2, None, Some("all")),
    ));
    put(&[0, 1], &[row(7, Some("kept"), Some("ignored"))]).await?;
    expected.push(inserted(&row(7, Some("kept"), None)));
    changelog::expect(&admin, &table, &expected, &[&[0, 2]]).await?;
    check::equal(
        "lookups",
        &vec![
            None,
            Some(row(2, None, Some("all"))),
            Some(row(3, None, Some("v211"))),
            Some(row(7, Some("kept"), None)),
        ],
        &keyed::lookup(&table, &[1, 2, 3, 7].map(|id| vec![Int(id)])).await?,
    )?;
    check::passed("partial updates and deletes");
    Ok(())
}

async fn partial_wal(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let table = keyed::create(
        connection,
        "partial_wal",
        three_columns()?,
        None,
        &[(IMAGE, "WAL")],
    )
    .await?;
    for (targets, row) in [
        (vec![0], three(1, None, None)),
        (vec![0, 1], three(1, Some("v1"), None)),
        (vec![0, 2], three(1, None, Some("hello"))),
        // No change: the key alone.
        (vec![0], three(1, None, None)),
    ] {
        keyed::apply(&table, Some(&targets), &[Op::Upsert(row)]).await?;
    }
    keyed::apply(&table, Some(&[0, 1]), &[Op::Delete(three(1, None, None))]).await?;
    keyed::apply(&table, Some(&[0, 2]), &[Op::Delete(three(1, None, None))]).await?;
    let expected = [
        inserted(&three(1, None, None)),
        after(&three(1, Some("v1"), None)),
        after(&three(1, Some("v1"), Some("hello"))),
        after(&three(1, None, Some("hello"))),
        deleted(&three(1, None, Some("hello"))),
    ];
    changelog::expect(&admin, &table, &expected, &[]).await?;
    check::passed("partial updates and deletes, image WAL");
    Ok(())
}

async fn delete_behaviours(connection: &FlussConnection, server: &str) -> Result<()> {
    let admin = connection.get_admin()?;
    let ignoring = keyed::create(
        connection,
        "deletes_ignored",
        two_columns()?,
        None,
        &[(DELETES, "IGNORE")],
    )
    .await?;
    keyed::apply(
        &ignoring,
        None,
        &[
            Op::Upsert(two(1, "stays")),
            Op::Delete(two(1, "")),
            Op::Delete(two(2, "")),
            Op::Upsert(two(3, "three")),
        ],
    )
    .await?;
    let expected = [inserted(&two(1, "stays")), inserted(&two(3, "three"))];
    changelog::expect(&admin, &ignoring, &expected, &[]).await?;

    keyed::create(
        connection,
        "deletes_disabled",
        two_columns()?,
        None,
        &[(DELETES, "DISABLE")],
    )
    .await?;
    // A writer of its own: after the refusal its client goes no further.
    let other = table::connect(server).await?;
    let disabled = other.get_table(&table::path("deletes_disabled")).await?;
    keyed::upsert(&disabled, &[two(1, "stays")]).await?;
    let writer = disabled.new_upsert()?.create_writer()?;
    let types = crate::scan::types(&disabled);
    let refused = writer.delete(&keyed::generic(&two(1, ""), &types)?)?.await;
    check::fails_with(
        "a delete where deletes are disabled",
        DELETION_DISABLED,
        refused,
    )?;
    changelog::expect(&admin, &disabled, &[inserted(&two(1, "stays"))], &[]).await?;
    check::passed("delete behaviours IGNORE and DISABLE");
    Ok(())
}
