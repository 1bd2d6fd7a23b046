//! What tests of several modules share.

use mainstem_types::{Column, DataType, RowField, Schema, TypeKind};
use proptest::prelude::*;

use crate::value::{Timestamp, Value};

/// Bytes of hexadecimal digits; anything else separates.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// A schema of nullable columns `f0`, `f1`…
pub(crate) fn schema_of(kinds: impl IntoIterator<Item = TypeKind>) -> Schema {
    let columns: Vec<Column> = kinds
        .into_iter()
        .enumerate()
        .map(|(index, kind)| column(&format!("f{index}"), DataType::nullable(kind)))
        .collect();
    schema(columns)
}

/// A schema with ids by position.
pub(crate) fn schema(mut columns: Vec<Column>) -> Schema {
    for (id, column) in (0..).zip(&mut columns) {
        column.id = id;
    }
    Schema {
        highest_field_id: columns.len() as i32 - 1,
        columns,
        primary_key: Vec::new(),
        auto_increment: Vec::new(),
    }
}

pub(crate) fn column(name: &str, data_type: DataType) -> Column {
    Column {
        name: name.into(),
        data_type,
        comment: None,
        agg_function: None,
        id: 0,
    }
}

pub(crate) fn row_type(kinds: impl IntoIterator<Item = (&'static str, TypeKind)>) -> TypeKind {
    let field = |(name, kind): (&str, TypeKind)| RowField {
        name: name.into(),
        data_type: DataType::nullable(kind),
        description: None,
        field_id: -1,
    };
    TypeKind::Row(kinds.into_iter().map(field).collect())
}

pub(crate) fn array_of(kind: TypeKind) -> TypeKind {
    TypeKind::Array(Box::new(DataType::nullable(kind)))
}

pub(crate) fn map_of(key: TypeKind, value: TypeKind) -> TypeKind {
    TypeKind::Map {
        key: Box::new(DataType::not_null(key)),
        value: Box::new(DataType::nullable(value)),
    }
}

/// The 21 columns of formats.md §9.1.
pub(crate) fn all_types() -> Vec<TypeKind> {
    use TypeKind::*;
    vec![
        Boolean,
        TinyInt,
        SmallInt,
        Int,
        BigInt,
        Float,
        Double,
        Date,
        Time { precision: 3 },
        Char { length: 4 },
        String,
        Binary { length: 4 },
        Bytes,
        Decimal {
            precision: 5,
            scale: 2,
        },
        Decimal {
            precision: 20,
            scale: 0,
        },
        Timestamp { precision: 3 },
        Timestamp { precision: 6 },
        TimestampLtz { precision: 6 },
        array_of(String),
        map_of(String, Int),
        row_type([("x", Int), ("y", String)]),
    ]
}

/// The row of formats.md §9.1.
pub(crate) fn all_types_row() -> Vec<Value<'static>> {
    let timestamp = |millis, nanos_of_milli| {
        Value::Timestamp(Timestamp {
            millis,
            nanos_of_milli,
        })
    };
    vec![
        Value::Boolean(true),
        Value::TinyInt(-1),
        Value::SmallInt(300),
        Value::Int(-5),
        Value::BigInt(1 << 40),
        Value::Float(1.5),
        Value::Double(-2.25),
        Value::Date(19_655),
        Value::Time(34_200_000),
        "ab".into(),
        "héllo".into(),
        Value::from(&[1, 2][..]),
        Value::from(&[9, 8, 7][..]),
        Value::Decimal(-1234),
        Value::Decimal(-12_345_678_901_234_567_890),
        timestamp(1_698_235_273_182, 0),
        timestamp(1_698_235_273_182, 456_000),
        timestamp(-1, 1000),
        Value::Array(vec!["a".into(), Value::Null, "eight_by".into()]),
        Value::Map(vec![
            ("k1".into(), Value::Int(7)),
            ("key-two-long".into(), Value::Null),
        ]),
        Value::Row(vec![Value::Int(42), Value::Null]),
    ]
}

/// Any type, nested up to `depth` levels.
pub(crate) fn any_kind(depth: u32) -> BoxedStrategy<TypeKind> {
    let scalar = prop_oneof![
        Just(TypeKind::Boolean),
        Just(TypeKind::TinyInt),
        Just(TypeKind::SmallInt),
        Just(TypeKind::Int),
        Just(TypeKind::BigInt),
        Just(TypeKind::Float),
        Just(TypeKind::Double),
        (1_u32..9).prop_map(|length| TypeKind::Char { length }),
        Just(TypeKind::String),
        (1_u32..9).prop_map(|length| TypeKind::Binary { length }),
        Just(TypeKind::Bytes),
        (1_u8..=38, 0_u8..=38).prop_map(|(precision, scale)| TypeKind::Decimal {
            precision,
            scale: scale.min(precision),
        }),
        Just(TypeKind::Date),
        (0_u8..=9).prop_map(|precision| TypeKind::Time { precision }),
        (0_u8..=9).prop_map(|precision| TypeKind::Timestamp { precision }),
        (0_u8..=9).prop_map(|precision| TypeKind::TimestampLtz { precision }),
    ];
    scalar
        .prop_recursive(depth, 12, 3, |inner| {
            let typed = (inner, any::<bool>())
                .prop_map(|(kind, nullable)| DataType { kind, nullable })
                .boxed();
            prop_oneof![
                typed
                    .clone()
                    .prop_map(|element| TypeKind::Array(Box::new(element))),
                (typed.clone(), typed.clone()).prop_map(|(mut key, value)| {
                    key.nullable = false;
                    TypeKind::Map {
                        key: Box::new(key),
                        value: Box::new(value),
                    }
                }),
                prop::collection::vec(typed, 1..4).prop_map(|types| {
                    let field = |(index, data_type)| RowField {
                        name: format!("n{index}"),
                        data_type,
                        description: None,
                        field_id: -1,
                    };
                    TypeKind::Row(types.into_iter().enumerate().map(field).collect())
                }),
            ]
        })
        .boxed()
}

/// Any value of a type that survives every format: BINARY and CHAR of exact
/// length without trailing zeros, times to the precision of the type.
pub(crate) fn any_value(data_type: &DataType) -> BoxedStrategy<Value<'static>> {
    let value = any_non_null(&data_type.kind);
    match data_type.nullable {
        true => prop_oneof![1 => Just(Value::Null), 4 => value].boxed(),
        false => value,
    }
}

fn any_non_null(kind: &TypeKind) -> BoxedStrategy<Value<'static>> {
    match kind.clone() {
        TypeKind::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        TypeKind::TinyInt => any::<i8>().prop_map(Value::TinyInt).boxed(),
        TypeKind::SmallInt => any::<i16>().prop_map(Value::SmallInt).boxed(),
        TypeKind::Int => extreme_i32().prop_map(Value::Int).boxed(),
        TypeKind::BigInt => extreme_i64().prop_map(Value::BigInt).boxed(),
        // NaN is not equal to itself; it has a test of its own.
        TypeKind::Float => prop_oneof![
            Just(f32::MIN),
            Just(f32::INFINITY),
            Just(-0.0_f32),
            any::<f32>()
        ]
        .prop_map(|value| Value::Float(if value.is_nan() { 0.5 } else { value }))
        .boxed(),
        TypeKind::Double => prop_oneof![
            Just(f64::MAX),
            Just(f64::NEG_INFINITY),
            Just(-0.0_f64),
            any::<f64>()
        ]
        .prop_map(|value| Value::Double(if value.is_nan() { 0.5 } else { value }))
        .boxed(),
        TypeKind::Char { length } => "[a-zé]{0,8}"
            .prop_map(move |mut text: String| {
                while text.len() > length as usize {
                    text.pop();
                }
                Value::String(text.into())
            })
            .boxed(),
        TypeKind::String => prop_oneof!["\\PC{0,12}", "[a-z]{6,9}"]
            .prop_map(|text: String| Value::String(text.into()))
            .boxed(),
        TypeKind::Binary { length } => {
            prop::collection::vec(1_u8.., length as usize..=length as usize)
                .prop_map(|bytes| Value::Bytes(bytes.into()))
                .boxed()
        }
        TypeKind::Bytes => prop::collection::vec(any::<u8>(), 0..12)
            .prop_map(|bytes| Value::Bytes(bytes.into()))
            .boxed(),
        TypeKind::Decimal { precision, .. } => {
            let bound = 10_i128.pow(u32::from(precision)) - 1;
            prop_oneof![Just(bound), Just(-bound), Just(0), -bound..=bound]
                .prop_map(Value::Decimal)
                .boxed()
        }
        TypeKind::Date => extreme_i32().prop_map(Value::Date).boxed(),
        TypeKind::Time { precision } => (0_i32..86_400_000)
            .prop_map(move |millis| {
                Value::Time(if precision == 0 {
                    millis / 1000 * 1000
                } else {
                    millis
                })
            })
            .boxed(),
        TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
            // Years 1678 to 2261: what 64 bits of nanoseconds hold.
            (-9_200_000_000_000_i64..9_200_000_000_000, 0..1_000_000)
                .prop_map(move |(millis, nanos)| {
                    Value::Timestamp(match precision {
                        0 => Timestamp::from_millis(millis.div_euclid(1000) * 1000),
                        1..=3 => Timestamp::from_millis(millis),
                        4..=6 => Timestamp {
                            millis,
                            nanos_of_milli: nanos / 1000 * 1000,
                        },
                        _ => Timestamp {
                            millis,
                            nanos_of_milli: nanos,
                        },
                    })
                })
                .boxed()
        }
        TypeKind::Array(element) => prop::collection::vec(any_value(&element), 0..5)
            .prop_map(Value::Array)
            .boxed(),
        TypeKind::Map { key, value } => {
            prop::collection::vec((any_value(&key), any_value(&value)), 0..4)
                .prop_map(Value::Map)
                .boxed()
        }
        TypeKind::Row(fields) => fields
            .iter()
            .map(|field| any_value(&field.data_type))
            .collect::<Vec<_>>()
            .prop_map(Value::Row)
            .boxed(),
    }
}

fn extreme_i32() -> impl Strategy<Value = i32> {
    prop_oneof![
        Just(i32::MIN),
        Just(i32::MAX),
        Just(0),
        Just(-1),
        any::<i32>()
    ]
}

fn extreme_i64() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(i64::MIN),
        Just(i64::MAX),
        Just(0),
        Just(-1),
        any::<i64>()
    ]
}

/// Columns of any types with some rows of them.
pub(crate) fn any_table(
    columns_max: usize,
    rows_max: usize,
) -> impl Strategy<Value = (Schema, Vec<Vec<Value<'static>>>)> {
    let data_type =
        (any_kind(3), any::<bool>()).prop_map(|(kind, nullable)| DataType { kind, nullable });
    prop::collection::vec(data_type, 1..=columns_max).prop_flat_map(move |types| {
        let row = types.iter().map(any_value).collect::<Vec<_>>();
        let columns = types
            .into_iter()
            .enumerate()
            .map(|(index, data_type)| column(&format!("c{index}"), data_type))
            .collect();
        (
            Just(schema(columns)),
            prop::collection::vec(row, 0..=rows_max),
        )
    })
}

/// Makes the checksum of a damaged batch right again, so that what lies behind
/// the check is reached.
pub(crate) fn repair_crc(batch: &mut [u8]) {
    if let Ok(header) = crate::header::BatchHeader::parse(batch) {
        let start = header.magic.crc_start();
        let crc = crc32c::crc32c(&batch[start.min(batch.len())..header.total_len.min(batch.len())]);
        batch[start - 4..start].copy_from_slice(&crc.to_le_bytes());
    }
}
