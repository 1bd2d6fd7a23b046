//! What values of an option look like, and how they are read (cluster.md §9.1).

use std::collections::BTreeMap;

use crate::{duration, memory_size};

/// The form of an option's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// 32-bit integer.
    Int,
    /// 64-bit integer.
    Long,
    /// Finite decimal number.
    Double,
    /// `true` or `false` in any case.
    Bool,
    /// Any text.
    Text,
    /// Integer and unit of time; the unit is required.
    Duration,
    /// Integer and optional unit in powers of 1024.
    Memory,
    /// Texts separated by commas.
    List,
    /// 32-bit integers separated by commas.
    IntList,
    /// `k1:v1,k2:v2`.
    Map,
    /// One of these words in any case.
    Enum(&'static [&'static str]),
    /// Such words separated by commas.
    EnumList(&'static [&'static str]),
}

impl OptionKind {
    /// Name of the kind, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Long => "long",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Duration => "duration",
            Self::Memory => "memory size",
            Self::List => "list",
            Self::IntList => "list of ints",
            Self::Map => "map",
            Self::Enum(_) => "word",
            Self::EnumList(_) => "list of words",
        }
    }

    /// Whether APPEND and SUBTRACT make sense.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::List | Self::IntList | Self::EnumList(_))
    }

    /// Checks the form of a value.
    ///
    /// # Errors
    /// What is wrong, as a sentence that quotes the value but not the key.
    pub fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Int => parse_number::<i32>(value, "an integer").map(drop),
            Self::Long => parse_number::<i64>(value, "an integer").map(drop),
            Self::Double => parse_double(value).map(drop),
            Self::Bool => parse_bool(value).map(drop),
            Self::Text | Self::List => Ok(()),
            Self::Duration => duration::parse(value).map(drop),
            Self::Memory => memory_size::parse(value).map(drop),
            Self::IntList => parse_list(value)
                .iter()
                .try_for_each(|item| parse_number::<i32>(item, "an integer").map(drop)),
            Self::Map => parse_map(value).map(drop),
            Self::Enum(words) => parse_enum(value, words).map(drop),
            Self::EnumList(words) => parse_list(value)
                .iter()
                .try_for_each(|item| parse_enum(item, words).map(drop)),
        }
    }
}

/// Reads an integer of the wanted width, without blanks.
pub(crate) fn parse_number<T: std::str::FromStr>(value: &str, what: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("'{value}' is not {what}, or out of range"))
}

/// Reads a finite decimal number.
pub(crate) fn parse_double(value: &str) -> Result<f64, String> {
    value
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("'{value}' is not a number"))
}

/// Reads `true` or `false` in any case.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn parse_bool(value: &str) -> Result<bool, String> {
    if value.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if value.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(format!("'{value}' is neither true nor false"))
    }
}

/// Reads one of `words` in any case, and returns it as listed.
fn parse_enum(value: &str, words: &'static [&'static str]) -> Result<&'static str, String> {
    words
        .iter()
        .copied()
        .find(|word| word.eq_ignore_ascii_case(value))
        .ok_or_else(|| format!("'{value}' is not one of {}", words.join(", ")))
}

/// Reads a comma-separated list; blanks around items and empty items go.
pub fn parse_list(value: &str) -> Vec<String> {
    value
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Reads `k1:v1,k2:v2`; a value may hold further colons. The last of equal keys
/// wins.
///
/// # Errors
/// What is wrong, as a sentence. It quotes only the part before the first colon,
/// because values may be passwords.
pub fn parse_map(value: &str) -> Result<BTreeMap<String, String>, String> {
    value
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            let (key, value) = entry
                .split_once(':')
                .ok_or("an entry is not of the form name:value")?;
            if key.trim().is_empty() {
                return Err("an entry has no name before the ':'".to_owned());
            }
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_accepts_its_values_and_refuses_others() {
        use OptionKind::*;
        const WORDS: &[&str] = &["ROUND_ROBIN", "WEIGHTED"];
        for (kind, good, bad) in [
            (Int, "-2147483648", "2147483648"),
            (Int, "7", " 7"),
            (Long, "9223372036854775807", "9223372036854775808"),
            (Double, "0.85", "inf"),
            (Double, "2", "two"),
            (Bool, "TRUE", "yes"),
            (Duration, "3 s", "3"),
            (Memory, "3", "3 apples"),
            (IntList, "1, 2,3", "1,b"),
            (IntList, "", "1.5"),
            (Map, "a:b,c:d:e", "a"),
            (Map, "", ":b"),
            (Enum(WORDS), "weighted", "RANDOM"),
            (EnumList(WORDS), "weighted, ROUND_ROBIN", "weighted,x"),
        ] {
            assert_eq!(kind.check(good), Ok(()), "{kind:?} {good}");
            assert!(kind.check(bad).is_err(), "{kind:?} {bad}");
        }
        assert_eq!(Text.check("anything: at all"), Ok(()));
    }

    #[test]
    fn lists_and_maps_lose_blanks() {
        assert_eq!(parse_list(" a , b,,c "), ["a", "b", "c"]);
        let map = parse_map(" CLIENT : sasl , X:Y").unwrap();
        assert_eq!(map["CLIENT"], "sasl");
        assert_eq!(map["X"], "Y");
    }

    #[test]
    fn a_bad_map_entry_is_not_quoted() {
        assert!(!parse_map("hush").unwrap_err().contains("hush"));
    }
}
