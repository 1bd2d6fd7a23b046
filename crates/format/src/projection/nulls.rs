//! Columns of nulls, for batches older than the column.
//!
//! Every buffer of such a column is zeros: no valid value, empty lists and
//! strings. With a compressed body they take the form that its codec asks for,
//! and so cost hardly any bytes; without, they are shared pages of zeros.

use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::body::BodyParts;
use crate::arrow_message::{BodyCodec, BufferEntry, ENTRY_LEN, NodeEntry};
use crate::arrow_message_template::MessageDraft;
use crate::schema_layout::{NodeKind, NodeLength, SchemaLayout};
use crate::{FormatError, Result};

/// Zeros that nulls of one batch may stand for, 256 MiB: a column of 16-byte
/// decimals for 16 million records. A batch whose header claims more records
/// than that is not served with missing columns.
const MAX_ZEROS: i64 = 256 << 20;

/// The nodes of columns that a batch lacks.
#[derive(Debug)]
pub(super) struct NullColumns {
    nodes: Vec<NullNode>,
}

#[derive(Clone, Copy, Debug)]
struct NullNode {
    kind: NodeKind,
    /// It lies within a list, all of which are empty.
    empty: bool,
}

impl NullColumns {
    /// The columns of a schema at some positions.
    pub(super) fn new(layout: &SchemaLayout, positions: &[usize]) -> Self {
        let mut nodes: Vec<NullNode> = Vec::new();
        for position in positions {
            let range = layout.columns()[*position].nodes.clone();
            let first = nodes.len();
            for node in &layout.nodes()[range.clone()] {
                let empty = match node.length {
                    NodeLength::Records => false,
                    NodeLength::ElementsOf(_) => true,
                    // Parents come before their children.
                    NodeLength::SameAs(parent) => nodes[first + parent - range.start].empty,
                };
                nodes.push(NullNode {
                    kind: node.kind,
                    empty,
                });
            }
        }
        Self { nodes }
    }

    /// Appends the columns to a message of `length` rows.
    pub(super) fn push(
        &self,
        length: i64,
        codec: Option<BodyCodec>,
        draft: &mut MessageDraft<'_>,
        body: &mut BodyParts,
    ) -> Result<()> {
        let mut zeros = 0;
        let mut encoded = EncodedZeros { codec, last: None };
        body.align();
        for node in &self.nodes {
            let length = if node.empty { 0 } else { length };
            let mut entry = [0; ENTRY_LEN];
            NodeEntry {
                length,
                null_count: length,
            }
            .write(&mut entry);
            draft.push_nodes(&entry);
            for len in buffer_lens(node.kind, length).into_iter().flatten() {
                zeros += len;
                if zeros > MAX_ZEROS {
                    return Err(FormatError::LimitExceeded {
                        what: "bytes of columns that a batch lacks",
                        actual: zeros as u64,
                        limit: MAX_ZEROS as u64,
                    });
                }
                let offset = body.len();
                encoded.push(len as usize, body)?;
                BufferEntry {
                    offset,
                    len: body.len() - offset,
                }
                .write(draft.next_buffer());
                body.align();
            }
        }
        Ok(())
    }
}

/// Bytes of each buffer of a node of nulls. Small enough to add: lengths are
/// record counts, widths those of types.
fn buffer_lens(kind: NodeKind, length: i64) -> [Option<i64>; 3] {
    let bits = (length + 7) / 8;
    let offsets = 4 * (length + 1);
    match kind {
        NodeKind::Struct => [Some(bits), None, None],
        NodeKind::List => [Some(bits), Some(offsets), None],
        NodeKind::Boolean => [Some(bits), Some(bits), None],
        NodeKind::Fixed(width) => [
            Some(bits),
            Some(length.saturating_mul(i64::from(width))),
            None,
        ],
        NodeKind::Variable => [Some(bits), Some(offsets), Some(0)],
    }
}

/// Writes zeros as a buffer of a message's body.
struct EncodedZeros {
    codec: Option<BodyCodec>,
    /// The last buffer encoded, since columns of one type follow one another.
    last: Option<(usize, Vec<u8>)>,
}

impl EncodedZeros {
    fn push(&mut self, len: usize, body: &mut BodyParts) -> Result<()> {
        let Some(codec) = self.codec else {
            body.push_zeros(len);
            return Ok(());
        };
        if let Some((encoded_len, bytes)) = &self.last
            && *encoded_len == len
        {
            body.push_bytes(bytes);
            return Ok(());
        }
        let bytes = encode(len, codec)?;
        body.push_bytes(&bytes);
        self.last = Some((len, bytes));
        Ok(())
    }
}

/// `len` zeros as a buffer of a compressed body: length, then the compressed
/// bytes, or −1 and raw bytes where that is no longer.
fn encode(len: usize, codec: BodyCodec) -> Result<Vec<u8>> {
    // An empty buffer is a length of 0 (formats.md §1.6).
    let mut out = (len as i64).to_le_bytes().to_vec();
    if len == 0 {
        return Ok(out);
    }
    match codec {
        BodyCodec::Zstd => write_zstd_zeros(len as u32, &mut out),
        BodyCodec::Lz4Frame => out = write_lz4_zeros(len, out)?,
    }
    if out.len() - 8 >= len {
        out.clear();
        out.extend_from_slice(&(-1i64).to_le_bytes());
        out.resize(8 + len, 0);
    }
    Ok(out)
}

/// A ZSTD frame (RFC 8878) of blocks that each say "this byte, so many times".
fn write_zstd_zeros(len: u32, out: &mut Vec<u8>) {
    const MAGIC: u32 = 0xfd2f_b528;
    /// Content size in 4 bytes, single segment, no checksum, no dictionary.
    const DESCRIPTOR: u8 = 0b1010_0000;
    const MAX_BLOCK: u32 = 128 * 1024;
    const RUN_LENGTH: u32 = 1;
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.push(DESCRIPTOR);
    out.extend_from_slice(&len.to_le_bytes());
    let mut rest = len;
    while rest > 0 {
        let block = rest.min(MAX_BLOCK);
        rest -= block;
        let last = u32::from(rest == 0);
        let header = last | (RUN_LENGTH << 1) | (block << 3);
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.push(0);
    }
}

fn write_lz4_zeros(len: usize, out: Vec<u8>) -> Result<Vec<u8>> {
    // Java readers insist on independent blocks.
    let frame = FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(frame, out);
    let failed = |error| FormatError::invalid(format!("LZ4 compression failed: {error}"));
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(0), len as u64),
        &mut encoder,
    )
    .map_err(|error| failed(error.to_string()))?;
    encoder.flush().map_err(|error| failed(error.to_string()))?;
    encoder.finish().map_err(|error| failed(error.to_string()))
}
