//! Memory sizes as configuration writes them: an integer and an optional unit in
//! powers of 1024 (cluster.md §9.1).

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Parses `1024m`, `4 kb`, `512` into bytes. No unit means bytes. The result is
/// at most 2^63−1.
///
/// # Errors
/// What is wrong with the text, as a sentence without the key.
pub fn parse(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let unit_start = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_start);
    let unit = unit.trim().to_lowercase();
    if number.is_empty() {
        return Err(format!(
            "'{text}' is not a memory size, such as '64mb', '4 kb' or '512'"
        ));
    }
    let factor = match unit.as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "kb" | "kibibytes" => KIB,
        "m" | "mb" | "mebibytes" => MIB,
        "g" | "gb" | "gibibytes" => GIB,
        "t" | "tb" | "tebibytes" => TIB,
        _ => {
            return Err(format!(
                "'{unit}' is not a unit of memory (b, kb, mb, gb and tb are)"
            ));
        }
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|bytes| *bytes <= i64::MAX as u64)
        .ok_or_else(|| format!("'{text}' is too large for a memory size"))
}

/// Writes a size in the largest unit that holds it exactly: `64mb`, `100b`.
/// [`parse`] reads it back to the same value.
pub fn format(bytes: u64) -> String {
    let (factor, unit) = [(TIB, "tb"), (GIB, "gb"), (MIB, "mb"), (KIB, "kb")]
        .into_iter()
        .find(|(factor, _)| bytes != 0 && bytes.is_multiple_of(*factor))
        .unwrap_or((1, "b"));
    format!("{}{unit}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_in_every_spelling() {
        for (spellings, expected) in [
            ("b bytes B", 3),
            ("k kb kibibytes K", 3 << 10),
            ("m mb mebibytes MB", 3 << 20),
            ("g gb gibibytes Gb", 3 << 30),
            ("t tb tebibytes", 3 << 40),
        ] {
            for unit in spellings.split(' ') {
                assert_eq!(parse(&format!("3{unit}")), Ok(expected), "{unit}");
                assert_eq!(parse(&format!(" 3 {unit} ")), Ok(expected), "{unit}");
            }
        }
    }

    #[test]
    fn no_unit_means_bytes() {
        assert_eq!(parse("120"), Ok(120));
        assert_eq!(parse("9223372036854775807"), Ok(i64::MAX as u64));
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in [
            "",
            "mb",
            "-1",
            "1.5mb",
            "1 pb",
            "1 k b",
            "9223372036854775808",
            "8388608tb",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn format_reads_back() {
        for (bytes, text) in [
            (0, "0b"),
            (1, "1b"),
            (1536, "1536b"),
            (4096, "4kb"),
            (1 << 30, "1gb"),
            (64 << 20, "64mb"),
        ] {
            assert_eq!(format(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
    }
}
