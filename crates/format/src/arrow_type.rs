//! Fluss types and their Arrow counterparts (formats.md §1.7).
//!
//! In memory, TIMESTAMP_LTZ columns have the time zone `UTC`, so that they are
//! told from TIMESTAMP; no zone and no name ever travels in a batch.

use std::sync::Arc;

use arrow_schema::{
    DataType as ArrowType, Field, FieldRef, Fields, Schema as ArrowSchema, SchemaRef, TimeUnit,
};
use mainstem_types::{DataType, RowField, Schema, TypeKind};

use crate::{FormatError, Result};

const UTC: &str = "UTC";

/// The Arrow schema of a table's columns. Nullability is that of the types.
pub fn arrow_schema(schema: &Schema) -> SchemaRef {
    let fields = schema
        .columns
        .iter()
        .map(|column| field(&column.name, &column.data_type));
    Arc::new(ArrowSchema::new(fields.collect::<Fields>()))
}

/// The Arrow schema of some columns, in the order given.
///
/// Error: a position that the schema does not have.
pub fn projected_arrow_schema(schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
    let fields = columns
        .iter()
        .map(|&position| match schema.columns.get(position) {
            Some(column) => Ok(Arc::new(field(&column.name, &column.data_type))),
            None => Err(FormatError::invalid(format!(
                "column {position} of a schema of {} columns",
                schema.columns.len()
            ))),
        });
    Ok(Arc::new(ArrowSchema::new(
        fields.collect::<Result<Fields>>()?,
    )))
}

fn field(name: &str, data_type: &DataType) -> Field {
    Field::new(name, arrow_type(data_type), data_type.nullable)
}

/// The Arrow type that carries values of a type.
pub fn arrow_type(data_type: &DataType) -> ArrowType {
    match &data_type.kind {
        TypeKind::Boolean => ArrowType::Boolean,
        TypeKind::TinyInt => ArrowType::Int8,
        TypeKind::SmallInt => ArrowType::Int16,
        TypeKind::Int => ArrowType::Int32,
        TypeKind::BigInt => ArrowType::Int64,
        TypeKind::Float => ArrowType::Float32,
        TypeKind::Double => ArrowType::Float64,
        TypeKind::Char { .. } | TypeKind::String => ArrowType::Utf8,
        // Lengths beyond i32 cannot be declared.
        TypeKind::Binary { length } => ArrowType::FixedSizeBinary(*length as i32),
        TypeKind::Bytes => ArrowType::Binary,
        TypeKind::Decimal { precision, scale } => ArrowType::Decimal128(*precision, *scale as i8),
        TypeKind::Date => ArrowType::Date32,
        TypeKind::Time { precision } => match unit(*precision) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => ArrowType::Time32(unit),
            unit => ArrowType::Time64(unit),
        },
        TypeKind::Timestamp { precision } => ArrowType::Timestamp(unit(*precision), None),
        TypeKind::TimestampLtz { precision } => {
            ArrowType::Timestamp(unit(*precision), Some(UTC.into()))
        }
        TypeKind::Array(element) => ArrowType::List(Arc::new(field("element", element))),
        TypeKind::Map { key, value } => {
            let key = Field::new("key", arrow_type(key), false);
            let entries = ArrowType::Struct(Fields::from(vec![key, field("value", value)]));
            ArrowType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        TypeKind::Row(fields) => ArrowType::Struct(
            fields
                .iter()
                .map(|f| field(&f.name, &f.data_type))
                .collect(),
        ),
    }
}

/// The unit in which times and timestamps of a precision are carried.
pub(crate) fn unit(precision: u8) -> TimeUnit {
    match precision {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// Whether arrays of the Arrow type have the buffers, and mean the values, of a
/// Fluss type. Names and nullability of nested fields do not matter; a zone
/// does, except which one, since it changes no value.
pub fn is_layout_of(actual: &ArrowType, data_type: &DataType) -> bool {
    match (actual, &data_type.kind) {
        (ArrowType::Timestamp(actual, zone), TypeKind::Timestamp { precision }) => {
            *actual == unit(*precision) && zone.is_none()
        }
        (ArrowType::Timestamp(actual, _), TypeKind::TimestampLtz { precision }) => {
            *actual == unit(*precision)
        }
        (ArrowType::List(child), TypeKind::Array(element)) => {
            is_layout_of(child.data_type(), element)
        }
        (ArrowType::Map(entries, _), TypeKind::Map { key, value }) => match entries.data_type() {
            ArrowType::Struct(fields) if fields.len() == 2 => {
                is_layout_of(fields[0].data_type(), key)
                    && is_layout_of(fields[1].data_type(), value)
            }
            _ => false,
        },
        (ArrowType::Struct(actual), TypeKind::Row(fields)) => {
            actual.len() == fields.len()
                && actual
                    .iter()
                    .zip(fields)
                    .all(|(actual, field)| is_layout_of(actual.data_type(), &field.data_type))
        }
        (actual, _) => *actual == arrow_type(data_type),
    }
}

/// Names and types of a table that can hold the columns of an Arrow schema, for
/// creating one from a file. See [`fluss_type`].
pub fn fluss_columns(schema: &ArrowSchema) -> Result<Vec<(String, DataType)>> {
    let column = |field: &FieldRef| match fluss_field(field) {
        Ok(data_type) => Ok((field.name().clone(), data_type)),
        Err(error) => Err(in_column(field.name(), error)),
    };
    schema.fields().iter().map(column).collect()
}

fn in_column(name: &str, error: FormatError) -> FormatError {
    match error {
        FormatError::Unsupported(detail) => {
            FormatError::unsupported(format!("column `{name}`: {detail}"))
        }
        error => error,
    }
}

fn fluss_field(field: &Field) -> Result<DataType> {
    Ok(DataType {
        kind: fluss_type(field.data_type())?.kind,
        nullable: field.is_nullable(),
    })
}

/// The narrowest Fluss type, nullable, that holds all values of an Arrow type.
///
/// Unsigned integers widen, views and large variants become the plain type,
/// dictionaries and runs their values' type, Date64 a TIMESTAMP(3), the null
/// type a STRING (a CSV column without any value has it). Errors
/// [`FormatError::Unsupported`]: durations, intervals, unions, structs without
/// fields, decimals of more than 38 digits.
pub fn fluss_type(arrow: &ArrowType) -> Result<DataType> {
    let unsupported = || FormatError::unsupported(format!("Arrow type {arrow}"));
    let kind = match arrow {
        ArrowType::Null => TypeKind::String,
        ArrowType::Boolean => TypeKind::Boolean,
        ArrowType::Int8 => TypeKind::TinyInt,
        ArrowType::Int16 | ArrowType::UInt8 => TypeKind::SmallInt,
        ArrowType::Int32 | ArrowType::UInt16 => TypeKind::Int,
        ArrowType::Int64 | ArrowType::UInt32 => TypeKind::BigInt,
        ArrowType::UInt64 => TypeKind::Decimal {
            precision: 20,
            scale: 0,
        },
        ArrowType::Float16 | ArrowType::Float32 => TypeKind::Float,
        ArrowType::Float64 => TypeKind::Double,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => TypeKind::String,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => TypeKind::Bytes,
        ArrowType::FixedSizeBinary(length) => match u32::try_from(*length) {
            Ok(length @ 1..) => TypeKind::Binary { length },
            _ => TypeKind::Bytes,
        },
        ArrowType::Date32 => TypeKind::Date,
        ArrowType::Date64 => TypeKind::Timestamp { precision: 3 },
        ArrowType::Time32(unit) | ArrowType::Time64(unit) => TypeKind::Time {
            precision: precision(unit),
        },
        ArrowType::Timestamp(unit, None) => TypeKind::Timestamp {
            precision: precision(unit),
        },
        ArrowType::Timestamp(unit, Some(_)) => TypeKind::TimestampLtz {
            precision: precision(unit),
        },
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
        | ArrowType::Decimal256(precision, scale) => {
            decimal(*precision, *scale).ok_or_else(unsupported)?
        }
        ArrowType::List(element)
        | ArrowType::LargeList(element)
        | ArrowType::ListView(element)
        | ArrowType::LargeListView(element)
        | ArrowType::FixedSizeList(element, _) => TypeKind::Array(Box::new(fluss_field(element)?)),
        ArrowType::Struct(fields) if !fields.is_empty() => {
            let field = |field: &FieldRef| {
                Ok(RowField {
                    name: field.name().clone(),
                    data_type: fluss_field(field)?,
                    description: None,
                    field_id: -1,
                })
            };
            TypeKind::Row(fields.iter().map(field).collect::<Result<_>>()?)
        }
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(fields) if fields.len() == 2 => TypeKind::Map {
                key: Box::new(DataType {
                    nullable: false,
                    ..fluss_field(&fields[0])?
                }),
                value: Box::new(fluss_field(&fields[1])?),
            },
            _ => return Err(unsupported()),
        },
        ArrowType::Dictionary(_, value) => return fluss_type(value),
        ArrowType::RunEndEncoded(_, value) => return fluss_type(value.data_type()),
        ArrowType::Struct(_)
        | ArrowType::Duration(_)
        | ArrowType::Interval(_)
        | ArrowType::Union(..) => return Err(unsupported()),
    };
    Ok(DataType::nullable(kind))
}

fn precision(unit: &TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// A DECIMAL that holds an Arrow decimal, whose scale may be negative or larger
/// than its precision.
fn decimal(precision: u8, scale: i8) -> Option<TypeKind> {
    let (precision, scale) = match u8::try_from(scale) {
        Ok(scale) => (precision.max(scale), scale),
        Err(_) => (precision.checked_add(scale.unsigned_abs())?, 0),
    };
    (1..=38)
        .contains(&precision)
        .then_some(TypeKind::Decimal { precision, scale })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_kind;

    fn inferred(arrow: ArrowType) -> Option<TypeKind> {
        fluss_type(&arrow).ok().map(|data_type| data_type.kind)
    }

    #[test]
    fn types_of_files_widen_to_types_of_tables() {
        let decimal = |precision, scale| Some(TypeKind::Decimal { precision, scale });
        assert_eq!(inferred(ArrowType::UInt8), Some(TypeKind::SmallInt));
        assert_eq!(inferred(ArrowType::UInt32), Some(TypeKind::BigInt));
        assert_eq!(inferred(ArrowType::UInt64), decimal(20, 0));
        assert_eq!(inferred(ArrowType::Utf8View), Some(TypeKind::String));
        assert_eq!(
            inferred(ArrowType::Date64),
            Some(TypeKind::Timestamp { precision: 3 })
        );
        assert_eq!(inferred(ArrowType::Decimal128(4, -2)), decimal(6, 0));
        assert_eq!(inferred(ArrowType::Decimal128(2, 5)), decimal(5, 5));
        assert_eq!(inferred(ArrowType::Decimal256(50, 2)), None);
        assert_eq!(inferred(ArrowType::Duration(TimeUnit::Second)), None);
        let dictionary =
            ArrowType::Dictionary(Box::new(ArrowType::UInt16), Box::new(ArrowType::LargeUtf8));
        assert_eq!(inferred(dictionary), Some(TypeKind::String));
        let zone = ArrowType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into()));
        assert_eq!(
            inferred(zone),
            Some(TypeKind::TimestampLtz { precision: 9 })
        );
    }

    #[test]
    fn columns_without_a_counterpart_are_named() {
        let field = Field::new("waited", ArrowType::Duration(TimeUnit::Second), true);
        let error = fluss_columns(&ArrowSchema::new(vec![field])).unwrap_err();
        assert!(error.to_string().contains("waited"), "{error}");
    }

    proptest! {
        #[test]
        fn the_arrow_type_of_a_type_leads_back(kind in any_kind(3)) {
            let data_type = DataType::nullable(kind);
            let arrow = arrow_type(&data_type);
            prop_assert!(is_layout_of(&arrow, &data_type));
            // CHAR and precisions within a unit are lost; their buffers are not.
            let back = fluss_type(&arrow).unwrap();
            prop_assert!(is_layout_of(&arrow, &back));
        }
    }
}
