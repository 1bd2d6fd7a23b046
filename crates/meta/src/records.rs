//! The records in the store.
//!
//! Records are JSON objects with a `version`. A reader ignores members that it
//! does not know and refuses a version above its own; a member that a later
//! version adds has a default, so that older records stay readable.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::MetaError;

/// A kind of record.
pub trait Record: Serialize + DeserializeOwned {
    /// The version that this program writes, and the highest that it reads.
    const VERSION: u32;

    /// The bytes to store.
    fn encode(&self) -> Bytes {
        let versioned = Versioned {
            version: Self::VERSION,
            record: self,
        };
        serde_json::to_vec(&versioned)
            .expect("records are maps with text keys")
            .into()
    }

    /// Reads stored bytes. `key` is for the error's text.
    fn decode(key: &str, bytes: &[u8]) -> Result<Self, MetaError> {
        let corrupt = |reason: String| MetaError::Corrupt {
            place: key.to_owned(),
            reason,
        };
        let header: Header =
            serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        if header.version > Self::VERSION {
            return Err(corrupt(format!(
                "version {} of the record, this program reads up to {}",
                header.version,
                Self::VERSION
            )));
        }
        serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))
    }
}

#[derive(Serialize)]
struct Versioned<'a, R> {
    version: u32,
    #[serde(flatten)]
    record: &'a R,
}

#[derive(Deserialize)]
struct Header {
    version: u32,
}

/// A database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseRecord {
    /// Comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Properties as clients set them.
    #[serde(default)]
    pub custom_properties: BTreeMap<String, String>,
    /// Epoch milliseconds.
    pub created_time: i64,
    /// Epoch milliseconds of the last change that had an effect.
    pub modified_time: i64,
}

/// A table without its schemas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRecord {
    /// The id.
    pub table_id: i64,
    /// Comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Names of the partition columns.
    #[serde(default)]
    pub partition_key: Vec<String>,
    /// Names of the bucket columns.
    #[serde(default)]
    pub bucket_key: Vec<String>,
    /// Buckets of the table, or of each new partition.
    pub bucket_count: i32,
    /// `table.*` options, with what the server filled in.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// All other properties.
    #[serde(default)]
    pub custom_properties: BTreeMap<String, String>,
    /// Where its remote files go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_data_dir: Option<String>,
    /// Number of changes of the bucket count.
    #[serde(default)]
    pub bucket_count_epoch: i64,
    /// Epoch milliseconds.
    pub created_time: i64,
    /// Epoch milliseconds of the last change that had an effect.
    pub modified_time: i64,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRecord {
    /// The id.
    pub partition_id: i64,
    /// The table it belongs to.
    pub table_id: i64,
    /// Its number of buckets, which it keeps for life.
    pub bucket_count: i32,
    /// Where its remote files go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_data_dir: Option<String>,
    /// Epoch milliseconds.
    pub created_time: i64,
}

/// The replicas of the buckets of a table or partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentRecord {
    /// Server ids of each bucket, the preferred leader first; the index is the
    /// bucket.
    pub buckets: Vec<Vec<i32>>,
}

/// Leader and ISR of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketRecord {
    /// Server id of the leader; absent = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<i32>,
    /// +1 at each election.
    pub leader_epoch: i32,
    /// Server ids in sync, the leader included.
    pub isr: Vec<i32>,
    /// Epoch of the coordinator that wrote this.
    pub coordinator_epoch: i32,
    /// +1 at each write of this record.
    pub bucket_epoch: i32,
}

/// Cluster configuration changed at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRecord {
    /// Value by key; null = the key is forced unset, also over the server's file.
    #[serde(default)]
    pub configs: BTreeMap<String, Option<String>>,
}

/// Offsets that an exactly-once writer left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerOffsetsRecord {
    /// Epoch milliseconds after which they do not exist any more.
    pub expiration_time: i64,
    /// By table, in the order given.
    pub tables: Vec<ProducerTableOffsets>,
}

/// Offsets in one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerTableOffsets {
    /// The table.
    pub table_id: i64,
    /// Its buckets, in the order given.
    pub buckets: Vec<ProducerBucketOffset>,
}

/// Offset in one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerBucketOffset {
    /// The partition, if the table has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_id: Option<i64>,
    /// The bucket.
    pub bucket: i32,
    /// Exclusive end of what the producer wrote.
    pub log_end_offset: i64,
}

impl Record for DatabaseRecord {
    const VERSION: u32 = 1;
}
impl Record for TableRecord {
    const VERSION: u32 = 1;
}
impl Record for PartitionRecord {
    const VERSION: u32 = 1;
}
impl Record for AssignmentRecord {
    const VERSION: u32 = 1;
}
impl Record for BucketRecord {
    const VERSION: u32 = 1;
}
impl Record for ConfigRecord {
    const VERSION: u32 = 1;
}
impl Record for ProducerOffsetsRecord {
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_form<R: Record + std::fmt::Debug + PartialEq>(record: &R, json: &str) {
        assert_eq!(std::str::from_utf8(&record.encode()).expect("text"), json);
        assert_eq!(
            R::decode("key", json.as_bytes()).expect("readable"),
            *record
        );
    }

    // These texts are on disks: a change that breaks one breaks its owner.
    #[test]
    fn records_keep_the_form_that_version_1_wrote() {
        check_form(
            &DatabaseRecord {
                comment: Some("c".to_owned()),
                custom_properties: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
                created_time: 1,
                modified_time: 2,
            },
            r#"{"version":1,"comment":"c","custom_properties":{"k":"v"},"created_time":1,"modified_time":2}"#,
        );
        check_form(
            &TableRecord {
                table_id: 7,
                comment: None,
                partition_key: vec!["dt".to_owned()],
                bucket_key: vec!["id".to_owned()],
                bucket_count: 4,
                properties: BTreeMap::from([("table.log.ttl".to_owned(), "7d".to_owned())]),
                custom_properties: BTreeMap::new(),
                remote_data_dir: Some("file:///r".to_owned()),
                bucket_count_epoch: 1,
                created_time: 3,
                modified_time: 4,
            },
            r#"{"version":1,"table_id":7,"partition_key":["dt"],"bucket_key":["id"],"bucket_count":4,"properties":{"table.log.ttl":"7d"},"custom_properties":{},"remote_data_dir":"file:///r","bucket_count_epoch":1,"created_time":3,"modified_time":4}"#,
        );
        check_form(
            &PartitionRecord {
                partition_id: 5,
                table_id: 7,
                bucket_count: 2,
                remote_data_dir: None,
                created_time: 6,
            },
            r#"{"version":1,"partition_id":5,"table_id":7,"bucket_count":2,"created_time":6}"#,
        );
        check_form(
            &AssignmentRecord {
                buckets: vec![vec![1, 2, 0], vec![2, 0, 1]],
            },
            r#"{"version":1,"buckets":[[1,2,0],[2,0,1]]}"#,
        );
        check_form(
            &BucketRecord {
                leader: Some(1),
                leader_epoch: 2,
                isr: vec![1, 2],
                coordinator_epoch: 0,
                bucket_epoch: 3,
            },
            r#"{"version":1,"leader":1,"leader_epoch":2,"isr":[1,2],"coordinator_epoch":0,"bucket_epoch":3}"#,
        );
        check_form(
            &ConfigRecord {
                configs: BTreeMap::from([
                    ("a".to_owned(), None),
                    ("b".to_owned(), Some("1".to_owned())),
                ]),
            },
            r#"{"version":1,"configs":{"a":null,"b":"1"}}"#,
        );
        check_form(
            &ProducerOffsetsRecord {
                expiration_time: 9,
                tables: vec![ProducerTableOffsets {
                    table_id: 7,
                    buckets: vec![
                        ProducerBucketOffset {
                            partition_id: None,
                            bucket: 0,
                            log_end_offset: 5,
                        },
                        ProducerBucketOffset {
                            partition_id: Some(1),
                            bucket: 1,
                            log_end_offset: 0,
                        },
                    ],
                }],
            },
            r#"{"version":1,"expiration_time":9,"tables":[{"table_id":7,"buckets":[{"bucket":0,"log_end_offset":5},{"partition_id":1,"bucket":1,"log_end_offset":0}]}]}"#,
        );
    }

    #[test]
    fn unknown_members_are_ignored_and_later_versions_and_damage_refused() {
        let later = br#"{"version":1,"created_time":1,"modified_time":1,"new":{"a":1}}"#;
        assert_eq!(
            DatabaseRecord::decode("k", later)
                .expect("readable")
                .created_time,
            1
        );
        for damaged in [
            &br#"{"version":2,"created_time":1,"modified_time":1}"#[..],
            br#"{"created_time":1,"modified_time":1}"#,
            br#"{"version":1}"#,
            b"",
            b"{",
            b"\xff",
        ] {
            let error = DatabaseRecord::decode("databases/x", damaged).expect_err("refused");
            assert!(error.to_string().contains("databases/x"), "{error}");
        }
    }
}
