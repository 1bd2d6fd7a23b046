//! What a single-process store does, whatever keeps its bytes: conditions,
//! versions, revisions, sessions, history.
//!
//! A [`Backing`] keeps an ordered map, the current revision and the set of
//! ephemeral keys, and applies a closure atomically. Writers are serialised
//! here, so that the history is in commit order.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::history::{History, Watch, WatchEvent};
use super::sessions::Sessions;
use super::transaction::{Condition, Operation};
use super::{
    Entry, Listing, MAX_KEY_BYTES, MAX_VALUE_BYTES, MetaStore, Revision, SessionId, Transaction,
    decode_counter, encode_counter,
};
use crate::MetaError;

/// Reads of one consistent moment.
pub(super) trait ReadTree {
    fn revision(&self) -> Result<Revision, MetaError>;
    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError>;
    /// Visits keys from `start` on, ascending, while the visitor returns true.
    fn visit(
        &self,
        start: &str,
        visitor: &mut dyn FnMut(&str, &[u8], Revision) -> bool,
    ) -> Result<(), MetaError>;
}

/// The same with changes, which become visible together.
pub(super) trait WriteTree: ReadTree {
    fn set_revision(&mut self, revision: Revision) -> Result<(), MetaError>;
    fn insert(&mut self, key: &str, value: &Bytes, version: Revision) -> Result<(), MetaError>;
    fn remove(&mut self, key: &str) -> Result<(), MetaError>;
    /// Remembers, across a crash, that a key is ephemeral, or that it is not.
    fn mark_ephemeral(&mut self, key: &str, ephemeral: bool) -> Result<(), MetaError>;
}

/// An ordered map that survives, or not.
pub(super) trait Backing: Send + Sync {
    fn read(
        &self,
        read: &mut dyn FnMut(&dyn ReadTree) -> Result<(), MetaError>,
    ) -> Result<(), MetaError>;

    /// Runs `write`; if it returns `Ok(true)` its changes are made durable,
    /// otherwise they are undone.
    fn write(
        &self,
        write: &mut dyn FnMut(&mut dyn WriteTree) -> Result<bool, MetaError>,
    ) -> Result<(), MetaError>;
}

/// The store on some backing.
#[derive(Debug)]
pub(super) struct Engine<B> {
    backing: B,
    /// Held for the whole of a write: decides the commit order.
    sessions: Mutex<Sessions>,
    history: Arc<History>,
}

impl<B: Backing> Engine<B> {
    pub(super) fn new(backing: B) -> Result<Self, MetaError> {
        let mut current = Revision::default();
        backing.read(&mut |tree| {
            current = tree.revision()?;
            Ok(())
        })?;
        let history = Arc::new(History::new(current));
        Ok(Self {
            backing,
            sessions: Mutex::new(Sessions::default()),
            history,
        })
    }

    fn apply(
        &self,
        sessions: &mut Sessions,
        transaction: &Transaction,
    ) -> Result<Revision, MetaError> {
        check_limits(transaction)?;
        let mut ephemeral = false;
        for operation in &transaction.operations {
            if let Operation::Put {
                session: Some(session),
                ..
            } = operation
            {
                sessions.check(*session)?;
                ephemeral = true;
            }
        }
        // Marks are written only where there are or were ephemeral keys.
        let marks = |key: &str| ephemeral || sessions.owner(key).is_some();
        let mut revision = Revision::default();
        let mut changes = Vec::new();
        self.backing.write(&mut |tree| {
            changes.clear();
            for condition in &transaction.conditions {
                check(tree, condition)?;
            }
            let current = tree.revision()?;
            let next = Revision(current.0 + 1);
            for operation in &transaction.operations {
                perform(tree, &marks, operation, next, &mut changes)?;
            }
            revision = if changes.is_empty() { current } else { next };
            if !changes.is_empty() {
                tree.set_revision(next)?;
            }
            Ok(!changes.is_empty())
        })?;
        if changes.is_empty() {
            return Ok(revision);
        }
        // The last writer of a key within the transaction owns it.
        for change in &changes {
            sessions.set_owner(&change.key, None);
        }
        for operation in &transaction.operations {
            match operation {
                Operation::Put { key, session, .. } => sessions.set_owner(key, *session),
                Operation::Delete { key } => sessions.set_owner(key, None),
                Operation::DeletePrefix { .. } => {}
            }
        }
        self.history.publish(revision, changes);
        Ok(revision)
    }

    fn end_session(&self, sessions: &mut Sessions, session: SessionId) -> Result<(), MetaError> {
        let mut transaction = Transaction::new();
        for key in sessions.keys(session) {
            transaction = transaction.delete(key);
        }
        self.apply(sessions, &transaction)?;
        sessions.remove(session);
        Ok(())
    }
}

fn check_limits(transaction: &Transaction) -> Result<(), MetaError> {
    for operation in &transaction.operations {
        let (key, bytes) = match operation {
            Operation::Put { key, value, .. } => (key, value.len()),
            Operation::Delete { key } => (key, 0),
            Operation::DeletePrefix { prefix } => (prefix, 0),
        };
        if bytes > MAX_VALUE_BYTES || key.len() > MAX_KEY_BYTES {
            return Err(MetaError::TooLarge {
                key: key.chars().take(64).collect(),
                bytes: bytes.max(key.len()),
                limit: if bytes > MAX_VALUE_BYTES {
                    MAX_VALUE_BYTES
                } else {
                    MAX_KEY_BYTES
                },
            });
        }
    }
    Ok(())
}

fn check(tree: &dyn ReadTree, condition: &Condition) -> Result<(), MetaError> {
    let (key, required) = match condition {
        Condition::Absent(key) => (key, None),
        Condition::Version(key, version) => (key, Some(*version)),
    };
    let actual = tree.get(key)?.map(|entry| entry.version);
    if actual == required {
        Ok(())
    } else {
        Err(MetaError::Conflict { key: key.clone() })
    }
}

fn perform(
    tree: &mut dyn WriteTree,
    marks: &dyn Fn(&str) -> bool,
    operation: &Operation,
    revision: Revision,
    changes: &mut Vec<WatchEvent>,
) -> Result<(), MetaError> {
    match operation {
        Operation::Put {
            key,
            value,
            session,
        } => {
            let old = tree.get(key)?.map(|entry| entry.value);
            tree.insert(key, value, revision)?;
            if marks(key) {
                tree.mark_ephemeral(key, session.is_some())?;
            }
            changes.push(WatchEvent {
                revision,
                key: key.clone(),
                old,
                new: Some(value.clone()),
            });
        }
        Operation::Delete { key } => {
            if let Some(old) = tree.get(key)? {
                remove(tree, marks, key, old.value, revision, changes)?;
            }
        }
        Operation::DeletePrefix { prefix } => {
            let mut doomed = Vec::new();
            tree.visit(prefix, &mut |key, value, _| {
                let inside = key.starts_with(prefix.as_str());
                if inside {
                    doomed.push((key.to_owned(), Bytes::copy_from_slice(value)));
                }
                inside
            })?;
            for (key, value) in doomed {
                remove(tree, marks, &key, value, revision, changes)?;
            }
        }
    }
    Ok(())
}

fn remove(
    tree: &mut dyn WriteTree,
    marks: &dyn Fn(&str) -> bool,
    key: &str,
    old: Bytes,
    revision: Revision,
    changes: &mut Vec<WatchEvent>,
) -> Result<(), MetaError> {
    tree.remove(key)?;
    if marks(key) {
        tree.mark_ephemeral(key, false)?;
    }
    changes.push(WatchEvent {
        revision,
        key: key.to_owned(),
        old: Some(old),
        new: None,
    });
    Ok(())
}

impl<B: Backing> MetaStore for Engine<B> {
    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
        let mut found = None;
        self.backing.read(&mut |tree| {
            found = tree.get(key)?;
            Ok(())
        })?;
        Ok(found)
    }

    fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        let mut listing = Listing::default();
        self.backing.read(&mut |tree| {
            listing = Listing {
                revision: tree.revision()?,
                entries: Vec::new(),
            };
            tree.visit(prefix, &mut |key, value, version| {
                let inside = key.starts_with(prefix);
                if inside {
                    let value = Bytes::copy_from_slice(value);
                    listing
                        .entries
                        .push((key.to_owned(), Entry { value, version }));
                }
                inside
            })
        })?;
        Ok(listing)
    }

    fn children(&self, parent: &str) -> Result<Vec<String>, MetaError> {
        let prefix = if parent.is_empty() {
            String::new()
        } else {
            format!("{parent}/")
        };
        let mut children: Vec<String> = Vec::new();
        self.backing.read(&mut |tree| {
            children.clear();
            tree.visit(&prefix, &mut |key, _, _| {
                let Some(rest) = key.strip_prefix(&prefix) else {
                    return false;
                };
                let child = rest.split('/').next().unwrap_or(rest);
                children.push(child.to_owned());
                true
            })
        })?;
        // Keys of one child need not be neighbours: `a-b` sorts before `a/b`.
        children.sort_unstable();
        children.dedup();
        Ok(children)
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, MetaError> {
        self.apply(&mut self.sessions.lock(), &transaction)
    }

    fn counter_add(&self, key: &str, amount: u64) -> Result<i64, MetaError> {
        let mut sessions = self.sessions.lock();
        let entry = self.get(key)?;
        let before = match &entry {
            Some(entry) => decode_counter(key, &entry.value)?,
            None => 0,
        };
        let after = before
            .checked_add_unsigned(amount)
            .ok_or_else(|| MetaError::Corrupt {
                place: key.to_owned(),
                reason: format!("the counter at {before} has no room for {amount} more"),
            })?;
        let transaction = Transaction::new().put(key, encode_counter(after));
        self.apply(&mut sessions, &transaction)?;
        Ok(before)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
        self.history.watch(prefix, after)
    }

    fn open_session(&self, timeout_ms: u64, now_ms: i64) -> Result<SessionId, MetaError> {
        Ok(self.sessions.lock().open(timeout_ms, now_ms))
    }

    fn renew_session(&self, session: SessionId, now_ms: i64) -> Result<(), MetaError> {
        self.sessions.lock().renew(session, now_ms)
    }

    fn close_session(&self, session: SessionId) -> Result<(), MetaError> {
        self.end_session(&mut self.sessions.lock(), session)
    }

    fn expire_sessions(&self, now_ms: i64) -> Result<Vec<SessionId>, MetaError> {
        let mut sessions = self.sessions.lock();
        let expired = sessions.expired(now_ms);
        for session in &expired {
            self.end_session(&mut sessions, *session)?;
        }
        Ok(expired)
    }
}

/// Implements [`MetaStore`] for a newtype around an [`Engine`].
macro_rules! impl_store_by_engine {
    ($store:ty) => {
        impl MetaStore for $store {
            fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
                self.0.get(key)
            }

            fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
                self.0.list(prefix)
            }

            fn children(&self, parent: &str) -> Result<Vec<String>, MetaError> {
                self.0.children(parent)
            }

            fn commit(&self, transaction: Transaction) -> Result<Revision, MetaError> {
                self.0.commit(transaction)
            }

            fn counter_add(&self, key: &str, amount: u64) -> Result<i64, MetaError> {
                self.0.counter_add(key, amount)
            }

            fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
                self.0.watch(prefix, after)
            }

            fn open_session(&self, timeout_ms: u64, now_ms: i64) -> Result<SessionId, MetaError> {
                self.0.open_session(timeout_ms, now_ms)
            }

            fn renew_session(&self, session: SessionId, now_ms: i64) -> Result<(), MetaError> {
                self.0.renew_session(session, now_ms)
            }

            fn close_session(&self, session: SessionId) -> Result<(), MetaError> {
                self.0.close_session(session)
            }

            fn expire_sessions(&self, now_ms: i64) -> Result<Vec<SessionId>, MetaError> {
                self.0.expire_sessions(now_ms)
            }
        }
    };
}
pub(super) use impl_store_by_engine;
