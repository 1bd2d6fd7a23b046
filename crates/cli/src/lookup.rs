//! `mainstem lookup`: rows of a primary-key table by key.

mod key;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, bail};
use mainstem_client::lookup::{FoundRows, Lookup, LookupOptions, PrefixLookup};
use mainstem_types::{TableDescriptor, TablePath};

use self::key::KeyParser;
use crate::consume::{OutputFormat, Printer};
use crate::target::{Target, parse_table};

/// Options of `mainstem lookup`.
#[derive(clap::Args, Clone, Debug)]
pub struct LookupArguments {
    /// Table, as DATABASE.TABLE.
    #[arg(value_parser = parse_table)]
    table: TablePath,
    /// Keys: the values of the primary key's columns in their order, or
    /// COLUMN=VALUE. `UA 15 2013-01-01` and `UA,15,2013-01-01` are the same key;
    /// further values are further keys.
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<String>,
    /// The keys are only the columns of the bucket key (and of the partition):
    /// all rows that have them are found.
    #[arg(long, conflicts_with = "insert_if_missing")]
    prefix: bool,
    /// Insert a key that is not there, with null in the other columns, and in
    /// an auto-increment column its number.
    #[arg(long)]
    insert_if_missing: bool,
    /// Columns to print.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    columns: Option<Vec<String>>,
    /// How to print; by default a table on a terminal, else CSV.
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    #[command(flatten)]
    target: Target,
}

/// Runs the command; failure if a key has no row.
pub async fn run(arguments: LookupArguments) -> Result<ExitCode> {
    let client = arguments.target.connect().await?;
    let table = client.table(&arguments.table).await?;
    if !table.descriptor.has_primary_key() {
        bail!(
            "'{}' has no primary key: read its rows with `mainstem consume`",
            table.path
        );
    }
    let names = key_columns(&table.descriptor, arguments.prefix);
    let parser = KeyParser::new(&table.descriptor.schema, &names);
    let keys = parser.parse(&arguments.keys)?;
    let batch = parser.batch(&keys)?;
    let found = if arguments.prefix {
        let columns = arguments.columns.as_deref();
        let mut lookup = PrefixLookup::new(client, table, columns)?;
        lookup.lookup(&batch).await?
    } else {
        let options = LookupOptions {
            columns: arguments.columns.clone(),
            insert_if_not_exists: arguments.insert_if_missing,
        };
        Lookup::new(client, table, &options)?.lookup(&batch).await?
    };
    print(&found, arguments.format)?;
    for position in &found.missing {
        let key = usize::try_from(*position).ok().and_then(|p| keys.get(p));
        if let Some(key) = key {
            eprintln!("mainstem: no row has the key {}", parser.describe(key));
        }
    }
    Ok(match found.missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn print(found: &FoundRows, format: Option<OutputFormat>) -> Result<()> {
    if found.rows.num_rows() == 0 {
        return Ok(());
    }
    let stdout = std::io::stdout();
    let format = format.unwrap_or(OutputFormat::of_output(stdout.is_terminal()));
    let mut printer = Printer::new(stdout.lock(), format, false);
    if printer.print(&found.rows)? {
        printer.finish()?;
    }
    Ok(())
}

/// The columns of a key, in the order of the primary key.
fn key_columns(descriptor: &TableDescriptor, prefix: bool) -> Vec<String> {
    let wanted = |name: &&String| {
        !prefix || descriptor.bucket_keys.contains(name) || descriptor.partition_keys.contains(name)
    };
    let names = descriptor.schema.primary_key.iter();
    names.filter(wanted).cloned().collect()
}
