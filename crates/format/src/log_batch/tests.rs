use proptest::prelude::*;

use super::*;
use crate::arrow_testing::{check_header, segments};
use crate::header::{LeaderStamp, Magic};
use crate::log_batch_builder::BatchSpec;
use crate::testing::hex;

fn batch(records: &[u8]) -> Vec<u8> {
    BatchSpec::default().build(1, &[], &[], records).unwrap()
}

fn walk(bytes: Vec<u8>) -> (Vec<Result<LogBatch>>, usize) {
    let mut batches = Batches::new(&Bytes::from(bytes));
    let found = batches.by_ref().collect();
    (found, batches.consumed())
}

#[test]
fn row_batches_are_written_as_the_reference_writes_them() {
    // formats.md §9.3
    let compacted = hex(
        "0000000000000000 2e000000 00 0000000000000000 3fa74a4a 0100 01 00000000 \
         ffffffffffffffff ffffffff 01000000 06000000 00 0001026131",
    );
    let spec = BatchSpec::default();
    assert_eq!(
        spec.build(1, &[], &[], &hex("06000000 00 0001026131"))
            .unwrap(),
        compacted
    );

    let indexed = hex(
        "0000000000000000 34000000 00 0000000000000000 177e0441 0100 00 00000000 \
         ffffffffffffffff ffffffff 01000000 0c000000 01 0002000000010000006131",
    );
    let spec = BatchSpec {
        append_only: false,
        ..spec
    };
    let records = hex("0c000000 01 0002000000010000006131");
    assert_eq!(spec.build(1, &[], &[], &records).unwrap(), indexed);
    assert_eq!(LogBatch::parse(&indexed.into()).unwrap().records(), records);
}

#[test]
fn batches_end_at_the_end() {
    let (first, second) = (batch(b"one"), batch(b"three"));
    let bytes = [first.clone(), second.clone()].concat();
    let (batches, consumed) = walk(bytes.clone());
    assert_eq!(consumed, bytes.len());
    let batches: Vec<_> = batches.into_iter().map(Result::unwrap).collect();
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[0].bytes(), &first);
    assert_eq!(batches[1].bytes(), &second);
}

#[test]
fn a_cut_batch_ends_the_walk_without_an_error() {
    let (first, second) = (batch(b"one"), batch(b"three"));
    for cut in 0..second.len() {
        let (batches, consumed) = walk([&first[..], &second[..cut]].concat());
        assert_eq!(batches.len(), 1, "cut to {cut}");
        assert!(batches[0].is_ok());
        assert_eq!(consumed, first.len());
    }
}

#[test]
fn a_damaged_length_ends_the_walk_with_an_error() {
    let mut bytes = [batch(b"one"), batch(b"two"), batch(b"three")].concat();
    let second = batch(b"one").len();
    bytes[second + 8..second + 12].copy_from_slice(&(-5i32).to_le_bytes());
    let (batches, consumed) = walk(bytes);
    assert_eq!(batches.len(), 2);
    assert!(matches!(batches[1], Err(FormatError::Corrupt(_))));
    assert_eq!(consumed, second);
}

#[test]
fn parts_lie_in_order_statistics_change_types_records() {
    let spec = BatchSpec {
        magic: Magic::V1,
        append_only: false,
        ..BatchSpec::default()
    };
    let bytes = spec.build(2, b"stats", &[1, 4], b"arrow").unwrap();
    let batch = LogBatch::parse(&bytes.into()).unwrap();
    assert_eq!(batch.statistics(), b"stats");
    assert_eq!(batch.change_types().unwrap(), [1, 4]);
    assert_eq!(batch.arrow_message().unwrap(), &b"arrow"[..]);
    assert_eq!(batch.records(), &b"\x01\x04arrow"[..]);
}

#[test]
fn change_types_behind_the_end_are_an_error() {
    let spec = BatchSpec {
        append_only: false,
        ..BatchSpec::default()
    };
    let bytes = spec.build(1000, &[], &[1, 4], &[]).unwrap();
    let batch = LogBatch::parse(&bytes.into()).unwrap();
    assert!(batch.change_types().is_err());
    assert!(batch.arrow_message().is_err());
}

#[test]
fn a_batch_that_contradicts_itself_is_not_written() {
    let spec = BatchSpec::default();
    assert!(spec.build(-1, &[], &[], &[]).is_err());
    assert!(
        spec.build(1, b"statistics", &[], &[]).is_err(),
        "V0 has no statistics"
    );
}

#[test]
fn segments_of_the_reference_are_read_and_written_alike() {
    for segment in segments() {
        let mut position = 0;
        let mut batches = Batches::new(&segment.bytes);
        for expected in &segment.batches {
            let batch = batches.next().unwrap().unwrap();
            let header = *batch.header();
            assert_eq!(position, expected["position"].as_u64().unwrap() as usize);
            check_header(&header, expected);
            batch.verify_crc().unwrap();

            let spec = BatchSpec {
                magic: header.magic,
                base_offset: 0,
                commit_timestamp_ms: 0,
                leader_epoch: -1,
                schema_id: header.schema_id,
                append_only: header.is_append_only(),
                writer_id: header.writer_id,
                batch_sequence: header.batch_sequence,
            };
            let mut written = spec
                .build(
                    header.record_count,
                    batch.statistics(),
                    batch.change_types().unwrap(),
                    &batch.arrow_message().unwrap(),
                )
                .unwrap();
            let stamp = LeaderStamp {
                base_offset: header.base_offset,
                commit_timestamp_ms: header.commit_timestamp_ms,
                leader_epoch: -1,
            };
            stamp.apply(&mut written).unwrap();
            assert_eq!(batch.bytes(), &written, "{} at {position}", segment.name);
            position += header.total_len;
        }
        assert!(batches.next().is_none());
        assert_eq!(batches.consumed(), segment.bytes.len());
        assert_eq!(batches.remaining(), 0);
    }
}

proptest! {
    #[test]
    fn a_walk_over_any_bytes_ends(
        bytes in prop::collection::vec(any::<u8>(), 0..300), lengths in any::<[u8; 4]>(),
    ) {
        // Small lengths make batches of random bytes likelier.
        let mut bytes = bytes;
        for (at, length) in (8..).step_by(60).zip(lengths) {
            if bytes.len() > at + 5 {
                bytes[at..at + 5].copy_from_slice(&[length, 0, 0, 0, 0]);
            }
        }
        let len = bytes.len();
        let (batches, consumed) = walk(bytes);
        prop_assert!(consumed <= len);
        for batch in batches.into_iter().flatten() {
            let _ = (batch.change_types(), batch.arrow_message(), batch.verify_crc());
        }
    }
}
