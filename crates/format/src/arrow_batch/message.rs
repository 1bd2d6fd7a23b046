//! Writing the one Arrow message of a batch: metadata of known size in front of
//! a body that is written first.

use arrow_ipc::{
    BodyCompressionBuilder, BodyCompressionMethod, Buffer as BufferEntry, CompressionType,
    FieldNode, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder,
};
use flatbuffers::FlatBufferBuilder;

use crate::arrow_message::{BodyCodec, MESSAGE_PREFIX_LEN};
use crate::compression::BufferCompressor;
use crate::{FormatError, Result};

const ALIGNMENT: usize = 8;

/// Appends messages with a fixed number of nodes and buffers.
pub(super) struct MessageWriter {
    flatbuffer: FlatBufferBuilder<'static>,
    compressor: BufferCompressor,
    codec: Option<BodyCodec>,
    metadata_len: usize,
    nodes: Vec<FieldNode>,
    buffers: Vec<BufferEntry>,
}

impl MessageWriter {
    pub(super) fn new(
        node_count: usize,
        buffer_count: usize,
        codec: Option<BodyCodec>,
        compressor: BufferCompressor,
    ) -> Result<Self> {
        let mut writer = Self {
            flatbuffer: FlatBufferBuilder::new(),
            compressor,
            codec,
            metadata_len: 0,
            nodes: vec![FieldNode::new(1, 0); node_count],
            buffers: vec![BufferEntry::new(1, 1); buffer_count],
        };
        // Zeros would be left out of it, so nothing here is zero.
        writer.metadata_len = writer.metadata(1, 1).len();
        Ok(writer)
    }

    /// Begins a message at the end of `out`, which [`MessageWriter::finish`]
    /// completes.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) -> MessageStart {
        self.nodes.clear();
        self.buffers.clear();
        let message = out.len();
        out.resize(message + MESSAGE_PREFIX_LEN + padded(self.metadata_len), 0);
        MessageStart {
            message,
            body: out.len(),
        }
    }

    pub(super) fn push_node(&mut self, length: usize, null_count: usize) {
        self.nodes
            .push(FieldNode::new(length as i64, null_count as i64));
    }

    /// Appends a buffer to the body, compressed if the message is.
    pub(super) fn push_buffer(
        &mut self,
        raw: &[u8],
        start: &MessageStart,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let at = out.len();
        self.compressor.append(raw, out)?;
        let length = out.len() - at;
        self.buffers
            .push(BufferEntry::new((at - start.body) as i64, length as i64));
        out.resize(at + padded(length), 0);
        Ok(())
    }

    /// Writes prefix and metadata of the message whose body is complete.
    pub(super) fn finish(
        &mut self,
        start: &MessageStart,
        record_count: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let metadata_len = self.metadata_len;
        let body_len = out.len() - start.body;
        let metadata = self.metadata(record_count as i64, body_len as i64);
        if metadata.len() != metadata_len {
            return Err(FormatError::invalid(
                "a batch whose nodes are not those of its schema",
            ));
        }
        let prefix = &mut out[start.message..start.body];
        prefix[..4].fill(0xff);
        prefix[4..8].copy_from_slice(&(padded(metadata_len) as i32).to_le_bytes());
        prefix[MESSAGE_PREFIX_LEN..][..metadata_len].copy_from_slice(metadata);
        Ok(())
    }

    /// The flatbuffer, its parts in the order in which Java writes them: small
    /// golden batches then come out byte for byte.
    fn metadata(&mut self, record_count: i64, body_len: i64) -> &[u8] {
        let builder = &mut self.flatbuffer;
        builder.reset();
        let nodes = builder.create_vector(&self.nodes);
        let buffers = builder.create_vector(&self.buffers);
        let compression = self.codec.map(|codec| {
            let mut compression = BodyCompressionBuilder::new(builder);
            compression.add_codec(match codec {
                BodyCodec::Lz4Frame => CompressionType::LZ4_FRAME,
                BodyCodec::Zstd => CompressionType::ZSTD,
            });
            compression.add_method(BodyCompressionMethod::BUFFER);
            compression.finish()
        });
        let mut batch = RecordBatchBuilder::new(builder);
        batch.add_length(record_count);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        if let Some(compression) = compression {
            batch.add_compression(compression);
        }
        let batch = batch.finish();
        let mut message = MessageBuilder::new(builder);
        message.add_header_type(MessageHeader::RecordBatch);
        message.add_header(batch.as_union_value());
        message.add_version(MetadataVersion::V5);
        message.add_bodyLength(body_len);
        let message = message.finish();
        builder.finish(message, None);
        builder.finished_data()
    }
}

/// Where a message and its body begin.
pub(super) struct MessageStart {
    message: usize,
    body: usize,
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
