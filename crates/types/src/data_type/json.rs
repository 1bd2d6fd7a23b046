//! JSON form of types (formats.md §8.1).

use serde_json::{Map, Value, json};

use super::{DataType, RowField, TypeKind, UNASSIGNED_ID, check_field_names, check_nesting};
use crate::DescriptorError;
use crate::json::{self, Object};

impl DataType {
    /// The JSON form.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("type".to_owned(), self.kind.root_name().into());
        if !self.nullable {
            members.insert("nullable".to_owned(), false.into());
        }
        let mut member = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        match &self.kind {
            TypeKind::Char { length } | TypeKind::Binary { length } => {
                member("length", (*length).into());
            }
            TypeKind::Decimal { precision, scale } => {
                member("precision", (*precision).into());
                member("scale", (*scale).into());
            }
            TypeKind::Time { precision }
            | TypeKind::Timestamp { precision }
            | TypeKind::TimestampLtz { precision } => member("precision", (*precision).into()),
            TypeKind::Array(element) => member("element_type", element.to_json()),
            TypeKind::Map { key, value } => {
                member("key_type", key.to_json());
                member("value_type", value.to_json());
            }
            TypeKind::Row(fields) => {
                member("fields", fields.iter().map(field_to_json).collect());
            }
            _ => {}
        }
        Value::Object(members)
    }

    /// The JSON form as compact text.
    pub fn to_json_bytes(&self) -> Vec<u8> {
        json::bytes(&self.to_json())
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// A member that is missing or of the wrong type, an unknown type name, or
    /// a type that breaks the rules of [`DataType::checked`].
    pub fn from_json(value: &Value) -> Result<Self, DescriptorError> {
        read(value, 0)
    }

    /// Reads the JSON form from bytes.
    ///
    /// # Errors
    /// As [`DataType::from_json`], and for bytes that are no JSON.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        Self::from_json(&json::parse(bytes)?)
    }
}

fn field_to_json(field: &RowField) -> Value {
    let mut members = Map::new();
    members.insert("name".to_owned(), field.name.as_str().into());
    members.insert("field_type".to_owned(), field.data_type.to_json());
    if let Some(description) = &field.description {
        members.insert("description".to_owned(), description.as_str().into());
    }
    members.insert("field_id".to_owned(), json!(field.field_id));
    Value::Object(members)
}

fn read(value: &Value, containers: usize) -> Result<DataType, DescriptorError> {
    let object = Object::of(value, "data type")?;
    let root = object.text("type")?;
    let nested = |key| {
        check_nesting(containers + 1)?;
        read(object.required(key)?, containers + 1)
    };
    let kind = match root.as_str() {
        "BOOLEAN" => TypeKind::Boolean,
        "TINYINT" => TypeKind::TinyInt,
        "SMALLINT" => TypeKind::SmallInt,
        "INTEGER" => TypeKind::Int,
        "BIGINT" => TypeKind::BigInt,
        "FLOAT" => TypeKind::Float,
        "DOUBLE" => TypeKind::Double,
        "CHAR" => TypeKind::Char {
            length: length(object)?,
        },
        "STRING" => TypeKind::String,
        "BINARY" => TypeKind::Binary {
            length: length(object)?,
        },
        "BYTES" => TypeKind::Bytes,
        "DECIMAL" => TypeKind::Decimal {
            precision: small(object, "precision")?,
            scale: small(object, "scale")?,
        },
        "DATE" => TypeKind::Date,
        "TIME_WITHOUT_TIME_ZONE" => TypeKind::Time {
            precision: small(object, "precision")?,
        },
        "TIMESTAMP_WITHOUT_TIME_ZONE" => TypeKind::Timestamp {
            precision: small(object, "precision")?,
        },
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE" => TypeKind::TimestampLtz {
            precision: small(object, "precision")?,
        },
        "ARRAY" => TypeKind::Array(Box::new(nested("element_type")?)),
        "MAP" => {
            let mut key = nested("key_type")?;
            key.nullable = false;
            TypeKind::Map {
                key: Box::new(key),
                value: Box::new(nested("value_type")?),
            }
        }
        "ROW" => TypeKind::Row(read_fields(object, containers)?),
        unknown => {
            return Err(DescriptorError::new(format!(
                "Unknown data type '{unknown}'."
            )));
        }
    };
    kind.check_parameters()?;
    Ok(DataType {
        kind,
        nullable: object.boolean_or("nullable", true)?,
    })
}

fn read_fields(object: Object<'_>, containers: usize) -> Result<Vec<RowField>, DescriptorError> {
    check_nesting(containers + 1)?;
    object.required("fields")?;
    let fields = object
        .array_or_empty("fields")?
        .iter()
        .map(|value| {
            let field = Object::of(value, "row field")?;
            Ok(RowField {
                name: field.text("name")?,
                data_type: read(field.required("field_type")?, containers + 1)?,
                description: field.optional_text("description")?,
                field_id: field.optional_integer("field_id")?.unwrap_or(UNASSIGNED_ID),
            })
        })
        .collect::<Result<Vec<_>, DescriptorError>>()?;
    check_field_names(&fields)?;
    Ok(fields)
}

/// A length; what is not even an unsigned integer reads as 0, which no type allows.
fn length(object: Object<'_>) -> Result<u32, DescriptorError> {
    Ok(u32::try_from(object.integer("length")?).unwrap_or(0))
}

/// A precision or scale; out of range for a byte reads as 255, which no type allows.
fn small(object: Object<'_>, key: &'static str) -> Result<u8, DescriptorError> {
    Ok(u8::try_from(object.integer(key)?).unwrap_or(u8::MAX))
}
