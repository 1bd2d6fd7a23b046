//! `mainstem consume`: rows of a log table, printed.

mod output;

use std::io::{IsTerminal, Write};

use anyhow::{Result, bail};
use mainstem_client::admin::OffsetSpec;
use mainstem_client::scan::{LogScan, ScanOptions};
use mainstem_types::TablePath;

pub use self::output::OutputFormat;
use self::output::Printer;
use crate::target::{Target, parse_table};
use crate::where_clause;

/// Options of `mainstem consume`.
#[derive(clap::Args, Clone, Debug)]
pub struct ConsumeArguments {
    /// Table, as DATABASE.TABLE.
    #[arg(value_parser = parse_table)]
    table: TablePath,
    /// Where to start: `earliest`, `latest`, or epoch milliseconds.
    #[arg(long, default_value = "earliest", value_parser = parse_start)]
    from: OffsetSpec,
    /// Go on when the end is reached.
    #[arg(long, short)]
    follow: bool,
    /// Columns to read, separated by commas; only these leave the server.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    columns: Option<Vec<String>>,
    /// Rows to read: a condition like "delay > 60 and carrier = 'UA'".
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// How to print; by default a table on a terminal, else CSV.
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    /// Stop after so many rows.
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// Print only the number of rows.
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    target: Target,
}

fn parse_start(text: &str) -> Result<OffsetSpec, String> {
    match text {
        "earliest" => Ok(OffsetSpec::Earliest),
        "latest" => Ok(OffsetSpec::Latest),
        other => other
            .parse()
            .map(OffsetSpec::Timestamp)
            .map_err(|_| format!("'{other}' is neither earliest, latest nor epoch milliseconds")),
    }
}

/// Runs the command.
pub async fn run(arguments: ConsumeArguments) -> Result<()> {
    let filter = arguments
        .condition
        .as_deref()
        .map(where_clause::parse)
        .transpose()?;
    let client = arguments.target.connect().await?;
    let table = client.table(&arguments.table).await?;
    if table.descriptor.schema.has_primary_key() {
        bail!(
            "'{}' has a primary key; its changelog cannot be consumed yet",
            arguments.table
        );
    }
    let mut columns = arguments.columns.clone();
    if arguments.count && columns.is_none() {
        // Some column has to travel; a narrow one costs the least.
        columns = table
            .descriptor
            .schema
            .columns
            .first()
            .map(|column| vec![column.name.clone()]);
    }
    let options = ScanOptions {
        columns,
        filter,
        start: arguments.from,
        bounded: !arguments.follow,
        ..ScanOptions::default()
    };
    let mut scan = LogScan::new(client, table, options).await?;
    let stdout = std::io::stdout();
    let default = if stdout.is_terminal() {
        OutputFormat::Table
    } else {
        OutputFormat::Csv
    };
    let mut printer = Printer::new(
        stdout.lock(),
        arguments.format.unwrap_or(default),
        arguments.follow,
    );
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut rows = 0u64;
    while rows < limit {
        let Some(scanned) = scan.next().await? else {
            break;
        };
        let wanted = usize::try_from(limit - rows).unwrap_or(usize::MAX);
        let batch = scanned.batch.slice(0, scanned.batch.num_rows().min(wanted));
        rows += batch.num_rows() as u64;
        if !arguments.count && !printer.print(&batch)? {
            // The reader of our output is gone (`| head`).
            return Ok(());
        }
    }
    if arguments.count {
        writeln!(printer.into_inner(), "{rows}")?;
        return Ok(());
    }
    printer.finish()
}
