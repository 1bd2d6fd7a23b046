//! Databases and the life of a table: create, describe, list, alter, drop, and
//! the errors that a client depends on.

use anyhow::Result;
use fluss::client::FlussConnection;
use fluss::metadata::{
    AlterConfig, AlterConfigOpType, AlterTableChanges, DataTypes, DatabaseDescriptor, Schema,
    TableDescriptor,
};

use crate::check;
use crate::table::{self, DATABASE};

const DATABASE_NOT_EXIST: i32 = 4;
const DATABASE_NOT_EMPTY: i32 = 5;
const DATABASE_EXISTS: i32 = 6;
const TABLE_NOT_EXIST: i32 = 7;
const TABLE_EXISTS: i32 = 8;
const REPLICATION_FACTOR: i32 = 17;

pub async fn run(connection: &FlussConnection) -> Result<()> {
    println!("databases and tables");
    let admin = connection.get_admin()?;
    admin.drop_database(DATABASE, true, true).await?;
    let descriptor = DatabaseDescriptor::builder()
        .comment("tables of the Rust client")
        .custom_property("owner", "conformance")
        .build();
    admin
        .create_database(DATABASE, Some(&descriptor), false)
        .await?;
    check::fails_with(
        "create the database again",
        DATABASE_EXISTS,
        admin.create_database(DATABASE, None, false).await,
    )?;
    admin.create_database(DATABASE, None, true).await?;
    let info = admin.get_database_info(DATABASE).await?;
    check::equal(
        "comment of the database",
        &Some("tables of the Rust client"),
        &info.database_descriptor().comment(),
    )?;
    check::that(
        "the database is listed",
        admin.list_databases().await?.iter().any(|d| d == DATABASE),
    )?;
    check::fails_with(
        "describe a database that is not there",
        DATABASE_NOT_EXIST,
        admin.get_database_info("no_such_database").await,
    )?;
    check::passed("databases");

    let path = table::path("lifecycle");
    let descriptor = TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("a", DataTypes::int().as_non_nullable())
                .with_comment("first")
                .column("b", DataTypes::string())
                .build()?,
        )
        .distributed_by(Some(3), vec!["a".to_string()])
        .property("table.log.ttl", "3 d")
        .custom_property("team", "storage")
        .comment("a table")
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    check::fails_with(
        "create the table again",
        TABLE_EXISTS,
        admin.create_table(&path, &descriptor, false).await,
    )?;
    admin.create_table(&path, &descriptor, true).await?;
    let info = admin.get_table_info(&path).await?;
    check::equal("buckets", &3, &info.get_num_buckets())?;
    check::equal(
        "bucket keys",
        &["a".to_string()][..],
        info.get_bucket_keys(),
    )?;
    check::equal("schema id", &1, &info.get_schema_id())?;
    check::equal("comment", &Some("a table"), &info.get_comment())?;
    check::equal(
        "column comment",
        &Some("first"),
        &info.get_schema().columns()[0].comment(),
    )?;
    check::equal(
        "property",
        &Some("3 d"),
        &info
            .get_properties()
            .get("table.log.ttl")
            .map(String::as_str),
    )?;
    check::equal(
        "custom property",
        &Some("storage"),
        &info.get_custom_properties().get("team").map(String::as_str),
    )?;
    check::that("table exists", admin.table_exists(&path).await?)?;
    check::equal(
        "tables of the database",
        &vec!["lifecycle".to_string()],
        &admin.list_tables(DATABASE).await?,
    )?;
    admin
        .alter_table(
            &path,
            false,
            AlterTableChanges {
                config_changes: vec![
                    AlterConfig {
                        config_key: "table.log.ttl".to_string(),
                        config_value: Some("5 d".to_string()),
                        op_type: AlterConfigOpType::Set,
                    },
                    AlterConfig {
                        config_key: "team".to_string(),
                        config_value: None,
                        op_type: AlterConfigOpType::Delete,
                    },
                ],
                ..AlterTableChanges::default()
            },
        )
        .await?;
    let altered = admin.get_table_info(&path).await?;
    check::equal(
        "altered property",
        &Some("5 d"),
        &altered
            .get_properties()
            .get("table.log.ttl")
            .map(String::as_str),
    )?;
    check::equal(
        "reset property",
        &None,
        &altered.get_custom_properties().get("team"),
    )?;
    check::fails_with(
        "a replication factor of 3 on one server",
        REPLICATION_FACTOR,
        admin
            .create_table(
                &table::path("three_replicas"),
                &TableDescriptor::builder()
                    .schema(Schema::builder().column("a", DataTypes::int()).build()?)
                    .property("table.replication.factor", "3")
                    .build()?,
                false,
            )
            .await,
    )?;
    check::fails_with(
        "drop a database that is not empty",
        DATABASE_NOT_EMPTY,
        admin.drop_database(DATABASE, false, false).await,
    )?;
    admin.drop_table(&path, false).await?;
    check::fails_with(
        "drop the table again",
        TABLE_NOT_EXIST,
        admin.drop_table(&path, false).await,
    )?;
    check::that("the table is gone", !admin.table_exists(&path).await?)?;
    // At once, under the same name, with another schema (it is another table).
    let again = TableDescriptor::builder()
        .schema(Schema::builder().column("c", DataTypes::bigint()).build()?)
        .build()?;
    table::create(&admin, &path, &again).await?;
    let recreated = admin.get_table_info(&path).await?;
    check::that(
        "a table created again has another id",
        recreated.get_table_id() != altered.get_table_id(),
    )?;
    admin.drop_table(&path, false).await?;
    check::passed("tables: create, describe, alter, drop, create again");
    Ok(())
}
