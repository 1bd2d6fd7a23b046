//! Open scans of rows: bounded in number and in life (cluster.md §5.3).

use std::collections::HashMap;

use mainstem_kv::KvSnapshot;
use mainstem_types::TableBucket;
use parking_lot::Mutex;

use super::Refusal;

/// Bounds of scans.
#[derive(Clone, Copy, Debug)]
pub struct ScanLimits {
    /// When an idle scan ends (`kv.scanner.ttl`).
    pub ttl_ms: i64,
    /// Scans of one bucket at once (`kv.scanner.max-per-bucket`).
    pub max_per_bucket: usize,
    /// Scans at once (`kv.scanner.max-per-server`).
    pub max_per_server: usize,
    /// Bytes of an answer (`kv.scanner.max-batch-size`).
    pub max_batch_bytes: usize,
}

impl Default for ScanLimits {
    fn default() -> Self {
        Self {
            ttl_ms: 600_000,
            max_per_bucket: 8,
            max_per_server: 200,
            max_batch_bytes: 10 << 20,
        }
    }
}

/// Id of a scan: 32 hexadecimal digits as text.
pub(super) type ScanId = [u8; 32];

/// A scan between two calls.
pub(super) struct Scan {
    /// What is scanned.
    pub bucket: TableBucket,
    /// The view, at the next row.
    pub snapshot: Box<dyn KvSnapshot>,
    /// Number of the next call.
    pub next_call: i32,
    /// Rows that may still come; `None` = all.
    pub rows_left: Option<u64>,
}

enum Slot {
    Idle(Box<Scan>, i64),
    /// A call is being answered.
    Busy(TableBucket),
}

/// See the module.
pub(super) struct ScanSessions {
    limits: ScanLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    scans: HashMap<ScanId, Slot>,
    /// Ids of scans that have expired, and when they are forgotten.
    expired: HashMap<ScanId, i64>,
}

impl Slot {
    fn bucket(&self) -> &TableBucket {
        match self {
            Self::Idle(scan, _) => &scan.bucket,
            Self::Busy(bucket) => bucket,
        }
    }
}

impl State {
    fn of_bucket(&self, bucket: &TableBucket) -> usize {
        let slots = self.scans.values();
        slots.filter(|slot| slot.bucket() == bucket).count()
    }
}

impl ScanSessions {
    pub fn new(limits: ScanLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    pub fn limits(&self) -> &ScanLimits {
        &self.limits
    }

    /// Takes a place for a scan that begins.
    ///
    /// # Errors
    /// 69 if there are too many.
    pub fn open(&self, bucket: TableBucket) -> Result<ScanId, Refusal> {
        let mut state = self.state.lock();
        let refused = |what: &str, max: usize| {
            let message = format!("{max} scans of {what} are open: close one, or wait");
            Err(Refusal::new(69, message))
        };
        if state.scans.len() >= self.limits.max_per_server {
            return refused("this server", self.limits.max_per_server);
        }
        if state.of_bucket(&bucket) >= self.limits.max_per_bucket {
            return refused("this bucket", self.limits.max_per_bucket);
        }
        let mut id = ScanId::default();
        uuid::Uuid::new_v4().as_simple().encode_lower(&mut id);
        state.scans.insert(id, Slot::Busy(bucket));
        Ok(id)
    }

    /// Takes a scan out for its next call. It has to be put back or closed.
    ///
    /// # Errors
    /// 68 if another call is being answered, 66 if it has expired, 67 if there is
    /// none.
    pub fn take(&self, id: &[u8]) -> Result<(ScanId, Box<Scan>), Refusal> {
        let mut state = self.state.lock();
        let known = ScanId::try_from(id).ok();
        let Some(slot) = known.and_then(|id| state.scans.get_mut(&id)) else {
            let expired = known.is_some_and(|id| state.expired.contains_key(&id));
            return Err(match expired {
                true => Refusal::new(66, "the scan has expired: begin it again"),
                false => Refusal::new(67, "there is no such scan"),
            });
        };
        let bucket = match slot {
            Slot::Idle(scan, _) => scan.bucket,
            Slot::Busy(_) => {
                return Err(Refusal::new(
                    68,
                    "another call of the scan is being answered",
                ));
            }
        };
        match std::mem::replace(slot, Slot::Busy(bucket)) {
            Slot::Idle(scan, _) => Ok((known.unwrap_or_default(), scan)),
            Slot::Busy(_) => Err(Refusal::new(
                68,
                "another call of the scan is being answered",
            )),
        }
    }

    /// Puts a scan back until its next call, unless it was closed meanwhile.
    pub fn put_back(&self, id: &ScanId, scan: Box<Scan>, now_ms: i64) {
        if let Some(slot) = self.state.lock().scans.get_mut(id) {
            *slot = Slot::Idle(scan, now_ms);
        }
    }

    /// Ends a scan. One that is not there is ended already.
    pub fn close(&self, id: &[u8]) {
        let closed = ScanId::try_from(id)
            .ok()
            .and_then(|id| self.state.lock().scans.remove(&id));
        // Its view is released outside of the lock.
        drop(closed);
    }

    /// Ends all scans of a bucket; one that is being answered ends with its answer.
    pub fn close_bucket(&self, bucket: &TableBucket) {
        let mut state = self.state.lock();
        let of_bucket: Vec<ScanId> = state
            .scans
            .iter()
            .filter(|(_, slot)| slot.bucket() == bucket)
            .map(|(id, _)| *id)
            .collect();
        let ended: Vec<Slot> = of_bucket
            .iter()
            .filter_map(|id| state.scans.remove(id))
            .collect();
        drop(state);
        drop(ended);
    }

    /// Ends scans that nobody has continued for too long.
    pub fn close_expired(&self, now_ms: i64) {
        let ttl_ms = self.limits.ttl_ms;
        let ended: Vec<Slot> = {
            let mut state = self.state.lock();
            state.expired.retain(|_, until_ms| *until_ms > now_ms);
            let due: Vec<ScanId> = state
                .scans
                .iter()
                .filter(|(_, slot)| {
                    matches!(slot, Slot::Idle(_, last_ms)
                        if now_ms.saturating_sub(*last_ms) > ttl_ms)
                })
                .map(|(id, _)| *id)
                .collect();
            for id in &due {
                let until_ms = now_ms.saturating_add(ttl_ms.saturating_mul(2));
                state.expired.insert(*id, until_ms);
            }
            due.iter().filter_map(|id| state.scans.remove(id)).collect()
        };
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use mainstem_types::{BucketId, TableId};

    use super::*;

    struct Nothing;

    impl KvSnapshot for Nothing {
        fn seek(&mut self, _: &[u8]) {}
        fn entry(&self) -> Option<(&[u8], &[u8])> {
            None
        }
        fn advance(&mut self) {}
        fn check(&self) -> mainstem_kv::Result<()> {
            Ok(())
        }
    }

    fn bucket(number: i32) -> TableBucket {
        TableBucket {
            table_id: TableId(1),
            partition_id: None,
            bucket_id: BucketId(number),
        }
    }

    fn scan(number: i32) -> Box<Scan> {
        Box::new(Scan {
            bucket: bucket(number),
            snapshot: Box::new(Nothing),
            next_call: 1,
            rows_left: None,
        })
    }

    fn sessions() -> ScanSessions {
        ScanSessions::new(ScanLimits {
            ttl_ms: 100,
            max_per_bucket: 2,
            max_per_server: 3,
            max_batch_bytes: 1,
        })
    }

    fn code<T>(result: Result<T, Refusal>) -> i32 {
        result.err().map_or(0, |refusal| refusal.code)
    }

    #[test]
    fn scans_are_bounded_per_bucket_and_per_server() {
        let sessions = sessions();
        let first = sessions.open(bucket(0)).unwrap();
        sessions.open(bucket(0)).unwrap();
        assert_eq!(code(sessions.open(bucket(0))), 69);
        sessions.open(bucket(1)).unwrap();
        assert_eq!(code(sessions.open(bucket(2))), 69);
        sessions.close(&first);
        sessions.open(bucket(2)).unwrap();
    }

    #[test]
    fn one_call_at_a_time_and_none_after_the_end() {
        let sessions = sessions();
        let id = sessions.open(bucket(0)).unwrap();
        assert_eq!(code(sessions.take(&id)), 68);
        sessions.put_back(&id, scan(0), 0);
        assert!(sessions.take(&id).is_ok());
        sessions.close(&id);
        sessions.put_back(&id, scan(0), 0);
        assert_eq!(code(sessions.take(&id)), 67);
        assert_eq!(code(sessions.take(b"short")), 67);
    }

    #[test]
    fn all_scans_of_a_bucket_end_at_once() {
        let sessions = sessions();
        let [idle, busy] = [0; 2].map(|_| sessions.open(bucket(0)).unwrap());
        let other = sessions.open(bucket(1)).unwrap();
        sessions.put_back(&idle, scan(0), 0);
        sessions.put_back(&other, scan(1), 0);
        sessions.close_bucket(&bucket(0));
        sessions.put_back(&busy, scan(0), 0);
        assert_eq!(code(sessions.take(&idle)), 67);
        assert_eq!(code(sessions.take(&busy)), 67);
        assert!(sessions.take(&other).is_ok());
    }

    #[test]
    fn an_idle_scan_expires_and_is_remembered_for_a_while() {
        let sessions = sessions();
        let id = sessions.open(bucket(0)).unwrap();
        sessions.put_back(&id, scan(0), 50);
        sessions.close_expired(150);
        assert!(sessions.take(&id).is_ok());
        sessions.put_back(&id, scan(0), 150);
        sessions.close_expired(251);
        assert_eq!(code(sessions.take(&id)), 66);
        sessions.close_expired(452);
        assert_eq!(code(sessions.take(&id)), 67);
    }
}
