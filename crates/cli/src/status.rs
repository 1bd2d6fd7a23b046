//! `mainstem status`: how a cluster is, and what is in it.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use mainstem_client::admin::Health;
use mainstem_client::cluster::Buckets;
use mainstem_client::{Client, TableInfo};
use mainstem_types::TablePath;

use crate::target::Target;

/// Options of `mainstem status`.
#[derive(clap::Args, Clone, Debug)]
pub struct StatusArguments {
    /// How to print.
    #[arg(long, value_parser = ["table", "json"], default_value = "table")]
    format: String,
    #[command(flatten)]
    target: Target,
}

struct TableStatus {
    path: TablePath,
    kind: &'static str,
    partitions: usize,
    buckets: usize,
    /// `None` if the server does not count them.
    rows: Option<i64>,
}

/// Runs the command.
pub async fn run(arguments: StatusArguments) -> Result<()> {
    let client = arguments.target.connect().await?;
    let health = client.health().await?;
    let mut tables = Vec::new();
    for database in client.databases().await? {
        for name in client.tables(&database).await? {
            let table = client.table(&TablePath::new(&database, name)).await?;
            tables.push(table_status(&client, &table).await?);
        }
    }
    if arguments.format == "json" {
        println!("{}", json(&health, &tables));
    } else {
        print(&arguments.target.server, &health, &tables);
    }
    Ok(())
}

async fn table_status(client: &Client, table: &TableInfo) -> Result<TableStatus> {
    let mut parts: Vec<Buckets> = Vec::new();
    if table.descriptor.partition_keys.is_empty() {
        parts.push(client.table_buckets(&table.path).await?);
    } else {
        for partition in client.partitions(table).await? {
            parts.push(
                client
                    .partition_buckets(&table.path, &partition.name)
                    .await?,
            );
        }
    }
    let (mut buckets, mut rows) = (0, Some(0));
    for part in &parts {
        buckets += part.leaders.len();
        for (bucket, leader) in part.leaders.iter().enumerate() {
            let Some(leader) = leader else { continue };
            let bucket = [i32::try_from(bucket)?];
            let counts = client.row_counts(table, part.partition_id, *leader, &bucket);
            for count in counts.await? {
                rows = rows.zip(count).map(|(sum, count)| sum + count);
            }
        }
    }
    let partitioned = !table.descriptor.partition_keys.is_empty();
    Ok(TableStatus {
        path: table.path.clone(),
        kind: if table.descriptor.schema.has_primary_key() {
            "primary key"
        } else {
            "log"
        },
        partitions: if partitioned { parts.len() } else { 0 },
        buckets,
        rows,
    })
}

fn colour(health: &Health) -> &'static str {
    match health.status {
        0 => "green",
        1 => "yellow",
        2 => "red",
        _ => "unknown",
    }
}

fn print(server: &str, health: &Health, tables: &[TableStatus]) {
    println!(
        "{server}: {}, {} of {} buckets led, {} of {} replicas in sync",
        colour(health),
        health.active_leaders,
        health.buckets,
        health.in_sync,
        health.replicas
    );
    if tables.is_empty() {
        println!("no tables yet; try `mainstem table create --help`");
        return;
    }
    let mut out = Table::new();
    out.load_style(presets::UTF8_BORDERS_ONLY);
    out.set_header(["table", "kind", "partitions", "buckets", "rows"]);
    for table in tables {
        out.add_row([
            table.path.to_string(),
            table.kind.to_owned(),
            if table.partitions == 0 {
                String::new()
            } else {
                table.partitions.to_string()
            },
            table.buckets.to_string(),
            table
                .rows
                .map_or_else(|| "–".to_owned(), |rows| rows.to_string()),
        ]);
    }
    for column in 2..5 {
        if let Some(column) = out.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{out}");
}

fn json(health: &Health, tables: &[TableStatus]) -> serde_json::Value {
    let tables: Vec<serde_json::Value> = tables
        .iter()
        .map(|table| {
            serde_json::json!({
                "database": table.path.database,
                "table": table.path.table,
                "kind": table.kind,
                "partitions": table.partitions,
                "buckets": table.buckets,
                "rows": table.rows,
            })
        })
        .collect();
    serde_json::json!({
        "status": colour(health),
        "buckets": health.buckets,
        "active_leaders": health.active_leaders,
        "replicas": health.replicas,
        "in_sync_replicas": health.in_sync,
        "tables": tables,
    })
}
