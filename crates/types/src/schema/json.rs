//! JSON form of schemas (formats.md §8.2).

use serde_json::{Map, Value, json};

use super::builder::check_not_empty;
use super::{AggFunction, Column, Schema};
use crate::data_type::UNASSIGNED_ID;
use crate::json::{self, Object};
use crate::{DataType, DescriptorError};

/// Version that is written. Readers do not look at it.
const VERSION: i32 = 1;

impl Schema {
    /// The JSON form.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("version".to_owned(), VERSION.into());
        members.insert(
            "columns".to_owned(),
            self.columns.iter().map(column_to_json).collect(),
        );
        if !self.primary_key.is_empty() {
            members.insert("primary_key".to_owned(), json::texts(&self.primary_key));
        }
        if !self.auto_increment.is_empty() {
            members.insert(
                "auto_increment_column".to_owned(),
                json::texts(&self.auto_increment),
            );
        }
        members.insert("highest_field_id".to_owned(), self.highest_field_id.into());
        Value::Object(members)
    }

    /// The JSON form as compact text.
    pub fn to_json_bytes(&self) -> Vec<u8> {
        json::bytes(&self.to_json())
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// A member that is missing or of the wrong type, or a construction rule of
    /// tables.md §1.5 that does not hold.
    pub fn from_json(value: &Value) -> Result<Self, DescriptorError> {
        let object = Object::of(value, "schema")?;
        object.required("columns")?;
        let columns = object
            .array_or_empty("columns")?
            .iter()
            .map(column_from_json)
            .collect::<Result<Vec<_>, _>>()?;
        let primary_key = match object.optional("primary_key") {
            None => None,
            Some(_) => Some(object.texts_or_empty("primary_key")?),
        };
        Self::from_parts(
            columns,
            check_not_empty(primary_key)?,
            object.texts_or_empty("auto_increment_column")?,
            object.optional_integer("highest_field_id")?,
        )
    }

    /// Reads the JSON form from bytes.
    ///
    /// # Errors
    /// As [`Schema::from_json`], and for bytes that are no JSON.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        Self::from_json(&json::parse(bytes)?)
    }
}

fn column_to_json(column: &Column) -> Value {
    let mut members = Map::new();
    members.insert("name".to_owned(), column.name.as_str().into());
    members.insert("data_type".to_owned(), column.data_type.to_json());
    if let Some(comment) = &column.comment {
        members.insert("comment".to_owned(), comment.as_str().into());
    }
    if let Some(function) = &column.agg_function {
        let mut value = json!({"type": function.name});
        if !function.parameters.is_empty() {
            value["parameters"] = json::text_map(&function.parameters);
        }
        members.insert("agg_function".to_owned(), value);
    }
    members.insert("id".to_owned(), column.id.into());
    Value::Object(members)
}

fn column_from_json(value: &Value) -> Result<Column, DescriptorError> {
    let object = Object::of(value, "column")?;
    let agg_function = object
        .optional("agg_function")
        .map(|value| {
            let function = Object::of(value, "aggregation function")?;
            let parameters = function.text_map_or_empty("parameters")?;
            Ok(AggFunction {
                parameters,
                ..AggFunction::new(&function.text("type")?)
            })
        })
        .transpose()?;
    Ok(Column {
        name: object.text("name")?,
        data_type: DataType::from_json(object.required("data_type")?)?,
        comment: object.optional_text("comment")?,
        agg_function,
        id: object.optional_integer("id")?.unwrap_or(UNASSIGNED_ID),
    })
}
