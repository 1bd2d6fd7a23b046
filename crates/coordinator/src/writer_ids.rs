//! Ids of idempotent writers.

use std::sync::Arc;

use mainstem_meta::{MetaError, MetaStore, keys};
use mainstem_types::WriterId;
use parking_lot::Mutex;

/// Ids taken from the store at once. What is left of them when the process ends
/// is lost, which costs nothing: there are 2⁶³.
const RESERVED: u64 = 1000;

/// Hands out ids, ascending, none twice, and syncs once per thousand.
pub(crate) struct WriterIds {
    store: Arc<dyn MetaStore>,
    /// The next id and the end of what is reserved.
    range: Mutex<(i64, i64)>,
}

impl WriterIds {
    pub(crate) fn new(store: Arc<dyn MetaStore>) -> Self {
        Self {
            store,
            range: Mutex::new((0, 0)),
        }
    }

    pub(crate) fn next(&self) -> Result<WriterId, MetaError> {
        let mut range = self.range.lock();
        if range.0 == range.1 {
            let start = self.store.counter_add(keys::NEXT_WRITER_ID, RESERVED)?;
            *range = (start, start.saturating_add_unsigned(RESERVED));
        }
        let id = range.0;
        range.0 += 1;
        Ok(WriterId(id))
    }
}

#[cfg(test)]
mod tests {
    use mainstem_meta::MemoryStore;

    use super::*;

    #[test]
    fn ids_ascend_from_zero_and_touch_the_store_once_per_thousand() {
        let store = Arc::new(MemoryStore::new());
        let ids = WriterIds::new(store.clone());
        for expected in 0..2500 {
            assert_eq!(ids.next().expect("an id"), WriterId(expected));
        }
        assert_eq!(store.list("").expect("list").revision.0, 3);
    }

    #[test]
    fn after_a_restart_no_id_is_given_again() {
        let store = Arc::new(MemoryStore::new());
        for _ in 0..3 {
            WriterIds::new(store.clone()).next().expect("an id");
        }
        assert_eq!(WriterIds::new(store).next().expect("an id"), WriterId(3000));
    }
}
