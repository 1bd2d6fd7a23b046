//! Predicates that a reader pushes down (formats.md §2.4, wire.md §4.18).

use crate::Result;
use crate::value::{Value, parse_unscaled};

/// A condition on rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// A test of one column.
    Leaf {
        /// The test.
        function: LeafFunction,
        /// Id (not position) of a top-level column.
        column_id: i32,
        /// None for null tests, one for comparisons, any number for lists. A
        /// literal that is not null has the variant of its column's type.
        literals: Vec<Value<'static>>,
    },
    /// True if all children are.
    And(Vec<Predicate>),
    /// True if any child is.
    Or(Vec<Predicate>),
}

/// The test of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the specification
pub enum LeafFunction {
    Equal,
    NotEqual,
    LessThan,
    LessOrEqual,
    GreaterThan,
    GreaterOrEqual,
    IsNull,
    IsNotNull,
    StartsWith,
    Contains,
    EndsWith,
    In,
    NotIn,
}

impl LeafFunction {
    /// The function of a code of formats.md §2.4.
    pub fn from_code(code: i32) -> Option<Self> {
        Some(match code {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::LessThan,
            3 => Self::LessOrEqual,
            4 => Self::GreaterThan,
            5 => Self::GreaterOrEqual,
            6 => Self::IsNull,
            7 => Self::IsNotNull,
            8 => Self::StartsWith,
            9 => Self::Contains,
            10 => Self::EndsWith,
            11 => Self::In,
            12 => Self::NotIn,
            _ => return None,
        })
    }
}

/// A DECIMAL literal of big-endian two's complement bytes, in the scale of its
/// column.
///
/// # Errors
/// [`crate::FormatError::Invalid`] if there are none or more than 16.
pub fn decimal_literal(unscaled: &[u8]) -> Result<Value<'static>> {
    parse_unscaled(unscaled).map(Value::Decimal)
}
