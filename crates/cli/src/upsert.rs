//! `mainstem upsert`: rows from a file or standard input to their keys in a
//! primary-key table.

use anyhow::{Result, bail};
use mainstem_client::upsert::{UpsertOptions, UpsertWriter};
use mainstem_client::{Client, TableInfo};
use mainstem_format::arrow_type::projected_arrow_schema;
use mainstem_types::{Schema, TablePath};

use crate::produce::{Columns, CreationArguments, Input, Sink, SourceArguments, Unknown, load};
use crate::target::{Target, parse_table};

/// Options of `mainstem upsert`.
#[derive(clap::Args, Clone, Debug)]
pub struct UpsertArguments {
    /// Table, as DATABASE.TABLE.
    #[arg(value_parser = parse_table)]
    table: TablePath,
    #[command(flatten)]
    source: SourceArguments,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    creation: CreationArguments,
    #[command(flatten)]
    target: Target,
}

/// What of the rows is written, and how.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    /// Columns to write; the other columns of a row stay what they are. By
    /// default those that the input has. Those of the primary key always count
    /// as named.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    columns: Option<Vec<String>>,
    /// Delete the rows of the keys in the input; with --columns only set those
    /// columns to null.
    #[arg(long)]
    delete: bool,
    /// Store rows as they are, past the table's merge engine and delete behaviour.
    #[arg(long)]
    overwrite: bool,
}

/// Runs the command.
pub async fn run(arguments: UpsertArguments) -> Result<()> {
    let client = arguments.target.connect().await?;
    let mut input = arguments.source.open()?;
    let table = arguments
        .creation
        .find_or_create(&client, &arguments.table, &mut input)
        .await?;
    put(client, table, input, &arguments.source, &arguments.choice).await
}

/// Puts all rows of an input.
pub async fn put(
    client: Client,
    table: TableInfo,
    mut input: Input,
    source: &SourceArguments,
    choice: &Choice,
) -> Result<()> {
    let schema = &table.descriptor.schema;
    if !schema.has_primary_key() {
        bail!(
            "'{}' has no primary key: its rows are appended with `mainstem produce`",
            table.path
        );
    }
    let (written, unknown) = match &choice.columns {
        Some(names) => (Some(with_keys(schema, names)?), Unknown::Ignored),
        None if choice.delete => (None, Unknown::Ignored),
        None => (columns_of_input(schema, &mut input)?, Unknown::Refused),
    };
    let travelling: Vec<usize> = if choice.delete {
        positions(schema, |name| schema.is_primary_key_column(name))
    } else {
        positions(schema, |name| match &written {
            Some(names) => names.iter().any(|written| written == name),
            // What the server numbers is not sent.
            None => !schema.auto_increment.iter().any(|column| column == name),
        })
    };
    let columns = Columns {
        schema: projected_arrow_schema(schema, &travelling)?,
        unknown,
    };
    let options = UpsertOptions {
        columns: written,
        overwrite: choice.overwrite,
        ..UpsertOptions::default()
    };
    let writer = UpsertWriter::new(client, table, options).await?;
    let sink = match choice.delete {
        true => Sink::Delete(writer),
        false => Sink::Upsert(writer),
    };
    load(input, source, &columns, sink).await
}

fn positions(schema: &Schema, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    let columns = schema.columns.iter().enumerate();
    columns
        .filter(|(_, column)| wanted(&column.name))
        .map(|(position, _)| position)
        .collect()
}

/// The named columns and those of the primary key.
fn with_keys(schema: &Schema, names: &[String]) -> Result<Vec<String>> {
    if let Some(name) = names.iter().find(|name| schema.column(name).is_none()) {
        bail!("the table has no column '{name}'");
    }
    let mut columns = names.to_vec();
    for key in &schema.primary_key {
        if !columns.contains(key) {
            columns.push(key.clone());
        }
    }
    Ok(columns)
}

/// The columns that the input has, if they are fewer than those of the table.
fn columns_of_input(schema: &Schema, input: &mut Input) -> Result<Option<Vec<String>>> {
    let Some(present) = input.column_names()? else {
        return Ok(None);
    };
    if let Some(name) = present.iter().find(|name| schema.column(name).is_none()) {
        bail!("the table has no column '{name}'; name those to write with --columns");
    }
    let has = |name: &String| present.contains(name);
    let missing_key = schema.primary_key.iter().find(|key| !has(key));
    if let Some(key) = missing_key {
        bail!("column '{key}' of the primary key is not in the input");
    }
    let all = schema
        .columns
        .iter()
        .all(|column| has(&column.name) || schema.auto_increment.contains(&column.name));
    let numbered = schema.auto_increment.iter().any(has);
    Ok((!all || numbered).then_some(present))
}
