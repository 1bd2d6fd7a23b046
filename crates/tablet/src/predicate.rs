//! Predicates as the protocol carries them (wire.md §4.18), turned into those of
//! the format crate. Whatever cannot be understood makes the fetch unfiltered.

use std::borrow::Cow;

use mainstem_format::predicate::decimal_literal;
use mainstem_format::{LeafFunction, Predicate, Timestamp, Value};
use mainstem_protocol::messages as pb;

/// Nesting that is looked at; deeper ones are not filtered.
const MAX_DEPTH: usize = 64;

/// The predicate of a request; `None` if it cannot be used.
pub fn from_proto(predicate: &pb::PbPredicate) -> Option<Predicate> {
    convert(predicate, 0)
}

fn convert(predicate: &pb::PbPredicate, depth: usize) -> Option<Predicate> {
    if depth > MAX_DEPTH {
        return None;
    }
    match predicate.r#type? {
        0 => leaf(predicate.leaf.as_ref()?),
        1 => {
            let compound = predicate.compound.as_ref()?;
            let children: Option<Vec<Predicate>> = compound
                .children
                .iter()
                .map(|child| convert(child, depth + 1))
                .collect();
            match compound.function? {
                0 => children.map(Predicate::And),
                1 => children.map(Predicate::Or),
                _ => None,
            }
        }
        _ => None,
    }
}

fn leaf(leaf: &pb::PbLeafPredicate) -> Option<Predicate> {
    let literals: Option<Vec<Value<'static>>> = leaf.literals.iter().map(literal).collect();
    Some(Predicate::Leaf {
        function: LeafFunction::from_code(leaf.function?)?,
        column_id: leaf.field_id?,
        literals: literals?,
    })
}

/// The value field by type root; another combination is not understood.
fn literal(literal: &pb::PbLiteralValue) -> Option<Value<'static>> {
    if literal.is_null? {
        return Some(Value::Null);
    }
    Some(match literal.literal_type? {
        0 => Value::Boolean(literal.boolean_value?),
        1 => Value::TinyInt(i8::try_from(literal.int_value?).ok()?),
        2 => Value::SmallInt(i16::try_from(literal.int_value?).ok()?),
        3 => Value::Int(literal.int_value?),
        4 => Value::BigInt(literal.bigint_value?),
        5 => Value::Float(literal.float_value?),
        6 => Value::Double(literal.double_value?),
        7 | 8 => Value::String(Cow::Owned(literal.string_value.clone()?)),
        9 => match (literal.decimal_value, &literal.decimal_bytes) {
            (Some(unscaled), _) => Value::Decimal(unscaled.into()),
            (None, Some(bytes)) => decimal_literal(bytes).ok()?,
            (None, None) => return None,
        },
        // A date travels in the 64-bit field.
        10 => Value::Date(i32::try_from(literal.bigint_value?).ok()?),
        11 => Value::Time(literal.int_value?),
        12 | 13 => Value::Timestamp(Timestamp {
            millis: literal.timestamp_millis_value?,
            nanos_of_milli: literal.timestamp_nano_of_millis_value.unwrap_or(0),
        }),
        14 | 15 => Value::Bytes(Cow::Owned(literal.binary_value.clone()?.to_vec())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf_of(function: i32, literal: pb::PbLiteralValue) -> pb::PbPredicate {
        pb::PbPredicate {
            r#type: Some(0),
            leaf: Some(pb::PbLeafPredicate {
                function: Some(function),
                field_id: Some(3),
                literals: vec![literal],
            }),
            compound: None,
        }
    }

    fn date(days: i64) -> pb::PbLiteralValue {
        pb::PbLiteralValue {
            literal_type: Some(10),
            is_null: Some(false),
            bigint_value: Some(days),
            ..pb::PbLiteralValue::default()
        }
    }

    #[test]
    fn a_date_is_read_from_the_wide_field() {
        let predicate = from_proto(&leaf_of(0, date(20_235)));
        let Some(Predicate::Leaf {
            literals,
            column_id: 3,
            ..
        }) = predicate
        else {
            panic!("{predicate:?}")
        };
        assert_eq!(literals, [Value::Date(20_235)]);
    }

    #[test]
    fn what_is_not_understood_filters_nothing() {
        assert_eq!(from_proto(&pb::PbPredicate::default()), None);
        assert_eq!(from_proto(&leaf_of(99, date(1))), None);
        assert_eq!(from_proto(&leaf_of(0, date(i64::MAX))), None);
        let leafless = pb::PbPredicate {
            r#type: Some(0),
            ..pb::PbPredicate::default()
        };
        assert_eq!(from_proto(&leafless), None);
        let mut nested = leaf_of(0, date(1));
        for _ in 0..100 {
            nested = pb::PbPredicate {
                r#type: Some(1),
                leaf: None,
                compound: Some(pb::PbCompoundPredicate {
                    function: Some(0),
                    children: vec![nested],
                }),
            };
        }
        assert_eq!(from_proto(&nested), None);
    }
}
