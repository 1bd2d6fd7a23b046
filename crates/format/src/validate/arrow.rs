//! Whether an ARROW batch is one of its schema, as far as its metadata shows.

use super::{LAST_CHANGE_TYPE, unknown_change_type};
use crate::arrow_message::{BufferEntry, ENTRY_LEN, MessageIndex, NodeEntry, verify_flatbuffer};
use crate::little_endian::{i32_at, i64_at};
use crate::log_batch::LogBatch;
use crate::read_at::InMemory;
use crate::schema_layout::{NodeKind, NodeLayout, NodeLength, SchemaLayout};
use crate::{FormatError, Result};

/// Length in front of a buffer of a compressed body which means: raw.
const RAW: i64 = -1;

pub(super) fn check(batch: &LogBatch, layout: &SchemaLayout) -> Result<()> {
    let header = batch.header();
    if let Some(code) = batch
        .change_types()?
        .iter()
        .find(|code| **code > LAST_CHANGE_TYPE)
    {
        return Err(unknown_change_type(*code));
    }
    let message = &batch.bytes()[header.arrow_start()..];
    let index = MessageIndex::locate(&mut InMemory(message), 0, message.len() as u64)?;
    verify_flatbuffer(message)?;
    if index.length != i64::from(header.record_count) {
        return Err(FormatError::invalid(format!(
            "Arrow message of {} rows in a batch of {} records",
            index.length, header.record_count
        )));
    }
    if index.node_count != layout.nodes().len() || index.buffer_count != layout.buffer_count() {
        return Err(FormatError::invalid(format!(
            "Arrow message of {} field nodes and {} buffers, schema {} has {} and {}",
            index.node_count,
            index.buffer_count,
            header.schema_id,
            layout.nodes().len(),
            layout.buffer_count()
        )));
    }
    let body = &message[index.body_start as usize..][..index.body_len as usize];
    let (nodes, buffers) = index.entries_of(message);
    let message = CheckedMessage {
        nodes,
        buffers,
        body,
        compressed: index.codec.is_some(),
    };
    message.check(layout, index.length)
}

/// The vectors of a message whose counts fit the schema.
struct CheckedMessage<'a> {
    nodes: &'a [u8],
    buffers: &'a [u8],
    body: &'a [u8],
    compressed: bool,
}

/// The bytes that a buffer holds, as far as that is known without decompressing.
#[derive(Clone, Copy)]
struct Content<'a> {
    len: i64,
    /// `None` if compressed.
    raw: Option<&'a [u8]>,
}

impl<'a> CheckedMessage<'a> {
    fn check(&self, layout: &SchemaLayout, record_count: i64) -> Result<()> {
        let mut next_buffer = 0;
        for (index, node_layout) in layout.nodes().iter().enumerate() {
            let node = NodeEntry::read(self.nodes, index);
            self.check_node(index, node, node_layout, record_count)?;
            let fits = self.check_buffers(index, node, node_layout.kind, next_buffer)?;
            if !fits {
                return Err(FormatError::invalid(format!(
                    "buffers of field node {index} do not fit its type and length"
                )));
            }
            next_buffer += node_layout.kind.buffer_count();
        }
        Ok(())
    }

    fn check_node(
        &self,
        index: usize,
        node: NodeEntry,
        layout: &NodeLayout,
        record_count: i64,
    ) -> Result<()> {
        let length_fits = match layout.length {
            NodeLength::Records => node.length == record_count,
            NodeLength::SameAs(parent) => node.length == NodeEntry::read(self.nodes, parent).length,
            // Offsets are `i32`.
            NodeLength::ElementsOf(_) => (0..=i64::from(i32::MAX)).contains(&node.length),
        };
        if !length_fits || node.null_count < 0 || node.null_count > node.length {
            return Err(FormatError::invalid(format!(
                "field node {index} of length {} with {} nulls",
                node.length, node.null_count
            )));
        }
        if layout.not_null && node.null_count > 0 {
            return Err(FormatError::invalid(format!(
                "{} nulls in field node {index}, which is NOT NULL",
                node.null_count
            )));
        }
        Ok(())
    }

    /// Whether the buffers of a node, from `first` on, are large enough for its
    /// values, so that no reader runs past them.
    fn check_buffers(
        &self,
        index: usize,
        node: NodeEntry,
        kind: NodeKind,
        first: usize,
    ) -> Result<bool> {
        let length = node.length;
        let validity = self.content(first)?;
        let bits = length.div_euclid(8) + i64::from(length % 8 != 0);
        // Without nulls some writers leave the validity out.
        if validity.len < bits && !(validity.len == 0 && node.null_count == 0) {
            return Ok(false);
        }
        Ok(match kind {
            NodeKind::Struct => true,
            NodeKind::Boolean => self.content(first + 1)?.len >= bits,
            NodeKind::Fixed(width) => {
                self.content(first + 1)?.len >= length.saturating_mul(i64::from(width))
            }
            NodeKind::List => {
                let elements = NodeEntry::read(self.nodes, index + 1).length;
                offsets_fit(self.content(first + 1)?, length, elements)
            }
            NodeKind::Variable => {
                let bytes = self.content(first + 2)?.len;
                offsets_fit(self.content(first + 1)?, length, bytes)
            }
        })
    }

    fn content(&self, index: usize) -> Result<Content<'a>> {
        let buffer = BufferEntry::read(self.buffers, index);
        let next = if (index + 1) * ENTRY_LEN < self.buffers.len() {
            BufferEntry::read(self.buffers, index + 1).offset
        } else {
            self.body.len() as i64
        };
        let bytes = buffer
            .end_within(next)
            .and_then(|end| self.body.get(buffer.offset as usize..end as usize))
            .ok_or_else(|| {
                FormatError::invalid(format!(
                    "buffer {index} at {} of {} bytes overlaps the next one at {next}",
                    buffer.offset, buffer.len
                ))
            })?;
        if !self.compressed || bytes.is_empty() {
            return Ok(Content {
                len: buffer.len,
                raw: Some(bytes),
            });
        }
        if bytes.len() < 8 {
            return Err(FormatError::invalid(format!(
                "compressed buffer {index} of {} bytes",
                bytes.len()
            )));
        }
        match i64_at(bytes, 0) {
            RAW => Ok(Content {
                len: buffer.len - 8,
                raw: Some(&bytes[8..]),
            }),
            // No buffer of a Java reader is larger.
            len @ 0..=0x7fff_ffff => Ok(Content { len, raw: None }),
            len => Err(FormatError::invalid(format!(
                "compressed buffer {index} of uncompressed length {len}"
            ))),
        }
    }
}

/// Whether offsets are there for `length` values, and, where that is seen
/// without decompressing, whether the first and the last point into `items`.
fn offsets_fit(offsets: Content<'_>, length: i64, items: i64) -> bool {
    // Without values there may be one offset or none.
    if length == 0 {
        return true;
    }
    if offsets.len < 4 * (length + 1) {
        return false;
    }
    let Some(raw) = offsets.raw else { return true };
    let first = i64::from(i32_at(raw, 0));
    let last = i64::from(i32_at(raw, 4 * length as usize));
    0 <= first && first <= last && last <= items
}
