//! One value of a row, in the internal domain of formats.md §0.

use std::borrow::Cow;

use mainstem_types::{DataType, TypeKind};

use crate::{FormatError, Result};

/// A value. Strings and bytes are borrowed from what was decoded where that is
/// possible; nested values own their lists.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL null, of any type.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// TINYINT.
    TinyInt(i8),
    /// SMALLINT.
    SmallInt(i16),
    /// INT.
    Int(i32),
    /// BIGINT.
    BigInt(i64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// CHAR and STRING.
    String(Cow<'a, str>),
    /// BINARY and BYTES.
    Bytes(Cow<'a, [u8]>),
    /// DECIMAL: the unscaled integer; the scale is the type's.
    Decimal(i128),
    /// DATE: days since 1970-01-01.
    Date(i32),
    /// TIME: milliseconds of the day, for every precision.
    Time(i32),
    /// TIMESTAMP and TIMESTAMP_LTZ.
    Timestamp(Timestamp),
    /// ARRAY.
    Array(Vec<Value<'a>>),
    /// MAP, in the order of its producer. Keys are never null.
    Map(Vec<(Value<'a>, Value<'a>)>),
    /// ROW.
    Row(Vec<Value<'a>>),
}

/// A point in time, or on a zone-less calendar, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Milliseconds since 1970-01-01T00:00, rounded down.
    pub millis: i64,
    /// Nanoseconds beyond `millis`, in `0..=999_999`.
    pub nanos_of_milli: i32,
}

impl Timestamp {
    /// A timestamp of whole milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self {
            millis,
            nanos_of_milli: 0,
        }
    }

    pub(crate) fn checked(millis: i64, nanos_of_milli: i32) -> Result<Self> {
        if !(0..=999_999).contains(&nanos_of_milli) {
            return Err(FormatError::invalid(format!(
                "{nanos_of_milli} nanoseconds of a millisecond"
            )));
        }
        Ok(Self {
            millis,
            nanos_of_milli,
        })
    }
}

impl Value<'_> {
    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The same value without borrowed parts.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(value),
            Self::TinyInt(value) => Value::TinyInt(value),
            Self::SmallInt(value) => Value::SmallInt(value),
            Self::Int(value) => Value::Int(value),
            Self::BigInt(value) => Value::BigInt(value),
            Self::Float(value) => Value::Float(value),
            Self::Double(value) => Value::Double(value),
            Self::String(value) => Value::String(Cow::Owned(value.into_owned())),
            Self::Bytes(value) => Value::Bytes(Cow::Owned(value.into_owned())),
            Self::Decimal(value) => Value::Decimal(value),
            Self::Date(value) => Value::Date(value),
            Self::Time(value) => Value::Time(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::Array(values) => Value::Array(owned(values)),
            Self::Map(entries) => {
                let own =
                    |(key, value): (Value<'_>, Value<'_>)| (key.into_owned(), value.into_owned());
                Value::Map(entries.into_iter().map(own).collect())
            }
            Self::Row(values) => Value::Row(owned(values)),
        }
    }

    /// The variant's name, for messages.
    pub(crate) fn variant(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::TinyInt(_) => "an 8-bit integer",
            Self::SmallInt(_) => "a 16-bit integer",
            Self::Int(_) => "a 32-bit integer",
            Self::BigInt(_) => "a 64-bit integer",
            Self::Float(_) => "a 32-bit float",
            Self::Double(_) => "a 64-bit float",
            Self::String(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Decimal(_) => "a decimal",
            Self::Date(_) => "a date",
            Self::Time(_) => "a time",
            Self::Timestamp(_) => "a timestamp",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
            Self::Row(_) => "a row",
        }
    }
}

fn owned(values: Vec<Value<'_>>) -> Vec<Value<'static>> {
    values.into_iter().map(Value::into_owned).collect()
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(Cow::Borrowed(bytes))
    }
}

/// The error of a value that its column's type cannot hold.
pub(crate) fn mismatch(value: &Value<'_>, data_type: &DataType) -> FormatError {
    FormatError::invalid(format!(
        "{} for a column of type {:?}",
        value.variant(),
        data_type.kind
    ))
}

/// Text of CHAR and STRING columns.
pub(crate) fn text(bytes: &[u8]) -> Result<Value<'_>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Value::from(text)),
        Err(error) => Err(FormatError::invalid(format!(
            "string that is not UTF-8: {error}"
        ))),
    }
}

/// Highest precision whose unscaled integer travels as an `i64`.
pub(crate) const COMPACT_DECIMAL_PRECISION_MAX: u8 = 18;

/// Whether timestamps of this precision keep only their milliseconds.
pub(crate) const fn is_compact_timestamp(precision: u8) -> bool {
    precision <= 3
}

/// Powers of ten up to the largest precision.
const POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1; 39];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// Checks that a decimal has at most `precision` digits.
pub(crate) fn check_decimal(unscaled: i128, precision: u8) -> Result<()> {
    match POWERS_OF_TEN.get(usize::from(precision)) {
        Some(&bound) if unscaled <= -bound || unscaled >= bound => Err(FormatError::invalid(
            format!("decimal {unscaled} has more than {precision} digits"),
        )),
        _ => Ok(()),
    }
}

/// Checks a decimal that travels as an `i64` and converts it.
pub(crate) fn compact_decimal(unscaled: i128, precision: u8) -> Result<i64> {
    check_decimal(unscaled, precision)?;
    i64::try_from(unscaled)
        .map_err(|_| FormatError::invalid(format!("decimal {unscaled} of more than 64 bits")))
}

/// `unscaled()` of formats.md §0: big-endian two's complement, minimal. Returns
/// the buffer and the index of the first byte that counts.
pub(crate) fn unscaled_bytes(unscaled: i128) -> ([u8; 16], usize) {
    let bytes = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xff } else { 0x00 };
    let mut start = 0;
    while start < 15 && bytes[start] == sign && (bytes[start + 1] ^ sign) & 0x80 == 0 {
        start += 1;
    }
    (bytes, start)
}

/// The inverse of [`unscaled_bytes`]; also takes bytes that are not minimal.
pub(crate) fn parse_unscaled(bytes: &[u8]) -> Result<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return Err(FormatError::invalid(format!(
            "decimal of {} bytes",
            bytes.len()
        )));
    }
    let mut value = if bytes[0] & 0x80 == 0 { 0 } else { -1_i128 };
    for &byte in bytes {
        value = value << 8 | i128::from(byte);
    }
    Ok(value)
}

/// Whether a row stores the type with a length (formats.md §4.2).
pub(crate) fn has_variable_length(kind: &TypeKind) -> bool {
    match kind {
        TypeKind::String
        | TypeKind::Bytes
        | TypeKind::Array(_)
        | TypeKind::Map { .. }
        | TypeKind::Row(_) => true,
        TypeKind::Decimal { precision, .. } => *precision > COMPACT_DECIMAL_PRECISION_MAX,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unscaled(value: i128) -> Vec<u8> {
        let (bytes, start) = unscaled_bytes(value);
        bytes[start..].to_vec()
    }

    #[test]
    fn unscaled_bytes_are_minimal() {
        assert_eq!(unscaled(0), [0x00]);
        assert_eq!(unscaled(128), [0x00, 0x80]);
        assert_eq!(unscaled(-1), [0xff]);
        assert_eq!(unscaled(-128), [0x80]);
        assert_eq!(unscaled(-129), [0xff, 0x7f]);
        assert_eq!(unscaled(i128::MAX).len(), 16);
        assert_eq!(unscaled(i128::MIN).len(), 16);
    }

    #[test]
    fn a_value_is_small() {
        // Decoded rows are lists of values, and hostile bytes may claim one
        // value per byte: this is the factor by which they can swell.
        assert!(size_of::<Value<'_>>() <= 32);
    }

    #[test]
    fn decimals_are_held_to_their_precision() {
        assert!(check_decimal(999, 3).is_ok());
        assert!(check_decimal(-1000, 3).is_err());
        assert!(check_decimal(10_i128.pow(38) - 1, 38).is_ok());
        assert!(check_decimal(10_i128.pow(38), 38).is_err());
    }

    proptest! {
        #[test]
        fn unscaled_bytes_come_back(value: i128, shift in 0_u32..127) {
            let value = value >> shift;
            prop_assert_eq!(parse_unscaled(&unscaled(value)).unwrap(), value);
        }
    }
}
