//! What the tablet server counts (cluster.md §8.6, "Tablet server").

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstem_metrics::{Exposition, Meter, MetricSource};
use mainstem_types::{TableId, TablePath};
use parking_lot::Mutex;

use crate::registry::Replicas;

/// Counters of one table on this server.
#[derive(Debug, Default)]
pub struct TableMetrics {
    messages_in: Meter,
    bytes_in: Meter,
    bytes_out: Meter,
    produce_requests: Meter,
    failed_produce_requests: Meter,
    fetch_requests: Meter,
    failed_fetch_requests: Meter,
    put_requests: Meter,
    failed_put_requests: Meter,
    lookup_requests: Meter,
    failed_lookup_requests: Meter,
    has_rows: AtomicBool,
}

/// Counters of the server.
pub struct TabletMetrics {
    replicas: Arc<Replicas>,
    tables: Mutex<HashMap<TableId, (TablePath, Arc<TableMetrics>)>>,
    server: TableMetrics,
}

impl TableMetrics {
    fn meters(&self) -> [&Meter; 11] {
        [
            &self.messages_in,
            &self.bytes_in,
            &self.bytes_out,
            &self.produce_requests,
            &self.failed_produce_requests,
            &self.fetch_requests,
            &self.failed_fetch_requests,
            &self.put_requests,
            &self.failed_put_requests,
            &self.lookup_requests,
            &self.failed_lookup_requests,
        ]
    }
}

impl TabletMetrics {
    /// Counters over the replicas of a server.
    pub fn new(replicas: Arc<Replicas>) -> Arc<Self> {
        Arc::new(Self {
            replicas,
            tables: Mutex::default(),
            server: TableMetrics::default(),
        })
    }

    /// The counters of a table; resolved once per replica or request, not per row.
    pub fn table(&self, table_id: TableId, path: &TablePath) -> Arc<TableMetrics> {
        let mut tables = self.tables.lock();
        let entry = tables
            .entry(table_id)
            .or_insert_with(|| (path.clone(), Arc::default()));
        entry.1.clone()
    }

    /// An append of records.
    pub fn produced(&self, table: &TableMetrics, records: u64, bytes: u64) {
        for meters in [table, &self.server] {
            meters.messages_in.mark(records);
            meters.bytes_in.mark(bytes);
            meters.produce_requests.mark(1);
        }
    }

    /// A refused append.
    pub fn produce_failed(&self, table: &TableMetrics) {
        for meters in [table, &self.server] {
            meters.produce_requests.mark(1);
            meters.failed_produce_requests.mark(1);
        }
    }

    /// A bucket read with this many bytes.
    pub fn fetched(&self, table: &TableMetrics, bytes: u64) {
        for meters in [table, &self.server] {
            meters.bytes_out.mark(bytes);
            meters.fetch_requests.mark(1);
        }
    }

    /// A refused read.
    pub fn fetch_failed(&self, table: &TableMetrics) {
        for meters in [table, &self.server] {
            meters.fetch_requests.mark(1);
            meters.failed_fetch_requests.mark(1);
        }
    }

    /// A put that appended so many records to the changelog.
    pub fn put(&self, table: &TableMetrics, records: u64, bytes: u64) {
        table.has_rows.store(true, Ordering::Relaxed);
        for meters in [table, &self.server] {
            meters.messages_in.mark(records);
            meters.bytes_in.mark(bytes);
            meters.put_requests.mark(1);
        }
    }

    /// A refused put.
    pub fn put_failed(&self, table: &TableMetrics) {
        table.put_requests.mark(1);
        table.failed_put_requests.mark(1);
    }

    /// Keys of a bucket that were looked up.
    pub fn looked_up(&self, table: &TableMetrics) {
        table.has_rows.store(true, Ordering::Relaxed);
        table.lookup_requests.mark(1);
    }

    /// A lookup that failed.
    pub fn lookup_failed(&self, table: &TableMetrics) {
        table.lookup_requests.mark(1);
        table.failed_lookup_requests.mark(1);
    }

    /// Moves all rate windows, and drops tables that are gone.
    pub fn tick(&self) {
        self.server.meters().into_iter().for_each(Meter::tick);
        let mut tables = self.tables.lock();
        tables.retain(|table_id, _| self.replicas.has_table(*table_id));
        for (_, metrics) in tables.values() {
            metrics.meters().into_iter().for_each(Meter::tick);
        }
    }
}

impl MetricSource for TabletMetrics {
    fn collect(&self, out: &mut Exposition) {
        let server_id = self.replicas.server_id().to_string();
        let base = [
            ("cluster_id", ""),
            ("server_id", &server_id),
            ("host", ""),
            ("rack", ""),
        ];
        let mut root = |name: &str, value: f64| {
            out.gauge(&format!("tabletserver_{name}"), &base, value);
        };
        let recent = self.replicas.recent_rows_bytes();
        root("recentRowsBytes", recent as f64);
        root("messagesInPerSecond", self.server.messages_in.rate());
        root("bytesInPerSecond", self.server.bytes_in.rate());
        root("bytesOutPerSecond", self.server.bytes_out.rate());
        let summary = self.replicas.summary();
        root("replicaCount", summary.replicas as f64);
        root("leaderCount", summary.leaders as f64);
        root("writerIdCount", summary.writers as f64);
        root("delayedWriteCount", summary.delayed_writes as f64);
        root("delayedFetchCount", summary.delayed_fetches as f64);
        root("underMinIsr", 0.0);
        root("underReplicated", 0.0);
        root("logicalStorage_logSize", summary.log_bytes as f64);
        root("physicalStorage_localSize", summary.log_bytes as f64);
        for (path, metrics) in self.tables.lock().values() {
            let mut labels = base.to_vec();
            labels.push(("database", &path.database));
            labels.push(("table", &path.table));
            let has_rows = metrics.has_rows.load(Ordering::Relaxed);
            if has_rows {
                labels.push(("tablet_type", "kv"));
                let mut gauge = |name: &str, meter: &Meter| {
                    out.gauge(&format!("tabletserver_table_{name}"), &labels, meter.rate());
                };
                gauge("totalPutKvRequestsPerSecond", &metrics.put_requests);
                gauge("failedPutKvRequestsPerSecond", &metrics.failed_put_requests);
                gauge("totalLookupRequestsPerSecond", &metrics.lookup_requests);
                gauge(
                    "failedLookupRequestsPerSecond",
                    &metrics.failed_lookup_requests,
                );
                labels.pop();
            }
            labels.push(("tablet_type", if has_rows { "cdc_log" } else { "log" }));
            let mut gauge = |name: &str, meter: &Meter| {
                out.gauge(&format!("tabletserver_table_{name}"), &labels, meter.rate());
            };
            gauge("messagesInPerSecond", &metrics.messages_in);
            gauge("bytesInPerSecond", &metrics.bytes_in);
            gauge("bytesOutPerSecond", &metrics.bytes_out);
            gauge(
                "totalProduceLogRequestsPerSecond",
                &metrics.produce_requests,
            );
            gauge(
                "failedProduceLogRequestsPerSecond",
                &metrics.failed_produce_requests,
            );
            gauge("totalFetchLogRequestsPerSecond", &metrics.fetch_requests);
            gauge(
                "failedFetchLogRequestsPerSecond",
                &metrics.failed_fetch_requests,
            );
        }
    }
}
