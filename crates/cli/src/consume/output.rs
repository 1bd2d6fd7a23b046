//! Rows as a table, CSV or JSON lines.

use std::io::{BufWriter, ErrorKind, Write};

use anyhow::Result;
use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::ArrowError;
use comfy_table::{Cell, Color, Table, presets};

use super::changes::CHANGE_TYPE;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns.
    Table,
    /// Comma-separated values with a header line; null is empty.
    Csv,
    /// One JSON object per line; null members are left out.
    Json,
}

impl OutputFormat {
    /// What suits an output without being asked for.
    pub fn of_output(is_terminal: bool) -> Self {
        if is_terminal { Self::Table } else { Self::Csv }
    }
}

/// Rows of a table on a terminal are printed when so many have come.
const ROWS_PER_TABLE: usize = 1_000;

/// Prints batches that have the same columns.
pub struct Printer<W: Write> {
    out: BufWriter<W>,
    format: OutputFormat,
    /// Print at once: somebody watches rows arrive.
    live: bool,
    pending: Vec<RecordBatch>,
    header_printed: bool,
}

impl<W: Write> Printer<W> {
    /// A printer to `out`.
    pub fn new(out: W, format: OutputFormat, live: bool) -> Self {
        let out = BufWriter::with_capacity(1 << 16, out);
        Self {
            out,
            format,
            live,
            pending: Vec::new(),
            header_printed: false,
        }
    }

    /// Prints rows; false if nobody reads the output any more.
    pub fn print(&mut self, batch: &RecordBatch) -> Result<bool> {
        let printed = match self.format {
            OutputFormat::Table => {
                self.pending.push(batch.clone());
                let rows: usize = self.pending.iter().map(RecordBatch::num_rows).sum();
                if self.live || rows >= ROWS_PER_TABLE {
                    self.print_table()
                } else {
                    Ok(())
                }
            }
            OutputFormat::Csv => self.print_csv(batch),
            OutputFormat::Json => self.print_json(batch),
        };
        let printed = printed.and_then(|()| {
            if self.live {
                self.out.flush().map_err(ArrowError::from)
            } else {
                Ok(())
            }
        });
        match printed {
            Ok(()) => Ok(true),
            Err(ArrowError::IoError(_, error)) if error.kind() == ErrorKind::BrokenPipe => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Prints what is left.
    pub fn finish(mut self) -> Result<()> {
        let finished = if self.pending.is_empty() {
            Ok(())
        } else {
            self.print_table()
        };
        match finished.and_then(|()| Ok(self.out.flush()?)) {
            Err(ArrowError::IoError(_, error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }

    /// The output itself.
    pub fn into_inner(self) -> BufWriter<W> {
        self.out
    }

    fn print_table(&mut self) -> Result<(), ArrowError> {
        let options = FormatOptions::default().with_null("");
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        for batch in self.pending.drain(..) {
            if table.header().is_none() {
                let names: Vec<String> = batch
                    .schema()
                    .fields()
                    .iter()
                    .map(|field| field.name().clone())
                    .collect();
                table.set_header(names);
            }
            let columns: Vec<ArrayFormatter<'_>> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<_, ArrowError>>()?;
            let schema = batch.schema();
            let is_change_type = |column: usize| schema.field(column).name() == CHANGE_TYPE;
            for row in 0..batch.num_rows() {
                table.add_row(columns.iter().enumerate().map(|(position, column)| {
                    let text = column.value(row).to_string();
                    match is_change_type(position) {
                        true => change_cell(text),
                        false => Cell::new(text),
                    }
                }));
            }
        }
        writeln!(self.out, "{table}")?;
        Ok(())
    }

    fn print_csv(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let batch = flat(batch)?;
        let mut writer = arrow_csv::WriterBuilder::new()
            .with_header(!self.header_printed)
            .build(&mut self.out);
        self.header_printed = true;
        writer.write(&batch)
    }

    fn print_json(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let mut writer = arrow_json::LineDelimitedWriter::new(&mut self.out);
        writer.write(batch)?;
        writer.finish()
    }
}

/// What came is green, what went red; on a terminal only.
fn change_cell(symbol: String) -> Cell {
    let color = match symbol.as_str() {
        "-D" => Color::Red,
        "-U" => Color::DarkGrey,
        _ => Color::Green,
    };
    match std::env::var_os("NO_COLOR") {
        None => Cell::new(symbol).fg(color),
        Some(_) => Cell::new(symbol),
    }
}

/// CSV has no nested values: they are printed as text.
fn flat(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, StringArray};
    use arrow_schema::{DataType, Field, Schema};

    if !batch
        .schema()
        .fields()
        .iter()
        .any(|field| field.data_type().is_nested())
    {
        return Ok(batch.clone());
    }
    let options = FormatOptions::default();
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if field.data_type().is_nested() {
            let formatter = ArrayFormatter::try_new(column, &options)?;
            let text = |row| (!column.is_null(row)).then(|| formatter.value(row).to_string());
            let texts: StringArray = (0..column.len()).map(text).collect();
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            columns.push(Arc::new(texts));
        } else {
            fields.push(field.as_ref().clone());
            columns.push(column.clone());
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringArray};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn printed(format: OutputFormat) -> String {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int32, false),
            Field::new("name", DataType::Utf8, true),
        ]);
        let ids = Arc::new(Int32Array::from(vec![1, 2]));
        let names = Arc::new(StringArray::from(vec![Some("a,b"), None]));
        let batch = RecordBatch::try_new(Arc::new(schema), vec![ids, names]).expect("a batch");
        let mut out = Vec::new();
        let mut printer = Printer::new(&mut out, format, false);
        assert!(printer.print(&batch).expect("prints"));
        assert!(printer.print(&batch).expect("prints"));
        printer.finish().expect("finishes");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn csv_has_one_header_and_quotes_what_needs_it() {
        assert_eq!(
            printed(OutputFormat::Csv),
            "id,name\n1,\"a,b\"\n2,\n1,\"a,b\"\n2,\n"
        );
    }

    #[test]
    fn json_is_one_object_per_line() {
        let text = printed(OutputFormat::Json);
        assert_eq!(text.lines().next(), Some(r#"{"id":1,"name":"a,b"}"#));
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn a_table_holds_all_rows_under_one_header() {
        let text = printed(OutputFormat::Table);
        assert_eq!(text.matches("name").count(), 1);
        assert_eq!(text.matches("a,b").count(), 2);
    }
}
