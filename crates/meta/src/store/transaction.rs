//! A transaction: conditions and the operations they guard.

use bytes::Bytes;

use super::{Revision, SessionId};

/// What must hold for a transaction to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key has no value.
    Absent(String),
    /// The key's value is the one written by this revision.
    Version(String, Revision),
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sets a key. With a session the key is ephemeral: it goes with it.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Bytes,
        /// The session that owns it.
        session: Option<SessionId>,
    },
    /// Removes a key if it is there.
    Delete {
        /// The key.
        key: String,
    },
    /// Removes every key that starts with a prefix.
    DeletePrefix {
        /// The prefix, not empty.
        prefix: String,
    },
}

/// Conditions and operations that are applied together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) operations: Vec<Operation>,
}

impl Transaction {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires a key to be absent.
    pub fn require_absent(mut self, key: impl Into<String>) -> Self {
        self.conditions.push(Condition::Absent(key.into()));
        self
    }

    /// Requires a key to have been written by `version`, and not since.
    pub fn require_version(mut self, key: impl Into<String>, version: Revision) -> Self {
        self.conditions
            .push(Condition::Version(key.into(), version));
        self
    }

    /// Sets a key.
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        let (key, value) = (key.into(), value.into());
        self.operations.push(Operation::Put {
            key,
            value,
            session: None,
        });
        self
    }

    /// Sets a key that lives as long as a session.
    pub fn put_ephemeral(
        mut self,
        key: impl Into<String>,
        value: impl Into<Bytes>,
        session: SessionId,
    ) -> Self {
        let (key, value) = (key.into(), value.into());
        self.operations.push(Operation::Put {
            key,
            value,
            session: Some(session),
        });
        self
    }

    /// Removes a key.
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.operations.push(Operation::Delete { key: key.into() });
        self
    }

    /// Removes every key that starts with `prefix`.
    pub fn delete_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.operations.push(Operation::DeletePrefix {
            prefix: prefix.into(),
        });
        self
    }

    /// The changes, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
