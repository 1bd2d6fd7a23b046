//! Durations as configuration writes them: an integer and a unit (cluster.md §9.1).

use std::time::Duration;

const NANOS_PER_MICRO: u128 = 1_000;
const NANOS_PER_MILLI: u128 = 1_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
const NANOS_PER_MINUTE: u128 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: u128 = 60 * NANOS_PER_MINUTE;
const NANOS_PER_DAY: u128 = 24 * NANOS_PER_HOUR;

/// The longest duration: its milliseconds still fit a signed 64-bit integer, so
/// that callers may convert without a check.
const LONGEST_NANOS: u128 = i64::MAX as u128 * NANOS_PER_MILLI;

/// Units, longest first, each with the spelling that [`format`] uses.
const UNITS: [(u128, &str); 7] = [
    (NANOS_PER_DAY, "d"),
    (NANOS_PER_HOUR, "h"),
    (NANOS_PER_MINUTE, "min"),
    (NANOS_PER_SECOND, "s"),
    (NANOS_PER_MILLI, "ms"),
    (NANOS_PER_MICRO, "µs"),
    (1, "ns"),
];

/// Parses `30 s`, `10min`, `7 Days`: an integer ≥ 0, optional blanks, a unit in
/// any case. The unit is required. The result is at most 2^63−1 milliseconds.
///
/// # Errors
/// What is wrong with the text, as a sentence without the key.
pub fn parse(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let unit_start = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_start);
    let unit = unit.trim().to_lowercase();
    if number.is_empty() {
        return Err(format!(
            "'{text}' is not a duration, such as '30 s', '10 min' or '7 d'"
        ));
    }
    let factor = match unit.as_str() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        // The sign is U+00B5 on keyboards and U+03BC once lower-cased from Greek.
        "µs" | "μs" | "micro" | "micros" | "microsecond" | "microseconds" => NANOS_PER_MICRO,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => NANOS_PER_MILLI,
        "s" | "sec" | "secs" | "second" | "seconds" => NANOS_PER_SECOND,
        "m" | "min" | "minute" | "minutes" => NANOS_PER_MINUTE,
        "h" | "hour" | "hours" => NANOS_PER_HOUR,
        "d" | "day" | "days" => NANOS_PER_DAY,
        "" => {
            return Err(format!(
                "'{text}' has no unit, write for example '{number} s'"
            ));
        }
        _ => {
            return Err(format!(
                "'{unit}' is not a unit of time (ns, µs, ms, s, min, h and d are)"
            ));
        }
    };
    let nanos = number
        .parse::<u64>()
        .ok()
        .and_then(|number| u128::from(number).checked_mul(factor))
        .filter(|nanos| *nanos <= LONGEST_NANOS)
        .ok_or_else(|| format!("'{text}' is too long for a duration"))?;
    Ok(from_nanos(nanos))
}

/// Writes a duration in the largest unit that holds it exactly: `7d`, `90s`,
/// `0ms`. [`parse`] reads it back to the same value.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0ms".to_owned();
    }
    let (factor, unit) = UNITS
        .into_iter()
        .find(|(factor, _)| nanos.is_multiple_of(*factor))
        .expect("every count is a multiple of one nanosecond");
    format!("{}{unit}", nanos / factor)
}

fn from_nanos(nanos: u128) -> Duration {
    // LONGEST_NANOS bounds the seconds far below u64::MAX.
    Duration::new(
        (nanos / NANOS_PER_SECOND) as u64,
        (nanos % NANOS_PER_SECOND) as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_in_every_spelling() {
        for (spellings, expected) in [
            (
                "ns nano nanos nanosecond nanoseconds",
                Duration::from_nanos(7),
            ),
            (
                "µs μs micro micros microsecond microseconds",
                Duration::from_micros(7),
            ),
            (
                "ms milli millis millisecond milliseconds MS",
                Duration::from_millis(7),
            ),
            ("s sec secs second seconds S Sec", Duration::from_secs(7)),
            ("m min minute minutes MIN", Duration::from_secs(420)),
            ("h hour hours Hours", Duration::from_secs(7 * 3600)),
            ("d day days D", Duration::from_secs(7 * 86_400)),
        ] {
            for unit in spellings.split(' ') {
                assert_eq!(parse(&format!("7{unit}")), Ok(expected), "{unit}");
                assert_eq!(parse(&format!("  7  {unit} ")), Ok(expected), "{unit}");
            }
        }
    }

    #[test]
    fn a_number_without_unit_is_refused() {
        assert!(parse("30").unwrap_err().contains("has no unit"));
        assert!(parse(" 30 ").unwrap_err().contains("has no unit"));
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in [
            "",
            " ",
            "soon",
            "-1 s",
            "1.5 s",
            "s",
            "1 fortnight",
            "1 s s",
            "1µ",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn too_long_durations_are_refused_not_wrapped() {
        assert!(parse("9223372036854775807 ms").is_ok());
        assert!(parse("9223372036854775807 s").is_err());
        assert!(parse("18446744073709551616 ns").is_err());
        assert!(parse("99999999999999999999999999999999999999999 d").is_err());
    }

    #[test]
    fn format_uses_the_largest_exact_unit() {
        for (duration, text) in [
            (Duration::ZERO, "0ms"),
            (Duration::from_secs(7 * 86_400), "7d"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_millis(1_500), "1500ms"),
            (Duration::from_nanos(1_001), "1001ns"),
            (Duration::from_micros(2), "2µs"),
            (Duration::from_secs(600), "10min"),
            (Duration::from_secs(3 * 3600), "3h"),
        ] {
            assert_eq!(format(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
    }
}
