//! Aggregation functions of columns (tables.md §4.7).

use std::collections::BTreeMap;

use crate::TypeKind;

/// An aggregation function with its parameters, e.g. `listagg` and `delimiter`.
///
/// The name may be one that no release knows: validation of the table refuses
/// it then, so that a misspelt function is not silently another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggFunction {
    /// Name in lower case with underscores.
    pub name: String,
    /// Parameters as given.
    pub parameters: BTreeMap<String, String>,
}

impl AggFunction {
    /// A function by name, in any case, with `-` or `_`; without parameters.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_ascii_lowercase().replace('-', "_"),
            parameters: BTreeMap::new(),
        }
    }

    /// The same function with one more parameter.
    #[must_use]
    pub fn with_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// Which function it is; `None` if there is none of that name.
    pub fn kind(&self) -> Option<AggKind> {
        AggKind::ALL
            .iter()
            .find(|kind| kind.name() == self.name)
            .copied()
    }
}

/// The aggregation functions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the specification
pub enum AggKind {
    Sum,
    Product,
    Max,
    Min,
    LastValue,
    LastValueIgnoreNulls,
    FirstValue,
    FirstValueIgnoreNulls,
    ListAgg,
    StringAgg,
    BoolAnd,
    BoolOr,
    Rbm32,
    Rbm64,
}

/// Parameter of `listagg` and `string_agg`.
pub(crate) const DELIMITER: &str = "delimiter";

impl AggKind {
    /// All functions.
    pub const ALL: [Self; 14] = [
        Self::Sum,
        Self::Product,
        Self::Max,
        Self::Min,
        Self::LastValue,
        Self::LastValueIgnoreNulls,
        Self::FirstValue,
        Self::FirstValueIgnoreNulls,
        Self::ListAgg,
        Self::StringAgg,
        Self::BoolAnd,
        Self::BoolOr,
        Self::Rbm32,
        Self::Rbm64,
    ];

    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Max => "max",
            Self::Min => "min",
            Self::LastValue => "last_value",
            Self::LastValueIgnoreNulls => "last_value_ignore_nulls",
            Self::FirstValue => "first_value",
            Self::FirstValueIgnoreNulls => "first_value_ignore_nulls",
            Self::ListAgg => "listagg",
            Self::StringAgg => "string_agg",
            Self::BoolAnd => "bool_and",
            Self::BoolOr => "bool_or",
            Self::Rbm32 => "rbm32",
            Self::Rbm64 => "rbm64",
        }
    }

    /// Names of the types it works on, for messages; `None` = all types.
    pub(crate) const fn type_names(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Sum | Self::Product => Some(&[
                "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL",
            ]),
            Self::Max | Self::Min => Some(&[
                "CHAR",
                "STRING",
                "TINYINT",
                "SMALLINT",
                "INTEGER",
                "BIGINT",
                "FLOAT",
                "DOUBLE",
                "DECIMAL",
                "DATE",
                "TIME_WITHOUT_TIME_ZONE",
                "TIMESTAMP_WITHOUT_TIME_ZONE",
                "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
            ]),
            // CHAR is left out: the merge itself cannot handle it.
            Self::ListAgg | Self::StringAgg => Some(&["STRING"]),
            Self::BoolAnd | Self::BoolOr => Some(&["BOOLEAN"]),
            Self::Rbm32 | Self::Rbm64 => Some(&["BYTES"]),
            Self::LastValue
            | Self::LastValueIgnoreNulls
            | Self::FirstValue
            | Self::FirstValueIgnoreNulls => None,
        }
    }

    /// Whether it works on columns of that type.
    pub fn supports(self, kind: &TypeKind) -> bool {
        self.type_names()
            .is_none_or(|names| names.contains(&kind.root_name()))
    }

    /// Whether it has a parameter of that name.
    pub fn has_parameter(self, name: &str) -> bool {
        matches!(self, Self::ListAgg | Self::StringAgg) && name == DELIMITER
    }
}
