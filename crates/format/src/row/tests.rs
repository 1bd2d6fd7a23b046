//! Vectors and properties that hold for all row formats.

use mainstem_types::TypeKind;
use proptest::prelude::*;

use super::*;
use crate::testing::{
    all_types, all_types_row, any_table, array_of, hex, map_of, row_type, schema_of,
};
use crate::value::Timestamp;

const FORMATS: [RowFormat; 3] = [RowFormat::Compacted, RowFormat::Indexed, RowFormat::Aligned];

fn check(format: RowFormat, kinds: Vec<TypeKind>, row: &[Value<'_>], expected: &str) {
    let schema = schema_of(kinds);
    let fields = schema.columns.as_slice();
    let mut bytes = Vec::new();
    format.encode(row, fields, &mut bytes).unwrap();
    let expected = hex(expected);
    assert_eq!(bytes, expected, "\n{bytes:02x?}\n{expected:02x?}");
    assert_eq!(format.decode(&bytes, fields).unwrap(), row);
}

fn s2() -> Vec<TypeKind> {
    vec![TypeKind::Int, TypeKind::String]
}

#[test]
fn rows_of_an_int_and_a_string_have_the_reference_bytes() {
    let r1 = [Value::Int(1), "a1".into()];
    let r2 = [Value::Null, "b".into()];
    check(RowFormat::Compacted, s2(), &r1, "00 01 02 61 31");
    check(RowFormat::Compacted, s2(), &r2, "01 01 62");
    check(RowFormat::Indexed, s2(), &r1, "00 02000000 01000000 6131");
    check(RowFormat::Indexed, s2(), &r2, "01 01000000 62");
    let aligned = "0000000000000000 0100000000000000 6131000000000082";
    check(RowFormat::Aligned, s2(), &r1, aligned);
    let long = [Value::Null, "longer than seven".into()];
    let aligned = "0001000000000000 0000000000000000 1100000018000000
        6c6f6e67 6572207468616e20736576656e 00000000000000";
    check(RowFormat::Aligned, s2(), &long, aligned);
}

#[test]
fn a_row_of_every_type_has_the_reference_bytes() {
    let compacted = "
        00000001 ff2c01fb ffffff0f 80808080 80200000 c03f0000 00000000 02c0c799
        01c0b3a7 10026162 0668c3a9 6c6c6f02 01020309 0807aef6 ffffffff ffffff01
        09ff54ab 567314e0 f52ede9f d7b5b631 de9fd7b5 b631c0ea 1bffffff ffffffff
        ffff01e8 07280300 00000200 00006100 00000000 00810000 00000000 00000800
        00002000 00006569 6768745f 62793c28 00000002 00000000 0000006b 31000000
        0000820c 00000018 0000006b 65792d74 776f2d6c 6f6e6700 00000002 00000002
        00000007 00000000 00000002 022a";
    let indexed = "
        00000006 00000003 00000009 00000028 0000003c 00000009 00000001 ff2c01fb
        ffffff00 00000000 01000000 00c03f00 00000000 0002c0c7 4c0000c0 d9090261
        62000068 c3a96c6c 6f010200 00090807 2efbffff ffffffff ff54ab56 7314e0f5
        2edecfb5 668b0100 00decfb5 668b0100 0040f506 00ffffff ffffffff ffe80300
        00030000 00020000 00610000 00000000 81000000 00000000 00080000 00200000
        00656967 68745f62 79280000 00020000 00000000 006b3100 00000000 820c0000
        00180000 006b6579 2d74776f 2d6c6f6e 67000000 00020000 00020000 00070000
        00000000 00020000 00002a00 0000";
    let aligned = "
        00000000 00000000 01000000 00000000 ff000000 00000000 2c010000 00000000
        fbffffff 00000000 00000000 00010000 0000c03f 00000000 00000000 000002c0
        c74c0000 00000000 c0d90902 00000000 61620000 00000082 68c3a96c 6c6f0086
        01020000 00000082 09080700 00000083 2efbffff ffffffff 09000000 b0000000
        decfb566 8b010000 40f50600 c0000000 e8030000 c8000000 28000000 d0000000
        3c000000 f8000000 18000000 38010000 ff54ab56 7314e0f5 2e000000 00000000
        decfb566 8b010000 ffffffff ffffffff 03000000 02000000 61000000 00000081
        00000000 00000000 08000000 20000000 65696768 745f6279 28000000 02000000
        00000000 6b310000 00000082 0c000000 18000000 6b65792d 74776f2d 6c6f6e67
        00000000 02000000 02000000 07000000 00000000 00000000 00020000 00000000
        2a000000 00000000 00000000 00000000";
    let row = all_types_row();
    check(RowFormat::Compacted, all_types(), &row, compacted);
    check(RowFormat::Indexed, all_types(), &row, indexed);
    check(RowFormat::Aligned, all_types(), &row, aligned);
}

#[test]
fn arrays_and_maps_have_the_reference_bytes() {
    // A compacted row of one column is: null bits, length, the nested bytes.
    let array = "00 28 03000000 02000000 6100000000000081 0000000000000000
        0800000020000000 65696768745f6279";
    let row = [all_types_row()[18].clone()];
    check(
        RowFormat::Compacted,
        vec![array_of(TypeKind::String)],
        &row,
        array,
    );
    let map = "00 3c 28000000 02000000 00000000 6b31000000000082 0c00000018000000
        6b65792d74776f2d6c6f6e6700000000 02000000 02000000 07000000 00000000";
    let row = [all_types_row()[19].clone()];
    check(
        RowFormat::Compacted,
        vec![map_of(TypeKind::String, TypeKind::Int)],
        &row,
        map,
    );
}

#[test]
fn arrays_canonicalize_nan() {
    let schema = schema_of([array_of(TypeKind::Float), array_of(TypeKind::Double)]);
    let row = [
        Value::Array(vec![Value::Float(f32::from_bits(0xffc0_0001))]),
        Value::Array(vec![Value::Double(f64::from_bits(0xfff8_0000_0000_0001))]),
    ];
    let mut bytes = Vec::new();
    RowFormat::Compacted
        .encode(&row, schema.columns.as_slice(), &mut bytes)
        .unwrap();
    let expected = "00 10 01000000 00000000 0000c07f 00000000
        10 01000000 00000000 000000000000f87f";
    assert_eq!(bytes, hex(expected));
}

#[test]
fn indexed_rows_strip_zeros_that_padded_a_value() {
    let schema = schema_of([TypeKind::Char { length: 4 }, TypeKind::Binary { length: 3 }]);
    let row = [Value::from("ab"), Value::from(&[7, 0][..])];
    let mut bytes = Vec::new();
    RowFormat::Indexed
        .encode(&row, schema.columns.as_slice(), &mut bytes)
        .unwrap();
    assert_eq!(bytes, hex("00 61620000 070000"));
    let back = RowFormat::Indexed
        .decode(&bytes, schema.columns.as_slice())
        .unwrap();
    assert_eq!(back, [Value::from("ab"), Value::from(&[7][..])]);
    let long = [Value::from("ééé"), Value::Null];
    assert!(
        RowFormat::Indexed
            .encode(&long, schema.columns.as_slice(), &mut bytes)
            .is_err()
    );
}

#[test]
fn values_that_do_not_fit_their_type_are_refused() {
    let decimal = TypeKind::Decimal {
        precision: 3,
        scale: 0,
    };
    let cases = [
        (TypeKind::Int, Value::BigInt(1)),
        (TypeKind::String, Value::from(&b"bytes"[..])),
        (decimal, Value::Decimal(1000)),
        (array_of(TypeKind::Int), Value::Array(vec!["text".into()])),
        (
            map_of(TypeKind::Int, TypeKind::Int),
            Value::Map(vec![(Value::Null, Value::Int(1))]),
        ),
        (row_type([("a", TypeKind::Int)]), Value::Row(vec![])),
    ];
    for (kind, value) in cases {
        let schema = schema_of([kind]);
        for format in FORMATS {
            let mut out = Vec::new();
            let result = format.encode(
                std::slice::from_ref(&value),
                schema.columns.as_slice(),
                &mut out,
            );
            assert!(
                matches!(result, Err(FormatError::Invalid(_))),
                "{format:?} {value:?}"
            );
        }
    }
    let schema = schema_of(s2());
    for format in FORMATS {
        assert!(
            format
                .encode(&[], schema.columns.as_slice(), &mut Vec::new())
                .is_err()
        );
    }
}

#[test]
fn slots_that_share_a_part_cannot_swell() {
    // An array of arrays whose slots all name the same 64 KiB part.
    let kind = array_of(array_of(array_of(TypeKind::TinyInt)));
    let schema = schema_of([kind]);
    let count = 1000_usize;
    let slots = 4 + count.div_ceil(32) * 4;
    let mut array = vec![0; (slots + count * 8).next_multiple_of(8)];
    array[..4].copy_from_slice(&(count as u32).to_le_bytes());
    let part = array.len();
    let inner_length = 8000_u32;
    array.extend(vec![0; inner_length as usize]);
    for index in 0..count {
        let slot = slots + index * 8;
        array[slot..slot + 4].copy_from_slice(&inner_length.to_le_bytes());
        array[slot + 4..slot + 8].copy_from_slice(&(part as u32).to_le_bytes());
    }
    let mut row = vec![0];
    crate::varint::put_u32(&mut row, array.len() as u32);
    row.extend(array);
    let error = RowFormat::Compacted
        .decode(&row, schema.columns.as_slice())
        .unwrap_err();
    assert!(
        error.to_string().contains("longer than the whole"),
        "{error}"
    );
}

#[test]
fn timestamps_carry_nanoseconds_within_a_millisecond_only() {
    let schema = schema_of([TypeKind::Timestamp { precision: 9 }]);
    let mut bytes = vec![0];
    crate::varint::put_u64(&mut bytes, 5);
    crate::varint::put_u32(&mut bytes, 1_000_000);
    assert!(
        RowFormat::Compacted
            .decode(&bytes, schema.columns.as_slice())
            .is_err()
    );
    let row = [Value::Timestamp(Timestamp {
        millis: i64::MIN,
        nanos_of_milli: 999_999,
    })];
    for format in FORMATS {
        let mut bytes = Vec::new();
        format
            .encode(&row, schema.columns.as_slice(), &mut bytes)
            .unwrap();
        assert_eq!(
            format.decode(&bytes, schema.columns.as_slice()).unwrap(),
            row
        );
    }
}

proptest! {
    #[test]
    fn every_row_comes_back_in_every_format((schema, rows) in any_table(6, 4)) {
        let fields = schema.columns.as_slice();
        let mut bytes = Vec::new();
        for row in &rows {
            for format in FORMATS {
                bytes.clear();
                format.encode(row, fields, &mut bytes).unwrap();
                prop_assert_eq!(&format.decode(&bytes, fields).unwrap(), row);
                // Cut anywhere, it is an error or a row, never a panic.
                for end in (0..bytes.len()).step_by(3) {
                    let _ = format.decode(&bytes[..end], fields);
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic((schema, _) in any_table(4, 0), bytes: Vec<u8>) {
        for format in FORMATS {
            let _ = format.decode(&bytes, schema.columns.as_slice());
        }
    }

    #[test]
    fn damaged_rows_never_panic(
        (schema, rows) in any_table(4, 2),
        at: prop::sample::Index,
        with: u8,
    ) {
        let fields = schema.columns.as_slice();
        for row in &rows {
            for format in FORMATS {
                let mut bytes = Vec::new();
                format.encode(row, fields, &mut bytes).unwrap();
                let at = at.index(bytes.len());
                bytes[at] = with;
                let _ = format.decode(&bytes, fields);
            }
        }
    }
}
