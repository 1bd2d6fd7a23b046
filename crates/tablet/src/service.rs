//! The data requests of a tablet server.
//!
//! One file per request; [`TabletService`] holds what they share.

mod fetch;
mod limit_scan;
mod list_offsets;
mod produce;
mod statistics;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::Clock;
use mainstem_net::{Reply, Response, Segment, Session};
use mainstem_protocol::{Required, Shaped, decode};
use mainstem_types::{BucketId, PartitionId, TableBucket, TableId};
use parking_lot::Mutex;
use prost::Message;

use crate::metrics::TabletMetrics;
use crate::reader_progress::ReaderProgress;
use crate::registry::Replicas;
use crate::replica::Replica;

/// API keys that this service answers, with version ranges (wire.md §2.1).
/// PRODUCE_LOG stays at 0: version 1 carries historical writes.
pub const APIS: [(i16, i16, i16); 5] = [
    (1014, 0, 0),
    (1015, 0, 0),
    (1021, 0, 0),
    (1033, 0, 0),
    (1059, 0, 0),
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
}

impl TabletService {
    /// A service over the replicas of this server.
    pub fn new(
        replicas: Arc<Replicas>,
        clock: Arc<dyn Clock>,
        metrics: Arc<TabletMetrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            replicas,
            clock,
            metrics,
            readers: Mutex::default(),
            projections: fetch::ProjectionCache::default(),
        })
    }

    /// Starts a request of one of the [`APIS`]. Does not block.
    pub fn call(self: &Arc<Self>, session: &Arc<Session>, api_key: i16, body: Bytes) -> Reply {
        match api_key {
            1014 => self.produce_log(body),
            1015 => self.fetch_log(session, body),
            1021 => self.list_offsets(body),
            1033 => self.limit_scan(body),
            1059 => self.table_stats(body),
            _ => Reply::Now(Refusal::new(2, format!("no API {api_key} here")).into()),
        }
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

/// A reply that may wait for the disk, off the threads that serve requests.
fn blocking(work: impl FnOnce() -> Response + Send + 'static) -> Reply {
    Reply::Later(Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|_| Refusal::new(-1, "the request failed inside").into())
    }))
}
