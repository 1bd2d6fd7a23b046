//! `mainstem table`: create, list, describe, drop, alter.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use comfy_table::{Table, presets};
use mainstem_client::Client;
use mainstem_client::admin::OptionChange;
use mainstem_format::Compression;
use mainstem_types::data_type::DataType;
use mainstem_types::{AggFunction, ArrowCompression, Schema, TableDescriptor, TablePath};

use crate::produce::{Format, inferred_table_schema};
use crate::target::{Target, parse_table};

const MERGE_ENGINE: &str = "table.merge-engine";
const MERGE_ENGINE_VERSION_COLUMN: &str = "table.merge-engine.versioned.ver-column";

/// Subcommands of `mainstem table`.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum TableCommand {
    /// Create a table (and its database).
    Create(Box<CreateArguments>),
    /// List tables.
    List {
        /// Only this database.
        database: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Show columns, keys and options of a table.
    Describe {
        /// Table, as DATABASE.TABLE.
        #[arg(value_parser = parse_table)]
        table: TablePath,
        /// Print the descriptor document instead.
        #[arg(long, value_parser = ["table", "json"], default_value = "table")]
        format: String,
        #[command(flatten)]
        target: Target,
    },
    /// Drop a table with its data.
    Drop {
        /// Table, as DATABASE.TABLE.
        #[arg(value_parser = parse_table)]
        table: TablePath,
        /// A missing table is fine.
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Add columns, set or reset options.
    Alter {
        /// Table, as DATABASE.TABLE.
        #[arg(value_parser = parse_table)]
        table: TablePath,
        /// Column to add at the end, e.g. "note STRING"; it is nullable.
        #[arg(long, value_name = "NAME TYPE")]
        add_column: Vec<String>,
        /// Option to set.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Option to reset to its default.
        #[arg(long, value_name = "KEY")]
        reset: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
}

/// Options of `mainstem table create`.
#[derive(clap::Args, Clone, Debug)]
pub struct CreateArguments {
    /// Table, as DATABASE.TABLE.
    #[arg(value_parser = parse_table)]
    table: TablePath,
    /// A column, e.g. "id BIGINT NOT NULL"; in order.
    #[arg(long, value_name = "NAME TYPE")]
    column: Vec<String>,
    /// Take the columns of this file (CSV, JSON lines, Parquet, Arrow).
    #[arg(long, value_name = "FILE", conflicts_with = "column")]
    like: Option<PathBuf>,
    /// Text that means null in a CSV file of --like.
    #[arg(long, value_name = "TEXT", requires = "like")]
    null: Option<String>,
    /// Columns of the primary key.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    primary_key: Vec<String>,
    /// INT or BIGINT column that the server numbers, in a primary-key table.
    #[arg(long, value_name = "COLUMN")]
    auto_increment: Option<String>,
    /// What a second row of a key does: first_row, versioned or aggregation.
    #[arg(long, value_name = "ENGINE")]
    merge_engine: Option<String>,
    /// Column that decides which row is newer, for --merge-engine versioned.
    #[arg(long, value_name = "COLUMN")]
    version_column: Option<String>,
    /// How a column is aggregated, e.g. total=sum or tags=listagg:delimiter=;
    /// for --merge-engine aggregation.
    #[arg(long, value_name = "COLUMN=FUNCTION")]
    aggregate: Vec<String>,
    /// Columns by whose values the table is partitioned.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    partition_by: Vec<String>,
    /// Columns that decide the bucket of a row.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    bucket_key: Vec<String>,
    /// Number of buckets.
    #[arg(long)]
    buckets: Option<i32>,
    /// Option of the table, e.g. table.log.ttl=1d.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Comment.
    #[arg(long)]
    comment: Option<String>,
    /// An existing table is fine.
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs a subcommand.
pub async fn run(command: TableCommand) -> Result<()> {
    match command {
        TableCommand::Create(arguments) => create(*arguments).await,
        TableCommand::List { database, target } => {
            list(&target.connect().await?, database.as_deref()).await
        }
        TableCommand::Describe {
            table,
            format,
            target,
        } => describe(&target.connect().await?, &table, format == "json").await,
        TableCommand::Drop {
            table,
            if_exists,
            target,
        } => {
            target
                .connect()
                .await?
                .drop_table(&table, if_exists)
                .await?;
            println!("dropped {table}");
            Ok(())
        }
        TableCommand::Alter {
            table,
            add_column,
            set,
            reset,
            target,
        } => alter(&target.connect().await?, &table, &add_column, &set, reset).await,
    }
}

async fn create(arguments: CreateArguments) -> Result<()> {
    let columns: Vec<(String, DataType)> = match &arguments.like {
        Some(path) => {
            let schema = inferred_table_schema(path, None::<Format>, arguments.null.clone())?;
            schema
                .columns
                .into_iter()
                .map(|column| (column.name, column.data_type))
                .collect()
        }
        None => arguments
            .column
            .iter()
            .map(|text| parse_column(text))
            .collect::<Result<_>>()?,
    };
    if columns.is_empty() {
        bail!("a table needs columns: --column \"id BIGINT\" … or --like FILE");
    }
    let schema = schema_of(columns, &arguments)?;
    let mut options = arguments
        .set
        .iter()
        .map(|text| parse_option(text))
        .collect::<Result<Vec<_>>>()?;
    let short_forms = [
        (MERGE_ENGINE, &arguments.merge_engine),
        (MERGE_ENGINE_VERSION_COLUMN, &arguments.version_column),
    ];
    for (option, value) in short_forms {
        options.extend(value.iter().map(|v| (option.to_owned(), v.clone())));
    }
    let (properties, custom_properties) = options
        .into_iter()
        .partition(|(key, _)| key.starts_with("table."));
    let descriptor = TableDescriptor {
        schema,
        comment: arguments.comment.clone(),
        partition_keys: arguments.partition_by.clone(),
        bucket_keys: arguments.bucket_key.clone(),
        bucket_count: arguments.buckets,
        properties,
        custom_properties,
    };
    let client = arguments.target.connect().await?;
    client
        .create_database(&arguments.table.database, true)
        .await?;
    client
        .create_table(&arguments.table, &descriptor, arguments.if_not_exists)
        .await?;
    println!("created {}", arguments.table);
    Ok(())
}

fn schema_of(columns: Vec<(String, DataType)>, arguments: &CreateArguments) -> Result<Schema> {
    let mut functions = arguments
        .aggregate
        .iter()
        .map(|text| parse_aggregate(text))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let mut builder = Schema::builder();
    for (name, data_type) in columns {
        let function = functions.remove(&name);
        builder = builder.column(name, data_type);
        if let Some(function) = function {
            builder = builder.aggregate(function);
        }
    }
    if let Some(name) = functions.keys().next() {
        bail!("--aggregate names '{name}', but the table has no such column");
    }
    if !arguments.primary_key.is_empty() {
        builder = builder.primary_key(arguments.primary_key.clone());
    }
    if let Some(name) = &arguments.auto_increment {
        builder = builder.auto_increment(name);
    }
    Ok(builder.build()?)
}

async fn list(client: &Client, database: Option<&str>) -> Result<()> {
    let databases = match database {
        Some(database) => vec![database.to_owned()],
        None => client.databases().await?,
    };
    for database in databases {
        for table in client.tables(&database).await? {
            println!("{database}.{table}");
        }
    }
    Ok(())
}

async fn describe(client: &Client, path: &TablePath, json: bool) -> Result<()> {
    let table = client.table(path).await?;
    let descriptor = &table.descriptor;
    if json {
        println!("{}", String::from_utf8_lossy(&descriptor.to_json_bytes()));
        return Ok(());
    }
    let kind = if descriptor.schema.has_primary_key() {
        "primary-key table"
    } else {
        "log table"
    };
    println!(
        "{path}: {kind} {}, schema {}",
        table.table_id, table.schema_id
    );
    if let Some(comment) = &descriptor.comment {
        println!("{comment}");
    }
    let mut columns = Table::new();
    columns
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(["column", "type", "comment"]);
    for column in &descriptor.schema.columns {
        let mut data_type = column.data_type.to_string();
        if let Some(function) = &column.agg_function {
            data_type.push_str(&format!(", {}", function.name));
        }
        if descriptor.schema.auto_increment.contains(&column.name) {
            data_type.push_str(", numbered by the server");
        }
        let comment = column.comment.clone().unwrap_or_default();
        columns.add_row([column.name.clone(), data_type, comment]);
    }
    println!("{columns}");
    let keys = [
        ("primary key", &descriptor.schema.primary_key),
        ("partitioned by", &descriptor.partition_keys),
        ("bucket key", &descriptor.bucket_keys),
    ];
    for (name, columns) in keys.iter().filter(|(_, columns)| !columns.is_empty()) {
        println!("{name}: {}", columns.join(", "));
    }
    println!("buckets: {}", descriptor.bucket_count.unwrap_or(1));
    for (key, value) in descriptor
        .properties
        .iter()
        .chain(&descriptor.custom_properties)
    {
        println!("{key} = {value}");
    }
    if !descriptor.partition_keys.is_empty() {
        let partitions = client.partitions(&table).await?;
        let names: Vec<&str> = partitions.iter().map(|p| p.name.as_str()).collect();
        println!("{} partitions: {}", names.len(), names.join(", "));
    }
    Ok(())
}

async fn alter(
    client: &Client,
    table: &TablePath,
    add: &[String],
    set: &[String],
    reset: Vec<String>,
) -> Result<()> {
    let mut changes = Vec::new();
    for text in set {
        let (key, value) = parse_option(text)?;
        changes.push(OptionChange::Set(key, value));
    }
    changes.extend(reset.into_iter().map(OptionChange::Reset));
    if changes.is_empty() && add.is_empty() {
        bail!("nothing to change: see `mainstem table alter --help`");
    }
    // The protocol takes options and columns in requests of their own.
    if !changes.is_empty() {
        client.alter_options(table, &changes).await?;
    }
    if !add.is_empty() {
        let columns: Vec<(String, String)> = add
            .iter()
            .map(|text| {
                let (name, data_type) = parse_column(text)?;
                Ok((name, data_type.to_json().to_string()))
            })
            .collect::<Result<_>>()?;
        client.add_columns(table, &columns).await?;
    }
    println!("altered {table}");
    Ok(())
}

/// `name TYPE [NOT NULL]`; a name with blanks stands in double quotes.
fn parse_column(text: &str) -> Result<(String, DataType)> {
    let text = text.trim();
    let (name, kind) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"'),
        None => text.split_once(char::is_whitespace),
    }
    .with_context(|| format!("'{text}' is not a column: give a name and a type"))?;
    let data_type = kind
        .trim()
        .parse::<DataType>()
        .map_err(|error| anyhow::anyhow!("type of column '{name}': {error}"))?;
    Ok((name.to_owned(), data_type))
}

/// `column=function` or `column=function:parameter=value`.
fn parse_aggregate(text: &str) -> Result<(String, AggFunction)> {
    let (column, function) = parse_option(text)?;
    let (name, parameter) = match function.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter)),
        None => (function.as_str(), None),
    };
    let mut function = AggFunction::new(name);
    if let Some(parameter) = parameter {
        let (key, value) = parameter
            .split_once('=')
            .with_context(|| format!("'{parameter}' in '{text}' is not PARAMETER=VALUE"))?;
        function = function.with_parameter(key, value);
    }
    Ok((column, function))
}

fn parse_option(text: &str) -> Result<(String, String)> {
    let (key, value) = text
        .split_once('=')
        .with_context(|| format!("'{text}' is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// The compression that writers of a table are to use.
pub fn compression_of(table: &TableDescriptor) -> Result<Compression> {
    Ok(match table.arrow_compression()? {
        ArrowCompression::None => Compression::None,
        ArrowCompression::Lz4Frame => Compression::Lz4Frame,
        ArrowCompression::Zstd { level } => Compression::Zstd(level),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_is_a_column_and_a_function_with_at_most_one_parameter() {
        let (column, function) = parse_aggregate("total=SUM").expect("parses");
        assert_eq!(
            (column.as_str(), function),
            ("total", AggFunction::new("sum"))
        );
        let (_, function) = parse_aggregate("tags=listagg:delimiter==").expect("parses");
        let expected = AggFunction::new("listagg").with_parameter("delimiter", "=");
        assert_eq!(function, expected);
        assert!(parse_aggregate("total").is_err());
        assert!(parse_aggregate("tags=listagg:delimiter").is_err());
    }

    #[test]
    fn a_column_is_a_name_and_a_type() {
        let (name, data_type) = parse_column("id BIGINT NOT NULL").expect("parses");
        assert_eq!(
            (name.as_str(), data_type.to_string().as_str()),
            ("id", "BIGINT NOT NULL")
        );
        let (name, _) = parse_column("\"a b\" ARRAY<INT>").expect("parses");
        assert_eq!(name, "a b");
        assert!(parse_column("id").is_err());
        let error = parse_column("id NUMBER").unwrap_err().to_string();
        assert!(error.contains("type of column 'id'"), "{error}");
    }
}
