use proptest::prelude::*;

use super::*;
use crate::log_batch_builder::BatchSpec;
use crate::testing::hex;

/// formats.md §9.3.
fn empty_batches() -> [(Magic, Vec<u8>); 3] {
    [
        (
            Magic::V0,
            hex(
                "0000000000000000 24000000 00 0000000000000000 1f2b1728 0100 00 00000000 \
                 ffffffffffffffff ffffffff 00000000",
            ),
        ),
        (
            Magic::V1,
            hex(
                "0000000000000000 28000000 01 0000000000000000 a1cab092 0100 00 00000000 \
                 ffffffffffffffff ffffffff 00000000 00000000",
            ),
        ),
        (
            Magic::V2,
            hex(
                "0000000000000000 2c000000 02 0000000000000000 ffffffff a1cab092 0100 00 \
                 00000000 ffffffffffffffff ffffffff 00000000 00000000",
            ),
        ),
    ]
}

#[test]
fn empty_batches_are_written_as_the_reference_writes_them() {
    for (magic, bytes) in empty_batches() {
        let spec = BatchSpec {
            magic,
            append_only: false,
            ..BatchSpec::default()
        };
        assert_eq!(spec.empty(), bytes, "{magic:?}");
    }
}

#[test]
fn every_version_is_parsed() {
    for (magic, bytes) in empty_batches() {
        let header = BatchHeader::parse(&bytes).unwrap();
        header.verify_crc(&bytes).unwrap();
        assert_eq!(header.magic, magic);
        assert_eq!(header.total_len, bytes.len());
        assert_eq!(header.header_len(), bytes.len());
        assert!(header.is_header_only());
        assert_eq!(header.schema_id, 1);
        assert!(!header.is_append_only());
        assert_eq!((header.writer_id, header.batch_sequence), (-1, -1));
        assert_eq!(header.leader_epoch, (magic == Magic::V2).then_some(-1));
        assert_eq!(
            header.next_offset(),
            1,
            "an empty batch occupies one offset"
        );
        let prefix = BatchPrefix::parse(&bytes[..COMMON_PREFIX_LEN]).unwrap();
        assert_eq!(prefix.total_len, header.total_len);
        assert_eq!(
            total_len(&bytes[..SIZE_PREFIX_LEN]).unwrap(),
            header.total_len
        );
    }
}

#[test]
fn every_field_is_written_where_it_is_read() {
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        let header = BatchHeader {
            base_offset: 0x0102_0304_0506_0708,
            total_len: 9999,
            magic,
            commit_timestamp_ms: 0x1112_1314_1516_1718,
            leader_epoch: (magic == Magic::V2).then_some(0x2122_2324),
            crc: 0x3132_3334,
            schema_id: 0x4142,
            attributes: 0x51,
            last_offset_delta: 0x6162_6364,
            writer_id: 0x7172_7374_7576_7778,
            batch_sequence: -0x1234_5678,
            record_count: 0x0a0b_0c0d,
            statistics_len: if magic == Magic::V0 { 0 } else { 77 },
        };
        let mut bytes = [0; MAX_HEADER_LEN];
        header.write_to(&mut bytes);
        assert_eq!(BatchHeader::parse(&bytes).unwrap(), header);
    }
}

#[test]
fn a_stamp_leaves_the_checksum_valid() {
    let stamp = LeaderStamp {
        base_offset: 1 << 40,
        commit_timestamp_ms: 77,
        leader_epoch: 5,
    };
    for (magic, mut bytes) in empty_batches() {
        let header = BatchHeader::parse(&bytes).unwrap();
        let mut by_prefix = stamp.prefix(&header).to_vec();
        by_prefix.extend_from_slice(&bytes[by_prefix.len()..]);

        stamp.apply(&mut bytes).unwrap();
        let stamped = BatchHeader::parse(&bytes).unwrap();
        stamped.verify_crc(&bytes).unwrap();
        assert_eq!(
            stamped,
            BatchHeader {
                base_offset: 1 << 40,
                commit_timestamp_ms: 77,
                leader_epoch: (magic == Magic::V2).then_some(5),
                ..header
            }
        );
        assert_eq!(by_prefix, bytes);
    }
}

#[test]
fn what_cannot_be_a_batch_is_corrupt() {
    let (_, valid) = &empty_batches()[1];
    let broken = |at: usize, bytes: &[u8]| {
        let mut batch = valid.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        batch
    };
    for (what, batch) in [
        ("magic 3", broken(12, &[3])),
        ("magic 99", broken(12, &[99])),
        ("length 0", broken(8, &0i32.to_le_bytes())),
        ("length -5", broken(8, &(-5i32).to_le_bytes())),
        ("length 10", broken(8, &10i32.to_le_bytes())),
        (
            "a V1 header shorter than it is",
            broken(8, &36i32.to_le_bytes()),
        ),
        ("last offset delta -3", broken(28, &(-3i32).to_le_bytes())),
        ("record count -1", broken(44, &(-1i32).to_le_bytes())),
        ("statistics of -1 bytes", broken(48, &(-1i32).to_le_bytes())),
        ("statistics behind the end", broken(48, &1i32.to_le_bytes())),
        ("a cut header", valid[..51].to_vec()),
        ("a cut prefix", valid[..20].to_vec()),
        ("nothing", Vec::new()),
    ] {
        let result = BatchHeader::parse(&batch);
        assert!(
            matches!(result, Err(FormatError::Corrupt(_))),
            "{what}: {result:?}"
        );
    }
}

#[test]
fn every_flipped_bit_under_the_checksum_is_found() {
    let spec = BatchSpec {
        magic: Magic::V2,
        ..BatchSpec::default()
    };
    let batch = spec.build(3, &[], &[], b"some records").unwrap();
    for bit in 0..8 * batch.len() {
        let mut flipped = batch.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let verified = BatchHeader::parse(&flipped).and_then(|h| h.verify_crc(&flipped));
        // What a leader stamps is not under the checksum, and neither is the
        // magic: V1 in place of V2 looks for its checksum where the epoch is.
        let stamped = matches!(bit / 8, 0..8 | 13..25);
        assert_eq!(verified.is_ok(), stamped, "bit {bit}: {verified:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = total_len(&bytes);
        let _ = BatchPrefix::parse(&bytes);
        if let Ok(header) = BatchHeader::parse(&bytes) {
            let _ = header.verify_crc(&bytes);
            let _ = (header.arrow_start(), header.next_offset());
        }
        let mut bytes = bytes;
        let stamp = LeaderStamp { base_offset: 1, commit_timestamp_ms: 2, leader_epoch: 3 };
        let _ = stamp.apply(&mut bytes);
    }

    #[test]
    fn any_header_with_a_magic_is_parsed_or_refused(
        magic in 0u8..3, length in 0i32..100, rest in prop::collection::vec(any::<u8>(), 43..80),
    ) {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.push(magic);
        bytes.extend_from_slice(&rest);
        if let Ok(header) = BatchHeader::parse(&bytes) {
            prop_assert!(header.records_start() <= header.total_len);
            let mut written = [0; MAX_HEADER_LEN];
            header.write_to(&mut written);
            prop_assert_eq!(BatchHeader::parse(&written).unwrap(), header);
        }
    }
}
