use arrow_ipc::root_as_message;
use proptest::prelude::*;

use super::*;
use crate::arrow_message_template::MessageTemplate;
use crate::arrow_testing::{Random, ipc_message, random_batch, schema_message};
use crate::read_at::{InMemory, ReadWindow};
use crate::testing::{all_types, hex, schema_of};

/// Message of formats.md §9.4: (1, "a1") and (null, "b"), not compressed.
pub(crate) const MESSAGE: &str = "
ffffffff c8000000 14000000 00000000
0c001600 0e001500 10000400 0c000000 30000000 00000000 00000400 10000000
00030a00 18000c00 08000400 0a000000 14000000 68000000 02000000 00000000
00000000 05000000 00000000 00000000 01000000 00000000 08000000 00000000
08000000 00000000 10000000 00000000 01000000 00000000 18000000 00000000
0c000000 00000000 28000000 00000000 03000000 00000000 00000000 02000000
02000000 00000000 01000000 00000000 02000000 00000000 00000000 00000000
01000000 00000000 01000000 00000000 03000000 00000000 00000000 02000000
03000000 00000000 61316200 00000000";

/// The same with LZ4, every buffer raw.
pub(crate) const LZ4_MESSAGE: &str = "
ffffffff d8000000 14000000 00000000
0c001800 0e001700 10000400 0c000000 58000000 00000000 00000400 14000000
00000003 0c001c00 10000c00 08000400 0c000000 1c000000 1c000000 70000000
02000000 00000000 00000000 04000400 04000000 05000000 00000000 00000000
09000000 00000000 10000000 00000000 10000000 00000000 20000000 00000000
09000000 00000000 30000000 00000000 14000000 00000000 48000000 00000000
0b000000 00000000 00000000 02000000 02000000 00000000 01000000 00000000
02000000 00000000 00000000 00000000 ffffffff ffffffff 01000000 00000000
ffffffff ffffffff 01000000 00000000 ffffffff ffffffff 03000000 00000000
ffffffff ffffffff 00000000 02000000 03000000 00000000 ffffffff ffffffff
61316200 00000000";

fn locate(message: &[u8]) -> Result<MessageIndex> {
    MessageIndex::locate(&mut InMemory(message), 0, message.len() as u64)
}

fn entries(message: &[u8], index: &MessageIndex) -> (Vec<NodeEntry>, Vec<BufferEntry>) {
    let source = &mut InMemory(message);
    let nodes = index.nodes(source, 0..index.node_count).unwrap();
    let nodes = (0..index.node_count)
        .map(|at| NodeEntry::read(nodes, at))
        .collect();
    let buffers = index.buffers(source, 0..index.buffer_count).unwrap();
    let buffers = (0..index.buffer_count)
        .map(|at| BufferEntry::read(buffers, at))
        .collect();
    (nodes, buffers)
}

#[test]
fn the_worked_example_is_found() {
    let message = hex(MESSAGE);
    let index = locate(&message).unwrap();
    assert_eq!((index.length, index.codec), (2, None));
    assert_eq!((index.body_start, index.body_len), (208, 48));
    let (nodes, buffers) = entries(&message, &index);
    let node = |length, null_count| NodeEntry { length, null_count };
    assert_eq!(nodes, [node(2, 1), node(2, 0)]);
    let buffer = |(offset, len)| BufferEntry { offset, len };
    assert_eq!(
        buffers,
        [(0, 1), (8, 8), (16, 1), (24, 12), (40, 3)].map(buffer)
    );
    verify_flatbuffer(&message).unwrap();
}

#[test]
fn an_elided_codec_is_lz4() {
    let message = hex(LZ4_MESSAGE);
    let index = locate(&message).unwrap();
    assert_eq!(index.codec, Some(BodyCodec::Lz4Frame));
    assert_eq!((index.body_start, index.body_len), (224, 88));
    verify_flatbuffer(&message).unwrap();
}

#[test]
fn what_the_official_reader_finds_is_found() {
    let schema = schema_of(all_types());
    let mut random = Random(1);
    for codec in crate::arrow_testing::CODECS {
        for alignment in [8, 64] {
            let rows = random_batch(&schema, 50, &mut random);
            let message = ipc_message(&rows, codec, alignment);
            let index = locate(&message).unwrap();
            verify_flatbuffer(&message).unwrap();

            let metadata = root_as_message(&message[8..]).unwrap();
            let batch = metadata.header_as_record_batch().unwrap();
            assert_eq!(index.length, batch.length());
            assert_eq!(index.body_len as i64, metadata.bodyLength());
            assert_eq!(index.body_start + index.body_len, message.len() as u64);
            assert_eq!(index.codec.is_some(), codec.is_some());
            let (nodes, buffers) = entries(&message, &index);
            let expected: Vec<_> = batch.nodes().unwrap().iter().collect();
            assert_eq!(nodes.len(), expected.len());
            for (node, expected) in nodes.iter().zip(expected) {
                assert_eq!(
                    (node.length, node.null_count),
                    (expected.length(), expected.null_count())
                );
            }
            let expected: Vec<_> = batch.buffers().unwrap().iter().collect();
            assert_eq!(buffers.len(), expected.len());
            for (buffer, expected) in buffers.iter().zip(expected) {
                assert_eq!(
                    (buffer.offset, buffer.len),
                    (expected.offset(), expected.length())
                );
            }
        }
    }
}

#[test]
fn other_messages_are_refused() {
    let message = hex(MESSAGE);
    let schema = schema_message(&schema_of(all_types()));
    let mut no_mark = message.clone();
    no_mark[0] = 0;
    let mut negative = message.clone();
    negative[4..8].copy_from_slice(&(-8i32).to_le_bytes());
    let mut huge = message.clone();
    huge[4..8].copy_from_slice(&i32::MAX.to_le_bytes());
    for (what, message) in [
        ("nothing", &[][..]),
        ("a schema", &schema),
        ("no continuation mark", &no_mark),
        ("metadata of negative size", &negative),
        ("metadata behind the end", &huge),
        ("a body behind the end", &message[..message.len() - 1]),
    ] {
        let result = locate(message);
        assert!(
            matches!(result, Err(FormatError::Invalid(_))),
            "{what}: {result:?}"
        );
    }
}

#[test]
fn a_template_is_a_message_that_readers_accept() {
    for codec in [None, Some(BodyCodec::Lz4Frame), Some(BodyCodec::Zstd)] {
        for (nodes, buffers) in [(1, 2), (3, 7), (20_000, 50_000)] {
            let template = MessageTemplate::new(nodes, buffers, codec);
            let mut out = vec![7; 13];
            let mut draft = template.append(&mut out);
            let mut entry = [0; ENTRY_LEN];
            NodeEntry {
                length: 5,
                null_count: 3,
            }
            .write(&mut entry);
            for _ in 0..nodes {
                draft.push_nodes(&entry);
            }
            for at in 0..buffers {
                BufferEntry {
                    offset: 8 * at as i64,
                    len: 8,
                }
                .write(draft.next_buffer());
            }
            draft.finish(5, 8 * buffers as i64);
            let mut message = out.split_off(13);
            assert_eq!(message.len(), template.len());
            assert_eq!(message.len() % 8, 0);
            message.resize(message.len() + 8 * buffers, 0);

            verify_flatbuffer(&message).unwrap();
            let index = locate(&message).unwrap();
            assert_eq!((index.length, index.codec), (5, codec));
            assert_eq!(index.body_len, 8 * buffers as u64);
            let (found_nodes, found_buffers) = entries(&message, &index);
            assert_eq!(
                found_nodes,
                vec![
                    NodeEntry {
                        length: 5,
                        null_count: 3
                    };
                    nodes
                ]
            );
            let last = BufferEntry {
                offset: 8 * (buffers - 1) as i64,
                len: 8,
            };
            assert_eq!(found_buffers.last(), Some(&last));
        }
    }
}

#[test]
fn a_window_over_stored_bytes_finds_the_same() {
    let schema = schema_of(std::iter::repeat_n(all_types(), 60).flatten());
    let message = ipc_message(&random_batch(&schema, 3, &mut Random(2)), None, 64);
    let expected = locate(&message).unwrap();
    assert!(
        expected.body_start > 30_000,
        "the metadata is larger than a window"
    );
    let mut window = ReadWindow::new(&message[..], message.len() as u64);
    assert_eq!(
        MessageIndex::locate(&mut window, 0, message.len() as u64).unwrap(),
        expected
    );
    let (nodes, buffers) = entries(&message, &expected);
    // Backwards, so that the window has to move for each.
    for at in (0..expected.node_count).rev().step_by(7) {
        let entry = expected.nodes(&mut window, at..at + 1).unwrap();
        assert_eq!(NodeEntry::read(entry, 0), nodes[at]);
        let entry = expected.buffers(&mut window, at..at + 2).unwrap();
        assert_eq!(BufferEntry::read(entry, 1), buffers[at + 1]);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_found(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut message = vec![0xff; 4];
        message.extend_from_slice(&(bytes.len() as i32 / 2).to_le_bytes());
        message.extend_from_slice(&bytes);
        if let Ok(index) = locate(&message) {
            let _ = entries(&message, &index);
        }
    }

    #[test]
    fn damaged_metadata_is_refused_or_found(
        compressed: bool, changes in prop::collection::vec((0usize..230, any::<u8>()), 1..4),
    ) {
        let mut message = hex(if compressed { LZ4_MESSAGE } else { MESSAGE });
        for (at, byte) in changes {
            message[at] = byte;
        }
        if let Ok(index) = locate(&message) {
            prop_assert!(index.body_start + index.body_len <= message.len() as u64);
            let _ = entries(&message, &index);
            let _ = verify_flatbuffer(&message);
        }
    }
}
