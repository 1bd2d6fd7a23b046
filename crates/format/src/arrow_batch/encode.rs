//! Arrow record batches as log batches.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use bytes::Bytes;
use mainstem_types::{DataType, Schema, TypeKind};

use super::message::{MessageStart, MessageWriter};
use super::{EncodeOptions, statistics};
use crate::arrow_type::is_layout_of;
use crate::compression::{BufferCompressor, Compression};
use crate::header::Magic;
use crate::log_batch_builder::BatchSpec;
use crate::schema_layout::SchemaLayout;
use crate::{FormatError, Result};

// Arrow arrays have the byte order of the machine, batches that of the format.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "Arrow buffers are sent as they are"
);

/// Encodes batches of one schema.
pub struct ArrowBatchEncoder {
    types: Vec<DataType>,
    names: Vec<String>,
    compression: Compression,
    message: MessageWriter,
    scratch: Vec<u8>,
}

impl ArrowBatchEncoder {
    /// An encoder of batches of a schema.
    ///
    /// Error: a ZSTD level out of 1..=22.
    pub fn new(schema: &Schema, compression: Compression) -> Result<Self> {
        let layout = SchemaLayout::new(schema);
        let compressor = BufferCompressor::new(compression)?;
        let codec = compression.codec();
        let message = MessageWriter::new(
            layout.nodes().len(),
            layout.buffer_count(),
            codec,
            compressor,
        )?;
        Ok(Self {
            types: schema
                .columns
                .iter()
                .map(|column| column.data_type.clone())
                .collect(),
            names: schema
                .columns
                .iter()
                .map(|column| column.name.clone())
                .collect(),
            compression,
            message,
            scratch: Vec::new(),
        })
    }

    /// Encodes a batch; without `change_types` all records are appends. The
    /// compression is the encoder's, whatever the options say.
    ///
    /// Errors: columns that do not have the layout of the schema's, null in a
    /// NOT NULL column, as many change types as records, or a batch of 2 GiB.
    pub fn encode(
        &mut self,
        batch: &RecordBatch,
        change_types: Option<&[u8]>,
        options: EncodeOptions<'_>,
    ) -> Result<Bytes> {
        self.check(batch, change_types)?;
        let record_count = batch.num_rows();
        let statistics_columns = options.statistics_columns.unwrap_or_default();
        let spec = BatchSpec {
            magic: if statistics_columns.is_empty() {
                Magic::V0
            } else {
                Magic::V1
            },
            schema_id: options.schema_id,
            append_only: change_types.is_none(),
            writer_id: options.writer_id,
            batch_sequence: options.batch_sequence,
            ..BatchSpec::default()
        };
        if record_count == 0 {
            return Ok(Bytes::from(spec.empty()));
        }
        let mut out = Vec::with_capacity(self.capacity(batch));
        let start = spec.begin(&mut out);
        let statistics_len = match spec.magic {
            Magic::V0 => 0,
            _ => statistics::append(batch, &self.types, statistics_columns, &mut out)?,
        };
        out.extend_from_slice(change_types.unwrap_or_default());
        let message = self.message.begin(&mut out);
        for (array, data_type) in batch.columns().iter().zip(&self.types) {
            let mut body = Body {
                message: &mut self.message,
                start: &message,
                scratch: &mut self.scratch,
                out: &mut out,
            };
            body.push(array, data_type)?;
        }
        self.message.finish(&message, record_count, &mut out)?;
        // Checked to be within 32 bits.
        spec.finish(&mut out, start, record_count as i32, statistics_len)?;
        Ok(Bytes::from(out))
    }

    fn check(&self, batch: &RecordBatch, change_types: Option<&[u8]>) -> Result<()> {
        if batch.num_columns() != self.types.len() {
            return Err(FormatError::invalid(format!(
                "batch of {} columns for a table of {}",
                batch.num_columns(),
                self.types.len()
            )));
        }
        let columns = batch.columns().iter().zip(&self.types).zip(&self.names);
        for ((array, data_type), name) in columns {
            if !is_layout_of(array.data_type(), data_type) {
                return Err(FormatError::invalid(format!(
                    "column `{name}`: Arrow type {} for a column of type {:?}",
                    array.data_type(),
                    data_type.kind
                )));
            }
            check_nulls(array, data_type, None)
                .map_err(|()| FormatError::invalid(format!("null in NOT NULL column `{name}`")))?;
        }
        if i32::try_from(batch.num_rows()).is_err() {
            return Err(FormatError::LimitExceeded {
                what: "records of a batch",
                actual: batch.num_rows() as u64,
                limit: i32::MAX as u64,
            });
        }
        if change_types.is_some_and(|types| types.len() != batch.num_rows()) {
            return Err(FormatError::invalid(
                "another number of change types than of records",
            ));
        }
        Ok(())
    }

    /// Room for a batch that is not compressed, or for half of it.
    fn capacity(&self, batch: &RecordBatch) -> usize {
        const METADATA_GUESS: usize = 1024;
        let body = batch.get_array_memory_size();
        let body = if self.compression == Compression::None {
            body
        } else {
            body / 2
        };
        METADATA_GUESS + body
    }
}

/// Checks a column and all in it. Nulls of a NOT NULL field are none where the
/// row that it belongs to is null itself.
fn check_nulls(
    array: &ArrayRef,
    data_type: &DataType,
    parent: Option<&NullBuffer>,
) -> Result<(), ()> {
    if !data_type.nullable
        && let Some(nulls) = array.nulls()
        && nulls.null_count() > 0
        && !parent.is_some_and(|parent| parent.contains(nulls))
    {
        return Err(());
    }
    match &data_type.kind {
        TypeKind::Array(element) => {
            let list = array.as_list::<i32>();
            check_nulls(&used(list.values(), list.offsets()), element, None)
        }
        TypeKind::Map { key, value } => {
            let map = array.as_map();
            // Keys are NOT NULL whatever the type says.
            let key = DataType {
                nullable: false,
                ..DataType::clone(key)
            };
            check_nulls(&used(map.keys(), map.offsets()), &key, None)?;
            check_nulls(&used(map.values(), map.offsets()), value, None)
        }
        TypeKind::Row(fields) => {
            let row = array.as_struct();
            for (column, field) in row.columns().iter().zip(fields) {
                check_nulls(column, &field.data_type, row.nulls())?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The part of a list's values that its offsets reach.
fn used(values: &ArrayRef, offsets: &OffsetBuffer<i32>) -> ArrayRef {
    let (first, last) = ends(offsets);
    values.slice(first, last - first)
}

fn ends(offsets: &OffsetBuffer<i32>) -> (usize, usize) {
    (offsets[0] as usize, offsets[offsets.len() - 1] as usize)
}

/// The body of a message being written, in depth-first order.
struct Body<'a> {
    message: &'a mut MessageWriter,
    start: &'a MessageStart,
    scratch: &'a mut Vec<u8>,
    out: &'a mut Vec<u8>,
}

impl Body<'_> {
    /// Appends an array that has the layout of the type.
    fn push(&mut self, array: &ArrayRef, data_type: &DataType) -> Result<()> {
        self.push_node(array.len(), array.nulls())?;
        match &data_type.kind {
            TypeKind::Boolean => self.push_bits(array.as_boolean().values()),
            TypeKind::Char { .. } | TypeKind::String => {
                let array = array.as_string::<i32>();
                self.push_variable(array.offsets(), array.values())
            }
            TypeKind::Bytes => {
                let array = array.as_binary::<i32>();
                self.push_variable(array.offsets(), array.values())
            }
            TypeKind::Binary { length } => {
                let values = array.as_fixed_size_binary().value_data();
                // Of a slice, the buffer may go on behind its last value.
                self.push_buffer(&values[..array.len() * *length as usize])
            }
            TypeKind::TinyInt => {
                self.push_buffer(array.as_primitive::<Int8Type>().values().inner())
            }
            TypeKind::SmallInt => {
                self.push_buffer(array.as_primitive::<Int16Type>().values().inner())
            }
            TypeKind::Int => self.push_buffer(array.as_primitive::<Int32Type>().values().inner()),
            TypeKind::BigInt => {
                self.push_buffer(array.as_primitive::<Int64Type>().values().inner())
            }
            TypeKind::Float => {
                self.push_buffer(array.as_primitive::<Float32Type>().values().inner())
            }
            TypeKind::Double => {
                self.push_buffer(array.as_primitive::<Float64Type>().values().inner())
            }
            TypeKind::Decimal { .. } => {
                self.push_buffer(array.as_primitive::<Decimal128Type>().values().inner())
            }
            TypeKind::Date => self.push_buffer(array.as_primitive::<Date32Type>().values().inner()),
            TypeKind::Time { .. } | TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. } => {
                // One of eight primitive types, of which only the width counts.
                let data = array.to_data();
                let width = if matches!(data_type.kind, TypeKind::Time { precision: 0..=3 }) {
                    4
                } else {
                    8
                };
                let values = &data.buffers()[0][data.offset() * width..][..data.len() * width];
                self.push_buffer(values)
            }
            TypeKind::Array(element) => {
                let list = array.as_list::<i32>();
                self.push_offsets(list.offsets())?;
                self.push(&used(list.values(), list.offsets()), element)
            }
            TypeKind::Map { key, value } => {
                let map = array.as_map();
                self.push_offsets(map.offsets())?;
                let (first, last) = ends(map.offsets());
                self.push_node(last - first, None)?;
                self.push(&used(map.keys(), map.offsets()), key)?;
                self.push(&used(map.values(), map.offsets()), value)
            }
            TypeKind::Row(fields) => {
                for (column, field) in array.as_struct().columns().iter().zip(fields) {
                    self.push(column, &field.data_type)?;
                }
                Ok(())
            }
        }
    }

    fn push_buffer(&mut self, bytes: &[u8]) -> Result<()> {
        self.message.push_buffer(bytes, self.start, self.out)
    }

    /// A node and its validity, which is always there.
    fn push_node(&mut self, length: usize, nulls: Option<&NullBuffer>) -> Result<()> {
        self.message
            .push_node(length, nulls.map_or(0, NullBuffer::null_count));
        match nulls {
            Some(nulls) if nulls.null_count() > 0 => self.push_bits(nulls.inner()),
            _ => {
                self.scratch.clear();
                self.scratch.resize(length.div_ceil(8), 0xff);
                self.push_scratch_bits(length)
            }
        }
    }

    fn push_bits(&mut self, bits: &BooleanBuffer) -> Result<()> {
        let from_bit_0 = bits.sliced();
        self.scratch.clear();
        self.scratch
            .extend_from_slice(&from_bit_0[..bits.len().div_ceil(8)]);
        self.push_scratch_bits(bits.len())
    }

    /// Bits behind the last one are zero, as Java writes them.
    fn push_scratch_bits(&mut self, length: usize) -> Result<()> {
        if let Some(last) = self.scratch.last_mut()
            && !length.is_multiple_of(8)
        {
            *last &= (1 << (length % 8)) - 1;
        }
        self.message.push_buffer(self.scratch, self.start, self.out)
    }

    fn push_variable(&mut self, offsets: &OffsetBuffer<i32>, values: &[u8]) -> Result<()> {
        self.push_offsets(offsets)?;
        let (first, last) = ends(offsets);
        self.push_buffer(&values[first..last])
    }

    /// Offsets that begin at 0, which a slice's do not; none at all, as Java
    /// has it, where there are no values.
    fn push_offsets(&mut self, offsets: &OffsetBuffer<i32>) -> Result<()> {
        if offsets.len() == 1 {
            return self.push_buffer(&[]);
        }
        let first = offsets[0];
        if first == 0 {
            return self.push_buffer(offsets.inner().inner());
        }
        self.scratch.clear();
        self.scratch.extend(
            offsets
                .iter()
                .flat_map(|offset| (offset - first).to_le_bytes()),
        );
        self.message.push_buffer(self.scratch, self.start, self.out)
    }
}
