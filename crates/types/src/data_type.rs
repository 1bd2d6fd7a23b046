//! Data types of columns (tables.md §2.1, formats.md §8.1).
//!
//! **Invariant.** A type that was read, from JSON or text, has lengths and
//! precisions in range, map keys without null, unique field names, and at most
//! [`MAX_NESTING`] containers inside one another, so that code which walks
//! types may recurse.

mod json;
mod text;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;
use std::fmt;

use crate::DescriptorError;

/// Most containers (ARRAY, MAP, ROW) inside one another.
///
/// A ROW takes three levels of JSON, and a table document five around them:
/// every type within the limit can be read back by a parser that stops at 128.
pub const MAX_NESTING: usize = 32;

/// A type with its nullability.
///
/// Equality includes the ids of nested fields; see [`DataType::same_type`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    /// The type itself.
    pub kind: TypeKind,
    /// Whether null is a value of it. The default in schemas is true.
    pub nullable: bool,
}

/// What values a type has, without nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the specification
pub enum TypeKind {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// At least 1 character; not padded.
    Char {
        length: u32,
    },
    String,
    /// Exactly `length` bytes.
    Binary {
        length: u32,
    },
    Bytes,
    /// `1 ≤ precision ≤ 38`, `scale ≤ precision`; an `i64` when precision ≤ 18.
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// Days since 1970-01-01.
    Date,
    /// Milliseconds of the day, whatever the precision (0..=9).
    Time {
        precision: u8,
    },
    /// Epoch milliseconds and nanoseconds of the millisecond, without zone.
    Timestamp {
        precision: u8,
    },
    /// The same for an instant.
    TimestampLtz {
        precision: u8,
    },
    Array(Box<DataType>),
    /// The key is never null.
    Map {
        key: Box<DataType>,
        value: Box<DataType>,
    },
    Row(Vec<RowField>),
}

/// A field of a ROW type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowField {
    /// Name, unique within the row.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Comment.
    pub description: Option<String>,
    /// Id from the schema's counter; −1 = not yet assigned.
    pub field_id: i32,
}

/// Id of a column or nested field that has none yet.
pub(crate) const UNASSIGNED_ID: i32 = -1;

impl RowField {
    /// A field without comment, whose id is not yet assigned.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            description: None,
            field_id: UNASSIGNED_ID,
        }
    }
}

impl DataType {
    /// A nullable type.
    pub const fn nullable(kind: TypeKind) -> Self {
        Self {
            kind,
            nullable: true,
        }
    }

    /// A type without null.
    pub const fn not_null(kind: TypeKind) -> Self {
        Self {
            kind,
            nullable: false,
        }
    }

    /// Whether it is an ARRAY, MAP or ROW.
    pub fn is_nested(&self) -> bool {
        matches!(
            self.kind,
            TypeKind::Array(_) | TypeKind::Map { .. } | TypeKind::Row(_)
        )
    }

    /// Whether both have the same values and field names; ids of nested fields
    /// do not count (tables.md §2.1).
    pub fn same_type(&self, other: &Self) -> bool {
        self.nullable == other.nullable
            && match (&self.kind, &other.kind) {
                (TypeKind::Array(left), TypeKind::Array(right)) => left.same_type(right),
                (
                    TypeKind::Map { key, value },
                    TypeKind::Map {
                        key: other_key,
                        value: other_value,
                    },
                ) => key.same_type(other_key) && value.same_type(other_value),
                (TypeKind::Row(left), TypeKind::Row(right)) => {
                    left.len() == right.len()
                        && left.iter().zip(right).all(|(left, right)| {
                            left.name == right.name
                                && left.description == right.description
                                && left.data_type.same_type(&right.data_type)
                        })
                }
                (left, right) => left == right,
            }
    }

    /// Calls `visit` on every field of every ROW in the type, each before the
    /// fields inside it: the order in which they take ids.
    pub(crate) fn visit_fields<E>(
        &self,
        visit: &mut impl FnMut(&RowField) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.kind {
            TypeKind::Array(element) => element.visit_fields(visit),
            TypeKind::Map { key, value } => {
                key.visit_fields(visit)?;
                value.visit_fields(visit)
            }
            TypeKind::Row(fields) => fields.iter().try_for_each(|field| {
                visit(field)?;
                field.data_type.visit_fields(visit)
            }),
            _ => Ok(()),
        }
    }

    /// The same with the fields open to change.
    pub(crate) fn visit_fields_mut<E>(
        &mut self,
        visit: &mut impl FnMut(&mut RowField) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.kind {
            TypeKind::Array(element) => element.visit_fields_mut(visit),
            TypeKind::Map { key, value } => {
                key.visit_fields_mut(visit)?;
                value.visit_fields_mut(visit)
            }
            TypeKind::Row(fields) => fields.iter_mut().try_for_each(|field| {
                visit(field)?;
                field.data_type.visit_fields_mut(visit)
            }),
            _ => Ok(()),
        }
    }

    /// The type with its rules applied: parameters are checked, and map keys
    /// lose null. For types that were put together in code.
    ///
    /// # Errors
    /// A length or precision out of range, field names that are blank or not
    /// unique, too many containers inside one another.
    pub fn checked(self) -> Result<Self, DescriptorError> {
        self.checked_below(0)
    }

    fn checked_below(mut self, containers: usize) -> Result<Self, DescriptorError> {
        match &mut self.kind {
            TypeKind::Array(element) => check_inside(element, containers)?,
            TypeKind::Map { key, value } => {
                key.nullable = false;
                check_inside(key, containers)?;
                check_inside(value, containers)?;
            }
            TypeKind::Row(fields) => {
                check_field_names(fields)?;
                check_nesting(containers + 1)?;
                for field in fields {
                    check_inside(&mut field.data_type, containers)?;
                }
            }
            kind => kind.check_parameters()?,
        }
        Ok(self)
    }
}

fn check_inside(inner: &mut DataType, containers: usize) -> Result<(), DescriptorError> {
    check_nesting(containers + 1)?;
    let taken = std::mem::replace(inner, DataType::nullable(TypeKind::Boolean));
    *inner = taken.checked_below(containers + 1)?;
    Ok(())
}

/// Refuses more than [`MAX_NESTING`] containers inside one another.
fn check_nesting(containers: usize) -> Result<(), DescriptorError> {
    if containers > MAX_NESTING {
        return Err(DescriptorError::new(format!(
            "Types may not be nested more than {MAX_NESTING} levels deep."
        )));
    }
    Ok(())
}

fn check_field_names(fields: &[RowField]) -> Result<(), DescriptorError> {
    let mut seen = HashSet::with_capacity(fields.len());
    for field in fields {
        if field.name.trim().is_empty() {
            return Err(DescriptorError::new(
                "Field names must contain at least one non-whitespace character.",
            ));
        }
        if !seen.insert(field.name.as_str()) {
            return Err(DescriptorError::new(format!(
                "Field names must be unique. Found duplicates: [{}]",
                field.name
            )));
        }
    }
    Ok(())
}

impl TypeKind {
    /// Name in JSON documents (formats.md §8.1).
    pub fn root_name(&self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::TinyInt => "TINYINT",
            Self::SmallInt => "SMALLINT",
            Self::Int => "INTEGER",
            Self::BigInt => "BIGINT",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::Char { .. } => "CHAR",
            Self::String => "STRING",
            Self::Binary { .. } => "BINARY",
            Self::Bytes => "BYTES",
            Self::Decimal { .. } => "DECIMAL",
            Self::Date => "DATE",
            Self::Time { .. } => "TIME_WITHOUT_TIME_ZONE",
            Self::Timestamp { .. } => "TIMESTAMP_WITHOUT_TIME_ZONE",
            Self::TimestampLtz { .. } => "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
            Self::Array(_) => "ARRAY",
            Self::Map { .. } => "MAP",
            Self::Row(_) => "ROW",
        }
    }

    /// Lengths, precisions and scales in their ranges.
    fn check_parameters(&self) -> Result<(), DescriptorError> {
        match *self {
            Self::Char { length } => check_length("Character string", length),
            Self::Binary { length } => check_length("Binary string", length),
            Self::Decimal { precision, scale } => {
                check_range("Decimal precision", precision, 1, 38)?;
                check_range("Decimal scale", scale, 0, precision)
            }
            Self::Time { precision } => check_range("Time precision", precision, 0, 9),
            Self::Timestamp { precision } => check_range("Timestamp precision", precision, 0, 9),
            Self::TimestampLtz { precision } => {
                check_range("Timestamp with local time zone precision", precision, 0, 9)
            }
            _ => Ok(()),
        }
    }
}

/// Lengths are 32-bit signed integers in documents.
fn check_length(what: &str, length: u32) -> Result<(), DescriptorError> {
    if length == 0 || length > i32::MAX as u32 {
        return Err(DescriptorError::new(format!(
            "{what} length must be between 1 and {} (both inclusive).",
            i32::MAX
        )));
    }
    Ok(())
}

fn check_range(what: &str, value: u8, low: u8, high: u8) -> Result<(), DescriptorError> {
    if value < low || value > high {
        return Err(DescriptorError::new(format!(
            "{what} must be between {low} and {high} (both inclusive)."
        )));
    }
    Ok(())
}

/// The text form of tables.md §2.1, which the parser reads back.
impl fmt::Display for DataType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(formatter)?;
        if !self.nullable {
            formatter.write_str(" NOT NULL")?;
        }
        Ok(())
    }
}

impl fmt::Display for TypeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int => formatter.write_str("INT"),
            Self::Char { length } => write!(formatter, "CHAR({length})"),
            Self::Binary { length } => write!(formatter, "BINARY({length})"),
            Self::Decimal { precision, scale } => {
                write!(formatter, "DECIMAL({precision}, {scale})")
            }
            Self::Time { precision } => write!(formatter, "TIME({precision})"),
            Self::Timestamp { precision } => write!(formatter, "TIMESTAMP({precision})"),
            Self::TimestampLtz { precision } => {
                write!(formatter, "TIMESTAMP({precision}) WITH LOCAL TIME ZONE")
            }
            Self::Array(element) => write!(formatter, "ARRAY<{element}>"),
            Self::Map { key, value } => write!(formatter, "MAP<{key}, {value}>"),
            Self::Row(fields) => {
                formatter.write_str("ROW<")?;
                for (index, field) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(formatter, "{separator}{field}")?;
                }
                formatter.write_str(">")
            }
            kind => formatter.write_str(kind.root_name()),
        }
    }
}

impl fmt::Display for RowField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` {}",
            self.name.replace('`', "``"),
            self.data_type
        )?;
        if let Some(description) = &self.description {
            write!(formatter, " '{}'", description.replace('\'', "''"))?;
        }
        Ok(())
    }
}
