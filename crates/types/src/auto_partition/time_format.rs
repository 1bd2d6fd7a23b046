//! How partition values tell time: a pattern of fixed-width fields.

use std::fmt::Write as _;

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};

use super::AutoPartitionUnit;
use crate::names::{Reserved, invalid_name_reason, reserved_name_reason};

/// No pattern of a legal value (200 characters, each perhaps a quoted quote) is
/// longer, so that a hostile one is refused before it is looked at.
const MAX_PATTERN_BYTES: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year,
    Quarter,
    Month,
    Day,
    Hour,
}

impl Field {
    /// The field of a pattern letter.
    const fn of_letter(letter: char) -> Option<Self> {
        match letter {
            'y' | 'u' => Some(Self::Year),
            'Q' | 'q' => Some(Self::Quarter),
            'M' | 'L' => Some(Self::Month),
            'd' => Some(Self::Day),
            'H' => Some(Self::Hour),
            _ => None,
        }
    }

    const fn width(self) -> usize {
        match self {
            Self::Year => 4,
            Self::Quarter => 1,
            Self::Month | Self::Day | Self::Hour => 2,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::Quarter => "quarter",
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    const fn range(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Self::Year => 1..=9999,
            Self::Quarter => 1..=4,
            Self::Month => 1..=12,
            Self::Day => 1..=31,
            Self::Hour => 0..=23,
        }
    }

    fn of_unit(unit: AutoPartitionUnit) -> &'static [Self] {
        match unit {
            AutoPartitionUnit::Year => &[Self::Year],
            AutoPartitionUnit::Quarter => &[Self::Year, Self::Quarter],
            AutoPartitionUnit::Month => &[Self::Year, Self::Month],
            AutoPartitionUnit::Day => &[Self::Year, Self::Month, Self::Day],
            AutoPartitionUnit::Hour => &[Self::Year, Self::Month, Self::Day, Self::Hour],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Field(Field),
    Literal(String),
}

/// A time as a partition value tells it. The day may be one that the month lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeValue {
    /// 1 to 9999.
    pub year: u32,
    /// 1 to 4.
    pub quarter: Option<u32>,
    /// 1 to 12.
    pub month: Option<u32>,
    /// 1 to 31.
    pub day: Option<u32>,
    /// 0 to 23.
    pub hour: Option<u32>,
}

/// A pattern with exactly the fields of its unit, in order, each of fixed width.
/// Its values therefore sort as texts like the times they tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeFormat {
    unit: AutoPartitionUnit,
    pattern: String,
    elements: Vec<Element>,
}

impl TimeFormat {
    /// The form of a unit when none is given.
    pub fn of_unit(unit: AutoPartitionUnit) -> Self {
        let pattern = match unit {
            AutoPartitionUnit::Year => "yyyy",
            AutoPartitionUnit::Quarter => "yyyyQ",
            AutoPartitionUnit::Month => "yyyyMM",
            AutoPartitionUnit::Day => "yyyyMMdd",
            AutoPartitionUnit::Hour => "yyyyMMddHH",
        };
        Self::parse(unit, pattern).expect("the form of a unit is a legal pattern")
    }

    /// Reads a pattern: letters `y` or `u` (4), `Q` or `q` (1), `M` or `L` (2),
    /// `d` (2), `H` (2); other letters only in single quotes, where `''` is a
    /// quote (tables.md §5.4).
    ///
    /// # Errors
    /// Why it is not a form of the unit, as a sentence.
    pub fn parse(unit: AutoPartitionUnit, pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err("Its values are longer than the max allowed length 200.".to_owned());
        }
        let elements = Self::elements(pattern)?;
        let fields: Vec<Field> = elements
            .iter()
            .filter_map(|element| match element {
                Element::Field(field) => Some(*field),
                Element::Literal(_) => None,
            })
            .collect();
        let wanted = Field::of_unit(unit);
        if fields != wanted {
            let names: Vec<&str> = wanted.iter().map(|field| field.name()).collect();
            return Err(format!(
                "Time format '{pattern}' for auto-partition time unit '{unit}' must contain fields \
                 [{}] in this order.",
                names.join(", ")
            ));
        }
        let format = Self {
            unit,
            pattern: pattern.to_owned(),
            elements,
        };
        format.check_sample()?;
        Ok(format)
    }

    fn elements(pattern: &str) -> Result<Vec<Element>, String> {
        let mut scan = Scan {
            chars: pattern.chars().collect(),
            at: 0,
        };
        if scan.has_optional_section() {
            return Err(format!(
                "Time format '{pattern}' must not contain optional sections."
            ));
        }
        let mut elements = Vec::new();
        while let Some(letter) = scan.peek() {
            if letter == '\'' {
                let text = scan.quoted().ok_or_else(|| {
                    format!("Time format '{pattern}' has a quote that does not end.")
                })?;
                elements.push(Element::Literal(text));
            } else if letter.is_ascii_alphabetic() {
                let width = scan.run_of(letter);
                let field = Field::of_letter(letter).ok_or_else(|| {
                    format!("Time format '{pattern}' contains unsupported time field '{letter}'.")
                })?;
                if width != field.width() {
                    return Err(format!(
                        "The {} in time format '{pattern}' must have fixed width {}.",
                        field.name(),
                        field.width()
                    ));
                }
                elements.push(Element::Field(field));
            } else if "{}#".contains(letter) {
                return Err(format!(
                    "Time format '{pattern}' contains the reserved '{letter}'."
                ));
            } else {
                scan.at += 1;
                elements.push(Element::Literal(letter.to_string()));
            }
        }
        Ok(elements)
    }

    /// Values must be legal partition values; they all have the same length and
    /// characters, so one stands for all.
    fn check_sample(&self) -> Result<(), String> {
        let sample = NaiveDate::from_ymd_opt(2024, 11, 11)
            .and_then(|date| date.and_hms_opt(11, 0, 0))
            .expect("a day of the calendar");
        let value = self.format(&sample);
        let reason = invalid_name_reason(&value)
            .or_else(|| reserved_name_reason(&value, Reserved::Partitions));
        match reason {
            None => Ok(()),
            Some(reason) => Err(format!(
                "Time format '{}' generates invalid partition value '{value}': {reason}.",
                self.pattern
            )),
        }
    }

    /// The pattern as given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The text of a local time. Years outside 1 to 9999 have no legal text; the
    /// caller sees to that.
    pub fn format(&self, local: &NaiveDateTime) -> String {
        let mut text = String::new();
        for element in &self.elements {
            match element {
                Element::Literal(literal) => text.push_str(literal),
                Element::Field(field) => {
                    let number = match field {
                        Field::Year => local.year(),
                        Field::Quarter => local.month0() as i32 / 3 + 1,
                        Field::Month => local.month() as i32,
                        Field::Day => local.day() as i32,
                        Field::Hour => local.hour() as i32,
                    };
                    write!(text, "{number:0width$}", width = field.width())
                        .expect("writing to a String");
                }
            }
        }
        text
    }

    /// Reads a value with fields of fixed width (tables.md §5.3); `None` if it
    /// does not have this form.
    pub fn parse_value(&self, value: &str) -> Option<TimeValue> {
        let mut rest = value;
        let mut time = TimeValue::default();
        for element in &self.elements {
            match element {
                Element::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Element::Field(field) => {
                    let digits = rest.get(..field.width())?;
                    rest = &rest[field.width()..];
                    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                        return None;
                    }
                    let number: u32 = digits.parse().ok()?;
                    if !field.range().contains(&number) {
                        return None;
                    }
                    match field {
                        Field::Year => time.year = number,
                        Field::Quarter => time.quarter = Some(number),
                        Field::Month => time.month = Some(number),
                        Field::Day => time.day = Some(number),
                        Field::Hour => time.hour = Some(number),
                    }
                }
            }
        }
        rest.is_empty().then_some(time)
    }
}

/// A walk over the characters of a pattern.
struct Scan {
    chars: Vec<char>,
    at: usize,
}

impl Scan {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn run_of(&mut self, letter: char) -> usize {
        let start = self.at;
        while self.peek() == Some(letter) {
            self.at += 1;
        }
        self.at - start
    }

    /// The text of a quoted part; `''` is one quote, inside and outside of quotes.
    fn quoted(&mut self) -> Option<String> {
        self.at += 1;
        if self.peek() == Some('\'') {
            self.at += 1;
            return Some("'".to_owned());
        }
        let mut text = String::new();
        loop {
            let letter = self.peek()?;
            self.at += 1;
            if letter != '\'' {
                text.push(letter);
            } else if self.peek() == Some('\'') {
                self.at += 1;
                text.push('\'');
            } else {
                return Some(text);
            }
        }
    }

    /// Whether a bracket stands outside of quotes.
    fn has_optional_section(&self) -> bool {
        let mut quoted = false;
        self.chars.iter().any(|letter| {
            quoted ^= *letter == '\'';
            !quoted && (*letter == '[' || *letter == ']')
        })
    }
}

#[cfg(test)]
mod tests {
    use super::AutoPartitionUnit::{Day, Hour, Month, Quarter, Year};
    use super::*;

    #[track_caller]
    fn check_refused(unit: AutoPartitionUnit, pattern: &str, fragment: &str) {
        let problem = TimeFormat::parse(unit, pattern).expect_err("must be refused");
        assert!(problem.contains(fragment), "{problem}");
    }

    fn local(year: i32, month: u32, day: u32, hour: u32) -> NaiveDateTime {
        NaiveDate::from_ymd_opt(year, month, day)
            .unwrap()
            .and_hms_opt(hour, 11, 0)
            .unwrap()
    }

    #[test]
    fn every_unit_has_its_form() {
        for (unit, text) in [
            (Year, "2024"),
            (Quarter, "20244"),
            (Month, "202411"),
            (Day, "20241111"),
            (Hour, "2024111111"),
        ] {
            assert_eq!(
                TimeFormat::of_unit(unit).format(&local(2024, 11, 11, 11)),
                text
            );
        }
    }

    #[test]
    fn pn7_patterns_with_separators_are_legal() {
        for (unit, pattern, text) in [
            (Quarter, "yyyy-'Q'Q", "2024-Q4"),
            (Month, "yyyy-MM", "2024-11"),
            (Hour, "yyyy-MM-dd-HH", "2024-11-11-11"),
            (Day, "yyyy-MM-dd", "2024-11-11"),
            (Day, "uuuuLLdd", "20241111"),
            (Quarter, "yyyy_q", "2024_4"),
            (Day, "'d'yyyyMMdd", "d20241111"),
        ] {
            let format = TimeFormat::parse(unit, pattern).unwrap();
            assert_eq!(format.format(&local(2024, 11, 11, 11)), text);
            assert_eq!(format.pattern(), pattern);
            assert!(format.parse_value(text).is_some(), "{text}");
        }
    }

    #[test]
    fn pn8_to_pn14_bad_patterns_say_what_is_wrong() {
        check_refused(
            Month,
            "MM-yyyy",
            "must contain fields [year, month] in this order",
        );
        check_refused(Hour, "yyyy-MM-dd", "[year, month, day, hour]");
        check_refused(Day, "yyyy-M-dd", "must have fixed width 2");
        check_refused(Day, "yyyy[-MM[-dd]]", "must not contain optional sections");
        check_refused(
            Day,
            "yyyy/MM/dd",
            "generates invalid partition value '2024/11/11'",
        );
        check_refused(Year, "__yyyy", "generates invalid partition value '__2024'");
        check_refused(
            Year,
            &format!("yyyy{}", "_".repeat(197)),
            "longer than the max allowed length 200",
        );
        assert!(TimeFormat::parse(Year, &format!("yyyy{}", "_".repeat(196))).is_ok());
    }

    #[test]
    fn other_bad_patterns_are_refused() {
        check_refused(Year, "yy", "must have fixed width 4");
        check_refused(Quarter, "yyyyQQ", "must have fixed width 1");
        check_refused(Hour, "yyyyMMddhh", "contains unsupported time field 'h'");
        check_refused(Day, "yyyyMMddT", "contains unsupported time field 'T'");
        check_refused(Day, "yyyyMMddHH", "must contain fields [year, month, day]");
        check_refused(Day, "yyyyMMMMdd", "must have fixed width 2");
        check_refused(Year, "yyyyyyyy", "must have fixed width 4");
        check_refused(Year, "yyyy-yyyy", "must contain fields [year]");
        check_refused(Year, "", "must contain fields [year]");
        check_refused(Year, "yyyy'x", "does not end");
        check_refused(Year, "yyyy''", "generates invalid partition value '2024''");
        check_refused(Year, "yyyy#", "reserved '#'");
        check_refused(Year, "'__'yyyy", "'__' is not allowed as prefix");
        check_refused(Year, "é-yyyy", "generates invalid partition value 'é-2024'");
        check_refused(
            Year,
            &"y".repeat(1 << 20),
            "longer than the max allowed length 200",
        );
    }

    #[test]
    fn brackets_in_quotes_are_not_optional_sections() {
        check_refused(Year, "yyyy'['", "generates invalid partition value '2024['");
    }

    #[test]
    fn values_are_read_with_fixed_widths() {
        let format = TimeFormat::of_unit(Day);
        let day = |year, month, day| {
            Some(TimeValue {
                year,
                month: Some(month),
                day: Some(day),
                ..TimeValue::default()
            })
        };
        assert_eq!(format.parse_value("20241111"), day(2024, 11, 11));
        // A day past the end of its month is fine, as in the reference.
        assert_eq!(format.parse_value("20260230"), day(2026, 2, 30));
        for value in [
            "",
            "abc",
            "2024111",
            "202411111",
            "20241311",
            "20240011",
            "20241132",
            "20241100",
            "00001111",
            "2024-11-11",
            "+0241111",
            "20241111 ",
            "2024111١",
            "2024é11",
        ] {
            assert_eq!(format.parse_value(value), None, "{value}");
        }
    }

    #[test]
    fn hours_and_quarters_have_their_ranges() {
        let hour = TimeFormat::of_unit(Hour);
        assert!(hour.parse_value("2024111123").is_some());
        assert!(hour.parse_value("2024111124").is_none());
        let quarter = TimeFormat::parse(Quarter, "yyyy-'Q'Q").unwrap();
        assert_eq!(
            quarter
                .parse_value("2024-Q3")
                .and_then(|value| value.quarter),
            Some(3)
        );
        for value in ["2024-Q0", "2024-Q5", "2024-q3", "2024Q3", "2024-Q3x"] {
            assert!(quarter.parse_value(value).is_none(), "{value}");
        }
    }
}
