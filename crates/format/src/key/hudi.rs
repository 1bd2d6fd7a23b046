//! Hudi's bucket key: the Java hash of a list of texts, four bytes big-endian.
//!
//! The texts are those of Java's `toString` on the row's values. FLOAT and
//! DOUBLE follow the shortest-digits algorithm of JDK 19 and later; older JDKs
//! print a few values with more digits.

use std::fmt::Write as _;

use mainstem_types::{DataType, TypeKind};

use crate::value::{Timestamp, Value, mismatch};
use crate::{FormatError, Result};

const NULL_TEXT: &str = "__null__";
const EMPTY_TEXT: &str = "__empty__";

/// Appends the hash of the columns' texts.
pub(super) fn put_hash<'v, 't, 'd: 'v>(
    columns: impl ExactSizeIterator<Item = (&'v Value<'d>, &'t DataType)>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let single = columns.len() == 1;
    let mut hash = 1_i32;
    let mut buffer = String::new();
    for (value, data_type) in columns {
        buffer.clear();
        let field_hash = if value.is_null() {
            if single { string_hash(NULL_TEXT) } else { 0 }
        } else {
            put_text(value, data_type, &mut buffer)?;
            if !single {
                check_text(&buffer)?;
            }
            string_hash(&buffer)
        };
        hash = hash.wrapping_mul(31).wrapping_add(field_hash);
    }
    out.extend(hash.to_be_bytes());
    Ok(())
}

/// Texts that would make two different lists look the same.
fn check_text(text: &str) -> Result<()> {
    if text.contains(',') || text == NULL_TEXT || text == EMPTY_TEXT {
        return Err(FormatError::invalid(format!(
            "`{text}` in a Hudi key of several columns"
        )));
    }
    Ok(())
}

/// Java's `String.hashCode`, over UTF-16 units.
fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

fn put_text(value: &Value<'_>, data_type: &DataType, out: &mut String) -> Result<()> {
    let written = match (&data_type.kind, value) {
        (TypeKind::Boolean, Value::Boolean(value)) => write!(out, "{value}"),
        (TypeKind::TinyInt, Value::TinyInt(value)) => write!(out, "{value}"),
        (TypeKind::SmallInt, Value::SmallInt(value)) => write!(out, "{value}"),
        (TypeKind::Int, Value::Int(value))
        | (TypeKind::Date, Value::Date(value))
        | (TypeKind::Time { .. }, Value::Time(value)) => write!(out, "{value}"),
        (TypeKind::BigInt, Value::BigInt(value)) => write!(out, "{value}"),
        (TypeKind::Float, Value::Float(value)) => put_float(*value, f64::from(*value), out),
        (TypeKind::Double, Value::Double(value)) => put_float(*value, *value, out),
        (TypeKind::Char { .. } | TypeKind::String, Value::String(value)) => {
            out.push_str(value);
            Ok(())
        }
        (TypeKind::Decimal { scale, .. }, Value::Decimal(value)) => {
            put_decimal(*value, usize::from(*scale), out)
        }
        (TypeKind::Timestamp { .. }, Value::Timestamp(value)) => put_timestamp(*value, false, out),
        (TypeKind::TimestampLtz { .. }, Value::Timestamp(value)) => {
            put_timestamp(*value, true, out)
        }
        (_, value) => return Err(mismatch(value, data_type)),
    };
    written.expect("writing to a string does not fail");
    Ok(())
}

/// Java's text of a floating-point number. `shortest` prints with the digits of
/// its own width, `wide` is the same number to compare with.
fn put_float(shortest: impl std::fmt::LowerExp, wide: f64, out: &mut String) -> std::fmt::Result {
    if wide.is_nan() {
        return out.write_str("NaN");
    }
    if wide.is_sign_negative() {
        out.push('-');
    }
    if wide.is_infinite() {
        return out.write_str("Infinity");
    }
    if wide == 0.0 {
        return out.write_str("0.0");
    }
    let scientific = format!("{shortest:e}");
    let scientific = scientific.trim_start_matches('-');
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    let digits = mantissa.replace('.', "");
    if !(-3..7).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { "0" } else { rest };
        return write!(out, "{first}.{rest}E{exponent}");
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return write!(out, "0.{zeros}{digits}");
    }
    let whole_digits = exponent as usize + 1;
    if digits.len() <= whole_digits {
        return write!(out, "{digits:0<whole_digits$}.0");
    }
    let (whole, fraction) = digits.split_at(whole_digits);
    write!(out, "{whole}.{fraction}")
}

/// Java's `BigDecimal.toPlainString`.
fn put_decimal(unscaled: i128, scale: usize, out: &mut String) -> std::fmt::Result {
    if unscaled < 0 {
        out.push('-');
    }
    let width = scale + 1;
    let digits = format!("{:0>width$}", unscaled.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    match fraction.is_empty() {
        true => out.write_str(whole),
        false => write!(out, "{whole}.{fraction}"),
    }
}

/// Java's `LocalDateTime.toString`, or `Instant.toString`, which always shows
/// seconds and ends in Z.
fn put_timestamp(timestamp: Timestamp, instant: bool, out: &mut String) -> std::fmt::Result {
    const MILLIS_PER_DAY: i64 = 86_400_000;
    let (year, month, day) = civil_date(timestamp.millis.div_euclid(MILLIS_PER_DAY));
    let millis = timestamp.millis.rem_euclid(MILLIS_PER_DAY);
    match year {
        0..=9999 => write!(out, "{year:04}")?,
        ..0 => write!(out, "-{:04}", -year)?,
        _ => write!(out, "+{year}")?,
    }
    let minutes = millis / 60_000;
    write!(
        out,
        "-{month:02}-{day:02}T{:02}:{:02}",
        minutes / 60,
        minutes % 60
    )?;
    let seconds = millis / 1000 % 60;
    let nanos = millis % 1000 * 1_000_000 + i64::from(timestamp.nanos_of_milli);
    if instant || seconds != 0 || nanos != 0 {
        write!(out, ":{seconds:02}")?;
    }
    if nanos != 0 {
        // Three, six or nine digits.
        match (nanos % 1_000_000, nanos % 1000) {
            (0, _) => write!(out, ".{:03}", nanos / 1_000_000)?,
            (_, 0) => write!(out, ".{:06}", nanos / 1000)?,
            _ => write!(out, ".{nanos:09}")?,
        }
    }
    if instant {
        out.push('Z');
    }
    Ok(())
}

/// Year, month, day of a day number, by shifting the year to begin in March so
/// that the leap day is its last.
fn civil_date(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days_since_1970 + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(kind: TypeKind, value: Value<'_>) -> String {
        let mut out = String::new();
        put_text(&value, &DataType::nullable(kind), &mut out).unwrap();
        out
    }

    #[test]
    fn floats_print_as_java_prints_them() {
        let check = |value: f64, expected: &str| {
            assert_eq!(text_of(TypeKind::Double, Value::Double(value)), expected);
        };
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(1.0, "1.0");
        check(-2.25, "-2.25");
        check(100.0, "100.0");
        check(0.001, "0.001");
        check(0.000_999, "9.99E-4");
        check(9_999_999.0, "9999999.0");
        check(10_000_000.0, "1.0E7");
        check(1.5e300, "1.5E300");
        check(f64::NEG_INFINITY, "-Infinity");
        check(f64::NAN, "NaN");
        assert_eq!(text_of(TypeKind::Float, Value::Float(0.1)), "0.1");
    }

    #[test]
    fn decimals_print_plainly() {
        let check = |unscaled, scale, expected: &str| {
            let kind = TypeKind::Decimal {
                precision: 20,
                scale,
            };
            assert_eq!(text_of(kind, Value::Decimal(unscaled)), expected);
        };
        check(-1234, 2, "-12.34");
        check(1, 5, "0.00001");
        check(42, 0, "42");
        check(0, 2, "0.00");
    }

    #[test]
    fn timestamps_print_as_java_prints_them() {
        let check = |millis, nanos_of_milli, local: &str, instant: &str| {
            let value = Value::Timestamp(Timestamp {
                millis,
                nanos_of_milli,
            });
            assert_eq!(
                text_of(TypeKind::Timestamp { precision: 9 }, value.clone()),
                local
            );
            assert_eq!(
                text_of(TypeKind::TimestampLtz { precision: 9 }, value),
                instant
            );
        };
        check(0, 0, "1970-01-01T00:00", "1970-01-01T00:00:00Z");
        check(
            -1,
            1000,
            "1969-12-31T23:59:59.999001",
            "1969-12-31T23:59:59.999001Z",
        );
        check(
            951_782_400_000,
            5,
            "2000-02-29T00:00:00.000000005",
            "2000-02-29T00:00:00.000000005Z",
        );
        check(
            1_698_235_273_182,
            0,
            "2023-10-25T12:01:13.182",
            "2023-10-25T12:01:13.182Z",
        );
    }

    #[test]
    fn several_columns_refuse_texts_that_are_ambiguous() {
        let data_type = DataType::nullable(TypeKind::String);
        let hash = |values: &[Value<'_>]| {
            let mut out = Vec::new();
            put_hash(
                values
                    .iter()
                    .zip(std::iter::repeat_n(&data_type, values.len())),
                &mut out,
            )
            .map(|()| out)
        };
        // 31 + hash("a,b"): one column takes any text.
        assert_eq!(
            hash(&["a,b".into()]).unwrap(),
            (31 + 94_679_i32).to_be_bytes()
        );
        assert!(hash(&["a,b".into(), "c".into()]).is_err());
        assert!(hash(&["__null__".into(), "c".into()]).is_err());
        // 31·(31·1 + hash("ab")) + 0.
        let expected = 31 * (31 + 3105_i32);
        assert_eq!(
            hash(&["ab".into(), Value::Null]).unwrap(),
            expected.to_be_bytes()
        );
    }
}
