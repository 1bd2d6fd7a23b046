//! Why a descriptor, a schema or a change of them is refused.

use crate::ErrorCode;

/// A document or value that breaks the construction rules of types, schemas and
/// descriptors (tables.md §1.5). Its text names the rule; which error code it
/// has depends on where the document came from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DescriptorError(String);

impl DescriptorError {
    /// An error with that reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A refused operation on a database or table: the code that clients act on and
/// the text that people read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TableError {
    /// Code of wire.md §5.1.
    pub code: ErrorCode,
    /// Reason, with the fragments that existing test suites look for.
    pub message: String,
}

impl TableError {
    /// An error of that code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn invalid_table(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidTable, message)
    }

    pub(crate) fn invalid_config(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidConfig, message)
    }

    pub(crate) fn invalid_alter(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidAlterTable, message)
    }
}

/// In createTable a document that breaks a construction rule is an invalid table.
impl From<DescriptorError> for TableError {
    fn from(error: DescriptorError) -> Self {
        Self::invalid_table(error.0)
    }
}
