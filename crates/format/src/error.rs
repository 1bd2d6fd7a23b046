//! The error type of the crate.

use std::borrow::Cow;

/// Why bytes could not be read, or values not be written.
///
/// Variants are by what the caller can do about it; the text says where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes are damaged or cut short: a checksum, length or magic is
    /// wrong. Fetch or send them again.
    #[error("corrupt bytes: {0}")]
    Corrupt(Cow<'static, str>),
    /// Undamaged bytes, or values, that the schema or the format cannot hold.
    /// Sending them again will not help.
    #[error("invalid data: {0}")]
    Invalid(Cow<'static, str>),
    /// Something that the format knows and this operation does not do.
    #[error("not supported: {0}")]
    Unsupported(Cow<'static, str>),
    /// A size passes a limit of the caller or of the format. Make it smaller,
    /// or raise the limit.
    #[error("{what} of {actual} exceeds the limit of {limit}")]
    LimitExceeded {
        /// What was measured, with its unit.
        what: &'static str,
        /// The size.
        actual: u64,
        /// The limit.
        limit: u64,
    },
}

impl FormatError {
    /// A [`FormatError::Corrupt`].
    pub fn corrupt(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Corrupt(detail.into())
    }

    /// A [`FormatError::Invalid`].
    pub fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(detail.into())
    }

    /// A [`FormatError::Unsupported`].
    pub fn unsupported(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Unsupported(detail.into())
    }
}

/// Result of this crate.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;
