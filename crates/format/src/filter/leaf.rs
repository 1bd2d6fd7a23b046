//! One test against the statistics of one column.

use std::cmp::Ordering;

use crate::predicate::LeafFunction;
use crate::value::Value;

/// Statistics do not tell: keep the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

/// Statistics of a column in one batch.
#[derive(Clone, Debug)]
pub(super) struct ColumnRange<'a> {
    pub(super) min: Value<'a>,
    pub(super) max: Value<'a>,
    pub(super) null_count: Option<i32>,
    pub(super) record_count: i32,
}

impl ColumnRange<'_> {
    /// Whether a row may pass; literals fit the column and the function.
    pub(super) fn may_match(
        &self,
        function: LeafFunction,
        literals: &[Value<'static>],
    ) -> Result<bool, Unknown> {
        let all_null = self.null_count == Some(self.record_count);
        let (min, max) = (&self.min, &self.max);
        if all_null {
            return Ok(function == LeafFunction::IsNull);
        }
        if min.is_null() || max.is_null() {
            return Ok(true);
        }
        let nulls = self.null_count;
        match function {
            LeafFunction::IsNull => return Ok(nulls.is_none_or(|nulls| nulls > 0)),
            LeafFunction::IsNotNull => {
                return Ok(nulls.is_none_or(|nulls| nulls < self.record_count));
            }
            LeafFunction::In => {
                let is_hit =
                    |literal: &Value<'_>| !literal.is_null() && in_range(min, literal, max);
                return Ok(literals.iter().any(is_hit));
            }
            LeafFunction::NotIn => {
                let excludes = |literal: &Value<'_>| literal.is_null() || is_all(min, literal, max);
                return Ok(!literals.iter().any(excludes));
            }
            _ => {}
        }
        // One literal, and nothing compares to null.
        let Some(literal) = literals.first().filter(|literal| !literal.is_null()) else {
            return Ok(false);
        };
        Ok(match function {
            LeafFunction::Equal => in_range(min, literal, max),
            LeafFunction::NotEqual => !is_all(min, literal, max),
            LeafFunction::LessThan => may_be_less(min, literal),
            LeafFunction::LessOrEqual => may_be_at_most(min, literal),
            LeafFunction::GreaterThan => may_be_less(literal, max),
            LeafFunction::GreaterOrEqual => may_be_at_most(literal, max),
            LeafFunction::StartsWith => may_start_with(min, literal, max)?,
            LeafFunction::Contains | LeafFunction::EndsWith => true,
            LeafFunction::IsNull
            | LeafFunction::IsNotNull
            | LeafFunction::In
            | LeafFunction::NotIn => unreachable!("answered above"),
        })
    }
}

fn in_range(min: &Value<'_>, literal: &Value<'_>, max: &Value<'_>) -> bool {
    may_be_at_most(min, literal) && may_be_at_most(literal, max)
}

/// Whether all values surely are the literal.
fn is_all(min: &Value<'_>, literal: &Value<'_>, max: &Value<'_>) -> bool {
    let same = |value: &Value<'_>| match (value, literal) {
        // To some engines −0 and 0 differ, to others not; NaN is odd for all.
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits() && !a.is_nan(),
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits() && !a.is_nan(),
        _ => compare(value, literal) == Some(Ordering::Equal),
    };
    same(min) && same(max)
}

/// Whether a ≤ b in the order of any engine. −0 and 0 are equal in one order
/// and not in another; where NaN stands is not agreed upon.
fn may_be_at_most(a: &Value<'_>, b: &Value<'_>) -> bool {
    compare(a, b).is_none_or(Ordering::is_le)
}

/// Whether a < b in the order of any engine.
fn may_be_less(a: &Value<'_>, b: &Value<'_>) -> bool {
    let zeros = match (a, b) {
        (Value::Float(a), Value::Float(b)) => *a == 0.0 && *b == 0.0 && a.total_cmp(b).is_lt(),
        (Value::Double(a), Value::Double(b)) => *a == 0.0 && *b == 0.0 && a.total_cmp(b).is_lt(),
        _ => false,
    };
    zeros || compare(a, b).is_none_or(Ordering::is_lt)
}

/// `None` if there is no order between them.
fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
        (Value::TinyInt(a), Value::TinyInt(b)) => Some(a.cmp(b)),
        (Value::SmallInt(a), Value::SmallInt(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b))
        | (Value::Date(a), Value::Date(b))
        | (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
        (Value::BigInt(a), Value::BigInt(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        // Rust compares strings by their bytes, as the writers of statistics do.
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// In the order of bytes, which is that of `min` and `max`. (The reference
/// compares UTF-16 code units here, and so drops batches with a match where
/// characters above U+FFFF are concerned.)
fn may_start_with(min: &Value<'_>, literal: &Value<'_>, max: &Value<'_>) -> Result<bool, Unknown> {
    let (Value::String(min), Value::String(literal), Value::String(max)) = (min, literal, max)
    else {
        return Err(Unknown);
    };
    let literal = &**literal;
    Ok((min.starts_with(literal) || &**min <= literal)
        && (max.starts_with(literal) || &**max >= literal))
}
