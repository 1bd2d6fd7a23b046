//! Sessions and the ephemeral keys they own. They live in memory: a process
//! that is gone has no sessions.

use std::collections::{BTreeSet, HashMap};

use super::SessionId;
use crate::MetaError;

#[derive(Debug)]
struct Session {
    timeout_ms: u64,
    deadline_ms: i64,
    keys: BTreeSet<String>,
}

/// The open sessions of a store.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    next_id: u64,
    sessions: HashMap<SessionId, Session>,
    owners: HashMap<String, SessionId>,
}

fn deadline(now_ms: i64, timeout_ms: u64) -> i64 {
    now_ms.saturating_add_unsigned(timeout_ms)
}

impl Sessions {
    pub(super) fn open(&mut self, timeout_ms: u64, now_ms: i64) -> SessionId {
        self.next_id += 1;
        let id = SessionId(self.next_id);
        let deadline_ms = deadline(now_ms, timeout_ms);
        self.sessions.insert(
            id,
            Session {
                timeout_ms,
                deadline_ms,
                keys: BTreeSet::new(),
            },
        );
        id
    }

    pub(super) fn renew(&mut self, id: SessionId, now_ms: i64) -> Result<(), MetaError> {
        let session = self.sessions.get_mut(&id).ok_or(expired(id))?;
        session.deadline_ms = deadline(now_ms, session.timeout_ms);
        Ok(())
    }

    pub(super) fn check(&self, id: SessionId) -> Result<(), MetaError> {
        if self.sessions.contains_key(&id) {
            Ok(())
        } else {
            Err(expired(id))
        }
    }

    /// The sessions whose deadline has passed, the earliest first.
    pub(super) fn expired(&self, now_ms: i64) -> Vec<SessionId> {
        let mut due: Vec<(i64, SessionId)> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.deadline_ms <= now_ms)
            .map(|(id, session)| (session.deadline_ms, *id))
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// The keys of a session.
    pub(super) fn keys(&self, id: SessionId) -> Vec<String> {
        self.sessions
            .get(&id)
            .map(|session| session.keys.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The session that owns a key.
    pub(super) fn owner(&self, key: &str) -> Option<SessionId> {
        self.owners.get(key).copied()
    }

    /// Records who owns a key from now on.
    pub(super) fn set_owner(&mut self, key: &str, owner: Option<SessionId>) {
        if let Some(before) = self.owners.remove(key)
            && let Some(session) = self.sessions.get_mut(&before)
        {
            session.keys.remove(key);
        }
        if let Some(owner) = owner
            && let Some(session) = self.sessions.get_mut(&owner)
        {
            session.keys.insert(key.to_owned());
            self.owners.insert(key.to_owned(), owner);
        }
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            for key in session.keys {
                self.owners.remove(&key);
            }
        }
    }
}

fn expired(id: SessionId) -> MetaError {
    MetaError::SessionExpired { session: id.0 }
}
