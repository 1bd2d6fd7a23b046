//! The order of values for `max` and `min`.

use std::cmp::Ordering;

use mainstem_format::Value;

/// Compares two values that are not null; `None` if they have no order, or are of
/// different types. Text is compared by its bytes.
pub(super) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::TinyInt(a), Value::TinyInt(b)) => a.cmp(b),
        (Value::SmallInt(a), Value::SmallInt(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) | (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::BigInt(a), Value::BigInt(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => compare_floats((*a).into(), (*b).into()),
        (Value::Double(a), Value::Double(b)) => compare_floats(*a, *b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        _ => return None,
    })
}

/// −0.0 is below 0.0; all NaN are alike, and above everything.
fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}
