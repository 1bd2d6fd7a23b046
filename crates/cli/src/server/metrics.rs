//! Metrics of the process, its requests and the coordinator (cluster.md §8.6).

use std::sync::Arc;

use mainstem_meta::{BucketState, Catalog};
use mainstem_metrics::{Exposition, Histogram, Meter, MetricSource};
use mainstem_net::{RequestObserver, RequestOutcome, ServerStats};

/// Requests that are counted one by one, with the reference's names.
const REQUESTS: [(i16, &str); 3] = [
    (1014, "produceLog"),
    (1015, "fetchLogClient"),
    (1012, "metadata"),
];

#[derive(Debug, Default)]
struct RequestMetrics {
    requests: Meter,
    errors: Meter,
    bytes: Histogram,
    queue_ms: Histogram,
    process_ms: Histogram,
    send_ms: Histogram,
    total_ms: Histogram,
}

/// Counts requests by kind; told by the network layer.
#[derive(Debug, Default)]
pub struct RequestsByKind {
    kinds: [RequestMetrics; REQUESTS.len()],
}

impl RequestsByKind {
    /// Moves the rate windows.
    pub fn tick(&self) {
        for kind in &self.kinds {
            kind.requests.tick();
            kind.errors.tick();
        }
    }
}

impl RequestObserver for RequestsByKind {
    fn on_request(&self, outcome: &RequestOutcome) {
        let position = REQUESTS.iter().position(|(key, _)| *key == outcome.api_key);
        let Some(metrics) = position.and_then(|position| self.kinds.get(position)) else {
            return;
        };
        let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
        metrics.requests.mark(1);
        metrics.errors.mark(u64::from(outcome.error_code.is_some()));
        metrics.bytes.observe(outcome.request_bytes as f64);
        metrics.queue_ms.observe(millis(outcome.queue_time));
        metrics.process_ms.observe(millis(outcome.process_time));
        metrics.send_ms.observe(millis(outcome.send_time));
        let total = outcome.queue_time + outcome.process_time + outcome.send_time;
        metrics.total_ms.observe(millis(total));
    }
}

impl MetricSource for RequestsByKind {
    fn collect(&self, out: &mut Exposition) {
        for ((_, name), metrics) in REQUESTS.iter().zip(&self.kinds) {
            let labels = [("server_id", "0"), ("request", *name)];
            let full = |metric: &str| format!("tabletserver_request_{metric}");
            out.gauge(&full("requestsPerSecond"), &labels, metrics.requests.rate());
            out.gauge(&full("errorsPerSecond"), &labels, metrics.errors.rate());
            for (metric, histogram) in [
                ("requestBytes", &metrics.bytes),
                ("requestQueueTimeMs", &metrics.queue_ms),
                ("requestProcessTimeMs", &metrics.process_ms),
                ("responseSendTimeMs", &metrics.send_ms),
                ("totalTimeMs", &metrics.total_ms),
            ] {
                let (count, sorted) = histogram.snapshot();
                out.summary(&full(metric), &labels, count, &sorted);
            }
        }
    }
}

/// What the coordinator knows, and what the process uses.
pub struct ServerMetrics {
    catalog: Arc<Catalog>,
    connections: Arc<ServerStats>,
}

impl ServerMetrics {
    /// Metrics of this process.
    pub fn new(catalog: Arc<Catalog>, connections: Arc<ServerStats>) -> Self {
        Self {
            catalog,
            connections,
        }
    }
}

impl MetricSource for ServerMetrics {
    fn collect(&self, out: &mut Exposition) {
        let tables = self.catalog.tables();
        let partitions = self.catalog.partitions();
        let of_tables = tables.iter().flat_map(|table| &table.buckets);
        let of_partitions = partitions.iter().flat_map(|partition| &partition.buckets);
        let buckets: Vec<&BucketState> = of_tables.chain(of_partitions).collect();
        let offline = buckets
            .iter()
            .filter(|bucket| bucket.leader.is_none())
            .count();
        let labels = [("server_id", "0")];
        let mut coordinator = |name: &str, value: usize| {
            out.gauge(&format!("coordinator_{name}"), &labels, value as f64);
        };
        coordinator("activeCoordinatorCount", 1);
        coordinator("aliveCoordinatorCount", 1);
        coordinator("activeTabletServerCount", 1);
        coordinator("tableCount", tables.len());
        coordinator("partitionCount", partitions.len());
        coordinator("bucketCount", buckets.len());
        coordinator("offlineBucketCount", offline);

        let used =
            self.connections.request_memory_bytes() + self.connections.response_memory_bytes();
        out.gauge("tabletserver_netty_usedDirectMemory", &labels, used as f64);
        out.gauge(
            "tabletserver_status_JVM_CPU_time",
            &labels,
            cpu_seconds() * 1e9,
        );
        out.gauge(
            "tabletserver_status_JVM_memory_heap_used",
            &labels,
            resident_bytes() as f64,
        );
        out.gauge(
            "tabletserver_request_requestQueueSize",
            &labels,
            self.connections.in_flight() as f64,
        );
    }
}

/// Seconds of CPU that the process has used.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Resident memory; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|p| p.parse().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
