//! Descriptors of databases (tables.md §1.3, formats.md §8.3).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::DescriptorError;
use crate::json::{self, Object};

/// Version that is written. Readers do not look at it.
const VERSION: i32 = 1;

/// What a database is, besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseDescriptor {
    /// Comment.
    pub comment: Option<String>,
    /// Properties of the user, returned verbatim.
    pub custom_properties: BTreeMap<String, String>,
}

impl DatabaseDescriptor {
    /// The JSON form.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("version".to_owned(), VERSION.into());
        if let Some(comment) = &self.comment {
            members.insert("comment".to_owned(), comment.as_str().into());
        }
        members.insert(
            "custom_properties".to_owned(),
            json::text_map(&self.custom_properties),
        );
        Value::Object(members)
    }

    /// The JSON form as compact text.
    pub fn to_json_bytes(&self) -> Vec<u8> {
        json::bytes(&self.to_json())
    }

    /// Reads the JSON form. In createDatabase a failure is an InvalidDatabase.
    ///
    /// # Errors
    /// Not an object, without `custom_properties`, or with a member of the wrong
    /// type.
    pub fn from_json(value: &Value) -> Result<Self, DescriptorError> {
        let object = Object::of(value, "database descriptor")?;
        object.required("custom_properties")?;
        Ok(Self {
            comment: object.optional_text("comment")?,
            custom_properties: object.text_map_or_empty("custom_properties")?,
        })
    }

    /// Reads the JSON form from bytes.
    ///
    /// # Errors
    /// As [`DatabaseDescriptor::from_json`], and for bytes that are no JSON.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        Self::from_json(&json::parse(bytes)?)
    }

    /// The descriptor after alterDatabase: first all sets, then all deletes, so
    /// that a key in both ends up absent. An empty comment removes the comment,
    /// `None` leaves it. The result is `None` if nothing changes: then nothing
    /// is written, and the modified time stays.
    pub fn altered(
        &self,
        sets: &[(String, String)],
        deletes: &[String],
        comment: Option<&str>,
    ) -> Option<Self> {
        let mut altered = self.clone();
        altered.custom_properties.extend(sets.iter().cloned());
        for key in deletes {
            altered.custom_properties.remove(key);
        }
        if let Some(comment) = comment {
            altered.comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
        }
        (altered != *self).then_some(altered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(json: &str) -> Result<DatabaseDescriptor, DescriptorError> {
        DatabaseDescriptor::from_json_bytes(json.as_bytes())
    }

    #[test]
    fn a_descriptor_is_written_as_it_was_read() {
        for json in [
            r#"{"version":1,"custom_properties":{}}"#,
            r#"{"version":1,"comment":"test_db","custom_properties":{"k1":"v1","k2":"v2"}}"#,
        ] {
            let written = database(json).expect("valid").to_json_bytes();
            assert_eq!(String::from_utf8(written).as_deref(), Ok(json));
        }
    }

    #[test]
    fn unreadable_documents_and_those_without_custom_properties_are_refused() {
        for json in ["", "{", "[]", "5", "{}", r#"{"version":1,"comment":"c"}"#] {
            assert!(database(json).is_err(), "{json}");
        }
        assert!(
            DatabaseDescriptor::from_json_bytes(b"{\"custom_properties\":{},\"x\":\"\xff\"}")
                .is_err()
        );
    }

    #[test]
    fn version_null_comment_and_scalars_are_lenient() {
        let read = database(r#"{"version":2,"comment":null,"custom_properties":{"a":5,"b":null}}"#)
            .expect("lenient");
        assert_eq!(read.comment, None);
        assert_eq!(read.custom_properties["a"], "5");
        assert_eq!(read.custom_properties["b"], "null");
    }

    #[test]
    fn alter_sets_then_deletes_and_an_empty_comment_clears() {
        let old =
            database(r#"{"comment":"c","custom_properties":{"a":"1","b":"2"}}"#).expect("valid");
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let new = old
            .altered(
                &[set("a", "3"), set("d", "4"), set("d", "5")],
                &["b".to_owned()],
                Some(""),
            )
            .expect("changed");
        assert_eq!(new.comment, None);
        assert_eq!(
            new.custom_properties,
            BTreeMap::from([set("a", "3"), set("d", "5")])
        );
        let both = [set("x", "1")];
        assert_eq!(old.altered(&both, &["x".to_owned()], None), None);
    }

    #[test]
    fn alter_without_effect_is_no_change() {
        let old = database(r#"{"comment":"c","custom_properties":{"a":"1"}}"#).expect("valid");
        let same = ("a".to_owned(), "1".to_owned());
        assert_eq!(
            old.altered(&[same], &["missing".to_owned()], Some("c")),
            None
        );
        assert_eq!(old.altered(&[], &[], None), None);
    }
}
