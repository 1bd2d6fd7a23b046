//! The right to change metadata.
//!
//! A coordinator that starts raises the epoch in the store. All its writes
//! require that version of the epoch, so they fail once another has started.

use mainstem_meta::store::{decode_counter, encode_counter};
use mainstem_meta::{MetaError, MetaStore, Revision, Transaction, keys};
use mainstem_types::{CoordinatorEpoch, ErrorCode};

use crate::ApiError;

/// What a coordinator in office knows.
#[derive(Debug)]
pub(crate) struct Term {
    /// Its epoch.
    pub(crate) epoch: CoordinatorEpoch,
    /// Version of the epoch's key while it is in office.
    pub(crate) version: Revision,
    pub(crate) next_table_id: i64,
    pub(crate) next_partition_id: i64,
    /// A transaction failed in a way that does not tell whether it was applied:
    /// everything must be read again before the next one.
    pub(crate) outcome_unknown: bool,
}

impl Term {
    /// Takes office, together with whatever `first` does.
    pub(crate) fn begin(
        store: &dyn MetaStore,
        first: impl FnOnce(Transaction) -> Transaction,
    ) -> Result<Self, MetaError> {
        let key = keys::COORDINATOR_EPOCH;
        let current = store.get(key)?;
        let epoch = match &current {
            Some(entry) => decode_counter(key, &entry.value)?,
            None => 0,
        };
        let number = i32::try_from(epoch).map_err(|_| MetaError::Corrupt {
            place: key.to_owned(),
            reason: format!("{epoch} is no epoch"),
        })?;
        let guarded = match &current {
            Some(entry) => Transaction::new().require_version(key, entry.version),
            None => Transaction::new().require_absent(key),
        };
        let version = store.commit(first(guarded.put(key, encode_counter(epoch + 1))))?;
        Ok(Self {
            epoch: CoordinatorEpoch(number),
            version,
            next_table_id: 0,
            next_partition_id: 0,
            outcome_unknown: false,
        })
    }

    /// Commits a change if this coordinator is still in office.
    pub(crate) fn commit(
        &mut self,
        store: &dyn MetaStore,
        transaction: Transaction,
    ) -> Result<(), ApiError> {
        let guarded = transaction.require_version(keys::COORDINATOR_EPOCH, self.version);
        match store.commit(guarded) {
            Ok(_) => Ok(()),
            Err(MetaError::Conflict { key }) if key == keys::COORDINATOR_EPOCH => {
                Err(ApiError::new(
                    ErrorCode::NotCoordinatorLeader,
                    "Another coordinator has taken over.",
                ))
            }
            Err(error) => {
                // A conflict of another key means that the catalog is not what
                // the store holds, which reading again repairs as well.
                self.outcome_unknown = true;
                tracing::warn!(%error, "metadata change failed");
                Err(error.into())
            }
        }
    }
}
