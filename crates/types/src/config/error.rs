//! Why a configuration, or a change of it, is refused.

use crate::ErrorCode;

/// A refused configuration. Its text is one line that names the key, what is
/// wrong and, where that is not plain, what to do. Secrets never occur in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value that cannot be. The server does not start; a change is refused.
    #[error("{key}: {problem}; {advice}")]
    Invalid {
        /// The key.
        key: String,
        /// What is wrong with its value.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// A command-line override that is not `key=value`.
    #[error("-D {text}: an override has the form key=value")]
    Override {
        /// What was given, up to 100 characters.
        text: String,
    },
    /// A key that only a restart can change, or that does not exist.
    #[error("The config key {key} is not allowed to be changed dynamically.")]
    NotAlterable {
        /// The key.
        key: String,
    },
    /// A change that does not fit its key or its value.
    #[error("{key}: {problem}")]
    Change {
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// An operation other than SET, DELETE, APPEND and SUBTRACT.
    #[error("{operation} is not an operation on a configuration (0 to 3 are)")]
    UnknownOperation {
        /// The number on the wire.
        operation: i32,
    },
}

impl ConfigError {
    pub(crate) fn invalid(
        key: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            key: key.into(),
            problem: problem.into(),
            advice: advice.into(),
        }
    }

    pub(crate) fn change(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Change {
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// The code that AlterClusterConfigs answers (behaviour.md §14).
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownOperation { .. } => ErrorCode::UnknownServerError,
            _ => ErrorCode::ConfigException,
        }
    }
}
