//! JSON form of table descriptors (formats.md §8.2).

use serde_json::{Map, Value};

use super::TableDescriptor;
use crate::json::{self, Object};
use crate::{DescriptorError, Schema};

/// Version that is written. Readers do not look at it.
const VERSION: i32 = 1;

impl TableDescriptor {
    /// The JSON form. Clients choose key encoding and buckets by the properties:
    /// they are written exactly as stored.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut member = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        member("version", VERSION.into());
        member("schema", self.schema.to_json());
        if let Some(comment) = &self.comment {
            member("comment", comment.as_str().into());
        }
        member("partition_key", json::texts(&self.partition_keys));
        // The two belong together: readers take a count only with keys.
        if self.bucket_count.is_some() || !self.bucket_keys.is_empty() {
            member("bucket_key", json::texts(&self.bucket_keys));
        }
        if let Some(bucket_count) = self.bucket_count {
            member("bucket_count", bucket_count.into());
        }
        member("properties", json::text_map(&self.properties));
        member("custom_properties", json::text_map(&self.custom_properties));
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
        let object = Object::of(value, "table descriptor")?;
        let schema = Schema::from_json(object.required("schema")?)?;
        for key in ["partition_key", "properties", "custom_properties"] {
            object.required(key)?;
        }
        let bucket_count = if object.contains("bucket_count") {
            object.required("bucket_key")?;
            Some(object.integer("bucket_count")?)
        } else {
            None
        };
        Self {
            schema,
            comment: object.optional_text("comment")?,
            partition_keys: object.texts_or_empty("partition_key")?,
            bucket_keys: object.texts_or_empty("bucket_key")?,
            bucket_count,
            properties: object.text_map_or_empty("properties")?,
            custom_properties: object.text_map_or_empty("custom_properties")?,
        }
        .checked()
    }

    /// Reads the JSON form from bytes.
    ///
    /// # Errors
    /// As [`TableDescriptor::from_json`], and for bytes that are no JSON.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        Self::from_json(&json::parse(bytes)?)
    }
}
