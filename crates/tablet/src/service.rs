//! The data requests of a tablet server.
//!
//! One file per request; [`TabletService`] holds what they share.

mod fetch;
mod limit_scan;
mod list_offsets;
mod lookup;
mod lookup_or_insert;
mod prefix_lookup;
mod produce;
mod put_kv;
mod scan_kv;
mod scan_sessions;
mod statistics;
mod write;

pub use scan_sessions::ScanLimits;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::Clock;
use mainstem_net::{Reply, Request, Response, Segment, Session};
use mainstem_protocol::{Required, Shaped, decode};
use mainstem_types::{BucketId, PartitionId, TableBucket, TableId};
use parking_lot::Mutex;
use prost::Message;

use crate::metrics::TabletMetrics;
use crate::reader_progress::ReaderProgress;
use crate::registry::Replicas;
use crate::replica::Replica;
use scan_sessions::ScanSessions;

/// API keys that this service answers, with version ranges (wire.md §2.1).
/// PRODUCE_LOG stays at 0 and PUT_KV at 2: the next versions carry historical
/// writes.
pub const APIS: [(i16, i16, i16); 9] = [
    (1014, 0, 0),
    (1015, 0, 0),
    (1016, 0, 2),
    (1017, 0, 1),
    (1021, 0, 0),
    (1033, 0, 0),
    (1034, 0, 1),
    (1059, 0, 0),
    (1061, 0, 0),
];

/// A code of wire.md §5.1 with a text, for one bucket or a whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Code, never 0.
    pub code: i32,
    /// Text for the user.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self::Error {
            code: refusal.code,
            message: refusal.message,
        }
    }
}

/// Answers the data requests.
pub struct TabletService {
    replicas: Arc<Replicas>,
    clock: Arc<dyn Clock>,
    metrics: Arc<TabletMetrics>,
    readers: Mutex<HashMap<u64, Arc<Mutex<ReaderProgress>>>>,
    projections: fetch::ProjectionCache,
    scans: Arc<ScanSessions>,
}

impl TabletService {
    /// A service over the replicas of this server.
    pub fn new(
        replicas: Arc<Replicas>,
        clock: Arc<dyn Clock>,
        metrics: Arc<TabletMetrics>,
        scan_limits: ScanLimits,
    ) -> Arc<Self> {
        let scans = Arc::new(ScanSessions::new(scan_limits));
        let closed = scans.clone();
        replicas.set_scan_closer(Box::new(move |bucket| closed.close_bucket(bucket)));
        Arc::new(Self {
            replicas,
            clock,
            metrics,
            readers: Mutex::default(),
            projections: fetch::ProjectionCache::default(),
            scans,
        })
    }

    /// Starts a request of one of the [`APIS`]. Does not block.
    pub fn call(self: &Arc<Self>, session: &Arc<Session>, request: Request) -> Reply {
        let Request {
            api_key,
            api_version,
            body,
        } = request;
        match api_key {
            1014 => self.produce_log(body),
            1015 => self.fetch_log(session, body),
            1016 => self.put_kv(api_version, body),
            1017 => self.lookup(api_version, body),
            1021 => self.list_offsets(body),
            1033 => self.limit_scan(body),
            1034 => self.prefix_lookup(api_version, body),
            1059 => self.table_stats(body),
            1061 => self.scan_kv(body),
            _ => Reply::Now(Refusal::new(2, format!("no API {api_key} here")).into()),
        }
    }

    /// Closes scans that nobody has continued for too long. To be called now and
    /// then.
    pub fn close_expired_scans(&self) {
        self.scans.close_expired(self.clock.now_ms());
    }

    /// Forgets what is known about a connection.
    pub fn closed(&self, session: &Session) {
        self.readers.lock().remove(&session.id);
    }

    fn reader(&self, session: &Session) -> Arc<Mutex<ReaderProgress>> {
        self.readers.lock().entry(session.id).or_default().clone()
    }

    /// The replica of a client's bucket, after the routing check of wire.md §6.4.
    fn replica(
        &self,
        bucket: &TableBucket,
        routing_bucket_count: Option<i32>,
    ) -> Result<Arc<Replica>, Refusal> {
        let replica = self.known(bucket)?;
        replica.check_routing(routing_bucket_count)?;
        Ok(replica)
    }

    /// The replica of a bucket.
    fn known(&self, bucket: &TableBucket) -> Result<Arc<Replica>, Refusal> {
        match self.replicas.get(bucket) {
            Some(replica) => Ok(replica),
            // Clients repeat what gets this.
            None if self.replicas.is_unopened(bucket) => {
                let message = format!("the log of {bucket} cannot be opened at the moment");
                Err(Refusal::new(10, message))
            }
            None => {
                let message = format!("table bucket {bucket} is not known on this server");
                Err(Refusal::new(21, message))
            }
        }
    }
}

fn table_bucket(table_id: i64, partition_id: Option<i64>, bucket_id: i32) -> TableBucket {
    TableBucket {
        table_id: TableId(table_id),
        partition_id: partition_id.map(PartitionId),
        bucket_id: BucketId(bucket_id),
    }
}

/// Decodes a request or says which field is missing (wire.md §1.5: a code that
/// clients do not retry).
fn request<M: Message + Default + Required + Shaped>(body: Bytes) -> Result<M, Refusal> {
    decode(body).map_err(|error| Refusal::new(2, error.to_string()))
}

fn success(message: &impl Message) -> Response {
    Response::Success(vec![Segment::Bytes(message.encode_to_vec().into())])
}

/// Refuses a client that encodes keys as tables of before do (wire.md §2.2).
fn check_key_version(replica: &Replica, api_version: i16) -> Result<(), Refusal> {
    if api_version == 0 && replica.table().needs_compacted_keys {
        let message = "the keys of this table need a newer client: version 1 of the API";
        return Err(Refusal::new(2, message));
    }
    Ok(())
}

/// Refuses what is meant for a partition that has expired.
fn check_not_historical(original_partition_name: Option<&str>) -> Result<(), Refusal> {
    match original_partition_name {
        None => Ok(()),
        Some(name) => Err(Refusal::new(
            43,
            format!("`{name}` is named for a bucket that is not of the historical partition"),
        )),
    }
}

/// Work that takes its time, or waits for the disk, but keeps the order of the
/// connection's requests: other tasks of this thread go on elsewhere meanwhile.
fn off_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// A reply that may wait for the disk, off the threads that serve requests.
fn blocking(work: impl FnOnce() -> Response + Send + 'static) -> Reply {
    Reply::Later(Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|_| Refusal::new(-1, "the request failed inside").into())
    }))
}
