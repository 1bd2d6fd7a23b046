//! Time zones by the names that Java knows: clients compute partition values with
//! `TimeZone.getTimeZone`, and both sides must agree (tables.md §5.4).

use chrono::{DateTime, FixedOffset, NaiveDateTime, Offset, TimeZone as _};
use chrono_tz::Tz;

/// A zone in which time is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// The zone of this process: what the reference uses when a table names none.
    /// The one value of this crate that looks at its surroundings (`TZ`, the
    /// system's zone file).
    Local,
    /// A constant distance from Greenwich.
    Fixed(FixedOffset),
    /// A zone with its history.
    Named(Tz),
}

/// Three-letter names that only Java has.
const JAVA_NAMES: [(&str, Tz); 25] = [
    ("ACT", Tz::Australia__Darwin),
    ("AET", Tz::Australia__Sydney),
    ("AGT", Tz::America__Argentina__Buenos_Aires),
    ("ART", Tz::Africa__Cairo),
    ("AST", Tz::America__Anchorage),
    ("BET", Tz::America__Sao_Paulo),
    ("BST", Tz::Asia__Dhaka),
    ("CAT", Tz::Africa__Harare),
    ("CNT", Tz::America__St_Johns),
    ("CST", Tz::America__Chicago),
    ("CTT", Tz::Asia__Shanghai),
    ("EAT", Tz::Africa__Addis_Ababa),
    ("ECT", Tz::Europe__Paris),
    ("IET", Tz::America__Indiana__Indianapolis),
    ("IST", Tz::Asia__Kolkata),
    ("JST", Tz::Asia__Tokyo),
    ("MIT", Tz::Pacific__Apia),
    ("NET", Tz::Asia__Yerevan),
    ("NST", Tz::Pacific__Auckland),
    ("PLT", Tz::Asia__Karachi),
    ("PNT", Tz::America__Phoenix),
    ("PRT", Tz::America__Puerto_Rico),
    ("PST", Tz::America__Los_Angeles),
    ("SST", Tz::Pacific__Guadalcanal),
    ("VST", Tz::Asia__Ho_Chi_Minh),
];

impl TimeZone {
    /// Greenwich without a summer time.
    pub const GMT: Self = Self::Named(Tz::GMT);

    /// The zone of an id. As in Java an unknown one, `UTC-8` and `asia/shanghai`
    /// among them, is silently GMT; `GMT+8`, `GMT-08:30` and `GMT+0830` are offsets.
    pub fn parse(id: &str) -> Self {
        if let Some((_, zone)) = JAVA_NAMES.iter().find(|(name, _)| *name == id) {
            return Self::Named(*zone);
        }
        if let Ok(zone) = id.parse::<Tz>() {
            return Self::Named(zone);
        }
        parse_offset(id).map_or(Self::GMT, Self::Fixed)
    }

    /// The local time of an instant; `None` if it is outside the calendar.
    pub fn local(&self, epoch_ms: i64) -> Option<NaiveDateTime> {
        let utc = DateTime::from_timestamp_millis(epoch_ms)?.naive_utc();
        let offset = match self {
            Self::Local => chrono::Local.offset_from_utc_datetime(&utc).fix(),
            Self::Fixed(offset) => *offset,
            Self::Named(zone) => zone.offset_from_utc_datetime(&utc).fix(),
        };
        utc.checked_add_offset(offset)
    }
}

/// `GMT` sign hours, then perhaps minutes: `GMT+8`, `GMT+08:00`, `GMT+0800`.
fn parse_offset(id: &str) -> Option<FixedOffset> {
    let rest = id.strip_prefix("GMT")?;
    let (negative, digits) = match rest.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, rest.strip_prefix('+')?),
    };
    let number = |text: &str| -> Option<u32> {
        let bytes = text.bytes();
        // Java reads no digits before a colon as 0 hours.
        if text.len() > 9 || !bytes.into_iter().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        if text.is_empty() {
            Some(0)
        } else {
            text.parse().ok()
        }
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if hours.len() <= 2 && minutes.len() == 2 => {
            (number(hours)?, number(minutes)?)
        }
        Some(_) => return None,
        None if digits.is_empty() => return None,
        None if digits.len() <= 2 => (number(digits)?, 0),
        None => (number(digits)? / 100, number(digits)? % 100),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = (hours * 60 + minutes) as i32 * 60;
    FixedOffset::east_opt(if negative { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-11-11T11:11:00Z.
    const MOMENT_MS: i64 = 1_731_323_460_000;

    fn offset_seconds(id: &str) -> i64 {
        let local = TimeZone::parse(id).local(MOMENT_MS).unwrap();
        (local - TimeZone::GMT.local(MOMENT_MS).unwrap()).num_seconds()
    }

    /// What JDK 17 answered for `TimeZone.getTimeZone(id).getOffset(moment)`.
    #[test]
    fn ids_mean_what_they_mean_in_java() {
        for (id, seconds) in [
            ("UTC-8", 0),
            ("UTC+8", 0),
            ("GMT+8", 28_800),
            ("GMT-08:30", -30_600),
            ("GMT+0830", 30_600),
            ("GMT+24", 0),
            ("GMT8", 0),
            ("Asia/Shanghai", 28_800),
            ("asia/shanghai", 0),
            ("PST", -28_800),
            ("CTT", 28_800),
            ("EST", -18_000),
            ("Nowhere", 0),
            ("GMT+8:5", 0),
            ("GMT+123", 4_980),
            ("Z", 0),
            ("GMT+", 0),
            ("GMT", 0),
            ("GMT+8:", 0),
            ("GMT+:30", 1_800),
            ("GMT+1:00:30", 0),
            ("BST", 21_600),
            ("Etc/GMT+8", -28_800),
            ("GMT+00830", 30_600),
        ] {
            assert_eq!(offset_seconds(id), seconds, "{id}");
        }
    }

    #[test]
    fn hostile_ids_are_gmt() {
        for id in ["", "GMT+99999999999999999999", "GMT+²", "GMT-é", "GMT+-8"] {
            assert_eq!(offset_seconds(id), 0, "{id}");
        }
    }

    #[test]
    fn summer_time_is_known() {
        let paris = TimeZone::parse("Europe/Paris");
        let july = 1_720_000_000_000;
        let difference = paris.local(july).unwrap() - TimeZone::GMT.local(july).unwrap();
        assert_eq!(difference.num_hours(), 2);
    }

    #[test]
    fn moments_outside_the_calendar_have_no_local_time() {
        assert_eq!(TimeZone::GMT.local(i64::MAX), None);
        assert_eq!(TimeZone::Local.local(i64::MIN), None);
    }
}
