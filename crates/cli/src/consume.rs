//! `mainstem consume`: the rows of a log table, the changes or the rows of a
//! primary-key table, printed.

mod changes;
mod output;
mod rows;

use std::io::{IsTerminal, StdoutLock, Write};

use anyhow::Result;
use arrow_array::RecordBatch;
use mainstem_client::admin::OffsetSpec;
use mainstem_client::scan::{LogScan, ScanOptions};
use mainstem_types::TablePath;

pub use self::output::{OutputFormat, Printer};
use self::rows::RowQuery;
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
    /// The rows that a primary-key table has now instead of its changes; with
    /// --follow, the changes from then on after them.
    #[arg(long, conflicts_with = "from")]
    rows: bool,
    /// Columns to read, separated by commas; of a log only these leave the server.
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

/// Prints up to a limit, or counts.
struct Reader {
    printer: Printer<StdoutLock<'static>>,
    count: bool,
    limit: u64,
    rows: u64,
}

impl Reader {
    fn new(arguments: &ConsumeArguments) -> Self {
        let stdout = std::io::stdout();
        let default = OutputFormat::of_output(stdout.is_terminal());
        let format = arguments.format.unwrap_or(default);
        Self {
            printer: Printer::new(stdout.lock(), format, arguments.follow),
            count: arguments.count,
            limit: arguments.limit.unwrap_or(u64::MAX),
            rows: 0,
        }
    }

    /// Takes rows; false if no more are wanted.
    fn take(&mut self, batch: &RecordBatch) -> Result<bool> {
        let wanted = usize::try_from(self.limit - self.rows).unwrap_or(usize::MAX);
        let batch = batch.slice(0, batch.num_rows().min(wanted));
        self.rows += batch.num_rows() as u64;
        if !self.count && batch.num_rows() > 0 && !self.printer.print(&batch)? {
            // The reader of our output is gone (`| head`).
            self.limit = self.rows;
        }
        Ok(self.is_open())
    }

    fn is_open(&self) -> bool {
        self.rows < self.limit
    }

    fn finish(self) -> Result<()> {
        if self.count {
            writeln!(self.printer.into_inner(), "{}", self.rows)?;
            return Ok(());
        }
        self.printer.finish()
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
    let mut reader = Reader::new(&arguments);
    let mut read_on_from = None;
    if arguments.rows {
        let query = RowQuery {
            columns: arguments.columns.as_deref(),
            filter: filter.as_ref(),
            limit: arguments.limit,
        };
        let taken = rows::read(client.clone(), table.clone(), &query, |batch| {
            if arguments.follow {
                reader.take(&changes::as_insertions(&batch)?)
            } else {
                reader.take(&batch)
            }
        });
        read_on_from = taken.await?;
        if !arguments.follow || !reader.is_open() {
            return reader.finish();
        }
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
    let has_changes = table.descriptor.has_primary_key();
    let mut scan = LogScan::new(client, table, options).await?;
    if let Some(offsets) = read_on_from {
        scan.start_at(&offsets);
    }
    while reader.is_open() {
        let Some(scanned) = scan.next().await? else {
            break;
        };
        let more = if has_changes {
            let batch = changes::with_change_types(&scanned.batch, &scanned.change_types)?;
            reader.take(&batch)?
        } else {
            reader.take(&scanned.batch)?
        };
        if !more {
            break;
        }
    }
    reader.finish()
}
