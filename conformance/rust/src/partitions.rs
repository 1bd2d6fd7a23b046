//! Partitioned tables: create, list, filter, drop, write and read several.

use std::collections::HashMap;

use anyhow::{Context, Result};
use fluss::client::{EARLIEST_OFFSET, FlussConnection};
use fluss::metadata::{DataTypes, PartitionSpec, Schema, TableDescriptor};
use fluss::row::GenericRow;
use fluss::rpc::message::OffsetSpec;

use crate::value::Value;
use crate::{check, scan, table};

const PARTITION_NOT_EXIST: i32 = 36;
const NOT_PARTITIONED: i32 = 37;
const PARTITION_EXISTS: i32 = 42;
const INVALID_SPEC: i32 = 43;

const ROWS_PER_PARTITION: i32 = 50;
const BUCKETS: i32 = 2;
const DAYS: [&str; 2] = ["2024-05-01", "2024-05-02"];
const REGIONS: [&str; 2] = ["eu", "us"];

fn spec(day: &str, region: &str) -> PartitionSpec {
    PartitionSpec::new(HashMap::from([("day", day), ("region", region)]))
}

pub async fn run(connection: &FlussConnection) -> Result<()> {
    println!("partitions");
    let admin = connection.get_admin()?;
    let path = table::path("partitioned");
    let descriptor = TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("id", DataTypes::int())
                .column("day", DataTypes::string())
                .column("region", DataTypes::string())
                .column("amount", DataTypes::decimal(12, 2))
                .build()?,
        )
        .partitioned_by(vec!["day", "region"])
        .distributed_by(Some(BUCKETS), vec!["id".to_string()])
        .build()?;
    table::create(&admin, &path, &descriptor).await?;
    check::equal(
        "partitions of a new table",
        &0,
        &admin.list_partition_infos(&path).await?.len(),
    )?;
    let buckets: Vec<i32> = (0..BUCKETS).collect();
    for day in DAYS {
        for region in REGIONS {
            admin
                .create_partition(&path, &spec(day, region), false)
                .await?;
            table::wait_for_partition(&admin, &path, &format!("{day}${region}"), &buckets).await?;
        }
    }
    check::fails_with(
        "create a partition again",
        PARTITION_EXISTS,
        admin
            .create_partition(&path, &spec(DAYS[0], "eu"), false)
            .await,
    )?;
    admin
        .create_partition(&path, &spec(DAYS[0], "eu"), true)
        .await?;
    check::fails_with(
        "a partition value with a slash",
        INVALID_SPEC,
        admin
            .create_partition(&path, &spec("2024/05/01", "eu"), false)
            .await,
    )?;
    check::fails_with(
        "a partition without its second key",
        INVALID_SPEC,
        admin
            .create_partition(
                &path,
                &PartitionSpec::new(HashMap::from([("day", "2024-05-03")])),
                false,
            )
            .await,
    )?;
    let flat = table::path("not_partitioned");
    let flat_descriptor = TableDescriptor::builder()
        .schema(
            Schema::builder()
                .column("day", DataTypes::string())
                .build()?,
        )
        .build()?;
    table::create(&admin, &flat, &flat_descriptor).await?;
    check::fails_with(
        "list the partitions of a table without",
        NOT_PARTITIONED,
        admin.list_partition_infos(&flat).await,
    )?;
    let mut names: Vec<String> = admin
        .list_partition_infos(&path)
        .await?
        .iter()
        .map(|info| info.get_partition_name())
        .collect();
    names.sort();
    let expected: Vec<String> = DAYS
        .iter()
        .flat_map(|day| REGIONS.iter().map(move |region| format!("{day}${region}")))
        .collect();
    check::equal("partitions", &expected, &names)?;
    let european = PartitionSpec::new(HashMap::from([("region", "eu")]));
    check::equal(
        "partitions of one region",
        &DAYS.len(),
        &admin
            .list_partition_infos_with_spec(&path, Some(&european))
            .await?
            .len(),
    )?;
    check::passed("create, list, list with a filter, wrong requests");

    write_and_read(connection).await?;

    admin
        .drop_partition(&path, &spec(DAYS[0], "us"), false)
        .await?;
    check::fails_with(
        "drop a partition again",
        PARTITION_NOT_EXIST,
        admin
            .drop_partition(&path, &spec(DAYS[0], "us"), false)
            .await,
    )?;
    admin
        .drop_partition(&path, &spec(DAYS[0], "us"), true)
        .await?;
    check::equal(
        "partitions after one is dropped",
        &3,
        &admin.list_partition_infos(&path).await?.len(),
    )?;
    check::passed("drop");
    check::cannot(
        "fluss-rs 1.0.0 does not create partitions while writing: tried by the Java client",
    );
    Ok(())
}

async fn write_and_read(connection: &FlussConnection) -> Result<()> {
    let admin = connection.get_admin()?;
    let path = table::path("partitioned");
    let table = connection.get_table(&path).await?;
    let types = scan::types(&table);
    let writer = table.new_append()?.create_writer()?;
    let mut written: HashMap<String, Vec<Vec<Value>>> = HashMap::new();
    for id in 0..ROWS_PER_PARTITION {
        for day in DAYS {
            for region in REGIONS {
                let row = vec![
                    Value::Int(id),
                    Value::text(day),
                    Value::text(region),
                    if id % 7 == 0 {
                        Value::Null
                    } else {
                        Value::Decimal(i128::from(id) * 100 + 99)
                    },
                ];
                let values = row
                    .iter()
                    .zip(&types)
                    .map(|(value, data_type)| value.to_datum(data_type))
                    .collect::<Result<Vec<_>>>()?;
                writer.append(&GenericRow { values })?;
                written
                    .entry(format!("{day}${region}"))
                    .or_default()
                    .push(row);
            }
        }
    }
    writer.flush().await?;

    let scanner = table.new_scan().create_log_scanner()?;
    let mut names = HashMap::new();
    let mut ends = HashMap::new();
    for info in admin.list_partition_infos(&path).await? {
        let name = info.get_partition_name();
        let buckets: Vec<i32> = (0..BUCKETS).collect();
        let latest = admin
            .list_partition_offsets(&path, &name, &buckets, OffsetSpec::Latest)
            .await?;
        for (bucket, end) in latest {
            scanner
                .subscribe_partition(info.get_partition_id(), bucket, EARLIEST_OFFSET)
                .await?;
            ends.insert((Some(info.get_partition_id()), bucket), end);
        }
        names.insert(info.get_partition_id(), name);
    }
    let reads = scan::until(&scanner, ends, &types).await?;
    let mut read: HashMap<String, Vec<Vec<Value>>> = HashMap::new();
    for row in reads {
        let partition = row.partition.context("a row without a partition")?;
        read.entry(names[&partition].clone())
            .or_default()
            .push(row.cells);
    }
    for (name, rows) in &mut read {
        rows.sort_by_key(|row| match row[0] {
            Value::Int(id) => id,
            _ => -1,
        });
        check::equal(
            &format!("rows of partition {name}"),
            written.get(name).unwrap_or(&Vec::new()),
            rows,
        )?;
    }
    check::equal("partitions read", &written.len(), &read.len())?;
    check::passed("write and read four partitions");
    Ok(())
}
