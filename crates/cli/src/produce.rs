//! `mainstem produce`: rows from a file or standard input into a log table.

mod input;
mod shape;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstem_client::writer::{LogWriter, WriterOptions};
use mainstem_client::{Client, ClientError, TableInfo};
use mainstem_format::Compression;
use mainstem_types::{Schema, TableDescriptor, TablePath};

pub use self::input::Format;
use self::input::{Input, Options};
use crate::target::{Target, parse_table};

/// Options of `mainstem produce`.
#[derive(clap::Args, Clone, Debug)]
pub struct ProduceArguments {
    /// Table, as DATABASE.TABLE.
    #[arg(value_parser = parse_table)]
    table: TablePath,
    /// File to read; `-` or nothing for standard input.
    file: Option<PathBuf>,
    /// What the file holds; by default its extension tells.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Create database and table from the columns of the file if they are missing.
    #[arg(long)]
    create: bool,
    /// Buckets of a created table.
    #[arg(long, requires = "create")]
    buckets: Option<i32>,
    /// Column that decides the bucket of a row in a created table.
    #[arg(long, requires = "create", value_name = "COLUMN")]
    bucket_key: Vec<String>,
    /// Column by which a created table is partitioned.
    #[arg(long, requires = "create", value_name = "COLUMN")]
    partition_by: Vec<String>,
    /// Text that means null in CSV (besides nothing at all).
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Rows per batch.
    #[arg(long, default_value_t = 16_384)]
    batch_rows: usize,
    /// Compression of the batches: none, lz4 or zstd; by default the table's.
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
    /// No progress bar.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub async fn run(arguments: ProduceArguments) -> Result<()> {
    let client = arguments.target.connect().await?;
    let options = Options {
        format: arguments.format,
        null: arguments.null.clone(),
        batch_rows: arguments.batch_rows.max(1),
    };
    let source = arguments
        .file
        .clone()
        .filter(|path| path.as_os_str() != "-");
    let mut input = Input::open(source.as_deref(), &options)?;
    let table = find_or_create(&client, &arguments, &mut input).await?;
    let schema = mainstem_format::arrow_type::arrow_schema(&table.descriptor.schema);
    let mut batches = input.read(&schema)?;

    let bar = progress_bar(&input, arguments.quiet);
    let options = WriterOptions {
        compression: compression(&arguments, &table.descriptor)?,
        ..WriterOptions::default()
    };
    let started = Instant::now();
    let mut writer = LogWriter::new(client, table, options).await?;
    let mut sent = 0u64;
    // Reading blocks (file, pipe): the runtime keeps a thread for the rest.
    while let Some(batch) = tokio::task::block_in_place(|| batches.next()) {
        let batch = shape::fit(
            &batch.with_context(|| format!("after {sent} rows"))?,
            &schema,
        )?;
        writer.write(&batch).await?;
        sent += batch.num_rows() as u64;
        bar.set_position(if input.rows().is_some() {
            writer.acknowledged_rows()
        } else {
            input.position()
        });
        bar.set_message(format!("{} rows", writer.acknowledged_rows()));
    }
    let rows = writer.close().await?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{rows} rows in {seconds:.2} s ({:.0} rows/s)",
        rows as f64 / seconds.max(1e-9)
    );
    Ok(())
}

async fn find_or_create(
    client: &Client,
    arguments: &ProduceArguments,
    input: &mut Input,
) -> Result<TableInfo> {
    let path = &arguments.table;
    match client.table(path).await {
        Ok(table) => return Ok(table),
        Err(ClientError::Api { code: 7, .. }) if arguments.create => {}
        Err(ClientError::Api { code: 7, .. }) => bail!(
            "there is no table '{path}'; add --create to make it from the file, \
             or see `mainstem table create --help`"
        ),
        Err(error) => return Err(error.into()),
    }
    let schema = shape::table_schema(&input.inferred_schema()?)?;
    let descriptor = TableDescriptor {
        schema,
        comment: None,
        partition_keys: arguments.partition_by.clone(),
        bucket_keys: arguments.bucket_key.clone(),
        bucket_count: arguments.buckets,
        properties: Default::default(),
        custom_properties: Default::default(),
    };
    client.create_database(&path.database, true).await?;
    client.create_table(path, &descriptor, true).await?;
    Ok(client.table(path).await?)
}

fn compression(arguments: &ProduceArguments, table: &TableDescriptor) -> Result<Compression> {
    match arguments.compression.as_deref() {
        None => crate::table::compression_of(table),
        Some("none") => Ok(Compression::None),
        Some("lz4") => Ok(Compression::Lz4Frame),
        Some("zstd") => Ok(Compression::Zstd(3)),
        Some(other) => bail!("--compression {other}: there are none, lz4 and zstd"),
    }
}

fn progress_bar(input: &Input, quiet: bool) -> ProgressBar {
    let (bar, template) = match (input.rows(), input.bytes()) {
        (Some(rows), _) => (
            ProgressBar::new(rows),
            "{bar:40.cyan/blue} {human_pos} of {human_len} rows  {per_sec}  {eta} left",
        ),
        (None, Some(bytes)) => (
            ProgressBar::new(bytes),
            "{bar:40.cyan/blue} {bytes} of {total_bytes}  {msg}  {eta} left",
        ),
        (None, None) => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    // The templates are constants: a mistake in one shows in the first test.
    let bar = bar.with_style(ProgressStyle::with_template(template).expect("a valid template"));
    if quiet {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Table columns like those of a file.
pub fn inferred_table_schema(
    path: &std::path::Path,
    format: Option<Format>,
    null: Option<String>,
) -> Result<Schema> {
    let options = Options {
        format,
        null,
        batch_rows: 1,
    };
    shape::table_schema(&Input::open(Some(path), &options)?.inferred_schema()?)
}
