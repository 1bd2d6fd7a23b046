//! Between messages and values.

use bytes::Bytes;
use mainstem_meta::DatabaseEntry;
use mainstem_protocol::messages::{PbAlterConfig, PbTablePath};
use mainstem_protocol::{Required, Shaped, decode};
use mainstem_types::descriptor::DatabaseDescriptor;
use mainstem_types::{ErrorCode, TablePath};
use prost::Message;

use crate::ApiError;

/// Decodes a request, runs it, encodes the answer.
pub(crate) fn call<Q, A>(
    body: Bytes,
    run: impl FnOnce(Q) -> Result<A, ApiError>,
) -> Result<Bytes, ApiError>
where
    Q: Message + Default + Required + Shaped,
    A: Message,
{
    let answer = run(decode(body)?)?;
    Ok(answer.encode_to_vec().into())
}

/// A path; `decode` has made sure that required fields are there.
pub(crate) fn table_path(path: Option<PbTablePath>) -> TablePath {
    let path = path.unwrap_or_default();
    TablePath::new(
        path.database_name.unwrap_or_default(),
        path.table_name.unwrap_or_default(),
    )
}

pub(crate) fn pb_table_path(path: &TablePath) -> PbTablePath {
    PbTablePath {
        database_name: Some(path.database.clone()),
        table_name: Some(path.table.clone()),
    }
}

pub(crate) fn database_descriptor(entry: &DatabaseEntry) -> DatabaseDescriptor {
    DatabaseDescriptor {
        comment: entry.record.comment.clone(),
        custom_properties: entry.record.custom_properties.clone(),
    }
}

/// Property changes of tables and databases: all sets, then all deletes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PropertyChanges {
    pub(crate) sets: Vec<(String, String)>,
    pub(crate) deletes: Vec<String>,
}

impl PropertyChanges {
    /// Sorts the entries of a request. Tables and databases know only SET and
    /// DELETE, and a SET needs a value.
    pub(crate) fn of(entries: Vec<PbAlterConfig>) -> Result<Self, ApiError> {
        let mut changes = Self::default();
        for entry in entries {
            let key = entry.config_key.unwrap_or_default();
            match (entry.op_type.unwrap_or_default(), entry.config_value) {
                (0, Some(value)) => changes.sets.push((key, value)),
                (0, None) => {
                    return Err(refused(format!("The new value of '{key}' is missing.")));
                }
                (1, _) => changes.deletes.push(key),
                (other, _) => {
                    return Err(refused(format!(
                        "Operation {other} on '{key}' is not supported, only SET (0) and DELETE (1)."
                    )));
                }
            }
        }
        Ok(changes)
    }
}

/// A refusal for which the protocol has no code of its own.
pub(crate) fn refused(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::UnknownServerError, message)
}
