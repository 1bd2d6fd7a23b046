//! Log batches as Arrow record batches.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType as ArrowType, FieldRef, SchemaRef};
use bytes::Bytes;
use mainstem_types::Schema;

use super::DecodedBatch;
use crate::arrow_message::{BufferEntry, ENTRY_LEN, MessageIndex, NodeEntry};
use crate::arrow_type::{arrow_schema, projected_arrow_schema};
use crate::compression::BufferDecompressor;
use crate::header::BatchHeader;
use crate::log_batch::LogBatch;
use crate::read_at::InMemory;
use crate::schema_layout::SchemaLayout;
use crate::value_builder::arrow_error;
use crate::{FormatError, Result};

/// What the buffers of one batch may decompress to unless said otherwise: far
/// more than any client packs into a batch.
pub const DEFAULT_DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// Highest code of a change type: delete.
const CHANGE_TYPE_MAX: u8 = 4;

/// Which columns a batch holds, and which of them are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns<'a> {
    /// It holds all columns of the schema, and all are wanted.
    All,
    /// It holds all; these are wanted, in this order.
    Selected(&'a [usize]),
    /// The server projected it to these, and it holds no others.
    Projected(&'a [usize]),
}

/// Decodes batches of one schema.
#[derive(Debug)]
pub struct ArrowBatchDecoder {
    /// Of the batches returned.
    schema: SchemaRef,
    /// Per returned column, where its nodes and buffers lie in a message.
    columns: Vec<ColumnPosition>,
    node_count: usize,
    buffer_count: usize,
    verify_crc: bool,
    decompressed_bytes_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct ColumnPosition {
    node: usize,
    buffer: usize,
}

impl ArrowBatchDecoder {
    /// A decoder of batches that were written with this schema, or projected by
    /// a server that knew it.
    ///
    /// Error: a column that the schema does not have.
    pub fn new(schema: &Schema, columns: Columns<'_>) -> Result<Self> {
        let layout = SchemaLayout::new(schema);
        let target = match columns {
            Columns::All => arrow_schema(schema),
            Columns::Selected(positions) | Columns::Projected(positions) => {
                projected_arrow_schema(schema, positions)?
            }
        };
        let start_of = |position: &usize| {
            let column = &layout.columns()[*position];
            ColumnPosition {
                node: column.nodes.start,
                buffer: column.buffers.start,
            }
        };
        let (positions, node_count, buffer_count) = match columns {
            Columns::All => {
                let positions = (0..schema.columns.len()).map(|position| start_of(&position));
                (
                    positions.collect(),
                    layout.nodes().len(),
                    layout.buffer_count(),
                )
            }
            Columns::Selected(positions) => {
                let positions = positions.iter().map(start_of).collect();
                (positions, layout.nodes().len(), layout.buffer_count())
            }
            Columns::Projected(positions) => {
                let mut next = ColumnPosition { node: 0, buffer: 0 };
                let mut starts = Vec::with_capacity(positions.len());
                for &position in positions {
                    starts.push(next);
                    next.node += layout.columns()[position].nodes.len();
                    next.buffer += layout.columns()[position].buffers.len();
                }
                (starts, next.node, next.buffer)
            }
        };
        Ok(Self {
            schema: target,
            columns: positions,
            node_count,
            buffer_count,
            // A server that projects leaves the checksum of the whole batch.
            verify_crc: !matches!(columns, Columns::Projected(_)),
            decompressed_bytes_max: DEFAULT_DECOMPRESSED_BYTES_MAX,
        })
    }

    /// Sets whether the checksum is compared; by default it is, unless batches
    /// are projected.
    #[must_use]
    pub fn with_crc_check(mut self, verify_crc: bool) -> Self {
        self.verify_crc = verify_crc;
        self
    }

    /// Sets how large the wanted buffers of one batch may become.
    #[must_use]
    pub fn with_decompressed_bytes_max(mut self, bytes: usize) -> Self {
        self.decompressed_bytes_max = bytes;
        self
    }

    /// The schema of the batches returned.
    pub fn arrow_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decodes the batch that `batch_bytes` begin with. Buffers that are neither
    /// compressed nor misaligned are shared with them.
    ///
    /// Errors: [`FormatError::Corrupt`] for damage that header or checksum show,
    /// [`FormatError::Invalid`] for anything that is not what the schema says,
    /// [`FormatError::LimitExceeded`] for what decompresses to too much.
    pub fn decode(&self, batch_bytes: &Bytes) -> Result<DecodedBatch> {
        self.decode_batch(&LogBatch::parse(batch_bytes)?)
    }

    /// [`ArrowBatchDecoder::decode`] of a batch whose header is known.
    pub fn decode_batch(&self, batch: &LogBatch) -> Result<DecodedBatch> {
        if self.verify_crc {
            batch.verify_crc()?;
        }
        let header = batch.header();
        if header.record_count == 0 {
            let rows = RecordBatch::new_empty(self.schema.clone());
            let change_types = (!header.is_append_only()).then(Bytes::new);
            return Ok(DecodedBatch::new(header, change_types, rows));
        }
        let change_types = change_types(batch)?;
        let rows = self.rows(header, batch.bytes())?;
        Ok(DecodedBatch::new(header, change_types, rows))
    }

    fn rows(&self, header: &BatchHeader, bytes: &Bytes) -> Result<RecordBatch> {
        let mut source = InMemory(bytes);
        let (start, end) = (header.arrow_start() as u64, header.total_len as u64);
        let message = MessageIndex::locate(&mut source, start, end)?;
        let record_count = header.record_count as usize;
        if message.length != i64::from(header.record_count) {
            return Err(FormatError::invalid(format!(
                "Arrow message of {} rows in a batch of {record_count} records",
                message.length
            )));
        }
        if (message.node_count, message.buffer_count) != (self.node_count, self.buffer_count) {
            return Err(FormatError::invalid(format!(
                "Arrow message of {} nodes and {} buffers where the schema has {} and {}",
                message.node_count, message.buffer_count, self.node_count, self.buffer_count
            )));
        }
        let nodes = message.nodes(&mut source, 0..message.node_count)?;
        let mut source = InMemory(bytes);
        let buffers = message.buffers(&mut source, 0..message.buffer_count)?;
        let body_start = message.body_start as usize;
        let body = bytes.slice(body_start..body_start + message.body_len as usize);
        let decompressor = match message.codec {
            Some(codec) => Some(BufferDecompressor::new(codec, self.decompressed_bytes_max)?),
            None => None,
        };
        let mut body = BodyReader {
            nodes,
            buffers,
            body: Buffer::from(body),
            decompressor,
            node: 0,
            buffer: 0,
        };
        let fields = self.schema.fields().iter().zip(&self.columns);
        let columns = fields
            .map(|(field, position)| {
                body.node = position.node;
                body.buffer = position.buffer;
                let array = body.read(field, Some(record_count))?;
                Ok(make_array(array))
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(record_count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(arrow_error)
    }
}

/// The change types, shared; `None` if all are appends.
fn change_types(batch: &LogBatch) -> Result<Option<Bytes>> {
    if batch.header().is_append_only() {
        return Ok(None);
    }
    let codes = batch.change_types()?;
    if let Some(code) = codes.iter().find(|&&code| code > CHANGE_TYPE_MAX) {
        return Err(FormatError::invalid(format!("change type {code}")));
    }
    Ok(Some(batch.bytes().slice_ref(codes)))
}

/// Which values of an array are null.
enum Validity {
    AllValid,
    AllNull,
    Bits(NullBuffer),
}

/// Reads arrays out of a body, in depth-first order.
struct BodyReader<'a> {
    nodes: &'a [u8],
    buffers: &'a [u8],
    body: Buffer,
    decompressor: Option<BufferDecompressor>,
    /// Next of each, within what the message has: the layouts were compared.
    node: usize,
    buffer: usize,
}

impl BodyReader<'_> {
    /// Reads an array and all in it, checked by Arrow: offsets ascend within
    /// bounds, text is UTF-8, buffers are long enough, NOT NULL holds. The depth
    /// of recursion is that of the schema.
    fn read(&mut self, field: &FieldRef, expected_length: Option<usize>) -> Result<ArrayData> {
        let node = self.next_node()?;
        let length = usize::try_from(node.length)
            .ok()
            .filter(|&length| length <= i32::MAX as usize);
        let Some(length) = length.filter(|&length| expected_length.is_none_or(|it| it == length))
        else {
            return Err(FormatError::invalid(format!(
                "field `{}` has {} values",
                field.name(),
                node.length
            )));
        };
        let validity = self.next_validity(field, length, node.null_count)?;
        let nulls = match &validity {
            Validity::Bits(nulls) => Some(nulls.clone()),
            Validity::AllValid | Validity::AllNull => None,
        };
        let mut array = ArrayData::builder(field.data_type().clone())
            .len(length)
            .nulls(nulls)
            .align_buffers(true);
        match field.data_type() {
            ArrowType::Struct(fields) => {
                for child in fields {
                    array = array.add_child_data(self.read(child, Some(length))?);
                }
            }
            ArrowType::List(child) | ArrowType::Map(child, _) => {
                let offsets = self.next_offsets(field, length)?;
                array = array
                    .add_buffer(offsets)
                    .add_child_data(self.read(child, None)?);
            }
            ArrowType::Utf8 | ArrowType::Binary => {
                let offsets = self.next_offsets(field, length)?;
                array = array.add_buffer(offsets).add_buffer(self.next_buffer()?);
            }
            _ => array = array.add_buffer(self.next_buffer()?),
        }
        let refused = |error| FormatError::invalid(format!("field `{}`: {error}", field.name()));
        let array = array.build().map_err(refused)?;
        match validity {
            // Only now it is known that there are bytes for so many values.
            Validity::AllNull => {
                let nulls = Some(NullBuffer::new_null(length));
                array.into_builder().nulls(nulls).build().map_err(refused)
            }
            Validity::AllValid | Validity::Bits(_) => Ok(array),
        }
    }

    fn next_node(&mut self) -> Result<NodeEntry> {
        debug_assert!((self.node + 1) * ENTRY_LEN <= self.nodes.len());
        let node = NodeEntry::read(self.nodes, self.node);
        self.node += 1;
        Ok(node)
    }

    fn next_buffer(&mut self) -> Result<Buffer> {
        debug_assert!((self.buffer + 1) * ENTRY_LEN <= self.buffers.len());
        let entry = BufferEntry::read(self.buffers, self.buffer);
        self.buffer += 1;
        if entry.end_within(self.body.len() as i64).is_none() {
            return Err(FormatError::invalid(format!(
                "buffer of {} bytes at {} of an Arrow body of {}",
                entry.len,
                entry.offset,
                self.body.len()
            )));
        }
        let stored = self
            .body
            .slice_with_length(entry.offset as usize, entry.len as usize);
        match &mut self.decompressor {
            Some(decompressor) => decompressor.decompress(stored),
            None => Ok(stored),
        }
    }

    /// Offsets of exactly `length` values: Arrow panics where bytes are left
    /// over that make no whole offset. Without values there need be none.
    fn next_offsets(&mut self, field: &FieldRef, length: usize) -> Result<Buffer> {
        let buffer = self.next_buffer()?;
        let needed = if length == 0 {
            0
        } else {
            (length + 1) * size_of::<i32>()
        };
        if buffer.len() < needed {
            return Err(FormatError::invalid(format!(
                "field `{}`: offsets of {} bytes for {length} values",
                field.name(),
                buffer.len()
            )));
        }
        Ok(buffer.slice_with_length(0, needed))
    }

    /// The validity bits decide, as in Java, and the null count only where there
    /// are none. A NOT NULL field without nulls needs none at all.
    fn next_validity(
        &mut self,
        field: &FieldRef,
        length: usize,
        null_count: i64,
    ) -> Result<Validity> {
        let bits = self.next_buffer()?;
        if !field.is_nullable() && null_count == 0 {
            return Ok(Validity::AllValid);
        }
        if bits.is_empty() {
            return match null_count {
                0 => Ok(Validity::AllValid),
                count if count == length as i64 => Ok(Validity::AllNull),
                _ => Err(FormatError::invalid(format!(
                    "field `{}` has {null_count} nulls and no validity",
                    field.name()
                ))),
            };
        }
        if bits.len() < length.div_ceil(8) {
            return Err(FormatError::invalid(format!(
                "field `{}`: validity of {} bytes for {length} values",
                field.name(),
                bits.len()
            )));
        }
        Ok(Validity::Bits(NullBuffer::new(BooleanBuffer::new(
            bits, 0, length,
        ))))
    }
}
