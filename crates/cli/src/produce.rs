//! `mainstem produce`: rows from a file or standard input into a table.

mod input;
mod load;
mod shape;

use anyhow::{Result, bail};
use mainstem_client::writer::{LogWriter, WriterOptions};
use mainstem_format::Compression;
use mainstem_types::{Schema, TableDescriptor, TablePath};

use self::input::Options;
pub use self::input::{Format, Input, Unknown};
pub use self::load::{Columns, CreationArguments, Sink, SourceArguments, load};
use crate::target::{Target, parse_table};
use crate::upsert;

/// Options of `mainstem produce`.
#[derive(clap::Args, Clone, Debug)]
pub struct ProduceArguments {
    /// Table, as DATABASE.TABLE.
    #[arg(value_parser = parse_table)]
    table: TablePath,
    #[command(flatten)]
    source: SourceArguments,
    #[command(flatten)]
    creation: CreationArguments,
    /// Compression of the batches: none, lz4 or zstd; by default the table's.
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Runs the command. Rows of a primary-key table are put, as `upsert` does.
pub async fn run(arguments: ProduceArguments) -> Result<()> {
    let client = arguments.target.connect().await?;
    let mut input = arguments.source.open()?;
    let table = arguments
        .creation
        .find_or_create(&client, &arguments.table, &mut input)
        .await?;
    if table.descriptor.has_primary_key() {
        if arguments.compression.is_some() {
            bail!(
                "'{}' has a primary key: the server compresses its changelog, \
                 --compression is for log tables",
                table.path
            );
        }
        let choice = upsert::Choice::default();
        return upsert::put(client, table, input, &arguments.source, &choice).await;
    }
    let columns = Columns {
        schema: mainstem_format::arrow_type::arrow_schema(&table.descriptor.schema),
        unknown: Unknown::Refused,
    };
    let options = WriterOptions {
        compression: compression(&arguments, &table.descriptor)?,
        ..WriterOptions::default()
    };
    let writer = LogWriter::new(client, table, options).await?;
    load(input, &arguments.source, &columns, Sink::Append(writer)).await
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
