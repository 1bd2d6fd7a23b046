//! Reading members of JSON documents with the leniency of the reference:
//! scalars of another JSON type are taken as text (tables.md §1.5).
//!
//! Nesting is bounded by the parser of `serde_json` (128 levels).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::DescriptorError;

/// An object with its name for messages.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    what: &'static str,
    members: &'a Map<String, Value>,
}

/// The document in some bytes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, DescriptorError> {
    serde_json::from_slice(bytes)
        .map_err(|error| DescriptorError::new(format!("The JSON document is unreadable: {error}")))
}

/// The bytes of a document, compact.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

impl<'a> Object<'a> {
    pub(crate) fn of(value: &'a Value, what: &'static str) -> Result<Self, DescriptorError> {
        match value {
            Value::Object(members) => Ok(Self { what, members }),
            _ => Err(DescriptorError::new(format!(
                "The JSON of a {what} must be an object."
            ))),
        }
    }

    /// A member; null counts as absent.
    pub(crate) fn optional(self, key: &'static str) -> Option<&'a Value> {
        self.members.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn contains(self, key: &str) -> bool {
        self.members.contains_key(key)
    }

    /// A member that must be there, though it may be null.
    pub(crate) fn required(self, key: &'static str) -> Result<&'a Value, DescriptorError> {
        self.members.get(key).ok_or_else(|| {
            DescriptorError::new(format!("The JSON of a {} lacks member '{key}'.", self.what))
        })
    }

    pub(crate) fn text(self, key: &'static str) -> Result<String, DescriptorError> {
        self.required(key)?;
        self.optional_text(key)?
            .ok_or_else(|| self.wrong(key, "text"))
    }

    pub(crate) fn optional_text(
        self,
        key: &'static str,
    ) -> Result<Option<String>, DescriptorError> {
        self.optional(key)
            .map(|value| scalar_text(value).ok_or_else(|| self.wrong(key, "text")))
            .transpose()
    }

    pub(crate) fn integer(self, key: &'static str) -> Result<i32, DescriptorError> {
        to_integer(self.required(key)?).ok_or_else(|| self.wrong(key, "an integer"))
    }

    pub(crate) fn optional_integer(
        self,
        key: &'static str,
    ) -> Result<Option<i32>, DescriptorError> {
        self.optional(key)
            .map(|value| to_integer(value).ok_or_else(|| self.wrong(key, "an integer")))
            .transpose()
    }

    pub(crate) fn boolean_or(
        self,
        key: &'static str,
        default: bool,
    ) -> Result<bool, DescriptorError> {
        match self.optional(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// An array; absent and null count as empty.
    pub(crate) fn array_or_empty(self, key: &'static str) -> Result<&'a [Value], DescriptorError> {
        match self.optional(key) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.wrong(key, "an array")),
        }
    }

    /// An array of texts; absent and null count as empty.
    pub(crate) fn texts_or_empty(self, key: &'static str) -> Result<Vec<String>, DescriptorError> {
        self.array_or_empty(key)?
            .iter()
            .map(|item| scalar_text(item).ok_or_else(|| self.wrong(key, "an array of texts")))
            .collect()
    }

    /// An object with texts as values; absent and null count as empty.
    pub(crate) fn text_map_or_empty(
        self,
        key: &'static str,
    ) -> Result<BTreeMap<String, String>, DescriptorError> {
        match self.optional(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(members)) => members
                .iter()
                .map(|(name, value)| match scalar_text(value) {
                    Some(text) => Ok((name.clone(), text)),
                    None => Err(self.wrong(key, "an object of texts")),
                })
                .collect(),
            Some(_) => Err(self.wrong(key, "an object")),
        }
    }

    fn wrong(self, key: &str, expected: &str) -> DescriptorError {
        DescriptorError::new(format!(
            "Member '{key}' of a {} must be {expected}.",
            self.what
        ))
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn to_integer(value: &Value) -> Option<i32> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .and_then(|number| i32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Texts as a JSON array.
pub(crate) fn texts(items: &[String]) -> Value {
    items.iter().map(String::as_str).collect()
}

/// Texts by name as a JSON object.
pub(crate) fn text_map(map: &BTreeMap<String, String>) -> Value {
    Value::Object(
        map.iter()
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect(),
    )
}
