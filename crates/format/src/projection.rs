//! Cutting columns out of stored ARROW batches without decoding them
//! (formats.md §2.3, tables.md §2.5).
//!
//! A [`Projection`] is compiled once per (table, fields). For each batch it
//! reads the header, a few tables of the Arrow metadata and the entries of the
//! kept columns, and returns a new header with metadata, and where the kept
//! bytes lie. Column data is neither read nor copied here, and the cost does
//! not depend on how many columns the table has.
//!
//! A batch that was written before a column was added gets that column back as
//! nulls: readers decode every projected batch with the projected schema.
//!
//! The checksum of a projected batch is stale. Readers know, and computing it
//! would mean to read the data.

use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstem_types::LogFormat;

use crate::arrow_message::{BodyCodec, BufferEntry, ENTRY_LEN, MessageIndex};
use crate::arrow_message_template::{MessageDraft, MessageTemplate};
use crate::header::{BatchHeader, MAX_BATCH_LEN};
use crate::read_at::{Fetch, ReadAt, ReadError, ReadWindow};
use crate::schema_layout::SchemaLayout;
use crate::{FormatError, Result};

mod body;
mod nulls;
mod run;

use body::BodyParts;
pub use body::{Part, SourceRange};
use nulls::NullColumns;
use run::Run;

/// Why a projection is refused, or a batch could not be projected. The first
/// five are the reader's fault (wire code 34), with the texts of tables.md §2.5.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// No fields.
    #[error("Empty projection is not supported")]
    Empty,
    /// Fields not in ascending order.
    #[error("The projection indexes should be in field order, but is {0:?}")]
    NotAscending(Vec<i32>),
    /// A field twice, or a negative one.
    #[error("The projection indexes should not contain duplicated fields, but is {0:?}")]
    Duplicate(Vec<i32>),
    /// A field that not even the latest schema has. The reference finds this out
    /// only when it reads a batch: at the end of a log it is no error.
    #[error("Projected fields {fields:?} is out of bound for schema with {column_count} fields.")]
    OutOfBound {
        /// The projection.
        fields: Vec<i32>,
        /// Columns of the latest schema.
        column_count: usize,
    },
    /// The table's batches cannot be projected.
    #[error(
        "Column projection is only supported for ARROW format, but the table's log format is {0}"
    )]
    NotArrow(&'static str),
    /// A batch of a schema that was not among those given (wire code 9).
    #[error("schema id {0} of a batch is unknown")]
    UnknownSchema(i16),
    /// A batch could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<FormatError> for ProjectionError {
    fn from(error: FormatError) -> Self {
        Self::Read(error.into())
    }
}

/// Columns to cut out of the batches of one table, compiled for each of its
/// schema versions.
#[derive(Debug)]
pub struct Projection {
    versions: Vec<(i16, Plan)>,
    node_count: usize,
    buffer_count: usize,
    /// By codec of the source batch. All batches have the same number of nodes
    /// and buffers when projected, whatever their schema.
    templates: [OnceLock<MessageTemplate>; 3],
}

/// What to do with batches of one schema version.
#[derive(Debug)]
struct Plan {
    /// All columns of the version are kept and none is missing.
    whole: bool,
    node_count: usize,
    buffer_count: usize,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    /// Neighbouring columns of the batch.
    Stored { nodes: Run, buffers: Run },
    /// Columns that the batch does not have.
    Null(NullColumns),
}

/// A batch with only the projected columns, as parts to send one after the
/// other.
#[derive(Clone, Debug)]
pub struct ProjectedBatch {
    /// The bytes: made here, or ranges of what the batch was read from.
    pub parts: Vec<Part>,
    /// Bytes of all parts together.
    pub len: usize,
}

impl Projection {
    /// Compiles the projection of top-level columns by position.
    ///
    /// `versions` are the table's schemas by id. A field that the one with the
    /// highest id has is projected from every batch.
    ///
    /// # Errors
    /// See [`ProjectionError`]; `NotArrow` is not among them (see
    /// [`Projection::check_format`]).
    pub fn new(
        versions: &[(i16, Arc<SchemaLayout>)],
        fields: &[i32],
    ) -> Result<Self, ProjectionError> {
        Self::check_fields(fields)?;
        let (_, latest) = versions
            .iter()
            .max_by_key(|(id, _)| *id)
            .ok_or_else(|| FormatError::invalid("projection of a table without a schema"))?;
        // Fields ascend, so the last one is the largest; all are ≥ 0.
        let last = fields.last().copied().unwrap_or(0) as usize;
        if last >= latest.column_count() {
            return Err(ProjectionError::OutOfBound {
                fields: fields.to_vec(),
                column_count: latest.column_count(),
            });
        }
        let mut compiled = Vec::with_capacity(versions.len());
        for (id, layout) in versions {
            compiled.push((*id, Plan::new(layout, latest, fields)?));
        }
        compiled.sort_by_key(|(id, _)| *id);
        let columns = || {
            fields
                .iter()
                .map(|field| &latest.columns()[*field as usize])
        };
        Ok(Self {
            versions: compiled,
            node_count: columns().map(|column| column.nodes.len()).sum(),
            buffer_count: columns().map(|column| column.buffers.len()).sum(),
            templates: Default::default(),
        })
    }

    /// Checks all of a projection that does not depend on a schema.
    ///
    /// # Errors
    /// `Empty`, `NotAscending` or `Duplicate`.
    pub fn check_fields(fields: &[i32]) -> Result<(), ProjectionError> {
        let Some(first) = fields.first() else {
            return Err(ProjectionError::Empty);
        };
        // The reference takes a negative field for a duplicate.
        if *first < 0 {
            return Err(ProjectionError::Duplicate(fields.to_vec()));
        }
        for pair in fields.windows(2) {
            if pair[1] < pair[0] {
                return Err(ProjectionError::NotAscending(fields.to_vec()));
            }
            if pair[1] == pair[0] {
                return Err(ProjectionError::Duplicate(fields.to_vec()));
            }
        }
        Ok(())
    }

    /// Whether batches of a format can be projected at all.
    ///
    /// # Errors
    /// `NotArrow`, which the reference finds before anything about the fields.
    pub fn check_format(format: LogFormat) -> Result<(), ProjectionError> {
        match format {
            LogFormat::Arrow => Ok(()),
            LogFormat::Indexed => Err(ProjectionError::NotArrow("INDEXED")),
            LogFormat::Compacted => Err(ProjectionError::NotArrow("COMPACTED")),
        }
    }

    /// Projects the batch at `position` of what `window` reads, whose header is
    /// `header` (see [`ReadWindow::batch_header`]).
    ///
    /// A batch without records, and one of which all columns are wanted, is
    /// returned as it is stored.
    ///
    /// # Errors
    /// `UnknownSchema`, or `Read` if the batch is damaged or cannot be read.
    pub fn project<S: ReadAt + ?Sized>(
        &self,
        window: &mut ReadWindow<'_, S>,
        position: u64,
        header: &BatchHeader,
    ) -> Result<ProjectedBatch, ProjectionError> {
        if header.is_header_only() {
            return Ok(ProjectedBatch::stored(position, header));
        }
        let plan = self.plan(header.schema_id)?;
        if plan.whole {
            return Ok(ProjectedBatch::stored(position, header));
        }
        let end = position.saturating_add(header.total_len as u64);
        let change_types_at = position + header.records_start() as u64;
        let message_at = position + header.arrow_start() as u64;
        let index = MessageIndex::locate(window, message_at, end)?;
        if index.length != i64::from(header.record_count)
            || index.node_count != plan.node_count
            || index.buffer_count != plan.buffer_count
        {
            return Err(
                FormatError::corrupt("Arrow message does not fit its batch's schema").into(),
            );
        }

        let template = self.template(index.codec);
        let header_len = header.header_len();
        let change_types_len = header.change_types_len();
        let mut head = Vec::with_capacity(header_len + change_types_len + template.len());
        head.resize(header_len, 0);
        if change_types_len > 0 {
            head.extend_from_slice(window.fetch(change_types_at, change_types_len)?);
        }
        let mut draft = template.append(&mut head);
        let mut body = BodyParts::new();
        // First all buffers, then all nodes: of both vectors, which may be far
        // from each other, entries near to each other are read at once.
        for piece in &plan.pieces {
            if let Piece::Stored { buffers, .. } = piece {
                push_buffers(window, &index, buffers, &mut draft, &mut body)?;
            }
        }
        for piece in &plan.pieces {
            match piece {
                Piece::Stored { nodes, .. } => {
                    nodes.cover(window, index.nodes_at, index.node_count)?;
                    draft.push_nodes(index.nodes(window, nodes.range())?);
                }
                // They come last, among the buffers as well.
                Piece::Null(columns) => {
                    columns.push(index.length, index.codec, &mut draft, &mut body)?;
                }
            }
        }
        let (mut parts, body_len) = body.finish();
        draft.finish(index.length, body_len);

        let len = head.len() as u64 + body_len as u64;
        if len > MAX_BATCH_LEN as u64 {
            return Err(FormatError::LimitExceeded {
                what: "bytes of a projected batch",
                actual: len,
                limit: MAX_BATCH_LEN as u64,
            }
            .into());
        }
        let len = len as usize;
        let projected = BatchHeader {
            total_len: len,
            statistics_len: 0,
            ..*header
        };
        projected.write_to(&mut head);
        parts[0] = Part::Owned(Bytes::from(head));
        Ok(ProjectedBatch { parts, len })
    }

    fn plan(&self, schema_id: i16) -> Result<&Plan, ProjectionError> {
        let found = self
            .versions
            .binary_search_by_key(&schema_id, |(id, _)| *id);
        found
            .map(|index| &self.versions[index].1)
            .map_err(|_| ProjectionError::UnknownSchema(schema_id))
    }

    fn template(&self, codec: Option<BodyCodec>) -> &MessageTemplate {
        let slot = match codec {
            None => 0,
            Some(BodyCodec::Lz4Frame) => 1,
            Some(BodyCodec::Zstd) => 2,
        };
        self.templates[slot]
            .get_or_init(|| MessageTemplate::new(self.node_count, self.buffer_count, codec))
    }
}

impl Plan {
    fn new(layout: &SchemaLayout, latest: &SchemaLayout, fields: &[i32]) -> Result<Self> {
        let mut stored: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        let mut missing = Vec::new();
        for field in fields {
            let position = *field as usize;
            let wanted = &latest.columns()[position];
            match layout.columns().get(position) {
                // Only columns are ever added (tables.md §2.3).
                Some(column) if !layout.is_alike(column, latest, wanted) => {
                    return Err(FormatError::invalid(format!(
                        "column {position} has another type in the latest schema"
                    )));
                }
                Some(column) => match stored.last_mut() {
                    Some((nodes, buffers)) if nodes.end == column.nodes.start => {
                        nodes.end = column.nodes.end;
                        buffers.end = column.buffers.end;
                    }
                    _ => stored.push((column.nodes.clone(), column.buffers.clone())),
                },
                // They are added at the end, so those that are missing come last.
                None => missing.push(position),
            }
        }
        let whole = missing.is_empty() && fields.len() == layout.column_count();
        let (nodes, buffers): (Vec<_>, Vec<_>) = stored.into_iter().unzip();
        // Behind a run of buffers one more entry is looked at.
        let buffers = Run::of(buffers, 1);
        let runs = Run::of(nodes, 0).into_iter().zip(buffers);
        let mut pieces: Vec<Piece> = runs
            .map(|(nodes, buffers)| Piece::Stored { nodes, buffers })
            .collect();
        if !missing.is_empty() {
            pieces.push(Piece::Null(NullColumns::new(latest, &missing)));
        }
        Ok(Self {
            whole,
            node_count: layout.nodes().len(),
            buffer_count: layout.buffer_count(),
            pieces,
        })
    }
}

/// Keeps a run of neighbouring buffers: their bytes stay together, gaps
/// included, and move by the same distance.
fn push_buffers<S: ReadAt + ?Sized>(
    window: &mut ReadWindow<'_, S>,
    index: &MessageIndex,
    buffers: &Run,
    draft: &mut MessageDraft<'_>,
    body: &mut BodyParts,
) -> Result<(), ReadError> {
    let buffers_in_run = buffers.range().len();
    if buffers_in_run == 0 {
        return Ok(());
    }
    let body_len = index.body_len as i64;
    buffers.cover(window, index.buffers_at, index.buffer_count)?;
    // The buffer behind the run says where the run's last one ends.
    let entries = index.buffers(window, buffers.looked_at(index.buffer_count))?;
    let first = BufferEntry::read(entries, 0).offset;
    let moved = body.len();
    let mut end = first;
    for at in 0..buffers_in_run {
        let buffer = BufferEntry::read(entries, at);
        end = if (at + 1) * ENTRY_LEN < entries.len() {
            BufferEntry::read(entries, at + 1).offset
        } else {
            body_len
        };
        if end > body_len || buffer.end_within(end).is_none() {
            return Err(FormatError::corrupt("buffers of an Arrow message overlap").into());
        }
        BufferEntry {
            offset: moved + (buffer.offset - first),
            len: buffer.len,
        }
        .write(draft.next_buffer());
    }
    // Not negative: every buffer begins at or after the one before it.
    body.push_source(index.body_start + first as u64, (end - first) as u64);
    Ok(())
}

impl ProjectedBatch {
    fn stored(position: u64, header: &BatchHeader) -> Self {
        let len = header.total_len;
        let range = SourceRange {
            position,
            len: len as u64,
        };
        Self {
            parts: vec![Part::Source(range)],
            len,
        }
    }

    /// All bytes of the batch in one piece, those of ranges read from `source`.
    ///
    /// # Errors
    /// A failed read.
    pub fn assemble(&self, source: &(impl ReadAt + ?Sized)) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.len);
        for part in &self.parts {
            match part {
                Part::Owned(bytes) => out.extend_from_slice(bytes),
                Part::Source(range) => {
                    let start = out.len();
                    out.resize(start + range.len as usize, 0);
                    source.read_at(range.position, &mut out[start..])?;
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
