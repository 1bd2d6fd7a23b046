//! Sums and products.

use mainstem_format::Value;

use super::decimal::{self, DecimalType};

/// The sum of two values that are not null. Integers wrap around; a decimal that
/// does not fit becomes null. `None` if the values are not two numbers of a type.
pub(super) fn sum<'a>(
    accumulator: &Value<'_>,
    input: &Value<'_>,
    decimal_type: DecimalType,
) -> Option<Value<'a>> {
    Some(match (accumulator, input) {
        (Value::TinyInt(a), Value::TinyInt(b)) => Value::TinyInt(a.wrapping_add(*b)),
        (Value::SmallInt(a), Value::SmallInt(b)) => Value::SmallInt(a.wrapping_add(*b)),
        (Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_add(*b)),
        (Value::BigInt(a), Value::BigInt(b)) => Value::BigInt(a.wrapping_add(*b)),
        (Value::Float(a), Value::Float(b)) => Value::Float(a + b),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::Decimal(a), Value::Decimal(b)) => {
            decimal::sum(*a, *b, decimal_type).map_or(Value::Null, Value::Decimal)
        }
        _ => return None,
    })
}

/// As [`sum`]; products of decimals are rounded to the scale.
pub(super) fn product<'a>(
    accumulator: &Value<'_>,
    input: &Value<'_>,
    decimal_type: DecimalType,
) -> Option<Value<'a>> {
    Some(match (accumulator, input) {
        (Value::TinyInt(a), Value::TinyInt(b)) => Value::TinyInt(a.wrapping_mul(*b)),
        (Value::SmallInt(a), Value::SmallInt(b)) => Value::SmallInt(a.wrapping_mul(*b)),
        (Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_mul(*b)),
        (Value::BigInt(a), Value::BigInt(b)) => Value::BigInt(a.wrapping_mul(*b)),
        (Value::Float(a), Value::Float(b)) => Value::Float(a * b),
        (Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        (Value::Decimal(a), Value::Decimal(b)) => {
            decimal::product(*a, *b, decimal_type).map_or(Value::Null, Value::Decimal)
        }
        _ => return None,
    })
}
