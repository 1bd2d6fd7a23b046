//! From an input to a table: what `produce` and `upsert` share.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstem_client::upsert::UpsertWriter;
use mainstem_client::writer::LogWriter;
use mainstem_client::{Client, ClientError, TableInfo};
use mainstem_types::{Schema, TableDescriptor, TablePath};

use super::input::{Format, Input, Options, Unknown};
use super::shape;

/// Where rows come from.
#[derive(clap::Args, Clone, Debug)]
pub struct SourceArguments {
    /// File to read; `-` or nothing for standard input.
    file: Option<PathBuf>,
    /// What the file holds; by default its extension tells.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Text that means null in CSV (besides nothing at all).
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Rows per batch.
    #[arg(long, default_value_t = 16_384)]
    batch_rows: usize,
    /// No progress bar.
    #[arg(long, short)]
    quiet: bool,
}

impl SourceArguments {
    /// Opens the input.
    pub fn open(&self) -> Result<Input> {
        let options = Options {
            format: self.format,
            null: self.null.clone(),
            batch_rows: self.batch_rows.max(1),
        };
        let source = self.file.clone().filter(|path| path.as_os_str() != "-");
        Input::open(source.as_deref(), &options)
    }
}

/// How a missing table is made from the columns of the input.
#[derive(clap::Args, Clone, Debug)]
pub struct CreationArguments {
    /// Create database and table from the columns of the file if they are missing.
    #[arg(long)]
    create: bool,
    /// Columns of the primary key of a created table.
    #[arg(
        long,
        requires = "create",
        value_delimiter = ',',
        value_name = "COLUMNS"
    )]
    primary_key: Vec<String>,
    /// Buckets of a created table.
    #[arg(long, requires = "create")]
    buckets: Option<i32>,
    /// Column that decides the bucket of a row in a created table.
    #[arg(long, requires = "create", value_name = "COLUMN")]
    bucket_key: Vec<String>,
    /// Column by which a created table is partitioned.
    #[arg(long, requires = "create", value_name = "COLUMN")]
    partition_by: Vec<String>,
}

impl CreationArguments {
    /// The table, which is made if it is missing and that is wanted.
    pub async fn find_or_create(
        &self,
        client: &Client,
        path: &TablePath,
        input: &mut Input,
    ) -> Result<TableInfo> {
        match client.table(path).await {
            Ok(table) => return Ok(table),
            Err(ClientError::Api { code: 7, .. }) if self.create => {}
            Err(ClientError::Api { code: 7, .. }) => bail!(
                "there is no table '{path}'; add --create to make it from the file, \
                 or see `mainstem table create --help`"
            ),
            Err(error) => return Err(error.into()),
        }
        let mut schema = shape::table_schema(&input.inferred_schema()?)?;
        if !self.primary_key.is_empty() {
            let columns = schema.columns.into_iter();
            schema = Schema::builder()
                .columns(columns.map(|column| (column.name, column.data_type)))
                .primary_key(self.primary_key.clone())
                .build()?;
        }
        let descriptor = TableDescriptor {
            schema,
            comment: None,
            partition_keys: self.partition_by.clone(),
            bucket_keys: self.bucket_key.clone(),
            bucket_count: self.buckets,
            properties: Default::default(),
            custom_properties: Default::default(),
        };
        client.create_database(&path.database, true).await?;
        client.create_table(path, &descriptor, true).await?;
        Ok(client.table(path).await?)
    }
}

/// Where rows go.
pub enum Sink {
    /// To the end of a log.
    Append(LogWriter),
    /// To their keys.
    Upsert(UpsertWriter),
    /// Nowhere: the rows of their keys go.
    Delete(UpsertWriter),
}

impl Sink {
    async fn write(&mut self, batch: &RecordBatch) -> Result<(), ClientError> {
        match self {
            Self::Append(writer) => writer.write(batch).await,
            Self::Upsert(writer) => writer.upsert(batch).await,
            Self::Delete(writer) => writer.delete(batch).await,
        }
    }

    fn acknowledged_rows(&self) -> u64 {
        match self {
            Self::Append(writer) => writer.acknowledged_rows(),
            Self::Upsert(writer) | Self::Delete(writer) => writer.acknowledged_rows(),
        }
    }

    async fn close(self) -> Result<u64, ClientError> {
        match self {
            Self::Append(writer) => writer.close().await,
            Self::Upsert(writer) | Self::Delete(writer) => writer.close().await,
        }
    }
}

/// Which columns go.
pub struct Columns {
    /// Names and types they are brought to.
    pub schema: SchemaRef,
    /// What is done with other columns of the input.
    pub unknown: Unknown,
}

/// Writes all rows of an input, with a progress bar, and says how many.
pub async fn load(
    mut input: Input,
    source: &SourceArguments,
    columns: &Columns,
    mut sink: Sink,
) -> Result<()> {
    let mut batches = input.read(&columns.schema, columns.unknown)?;
    let bar = progress_bar(&input, source.quiet);
    let started = Instant::now();
    let mut sent = 0u64;
    // Reading blocks (file, pipe): the runtime keeps a thread for the rest.
    while let Some(batch) = tokio::task::block_in_place(|| batches.next()) {
        let batch = batch.with_context(|| format!("after {sent} rows"))?;
        let batch = shape::fit(&batch, &columns.schema, columns.unknown)?;
        sink.write(&batch).await?;
        sent += batch.num_rows() as u64;
        bar.set_position(if input.rows().is_some() {
            sink.acknowledged_rows()
        } else {
            input.position()
        });
        bar.set_message(format!("{} rows", sink.acknowledged_rows()));
    }
    let what = if matches!(sink, Sink::Delete(_)) {
        "rows deleted"
    } else {
        "rows"
    };
    let rows = sink.close().await?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{rows} {what} in {seconds:.2} s ({:.0} rows/s)",
        rows as f64 / seconds.max(1e-9)
    );
    Ok(())
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
