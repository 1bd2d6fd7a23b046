//! Record batches from CSV, JSON lines, Parquet and Arrow files or streams.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Bytes, and rows, that the column types are inferred from.
const SAMPLE_BYTES: usize = 4 << 20;
const SAMPLE_ROWS: usize = 100_000;
/// Bytes read at a time for that.
const SAMPLE_CHUNK: usize = 64 << 10;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
}

/// What is done with columns that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are a mistake.
    Refused,
    /// They are left out.
    Ignored,
}

/// How to read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format; `None` = by extension.
    pub format: Option<Format>,
    /// Text for null in CSV.
    pub null: Option<String>,
    /// Rows per batch.
    pub batch_rows: usize,
}

/// An opened source.
pub struct Input {
    format: Format,
    options: Options,
    /// The first bytes, which were read to look at them.
    sample: Bytes,
    rest: Option<Box<dyn Read + Send>>,
    position: Arc<AtomicU64>,
    bytes: Option<u64>,
    rows: Option<u64>,
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl Input {
    /// Opens a file, or standard input.
    ///
    /// # Errors
    /// An unreadable file, or one whose format is not told.
    pub fn open(path: Option<&Path>, options: &Options) -> Result<Self> {
        let by_name = path
            .and_then(|path| path.extension())
            .and_then(
                |extension| match extension.to_str()?.to_lowercase().as_str() {
                    "csv" => Some(Format::Csv),
                    "json" | "jsonl" | "ndjson" => Some(Format::Jsonl),
                    "parquet" => Some(Format::Parquet),
                    "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
                    _ => None,
                },
            );
        let Some(format) = options.format.or(by_name) else {
            bail!("say what the input holds with --format csv|jsonl|parquet|arrow");
        };
        let mut bytes = None;
        let mut source: Box<dyn Read + Send> = match path {
            Some(path) => {
                let open = || format!("cannot read {}", path.display());
                let mut file = File::open(path).with_context(open)?;
                bytes = Some(file.seek(SeekFrom::End(0)).with_context(open)?);
                file.rewind().with_context(open)?;
                Box::new(file)
            }
            None => Box::new(std::io::stdin()),
        };
        let mut sample = Vec::new();
        // Parquet and Arrow files are read from their end: they have to be whole.
        if matches!(format, Format::Parquet | Format::Arrow) {
            source.read_to_end(&mut sample)?;
        }
        let mut input = Self {
            format,
            options: options.clone(),
            sample: sample.into(),
            rest: Some(source),
            position: Arc::default(),
            bytes,
            rows: None,
        };
        if format == Format::Parquet {
            let builder = ParquetRecordBatchReaderBuilder::try_new(input.sample.clone())
                .context("not a readable Parquet file")?;
            input.rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
        }
        Ok(input)
    }

    /// Rows of the whole, if the format tells.
    pub fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Bytes of the whole, if it is a file.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Columns and types: as stored, or as the first rows suggest.
    ///
    /// # Errors
    /// A damaged file; no rows to look at.
    pub fn inferred_schema(&mut self) -> Result<Schema> {
        let schema = match self.format {
            Format::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(self.sample.clone())?;
                builder.schema().as_ref().clone()
            }
            Format::Arrow => self.arrow_reader()?.0.as_ref().clone(),
            Format::Csv => {
                self.sample_lines(2)?;
                let format = self.csv_format()?.with_header(true);
                format
                    .infer_schema(self.whole_lines(), Some(SAMPLE_ROWS))?
                    .0
            }
            Format::Jsonl => {
                self.sample_lines(1)?;
                let lines = BufReader::new(self.whole_lines());
                arrow_json::reader::infer_json_schema(lines, Some(SAMPLE_ROWS))?.0
            }
        };
        if schema.fields().is_empty() {
            bail!("the input has no columns");
        }
        Ok(schema)
    }

    /// Names of the columns. Of JSON lines those of the first one: a later line
    /// may have others. `None` if there is nothing in it.
    ///
    /// # Errors
    /// A damaged file.
    pub fn column_names(&mut self) -> Result<Option<Vec<String>>> {
        self.sample_lines(1)?;
        if self.sample.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let schema = match self.format {
            Format::Csv => self.csv_header()?,
            Format::Jsonl => {
                let lines = BufReader::new(self.whole_lines());
                arrow_json::reader::infer_json_schema(lines, Some(1))?.0
            }
            Format::Parquet | Format::Arrow => self.inferred_schema()?,
        };
        let names = schema.fields().iter().map(|field| field.name().clone());
        Ok(Some(names.collect()))
    }

    fn csv_header(&mut self) -> Result<Schema> {
        self.sample_lines(1)?;
        let header = self.csv_format()?.with_header(true);
        Ok(header.infer_schema(self.whole_lines(), Some(1))?.0)
    }

    /// The batches; columns that the input and `table` share have the table's
    /// type as far as the format can parse it. Of JSON lines only these columns
    /// are read, and others are an error if they are refused.
    ///
    /// # Errors
    /// A damaged header.
    pub fn read(&mut self, table: &SchemaRef, unknown: Unknown) -> Result<Batches> {
        Ok(match self.format {
            Format::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(self.sample.clone())?;
                Box::new(builder.with_batch_size(self.options.batch_rows).build()?)
            }
            Format::Arrow => self.arrow_reader()?.1,
            Format::Csv => {
                let schema = Arc::new(parsed_schema(&self.csv_header()?, table));
                let reader = arrow_csv::ReaderBuilder::new(schema)
                    .with_format(self.csv_format()?.with_header(true))
                    .with_batch_size(self.options.batch_rows)
                    .build(self.take_source()?)?;
                Box::new(reader)
            }
            Format::Jsonl => {
                let reader = arrow_json::ReaderBuilder::new(table.clone())
                    .with_batch_size(self.options.batch_rows)
                    .with_strict_mode(unknown == Unknown::Refused)
                    .build(BufReader::with_capacity(1 << 20, self.take_source()?))?;
                Box::new(reader)
            }
        })
    }

    fn csv_format(&self) -> Result<arrow_csv::reader::Format> {
        let format = arrow_csv::reader::Format::default();
        Ok(match &self.options.null {
            Some(null) => {
                let pattern = format!("^(|{})$", regex::escape(null));
                format.with_null_regex(regex::Regex::new(&pattern)?)
            }
            None => format,
        })
    }

    /// Reads ahead: of a file as much as types are inferred from, of a pipe what
    /// has arrived as soon as it is `lines` lines, so that rows which come slowly
    /// are not held up.
    fn sample_lines(&mut self, lines: usize) -> Result<()> {
        let Some(rest) = &mut self.rest else {
            return Ok(());
        };
        let mut sample = self.sample.to_vec();
        let mut chunk = vec![0; SAMPLE_CHUNK];
        while sample.len() < SAMPLE_BYTES {
            let found = sample
                .iter()
                .filter(|byte| **byte == b'\n')
                .take(lines)
                .count();
            if self.bytes.is_none() && found == lines {
                break;
            }
            match rest.read(&mut chunk)? {
                0 => break,
                count => sample.extend_from_slice(&chunk[..count]),
            }
        }
        self.sample = sample.into();
        Ok(())
    }

    /// The sample up to its last line end; all of it if it is one line.
    fn whole_lines(&self) -> Cursor<Bytes> {
        let line_end = self.sample.iter().rposition(|byte| *byte == b'\n');
        let whole = self
            .bytes
            .is_some_and(|bytes| bytes == self.sample.len() as u64);
        let end = if whole {
            None
        } else {
            line_end.map(|position| position + 1)
        };
        Cursor::new(self.sample.slice(..end.unwrap_or(self.sample.len())))
    }

    fn take_source(&mut self) -> Result<Counted> {
        let Some(rest) = self.rest.take() else {
            bail!("the input was read before")
        };
        let all = Cursor::new(self.sample.clone()).chain(rest);
        Ok(Counted {
            source: Box::new(all),
            position: self.position.clone(),
        })
    }

    fn arrow_reader(&self) -> Result<(SchemaRef, Batches)> {
        let bytes = Cursor::new(self.sample.clone());
        if self.sample.starts_with(b"ARROW1") {
            let reader = arrow_ipc::reader::FileReader::try_new(bytes, None)?;
            return Ok((reader.schema(), Box::new(reader)));
        }
        let reader = arrow_ipc::reader::StreamReader::try_new(bytes, None)
            .context("neither an Arrow file nor an Arrow stream")?;
        Ok((reader.schema(), Box::new(reader)))
    }
}

/// The columns of a CSV header with the types of the table; what the CSV parser
/// cannot parse is read as text and cast later, an unknown column as text.
fn parsed_schema(header: &Schema, table: &Schema) -> Schema {
    let field = |column: &Arc<Field>| {
        let data_type = match table.field_with_name(column.name()) {
            Ok(field) => match field.data_type() {
                DataType::Binary | DataType::FixedSizeBinary(_) => DataType::Utf8,
                other => other.clone(),
            },
            Err(_) => DataType::Utf8,
        };
        Field::new(column.name(), data_type, true)
    };
    Schema::new(header.fields().iter().map(field).collect::<Vec<_>>())
}

/// Counts what was read, for the progress bar.
struct Counted {
    source: Box<dyn Read + Send>,
    position: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
