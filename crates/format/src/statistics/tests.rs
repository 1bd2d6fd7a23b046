use mainstem_types::TypeKind;
use proptest::prelude::*;

use super::*;
use crate::header::Magic;
use crate::log_batch_builder::BatchSpec;
use crate::testing::{any_kind, any_value, hex};

/// formats.md §9.5.
const BLOCK: &str = "01 0200 0000 0100 01000000 00000000 \
     18000000 0000000000000000 0100000000000000 6131000000000082 \
     18000000 0000000000000000 0100000000000000 6200000000000081";

#[test]
fn the_worked_example_is_written_and_read() {
    let int = DataType::nullable(TypeKind::Int);
    let string = DataType::nullable(TypeKind::String);
    let columns = [
        ColumnStatistics {
            position: 0,
            data_type: &int,
            null_count: 1,
            min: Value::Int(1),
            max: Value::Int(1),
        },
        ColumnStatistics {
            position: 1,
            data_type: &string,
            null_count: 0,
            min: "a1".into(),
            max: "b".into(),
        },
    ];
    let block = encode_statistics(&columns).unwrap();
    assert_eq!(block, hex(BLOCK));
    assert_eq!(block.len(), 71);

    let statistics = Statistics::parse(&block).unwrap().unwrap();
    assert_eq!(statistics.column_count(), 2);
    assert_eq!(statistics.find(1), Some(1));
    assert_eq!(statistics.find(2), None);
    assert_eq!(
        (statistics.null_count(0), statistics.null_count(1)),
        (Some(1), Some(0))
    );
    assert_eq!(statistics.min(0, &int).unwrap(), Value::Int(1));
    assert_eq!(statistics.min(1, &string).unwrap(), "a1".into());
    assert_eq!(statistics.max(1, &string).unwrap(), "b".into());
}

#[test]
fn a_batch_with_statistics_is_written_as_the_reference_writes_it() {
    // formats.md §9.4 and §9.5: the message of 256 bytes behind the block.
    let message = hex(crate::arrow_message::tests::MESSAGE);
    let spec = BatchSpec {
        magic: Magic::V1,
        ..BatchSpec::default()
    };
    let batch = spec.build(2, &hex(BLOCK), &[], &message).unwrap();
    assert_eq!(batch.len(), 379);
    assert_eq!(
        batch[..52],
        hex(
            "0000000000000000 6f010000 01 0000000000000000 5e871762 0100 01 01000000 \
             ffffffffffffffff ffffffff 02000000 47000000"
        )
    );
}

#[test]
fn no_columns_are_no_statistics() {
    assert!(encode_statistics(&[]).unwrap().is_empty());
    assert!(Statistics::parse(&[]).unwrap().is_none());
    // What the reference may write: 27 bytes with N = 0.
    let none = hex("01 0000 08000000 0000000000000000 08000000 0000000000000000");
    assert_eq!(none.len(), 27);
    assert!(Statistics::parse(&none).unwrap().is_none());
}

#[test]
fn damaged_blocks_are_refused() {
    let block = hex(BLOCK);
    for cut in 1..block.len() {
        assert!(Statistics::parse(&block[..cut]).is_err(), "cut to {cut}");
    }
    for (at, byte) in [(0, 2), (2, 0x80)] {
        let mut broken = block.clone();
        broken[at] = byte;
        assert!(Statistics::parse(&broken).is_err(), "byte {at}");
    }
}

#[test]
fn a_value_of_another_type_is_not_written() {
    let int = DataType::nullable(TypeKind::Int);
    let column = ColumnStatistics {
        position: 0,
        data_type: &int,
        null_count: 0,
        min: Value::BigInt(1),
        max: Value::BigInt(1),
    };
    assert!(encode_statistics(&[column]).is_err());
}

proptest! {
    #[test]
    fn statistics_come_back(
        columns in prop::collection::vec(
            (any_kind(0).prop_map(DataType::nullable), any::<i16>(), 0..i32::MAX).prop_flat_map(
                |(data_type, position, null_count)| {
                    let values = (any_value(&data_type), any_value(&data_type));
                    (Just(data_type), Just(position), Just(null_count), values)
                },
            ),
            1..80,
        )
    ) {
        let encoded = columns.iter().map(|(data_type, position, null_count, (min, max))| {
            ColumnStatistics {
                position: *position,
                data_type,
                null_count: *null_count,
                min: min.clone(),
                max: max.clone(),
            }
        });
        let block = encode_statistics(&encoded.collect::<Vec<_>>()).unwrap();
        let statistics = Statistics::parse(&block).unwrap().unwrap();
        prop_assert_eq!(statistics.column_count(), columns.len());
        for (index, (data_type, position, null_count, (min, max))) in columns.iter().enumerate() {
            prop_assert_eq!(statistics.position(index), *position);
            prop_assert_eq!(statistics.null_count(index), Some(*null_count));
            prop_assert_eq!(&statistics.min(index, data_type).unwrap(), min);
            prop_assert_eq!(&statistics.max(index, data_type).unwrap(), max);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200), columns in 0i16..4,
        kind in any_kind(1),
    ) {
        let mut bytes = bytes;
        if bytes.len() > 3 {
            bytes[0] = 1;
            bytes[1..3].copy_from_slice(&columns.to_le_bytes());
        }
        if let Ok(Some(statistics)) = Statistics::parse(&bytes) {
            let data_type = DataType::nullable(kind);
            for index in 0..statistics.column_count() {
                let _ = statistics.min(index, &data_type);
                let _ = statistics.max(index, &data_type);
                let _ = statistics.find(index);
            }
        }
    }

    #[test]
    fn rows_of_any_bytes_are_read_or_refused(
        row in prop::collection::vec(any::<u8>(), 0..100), kind in any_kind(1),
    ) {
        let mut block = hex("01 0100 0000 00000000");
        for _ in 0..2 {
            block.extend_from_slice(&(row.len() as i32).to_le_bytes());
            block.extend_from_slice(&row);
        }
        let statistics = Statistics::parse(&block).unwrap().unwrap();
        let _ = statistics.min(0, &DataType::nullable(kind));
    }
}
