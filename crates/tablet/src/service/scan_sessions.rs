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

/// The right to answer a call of a scan. The scan ends with it, unless it is put
/// back: a call that fails in whatever way keeps no place.
pub(super) struct Turn<'s> {
    sessions: &'s ScanSessions,
    id: ScanId,
}

impl Turn<'_> {
    /// Id of the scan, for the client.
    pub fn id(&self) -> &ScanId {
        &self.id
    }

    /// Puts the scan back until its next call, unless it was closed meanwhile.
    pub fn put_back(self, scan: Box<Scan>, now_ms: i64) {
        let unwanted = match self.sessions.state.lock().scans.get_mut(&self.id) {
            Some(slot) => {
                *slot = Slot::Idle(scan, now_ms);
                None
            }
            None => Some(scan),
        };
        drop(unwanted);
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.sessions.close(&self.id);
    }
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
    pub fn open(&self, bucket: TableBucket) -> Result<Turn<'_>, Refusal> {
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
        Ok(Turn { sessions: self, id })
    }

    /// Takes a scan out for its next call.
    ///
    /// # Errors
    /// 68 if another call is being answered, 66 if it has expired, 67 if there is
    /// none.
    pub fn take(&self, id: &[u8]) -> Result<(Turn<'_>, Box<Scan>), Refusal> {
        let unknown = || Refusal::new(67, "there is no such scan");
        let id = ScanId::try_from(id).map_err(|_| unknown())?;
        let mut state = self.state.lock();
        let Some(slot) = state.scans.get_mut(&id) else {
            return Err(match state.expired.contains_key(&id) {
                true => Refusal::new(66, "the scan has expired: begin it again"),
                false => unknown(),
            });
        };
        let busy = Slot::Busy(*slot.bucket());
        match std::mem::replace(slot, busy) {
            Slot::Idle(scan, _) => Ok((Turn { sessions: self, id }, scan)),
            Slot::Busy(_) => {
                let message = "another call of the scan is being answered";
                Err(Refusal::new(68, message))
            }
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
        let _second = sessions.open(bucket(0)).unwrap();
        assert_eq!(code(sessions.open(bucket(0))), 69);
        let _third = sessions.open(bucket(1)).unwrap();
        assert_eq!(code(sessions.open(bucket(2))), 69);
        sessions.close(first.id());
        assert!(sessions.open(bucket(2)).is_ok());
    }

    /// However it ends: its place would be gone for ever.
    #[test]
    fn a_call_that_puts_no_scan_back_ends_it() {
        let sessions = sessions();
        drop(sessions.open(bucket(0)).unwrap());
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = sessions.open(bucket(0)).unwrap();
            panic!("a call dies");
        }));
        assert!(died.is_err());
        assert_eq!(sessions.state.lock().of_bucket(&bucket(0)), 0);
    }

    #[test]
    fn one_call_at_a_time_and_none_after_the_end() {
        let sessions = sessions();
        let turn = sessions.open(bucket(0)).unwrap();
        let id = *turn.id();
        assert_eq!(code(sessions.take(&id)), 68);
        turn.put_back(scan(0), 0);
        let (turn, scan) = sessions.take(&id).unwrap();
        assert_eq!(code(sessions.take(&id)), 68);
        sessions.close(&id);
        turn.put_back(scan, 0);
        assert_eq!(code(sessions.take(&id)), 67);
        assert_eq!(code(sessions.take(b"short")), 67);
    }

    #[test]
    fn all_scans_of_a_bucket_end_at_once() {
        let sessions = sessions();
        let [idle, busy, other] = [0, 0, 1].map(|at| sessions.open(bucket(at)).unwrap());
        let ids = [*idle.id(), *busy.id(), *other.id()];
        idle.put_back(scan(0), 0);
        other.put_back(scan(1), 0);
        sessions.close_bucket(&bucket(0));
        busy.put_back(scan(0), 0);
        let codes = ids.map(|id| code(sessions.take(&id)));
        assert_eq!(codes, [67, 67, 0]);
    }

    #[test]
    fn an_idle_scan_expires_and_is_remembered_for_a_while() {
        let sessions = sessions();
        let turn = sessions.open(bucket(0)).unwrap();
        let id = *turn.id();
        turn.put_back(scan(0), 50);
        sessions.close_expired(150);
        let (turn, scan) = sessions.take(&id).unwrap();
        turn.put_back(scan, 150);
        sessions.close_expired(251);
        assert_eq!(code(sessions.take(&id)), 66);
        sessions.close_expired(452);
        assert_eq!(code(sessions.take(&id)), 67);
    }
}
