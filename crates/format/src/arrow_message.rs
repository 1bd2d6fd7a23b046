//! The one encapsulated Arrow RecordBatch message of an ARROW batch
//! (formats.md §1.5): finding its parts without reading all of it.
//!
//! ```text
//! ff ff ff ff | metadata size, i32 | flatbuffer `Message` | body
//! ```
//!
//! The flatbuffer of a batch of 10,000 columns has half a megabyte, nearly all
//! of it two vectors of 16-byte structs: one (length, null count) per field
//! node, one (offset, length) per buffer. [`MessageIndex::locate`] follows the
//! few tables in front of them, and the entries of a column are then found by
//! arithmetic. That costs the same for 10 columns and for 10,000.
//!
//! Every step checks its bounds, so damaged metadata gives an error and never a
//! panic. That the whole flatbuffer is one that strict readers accept is
//! checked once, on append, by [`verify_flatbuffer`].

use std::ops::Range;

use flatbuffers::VerifierOptions;

use crate::little_endian::{i16_at, i32_at, i64_at, u16_at, u32_at};
use crate::read_at::Fetch;
use crate::{FormatError, Result};

/// Bytes in front of the flatbuffer: continuation mark and size.
pub(crate) const MESSAGE_PREFIX_LEN: usize = 8;
/// Bytes of a field node, and of a buffer entry.
pub(crate) const ENTRY_LEN: usize = 16;

const CONTINUATION: [u8; 4] = [0xff; 4];

/// Codec of a compressed body. Each buffer is compressed by itself and begins
/// with its uncompressed length as `i64`, −1 meaning that raw bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyCodec {
    /// LZ4 frame format.
    Lz4Frame,
    /// ZSTD.
    Zstd,
}

/// Where the parts of a message lie. Positions are those of the byte source
/// that it was located in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageIndex {
    /// Rows.
    pub(crate) length: i64,
    /// Codec of the body; `None` = not compressed.
    pub(crate) codec: Option<BodyCodec>,
    pub(crate) node_count: usize,
    pub(crate) buffer_count: usize,
    pub(crate) body_start: u64,
    pub(crate) body_len: u64,
    /// Of the fields as stored, for patching; 0 where the default was elided.
    pub(crate) length_at: u64,
    pub(crate) body_len_at: u64,
    pub(crate) nodes_at: u64,
    pub(crate) buffers_at: u64,
}

/// A field node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeEntry {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
}

/// A buffer within the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferEntry {
    pub(crate) offset: i64,
    pub(crate) len: i64,
}

/// Slots of the tables' fields in their vtables, in bytes: 4 + 2 · field number.
mod slot {
    pub(super) mod message {
        pub(crate) const VERSION: usize = 4;
        pub(crate) const HEADER_TYPE: usize = 6;
        pub(crate) const HEADER: usize = 8;
        pub(crate) const BODY_LENGTH: usize = 10;
    }
    pub(super) mod record_batch {
        pub(crate) const LENGTH: usize = 4;
        pub(crate) const NODES: usize = 6;
        pub(crate) const BUFFERS: usize = 8;
        pub(crate) const COMPRESSION: usize = 10;
        pub(crate) const VARIADIC_BUFFER_COUNTS: usize = 12;
    }
    pub(super) mod compression {
        pub(crate) const CODEC: usize = 4;
        pub(crate) const METHOD: usize = 6;
    }
}

/// Versions with the same layout of record batches.
const METADATA_V4: i16 = 3;
const METADATA_V5: i16 = 4;
const HEADER_TYPE_RECORD_BATCH: u8 = 3;

impl MessageIndex {
    /// Finds the parts of the message that begins at `start` in `source` and
    /// must end at or before `end`.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] if the bytes are no RecordBatch message, if it
    /// passes `end`, or if it uses what no such batch uses (variadic buffers,
    /// an unknown codec).
    pub(crate) fn locate<S: Fetch>(source: &mut S, start: u64, end: u64) -> Result<Self, S::Error> {
        let available = end.saturating_sub(start);
        if available < MESSAGE_PREFIX_LEN as u64 {
            return Err(invalid("no Arrow message").into());
        }
        let prefix = source.fetch(start, MESSAGE_PREFIX_LEN)?;
        if prefix[..4] != CONTINUATION {
            return Err(invalid("no continuation mark in front of the Arrow message").into());
        }
        let metadata_len = i32_at(prefix, 4);
        let metadata_len = u64::try_from(metadata_len)
            .ok()
            .filter(|len| *len >= 4 && *len <= available - MESSAGE_PREFIX_LEN as u64)
            .ok_or_else(|| invalid("size of the Arrow metadata is out of bounds"))?;
        let metadata = start + MESSAGE_PREFIX_LEN as u64;
        let mut flatbuffer = Flatbuffer {
            source,
            start: metadata,
            len: metadata_len,
        };

        let message = flatbuffer.root()?;
        let version = flatbuffer.scalar(&message, slot::message::VERSION, 2)?;
        let version = version.map_or(0, |(_, bytes)| i16_at(&bytes, 0));
        let header_type = flatbuffer.scalar(&message, slot::message::HEADER_TYPE, 1)?;
        let header_type = header_type.map_or(0, |(_, bytes)| bytes[0]);
        if header_type != HEADER_TYPE_RECORD_BATCH
            || !(version == METADATA_V4 || version == METADATA_V5)
        {
            return Err(invalid("the Arrow message is no RecordBatch of version 4 or 5").into());
        }
        let body_len = flatbuffer.scalar(&message, slot::message::BODY_LENGTH, 8)?;
        let (body_len_at, body_len) = body_len.map_or((0, 0), |(at, b)| (at, i64_at(&b, 0)));
        let body_start = metadata + metadata_len;
        let body_len = u64::try_from(body_len)
            .ok()
            .filter(|len| *len <= end - body_start)
            .ok_or_else(|| invalid("body of the Arrow message is out of bounds"))?;

        let batch = flatbuffer
            .table(&message, slot::message::HEADER)?
            .ok_or_else(|| invalid("Arrow message without a header"))?;
        let length = flatbuffer.scalar(&batch, slot::record_batch::LENGTH, 8)?;
        let (length_at, length) = length.map_or((0, 0), |(at, b)| (at, i64_at(&b, 0)));
        let (nodes_at, node_count) =
            flatbuffer.vector(&batch, slot::record_batch::NODES, ENTRY_LEN)?;
        let (buffers_at, buffer_count) =
            flatbuffer.vector(&batch, slot::record_batch::BUFFERS, ENTRY_LEN)?;
        let (_, variadic) =
            flatbuffer.vector(&batch, slot::record_batch::VARIADIC_BUFFER_COUNTS, 8)?;
        if variadic != 0 {
            return Err(invalid("Arrow message with variadic buffers").into());
        }
        let codec = match flatbuffer.table(&batch, slot::record_batch::COMPRESSION)? {
            None => None,
            Some(compression) => {
                let codec = flatbuffer.scalar(&compression, slot::compression::CODEC, 1)?;
                let method = flatbuffer.scalar(&compression, slot::compression::METHOD, 1)?;
                let byte = |field: Option<(u64, [u8; 8])>| field.map_or(0, |(_, bytes)| bytes[0]);
                match (byte(codec), byte(method)) {
                    (0, 0) => Some(BodyCodec::Lz4Frame),
                    (1, 0) => Some(BodyCodec::Zstd),
                    _ => return Err(invalid("unknown codec of the Arrow body").into()),
                }
            }
        };
        Ok(Self {
            length,
            codec,
            node_count,
            buffer_count,
            body_start,
            body_len,
            length_at,
            body_len_at,
            nodes_at,
            buffers_at,
        })
    }

    /// All nodes and all buffer entries of a message in memory, in which it was
    /// located from position 0.
    pub(crate) fn entries_of<'m>(&self, message: &'m [u8]) -> (&'m [u8], &'m [u8]) {
        let nodes = &message[self.nodes_at as usize..][..self.node_count * ENTRY_LEN];
        let buffers = &message[self.buffers_at as usize..][..self.buffer_count * ENTRY_LEN];
        (nodes, buffers)
    }

    /// The field nodes of a range, as stored.
    ///
    /// # Errors
    /// Those of the source. The range must be within `node_count`.
    pub(crate) fn nodes<'s, S: Fetch>(
        &self,
        source: &'s mut S,
        range: Range<usize>,
    ) -> Result<&'s [u8], S::Error> {
        debug_assert!(range.end <= self.node_count);
        let at = self.nodes_at + (range.start * ENTRY_LEN) as u64;
        source.fetch(at, range.len() * ENTRY_LEN)
    }

    /// The buffer entries of a range, as stored.
    ///
    /// # Errors
    /// Those of the source. The range must be within `buffer_count`.
    pub(crate) fn buffers<'s, S: Fetch>(
        &self,
        source: &'s mut S,
        range: Range<usize>,
    ) -> Result<&'s [u8], S::Error> {
        debug_assert!(range.end <= self.buffer_count);
        let at = self.buffers_at + (range.start * ENTRY_LEN) as u64;
        source.fetch(at, range.len() * ENTRY_LEN)
    }
}

impl NodeEntry {
    /// Entry `index` of a run of nodes.
    pub(crate) fn read(entries: &[u8], index: usize) -> Self {
        let at = index * ENTRY_LEN;
        Self {
            length: i64_at(entries, at),
            null_count: i64_at(entries, at + 8),
        }
    }

    /// Writes the entry at the beginning of `out`.
    pub(crate) fn write(self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..ENTRY_LEN].copy_from_slice(&self.null_count.to_le_bytes());
    }
}

impl BufferEntry {
    /// Entry `index` of a run of buffers.
    pub(crate) fn read(entries: &[u8], index: usize) -> Self {
        let at = index * ENTRY_LEN;
        Self {
            offset: i64_at(entries, at),
            len: i64_at(entries, at + 8),
        }
    }

    /// Writes the entry at the beginning of `out`.
    pub(crate) fn write(self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..ENTRY_LEN].copy_from_slice(&self.len.to_le_bytes());
    }

    /// The buffer's end, if the buffer is well formed and does not pass `limit`,
    /// the beginning of the next one.
    pub(crate) fn end_within(self, limit: i64) -> Option<i64> {
        let end = self.offset.checked_add(self.len)?;
        (self.offset >= 0 && self.len >= 0 && end <= limit).then_some(end)
    }
}

/// Checks a whole message as the official flatbuffer readers do, which refuse
/// some metadata (misplaced fields, strings without an end) that
/// [`MessageIndex::locate`] has no need to look at. O(1) in the number of
/// columns, since vectors of structs are checked as one range.
pub(crate) fn verify_flatbuffer(message: &[u8]) -> Result<()> {
    let metadata_len = i32_at(message, 4) as usize;
    let metadata = &message[MESSAGE_PREFIX_LEN..MESSAGE_PREFIX_LEN + metadata_len];
    let options = VerifierOptions {
        // Message, record batch, compression; or a list of key-value tables.
        max_depth: 8,
        max_tables: 1024,
        // No part is shared by two tables of a conforming message; shared
        // vtables and strings are small.
        max_apparent_size: 2 * metadata_len + 4096,
        ignore_missing_null_terminator: false,
    };
    arrow_ipc::root_as_message_with_opts(&options, metadata)
        .map(|_| ())
        .map_err(|error| FormatError::invalid(format!("Arrow metadata: {error}")))
}

/// A flatbuffer within a byte source, read piece by piece.
struct Flatbuffer<'s, S> {
    source: &'s mut S,
    start: u64,
    len: u64,
}

/// A table: its position and its vtable, both relative to the flatbuffer.
struct Table {
    at: u64,
    /// Field offsets; of the tables here at most six fields matter.
    vtable: [u8; 16],
    vtable_len: usize,
}

impl<S: Fetch> Flatbuffer<'_, S> {
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], S::Error> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(invalid("Arrow metadata points outside of itself").into());
        }
        self.source.fetch(self.start + at, len)
    }

    fn root(&mut self) -> Result<Table, S::Error> {
        let at = u64::from(u32_at(self.bytes(0, 4)?, 0));
        self.read_table(at)
    }

    fn read_table(&mut self, at: u64) -> Result<Table, S::Error> {
        let to_vtable = i64::from(i32_at(self.bytes(at, 4)?, 0));
        let vtable_at = i64::try_from(at)
            .ok()
            .and_then(|at| at.checked_sub(to_vtable));
        let vtable_at = vtable_at
            .and_then(|at| u64::try_from(at).ok())
            .ok_or_else(|| invalid("vtable outside of the Arrow metadata"))?;
        let vtable_len = usize::from(u16_at(self.bytes(vtable_at, 2)?, 0));
        let mut vtable = [0; 16];
        // Fields that a later version of the format added lie behind those that
        // matter here.
        let vtable_len = vtable_len.min(vtable.len());
        let bytes = self.bytes(vtable_at, vtable_len)?;
        vtable[..vtable_len].copy_from_slice(bytes);
        Ok(Table {
            at,
            vtable,
            vtable_len,
        })
    }

    /// Where a field lies; `None` if it is absent.
    fn field(&self, table: &Table, slot: usize) -> Option<u64> {
        if slot + 2 > table.vtable_len {
            return None;
        }
        match u16_at(&table.vtable, slot) {
            0 => None,
            offset => Some(table.at + u64::from(offset)),
        }
    }

    /// Position, in the byte source, and bytes of a scalar field of `len` ≤ 8
    /// bytes.
    fn scalar(
        &mut self,
        table: &Table,
        slot: usize,
        len: usize,
    ) -> Result<Option<(u64, [u8; 8])>, S::Error> {
        let Some(at) = self.field(table, slot) else {
            return Ok(None);
        };
        let mut scalar = [0; 8];
        scalar[..len].copy_from_slice(self.bytes(at, len)?);
        Ok(Some((self.start + at, scalar)))
    }

    fn follow(&mut self, table: &Table, slot: usize) -> Result<Option<u64>, S::Error> {
        let Some(at) = self.field(table, slot) else {
            return Ok(None);
        };
        Ok(Some(at + u64::from(u32_at(self.bytes(at, 4)?, 0))))
    }

    fn table(&mut self, table: &Table, slot: usize) -> Result<Option<Table>, S::Error> {
        match self.follow(table, slot)? {
            Some(at) => self.read_table(at).map(Some),
            None => Ok(None),
        }
    }

    /// Position in the byte source and number of the elements of a vector of
    /// structs, which is empty if absent.
    fn vector(
        &mut self,
        table: &Table,
        slot: usize,
        element_len: usize,
    ) -> Result<(u64, usize), S::Error> {
        let Some(at) = self.follow(table, slot)? else {
            return Ok((0, 0));
        };
        let count = u32_at(self.bytes(at, 4)?, 0) as usize;
        let elements = at + 4;
        if elements + (count * element_len) as u64 > self.len {
            return Err(invalid("vector outside of the Arrow metadata").into());
        }
        Ok((self.start + elements, count))
    }
}

fn invalid(detail: &'static str) -> FormatError {
    FormatError::invalid(detail)
}

#[cfg(test)]
pub(crate) mod tests;
