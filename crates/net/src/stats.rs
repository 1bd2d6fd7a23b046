//! Counts of a server, for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::admission::AdmissionControl;
use crate::frame_memory::FrameMemory;

/// What has happened since the start, and what is under way.
#[derive(Debug)]
pub struct ServerStats {
    pub(crate) memory: Arc<FrameMemory>,
    pub(crate) admission: Arc<AdmissionControl>,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

impl ServerStats {
    pub(crate) fn new(memory: Arc<FrameMemory>, admission: Arc<AdmissionControl>) -> Self {
        ServerStats {
            memory,
            admission,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            open: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    /// Requests without an answer now.
    pub fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    /// Memory of request frames now.
    pub fn request_memory_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// Memory of responses that wait to be sent now.
    pub fn response_memory_bytes(&self) -> u64 {
        self.admission.response_bytes()
    }

    /// Connections accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections closed at once because there were too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections open now.
    pub fn open_connections(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Requests received.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests answered with an ERROR frame.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Requests whose handling panicked: each is a bug.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Bytes read from connections.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Bytes written to connections.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }
}

pub(crate) fn count(counter: &AtomicU64, added: u64) {
    counter.fetch_add(added, Ordering::Relaxed);
}

/// One request that has been answered (cluster.md §8.6, group `request`).
#[derive(Clone, Debug)]
pub struct RequestOutcome {
    /// API key.
    pub api_key: i16,
    /// Length of the request's message.
    pub request_bytes: u64,
    /// Length of the response frame.
    pub response_bytes: u64,
    /// Code of the ERROR frame, if it was one.
    pub error_code: Option<i32>,
    /// From the arrival of the whole frame to the call.
    pub queue_time: Duration,
    /// From the call until the response was ready.
    pub process_time: Duration,
    /// From then until its last byte was handed to the kernel.
    pub send_time: Duration,
}

/// Is told about every answered request of a service. Runs on the runtime: it
/// must be quick.
pub trait RequestObserver: Send + Sync + 'static {
    /// A response has been sent.
    fn on_request(&self, outcome: &RequestOutcome);
}
