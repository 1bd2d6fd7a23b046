//! A record batch message with gaps to fill in: what a projection writes in
//! front of every batch, built once.

use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, BodyCompressionMethod, Buffer, CompressionType,
    FieldNode, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatch, RecordBatchArgs,
};
use flatbuffers::FlatBufferBuilder;

use crate::arrow_message::{BodyCodec, ENTRY_LEN, MESSAGE_PREFIX_LEN, MessageIndex};
use crate::read_at::InMemory;

/// Prefix and metadata of a message with a fixed number of nodes and buffers.
#[derive(Debug)]
pub(crate) struct MessageTemplate {
    bytes: Vec<u8>,
    length_at: usize,
    body_len_at: usize,
    nodes_at: usize,
    buffers_at: usize,
}

impl MessageTemplate {
    /// A message of so many nodes and buffers, all zero.
    pub(crate) fn new(node_count: usize, buffer_count: usize, codec: Option<BodyCodec>) -> Self {
        let entries = ENTRY_LEN * (node_count + buffer_count);
        let mut builder = FlatBufferBuilder::with_capacity(entries + 256);
        // Otherwise the zeros that are filled in later would be left out.
        builder.force_defaults(true);
        let nodes = builder.create_vector(&vec![FieldNode::new(0, 0); node_count]);
        let buffers = builder.create_vector(&vec![Buffer::new(0, 0); buffer_count]);
        let compression = codec.map(|codec| {
            let codec = match codec {
                BodyCodec::Lz4Frame => CompressionType::LZ4_FRAME,
                BodyCodec::Zstd => CompressionType::ZSTD,
            };
            let method = BodyCompressionMethod::BUFFER;
            BodyCompression::create(&mut builder, &BodyCompressionArgs { codec, method })
        });
        let batch = RecordBatch::create(
            &mut builder,
            &RecordBatchArgs {
                length: 0,
                nodes: Some(nodes),
                buffers: Some(buffers),
                compression,
                variadicBufferCounts: None,
            },
        );
        let message = Message::create(
            &mut builder,
            &MessageArgs {
                version: MetadataVersion::V5,
                header_type: MessageHeader::RecordBatch,
                header: Some(batch.as_union_value()),
                bodyLength: 0,
                custom_metadata: None,
            },
        );
        builder.finish(message, None);
        let metadata = builder.finished_data();
        let metadata_len = metadata.len().next_multiple_of(8);

        let mut bytes = Vec::with_capacity(MESSAGE_PREFIX_LEN + metadata_len);
        bytes.extend_from_slice(&[0xff; 4]);
        bytes.extend_from_slice(&(metadata_len as i32).to_le_bytes());
        bytes.extend_from_slice(metadata);
        bytes.resize(MESSAGE_PREFIX_LEN + metadata_len, 0);
        let index = MessageIndex::locate(&mut InMemory(&bytes), 0, bytes.len() as u64)
            .expect("a message just written can be read");
        Self {
            length_at: index.length_at as usize,
            body_len_at: index.body_len_at as usize,
            nodes_at: index.nodes_at as usize,
            buffers_at: index.buffers_at as usize,
            bytes,
        }
    }

    /// Bytes of prefix and metadata.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the message to `out`, to be filled in.
    pub(crate) fn append<'o>(&'o self, out: &'o mut Vec<u8>) -> MessageDraft<'o> {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        MessageDraft {
            template: self,
            bytes: &mut out[start..],
            nodes: 0,
            buffers: 0,
        }
    }
}

/// A message being filled in: nodes and buffers in order, then the lengths.
pub(crate) struct MessageDraft<'o> {
    template: &'o MessageTemplate,
    bytes: &'o mut [u8],
    nodes: usize,
    buffers: usize,
}

impl MessageDraft<'_> {
    /// The next node entries, as stored elsewhere.
    pub(crate) fn push_nodes(&mut self, entries: &[u8]) {
        let at = self.template.nodes_at + self.nodes * ENTRY_LEN;
        self.bytes[at..at + entries.len()].copy_from_slice(entries);
        self.nodes += entries.len() / ENTRY_LEN;
    }

    /// Room for the next buffer entry.
    pub(crate) fn next_buffer(&mut self) -> &mut [u8] {
        let at = self.template.buffers_at + self.buffers * ENTRY_LEN;
        self.buffers += 1;
        &mut self.bytes[at..at + ENTRY_LEN]
    }

    /// Sets the number of rows and the bytes of the body.
    pub(crate) fn finish(self, length: i64, body_len: i64) {
        let Self {
            template, bytes, ..
        } = self;
        bytes[template.length_at..][..8].copy_from_slice(&length.to_le_bytes());
        bytes[template.body_len_at..][..8].copy_from_slice(&body_len.to_le_bytes());
    }
}
