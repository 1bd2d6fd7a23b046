//! Values that table options may have.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A type that the text of an option parses to.
pub trait OptionValue: Sized {
    /// The value of a text; `None` if it has none.
    fn parse_option(text: &str) -> Option<Self>;
}

impl OptionValue for bool {
    fn parse_option(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("true") {
            Some(true)
        } else if text.eq_ignore_ascii_case("false") {
            Some(false)
        } else {
            None
        }
    }
}

impl OptionValue for i32 {
    fn parse_option(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OptionValue for i64 {
    fn parse_option(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OptionValue for Duration {
    fn parse_option(text: &str) -> Option<Self> {
        crate::duration::parse(text).ok()
    }
}

impl OptionValue for String {
    fn parse_option(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// Declares an enumeration whose texts are read in any case.
macro_rules! option_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Texts of all values.
            pub const TEXTS: &'static [&'static str] = &[$($text,)*];

            /// Text of the value.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.text())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $(if text.eq_ignore_ascii_case($text) {
                    return Ok(Self::$variant);
                })*
                Err(format!("'{text}' is not one of {}", Self::TEXTS.join(", ")))
            }
        }

        impl OptionValue for $name {
            fn parse_option(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    };
}

option_enum! {
    /// How log batches of a table carry their rows (`table.log.format`).
    #[derive(Default)]
    LogFormat {
        /// Columns, as one Arrow record batch.
        #[default]
        Arrow = "ARROW",
        /// Rows with an index of their variable-length fields.
        Indexed = "INDEXED",
        /// Rows in the smallest form.
        Compacted = "COMPACTED",
    }
}

option_enum! {
    /// How rows of primary-key tables are encoded (`table.kv.format`).
    KvFormat {
        /// Rows in the smallest form.
        Compacted = "COMPACTED",
        /// Rows with an index of their variable-length fields.
        Indexed = "INDEXED",
    }
}

option_enum! {
    /// Codec of Arrow bodies (`table.log.arrow.compression.type`).
    CompressionType {
        /// No compression.
        None = "NONE",
        /// LZ4 frames.
        Lz4Frame = "LZ4_FRAME",
        /// Zstandard, at a level.
        Zstd = "ZSTD",
    }
}

option_enum! {
    /// What a second row of a key does (`table.merge-engine`).
    MergeEngine {
        /// The first row stays.
        FirstRow = "FIRST_ROW",
        /// The row with the higher version wins.
        Versioned = "VERSIONED",
        /// Columns are aggregated.
        Aggregation = "AGGREGATION",
    }
}

option_enum! {
    /// What a delete does (`table.delete.behavior`).
    DeleteBehavior {
        /// It deletes.
        Allow = "ALLOW",
        /// It is dropped silently.
        Ignore = "IGNORE",
        /// It is an error.
        Disable = "DISABLE",
    }
}

option_enum! {
    /// What the changelog says of an update (`table.changelog.image`).
    ChangelogImage {
        /// The old row and the new one.
        Full = "FULL",
        /// Only the new one.
        Wal = "WAL",
    }
}

option_enum! {
    /// Formats of lake tables (`table.datalake.format`).
    LakeFormat {
        /// Apache Paimon.
        Paimon = "PAIMON",
        /// Lance.
        Lance = "LANCE",
        /// Apache Iceberg.
        Iceberg = "ICEBERG",
        /// Apache Hudi.
        Hudi = "HUDI",
    }
}

/// Compression of Arrow bodies in a table's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrowCompression {
    /// No compression.
    None,
    /// LZ4 frames.
    Lz4Frame,
    /// Zstandard.
    Zstd {
        /// 1..=22.
        level: i32,
    },
}

/// Columns of which log batches carry minimum, maximum and null count
/// (`table.statistics.columns`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatisticsColumns {
    /// Every column of a supported type.
    All,
    /// These, in this order.
    Named(Vec<String>),
}

impl OptionValue for StatisticsColumns {
    /// `*` or names separated by commas; blank names are left out.
    fn parse_option(text: &str) -> Option<Self> {
        if text.trim() == "*" {
            return Some(Self::All);
        }
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        Some(Self::Named(names.map(str::to_owned).collect()))
    }
}
